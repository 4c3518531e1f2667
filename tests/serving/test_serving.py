"""The subscriber side: in plain Python and in the columnar engine, the same deliveries and the same state."""

from datetime import UTC, datetime, timedelta
from unittest.mock import patch

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rankcast.delivery.engine.contents import content_codes
from rankcast.delivery.stream.matched_sets import CODE_BITS, CODES
from rankcast.language.parser import parse_filter
from rankcast.matching.naive import matches
from rankcast.model.events import Event, Identity
from rankcast.model.policies import (
    AllMatches,
    AtOnce,
    Continuous,
    Digest,
    Diversity,
    OnDemand,
    Periodic,
    Sliding,
    TieRule,
    TopKWindow,
)
from rankcast.model.relevance import Closeness, Cosine, Decay, IdealPoint, Target
from rankcast.model.subscriptions import RankBy, Subscriber, Subscription
from rankcast.model.times import microseconds
from rankcast.serving import held_events
from rankcast.serving.held_events import HeldEvents, Sweep
from rankcast.serving.queues import ContentTable
from rankcast.serving.ranking import MatchedCodes
from rankcast.serving.serving import Serving
from rankcast.serving.subscriber_state import SubscriberRecord

START = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)

DIVERSITIES = st.none() | st.builds(Diversity, st.sampled_from((0.3, 0.8)), st.sampled_from(({}, {"x": 1.0})))
WINDOWS = st.sampled_from((1, 3, 12, 40))
TIES = st.sampled_from(TieRule)
POLICIES = st.one_of(
    st.just(AllMatches()),
    st.builds(Continuous, st.integers(0, 3), ties=TIES),
    st.builds(Periodic, st.integers(0, 3), st.just(5 * SECOND), DIVERSITIES, ties=TIES),
    st.builds(Sliding, st.integers(0, 3), WINDOWS, DIVERSITIES, ties=TIES),
    st.builds(
        TopKWindow, st.integers(0, 3), WINDOWS | WINDOWS.map(lambda count: count * SECOND), DIVERSITIES, ties=TIES
    ),
)
RELEVANCES = st.sampled_from(
    (None, Closeness([Target("x", 2, scale=4)]), IdealPoint([Target("x", 1)], reach=5.0), Cosine("v", (1.0, 0.5)))
)
FILTERS = st.sampled_from(("true", "x > 1", "x < 4", "x = 2 or x = 5", "exists y"))


@st.composite
def subscribers(draw, name):
    count = draw(st.sampled_from((1, 1, 2, 3, 22)))
    owned = tuple(
        Subscription(
            f"{at}",
            parse_filter(draw(FILTERS)),
            draw(st.sampled_from((0.2, 0.5, 1.0))),
            relevance=draw(RELEVANCES),
            refresh=draw(st.sampled_from((None, None, 4 * SECOND))),
            deliver=draw(st.none() | POLICIES) if count < 5 else None,
        )
        for at in range(count)
    )
    policies = [policy := draw(POLICIES), *(one.deliver for one in owned if one.deliver is not None)]
    is_diverse = any(getattr(one, "diversity", None) is not None for one in policies)
    ways = [AtOnce(), Digest(4 * SECOND), *([] if AllMatches() in policies else [OnDemand()])]
    return Subscriber(
        name,
        owned,
        policy,
        draw(st.sampled_from((RankBy.MAX, RankBy.MIN, RankBy.MEAN))),
        draw(st.booleans()),
        decay=None if is_diverse else draw(st.sampled_from((None, Decay(3 * SECOND)))),
        notify=draw(st.sampled_from(ways)),
    )


@st.composite
def stories(draw):
    """Subscribers who come, change and go, between events with ties of time and content that closes instants or not."""
    time, steps = START, []
    for number in range(draw(st.integers(1, 25))):
        kind = draw(st.sampled_from(("event", "event", "event", "event", "subscribe", "unsubscribe", "advance")))
        time += draw(st.integers(0, 2)) * SECOND
        name = draw(st.sampled_from(("ana", "bo", "cy")))
        if kind == "event":
            x, life = draw(st.integers(0, 6)), draw(st.none() | st.integers(0, 6))
            shift = draw(st.sampled_from((0, 0, 0, -3, 2)))
            event = Event(
                draw(st.sampled_from((f"{number:02}", f"{90 - number}"))),
                "/s",
                time=time + shift * SECOND,
                expires=None if life is None else time + life * SECOND,
                data={"x": x, "v": [1.0, float(x)]},
            )
            steps.append((kind, time, event, draw(st.booleans())))
        else:
            steps.append((kind, time, draw(subscribers(name)), True))
    return [("subscribe", START, draw(subscribers("ana")), True), *steps]


