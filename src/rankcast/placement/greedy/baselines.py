"""Algorithms that look at one thing only: where the nearest broker is, or how loads are balanced.

They show what is lost by ignoring interests. The two closest ones may break latency limits, as the nearest broker need
not be on a short path from the publisher, and `closest_without_balance` breaks load limits, too.
"""

from __future__ import annotations

import numpy as np

from rankcast.arrays import Array
from rankcast.compiling import compiled
from rankcast.placement.problem.problem import Problem
from rankcast.placement.problem.solution import Placement
from rankcast.placement.programme.fitting import fitted
from rankcast.placement.programme.flow import best_factor, classes_of, drawn_members


def closest_without_balance(problem: Problem, random: np.random.Generator) -> Placement:
    """Give every subscriber to the nearest leaf that has any capacity."""
    return fitted(problem, _by_distance(problem)[problem.site_of, 0], random)


def closest(problem: Problem, random: np.random.Generator) -> Placement:
    """Give every subscriber, by number, to the nearest leaf that has room at `beta_max`; to the nearest if none has."""
    column_of = np.empty(len(problem), np.int64)
    _first_with_room(_by_distance(problem), problem.site_of, problem.rooms(problem.beta_max), column_of)
    return fitted(problem, column_of, random)


def balance(problem: Problem, random: np.random.Generator) -> Placement:
    """Keep latency limits, and make the load factor as small as possible; may be below `beta`."""
    classes = classes_of(problem.candidates, problem.site_of)
    _, flow = best_factor(classes.allowed, classes.sizes, problem.shares_of_leaves)
    return fitted(problem, drawn_members(flow, classes.members, random), random)


def _by_distance(problem: Problem) -> Array:
    """Return the leaf columns by distance from each site, those without capacity last."""
    hops = problem.tree.last_hops(problem.sites)
    hops[:, problem.shares_of_leaves == 0] = np.inf
    return np.argsort(hops, axis=1, kind="stable")


@compiled
def _first_with_room(preferred: Array, site_of: Array, rooms: Array, column_of: Array) -> None:
    for subscriber in range(len(site_of)):
        column_of[subscriber] = preferred[site_of[subscriber], 0]
        for column in preferred[site_of[subscriber]]:
            if rooms[column] > 0:
                rooms[column] -= 1
                column_of[subscriber] = column
                break
