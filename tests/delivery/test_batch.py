"""Batched queues do what the step functions do, however the rows are divided and wherever state is packed."""

from contextlib import suppress
from datetime import datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batched_queues import batches, gathered, instant, rows_of, stepped, ticks
from rankcast.delivery.engine.layout import COUNT, LINE
from rankcast.delivery.engine.queue_table import ArrivalRows, QueueTable
from rankcast.delivery.rules.changes import new_queue
from rankcast.delivery.rules.queues import Candidate, step
from rankcast.model.errors import InvalidEventError, InvalidValueError
from rankcast.model.events import Identity
from rankcast.model.policies import AllMatches, Continuous, Periodic, Sliding, TopKWindow
from rankcast.model.times import LAST_INSTANT, NEVER, microseconds

WINDOWS = st.integers(1, 9) | st.integers(1, 60)
POLICIES = st.one_of(
    st.just(AllMatches()),
    st.builds(Continuous, st.integers(0, 4)),
    st.builds(Periodic, st.integers(0, 4), st.integers(1, 9).map(ticks)),
    st.builds(Sliding, st.integers(0, 4), WINDOWS),
    st.builds(TopKWindow, st.integers(0, 4), WINDOWS | WINDOWS.map(ticks)),
)

SCORES = st.sampled_from([-np.inf, -2.5, -1.0, -0.0, 0.0, 1e-300, 0.5, 1.0, np.inf])


@st.composite
def streams(draw, queues):
    """Rows (queue, event, time, expires, score) in the order of their times, with ties of time and score."""
    steps = draw(
        st.lists(
            st.tuples(st.integers(0, queues - 1), st.integers(0, 3), st.none() | st.integers(-1, 12), SCORES),
            max_size=60,
        )
    )
    events = draw(st.permutations(range(len(steps))))
    time, stream = -20, []
    for event, (queue, wait, lifetime, score) in zip(events, steps, strict=True):
        time += wait
        stream.append((queue, event, time, NEVER if lifetime is None else time + lifetime, score))
    return stream


@st.composite
def runs(draw):
    """Policies, a stream for their queues, and how many rows each batch has."""
    policies = draw(st.lists(POLICIES, min_size=1, max_size=5))
    stream = draw(streams(len(policies)))
    return policies, stream, draw(st.lists(st.integers(1, 20), min_size=len(stream), max_size=len(stream)))


@given(runs())
def test_batches_deliver_what_the_steps_deliver(run):
    policies, stream, sizes = run
    queues = QueueTable.of(policies)
    parts = [queues.take(rows_of(part)) for part in batches(stream, sizes)]
    assert gathered(len(policies), [*parts, queues.finish()]) == stepped(policies, stream)


@given(runs())
def test_deliveries_carry_the_score_of_their_row(run):
    policies, stream, sizes = run
    queues = QueueTable.of(policies)
    parts = [queues.take(rows_of(part)) for part in batches(stream, sizes)]
    scores = {event: score for _, event, _, _, score in stream}
    for part in [*parts, queues.finish()]:
        assert part.score.tolist() == [scores[event] for event in part.event.tolist()]


@given(runs())
def test_packed_queues_go_on_as_if_nothing_happened_at_every_point(run):
    policies, stream, _ = run
    queues, parts = QueueTable.of(policies), []
    for at, row in enumerate(stream):
        parts.append(queues.take(rows_of([row])))
        queues = QueueTable.from_bytes(queues.to_bytes()) if at % 2 else QueueTable.from_arrays(queues.to_arrays())
    assert gathered(len(policies), [*parts, queues.finish()]) == stepped(policies, stream)


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
    policies, stream, _ = run
    queues, expected = QueueTable.of(policies), [new_queue(policy) for policy in policies]
    for row in stream:
        queues.take(rows_of([row]))
        number, event, time, expires, score = row
        arriving = Candidate(Identity("s", f"{event:06}"), instant(time), score, instant(expires))
        expected[number], _ = step(expected[number], arriving, arriving.time, closed=False)
    for number, policy in enumerate(policies):
        assert held_by(queues.get(number, policy)) == held_by(expected[number])


