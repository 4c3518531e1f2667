"""The members of a stage at leaves whose filters cover them: by maximum flow, and shifted as filters change.

The flow is always one to the leaves, whatever the stage, so that whoever goes below a child finds room at some leaf
there, within the limit of latency.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rankcast.arrays import Array
from rankcast.placement.greedy.greedy import load_factors
from rankcast.placement.problem.problem import Problem
from rankcast.placement.programme.assignment_step import Stage
from rankcast.placement.programme.flow import Flow, cheapest_flow, classes_of, drawn_members, largest_flow
from rankcast.placement.programme.load_kernels import DEMAND, LEAF, count_all, shift_away


def assigned(stage: Stage, covers: Array, random: np.random.Generator) -> Array:
    """Return the leaf column of each member: covered, within its candidates, and balanced.

    When the filters that cover demands leave too little room at `beta_max`, as few as possible go to leaves whose
    filters do not cover them yet: a place is found whenever there is one within latency and load.
    """
    problem = stage.problem
    leaves = len(problem.tree.leaves)
    rows = np.empty((len(covers), 2 * leaves), bool)
    rows[:, leaves:] = _possible(stage)
    possible = rows[:, leaves:]
    rows[:, :leaves] = _at_leaves(stage, covers, possible)
    classes = classes_of(rows, stage.demand_of)
    within, anywhere = classes.allowed[:, :leaves], classes.allowed[:, leaves:]
    flow, _ = _first_full(problem, len(stage.members), lambda rooms: largest_flow(within, classes.sizes, rooms))
    if flow.total < len(stage.members):
        flow, _ = _first_full(
            problem, len(stage.members), lambda rooms: cheapest_flow(anywhere, ~within, classes.sizes, rooms)
        )
    columns = drawn_members(flow, classes.members, random)
    lost = np.flatnonzero(columns < 0)
    if len(lost):  # there is no placement within the limits of load: those left over go to the least loaded
        loads = np.bincount(columns[columns >= 0], minlength=leaves) / np.maximum(problem.shares_of_leaves, 1e-300)
        open_leaves = possible[stage.demand_of[lost]] & (problem.shares_of_leaves > 0)
        columns[lost] = np.where(open_leaves, loads, np.inf).argmin(axis=1)
    return columns


class Loads:
    """Everybody at a leaf that covers them, at the least load factor that allows it; ready to be shifted.

    Where filters leave too little room even at `beta_max`, those without a place are left out.
    """

    def __init__(self, stage: Stage, covers: Array, random: np.random.Generator) -> None:
        self._stage = stage
        self._allowed = _possible(stage)
        self._covers = _at_leaves(stage, covers, self._allowed)
        classes = classes_of(self._covers, stage.demand_of)
        flow, self._rooms = _first_full(
            stage.problem, len(stage.members), lambda rooms: largest_flow(classes.allowed, classes.sizes, rooms)
        )
        leaves = len(self._rooms)
        self._members = np.zeros((len(stage.members), 3), np.int64)
        self._members[:, LEAF] = drawn_members(flow, classes.members, random)
        self._members[:, DEMAND] = stage.demand_of
        self._by_demand = np.argsort(stage.demand_of, kind="stable")
        self._starts = np.concatenate([[0], np.cumsum(stage.sizes)])
        self._lists = np.zeros((leaves, int(self._rooms.max()) + 1), np.int64)
        self._loads = np.zeros(leaves, np.int64)
        self._could, self._firsts = (np.zeros((leaves, leaves), np.int64) for _ in range(2))
        self._log = np.zeros((2 * len(stage.members) + leaves, 2), np.int64)
        self._count()

    def cover(self, covers: Array) -> None:
        """Let demands be covered by other brokers: all that did before, and more."""
        self._covers = _at_leaves(self._stage, covers, self._allowed)
        self._count()

    def can_do_without(self, demands: Array, broker: int) -> bool:
        """Let a broker of the stage not cover some demands any more, if everybody still finds a place."""
        leaves = len(self._loads)
        return shift_away(
            demands,
            self._stage.below[broker],
            self._allowed,
            self._starts,
            self._by_demand,
            self._members,
            self._covers,
            self._lists,
            self._loads,
            self._rooms,
            self._could,
            self._firsts,
            self._log,
            np.zeros(leaves, np.int64),
            np.zeros(leaves, np.int64),
        )

    def _count(self) -> None:
        count_all(self._members, self._covers, self._lists, self._loads, self._could, self._firsts)


def _possible(stage: Stage) -> Array:
    """Return which leaves below the stage each demand may have."""
    found: Array = stage.problem.candidates[stage.sites]
    found &= stage.below.any(axis=0)
    return found


def _at_leaves(stage: Stage, covers: Array, possible: Array) -> Array:
    """Return at which of the leaves that are possible demands are covered, given by which brokers of the stage."""
    found: Array = np.take(covers, stage.below.argmax(axis=0), axis=1)
    found &= possible  # at leaves below none of the brokers, too, nothing is
    return found


def _first_full(problem: Problem, members: int, flow_within: Callable[[Array], Flow]) -> tuple[Flow, Array]:
    """Return the flow at the least load factor at which all have a place, or else at the largest, and the rooms."""
    for factor in load_factors(problem).tolist():
        rooms = problem.rooms(factor)
        flow = flow_within(rooms)
        if flow.total == members:
            break
    return flow, rooms
