"""Bulk comparisons of one subscription with many: which of them are above it, which below.

A subscription is one box of label ranges, a score, and its number. It is above another when its box contains the
other's and it ranks above: by a larger score or, with equal scores, by the lower number. Without scores containment
decides, and the number only between equal boxes. So "above" is a strict partial order.

Many subscriptions are columns: `starts[attribute]` and `ends[attribute]` are arrays over them, so that a comparison
with all of them is a few passes that the processor does several at a time. Subscriptions whose box does not tell all
(disjunctions, string patterns) are marked `partial`; their pairs pass here whenever they may be related, and the caller
decides them one by one. Cost: about half a nanosecond per subscription and attribute.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numba import njit

Array: TypeAlias = np.ndarray[Any, Any]

BLOCK = 512
"""Subscriptions compared at a time: when none of them is left, their other attributes need not be looked at."""


@njit(cache=True, nogil=True)
def containing(start: Array, end: Array, starts: Array, ends: Array, count: int, found: Array) -> int:
    """Write the positions of the boxes that contain a box; return how many.

    With starts and ends exchanged, those of the box and of the boxes, it finds the boxes that lie in the box.
    """
    left = np.empty(BLOCK, np.uint8)
    total = 0
    for first in range(0, count, BLOCK):
        size = min(BLOCK, count - first)
        left[:size] = 1
        for attribute in range(len(start)):
            low, high = start[attribute], end[attribute]
            alive = 0
            for at in range(size):
                keep = left[at] & (starts[attribute, first + at] <= low) & (ends[attribute, first + at] >= high)
                left[at] = keep
                alive += keep
            if alive == 0:
                break
        for at in range(size):
            if left[at]:
                found[total] = first + at
                total += 1
    return total


@njit(cache=True, nogil=True)
def only_outranking(
    number: int,
    upwards: bool,
    by_score: bool,
    start: Array,
    end: Array,
    starts: Array,
    ends: Array,
    scores: Array,
    partial: Array,
    numbers: Array,
    found: Array,
    count: int,
) -> int:
    """Keep, of the positions found, those that rank above the subscription (upwards) or below it; return how many.

    `scores` and `partial` are by number. What is written are numbers, no longer positions.
    """
    kept = 0
    for at in range(count):
        place = found[at]
        other = numbers[place]
        upper, lower = (other, number) if upwards else (number, other)
        if upper == lower:
            continue
        if by_score:
            if scores[upper] < scores[lower] or (scores[upper] == scores[lower] and upper > lower):
                continue
        elif upper > lower and not partial[upper] and not partial[lower]:
            equal = True
            for attribute in range(len(start)):
                if starts[attribute, place] != start[attribute] or ends[attribute, place] != end[attribute]:
                    equal = False
                    break
            if equal:
                continue
        found[kept] = other
        kept += 1
    return kept


@njit(cache=True, nogil=True)
def outermost(starts: Array, ends: Array, count: int, inwards: bool, kept: Array) -> int:
    """Write the positions of the boxes that contain no other one (inwards) or that no other one contains.

    `starts` and `ends` have a line per box, sorted so that no box comes before one that contains it; when looking
    inwards, the other way round. So a box can be related in the unwanted way only to one that comes before it, and then
    to one that is kept.
    """
    total = 0
    for at in range(count):
        free = True
        for place in range(total):
            other = kept[place]
            outer, inner = (at, other) if inwards else (other, at)
            related = True
            for attribute in range(starts.shape[1]):
                if (
                    starts[outer, attribute] > starts[inner, attribute]
                    or ends[outer, attribute] < ends[inner, attribute]
                ):
                    related = False
                    break
            if related:
                free = False
                break
        if free:
            kept[total] = at
            total += 1
    return total
