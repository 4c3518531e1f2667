"""The independent audit of a placement: everything is worked out again from the problem's own points and boxes.

No algorithm's code is used. Nesting is exact: a box lies in a filter when nothing is left of it once the filter's boxes
are cut out of it, whether or not one of them contains it alone. The measure of a filter is worked out slab by slab.
Cost: O((subscribers + different pairs of leaf and part) * alpha), and at most attributes * alpha * 2^alpha per filter.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cache, reduce
from itertools import pairwise

import numpy as np

from rankcast.arrays import Array
from rankcast.model.errors import PlacementError
from rankcast.placement.problem.boxes import Density, corners
from rankcast.placement.problem.interests import Interests
from rankcast.placement.problem.problem import TOLERANCE, Latency, Placement, PlacementProblem
from rankcast.placement.problem.tree import PUBLISHER


class Rule(Enum):
    """What a placement has to keep."""

    NESTING = "nesting"
    COMPLEXITY = "complexity"
    LATENCY = "latency"
    LOAD = "load"


@dataclass(frozen=True, slots=True)
class Violation:
    """One rule broken in one place, in words."""

    rule: Rule
    message: str


@dataclass(frozen=True, slots=True, eq=False)
class Audit:
    """What a placement is worth. `load_factor` is the largest ratio of a leaf's load to its share of subscribers.

    `delays` are by subscriber: latency of the whole path over the shortest one through the tree, minus 1.
    """

    bandwidths: Array
    loads: Array
    load_factor: float
    delays: Array
    violations: tuple[Violation, ...]

    @property
    def bandwidth(self) -> float:
        """The expected traffic into all brokers."""
        return float(self.bandwidths.sum())

    @property
    def rms_delay(self) -> float:
        """The root mean square of the delays."""
        most = float(self.delays.max())
        return most * float(np.sqrt(np.mean((self.delays / most) ** 2))) if most > 0 else 0.0  # squares may overflow

    @property
    def is_feasible(self) -> bool:
        """Whether every rule is kept."""
        return not self.violations

    def broken(self) -> set[Rule]:
        """Return the rules that are broken."""
        return {violation.rule for violation in self.violations}


def verify(problem: PlacementProblem, placement: Placement) -> Audit:
    """Return what a placement is worth, with everything that is wrong with it.

    Loads are held against `beta_max`. Raises PlacementError when the placement is not one of this problem at all:
    other sizes, subscribers that are not at a leaf, or filters that are not boxes of its attributes.
    """
    leaf_of = _leaves(problem, placement)
    _check_filters(problem, placement)
    loads = np.bincount(leaf_of, minlength=len(problem.tree.leaves))
    with np.errstate(divide="ignore", invalid="ignore"):
        factors = np.where(loads > 0, loads / (problem.shares_of_leaves * len(problem)), 0.0)
    delays, late = _delays(problem, leaf_of)
    violations = [
        *_nesting_of_subscribers(problem, placement, leaf_of),
        *_nesting_of_brokers(problem, placement),
        *_complexity(problem, placement),
        *late,
        *_overloads(problem, loads, factors),
    ]
    bandwidths = np.array([union_measure(boxes, problem.density) for boxes in placement.filters])
    return Audit(bandwidths, loads, float(factors.max()), delays, tuple(violations))


def union_measure(boxes: Array, density: Density) -> float:
    """Return the measure of a union of boxes, slab by slab.

    Slabs in the same boxes are worked out once: cost is at most attributes * 2 ** boxes * boxes, usually far less.
    """
    if not len(boxes):
        return 0.0
    if not density.is_uniform:
        inside = reduce(np.logical_or, ((density.samples <= box).all(axis=1) for box in boxes))
        return float(density.weights[inside].sum())
    low, high = corners(boxes)

    @cache
    def section(axis: int, inside: frozenset[int]) -> float:
        """The measure, from an axis on, of the union of those boxes that a point is inside of on the axes before."""
        if axis == low.shape[1]:
            return 1.0
        own = sorted(inside)
        ends = np.unique(np.concatenate([low[own, axis], high[own, axis]]))
        found = 0.0
        for start, end in pairwise(ends.tolist()):
            through = frozenset(box for box in own if low[box, axis] <= start and end <= high[box, axis])
            found += (end - start) * section(axis + 1, through) if through else 0.0
        return found

    return section(0, frozenset(range(len(boxes))))


def lies_within(box: Array, boxes: Array) -> bool:
    """Whether a box lies in a union of boxes."""
    if (box <= boxes).all(axis=1).any():
        return True
    attributes = len(box) // 2
    opposite = np.r_[attributes : 2 * attributes, :attributes]
    for at, other in enumerate(boxes):
        common = np.minimum(box, other)
        if (common + common[opposite] < 0).any() or _only_touches(box, common, opposite):
            continue
        rest = box.copy()
        for side in np.flatnonzero(common < box):  # what reaches beyond that side of the other box, cut off
            outer = rest.copy()
            outer[opposite[side]] = -common[side]
            if not lies_within(outer, boxes[at + 1 :]):
                return False
            rest[side] = common[side]
        return True
    return False


def _only_touches(box: Array, common: Array, opposite: Array) -> bool:
    """Whether a box has only a face in common: cutting that out leaves the box as it is."""
    flat = common + common[opposite] == 0
    return bool((flat & (box + box[opposite] > 0)).any())


def _leaves(problem: PlacementProblem, placement: Placement) -> Array:
    """Return the column of each subscriber's leaf."""
    brokers = np.asarray(placement.brokers)
    if brokers.shape != (len(problem),) or len(placement.filters) != len(problem.tree):
        raise PlacementError(
            f"placement: {brokers.shape} subscribers and {len(placement.filters):,} filters; expected "
            f"{len(problem):,} and {len(problem.tree):,}"
        )
    leaves = problem.tree.leaves
    column = np.searchsorted(leaves, brokers).clip(max=len(leaves) - 1)
    wrong = np.flatnonzero(leaves[column] != brokers)
    if len(wrong):
        raise PlacementError(f"{problem.name(int(wrong[0]))}: at {brokers[wrong[0]]}, which is not a leaf of the tree")
    return column


