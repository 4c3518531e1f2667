"""UTC times: one resolution (microseconds), one text form (RFC 3339).

Every time inside rankcast is a `datetime` with `tzinfo=UTC`. Finer digits of an event's time are cut; in a filter
constant they are refused, because cutting would change what the filter says.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from rankcast.model.errors import InvalidValueError, shown

TICK = timedelta(microseconds=1)
EARLIEST = datetime.min.replace(tzinfo=UTC)
LATEST = datetime.max.replace(tzinfo=UTC)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# Engines count microseconds since 1970.
FIRST_INSTANT, LAST_INSTANT = (EARLIEST - EPOCH) // TICK, (LATEST - EPOCH) // TICK
NEVER = 2**63 - 1
"""After every instant: what does not expire expires then."""

EXPECTED_TIME = "an RFC 3339 time such as 2026-03-01T09:30:00Z"

_RFC3339 = re.compile(
    r"(\d{4}-\d{2}-\d{2})(?:[Tt ](\d{2}:\d{2})(?:(:\d{2})(?:\.(\d{1,9}))?)?([Zz]|[+-]\d{2}:[0-5]\d)?)?", re.ASCII
)


def microseconds(time: datetime | None) -> int:
    """Return a time as engines count it; no time is `NEVER`.

    >>> microseconds(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC))
    1000000
    """
    if time is None:
        return NEVER
    since = time - EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def instant_of(ticks: int) -> datetime:
    """Return the time of so many microseconds since 1970, or the end of time when that is sooner."""
    return LATEST if ticks >= LAST_INSTANT else EPOCH + timedelta(microseconds=ticks)


def later(time: datetime, span: timedelta) -> datetime:
    """Return the time so much later, or the end of time when that is sooner."""
    return time + span if span < LATEST - time else LATEST


def parse_time(text: str, *, exact: bool = False) -> datetime:
    """Return the UTC time that an RFC 3339 text names.

    A date alone is midnight; a missing offset means UTC. With `exact`, digits beyond microseconds are refused.

    >>> parse_time("2026-03-01T10:30:00+01:00")
    datetime.datetime(2026, 3, 1, 9, 30, tzinfo=datetime.timezone.utc)
    """
    found = _RFC3339.fullmatch(text)
    if found is None:
        raise InvalidValueError(f"{shown(text)} is not a time; expected {EXPECTED_TIME}")
    date, minutes, seconds, fraction, offset = found.groups()
    if exact and fraction and fraction[6:].strip("0"):
        raise InvalidValueError(f"{shown(text)} is finer than a microsecond, the resolution of times")
    zone = "+00:00" if offset in (None, "Z", "z") else offset
    try:
        return datetime.fromisoformat(
            f"{date}T{minutes or '00:00'}{seconds or ''}{'.' + fraction[:6].ljust(6, '0') if fraction else ''}{zone}"
        ).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise InvalidValueError(f"{shown(text)} is not a time ({error}); expected {EXPECTED_TIME}") from None


def format_time(time: datetime) -> str:
    """Return the shortest RFC 3339 text of a UTC time.

    >>> format_time(parse_time("2026-03-01"))
    '2026-03-01T00:00:00Z'
    """
    text = time.astimezone(UTC).isoformat()
    return text.removesuffix("+00:00").rstrip("0").rstrip(".") + "Z" if time.microsecond else text[:19] + "Z"
