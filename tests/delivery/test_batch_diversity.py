"""Batched queues that diversify select what the step functions select, to the last bit."""

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batched_queues import batches, gathered, rows_of, stepped, ticks
from rankcast.delivery.engine.contents import NO_CONTENTS, Contents, attribute_code
from rankcast.delivery.engine.diversity import NO_SETTINGS, DiversitySettings
from rankcast.delivery.engine.layout import COUNT, LINE, TOP
from rankcast.delivery.engine.queue_table import QueueTable
from rankcast.model.errors import InvalidEventError, InvalidValueError
from rankcast.model.policies import AllMatches, Continuous, Diversity, Periodic, Sliding, TopKWindow
from rankcast.model.times import LAST_INSTANT, NEVER

WEIGHTS = st.dictionaries(st.sampled_from(("a", "b", "source", "absent")), st.sampled_from((0.1, 0.2, 0.7, 3)))
DIVERSITIES = st.builds(Diversity, st.sampled_from((0.0, 0.3, 0.5, 1.0)), WEIGHTS)
POLICIES = st.one_of(
    st.builds(Periodic, st.integers(0, 4), st.integers(1, 9).map(ticks), DIVERSITIES),
    st.builds(Sliding, st.integers(0, 4), st.integers(1, 9), DIVERSITIES),
    st.builds(TopKWindow, st.integers(0, 4), st.integers(1, 9) | st.integers(1, 9).map(ticks), DIVERSITIES),
    st.sampled_from((AllMatches(), Continuous(2), Sliding(2, 5), Periodic(2, ticks(3)))),
)
RANKS = st.sampled_from((-0.0, 0.0, 0.1, 1 / 3, 0.5, 1.0))
EVENTS = st.dictionaries(st.sampled_from(("a", "b", "c", "source")), st.sampled_from((0, 1, True, "1")))


@st.composite
def runs(draw):
    """Policies, rows in the order of their times, the attributes of each event, and how many rows each batch has."""
    policies = draw(st.lists(POLICIES, min_size=1, max_size=5))
    each = st.tuples(
        st.integers(0, len(policies) - 1), st.integers(0, 3), st.none() | st.integers(-1, 12), RANKS, EVENTS
    )
    steps = draw(st.lists(each, max_size=60))
    numbers = draw(st.permutations(range(5, 5 + len(steps))))
    time, stream, attributes = -20, [], {}
    for event, (queue, wait, lifetime, rank, content) in zip(numbers, steps, strict=True):
        time += wait
        stream.append((queue, event, time, NEVER if lifetime is None else time + lifetime, rank))
        attributes[event] = content
    return policies, stream, attributes, draw(st.lists(st.integers(1, 20), min_size=len(steps), max_size=len(steps)))


@given(runs())
def test_batches_deliver_what_the_steps_deliver(run):
    policies, stream, attributes, sizes = run
    queues, contents = QueueTable.of(policies), Contents.of(attributes)
    parts = [queues.take(rows_of(part), contents) for part in batches(stream, sizes)]
    assert gathered(len(policies), [*parts, queues.finish(contents)]) == stepped(policies, stream, attributes)


@given(runs())
def test_packed_queues_go_on_with_the_contents_of_what_they_hold(run):
    """Contents of events that no queue holds any more are left out, so numbers have gaps."""
    policies, stream, attributes, _ = run
    queues, parts, held = QueueTable.of(policies), [], set()
    for at, row in enumerate(stream):
        held = held_events(queues) | {row[1]}
        contents = Contents.of({event: attributes[event] for event in held})
        parts += [queues.advance(row[2], contents), queues.take(rows_of([row]), contents)]
        queues = QueueTable.from_bytes(queues.to_bytes()) if at % 2 else QueueTable.from_arrays(queues.to_arrays())
    parts.append(queues.finish(Contents.of({event: attributes[event] for event in held_events(queues)})))
    assert gathered(len(policies), parts) == stepped(policies, stream, attributes)


def test_a_place_that_a_dropped_event_keeps_is_no_event_that_is_held():
    queues = QueueTable.of([Sliding(1, 4)])
    queues.take(rows_of([(0, 0, 1, NEVER, 1.0), (0, 1, 2, 9, 0.25), (0, 2, 3, NEVER, 0.5)]))
    queues.drop_unneeded()
    assert queues.arrays[0][0, COUNT] == 3
    assert queues.words_of(0).tolist() == [0, 2]


def held_events(queues):
    """The numbers of the events that queues hold."""
    return {event for number in range(len(queues)) for event in queues.words_of(number).tolist()}


