"""The covering order of all subscriptions at once: how many are above each one, and in how long a chain.

Subscriptions are boxes whose starts and ends are rank codes: places in the order of all starts, or all ends, of an
attribute. They come sorted so that whatever is above a box stands before it: by start, then by descending end,
attribute by attribute, equal boxes by number. So each box looks back only, and a box before it that contains it is
above it.

Cost: with one attribute O(n log n) by a tree of partial sums; with more O(n f) comparisons, where f is the number of
those below `most`, some tenths of a nanosecond each, as several are compared at a time.
"""

from __future__ import annotations

import numpy as np

from rankcast.arrays import Array
from rankcast.compiling import compiled

BLOCK = 512
"""Boxes compared at a time: when none of them is left, their other attributes need not be looked at."""


@compiled
def levels_on_a_line(places: Array, by_chain: bool, levels: Array) -> None:
    """Write how many boxes before each one end no earlier, or how long the longest chain of such boxes is.

    `places` are the codes of ends, the latest end first. The tree is Fenwick's: node i holds the sum, or the maximum,
    of the last (i & -i) places up to i.
    """
    tree = np.zeros(len(places) + 1, np.int64)
    for at in range(len(places)):
        found = 0
        node = places[at] + 1
        while node > 0:
            found = max(found, tree[node]) if by_chain else found + tree[node]
            node -= node & -node
        levels[at] = found
        node = places[at] + 1
        while node < len(tree):
            tree[node] = max(tree[node], found + 1) if by_chain else tree[node] + 1
            node += node & -node


@compiled
def levels_in_space(starts: Array, ends: Array, by_chain: bool, most: int, levels: Array) -> None:
    """Write the same for boxes of several attributes, a line of `starts` and `ends` each; stop at `most`.

    Only boxes below `most` are looked at: they are enough to tell who reaches it. A level of `most` says "or more".
    """
    attributes, count = starts.shape
    kept_starts, kept_ends = np.empty_like(starts), np.empty_like(ends)
    kept_levels = np.empty(count, np.int64)
    left = np.empty(BLOCK, np.uint8)
    kept = 0
    for at in range(count):
        level = 0
        for first in range(0, kept, BLOCK):
            size = min(BLOCK, kept - first)
            left[:size] = 1
            alive = size
            for attribute in range(attributes):
                low, high = starts[attribute, at], ends[attribute, at]
                own_starts = kept_starts[attribute, first : first + size]
                own_ends = kept_ends[attribute, first : first + size]
                alive = 0
                for place in range(size):
                    keep = left[place] & (own_starts[place] <= low) & (own_ends[place] >= high)
                    left[place] = keep
                    alive += keep
                if alive == 0:
                    break
            if alive and by_chain:
                for place in range(size):
                    if left[place]:
                        level = max(level, kept_levels[first + place] + 1)
            else:
                level += alive
            if level >= most:
                level = most
                break
        levels[at] = level
        if level < most:
            kept_starts[:, kept], kept_ends[:, kept] = starts[:, at], ends[:, at]
            kept_levels[kept] = level
            kept += 1
