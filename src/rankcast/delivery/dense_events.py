"""The events of a window that many queues share: their features, when they leave, and the order of equals.

Events lie in slots, which are used again; they are numbered in the order of arrival. What the kernels need of them is
in arrays by slot. Events of one time are ordered by identity: `TIE` says how, and is renewed when another one of the
same time comes, which costs O(events of that time).

Cost: O(log n) per event, in the events held.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from rankcast.delivery.batch_layout import LAST_INSTANT, NEVER, Array, microseconds
from rankcast.delivery.kernels_dense import FREE
from rankcast.model.events import Event, Identity
from rankcast.ranking.dense import Features

# The rows of `SharedEvents.lines`, as the kernels take them.
TIME, TIE, END, NUMBER = range(4)

FEWEST_SLOTS = 64
SPARE = 16
"""Ends of what has left already that the heap may hold, besides one for every event that is held."""


@dataclass(frozen=True, slots=True)
class HeldEvent:
    """An event in a window, its time, and when it expires."""

    event: Event
    time: datetime
    expires: datetime | None


class SharedEvents:
    """Events in slots. `lines` has four numbers of each, `features` and `lengths` what relevance functions look at."""

    def __init__(self, parts: int) -> None:
        self.lines = np.empty((4, 0), np.int64)
        self.features = np.empty((0, parts))
        self.lengths = np.empty(0)
        self.next_number = 0
        self._live: OrderedDict[Identity, int] = OrderedDict()
        self._held: list[HeldEvent | None] = []
        self._free: list[int] = []
        self._ends: list[tuple[int, int, int]] = []
        self._by_time: dict[int, list[tuple[Identity, int]]] = {}

    def __len__(self) -> int:
        return len(self._live)

    def __getitem__(self, slot: int) -> HeldEvent:
        held = self._held[slot]
        assert held is not None
        return held

    def slots(self) -> Array:
        """Return the slots of all events in order of arrival."""
        return np.fromiter(self._live.values(), np.int64, len(self._live))

    def slot_of(self, identity: Identity) -> int | None:
        """Return the slot of an event that is held."""
        return self._live.get(identity)

    def oldest(self) -> int:
        """Return the slot of the event that has been here for longest."""
        return next(iter(self._live.values()))

    def enter(self, held: HeldEvent, features: Features, end: int) -> int:
        """Give an event a slot, which it leaves by itself at `end`."""
        if not self._free:
            self._grow()
        slot, number, time = self._free.pop(), self.next_number, microseconds(held.time)
        self.next_number += 1
        self._held[slot] = held
        self._live[held.event.identity] = slot
        self.lines[:, slot] = time, 0, end, number
        self.features[slot], self.lengths[slot] = features
        alike = self._by_time.setdefault(time, [])
        insort(alike, (held.event.identity, slot))
        if len(alike) > 1:
            self.lines[TIE, [one for _, one in alike]] = np.arange(len(alike))
        if end < LAST_INSTANT:
            heapq.heappush(self._ends, (end, number, slot))
            if len(self._ends) > SPARE + 2 * len(self._live):  # most are of events that left in another way
                self._ends = [entry for entry in self._ends if self._is_there(entry)]
                heapq.heapify(self._ends)
        return slot

    def ended(self, instant: int) -> list[int]:
        """Return the slots of the events whose end has come; at the end of time that is everything with an end."""
        found: list[int] = []
        while self._ends and self._ends[0][0] <= instant:
            entry = heapq.heappop(self._ends)
            if self._is_there(entry):
                found.append(entry[2])
        if instant >= LAST_INSTANT:
            found = [slot for slot in self._live.values() if self.lines[END, slot] <= instant]
        return found

    def remove(self, slots: list[int]) -> None:
        """Let events go."""
        for slot in slots:
            identity, time = self[slot].event.identity, int(self.lines[TIME, slot])
            del self._live[identity]
            alike = self._by_time[time]
            del alike[bisect_left(alike, (identity, slot))]
            if not alike:
                del self._by_time[time]
            self._held[slot] = None
            self._free.append(slot)
        self.lines[NUMBER, slots] = FREE

    def next_end(self) -> int:
        """Return when the next event leaves by itself; NEVER when none does before the end of time."""
        while self._ends:
            if self._is_there(self._ends[0]):
                return self._ends[0][0]
            heapq.heappop(self._ends)
        return NEVER

    def _is_there(self, entry: tuple[int, int, int]) -> bool:
        return bool(self.lines[NUMBER, entry[2]] == entry[1])

    def _grow(self) -> None:
        """Make room for twice as many events."""
        known = len(self._held)
        more = max(FEWEST_SLOTS, known)
        self._free += reversed(range(known, known + more))
        self._held += [None] * more
        self.lines = np.concatenate((self.lines, np.full((4, more), FREE)), axis=1)
        self.features = np.concatenate((self.features, np.zeros((more, self.features.shape[1]))))
        self.lengths = np.concatenate((self.lengths, np.zeros(more)))
