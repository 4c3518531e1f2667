"""Filters for an assignment that is given: a few boxes around all that a broker has to let through.

Finding the best ones is NP-hard, so two ways are tried and the smaller result is taken: k-means on the ends of the
boxes (the paper's way), and merging, two at a time, the boxes that grow least by it. Filters of inner brokers are
fitted around those below them, from the leaves up.

Cost: per broker O(different boxes * alpha) for the clusters; merging starts from at most `MERGED` clusters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from itertools import pairwise
from operator import add

import numpy as np

from rankcast.arrays import Array
from rankcast.placement.kernels import measure, merge
from rankcast.placement.problem.boxes import Density
from rankcast.placement.problem.problem import Placement, PlacementProblem

TRIES = 3
"""Starts of k-means."""

MERGED = 32
"""Clusters from which merging starts: its cost grows with the cube of their number."""

BLOCK = 1 << 16
"""Points whose distances to all centres are in memory at a time."""


def fit_filters(
    problem: PlacementProblem, column_of: Array, random: np.random.Generator, known: Mapping[int, Array] | None = None
) -> Placement:
    """Return the placement with a given leaf column for each subscriber, and filters fitted to that.

    `known` are boxes of leaf brokers, most of them around some interest there: tightened to that, they are tried too.
    """
    seeds = leaf_seeds(problem, random)
    filters = [np.empty((0, problem.interests.sides.shape[1])) for _ in range(len(problem.tree))]
    for column, parts in enumerate(parts_by_leaf(problem, column_of)):
        broker = int(problem.tree.leaves[column])
        most = int(problem.boxes_of_brokers[broker])
        filters[broker] = fit_leaf(
            parts, most, problem.density, int(seeds[column]), None if known is None else known[broker]
        )
    fit_inner_filters(problem, filters, random)
    return Placement(problem.tree.leaves[column_of], tuple(filters))


def leaf_seeds(problem: PlacementProblem, random: np.random.Generator) -> Array:
    """Return a seed for each leaf: leaves can be fitted in any order, and anywhere."""
    return random.integers(0, 1 << 63, len(problem.tree.leaves))


def fit_leaf(parts: Array, most: int, density: Density, seed: int, known: Array | None = None) -> Array:
    """Return the filter of a leaf: few boxes around parts, or known boxes tightened to them where that is smaller."""
    if not len(parts):
        return parts
    found = enclosing(parts, most, density, np.random.default_rng(seed))
    if known is None:
        return found
    tight = _tighten(parts, known, most, density)
    return tight if measure(tight, density) < measure(found, density) else found


def fit_inner_filters(problem: PlacementProblem, filters: list[Array], random: np.random.Generator) -> None:
    """Replace the filters of inner brokers by boxes around those below, from the leaves up."""
    for broker in problem.tree.downwards[::-1].tolist():
        children = problem.tree.children(broker)
        if len(children):
            below = np.concatenate([filters[child] for child in children])
            filters[broker] = enclosing(below, int(problem.boxes_of_brokers[broker]), problem.density, random)


def parts_by_leaf(problem: PlacementProblem, column_of: Array) -> Iterable[Array]:
    """Yield the different boxes that the subscribers of each leaf are interested in."""
    interests = problem.interests
    codes = np.unique(column_of * len(interests) + problem.interest_of)
    columns, wanted = np.divmod(codes, len(interests))
    ends = np.searchsorted(columns, np.arange(len(problem.tree.leaves) + 1))
    for first, last in pairwise(ends):
        yield np.unique(interests.taken(wanted[first:last]).sides, axis=0)


def enclosing(boxes: Array, most: int, density: Density, random: np.random.Generator) -> Array:
    """Return at most so many boxes, each given box in one of them, of small measure together."""
    boxes = np.unique(boxes, axis=0)
    if len(boxes) <= most:
        return boxes
    points = np.column_stack([normalised(column) for column in boxes.T])
    found = [hulls(boxes, k_means(points, most, random)) for _ in range(TRIES)]
    found.append(merge_boxes(hulls(boxes, k_means(points, MERGED, random)), most, density))
    return min(found, key=lambda tried: measure(tried, density))


def _tighten(parts: Array, boxes: Array, most: int, density: Density) -> Array:
    """Give each part to the smallest known box that contains it, shrink boxes to that, and merge what is too many."""
    order = np.argsort(density.measures(boxes), kind="stable")
    labels = np.full(len(parts), len(boxes))
    for rank, box in reversed(list(enumerate(boxes[order]))):
        labels[(parts <= box).all(axis=1)] = rank
    alone = labels == len(boxes)  # in no known box: one of its own
    labels[alone] += np.arange(alone.sum())
    return merge_boxes(np.unique(hulls(parts, labels), axis=0), most, density)


def hulls(boxes: Array, labels: Array) -> Array:
    """Return the smallest box around each cluster that is not empty."""
    order = np.argsort(labels, kind="stable")
    starts = np.flatnonzero(np.diff(labels[order], prepend=-1))
    found: Array = np.maximum.reduceat(boxes[order], starts, axis=0)
    return found


def merge_boxes(boxes: Array, most: int, density: Density) -> Array:
    """Merge the two boxes that grow least by it, until there are few enough."""
    return _merge(boxes, most, density)[0]


def savings(boxes: Array, most: int, density: Density) -> Array:
    """Return how much less boxes measure together, merged to so many, without each one of them."""
    every = np.arange(len(boxes))
    _, whole = _merge(boxes, most, density)
    return np.array([whole - _merge(boxes[every != at], most, density)[1] for at in every])


def _merge(boxes: Array, most: int, density: Density) -> tuple[Array, float]:
    """Return merged boxes, and what they measure together, added up in their order."""
    found, measures = np.array(boxes, order="C"), np.empty(len(boxes))
    count = merge(found, len(found), most, measures, density.rows)
    return found[:count], reduce(add, measures[:count].tolist(), 0.0)


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
