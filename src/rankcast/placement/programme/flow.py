"""Load balance as maximum flow: how many subscribers of each class go to each leaf.

Subscribers with the same candidate brokers are one class, so the network has a node per class and per leaf, whatever
the number of subscribers. Flow and its costs are integers, so the answer is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from ortools.graph.python.max_flow import SimpleMaxFlow
from ortools.graph.python.min_cost_flow import SimpleMinCostFlow

from rankcast.arrays import Array
from rankcast.model.errors import PlacementError
from rankcast.placement.problem.problem import TOLERANCE, PlacementProblem

HALVINGS = 60
"""Steps in the search for the best load factor: more than a float64 has digits for."""


@dataclass(frozen=True, slots=True, eq=False)
class Classes:
    """Subscribers by what brokers they may have: `allowed` has a row per class, `members` says whose class it is."""

    allowed: Array
    members: Array

    @property
    def sizes(self) -> Array:
        """How many subscribers each class has."""
        return np.bincount(self.members, minlength=len(self.allowed))

    def listed(self) -> tuple[Array, Array]:
        """Return the brokers of all classes one after the other, and where those of each class start.

        Both are contiguous in any case: kernels are compiled again for any other layout of their arrays.
        """
        rows, brokers = np.nonzero(self.allowed)
        return np.ascontiguousarray(brokers), np.searchsorted(rows, np.arange(len(self.allowed) + 1))


@dataclass(frozen=True, slots=True, eq=False)
class Flow:
    """How many of each class go where: `amounts[a]` of `classes[a]` to leaf `leaves[a]`, sorted by class."""

    classes: Array
    leaves: Array
    amounts: Array

    @property
    def total(self) -> int:
        """How many subscribers have a place."""
        return int(self.amounts.sum())


def classes_of(rows: Array, row_of: Array) -> Classes:
    """Join subscribers whose rows of allowed brokers are equal."""
    packed = np.packbits(rows, axis=1)
    keys = packed.view(np.dtype((np.void, packed.shape[1]))).reshape(-1)
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    return Classes(rows[first], inverse.reshape(-1)[row_of])


def largest_flow(allowed: Array, sizes: Array, rooms: Array) -> Flow:
    """Give a place to as many subscribers as there is room for."""
    classes, leaves = np.nonzero(allowed)
    count, leaf_nodes = len(sizes), len(sizes) + np.arange(len(rooms))
    source, sink = count + len(rooms), count + len(rooms) + 1
    network = SimpleMaxFlow()
    arcs = network.add_arcs_with_capacity(
        *_arcs(
            (classes, leaf_nodes[leaves], sizes[classes]),
            (np.full(count, source), np.arange(count), sizes),
            (leaf_nodes, np.full(len(rooms), sink), rooms),
        )
    )
    if network.solve(source, sink) != SimpleMaxFlow.OPTIMAL:
        raise PlacementError(f"maximum flow over {count:,} classes and {len(rooms):,} leaves did not end")
    return Flow(classes, leaves, np.asarray(network.flows(arcs[: len(classes)]), np.int64))


def cheapest_flow(allowed: Array, costs: Array, sizes: Array, rooms: Array) -> Flow:
    """Give a place to as many as there is room for, at least cost; `costs` are whole numbers by class and leaf."""
    classes, leaves = np.nonzero(allowed)
    count, leaf_nodes, free = len(sizes), len(sizes) + np.arange(len(rooms)), np.zeros(len(rooms), np.int64)
    sink = count + len(rooms)
    network = SimpleMinCostFlow()
    arcs = network.add_arcs_with_capacity_and_unit_cost(
        *_arcs((classes, leaf_nodes[leaves], sizes[classes]), (leaf_nodes, np.full(len(rooms), sink), rooms)),
        np.concatenate([costs[classes, leaves].astype(np.int64), free]),
    )
    nodes = np.arange(sink + 1, dtype=np.int32)
    network.set_nodes_supplies(nodes, np.concatenate([sizes, free, [-sizes.sum()]]))
    if network.solve_max_flow_with_min_cost() != SimpleMinCostFlow.OPTIMAL:
        raise PlacementError(f"cheapest flow over {count:,} classes and {len(rooms):,} leaves did not end")
    return Flow(classes, leaves, np.asarray(network.flows(arcs[: len(classes)]), np.int64))


def _arcs(*groups: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
    """Return where arcs begin and end, and what they have room for, one group after the other."""
    tails, heads, capacities = (np.concatenate(column) for column in zip(*groups, strict=True))
    return tails.astype(np.int32), heads.astype(np.int32), capacities.astype(np.int64)


def first_full_flow(
    problem: PlacementProblem, members: int, flow_within: Callable[[Array], Flow]
) -> tuple[Flow, Array]:
    """Return the flow at the least load factor at which all have a place, or else at the largest, and the rooms."""
    for factor in problem.load_factors.tolist():
        rooms = problem.rooms(factor)
        flow = flow_within(rooms)
        if flow.total == members:
            break
    return flow, rooms


def draw_members(flow: Flow, members: Array, random: np.random.Generator) -> Array:
    """Return the leaf of each subscriber, drawn at random within its class; -1 for those without a place."""
    order = random.permutation(len(members))
    order = order[np.argsort(members[order], kind="stable")]
    taken = np.repeat(flow.leaves, flow.amounts)
    classes = np.repeat(flow.classes, flow.amounts)
    sizes = np.bincount(members, minlength=int(classes.max(initial=0)) + 1)
    placed = np.bincount(classes, minlength=len(sizes))
    starts, used = np.cumsum(sizes) - sizes, np.cumsum(placed) - placed
    found = np.full(len(members), -1, np.int64)
    found[order[starts[classes] + np.arange(len(taken)) - used[classes]]] = taken
    return found


def best_factor(allowed: Array, sizes: Array, shares: Array) -> tuple[float, Flow]:
    """Return the least load factor at which all have a place, with such a flow."""
    total = int(sizes.sum())

    def flow_at(factor: float) -> Flow:
        return largest_flow(allowed, sizes, np.floor(shares * (factor * total) * (1 + TOLERANCE)).astype(np.int64))

    low, high = 0.0, 1 / shares[shares > 0].min()
    best = flow_at(high)
    if best.total < total:
        raise PlacementError(f"{total - best.total:,} subscribers have no leaf with capacity among their candidates")
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        found = flow_at(middle)
        if found.total == total:
            best, high = found, _factor(found, shares, total)
        else:
            low = middle
        if high - low <= TOLERANCE * high:
            break
    return high, best


def feasible_factor(problem: PlacementProblem) -> float:
    """Return the least load factor that any placement within the latency limits can have."""
    found = classes_of(problem.candidates, problem.site_of)
    return best_factor(found.allowed, found.sizes, problem.shares_of_leaves)[0]


def _factor(flow: Flow, shares: Array, total: int) -> float:
    loads = np.bincount(flow.leaves, weights=flow.amounts, minlength=len(shares))
    return float((loads[shares > 0] / (shares[shares > 0] * total)).max())
