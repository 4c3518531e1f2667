"""Ranks of many events for many subscribers at once: from the matches of a batch to rows for the delivery queues.

    rows = rank_batch(ranking, offsets, numbers, times, expires, features)

`offsets` and `numbers` are what a matching index gives for a batch of events; each row of the result is one event in
one queue, with its rank, the score that orders it there, when it expires, and the subscriptions it matched. Ranks,
scores and expiries are bit-equal to those of `Preferences` and `relevance_of`, event by event.

Cost: a sort of each event's matches, and a few nanoseconds per match and target of a relevance function.

Kernels do the arithmetic of `preferences` and `relevance`, bit for bit: sums are added one by one in the order of the
subscriber's subscriptions, products are rounded before they are added (numba fuses nothing unless told to), and square
roots and logarithms are those of the C library, as Python's are.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rankcast.arrays import Array
from rankcast.compiling import compiled, inlined
from rankcast.compiling.arguments import ANY, KernelArguments, Kinds, readers
from rankcast.compiling.intrinsics import prefetch
from rankcast.containers.container import prefixed, to_arrays
from rankcast.containers.expectations import kinds_of
from rankcast.model.times import EPOCH, LAST_INSTANT, TICK, instant_of
from rankcast.ranking.batch_table import (
    CLOSENESS,
    COSINE,
    DISTANCE,
    MAX,
    MEAN,
    MIN,
    NONE,
    RANK_COLUMNS,
    Functions,
    RankingTable,
    RankTable,
)
from rankcast.ranking.relevance import LANDMARK, MAX_DISTANCE, decayed

__all__ = ["Features", "RankedRows", "RankingTable", "rank_batch", "relevant_events"]

_LANDMARK = (LANDMARK - EPOCH) // TICK
_DAY = 86_400_000_000
EXACT = 2**53
"""Whole numbers up to here are floats, so that their quotient is rounded once, as Python's is."""

_EXACT_DAYS = EXACT // _DAY - 1

ROW_QUEUE, ROW_WORD, ROW_EXPIRES, ROW_SCORE = range(4)
"""The lines of the rows of one event: its queues, its word and its expiry there, and the bits of its score."""

ARRAYS: Kinds = {
    **kinds_of(RANK_COLUMNS),
    "numbers": (np.float64, ANY),
    "first": (np.int64, ANY),
    "size": (np.int64, ANY),
    "length": (np.float64, ANY),
    "values": (np.float64, 0),
    "keys": (np.int64, 0),
    "counts": (np.bool_, 0),
    "ranks": (np.float64, 0),
    "out_event": (np.int64, 0),
    "out_rank": (np.float64, 0),
    "out_start": (np.int64, 0),
    "out_matched": (np.int64, 0),
}
"""What kernels are given as a table: the fields of a `RankTable`, those of `Features`, room for the matches of one
event (`keys`, `counts`) and for those of all. What features say of single events has a column for each."""

EVENT_ARRAYS: Kinds = {**ARRAYS, "event": (np.int64, 0), "bits": (np.int64, 0)}
"""What `rank_event` is given: room for four numbers besides, and the bit of each subscription."""

AT = readers(EVENT_ARRAYS)
_LOWEST = -sys.float_info.max


@inlined
def _relevance(table: Array, function: int, event: int, events: int) -> float:
    """Return the relevance of one of so many events, NaN when it has none."""
    kind, reach = AT.kind(table), AT.reach(table)
    part_start, part_column = AT.part_start(table), AT.part_column(table)
    part_value, part_scale = AT.part_value(table), AT.part_scale(table)
    part_weight = AT.part_weight(table)
    first, last = part_start[function], part_start[function + 1]
    if kind[function] == COSINE:
        column = part_column[first]
        if AT.size(table, events)[column, event] != last - first:
            return math.nan
        start = AT.first(table, events)[column, event]
        elements = AT.values(table)
        product = 0.0
        for at in range(last - first):
            product += elements[start + at] * part_value[first + at]
        length = AT.length(table, events)[column, event]
        cosine = product / (length * reach[function])
        return float(1 + max(-1.0, min(1.0, cosine))) / 2
    total = 0.0
    weights = 0.0
    numbers = AT.numbers(table, events)
    for at in range(first, last):
        value = numbers[part_column[at], event]
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
    if rank <= 0:  # below 0 only where a file of ranks was damaged
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
    queue, profile, relevance = AT.queue(table), AT.profile(table), AT.relevance(table)
    rank, weight, refresh = AT.rank(table), AT.weight(table), AT.refresh(table)
    general_start, general_end = AT.general_start(table), AT.general_end(table)
    general, rank_by, half_life = AT.general(table), AT.rank_by(table), AT.half_life(table)
    keys, counts, ranks = AT.keys(table), AT.counts(table), AT.ranks(table)
    out_event, out_rank = AT.out_event(table), AT.out_rank(table)
    out_start, out_matched = AT.out_start(table), AT.out_matched(table)
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
    about = AT.event(table)
    offsets, times, expiry = about[:2], about[2:3], about[3:4]
    offsets[0], offsets[1], times[0], expiry[0] = 0, len(numbers), time, stated
    scores = rows[ROW_SCORE].view(np.float64)
    starts, matched, bits = AT.out_start(table), AT.out_matched(table), AT.bits(table)
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


class RankedRows(NamedTuple):
    """One row per event and queue, by event and within one by queue; columns of equal length but for the last two.

    The subscriptions that row i matched are matched[matched_start[i]:matched_start[i+1]], in their subscriber's order.
    """

    event: Array
    queue: Array
    rank: Array
    score: Array
    expires: Array
    matched_start: Array
    matched: Array


