"""How one box relates to many, each attribute in one pass over all of them."""

from __future__ import annotations

import numpy as np

from rankcast.arrays import Array
from rankcast.compiling import compiled

CONTAINS, CONTAINED, MEETS = 1, 2, 4
"""What is found of a pair, to be added: the one contains the other, lies in it, has a point in common with it."""

BLOCK = 1024
"""Boxes compared at a time, so that what is known of them stays in the nearest cache."""


@compiled
def relate_boxes(start: Array, end: Array, starts: Array, ends: Array, count: int, found: Array) -> None:
    """Write for each box what is found of it; `starts` and `ends` have a line per attribute."""
    for first in range(0, count, BLOCK):
        size = min(BLOCK, count - first)
        known = found[first : first + size]
        known[:] = CONTAINS | CONTAINED | MEETS
        for attribute in range(len(start)):
            low, high = start[attribute], end[attribute]
            lows, highs = starts[attribute, first : first + size], ends[attribute, first : first + size]
            for at in range(size):
                contains = (low <= lows[at]) & (high >= highs[at])
                contained = (low >= lows[at]) & (high <= highs[at])
                meets = (low < highs[at]) & (lows[at] < high)
                known[at] &= np.uint8(contains * CONTAINS | contained * CONTAINED | meets * MEETS)
