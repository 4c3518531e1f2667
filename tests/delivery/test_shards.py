"""A shard delivers what the step functions deliver of events in order, however rows, watermarks and packing fall."""

from dataclasses import dataclass, replace
from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast.delivery.engine.contents import Contents
from rankcast.delivery.rules.caps import changed_counts, counted
from rankcast.delivery.rules.policies import (
    ContinuousQueue,
    PeriodicQueue,
    changed_queue,
    current,
    handed_over,
    new_queue,
)
from rankcast.delivery.rules.queues import Candidate, finished, step
from rankcast.delivery.stream.batches import ListBatch, MatchBatch
from rankcast.delivery.stream.event_tables import EventTable, Ragged
from rankcast.delivery.stream.handovers import PLAIN, Handover
from rankcast.delivery.stream.matched_sets import SETS, positions
from rankcast.delivery.stream.queue_changes import QueueChange, Reranked
from rankcast.delivery.stream.shards import Shard
from rankcast.model.errors import InvalidEventError, InvalidValueError
from rankcast.model.events import Identity
from rankcast.model.periods import Every
from rankcast.model.policies import (
    AT_ONCE,
    AllMatches,
    Cap,
    Continuous,
    Digest,
    Diversity,
    OnDemand,
    Periodic,
    Sliding,
    TieRule,
    TopKWindow,
)
from rankcast.model.times import EPOCH, FIRST_INSTANT, NEVER, instant_of, microseconds
from rankcast.testing.strategies import bounded_windows


def ticks(number):
    return timedelta(microseconds=number)


DIVERSITIES = st.none() | st.sampled_from([Diversity(0.5, {}), Diversity(0.3, {"c": 1.0})])

CAPS = st.builds(
    Cap, st.integers(1, 2), st.sampled_from([ticks(3), ticks(8), Every("day")]), st.sampled_from([None, "c"])
)
BESIDES = {
    "ties": st.sampled_from(TieRule),
    "at_most": st.just(()) | st.lists(CAPS, max_size=2, unique_by=lambda cap: (cap.every, cap.per)),
}
POLICIES = st.one_of(
    st.builds(AllMatches, at_most=BESIDES["at_most"]),
    st.builds(Continuous, st.integers(0, 3), **BESIDES),
    st.builds(Periodic, st.integers(0, 3), st.integers(1, 9).map(ticks), DIVERSITIES, **BESIDES),
    st.builds(Sliding, st.integers(0, 3), st.integers(1, 6), DIVERSITIES, **BESIDES),
    st.builds(TopKWindow, st.integers(0, 3), st.integers(1, 6) | st.integers(1, 9).map(ticks), DIVERSITIES, **BESIDES),
    bounded_windows(st.integers(0, 3), st.integers(1, 6)),
)


def content_of(time, identity):
    """What an event is compared and counted by."""
    return (("c", (time + len(identity.id)) % 3),)


@dataclass(frozen=True)
class Row:
    """A matching event of one queue, as a test states it."""

    time: int
    identity: Identity
    queue: int
    score: float
    expires: int
    matched: tuple[int, ...]

    @property
    def event(self):
        return self.time, self.identity

    @property
    def content(self):
        return content_of(self.time, self.identity)

    @property
    def candidate(self):
        expires = None if self.expires == NEVER else EPOCH + ticks(self.expires)
        return Candidate(self.identity, EPOCH + ticks(self.time), self.score, expires, self.content)


NOTIFY = st.sampled_from(
    (AT_ONCE, OnDemand(), Digest(ticks(4)), Digest(ticks(7)), Digest(ticks(1)), Digest(Every("day")))
)
WAYS = st.builds(Handover, NOTIFY, st.none() | st.integers(1, 25).map(instant_of))
MATCHED = st.sampled_from([(), (0,), (1, 3), (18,), (19,), (0, 40), (25, 26)])


