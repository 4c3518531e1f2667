"""A placement in motion: the tables of local search, filled from a placement, and read back as one."""

from __future__ import annotations

import numpy as np

from rankcast.arrays import Array
from rankcast.placement.kernels.growth import NOWHERE, working_space
from rankcast.placement.problem.problem import Problem
from rankcast.placement.problem.solution import Placement
from rankcast.placement.programme.flow import classes_of
from rankcast.placement.search.kernels import put_all, search, shrink_all
from rankcast.placement.search.state_kernels import (
    CHANGED,
    CHILDREN,
    COUNT,
    FIRST_CHILD,
    FIRST_HOLDING,
    FIRST_PART,
    GROUP,
    LAST_CHILD,
    LEAF,
    LEAF_COUNT,
    LEAVES,
    MOST,
    PARENT,
    PARTS,
    RANK,
    ROOM,
    UPPER,
    Walk,
)


class Search:
    """A placement in motion. The traffic is the sum of the measures of all filters."""

    def __init__(self, problem: Problem, start: Placement, random: np.random.Generator) -> None:
        self.problem = problem
        self._walk = _empty_walk(problem, start.brokers, random)
        self._fill(start)
        self.scale = self.traffic / len(problem.tree.leaves)

    @property
    def traffic(self) -> float:
        """The sum of the measures of all filters."""
        return float(self._walk.measures[: len(self.problem.tree)].sum())

    def go(self, moves: int, temperature: float) -> int:
        """Try moves at a temperature relative to the mean traffic of a leaf at the start; return how many were made."""
        made = search(moves, temperature * self.scale, self._walk)
        shrink_all(self._walk)
        return made

    def placement(self) -> Placement:
        """Return the placement as it stands."""
        boxes, counts = self._walk.boxes, self._walk.uses[:, :, COUNT]
        kept = tuple(boxes[broker, counts[broker] > 0].copy() for broker in range(len(self.problem.tree)))
        return Placement(self._walk.subscribers[:, LEAF].copy(), kept)

    def _fill(self, start: Placement) -> None:
        """Give filters the boxes of the start, with everybody where they were; boxes that nobody needs vanish."""
        boxes, uses = self._walk.boxes, self._walk.uses
        for broker in self.problem.tree.downwards.tolist():
            own = start.filters[broker]
            boxes[broker, : len(own)] = own
            parent = self.problem.tree.parents[broker]
            if parent >= 0:
                for slot, box in enumerate(own):
                    uses[broker, slot, UPPER] = int((box <= start.filters[parent]).all(axis=1).argmax())
        put_all(start.brokers, self._walk)
        shrink_all(self._walk)


def _empty_walk(problem: Problem, leaf_of: Array, random: np.random.Generator) -> Walk:
    """Return the tables with nobody anywhere."""
    tree, sides, most = problem.tree, problem.interests.sides, int(problem.boxes_of_brokers.max())
    groups = classes_of(problem.candidates, problem.site_of)
    columns, starts = groups.listed()
    brokers = _broker_table(problem, np.bincount(leaf_of, minlength=len(tree)))
    crowd = int(brokers[:, ROOM].max()) + 1
    parts = np.sort(problem.parts_of)
    fullest = int(parts[max(0, len(parts) - crowd) :].sum())
    sizes = np.zeros(4, np.int64)
    sizes[LEAF_COUNT] = len(tree.leaves)
    return Walk(
        sides,
        problem.density.rows,
        working_space(most, sides.shape[1]),
        starts,
        tree.leaves[columns],
        _subscriber_table(problem, groups.members),
        np.zeros((int(parts.sum()), 2), np.int64),
        np.zeros((len(tree), fullest, 4), np.int32),
        brokers,
        np.full((2 * len(tree), most, sides.shape[1]), -np.inf),
        np.zeros((2 * len(tree), most, 2), np.int64),
        np.zeros(2 * len(tree)),
        sizes,
        np.zeros(crowd, np.int64),
        random.integers(0, 1 << 63, 1, dtype=np.uint64),
    )


def _subscriber_table(problem: Problem, group_of: Array) -> Array:
    sizes = -problem.density.measures(problem.interests.hulls)[problem.interest_of]
    table = np.full((len(problem), 9), NOWHERE)
    table[:, RANK], table[:, GROUP] = _ranks(sizes, problem.interest_of, group_of), group_of
    table[:, FIRST_PART] = problem.interests.offsets[problem.interest_of]
    table[:, PARTS] = problem.parts_of
    table[:, FIRST_HOLDING] = np.cumsum(problem.parts_of) - problem.parts_of
    return table


def _broker_table(problem: Problem, loads: Array) -> Array:
    """Return the table of brokers; a leaf that is fuller than it should be at the start may stay so."""
    tree = problem.tree
    own = loads[tree.leaves]
    wanted = problem.rooms(problem.beta)
    rooms = wanted if (own <= wanted).all() else np.maximum(problem.rooms(problem.beta_max), own)
    children = np.argsort(tree.parents, kind="stable")
    table = np.zeros((len(tree), 11), np.int64)
    table[:, PARENT], table[:, MOST], table[:, CHANGED] = tree.parents, problem.boxes_of_brokers, NOWHERE
    table[tree.leaves, ROOM] = rooms
    table[:, FIRST_CHILD] = np.searchsorted(tree.parents[children], np.arange(len(tree)))
    table[:, LAST_CHILD] = np.searchsorted(tree.parents[children], np.arange(len(tree)), side="right")
    table[:, CHILDREN] = children
    table[: len(tree.leaves), LEAVES] = tree.leaves
    return table


def _ranks(*keys: Array) -> Array:
    """Return by subscriber the place of its keys among all different ones."""
    order = np.lexsort(keys[::-1])
    changes = np.any([np.diff(key[order], prepend=key[order[:1]]) != 0 for key in keys], axis=0)
    found = np.empty(len(order), np.int64)
    found[order] = np.cumsum(changes)
    return found
