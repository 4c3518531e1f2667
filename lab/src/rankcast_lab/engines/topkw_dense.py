"""Top-k in a count window for many subscriptions that have no filter, only an ideal point.

Every event competes for every subscription, so the cross product of both is worked off in blocks inside a kernel and
only deliveries come out. Events are numbered from 0 in the order of publication; an event is delivered at the first
instant, the number of the event that then arrives, at which it is among the best k of the last `window` events: by
distance to the ideal point, then newer. Distances are those of `rankcast.ranking.relevance`, bit by bit.

Three queues with one meaning: the exact one (the default), the k-skyband (exact, without a raw window, slow), and the
paper's bounded queue, which is right with a probability only, and only on independent scores. With k = 0 nothing is
delivered, with a window of at most k everything on arrival; in a window without end nothing ever leaves, so all three
are the k best. Time windows are not here: use the queues of `rankcast.delivery.rules.policies`.

Paper: top-k/w publish/subscribe. Cost of the exact queue: one distance per event and subscription in vector registers,
plus the work on the few events that pass a subscription's threshold; see `topkw_dense_exact`. Memory per subscription:
20 bytes per entry of its list and one or two bits per event of the window; the raw window is stored once for all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rankcast.arrays import Array
from rankcast.model.errors import InvalidEventError, InvalidSubscriptionError, shown
from rankcast.model.policies import check_count
from rankcast_lab.engines.topkw_dense_exact import NEVER, run_exact
from rankcast_lab.engines.topkw_dense_lengths import SIGMA, queue_length
from rankcast_lab.engines.topkw_dense_queues import run_bounded, run_skyband

BLOCK = 16384
"""Events that are worked off for one subscription after the other: their coordinates stay in the caches."""

SKYBAND_BLOCK = 256
"""The same for the skyband, whose entries may grow by as many."""

ROOM = 1 << 16
"""Deliveries that one call of a kernel has room for, at least."""

TAIL_FACTOR = 1.6
"""How much longer than the bounded queue's the tail of the exact list is: rebuilds are rarer, but more events enter."""


class QueueKind(Enum):
    """How a subscription's best events are kept."""

    EXACT = "exact"
    BOUNDED = "bounded"
    SKYBAND = "skyband"


@dataclass(frozen=True, slots=True)
class Deliveries:
    """Columns of equal length: subscription, event, and instant (the number of the event that then arrived)."""

    subscription: Array
    event: Array
    instant: Array

    def __len__(self) -> int:
        return len(self.event)

    def in_order(self) -> Deliveries:
        """Return the same deliveries by instant, then subscription."""
        order = np.lexsort((self.subscription, self.instant))
        return Deliveries(self.subscription[order], self.event[order], self.instant[order])

    @staticmethod
    def joined(parts: list[Deliveries]) -> Deliveries:
        """Return several batches of deliveries as one."""
        none = np.empty(0, np.int64)
        subscriptions = [part.subscription for part in parts] or [none.astype(np.int32)]
        events = [part.event for part in parts] or [none]
        instants = [part.instant for part in parts] or [none]
        return Deliveries(np.concatenate(subscriptions), np.concatenate(events), np.concatenate(instants))


