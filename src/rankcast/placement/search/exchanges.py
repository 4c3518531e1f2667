"""Exchanges of two subscribers between leaves, for small problems: what moves of one by one cannot reach.

Local search puts people where there is room. Where load limits are tight all leaves are full, and with a handful of
subscribers no sequence of such moves may lead to a better placement. An exchange keeps all loads. Filters are fitted
again for each one that is tried, at its two leaves and above, so this is for few subscribers only.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from rankcast.arrays import Array
from rankcast.placement.problem.problem import Placement, Problem
from rankcast.placement.programme.fitting import fit_inner_filters, fitted_leaf, leaf_seeds, parts_by_leaf
from rankcast.placement.search.local_search import traffic_of

MOST_SUBSCRIBERS = 30
"""Problems with more are left as they are: pairs grow with the square."""

MOST_TRIES = 500
"""Exchanges that are tried in all, at a millisecond each."""

WORTHWHILE = 1e-12
"""The least share of the traffic that an exchange has to save: less comes from rounding."""


KICKS, EXCHANGES_OF_A_KICK = 5, 2
"""Where no exchange helps, some are made at random and it begins again from there, so many times."""


def exchanged(problem: Problem, start: Placement, random: np.random.Generator, tries: int = MOST_TRIES) -> Placement:
    """Return a placement with less traffic and the same loads, or the start where no exchange that is tried helps."""
    if len(problem) > MOST_SUBSCRIBERS:
        return start
    descent = _Descent(problem, random, tries)
    best, least = descent.end_from(start)
    for _ in range(KICKS):
        kicked = best
        for _ in range(EXCHANGES_OF_A_KICK):
            possible = list(_exchanges(problem, kicked))
            if not possible or not descent.tries:
                return best
            kicked = descent.tried(possible[int(random.integers(len(possible)))])
        found, traffic = descent.end_from(kicked)
        if traffic < least * (1 - WORTHWHILE):
            best, least = found, traffic
    return best


class _Descent:
    """Exchanges that save traffic, one after the other, as long as tries are left."""

    def __init__(self, problem: Problem, random: np.random.Generator, tries: int) -> None:
        self.tries = tries
        self._problem = problem
        self._random = random
        self._seeds = leaf_seeds(problem, random).tolist()
        self._known: dict[tuple[int, bytes], Array] = {}
        """Filters of leaves that were fitted before, by column and what they have to let through."""

    def tried(self, column_of: Array) -> Placement:
        """Return the placement with a given leaf column for each subscriber."""
        self.tries -= 1
        tree = self._problem.tree
        filters = [np.empty((0, self._problem.interests.sides.shape[1])) for _ in range(len(tree))]
        for column, parts in enumerate(parts_by_leaf(self._problem, column_of)):
            filters[tree.leaves[column]] = self._filter_of(column, parts)
        fit_inner_filters(self._problem, filters, self._random)
        return Placement(tree.leaves[column_of], tuple(filters))

    def _filter_of(self, column: int, parts: Array) -> Array:
        key = (column, parts.tobytes())
        if key not in self._known:
            most = int(self._problem.boxes_of_brokers[self._problem.tree.leaves[column]])
            self._known[key] = fitted_leaf(parts, most, self._problem.density, self._seeds[column])
        return self._known[key]

    def end_from(self, start: Placement) -> tuple[Placement, float]:
        """Return where exchanges that save traffic lead, and the traffic there."""
        best, least = start, traffic_of(self._problem, start)
        while (found := self._better(best, least)) is not None:
            best, least = found
        return best, least

    def _better(self, placement: Placement, least: float) -> tuple[Placement, float] | None:
        for column_of in _exchanges(self._problem, placement):
            if not self.tries:
                break
            found = self.tried(column_of)
            traffic = traffic_of(self._problem, found)
            if traffic < least * (1 - WORTHWHILE):
                return found, traffic
        return None


def _exchanges(problem: Problem, placement: Placement) -> Iterator[Array]:
    """Yield the leaf columns of all subscribers after each exchange that latency limits allow and that changes any."""
    column_of = np.searchsorted(problem.tree.leaves, placement.brokers)
    may_have = problem.candidates[problem.site_of]
    for one, other in combinations(range(len(problem)), 2):
        here, there = column_of[one], column_of[other]
        is_change = here != there and problem.interest_of[one] != problem.interest_of[other]
        if is_change and may_have[one, there] and may_have[other, here]:
            changed = column_of.copy()
            changed[one], changed[other] = there, here
            yield changed
