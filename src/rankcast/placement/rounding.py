"""From a fractional choice of boxes to a whole one.

Every box is taken with the chance 1 - (1 - share)^ln(sample), its share being that in the fractional solution. That
probably covers the sample; what gaps it leaves, in coverage or in room for the sampled load, are closed by boxes that
are cheap for their share.

So many boxes are taken that some are not needed, and that filters have more than they may, which then have to be
merged at a cost. So, once all demands are covered, boxes are dropped without which they still are and the sampled load
still has room: first those whose broker saves most by it, what merging costs included. The rest is merged, and pruned
once more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rankcast.placement.boxes import Array
from rankcast.placement.fitting import merged
from rankcast.placement.flow import classes_of, largest_flow
from rankcast.placement.linear_programme import Fractional, Programme
from rankcast.placement.stage import Stage

REPAIRS = 15
"""Rounds in which gaps are closed, each with what the one before has left open."""

DOUBT = 0.02
"""Added to the share of a box where its cost is divided by it: those without any share can be taken, too."""

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
    hulls = stage.problem.interests.hulls[stage.interests[sample.demands]]
    for _ in range(REPAIRS):
        starts = by_broker(programme.box_broker[picked], len(stage.brokers))
        covers = stage.covers(sample.demands, starts, programme.boxes[picked])
        short, left = unserved(covers, sample)
        gaps = np.asarray(~covers.any(axis=1))
        added = []
        for demand in np.flatnonzero(gaps | (short > 0)):
            useful = stage.allowed[sample.demands[demand]] & ~covers[demand]
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


def by_broker(owners: Array, brokers: int) -> Array:
    """Return where the boxes of each broker start, given whose they are in ascending order."""
    return np.searchsorted(owners, np.arange(brokers + 1))


def simplified(stage: Stage, sample: Sample, owners: Array, boxes: Array) -> tuple[Array, Array]:
    """Return fewer boxes, as many as filters may have, with their owners; all demands stay covered.

    Merged boxes cover more than those they come from, so that after merging some of the others are not needed.
    """
    brokers = len(stage.brokers)
    kept = pruned(stage, sample, by_broker(owners, brokers), boxes)
    joined = [
        merged(boxes[kept & (owners == broker)], int(most), stage.problem.density)
        for broker, most in enumerate(stage.most)
    ]
    owners, boxes = np.repeat(np.arange(brokers), [len(own) for own in joined]), np.concatenate(joined)
    kept = pruned(stage, sample, by_broker(owners, brokers), boxes)
    return owners[kept], boxes[kept]


def pruned(stage: Stage, sample: Sample, starts: Array, boxes: Array) -> Array:
    """Return which boxes to keep, so that all demands stay covered and the sampled load has as much room as it has now.

    A box that is needed stays so when others are dropped, so each is tried once.
    """
    owners = np.repeat(np.arange(len(stage.brokers)), np.diff(starts))
    kept = np.ones(len(boxes), bool)
    covers = stage.covers(np.arange(len(stage.sizes)), starts, boxes)
    counts = covers.sum(axis=1)
    every = np.arange(len(stage.problem.interests))
    while not has_room(covers[sample.demands], sample):
        sample = replace(sample, rooms=sample.rooms * 1.05 + 1 / len(sample.rooms))
    savings = np.full(len(boxes), -np.inf)
    for broker in range(len(stage.brokers)):
        own = np.flatnonzero(owners == broker)
        savings[own] = _savings(stage, broker, boxes[own])
    while savings.max(initial=-np.inf) > -np.inf:
        box = int(savings.argmax())
        savings[box] = -np.inf
        broker = int(owners[box])
        others = np.flatnonzero(kept & (owners == broker))
        others = others[others != box]
        concerned = np.flatnonzero(covers[:, broker])
        lost = concerned[~stage.held(every, boxes[others])[stage.interests[concerned]]]
        covers[lost, broker] = False
        if (counts[lost] < 2).any() or not has_room(covers[sample.demands], sample):
            covers[lost, broker] = True
            continue
        counts[lost] -= 1
        kept[box] = False
        waiting = savings[others] > -np.inf
        savings[others[waiting]] = _savings(stage, broker, boxes[others])[waiting]
    return kept


def _savings(stage: Stage, broker: int, boxes: Array) -> Array:
    """Return how much smaller a broker's filter is without each of its boxes, merged to as many as it may have."""
    density, most = stage.problem.density, int(stage.most[broker])

    def worth(left: Array) -> float:
        return float(density.measures(merged(left, most, density)).sum()) if len(left) else 0.0

    if len(boxes) <= most:
        return density.measures(boxes)
    whole = worth(boxes)
    return np.array([whole - worth(np.delete(boxes, at, axis=0)) for at in range(len(boxes))])