class Run:
    """One way to serve, told the steps of a story."""

    def __init__(self, *, columnar, switch_at=None, restart_at=None):
        self.serving = Serving(columnar=columnar)
        self.columnar, self.switch_at, self.restart_at = columnar, switch_at, restart_at
        self.steps = 0

    def take(self, kind, now, what, closed):
        serving = self.serving
        if self.steps == self.switch_at:
            serving.use_kernels()
        if self.restart_at is not None and self.steps % self.restart_at == 0:
            self.serving = serving = restarted(serving, self.columnar)
        self.steps += 1
        known = getattr(what, "id", None) in serving.subscribers
        if kind == "event":
            numbers = [
                number
                for state in serving.subscribers.values()
                for number, one in zip(state.numbers, state.subscriber.subscriptions, strict=True)
                if matches(one, what)
            ]
            served = serving.arrive(what, np.array(numbers, np.int64), now, closed=closed, tell=True)
            return served.notifications, served.matches
        if kind == "advance":
            return serving.advance(now, closed=True), []
        due = serving.advance(now, closed=False)
        if kind == "unsubscribe" and known:
            serving.unsubscribe(what.id)
        elif kind == "subscribe" and known:
            serving.update(what, now)
        elif kind == "subscribe":
            serving.subscribe(SubscriberRecord(what))
        return due, []

    def lists(self, now):
        states = self.serving.subscribers.values()
        return [
            self.serving.read(queue, now)
            for state in states
            for queue in self.serving.queues_of(state.subscriber.id).values()
        ]


def restarted(serving, columnar):
    again = Serving(columnar=columnar)
    for record in serving.records():
        again.subscribe(record)
    return again


@given(stories(), st.integers(0, 25), st.integers(1, 5))
def test_every_way_to_serve_gives_the_same(story, switch_at, restart_at):
    """By the step functions, by kernels, from one to the other, and from what was written down.

    Whenever there are two events, it is looked which of them are needed.
    """
    with patch.object(held_events, "FEWEST", 2):
        runs = [
            Run(columnar=False),
            Run(columnar=True),
            Run(columnar=False, switch_at=switch_at),
            Run(columnar=True, restart_at=restart_at),
            Run(columnar=False, restart_at=restart_at),
        ]
        _tell(runs, story)


def _tell(runs, story):
    for kind, now, what, closed in story:
        found = [run.take(kind, now, what, closed) for run in runs]
        assert all(one == found[0] for one in found)
        if kind == "advance":
            lists = [run.lists(now) for run in runs]
            assert all(one == lists[0] for one in lists)
    records = [[shape(record) for record in run.serving.records()] for run in runs]
    assert all(one == records[0] for one in records)
    assert len({tuple(run.serving.finish()) for run in runs}) == 1


def shape(record):
    """What is known of a subscriber, whatever the order in which it is kept."""
    queues = []
    for one in record.queues:
        entered = getattr(one.queue, "entered", 0)
        held = {
            (own, each.score, each.expires, entered - each.arrival if entered else 0)
            for each, own in zip(one.queue.held, one.held, strict=True)
        }
        queues.append((one.subscription, held))
    return record.subscriber, queues, record.gathered


