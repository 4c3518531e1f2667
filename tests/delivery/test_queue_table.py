"""A queue table does what the step functions do, however the rows are divided and wherever state is packed.

With diversity, too, to the last bit.
"""

from datetime import datetime, timedelta
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batched_queues import batches, gathered, instant, rows_of, stepped, ticks
from rankcast.delivery.engine.contents import (
    NO_CONTENTS,
    NO_SETTINGS,
    Contents,
    DiversitySettings,
    WantedContent,
    attribute_code,
)
from rankcast.delivery.engine.layout import GONE, HELD, LINE
from rankcast.delivery.engine.queue_table import ArrivalRows, QueueTable
from rankcast.delivery.rules.policies import new_queue
from rankcast.delivery.rules.queues import Candidate, step
from rankcast.model.errors import InvalidEventError, InvalidValueError
from rankcast.model.events import Identity
from rankcast.model.policies import (
    AllMatches,
    Bounded,
    Continuous,
    Diversity,
    Periodic,
    Policy,
    Sliding,
    TieRule,
    TopKWindow,
)
from rankcast.model.times import LAST_INSTANT, NEVER, microseconds
from rankcast.testing.strategies import bounded_windows, calendars

WEIGHTS = st.dictionaries(st.sampled_from(("a", "b", "source", "absent")), st.sampled_from((0.1, 0.2, 0.7, 3)))
DIVERSITIES = st.builds(Diversity, st.sampled_from((0.0, 0.3, 0.5, 1.0)), WEIGHTS)
PERIODS = st.integers(1, 9).map(ticks) | calendars()
PACES = st.sampled_from((1, 7 * 3_600_000_000))
WINDOWS = st.integers(1, 9) | st.integers(1, 60)
TIES = st.sampled_from(TieRule)
PLAIN = st.one_of(
    st.just(AllMatches()),
    st.builds(Continuous, st.integers(0, 4), ties=TIES),
    st.builds(Periodic, st.integers(0, 4), PERIODS, ties=TIES),
    st.builds(Sliding, st.integers(0, 4), WINDOWS, ties=TIES),
    st.builds(TopKWindow, st.integers(0, 4), WINDOWS | WINDOWS.map(ticks), ties=TIES),
    bounded_windows(st.integers(0, 4), WINDOWS),
)
SPANS = st.integers(1, 9).map(ticks)
DIVERSE = st.one_of(
    st.builds(Periodic, st.integers(0, 4), PERIODS, DIVERSITIES, ties=TIES),
    st.builds(Sliding, st.integers(0, 4), st.integers(1, 9), DIVERSITIES, ties=TIES),
    st.builds(TopKWindow, st.integers(0, 4), st.integers(1, 9) | st.integers(1, 9).map(ticks), DIVERSITIES, ties=TIES),
    st.sampled_from((AllMatches(), Continuous(2), Sliding(2, 5, ties="keep"), Periodic(2, ticks(3)))),
)
SCORES = st.sampled_from([-np.inf, -2.5, -1.0, -0.0, 0.0, 1e-300, 0.5, 1.0, np.inf])
RANKS = st.sampled_from((-0.0, 0.0, 0.1, 1 / 3, 0.5, 1.0))
EVENTS = st.dictionaries(st.sampled_from(("a", "b", "c", "source")), st.sampled_from((0, 1, True, "1")))


class Run(NamedTuple):
    """Policies, rows (queue, event, time, expires, score) in time order with ties, and how many each batch has."""

    policies: list[Policy]
    stream: list[tuple[int, int, int, int, float]]
    attributes: dict[int, dict[str, object]]
    sizes: list[int]

    @property
    def contents(self):
        return Contents.of(self.attributes)

    def contents_of(self, events):
        return Contents.of({event: self.attributes[event] for event in events})

    @property
    def batches(self):
        return [rows_of(part) for part in batches(self.stream, self.sizes)]

    @property
    def expected(self):
        return stepped(self.policies, self.stream, self.attributes)


