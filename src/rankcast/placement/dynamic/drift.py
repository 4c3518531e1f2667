"""How far a dynamic placement has drifted from what is possible, and when to plan again.

The yardstick is the objective of the linear programme on a sample of the present subscribers: traffic into the brokers
at the top of the tree in a fractional solution. It moves with the subscribers, which traffic alone does not tell:
traffic that has doubled may be as good as can be. Drift is the ratio of the placement's traffic into these brokers to
the yardstick, relative to that ratio just after planning.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rankcast.model.errors import InvalidValueError
from rankcast.placement.dynamic.dynamic import DynamicPlacement
from rankcast.placement.problem.audit import verify
from rankcast.placement.problem.problem import Placement, PlacementProblem
from rankcast.placement.problem.tree import PUBLISHER
from rankcast.placement.programme.filter_assignment import yardstick_of

Planner = Callable[[PlacementProblem, np.random.Generator], Placement]


def excess(placement: DynamicPlacement, random: np.random.Generator) -> float:
    """Return the traffic into the brokers at the top of the tree over the yardstick."""
    top = placement.tree.children(PUBLISHER)
    objective = yardstick_of(placement.snapshot().problem, random).objective
    traffic = float(placement.filters.measures[top].sum())
    return traffic / objective if objective > 0 else (1.0 if traffic == 0 else np.inf)


def plan_again(placement: DynamicPlacement, plan: Planner, random: np.random.Generator) -> int:
    """Plan again, and go over to that if it keeps every limit and has less traffic; return how many move."""
    snapshot = placement.snapshot()
    planned = plan(snapshot.problem, random)
    audit = verify(snapshot.problem, planned)
    is_better = audit.is_feasible and audit.bandwidth < placement.traffic
    return placement.adopt(snapshot, planned) if is_better else 0


@dataclass(slots=True)
class Watch:
    """Plans again when drift is above `limit`: `check` after every so many changes; `replanned` counts.

    `baseline` is the ratio to the yardstick just after the last planning.
    """

    plan: Planner
    baseline: float
    limit: float = 1.25
    replanned: int = 0

    def __post_init__(self) -> None:
        if not self.limit >= 1 or not self.baseline > 0:
            raise InvalidValueError(
                f"limit: {self.limit}, baseline: {self.baseline}; expected at least 1 and a number above 0"
            )

    @staticmethod
    def over(placement: DynamicPlacement, plan: Planner, random: np.random.Generator, limit: float = 1.25) -> Watch:
        """Begin to watch a placement as it is."""
        return Watch(plan, excess(placement, random), limit)

    def check(self, placement: DynamicPlacement, random: np.random.Generator) -> tuple[float, int]:
        """Return the drift and how many subscribers a new plan has moved, 0 when none was needed.

        A new plan that has no less traffic than there is, or breaks a limit, is not adopted.
        """
        drift = excess(placement, random) / self.baseline
        if drift <= self.limit:
            return drift, 0
        self.replanned += 1
        moved = plan_again(placement, self.plan, random)
        self.baseline = excess(placement, random)
        return drift, moved
