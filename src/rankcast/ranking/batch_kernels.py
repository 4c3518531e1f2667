"""The kernel that ranks the matches of a batch of events: the arithmetic of `preferences` and `relevance`, bit for bit.

Sums are added one by one in the order of the subscriber's subscriptions, products are rounded before they are added
(numba fuses nothing unless told to), and square roots and logarithms are those of the C library, as Python's are.
"""

from __future__ import annotations

import math
import sys

import numpy as np

from rankcast.arrays import Array
from rankcast.compiling import compiled, inlined
from rankcast.compiling.arguments import (
    ANY,
    Kinds,
    bools,
    float64_columns,
    float64s,
    int8s,
    int32s,
    int64_columns,
    int64s,
    positions,
)
from rankcast.compiling.intrinsics import prefetch
from rankcast.model.times import EPOCH, LAST_INSTANT, TICK
from rankcast.ranking.batch_table import CLOSENESS, COSINE, DISTANCE, MAX, MEAN, MIN, NONE
from rankcast.ranking.relevance import LANDMARK, MAX_DISTANCE

_LANDMARK = (LANDMARK - EPOCH) // TICK
_DAY = 86_400_000_000
EXACT = 2**53
"""Whole numbers up to here are floats, so that their quotient is rounded once, as Python's is."""

_EXACT_DAYS = EXACT // _DAY - 1

ROW_QUEUE, ROW_WORD, ROW_EXPIRES, ROW_SCORE = range(4)
"""The lines of the rows of one event: its queues, its word and its expiry there, and the bits of its score."""

ARRAYS: Kinds = {
    "queue": (np.int64, 0),
    "profile": (np.int32, 0),
    "rank": (np.float64, 0),
    "weight": (np.float64, 0),
    "refresh": (np.int64, 0),
    "relevance": (np.int32, 0),
    "general_start": (np.int64, 0),
    "general_end": (np.int64, 0),
    "general": (np.int64, 0),
    "rank_by": (np.int8, 0),
    "half_life": (np.int64, 2),
    "kind": (np.int8, 0),
    "reach": (np.float64, 0),
    "part_start": (np.int64, 0),
    "part_column": (np.int32, 0),
    "part_value": (np.float64, 0),
    "part_scale": (np.float64, 0),
    "part_weight": (np.float64, 0),
    "values": (np.float64, ANY),
    "vector_first": (np.int64, ANY),
    "vector_size": (np.int64, ANY),
    "vector_length": (np.float64, ANY),
    "vector_values": (np.float64, 0),
    "keys": (np.int64, 0),
    "counts": (np.bool_, 0),
    "ranks": (np.float64, 0),
    "out_event": (np.int64, 0),
    "out_rank": (np.float64, 0),
    "out_start": (np.int64, 0),
    "out_matched": (np.int64, 0),
}
"""What kernels are given as a table: the fields of a `RankTable`, those of `Features`, room for the matches of one
event (`keys`, `counts`) and for those of all. Values and vectors have a column for each event."""

EVENT_ARRAYS: Kinds = {**ARRAYS, "event": (np.int64, 0), "bits": (np.int64, 0)}
"""What `rank_event` is given: room for four numbers besides, and the bit of each subscription."""

AT = positions(EVENT_ARRAYS)
_LOWEST = -sys.float_info.max