@st.composite
def rows(draw, queues, identities=("a", "b", "é", "ab", "z", "zz", "\U00010000")):
    """Rows with ties of everything, and repeated identities."""
    drawn = st.tuples(
        st.integers(0, 25),
        st.sampled_from(["s", "t"]),
        st.sampled_from(identities),
        st.integers(0, queues - 1),
        st.sampled_from([0.0, 0.25, 0.5, 1.0]),
        st.none() | st.integers(-1, 9),
        MATCHED,
    )
    return [
        Row(time, Identity(source, name), queue, score, NEVER if life is None else time + life, matched)
        for time, source, name, queue, score, life, matched in draw(st.lists(drawn, max_size=40))
    ]


def chunk_of(part, *, reports_late=True):
    """Rows as a chunk, each event once."""
    events = list(dict.fromkeys(row.event for row in part))
    rows_by_event = {row.event: row for row in reversed(part)}
    known = Contents.of({at: rows_by_event[event].content for at, event in enumerate(events)})
    sets = list(dict.fromkeys(row.matched for row in part if max(row.matched, default=0) > 18))
    numbers = [
        SETS + sets.index(row.matched) if row.matched in sets else sum(1 << at for at in row.matched) for row in part
    ]
    return MatchBatch(
        EventTable.of(
            np.array([time for time, _ in events], np.int64),
            Ragged.of_texts(identity.source for _, identity in events),
            Ragged.of_texts(identity.id for _, identity in events),
            contents=(Ragged(known.starts, known.attributes), Ragged(known.starts, known.values)),
            payload=Ragged.of_texts(f"{identity.id} at {time}" for time, identity in events),
        ),
        np.array([row.queue for row in part], np.int32),
        np.array([events.index(row.event) for row in part], np.int32),
        np.array([row.score for row in part], np.float64),
        np.array([row.expires for row in part], np.int64),
        np.array(numbers, np.int32),
        Ragged.of(sets),
        reports_late=reports_late,
    )


def told(notices):
    """DeliveryBatch as plain values: (queue, delivered, identity, time of the event, score, matched), handed over."""
    sources, ids = notices.events.source.texts(), notices.events.id.texts()
    times, payloads = notices.events.time.tolist(), notices.events.payload.texts()
    found = []
    columns = (notices.queue, notices.event, notices.time, notices.score, notices.matched, notices.instants)
    for queue, event, time, score, matched, handed in zip(*(column.tolist() for column in columns), strict=True):
        assert payloads[event] == f"{ids[event]} at {times[event]}"
        identity = Identity(sources[event], ids[event])
        found.append((queue, time, identity, times[event], score, tuple(positions(matched, notices.sets)), handed))
    assert [one[0] for one in found] == sorted(one[0] for one in found)
    return found


