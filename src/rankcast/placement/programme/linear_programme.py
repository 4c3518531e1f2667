"""The linear programme of filter assignment: its candidate boxes, rows and columns, its solution, and a certain bound.

*Candidates* (the paper's FilterGen). All boxes around subsets of the sampled interests would be far too many. So
interests are first joined into some *superinterests*, clusters in the network and the event space together. Along each
attribute intervals of lengths that double are laid over the superinterests, no two of one length overlapping by more
than half of it; candidates are the products of these intervals, shrunk to what they contain.

Each broker gets candidates of its own, shrunk to the interests of those it may serve: boxes that contain the same of
these are one. The superinterests themselves and the box around everything are candidates, too. Every interest is in
some candidate, which needs one more length than the paper has: its longest intervals take in only interests of at most
half their length.

*The programme.* Unknowns: x, how much of a sampled demand goes to a broker that it may have, and y, how much of a
candidate box is in that broker's filter. The traffic, the sum of the measures of chosen boxes, is least subject to
  C1  each broker has at most alpha boxes,
  C2  each demand goes somewhere,
  C3  the sampled load of each broker is within its room,
  C4  a demand goes to a broker only as far as the broker has boxes around each of its parts.

It is solved by PDLP, a first-order method, to a modest accuracy. What it returns for the dual need not be feasible, so
the bound is made from it: any prices a >= 0 of C2 and v >= 0 of C3 give one, as those of C4 and C1 follow from them.
What rounding may have added is taken off. It is nothing, unless prices are so much larger than the bound that little is
left of their differences: where boxes of most different measures compete, it may be all of the bound.
An infeasible programme, too, ends with numbers that look plausible; callers ask `largest_flow` about the sample first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from ortools.pdlp import solve_log_pb2, solvers_pb2
from ortools.pdlp.python import pdlp
from scipy.sparse import csc_matrix

from rankcast.arrays import Array
from rankcast.model.errors import PlacementError
from rankcast.placement.kernels import contents_of, shrink_products
from rankcast.placement.problem.boxes import Density, corners, hull
from rankcast.placement.programme.fitting import hulls, k_means, normalised

OVERLAP = 0.5
"""How much of their length two intervals may overlap."""

SMALLEST = 1 / 1024
"""The least length of an interval, as a share of the whole: points have none, and lengths only double."""

MOST_PRODUCTS = 60_000
"""Products of intervals. Beyond that the finest lengths are left out: more attributes, coarser boxes."""

LARGEST = 2.0**40
"""The largest coefficient of the objective that the solver gets. It refuses 1e50, and is at its best around 1."""

NEGLIGIBLE = 2.0**-60
"""Measures of that share of the largest are none to the solver: they are lost in every sum with it, and a wider range
makes the solver complain, on standard output."""

ROUNDING = 2.0**-53
"""The share of a number that is lost, at most, when it is rounded."""


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Boxes of one broker, with the needs in each: `needs[offsets[b] : offsets[b + 1]]` are numbers of given parts."""

    boxes: Array
    offsets: Array
    needs: Array


def superinterests(parts: Array, positions: Array, count: int, random: np.random.Generator) -> Array:
    """Return boxes around clusters of parts that are alike, and wanted from near each other."""
    points = np.column_stack([normalised(positions), normalised(parts)])
    return np.unique(hulls(parts, k_means(points, count, random)), axis=0)


def shrink_boxes(parts: Array, boxes: Array) -> Array:
    """Return boxes shrunk to the hull of the parts in each; those without any are left out."""
    offsets, numbers = contents_of(parts, boxes)
    found: Array = np.maximum.reduceat(parts[numbers], offsets[:-1][np.diff(offsets) > 0], axis=0)
    return found


def intervals(low: Array, high: Array, coarsest: int | None = None) -> tuple[Array, Array]:
    """Return intervals over the projections of superinterests: of all lengths, or of so many of the longest."""
    whole = float(high.max() - low.min())
    if whole == 0:
        return low[:1], high[:1]
    smallest = max(float((high - low).min()), whole * SMALLEST)
    levels = int(np.ceil(np.log2(whole / smallest))) + 1
    found = set()
    for level in range(1 if coarsest is None else max(1, levels - coarsest + 1), levels + 1):
        length = 2.0**level * smallest
        short = high - low <= length / 2
        starts = np.unique(low[short])
        at = 0
        while at < len(starts):
            inside = short & (low >= starts[at]) & (high <= starts[at] + length)
            found.add((float(low[inside].min()), float(high[inside].max())))
            at = int(np.searchsorted(starts, starts[at] + (1 - OVERLAP) * length, side="right"))
    found.add((float(low.min()), float(high.max())))
    ends = np.array(sorted(found))
    return ends[:, 0], ends[:, 1]


