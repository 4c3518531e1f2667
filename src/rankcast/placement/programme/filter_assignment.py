"""Preliminary filters by linear programming on samples: the paper's FilterAssign and LPRelax.

The programme is solved for a sample of demands, its fractional solution is rounded at random, and the boxes grow by a
little, epsilon. When they then cover every demand, the sample was an epsilon-certificate, and that is the result. Else
the demands that are not covered gain weight in the next sample; a guess of the certificate's size doubles when it does
not suffice. The search ends, as a sample of all demands is a certificate. A second, uniform sample in each programme
stands for load.

*Rounding.* Every box is taken with the chance 1 - (1 - share)^ln(sample), its share being that in the fractional
solution. That probably covers the sample; what gaps it leaves, in coverage or in room for the sampled load, are closed
by boxes that are cheap for their share.

So many boxes are taken that some are not needed, and that filters have more than they may, which then have to be
merged at a cost. So, once all demands are covered, boxes are dropped without which they still are and everybody still
has a place: first those whose broker saves most by it, what merging costs included. The rest is merged, and pruned once
more. This step is not in the paper.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rankcast.arrays import Array
from rankcast.placement.kernels import units_inside
from rankcast.placement.problem.boxes import grown, hull, lengths
from rankcast.placement.problem.problem import PlacementProblem
from rankcast.placement.problem.tree import PUBLISHER
from rankcast.placement.programme.assignment import Loads, Stage
from rankcast.placement.programme.fitting import merge_boxes, savings
from rankcast.placement.programme.flow import classes_of, largest_flow
from rankcast.placement.programme.linear_programme import Fractional, Products, Programme, solve, superinterests

INVALID = 1 / 8
"""When more weight than that is not covered, the round does not count, and weights stay as they are."""

FLOOR = 1 / 64
"""Boxes grow at least as much as one of this share of the whole would: those of no length would not grow at all."""

REDRAWS = 3
"""Load samples that are tried before load limits give way."""

REPAIRS = 15
"""Rounds in which gaps are closed, each with what the one before has left open."""

DOUBT = 0.02
"""Added to the share of a box where its cost is divided by it: those without any share can be taken, too."""

TINY = 1e-300
"""Instead of the measure of a box without any."""

UNITS = 1000
"""Rooms of a sample are fractions: its load is counted in so many units a subscriber."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the programme is cut to size.

    `load_sample` and `superinterests` are per broker. `guess` is the first guess of a certificate's size, per broker,
    and doubles after `rounds` rounds. Weights of what is not covered are multiplied by `reweight`: the paper's 2 needs
    many programmes until a rare demand is drawn; with 1000 it is nearly sure to be in the next sample.
    """

    epsilon: float = 0.1
    load_sample: int = 30
    superinterests: int = 5
    guess: float = 3.0
    rounds: int = 2
    reweight: float = 1000.0
    accuracy: float = 1e-2
    iterations: int = 4_000


@dataclass(frozen=True, slots=True)
class Yardstick:
    """What the last programme says: no filters around its sample, made of its candidates, have less than `bound`.

    `objective` is that of the fractional solution, which may miss constraints by the solver's accuracy; `sample` is how
    many demands it is about, of `demands` in all; `rounds` is how many programmes were solved.
    """

    objective: float
    bound: float
    sample: int
    demands: int
    rounds: int


@dataclass(frozen=True, slots=True, eq=False)
class Preliminary:
    """Boxes by broker, `boxes[starts[b] : starts[b + 1]]`, that cover every demand; and the yardstick."""

    starts: Array
    boxes: Array
    yardstick: Yardstick


def assign_filters(stage: Stage, random: np.random.Generator, sampling: Sampling) -> Preliminary:
    """Return filters that cover every demand of a stage."""
    weights = stage.sizes.astype(np.float64)
    guess, rounds = max(2.0, sampling.guess * len(stage.brokers)), 0
    while True:
        rounds += 1
        drawn = random_demands(weights, int(guess * np.log(guess)), random)
        sample = _with_load(stage, drawn, random, sampling)
        programme = _programme(stage, sample, random, sampling)
        fractional = solve(programme, sampling.accuracy, sampling.iterations)
        picked = round_shares(stage, sample, programme, fractional, random)
        boxes = _expand(stage, programme.boxes, sampling.epsilon)
        starts = by_broker(programme.box_broker[picked], len(stage.brokers))
        missed = stage.uncovered(starts, boxes[picked])
        if not missed.any():
            picked = add_room(stage, programme, boxes, picked)
            owners, boxes = simplify(stage, programme.box_broker[picked], boxes[picked], random)
            yardstick = Yardstick(fractional.objective, fractional.bound, len(sample.demands), len(weights), rounds)
            return Preliminary(by_broker(owners, len(stage.brokers)), boxes, yardstick)
        if weights[missed].sum() <= INVALID * weights.sum():
            weights[missed] *= sampling.reweight
        if rounds % sampling.rounds == 0:
            guess *= 2


def yardstick_of(problem: PlacementProblem, random: np.random.Generator, sampling: Sampling | None = None) -> Yardstick:
    """Return the yardstick of traffic into the brokers at the top of a problem's tree: one programme on a sample."""
    sampling = Sampling() if sampling is None else sampling
    stage = Stage.of(problem, np.arange(len(problem)), problem.tree.children(PUBLISHER))
    guess = max(2.0, sampling.guess * len(stage.brokers))
    drawn = random_demands(stage.sizes.astype(np.float64), int(guess * np.log(guess)), random)
    sample = _with_load(stage, drawn, random, sampling)
    fractional = solve(_programme(stage, sample, random, sampling), sampling.accuracy, sampling.iterations)
    return Yardstick(fractional.objective, fractional.bound, len(sample.demands), len(stage.sizes), 1)


