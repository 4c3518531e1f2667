"""One placement algorithm on one problem: what it took, what the audit says, and what the audit may say."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from time import process_time

import numpy as np

from rankcast.model.errors import UnknownIdError, shown
from rankcast.placement.algorithms import Algorithm, place
from rankcast.placement.greedy import greedy_offline
from rankcast.placement.problem.audit import Audit, Rule, verify
from rankcast.placement.problem.problem import TOLERANCE, Placement, PlacementProblem
from rankcast.placement.programme.filter_assignment import Yardstick
from rankcast.placement.programme.flow import feasible_factor
from rankcast.placement.programme.slp import place_by_programme
from rankcast.placement.search import anneal, anneal_within
from rankcast_lab.bench.timing import timed

NAMES: Mapping[Algorithm, str] = {
    Algorithm.GREEDY_ONLINE: "Gr",
    Algorithm.GREEDY_OFFLINE: "Gr*",
    Algorithm.GREEDY_WITHOUT_LATENCY: "Gr without latency",
    Algorithm.CLOSEST_WITHOUT_BALANCE: "Closest without balance",
    Algorithm.CLOSEST: "Closest",
    Algorithm.BALANCE: "Balance",
    Algorithm.PROGRAMME: "SLP",
    Algorithm.LOCAL_SEARCH: "local search",
}
"""What the paper calls them."""

MAY_BREAK: Mapping[Algorithm, frozenset[Rule]] = {
    Algorithm.GREEDY_ONLINE: frozenset({Rule.LOAD}),
    Algorithm.GREEDY_OFFLINE: frozenset({Rule.LOAD}),
    Algorithm.GREEDY_WITHOUT_LATENCY: frozenset({Rule.LATENCY}),
    Algorithm.CLOSEST_WITHOUT_BALANCE: frozenset({Rule.LATENCY, Rule.LOAD}),
    Algorithm.CLOSEST: frozenset({Rule.LATENCY}),
    Algorithm.BALANCE: frozenset(),
    Algorithm.PROGRAMME: frozenset(),
    Algorithm.LOCAL_SEARCH: frozenset(),
}
"""Limits that algorithms do not promise to keep where they can be kept."""


def check_workloads(names: Iterable[str], known: Collection[str]) -> None:
    """Raise UnknownIdError unless all names are those of workloads."""
    for name in names:
        if name not in known:
            raise UnknownIdError(f"there is no workload {shown(name)} of placement; expected one of {', '.join(known)}")


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """What an algorithm found. `seconds` are CPU time; `yardstick` is that of the linear programme, if it is one."""

    algorithm: Algorithm
    placement: Placement
    audit: Audit
    seconds: float
    yardstick: Yardstick | None = None

    def is_sound(self, problem: PlacementProblem) -> bool:
        """Whether no limit is broken that the algorithm promises to keep; that of load only where it can be kept."""
        broken = self.audit.broken() - MAY_BREAK[self.algorithm]
        return not broken or (broken == {Rule.LOAD} and feasible_factor(problem) > problem.beta_max * (1 + TOLERANCE))

    @property
    def load_spread(self) -> float:
        """The standard deviation of the loads of leaves."""
        return float(self.audit.loads.std())


@dataclass(frozen=True, slots=True)
class SearchBudget:
    """How long local search goes on: a number of moves, or seconds of CPU time instead."""

    moves: int = 20_000
    seconds: float | None = None


def measured(problem: PlacementProblem, algorithm: Algorithm, seed: int, budget: SearchBudget) -> Run:
    """Run an algorithm and audit what it finds. Local search starts from Gr*, which counts."""
    yardstick: Yardstick | None = None
    random = np.random.default_rng(seed)
    if algorithm is Algorithm.PROGRAMME:
        seconds, found = timed(lambda: place_by_programme(problem, random))
        placement, yardstick = found.placement, found.yardstick
    elif algorithm is Algorithm.LOCAL_SEARCH:
        seconds, placement = timed(lambda: searched(problem, greedy_offline(problem), random, budget))
    else:
        seconds, placement = timed(lambda: place(problem, algorithm, random))
    return Run(algorithm, placement, verify(problem, placement), seconds, yardstick)


def searched(
    problem: PlacementProblem, start: Placement, random: np.random.Generator, budget: SearchBudget
) -> Placement:
    """Improve a placement within a budget."""
    if budget.seconds is None:
        return anneal(problem, start, random, budget.moves)
    began, most = process_time(), budget.seconds
    return anneal_within(problem, start, random, lambda: (process_time() - began) / most)
