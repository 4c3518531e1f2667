"""A window that many queues share gives each queue what the step functions give it alone, at every moment."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankcast.delivery import dense_windows
from rankcast.delivery.candidates import Candidate
from rankcast.delivery.dense_windows import DenseWindow, is_dense
from rankcast.delivery.policies import new_queue, with_policy
from rankcast.delivery.queues import step
from rankcast.model.diversity import Diversity
from rankcast.model.events import Event
from rankcast.model.policies import AllMatches, Continuous, Periodic, Sliding, TopKWindow
from rankcast.model.relevance import Closeness, Target
from rankcast.model.times import LATEST
from rankcast.ranking.dense import Shape
from rankcast.ranking.preferences import refreshed
from rankcast.ranking.relevance import relevance_of

START = datetime(2026, 1, 1, tzinfo=UTC)
BEFORE_1970 = datetime(1969, 12, 31, 23, 59, 58, tzinfo=UTC)
SHAPE = Shape.of(Closeness([Target("x", 0)]))
SPANS = st.sampled_from((timedelta(seconds=2), timedelta(seconds=5), timedelta.max))
POLICIES = st.one_of(
    st.builds(Sliding, st.integers(0, 4), st.integers(5, 9)),
    st.builds(TopKWindow, st.integers(0, 4), st.integers(5, 9) | SPANS),
)
REFRESHES = st.none() | st.sampled_from((timedelta(seconds=3), timedelta.max))
# What x is, how long the event is valid, how much older or newer than its arrival it is, and a digit of its id.
ARRIVALS = st.tuples(st.integers(0, 5), st.none() | st.integers(0, 6), st.integers(-2, 1), st.integers(0, 9))
MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("event"), st.integers(0, 2), ARRIVALS, st.booleans()),
        st.tuples(st.just("event"), st.integers(0, 2), ARRIVALS, st.booleans()),
        st.tuples(st.just("event"), st.integers(0, 2), ARRIVALS, st.booleans()),
        st.tuples(st.just("time"), st.integers(0, 4), st.none(), st.booleans()),
        st.tuples(st.just("join"), st.just(0), st.integers(0, 5), st.booleans()),
        st.tuples(st.just("leave"), st.just(0), st.integers(0, 9), st.booleans()),
        st.tuples(st.just("again"), st.just(0), st.integers(0, 9), st.booleans()),
    ),
    max_size=60,
)


def made(name, value, time, expires=None):
    stated = {"time": time} if expires is None else {"time": time, "expirytime": expires}
    return Event.of({"x": value, **stated}, id=name, source="/s")


def wanted(value):
    return Closeness([Target("x", value, scale=6)])


class Both:
    """A shared window, and the queues one by one."""

    def __init__(self, policy, refresh=None):
        self.policy, self.refresh = policy, refresh
        self.window = DenseWindow(policy, SHAPE, refresh)
        self.queues = {}
        self.functions = {}
        self.events = {}

    def join(self, function, queue):
        column = self.window.join(function, 1.0, 1.0, queue, self.events)
        if column is not None:
            assert column not in self.queues
            self.queues[column], self.functions[column] = queue, function
        return column

    def leave(self, column):
        self.window.leave(column)
        del self.functions[column]
        return self.queues.pop(column)

    def _stepped(self, candidates, now, closed):
        found = {}
        for column in self.queues:
            self.queues[column], delivered = step(self.queues[column], candidates.get(column), now, closed=closed)
            if delivered:
                found[column] = [(one.candidate.identity, one.candidate.score, one.time) for one in delivered]
        return found

    def arrive(self, event, now, closed):
        self.events[event.identity] = event
        expires = refreshed(event.time, event.expires, self.refresh)
        candidates = {
            column: Candidate(event.identity, event.time, relevance_of(event, function), expires)
            for column, function in self.functions.items()
        }
        assert self._by_column(self.window.arrived(event, self.window.ranks(event), now, closed=closed)) == (
            self._stepped(candidates, now, closed)
        )

    def move_on(self, now, closed):
        found = self.window.passed(now, closed=closed)
        if isinstance(self.policy, Sliding):
            assert found == []
        assert self._by_column(found) == self._stepped({}, now, closed)

    def _by_column(self, found):
        by_column = {}
        for one in found:
            by_column.setdefault(one.column, []).append((one.event.identity, one.score, one.time))
        return by_column

    def check(self):
        assert len(self.window) == len(self.queues)
        for column, queue in self.queues.items():
            assert self.window.frozen(column) == queue
            assert [event.identity for event, _ in self.window.held(column)] == [one.identity for one in queue.held]
            assert all(self.window.has_seen(column, one.identity) for one in queue.held)
        instants = [queue.next_instant for queue in self.queues.values() if queue.next_instant is not None]
        if instants:
            assert self.window.next_instant <= min(instants)


@pytest.fixture(autouse=True)
def short_lists(monkeypatch):
    """Lists just longer than k, so that they are made anew all the time."""
    monkeypatch.setattr(dense_windows, "TAIL_FACTOR", 0.1)


@settings(max_examples=300)
@given(POLICIES, REFRESHES, MOVES, st.sampled_from((START, BEFORE_1970)))
def test_every_queue_gets_what_it_would_get_alone(policy, refresh, moves, start):
    both, now = Both(policy, refresh), start
    for number in range(3):
        assert both.join(wanted(2 * number), new_queue(policy)) is not None
    for number, (kind, wait, what, closed) in enumerate(moves):
        now += timedelta(seconds=wait)
        if kind == "event":
            value, life, age, digit = what
            expires = None if life is None else now + timedelta(seconds=life)
            event = made(f"{digit}-{number}", value, now + timedelta(seconds=age), expires)
            both.move_on(now, closed=False)
            both.arrive(event, now, closed)
        elif kind == "time":
            both.move_on(now, closed)
        elif kind == "join":
            assert both.join(wanted(what), new_queue(policy)) is not None
        elif both.queues:
            column = [*both.queues][what % len(both.queues)]
            queue, function = both.leave(column), wanted(what % 5)
            if kind == "again":  # with other ranks, as after an update
                held = [both.events[one.identity] for one in queue.held]
                changed = [
                    Candidate(one.identity, one.time, relevance_of(event, function), one.expires)
                    for one, event in zip(queue.held, held, strict=True)
                ]
                delivered = frozenset(
                    new for old, new in zip(queue.held, changed, strict=True) if old in queue.delivered
                )
                fields = {"recent" if isinstance(policy, Sliding) else "living": tuple(changed), "delivered": delivered}
                assert both.join(function, replace(queue, **fields)) is not None
        both.check()
    both.move_on(LATEST, closed=True)
    both.check()


@given(POLICIES, st.lists(ARRIVALS, max_size=20), st.integers(1, 3))
def test_queues_of_different_age_are_taken_in_the_longest_first(policy, arrivals, apart):
    """As when a hub begins to share: everybody's queue is what it held until now."""
    first, now = Both(policy), START
    for number, (value, life, age, digit) in enumerate(arrivals):
        if number % apart == 0:
            first.join(wanted(number % 6), new_queue(policy))
        expires = None if life is None else now + timedelta(seconds=life)
        time = now + timedelta(seconds=age)
        first.arrive(made(f"{digit}-{number}", value, time, expires), now, True)
        now += timedelta(seconds=1)
        first.move_on(now, closed=False)
    then = Both(policy)
    then.events = first.events
    for column in sorted(first.queues, key=lambda one: -len(first.queues[one].held)):
        assert then.join(first.functions[column], first.queues[column]) is not None
    then.check()
    for number in range(10):
        now += timedelta(seconds=1)
        then.move_on(now, closed=False)
        then.arrive(made(f"later-{number}", number % 6, now), now, True)
        then.check()