@st.composite
def runs_of(draw, policies, scores):
    chosen = draw(st.lists(policies, min_size=1, max_size=5))
    each = st.tuples(
        st.integers(0, len(chosen) - 1), st.integers(0, 3), st.none() | st.integers(-1, 12), scores, EVENTS
    )
    steps = draw(st.lists(each, max_size=60))
    numbers = draw(st.permutations(range(5, 5 + len(steps))))
    time, stream, attributes, pace = -20, [], {}, draw(PACES)  # a tick, or hours, for calendars
    for event, (queue, wait, lifetime, score, content) in zip(numbers, steps, strict=True):
        time += wait * pace
        stream.append((queue, event, time, NEVER if lifetime is None else time + lifetime * pace, score))
        attributes[event] = content
    return Run(chosen, stream, attributes, draw(st.lists(st.integers(1, 20), min_size=len(steps), max_size=len(steps))))


def runs():
    return runs_of(PLAIN, SCORES) | runs_of(DIVERSE, RANKS)


@given(runs())
def test_batches_deliver_what_the_steps_deliver_with_the_scores_of_their_rows(run):
    queues, contents = QueueTable.of(run.policies), run.contents
    parts = [*(queues.take(part, contents) for part in run.batches), queues.finish(contents)]
    assert gathered(len(run.policies), parts) == run.expected
    scores = {event: score for _, event, _, _, score in run.stream}
    for part in parts:
        assert part.score.tolist() == [scores[event] for event in part.event.tolist()]


@given(runs())
def test_packed_queues_go_on_as_if_nothing_happened_with_the_contents_of_what_they_hold(run):
    """Contents of events that no queue holds any more are left out, so numbers have gaps."""
    queues, parts = QueueTable.of(run.policies), []
    for at, row in enumerate(run.stream):
        contents = run.contents_of({*queues.words().tolist(), row[1]})
        parts += [queues.advance(row[2], contents)] if at % 3 else []
        parts.append(queues.take(rows_of([row]), contents))
        queues = QueueTable.from_bytes(queues.to_bytes()) if at % 2 else QueueTable.from_arrays(queues.to_arrays())
    parts.append(queues.finish(run.contents_of(set(queues.words().tolist()))))
    assert gathered(len(run.policies), parts) == run.expected


def held_by(queue):
    """What a queue holds and knows, whatever its events are called and counted from."""
    entered = getattr(queue, "entered", 0)
    names = {
        one.identity: f"{one.identity:06}" if isinstance(one.identity, int) else one.identity.id for one in queue.held
    }
    held = {
        (names[one.identity], one.time, one.score, one.expires, entered - one.arrival if entered else 0)
        for one in queue.held
    }
    delivered = {names[name] for name in getattr(queue, "delivered", ()) if name in names}
    places = [(entered - number, end) for number, end in getattr(queue, "places", ())]
    return held, delivered, places, getattr(queue, "unseen", None), getattr(queue, "end", None)


@given(runs())
def test_batches_hold_what_the_steps_hold(run):
    queues, expected = QueueTable.of(run.policies), [new_queue(policy) for policy in run.policies]
    for row in run.stream:
        queues.take(rows_of([row]), run.contents)
        number, event, time, expires, score = row
        content = WantedContent.of([run.policies[number]]).of_event(run.attributes[event])
        arriving = Candidate(Identity("s", f"{event:06}"), instant(time), score, instant(expires), content)
        expected[number], _ = step(expected[number], arriving, arriving.time, closed=False)
    for number, policy in enumerate(run.policies):
        assert held_by(queues.get(number, policy)) == held_by(expected[number])