@given(runs(), st.lists(st.tuples(st.integers(-3, 3), st.booleans(), st.booleans()), min_size=60, max_size=60))
def test_single_events_are_served_as_the_steps_say(run, ways):
    """Each event arrives at its own instant, which is not its time, in several queues, and closes it or not."""
    policies, stream, _ = run
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
    policies, stream, sizes = run
    queues, parts = QueueTable.of(policies), []
    for part, wait in zip(batches(stream, sizes), waits, strict=False):
        if part:
            parts.append(queues.advance(max(part[0][2] - wait, queues.clocks.min())))
        parts.append(queues.take(rows_of(part)))
        if part:
            parts.append(queues.advance(part[-1][2]))
    assert gathered(len(policies), [*parts, queues.finish()]) == stepped(policies, stream)


@pytest.mark.parametrize("expiring", [False, True])
@pytest.mark.parametrize(
    "policy",
    [
        Continuous(3),
        Periodic(20, ticks(50)),
        Sliding(3, 40),
        TopKWindow(3, 40),
        TopKWindow(20, ticks(100)),
        TopKWindow(10**9, timedelta.max),
    ],
    ids=str,
)
def test_long_streams_that_outgrow_every_first_room(policy, expiring):
    generator = np.random.default_rng(5)
    count, rows = 7, 1_000
    times = np.cumsum(generator.integers(0, 3, rows))
    lives = generator.integers(0, 60, rows)
    stream = [
        (int(queue), event, int(time), int(time + life) if expiring else NEVER, float(score))
        for event, (queue, time, life, score) in enumerate(
            zip(generator.integers(0, count, rows), times, lives, generator.integers(0, 50, rows), strict=True)
        )
    ]
    queues = QueueTable.of([policy] * count)
    parts = [queues.take(rows_of(part)) for part in batches(stream, [1, 2, 300, 5, 692])]
    assert gathered(count, [*parts, queues.finish()]) == stepped([policy] * count, stream)


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
        assert 20 < queues.to_arrays()["queues"][0, COUNT] < 50
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
        assert 70 < queues.to_arrays()["queues"][:, COUNT].mean() < 100

    def test_what_left_is_not_kept(self):
        queues = QueueTable.of([TopKWindow(3, ticks(10))])
        for start in range(0, 20_000, 1_000):
            queues.take(rows_of([(0, event, event, NEVER, 0.0) for event in range(start, start + 1_000)]))
        assert queues.nbytes < 16_000
        assert len(queues.to_bytes()) < 700

    def test_continuous_keeps_k_without_expiry(self):
        queues = QueueTable.of([Continuous(3)])
        queues.take(rows_of([(0, event, event, NEVER, float(event)) for event in range(100)]))
        assert queues.to_arrays()["queues"][0, COUNT] == 3

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


class TestRefusedState:
    @given(st.integers(0, 2), st.integers(0, LINE - 1), st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 8))
    def test_no_number_in_a_line_leads_a_kernel_astray(self, queue, word, value):
        """Such state is refused, or it can be worked with; nothing is read or written outside the arrays."""
        arrays = QueueTable.of([Sliding(2, 5), TopKWindow(1, ticks(9)), Continuous(2)])
        arrays.take(rows_of([(queue, event, event, NEVER, event / 8) for queue in range(3) for event in range(8)]))
        changed = arrays.to_arrays()
        changed["queues"][queue, word] = value
        with suppress(InvalidValueError):
            queues = QueueTable.from_arrays(changed)
            last = int(queues.clocks.max())
            if 0 <= last < LAST_INSTANT:
                queues.take(rows_of([(queue, 9, last + 1, NEVER, 0.9) for queue in range(3)]))
            assert len(queues.finish().queue) <= 8 * 3


def test_times_are_microseconds_since_1970():
    assert microseconds(datetime.fromisoformat("1969-12-31T23:59:59.999999+00:00")) == -1
    assert microseconds(None) == NEVER
