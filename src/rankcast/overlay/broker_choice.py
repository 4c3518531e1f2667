"""Which broker a newcomer should join, so that little more has to be sent there: three criteria, each for the ties of
the one before.

1. How many of its filters become roots of the broker's poset: these are what others must send more events for.
2. How many nodes the poset has: a smaller one is searched faster.
3. How many nodes its filters cover: the nearer to the roots they come, the more a search can skip; the more the better.

Paper: preference-aware publish/subscribe delivery with diversity (PrefSIENA), section 5.3.
Cost: a comparison of each new filter with all nodes of each broker that is asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from rankcast.covering.relation import covers
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
    new = [wanted for wanted in dict.fromkeys(filters) if poset.find(wanted) is None]
    roots = [poset.filter(node) for node in sorted(poset.roots)]
    nodes = [poset.filter(node) for node in poset.nodes]
    new_roots = [
        wanted
        for at, wanted in enumerate(new)
        if not any(covers(root, wanted) for root in roots)
        and not any(_is_above(other, wanted, earlier=place < at) for place, other in enumerate(new) if place != at)
    ]
    covered = sum(any(covers(wanted, node) for wanted in new) for node in nodes)
    return Fit(len(new_roots), len(poset), -covered)


def best_broker(posets: Mapping[str, Poset], filters: Iterable[Filter]) -> str:
    """Return the name of the broker that filters fit best; of equals the first one."""
    if not posets:
        raise InvalidValueError("there is no broker to choose from")
    wanted = tuple(filters)
    return min(posets, key=lambda name: fit(posets[name], wanted))


def _is_above(upper: Filter, lower: Filter, *, earlier: bool) -> bool:
    return bool(covers(upper, lower)) and (earlier or not covers(lower, upper))