@dataclass(frozen=True, slots=True, eq=False)
class Products:
    """Intervals by attribute, as sides: rows of `lows` and `highs`, `counts` of each; and boxes to add to products."""

    lows: Array
    highs: Array
    counts: Array
    others: Array

    @staticmethod
    def of(supers: Array) -> Products:
        """Return the intervals over superinterests."""
        low, high = corners(supers)
        coarsest: int | None = None
        while True:
            found = [intervals(*ends, coarsest) for ends in zip(low.T, high.T, strict=True)]
            counts = np.array([len(starts) for starts, _ in found])
            if counts.prod() <= MOST_PRODUCTS or coarsest == 1:
                break
            coarsest = 10 if coarsest is None else coarsest - 1
        lows, highs = (np.zeros((len(found), int(counts.max()))) for _ in range(2))
        for axis, (starts, ends) in enumerate(found):
            lows[axis, : len(starts)] = 0.0 - starts
            highs[axis, : len(ends)] = ends
        return Products(lows, highs, counts, np.concatenate([supers, hull(supers)[None]]))

    def shrunk_to(self, parts: Array, keys: Array) -> Candidates:
        """Return the candidates for parts that are given with random keys; of equal content only one."""
        if not len(parts):
            return Candidates(parts, np.zeros(1, np.int64), np.zeros(0, np.int64))
        size = int(self.counts.prod())
        boxes, hashes = np.empty((size, parts.shape[1])), np.empty(size, np.uint64)
        made = shrink_products(parts, keys, self.lows, self.highs, self.counts, boxes, hashes)
        _, first = np.unique(hashes[:made], return_index=True)
        different = np.unique(
            np.concatenate([boxes[first], hull(parts)[None], shrink_boxes(parts, self.others)]), axis=0
        )
        return Candidates(different, *contents_of(parts, different))


@dataclass(frozen=True, slots=True, eq=False)
class Programme:
    """The rows and columns. A *pair* is a demand at a broker it may have, a *need* a pair and a part of the demand.

    Pairs are by broker, needs by pair. Columns of y: the broker and the measure of each box, and the needs it meets.
    """

    pair_demand: Array
    pair_broker: Array
    need_pair: Array
    boxes: Array
    box_broker: Array
    measures: Array
    offsets: Array
    met: Array
    load_weights: Array
    rooms: Array
    most: Array

    @staticmethod
    def of(
        allowed: Array,
        parts_of: Array,
        candidates: list[Candidates],
        load_weights: Array,
        rooms: Array,
        most: Array,
        density: Density,
    ) -> Programme:
        """Put the programme together; `candidates` by broker, whose parts are those of its demands in order."""
        brokers, demands = np.nonzero(allowed.T)
        need_pair = np.repeat(np.arange(len(demands)), parts_of[demands])
        needs_before = np.searchsorted(brokers[need_pair], np.arange(len(rooms)))
        boxes = np.concatenate([found.boxes for found in candidates])
        return Programme(
            demands,
            brokers,
            need_pair,
            boxes,
            np.repeat(np.arange(len(candidates)), [len(found.boxes) for found in candidates]),
            density.measures(boxes),
            np.concatenate([[0], np.cumsum(np.concatenate([np.diff(found.offsets) for found in candidates]))]),
            np.concatenate([found.needs + before for found, before in zip(candidates, needs_before, strict=True)]),
            load_weights,
            rooms,
            most,
        )

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """How many brokers, demands, pairs and needs there are."""
        return len(self.rooms), len(self.load_weights), len(self.pair_demand), len(self.need_pair)

    def matrix(self) -> csc_matrix:
        """Return the constraint matrix: rows C1, C2, C3, C4, columns x, y."""
        brokers, demands, pairs, needs = self.sizes
        before_c4 = 2 * brokers + demands
        # A column of x has a row of C2, one of C3 and its needs of C4; a column of y has one of C1 and what it meets.
        ends = np.cumsum(np.concatenate([np.bincount(self.need_pair, minlength=pairs) + 2, np.diff(self.offsets) + 1]))
        starts = np.concatenate([[0], ends])
        of_x, of_y = starts[:pairs], starts[pairs:-1]
        rows, values = np.empty(starts[-1], np.int32), np.ones(starts[-1])
        rows[of_x], rows[of_x + 1] = brokers + self.pair_demand, brokers + demands + self.pair_broker
        values[of_x + 1] = self.load_weights[self.pair_demand]
        at_needs = np.arange(needs) + 2 * (self.need_pair + 1)
        rows[at_needs], values[at_needs] = before_c4 + np.arange(needs), -1.0
        rows[of_y] = self.box_broker
        is_met = np.ones(len(rows), bool)
        is_met[: starts[pairs]] = is_met[of_y] = False
        rows[is_met] = before_c4 + self.met
        shape = (before_c4 + needs, pairs + len(self.boxes))
        return csc_matrix((values, rows, starts), shape=shape)

    def bound(self, dual: Array) -> float:
        """Return a lower bound on the optimum, whatever the dual values are."""
        brokers, demands, pairs, _ = self.sizes
        of_demands = np.maximum(dual[brokers : brokers + demands], 0.0)
        of_rooms = np.maximum(-dual[brokers + demands : 2 * brokers + demands], 0.0)
        surplus = of_demands[self.pair_demand] - self.load_weights[self.pair_demand] * of_rooms[self.pair_broker]
        # The price of a pair is shared among its needs as the solver shares it, or evenly where it says nothing.
        told = np.maximum(dual[2 * brokers + demands :], 0.0)
        parts = np.bincount(self.need_pair, minlength=pairs)
        sums = np.bincount(self.need_pair, weights=told, minlength=pairs)[self.need_pair]
        share = np.divide(told, sums, out=1.0 / parts[self.need_pair], where=sums > 0)
        of_needs = np.maximum(surplus, 0.0)[self.need_pair] * share
        collected = np.add.reduceat(of_needs[self.met], self.offsets[:-1])  # every box meets a need
        of_alpha, largest = np.zeros(brokers), np.zeros(brokers)
        np.maximum.at(of_alpha, self.box_broker, collected - self.measures)
        np.maximum.at(largest, self.box_broker, collected)
        bound = of_demands.sum() - self.most @ of_alpha - self.rooms @ of_rooms
        amounts = of_demands.sum() + self.most @ largest + self.rooms @ of_rooms
        return float(bound - self._roundings * ROUNDING * amounts)

    @property
    def _roundings(self) -> int:
        """How many roundings an amount goes through on its way into a bound, at most, and as many again to be safe.

        The price of a demand loses that of its room, is shared among the parts of a pair, collected over the needs that
        a box meets, and added up over demands and brokers. Where the needs of a pair come to less than its price by a
        rounding, the bound is too high by that difference, once per demand: no more than all of it goes anywhere.
        """
        brokers, demands, pairs, _ = self.sizes
        parts = int(np.bincount(self.need_pair, minlength=pairs).max(initial=0))
        met = int(np.diff(self.offsets).max(initial=0))
        return 2 * (brokers + demands + parts + met + 8)


