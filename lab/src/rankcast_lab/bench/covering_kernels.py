"""Covering as one would first write it: every subscription compared with every other, in a compiled loop."""

from __future__ import annotations

import numpy as np

from rankcast.arrays import Array
from rankcast.compiling import compiled


@compiled
def pairwise_counts(starts: Array, ends: Array, most: int) -> Array:
    """Return how many ranges contain each one, ties by number; counting stops at `most`."""
    count, attributes = starts.shape
    found = np.zeros(count, np.int64)
    for one in range(count):
        for other in range(count):
            contains, equal = other != one, True
            for attribute in range(attributes):
                if starts[other, attribute] > starts[one, attribute] or ends[other, attribute] < ends[one, attribute]:
                    contains = False
                    break
                equal = equal and starts[other, attribute] == starts[one, attribute]
                equal = equal and ends[other, attribute] == ends[one, attribute]
            if contains and not (equal and other > one):
                found[one] += 1
                if found[one] == most:
                    break
    return found
