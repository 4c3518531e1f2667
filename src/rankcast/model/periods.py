"""Periods, one after the other: of one duration, counted from 1970, or of a calendar such as "every day at eight".

Periods are half-open, [start, next start). A calendar names local dates and a time of day; its start is the first
instant at which the zone's clock shows that local date and time or a later one. So a time that a zone leaves out is the
first instant after the gap, one that it has twice is the first of the two, and equal starts are one. What local date an
instant has is never asked: it can go back. Every hour means 3,600 seconds from 1970 on, plus the minutes of `at`.

Zones are those of the package tzdata (its version: `TZDATA_VERSION`), never the system's, so that all engines on all
machines compute the same instants. A calendar is bounded as dates are, at the years 1 and 9999; what would end later
ends at the end of time.

A start is two bisections: a zone's clock is the list of its offsets, in which the largest local time shown until then
never falls. Rules without end repeat every 400 years, so they are written out for that long, once for each zone. The
starts of some hundred days are remembered together; after that the end of a period is one bisection, about a
microsecond.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from calendar import monthrange
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from functools import cache, lru_cache
from importlib.resources import files
from io import BytesIO
from itertools import accumulate
from struct import unpack
from typing import TypeAlias
from zoneinfo import ZoneInfo

from tzdata import IANA_VERSION

from rankcast.model.errors import InvalidSubscriptionError, hint, require, shown
from rankcast.model.times import EPOCH, FIRST_INSTANT, LAST_INSTANT, TICK, instant_of, microseconds

TZDATA_VERSION: str = IANA_VERSION

UNITS = ("hour", "day", "week", "month")
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")

_AT = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])", re.ASCII)


@dataclass(frozen=True, slots=True)
class Every:
    """The periods of a calendar: every hour, day, week or month, at a time of day in a zone.

    A week begins on `weekday` (monday), a month on `day` (1; from 29 on, the last day of a shorter month). Without a
    `zone` it is that of the subscriber, else UTC.

    >>> Every("day", at="08:00", zone="Europe/Berlin").text
    'day at 08:00 Europe/Berlin'
    """

    unit: str
    at: str = "00:00"
    weekday: str | None = None
    day: int | None = None
    zone: str | None = None

    def __post_init__(self) -> None:
        require(self.unit in UNITS, "every", self.unit, f"one of {', '.join(UNITS)}")
        require(_is_time_of_day(self.at), "at", self.at, "a time of day from 00:00 to 23:59")
        if self.weekday is not None:
            require(self.unit == "week", "weekday", self.weekday, f"for every {self.unit}; it goes with every week")
            require(self.weekday in WEEKDAYS, "weekday", self.weekday, f"a day; {hint(self.weekday, WEEKDAYS)}")
        if self.day is not None:
            require(self.unit == "month", "day", self.day, f"for every {self.unit}; it goes with every month")
            fits = type(self.day) is int and 1 <= self.day <= 31
            require(fits, "day", self.day, "a day of the month from 1 to 31")
        if self.zone is not None:
            require(self.unit != "hour", "zone", self.zone, "for every hour, which is the same in every zone")
            check_zone(self.zone)

    @property
    def offset(self) -> int:
        """The time of day, in microseconds."""
        hours, minutes = map(int, self.at.split(":"))
        return (60 * hours + minutes) * 60 * _SECOND

    @property
    def text(self) -> str:
        """The calendar in words."""
        if self.unit == "hour":
            return f"hour at :{self.at[3:]}"
        unit = (self.weekday or WEEKDAYS[0]).capitalize() if self.unit == "week" else self.unit
        day = f" on day {self.day or 1}" if self.unit == "month" else ""
        return f"{unit}{day} at {self.at} {self.zone or 'UTC'}"


Period: TypeAlias = timedelta | Every


def _is_time_of_day(value: object) -> bool:
    return isinstance(value, str) and _AT.fullmatch(value) is not None


def in_zone(period: Period, zone: str | None) -> Period:
    """Return a period in a zone, unless it names one of its own or needs none."""
    if isinstance(period, timedelta) or zone is None or period.zone is not None or period.unit == "hour":
        return period
    return replace(period, zone=zone)


def check_duration(name: str, value: object) -> None:
    """Raise unless `value` is a duration above zero."""
    fits = isinstance(value, timedelta) and value > timedelta(0)
    require(fits, name, value, "a duration above zero; expected a timedelta")


def check_period(name: str, value: object) -> None:
    """Raise unless `value` is a duration above zero or a calendar."""
    fits = isinstance(value, Every) or (isinstance(value, timedelta) and value > timedelta(0))
    require(fits, name, value, "a period; expected a timedelta above zero or Every(unit)")


def check_zone(value: object) -> None:
    """Raise unless `value` is the name of a zone."""
    if not isinstance(value, str) or value not in _zones():
        near = {name.lower(): name for name in _zones()}.get(str(value).lower())
        meant = hint(near or value, _zones()).partition("expected")[0] or "expected one such as Europe/Berlin"
        raise InvalidSubscriptionError(f"zone: {shown(value)} is no zone of tzdata {TZDATA_VERSION}; {meant}")


def period_end(now: datetime, period: Period) -> datetime:
    """Return the end of the period that an instant lies in, or the end of time when that is sooner.

    >>> period_end(datetime.fromisoformat("2026-03-29T00:30Z"), Every("day", at="02:30", zone="Europe/Berlin")).hour
    1
    """
    return instant_of(period_end_ticks(microseconds(now), period))


def next_start(instant: datetime, period: Period) -> datetime:
    """Return the first start of a period at or after an instant, or the end of time when that is sooner."""
    return instant_of(period_end_ticks(microseconds(instant) - 1, period))


def period_end_ticks(now: int, period: Period) -> int:
    """Return the end of the period that an instant lies in; both in microseconds since 1970."""
    if isinstance(period, timedelta):
        span = period // TICK
        return min((now // span + 1) * span, LAST_INSTANT)
    if period.unit == "hour":
        minutes = period.offset % _HOUR
        return min(((now - minutes) // _HOUR + 1) * _HOUR + minutes, LAST_INSTANT)
    starts = _starts(period, now // _BLOCK)
    at = bisect_right(starts, now)
    return starts[at] if at < len(starts) else LAST_INSTANT


def period_ends(instants: Sequence[int], period: Period) -> list[int]:
    """Return the ends of the periods that instants lie in, each once; all in microseconds since 1970, ascending.

    The end for one of the instants is the first that is after it, or the last one.
    """
    ends, at = list[int](), 0
    while at < len(instants) and ends[-1:] != [LAST_INSTANT]:
        ends.append(period_end_ticks(int(instants[at]), period))
        at = bisect_left(instants, ends[-1], at + 1)
    return ends


def longest(period: Period) -> timedelta:
    """Return what no period is longer than: a clock that is put back makes one longer, by a day at most."""
    return period if isinstance(period, timedelta) else _LONGEST[period.unit]


_LONGEST = {unit: timedelta(days=days) for unit, days in zip(UNITS, (1, 2, 8, 32), strict=True)}

_SECOND = 1_000_000
_HOUR = 3_600 * _SECOND
_DAY = 24 * _HOUR
_BLOCK = 366 * _DAY
_FIRST_DAY, _LAST_DAY = FIRST_INSTANT // _DAY, LAST_INSTANT // _DAY


@lru_cache(maxsize=1_024)
def _starts(every: Every, block: int) -> tuple[int, ...]:
    """Return the starts after the beginning of a block of days, up to the first one that is not before its end."""
    clock, of_day = _clock(every.zone or "UTC"), every.offset
    first, last = block * _BLOCK, (block + 1) * _BLOCK
    # No clock is two days off; two months are enough for the next start, even where one was left out.
    days = _days(every, min(max(first // _DAY - 2, _FIRST_DAY), _LAST_DAY), min(last // _DAY + 64, _LAST_DAY))
    found = list(dict.fromkeys(clock.first_showing(day * _DAY + of_day) for day in days))
    return tuple(found[bisect_right(found, first) : bisect_left(found, last) + 1])


def _days(every: Every, first: int, last: int) -> Iterator[int]:
    """Return the local dates of a calendar from one to another, as days since 1970."""
    if every.unit == "month":
        day = EPOCH.date() + timedelta(days=first)
        months = range(12 * day.year + day.month - 1, 12 * 9999 + 12)
        dates = (_date_in(*divmod(month, 12), every.day or 1) for month in months)
        for number in dates:
            if number > last:
                return
            if number >= first:
                yield number
        return
    step, begin = 1, first
    if every.unit == "week":
        step = 7
        begin += (WEEKDAYS.index(every.weekday or WEEKDAYS[0]) - first - 3) % 7  # 1970 began on a Thursday
    yield from range(begin, last + 1, step)


def _date_in(year: int, month: int, day: int) -> int:
    """Return a day of a month (0 to 11), or the last one of a shorter month, as days since 1970."""
    return (date(year, month + 1, min(day, monthrange(year, month + 1)[1])) - EPOCH.date()).days


_RULE_REPEATS = 146_097 * _DAY
"""400 years: as many weeks, and as many leap years, as the 400 years after."""

_SAMPLE = 28 * _DAY
"""Two changes of a rule without end are months apart."""


class _Clock:
    """What the clock of a zone shows: offsets, since when each holds, and the largest local time until it ends.

    `repeats` is from when on there is only the rule that repeats.
    """

    def __init__(self, name: str) -> None:
        content = files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes()
        self._zone = ZoneInfo.from_file(BytesIO(content), key=name)
        changes = [change for change in _changes(content) if change > FIRST_INSTANT + 2 * _DAY]
        self.repeats = max(changes, default=0) + 2 * _DAY
        if b"," in content.rstrip(b"\n").rpartition(b"\n")[2]:
            changes += self._rule_changes(max(changes, default=0), self.repeats + _RULE_REPEATS + 2 * _DAY)
        self.offsets = [self._offset(min(changes, default=0) - 1), *map(self._offset, changes)]
        self.since = [2 * FIRST_INSTANT, *changes]
        ends = [*changes, 2 * LAST_INSTANT]
        self.reach = list(accumulate((end + own for end, own in zip(ends, self.offsets, strict=True)), max))

    def _offset(self, ticks: int) -> int:
        offset = instant_of(ticks).astimezone(self._zone).utcoffset()
        assert offset is not None
        return offset // TICK

    def _rule_changes(self, first: int, last: int) -> Iterator[int]:
        """Return the changes that the rule without end makes after one instant, up to another."""
        low, before = first, self._offset(first)
        for high in range(first + _SAMPLE, last + _SAMPLE, _SAMPLE):
            after = self._offset(high)
            if after != before:
                changed = bisect_left(range(low, high, _SECOND), True, key=lambda at: self._offset(at) != before)
                yield low + changed * _SECOND
            low, before = high, after

    def first_showing(self, local: int) -> int:
        """Return the first instant at which the clock shows a local time or a later one."""
        cycles = max(0, (local - self.repeats) // _RULE_REPEATS) * _RULE_REPEATS
        at = bisect_right(self.reach, local - cycles)
        return max(self.since[at], local - cycles - self.offsets[at]) + cycles


def _changes(content: bytes) -> list[int]:
    """Return when the offset of a zone changes by its file (RFC 8536), but for the rule at its end.

    Numbers of 64 bits come after a whole part with numbers of 32.
    """
    ut, standard, leaps, times, types, letters = unpack(">6l", content[20:44])
    second = 44 + 5 * times + 6 * types + letters + 8 * leaps + standard + ut
    times = unpack(">l", content[second + 32 : second + 36])[0]
    return [_SECOND * change for change in unpack(f">{times}q", content[second + 44 : second + 44 + 8 * times])]


@cache
def _clock(zone: str) -> _Clock:
    return _Clock(zone)


@cache
def _zones() -> dict[str, None]:
    """Return the names of all zones."""
    return dict.fromkeys(files("tzdata").joinpath("zones").read_text(encoding="utf-8").split())
