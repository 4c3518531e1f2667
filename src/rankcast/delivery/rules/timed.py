"""The policies that also decide when time passes: periodic and top-k in a window.

- periodic(k, T): half-open periods [nT, (n+1)T), counted from 1970; at the end of a period the best k of those that
  arrived in it and have `expires > (n+1)T`.
- topkw(k, window): whatever is among the best k at any instant while it lives. With a window of time an event lives on
  [time, min(time + w, expires)), the best k are looked at again at every departure, and all arrivals of one instant
  enter before it is evaluated. With a window of so many events, the oldest leaves as the newest enters; an expired
  event leaves when it expires, but keeps its place: it is still one of the w most recent.

With diversity the best k are those of a diverse selection among the same events, made at the same instants: at the end
of a period, and whenever something enters or leaves a window.

A queue holds what can still be among its best k, delivered or not, and no more (`candidates.needed`): of a period the
best k of those that are valid at its end; of a window all that fewer than k others precede and outstay. A diverse
selection needs all of its period or window. An event that has expired when it arrives changes nothing.

Papers: PrefSIENA for periods; top-k/w publish/subscribe for windows. Cost per instant: O(n^2) in the events held,
k(1 + ln(w/k)) of a window of w on average; k * n distances with diversity.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from rankcast.delivery.rules.queues import Candidate, Delivered, Moved, Queue, best, chosen, needed
from rankcast.model.events import Identity
from rankcast.model.policies import Periodic, TopKWindow
from rankcast.model.times import EPOCH, LATEST


def period_end(now: datetime, period: timedelta) -> datetime:
    """Return the end of the period that an instant lies in, or the end of time when that is sooner.

    >>> from datetime import UTC
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
    """Periodic delivery: what the current period may deliver, and when that ends; no end while it has nothing."""

    policy: Periodic
    end: datetime | None = None
    arrivals: tuple[Candidate, ...] = ()

    def passed(self, now: datetime) -> Moved:
        """Deliver the best k of a period that has ended."""
        if self.end is None or now < self.end:
            return self, []
        top = chosen(self.arrivals, self.policy.k, self.policy.diversity)
        return PeriodicQueue(self.policy), [Delivered(one, self.end) for one in top]

    def arrived(self, candidate: Candidate, now: datetime) -> Moved:
        """Keep the candidate until its period ends, if it may be delivered then."""
        if not candidate.is_valid_at(now):
            return self, []
        end = period_end(now, self.policy.period) if self.end is None else self.end
        return replace(self, end=end, arrivals=(*self.arrivals, candidate)).with_what_is_needed(), []

    def with_what_is_needed(self) -> PeriodicQueue:
        """Hold only what the period may deliver: its best k of what is valid at its end, all of that with diversity."""
        arrivals = tuple(one for one in self.arrivals if self.end is not None and one.is_valid_at(self.end))
        if self.policy.diversity is None:
            top = {one.identity for one in best(arrivals, self.policy.k)}
            arrivals = tuple(one for one in arrivals if one.identity in top)
        return PeriodicQueue(self.policy, self.end if arrivals else None, arrivals)

    @property
    def held(self) -> tuple[Candidate, ...]:
        """What the current period may deliver."""
        return self.arrivals

    def held_at(self, now: datetime) -> tuple[Candidate, ...]:
        """Return what the current period may deliver, if it has not ended by `now`."""
        return self.arrivals if self.end is not None and now < self.end else ()

    @property
    def next_instant(self) -> datetime | None:
        """The end of the current period, once it has something to deliver."""
        return self.end