def _check_filters(problem: PlacementProblem, placement: Placement) -> None:
    """Refuse what is no filter: comparing with it would prove anything."""
    width = problem.interests.sides.shape[1]
    filters: tuple[object, ...] = placement.filters
    for broker, boxes in enumerate(filters):
        if not isinstance(boxes, np.ndarray) or boxes.ndim != 2 or boxes.shape[1] != width:
            found = f"of shape {boxes.shape}" if isinstance(boxes, np.ndarray) else f"that is a {type(boxes).__name__}"
            raise PlacementError(
                f"{problem.broker_name(broker)}: a filter {found}; expected an array with rows of {width} sides, two "
                "per attribute"
            )
        low, high = corners(boxes)
        wrong = np.flatnonzero(~(np.isfinite(boxes).all(axis=1) & (low <= high).all(axis=1)))
        if len(wrong):
            at = int(wrong[0])
            raise PlacementError(
                f"{problem.broker_name(broker)}: box {at} of its filter is from {low[at].tolist()} to "
                f"{high[at].tolist()}; expected finite numbers, low <= high"
            )


def _nesting_of_subscribers(problem: PlacementProblem, placement: Placement, leaf_of: Array) -> list[Violation]:
    codes = np.unique(leaf_of * len(problem.interests) + problem.interest_of)
    columns, interests = np.divmod(codes, len(problem.interests))
    found: list[Violation] = []
    for column in np.unique(columns):
        broker = int(problem.tree.leaves[column])
        boxes = placement.filters[broker]
        doubtful = interests[columns == column]
        doubtful = doubtful[~_surely_within(problem.interests.taken(doubtful), boxes)]
        found += [
            Violation(Rule.NESTING, f"{problem.broker_name(broker)}: its filter does not contain interest {interest}")
            for interest in doubtful.tolist()
            if not all(lies_within(part, boxes) for part in problem.interests.parts(interest))
        ]
    return found


