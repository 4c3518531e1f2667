"""The tree of brokers and the placement chosen together, given where brokers are and how many children each may have.

Without a limit on children there would be nothing to choose: all brokers at the publisher is the best of all trees, as
inner brokers only add traffic and latency. Within the limit, placement and tree are improved in turn: local search
moves subscribers, then brokers are moved. Three moves of brokers: another parent, exchanged parents, and exchanged
places in the tree. One counts when all traffic is less, or the same with shorter paths, and every subscriber still is
within its latency limit, which stays what it was for the given tree. Leaves stay leaves but for exchanged places; those
are left out where leaves have different shares of the load.

A given tree with more children somewhere is no start. Then a tree by positions is, if everybody has a leaf within the
limit there: which brokers are leaves is decided again, so leaves must not have different shares.

Cost: some milliseconds per move that is tried, beside the local search.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rankcast.arrays import Array
from rankcast.model.errors import PlacementError
from rankcast.placement.greedy import greedy_offline
from rankcast.placement.kernels import measure
from rankcast.placement.problem.problem import TOLERANCE, Latency, Placement, PlacementProblem
from rankcast.placement.problem.tree import PUBLISHER, BrokerTree
from rankcast.placement.programme.fitting import fit_inner_filters, k_means, merge_boxes
from rankcast.placement.search import anneal

WORTHWHILE = 1e-9
"""The least share of the traffic that a move has to save."""


@dataclass(frozen=True, slots=True, eq=False)
class Design:
    """A problem on the designed tree with its placement, beside the placement on the given tree.

    Both had as many moves of local search, half of them before the tree was touched; `accepted` is how many moves of
    brokers there were. The given tree may have more children somewhere than the designed one.
    """

    problem: PlacementProblem
    placement: Placement
    given: Placement
    accepted: int


def clustered_tree(publisher: Array, positions: Array, degree: int, random: np.random.Generator) -> BrokerTree:
    """Return a tree in which nobody has more children than `degree`, made by where brokers are.

    Brokers are clustered by position, the one nearest to the publisher heads its cluster, and so on within clusters.
    """
    if degree < 2:
        raise PlacementError(f"degree: {degree}; expected at least 2 children")
    distance = np.linalg.norm(positions - publisher, axis=1)
    parents = np.full(len(positions), PUBLISHER)
    waiting = [(PUBLISHER, np.arange(len(positions)))]
    while waiting:
        parent, members = waiting.pop()
        if len(members) <= degree:
            parents[members] = parent
            continue
        labels = k_means(positions[members], degree, random)
        for label in np.unique(labels):
            group = members[labels == label]
            head = group[distance[group].argmin()]
            parents[head] = parent
            if len(group) > 1:
                waiting.append((int(head), group[group != head]))
    return BrokerTree(publisher, positions, parents)


def most_children(tree: BrokerTree) -> tuple[int, int]:
    """Return who has the most children, a broker or the publisher, and how many."""
    counts = np.bincount(tree.parents + 1, minlength=len(tree) + 1)
    return int(counts.argmax()) - 1, int(counts.max())


def starting_point(problem: PlacementProblem, degree: int, random: np.random.Generator) -> PlacementProblem:
    """Return a problem on a tree in which nobody has more children than `degree`: the same if that is so already.

    Else it is on a tree by positions. Raises PlacementError when somebody has no leaf within its limit there, or when
    leaves have different shares of the load.
    """
    at, children = most_children(problem.tree)
    if children <= degree:
        return problem
    who = "the publisher" if at == PUBLISHER else problem.broker_name(at)
    wrong = f"degree: {who} has {children:,} children in the given tree; expected at most {degree:,}"
    if np.ptp(problem.shares_of_leaves) > TOLERANCE:
        raise PlacementError(f"{wrong}; no other tree is tried, as leaves have different shares of the load")
    try:
        tree = clustered_tree(problem.tree.publisher, problem.tree.positions, degree, random)
        return replace(problem, tree=tree, shares=None)
    except PlacementError as error:
        raise PlacementError(f"{wrong}; a tree by positions would not do, either: {error}") from None


def design_tree(
    problem: PlacementProblem, degree: int, random: np.random.Generator, moves: int, rounds: int = 4, tries: int = 2000
) -> Design:
    """Improve the problem's tree and a placement on it in turn.

    Half of the `moves` of local search come first; the others are divided among the rounds, and so are `tries` of
    moving brokers. Raises PlacementError where `starting_point` does.
    """
    begun = starting_point(problem, degree, random)
    placement, accepted = anneal(begun, greedy_offline(begun), random, moves // 2), 0
    half = placement if begun is problem else anneal(problem, greedy_offline(problem), random, moves // 2)
    given = anneal(problem, half, random, moves // 2)
    problem = begun
    for _ in range(rounds):
        walk = _Walk(problem, placement, degree)
        for _ in range(tries // rounds):
            accepted += walk.try_move(random)
        problem, placement = walk.result(random)
        placement = anneal(problem, placement, random, moves // 2 // rounds)
    return Design(problem, placement, given, accepted)


class _Walk:
    """A tree in motion, with the filters that hang on it; subscribers stay at the broker, or the place, they have."""

    def __init__(self, problem: PlacementProblem, placement: Placement, degree: int) -> None:
        self.problem = problem
        self.degree = degree
        self.tree = problem.tree
        self.brokers = placement.brokers
        self.filters = list(placement.filters)
        self.measures = np.array([self._measure(boxes) for boxes in self.filters])
        self._may_exchange = bool(np.ptp(problem.shares_of_leaves) == 0 and np.ptp(problem.boxes_of_brokers) == 0)
        self._pairs = self._different_pairs()

    def try_move(self, random: np.random.Generator) -> bool:
        """Try one move of brokers; return whether it was taken."""
        kind = random.integers(3 if self._may_exchange else 2)
        one, other = random.choice(len(self.tree), 2, replace=False).tolist() if len(self.tree) > 1 else (0, 0)
        if kind == 0:
            return self._hang_elsewhere(one, random)
        return self._swap_parents(one, other) if kind == 1 else self._exchange_places(one, other)

    def result(self, random: np.random.Generator) -> tuple[PlacementProblem, Placement]:
        """Return the problem on the tree as it is now, and the placement, inner filters fitted with more care."""
        problem = replace(self.problem, tree=self.tree)
        fitted = list(self.filters)
        fit_inner_filters(problem, fitted, random)
        better = sum(map(self._measure, fitted)) < float(self.measures.sum())
        return problem, Placement(self.brokers, tuple(fitted if better else self.filters))

    def _hang_elsewhere(self, broker: int, random: np.random.Generator) -> bool:
        """Hang a broker below another inner one, or the publisher."""
        counts = np.bincount(self.tree.parents + 1, minlength=len(self.tree) + 1)
        before = int(self.tree.parents[broker])
        if before != PUBLISHER and counts[before + 1] == 1:
            return False  # a leaf more
        inner = np.flatnonzero(counts[1:] > 0)
        targets = [
            target
            for target in (PUBLISHER, *inner.tolist())
            if target != before and counts[target + 1] < self.degree and not self._is_below(target, broker)
        ]
        if not targets:
            return False
        parents = self.tree.parents.copy()
        parents[broker] = targets[int(random.integers(len(targets)))]
        return self._take(parents)

    def _swap_parents(self, one: int, other: int) -> bool:
        """Exchange the parents of two brokers, with all that hangs below them."""
        parents = self.tree.parents.copy()
        if parents[one] == parents[other] or self._is_below(one, other) or self._is_below(other, one):
            return False
        parents[[one, other]] = parents[[other, one]]
        return self._take(parents)

    def _exchange_places(self, one: int, other: int) -> bool:
        """Exchange the places of two brokers: filters, subscribers, children. Traffic stays, paths may be shorter."""
        names = np.arange(len(self.tree))
        names[[one, other]] = other, one
        parents = np.empty_like(self.tree.parents)
        above = self.tree.parents[names]
        parents[:] = np.where(above == PUBLISHER, PUBLISHER, names[above])
        tree = BrokerTree(self.tree.publisher, self.tree.positions, parents)
        pairs = (self._pairs[0], names[self._pairs[1]])
        before, after = self._latencies(self.tree, self._pairs), self._latencies(tree, pairs)
        if (after > self.problem.limits[pairs[0]] * (1 + TOLERANCE)).any() or after.sum() >= before.sum():
            return False
        self.tree, self._pairs, self.brokers = tree, pairs, names[self.brokers]
        self.filters[one], self.filters[other] = self.filters[other], self.filters[one]
        self.measures[[one, other]] = self.measures[[other, one]]
        return True

    def _take(self, parents: Array) -> bool:
        """Go over to other parents, leaves being the same, if that saves traffic or way and keeps latency limits."""
        tree = BrokerTree(self.tree.publisher, self.tree.positions, parents)
        latencies = self._latencies(tree, self._pairs)
        if (latencies > self.problem.limits[self._pairs[0]] * (1 + TOLERANCE)).any():
            return False
        filters, measures = list(self.filters), self.measures.copy()
        children: dict[int, list[int]] = {}
        for child, parent in enumerate(parents.tolist()):
            children.setdefault(parent, []).append(child)
        stale = {int(broker) for broker in np.flatnonzero(parents != self.tree.parents)}
        touched = {int(parents[broker]) for broker in stale} | {int(self.tree.parents[broker]) for broker in stale}
        for broker in tree.downwards[::-1].tolist():
            if broker in touched and broker in children:
                below = np.concatenate([filters[child] for child in children[broker]])
                filters[broker] = self._around(below, broker)
                measures[broker] = self._measure(filters[broker])
                touched.add(int(parents[broker]))
        saved = float(self.measures.sum() - measures.sum())
        least = WORTHWHILE * float(self.measures.sum())
        is_shorter = latencies.sum() < self._latencies(self.tree, self._pairs).sum()
        if saved <= (-least if is_shorter else least):
            return False
        self.tree, self.filters, self.measures = tree, filters, measures
        return True

    def _around(self, boxes: Array, broker: int) -> Array:
        most = int(self.problem.boxes_of_brokers[broker])
        return merge_boxes(np.unique(boxes, axis=0), most, self.problem.density)

    def _measure(self, boxes: Array) -> float:
        return measure(boxes, self.problem.density)

    def _is_below(self, broker: int, other: int) -> bool:
        """Whether a broker is another one or below it."""
        while broker not in (PUBLISHER, other):
            broker = int(self.tree.parents[broker])
        return broker == other

    def _different_pairs(self) -> tuple[Array, Array]:
        """Return the different pairs of site and broker that there are."""
        codes = np.unique(self.problem.site_of * len(self.tree) + self.brokers)
        sites, brokers = np.divmod(codes, len(self.tree))
        return sites, brokers

    def _latencies(self, tree: BrokerTree, pairs: tuple[Array, Array]) -> Array:
        sites, brokers = pairs
        found: Array = np.linalg.norm(self.problem.sites[sites] - tree.positions[brokers], axis=1)
        return found + tree.reach[brokers] if self.problem.latency is Latency.PATH else found