def event(number, value=3):
    return made(str(number), value, START + timedelta(seconds=number))


def test_a_queue_that_holds_something_else_is_not_taken_in():
    policy = TopKWindow(1, 5)
    both = Both(policy)
    both.join(wanted(1), new_queue(policy))
    stranger = Both(policy)
    stranger.join(wanted(1), new_queue(policy))
    for number in range(4):
        both.arrive(event(number), START + timedelta(seconds=number), True)
        if number != 2:
            stranger.arrive(event(number), START + timedelta(seconds=number), True)
    assert both.join(wanted(2), stranger.queues[0]) is None
    assert both.join(wanted(2), both.queues[0]) is None, "its scores are of another function"
    assert both.join(wanted(1), both.queues[0]) is not None
    assert len(both.window) == 2


def test_an_instant_that_waits_goes_along_and_only_for_those_who_took_something_then():
    policy = TopKWindow(1, timedelta(seconds=10))
    both = Both(policy)
    both.join(wanted(0), new_queue(policy))
    both.arrive(event(0), START, False)
    assert both.join(wanted(3), new_queue(policy)) is not None
    waiting = both.leave(0)
    assert both.join(wanted(0), waiting) == 0
    both.check()
    both.move_on(START + timedelta(seconds=1), closed=False)
    both.check()


def test_more_columns_and_more_events_than_there_was_room_for():
    policy = TopKWindow(2, timedelta(seconds=75))
    both = Both(policy)
    for number in range(90):
        if number < dense_windows.FEWEST_COLUMNS + 6:
            both.join(wanted(number % 6), new_queue(policy))
        both.move_on(START + timedelta(seconds=number), closed=False)
        both.arrive(event(number, number * 7 % 6), START + timedelta(seconds=number), True)
    both.check()


@pytest.mark.parametrize("change", ["k", "window"])
def test_a_window_takes_in_queues_whose_policy_was_another(change):
    before = TopKWindow(1, 9)
    after = TopKWindow(3, 9) if change == "k" else TopKWindow(1, 5)
    first = Both(before)
    for number in range(3):
        first.join(wanted(number), new_queue(before))
    for number in range(8):
        first.arrive(event(number, number % 6), START + timedelta(seconds=number), True)
    then = Both(after)
    then.events = first.events
    for column, queue in first.queues.items():
        assert then.join(first.functions[column], with_policy(queue, after)) is not None
    for number in range(8, 20):
        then.arrive(event(number, number % 6), START + timedelta(seconds=number), True)
        then.check()


def test_policies_that_choose_the_best_of_a_window_by_rank_can_share_it():
    assert is_dense(Sliding(2, 5))
    assert is_dense(TopKWindow(2, timedelta(1)))
    assert is_dense(TopKWindow(0, 5))
    assert not is_dense(TopKWindow(5, 5)), "all is delivered"
    assert not is_dense(TopKWindow(2, 5, Diversity()))
    assert not is_dense(TopKWindow(10**9, timedelta(1)))
    assert not any(map(is_dense, (AllMatches(), Continuous(1), Periodic(1, timedelta(1)))))