@dataclass(frozen=True, slots=True)
class TopKWindowQueue(Queue):
    """Top-k in a window: what is needed of the events that live, in order of arrival, and which were delivered.

    `entered` counts the events that entered; `unseen` is an instant whose arrivals have entered but which has not been
    evaluated yet.
    """

    policy: TopKWindow
    living: tuple[Candidate, ...] = ()
    delivered: frozenset[Identity | int] = frozenset()
    unseen: datetime | None = None
    entered: int = 0

    def passed(self, now: datetime) -> Moved:
        """Evaluate, in order, the instants before `now` at which something entered or left."""
        queue, delivered = self, list[Delivered]()
        while (instant := queue.next_instant) is not None and instant < now:
            queue, more = queue._evaluated(instant)
            delivered += more
        return queue, delivered

    def arrived(self, candidate: Candidate, now: datetime) -> Moved:
        """Let what lives no longer leave, then the candidate enter.

        A window of so many events is evaluated at once, one of time when `now` is over.
        """
        if not candidate.is_valid_at(now) or (
            isinstance(self.policy.window, timedelta) and self.leaves(candidate) <= now
        ):
            return self, []
        queue = replace(self, entered=self.entered + 1).without_departed(now)
        entering = replace(candidate, arrival=queue.entered)
        if isinstance(self.policy.window, timedelta):
            return replace(queue, living=(*queue.living, entering), unseen=now).with_what_is_needed(), []
        return replace(queue, living=(*queue._inside(queue.living), entering))._evaluated(now)

    def settled(self, now: datetime) -> Moved:
        """Evaluate `now` if something entered or leaves at it."""
        instant = self.next_instant
        return self._evaluated(now) if instant is not None and instant <= now else (self, [])

    def _evaluated(self, instant: datetime) -> tuple[TopKWindowQueue, list[Delivered]]:
        queue = self.without_departed(instant)
        top = chosen(queue.living, self.policy.k, self.policy.diversity)
        new = [one for one in top if one.identity not in queue.delivered]
        delivered = queue.delivered | {one.identity for one in new}
        queue = replace(queue, delivered=delivered, unseen=None).with_what_is_needed()
        return queue, [Delivered(one, instant) for one in new]

    def without_departed(self, instant: datetime) -> TopKWindowQueue:
        """Let what lives no longer leave."""
        living = tuple(one for one in self.living if self.leaves(one) > instant)
        return replace(self, living=living, delivered=self.delivered & {one.identity for one in living})

    def with_what_is_needed(self) -> TopKWindowQueue:
        """Hold nothing outside the window and nothing that can no longer be among the best k."""
        living = self._inside(self.living)
        if self.policy.diversity is None:
            living = needed(living, self.policy.k, self._stays_no_shorter)
        held = {one.identity for one in living}
        return replace(self, living=living, delivered=self.delivered & held, unseen=self.unseen if living else None)

    def _inside(self, living: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
        """Return what a window of so many events has room for: the most recent, whether those after are held or not."""
        if isinstance(self.policy.window, timedelta):
            return living
        oldest = self.entered - self.policy.window + 1
        return tuple(one for one in living if one.arrival >= oldest)

    def _stays_no_shorter(self, one: Candidate, other: Candidate) -> bool:
        if isinstance(self.policy.window, timedelta):
            return self.leaves(one) >= self.leaves(other)
        return one.arrival > other.arrival and one.outlives(other)

    def leaves(self, candidate: Candidate) -> datetime:
        """Return when a candidate leaves by itself. Nothing outlives the end of time, so nothing ends at it."""
        window = self.policy.window
        end = _plus(candidate.time, window) if isinstance(window, timedelta) else LATEST
        return end if candidate.expires is None else min(end, candidate.expires)

    @property
    def held(self) -> tuple[Candidate, ...]:
        """What is needed of the events that live."""
        return self.living

    def held_at(self, now: datetime) -> tuple[Candidate, ...]:
        """Return what is needed of the events that live at `now`."""
        return tuple(one for one in self.living if self.leaves(one) > now)

    @property
    def next_instant(self) -> datetime | None:
        """The first instant that is due: one that waits to be evaluated, or the next departure."""
        ends = [end for one in self.living if (end := self.leaves(one)) < LATEST]
        instants = ends if self.unseen is None else [self.unseen, *ends]
        return min(instants, default=None)
