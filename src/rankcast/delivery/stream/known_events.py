"""The events that a shard has released and may still need, and which queues took which events lately.

Events are numbered in the order they are released, which is that of (time, source, id). Each is linked to the last one
before it that had the same identity and is still known: so repetitions are recognised. A period holds only its best
events, so what queues with periods have taken is noted beside them, for as long as they are to recall it.

Cost: O(known events) per release, for arrays are copied; one probe of a hash table per new event.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rankcast.arrays import Array
from rankcast.containers.expectations import Column, Columns, below, check_types, check_values
from rankcast.delivery.engine.queue_table import ArrivalRows
from rankcast.delivery.stream.event_tables import EVENTS, EventTable
from rankcast.delivery.stream.kernels import link_identities, repeat_within
from rankcast.delivery.stream.matched_sets import CODE_BITS
from rankcast.model.periods import longest
from rankcast.model.policies import Periodic, Policy
from rankcast.model.times import TICK

NONE = -1
FEWEST_PLACES = 1024

LARGEST_TABLE = 1_000_000
"""Numbers that are looked up in a table, however few of them are known."""


class KnownEvents:
    """Released events with their numbers, ascending."""

    def __init__(self, numbers: Array, events: EventTable, next_number: int) -> None:
        self.numbers = numbers
        self.events = events
        self.next_number = next_number
        self._previous = np.full(len(numbers), NONE, np.int64)
        self._places = np.zeros(0, np.int64)
        self._link(0)

    @classmethod
    def none(cls) -> KnownEvents:
        """Return a table that no event was released to."""
        return cls(np.zeros(0, np.int64), EventTable.empty(), 0)

    def __len__(self) -> int:
        return len(self.numbers)

    def release(self, events: EventTable) -> tuple[int, Array]:
        """Number more events; return the first number, and for each whether its identity is known from before."""
        first, at = self.next_number, len(self.numbers)
        self.next_number += len(events)
        self.numbers = np.concatenate([self.numbers, np.arange(first, self.next_number)])
        self.events = EventTable.joined([self.events, events])
        self._previous = np.concatenate([self._previous, np.full(len(events), NONE, np.int64)])
        self._link(at)
        return first, self._previous[at:] != NONE

    def repeat_within(self, first: int, span: int) -> Array:
        """Return which events, of those from a number on, repeat one that counts and is at most `span` older."""
        at = int(np.searchsorted(self.numbers, first))
        found: Array = repeat_within(self.numbers, self.events.time, self._previous, at, span)
        return found

    def positions(self, numbers: Array) -> Array:
        """Return where events are in the table; NONE for those that are not known."""
        if not len(self.numbers) or not len(numbers):
            return np.full(len(numbers), NONE, np.int64)
        first, spread = int(self.numbers[0]), int(self.numbers[-1] - self.numbers[0]) + 1
        if spread > 4 * len(self.numbers) + LARGEST_TABLE:
            found = np.minimum(np.searchsorted(self.numbers, numbers), len(self.numbers) - 1)
            return np.where(self.numbers[found] == numbers, found, NONE)
        places = np.full(spread + 1, NONE, np.int64)  # what is outside has the last one
        places[self.numbers - first] = np.arange(len(self.numbers))
        offsets = (numbers - first).view(np.uint64)
        looked_up: Array = places[np.minimum(offsets, np.uint64(spread))]
        return looked_up

    def earlier(self, number: int) -> list[int]:
        """Return the numbers of known events with the same identity that were released before, ascending."""
        found: list[int] = []
        at = int(np.searchsorted(self.numbers, number))
        while (previous := int(self._previous[at])) != NONE:
            at = int(np.searchsorted(self.numbers, previous))
            if at == len(self.numbers) or self.numbers[at] != previous:
                break
            found.append(previous)
        return found[::-1]

    def keep(self, is_kept: Array) -> None:
        """Forget all others."""
        if is_kept.all():
            return
        chosen = np.flatnonzero(is_kept)
        self.numbers, self.events = self.numbers[chosen], self.events.taken(chosen)
        self._previous = np.full(len(chosen), NONE, np.int64)
        self._places = np.zeros(0, np.int64)
        self._link(0)

    def replace(self, positions: Array, events: EventTable) -> None:
        """Put events of the same identities and times in the place of those at some positions, each named once."""
        order = np.arange(len(self.events))
        order[positions] = len(self.events) + np.arange(len(events))
        self.events = EventTable.joined([self.events, events]).taken(order)

    def to_arrays(self) -> dict[str, Array]:
        """Return the events and their numbers as named arrays."""
        return {"numbers": self.numbers, **self.events.to_arrays()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array], next_number: int) -> KnownEvents:
        """Return the events of named arrays; raise InvalidValueError when they are none."""
        columns: Columns = {**EVENTS, "numbers": Column(np.int64, "events", below(next_number), ascends=True)}
        check_types("known events", arrays, columns)
        own = {name: arrays[name] for name in ("time", "numbers")}
        check_values("known events", own, columns)
        return cls(arrays["numbers"], EventTable.from_arrays(arrays), next_number)

    def _link(self, first: int) -> None:
        """Link events from one position on to those before."""
        if 2 * len(self.numbers) >= len(self._places):
            size = max(FEWEST_PLACES, 1 << (4 * len(self.numbers)).bit_length())
            self._places = np.zeros(size, np.int64)
            first = 0
        source, identity = self.events.source, self.events.id
        link_identities(
            source.starts,
            source.values,
            identity.starts,
            identity.values,
            self.numbers,
            first,
            self._places,
            self._previous,
        )


def repeats_known(known: EventTable, events: EventTable) -> Array:
    """Return which events have the identity of a known one. Cost: that of entering all of them into a hash table."""
    together = EventTable.joined([known, events])
    linked = KnownEvents(np.arange(len(together)), together, len(together))
    repeats = (any(number < len(known) for number in linked.earlier(at)) for at in range(len(known), len(together)))
    return np.fromiter(repeats, bool, len(events))


def recalled(policy: Policy, lateness: int) -> int:
    """Return for how long a queue is to know what it has taken, beyond what it holds and what everybody knows."""
    return lateness + longest(policy.period) // TICK if isinstance(policy, Periodic) else 0


@dataclass(frozen=True, slots=True)
class RecentArrivals:
    """Rows (event number, queue), by number."""

    numbers: Array
    queues: Array

    @staticmethod
    def none() -> RecentArrivals:
        """Return no rows."""
        return RecentArrivals(np.zeros(0, np.int64), np.zeros(0, np.int32))

    def with_rows(self, rows: ArrivalRows, recall: Array) -> RecentArrivals:
        """Return these and the rows of queues that recall what they take; `recall` has for how long, by queue."""
        is_noted = recall[rows.queue] > 0
        if not is_noted.any():
            return self
        numbers = np.concatenate([self.numbers, rows.event[is_noted] >> CODE_BITS])
        queues = np.concatenate([self.queues, rows.queue[is_noted].astype(np.int32)])
        order = np.argsort(numbers, kind="stable")
        return RecentArrivals(numbers[order], queues[order])

    def since(self, watermark: int, known: KnownEvents, recall: Array) -> RecentArrivals:
        """Return what is still recalled at a watermark."""
        if not len(self.numbers):
            return self
        times = known.events.time[known.positions(self.numbers)]
        is_recent = watermark - times <= recall[self.queues]
        return RecentArrivals(self.numbers[is_recent], self.queues[is_recent])
