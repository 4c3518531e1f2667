"""The fake clock moves only when it is told to."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from rankcast.model.errors import InvalidValueError
from rankcast.testing.clock import START, FakeClock

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_it_stands_still():
    clock = FakeClock(NOON)
    assert [clock(), clock()] == [NOON, NOON]
    assert FakeClock()() == START


def test_it_advances():
    clock = FakeClock(NOON)
    assert clock.advance(timedelta(hours=1)) == NOON + timedelta(hours=1) == clock()
    assert clock.advance(timedelta(0)) == clock()


def test_it_goes_back_only_on_purpose():
    clock = FakeClock(NOON)
    with pytest.raises(InvalidValueError, match="goes back in time"):
        clock.advance(timedelta(seconds=-1))
    assert clock() == NOON
    assert clock.set(NOON - timedelta(days=1)) == clock() == NOON - timedelta(days=1)


def test_it_shows_utc():
    clock = FakeClock(NOON.astimezone(timezone(timedelta(hours=3))))
    assert clock().tzinfo is UTC
    assert repr(clock) == "FakeClock(2026-03-01T12:00:00Z)"


@pytest.mark.parametrize("time", [datetime(2026, 3, 1), "2026-03-01", None])  # noqa: DTZ001
def test_it_needs_an_aware_time(time):
    with pytest.raises(InvalidValueError, match="clock: "):
        FakeClock(time)
