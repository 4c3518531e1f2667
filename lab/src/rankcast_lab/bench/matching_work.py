"""The work of the matching benches in columns, as every engine but the index reads it.

Texts are replaced by codes and numbers are integers, so that an engine without an index of strings is not slowed down
by them: a constraint is always low <= value <= high, and MISSING satisfies none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankcast.arrays import Array
from rankcast.model.errors import UnknownIdError, shown
from rankcast_lab.workloads.matching import ABSENT, MatchingCase, MatchingWorkload, matching_case

MISSING = ABSENT
"""Stands for an attribute that an event lacks; it is below all values."""


@dataclass(frozen=True, slots=True)
class Work:
    """Subscriptions as lists of constraints, constraints of subscription i at start[i]..start[i+1]; events as rows."""

    name: str
    source: MatchingCase
    start: Array
    attribute: Array
    low: Array
    high: Array
    events: Array

    @staticmethod
    def of(workload: str, subscriptions: int, events: int, seed: int) -> Work:
        """Generate the work of one case."""
        source = matching_case(workload_named(workload), subscriptions, events, seed)
        columns = (source.low, source.high, np.ascontiguousarray(source.events))
        low, high, values = (column.astype(np.int32) for column in columns)
        return Work(case_name(workload, subscriptions), source, source.row_start, source.attribute, low, high, values)

    @property
    def subscriptions(self) -> int:
        """How many subscriptions there are."""
        return len(self.start) - 1

    @property
    def attributes(self) -> int:
        """How many attributes there are."""
        return int(self.events.shape[1])

    @property
    def subscription(self) -> Array:
        """The subscription of each constraint."""
        return np.repeat(np.arange(self.subscriptions, dtype=np.int32), np.diff(self.start))


def workload_named(name: str) -> MatchingWorkload:
    """Return a workload by its name."""
    try:
        return MatchingWorkload(name)
    except ValueError:
        known = ", ".join(workload.value for workload in MatchingWorkload)
        raise UnknownIdError(f"there is no workload {shown(name)}; expected one of {known}") from None


def case_name(workload: str, subscriptions: int) -> str:
    """Return how a case is called.

    >>> case_name("W1", 100_000), case_name("W2", 1_000_000), case_name("W3", 1_500)
    ('W1 100k', 'W2 1M', 'W3 1500')
    """
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if subscriptions and subscriptions % size == 0:
            return f"{workload} {subscriptions // size}{unit}"
    return f"{workload} {subscriptions}"
