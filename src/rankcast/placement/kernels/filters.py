"""Filters that grow from a leaf up: what it costs to let an interest into the filters of all brokers above it.

To let a box in, one of a filter's boxes is enlarged to contain it, or it becomes a box of its own where there is room
for one, whichever adds least; of equals, a box of its own. The enlarged box then has to be let into the filter above,
and so on up the tree, until some box above contains it already: so every box of a filter lies in one box of the filter
above. Used slots are the first ones of each broker.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rankcast.arrays import Array
from rankcast.compiling import ZERO, compiled, inlined, inner
from rankcast.placement.kernels.growth import (
    NOWHERE,
    begin_growing,
    cheapest_slot,
    copy_filter,
    enlarge,
    grow,
    holding,
    working_space,
)
from rankcast.placement.problem.density import Density


class Filters(NamedTuple):
    """By broker: boxes, how many are allowed, and the broker above; and what `kernels_growth` needs.

    `boxes` has a second half of what was there before something was tried.
    """

    boxes: Array
    most: Array
    parents: Array
    events: Array
    common: Array


def empty_filters(most: Array, parents: Array, sides: int, density: Density) -> Filters:
    """Return filters that let nothing through."""
    boxes = np.full((2 * len(parents), int(most.max()), sides), -np.inf)
    return Filters(boxes, most, parents, density.rows, working_space(int(most.max()), sides))


def used_boxes(filters: Filters, broker: int) -> Array:
    """Return the boxes of a broker's filter."""
    boxes = filters.boxes[broker]
    found: Array = boxes[: (boxes[:, 0] > -np.inf).sum()]
    return found


@inlined
def holds_all(boxes: Array, broker: int, rows: Array, first: int, last: int) -> bool:
    """Whether a filter has each of some rows in one of its boxes."""
    for row in range(first, last):  # noqa: SIM110 (a generator would not be compiled)
        if holding(boxes, broker, rows, row) == NOWHERE:
            return False
    return True


@inlined
def _unused_slot(boxes: Array, broker: int, most: int) -> int:
    """Return the first unused slot; the first slot of all if there is none."""
    for slot in range(most):
        if boxes[broker, slot, 0] == -np.inf:
            return slot
    return 0


@compiled
def let_in(
    leaf: int,
    rows: Array,
    first: int,
    last: int,
    bound: float,
    boxes: Array,
    most: Array,
    parents: Array,
    events: Array,
    common: Array,
) -> float:
    """Let rows into all filters from a leaf up, one after the other, and return how much they have grown.

    When that is more than `bound`, it stops on the way.
    """
    total = 0.0
    growing = len(common) - 1
    for row in range(first, last):
        begin_growing(common, rows, row)
        broker = leaf
        while broker >= 0 and total <= bound and holding(boxes, broker, common, growing) == NOWHERE:
            unused = _unused_slot(boxes, broker, most[broker])
            growth, slot = cheapest_slot(boxes, broker, most[broker], unused, common, growing, events, common)
            total += growth
            enlarge(boxes, broker, slot, common, growing)
            grow(common, boxes, broker, slot)
            broker = parents[broker]
    return total


@inner
def growth(
    leaf: int,
    rows: Array,
    first: int,
    last: int,
    bound: float,
    boxes: Array,
    most: Array,
    parents: Array,
    events: Array,
    common: Array,
) -> float:
    """Return how much all filters from a leaf up grow to let rows in; more than `bound` may be any such number."""
    broker = leaf
    while broker >= 0:
        copy_filter(broker, len(parents) + broker, boxes)
        broker = parents[broker]
    total = let_in(leaf, rows, first, last, bound, boxes, most, parents, events, common)
    broker = leaf
    while broker >= 0:
        copy_filter(len(parents) + broker, broker, boxes)
        broker = parents[broker]
    return total


@compiled
def growths(leaves: Array, parts: Array, filters: Filters, found: Array) -> None:
    """Write how much all filters grow to let in some parts, for each of some leaves; 0 where a filter has them all."""
    boxes, most, parents, events, common = filters
    for place in range(len(leaves)):
        leaf = leaves[place]
        found[place] = 0.0
        if not holds_all(boxes, leaf, parts, ZERO, len(parts)):
            found[place] = growth(leaf, parts, ZERO, len(parts), np.inf, boxes, most, parents, events, common)
