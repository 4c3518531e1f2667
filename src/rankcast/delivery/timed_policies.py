"""The policies that also decide when time passes: periodic and top-k in a window.

- periodic(k, T): half-open periods [nT, (n+1)T), counted from 1970; at the end of a period the best k of those that
  arrived in it and have `expires > (n+1)T`.
- topkw(k, window): whatever is among the best k at any instant while it lives. With a window of time an event lives on
  [time, min(time + w, expires)), the best k are looked at again at every departure, and all arrivals of one instant
  enter before it is evaluated. With a window of so many events, the oldest leaves as the newest enters; expired events
  leave when they expire and free their places.

With diversity the best k are those of a diverse selection among the same events, made at the same instants: at the end
of a period, and whenever something enters or leaves a window.

Papers: PrefSIENA for periods; top-k/w publish/subscribe for windows. Cost per instant: O(n log n) in the
events held, k * n distances with diversity.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from rankcast.delivery.candidates import Candidate, Delivered, chosen
from rankcast.delivery.queues import Moved, Queue
from rankcast.model.policies import Periodic, TopKWindow
from rankcast.model.times import LATEST

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def period_end(now: datetime, period: timedelta) -> datetime:
    """Return the end of the period that an instant lies in, or the end of time when that is sooner.

    >>> period_end(datetime(2026, 1, 1, 0, 30, tzinfo=UTC), timedelta(hours=1)).hour
    1
    """
    try:
        return EPOCH + ((now - EPOCH) // period + 1) * period  # not by way of its start, which may be before the year 1
    except OverflowError:
        return LATEST


def _plus(time: datetime, span: timedelta) -> datetime:
    """Return a later time, or the end of time when that is sooner."""
    return time + span if span < LATEST - time else LATEST


@dataclass(frozen=True, slots=True)
class PeriodicQueue(Queue):
    """Periodic delivery: what arrived in the current period, and when that ends."""

    policy: Periodic
    end: datetime | None = None
    arrivals: tuple[Candidate, ...] = ()

    def passed(self, now: datetime) -> Moved:
        """Deliver the best k of a period that has ended."""
        if self.end is None or now < self.end:
            return self, []
        valid = [one for one in self.arrivals if one.is_valid_at(self.end)]
        top = chosen(valid, self.policy.k, self.policy.diversity)
        return PeriodicQueue(self.policy), [Delivered(one, self.end) for one in top]

    def arrived(self, candidate: Candidate, now: datetime) -> Moved:
        """Keep the candidate until its period ends."""
        end = period_end(now, self.policy.period) if self.end is None else self.end
        return PeriodicQueue(self.policy, end, (*self.arrivals, candidate)), []

    @property
    def held(self) -> tuple[Candidate, ...]:
        """What arrived in the current period."""
        return self.arrivals

    @property
    def next_instant(self) -> datetime | None:
        """The end of the current period, once something has arrived in it."""
        return self.end


@dataclass(frozen=True, slots=True)
class TopKWindowQueue(Queue):
    """Top-k in a window: the events that live, in order of arrival, and which of them were delivered.

    `unseen` is an instant whose arrivals have entered but which has not been evaluated yet.
    """

    policy: TopKWindow
    living: tuple[Candidate, ...] = ()
    delivered: frozenset[Candidate] = frozenset()
    unseen: datetime | None = None

    def passed(self, now: datetime) -> Moved:
        """Evaluate, in order, the instants before `now` at which something entered or left."""
        queue, delivered = self, list[Delivered]()
        while (instant := queue.next_instant) is not None and instant < now:
            queue, more = queue._evaluated(instant)
            delivered += more
        return queue, delivered

    def arrived(self, candidate: Candidate, now: datetime) -> Moved:
        """Let the candidate enter; a window of so many events is evaluated at once, one of time when `now` is over."""
        if isinstance(self.policy.window, timedelta):
            if self.leaves(candidate) <= now:
                return self, []  # its end, in the past, would date back what else arrived at this instant
            return replace(self, living=(*self.living, candidate), unseen=now), []
        living = tuple(one for one in (*self.living, candidate) if one.is_valid_at(now))[-self.policy.window :]
        return replace(self, living=living, delivered=self.delivered & frozenset(living))._evaluated(now)

    def settled(self, now: datetime) -> Moved:
        """Evaluate `now` if something entered or leaves at it."""
        instant = self.next_instant
        return self._evaluated(now) if instant is not None and instant <= now else (self, [])

    def _evaluated(self, instant: datetime) -> tuple[TopKWindowQueue, list[Delivered]]:
        living = tuple(one for one in self.living if self.leaves(one) > instant)
        top = chosen(living, self.policy.k, self.policy.diversity)
        new = [one for one in top if one not in self.delivered]
        delivered = (self.delivered | frozenset(new)) & frozenset(living)
        queue = TopKWindowQueue(self.policy, living, delivered)
        return queue, [Delivered(one, instant) for one in new]

    def leaves(self, candidate: Candidate) -> datetime:
        """Return when a candidate leaves by itself. Nothing outlives the end of time, so nothing ends at it."""
        window = self.policy.window
        end = _plus(candidate.time, window) if isinstance(window, timedelta) else LATEST
        return end if candidate.expires is None else min(end, candidate.expires)

    @property
    def held(self) -> tuple[Candidate, ...]:
        """The events that live."""
        return self.living

    @property
    def next_instant(self) -> datetime | None:
        """The first instant that is due: one that waits to be evaluated, or the next departure."""
        ends = [end for one in self.living if (end := self.leaves(one)) < LATEST]
        instants = ends if self.unseen is None else [self.unseen, *ends]
        return min(instants, default=None)
