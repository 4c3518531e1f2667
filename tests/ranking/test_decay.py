"""Exponential forward decay: newer events count more, and order never changes."""

import math
from datetime import timedelta
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast.model.errors import InvalidSubscriptionError
from rankcast.model.relevance import Decay
from rankcast.model.times import EARLIEST, LATEST, TICK
from rankcast.ranking.decay import LANDMARK, decayed

HOUR = timedelta(hours=1)
HOURLY = Decay(HOUR)
dyadic_ranks = st.integers(0, 64).map(lambda number: number / 64)


@pytest.mark.parametrize("half_life", [timedelta(0), -HOUR, 3600, "1h", None])
def test_a_half_life_is_a_duration_above_zero(half_life):
    with pytest.raises(InvalidSubscriptionError, match=r"half_life: .* is not a duration above zero"):
        Decay(half_life)


def test_an_event_older_by_a_half_life_must_rank_twice_as_high():
    assert decayed(0.8, LANDMARK, HOURLY) == pytest.approx(decayed(0.4, LANDMARK + HOUR, HOURLY))
    assert decayed(0.8, LANDMARK, HOURLY) > decayed(0.4, LANDMARK + HOUR - timedelta(seconds=1), HOURLY)
    assert decayed(0.8, LANDMARK, HOURLY) < decayed(0.4, LANDMARK + HOUR + timedelta(seconds=1), HOURLY)


def test_a_rank_of_zero_stays_below_every_other():
    assert decayed(0.0, LATEST, Decay(TICK)) < decayed(5e-324, EARLIEST, Decay(TICK))


@pytest.mark.parametrize("half_life", [TICK, HOUR, timedelta.max])
@pytest.mark.parametrize("time", [EARLIEST, LANDMARK, LATEST])
def test_no_time_or_half_life_overflows(half_life, time):
    assert all(math.isfinite(decayed(rank, time, Decay(half_life))) for rank in (0.0, 5e-324, 1.0))


@given(*[st.tuples(dyadic_ranks, st.integers(-50, 50))] * 2, st.lists(st.integers(50, 300), max_size=3))
def test_the_order_of_two_events_is_that_of_their_decayed_ranks_at_every_later_time(one, two, instants):
    scores = [decayed(rank, LANDMARK + hours * HOUR, HOURLY) for rank, hours in (one, two)]
    for now in (50, *instants):
        faded = [Fraction(rank) / 2 ** (now - hours) for rank, hours in (one, two)]
        if faded[0] == faded[1]:
            assert scores[0] == pytest.approx(scores[1])
        else:
            assert (scores[0] > scores[1]) == (faded[0] > faded[1])


@given(st.floats(0, 1), st.floats(0, 1), st.datetimes(), st.timedeltas(TICK, timedelta(days=100_000)))
def test_events_of_one_time_keep_the_order_of_their_ranks(one, two, time, half_life):
    time = time.replace(tzinfo=LANDMARK.tzinfo)
    low, high = sorted((one, two))
    assert decayed(low, time, Decay(half_life)) <= decayed(high, time, Decay(half_life))


@given(st.floats(0, 1), st.datetimes(), st.datetimes(), st.timedeltas(TICK, timedelta(days=100_000)))
def test_of_equal_ranks_an_older_one_is_never_better(rank, one, two, half_life):
    older, newer = sorted(time.replace(tzinfo=LANDMARK.tzinfo) for time in (one, two))
    assert decayed(rank, older, Decay(half_life)) <= decayed(rank, newer, Decay(half_life))
