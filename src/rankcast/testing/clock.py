"""A clock for tests: it stands still until it is told to move."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from rankcast.model.errors import InvalidValueError, shown
from rankcast.model.times import format_time
from rankcast.model.values import checked_value

START = datetime(2026, 1, 1, tzinfo=UTC)


class FakeClock:
    """A callable that returns an aware UTC time, wherever rankcast takes a clock.

    >>> clock = FakeClock()
    >>> clock.advance(timedelta(minutes=5))
    datetime.datetime(2026, 1, 1, 0, 5, tzinfo=datetime.timezone.utc)
    >>> clock() == clock()
    True
    """

    def __init__(self, start: datetime = START) -> None:
        self._now = _checked(start)

    def __call__(self) -> datetime:
        """Return the time the clock shows."""
        return self._now

    def __repr__(self) -> str:
        return f"FakeClock({format_time(self._now)})"

    def advance(self, by: timedelta) -> datetime:
        """Move forward and return the new time; a step back is refused, `set` is for that."""
        if by < timedelta(0):
            raise InvalidValueError(f"advance: {by} goes back in time; use set() to do so on purpose")
        self._now += by
        return self._now

    def set(self, time: datetime) -> datetime:
        """Move to a time, earlier or later, and return it in UTC."""
        self._now = _checked(time)
        return self._now


def _checked(time: datetime) -> datetime:
    value = checked_value(time, "clock")
    if not isinstance(value, datetime):
        raise InvalidValueError(f"clock: {shown(time)} is not a datetime")
    return value