class DenseTopKWindow:
    """The queues of many ideal points with the same k and window of events (None: without end).

    >>> engine = DenseTopKWindow([[0.0, 0.0], [1.0, 1.0]], k=1, window=2)
    >>> found = engine.publish([[0.1, 0.1], [0.9, 0.9], [0.8, 0.8]]).in_order()
    >>> list(zip(found.subscription.tolist(), found.event.tolist(), found.instant.tolist()))
    [(0, 0, 0), (1, 0, 0), (1, 1, 1), (0, 2, 2)]
    """

    def __init__(
        self,
        ideals: ArrayLike,
        *,
        k: int,
        window: int | None,
        weights: ArrayLike | None = None,
        scales: ArrayLike | None = None,
        queue: QueueKind = QueueKind.EXACT,
        sigma: float = SIGMA,
    ) -> None:
        check_count("k", k, at_least=0)
        if window is not None:
            check_count("window", window, at_least=1)
        if not 0 < sigma < 1:
            raise InvalidSubscriptionError(f"sigma: {shown(sigma)} is not a probability between 0 and 1")
        self.ideals = _points("ideals", ideals)
        self.weights = _positive("weights", weights, self.ideals)
        self.scales = _positive("scales", scales, self.ideals)
        self.k, self.window, self.queue = k, window, queue
        self.published = 0
        self.rebuilds = np.zeros(1, np.int64)
        self._span = NEVER if window is None else window
        self._length = queue_length(k, sigma)
        self._block = SKYBAND_BLOCK if self._kind is QueueKind.SKYBAND else BLOCK
        self._plain = self.ideals.shape[1] == 2 and bool((self.weights == 1).all() and (self.scales == 1).all())
        self._columns = np.empty((self.ideals.shape[1], 0))
        self._base = 0
        if not self._is_trivial:
            self._allocate()

    @property
    def _kind(self) -> QueueKind:
        return QueueKind.EXACT if self.window is None else self.queue

    @property
    def _is_trivial(self) -> bool:
        """Whether nothing or everything is delivered."""
        return self.k == 0 or self._span <= self.k

    @property
    def capacity(self) -> int:
        """Entries that a queue holds at most, except the skyband, which grows."""
        if self._kind is QueueKind.BOUNDED:
            return max(self.k, self._length)
        wanted = self.k if self.window is None else math.ceil(self.k + TAIL_FACTOR * (self._length - self.k))
        return min(self._span, wanted)

    def sizes(self) -> Array:
        """Return how many entries the queue of each subscription holds now."""
        return np.zeros(len(self.ideals), np.int64) if self._is_trivial else self._sizes.copy()

    def publish(self, points: ArrayLike) -> Deliveries:
        """Let events arrive one after the other, and return what is delivered: per block, by subscription and instant.

        A call that raises has changed nothing.
        """
        arrived = _points("points", points, InvalidEventError)
        if arrived.shape[1] != self.ideals.shape[1]:
            raise InvalidEventError(f"points: {arrived.shape[1]} dimensions; expected {self.ideals.shape[1]}")
        columns = np.ascontiguousarray(arrived.T)
        self._check_reach(columns)
        return Deliveries.joined(list(self._batches(columns)))

    def _check_reach(self, columns: Array) -> None:
        """Raise when a distance could be beyond every float: such an event has no relevance."""
        if not columns.shape[1] or not len(self.ideals):
            return
        with np.errstate(over="ignore"):
            farthest = np.maximum(columns.max(axis=1), -columns.min(axis=1)) + np.abs(self.ideals).max(axis=0)
            reach = (self.weights.max(axis=0) * (farthest / self.scales.min(axis=0)) ** 2).sum()
        if not np.isfinite(reach):
            raise InvalidEventError("points: a distance to an ideal point may be beyond the largest float")

    def _batches(self, columns: Array) -> Iterator[Deliveries]:
        for first in range(0, columns.shape[1], self._block):
            block = columns[:, first : first + self._block]
            count = block.shape[1]
            if self._is_trivial:
                yield self._all(count) if self.k else Deliveries.joined([])
            else:
                self._append(block)
                yield from self._run(count)
            self.published += count

    def _all(self, count: int) -> Deliveries:
        events = np.arange(self.published, self.published + count)
        subscriptions = np.repeat(np.arange(len(self.ideals), dtype=np.int32), count)
        tiled = np.tile(events, len(self.ideals))
        return Deliveries(subscriptions, tiled, tiled)

    def _append(self, block: Array) -> None:
        """Store coordinates behind the raw window; what left the window goes when room is short."""
        at, count = self.published - self._base, block.shape[1]
        if at + count > self._columns.shape[1]:
            kept = min(at, self._span) if self._kind is QueueKind.EXACT and self.window is not None else 0
            self._columns[:, :kept] = self._columns[:, at - kept : at].copy()
            self._base = self.published - kept
            at = kept
        self._columns[:, at : at + count] = block

    def _run(self, count: int) -> Iterator[Deliveries]:
        subscription = 0
        deliveries = np.empty((max(ROOM, count), 2), np.int64)
        while subscription < len(self.ideals):
            counts = np.zeros(len(self.ideals), np.int64)
            subscription = self._call(count, subscription, deliveries, counts)
            found = deliveries[: counts.sum()].copy()
            owners = np.repeat(np.arange(len(self.ideals), dtype=np.int32), counts)
            yield Deliveries(owners, found[:, 0], found[:, 1])

    def _call(self, count: int, subscription: int, deliveries: Array, counts: Array) -> int:
        """Call the kernel of the queue; it returns the first subscription that has not been served."""
        events = (self._columns, self._base, self.published, self.published + count)
        wanted = (self.ideals, self.weights, self.scales, self._plain, self.k, self._span)
        work: tuple[Any, ...] = (*events, *wanted)
        entries: tuple[Any, ...] = (self._events, self._distances)
        result: tuple[Any, ...] = (subscription, deliveries, counts)
        if self._kind is QueueKind.EXACT:
            entries = (*entries, self._order, self._sizes, self._thresholds, self._bits)
            arguments = (*work, self.capacity, *entries, *result, self.rebuilds)
            return run_exact(*arguments)
        entries = (*entries, self._marks, self._sizes, self._oldest)
        if self._kind is QueueKind.BOUNDED:
            arguments = (*work, self.capacity, *entries, *result)
            return run_bounded(*arguments)
        arguments = (*work, *entries, *result)
        served = run_skyband(*arguments)
        if served == subscription:
            self._grow()
        return served

    def _allocate(self) -> None:
        subscriptions = len(self.ideals)
        room = self.capacity + 1
        self._events = np.empty((subscriptions, room), np.int64)
        self._distances = np.empty((subscriptions, room))
        self._sizes = np.zeros(subscriptions, np.int64)
        if self._kind is QueueKind.EXACT:
            window = 0 if self.window is None else self.window
            self._columns = np.empty((self.ideals.shape[1], 2 * window + 4 * self._block))
            self._order = np.empty((subscriptions, room), np.int32)
            self._thresholds = np.full(subscriptions, math.inf)
            words = 1 << ((window + self._block) // 64 + 1).bit_length()
            self._bits = np.zeros((subscriptions, words), np.uint64)
        else:
            self._columns = np.empty((self.ideals.shape[1], self._block))
            self._marks = np.empty((subscriptions, room), np.int64)
            self._oldest = np.full(subscriptions, NEVER)

    def _grow(self) -> None:
        """Give every skyband twice the room."""
        room = 2 * self._events.shape[1] + self._block
        for name in ("_events", "_distances", "_marks"):
            old = getattr(self, name)
            new = np.empty((len(old), room), old.dtype)
            new[:, : old.shape[1]] = old
            setattr(self, name, new)


def _points(
    name: str, points: ArrayLike, error: type[InvalidEventError | InvalidSubscriptionError] = InvalidSubscriptionError
) -> Array:
    """Return points as rows of finite floats."""
    found = np.array(points, np.float64, order="C")
    if found.ndim != 2 or found.shape[1] == 0:
        raise error(f"{name}: an array of shape {found.shape}; expected one row of coordinates for each point")
    if not np.isfinite(found).all():
        row = int(np.argmin(np.isfinite(found).all(axis=1)))
        raise error(f"{name}: row {row}, {shown(found[row].tolist())}, has a coordinate that is not finite")
    return found


def _positive(name: str, values: ArrayLike | None, ideals: Array) -> Array:
    """Return one value above zero for each coordinate of each ideal point; by default 1."""
    found = np.array(
        np.broadcast_to(np.asarray(1.0 if values is None else values, np.float64), ideals.shape), order="C"
    )
    if not (np.isfinite(found) & (found > 0)).all():
        raise InvalidSubscriptionError(f"{name}: every value has to be a finite number above zero")
    return found
