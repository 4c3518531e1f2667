"""Three plain passes over all distances of events to ideal points: what top-k in a window is measured against.

Each evaluates every distance of two dimensions once, in double precision, squared, by blocks that stay in the caches,
and does next to nothing with it: count those within a bound, store them, find the nearest. Nothing that looks at every
event for every subscription can do less; the fastest of the three is the limit of the bench.
"""

from __future__ import annotations

import numpy as np

from rankcast.arrays import Array
from rankcast.compiling import compiled

BLOCK = 8192
"""Events of a block: 128 KB of coordinates."""


@compiled
def count_within(columns: Array, ideals: Array, bound: float) -> Array:
    """Return for each ideal point how many squared distances are within a bound."""
    found = np.zeros(len(ideals), np.int64)
    for start in range(0, columns.shape[1], BLOCK):
        first, second = columns[0, start : start + BLOCK], columns[1, start : start + BLOCK]
        for at in range(len(ideals)):
            x, y = ideals[at, 0], ideals[at, 1]
            count = np.int32(0)
            for i in range(len(first)):
                right, up = first[i] - x, second[i] - y
                count += np.int32(right * right + up * up <= bound)
            found[at] += count
    return found


@compiled
def store_all(columns: Array, ideals: Array) -> float:
    """Write every squared distance to the same short buffer; return a sum of a few, so that none can be left out."""
    buffer = np.empty(BLOCK)
    total = 0.0
    for start in range(0, columns.shape[1], BLOCK):
        first, second = columns[0, start : start + BLOCK], columns[1, start : start + BLOCK]
        for at in range(len(ideals)):
            x, y = ideals[at, 0], ideals[at, 1]
            for i in range(len(first)):
                right, up = first[i] - x, second[i] - y
                buffer[i] = right * right + up * up
            total += buffer[at % len(first)]
    return total


@compiled
def find_nearest(columns: Array, ideals: Array) -> Array:
    """Return for each ideal point the least squared distance."""
    nearest = np.full(len(ideals), np.inf)
    for start in range(0, columns.shape[1], BLOCK):
        first, second = columns[0, start : start + BLOCK], columns[1, start : start + BLOCK]
        for at in range(len(ideals)):
            x, y = ideals[at, 0], ideals[at, 1]
            least = nearest[at]
            for i in range(len(first)):
                right, up = first[i] - x, second[i] - y
                least = min(least, right * right + up * up)
            nearest[at] = least
    return nearest
