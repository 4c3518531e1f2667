"""One decision of the linear programme: some subscribers, and the sibling brokers among which they are divided.

In a tree of one level there is one stage, and its brokers are the leaves. In a deeper tree there is a stage for every
inner broker, from the top down: a child may serve a subscriber when some leaf below it may, and has the room of all
leaves below it.

Subscribers with the same interest and the same candidates are one *demand*: nothing here tells them apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankcast.placement.boxes import Array
from rankcast.placement.flow import classes_of
from rankcast.placement.interests import Interests
from rankcast.placement.problem import Problem


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """The subscribers `members` and the `brokers` among which to divide them; `below` says which leaves each one has.

    By demand: its interest, a site of it, how many members it has, and in `allowed` which brokers it may have.
    """

    problem: Problem
    members: Array
    brokers: Array
    below: Array
    demand_of: Array
    interests: Array
    sites: Array
    sizes: Array
    allowed: Array

    @staticmethod
    def of(problem: Problem, members: Array, brokers: Array) -> Stage:
        """Return the stage at which members are divided among sibling brokers."""
        below = problem.tree.leaves_below()[brokers]
        groups = classes_of(problem.candidates & below.any(axis=0), problem.site_of[members])
        codes = problem.interest_of[members] * len(groups.allowed) + groups.members
        found, first, demand_of, sizes = np.unique(codes, return_index=True, return_inverse=True, return_counts=True)
        interests, rows = np.divmod(found, len(groups.allowed))
        by_group = (groups.allowed.astype(np.float32) @ below.T.astype(np.float32)) > 0
        sites = problem.site_of[members][first]
        return Stage(problem, members, brokers, below, demand_of.reshape(-1), interests, sites, sizes, by_group[rows])

    @property
    def most(self) -> Array:
        """How many boxes the filter of each broker may have."""
        found: Array = self.problem.boxes_of_brokers[self.brokers]
        return found

    def rooms(self, factor: float) -> Array:
        """Return how many subscribers each broker has room for at a load factor."""
        found: Array = self.below @ self.problem.rooms(factor)
        return found

    def covers(self, demands: Array, starts: Array, boxes: Array) -> Array:
        """Return by which brokers demands are covered, given the boxes of each broker: a row per demand."""
        return covered(self.problem.interests, self.interests[demands], self.allowed[demands], starts, boxes)


def covered(interests: Interests, interest_of: Array, allowed: Array, starts: Array, boxes: Array) -> Array:
    """Return by which of the brokers that they may have demands with these interests are covered: a row per demand."""
    wanted, which = np.unique(interest_of, return_inverse=True)
    different = interests.taken(wanted)
    made = allowed.copy()
    for broker in range(made.shape[1]):
        made[:, broker] &= different.held(boxes[starts[broker] : starts[broker + 1]])[which.reshape(-1)]
    return made