@pytest.mark.parametrize("expiring", [False, True])
@pytest.mark.parametrize("weights", [{}, {"a": 0.1, "b": 0.7, "c": 0.2}], ids=["all attributes", "weights"])
@pytest.mark.parametrize(
    "policy",
    [
        lambda diversity: Periodic(20, ticks(200), diversity),
        lambda diversity: Sliding(3, 40, diversity),
        lambda diversity: TopKWindow(5, 40, diversity),
        lambda diversity: TopKWindow(5, ticks(100), diversity),
    ],
    ids=["periodic", "sliding", "count window", "time window"],
)
def test_long_streams_that_outgrow_every_first_room(policy, weights, expiring):
    generator = np.random.default_rng(5)
    count, rows = 3, 500
    policies = [policy(Diversity(0.4, weights))] * count
    times = np.cumsum(generator.integers(0, 3, rows))
    lives = generator.integers(0, 60, rows)
    stream = [
        (int(queue), event, int(time), int(time + life) if expiring else NEVER, float(rank) / 50)
        for event, (queue, time, life, rank) in enumerate(
            zip(generator.integers(0, count, rows), times, lives, generator.integers(0, 50, rows), strict=True)
        )
    ]
    attributes = {
        event: dict(zip("abc", row, strict=True))
        for event, row in enumerate(generator.integers(0, 4, (rows, 3)).tolist())
    }
    queues, contents = QueueTable.of(policies), Contents.of(attributes)
    parts = [queues.take(rows_of(part), contents) for part in batches(stream, [1, 2, 100, 5, 392])]
    assert gathered(count, [*parts, queues.finish(contents)]) == stepped(policies, stream, attributes)


def test_an_arrival_that_changes_nothing_leaves_the_selection_as_it_is():
    queues = QueueTable.of([Sliding(2, 9, Diversity(0.5, {"a": 1}))])
    contents = Contents.of({0: {"a": 1}, 1: {"a": 2}, 2: {"a": 1}, 3: {"a": 3}})
    queues.take(rows_of([(0, 0, 0, NEVER, 0.9), (0, 1, 1, NEVER, 0.8)]), contents)
    assert queues.arrays[0][0, TOP] == 2
    assert len(queues.take(rows_of([(0, 2, 2, NEVER, 0.7)]), contents).event) == 0
    assert queues.arrays[0][0, (COUNT, TOP)].tolist() == [3, 2]
    assert queues.take(rows_of([(0, 3, 3, NEVER, 0.85)]), contents).event.tolist() == [3]


def test_a_full_queue_packs_into_some_kilobytes_besides_contents():
    queues = QueueTable.of([Sliding(10, 100, Diversity(weights={"a": 1}))])
    contents = Contents.of({event: {"a": event % 5} for event in range(250)})
    queues.take(rows_of([(0, event, event, NEVER, event % 7 / 7) for event in range(250)]), contents)
    assert queues.to_arrays()["queues"][0, COUNT] == 100
    assert len(queues.to_bytes()) <= 4_400


class TestRefused:
    POLICY = TopKWindow(1, ticks(9), Diversity(0.5, {"a": 1}))

    def refused(self, queues, call, message):
        before = queues.to_bytes()
        with pytest.raises(InvalidEventError, match=message):
            call()
        assert queues.to_bytes() == before

    def test_a_score_that_is_no_rank(self):
        queues = QueueTable.of([Sliding(1, 2), self.POLICY])
        rows = rows_of([(0, 1, 1, NEVER, 1.5), (1, 1, 1, NEVER, 1.5)])
        self.refused(
            queues,
            lambda: queues.take(rows, Contents.of({1: {}})),
            r"row 1: score 1.5 of queue 1, which diversifies; expected 0 to 1",
        )

    def test_a_row_without_content(self):
        queues = QueueTable.of([self.POLICY])
        rows = rows_of([(0, 7, 1, NEVER, 0.5)])
        for contents in (None, NO_CONTENTS, Contents.of({6: {}, 8: {}})):
            self.refused(
                queues,
                lambda contents=contents: queues.take(rows, contents),
                "row 0: queue 0: the content of event 7 is not given; expected that of each row and of each event held",
            )

    def test_a_held_event_without_content(self):
        queues = QueueTable.of([self.POLICY, self.POLICY])
        queues.take(rows_of([(1, 7, 1, NEVER, 0.5)]), Contents.of({7: {}}))
        rows = rows_of([(1, 8, 2, NEVER, 0.5)])
        self.refused(queues, lambda: queues.take(rows, Contents.of({8: {}})), "row 0: queue 1: the content of event 7")
        self.refused(queues, lambda: queues.advance(2), "queue 1: the content of event 7")
        self.refused(queues, queues.finish, "queue 1: the content of event 7")

    def test_time_may_pass_without_contents_where_nothing_is_selected(self):
        queues = QueueTable.of([self.POLICY, Periodic(1, ticks(10), Diversity())])
        contents = Contents.of({7: {}})
        queues.take(rows_of([(0, 7, 1, NEVER, 0.5), (1, 7, 1, NEVER, 0.5)]), contents)
        queues.advance(2, contents)
        assert len(queues.advance(9).event) == 0
        with pytest.raises(InvalidEventError, match="queue 1"):
            queues.advance(10)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"numbers": np.array([3, 3])}, "do not ascend"),
            ({"numbers": np.array([3.0, 4.0])}, "numbers is a column of float64; expected int64"),
            ({"starts": np.array([0, 1])}, "2 numbers, 2 starts"),
            ({"values": np.array([1])}, "1 values"),
            ({"starts": np.array([0, 2, 1])}, "starts do not ascend"),
            ({"starts": np.array([0, 1, 3])}, "starts do not ascend"),
            ({"starts": np.array([-1, 1, 2])}, "starts do not ascend"),
        ],
    )
    def test_contents_that_contradict_themselves(self, change, message):
        contents = Contents.of({3: {"a": 1}, 4: {"a": 2}})._replace(**change)
        queues = QueueTable.of([self.POLICY])
        with pytest.raises(InvalidEventError, match=f"contents: .*{message}"):
            queues.take(rows_of([(0, 3, 1, NEVER, 0.5)]), contents)