class Definition:
    """What a shard has to deliver, by the step functions and the rules as they are written."""

    def __init__(self, policies, lateness, ways=None):
        self.lateness = lateness
        self.ways = dict(enumerate(ways or [PLAIN] * len(policies)))
        self.limits = {at: [(FIRST_INSTANT, policy, self.ways[at])] for at, policy in enumerate(policies)}
        self.capped = self.muted = 0
        self.queues = {at: new_queue(policy) for at, policy in enumerate(policies)}
        self.taken = {at: [] for at in self.queues}
        self.noted = {at: [] for at in self.queues}
        self.found = {at: [] for at in self.queues}

    def deliveries(self, stream, changes=()):
        self.replay(stream, changes)
        for at, queue in self.queues.items():
            if queue is not None:
                self.note(at, finished(queue)[1])
        return [one for at in sorted(self.found) for one in self.handed_over(at)]

    def handed_over(self, at):
        """What nothing withholds of what falls due; a change comes first at its instant."""
        steps = [(time, 0, (policy, way)) for time, policy, way in self.limits[at]]
        steps += [(told[-1], 1, told) for told in self.found[at]]
        counts, way = (), PLAIN
        for now, is_told, what in sorted(steps, key=lambda step: step[:2]):
            if not is_told:
                policy, way = what
                counts = () if policy is None else changed_counts(counts, policy.at_most)
            elif way.muted_until is not None and instant_of(now) < way.muted_until:
                self.muted += 1
            elif (after := counted(counts, dict(content_of(what[3], what[2])), instant_of(now))) is None:
                self.capped += 1
            else:
                counts = after
                yield what

    def replay(self, stream, changes=()):
        once = {}
        counting = self.counting(stream)
        for row in stream:
            if row.time not in counting[row.identity]:
                continue
            key = (*row.event, row.queue)
            once[key] = max([row, *([once[key]] if key in once else [])], key=preferred)
        steps = [(change.time, 0, at, change) for at, change in enumerate(changes)]
        steps += [(key[0], 1, key[1], row) for key, row in once.items()]
        for _, is_row, _, what in sorted(steps, key=lambda one: one[:3]):
            self.arrive(what) if is_row else self.change(what)

    def counting(self, stream):
        """The times of the events that count, by identity: none within the lateness of one that counts before."""
        found = {}
        for time, identity in sorted({row.event for row in stream}):
            times = found.setdefault(identity, [])
            if not times or time - times[-1] > self.lateness:
                times.append(time)
        return found

    def arrive(self, row):
        queue = self.queues.get(row.queue)
        if queue is None or self.knows(queue, row):
            return
        self.taken[row.queue].append(row)
        if isinstance(queue.policy, Periodic):
            self.noted[row.queue].append(row)
        self.queues[row.queue], delivered = step(queue, row.candidate, row.candidate.time, closed=False)
        self.note(row.queue, delivered)

    def knows(self, queue, row):
        now = row.candidate.time
        held = queue.delivered if isinstance(queue, ContinuousQueue) else queue.held
        if isinstance(queue, PeriodicQueue):
            held = ()
        span = getattr(queue.policy, "window", None)
        is_timed = isinstance(span, timedelta)
        if any(
            one.identity == row.identity and one.is_valid_at(now) and not (is_timed and one.time + span <= now)
            for one in held
        ):
            return True
        if not isinstance(queue.policy, Periodic):
            return False
        recall = self.lateness + queue.policy.period // ticks(1)
        return any(one.identity == row.identity and row.time - one.time <= recall for one in self.noted[row.queue])

    def change(self, change):
        queue, instant = self.queues.get(change.queue), EPOCH + ticks(change.time)
        ends_now = isinstance(queue, PeriodicQueue) and queue.end == instant  # a change comes before what is due then
        if queue is not None and not ends_now:
            queue, delivered = step(queue, None, instant, closed=False)
            self.note(change.queue, delivered)
        self.taken.setdefault(change.queue, [])
        self.noted.setdefault(change.queue, [])
        self.found.setdefault(change.queue, [])
        self.ways[change.queue] = change.handover
        self.limits.setdefault(change.queue, []).append((change.time, change.policy, change.handover))
        if change.policy is None:
            self.queues[change.queue] = None
            self.found[change.queue] = [told for told in self.found[change.queue] if told[-1] < change.time]
        elif queue is None:
            self.queues[change.queue] = new_queue(change.policy)
        else:
            self.queues[change.queue] = changed_queue(queue, change.policy, instant)

    def note(self, at, delivered):
        for one in delivered:
            time = microseconds(one.candidate.time)
            row = next(row for row in self.taken[at] if row.identity == one.candidate.identity and row.time == time)
            handed = microseconds(handed_over(self.ways[at].notify, self.queues[at].policy, one.time))
            if self.ways[at].notify != OnDemand():
                delivered = microseconds(one.time)
                self.found[at].append((at, delivered, row.identity, time, row.score, row.matched, handed))

    def lists(self, now):
        """The lists that can be read on demand."""
        return {
            at: [(one.identity, microseconds(one.time), one.score) for one in current(queue, EPOCH + ticks(now))]
            for at, queue in self.queues.items()
            if queue is not None and self.ways[at].notify == OnDemand()
        }


def preferred(row):
    number = sum(1 << at for at in row.matched) if max(row.matched, default=0) <= 18 else SETS
    return row.score, row.expires, number


@st.composite
def runs(draw):
    policies = draw(st.lists(POLICIES, min_size=1, max_size=4))
    stream = draw(rows(len(policies)))
    return policies, unambiguous(stream)


