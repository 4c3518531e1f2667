"""Queues that move in place do exactly what immutable ones do, step by step."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast.delivery.candidates import Candidate
from rankcast.delivery.policies import new_queue, with_candidates, with_policy
from rankcast.delivery.queues import step
from rankcast.delivery.running import SPARE, running
from rankcast.model.diversity import Diversity
from rankcast.model.events import Identity
from rankcast.model.policies import AllMatches, Continuous, Periodic, Sliding, TopKWindow
from rankcast.model.times import LATEST

START = datetime(2026, 1, 1, tzinfo=UTC)
K = st.integers(0, 4)
SPANS = st.sampled_from((timedelta(seconds=1), timedelta(seconds=3), timedelta(seconds=8), timedelta.max))
DIVERSITIES = st.none() | st.just(Diversity(weights={"x": 1}))
POLICIES = st.one_of(
    st.just(AllMatches()),
    st.builds(Continuous, K),
    st.builds(Periodic, K, SPANS, DIVERSITIES),
    st.builds(Sliding, K, st.integers(1, 6), DIVERSITIES),
    st.builds(TopKWindow, K, st.integers(1, 6) | SPANS, DIVERSITIES),
)
SCORES = st.sampled_from((0.0, 0.25, 0.5, 0.75, 1.0))
ARRIVALS = st.tuples(SCORES, st.none() | st.integers(0, 9), st.integers(-2, 1))
MOVES = st.lists(st.tuples(st.integers(0, 3), st.none() | ARRIVALS, st.booleans()), max_size=30)


def at(seconds):
    return START + timedelta(seconds=seconds)


def candidates(moves, start=START):
    """Give (candidate or None, now, closed), times never going back; some candidates are older than their arrival."""
    now = start
    for number, (wait, arrival, closed) in enumerate(moves):
        now = now + min(timedelta(seconds=wait), LATEST - now)
        one = None
        if arrival is not None:
            score, lifetime, age = arrival
            expires = None if lifetime is None else now + min(timedelta(seconds=lifetime), LATEST - now)
            time = now + min(timedelta(seconds=age), LATEST - now)
            one = Candidate(Identity("/s", str(number)), time, score, expires, (("x", number % 3),))
        yield one, now, closed


@given(POLICIES, MOVES)
def test_each_move_gives_what_a_step_gives(policy, moves):
    queue = new_queue(policy)
    moving = running(queue)
    for candidate, now, closed in candidates(moves):
        queue, expected = step(queue, candidate, now, closed=closed)
        assert moving.move(candidate, now, closed=closed) == expected
        assert moving.frozen() == queue
        assert moving.next_instant == queue.next_instant
        assert [*moving] == [one.identity for one in queue.held]
        assert len(moving) == len(queue.held)
        assert all(one.identity in moving for one in queue.held)
        assert Identity("/s", "other") not in moving
    queue, expected = step(queue, None, LATEST)
    assert moving.move(None, LATEST) == expected
    assert moving.frozen() == queue


@given(POLICIES, MOVES, MOVES, POLICIES, st.sampled_from((1.0, 0.5, -1.0)))
def test_a_queue_that_was_changed_moves_on_as_the_changed_one(policy, before, after, other, factor):
    """Another k or window and other ranks, at any moment, also such that what is held would not have been kept."""
    queue = new_queue(policy)
    for candidate, now, closed in candidates(before):
        queue, _ = step(queue, candidate, now, closed=closed)

    def changed(one):
        return Candidate(one.identity, one.time, factor * one.score, one.expires, one.content)

    queue = with_candidates(with_policy(queue, other), changed)
    moving = running(queue)
    for candidate, now, closed in candidates(after, at(1000)):
        named = (
            None
            if candidate is None
            else Candidate(
                Identity("/after", candidate.identity.id), candidate.time, candidate.score, candidate.expires, ()
            )
        )
        queue, expected = step(queue, named, now, closed=closed)
        assert moving.move(named, now, closed=closed) == expected
        assert moving.frozen() == queue


@given(POLICIES, MOVES)
def test_the_end_of_time_is_the_same_for_both(policy, moves):
    queue = new_queue(policy)
    moving = running(queue)
    for candidate, now, closed in candidates(moves, LATEST - timedelta(seconds=5)):
        queue, expected = step(queue, candidate, now, closed=closed)
        assert moving.move(candidate, now, closed=closed) == expected
        assert moving.frozen() == queue


@pytest.mark.parametrize("policy", [Sliding(1, 3), TopKWindow(1, 3), Continuous(1)])
def test_what_has_left_is_not_remembered_until_it_would_have_expired(policy):
    moving = running(new_queue(policy))
    for number in range(500):
        moving.move(Candidate(Identity("/s", str(number)), at(number), number / 500, at(10_000 + number)), at(number))
    assert len(moving._ends) <= SPARE + 2 * len(moving) + 1
