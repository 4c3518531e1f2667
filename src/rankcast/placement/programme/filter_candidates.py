"""Boxes that filters may be made of: the paper's FilterGen.

All boxes around subsets of the sampled interests would be far too many. So interests are first joined into some
*superinterests*, clusters in the network and the event space together. Along each attribute intervals of lengths that
double are laid over the superinterests, no two of one length overlapping by more than half of it; candidates are the
products of these intervals, shrunk to what they contain.

Each broker gets candidates of its own, shrunk to the interests of those it may serve: boxes that contain the same of
these are one. The superinterests themselves and the box around everything are candidates, too. Every interest is in
some candidate, which needs one more length than the paper has: its longest intervals take in only interests of at most
half their length.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankcast.arrays import Array
from rankcast.placement.kernels.boxes import contained, shrunk, shrunk_products
from rankcast.placement.problem.boxes import corners, hull
from rankcast.placement.programme.clusters import k_means, normalised
from rankcast.placement.programme.fitting import hulls

OVERLAP = 0.5
"""How much of their length two intervals may overlap."""

SMALLEST = 1 / 1024
"""The least length of an interval, as a share of the whole: points have none, and lengths only double."""

MOST_PRODUCTS = 60_000
"""Products of intervals. Beyond that the finest lengths are left out: more attributes, coarser boxes."""


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Boxes of one broker, with the needs in each: `needs[offsets[b] : offsets[b + 1]]` are numbers of given parts."""

    boxes: Array
    offsets: Array
    needs: Array


def superinterests(parts: Array, positions: Array, count: int, random: np.random.Generator) -> Array:
    """Return boxes around clusters of parts that are alike, and wanted from near each other."""
    points = np.column_stack([normalised(positions), normalised(parts)])
    return np.unique(hulls(parts, k_means(points, count, random)), axis=0)


def intervals(low: Array, high: Array, coarsest: int | None = None) -> tuple[Array, Array]:
    """Return intervals over the projections of superinterests: of all lengths, or of so many of the longest."""
    whole = float(high.max() - low.min())
    if whole == 0:
        return low[:1], high[:1]
    smallest = max(float((high - low).min()), whole * SMALLEST)
    levels = int(np.ceil(np.log2(whole / smallest))) + 1
    found = set()
    for level in range(1 if coarsest is None else max(1, levels - coarsest + 1), levels + 1):
        length = 2.0**level * smallest
        short = high - low <= length / 2
        starts = np.unique(low[short])
        at = 0
        while at < len(starts):
            inside = short & (low >= starts[at]) & (high <= starts[at] + length)
            found.add((float(low[inside].min()), float(high[inside].max())))
            at = int(np.searchsorted(starts, starts[at] + (1 - OVERLAP) * length, side="right"))
    found.add((float(low.min()), float(high.max())))
    ends = np.array(sorted(found))
    return ends[:, 0], ends[:, 1]


@dataclass(frozen=True, slots=True, eq=False)
class Products:
    """Intervals by attribute, as sides: rows of `lows` and `highs`, `counts` of each; and boxes to add to products."""

    lows: Array
    highs: Array
    counts: Array
    others: Array

    @staticmethod
    def of(supers: Array) -> Products:
        """Return the intervals over superinterests."""
        low, high = corners(supers)
        coarsest: int | None = None
        while True:
            found = [intervals(*ends, coarsest) for ends in zip(low.T, high.T, strict=True)]
            counts = np.array([len(starts) for starts, _ in found])
            if counts.prod() <= MOST_PRODUCTS or coarsest == 1:
                break
            coarsest = 10 if coarsest is None else coarsest - 1
        lows, highs = (np.zeros((len(found), int(counts.max()))) for _ in range(2))
        for axis, (starts, ends) in enumerate(found):
            lows[axis, : len(starts)] = 0.0 - starts
            highs[axis, : len(ends)] = ends
        return Products(lows, highs, counts, np.concatenate([supers, hull(supers)[None]]))

    def shrunk_to(self, parts: Array, keys: Array) -> Candidates:
        """Return the candidates for parts that are given with random keys; of equal content only one."""
        if not len(parts):
            return Candidates(parts, np.zeros(1, np.int64), np.zeros(0, np.int64))
        size = int(self.counts.prod())
        boxes, hashes = np.empty((size, parts.shape[1])), np.empty(size, np.uint64)
        made = shrunk_products(parts, keys, self.lows, self.highs, self.counts, boxes, hashes)
        _, first = np.unique(hashes[:made], return_index=True)
        different = np.unique(np.concatenate([boxes[first], hull(parts)[None], shrunk(parts, self.others)]), axis=0)
        return Candidates(different, *contained(parts, different))
