"""The distance of filters by their overlap: 1 minus the share of what both accept in what either accepts.

Volumes need a measure, and attributes come without one: a rent and a year have no common unit, texts have no length at
all. So each attribute is cut at every end point that one of the compared filters has there, and every piece between two
neighbouring cuts counts the same; a filter's volume is the number of cells of that grid in the smallest box around it.
This is the Jaccard distance of sets of cells. Hence it is a metric: equal boxes have distance 0, disjoint ones 1, it is
symmetric, and the triangle holds. It stays the same when an attribute is measured in other units or on another
monotone scale. And where subscriptions crowd, cuts lie densely, so that small differences count there and not where
nobody cares.

Cost: O(n^2 m) for n filters over m attributes; row by row, in memory for n.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from rankcast.arrays import Array
from rankcast.covering.rows import BoxRows, hull
from rankcast.model.filters import Filter


def distances(filters: Sequence[Filter]) -> Array:
    """Return the distance of each filter to each, as one table.

    >>> from rankcast.model.expressions import attr
    >>> low, high = Filter.of(attr("rent").between(0, 600)), Filter.of(attr("rent").between(300, 900))
    >>> distances([low, high])[0].round(2).tolist()
    [0.0, 0.67]
    """
    return np.array(list(distance_rows(filters))).reshape(len(filters), len(filters))


def distance_rows(filters: Sequence[Filter]) -> Iterator[Array]:
    """Give for one filter after the other its distances to all."""
    rows = BoxRows()
    boxed = [rows.space.boxed(one) for one in filters]  # all places first: a new one can move the labels of others
    boxed = [rows.space.boxed(one) for one in filters]
    for number, one in enumerate(boxed):
        rows.write(number, hull(one.outer))
    count = len(boxed)
    first, last = _cells(rows.starts[:count], rows.ends[:count])
    volumes = (last - first).prod(axis=1)
    for number in range(count):
        sides = np.minimum(last, last[number]) - np.maximum(first, first[number])
        shared = sides.clip(min=0).prod(axis=1)
        yield 1 - shared / (volumes + volumes[number] - shared)


def _cells(starts: Array, ends: Array) -> tuple[Array, Array]:
    """Return the boxes with their sides counted in cells of the grid of all sides."""
    first, last = np.empty(starts.shape), np.empty(ends.shape)
    for attribute in range(starts.shape[1]):
        cuts = np.unique(np.concatenate([starts[:, attribute], ends[:, attribute]]))
        first[:, attribute] = np.searchsorted(cuts, starts[:, attribute])
        last[:, attribute] = np.searchsorted(cuts, ends[:, attribute])
    return first, last
