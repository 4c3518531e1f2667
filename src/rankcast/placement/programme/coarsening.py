"""A small problem that stands for a large one, and its placement carried over to everybody.

Where many subscribers have the same demand, the same interest and the same candidate brokers, a search that moves them
one by one spends its time on moving crowds. A few of each demand, in proportion, pose nearly the same problem, and the
filters that suit them suit all: everybody is assigned to a leaf whose filter covers them, by a flow, and the few for
whom there is no room there to others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rankcast.placement.problem.problem import Problem
from rankcast.placement.problem.solution import Placement
from rankcast.placement.programme.assignment import assigned
from rankcast.placement.programme.assignment_step import Stage
from rankcast.placement.programme.fitting import fitted

REPEATED = 20
"""Subscribers to a demand, on average, from which on thinning is worth it."""

KEPT = 10
"""Subscribers to a demand that are kept, on average."""


@dataclass(frozen=True, slots=True, eq=False)
class Thinned:
    """The small problem, and everybody of the large one by their demands."""

    problem: Problem
    stage: Stage

    @staticmethod
    def of(problem: Problem, random: np.random.Generator) -> Thinned | None:
        """Return a problem with some subscribers of each demand; None where few have the same one."""
        stage = Stage.of(problem, np.arange(len(problem)), problem.tree.leaves)
        demands = len(stage.sizes)
        if len(problem) < REPEATED * demands:
            return None
        order = random.permutation(len(problem))
        order = order[np.argsort(stage.demand_of[order], kind="stable")]
        firsts = np.cumsum(stage.sizes) - stage.sizes
        evenly = np.arange(KEPT * demands) * len(problem) // (KEPT * demands)
        kept = np.sort(order[np.union1d(firsts, evenly)])
        small = replace(problem, interest_of=problem.interest_of[kept], site_of=problem.site_of[kept], names=None)
        return Thinned(small, stage)

    def carried_over(self, found: Placement, factor: float, random: np.random.Generator) -> Placement | None:
        """Return a placement of everybody by the filters of a small one; None when that is beyond a load factor."""
        problem = self.stage.problem
        leaves = problem.tree.leaves
        filters = [found.filters[leaf] for leaf in leaves]
        starts = np.cumsum([0, *map(len, filters)])
        strict = replace(self.stage, problem=replace(problem, beta=factor, beta_max=factor))
        columns = assigned(strict, self.stage.all_covers(starts, np.concatenate(filters)), random)
        if (np.bincount(columns, minlength=len(leaves)) > problem.rooms(factor)).any():
            return None
        return fitted(problem, columns, random, dict(zip(leaves.tolist(), filters, strict=True)))