@dataclass(frozen=True, slots=True)
class Features:
    """What relevance functions look at, of a batch of events, by the attributes' numbers in a `RankingTable`.

    A number is NaN, and the size of a vector -1, where an event has none that counts: missing, not finite or, for
    vectors, without direction. Vectors are divided by their largest element.
    """

    numbers: Array
    first: Array
    size: Array
    length: Array
    values: Array

    @staticmethod
    def of(
        ranking: RankingTable | Functions,
        events: int,
        numbers: Mapping[str, Array],
        vectors: Mapping[str, tuple[Array, Array]] | None = None,
    ) -> Features:
        """Return the features of so many events.

        `numbers` are columns of floats, NaN where missing. `vectors` are pairs of the starts of each event's elements
        (one more than there are events) and the elements; an event with an element that is no finite number has none.
        """
        columns = np.full((len(ranking.numbers), events), math.nan)
        for at, name in enumerate(ranking.numbers):
            if name in numbers:
                columns[at] = np.where(np.isfinite(numbers[name]), numbers[name], math.nan)
        first = np.zeros((len(ranking.vectors), events), np.int64)
        size = np.full((len(ranking.vectors), events), -1, np.int64)
        length = np.zeros((len(ranking.vectors), events))
        pieces: list[Array] = [np.zeros(0)]
        used = 0
        for at, name in enumerate(ranking.vectors):
            if vectors is None or name not in vectors:
                continue
            starts, elements = vectors[name]
            scaled = np.zeros(len(elements))
            scale_vectors(_plain(starts, np.int64), _plain(elements, np.float64), scaled, size[at], length[at])
            first[at] = starts[:-1] + used
            pieces.append(scaled)
            used += len(scaled)
        return Features(columns, first, size, length, np.concatenate(pieces))

    def of_events(self, chosen: slice | Array) -> Features:
        """Return the features of some of the events."""
        columns = (self.numbers, self.first, self.size, self.length)
        numbers, first, size, length = (np.ascontiguousarray(column[:, chosen]) for column in columns)
        return Features(numbers, first, size, length, self.values)

    @staticmethod
    def joined(parts: Sequence[Features]) -> Features:
        """Return the features of the events of all parts, which are of the same ranking."""
        if len(parts) == 1:
            return parts[0]
        used = np.cumsum([0, *(len(part.values) for part in parts)]).tolist()
        return Features(
            np.concatenate([part.numbers for part in parts], axis=1),
            np.concatenate([part.first + offset for part, offset in zip(parts, used, strict=False)], axis=1),
            np.concatenate([part.size for part in parts], axis=1),
            np.concatenate([part.length for part in parts], axis=1),
            np.concatenate([part.values for part in parts]),
        )


def rank_batch(
    ranking: RankingTable, offsets: Array, numbers: Array, times: Array, expires: Array, features: Features
) -> RankedRows:
    """Rank the matches of a batch: those of event i are the subscriptions numbers[offsets[i]:offsets[i+1]].

    `times` and `expires` are the events' own, in microseconds since 1970; 2**63 - 1 for what does not expire.
    """
    table = ranking.table
    most = int(np.diff(offsets).max(initial=0))
    count = int(offsets[-1])
    rows = RankedRows(
        np.empty(count, np.int64),
        np.empty(count, np.int64),
        np.empty(count),
        np.empty(count),
        np.empty(count, np.int64),
        np.empty(count + 1, np.int64),
        np.empty(count, np.int64),
    )
    room = {"keys": np.empty(most, np.int64), "counts": np.empty(most, np.bool_), "ranks": np.empty(count)}
    written = {"event": rows.event, "rank": rows.rank, "start": rows.matched_start, "matched": rows.matched}
    given = to_arrays(table) | to_arrays(features) | room | prefixed("out_", written)
    arguments = KernelArguments.of(ARRAYS, given)
    known = (_plain(times, np.int64), _plain(expires, np.int64))
    found = rank_matches(arguments.addresses, offsets, numbers, *known, rows.queue, rows.score, rows.expires)
    used = int(rows.matched_start[found])
    event, queue, rank, score, expired = (column[:found] for column in rows[:5])
    rows = RankedRows(event, queue, rank, score, expired, rows.matched_start[: found + 1], rows.matched[:used])
    _complete_scores(ranking, rows, times)
    return rows


def relevant_events(table: RankTable, features: Features, events: int) -> Array:
    """Return, for each relevance function of a table, how many of the events it gives a relevance to."""
    counts = np.zeros(len(table.kind), np.int64)
    nothing = {name: np.zeros(0, kind) for name, (kind, columns) in ARRAYS.items() if columns == 0}
    arguments = KernelArguments.of(ARRAYS, nothing | to_arrays(table) | to_arrays(features))
    count_relevant(arguments.addresses, events, counts)
    return counts


def _plain(column: Array, dtype: type) -> Array:
    """Return a column as kernels are compiled for: contiguous, and not marked read-only as Arrow's memory is."""
    column = np.ascontiguousarray(column, dtype)
    return column if column.flags.writeable else column.copy()


def _complete_scores(ranking: RankingTable, rows: RankedRows, times: Array) -> None:
    """Work out one by one the few decayed scores that need whole numbers beyond 2**53."""
    for row in np.flatnonzero(np.isnan(rows.score)).tolist():
        profile = int(ranking.table.profile[rows.matched[rows.matched_start[row]]])
        decay = ranking.table.decay(profile)
        time = instant_of(int(times[rows.event[row]]))
        if decay is not None:
            rows.score[row] = decayed(float(rows.rank[row]), time, decay)
