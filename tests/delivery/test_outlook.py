"""What would become of an event: the forecast comes true, and not a moment earlier."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import rule_builders
from rankcast.delivery.rules.forecast import ArrivalResult, outlook
from rankcast.delivery.rules.policies import new_queue
from rankcast.delivery.rules.queues import finished, step
from rankcast.model.events import Identity
from rankcast.model.policies import (
    ALL_MATCHES,
    Continuous,
    Diversity,
    Periodic,
    Sliding,
    TieRule,
    TopKWindow,
    keeps_ties,
)
from rankcast.testing.strategies import bounded_windows
from rule_builders import after, at, seconds

LOWEST = -1.0


def candidate(name, minute, score, expires=None):
    return rule_builders.candidate(minute, score, expires, name)


windows = st.integers(1, 4) | st.integers(1, 9).map(seconds)
ties = st.sampled_from(TieRule)
policies = st.one_of(
    st.just(ALL_MATCHES),
    st.builds(Continuous, st.integers(0, 3), ties=ties),
    st.builds(Sliding, st.integers(0, 3), st.integers(1, 4), ties=ties),
    st.builds(TopKWindow, st.integers(0, 3), windows, ties=ties),
    bounded_windows(st.integers(0, 3), st.integers(1, 4)),
    st.builds(Periodic, st.integers(0, 3), st.integers(1, 9).map(seconds)),
)


@st.composite
def arrivals(draw):
    minutes = sorted(draw(st.lists(st.integers(0, 12), min_size=1, max_size=9)))
    return [
        candidate(str(number), minute, draw(st.sampled_from([0.2, 0.5, 0.8])), draw(st.none() | st.integers(0, 20)))
        for number, minute in enumerate(minutes)
    ]


@given(policies, arrivals())
def test_a_forecast_comes_true(policy, sequence):
    *earlier, last = sequence
    queue = after(policy, earlier)
    seen = outlook(queue, last, last.time)
    queue, delivered = step(queue, last, last.time)
    assert (seen.fate is ArrivalResult.DELIVERED) == has(delivered, last)
    if seen.fate is ArrivalResult.DELIVERED:
        return
    if seen.hopeless and not isinstance(policy, Periodic):
        assert last.identity not in {one.identity for one in queue.held}
    if seen.fate in (ArrivalResult.TIED, ArrivalResult.OUTRANKED):
        better = sum(one.score > last.score for one in queue.held_at(last.time)) if policy.k else 0
        assert (seen.fate is ArrivalResult.TIED) == (keeps_ties(policy) and better < policy.k)
    if seen.fate is ArrivalResult.TIED:
        assert seen.competitor.score >= last.score
    if isinstance(policy, TopKWindow):
        _, later = finished(queue)
        instants = [one.time for one in later if one.candidate.identity == last.identity]
        assert instants == ([] if seen.enters is None else [seen.enters])
    for number in range(1, (seen.enters_after or 0) + 1):
        lesser = replace(last, identity=Identity("/s", f"lesser {number}"), score=LOWEST, expires=None)
        queue, delivered = step(queue, lesser, last.time)
        assert has(delivered, last) == (number == seen.enters_after)
    if seen.fate is ArrivalResult.WAITING:
        _, delivered = finished(queue)
        assert {one.time for one in delivered} <= {seen.decided}
        assert has(delivered, last) == (seen.place is not None and seen.place <= policy.k)


@given(st.integers(1, 3), ties, arrivals())
def test_continuous_delivery_lets_an_event_of_that_rank_pass_from_then_on(k, ties, sequence):
    *earlier, last = sequence
    queue = after(Continuous(k, ties=ties), earlier)
    seen = outlook(queue, last, last.time)
    if seen.fate in (ArrivalResult.OUTRANKED, ArrivalResult.TIED):
        again = replace(last, expires=None)
        if seen.reopens is None:
            assert not has(step(queue, again, at(10_000))[1], again)
        else:
            assert has(step(queue, again, seen.reopens)[1], again)
            assert not has(step(queue, again, seen.reopens - timedelta(microseconds=1))[1], again)


def has(delivered, wanted):
    return any(one.candidate.identity == wanted.identity for one in delivered)


def test_the_competitor_is_the_last_of_those_chosen():
    queue = after(Sliding(2, 10), [candidate("a", 1, 0.9), candidate("b", 2, 0.5), candidate("c", 3, 0.7)])
    seen = outlook(queue, candidate("new", 4, 0.6), at(4))
    assert (seen.fate, seen.k, seen.place) == (ArrivalResult.OUTRANKED, 2, None)
    assert (seen.competitor.identity.id, seen.hopeless) == ("c", False)
    assert seen.enters_after == 7  # six more fill the window, the seventh pushes a out


def test_a_window_of_time_tells_when():
    queue = after(TopKWindow(1, seconds(10)), [candidate("a", 0, 0.9), candidate("b", 5, 0.8)])
    seen = outlook(queue, candidate("new", 6, 0.1), at(6))
    assert (seen.place, seen.competitor.identity.id, seen.enters) == (None, "a", at(15))
    assert outlook(queue, candidate("short", 6, 0.1, expires=12), at(6)).enters is None


def test_with_diversity_the_last_of_the_selection_is_the_competitor_and_nothing_is_forecast():
    policy = Sliding(2, 10, Diversity(0.5))
    copies = [replace(candidate(name, 1, score), content=((1, 1),)) for name, score in (("a", 0.9), ("b", 0.8))]
    queue = after(policy, copies)
    seen = outlook(queue, replace(candidate("copy", 2, 0.1), content=((1, 1),)), at(2))
    assert (seen.fate, seen.place, seen.competitor.identity.id) == (ArrivalResult.OUTRANKED, None, "b")
    assert (seen.enters, seen.enters_after) == (None, None)
    other = outlook(queue, replace(candidate("other", 2, 0.1), content=((1, 2),)), at(2))
    assert (other.fate, other.place) == (ArrivalResult.DELIVERED, 2)


def test_events_that_cannot_compete():
    assert outlook(new_queue(Sliding(1, 1)), candidate("a", 5, 0.5, expires=5), at(5)).fate is ArrivalResult.EXPIRED
    assert outlook(new_queue(TopKWindow(1, seconds(1))), candidate("a", 1, 0.5), at(5)).fate is ArrivalResult.TOO_OLD
    assert outlook(new_queue(ALL_MATCHES), candidate("a", 1, 0.5), at(5)).fate is ArrivalResult.DELIVERED


def test_an_event_that_better_ones_outstay_is_hopeless():
    minutes = seconds(10)
    queue = after(TopKWindow(2, minutes), [candidate("a", 3, 0.9), candidate("b", 3, 0.8)])
    seen = outlook(queue, candidate("new", 1, 0.5), at(3))
    assert (seen.fate, seen.hopeless, seen.enters) == (ArrivalResult.OUTRANKED, True, None)