@given(
    runs_of(PLAIN, SCORES),
    st.lists(st.tuples(st.integers(-3, 3), st.booleans(), st.booleans()), min_size=60, max_size=60),
)
def test_single_events_are_served_as_the_steps_say(run, ways):
    """Each event arrives at its own instant, which is not its time, in several queues, and closes it or not."""
    policies, stream, *_ = run
    queues, expected, found, wanted = QueueTable.of(policies), [new_queue(policy) for policy in policies], [], []
    queues.serve()
    for (_, event, now, expires, score), (shift, closed, everywhere) in zip(stream, ways, strict=False):
        chosen = list(range(len(policies))) if everywhere else [event % len(policies)]
        bits = int(np.float64(score).view(np.int64))
        rows = np.array([(number, event, expires, bits) for number in chosen], np.int64).T.copy()
        part = queues.arrive(rows, len(chosen), now + shift, now, int(closed))
        found += zip(*part[:3], strict=True)
        for number in range(len(policies)):
            arriving = Candidate(Identity("s", f"{event:06}"), instant(now + shift), score, instant(expires))
            arriving = arriving if number in chosen else None
            expected[number], more = step(expected[number], arriving, instant(now), closed=closed)
            wanted += ((number, int(one.candidate.identity.id), microseconds(one.time)) for one in more)
        assert sorted(found) == sorted(wanted)
        due = [microseconds(one.next_instant) for one in expected if one.next_instant is not None]
        assert queues.next_due is None or queues.next_due <= min(due, default=NEVER)
        if event % 3 == 0:
            queues.put(event % len(policies), queues.get(event % len(policies)), policies[event % len(policies)])
    for number, policy in enumerate(policies):
        assert held_by(queues.get(number, policy)) == held_by(expected[number])


@given(runs(), st.lists(st.integers(0, 5), min_size=60, max_size=60))
def test_letting_time_pass_in_between_only_brings_forward_what_is_due(run, waits):
    queues, parts, contents = QueueTable.of(run.policies), [], run.contents
    for part, wait in zip(run.batches, waits, strict=False):
        if len(part.time):
            parts.append(queues.advance(max(part.time.min() - wait, queues.clocks.min()), contents))
        parts.append(queues.take(part, contents))
        if len(part.time):
            parts.append(queues.advance(part.time.max(), contents))
    assert gathered(len(run.policies), [*parts, queues.finish(contents)]) == run.expected


WEIGHTED, UNWEIGHTED = Diversity(0.4, {"a": 0.1, "b": 0.7, "c": 0.2}), Diversity(0.4)


@pytest.mark.parametrize("expiring", [False, True])
@pytest.mark.parametrize(
    "policy",
    [
        Continuous(3),
        Continuous(3, ties="keep"),
        Periodic(20, ticks(50)),
        Sliding(3, 40),
        TopKWindow(3, 40),
        TopKWindow(3, 40, queue=Bounded(0.2)),
        TopKWindow(40, 100, queue=Bounded()),
        TopKWindow(20, ticks(100)),
        TopKWindow(10**9, timedelta.max),
        *(
            policy
            for diversity in (WEIGHTED, UNWEIGHTED)
            for policy in (
                Periodic(20, ticks(200), diversity),
                Sliding(3, 40, diversity),
                TopKWindow(5, 40, diversity),
                TopKWindow(5, ticks(100), diversity),
            )
        ),
    ],
    ids=str,
)
def test_long_streams_that_outgrow_every_first_room(policy, expiring):
    generator = np.random.default_rng(5)
    count, rows = 5, 700
    times = np.cumsum(generator.integers(0, 3, rows))
    queues, lives, scores = (generator.integers(0, most, rows) for most in (count, 60, 50))
    stream = [
        (int(queue), event, int(time), int(time + life) if expiring else NEVER, float(score) / 50)
        for event, (queue, time, life, score) in enumerate(zip(queues, times, lives, scores, strict=True))
    ]
    contents = [dict(zip("abc", row, strict=True)) for row in generator.integers(0, 4, (rows, 3)).tolist()]
    run = Run([policy] * count, stream, dict(enumerate(contents)), [1, 2, 200, 5, 492])
    queues, known = QueueTable.of(run.policies), run.contents
    parts = [queues.take(part, known) for part in run.batches]
    assert gathered(count, [*parts, queues.finish(known)]) == run.expected