@inlined
def _relevance(table: Array, function: int, event: int, events: int) -> float:
    """Return the relevance of one of so many events, NaN when it has none."""
    kind, reach = int8s(table, AT.kind), float64s(table, AT.reach)
    part_start, part_column = int64s(table, AT.part_start), int32s(table, AT.part_column)
    part_value, part_scale = float64s(table, AT.part_value), float64s(table, AT.part_scale)
    part_weight = float64s(table, AT.part_weight)
    first, last = part_start[function], part_start[function + 1]
    if kind[function] == COSINE:
        column = part_column[first]
        if int64_columns(table, AT.vector_size, events)[column, event] != last - first:
            return math.nan
        start = int64_columns(table, AT.vector_first, events)[column, event]
        vector_values = float64s(table, AT.vector_values)
        product = 0.0
        for at in range(last - first):
            product += vector_values[start + at] * part_value[first + at]
        length = float64_columns(table, AT.vector_length, events)[column, event]
        cosine = product / (length * reach[function])
        return float(1 + max(-1.0, min(1.0, cosine))) / 2
    total = 0.0
    weights = 0.0
    values = float64_columns(table, AT.values, events)
    for at in range(first, last):
        value = values[part_column[at], event]
        if math.isnan(value):
            return math.nan
        difference = abs(value - part_value[at]) / part_scale[at]
        if kind[function] == CLOSENESS:
            total += part_weight[at] * (1 - min(1.0, difference))
            weights += part_weight[at]
        else:
            total += part_weight[at] * (difference * difference)
    if kind[function] == CLOSENESS:
        return total / weights
    distance = math.sqrt(total)
    if distance > MAX_DISTANCE:
        return math.nan
    return 0.0 - distance if kind[function] == DISTANCE else max(0.0, 1 - distance / reach[function])


@inlined
def _drop_general(
    matched: Array, first: int, last: int, general_start: Array, general_end: Array, general: Array, counts: Array
) -> None:
    """Note which of the matched subscriptions strictly cover another one of them; both are in ascending order."""
    for at in range(first, last):
        counts[at - first] = True
    for at in range(first, last):
        own = matched[at]
        other = first
        for wider in range(general_start[own], general_end[own]):
            while other < last and matched[other] < general[wider]:
                other += 1
            if other < last and matched[other] == general[wider]:
                counts[other - first] = False


@inlined
def _combined(
    how: int, matched: Array, ranks: Array, first: int, last: int, weight: Array, specific: bool, counts: Array
) -> float:
    """Return the rank of an event, given those of the subscriptions that it matches."""
    total = 0.0
    counted = 0
    for at in range(first, last):
        if specific and not counts[at - first]:
            continue
        rank = ranks[at]
        if how == MAX:
            total = rank if counted == 0 else max(total, rank)
        elif how == MIN:
            total = rank if counted == 0 else min(total, rank)
        elif how == MEAN:
            total += rank
        else:
            total += rank * weight[matched[at]]
        counted += 1
    return total / counted if how == MEAN else total


@inlined
def _score(rank: float, time: int, days: int, rest: int) -> float:
    """Return what orders events; NaN where the quotient cannot be rounded once here."""
    if days == 0 and rest == 0:
        return rank
    if rank == 0:
        return _LOWEST
    since = time - _LANDMARK
    if days > _EXACT_DAYS or since > EXACT or since < -EXACT:
        return math.nan
    return math.log2(rank) + since / (days * _DAY + rest)


@inlined
def _expires(time: int, stated: int, refresh: int) -> int:
    if refresh >= LAST_INSTANT - time:  # nothing outlives the end of time
        return stated
    return min(stated, time + refresh)


