"""Tiny problems of which the least traffic is known by trying everything: how far from it algorithms are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np

from rankcast.placement.algorithms import Algorithm
from rankcast.placement.audit import union_measure
from rankcast.placement.interests import Interests
from rankcast.placement.problem import Problem
from rankcast.placement.tree import BrokerTree
from rankcast_lab.bench.placement_runs import NAMES, SearchBudget, measured
from rankcast_lab.engines.exhaustive import least_traffic
from rankcast_lab.studies.findings import Finding

SUBSCRIBERS, BROKERS = 7, 3
ALGORITHMS = (Algorithm.GREEDY_ONLINE, Algorithm.GREEDY_OFFLINE, Algorithm.PROGRAMME, Algorithm.LOCAL_SEARCH)
MOVES = 2_000


def tiny_problem(random: np.random.Generator) -> Problem:
    """Draw boxes in a unit square, anywhere, for subscribers who may all have any broker; one or two boxes a filter."""
    low = random.random((SUBSCRIBERS, 2))
    return Problem(
        BrokerTree.star([0.0], np.ones((BROKERS, 1))),
        Interests.of_boxes(low, low + random.random((SUBSCRIBERS, 2)) / 2),
        np.arange(SUBSCRIBERS),
        np.array([[1.0]]),
        np.array([2.0]),
        np.zeros(SUBSCRIBERS, np.int64),
        beta=1.3,
        beta_max=1.3,
        alpha=int(random.integers(1, 3)),
    )


def tiny_findings(problems: int, seed: int) -> Iterator[Finding]:
    """Yield the mean and the worst ratio of traffic to the least possible, over placements within all limits."""
    ratios: Mapping[Algorithm, list[float]] = {algorithm: [] for algorithm in ALGORITHMS}
    for number in range(problems):
        problem = tiny_problem(np.random.default_rng((seed, number)))
        least = least_traffic(problem, partial(union_measure, density=problem.density))
        if least is None:
            continue
        for algorithm, found in ratios.items():
            audit = measured(problem, algorithm, seed, SearchBudget(MOVES)).audit
            if audit.is_feasible:
                found.append(audit.bandwidth / least)
    for algorithm, found in ratios.items():
        name = f"{problems} tiny problems: {NAMES[algorithm]} / least possible"
        yield Finding(f"{name}, mean", None, float(np.mean(found)), None)
        yield Finding(f"{name}, worst", None, max(found), None)