@pytest.mark.parametrize("expiring", [False, True])
@pytest.mark.parametrize("k", [1, 3, 40])
@pytest.mark.parametrize(
    "window", [Sliding, TopKWindow, lambda k, window, ties: TopKWindow(k, ticks(window), ties=ties)]
)
def test_windows_far_larger_than_k_keep_ties_as_the_steps_do(window, k, expiring):
    """Long enough for every queue to drop what it does not need, and for its list to be made again."""
    generator, rows = np.random.default_rng(k), 1_200
    times, lives, scores = np.cumsum(generator.integers(0, 3, rows)), *generator.integers(1, (900, 3), (rows, 2)).T
    stream = [
        (0, event, int(time), int(time + life) if expiring else NEVER, float(score))
        for event, (time, life, score) in enumerate(zip(times, lives, scores, strict=True))
    ]
    policy = window(k, 400, ties="keep")
    queues = QueueTable.of([policy])
    parts = [queues.take(rows_of(part)) for part in batches(stream, [700, 500])]
    expected = new_queue(policy)
    for _, event, time, expires, score in stream:
        arriving = Candidate(Identity("s", f"{event:06}"), instant(time), score, instant(expires))
        expected, _ = step(expected, arriving, arriving.time, closed=False)
    assert held_by(queues.get(0, policy)) == held_by(expected)
    assert gathered(1, [*parts, queues.finish()]) == stepped([policy], stream)


def test_more_deliveries_than_rows_find_room():
    """One late row lets many events, held back until then, be delivered when the better ones expire."""
    stream = [(0, event, 0, 10, 1.0) for event in range(2_000)]
    stream += [(0, 2_000 + event, 0, NEVER, 0.0) for event in range(2_000)]
    queues = QueueTable.of([TopKWindow(2_000, ticks(100))])
    assert len(queues.take(rows_of(stream)).event) == 0
    delivered = queues.take(rows_of([(0, 5_000, 50, NEVER, 0.5)]))
    assert delivered.event.tolist() == list(range(4_000))
    assert delivered.time.tolist() == [0] * 2_000 + [10] * 2_000


class TestSize:
    @pytest.mark.parametrize("policy", [Sliding(10, 100), TopKWindow(10, 100)], ids=str)
    def test_a_window_takes_what_it_needs_and_little_more(self, policy):
        queues = QueueTable.of([policy])
        scores = np.random.default_rng(3).random(5_000).tolist()
        queues.take(rows_of([(0, event, event, NEVER, score) for event, score in enumerate(scores)]))
        assert queues.nbytes < 20_000
        assert 20 < queues.to_arrays()["queues"][0, LINE.size] < 50
        assert len(queues.to_bytes()) <= 2_500

    @pytest.mark.parametrize("policy", [Sliding(10, 20_000), TopKWindow(10, 20_000)], ids=str)
    def test_a_large_window_is_as_cheap_as_a_small_one(self, policy):
        queues = QueueTable.of([policy] * 50)
        generator = np.random.default_rng(3)
        for start in range(0, 40_000, 1_000):
            event = np.tile(np.arange(start, start + 1_000), 50)
            queue = np.repeat(np.arange(50), 1_000)
            queues.take(ArrivalRows(queue, event, event, np.full(50_000, NEVER), generator.random(50_000)))
        assert queues.nbytes / 50 < 9_000
        assert 70 < queues.to_arrays()["queues"][:, LINE.size].mean() < 100

    def test_what_left_is_not_kept(self):
        queues = QueueTable.of([TopKWindow(3, ticks(10))])
        for start in range(0, 20_000, 1_000):
            queues.take(rows_of([(0, event, event, NEVER, 0.0) for event in range(start, start + 1_000)]))
        assert queues.nbytes < 16_000
        assert len(queues.to_bytes()) < 700

    def test_continuous_keeps_k_without_expiry(self):
        queues = QueueTable.of([Continuous(3)])
        queues.take(rows_of([(0, event, event, NEVER, float(event)) for event in range(100)]))
        assert queues.to_arrays()["queues"][0, LINE.size] == 3

    def test_k_0_keeps_nothing(self):
        policies = [Continuous(0), Sliding(0, 5), TopKWindow(0, 5), TopKWindow(0, ticks(5)), Periodic(0, ticks(5))]
        queues = QueueTable.of(policies)
        queues.take(rows_of([(queue, 1, 1, NEVER, 0.5) for queue in range(5)]))
        assert len(queues.to_arrays()["held"]) == 0
        assert len(queues.finish().queue) == 0

    def test_no_queues_and_no_rows(self):
        queues = QueueTable.from_bytes(QueueTable.of([]).to_bytes())
        assert len(queues) == 0
        assert len(queues.take(rows_of([])).queue) == 0
        assert len(queues.finish().queue) == 0