class TestPacked:
    POLICIES = (
        Sliding(2, 5, Diversity(0.5, {"a": 1})),
        TopKWindow(1, ticks(9), Diversity()),
        Periodic(2, ticks(100), Diversity()),
    )
    CONTENTS = Contents.of({event: {"a": event % 3} for event in range(10)})

    def packed(self):
        queues = QueueTable.of(self.POLICIES)
        rows = [(queue, event, event, NEVER, event / 8) for queue in range(3) for event in range(8)]
        queues.take(rows_of(rows), self.CONTENTS)
        return queues.to_arrays()

    @given(st.integers(0, 2), st.integers(0, LINE - 1), st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 8))
    def test_no_number_in_a_line_leads_a_kernel_astray(self, queue, word, value):
        """Such state is refused, or it can be worked with; nothing is read or written outside the arrays."""
        changed = self.packed()
        changed["queues"][queue, word] = value
        with suppress(InvalidValueError, InvalidEventError):
            queues = QueueTable.from_arrays(changed)
            last = int(queues.clocks.max())
            if 0 <= last < LAST_INSTANT:
                queues.take(rows_of([(queue, 9, last + 1, NEVER, 0.9) for queue in range(3)]), self.CONTENTS)
            assert len(queues.finish(self.CONTENTS).queue) <= 9 * 3

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            ([-1], "cut short"),
            ([2, 0, 0], "cut short"),
            ([1, 0, -1], "contradict"),
            ([1, 0, 2, 5, 5], "contradict"),
            ([1, 2**62, 0], "numbers that none has"),
            ([1, 0, 1, 5, 0], "numbers that none has"),
        ],
    )
    def test_settings_that_are_none(self, words, message):
        with pytest.raises(InvalidValueError, match=f"queue table: the settings of diversity .*{message}"):
            QueueTable.from_arrays({**self.packed(), "settings": np.array(words)})

    def test_a_setting_that_is_not_there(self):
        with pytest.raises(InvalidValueError, match="array queues, column 12: 1 at 0; expected 0 to 0"):
            QueueTable.from_arrays({**self.packed(), "settings": np.zeros(0, np.int64)})


class TestSettings:
    ONE, OTHER = Diversity(0.5, {"b": 0.2, "a": 0.1}), Diversity(0.25)

    def test_each_diversity_has_one_number(self):
        settings, numbers = NO_SETTINGS.including([self.ONE, self.OTHER, self.ONE])
        assert numbers == {self.ONE: 1, self.OTHER: 2}
        assert settings.sigmas.tolist() == [0.5, 0.25]
        assert settings.attributes.tolist() == [attribute_code("a"), attribute_code("b")]

    def test_numbers_stay_when_others_are_included_later(self):
        settings, _ = NO_SETTINGS.including([self.OTHER])
        again, numbers = DiversitySettings.from_words(settings.to_words()).including([self.ONE, self.OTHER])
        assert numbers == {self.OTHER: 1, self.ONE: 2}
        assert again.starts.tolist() == [0, 0, 2]

    @given(st.lists(DIVERSITIES, max_size=4))
    def test_words_give_the_same_settings(self, diversities):
        settings = DiversitySettings.of(diversities)
        again = DiversitySettings.from_words(settings.to_words())
        assert [column.tolist() for column in again] == [column.tolist() for column in settings]
