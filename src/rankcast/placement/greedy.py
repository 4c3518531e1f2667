"""Placement in a single pass: the greedy algorithms, and the baselines that look at one thing only.

Greedy is online (the paper's name for it is Gr), offline (Gr*), or online without latency limits. Online takes
subscribers as they come. Offline first serves those with the fewest candidates, and sorts again whenever a broker has
filled up. Both put a subscriber where the filters on the way to it grow least, and among equals where load is least.
They keep to `beta`, and are run again with more up to `beta_max` when somebody found no room; when even that is not
enough, those without room go where filters grow least all the same, and the audit will say so.

Candidate brokers are the same for all subscribers of a group, so the offline order (fewest live candidates first, then
by number) keeps a queue per group and a heap of those groups that have the fewest. A group's number of live candidates
changes only when a broker fills up, and only then is the heap built again: the order is the one of sorting all waiting
subscribers again each time. Cost: O(subscribers * candidates * alpha) measures of a filter, well below a microsecond
each, and O(groups * brokers) whenever a broker fills up.

The baselines look at where the nearest broker is, or at how loads are balanced. They show what is lost by ignoring
interests. The two closest ones may break latency limits, as the nearest broker need not be on a short path from the
publisher, and `closest_without_balance` breaks load limits, too.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np

from rankcast.arrays import Array
from rankcast.compiling import borrowing, compiled, constant, inner
from rankcast.placement.kernels import NOWHERE, Filters, empty_filters, growth, holds_all, let_in, used_boxes
from rankcast.placement.problem.boxes import hull
from rankcast.placement.problem.problem import Placement, PlacementProblem
from rankcast.placement.programme.fitting import fit_filters
from rankcast.placement.programme.flow import best_factor, classes_of, draw_members

SAME = 1e-12
"""Growth less than that, as a share of the measure of everything, is none: it comes from rounding."""

MANY = constant((1 << 63) - 1)


def greedy_online(problem: PlacementProblem) -> Placement:
    """Place subscribers in the order of their numbers."""
    return _greedy(problem, problem.candidates, offline=False)


def greedy_offline(problem: PlacementProblem) -> Placement:
    """Place those with the fewest candidates first."""
    return _greedy(problem, problem.candidates, offline=True)


def greedy_without_latency(problem: PlacementProblem) -> Placement:
    """Place subscribers in the order of their numbers, at any broker: how much bandwidth do latency limits cost?"""
    return _greedy(problem, np.ones_like(problem.candidates), offline=False)


def _greedy(problem: PlacementProblem, candidates: Array, *, offline: bool) -> Placement:
    classes = classes_of(candidates, problem.site_of)
    columns, starts = classes.listed()
    choices = Choices(starts, columns, problem.tree.leaves, problem.shares_of_leaves)
    interests = problem.interests
    queue_starts = np.concatenate([[0], np.cumsum(classes.sizes)])
    queues = np.argsort(classes.members, kind="stable")
    demands = Demands(interests.offsets, interests.sides, problem.interest_of, classes.members, queue_starts, queues)
    tolerance = SAME * float(problem.density.measures(hull(interests.sides)[None])[0])
    for factor in problem.load_factors:
        filters = empty_filters(
            problem.boxes_of_brokers, problem.tree.parents, interests.sides.shape[1], problem.density
        )
        decisions = Decisions(
            np.full(len(problem), -1), np.zeros(len(problem.tree.leaves), np.int64), problem.rooms(float(factor))
        )
        if not place_all(tolerance, offline, demands, choices, decisions, filters):
            break
    kept = tuple(used_boxes(filters, broker).copy() for broker in range(len(problem.tree)))
    return Placement(problem.tree.leaves[decisions.column_of], kept)


def closest_without_balance(problem: PlacementProblem, random: np.random.Generator) -> Placement:
    """Give every subscriber to the nearest leaf that has any capacity."""
    return fit_filters(problem, _by_distance(problem)[problem.site_of, 0], random)


def closest(problem: PlacementProblem, random: np.random.Generator) -> Placement:
    """Give every subscriber, by number, to the nearest leaf that has room at `beta_max`; to the nearest if none has."""
    column_of = np.empty(len(problem), np.int64)
    _first_with_room(_by_distance(problem), problem.site_of, problem.rooms(problem.beta_max), column_of)
    return fit_filters(problem, column_of, random)


def balance(problem: PlacementProblem, random: np.random.Generator) -> Placement:
    """Keep latency limits, and make the load factor as small as possible; may be below `beta`."""
    classes = classes_of(problem.candidates, problem.site_of)
    _, flow = best_factor(classes.allowed, classes.sizes, problem.shares_of_leaves)
    return fit_filters(problem, draw_members(flow, classes.members, random), random)


def _by_distance(problem: PlacementProblem) -> Array:
    """Return the leaf columns by distance from each site, those without capacity last."""
    hops = problem.tree.last_hops(problem.sites)
    hops[:, problem.shares_of_leaves == 0] = np.inf
    return np.argsort(hops, axis=1, kind="stable")


@compiled
def _first_with_room(preferred: Array, site_of: Array, rooms: Array, column_of: Array) -> None:
    for subscriber in range(len(site_of)):
        column_of[subscriber] = preferred[site_of[subscriber], 0]
        for column in preferred[site_of[subscriber]]:
            if rooms[column] > 0:
                rooms[column] -= 1
                column_of[subscriber] = column
                break


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


class Decisions(NamedTuple):
    """What has been decided: the leaf column of each subscriber, and how many each leaf has and may have."""

    column_of: Array
    loads: Array
    rooms: Array


@borrowing
def _best_column(
    subscriber: int,
    heeds_rooms: bool,
    tolerance: float,
    demands: Demands,
    choices: Choices,
    decisions: Decisions,
    filters: Filters,
) -> int:
    """Return the column where filters grow least: those that need no change first, then the least loaded; else -1."""
    interest, group = demands.interest_of[subscriber], demands.group_of[subscriber]
    first, last, sides = demands.offsets[interest], demands.offsets[interest + 1], demands.sides
    loads, rooms, shares = decisions.loads, decisions.rooms, choices.shares
    best, best_growth, best_load = NOWHERE, np.inf, np.inf
    for place in range(choices.starts[group], choices.starts[group + 1]):
        column = choices.columns[place]
        if heeds_rooms and loads[column] >= rooms[column]:
            continue
        load = loads[column] / shares[column] if shares[column] > 0 else np.inf
        leaf = choices.leaves[column]
        if holds_all(filters.boxes, leaf, sides, first, last):
            grown = -1.0  # before any other of no growth: nothing has to change
        elif best_growth < 0:
            continue
        else:
            grown = growth(leaf, sides, first, last, best_growth + tolerance, filters)
        if grown < best_growth - tolerance or (grown <= best_growth + tolerance and load < best_load):
            best, best_growth, best_load = column, grown, load
    return best


@borrowing
def _place(
    subscriber: int, tolerance: float, demands: Demands, choices: Choices, decisions: Decisions, filters: Filters
) -> int:
    """Place one subscriber; return 1 when it had to go to a broker without room."""
    column, overflow = NOWHERE, -1
    while column == NOWHERE and overflow < 1:
        overflow += 1
        column = _best_column(subscriber, overflow == 0, tolerance, demands, choices, decisions, filters)
    interest = demands.interest_of[subscriber]
    first, last = demands.offsets[interest], demands.offsets[interest + 1]
    let_in(choices.leaves[column], demands.sides, first, last, np.inf, filters)
    decisions.column_of[subscriber] = column
    decisions.loads[column] += 1
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
    tolerance: float, scarcest_first: bool, demands: Demands, choices: Choices, decisions: Decisions, filters: Filters
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
                live[group] += decisions.loads[column] < decisions.rooms[column]
    heap = _scarcest(queues, heads, queue_starts, live)
    overflows = 0
    for _ in range(len(queues)):
        if len(heap) == 0:
            heap = _scarcest(queues, heads, queue_starts, live)
        subscriber, group = heapq.heappop(heap)
        heads[group] += 1
        if heads[group] < queue_starts[group + 1]:
            heapq.heappush(heap, (queues[heads[group]], group))
        overflows += _place(subscriber, tolerance, demands, choices, decisions, filters)
        filled = decisions.column_of[subscriber]
        if scarcest_first and decisions.loads[filled] == decisions.rooms[filled]:
            heap.clear()
            for other in range(groups):
                for place in range(choices.starts[other], choices.starts[other + 1]):
                    live[other] -= choices.columns[place] == filled
    return overflows
