"""Decides which kernel finds which row, from measured survival.

For every predicate we estimate the share of events that satisfy it, on the end points of the subscriptions themselves
(what many ask for is what many events carry). A row whose most selective
predicate lets few events pass is cheap to find by that predicate; any other row is cheaper as one bit of the wide
kernel, whose cost per row hardly depends on what the row says.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankcast.arrays import Array, group
from rankcast.matching.encoding.dimensions import Dimensions
from rankcast.matching.segments.rows import DIMENSION, HIGH, LOW, SegmentRows

ENTRY_COST, SURVIVOR_COST, WIDE_COST = 1.5, 25.0, 0.0075
"""Nanoseconds, roughly: one entry read in a cell, one row checked in full, one row and dimension in the wide kernel
(half of what it was measured at: the wide kernel's cost does not depend on a guess, so it wins in doubt)."""

CHUNK_ROWS = 2048
"""Rows that the wide kernel treats alike: it looks at every dimension that any of them constrains."""

CARRIED = 32
"""Attributes that an event is assumed to carry, when there are more."""

ELEMENTS_CARRIED = 8
"""Elements that a list of an event is assumed to have, each of them as often as conditions name it."""

SCANNED_ROWS = 256
"""Segments up to this size have no kernel: checking every row takes a microsecond or two, and building takes none."""

MASS_PER_DIMENSION = 4096
"""End points looked at per dimension: the estimate needs two digits, not more."""

NEVER = np.inf
"""Share given to predicates that a missing attribute satisfies: no cell of the event leads to them."""


@dataclass(frozen=True, slots=True)
class SegmentPlan:
    """Rows by kernel, or scanned when they have none; `pivots` and `seconds` lead to the selective rows."""

    wide: Array
    selective: Array
    scanned: Array
    pivots: Array
    seconds: Array


def plan(rows: SegmentRows, dimensions: Dimensions) -> SegmentPlan:
    """Return which kernel each row goes to."""
    sizes = np.diff(rows.start)
    if len(rows) <= SCANNED_ROWS:
        nothing = np.zeros(0, np.int64)
        return SegmentPlan(nothing, nothing, np.arange(len(rows)), nothing, nothing)
    scanned = np.flatnonzero(sizes == 0)
    share = survival(rows, dimensions)
    row = rows.row_of_predicate
    order = np.lexsort((share, row))
    some = np.flatnonzero(sizes > 0)
    best = order[rows.start[some]]
    # A row with one predicate repeats it: the entry then decides alone.
    second = order[rows.start[some] + np.minimum(1, sizes[some] - 1)]
    chosen = share[best] * (ENTRY_COST + SURVIVOR_COST * np.minimum(share[second], 1)) < _wide_cost(rows)
    return SegmentPlan(some[~chosen], some[chosen], scanned, best[chosen], second[chosen])


def _wide_cost(rows: SegmentRows) -> float:
    """Return the cost of a row in the wide kernel: that of the dimensions which a chunk of random rows constrains."""
    uses = np.bincount(rows.predicates[:, DIMENSION])
    return WIDE_COST * float(np.sum(-np.expm1(-CHUNK_ROWS * uses / len(rows))))


def survival(rows: SegmentRows, known: Dimensions) -> Array:
    """Return the estimated share of events that satisfy each predicate."""
    dimensions = rows.predicates[:, DIMENSION]
    starts, order = group(dimensions, len(known))
    share = _elements_satisfied(np.diff(starts), known)[dimensions]
    share[rows.predicates[:, LOW] == 0] = NEVER
    is_plain = np.ones(len(known), bool)
    is_plain[known.postings.dimensions] = False
    used = np.flatnonzero(is_plain & (np.diff(starts) > 0))
    carried = min(1.0, CARRIED / max(len(used), 1))
    for dimension in used:
        own = order[starts[dimension] : starts[dimension + 1]]
        low, high = rows.predicates[own, LOW], rows.predicates[own, HIGH]
        step = max(1, 2 * len(low) // MASS_PER_DIMENSION)
        mass = np.sort(np.concatenate((low[::step], high[::step])))  # ranks that stand for the events
        share[own] = _within(mass, low, high) / len(mass)
        owner, gaps = rows.gaps_of(own)
        np.subtract.at(share, own[owner], _within(mass, gaps[:, 0], gaps[:, 1]) / len(mass))
        share[own] *= carried
        share[own[low == 0]] = NEVER
    return share


def _elements_satisfied(uses: Array, known: Dimensions) -> Array:
    """Return the estimated share of events that satisfy each condition on elements, given how often each is used."""
    share, postings = np.zeros(len(known)), known.postings
    if not postings.keys:
        return share
    attribute = np.array([attribute for attribute, _ in postings.keys], np.int64)
    element = np.repeat(np.arange(len(attribute)), np.diff(postings.start))
    wanted = np.bincount(element, uses[postings.dimensions], len(attribute))
    of_attribute = np.maximum(np.bincount(attribute, wanted), 1)
    np.add.at(share, postings.dimensions, (ELEMENTS_CARRIED * wanted / of_attribute[attribute])[element])
    return np.minimum(share, 1)


def _within(mass: Array, low: Array, high: Array) -> Array:
    found: Array = np.searchsorted(mass, high, "right") - np.searchsorted(mass, low, "left")
    return found