def unambiguous(stream):
    """Rows of one queue, identity and time differ in score or expiry if they differ in what matched."""
    seen = {}
    for row in stream:
        seen.setdefault((*row.event, row.queue, row.score, row.expires), row)
    return [seen[(*row.event, row.queue, row.score, row.expires)] for row in stream]


@given(runs(), st.randoms(use_true_random=False), st.integers(0, 12))
def test_chunks_in_any_division_and_order_deliver_what_the_steps_deliver(run, random, lateness):
    """Everything waits until the end: nothing is late."""
    policies, stream = run
    shuffled = random.sample(stream, len(stream))
    shard = Shard.of(policies, lateness=lateness)
    while shuffled:
        size = random.randint(1, len(shuffled))
        assert len(shard.take(MatchBatch.from_bytes(chunk_of(shuffled[:size]).to_bytes()))) == 0
        shuffled = shuffled[size:]
    assert told(shard.finish()) == Definition(policies, lateness).deliveries(stream)


def run_with_watermarks(shard, stream, random, *, changes=(), restoring=False):
    """Rows arrive in any order while the watermark moves; return the notices, the rows in time, and the late events."""
    changes = list(changes)
    waiting, accepted, late, found = list(stream), [], [], []
    watermark = -1
    while waiting or changes:
        size = random.randint(0, min(6, len(waiting)))
        part, waiting = waiting[:size], waiting[size:]
        reported = shard.take(chunk_of(part))
        accepted += [row for row in part if row.time >= watermark]
        late += list(dict.fromkeys(row.event for row in part if row.time < watermark))
        identities = map(Identity, reported.source.texts(), reported.id.texts())
        assert sorted(zip(reported.time.tolist(), identities, strict=True)) == sorted(
            {row.event for row in part if row.time < watermark}
        )
        count = random.randint(0, len(changes)) if waiting else len(changes)
        assert shard.change(changes[:count]) == sum(change.time < watermark for change in changes[:count])
        accepted += [change._replace(time=max(change.time, watermark)) for change in changes[:count]]
        changes = changes[count:]
        if random.random() < 0.6:
            watermark = max(watermark, random.randint(0, 26))
            due = shard.next_watermark
            notices = shard.advance(watermark)
            assert not len(notices) or due <= watermark
            found.append(notices)
        if restoring:
            shard = Shard.from_bytes(shard.to_bytes())
    found.append(shard.finish())
    by_queue = sorted((one for part in found for one in told(part)), key=lambda one: one[0])
    return by_queue, accepted


@pytest.mark.parametrize("restoring", [False, True])
@given(run=runs(), random=st.randoms(use_true_random=False), lateness=st.integers(0, 12))
def test_watermarks_only_bring_deliveries_forward_and_late_rows_change_nothing(run, random, lateness, restoring):
    policies, stream = run
    shard = Shard.of(policies, lateness=lateness)
    found, accepted = run_with_watermarks(shard, stream, random, restoring=restoring)
    assert found == Definition(policies, lateness).deliveries(accepted)


@given(run=runs(), random=st.randoms(use_true_random=False), lateness=st.integers(0, 12), data=st.data())
def test_what_falls_due_is_handed_over_when_that_is_over_unless_it_is_withheld(run, random, lateness, data):
    policies, stream = run
    ways = data.draw(st.lists(WAYS, min_size=len(policies), max_size=len(policies)))
    shard, found, withheld = Shard.of(policies, lateness=lateness, handovers=ways), [], [0, 0]
    shard.take(chunk_of(stream))
    for watermark in sorted(random.choices(range(28), k=5)):
        due, notices = shard.next_watermark, told(shard.advance(watermark))
        assert all(one[-1] < watermark for one in notices)
        assert not notices or due <= watermark
        found += notices
        withheld = [withheld[0] + shard.capped, withheld[1] + shard.muted]
        shard = Shard.from_bytes(shard.to_bytes())
    found += told(shard.finish())
    definition = Definition(policies, lateness, ways)
    assert sorted(found, key=lambda one: one[0]) == definition.deliveries(stream)
    assert withheld == [definition.capped - shard.capped, definition.muted - shard.muted]


