"""Who a subscriber was, is and will be, in event time: the rows of a subscriber table put in order.

A row says: from `start` on and before `end`, the subscriber is what this document says (or is not there, without one).
Of the rows that hold at an instant the one with the highest sequence counts and, among equals, the one that starts
last. So a table may be appended to (the newer row wins from its start on), may keep periods apart by itself, and may
override a subscriber for a while.

A timeline is what comes out: periods that follow each other, each with one document. Timelines, not rows, are what
versions of the subscribers are made of. When the rows change while a stream runs, the new timeline is spliced onto the
old one at the frontier, the first instant that no event has reached yet: what has been matched stays matched. So the
result is that of one timeline, whenever its parts became known, and a change that came too late is one that happens at
the frontier.

Times are microseconds since 1970. Documents are texts: equal texts are equal subscribers. Cost: a sort of the rows.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple, TypeAlias

from msgspec import structs

from rankcast.model.expressions import Constant
from rankcast.model.filters import Filter
from rankcast.model.subscriptions import Subscriber, Subscription
from rankcast.model.times import EPOCH, FIRST_INSTANT, NEVER, TICK, microseconds

ALWAYS = FIRST_INSTANT
"""The start of what has no start."""


class Revision(NamedTuple):
    """One row of a subscriber table about one subscriber; `document` is None where it is not there."""

    document: str | None
    start: int = ALWAYS
    end: int = NEVER
    sequence: int = 0


class Period(NamedTuple):
    """A subscriber is what `document` says at every instant from `start` on and before `end`."""

    start: int
    end: int
    document: str


Timeline: TypeAlias = tuple[Period, ...]


def timeline_of(revisions: Iterable[Revision]) -> Timeline:
    """Return the periods of one subscriber's revisions.

    >>> timeline_of([Revision("a"), Revision("b", start=10, end=20)])[1:]
    (Period(start=10, end=20, document='b'), Period(start=20, end=9223372036854775807, document='a'))
    """
    waiting = sorted((row for row in revisions if row.start < row.end), key=lambda row: row.start, reverse=True)
    holding: list[tuple[int, int, int, Revision]] = []
    periods: list[Period] = []
    now = ALWAYS
    while waiting or holding:
        while waiting and (waiting[-1].start <= now or not holding):
            row = waiting.pop()
            now = max(now, row.start)
            heapq.heappush(holding, (-row.sequence, -row.start, len(waiting), row))
        while holding and holding[0][-1].end <= now:
            heapq.heappop(holding)
        if not holding:
            continue
        best = holding[0][-1]
        until = min(best.end, waiting[-1].start) if waiting else best.end
        if best.document is not None:
            periods.append(Period(now, until, best.document))
        now = until
    return joined(periods)


def joined(periods: Iterable[Period]) -> Timeline:
    """Return periods, given in order, with those that only continue the one before them made part of it."""
    found: list[Period] = []
    for period in periods:
        if found and found[-1].end == period.start and found[-1].document == period.document:
            found[-1] = found[-1]._replace(end=period.end)
        else:
            found.append(period)
    return tuple(found)


def clipped(timeline: Timeline, start: int, end: int) -> Timeline:
    """Return what a timeline says from `start` on and before `end`."""
    return tuple(
        period._replace(start=max(period.start, start), end=min(period.end, end))
        for period in timeline
        if max(period.start, start) < min(period.end, end)
    )


def spliced(before: Timeline, after: Timeline, frontier: int) -> Timeline:
    """Return the timeline that is `before` up to the frontier and `after` from there on."""
    return joined((*clipped(before, ALWAYS, frontier), *clipped(after, frontier, NEVER)))


def missed(before: Timeline, after: Timeline, frontier: int) -> int | None:
    """Return the stated instant of a change that happens at the frontier because it came too late; None without one.

    What states no instant (a row without a start, a row that is gone from the table) is meant to happen right away.
    """
    if document_at(before, frontier) == document_at(after, frontier):
        return None
    stated = [period.start for period in after if ALWAYS < period.start <= frontier < period.end]
    if document_at(after, frontier) is None:
        stated = [period.end for period in after if period.end <= frontier]
    latest = max(stated, default=frontier)
    return None if latest == frontier else latest


def document_at(timeline: Timeline, time: int) -> str | None:
    """Return what a subscriber is at an instant; None when it is not there."""
    return next((period.document for period in timeline if period.start <= time < period.end), None)


def within(subscriber: Subscriber, period: Period) -> Subscriber:
    """Return a subscriber whose subscriptions are active in a period only.

    One that is not active in it at all stays, because priorities may name it, and matches nothing.
    """
    if period.start == ALWAYS and period.end == NEVER:
        return subscriber
    return structs.replace(subscriber, subscriptions=tuple(_within(own, period) for own in subscriber.subscriptions))


def _within(subscription: Subscription, period: Period) -> Subscription:
    own = ALWAYS if subscription.active_from is None else microseconds(subscription.active_from)
    start, end = max(own, period.start), min(microseconds(subscription.active_until), period.end)
    if start >= end:
        return structs.replace(subscription, filter=Filter.of(Constant(False)), active_from=None, active_until=None)
    return structs.replace(subscription, active_from=moment(start), active_until=moment(end))


def moment(time: int) -> datetime | None:
    """Return a time as a datetime; None for no start and for no end."""
    return None if time in (ALWAYS, NEVER) else EPOCH + time * TICK
