"""The most diverse k of some events by trying them all: what the greedy selection is measured against.

All choices of k events are visited in depth-first order. The sums of distances from every event to what is chosen are
kept per depth, so that a complete choice costs one addition, not k (k - 1) / 2 distances as in the published count.
Cost: C(q, k) additions.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from rankcast.compiling import compiled

Array: TypeAlias = np.ndarray[Any, Any]


def largest_sum(distances: Array, k: int) -> float:
    """Return the largest sum of distances over the pairs of k events, given the matrix of their distances.

    >>> numbers = np.array([0.0, 1.0, 5.0, 9.0])
    >>> largest_sum(np.abs(numbers[:, None] - numbers), 3)
    18.0
    """
    if k < 2 or k > len(distances):
        return 0.0 if k < 2 else largest_sum(distances, len(distances))
    return _search(np.ascontiguousarray(distances, np.float64), k)


@compiled
def _search(distances: Array, k: int) -> float:
    count = len(distances)
    to_chosen = np.zeros((k, count))  # row d: from each event to the d events that are chosen at depth d
    totals, places = np.zeros(k), np.zeros(k, np.int64)
    best, depth = 0.0, 0
    while depth >= 0:
        place = places[depth]
        if place > count - (k - depth):
            depth -= 1
            continue
        if depth == k - 1:
            row, total = to_chosen[depth], totals[depth]
            for last in range(place, count):
                best = max(best, total + row[last])
            depth -= 1
            continue
        places[depth] = place + 1
        totals[depth + 1] = totals[depth] + to_chosen[depth, place]
        for other in range(place + 1, count):
            to_chosen[depth + 1, other] = to_chosen[depth, other] + distances[place, other]
        places[depth + 1] = place + 1
        depth += 1
    return best
