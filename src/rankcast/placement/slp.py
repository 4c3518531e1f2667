"""Subscriber assignment by linear programming: SLP1 for one level of brokers, SLP for a tree.

One level in three steps: preliminary filters by linear programming on samples, which say who could serve whom at little
traffic; an assignment of all subscribers within these filters by maximum flow; and filters adjusted to the assignment.
A tree is worked off from the top: at each inner broker the same decides for its children who goes below which.

The flow is always one to the leaves, whatever the stage, so that whoever goes below a child finds room at some leaf
there, within the limit of latency. When the preliminary filters leave too little room at `beta_max`, as few as possible
go to brokers whose filters do not cover them yet: a placement is found whenever there is one within latency and load.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rankcast.placement.boxes import Array
from rankcast.placement.filter_assignment import Preliminary, Sampling, Yardstick, assign_filters
from rankcast.placement.fitting import fitted
from rankcast.placement.flow import Flow, cheapest_flow, classes_of, drawn_members, largest_flow
from rankcast.placement.greedy import load_factors
from rankcast.placement.problem import Problem
from rankcast.placement.solution import Placement
from rankcast.placement.stage import Stage
from rankcast.placement.tree import PUBLISHER


@dataclass(frozen=True, slots=True, eq=False)
class ProgrammedPlacement:
    """A placement, and the yardstick of the programme at the top of the tree."""

    placement: Placement
    yardstick: Yardstick


def placed_by_programme(
    problem: Problem, random: np.random.Generator, sampling: Sampling | None = None
) -> ProgrammedPlacement:
    """Place by linear programming: SLP1 on a tree of one level, SLP on any other."""
    sampling = Sampling() if sampling is None else sampling
    column_of = np.full(len(problem), -1)
    known: dict[int, Array] = {}
    yardstick: Yardstick | None = None
    waiting = [(PUBLISHER, np.arange(len(problem)))]
    while waiting:
        parent, members = waiting.pop()
        stage = Stage.of(problem, members, problem.tree.children(parent))
        preliminary = assign_filters(stage, random, sampling)
        yardstick = preliminary.yardstick if yardstick is None else yardstick
        columns = _assigned(stage, preliminary, random)
        child_of = stage.below.argmax(axis=0)[columns]
        for number, broker in enumerate(stage.brokers.tolist()):
            below = members[child_of == number]
            if len(problem.tree.children(broker)) and len(below):
                waiting.append((broker, below))
            else:
                column_of[below] = columns[child_of == number]
                known[broker] = preliminary.boxes[preliminary.starts[number] : preliminary.starts[number + 1]]
    if yardstick is None:
        raise AssertionError("a tree has at least one stage")
    for leaf in problem.tree.leaves.tolist():
        known.setdefault(leaf, np.empty((0, problem.interests.sides.shape[1])))
    return ProgrammedPlacement(fitted(problem, column_of, random, known), yardstick)


def _assigned(stage: Stage, preliminary: Preliminary, random: np.random.Generator) -> Array:
    """Return the leaf column of each member: covered, within its candidates, and balanced."""
    problem = stage.problem
    covers = stage.covers(np.arange(len(stage.sizes)), preliminary.starts, preliminary.boxes)
    possible = problem.candidates[stage.sites] & stage.below.any(axis=0)
    covered = possible & (covers.astype(np.float32) @ stage.below.astype(np.float32) > 0)
    classes = classes_of(np.concatenate([covered, possible], axis=1), stage.demand_of)
    leaves = len(problem.tree.leaves)
    within, anywhere = classes.allowed[:, :leaves], classes.allowed[:, leaves:]
    flow = _first_full(stage, lambda rooms: largest_flow(within, classes.sizes, rooms))
    if flow.total < len(stage.members):
        flow = _first_full(stage, lambda rooms: cheapest_flow(anywhere, ~within, classes.sizes, rooms))
    columns = drawn_members(flow, classes.members, random)
    lost = np.flatnonzero(columns < 0)
    if len(lost):  # there is no placement within the limits of load: those left over go to the least loaded
        loads = np.bincount(columns[columns >= 0], minlength=leaves) / np.maximum(problem.shares_of_leaves, 1e-300)
        open_leaves = possible[stage.demand_of[lost]] & (problem.shares_of_leaves > 0)
        columns[lost] = np.where(open_leaves, loads, np.inf).argmin(axis=1)
    return columns


def _first_full(stage: Stage, flow_within: Callable[[Array], Flow]) -> Flow:
    """Return the flow at the least load factor at which all have a place, or else at the largest."""
    for factor in load_factors(stage.problem).tolist():
        flow = flow_within(stage.problem.rooms(factor))
        if flow.total == len(stage.members):
            break
    return flow
