"""Caps: how much of what a queue delivers is handed over in a period.

Caps stand between a policy and its subscriber; the queue does not know of them. What it delivers is taken in its order,
at the instants at which it is handed over. It is handed over if none of the caps is used up, and then counts in all of
them; otherwise it is capped, counts in none, and is never handed over. So a digest is cut when it is handed over.

A cap counts in the period in which that instant lies: [start, next start). With `per`, values of that attribute count
apart, by their codes (`rankcast.delivery.engine.contents`); events that lack it, or have a list there, count together.
What was counted is forgotten with its period.

Cost: a few microseconds for each cap and delivery, and with `per` a copy of what was counted in the period.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple, TypeAlias

from msgspec import Struct

from rankcast.delivery.engine.contents import MISSING, value_code
from rankcast.model.periods import period_end
from rankcast.model.policies import Cap
from rankcast.model.times import EARLIEST, LATEST
from rankcast.model.values import AttributeValue


class CapCount(Struct, frozen=True):
    """A cap, and how much has counted in the period that ends at `end`, by codes of values; without `per` under one."""

    cap: Cap
    end: datetime = EARLIEST
    counts: dict[int, int] = {}

    def at(self, now: datetime) -> CapCount:
        """Return what counts at an instant. Nothing comes after the end of time, so nothing ends at it."""
        if now < self.end or self.end == LATEST:
            return self
        return CapCount(self.cap, period_end(now, self.cap.every))


def code_of(cap: Cap, attributes: Mapping[str, AttributeValue]) -> int:
    """Return the code of what tells an event's count in a cap from others."""
    value = None if cap.per is None else attributes.get(cap.per)
    return MISSING if value is None or isinstance(value, tuple) else value_code(value)


CapCounts: TypeAlias = tuple[CapCount, ...]
"""The caps of one queue."""


class UsedCap(NamedTuple):
    """A cap that is used up: how many have counted, in the period that ends at `end`."""

    cap: Cap
    used: int
    end: datetime


def used_up(counts: CapCounts, attributes: Mapping[str, AttributeValue], now: datetime) -> UsedCap | None:
    """Return the first cap that does not let an event be handed over at an instant; None when all of them do."""
    for own in counts:
        current = own.at(now)
        used = current.counts.get(code_of(own.cap, attributes), 0)
        if used >= own.cap.count:
            return UsedCap(own.cap, used, current.end)
    return None


def counted(counts: CapCounts, attributes: Mapping[str, AttributeValue], now: datetime) -> CapCounts | None:
    """Return the caps after an event was handed over at an instant; None when one of them does not let it be."""
    found = []
    for own in counts:
        current, code = own.at(now), code_of(own.cap, attributes)
        count = current.counts.get(code, 0)
        if count >= own.cap.count:
            return None
        found.append(CapCount(own.cap, current.end, {**current.counts, code: count + 1}))
    return tuple(found)


def changed_counts(counts: Iterable[CapCount], caps: Iterable[Cap]) -> CapCounts:
    """Return what has counted under changed caps.

    A cap keeps what counted in the same way, by `every` and `per`, so another `count` acts at once. Another one begins
    at 0. Nothing is taken back.

    >>> from datetime import timedelta
    >>> hourly = Cap(3, timedelta(hours=1))
    >>> before = counted(changed_counts((), [hourly]), {}, EARLIEST)
    >>> [own.counts for own in changed_counts(before, [Cap(9, timedelta(hours=1)), Cap(9, timedelta(hours=2))])]
    [{0: 1}, {}]
    """
    known = {(own.cap.every, own.cap.per): own for own in counts}
    return tuple(
        CapCount(cap) if (own := known.get((cap.every, cap.per))) is None else CapCount(cap, own.end, own.counts)
        for cap in caps
    )
