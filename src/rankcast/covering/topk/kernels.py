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

import numpy as np

from rankcast.arrays import Array
from rankcast.compiling import compiled

BLOCK = 512
"""Subscriptions compared at a time: when none of them is left, their other attributes need not be looked at."""


@compiled
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


@compiled
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


@compiled
def related(
    number: int,
    upwards: bool,
    by_score: bool,
    all_starts: Array,
    all_ends: Array,
    starts: Array,
    ends: Array,
    scores: Array,
    partial: Array,
    numbers: Array,
    found: Array,
) -> int:
    """Write the numbers of those among some subscriptions that are above one (upwards) or below it; return how many.

    `all_starts` and `all_ends` have a line per number; `starts`, `ends` and `numbers` are of the subscriptions that the
    one is compared with.
    """
    start, end = all_starts[number], all_ends[number]
    if upwards:
        count = containing(start, end, starts, ends, len(numbers), found)
    else:
        count = containing(end, start, ends, starts, len(numbers), found)
    return only_outranking(number, upwards, by_score, start, end, starts, ends, scores, partial, numbers, found, count)


@compiled
def add_shares(
    uppers: Array,
    by_score: bool,
    all_starts: Array,
    all_ends: Array,
    starts: Array,
    ends: Array,
    scores: Array,
    partial: Array,
    numbers: Array,
    found: Array,
    weights: Array,
    levels: Array,
    totals: Array,
) -> None:
    """Add to each total the weights of those below one of `uppers`, each divided by its level.

    Sums keep what rounding loses and are rounded at the end, so that the order of what is added does not show.
    """
    for at in range(len(uppers)):
        count = related(
            uppers[at], False, by_score, all_starts, all_ends, starts, ends, scores, partial, numbers, found
        )
        total, lost = totals[at], 0.0
        for place in range(count):
            share = weights[found[place]] / levels[found[place]]
            larger = total + share
            part = larger - total
            lost += (total - (larger - part)) + (share - part)
            total = larger
        totals[at] = total + lost


@compiled
def nearest(starts: Array, ends: Array, numbers: Array, upwards: bool, kept: Array) -> int:
    """Write those of some subscriptions that are above no other of them (upwards) or below no other; return how many.

    `starts` and `ends` have a line per number. Each one is compared with those kept so far, which are few: it is
    dropped when one of them is nearer, and else drops those that it is nearer than.
    """
    total = 0
    for number in numbers:
        place, dropped = 0, False
        while place < total:
            other = kept[place]
            contains, contained = True, True
            for attribute in range(starts.shape[1]):
                low, high = starts[number, attribute], ends[number, attribute]
                contains &= (low <= starts[other, attribute]) & (high >= ends[other, attribute])
                contained &= (low >= starts[other, attribute]) & (high <= ends[other, attribute])
            if contains and contained:  # of equal boxes the lower number is above
                contains, contained = number < other, number > other
            if contains if upwards else contained:
                dropped = True
                break
            if contained if upwards else contains:
                total -= 1
                kept[place] = kept[total]
            else:
                place += 1
        if not dropped:
            kept[total] = number
            total += 1
    return total