@given(run=runs(), random=st.randoms(use_true_random=False), lateness=st.integers(0, 12), data=st.data())
def test_lists_are_what_the_steps_say_is_current_and_told_when_they_have_changed(run, random, lateness, data):
    policies, stream = run
    ways = data.draw(st.lists(WAYS, min_size=len(policies), max_size=len(policies)))
    shard = Shard.of(policies, lateness=lateness, handovers=ways)
    known = {at: [] for at, way in enumerate(ways) if way.notify == OnDemand()}
    shard.take(chunk_of(stream))
    assert shard.lists() is None
    for watermark in sorted(random.choices(range(28), k=5)):
        shard.advance(watermark)
        lists = shard.lists()
        if lists is not None:
            lists = ListBatch.from_bytes(lists.to_bytes())
            told_anew = {at: [] for at in lists.queue.tolist()}
            for at, delivered, identity, time, score, *_ in told(lists.entries):
                assert delivered == lists.as_of == watermark - 1
                told_anew[at].append((identity, time, score))
            assert all(known[at] != entries for at, entries in told_anew.items())
            known |= told_anew
        expected = Definition(policies, lateness, ways)
        counting = expected.counting(stream)
        expected.replay([row for row in stream if row.time < watermark and row.time in counting[row.identity]])
        assert known == expected.lists(watermark - 1)
        shard = Shard.from_bytes(shard.to_bytes())
        assert shard.lists() is None


@st.composite
def changing_runs(draw):
    policies = draw(st.lists(POLICIES, min_size=1, max_size=3))
    stream = draw(rows(len(policies)))
    numbers, times = st.integers(0, len(policies) - 1), st.integers(0, 25)
    drawn = st.builds(QueueChange, numbers, times, st.none() | POLICIES, st.just(""), WAYS)
    return policies, unambiguous(stream), draw(st.lists(drawn, max_size=6, unique_by=lambda one: one[:2]))


@pytest.mark.parametrize("restoring", [False, True])
@given(run=changing_runs(), random=st.randoms(use_true_random=False), lateness=st.integers(0, 5))
def test_queues_change_in_event_time_wherever_the_change_arrives(run, random, lateness, restoring):
    policies, stream, changes = run
    shard = Shard.of(policies, lateness=lateness)
    found, accepted = run_with_watermarks(shard, stream, random, changes=changes, restoring=restoring)
    changes = [one for one in accepted if isinstance(one, QueueChange)]
    stream = [one for one in accepted if isinstance(one, Row)]
    assert found == Definition(policies, lateness).deliveries(stream, changes)


def one_row(time, name="a", queue=0, score=0.5, expires=NEVER):
    return Row(time, Identity("s", name), queue, score, expires, (0,))


class TestQueues:
    def test_a_queue_that_is_not_there_is_named(self):
        with pytest.raises(InvalidEventError, match="there is no queue 3; expected 0 to 0"):
            Shard.of([AllMatches()]).take(chunk_of([one_row(1, queue=3)]))

    def test_queues_are_added_by_changes(self):
        shard = Shard.of([])
        assert shard.change([QueueChange(2, 5, Sliding(1, 3))]) == 0
        assert len(shard) == 3
        shard.take(chunk_of([one_row(6, queue=2), one_row(6, queue=1)]))
        assert [one[0] for one in told(shard.finish())] == [2]

    def test_a_queue_that_is_gone_takes_nothing_until_it_is_back(self):
        shard = Shard.of([AllMatches()])
        shard.change([QueueChange(0, 5, None), QueueChange(0, 9, AllMatches())])
        shard.take(chunk_of([one_row(time, str(time)) for time in (4, 5, 8, 9)]))
        assert [one[3] for one in told(shard.finish())] == [4, 9]

    def test_changes_that_cannot_be_are_refused_and_nothing_is_changed(self):
        shard = Shard.of([AllMatches()])
        with pytest.raises(InvalidValueError, match="change: queue -1; expected a number of at least 0"):
            shard.change([QueueChange(5, 5, AllMatches()), QueueChange(-1, 5, None)])
        assert len(shard) == 1


