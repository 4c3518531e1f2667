"""The delivery policies, rule by rule and against their brute-force definitions."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast.delivery.candidates import Candidate, best
from rankcast.delivery.policies import changed, initial_state, step
from rankcast.model.errors import PolicyNotAvailableError
from rankcast.model.events import Identity
from rankcast.model.policies import AllMatches, Continuous, Periodic, Sliding, TopKWindow

START = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds):
    return START + timedelta(seconds=seconds)


def candidate(seconds, score, expires=None, name=None):
    return Candidate(Identity("s", name or f"{seconds}"), at(seconds), score, None if expires is None else at(expires))


def run(policy, candidates):
    """Deliver candidates at their own times; return the delivered ids, step by step."""
    state, rounds = initial_state(policy), []
    for arriving in candidates:
        state, delivered = step(policy, state, arriving, arriving.time)
        rounds.append([chosen.identity.id for chosen in delivered])
    return rounds


def test_all_delivers_everything_but_what_has_expired():
    assert run(AllMatches(), [candidate(1, 0.1), candidate(2, 0.9, expires=2), candidate(3, 0.5, expires=4)]) == [
        ["1"],
        [],
        ["3"],
    ]


def test_continuous_delivers_an_equally_good_newer_event():
    assert run(Continuous(2), [candidate(1, 0.5), candidate(2, 0.5), candidate(3, 0.5), candidate(4, 0.4)]) == [
        ["1"],
        ["2"],
        ["3"],
        [],
    ]


def test_continuous_counts_only_valid_events_that_are_strictly_better():
    assert run(Continuous(1), [candidate(1, 0.9, expires=3), candidate(2, 0.5), candidate(3, 0.5)]) == [
        ["1"],
        [],
        ["3"],
    ]


def test_continuous_remembers_more_than_k_events_once_they_expire():
    """Keeping only the k best delivered pairs would deliver the third: the first is still valid and better."""
    assert run(
        Continuous(1), [candidate(0, 0.5, expires=6), candidate(1, 0.8, expires=2), candidate(2, 0.2, expires=4)]
    ) == [["0"], ["1"], []]


def test_continuous_with_k_0_delivers_nothing():
    assert run(Continuous(0), [candidate(1, 0.5)]) == [[]]


def test_sliding_evaluates_partial_windows_at_every_match():
    assert run(Sliding(k=1, window=3), [candidate(1, 0.2), candidate(2, 0.1), candidate(3, 0.3)]) == [["1"], [], ["3"]]


def test_sliding_delivers_an_old_event_once_better_ones_leave_the_window():
    assert run(Sliding(k=1, window=2), [candidate(1, 0.9), candidate(2, 0.5), candidate(3, 0.1)]) == [["1"], [], ["2"]]


def test_sliding_lets_expired_events_leave_before_the_new_one_enters():
    """The expired second event frees its place, so the first is still in the window and the third is not the best."""
    assert run(Sliding(k=1, window=2), [candidate(1, 0.9), candidate(2, 0.5, expires=3), candidate(4, 0.4)]) == [
        ["1"],
        [],
        [],
    ]


def test_order_is_score_then_newer_then_source_and_id():
    tied = [candidate(1, 0.5, name="b"), candidate(1, 0.5, name="a"), candidate(2, 0.5, name="c"), candidate(0, 0.6)]
    assert [chosen.identity.id for chosen in best(tied, 4)] == ["0", "c", "a", "b"]


@pytest.mark.parametrize("policy", [Periodic(1, timedelta(seconds=1)), TopKWindow(1, 5)])
def test_a_policy_without_steps_is_refused(policy):
    with pytest.raises(PolicyNotAvailableError, match=type(policy).__name__):
        initial_state(policy)


def test_a_smaller_window_keeps_the_most_recent_events():
    state = initial_state(Sliding(1, 3))
    for arriving in (candidate(1, 0.9), candidate(2, 0.8), candidate(3, 0.7)):
        state, _ = step(Sliding(1, 3), state, arriving, arriving.time)
    state = changed(Sliding(1, 2), state, before=Sliding(1, 3))
    _, delivered = step(Sliding(1, 2), state, candidate(4, 0.1), at(4))
    assert [chosen.identity.id for chosen in delivered] == ["3"]


def test_another_kind_of_policy_starts_empty():
    state, _ = step(Continuous(1), initial_state(Continuous(1)), candidate(1, 0.9), at(1))
    assert changed(Sliding(1, 2), state, before=Continuous(1)) == initial_state(Sliding(1, 2))


@st.composite
def streams(draw):
    """Events in time order with ties in score and time, some of them expiring."""
    steps = draw(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.none() | st.integers(0, 6)), max_size=25))
    time, stream = 0, []
    for number, (wait, score, lifetime) in enumerate(steps):
        time += wait
        expires = None if lifetime is None else time + lifetime
        stream.append(candidate(time, score / 3, expires, name=f"{number:02}"))
    return stream


@given(streams(), st.integers(0, 4))
def test_continuous_equals_its_definition(stream, k):
    delivered, expected = [], []
    for arriving in stream:
        valid = [one for one in delivered if one.is_valid_at(arriving.time)]
        wanted = arriving.is_valid_at(arriving.time) and sum(one.score > arriving.score for one in valid) < k
        if wanted:
            delivered.append(arriving)
        expected.append([arriving.identity.id] if wanted else [])
    assert run(Continuous(k), stream) == expected


@given(streams(), st.integers(0, 4), st.integers(1, 5))
def test_sliding_equals_its_definition(stream, k, window):
    places, delivered, expected = [], set(), []
    for arriving in stream:
        now = arriving.time
        places = [held for held in places if held.expires is None or held.expires > now]
        if arriving.expires is None or arriving.expires > now:
            places = [*places, arriving][-window:]
        ordered = sorted(places, key=lambda held: (-held.score, -held.time.timestamp(), held.identity))
        new = [held.identity.id for held in ordered[:k] if held.identity.id not in delivered]
        delivered.update(new)
        expected.append(new)
    assert run(Sliding(k, window), stream) == expected


@given(
    streams().map(lambda stream: [Candidate(one.identity, one.time, one.score) for one in stream]),
    st.integers(0, 4),
    st.integers(1, 5),
)
def test_without_expiry_sliding_delivers_at_most_one_event_per_match(stream, k, window):
    assert all(len(delivered) <= 1 for delivered in run(Sliding(k, window), stream))


def test_with_expiry_sliding_may_deliver_several_at_once():
    stream = [
        candidate(1, 0.9, expires=5),
        candidate(2, 0.8, expires=5),
        candidate(3, 0.1),
        candidate(4, 0.2),
        candidate(6, 0.3),
    ]
    assert run(Sliding(2, 4), stream)[-1] == ["6", "4"]


@given(streams(), st.integers(0, 4))
def test_continuous_keeps_no_more_than_can_matter(stream, k):
    state = initial_state(Continuous(k))
    for arriving in stream:
        state, _ = step(Continuous(k), state, arriving, arriving.time)
        for kept in state.kept:
            better = [one for one in state.kept if one is not kept and one.score > kept.score and one.outlives(kept)]
            assert len(better) < k
