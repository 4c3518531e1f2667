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

from rankcast.compiling import compiled
from rankcast.placement.boxes import Array
from rankcast.placement.kernels_filters import Events, Filters, Scratch, copy_into, holds, let_in, path_growth


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


@compiled
def _holds_all(filters: Filters, broker: int, demands: Demands, interest: int) -> bool:
    for part in range(demands.offsets[interest], demands.offsets[interest + 1]):
        if not holds(filters, broker, demands.sides[part]):
            return False
    return True


@compiled
def _save_path(filters: Filters, leaf: int, boxes: Array, used: Array, measures: Array, save: bool) -> None:
    """Save the filters from a leaf up, or bring back what was saved."""
    depth, broker = 0, leaf
    while broker >= 0:
        if save:
            used[depth], measures[depth] = filters.used[broker], filters.measures[broker]
        else:
            filters.used[broker], filters.measures[broker] = used[depth], measures[depth]
        for at in range(used[depth]):
            if save:
                copy_into(boxes[depth, at], filters.boxes[broker, at])
            else:
                copy_into(filters.boxes[broker, at], boxes[depth, at])
        depth, broker = depth + 1, filters.parents[broker]


@compiled
def _growth(
    filters: Filters, leaf: int, demands: Demands, interest: int, bound: float, events: Events, scratch: Scratch
) -> float:
    """Return how much filters grow to let in all parts, one after the other."""
    first, last = demands.offsets[interest], demands.offsets[interest + 1]
    if last - first == 1:
        return path_growth(filters, leaf, demands.sides[first], bound, events, scratch)
    depth, broker = 0, leaf
    while broker >= 0:
        depth, broker = depth + 1, filters.parents[broker]
    boxes = np.empty((depth, filters.boxes.shape[1], filters.boxes.shape[2]))
    used, measures = np.empty(depth, np.int64), np.empty(depth)
    _save_path(filters, leaf, boxes, used, measures, True)
    total = 0.0
    for part in range(first, last):
        total += let_in(filters, leaf, demands.sides[part], events, scratch)
    _save_path(filters, leaf, boxes, used, measures, False)
    return total


@compiled
def _best_column(
    subscriber: int,
    demands: Demands,
    choices: Choices,
    progress: Progress,
    filters: Filters,
    events: Events,
    scratch: Scratch,
    tolerance: float,
    heed_rooms: bool,
) -> int:
    """Return the column where filters grow least: those that need no change first, then the least loaded; else -1."""
    interest, group = demands.interest_of[subscriber], demands.group_of[subscriber]
    best, best_growth, best_load = -1, np.inf, np.inf
    for place in range(choices.starts[group], choices.starts[group + 1]):
        column = choices.columns[place]
        if heed_rooms and progress.loads[column] >= progress.rooms[column]:
            continue
        load = progress.loads[column] / choices.shares[column] if choices.shares[column] > 0 else np.inf
        if _holds_all(filters, choices.leaves[column], demands, interest):
            growth = -1.0  # before any other of no growth: nothing has to change
        elif best_growth < 0:
            continue
        else:
            bound = best_growth + tolerance
            growth = _growth(filters, choices.leaves[column], demands, interest, bound, events, scratch)
        if growth < best_growth - tolerance or (growth <= best_growth + tolerance and load < best_load):
            best, best_growth, best_load = column, growth, load
    return best


@compiled
def _place(
    subscriber: int,
    demands: Demands,
    choices: Choices,
    progress: Progress,
    filters: Filters,
    events: Events,
    scratch: Scratch,
    tolerance: float,
) -> int:
    """Place one subscriber; return 1 when it had to go to a broker without room."""
    overflow = 0
    column = _best_column(subscriber, demands, choices, progress, filters, events, scratch, tolerance, True)
    if column < 0:
        overflow = 1
        column = _best_column(subscriber, demands, choices, progress, filters, events, scratch, tolerance, False)
    interest = demands.interest_of[subscriber]
    for part in range(demands.offsets[interest], demands.offsets[interest + 1]):
        let_in(filters, choices.leaves[column], demands.sides[part], events, scratch)
    progress.column_of[subscriber] = column
    progress.loads[column] += 1
    return overflow


@compiled
def place_in_order(
    demands: Demands,
    choices: Choices,
    progress: Progress,
    filters: Filters,
    events: Events,
    scratch: Scratch,
    tolerance: float,
) -> int:
    """Place subscribers by number; return how many had to go to a broker without room."""
    overflows = 0
    for subscriber in range(len(demands.group_of)):
        overflows += _place(subscriber, demands, choices, progress, filters, events, scratch, tolerance)
    return overflows


@compiled
def _scarcest(queues: Array, heads: Array, queue_starts: Array, live: Array) -> list[tuple[int, int]]:
    """Return the first waiting subscribers of the groups with the fewest live candidates, as a heap."""
    fewest = np.iinfo(np.int64).max
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
def place_scarcest_first(
    demands: Demands,
    choices: Choices,
    progress: Progress,
    filters: Filters,
    events: Events,
    scratch: Scratch,
    tolerance: float,
) -> int:
    """Place those with the fewest live candidates first; return how many had to go to a broker without room."""
    groups = len(choices.starts) - 1
    queues, queue_starts = demands.queues, demands.queue_starts
    heads = queue_starts[:-1].copy()
    live = np.zeros(groups, np.int64)
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
        overflows += _place(subscriber, demands, choices, progress, filters, events, scratch, tolerance)
        filled = progress.column_of[subscriber]
        if progress.loads[filled] == progress.rooms[filled]:
            heap.clear()
            for other in range(groups):
                for place in range(choices.starts[other], choices.starts[other + 1]):
                    live[other] -= choices.columns[place] == filled
    return overflows