class TestNumbers:
    def event(self, name):
        return Event(name, "/s", time=START, data={})

    @given(st.permutations(range(30)))
    def test_events_of_one_time_are_numbered_in_the_order_of_their_identities(self, order):
        events = HeldEvents()
        numbers = {}
        for name in order:
            number, renumbered = events.add(self.event(f"{name:02}"), 7)
            numbers = {one: renumbered.get(old, old) for one, old in numbers.items()}
            numbers[name] = number
            events.add(self.event(f"other{name}"), 1_000 + name)
        assert [name for name, _ in sorted(numbers.items(), key=lambda one: one[1])] == sorted(order)
        assert all(events.events[number].id == f"{name:02}" for name, number in numbers.items())

    def test_where_no_number_is_free_events_are_renumbered(self, monkeypatch):
        monkeypatch.setattr(held_events, "GAP", 2)
        events, numbers = HeldEvents(), {}
        for name in ("a", "z", *(f"m{at:02}" for at in range(20))):
            number, renumbered = events.add(self.event(name), 7)
            numbers = {one: renumbered.get(old, old) for one, old in numbers.items()}
            numbers[name] = number
        assert sorted(numbers, key=numbers.__getitem__) == sorted(numbers)

    def test_when_numbers_end_all_are_renumbered(self, monkeypatch):
        monkeypatch.setattr(held_events, "LIMIT", held_events.MIDDLE + 10 * held_events.GAP)
        events, number = HeldEvents(), 0
        for at in range(50):
            event = Event(f"{at:02}", "/s", time=START + at * SECOND, data={})
            number, renumbered = events.add(event, microseconds(event.time))
            assert number <= held_events.MIDDLE + 60 * held_events.GAP
            events.discard(events.events.keys() - {number})
        assert renumbered or events.numbers(Identity("/s", "49")) == [number]


def test_what_matched_is_kept_in_a_word_however_many_subscriptions_there_are():
    codes = MatchedCodes()
    for positions in ((), (0,), (3, 18), (0, 19), (5, 40, 200)):
        word = 77 << 20 | codes.number(positions)
        assert codes.positions(word & CODES) == positions
    held = codes.number((0, 19))
    codes.begin_sweep()
    recent = codes.number((5, 40, 200))
    codes.number((1, 2, 30))
    codes.begin_sweep()
    codes.end_sweep({held, recent})
    assert (codes.positions(held), codes.positions(recent)) == ((0, 19), (5, 40, 200))
    assert codes.number((7, 33)) not in (held, recent)


class FewQueues:
    """Queues that hold the events they are said to."""

    def __init__(self, held):
        self.queues = [set(queue) for queue in held]

    def held(self, first, last):
        return np.array([number << CODE_BITS | 1 for queue in self.queues[first:last] for number in queue], np.int64)


class TestSweeping:
    """Events that no queue holds are found by looking at queues one after the other, and no other is."""

    def unneeded(self, sweep):
        found = []
        while part := sweep.unneeded():
            found += part
        assert len(found) == len(set(found))
        return set(found)

    @given(st.data(), st.lists(st.frozensets(st.integers(0, 20)), min_size=1, max_size=12))
    def test_nothing_that_is_held_is_unneeded(self, data, held):
        table, events = FewQueues(held), set(range(21))
        sweep, newest = Sweep(events, len(held)), 100
        while not sweep.has_looked:
            sweep.look(table)
            changed = data.draw(st.sampled_from(table.queues))
            changed -= data.draw(st.frozensets(st.integers(0, 20)))
            changed.add(newest := newest + 1)
            if data.draw(st.booleans()):
                old = data.draw(st.sampled_from(sorted(events)))
                sweep.renumber({old: old + 1_000})
                for known in (events, *table.queues):
                    if old in known:
                        known.remove(old)
                        known.add(old + 1_000)
        assert self.unneeded(sweep) <= events - set().union(*table.queues)

    @given(st.lists(st.frozensets(st.integers(0, 200)), max_size=12))
    def test_what_nobody_held_from_the_start_is_unneeded(self, held):
        table, sweep = FewQueues(held), Sweep(range(201), len(held))
        while not sweep.has_looked:
            sweep.look(table)
        assert self.unneeded(sweep) == set(range(201)).difference(*held)
        assert sweep.codes == ({1} if any(held) else set())


@given(st.permutations(range(12)), st.lists(st.integers(0, 11)))
def test_contents_of_events_are_in_the_order_of_their_numbers(order, gone):
    """Whatever the order in which events come, and whichever are forgotten meanwhile."""
    table = ContentTable()
    for at, number in enumerate(order):
        table.add(number, {"x": number, "city": "Porto"} if number % 3 else {"x": number})
        if at < len(gone):
            table.remove([gone[at]])
    numbers, starts, attributes, values = table.contents
    assert numbers.tolist() == sorted(set(numbers.tolist()))
    assert set(numbers.tolist()) >= set(table._codes)
    for number, first, last in zip(numbers.tolist(), starts.tolist(), starts.tolist()[1:], strict=False):
        expected = content_codes({"x": number, "city": "Porto"} if number % 3 else {"x": number})
        assert (attributes[first:last].tolist(), values[first:last].tolist()) == tuple(map(np.ndarray.tolist, expected))
