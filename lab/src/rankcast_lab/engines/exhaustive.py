"""The least traffic of a tiny problem of one level, by trying everything: the oracle of all placement algorithms.

Every assignment of subscribers to leaves is tried, and for every leaf every way to put the boxes it has to contain into
groups, one box around each. Cost: leaves^subscribers assignments; a handful of subscribers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product

import numpy as np

from rankcast.arrays import Array
from rankcast.model.errors import PlacementError
from rankcast.placement.problem.problem import PlacementProblem

MOST_ASSIGNMENTS = 100_000

Side = tuple[float, ...]


def least_traffic(problem: PlacementProblem, worth: Callable[[Array], float]) -> float | None:
    """Return the least traffic within the limits of latency, and of load at `beta_max`; None if no assignment is.

    `worth` gives the traffic of a filter. Raises PlacementError when the problem is too large or has several levels.
    """
    choices = [np.flatnonzero(problem.candidates[site]) for site in problem.site_of]
    assignments = float(np.prod([float(len(columns)) for columns in choices]))
    if not problem.tree.is_star or assignments > MOST_ASSIGNMENTS:
        raise PlacementError(
            f"problem: {assignments:.3g} assignments, {'one level' if problem.tree.is_star else 'several levels'}; "
            f"expected at most {MOST_ASSIGNMENTS:,} on one level"
        )
    rooms = problem.rooms(problem.beta_max)
    known: dict[tuple[frozenset[int], int], float] = {}
    best: float | None = None
    for columns in product(*choices):
        if (np.bincount(columns, minlength=len(rooms)) > rooms).any():
            continue
        total = 0.0
        for column in sorted(set(columns)):
            wanted = frozenset(
                int(problem.interest_of[subscriber]) for subscriber, other in enumerate(columns) if other == column
            )
            most = int(problem.boxes_of_brokers[problem.tree.leaves[column]])
            if (wanted, most) not in known:
                known[wanted, most] = _least_filter(problem, wanted, most, worth)
            total += known[wanted, most]
        best = total if best is None else min(best, total)
    return best


def _least_filter(
    problem: PlacementProblem, wanted: frozenset[int], most: int, worth: Callable[[Array], float]
) -> float:
    boxes = sorted({tuple(part) for interest in wanted for part in problem.interests.parts(interest).tolist()})
    return min(worth(np.array([np.max(group, axis=0) for group in groups])) for groups in groupings(boxes, most))


def groupings(items: Sequence[Side], most: int) -> Iterator[list[list[Side]]]:
    """Yield every way to divide items into at most so many groups.

    >>> [len(groups) for groups in groupings([(1.0,), (2.0,), (3.0,)], 2)]
    [1, 2, 2, 2]
    """
    if not items:
        yield []
        return
    for groups in groupings(items[1:], most):
        for at in range(len(groups)):
            yield [*groups[:at], [items[0], *groups[at]], *groups[at + 1 :]]
        if len(groups) < most:
            yield [[items[0]], *groups]