class Marking:
    """Ranks all events 0.25 from a change on; their payload is what the change says."""

    def ranked(self, ranking, _, events):
        count = len(events)
        all_of_them, never, payload = np.ones(count, bool), np.full(count, NEVER), Ragged.of_texts([ranking] * count)
        anew = replace(events, payload=payload)
        sets = Ragged.of([(7, 30)])
        return Reranked(all_of_them, all_of_them, np.full(count, 0.25), never, np.full(count, SETS), sets, anew)


class TestRankingAnew:
    def test_a_notice_says_what_an_event_was_when_it_was_delivered(self):
        """All is released together, and the window still holds what it has delivered when it is ranked anew."""
        policies = [AllMatches(), TopKWindow(1, ticks(5))]
        shard = Shard.of(policies)
        shard.reranking = Marking()
        stated = [(0, "a", 1, 0.5, (0, 40)), (0, "a", 0, 0.5, (2,)), (1, "b", 1, 0.4, (1,)), (2, "c", 1, 0.3, (0, 41))]
        rows = (Row(time, Identity("s", name), at, score, NEVER, matched) for time, name, at, score, matched in stated)
        shard.take(chunk_of(list(rows)))
        shard.change([QueueChange(1, 1, policies[1], "first"), QueueChange(1, 6, policies[1], "second")])
        notices = shard.finish()
        payloads = notices.events.payload.texts()
        columns = (notices.time, notices.event, notices.score, notices.matched)
        found = [
            (time, payloads[event], score, tuple(positions(matched, notices.sets)))
            for time, event, score, matched in zip(*(column.tolist() for column in columns), strict=True)
        ]
        assert notices.queue.tolist() == [0, 1, 1, 1]
        assert found[1:] == [(0, "a at 0", 0.5, (0, 40)), (1, "b at 1", 0.4, (1,)), (6, "second", 0.25, (7, 30))]


class TestRepetitions:
    def test_the_first_in_time_counts_for_all_queues(self):
        shard = Shard.of([AllMatches(), AllMatches()], lateness=10)
        shard.take(chunk_of([one_row(4, queue=1)]))
        shard.take(chunk_of([one_row(3, queue=0), one_row(13, queue=1), one_row(14, queue=1)]))
        assert [(one[0], one[3]) for one in told(shard.finish())] == [(0, 3), (1, 14)]
        assert shard.repeated == 2

    @pytest.mark.parametrize("shuffle", [False, True])
    def test_of_one_identity_and_time_one_variant_counts_for_all_queues(self, shuffle):
        shards = [Shard.of([AllMatches(), AllMatches()]) for _ in range(2)]
        parts = [
            replace(chunk_of([one_row(3, queue=0, score=0.1)]), variant=np.array([7])),
            replace(chunk_of([one_row(3, queue=1), one_row(3, queue=0, score=0.9)]), variant=np.array([-7])),
        ]
        for shard in shards:
            for part in parts[::-1] if shuffle else parts:
                shard.take(MatchBatch.from_bytes(part.to_bytes()))
            restored = Shard.from_bytes(shard.to_bytes())
            assert [(one[0], one[4]) for one in told(restored.finish())] == [(0, 0.9), (1, 0.5)]
            assert restored.repeated == 1


