"""One window that many queues look at: top-k for subscriptions that have no filter, only a relevance function.

All queues of a `DenseWindow` have the same policy (sliding, or topkw over events or time, without diversity), relevance
functions of one shape, and one refresh time. So an event is in the window of all of them or of none, whatever it is
worth to each; a queue that came later has what arrived since. The window is kept once. A queue is a column of arrays: a
list of its best events and, for each event, whether it was delivered. An event is scored for all queues in one pass,
and only the queues to whose list it belongs, or from whose list something leaves, are touched (`kernels_dense`).

What is delivered, and what `frozen` gives back, is what `queues.step` gives for each queue alone, at any moment, with
ties, expiry and arrivals that share an instant (tested). Scores are kept for what is listed only: elsewhere they are
worked out again from the events' features, bit for bit the same.

Cost: per event one score and two comparisons per queue, and O(list) for the queues concerned. Memory: per queue 12
bytes for each of the k + 1.6 * tail events that are listed and a bit per event of the window; per event its features.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import NamedTuple, TypeAlias

import numpy as np

from rankcast.delivery.arrival_policies import SlidingQueue
from rankcast.delivery.batch_layout import EPOCH, LAST_INSTANT, NEVER, Array, microseconds
from rankcast.delivery.candidates import Candidate
from rankcast.delivery.dense_events import END, NUMBER, HeldEvent, SharedEvents
from rankcast.delivery.kernels_dense import CHANGED, FIRST, FREE, TRUNCATED, UNSEEN, evaluate, list_event, unlist_events
from rankcast.delivery.timed_policies import TopKWindowQueue
from rankcast.delivery.topkw_dense_lengths import queue_length
from rankcast.model.events import Event, Identity
from rankcast.model.policies import Policy, Sliding, TopKWindow
from rankcast.model.relevance import Relevance
from rankcast.model.times import TICK
from rankcast.ranking.dense import Features, RelevanceColumns, Shape
from rankcast.ranking.preferences import refreshed

MOST_K = 1000
"""Longer lists are not kept for every queue: such queues go one by one."""

TAIL_FACTOR = 1.6
"""As for the exact queue of `topkw_dense`: longer lists are made anew more rarely, but more events enter them."""

FEWEST_COLUMNS, FEWEST_FOUND = 64, 1024
NO_INSTANT = -NEVER
"""Before every time."""

WindowPolicy: TypeAlias = Sliding | TopKWindow
WindowQueue: TypeAlias = SlidingQueue | TopKWindowQueue


def is_dense(policy: Policy) -> bool:
    """Whether queues of a policy can share a window: those that choose the best few of a window by rank alone."""
    if not isinstance(policy, Sliding | TopKWindow) or policy.diversity is not None or policy.k > MOST_K:
        return False
    return isinstance(policy.window, timedelta) or policy.window > policy.k  # else all is delivered to everyone


class DenseDelivery(NamedTuple):
    """An event that a column delivers, its score there and the instant."""

    column: int
    event: Event
    score: float
    time: datetime


class DenseWindow:
    """A window and the queues that look at it, by column."""

    def __init__(self, policy: WindowPolicy, shape: Shape, refresh: timedelta | None = None) -> None:
        self.policy = policy
        self.shape = shape
        self.refresh = refresh
        self._events = SharedEvents(shape.parts)
        self._functions = RelevanceColumns(shape)
        self._columns = 0
        self._unused: list[int] = []
        self._unseen = NEVER
        room = max(1, math.ceil(policy.k + TAIL_FACTOR * (queue_length(policy.k) - policy.k)))
        self._slots = np.empty((0, room), np.int32)
        self._scores = np.empty((0, room))
        self._lines = np.empty((4, 0), np.int64)
        self._thresholds = np.empty(0)
        self._flags = np.empty(0, np.uint8)
        self._delivered = np.zeros((0, 0), np.uint8)

    def __len__(self) -> int:
        """How many queues there are."""
        return self._columns - len(self._unused)

    @property
    def next_instant(self) -> datetime | None:
        """When the window has something to do by itself."""
        instant = self._next_instant()
        return None if instant == NEVER else EPOCH + instant * TICK

    def has_seen(self, column: int, identity: Identity) -> bool:
        """Whether a queue holds an event of this identity."""
        slot = self._events.slot_of(identity)
        return slot is not None and bool(self._events.lines[NUMBER, slot] >= self._lines[FIRST, column])

    def holds(self, identity: Identity) -> bool:
        """Whether the window holds an event of this identity, for whichever queue."""
        return self._events.slot_of(identity) is not None

    def ranks(self, event: Event) -> Array | None:
        """Return what an event is worth to each column, NaN for nothing; None when it is to none of them.

        What columns that are not used have there means nothing. The array is good until the next call.
        """
        features = self.shape.features(event)
        return None if features is None else self._functions.ranks(features)

    # ------------------------------------------------------------------------------------------- queues come and go

    def join(
        self, function: Relevance, rank: float, factor: float, queue: WindowQueue, events: Mapping[Identity, Event]
    ) -> int | None:
        """Give a queue a column; None when what it holds is not what this window has had since some moment.

        `rank` is the preference rank and `factor` the weight in a weighted sum, else 1; `events` has what is held.
        Nothing of the queue may be due before the time that the window has reached.
        """
        held = queue.held
        unseen = microseconds(queue.unseen) if isinstance(queue, TopKWindowQueue) else NEVER
        if unseen != NEVER and self._unseen not in (NEVER, unseen):
            return None
        if not len(self._events) and not self._load(held, events):
            return None
        slots = self._events.slots()[max(0, len(self._events) - len(held)) :]
        if [_facts(one) for one in held] != [_facts(_candidate(self._events[slot], 0.0)) for slot in slots.tolist()]:
            return None
        column = self._unused.pop() if self._unused else self._new_column()
        self._functions.put(column, function, rank, factor)
        if self._ranks(column, slots).tolist() != [one.score for one in held]:
            self._unused.append(column)
            return None
        self._open(column, slots)
        for one, slot in zip(held, slots.tolist(), strict=True):
            if one in queue.delivered:
                self._delivered[slot, column >> 3] |= 1 << (column & 7)
        if unseen != NEVER:
            self._unseen = unseen
            self._flags[column] |= UNSEEN
        return column

    def leave(self, column: int) -> None:
        """Take a queue out."""
        self._close(column)
        self._unused.append(column)

    def frozen(self, column: int) -> WindowQueue:
        """Return a queue as it is now."""
        slots = self._slots_of(column)
        scores = self._ranks(column, slots).tolist()
        held = tuple(_candidate(self._events[slot], one) for slot, one in zip(slots.tolist(), scores, strict=True))
        was_delivered = (self._delivered[slots, column >> 3] >> (column & 7) & 1).tolist()
        delivered = frozenset(one for one, was in zip(held, was_delivered, strict=True) if was)
        if isinstance(self.policy, Sliding):
            return SlidingQueue(self.policy, held, delivered)
        unseen = EPOCH + self._unseen * TICK if self._flags[column] & UNSEEN else None
        return TopKWindowQueue(self.policy, held, delivered, unseen)

    def held(self, column: int) -> list[tuple[Event, float]]:
        """Return the events of a queue with their scores, in order of arrival."""
        slots = self._slots_of(column)
        scores = self._ranks(column, slots).tolist()
        return [(self._events[slot].event, score) for slot, score in zip(slots.tolist(), scores, strict=True)]

    def _load(self, held: tuple[Candidate, ...], events: Mapping[Identity, Event]) -> bool:
        """Let an empty window have what a queue holds; the queues that are here already have seen nothing of it."""
        found = [(events[one.identity], one, self.shape.features(events[one.identity])) for one in held]
        if any(refreshed(one.time, event.expires, self.refresh) != one.expires for event, one, _ in found):
            return False
        entering = [(event, one, features) for event, one, features in found if features is not None]
        if len(entering) < len(held):
            return False
        for event, one, features in entering:
            self._enter(HeldEvent(event, one.time, one.expires), features, self._end(one.time, one.expires))
        firsts = self._lines[FIRST, : self._columns]
        firsts[firsts != NEVER] = self._events.next_number
        return True

    def _new_column(self) -> int:
        column = self._columns
        if column == len(self._flags):
            more, room = max(FEWEST_COLUMNS, column), self._slots.shape[1]
            self._slots = np.concatenate((self._slots, np.empty((more, room), np.int32)))
            self._scores = np.concatenate((self._scores, np.empty((more, room))))
            self._lines = np.concatenate((self._lines, np.empty((4, more), np.int64)), axis=1)
            self._thresholds = np.concatenate((self._thresholds, np.empty(more)))
            self._flags = np.concatenate((self._flags, np.zeros(more, np.uint8)))
            bits = np.zeros((len(self._delivered), more // 8), np.uint8)
            self._delivered = np.concatenate((self._delivered, bits), axis=1)
        self._columns += 1
        self._close(column)
        return column

    def _close(self, column: int) -> None:
        self._lines[:, column] = 0, NEVER, NEVER, NEVER
        self._thresholds[column] = math.inf
        self._flags[column] = 0

    def _open(self, column: int, slots: Array) -> None:
        """Let a queue begin; one that holds something makes its list when it is next looked at."""
        first = self._events.lines[NUMBER, slots[0]] if len(slots) else self._events.next_number
        self._lines[:, column] = 0, first, NEVER, NEVER
        self._thresholds[column] = math.inf if len(slots) else -math.inf
        self._flags[column] = TRUNCATED | CHANGED if len(slots) else 0
        self._delivered[:, column >> 3] &= 255 - (1 << (column & 7))

    # --------------------------------------------------------------------------------------------- events come and go

    def passed(self, now: datetime, *, closed: bool) -> list[DenseDelivery]:
        """Let time pass; return what is delivered by itself before `now` or, when nothing more comes at it, at it."""
        instant, found = microseconds(now), list[DenseDelivery]()
        while (due := self._next_instant()) < instant:
            found += self._evaluated(due)
        if closed and self._next_instant() <= instant:
            found += self._evaluated(instant)
        return found

    def arrived(self, event: Event, ranks: Array, now: datetime, *, closed: bool) -> list[DenseDelivery]:
        """Let an event arrive that has these ranks, none of them NaN; return what is delivered."""
        found, instant = self.passed(now, closed=False), microseconds(now)
        time = event.time or now
        held = HeldEvent(event, time, refreshed(time, event.expires, self.refresh))
        if isinstance(self.policy.window, timedelta):
            if self._took(held, ranks, instant):
                self._unseen = instant
                self._flags[: self._columns] |= UNSEEN
            return found + self.passed(now, closed=closed)
        self._expire(instant)
        if self._took(held, ranks, instant) and len(self._events) > self.policy.window:
            self._drop([self._events.oldest()])
        return found + self._delivered_at(instant, FREE, everybody=True)

    def _took(self, held: HeldEvent, ranks: Array, instant: int) -> bool:
        """Let an event enter the window and the lists, unless its end has come already."""
        features, end = self.shape.features(held.event), self._end(held.time, held.expires)
        if features is None or end <= instant:
            return False
        slot = self._enter(held, features, end)
        times, ties, ends, numbers = self._events.lines
        list_event(slot, ranks, self.policy.k, times, ties, ends, numbers, *self._lists)
        return True

    def _evaluated(self, instant: int) -> list[DenseDelivery]:
        departed = self._expire(instant)
        found = self._delivered_at(instant, departed, everybody=False)
        self._unseen = NEVER
        self._flags[: self._columns] &= 255 - UNSEEN
        return found

    def _delivered_at(self, instant: int, departed: int, *, everybody: bool) -> list[DenseDelivery]:
        """Return what is new among the best k of the queues that something happens to."""
        found: list[DenseDelivery] = []
        time, start, room = EPOCH + instant * TICK, 0, max(FEWEST_FOUND, self.policy.k)
        columns, slots, scores = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room)
        who = (self._columns, departed, everybody, self.policy.k)
        functions = (self._functions.targets, self._functions.settings)
        times, ties, ends, numbers = self._events.lines
        while start < self._columns:
            start, written = evaluate(
                start,
                *who,
                self.shape.kind,
                self._events.features,
                self._events.lengths,
                *functions,
                times,
                ties,
                ends,
                numbers,
                *self._lists,
                self._delivered,
                columns,
                slots,
                scores,
            )
            rows = zip(*(column[:written].tolist() for column in (columns, slots, scores)), strict=True)
            found += (DenseDelivery(column, self._events[slot].event, score, time) for column, slot, score in rows)
        return found

    @property
    def _lists(self) -> tuple[Array, Array, Array, Array, Array]:
        return self._slots, self._scores, self._lines, self._thresholds, self._flags

    def _expire(self, instant: int) -> int:
        """Let everything leave whose end has come; return the last number among that."""
        gone = self._events.ended(instant)
        return self._drop(gone, instant) if gone else FREE

    def _drop(self, gone: list[int], instant: int = NO_INSTANT) -> int:
        """Let events leave: those that end by an instant, or the oldest; return the last number among them."""
        ends, numbers = self._events.lines[END], self._events.lines[NUMBER]
        last = int(numbers[gone].max())
        oldest = last if instant == NO_INSTANT else FREE
        unlist_events(self._columns, instant, oldest, self.policy.k, ends, numbers, *self._lists)
        self._events.remove(gone)
        return last

    def _enter(self, held: HeldEvent, features: Features, end: int) -> int:
        slot = self._events.enter(held, features, end)
        more = self._events.lines.shape[1] - len(self._delivered)
        if more:
            bits = np.zeros((more, self._delivered.shape[1]), np.uint8)
            self._delivered = np.concatenate((self._delivered, bits))
        self._delivered[slot] = 0
        return slot

    def _next_instant(self) -> int:
        if isinstance(self.policy, Sliding):  # which looks at its window when an event arrives, and only then
            return NEVER
        return min(self._unseen, self._events.next_end())

    def _end(self, time: datetime, expires: datetime | None) -> int:
        """Return when an event leaves by itself: from a sliding window only when it expires."""
        if isinstance(self.policy, Sliding):
            return microseconds(expires)
        window, end = self.policy.window, LAST_INSTANT
        if isinstance(window, timedelta):
            end = min(end, microseconds(time) + window // TICK)
        return min(end, microseconds(expires))

    def _slots_of(self, column: int) -> Array:
        slots = self._events.slots()
        chosen: Array = slots[self._events.lines[NUMBER, slots] >= self._lines[FIRST, column]]
        return chosen

    def _ranks(self, column: int, slots: Array) -> Array:
        return self._functions.ranks_of(column, self._events.features, self._events.lengths, slots)


def _candidate(held: HeldEvent, score: float) -> Candidate:
    return Candidate(held.event.identity, held.time, score, held.expires)


def _facts(one: Candidate) -> tuple[Identity, datetime, datetime | None]:
    return one.identity, one.time, one.expires
