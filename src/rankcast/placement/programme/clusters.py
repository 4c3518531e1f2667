"""Clusters of points: k-means as it is written in books, for any generator of random numbers."""

from __future__ import annotations

import numpy as np

from rankcast.arrays import Array

BLOCK = 1 << 16
"""Points whose distances to all centres are in memory at a time."""


def normalised(block: Array) -> Array:
    """Return a block of coordinates scaled to a spread of 1, so that blocks count alike; not where all are equal."""
    spread = float(block.std())
    return block / spread if spread > 0 else block * 0.0


def k_means(points: Array, count: int, random: np.random.Generator, rounds: int = 30) -> Array:
    """Return the cluster of each point, from 0 to at most `count` - 1; a cluster may be empty.

    Starts from different points, where there are so many. Cost: O(rounds * points * count).
    """
    different = np.unique(points, axis=0)
    if len(different) <= count:
        return np.unique(points, axis=0, return_inverse=True)[1].reshape(-1)
    centres = different[np.sort(random.choice(len(different), count, replace=False))]
    labels = nearest(points, centres)
    for _ in range(rounds):
        sizes = np.bincount(labels, minlength=count)
        sums = np.column_stack([np.bincount(labels, weights=column, minlength=count) for column in points.T])
        centres = np.where(sizes[:, None] > 0, sums / np.maximum(sizes, 1)[:, None], centres)
        moved = nearest(points, centres)
        if (moved == labels).all():
            break
        labels = moved
    return labels


def nearest(points: Array, centres: Array) -> Array:
    """Return the nearest centre of each point."""
    found = np.empty(len(points), np.int64)
    squares = (centres**2).sum(axis=1)
    for first in range(0, len(points), BLOCK):
        block = points[first : first + BLOCK]
        found[first : first + BLOCK] = (squares - 2 * block @ centres.T).argmin(axis=1)
    return found