def random_demands(weights: Array, count: int, random: np.random.Generator) -> Array:
    """Draw different demands by weight."""
    if count >= len(weights):
        return np.arange(len(weights))
    return random.choice(len(weights), count, replace=False, p=weights / weights.sum())


def _with_load(stage: Stage, drawn: Array, random: np.random.Generator, sampling: Sampling) -> Sample:
    """Add a uniform sample of subscribers to stand for load, one that has room at the least load factor possible."""
    for factor in stage.problem.load_factors.tolist():
        for _ in range(REDRAWS):
            sample = _drawn_load(stage, drawn, sampling.load_sample, factor, random)
            if has_room(stage.allowed_of(sample.demands), sample):
                return sample
    while not has_room(stage.allowed_of(sample.demands), sample):
        sample = replace(sample, rooms=sample.rooms * 1.1 + 1 / len(sample.rooms))
    return sample


def _drawn_load(stage: Stage, others: Array, per_broker: int, factor: float, random: np.random.Generator) -> Sample:
    """Draw subscribers alike to stand for load, so many per broker, and add other demands that stand for none."""
    members = len(stage.members)
    size = min(members, per_broker * len(stage.brokers))
    of_load = stage.demand_of[random.choice(members, size, replace=False)]
    demands = np.union1d(others, of_load)
    loads = np.bincount(np.searchsorted(demands, of_load), minlength=len(demands))
    return Sample(demands, loads, stage.rooms(factor) * (size / members))


def _programme(stage: Stage, sample: Sample, random: np.random.Generator, sampling: Sampling) -> Programme:
    wanted = stage.problem.interests.taken(stage.interests[sample.demands])
    counts = np.diff(wanted.offsets)
    parts, demand_of_part = wanted.sides, np.repeat(np.arange(len(wanted)), counts)
    positions = stage.problem.sites[stage.sites[sample.demands]][demand_of_part]
    supers = superinterests(parts, positions, sampling.superinterests * len(stage.brokers), random)
    products = Products.of(supers)
    keys = random.integers(1, 1 << 63, len(parts), dtype=np.uint64)
    allowed = stage.allowed_of(sample.demands)
    served = [np.flatnonzero(allowed[demand_of_part, broker]) for broker in range(len(stage.brokers))]
    candidates = [products.shrunk_to(parts[own], keys[own]) for own in served]
    return Programme.of(allowed, counts, candidates, sample.loads, sample.rooms, stage.most, stage.problem.density)


