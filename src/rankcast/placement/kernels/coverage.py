"""Which demands the filters of brokers cover: many interests against the boxes of many brokers.

A demand is given by its interest, rows `offsets[i]` to `offsets[i + 1]` of `sides`, and by its class, a row of
`classes` that says which brokers it may have. Broker b has the boxes `boxes[starts[b] : starts[b + 1]]`.

Cost: O(boxes of the brokers that a demand may have) per demand; it ends where the answer is known.
"""

from __future__ import annotations

import numpy as np

from rankcast.arrays import Array
from rankcast.compiling import ZERO, compiled, inlined
from rankcast.placement.kernels.boxes import lies_within


@inlined
def _is_held(first: int, last: int, sides: Array, start: int, end: int, boxes: Array) -> bool:
    """Whether each of some parts lies in one of some boxes."""
    for part in range(first, last):
        box = start
        while box < end and not lies_within(sides, part, boxes, box):
            box += 1
        if box == end:
            return False
    return True


@compiled
def held_interests(interest_of: Array, offsets: Array, sides: Array, boxes: Array) -> Array:
    """Return which demands have every part in one of some boxes."""
    held = np.empty(len(interest_of), np.bool_)
    for demand in range(len(interest_of)):
        interest = interest_of[demand]
        held[demand] = _is_held(offsets[interest], offsets[interest + 1], sides, ZERO, len(boxes), boxes)
    return held


@compiled
def covering_brokers(
    interest_of: Array, class_of: Array, classes: Array, offsets: Array, sides: Array, starts: Array, boxes: Array
) -> Array:
    """Return by which of the brokers that they may have demands are covered: a row per demand."""
    covers = np.zeros((len(interest_of), classes.shape[1]), np.bool_)
    for demand in range(len(interest_of)):
        first, last = offsets[interest_of[demand]], offsets[interest_of[demand] + 1]
        for broker in range(classes.shape[1]):
            if classes[class_of[demand], broker]:
                covers[demand, broker] = _is_held(first, last, sides, starts[broker], starts[broker + 1], boxes)
    return covers


@compiled
def uncovered_demands(
    interest_of: Array, class_of: Array, classes: Array, offsets: Array, sides: Array, starts: Array, boxes: Array
) -> Array:
    """Return which demands are covered by none of the brokers that they may have."""
    missed = np.ones(len(interest_of), np.bool_)
    for demand in range(len(interest_of)):
        first, last = offsets[interest_of[demand]], offsets[interest_of[demand] + 1]
        for broker in range(classes.shape[1]):
            if classes[class_of[demand], broker] and _is_held(
                first, last, sides, starts[broker], starts[broker + 1], boxes
            ):
                missed[demand] = False
                break
    return missed


@compiled
def units_inside(parts: Array, units: Array, boxes: Array) -> Array:
    """Return the sum of the units of the parts in each box: whole numbers, so that it is exact in any order."""
    sums = np.zeros(len(boxes))
    for box in range(len(boxes)):
        for part in range(len(parts)):
            if lies_within(parts, part, boxes, box):
                sums[box] += units[part]
    return sums
