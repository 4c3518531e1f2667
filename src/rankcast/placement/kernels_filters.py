"""Filters that grow: what it costs to let a box into a broker's filter, and into those of all brokers above it.

A filter is some boxes, rows of sides; its measure is the volume of their union, or the weight of the sampled events in
it. To let a box in, one of the filter's boxes is enlarged to contain it, or it becomes a box of its own where there is
room for one, whichever adds least. The enlarged box then has to be let into the filter above, and so on up the tree,
until some box above contains it already: so every box of a filter lies in one box of the filter above.

Cost: a union of k boxes takes at most 2^k intersections, and far fewer where boxes do not meet.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rankcast.compiling import compiled
from rankcast.placement.boxes import Array


class Events(NamedTuple):
    """Sampled events as rows of sides and their weights; none for uniform events."""

    samples: Array
    weights: Array


class Filters(NamedTuple):
    """By broker: boxes, how many of them are used, how many are allowed, the measure, and the broker above."""

    boxes: Array
    used: Array
    most: Array
    measures: Array
    parents: Array


class Scratch(NamedTuple):
    """Working space for one caller: a filter on trial, intersections, the boxes of the present one, a growing box."""

    trial: Array
    common: Array
    chosen: Array
    box: Array


CONTAINED = -1
"""The slot of a box that a filter contains already."""


def scratch_for(most: int, sides: int) -> Scratch:
    """Return working space for filters of so many boxes."""
    common = np.full((most + 2, sides), np.inf)
    return Scratch(np.zeros((most + 1, sides)), common, np.zeros(most + 2, np.int64), np.zeros(sides))


def empty_filters(most: Array, parents: Array, sides: int) -> Filters:
    """Return filters that let nothing through."""
    brokers = len(parents)
    boxes = np.zeros((brokers, int(most.max()), sides))
    return Filters(boxes, np.zeros(brokers, np.int64), most, np.zeros(brokers), parents)


@compiled
def contains(outer: Array, inner: Array) -> bool:
    """Whether one box contains another."""
    for side in range(len(inner)):  # noqa: SIM110 (a generator would not be compiled)
        if outer[side] < inner[side]:
            return False
    return True


@compiled
def copy_into(target: Array, source: Array) -> None:
    """Copy a box. Assignment to slices does the same and takes numba far longer to compile."""
    for side in range(len(source)):
        target[side] = source[side]


@compiled
def widen(target: Array, source: Array) -> None:
    """Enlarge a box to contain another one."""
    for side in range(len(source)):
        target[side] = max(target[side], source[side])


@compiled
def _meet(common: Array, depth: int, box: Array) -> float:
    """Write what a box has in common with an intersection to the next row; return its volume."""
    attributes = len(box) // 2
    volume = 1.0
    for axis in range(attributes):
        low = min(common[depth, axis], box[axis])
        high = min(common[depth, axis + attributes], box[axis + attributes])
        if low + high <= 0:
            return 0.0
        common[depth + 1, axis] = low
        common[depth + 1, axis + attributes] = high
        volume *= low + high
    return volume


@compiled
def union_volume(boxes: Array, count: int, scratch: Scratch) -> float:
    """Return the volume of a union, by inclusion and exclusion; intersections of no volume are not followed."""
    total = 0.0
    depth = 0
    at = 0
    while True:
        if at < count:
            volume = _meet(scratch.common, depth, boxes[at])
            if volume > 0:
                total += volume if depth % 2 == 0 else -volume
                scratch.chosen[depth] = at
                depth += 1
            at += 1
        elif depth == 0:
            return total
        else:
            depth -= 1
            at = scratch.chosen[depth] + 1


@compiled
def measure(boxes: Array, count: int, events: Events, scratch: Scratch) -> float:
    """Return the measure of the union of the first boxes."""
    if len(events.weights) == 0:
        return union_volume(boxes, count, scratch)
    total = 0.0
    for event in range(len(events.weights)):
        for at in range(count):
            if contains(boxes[at], events.samples[event]):
                total += events.weights[event]
                break
    return total


@compiled
def holds(filters: Filters, broker: int, box: Array) -> bool:
    """Whether one box of a filter contains a box."""
    for at in range(filters.used[broker]):  # noqa: SIM110
        if contains(filters.boxes[broker, at], box):
            return True
    return False


@compiled
def best_slot(filters: Filters, broker: int, box: Array, events: Events, scratch: Scratch) -> tuple[float, int]:
    """Return how much a broker's filter grows at least to let a box in, and by which of its boxes."""
    if holds(filters, broker, box):
        return 0.0, CONTAINED
    used = filters.used[broker]
    trial = scratch.trial
    for at in range(used):
        copy_into(trial[at], filters.boxes[broker, at])
    best, slot = np.inf, CONTAINED
    if used < filters.most[broker]:
        copy_into(trial[used], box)
        best, slot = measure(trial, used + 1, events, scratch) - filters.measures[broker], used
    for at in range(used):
        widen(trial[at], box)
        grown = measure(trial, used, events, scratch) - filters.measures[broker]
        if grown < best:
            best, slot = grown, at
        copy_into(trial[at], filters.boxes[broker, at])
    return max(best, 0.0), slot


@compiled
def path_growth(filters: Filters, leaf: int, box: Array, bound: float, events: Events, scratch: Scratch) -> float:
    """Return how much all filters from a leaf up grow to let a box in; more than `bound` may be any such number."""
    growing = scratch.box
    copy_into(growing, box)
    total = 0.0
    broker = leaf
    while broker >= 0:
        grown, slot = best_slot(filters, broker, growing, events, scratch)
        if slot == CONTAINED:
            break
        total += grown
        if total > bound:
            break
        if slot < filters.used[broker]:
            widen(growing, filters.boxes[broker, slot])
        broker = filters.parents[broker]
    return total


@compiled
def let_in(filters: Filters, leaf: int, box: Array, events: Events, scratch: Scratch) -> float:
    """Let a box into all filters from a leaf up; return how much they have grown."""
    growing = scratch.box
    copy_into(growing, box)
    total = 0.0
    broker = leaf
    while broker >= 0:
        grown, slot = best_slot(filters, broker, growing, events, scratch)
        if slot == CONTAINED:
            break
        total += grown
        if slot < filters.used[broker]:
            widen(growing, filters.boxes[broker, slot])
        else:
            filters.used[broker] += 1
        copy_into(filters.boxes[broker, slot], growing)
        filters.measures[broker] = measure(filters.boxes[broker], filters.used[broker], events, scratch)
        broker = filters.parents[broker]
    return total
