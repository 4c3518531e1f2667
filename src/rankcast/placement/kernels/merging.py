"""Merging boxes, two at a time, until there are few enough: the two that grow least by it.

`events` are as in `kernels_growth`. Cost: O(n^3) for n boxes, a few nanoseconds each when events are uniform.
"""

from __future__ import annotations

import numpy as np

from rankcast.arrays import Array
from rankcast.compiling import ZERO, compiled, constant, inlined
from rankcast.placement.kernels.boxes import lies_within, widen

_JOINED, _COMMON = constant(True), constant(False)


@inlined
def _measure(boxes: Array, one: int, other: int, is_joined: bool, events: Array) -> float:
    """Return the measure of the hull of two boxes, or of what they have in common."""
    sides = boxes.shape[1]
    if len(events) == 0:
        volume = 1.0
        for axis in range(sides // 2):
            upper = axis + sides // 2
            if is_joined:
                length = max(boxes[one, axis], boxes[other, axis]) + max(boxes[one, upper], boxes[other, upper])
            else:
                length = min(boxes[one, axis], boxes[other, axis]) + min(boxes[one, upper], boxes[other, upper])
            volume *= max(length, 0.0)
        return volume
    total = 0.0
    for event in range(len(events)):
        inside = True
        for side in range(sides):
            if is_joined:
                inside = inside and events[event, side] <= max(boxes[one, side], boxes[other, side])
            else:
                inside = inside and events[event, side] <= min(boxes[one, side], boxes[other, side])
        total += events[event, sides] if inside else 0.0
    return total


@inlined
def _growth(boxes: Array, measures: Array, one: int, other: int, events: Array) -> float:
    """Return how much larger the hull of two boxes is than the boxes."""
    growth: float = _measure(boxes, one, other, _JOINED, events) - measures[one] - measures[other]
    return growth + _measure(boxes, one, other, _COMMON, events)


@compiled
def merge(boxes: Array, count: int, most: int, measures: Array, events: Array) -> int:
    """Merge the first boxes in place until there are at most so many; return how many are left, with their measures."""
    for at in range(count):
        measures[at] = _measure(boxes, at, at, _JOINED, events)
    while count > most:
        best, first, second = np.inf, ZERO, ZERO + 1
        for one in range(count):
            for other in range(one + 1, count):
                growth = _growth(boxes, measures, one, other, events)
                if growth < best:
                    best, first, second = growth, one, other
        widen(boxes, first, boxes, second)
        measures[first] = _measure(boxes, first, first, _JOINED, events)
        kept = 0
        for at in range(count):  # the second one goes, and so does all else that the merged box contains
            if at == first or not lies_within(boxes, at, boxes, first):
                if kept != at:
                    for side in range(boxes.shape[1]):
                        boxes[kept, side] = boxes[at, side]
                    measures[kept] = measures[at]
                first = kept if at == first else first
                kept += 1
        count = kept
    return count


@compiled
def savings(boxes: Array, most: int, events: Array) -> Array:
    """Return how much less boxes measure together, merged to so many, without each one of them."""
    count = len(boxes)
    found = np.zeros(count)
    working, measures = np.empty_like(boxes), np.empty(count)
    whole = 0.0
    for without in range(-1, count):
        kept = ZERO
        for at in range(count):
            if at != without:
                for side in range(boxes.shape[1]):
                    working[kept, side] = boxes[at, side]
                kept += 1
        left = merge(working, kept, most, measures, events)
        total = 0.0
        for at in range(left):
            total += measures[at]
        if without < 0:
            whole = total
        else:
            found[without] = whole - total
    return found
