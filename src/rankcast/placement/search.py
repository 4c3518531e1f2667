"""Local search from any placement: better by simulated annealing, never worse than its start.

A start that breaks limits of latency or load is mended first, by moving as few subscribers as a flow allows; when no
placement keeps the limits, as many as possible do. The search itself keeps them in every move. The moves are those of
`search_kernels`; the temperature falls geometrically, and is relative to the mean traffic of a leaf at the start.

Where many subscribers have the same demand, the same interest and the same candidate brokers, a search that moves them
one by one spends its time on moving crowds. A few of each demand, in proportion, pose nearly the same problem, and the
filters that suit them suit all: everybody is assigned to a leaf whose filter covers them, by a flow, and the few for
whom there is no room there to others. Half of the budget is for that.

How long it goes on is given as a number of moves, and then a seed gives one result; or as a budget of any other kind,
such as time, of which the caller says how much is spent. Cost: some ten thousand moves a second with a thousand
subscribers to a leaf; three moves per subscriber do most of the work.

*Exchanges*, for small problems, reach what moves of one by one cannot. Local search puts people where there is room.
Where load limits are tight all leaves are full, and with a handful of subscribers no sequence of such moves may lead to
a better placement. An exchange of two subscribers between leaves keeps all loads. Filters are fitted again for each one
that is tried, at its two leaves and above, so this is for few subscribers only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from rankcast.arrays import Array
from rankcast.placement.greedy import greedy_offline
from rankcast.placement.kernels import measure
from rankcast.placement.problem.problem import Placement, PlacementProblem
from rankcast.placement.programme.assignment import Stage, assign_members
from rankcast.placement.programme.fitting import fit_filters, fit_inner_filters, fit_leaf, leaf_seeds, parts_by_leaf
from rankcast.placement.programme.flow import cheapest_flow, classes_of, draw_members, first_full_flow
from rankcast.placement.search_kernels import COUNT, LEAF, UPPER, empty_walk, put_all, search, shrink_all

HOT, COLD = 0.3, 3e-3
"""The temperatures of the first and the last moves, as shares of the mean traffic of a leaf. A filter grows by steps of
a tenth of its measure and more: what is much colder refuses nearly every step that costs anything."""

SHARE_OF_FEW = 0.5
"""Of the budget, for a search with few subscribers of each demand where many have the same."""

STEPS = 200
"""Temperatures from hot to cold, where the number of moves is given."""

CHUNK = 1000
"""Moves before the budget is looked at again, where it is not a number of moves."""

REPEATED = 20
"""Subscribers to a demand, on average, from which on thinning is worth it."""

KEPT = 10
"""Subscribers to a demand that are kept, on average."""

MOST_SUBSCRIBERS = 30
"""Problems with more are left as they are: pairs grow with the square."""

MOST_TRIES = 500
"""Exchanges that are tried in all, at a millisecond each."""

WORTHWHILE = 1e-12
"""The least share of the traffic that an exchange has to save: less comes from rounding."""

KICKS, EXCHANGES_OF_A_KICK = 5, 2
"""Where no exchange helps, some are made at random and it begins again from there, so many times."""

Progress = Callable[[float, float], None]
"""Called now and then with the share of the budget that is spent, and the least traffic so far."""


class Search:
    """A placement in motion. The traffic is the sum of the measures of all filters."""

    def __init__(self, problem: PlacementProblem, start: Placement, random: np.random.Generator) -> None:
        self.problem = problem
        self._walk = empty_walk(problem, start.brokers, random)
        self._fill(start)
        self.scale = self.traffic / len(problem.tree.leaves)

    @property
    def traffic(self) -> float:
        """The sum of the measures of all filters."""
        return float(self._walk.measures[: len(self.problem.tree)].sum())

    def go(self, moves: int, temperature: float) -> int:
        """Try moves at a temperature relative to the mean traffic of a leaf at the start; return how many were made."""
        made = search(moves, temperature * self.scale, self._walk)
        shrink_all(self._walk)
        return made

    def placement(self) -> Placement:
        """Return the placement as it stands."""
        boxes, counts = self._walk.boxes, self._walk.uses[:, :, COUNT]
        kept = tuple(boxes[broker, counts[broker] > 0].copy() for broker in range(len(self.problem.tree)))
        return Placement(self._walk.subscribers[:, LEAF].copy(), kept)

    def _fill(self, start: Placement) -> None:
        """Give filters the boxes of the start, with everybody where they were; boxes that nobody needs vanish."""
        boxes, uses = self._walk.boxes, self._walk.uses
        for broker in self.problem.tree.downwards.tolist():
            own = start.filters[broker]
            boxes[broker, : len(own)] = own
            parent = self.problem.tree.parents[broker]
            if parent >= 0:
                for slot, box in enumerate(own):
                    uses[broker, slot, UPPER] = int((box <= start.filters[parent]).all(axis=1).argmax())
        put_all(start.brokers, self._walk)
        shrink_all(self._walk)


@dataclass(frozen=True, slots=True, eq=False)
class Thinned:
    """The small problem, and everybody of the large one by their demands."""

    problem: PlacementProblem
    stage: Stage

    @staticmethod
    def of(problem: PlacementProblem, random: np.random.Generator) -> Thinned | None:
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

    def carry_over(self, found: Placement, factor: float, random: np.random.Generator) -> Placement | None:
        """Return a placement of everybody by the filters of a small one; None when that is beyond a load factor."""
        problem = self.stage.problem
        leaves = problem.tree.leaves
        filters = [found.filters[leaf] for leaf in leaves]
        starts = np.cumsum([0, *map(len, filters)])
        strict = replace(self.stage, problem=replace(problem, beta=factor, beta_max=factor))
        columns = assign_members(strict, self.stage.all_covers(starts, np.concatenate(filters)), random)
        if (np.bincount(columns, minlength=len(leaves)) > problem.rooms(factor)).any():
            return None
        return fit_filters(problem, columns, random, dict(zip(leaves.tolist(), filters, strict=True)))


def anneal(
    problem: PlacementProblem,
    start: Placement,
    random: np.random.Generator,
    moves: int,
    progress: Progress | None = None,
) -> Placement:
    """Return the best placement that is found with so many moves."""
    steps = min(STEPS, max(1, moves))
    counts = np.diff(np.linspace(0, moves, steps + 1).astype(np.int64)).tolist()
    return _search(problem, start, random, ((step / steps, count) for step, count in enumerate(counts)), progress)


def anneal_within(
    problem: PlacementProblem,
    start: Placement,
    random: np.random.Generator,
    spent: Callable[[], float],
    progress: Progress | None = None,
) -> Placement:
    """Return the best placement that is found until `spent` says 1: the share of a budget, of time for instance."""

    def chunks() -> Iterator[tuple[float, int]]:
        while (share := spent()) < 1:
            yield share, CHUNK

    return _search(problem, start, random, chunks(), progress)


def _search(
    problem: PlacementProblem,
    start: Placement,
    random: np.random.Generator,
    chunks: Iterable[tuple[float, int]],
    progress: Progress | None,
) -> Placement:
    """Try moves by chunks, each with the share of the budget that is spent before it."""
    begun = mend(problem, start, random)
    tell = progress or (lambda _share, _traffic: None)
    left = iter(chunks)
    begun = _begin_with_few(problem, begun, random, left, tell)
    best = _walk_on(problem, begun, random, left, tell)
    return min(begun, best, key=lambda placement: traffic_of(problem, placement))


def _begin_with_few(
    problem: PlacementProblem,
    begun: Placement,
    random: np.random.Generator,
    chunks: Iterator[tuple[float, int]],
    tell: Progress,
) -> Placement:
    """Spend a share of the budget on a few subscribers of each demand, if many have the same one, and carry over what
    is found; return that where it is better."""
    few = Thinned.of(problem, random)
    if few is None:
        return begun
    known = traffic_of(problem, begun)
    start = greedy_offline(few.problem)
    found = _walk_on(few.problem, start, random, chunks, lambda share, _: tell(share, known), SHARE_OF_FEW)
    factor = problem.beta if _has_room(problem, begun, problem.beta) else problem.beta_max
    carried = few.carry_over(found, factor, random)
    return carried if carried is not None and traffic_of(problem, carried) < known else begun


def _walk_on(
    problem: PlacementProblem,
    start: Placement,
    random: np.random.Generator,
    chunks: Iterator[tuple[float, int]],
    tell: Progress,
    most: float = 1.0,
) -> Placement:
    """Walk from a start until so large a share of the budget is spent, ever colder; return the best placement seen."""
    walk = Search(problem, start, random)
    best, best_traffic = walk.placement(), walk.traffic
    for share, moves in chunks:
        tell(share, best_traffic)
        walk.go(moves, HOT * (COLD / HOT) ** min(1.0, share / most))
        if walk.traffic < best_traffic:
            best, best_traffic = walk.placement(), walk.traffic
        if share >= most:
            break
    tell(most, best_traffic)
    return best


def mend(problem: PlacementProblem, start: Placement, random: np.random.Generator) -> Placement:
    """Return a placement as it is if it keeps latency and load, or one that differs for as few as possible."""
    column_of = np.searchsorted(problem.tree.leaves, start.brokers)
    is_timely = problem.candidates[problem.site_of, column_of].all()
    if is_timely and _has_room(problem, start, problem.beta_max):
        return start
    groups = classes_of(problem.candidates, problem.site_of)
    leaves = len(problem.tree.leaves)
    codes, members = np.unique(groups.members * leaves + column_of, return_inverse=True)
    rows, current = np.divmod(codes, leaves)
    allowed = groups.allowed[rows]
    costs = np.ones(allowed.shape, np.int64)
    costs[np.arange(len(codes)), current] = 0
    sizes = np.bincount(members.reshape(-1), minlength=len(codes))
    flow, _ = first_full_flow(problem, len(problem), lambda rooms: cheapest_flow(allowed, costs, sizes, rooms))
    columns = draw_members(flow, members.reshape(-1), random)
    kept = np.where(
        problem.candidates[problem.site_of, column_of], column_of, problem.candidates[problem.site_of].argmax(axis=1)
    )
    return fit_filters(problem, np.where(columns >= 0, columns, kept), random)


def _has_room(problem: PlacementProblem, placement: Placement, factor: float) -> bool:
    """Whether no leaf has more subscribers than a load factor allows."""
    loads = np.bincount(placement.brokers, minlength=len(problem.tree))[problem.tree.leaves]
    return bool((loads <= problem.rooms(factor)).all())


def traffic_of(problem: PlacementProblem, placement: Placement) -> float:
    """Return the sum of the measures of all filters."""
    return sum(measure(boxes, problem.density) for boxes in placement.filters)


def exchange(
    problem: PlacementProblem, start: Placement, random: np.random.Generator, tries: int = MOST_TRIES
) -> Placement:
    """Return a placement with less traffic and the same loads, or the start where no exchange that is tried helps."""
    if len(problem) > MOST_SUBSCRIBERS:
        return start
    descent = _Descent(problem, random, tries)
    best, least = descent.end_from(start)
    for _ in range(KICKS):
        kicked = best
        for _ in range(EXCHANGES_OF_A_KICK):
            possible = list(_exchanges(problem, kicked))
            if not possible or not descent.tries:
                return best
            kicked = descent.try_columns(possible[int(random.integers(len(possible)))])
        found, traffic = descent.end_from(kicked)
        if traffic < least * (1 - WORTHWHILE):
            best, least = found, traffic
    return best


class _Descent:
    """Exchanges that save traffic, one after the other, as long as tries are left."""

    def __init__(self, problem: PlacementProblem, random: np.random.Generator, tries: int) -> None:
        self.tries = tries
        self._problem = problem
        self._random = random
        self._seeds = leaf_seeds(problem, random).tolist()
        self._known: dict[tuple[int, bytes], Array] = {}
        """Filters of leaves that were fitted before, by column and what they have to let through."""

    def try_columns(self, column_of: Array) -> Placement:
        """Return the placement with a given leaf column for each subscriber."""
        self.tries -= 1
        tree = self._problem.tree
        filters = [np.empty((0, self._problem.interests.sides.shape[1])) for _ in range(len(tree))]
        for column, parts in enumerate(parts_by_leaf(self._problem, column_of)):
            filters[tree.leaves[column]] = self._filter_of(column, parts)
        fit_inner_filters(self._problem, filters, self._random)
        return Placement(tree.leaves[column_of], tuple(filters))

    def _filter_of(self, column: int, parts: Array) -> Array:
        key = (column, parts.tobytes())
        if key not in self._known:
            most = int(self._problem.boxes_of_brokers[self._problem.tree.leaves[column]])
            self._known[key] = fit_leaf(parts, most, self._problem.density, self._seeds[column])
        return self._known[key]

    def end_from(self, start: Placement) -> tuple[Placement, float]:
        """Return where exchanges that save traffic lead, and the traffic there."""
        best, least = start, traffic_of(self._problem, start)
        while (found := self._better(best, least)) is not None:
            best, least = found
        return best, least

    def _better(self, placement: Placement, least: float) -> tuple[Placement, float] | None:
        for column_of in _exchanges(self._problem, placement):
            if not self.tries:
                break
            found = self.try_columns(column_of)
            traffic = traffic_of(self._problem, found)
            if traffic < least * (1 - WORTHWHILE):
                return found, traffic
        return None


def _exchanges(problem: PlacementProblem, placement: Placement) -> Iterator[Array]:
    """Yield the leaf columns of all subscribers after each exchange that latency limits allow and that changes any."""
    column_of = np.searchsorted(problem.tree.leaves, placement.brokers)
    may_have = problem.candidates[problem.site_of]
    for one, other in combinations(range(len(problem)), 2):
        here, there = column_of[one], column_of[other]
        is_change = here != there and problem.interest_of[one] != problem.interest_of[other]
        if is_change and may_have[one, there] and may_have[other, here]:
            changed = column_of.copy()
            changed[one], changed[other] = there, here
            yield changed