class TestMemory:
    def test_events_that_nothing_needs_are_forgotten(self):
        shard = Shard.of([Sliding(1, 3), AllMatches()])
        for start in range(0, 60_000, 2_000):
            count = 2_000
            table = EventTable.of(
                np.arange(start, start + count),
                Ragged.of_texts(["s"] * count),
                Ragged.of_texts(map(str, range(start, start + count))),
            )
            ones, never = np.zeros(count, np.int32), np.full(count, NEVER)
            shard.take(MatchBatch(table, ones + 1, np.arange(count), np.zeros(count), never, ones))
            shard.take(MatchBatch(table, ones, np.arange(count), np.zeros(count), never, ones))
            shard.advance(start + count)
            assert shard.known <= 15_000
        assert len(shard.to_bytes()) < 4_000
        assert shard.known == 3

    def test_what_was_taken_is_remembered_for_the_lateness_only(self):
        shard = Shard.of([AllMatches()], lateness=10)
        found = []
        for time in (0, 7, 10, 11, 21, 22, 40):
            shard.take(chunk_of([one_row(time)]))
            found += told(shard.advance(time + 1))
        assert [one[3] for one in found] == [0, 11, 22, 40]
        shard.advance(100)
        shard.to_bytes()
        assert shard.known == 0

    def test_a_late_event_is_no_news_for_as_long_as_its_identity_is_remembered(self):
        shard = Shard.of([AllMatches()], lateness=10)
        shard.take(chunk_of([one_row(20), one_row(21, "b")]))
        shard.advance(21)
        late = shard.take(chunk_of([one_row(20), one_row(19, "b"), one_row(19, "c"), one_row(18, "c")]))
        assert late.id.texts() == ["a", "b", "c", "c"]
        assert shard.unknown(late).id.texts() == ["c", "c"]
        shard.advance(31)
        assert shard.unknown(late).id.texts() == ["a", "c", "c"]
        shard.advance(32)
        assert shard.unknown(late).id.texts() == ["a", "b", "c", "c"]

    def test_what_interests_nobody_is_remembered_for_the_lateness_too(self):
        shard = Shard.of([AllMatches()], lateness=10)
        table = EventTable.of(np.array([1]), Ragged.of_texts(["s"]), Ragged.of_texts(["a"]))
        shard.take(MatchBatch.of_events(table))
        found = []
        for time in (5, 11, 12):
            shard = Shard.from_bytes(shard.to_bytes())
            shard.take(chunk_of([one_row(time)]))
            found += told(shard.advance(time + 1))
        assert [one[3] for one in found] == [12]

    def test_sets_that_nothing_uses_are_given_up(self):
        shard = Shard.of([Sliding(1, 2)])
        for time in range(50):
            row = replace(one_row(time, str(time)), matched=(time, 100 + time))
            shard.take(chunk_of([row]))
            assert [one[5] for one in told(shard.advance(time + 1))] == [(time, 100 + time)]
            shard = Shard.from_bytes(shard.to_bytes())
        assert len(shard.to_bytes()) < 4_000

    def test_ways_in_which_nobody_is_handed_anything_any_more_are_given_up(self):
        shard = Shard.of([AllMatches()])
        for time in range(300):
            shard.change([QueueChange(0, time, AllMatches(), handover=Handover(AT_ONCE, instant_of(time + 2)))])
            shard.take(chunk_of([one_row(time, str(time))]))
            assert told(shard.advance(time + 1)) == []
        assert shard.muted == 300
        assert len(shard.to_bytes()) < 4_000
        shard = Shard.from_bytes(shard.to_bytes())
        shard.take(chunk_of([one_row(300, "muted"), one_row(301, "heard")]))
        assert [one[3] for one in told(shard.finish())] == [301]

    def test_caps_have_as_many_queues_as_there_are(self):
        shard = Shard.of([])
        for queue in range(9):
            shard.change([QueueChange(queue, 5, AllMatches(at_most=Cap(1, ticks(9))))])
        assert len(shard._caps._starts) == len(shard) + 1 == 10


def test_a_lateness_below_zero_is_refused():
    with pytest.raises(InvalidValueError, match="lateness: -1 microseconds; expected at least 0"):
        Shard.of([], lateness=-1)


def test_the_next_watermark_is_the_first_at_which_something_happens():
    shard = Shard.of([Periodic(1, ticks(10)), TopKWindow(1, ticks(4)), Sliding(1, 5)])
    assert shard.next_watermark is None
    shard.take(chunk_of([one_row(3, queue=2)]))
    assert shard.next_watermark == 4
    shard.advance(4)
    assert shard.next_watermark is None
    shard.take(chunk_of([one_row(5, "b", queue=1), one_row(5, "b", queue=0)]))
    assert [one[:2] for one in told(shard.advance(6))] == [(1, 5)]
    assert shard.next_watermark == 10
    assert told(shard.advance(10)) == []
    assert shard.next_watermark == 11
    assert [one[:2] for one in told(shard.advance(11))] == [(0, 10)]