def _surely_within(wanted: Interests, boxes: Array) -> Array:
    """Return of which interests every part lies in one box: nearly all of them, found many at a time.

    Algorithms ask `kernels`; an audit finds out for itself.
    """
    inside = np.zeros(len(wanted.sides), bool)
    for box in boxes:
        inside |= (wanted.sides <= box).all(axis=1)
    return np.logical_and.reduceat(inside, wanted.offsets[:-1])


def _nesting_of_brokers(problem: PlacementProblem, placement: Placement) -> list[Violation]:
    return [
        Violation(
            Rule.NESTING,
            f"{problem.broker_name(parent)}: its filter does not contain that of {problem.broker_name(broker)}",
        )
        for broker, parent in enumerate(problem.tree.parents.tolist())
        if parent != PUBLISHER
        and not all(lies_within(box, placement.filters[parent]) for box in placement.filters[broker])
    ]


def _complexity(problem: PlacementProblem, placement: Placement) -> list[Violation]:
    return [
        Violation(
            Rule.COMPLEXITY,
            f"{problem.broker_name(broker)}: a filter of {len(boxes)} boxes; at most {most} are allowed",
        )
        for broker, (boxes, most) in enumerate(zip(placement.filters, problem.boxes_of_brokers, strict=True))
        if len(boxes) > most
    ]


def _delays(problem: PlacementProblem, leaf_of: Array) -> tuple[Array, list[Violation]]:
    tree = problem.tree
    paths = np.zeros(len(tree.leaves))
    for column, leaf in enumerate(tree.leaves.tolist()):
        at = leaf
        while at != PUBLISHER:
            above = tree.parents[at]
            end = tree.publisher if above == PUBLISHER else tree.positions[above]
            paths[column] += np.sqrt(((tree.positions[at] - end) ** 2).sum())
            at = above
    codes, which = np.unique(problem.site_of * len(paths) + leaf_of, return_inverse=True)
    sites, columns = np.divmod(codes, len(paths))
    hops = np.sqrt(((problem.sites[sites] - tree.positions[tree.leaves[columns]]) ** 2).sum(axis=1))
    taken = hops + paths[columns]
    shortest = np.full(len(problem.sites), np.inf)
    for column, leaf in enumerate(tree.leaves):
        through = np.sqrt(((problem.sites - tree.positions[leaf]) ** 2).sum(axis=1)) + paths[column]
        shortest = np.minimum(shortest, through)
    ratio = np.divide(taken, shortest[sites], out=np.ones_like(taken), where=shortest[sites] > 0)
    limited = taken if problem.latency is Latency.PATH else hops
    late = np.flatnonzero((limited > problem.limits[sites] * (1 + 2 * TOLERANCE))[which])
    message = (
        f"{len(late):,} subscribers beyond their latency limit, the first {problem.name(int(late[0]))}: "
        f"{limited[which[late[0]]]:g} where {problem.limits[problem.site_of[late[0]]]:g} is allowed"
        if len(late)
        else ""
    )
    return ratio[which] - 1, [Violation(Rule.LATENCY, message)] if message else []


def _overloads(problem: PlacementProblem, loads: Array, factors: Array) -> list[Violation]:
    return [
        Violation(
            Rule.LOAD,
            f"{problem.broker_name(problem.tree.leaves[column])}: {loads[column]:,} subscribers, "
            f"{factors[column]:.4g} times its share; at most {problem.beta_max:g} times are allowed",
        )
        for column in np.flatnonzero(factors > problem.beta_max * (1 + 2 * TOLERANCE))
    ]
