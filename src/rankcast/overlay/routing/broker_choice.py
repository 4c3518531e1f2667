"""Which broker a newcomer should join, so that little more has to be sent there: three criteria, each for the ties of
the one before.

1. How many of its filters become roots of the broker's poset: these are what others must send more events for.
2. How many nodes the poset has: a smaller one is searched faster.
3. How many nodes its filters cover: the nearer to the roots they come, the more a search can skip; the more the better.

Paper: preference-aware publish/subscribe delivery with diversity (PrefSIENA), section 5.3.
Cost: a comparison of each new filter with all nodes of each broker that is asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from rankcast.arrays import Array
from rankcast.covering.relation import covers
from rankcast.covering.rows import BoxRows, hull
from rankcast.covering.topk.poset import Poset
from rankcast.model.errors import InvalidValueError
from rankcast.model.filters import Filter


class Fit(NamedTuple):
    """How well a newcomer fits a broker; the smallest is best."""

    new_roots: int
    nodes: int
    not_covered: int

    @property
    def covered(self) -> int:
        """How many nodes the newcomer's filters cover."""
        return -self.not_covered


def fit(poset: Poset, filters: Iterable[Filter]) -> Fit:
    """Return how well filters fit into a poset, which is not changed."""
    new = [one for one in dict.fromkeys(filters) if poset.find(one) is None]
    roots = [poset.filter(node) for node in sorted(poset.roots)]
    nodes = [poset.filter(node) for node in _nodes(poset)]
    new_roots = [
        one
        for at, one in enumerate(new)
        if not any(covers(root, one) for root in roots)
        and not any(_is_above(other, one, earlier=place < at) for place, other in enumerate(new) if place != at)
    ]
    covered = sum(any(covers(one, node) for one in new) for node in nodes)
    return Fit(len(new_roots), len(poset), -covered)


def best_broker(posets: Mapping[str, Poset], filters: Iterable[Filter]) -> str:
    """Return the name of the broker that filters fit best; of equals the first one."""
    if not posets:
        raise InvalidValueError("there is no broker to choose from")
    wanted = tuple(filters)
    return min(posets, key=lambda name: fit(posets[name], wanted))


def _nodes(poset: Poset) -> list[int]:
    found = sorted(poset.roots)
    seen = set(found)
    for node in found:
        below = sorted(poset.children(node) - seen)
        seen.update(below)
        found += below
    return found


def _is_above(upper: Filter, lower: Filter, *, earlier: bool) -> bool:
    return bool(covers(upper, lower)) and (earlier or not covers(lower, upper))


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
