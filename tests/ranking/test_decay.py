"""Exponential forward decay: newer events count more, and order never changes."""

import math
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast.model.errors import InvalidSubscriptionError
from rankcast.model.relevance import Decay
from rankcast.model.times import EARLIEST, LATEST, TICK
from rankcast.ranking.relevance import LANDMARK, decayed

HOUR = timedelta(hours=1)


@pytest.mark.parametrize("half_life", [timedelta(0), -HOUR, 3600, "1h", None])
def test_a_half_life_is_a_duration_above_zero(half_life):
    with pytest.raises(InvalidSubscriptionError, match=r"half_life: .* is not a duration above zero"):
        Decay(half_life)


def test_a_rank_of_zero_stays_below_every_other():
    assert decayed(0.0, LATEST, Decay(TICK)) < decayed(5e-324, EARLIEST, Decay(TICK))


@pytest.mark.parametrize("half_life", [TICK, HOUR, timedelta.max])
@pytest.mark.parametrize("time", [EARLIEST, LANDMARK, LATEST])
def test_no_time_or_half_life_overflows(half_life, time):
    assert all(math.isfinite(decayed(rank, time, Decay(half_life))) for rank in (0.0, 5e-324, 1.0))


@given(st.floats(0, 1), st.floats(0, 1), st.datetimes(), st.timedeltas(TICK, timedelta(days=100_000)))
def test_events_of_one_time_keep_the_order_of_their_ranks(one, two, time, half_life):
    time = time.replace(tzinfo=LANDMARK.tzinfo)
    low, high = sorted((one, two))
    assert decayed(low, time, Decay(half_life)) <= decayed(high, time, Decay(half_life))


@given(st.floats(0, 1), st.datetimes(), st.datetimes(), st.timedeltas(TICK, timedelta(days=100_000)))
def test_of_equal_ranks_an_older_one_is_never_better(rank, one, two, half_life):
    older, newer = sorted(time.replace(tzinfo=LANDMARK.tzinfo) for time in (one, two))
    assert decayed(rank, older, Decay(half_life)) <= decayed(rank, newer, Decay(half_life))
