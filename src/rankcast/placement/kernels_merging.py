"""Merging boxes, two at a time, until there are few enough: the two that grow least by it.

`events` are as in `kernels_growth`. Cost: O(n^3) for n boxes, a few nanoseconds each when events are uniform.
"""

from __future__ import annotations

import numpy as np

from rankcast.compiling import compiled, inlined
from rankcast.placement.boxes import Array


@inlined
def _measure(first: Array, at: int, second: Array, other: int, joined: bool, events: Array) -> float:
    """Return the measure of the hull of two rows, or of what they have in common."""
    sides = first.shape[1]
    if len(events) == 0:
        volume = 1.0
        for axis in range(sides // 2):
            upper = axis + sides // 2
            if joined:
                length = max(first[at, axis], second[other, axis]) + max(first[at, upper], second[other, upper])
            else:
                length = min(first[at, axis], second[other, axis]) + min(first[at, upper], second[other, upper])
            volume *= max(length, 0.0)
        return volume
    total = 0.0
    for event in range(len(events)):
        inside = True
        for side in range(sides):
            if joined:
                inside = inside and events[event, side] <= max(first[at, side], second[other, side])
            else:
                inside = inside and events[event, side] <= min(first[at, side], second[other, side])
        total += events[event, sides] if inside else 0.0
    return total


@inlined
def _growth(boxes: Array, measures: Array, first: int, second: int, events: Array) -> float:
    """Return how much larger the hull of two boxes is than the boxes."""
    growth: float = _measure(boxes, first, boxes, second, True, events) - measures[first] - measures[second]
    return growth + _measure(boxes, first, boxes, second, False, events)


@inlined
def _lies_within(boxes: Array, inner: int, outer: int) -> bool:
    for side in range(boxes.shape[1]):  # noqa: SIM110 (a generator would not be compiled)
        if boxes[inner, side] > boxes[outer, side]:
            return False
    return True


@compiled
def merge(boxes: Array, count: int, most: int, measures: Array, events: Array) -> int:
    """Merge the first boxes in place until there are at most so many; return how many are left, with their measures."""
    for at in range(count):
        measures[at] = _measure(boxes, at, boxes, at, True, events)
    while count > most:
        best, first, second = np.inf, 0, 1
        for one in range(count):
            for other in range(one + 1, count):
                growth = _growth(boxes, measures, one, other, events)
                if growth < best:
                    best, first, second = growth, one, other
        for side in range(boxes.shape[1]):
            boxes[first, side] = max(boxes[first, side], boxes[second, side])
        measures[first] = _measure(boxes, first, boxes, first, True, events)
        kept = 0
        for at in range(count):  # the second one goes, and so does all else that the merged box contains
            if at == first or not _lies_within(boxes, at, first):
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
        kept = 0
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
