"""The greedy algorithms: online (the paper's name for it is Gr), offline (Gr*), and online without latency limits.

Online takes subscribers as they come. Offline first serves those with the fewest candidates, and sorts again whenever
a broker has filled up. Both put a subscriber where the filters on the way to it grow least, and among equals where
load is least. They keep to `beta`, and are run again with more up to `beta_max` when somebody found no room; when even
that is not enough, those without room go where filters grow least all the same, and the audit will say so.

Cost: well below a microsecond per subscriber and candidate.
"""

from __future__ import annotations

import numpy as np

from rankcast.arrays import Array
from rankcast.placement.greedy.kernels import Choices, Demands, Progress, place_all
from rankcast.placement.kernels.filters import empty_filters, used_boxes
from rankcast.placement.problem.boxes import hull
from rankcast.placement.problem.problem import Problem
from rankcast.placement.problem.solution import Placement
from rankcast.placement.programme.flow import classes_of

FACTORS = 4
"""Load factors that are tried from `beta` to `beta_max`."""

SAME = 1e-12
"""Growth less than that, as a share of the measure of everything, is none: it comes from rounding."""


def greedy_online(problem: Problem) -> Placement:
    """Place subscribers in the order of their numbers."""
    return _greedy(problem, problem.candidates, offline=False)


def greedy_offline(problem: Problem) -> Placement:
    """Place those with the fewest candidates first."""
    return _greedy(problem, problem.candidates, offline=True)


def greedy_without_latency(problem: Problem) -> Placement:
    """Place subscribers in the order of their numbers, at any broker: how much bandwidth do latency limits cost?"""
    return _greedy(problem, np.ones_like(problem.candidates), offline=False)


def load_factors(problem: Problem) -> Array:
    """Return the load factors to try, from the wanted one to the largest that is allowed."""
    if problem.beta == problem.beta_max:
        return np.array([problem.beta])
    return np.linspace(problem.beta, problem.beta_max, FACTORS)


def _greedy(problem: Problem, candidates: Array, *, offline: bool) -> Placement:
    classes = classes_of(candidates, problem.site_of)
    columns, starts = classes.listed()
    choices = Choices(starts, columns, problem.tree.leaves, problem.shares_of_leaves)
    interests = problem.interests
    queue_starts = np.concatenate([[0], np.cumsum(classes.sizes)])
    queues = np.argsort(classes.members, kind="stable")
    demands = Demands(interests.offsets, interests.sides, problem.interest_of, classes.members, queue_starts, queues)
    tolerance = SAME * float(problem.density.measures(hull(interests.sides)[None])[0])
    for factor in load_factors(problem):
        filters = empty_filters(
            problem.boxes_of_brokers, problem.tree.parents, interests.sides.shape[1], problem.density
        )
        progress = Progress(
            np.full(len(problem), -1), np.zeros(len(problem.tree.leaves), np.int64), problem.rooms(float(factor))
        )
        if not place_all(demands, choices, progress, filters, tolerance, offline):
            break
    kept = tuple(used_boxes(filters, broker).copy() for broker in range(len(problem.tree)))
    return Placement(problem.tree.leaves[progress.column_of], kept)
