"""One decision of the linear programme: some subscribers, and the sibling brokers among which they are divided.

In a tree of one level there is one stage, and its brokers are the leaves. In a deeper tree there is a stage for every
inner broker, from the top down: a child may serve a subscriber when some leaf below it may, and has the room of all
leaves below it.

Subscribers with the same interest and the same candidates are one *demand*: nothing here tells them apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankcast.arrays import Array
from rankcast.placement.kernels.coverage import covering_brokers, held_interests, uncovered_demands
from rankcast.placement.problem.problem import Problem
from rankcast.placement.programme.flow import Classes, classes_of


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """The subscribers `members` and the `brokers` among which to divide them; `below` says which leaves each one has.

    By demand: its interest, a site of it, how many members it has, and its class, the row of `classes` that says which
    brokers it may have.
    """

    problem: Problem
    members: Array
    brokers: Array
    below: Array
    demand_of: Array
    interests: Array
    sites: Array
    sizes: Array
    classes: Array
    class_of: Array

    @staticmethod
    def of(problem: Problem, members: Array, brokers: Array) -> Stage:
        """Return the stage at which members are divided among sibling brokers."""
        below = problem.tree.leaves_below()[brokers]
        groups = classes_of(problem.candidates & below.any(axis=0), problem.site_of[members])
        codes = problem.interest_of[members] * len(groups.allowed) + groups.members
        found, first, demand_of, sizes = np.unique(codes, return_index=True, return_inverse=True, return_counts=True)
        interests, class_of = np.divmod(found, len(groups.allowed))
        sites = problem.site_of[members][first]
        classes = classes_at(groups, below)
        return Stage(
            problem, members, brokers, below, demand_of.reshape(-1), interests, sites, sizes, classes, class_of
        )

    @property
    def most(self) -> Array:
        """How many boxes the filter of each broker may have."""
        found: Array = self.problem.boxes_of_brokers[self.brokers]
        return found

    def allowed_of(self, demands: Array | slice = slice(None)) -> Array:
        """Return which brokers some demands may have, or all of them: a row per demand."""
        found: Array = self.classes[self.class_of[demands]]
        return found

    def allowed_at(self, broker: int) -> Array:
        """Return which demands may have a broker."""
        found: Array = self.classes[:, broker][self.class_of]
        return found

    def rooms(self, factor: float) -> Array:
        """Return how many subscribers each broker has room for at a load factor."""
        found: Array = self.below @ self.problem.rooms(factor)
        return found

    def held(self, demands: Array, boxes: Array) -> Array:
        """Return which of some demands have every part of their interest in one of some boxes."""
        interests = self.problem.interests
        return held_interests(self.interests[demands], interests.offsets, interests.sides, boxes)

    def covers(self, demands: Array, starts: Array, boxes: Array) -> Array:
        """Return by which brokers some demands are covered, given the boxes of each broker: a row per demand."""
        interests = self.problem.interests
        wanted, class_of = self.interests[demands], self.class_of[demands]
        return covering_brokers(wanted, class_of, self.classes, interests.offsets, interests.sides, starts, boxes)

    def all_covers(self, starts: Array, boxes: Array) -> Array:
        """Return by which brokers all demands are covered: a row per demand."""
        return self.covers(np.arange(len(self.sizes)), starts, boxes)

    def uncovered(self, starts: Array, boxes: Array) -> Array:
        """Return which demands no broker covers."""
        interests = self.problem.interests
        return uncovered_demands(
            self.interests, self.class_of, self.classes, interests.offsets, interests.sides, starts, boxes
        )


def classes_at(groups: Classes, below: Array) -> Array:
    """Return which brokers classes may have, given which leaves they may have, and those below each broker."""
    found: Array = (groups.allowed.astype(np.float32) @ below.T.astype(np.float32)) > 0
    return found