def as_defined(policies, stated, changes=(), size=100):
    """Let events of queue 0 (name, time, score, expiry) arrive, so many at a time; return what they all deliver."""
    stream = [Row(time, Identity("s", name), 0, score, end, ()) for name, time, score, end in stated]
    shard = Shard.of(policies)
    shard.change(changes)
    for start in range(0, len(stream), size):
        shard.take(chunk_of(stream[start : start + size]))
    found = told(shard.finish())
    assert found == Definition(policies, 0).deliveries(stream, changes)
    return [(one[1], one[2].id) for one in found]


class TestFoundBySearch:
    """Cases in which an engine and its definition disagreed once."""

    @pytest.mark.parametrize("size", [1, 5, 100])
    def test_an_identity_that_comes_again_is_held_or_not_as_the_definition_says(self, size):
        """Many rows of one identity and time with two scores, another event, and the first identity again later."""
        again = [("a", 0, 0.25, NEVER), ("b", 0, 0.25, NEVER), ("a", 1, 0.25, NEVER)]
        as_defined([Continuous(1)], [*[("a", 0, 0.0, NEVER)] * 14, *again], size=size)

    @pytest.mark.parametrize("order", [1, -1])
    def test_events_of_one_time_and_score_are_decided_by_identity_however_they_come(self, order):
        stated = [("a", 2, 0.5, NEVER), ("b", 2, 0.5, NEVER), ("a", 3, 0.5, NEVER)]
        assert as_defined([Continuous(1)], stated[::order]) == [(2, "a")]

    def test_a_window_of_time_that_becomes_one_of_events_keeps_the_most_recent(self):
        stated = [(f"{at}", at, 0.5 - at / 20, NEVER) for at in range(6)]
        assert len(as_defined([TopKWindow(1, ticks(100))], stated, [QueueChange(0, 4, TopKWindow(1, 3))])) > 1

    def test_an_identity_comes_again_at_the_instant_at_which_a_window_lets_it_go(self):
        stated = [("a", 0, 0.0, NEVER), ("a", 1, 0.0, NEVER)]
        assert as_defined([TopKWindow(1, ticks(1))], stated) == [(0, "a"), (1, "a")]

    def test_a_window_that_becomes_diverse_does_not_select_places_of_events_that_are_dropped(self):
        """The second event is dropped when the third comes, and keeps its place until it expires."""
        stated = [("a", 1, 1.0, NEVER), ("b", 2, 0.25, 9), ("c", 3, 0.5, NEVER), ("d", 6, 0.5, NEVER)]
        changes = [QueueChange(0, 5, Sliding(4, 4, Diversity(0.5, {"c": 1.0})))]
        assert as_defined([Sliding(1, 4)], stated, changes) == [(1, "a"), (6, "c"), (6, "d")]

    @pytest.mark.parametrize("restoring", [False, True])
    def test_a_change_that_comes_too_late_is_before_a_period_that_ends_at_the_watermark(self, restoring):
        shard = Shard.of([Periodic(1, ticks(1))])
        stream, gone = [Row(0, Identity("s", "a"), 0, 0.0, NEVER, ())], QueueChange(0, 0, None)
        shard.take(chunk_of(stream))
        assert told(shard.advance(1)) == []
        if restoring:
            shard = Shard.from_bytes(shard.to_bytes())
        assert shard.change([gone]) == 1
        assert told(shard.finish()) == Definition([Periodic(1, ticks(1))], 0).deliveries(
            stream, [gone._replace(time=1)]
        )

    def test_a_queue_that_became_periodic_and_goes_too_late_does_not_end_the_period_at_the_watermark(self):
        shard = Shard.of([AllMatches()])
        stream = [Row(time, Identity("s", "a"), 0, 0.0, NEVER, ()) for time in (0, 16)]
        periodic, gone = QueueChange(0, 1, Periodic(1, ticks(8))), QueueChange(0, 0, None)
        shard.take(chunk_of(stream))
        shard.change([periodic])
        found = told(shard.advance(24))
        assert shard.change([gone]) == 1
        found += told(shard.finish())
        assert found == Definition([AllMatches()], 0).deliveries(stream, [periodic, gone._replace(time=24)])
        assert [(one[1], one[3]) for one in found] == [(0, 0)]