def test_a_place_that_a_dropped_event_keeps_is_no_event_that_is_held():
    queues = QueueTable.of([Sliding(1, 4)])
    queues.take(rows_of([(0, 0, 1, NEVER, 1.0), (0, 1, 2, 9, 0.25), (0, 2, 3, NEVER, 0.5)]))
    queues.drop_unneeded()
    assert queues.arrays[0][0, LINE.size] == 3
    assert queues.words().tolist() == [0, 2]


def test_an_arrival_that_changes_nothing_leaves_the_selection_as_it_is():
    queues = QueueTable.of([Sliding(2, 9, Diversity(0.5, {"a": 1}))])
    contents = Contents.of({0: {"a": 1}, 1: {"a": 2}, 2: {"a": 1}, 3: {"a": 3}})
    queues.take(rows_of([(0, 0, 0, NEVER, 0.9), (0, 1, 1, NEVER, 0.8)]), contents)
    assert queues.arrays[0][0, LINE.top] == 2
    assert len(queues.take(rows_of([(0, 2, 2, NEVER, 0.7)]), contents).event) == 0
    assert queues.arrays[0][0, (LINE.size, LINE.top)].tolist() == [3, 2]
    assert queues.take(rows_of([(0, 3, 3, NEVER, 0.85)]), contents).event.tolist() == [3]


def test_a_full_queue_that_diversifies_packs_into_some_kilobytes_besides_contents():
    queues = QueueTable.of([Sliding(10, 100, Diversity(weights={"a": 1}))])
    contents = Contents.of({event: {"a": event % 5} for event in range(250)})
    queues.take(rows_of([(0, event, event, NEVER, event % 7 / 7) for event in range(250)]), contents)
    assert queues.to_arrays()["queues"][0, LINE.size] == 100
    assert len(queues.to_bytes()) <= 4_400


class TestRefusedRows:
    GOOD = ((0, 1, 5, NEVER, 0.5), (1, 2, 7, NEVER, 0.5))

    @pytest.mark.parametrize(
        ("bad", "message"),
        [
            ((0, 3, 8, NEVER, 0.5), r"row 2: queue 0 after queue 1; expected rows sorted by queue"),
            (
                (1, 3, 6, NEVER, 0.5),
                r"row 2: time 6 of queue 1 is before 7; expected the rows of a queue in time order",
            ),
            ((2, 3, 8, NEVER, 0.5), r"row 2: there is no queue 2; expected 0 to 1"),
            ((1, -3, 8, NEVER, 0.5), r"row 2: event -3 of queue 1; expected a number of at least 0"),
            ((1, 3, NEVER, NEVER, 0.5), r"row 2: time \d+ of queue 1 is not within the years 1 to 9999"),
            ((1, 3, 8, NEVER, np.nan), r"row 2: score nan of queue 1 is not a number"),
        ],
    )
    def test_a_bad_row_is_named_and_nothing_is_changed(self, bad, message):
        queues = QueueTable.of([Sliding(1, 2), Continuous(1)])
        before = queues.to_bytes()
        columns = list(zip(*self.GOOD, bad, strict=True))
        with pytest.raises(InvalidEventError, match=message):
            queues.take(ArrivalRows(*map(np.array, columns)))
        assert queues.to_bytes() == before

    def test_a_row_before_what_the_queue_has_seen(self):
        queues = QueueTable.of([Sliding(1, 2), Continuous(1)])
        queues.take(rows_of(self.GOOD))
        with pytest.raises(InvalidEventError, match=r"row 0: time 4 of queue 0 is before 5;"):
            queues.take(rows_of([(0, 3, 4, NEVER, 0.5)]))
        queues.advance(9)
        assert queues.clocks.tolist() == [9, 9]
        with pytest.raises(InvalidEventError, match=r"row 0: time 8 of queue 1 is before 9;"):
            queues.take(rows_of([(1, 3, 8, NEVER, 0.5)]))

    def test_columns_of_another_type_or_length(self):
        queues = QueueTable.of([AllMatches()])
        good = rows_of(self.GOOD[:1])
        for name, bad in (("time", np.array([1.5])), ("score", np.array(["high"])), ("queue", np.array([[0]]))):
            with pytest.raises(InvalidEventError, match=f"rows: {name} is a column of"):
                queues.take(good._replace(**{name: bad}))
        with pytest.raises(InvalidEventError, match=r"rows: columns of \[1, 2\] rows; expected the same length"):
            queues.take(good._replace(event=np.array([1, 2])))
        with pytest.raises(InvalidEventError, match="rows: event has 18446744073709551615; expected at most"):
            queues.take(good._replace(event=np.array([2**64 - 1], np.uint64)))

    def test_now_after_the_end_of_time(self):
        with pytest.raises(InvalidValueError, match="is after the end of time"):
            QueueTable.of([AllMatches()]).advance(LAST_INSTANT + 1)


