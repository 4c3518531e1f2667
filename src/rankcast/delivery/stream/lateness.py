"""Events that come out of order, and events that come again.

`Reordering(lateness)` keeps events back until nothing earlier can come that would still count. Its *watermark* is the
largest `now` it was told, less the allowed lateness; it never goes back. An event before the watermark is late. What is
given back comes in the order (time, source, id), and only once the watermark is past its time, so that the result does
not depend on the order in which events came: it is that of processing them in order. Where no lateness is allowed there
is nothing to wait for, and an event of the watermark's own time is given back at once; events of one time then keep the
order in which they came. Of two that have one identity and wait, the one of the earlier time stays.

`Remembered` are the identities that were taken in, so that a repetition is recognised: at least so many of them, and
every one that is younger than a span of time.

Cost: O(log n) per event in the events that wait; they are those of the last `lateness`, and any from the future.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Generic, NamedTuple, TypeVar

from rankcast.model.errors import InvalidValueError, shown
from rankcast.model.events import Identity
from rankcast.model.times import EARLIEST

Item = TypeVar("Item")


class PendingEvent(NamedTuple, Generic[Item]):
    """Something that is kept back: its time, its identity and whatever it is."""

    time: datetime
    identity: Identity
    item: Item


@dataclass(frozen=True, slots=True)
class ReorderingState(Generic[Item]):
    """Everything that a reordering remembers; what waits is in the order in which it is given back."""

    watermark: datetime = EARLIEST
    waiting: tuple[PendingEvent[Item], ...] = ()


class Reordering(Generic[Item]):
    """Keeps back what may still be preceded.

    >>> from datetime import UTC
    >>> start = datetime(2026, 1, 1, tzinfo=UTC)
    >>> buffer = Reordering[str](timedelta(seconds=5))
    >>> for seconds in (7, 3):
    ...     buffer.add(start + timedelta(seconds=seconds), Identity("/s", str(seconds)), f"at {seconds}")
    >>> buffer.move_on(start + timedelta(seconds=10))
    >>> [one.item for one in buffer.released()], buffer.is_late(start + timedelta(seconds=4))
    (['at 3'], True)
    """

    def __init__(self, lateness: timedelta, state: ReorderingState[Item] | None = None) -> None:
        check_lateness(lateness)
        self.lateness = lateness
        self.watermark = EARLIEST if state is None else state.watermark
        waiting = () if state is None else state.waiting
        self._heap = [(one.time, one.identity, number, one.item) for number, one in enumerate(waiting)]
        self._live = {identity: (time, number) for time, identity, number, _ in self._heap}
        self._next = len(waiting)
        heapq.heapify(self._heap)

    def __len__(self) -> int:
        return len(self._live)

    def __contains__(self, identity: Identity) -> bool:
        return identity in self._live

    def move_on(self, now: datetime) -> None:
        """Take note that it is `now`."""
        since = now - EARLIEST
        self.watermark = max(self.watermark, EARLIEST if since < self.lateness else now - self.lateness)

    def is_late(self, time: datetime) -> bool:
        """Whether an event of this time comes too late to be taken in."""
        return time < self.watermark

    def add(self, time: datetime, identity: Identity, item: Item) -> None:
        """Keep something back, unless its identity waits already, for a time that is no later. It must not be late."""
        if identity in self._live and self._live[identity][0] <= time:
            return
        heapq.heappush(self._heap, (time, identity, self._next, item))
        self._live[identity] = (time, self._next)
        self._next += 1

    def released(self) -> Iterator[PendingEvent[Item]]:
        """Give back, in order, what nothing can precede any more."""
        while self._heap and self._is_due(self._heap[0][0]):
            yield from self._first()

    def rest(self) -> Iterator[PendingEvent[Item]]:
        """End the input: give back all that waits. What would precede it is late from now on."""
        while self._heap:
            for first in self._first():
                self.watermark = max(self.watermark, first.time)
                yield first

    def state(self) -> ReorderingState[Item]:
        """Return everything that is remembered."""
        listed = sorted((entry for entry in self._heap if self._waits(entry[1], entry[2])), key=_place)
        waiting = (PendingEvent(time, identity, item) for time, identity, _, item in listed)
        return ReorderingState(self.watermark, tuple(waiting))

    def _is_due(self, time: datetime) -> bool:
        return time < self.watermark or (time == self.watermark and not self.lateness)

    def _waits(self, identity: Identity, number: int) -> bool:
        """Whether an entry still waits: one of an earlier time may have taken its place."""
        return identity in self._live and self._live[identity][1] == number

    def _first(self) -> Iterator[PendingEvent[Item]]:
        time, identity, number, item = heapq.heappop(self._heap)
        if self._waits(identity, number):
            del self._live[identity]
            yield PendingEvent(time, identity, item)


def _place(entry: tuple[datetime, Identity, int, object]) -> tuple[datetime, Identity, int]:
    return entry[:3]


def check_lateness(value: object) -> None:
    """Raise unless `value` is a duration of at least zero."""
    if not isinstance(value, timedelta) or value < timedelta(0):
        raise InvalidValueError(f"lateness: {shown(value)} is not a duration of at least zero; expected a timedelta")


class Remembered:
    """Identities and when they were taken in, oldest first.

    They are kept as plain tuples, which the garbage collector stops to look at: there may be very many. `known` is all
    of them, to be asked and not to be changed.
    """

    def __init__(self, known: Iterable[tuple[Identity, datetime]] = ()) -> None:
        self.known: set[tuple[str, str]] = set()
        self._in_order: deque[tuple[tuple[str, str], datetime]] = deque()
        for identity, time in known:
            self.add(identity, time)

    def __contains__(self, identity: Identity) -> bool:
        return identity in self.known

    def add(self, identity: Identity, now: datetime) -> None:
        """Remember an identity that is not known; `now` never goes back."""
        plain = (*identity,)
        self.known.add(plain)
        self._in_order.append((plain, now))

    def forget(self, now: datetime, *, at_least: int, span: timedelta) -> None:
        """Forget the oldest identities beyond so many, but none that is younger than the span."""
        while len(self.known) > at_least and now - self._in_order[0][1] >= span:
            self.known.discard(self._in_order.popleft()[0])

    def state(self) -> tuple[tuple[Identity, datetime], ...]:
        """Return what is remembered, oldest first."""
        return tuple((Identity(*identity), time) for identity, time in self._in_order)