def _expand(stage: Stage, boxes: Array, epsilon: float) -> Array:
    whole = lengths(hull(stage.problem.interests.sides)[None])[0]
    return grown(boxes, epsilon, float(epsilon / 2 * FLOOR * whole.min()))


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Demands by number, how many of the load sample each one stands for, and the room that the sample has."""

    demands: Array
    loads: Array
    rooms: Array


def has_room(allowed: Array, sample: Sample) -> bool:
    """Whether the sampled load has room where it is allowed to go."""
    return int(unserved_units(allowed, sample)[0].sum()) == 0


def unserved_units(allowed: Array, sample: Sample) -> tuple[Array, Array]:
    """Return how many units of each demand find no room at best, and what room is left at brokers then."""
    classes = classes_of(allowed, np.arange(len(allowed)))
    sizes = np.bincount(classes.members, weights=sample.loads, minlength=len(classes.allowed)).astype(np.int64) * UNITS
    rooms = np.floor(sample.rooms * UNITS).astype(np.int64)
    flow = largest_flow(classes.allowed, sizes, rooms)
    short = sizes - np.bincount(flow.classes, weights=flow.amounts, minlength=len(sizes)).astype(np.int64)
    left = rooms - np.bincount(flow.leaves, weights=flow.amounts, minlength=len(rooms)).astype(np.int64)
    before = np.zeros(len(allowed), np.int64)  # of its class, by other demands: those first in order are short
    order = np.argsort(classes.members, kind="stable")
    totals = np.cumsum(sample.loads[order] * UNITS)
    firsts = np.searchsorted(classes.members[order], classes.members[order])
    before[order] = totals - np.where(firsts > 0, totals[firsts - 1], 0) - sample.loads[order] * UNITS
    return np.clip(short[classes.members] - before, 0, sample.loads * UNITS), left


def round_shares(
    stage: Stage, sample: Sample, programme: Programme, fractional: Fractional, random: np.random.Generator
) -> Array:
    """Return which candidate boxes to take: they cover the sample and, if that can be, have room for its load."""
    shares = np.minimum(fractional.chosen, 1.0)
    chances = 1 - (1 - shares) ** np.log(max(3, len(sample.demands)))
    picked = np.flatnonzero(random.random(len(shares)) < chances)
    costs = programme.measures / (shares + DOUBT)
    hulls = stage.problem.interests.taken(stage.interests[sample.demands]).hulls
    allowed = stage.allowed_of(sample.demands)
    for _ in range(REPAIRS):
        starts = by_broker(programme.box_broker[picked], len(stage.brokers))
        covers = stage.covers(sample.demands, starts, programme.boxes[picked])
        short, left = unserved_units(covers, sample)
        gaps = np.asarray(~covers.any(axis=1))
        added = []
        for demand in np.flatnonzero(gaps | (short > 0)):
            useful = allowed[demand] & ~covers[demand]
            if (useful & (left > 0)).any():
                useful &= left > 0
            elif not gaps[demand]:
                continue
            numbers = np.flatnonzero(useful[programme.box_broker] & (hulls[demand] <= programme.boxes).all(axis=1))
            added.append(numbers[costs[numbers].argmin()])
        if not added:
            break
        picked = np.union1d(picked, np.array(added, np.int64))
    return picked


def add_room(stage: Stage, programme: Programme, boxes: Array, picked: Array) -> Array:
    """Add boxes until all members have room at `beta`, those first that give room to most for their measure.

    The programme knows of load by a sample only. `boxes` are its own, grown by epsilon. Where no box helps, as members
    elsewhere would have to make room, it stays at that.
    """
    every = np.arange(len(stage.sizes))
    sample = Sample(every, stage.sizes, stage.rooms(stage.problem.beta).astype(np.float64))
    ends = by_broker(programme.box_broker, len(stage.brokers) + 1)
    hulls = stage.problem.interests.hulls
    covers = stage.all_covers(by_broker(programme.box_broker[picked], len(stage.brokers)), boxes[picked])
    while True:
        short, left = unserved_units(covers, sample)
        useful: dict[int, float] = {}
        for broker in np.flatnonzero(left > 0).tolist():
            wanting = np.where(stage.allowed_at(broker) & ~covers[:, broker], short, 0)
            units = np.bincount(stage.interests, weights=wanting, minlength=len(hulls))
            wanted = np.flatnonzero(units)
            own = np.arange(ends[broker], ends[broker + 1])
            if len(wanted) and len(own):
                found = units_inside(hulls[wanted], units[wanted], boxes[own])
                worth = np.minimum(found, left[broker]) / np.maximum(programme.measures[own], TINY)
                if worth.max() > 0:
                    useful[int(own[worth.argmax()])] = float(worth.max())
        if not useful:
            return picked
        best = max(useful.values())
        added = np.array([box for box, worth in useful.items() if worth >= best / 2])
        picked = np.union1d(picked, added)
        for broker in programme.box_broker[added].tolist():
            own = picked[programme.box_broker[picked] == broker]
            covers[:, broker] = stage.allowed_at(broker) & stage.held(every, boxes[own])


def by_broker(owners: Array, brokers: int) -> Array:
    """Return where the boxes of each broker start, given whose they are in ascending order."""
    return np.searchsorted(owners, np.arange(brokers + 1))


def simplify(stage: Stage, owners: Array, boxes: Array, random: np.random.Generator) -> tuple[Array, Array]:
    """Return fewer boxes, as many as filters may have, with their owners; all demands stay covered.

    Merged boxes cover more than those they come from, so that after merging some of the others are not needed. Load is
    that of all members, not of a sample: as many of them have a place in the end as have one at first.
    """
    brokers = len(stage.brokers)
    covers = stage.all_covers(by_broker(owners, brokers), boxes)
    loads = Loads(stage, covers, random)
    kept = _prune(stage, loads, covers, owners, boxes)
    joined = [
        merge_boxes(boxes[kept & (owners == broker)], int(most), stage.problem.density)
        for broker, most in enumerate(stage.most)
    ]
    owners, boxes = np.repeat(np.arange(brokers), [len(own) for own in joined]), np.concatenate(joined)
    covers = stage.all_covers(by_broker(owners, brokers), boxes)
    loads.cover(covers)
    kept = _prune(stage, loads, covers, owners, boxes)
    return owners[kept], boxes[kept]


def _prune(stage: Stage, loads: Loads, covers: Array, owners: Array, boxes: Array) -> Array:
    """Return which boxes to keep, so that all demands stay covered and everybody who has a place keeps one.

    A box that is needed stays so when others are dropped, so each is tried once.
    """
    kept = np.ones(len(boxes), bool)
    counts = covers.sum(axis=1)
    density = stage.problem.density
    gains = np.full(len(boxes), -np.inf)
    for broker, most in enumerate(stage.most):
        own = np.flatnonzero(owners == broker)
        gains[own] = savings(boxes[own], most, density)
    while gains.max(initial=-np.inf) > -np.inf:
        box = int(gains.argmax())
        gains[box] = -np.inf
        broker = int(owners[box])
        others = np.flatnonzero(kept & (owners == broker))
        others = others[others != box]
        concerned = np.flatnonzero(covers[:, broker])
        lost = concerned[~stage.held(concerned, boxes[others])]
        if (counts[lost] < 2).any() or not loads.can_do_without(lost, broker):
            continue
        covers[lost, broker] = False
        counts[lost] -= 1
        kept[box] = False
        waiting = gains[others] > -np.inf
        gains[others[waiting]] = savings(boxes[others], stage.most[broker], density)[waiting]
    return kept