class TestRefusedContents:
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


class TestRefusedSettings:
    """Of other state that cannot be, tests/containers/test_kept.py has all."""

    def packed(self):
        queues = QueueTable.of([Sliding(2, 5), TopKWindow(1, ticks(9), Diversity())])
        queues.take(rows_of([(1, 5, 5, NEVER, 0.5)]), Contents.of({5: {}}))
        return queues.to_arrays()

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
        with pytest.raises(InvalidValueError, match="array queues, column 12: 1 at 1; expected 0 to 0"):
            QueueTable.from_arrays({**self.packed(), "settings": np.zeros(0, np.int64)})


def test_ties_that_are_kept_where_they_cannot_be_are_refused():
    for policy in (AllMatches(), Periodic(1, ticks(5)), Sliding(1, 5, Diversity())):
        packed = QueueTable.of([policy]).to_arrays()
        packed["queues"][0, LINE.ties] = 1
        with pytest.raises(InvalidValueError, match="queue table: array queues: ties are kept where they cannot be"):
            QueueTable.from_arrays(packed)


def test_places_without_events_are_refused_where_none_are_kept():
    """Kernels would look for what such an event contains."""
    for policy in (Periodic(2, ticks(20)), TopKWindow(2, ticks(9)), Sliding(1, 5, Diversity())):
        queues = QueueTable.of([policy])
        queues.take(rows_of([(0, 5, 5, NEVER, 0.5)]), Contents.of({5: {}}))
        packed = queues.to_arrays()
        packed["held"][0, HELD.event] = GONE
        with pytest.raises(InvalidValueError, match="queue table: array held: a place is kept where none can be"):
            QueueTable.from_arrays(packed)


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

    def test_a_newcomer_with_a_diversity_of_its_own_costs_only_itself(self, monkeypatch):
        made = []
        of_coded = DiversitySettings._of_coded
        monkeypatch.setattr(
            DiversitySettings, "_of_coded", lambda settings: made.append(len(settings)) or of_coded(settings)
        )
        queues = QueueTable.of([])
        for number in range(50):
            queues.grow([Sliding(2, 9, diversity=Diversity(number / 50))])
        assert made == [1] * 50

    @given(st.lists(DIVERSITIES, max_size=4))
    def test_words_give_the_same_settings(self, diversities):
        settings, _ = NO_SETTINGS.including(diversities)
        again = DiversitySettings.from_words(settings.to_words())
        assert [column.tolist() for column in again] == [column.tolist() for column in settings]


def test_times_are_microseconds_since_1970():
    assert microseconds(datetime.fromisoformat("1969-12-31T23:59:59.999999+00:00")) == -1
    assert microseconds(None) == NEVER
