"""Greedy placement, one subscriber after the other: each goes where all filters together grow least.

Candidate brokers are the same for all subscribers of a group, so the offline order (fewest live candidates first, then
by number) keeps a queue per group and a heap of those groups that have the fewest. A group's number of live candidates
changes only when a broker fills up, and only then is the heap built again: the order is the one of sorting all waiting
subscribers anew each time.

Cost: O(subscribers * candidates * alpha) measures of a filter, and O(groups * brokers) whenever a broker fills up.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np

from rankcast.arrays import Array
from rankcast.compiling import compiled, constant, inner
from rankcast.placement.kernels.filters import Filters, growth, holds_all, let_in
from rankcast.placement.kernels.growth import NOWHERE


class Demands(NamedTuple):
    """Interests as in `Interests`, and by subscriber its interest and its group; and the subscribers of each group.

    Those of group g are `queues[queue_starts[g] : queue_starts[g + 1]]`, ascending.
    """

    offsets: Array
    sides: Array
    interest_of: Array
    group_of: Array
    queue_starts: Array
    queues: Array


class Choices(NamedTuple):
    """Candidate leaves by group g, `columns[starts[g] : starts[g + 1]]`; and by column the broker and its share."""

    starts: Array
    columns: Array
    leaves: Array
    shares: Array


class Progress(NamedTuple):
    """What has been decided: the leaf column of each subscriber, and how many each leaf has and may have."""

    column_of: Array
    loads: Array
    rooms: Array


MANY = constant((1 << 63) - 1)


@inner
def _best_column(
    first: int,
    last: int,
    group: int,
    heeds_rooms: bool,
    tolerance: float,
    sides: Array,
    choices: Choices,
    loads: Array,
    rooms: Array,
    filters: Filters,
) -> int:
    """Return the column where filters grow least: those that need no change first, then the least loaded; else -1."""
    boxes, most, parents, events, common = filters
    best, best_growth, best_load = NOWHERE, np.inf, np.inf
    for place in range(choices.starts[group], choices.starts[group + 1]):
        column = choices.columns[place]
        if heeds_rooms and loads[column] >= rooms[column]:
            continue
        load = loads[column] / choices.shares[column] if choices.shares[column] > 0 else np.inf
        leaf = choices.leaves[column]
        if holds_all(boxes, leaf, sides, first, last):
            grown = -1.0  # before any other of no growth: nothing has to change
        elif best_growth < 0:
            continue
        else:
            bound = best_growth + tolerance
            grown = growth(leaf, sides, first, last, bound, boxes, most, parents, events, common)
        if grown < best_growth - tolerance or (grown <= best_growth + tolerance and load < best_load):
            best, best_growth, best_load = column, grown, load
    return best


@inner
def _place(
    subscriber: int, demands: Demands, choices: Choices, progress: Progress, filters: Filters, tolerance: float
) -> int:
    """Place one subscriber; return 1 when it had to go to a broker without room."""
    interest, group = demands.interest_of[subscriber], demands.group_of[subscriber]
    first, last = demands.offsets[interest], demands.offsets[interest + 1]
    loads, rooms, sides = progress.loads, progress.rooms, demands.sides
    column, overflow = NOWHERE, -1
    while column == NOWHERE and overflow < 1:
        overflow += 1
        column = _best_column(first, last, group, overflow == 0, tolerance, sides, choices, loads, rooms, filters)
    boxes, most, parents, events, common = filters
    let_in(choices.leaves[column], sides, first, last, np.inf, boxes, most, parents, events, common)
    progress.column_of[subscriber] = column
    loads[column] += 1
    return overflow


@inner
def _scarcest(queues: Array, heads: Array, queue_starts: Array, live: Array) -> list[tuple[int, int]]:
    """Return the first waiting subscribers of the groups with the fewest live candidates, as a heap."""
    fewest = MANY
    for group in range(len(heads)):
        if heads[group] < queue_starts[group + 1]:
            fewest = min(fewest, live[group])
    heap = [(queues[0], 0)]
    heap.clear()
    for group in range(len(heads)):
        if heads[group] < queue_starts[group + 1] and live[group] == fewest:
            heapq.heappush(heap, (queues[heads[group]], group))
    return heap


@compiled
def place_all(
    demands: Demands, choices: Choices, progress: Progress, filters: Filters, tolerance: float, scarcest_first: bool
) -> int:
    """Place subscribers, in the order of their numbers or those with the fewest live candidates first.

    Return how many had to go to a broker without room. Where nothing is said of live candidates, groups are alike.
    """
    groups = len(choices.starts) - 1
    queues, queue_starts = demands.queues, demands.queue_starts
    heads = queue_starts[:-1].copy()
    live = np.zeros(groups, np.int64)
    if scarcest_first:
        for group in range(groups):
            for place in range(choices.starts[group], choices.starts[group + 1]):
                column = choices.columns[place]
                live[group] += progress.loads[column] < progress.rooms[column]
    heap = _scarcest(queues, heads, queue_starts, live)
    overflows = 0
    for _ in range(len(queues)):
        if len(heap) == 0:
            heap = _scarcest(queues, heads, queue_starts, live)
        subscriber, group = heapq.heappop(heap)
        heads[group] += 1
        if heads[group] < queue_starts[group + 1]:
            heapq.heappush(heap, (queues[heads[group]], group))
        overflows += _place(subscriber, demands, choices, progress, filters, tolerance)
        filled = progress.column_of[subscriber]
        if scarcest_first and progress.loads[filled] == progress.rooms[filled]:
            heap.clear()
            for other in range(groups):
                for place in range(choices.starts[other], choices.starts[other + 1]):
                    live[other] -= choices.columns[place] == filled
    return overflows
