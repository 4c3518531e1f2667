"""Compiles the kernels of placement ahead of time: from source once per installation, from numba's cache after that."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from rankcast.placement.algorithms import Algorithm, place
from rankcast.placement.problem.interests import Interests
from rankcast.placement.problem.problem import PlacementProblem
from rankcast.placement.problem.tree import BrokerTree

INTERESTS, ALIKE = 8, 40
"""More interests than boxes, so that filters are fitted; many of each, so that local search begins with a few."""


def warm_up(algorithms: Iterable[Algorithm] = tuple(Algorithm)) -> None:
    """Run each algorithm on a small problem: after that it compiles nothing, whatever the problem."""
    low = np.arange(float(INTERESTS))[:, None]
    wanted = np.repeat(np.arange(INTERESTS), ALIKE)
    problem = PlacementProblem(
        BrokerTree.star([0.0], [[1.0], [2.0]]),
        Interests.of_boxes(low, low + 1),
        wanted,
        sites=np.zeros((1, 1)),
        limits=np.full(1, 9.0),
        site_of=np.zeros_like(wanted),
        beta=1.5,
        beta_max=2.0,
        alpha=1,
    )
    for algorithm in (Algorithm.BALANCE, *algorithms):  # it fits filters, which others do at need
        place(problem, algorithm, np.random.default_rng(0), moves=1)