@dataclass(frozen=True, slots=True, eq=False)
class Fractional:
    """A fractional solution: how much of each candidate box, its objective, and a lower bound on the optimum."""

    chosen: Array
    objective: float
    bound: float


def solve(programme: Programme, accuracy: float, iterations: int) -> Fractional:
    """Solve to a relative accuracy, or as far as the iterations go: the bound is one in any case.

    Raises PlacementError when the solver refuses the programme or returns no numbers.
    """
    brokers, demands, pairs, needs = programme.sizes
    matrix = programme.matrix()
    costs, scale = _costs(programme.measures)
    made = pdlp.QuadraticProgram()
    made.resize_and_initialize(matrix.shape[1], matrix.shape[0])
    made.objective_vector = np.concatenate([np.zeros(pairs), costs])
    made.constraint_matrix = matrix
    unlimited = np.full(brokers, np.inf)
    made.constraint_lower_bounds = np.concatenate([-unlimited, np.ones(demands), -unlimited, np.zeros(needs)])
    made.constraint_upper_bounds = np.concatenate(
        [programme.most.astype(float), np.full(demands, np.inf), programme.rooms.astype(float), np.full(needs, np.inf)]
    )
    made.variable_lower_bounds = np.zeros(matrix.shape[1])
    made.variable_upper_bounds = np.full(matrix.shape[1], np.inf)
    settings = solvers_pb2.PrimalDualHybridGradientParams()
    settings.termination_criteria.simple_optimality_criteria.eps_optimal_relative = accuracy
    settings.termination_criteria.simple_optimality_criteria.eps_optimal_absolute = accuracy
    settings.termination_criteria.iteration_limit = iterations
    found = pdlp.primal_dual_hybrid_gradient(made, settings)
    primal, dual = np.asarray(found.primal_solution), np.asarray(found.dual_solution)
    if (len(dual), len(primal)) != matrix.shape or not (np.isfinite(primal).all() and np.isfinite(dual).all()):
        raise PlacementError(
            f"the solver ended without a solution: {_reason(found)}; expected one for {demands:,} demands at "
            f"{brokers:,} brokers"
        )
    chosen = np.clip(primal[pairs:], 0.0, None)
    return Fractional(chosen, float(chosen @ programme.measures), max(programme.bound(dual * scale), 0.0))


def _costs(measures: Array) -> tuple[Array, float]:
    """Return the coefficients of boxes in the objective, and what their unit is: measures may be of any magnitude.

    The unit is the median. Where a few boxes are so much larger that it is nothing beside them, it follows the largest.
    """
    largest = float(measures.max())
    if not largest:
        return measures, 0.0
    scale = max(float(np.median(measures)) or largest, largest / LARGEST)
    return np.where(measures < largest * NEGLIGIBLE, 0.0, measures / scale), scale


def _reason(found: pdlp.SolverResult) -> str:
    """Return in words why the solver ended."""
    name: str = solve_log_pb2.TerminationReason.Name(found.solve_log.termination_reason)
    return name.removeprefix("TERMINATION_REASON_").replace("_", " ").lower()
