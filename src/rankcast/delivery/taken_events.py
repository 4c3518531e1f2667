"""Which queues took which events lately: what queues with periods recognise repetitions by.

A period holds only its best events, so what it has taken is noted beside it, for as long as the queue is to recall it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankcast.arrays import Array
from rankcast.delivery.batch import Rows
from rankcast.delivery.kernels_shards import CODE_BITS
from rankcast.delivery.known_events import KnownEvents
from rankcast.model.policies import Periodic, Policy
from rankcast.model.times import TICK


def recalled(policy: Policy, lateness: int) -> int:
    """Return for how long a queue is to know what it has taken, beyond what it holds and what everybody knows."""
    return lateness + policy.period // TICK if isinstance(policy, Periodic) else 0


@dataclass(frozen=True, slots=True)
class TakenEvents:
    """Rows (event number, queue), by number."""

    numbers: Array
    queues: Array

    @staticmethod
    def none() -> TakenEvents:
        """Return no rows."""
        return TakenEvents(np.zeros(0, np.int64), np.zeros(0, np.int32))

    def with_rows(self, rows: Rows, recall: Array) -> TakenEvents:
        """Return these and the rows of queues that recall what they take; `recall` has for how long, by queue."""
        is_noted = recall[rows.queue] > 0
        if not is_noted.any():
            return self
        numbers = np.concatenate([self.numbers, rows.event[is_noted] >> CODE_BITS])
        queues = np.concatenate([self.queues, rows.queue[is_noted].astype(np.int32)])
        order = np.argsort(numbers, kind="stable")
        return TakenEvents(numbers[order], queues[order])

    def since(self, watermark: int, known: KnownEvents, recall: Array) -> TakenEvents:
        """Return what is still recalled at a watermark."""
        if not len(self.numbers):
            return self
        times = known.events.time[known.positions(self.numbers)]
        is_recent = watermark - times <= recall[self.queues]
        return TakenEvents(self.numbers[is_recent], self.queues[is_recent])
