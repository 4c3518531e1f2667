"""Rows: conjunctions as ranges of ranks, in columns.

A predicate restricts one dimension to the ranks low..high (both included), less some gaps inside; a row is a
conjunction of predicates on distinct dimensions, in any order; a subscription is a disjunction of rows. This is the
form that segments are built from, and merged in. Most predicates have no gap, so gaps are kept apart and a set of rows
without any keeps an empty `gap_start`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankcast.arrays import Array, take_lists

DIMENSION, LOW, HIGH = 0, 1, 2
"""Columns of `predicates`."""


@dataclass(frozen=True, slots=True)
class SegmentRows:
    """Conjunctions in columns; the predicates of row i are start[i]..start[i+1]."""

    start: Array
    predicates: Array
    gap_start: Array
    gaps: Array
    subscription: Array

    def __len__(self) -> int:
        return len(self.start) - 1

    @property
    def row_of_predicate(self) -> Array:
        """The row of each predicate."""
        return np.repeat(np.arange(len(self), dtype=np.int32), np.diff(self.start))

    @property
    def predicate_of_gap(self) -> Array:
        """The predicate of each gap."""
        if not len(self.gap_start):
            return np.zeros(0, np.int64)
        return np.repeat(np.arange(len(self.predicates)), np.diff(self.gap_start))

    def gaps_of(self, predicates: Array) -> tuple[Array, Array]:
        """Return the gaps of some predicates, and of each gap to which of these it belongs."""
        if not len(self.gap_start):
            return np.zeros(0, np.int64), self.gaps
        start, at = take_lists(self.gap_start, predicates)
        return np.repeat(np.arange(len(predicates)), np.diff(start)), self.gaps[at]

    def take(self, order: Array) -> SegmentRows:
        """Return some rows in another order."""
        start, chosen = take_lists(self.start, order)
        if not len(self.gap_start):
            return SegmentRows(start, self.predicates[chosen], self.gap_start, self.gaps, self.subscription[order])
        gap_start, gaps = take_lists(self.gap_start, chosen)
        return SegmentRows(start, self.predicates[chosen], gap_start, self.gaps[gaps], self.subscription[order])


def distinct(ordered: Array) -> Array:
    """Return the distinct values of a sorted array (`np.unique` would hash them first, and take much longer)."""
    fresh = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=fresh[1:])
    found: Array = ordered[fresh]
    return found
