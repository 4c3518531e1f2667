"""Greedy diverse selection over arrays: `rankcast.ranking.diversity.diverse_best`, bit for bit.

Events are numbered from the oldest on. With weights their contents are a matrix of codes, a line per attribute in the
order of the attributes' names and a column per event; without, they are lists of attributes and values per event, by
ascending attribute. Distances are added up, and means updated, by the same operations in the same order as there.

Without weights every attribute counts 1. Where all events have the same attributes that is the same as weights of 1, to
the last bit, and faster.

Cost: k * q distances for k of q events, each as long as there are attributes.
"""

from __future__ import annotations

import numpy as np

from rankcast.arrays import Array
from rankcast.compiling import compiled, inlined
from rankcast.delivery.engine.contents import MISSING


@inlined
def unweighted_distance(
    attributes: Array, values: Array, first: int, first_end: int, second: int, second_end: int
) -> float:
    """Return the distance of two events whose contents lie in these ranges, every attribute counting 1."""
    alike, total = 0, first_end - first + second_end - second
    while first < first_end and second < second_end:
        if attributes[first] < attributes[second]:
            first += 1
        elif attributes[first] > attributes[second]:
            second += 1
        else:
            alike += int(values[first] == values[second])
            total -= 1
            first += 1
            second += 1
    return 1 - alike / total if total else 0.0


@inlined
def mean_with(mean: float, distance: float, count: int) -> float:
    """Return the mean of `count` distances, given the last of them and the mean of the others."""
    return (mean * (count - 1) + distance) / count


@inlined
def divrank_of(sigma: float, rank: float, mean: float) -> float:
    """Return what a candidate is selected by."""
    return sigma * rank + (1 - sigma) * mean


@compiled
def _best_of(divranks: Array, ranks: Array, taken: Array) -> int:
    """Return the event of the largest divrank, among equals of the largest rank, among those the oldest."""
    chosen = -1
    for at in range(len(ranks)):
        if not taken[at] and (
            chosen < 0
            or divranks[at] > divranks[chosen]
            or (divranks[at] == divranks[chosen] and ranks[at] > ranks[chosen])
        ):
            chosen = at
    return chosen


@compiled
def _add_weighted_distances(
    codes: Array, weights: Array, total: float, last: int, count: int, means: Array, alike: Array
) -> None:
    alike[:] = 0.0
    for line in range(len(weights)):
        code, weight = codes[line, last], weights[line]
        if code != MISSING:
            for at in range(len(means)):
                alike[at] += weight if codes[line, at] == code else 0.0
    for at in range(len(means)):
        means[at] = mean_with(means[at], 1 - alike[at] / total, count)


@compiled
def _add_unweighted_distances(
    starts: Array, ends: Array, attributes: Array, values: Array, last: int, count: int, means: Array, taken: Array
) -> None:
    for at in range(len(means)):
        if not taken[at]:
            distance = unweighted_distance(attributes, values, starts[at], ends[at], starts[last], ends[last])
            means[at] = mean_with(means[at], distance, count)


@compiled
def select_diverse(
    ranks: Array,
    sigma: float,
    weights: Array,
    total: float,
    codes: Array,
    starts: Array,
    ends: Array,
    attributes: Array,
    values: Array,
    selected: Array,
    divranks_selected: Array,
) -> int:
    """Select as many events as `selected` has room for; write them and their divranks, in order; return how many.

    With `weights` the contents are `codes`; without, event `at` has what is from `starts[at]` to `ends[at]`.
    """
    means, taken = np.zeros(len(ranks)), np.zeros(len(ranks), np.bool_)
    divranks, alike = ranks.copy(), np.empty(len(ranks))
    wanted = min(len(selected), len(ranks))
    for count in range(wanted):
        if count > 0:
            last = selected[count - 1]
            if len(weights):
                _add_weighted_distances(codes, weights, total, last, count, means, alike)
            else:
                _add_unweighted_distances(starts, ends, attributes, values, last, count, means, taken)
            for at in range(len(ranks)):
                divranks[at] = divrank_of(sigma, ranks[at], means[at])
        chosen = _best_of(divranks, ranks, taken)
        taken[chosen] = True
        selected[count], divranks_selected[count] = chosen, divranks[chosen]
    return wanted