@compiled
def rank_matches(
    table: Array, offsets: Array, numbers: Array, times: Array, stated: Array, queues: Array, scores: Array, ends: Array
) -> int:
    """Write one row per event and queue, by event and within one by queue; return how many.

    Queues, scores and when the events expire are written to columns of the caller, the rest to those of the table.
    """
    queue, profile, relevance = int64s(table, AT.queue), int32s(table, AT.profile), int32s(table, AT.relevance)
    rank, weight, refresh = float64s(table, AT.rank), float64s(table, AT.weight), int64s(table, AT.refresh)
    general_start, general_end = int64s(table, AT.general_start), int64s(table, AT.general_end)
    general, rank_by, half_life = (
        int64s(table, AT.general),
        int8s(table, AT.rank_by),
        int64_columns(table, AT.half_life, 2),
    )
    keys, counts, ranks = int64s(table, AT.keys), bools(table, AT.counts), float64s(table, AT.ranks)
    out_event, out_rank = int64s(table, AT.out_event), float64s(table, AT.out_rank)
    out_start, out_matched = int64s(table, AT.out_start), int64s(table, AT.out_matched)
    events = len(offsets) - 1
    rows = 0
    used = 0
    out_start[0] = 0
    for event in range(events):
        size = offsets[event + 1] - offsets[event]
        in_order = True
        for at in range(size):
            number = numbers[offsets[event] + at]
            prefetch(rank, number)  # with very many subscriptions none of these is in the cache
            prefetch(refresh, number)
            prefetch(profile, number)
            prefetch(relevance, number)
            prefetch(general_start, number)
            prefetch(general_end, number)
            keys[at] = (queue[number] << 32) | number
            in_order = in_order and (at == 0 or keys[at - 1] < keys[at])
        if not in_order:  # with few matches, to sort them would be half of the work
            keys[:size].sort()
        at = 0
        while at < size:
            own = keys[at] >> 32
            first = used
            longest = 0
            specific = False
            while at < size and keys[at] >> 32 == own:
                number = keys[at] & 0xFFFFFFFF
                at += 1
                value = 1.0
                if relevance[number] != NONE:
                    value = _relevance(table, relevance[number], event, events)
                    if math.isnan(value):
                        continue
                out_matched[used] = number
                ranks[used] = rank[number] * value
                used += 1
                longest = max(longest, refresh[number])
                specific = specific or general_start[number] < general_end[number]
            if used == first:
                continue
            if specific:
                _drop_general(out_matched, first, used, general_start, general_end, general, counts)
            how = profile[out_matched[first]]
            total = _combined(rank_by[how], out_matched, ranks, first, used, weight, specific, counts)
            out_event[rows] = event
            queues[rows] = own
            out_rank[rows] = total
            scores[rows] = _score(total, times[event], half_life[how, 0], half_life[how, 1])
            ends[rows] = _expires(times[event], stated[event], longest)
            rows += 1
            out_start[rows] = used
    return rows


@compiled
def rank_event(table: Array, numbers: Array, word: int, time: int, stated: int, rows: Array) -> int:
    """Rank one event, whose features are in the table, and write its rows; return how many.

    The bits of the subscriptions that it matched are added to its word. No subscription is dropped for a more specific
    one.
    """
    about = int64s(table, AT.event)
    offsets, times, expiry = about[:2], about[2:3], about[3:4]
    offsets[0], offsets[1], times[0], expiry[0] = 0, len(numbers), time, stated
    scores = rows[ROW_SCORE].view(np.float64)
    starts, matched, bits = int64s(table, AT.out_start), int64s(table, AT.out_matched), int64s(table, AT.bits)
    for at in range(len(numbers)):
        prefetch(bits, numbers[at])
    count = rank_matches(table, offsets, numbers, times, expiry, rows[ROW_QUEUE], scores, rows[ROW_EXPIRES])
    for row in range(count):
        found = word
        for at in range(starts[row], starts[row + 1]):
            found |= bits[matched[at]]
        rows[ROW_WORD, row] = found
    return count


@compiled
def count_relevant(table: Array, events: int, counts: Array) -> None:
    """Write to how many events each function gives a relevance."""
    for function in range(len(counts)):
        for event in range(events):
            counts[function] += not math.isnan(_relevance(table, function, event, events))


@compiled
def scale_vectors(starts: Array, elements: Array, scaled: Array, sizes: Array, lengths: Array) -> None:
    """Divide each vector by its largest element; write the sizes, -1 for what has no direction, and the lengths."""
    for event in range(len(starts) - 1):
        first, last = starts[event], starts[event + 1]
        largest = 0.0
        for at in range(first, last):
            size = abs(elements[at])
            if not size < math.inf:  # NaN is not either
                largest = 0.0
                break
            largest = max(largest, size)
        sizes[event] = -1
        if largest == 0:
            continue
        total = 0.0
        for at in range(first, last):
            scaled[at] = elements[at] / largest
            total += scaled[at] * scaled[at]
        sizes[event] = last - first
        lengths[event] = math.sqrt(total)
