"""Depth by one parent: what the published numbers of RankCoverK seem to rest on. For the study only.

In a graph of neighbours (the Hasse diagram of covering) a subscription usually has several parents. The paper takes
"the depth in the poset" without saying by which of them. Three readings, of one attribute:

- `LONGEST`: the longest chain above, plus 1. It belongs to the order itself, and hides only what k others outrank.
- `ANY`: one more than the depth of one parent, chosen at random. It depends on how the graph happens to be stored.
- `SHORTEST`: one more than the least deep parent.

With the last two, a broker that sees only what others forwarded finds other depths than one that sees everything: what
arrives upstream depends on the way and on how graphs are stored. Cost: each range looks back over all before it, n^2/2
comparisons.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, TypeAlias

import numpy as np

from rankcast.compiling import compiled
from rankcast.covering.topk import Cover
from rankcast.samples.covering import Ranges
from rankcast_lab.engines.bulk import levels_above

Array: TypeAlias = np.ndarray[Any, Any]


class Depth(Enum):
    """Which parent makes the depth."""

    LONGEST = "longest chain"
    ANY = "one arbitrary parent"
    SHORTEST = "shortest path"


def depths(made: Ranges, by: Depth, random: np.random.Generator) -> Array:
    """Return the depths of ranges of one attribute; those that nothing covers have depth 1."""
    if by is Depth.LONGEST:
        return levels_above(made.starts, made.ends, Cover.RANK) + 1
    starts, ends = made.starts[:, 0], made.ends[:, 0]
    order = np.lexsort((np.arange(len(made)), -ends, starts))
    draws = random.random(len(made)) if by is Depth.ANY else np.full(len(made), -1.0)
    found = np.empty(len(made), np.int64)
    found[order] = _depths_by_parents(ends[order], draws)
    return found


@compiled
def _depths_by_parents(ends: Array, draws: Array) -> Array:
    """Return depths of ranges sorted by start, then by descending end; a draw below 0 takes the least deep parent.

    Looking back, starts get no later: a range that ends no earlier is a parent, unless one found before ends no later.
    """
    found = np.ones(len(ends), np.int64)
    parents = np.empty(len(ends), np.int64)
    for at in range(len(ends)):
        end, nearest, count = ends[at], np.inf, 0
        for before in range(at - 1, -1, -1):
            if end <= ends[before] < nearest:
                nearest = ends[before]
                parents[count] = before
                count += 1
                if nearest == end:
                    break
        if count and draws[at] >= 0:
            found[at] = found[parents[int(draws[at] * count)]] + 1
        elif count:
            found[at] = found[parents[:count]].min() + 1
    return found
