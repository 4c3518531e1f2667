"""Random points against a union of boxes, and how many of them a probabilistic answer needs.

A point of the tested box that no row contains proves that it is not covered. That no such point was found proves
nothing; the paper bounds the probability of a wrong "covered" by (1 - w) ** d, for d points and any lower bound w of
the share of uncovered points. The bound it prints is none (`printed_share`): it takes, per attribute, the smallest
distance of a row's side from the box's side, but an uncovered cell may lie between the sides of two rows. `sound_share`
takes the smallest cell that such sides can enclose.

Boxes are in any integer labels; shares are in terms of these.
"""

from __future__ import annotations

import numpy as np

from rankcast.arrays import Array
from rankcast.compiling import compiled


@compiled
def probe(start: Array, end: Array, starts: Array, ends: Array, rows: Array, points: Array, point: Array) -> int:
    """Return which of some points, given as shares of the box's sides, is the first that no row contains; -1: none.

    That point is written. The rows are reordered: one that contained a point is tried first next time.
    """
    for at in range(len(points)):
        for attribute in range(len(start)):
            width = end[attribute] - start[attribute]
            point[attribute] = start[attribute] + min(width - 1, np.int64(points[at, attribute] * width))
        inside = False
        for place in range(len(rows)):
            row = rows[place]
            inside = True
            for attribute in range(len(start)):
                if point[attribute] < starts[row, attribute] or point[attribute] >= ends[row, attribute]:
                    inside = False
                    break
            if inside:
                rows[0], rows[place] = row, rows[0]
                break
        if not inside:
            return at
    return -1


@compiled
def printed_share(start: Array, end: Array, starts: Array, ends: Array, rows: Array) -> float:
    """Return the logarithm of what the paper takes for a lower bound of the share of uncovered points."""
    share = 0.0
    for attribute in range(len(start)):
        width = end[attribute] - start[attribute]
        gap = width
        for row in rows:
            if starts[row, attribute] > start[attribute]:
                gap = min(gap, starts[row, attribute] - start[attribute])
            if ends[row, attribute] < end[attribute]:
                gap = min(gap, end[attribute] - ends[row, attribute])
        share += np.log(gap / width)
    return share


@compiled
def sound_share(start: Array, end: Array, starts: Array, ends: Array, rows: Array) -> float:
    """Return the logarithm of a lower bound of the share of uncovered points, if there are any.

    An uncovered point lies in a cell [b, a) of each attribute, where b is the start of the box or the end of a row and
    a the end of the box or the start of a row; the smallest such cells together are the bound.
    """
    share = 0.0
    count = len(rows)
    uppers, lowers = np.empty(count + 1, np.int64), np.empty(count + 1, np.int64)
    for attribute in range(len(start)):
        upper, lower = 1, 1
        uppers[0], lowers[0] = end[attribute], start[attribute]
        for row in rows:
            if start[attribute] < starts[row, attribute] < end[attribute]:
                uppers[upper] = starts[row, attribute]
                upper += 1
            if start[attribute] < ends[row, attribute] < end[attribute]:
                lowers[lower] = ends[row, attribute]
                lower += 1
        sides, floors = np.sort(uppers[:upper]), np.sort(lowers[:lower])
        gap = end[attribute] - start[attribute]
        below = 0
        for side in sides:
            while below < lower and floors[below] < side:
                below += 1
            gap = min(gap, side - floors[below - 1])
        share += np.log(gap / (end[attribute] - start[attribute]))
    return share
