"""Filters in local search: how they grow from a leaf up to let something in, and shrink to what is in them.

Where the box of a slot grows, the box of the slot above that it is in has to contain it, and so on up the tree. Where a
slot comes into use, it is put into the box above that contains it, or into the one that grows least by it.
"""

from __future__ import annotations

import numpy as np

from rankcast.arrays import Array
from rankcast.compiling import ZERO, inner
from rankcast.placement.kernels.growth import (
    NOWHERE,
    begin_growing,
    cheapest_slot,
    contains,
    enlarge,
    grow,
    growth_of,
    holding,
    measure_of,
)
from rankcast.placement.search.state_kernels import (
    CHILDREN,
    COUNT,
    ENTRIES,
    FIRST_CHILD,
    LAST_CHILD,
    MOST,
    PARENT,
    PART,
    SLOT,
    UPPER,
    remember_broker,
    whole,
)


@inner
def path_growth(
    leaf: int,
    row: int,
    bound: float,
    rows: Array,
    events: Array,
    common: Array,
    brokers: Array,
    boxes: Array,
    uses: Array,
) -> float:
    """Return how much the filters from a leaf up grow to let a row in; more than `bound` may be any such number."""
    if holding(boxes, leaf, rows, row) != NOWHERE:
        return 0.0
    total, slot = cheapest_slot(boxes, leaf, brokers[leaf, MOST], ZERO, rows, row, events, common)
    growing = len(common) - 1
    begin_growing(common, rows, row)
    broker = leaf
    while brokers[broker, PARENT] >= 0 and total <= bound:
        above = brokers[broker, PARENT]
        if uses[broker, slot, COUNT] > 0:
            grow(common, boxes, broker, slot)
            upper = uses[broker, slot, UPPER]
            if contains(boxes, above, upper, common, growing):
                break
            total += growth_of(boxes, above, upper, common, growing, events, common)
        else:
            if holding(boxes, above, common, growing) != NOWHERE:
                break
            more, upper = cheapest_slot(boxes, above, brokers[above, MOST], ZERO, common, growing, events, common)
            total += more
        broker, slot = above, upper
    return total


@inner
def let_in(
    leaf: int,
    leaf_slot: int,
    row: int,
    rows: Array,
    events: Array,
    common: Array,
    brokers: Array,
    boxes: Array,
    uses: Array,
    measures: Array,
    sizes: Array,
) -> None:
    """Add a row to a slot of a leaf, and let the filters above contain what has grown, as `path_growth` reckons."""
    growing = len(common) - 1
    begin_growing(common, rows, row)
    broker, slot, arrives = leaf, leaf_slot, True
    while True:
        remember_broker(broker, brokers, boxes, uses, measures, sizes)
        is_new = uses[broker, slot, COUNT] == 0
        changes = not contains(boxes, broker, slot, common, growing)
        if changes:
            enlarge(boxes, broker, slot, common, growing)
            grow(common, boxes, broker, slot)
            measures[broker] = measure_of(boxes, broker, events, common)
        if arrives:
            uses[broker, slot, COUNT] += 1
        above = brokers[broker, PARENT]
        if above < 0 or not changes:
            break
        if is_new:
            upper = holding(boxes, above, common, growing)
            if upper == NOWHERE:
                _, upper = cheapest_slot(boxes, above, brokers[above, MOST], ZERO, common, growing, events, common)
            uses[broker, slot, UPPER] = upper
        broker, slot, arrives = above, uses[broker, slot, UPPER], is_new


@inner
def shrink_leaf(
    leaf: int,
    which: int,
    rows: Array,
    events: Array,
    common: Array,
    entries: Array,
    brokers: Array,
    boxes: Array,
    measures: Array,
) -> None:
    """Shrink those boxes of a leaf whose bits are set to what is in them."""
    for slot in range(boxes.shape[1]):
        if (which >> slot) & 1:
            for side in range(boxes.shape[2]):
                boxes[leaf, slot, side] = -np.inf
    for place in range(brokers[leaf, ENTRIES]):
        slot = whole(entries[leaf, place, SLOT])
        if (which >> slot) & 1:
            enlarge(boxes, leaf, slot, rows, whole(entries[leaf, place, PART]))
    measures[leaf] = measure_of(boxes, leaf, events, common)


@inner
def shrink_above(
    leaf: int, events: Array, common: Array, brokers: Array, boxes: Array, uses: Array, measures: Array, sizes: Array
) -> None:
    """Shrink the filters above a leaf to what is below them."""
    broker = brokers[leaf, PARENT]
    while broker >= 0:
        remember_broker(broker, brokers, boxes, uses, measures, sizes)
        for slot in range(boxes.shape[1]):
            uses[broker, slot, COUNT] = 0
            for side in range(boxes.shape[2]):
                boxes[broker, slot, side] = -np.inf
        for place in range(brokers[broker, FIRST_CHILD], brokers[broker, LAST_CHILD]):
            child = brokers[place, CHILDREN]
            for slot in range(brokers[child, MOST]):
                if uses[child, slot, COUNT] == 0:
                    continue
                upper = uses[child, slot, UPPER]
                uses[broker, upper, COUNT] += 1
                for side in range(boxes.shape[2]):
                    boxes[broker, upper, side] = max(boxes[broker, upper, side], boxes[child, slot, side])
        measures[broker] = measure_of(boxes, broker, events, common)
        broker = brokers[broker, PARENT]
