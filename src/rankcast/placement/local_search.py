"""Local search from any placement: better by simulated annealing, never worse than its start.

A start that breaks limits of latency or load is mended first, by moving as few subscribers as a flow allows; when no
placement keeps the limits, as many as possible do. The search itself keeps them in every move. The moves are those of
`kernels_search`; the temperature falls geometrically, and is relative to the traffic of a broker at the start.

Cost: some ten thousand moves a second; about as many moves as there are subscribers already do most of the work.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rankcast.placement.boxes import Array
from rankcast.placement.fitting import fitted
from rankcast.placement.flow import cheapest_flow, classes_of, drawn_members
from rankcast.placement.greedy import events_of, load_factors
from rankcast.placement.kernels_filters import Events, Scratch, measure, scratch_for
from rankcast.placement.kernels_search import State, Terms, Undo, put_all, search, shrink_all
from rankcast.placement.problem import Problem
from rankcast.placement.solution import Placement

HOT, COLD = 3e-3, 1e-5
"""The temperatures of the first and the last moves, as shares of the mean traffic of a leaf."""

STEPS = 200
"""Temperatures from hot to cold."""

Progress = Callable[[float, float], None]
"""Called now and then with the share of moves that were tried, and the traffic."""


def improved(
    problem: Problem,
    start: Placement,
    random: np.random.Generator,
    moves: int,
    progress: Progress | None = None,
) -> Placement:
    """Return the best placement that is found with so many moves."""
    begun = mended(problem, start, random)
    walk = _Walk(problem, begun, random)
    best, best_traffic = walk.placement(), walk.traffic
    steps = min(STEPS, max(1, moves))
    for step, tried in enumerate(np.diff(np.linspace(0, moves, steps + 1).astype(np.int64)).tolist()):
        walk.go(tried, HOT * (COLD / HOT) ** (step / steps))
        if walk.traffic < best_traffic:
            best, best_traffic = walk.placement(), walk.traffic
        if progress is not None:
            progress((step + 1) / steps, best_traffic)
    return best if best_traffic <= _traffic(problem, begun) else begun


def mended(problem: Problem, start: Placement, random: np.random.Generator) -> Placement:
    """Return a placement as it is if it keeps latency and load, or one that differs for as few as possible."""
    column_of = np.searchsorted(problem.tree.leaves, start.brokers)
    loads = np.bincount(column_of, minlength=len(problem.tree.leaves))
    is_timely = problem.candidates[problem.site_of, column_of].all()
    if is_timely and (loads <= problem.rooms(problem.beta_max)).all():
        return start
    groups = classes_of(problem.candidates, problem.site_of)
    leaves = len(problem.tree.leaves)
    codes, members = np.unique(groups.members * leaves + column_of, return_inverse=True)
    rows, current = np.divmod(codes, leaves)
    allowed = groups.allowed[rows]
    costs = np.ones(allowed.shape, np.int64)
    costs[np.arange(len(codes)), current] = 0
    sizes = np.bincount(members.reshape(-1), minlength=len(codes))
    for factor in load_factors(problem).tolist():
        flow = cheapest_flow(allowed, costs, sizes, problem.rooms(factor))
        if flow.total == len(problem):
            break
    columns = drawn_members(flow, members.reshape(-1), random)
    kept = np.where(
        problem.candidates[problem.site_of, column_of], column_of, problem.candidates[problem.site_of].argmax(axis=1)
    )
    return fitted(problem, np.where(columns >= 0, columns, kept), random)


def _traffic(problem: Problem, placement: Placement) -> float:
    events = events_of(problem)
    scratch = scratch_for(int(problem.boxes_of_brokers.max()), problem.interests.sides.shape[1])
    return float(sum(measure(boxes, len(boxes), events, scratch) for boxes in placement.filters))


class _Walk:
    """A placement in motion: the arrays of `kernels_search`, filled from a placement."""

    def __init__(self, problem: Problem, start: Placement, random: np.random.Generator) -> None:
        self.problem = problem
        self.events: Events = events_of(problem)
        most = problem.boxes_of_brokers
        self.scratch: Scratch = scratch_for(int(most.max()), problem.interests.sides.shape[1])
        column_of = np.searchsorted(problem.tree.leaves, start.brokers)
        loads = np.bincount(column_of, minlength=len(problem.tree.leaves))
        self.terms = _terms(problem, loads)
        width = int(max(loads.max(), self.terms.rooms.max())) + 1
        self.state = _empty_state(problem, width)
        self.undo = _undo_space(self.state)
        self.taken = np.empty(width, np.int64)
        self.random = random.integers(0, 1 << 63, 1, dtype=np.uint64)
        self._fill(start, column_of)
        self.scale = float(self.state.measures.sum()) / len(problem.tree.leaves)

    @property
    def traffic(self) -> float:
        """The sum of the measures of all filters."""
        return float(self.state.measures.sum())

    def go(self, moves: int, temperature: float) -> None:
        """Try some moves at a relative temperature, then shrink all boxes to what is in them."""
        search(
            moves,
            temperature * self.scale,
            self.taken,
            self.terms,
            self.state,
            self.undo,
            self.events,
            self.scratch,
            self.random,
        )
        self._shrink()

    def placement(self) -> Placement:
        """Return the placement as it stands."""
        boxes, counts = self.state.boxes, self.state.counts
        kept = tuple(boxes[broker, counts[broker] > 0].copy() for broker in range(len(self.problem.tree)))
        return Placement(self.problem.tree.leaves[self.state.column_of], kept)

    def _shrink(self) -> None:
        shrink_all(self.taken, self.terms, self.state, self.undo, self.events, self.scratch)

    def _fill(self, start: Placement, column_of: Array) -> None:
        """Give filters the boxes of the start, with everybody where they were; boxes nobody needs vanish."""
        state, terms = self.state, self.terms
        for broker in self.problem.tree.downwards.tolist():
            boxes = start.filters[broker]
            state.boxes[broker, : len(boxes)] = boxes
            state.counts[broker, : len(boxes)] = 1  # so that each is there to be found; taken back below
            parent = self.problem.tree.parents[broker]
            if parent >= 0:
                for slot, box in enumerate(boxes):
                    inside = (box <= start.filters[parent]).all(axis=1)
                    state.upper[broker, slot] = int(inside.argmax())
        for broker in range(len(self.problem.tree)):
            boxes = state.boxes[broker, : len(start.filters[broker])]
            state.measures[broker] = measure(boxes, len(boxes), self.events, self.scratch)
        put_all(column_of, terms, state, self.undo, self.events, self.scratch)
        for leaf in terms.leaves:
            state.counts[leaf, : len(start.filters[leaf])] -= 1
        self._shrink()


def _terms(problem: Problem, loads: Array) -> Terms:
    groups = classes_of(problem.candidates, problem.site_of)
    columns, starts = groups.listed()
    tree, interests = problem.tree, problem.interests
    order = np.argsort(tree.parents, kind="stable")
    factor = problem.beta if (loads <= problem.rooms(problem.beta)).all() else problem.beta_max
    return Terms(
        interests.offsets,
        interests.sides,
        _ranks(-problem.density.measures(interests.hulls)[problem.interest_of], problem.interest_of, groups.members),
        problem.interest_of,
        groups.members,
        np.concatenate([[0], np.cumsum(problem.parts_of)]),
        starts,
        columns,
        tree.leaves,
        problem.rooms(factor),
        tree.parents,
        problem.boxes_of_brokers,
        np.searchsorted(tree.parents[order], np.arange(len(tree) + 1)),
        order,
    )


def _ranks(*keys: Array) -> Array:
    """Return by subscriber the place of its keys among all different ones."""
    order = np.lexsort(keys[::-1])
    changes = np.any([np.diff(key[order], prepend=key[order[:1]]) != 0 for key in keys], axis=0)
    found = np.empty(len(order), np.int64)
    found[order] = np.cumsum(changes)
    return found


def _empty_state(problem: Problem, width: int) -> State:
    brokers, most = len(problem.tree), int(problem.boxes_of_brokers.max())
    return State(
        np.full(len(problem), -1, np.int64),
        np.zeros(int(problem.parts_of.sum()), np.int64),
        np.zeros((len(problem.tree.leaves), width), np.int64),
        np.zeros(len(problem), np.int64),
        np.zeros(len(problem.tree.leaves), np.int64),
        np.zeros((brokers, most, problem.interests.sides.shape[1])),
        np.zeros((brokers, most), np.int64),
        np.zeros((brokers, most), np.int64),
        np.zeros(brokers),
    )


def _undo_space(state: State) -> Undo:
    return Undo(
        np.zeros(len(state.column_of), np.int64),
        np.full(len(state.column_of), -1, np.int64),
        np.zeros(len(state.column_of), np.int64),
        np.zeros(len(state.slots), np.int64),
        np.zeros(len(state.boxes), np.int64),
        np.full(len(state.boxes), -1, np.int64),
        np.zeros_like(state.boxes),
        np.zeros_like(state.counts),
        np.zeros_like(state.upper),
        np.zeros_like(state.measures),
        np.zeros(3, np.int64),
    )
