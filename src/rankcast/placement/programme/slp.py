"""Subscriber assignment by linear programming: SLP1 for one level of brokers, SLP for a tree.

One level in three steps: preliminary filters by linear programming on samples, which say who could serve whom at little
traffic; an assignment of all subscribers within these filters by maximum flow; and filters adjusted to the assignment.
A tree is worked off from the top: at each inner broker the same decides for its children who goes below which.

The flow is always one to the leaves, whatever the stage, so that whoever goes below a child finds room at some leaf
there, within the limit of latency. When the preliminary filters leave too little room at `beta_max`, as few as possible
go to brokers whose filters do not cover them yet: a placement is found whenever there is one within latency and load.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from rankcast.arrays import Array
from rankcast.placement.problem.problem import Placement, PlacementProblem
from rankcast.placement.problem.tree import PUBLISHER
from rankcast.placement.programme.assignment import Stage, assign_members
from rankcast.placement.programme.filter_assignment import Sampling, Yardstick, assign_filters
from rankcast.placement.programme.fitting import fit_filters

StageMaker = Callable[[PlacementProblem, Array, Array], Stage]
Fitter = Callable[[PlacementProblem, Array, np.random.Generator, Mapping[int, Array]], Placement]
"""Like `Stage.of` and `fit_filters`."""


@dataclass(frozen=True, slots=True, eq=False)
class ProgrammedPlacement:
    """A placement, and the yardstick of the programme at the top of the tree."""

    placement: Placement
    yardstick: Yardstick


def place_by_programme(
    problem: PlacementProblem,
    random: np.random.Generator,
    sampling: Sampling | None = None,
    stage_of: StageMaker = Stage.of,
    fit: Fitter = fit_filters,
) -> ProgrammedPlacement:
    """Place by linear programming: SLP1 on a tree of one level, SLP on any other.

    `stage_of` and `fit` may do the work of `Stage.of` and `fit_filters` elsewhere, with the same results.
    """
    sampling = Sampling() if sampling is None else sampling
    column_of = np.full(len(problem), -1)
    known: dict[int, Array] = {}
    yardstick: Yardstick | None = None
    waiting = [(PUBLISHER, np.arange(len(problem)))]
    while waiting:
        parent, members = waiting.pop()
        stage = stage_of(problem, members, problem.tree.children(parent))
        preliminary = assign_filters(stage, random, sampling)
        yardstick = preliminary.yardstick if yardstick is None else yardstick
        covers = stage.all_covers(preliminary.starts, preliminary.boxes)
        columns = assign_members(stage, covers, random)
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
    return ProgrammedPlacement(fit(problem, column_of, random, known), yardstick)
