"""Preliminary filters by linear programming on samples: the paper's FilterAssign and LPRelax.

The programme is solved for a sample of demands, its fractional solution is rounded at random, and the boxes grow by a
little, epsilon. When they then cover every demand, the sample was an epsilon-certificate, and that is the result. Else
the demands that are not covered gain weight in the next sample; a guess of the certificate's size doubles when it does
not suffice. The search ends, as a sample of all demands is a certificate.

A second, uniform sample in each programme stands for load.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rankcast.arrays import Array
from rankcast.placement.problem.boxes import grown, hull, lengths
from rankcast.placement.programme.assignment_step import Stage
from rankcast.placement.programme.filter_candidates import Products, superinterests
from rankcast.placement.programme.linear_programme import Programme, solved
from rankcast.placement.programme.rounding import Sample, by_broker, has_room, rounded, simplified, with_room

INVALID = 1 / 8
"""When more weight than that is not covered, the round does not count, and weights stay as they are."""

FLOOR = 1 / 64
"""Boxes grow at least as much as one of this share of the whole would: those of no length would not grow at all."""

REDRAWS = 3
"""Load samples that are tried before load limits give way."""


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
        fractional = solved(programme, sampling.accuracy, sampling.iterations)
        picked = rounded(stage, sample, programme, fractional, random)
        boxes = _expanded(stage, programme.boxes, sampling.epsilon)
        starts = by_broker(programme.box_broker[picked], len(stage.brokers))
        missed = stage.uncovered(starts, boxes[picked])
        if not missed.any():
            picked = with_room(stage, programme, boxes, picked)
            owners, boxes = simplified(stage, programme.box_broker[picked], boxes[picked], random)
            yardstick = Yardstick(fractional.objective, fractional.bound, len(sample.demands), len(weights), rounds)
            return Preliminary(by_broker(owners, len(stage.brokers)), boxes, yardstick)
        if weights[missed].sum() <= INVALID * weights.sum():
            weights[missed] *= sampling.reweight
        if rounds % sampling.rounds == 0:
            guess *= 2


def yardstick_of(stage: Stage, random: np.random.Generator, sampling: Sampling) -> Yardstick:
    """Return the yardstick of one programme on a first sample, without going on to filters that cover everything."""
    guess = max(2.0, sampling.guess * len(stage.brokers))
    drawn = random_demands(stage.sizes.astype(np.float64), int(guess * np.log(guess)), random)
    sample = _with_load(stage, drawn, random, sampling)
    fractional = solved(_programme(stage, sample, random, sampling), sampling.accuracy, sampling.iterations)
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


def _expanded(stage: Stage, boxes: Array, epsilon: float) -> Array:
    whole = lengths(hull(stage.problem.interests.sides)[None])[0]
    return grown(boxes, epsilon, float(epsilon / 2 * FLOOR * whole.min()))
