"""What is handed over when, and the list that is read on demand."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast.delivery.rules.changes import new_queue
from rankcast.delivery.rules.policies import current, handed_over
from rankcast.delivery.rules.queues import Candidate, step
from rankcast.model.errors import InvalidSubscriptionError
from rankcast.model.events import Identity
from rankcast.model.policies import (
    ALL_MATCHES,
    AT_ONCE,
    Continuous,
    Gathered,
    OnDemand,
    Periodic,
    Sliding,
    TopKWindow,
    check_notify,
)
from rankcast.model.times import LATEST

START = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds):
    return START + timedelta(seconds=seconds)


def candidate(second, score, expires=None):
    return Candidate(Identity("/s", str(second)), at(second), score, None if expires is None else at(expires))


def read(policy, arrivals, second):
    queue = new_queue(policy)
    for one in arrivals:
        queue, _ = step(queue, one, one.time)
    return [one.identity.id for one in current(queue, at(second))]


def test_periods_of_gathering_are_half_open():
    every = Gathered(timedelta(seconds=10))
    assert [handed_over(every, at(second)) for second in (0, 9, 10)] == [at(10), at(10), at(20)]
    assert handed_over(every, LATEST) == LATEST
    assert handed_over(AT_ONCE, at(3)) == handed_over(OnDemand(), at(3)) == at(3)


ARRIVALS = [candidate(1, 0.5), candidate(2, 0.9, expires=5), candidate(3, 0.2), candidate(4, 0.7)]


@pytest.mark.parametrize(
    ("policy", "second", "expected"),
    [
        (ALL_MATCHES, 4, []),
        (Continuous(2), 4, ["2", "4"]),
        (Continuous(2), 5, ["4", "1"]),
        (Sliding(2, 3), 4, ["2", "4"]),
        (Sliding(2, 3), 5, ["4", "3"]),
        (Periodic(2, timedelta(seconds=6)), 4, ["4", "1"]),
        (Periodic(2, timedelta(seconds=6)), 5, ["4", "1"]),
        (Periodic(2, timedelta(seconds=6)), 6, []),
        (TopKWindow(3, 2), 4, ["4", "3"]),
        (TopKWindow(3, timedelta(seconds=3)), 4, ["2", "4", "3"]),
        (TopKWindow(3, timedelta(seconds=3)), 6, ["4"]),
        (TopKWindow(0, timedelta(seconds=3)), 4, []),
    ],
)
def test_the_current_list_is_the_best_k_of_what_is_held_and_valid(policy, second, expected):
    assert read(policy, ARRIVALS, second) == expected


@given(st.lists(st.sampled_from((0.1, 0.5, 0.9)), max_size=8), st.integers(0, 3), st.integers(1, 5))
def test_the_current_list_of_a_sliding_window_was_delivered(scores, k, window):
    """Whatever is in the list when nothing expires has been delivered by the proactive policy."""
    queue, delivered = new_queue(Sliding(k, window)), set()
    for second, score in enumerate(scores):
        queue, more = step(queue, candidate(second, score), at(second))
        delivered |= {one.candidate.identity for one in more}
        assert {one.identity for one in current(queue, at(second))} <= delivered


@pytest.mark.parametrize("wrong", ["gathered", 5, None, timedelta(hours=1)])
def test_what_is_no_way_to_notify_is_refused(wrong):
    with pytest.raises(InvalidSubscriptionError, match=r"notify: .* is not AtOnce\(\), Gathered\(every\) or OnDemand"):
        check_notify(wrong)


@pytest.mark.parametrize("wrong", [timedelta(0), timedelta(seconds=-1), 60])
def test_a_period_of_gathering_is_above_zero(wrong):
    with pytest.raises(InvalidSubscriptionError, match=r"every: .* is not a duration above zero"):
        Gathered(wrong)
