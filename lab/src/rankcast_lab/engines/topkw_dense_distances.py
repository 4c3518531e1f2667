"""Distances of blocks of events to one ideal point, and small sorts: what the dense kernels share.

Points are stored by dimension: a row holds one coordinate of many events. A distance is the root of the sum, dimension
by dimension, of weight * (difference / scale)^2, in double precision and never fused; dividing by a scale of one and
multiplying by a weight of one are exact, so the short form for two plain dimensions gives the same bits. A bound on the
distance is first compared with the square, a little enlarged, which needs no root and runs over a whole block in vector
registers; whatever passes is decided by the distance itself.
"""

from __future__ import annotations

import math

import numpy as np

from rankcast.arrays import Array
from rankcast.compiling import compiled, inlined

BLOCK = 256
"""Events whose squares are compared with a bound at once: a block without any that passes is done with."""

GROUP = 16
"""Events of a block that are looked at together once the block has any; divides BLOCK."""

RUN = 8
"""Length of the runs that are sorted by insertion before they are merged."""


@inlined
def fill_squares(
    columns: Array, start: int, stop: int, ideal: Array, weights: Array, scales: Array, out: Array
) -> None:
    """Write the squared distances of the events in [start, stop)."""
    count = stop - start
    for i in range(count):
        out[i] = 0.0
    for dimension in range(len(ideal)):
        column = columns[dimension, start:stop]
        value, weight, scale = ideal[dimension], weights[dimension], scales[dimension]
        if scale == 1.0:
            for i in range(count):
                difference = column[i] - value
                out[i] += weight * (difference * difference)
        else:
            for i in range(count):
                difference = (column[i] - value) / scale
                out[i] += weight * (difference * difference)


@inlined
def fill_plain_squares(columns: Array, start: int, stop: int, ideal: Array, out: Array) -> None:
    """Write the squared distances of the events in [start, stop): two dimensions, weights and scales of one."""
    first, second = columns[0, start:stop], columns[1, start:stop]
    x, y = ideal[0], ideal[1]
    for i in range(stop - start):
        right, up = first[i] - x, second[i] - y
        out[i] = right * right + up * up


@inlined
def count_plain_squares(columns: Array, start: int, stop: int, ideal: Array, bound: float) -> int:
    """Return how many squared distances are within a bound: two dimensions, weights and scales of one."""
    first, second = columns[0, start:stop], columns[1, start:stop]
    x, y = ideal[0], ideal[1]
    count = np.int32(0)
    for i in range(stop - start):
        right, up = first[i] - x, second[i] - y
        count += np.int32(right * right + up * up <= bound)
    return int(count)


@inlined
def square_bound(distance: float) -> float:
    """Return a bound that the square of no smaller or equal distance exceeds."""
    return distance * distance * (1 + 1e-15) + 5e-324


@inlined
def squares(
    columns: Array, start: int, stop: int, ideal: Array, weights: Array, scales: Array, plain: bool, out: Array
) -> None:
    """Write the squared distances of the events in [start, stop)."""
    if plain:
        fill_plain_squares(columns, start, stop, ideal, out)
    else:
        fill_squares(columns, start, stop, ideal, weights, scales, out)


@inlined
def any_within(
    columns: Array,
    start: int,
    stop: int,
    ideal: Array,
    weights: Array,
    scales: Array,
    plain: bool,
    bound: float,
    buffer: Array,
) -> bool:
    """Whether the square of some event in [start, stop) is within a bound; fills the buffer unless plain."""
    if plain:
        return count_plain_squares(columns, start, stop, ideal, bound) > 0
    fill_squares(columns, start, stop, ideal, weights, scales, buffer)
    count = np.int32(0)
    for i in range(stop - start):
        count += np.int32(buffer[i] <= bound)
    return bool(count > 0)


@inlined
def _pick(buffer: Array, first: int, count: int, bound: float, places: Array, distances: Array, found: int) -> int:
    """Append the places and squares of a block that are within a bound, by groups that have any; return the new end."""
    for i in range(count, -(-count // GROUP) * GROUP):
        buffer[i] = math.inf
    for start in range(0, count, GROUP):
        group = buffer[start : start + GROUP]
        hits = np.int32(0)
        for i in range(GROUP):
            hits += np.int32(group[i] <= bound)
        if hits == 0:
            continue
        for i in range(min(GROUP, count - start)):
            # Written first and counted after: no branch depends on the distances.
            places[found] = first + start + i
            distances[found] = group[i]
            found += int(group[i] <= bound)
    return found


@compiled
def gather(
    columns: Array,
    start: int,
    stop: int,
    ideal: Array,
    weights: Array,
    scales: Array,
    plain: bool,
    threshold: float,
    buffer: Array,
    places: Array,
    distances: Array,
) -> int:
    """Write the places in [start, stop) and distances of the events within a threshold; return how many there are."""
    bound = square_bound(threshold)
    found = 0
    for first in range(start, stop, BLOCK):
        last = min(stop, first + BLOCK)
        if not any_within(columns, first, last, ideal, weights, scales, plain, bound, buffer):
            continue
        if plain:
            fill_plain_squares(columns, first, last, ideal, buffer)
        candidates = _pick(buffer, first, last - first, bound, places, distances, found)
        for at in range(found, candidates):
            distance = math.sqrt(distances[at])
            if distance <= threshold:
                distances[found] = distance
                places[found] = places[at]
                found += 1
    return found


@compiled
def sort_newest_first(distances: Array, count: int, order: Array, spare: Array) -> None:
    """Write the order of `count` events, given oldest first, by distance and then newer: a stable merge sort."""
    for i in range(count):
        order[i] = count - 1 - i
    for start in range(0, count, RUN):
        for i in range(start + 1, min(start + RUN, count)):
            event = order[i]
            distance = distances[event]
            at = i
            while at > start and distances[order[at - 1]] > distance:
                order[at] = order[at - 1]
                at -= 1
            order[at] = event
    width = RUN
    source, target = order, spare
    while width < count:
        for start in range(0, count, 2 * width):
            _merge_runs(distances, source, target, start, min(start + width, count), min(start + 2 * width, count))
        source, target = target, source
        width *= 2
    # `source` is the result; copying it onto itself does nothing.
    for i in range(count):
        order[i] = source[i]


@inlined
def _merge_runs(distances: Array, source: Array, target: Array, start: int, middle: int, stop: int) -> None:
    left, right = start, middle
    for at in range(start, stop):
        if left < middle and (right >= stop or distances[source[left]] <= distances[source[right]]):
            target[at] = source[left]
            left += 1
        else:
            target[at] = source[right]
            right += 1
