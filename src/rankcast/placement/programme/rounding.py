"""From a fractional choice of boxes to a whole one.

Every box is taken with the chance 1 - (1 - share)^ln(sample), its share being that in the fractional solution. That
probably covers the sample; what gaps it leaves, in coverage or in room for the sampled load, are closed by boxes that
are cheap for their share.

So many boxes are taken that some are not needed, and that filters have more than they may, which then have to be
merged at a cost. So, once all demands are covered, boxes are dropped without which they still are and everybody still
has a place: first those whose broker saves most by it, what merging costs included. The rest is merged, and pruned once
more. This step is not in the paper.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankcast.arrays import Array
from rankcast.placement.kernels.boxes import savings
from rankcast.placement.kernels.coverage import units_inside
from rankcast.placement.programme.assignment import Loads
from rankcast.placement.programme.assignment_step import Stage
from rankcast.placement.programme.fitting import merged
from rankcast.placement.programme.flow import classes_of, largest_flow
from rankcast.placement.programme.linear_programme import Fractional, Programme

REPAIRS = 15
"""Rounds in which gaps are closed, each with what the one before has left open."""

DOUBT = 0.02
"""Added to the share of a box where its cost is divided by it: those without any share can be taken, too."""

TINY = 1e-300
"""Instead of the measure of a box without any."""

UNITS = 1000
"""Rooms of a sample are fractions: its load is counted in so many units a subscriber."""


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Demands by number, how many of the load sample each one stands for, and the room that the sample has."""

    demands: Array
    loads: Array
    rooms: Array


def has_room(allowed: Array, sample: Sample) -> bool:
    """Whether the sampled load has room where it is allowed to go."""
    return int(unserved(allowed, sample)[0].sum()) == 0


def unserved(allowed: Array, sample: Sample) -> tuple[Array, Array]:
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


def rounded(
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
        short, left = unserved(covers, sample)
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


def with_room(stage: Stage, programme: Programme, boxes: Array, picked: Array) -> Array:
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
        short, left = unserved(covers, sample)
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


def simplified(stage: Stage, owners: Array, boxes: Array, random: np.random.Generator) -> tuple[Array, Array]:
    """Return fewer boxes, as many as filters may have, with their owners; all demands stay covered.

    Merged boxes cover more than those they come from, so that after merging some of the others are not needed. Load is
    that of all members, not of a sample: as many of them have a place in the end as have one at first.
    """
    brokers = len(stage.brokers)
    covers = stage.all_covers(by_broker(owners, brokers), boxes)
    loads = Loads(stage, covers, random)
    kept = _pruned(stage, loads, covers, owners, boxes)
    joined = [
        merged(boxes[kept & (owners == broker)], int(most), stage.problem.density)
        for broker, most in enumerate(stage.most)
    ]
    owners, boxes = np.repeat(np.arange(brokers), [len(own) for own in joined]), np.concatenate(joined)
    covers = stage.all_covers(by_broker(owners, brokers), boxes)
    loads.cover(covers)
    kept = _pruned(stage, loads, covers, owners, boxes)
    return owners[kept], boxes[kept]


def _pruned(stage: Stage, loads: Loads, covers: Array, owners: Array, boxes: Array) -> Array:
    """Return which boxes to keep, so that all demands stay covered and everybody who has a place keeps one.

    A box that is needed stays so when others are dropped, so each is tried once.
    """
    kept = np.ones(len(boxes), bool)
    counts = covers.sum(axis=1)
    events = stage.problem.density.rows
    gains = np.full(len(boxes), -np.inf)
    for broker, most in enumerate(stage.most):
        own = np.flatnonzero(owners == broker)
        gains[own] = savings(boxes[own], most, events)
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
        gains[others[waiting]] = savings(boxes[others], stage.most[broker], events)[waiting]
    return kept
