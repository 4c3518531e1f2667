"""Durations in files: texts such as `90s`, `15m`, `2h`, `1d`, `500ms`, `250us`, or a number of seconds."""

from __future__ import annotations

import math
import re
from datetime import timedelta

from rankcast.model.errors import InvalidSubscriptionError, shown
from rankcast.model.periods import Every, Period
from rankcast.model.policies import Cap

_UNITS = {
    "d": timedelta(days=1),
    "h": timedelta(hours=1),
    "m": timedelta(minutes=1),
    "s": timedelta(seconds=1),
    "ms": timedelta(milliseconds=1),
    "us": timedelta(microseconds=1),
}
_TEXT = re.compile(r"([0-9]+)(d|h|m|s|ms|us)", re.ASCII)


def parse_duration(value: str | float) -> timedelta:
    """Return the duration that a text, or a number of seconds, stands for.

    >>> parse_duration("90s") == parse_duration(90) == parse_duration("90000ms")
    True
    """
    try:
        if isinstance(value, str):
            found = _TEXT.fullmatch(value)
            if found is not None:
                return int(found[1]) * _UNITS[found[2]]
        elif math.isfinite(value):
            return timedelta(seconds=value)
    except (OverflowError, ValueError):  # more days than a timedelta has, or more digits than CPython reads
        pass
    raise InvalidSubscriptionError(f"{shown(value)} is not a duration such as 90s, 15m, 2h, 1d or 500ms")


def format_period(period: Period) -> str:
    """Return the text of what comes every so often.

    >>> format_period(timedelta(minutes=5)), format_period(Every("week"))
    ('5m', 'Monday at 00:00 UTC')
    """
    return period.text if isinstance(period, Every) else format_duration(period)


def format_duration(duration: timedelta) -> str:
    """Return the text of a duration in the largest unit that divides it.

    >>> format_duration(timedelta(hours=1, minutes=30))
    '90m'
    """
    if not duration:
        return "0s"
    unit = next(name for name, length in _UNITS.items() if duration % length == timedelta(0))
    return f"{duration // _UNITS[unit]}{unit}"


def format_cap(cap: Cap) -> str:
    """Return the text of a cap.

    >>> format_cap(Cap(1, timedelta(days=7), per="company")), format_cap(Cap(5, Every("hour")))
    ('1 every 7d per company', '5 every hour at :00')
    """
    return f"{cap.count} every {format_period(cap.every)}{'' if cap.per is None else f' per {cap.per}'}"
