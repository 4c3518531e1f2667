"""Queues that move in place: what `queues.step` gives, at a cost that does not grow with the window.

`running(queue)` takes over an immutable queue; `move` does what `step` does, and `frozen` gives the immutable queue
back, so that snapshots, forecasts and changes of policy have one form to deal with. A queue moved either way gives the
same deliveries and the same state (tested); identities in a queue are different from each other.

- windows keep their events in a sorted list besides the order of arrival, and departures in a heap;
- continuous delivery keeps, for every event, by how many others it is outranked and outlived. Whatever such an event
  itself outranks and outlives has left already, or leaves with it, so the counts never have to be corrected;
- periods collect;
- with diversity, windows keep their selection for as long as it stands (`standing_selection`).

Cost per arrival: O(log n) comparisons, one shift in a list of n, and k looks at the best; freezing is O(n).
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import count
from typing import Protocol

from rankcast.delivery.arrival_policies import ContinuousQueue, SlidingQueue
from rankcast.delivery.candidates import Candidate, Delivered, place
from rankcast.delivery.queues import Queue, step
from rankcast.delivery.standing_selection import StandingSelection
from rankcast.delivery.timed_policies import PeriodicQueue, TopKWindowQueue, period_end
from rankcast.model.events import Identity
from rankcast.model.policies import Continuous, Periodic, Sliding, TopKWindow
from rankcast.model.times import LATEST

SPARE = 16
"""Departures of what has left already that a heap may hold, besides one for every event that is held."""


class RunningQueue(Protocol):
    """A queue that moves in place."""

    def move(self, candidate: Candidate | None, now: datetime, *, closed: bool = True) -> list[Delivered]:
        """Let time pass to `now` and one candidate arrive, or none; return what is delivered, in order."""

    def frozen(self) -> Queue:
        """Return the queue as it is now."""

    @property
    def next_instant(self) -> datetime | None:
        """When the queue has something to do by itself."""

    def __len__(self) -> int:
        """Return how many candidates are held."""

    def __contains__(self, identity: object) -> bool:
        """Whether an event of this identity is held."""

    def __iter__(self) -> Iterator[Identity]:
        """Give the identities of what is held."""


def running(queue: Queue) -> RunningQueue:
    """Return a queue that moves on in place from where an immutable one is."""
    match queue:
        case ContinuousQueue():
            return _RunningContinuous(queue)
        case SlidingQueue():
            return _RunningSliding(queue)
        case PeriodicQueue():
            return _RunningPeriodic(queue)
        case TopKWindowQueue():
            return _RunningTopKWindow(queue)
    return _Stepping(queue)


class _Stepping:
    """A queue that moves by `step`."""

    __slots__ = ("queue",)

    def __init__(self, queue: Queue) -> None:
        self.queue = queue

    def move(self, candidate: Candidate | None, now: datetime, *, closed: bool = True) -> list[Delivered]:
        self.queue, delivered = step(self.queue, candidate, now, closed=closed)
        return delivered

    def frozen(self) -> Queue:
        return self.queue

    @property
    def next_instant(self) -> datetime | None:
        return self.queue.next_instant

    def __len__(self) -> int:
        return len(self.queue.held)

    def __contains__(self, identity: object) -> bool:
        return any(one.identity == identity for one in self.queue.held)

    def __iter__(self) -> Iterator[Identity]:
        return (one.identity for one in self.queue.held)


class _RunningPeriodic:
    """What arrived in the current period."""

    __slots__ = ("arrivals", "end", "policy")

    def __init__(self, queue: PeriodicQueue) -> None:
        self.policy: Periodic = queue.policy
        self.end = queue.end
        self.arrivals = {one.identity: one for one in queue.arrivals}

    def move(self, candidate: Candidate | None, now: datetime, *, closed: bool = True) -> list[Delivered]:
        delivered: list[Delivered] = []
        if self.end is not None and now >= self.end:
            _, delivered = self.frozen().passed(now)
            self.end, self.arrivals = None, {}
        if candidate is not None:
            self.end = period_end(now, self.policy.period) if self.end is None else self.end
            self.arrivals[candidate.identity] = candidate
        return delivered

    def frozen(self) -> PeriodicQueue:
        return PeriodicQueue(self.policy, self.end, tuple(self.arrivals.values()))

    @property
    def next_instant(self) -> datetime | None:
        return self.end

    def __len__(self) -> int:
        return len(self.arrivals)

    def __contains__(self, identity: object) -> bool:
        return identity in self.arrivals

    def __iter__(self) -> Iterator[Identity]:
        return iter(self.arrivals)


class _Window:
    """Events in order of arrival and in order of rank, which of them were delivered, and when each leaves by itself."""

    __slots__ = ("_ends", "_numbers", "_order", "_selection", "delivered", "held")

    def __init__(
        self, held: tuple[Candidate, ...], delivered: frozenset[Candidate], policy: Sliding | TopKWindow
    ) -> None:
        self.held = OrderedDict((one.identity, one) for one in held)
        self.delivered = {one.identity for one in delivered}
        self._order = sorted((*place(one), one) for one in held)
        self._ends: list[tuple[datetime, int, Candidate]] = []
        self._numbers = count()
        self._selection = None if policy.diversity is None else StandingSelection(policy.k, policy.diversity)

    def enter(self, candidate: Candidate, end: datetime | None) -> None:
        """Let a candidate enter, which leaves by itself at `end`, if at all."""
        self.held[candidate.identity] = candidate
        insort(self._order, (*place(candidate), candidate))
        if self._selection is not None:
            self._selection.entered(candidate)
        self.ends_at(candidate, end)

    def ends_at(self, candidate: Candidate, end: datetime | None) -> None:
        """Take note of when a candidate leaves by itself; at the end of time everything does."""
        if end is None or end == LATEST:
            return
        heapq.heappush(self._ends, (end, next(self._numbers), candidate))
        if len(self._ends) > SPARE + 2 * len(self.held):  # most are of candidates that have left in another way
            self._ends = [entry for entry in self._ends if self._is_held(entry[2])]
            heapq.heapify(self._ends)

    def _is_held(self, candidate: Candidate) -> bool:
        return self.held.get(candidate.identity) is candidate

    def leave(self, candidate: Candidate) -> None:
        """Let a candidate leave."""
        del self.held[candidate.identity]
        del self._order[bisect_left(self._order, place(candidate))]
        self.delivered.discard(candidate.identity)
        if self._selection is not None:
            self._selection.left(candidate)

    def leave_first(self) -> None:
        """Let the candidate leave that has been here for longest."""
        self.leave(next(iter(self.held.values())))

    def expire(self, now: datetime) -> None:
        """Let everything leave whose end has come."""
        while self._ends and self._ends[0][0] <= now:
            candidate = heapq.heappop(self._ends)[2]
            if self._is_held(candidate):
                self.leave(candidate)
        if now == LATEST:
            for candidate in [one for one in self.held.values() if self.ends_with_time(one)]:
                self.leave(candidate)

    def ends_with_time(self, _: Candidate) -> bool:
        """Whether a candidate that is still here leaves at the end of time."""
        return True

    def next_end(self) -> datetime | None:
        """Return when the next candidate leaves by itself."""
        while self._ends:
            end, _, candidate = self._ends[0]
            if self._is_held(candidate):
                return end
            heapq.heappop(self._ends)
        return None

    def deliver(self, k: int, instant: datetime) -> list[Delivered]:
        """Deliver what is among the best k and was not delivered."""
        if len(self.delivered) == len(self.held):
            return []
        best = (
            [entry[3] for entry in self._order[:k]]
            if self._selection is None
            else self._selection.among(self.held.values())
        )
        new = [one for one in best if one.identity not in self.delivered]
        self.delivered.update(one.identity for one in new)
        return [Delivered(one, instant) for one in new]

    def contents(self) -> tuple[tuple[Candidate, ...], frozenset[Candidate]]:
        """Return what is held, in order of arrival, and which of it was delivered."""
        return tuple(self.held.values()), frozenset(self.held[identity] for identity in self.delivered)

    def __len__(self) -> int:
        return len(self.held)

    def __contains__(self, identity: object) -> bool:
        return identity in self.held

    def __iter__(self) -> Iterator[Identity]:
        return iter(self.held)


class _RunningSliding(_Window):
    """A window of so many events, looked at when one arrives."""

    __slots__ = ("policy",)

    def __init__(self, queue: SlidingQueue) -> None:
        super().__init__(queue.recent, queue.delivered, queue.policy)
        self.policy: Sliding = queue.policy
        for one in queue.recent:
            self.ends_at(one, one.expires)

    def move(self, candidate: Candidate | None, now: datetime, *, closed: bool = True) -> list[Delivered]:
        if candidate is None:
            return []
        self.expire(now)
        if candidate.is_valid_at(now):
            self.enter(candidate, candidate.expires)
            if len(self.held) > self.policy.window:
                self.leave_first()
        return self.deliver(self.policy.k, now)

    def ends_with_time(self, candidate: Candidate) -> bool:
        return candidate.expires is not None

    def frozen(self) -> SlidingQueue:
        return SlidingQueue(self.policy, *self.contents())

    @property
    def next_instant(self) -> datetime | None:
        return None


class _RunningTopKWindow(_Window):
    """A window of time or of so many events, looked at whenever something enters or leaves."""

    __slots__ = ("policy", "unseen")

    def __init__(self, queue: TopKWindowQueue) -> None:
        super().__init__(queue.living, queue.delivered, queue.policy)
        self.policy: TopKWindow = queue.policy
        self.unseen = queue.unseen
        for one in queue.living:
            self.ends_at(one, self._end(one))

    def move(self, candidate: Candidate | None, now: datetime, *, closed: bool = True) -> list[Delivered]:
        delivered: list[Delivered] = []
        while (instant := self.next_instant) is not None and instant < now:
            delivered += self._evaluated(instant)
        if candidate is not None:
            delivered += self._arrived(candidate, now)
        if closed and (instant := self.next_instant) is not None and instant <= now:
            delivered += self._evaluated(now)
        return delivered

    def _arrived(self, candidate: Candidate, now: datetime) -> list[Delivered]:
        end = self._end(candidate)
        if isinstance(self.policy.window, timedelta):
            if end > now:
                self.enter(candidate, end)
                self.unseen = now
            return []
        self.expire(now)
        if end > now:
            self.enter(candidate, end)
            if len(self.held) > self.policy.window:
                self.leave_first()
        return self._evaluated(now)

    def _evaluated(self, instant: datetime) -> list[Delivered]:
        self.expire(instant)
        self.unseen = None
        return self.deliver(self.policy.k, instant)

    def _end(self, candidate: Candidate) -> datetime:
        window, end = self.policy.window, LATEST
        if isinstance(window, timedelta) and window < LATEST - candidate.time:
            end = candidate.time + window
        return end if candidate.expires is None else min(end, candidate.expires)

    def frozen(self) -> TopKWindowQueue:
        return TopKWindowQueue(self.policy, *self.contents(), self.unseen)

    @property
    def next_instant(self) -> datetime | None:
        end = self.next_end()
        if end is None or self.unseen is None:
            return self.unseen if end is None else end
        return min(end, self.unseen)


class _Shown:
    """A delivered event of continuous delivery, and how many others outrank and outlive it."""

    __slots__ = ("better", "candidate")

    def __init__(self, candidate: Candidate, better: int = 0) -> None:
        self.candidate = candidate
        self.better = better


class _RunningContinuous:
    """The delivered events that can still hold back another one."""

    __slots__ = ("_ends", "_loaded", "_number", "_order", "policy", "shown")

    def __init__(self, queue: ContinuousQueue) -> None:
        self.policy: Continuous = queue.policy
        self.shown: dict[Identity, _Shown] = {}
        self._order: list[tuple[float, timedelta, Identity, _Shown]] = []
        self._ends: list[tuple[datetime, int, _Shown]] = []
        self._number = 0
        for one in queue.delivered:
            self._show(one)
        self._loaded = True

    def move(self, candidate: Candidate | None, now: datetime, *, closed: bool = True) -> list[Delivered]:
        if candidate is None:
            return []
        while self._ends and self._ends[0][0] <= now:
            gone = heapq.heappop(self._ends)
            if self._is_shown(gone[2]):
                self._hide(gone[2])
        higher = bisect_left(self._order, (-candidate.score,))
        if not candidate.is_valid_at(now) or higher >= self.policy.k:
            return []
        changed = self._show(candidate)
        if self._loaded:  # under another k before, perhaps
            changed, self._loaded = [entry[-1] for entry in self._order], False
        for one in changed:
            if one.better >= self.policy.k:
                self._hide(one)
        return [Delivered(candidate, now)]

    def _show(self, candidate: Candidate) -> list[_Shown]:
        """Take in a delivered event; return it and those that it outranks and outlives."""
        at = bisect_left(self._order, place(candidate))
        better = sum(entry[-1].candidate.outlives(candidate) for entry in self._order[:at])
        outdone = [entry[-1] for entry in self._order[at:] if candidate.outlives(entry[-1].candidate)]
        for one in outdone:
            one.better += 1
        shown = self.shown[candidate.identity] = _Shown(candidate, better)
        self._order.insert(at, (*place(candidate), shown))
        if candidate.expires is not None:
            heapq.heappush(self._ends, (candidate.expires, self._number, shown))
            if len(self._ends) > SPARE + 2 * len(self.shown):
                self._ends = [entry for entry in self._ends if self._is_shown(entry[2])]
                heapq.heapify(self._ends)
        self._number += 1
        return [*outdone, shown]

    def _is_shown(self, one: _Shown) -> bool:
        return self.shown.get(one.candidate.identity) is one

    def _hide(self, one: _Shown) -> None:
        del self.shown[one.candidate.identity]
        del self._order[bisect_left(self._order, place(one.candidate))]

    def frozen(self) -> ContinuousQueue:
        return ContinuousQueue(self.policy, tuple(one.candidate for one in self.shown.values()))

    @property
    def next_instant(self) -> datetime | None:
        return None

    def __len__(self) -> int:
        return len(self.shown)

    def __contains__(self, identity: object) -> bool:
        return identity in self.shown

    def __iter__(self) -> Iterator[Identity]:
        return iter(self.shown)
