"""Finds out which events no queue holds any more: a few queues are looked at with each event that arrives.

To look through all queues at once would stop publishers for tenths of a second where queues or events are very many.

Why a look at one queue after the other is right: a queue takes an event in when that arrives, and never later. So an
event that was there when the sweep began, and that was in no queue when that queue was looked at, has left every queue
for good. Events that have arrived since are left alone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from rankcast.delivery.stream.kernels import CODE_BITS
from rankcast.serving.matched_codes import CODES
from rankcast.serving.queues import Queues

PACE = 4
"""A sweep has looked at all queues before the events there are have grown by a part of this."""

FEWEST, MOST = 16, 1_024
"""Queues that are looked at a time: few cost no more than one, and many would be a pause."""

DISCARDED = 64
"""Events that are discarded at a time."""


class Sweep:
    """One look at so many queues. `codes` are what matched in the events that they hold."""

    def __init__(self, events: Collection[int], queues: int) -> None:
        self._events = np.sort(np.fromiter(events, np.int64, len(events)))
        self._is_held = np.zeros(len(events) + 1, np.bool_)  # what is above all events falls behind them
        self._next, self._queues = 0, queues
        self._step = min(max(PACE * queues // max(1, len(events)), FEWEST), MOST)
        self._unneeded: list[int] | None = None
        self.codes: set[int] = set()

    @property
    def has_looked(self) -> bool:
        """Whether all queues have been looked at."""
        return self._next == self._queues

    def look(self, queues: Queues) -> None:
        """Look at the next queues."""
        last = min(self._next + self._step, self._queues)
        words = queues.held(self._next, last)
        # An event that has arrived since may be taken for its neighbour, which then stays until the next sweep.
        self._is_held[self._events.searchsorted(words >> CODE_BITS)] = True
        self.codes.update((words & CODES).tolist())
        self._next = last

    def unneeded(self) -> list[int]:
        """Return the next events that nobody needs, when all queues have been looked at; none when all were named."""
        if self._unneeded is None:
            self._unneeded = self._events[~self._is_held[:-1]].tolist()
        found = self._unneeded[-DISCARDED:]
        del self._unneeded[-DISCARDED:]
        return found

    def renumber(self, numbers: Mapping[int, int]) -> None:
        """Let events have other numbers."""
        changed = np.array([numbers.get(number, number) for number in self._events.tolist()], np.int64)
        order = np.argsort(changed)
        self._events = changed[order]
        self._is_held[:-1] = self._is_held[:-1][order]
        if self._unneeded is not None:
            self._unneeded = [numbers.get(number, number) for number in self._unneeded]
