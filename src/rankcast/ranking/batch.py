"""Ranks of many events for many subscribers at once: from the matches of a batch to rows for the delivery queues.

    rows = rank_batch(ranking, offsets, numbers, times, expires, features)

`offsets` and `numbers` are what a matching index gives for a batch of events; each row of the result is one event in
one queue, with its rank, the score that orders it there, when it expires, and the subscriptions it matched. Ranks,
scores and expiries are bit-equal to those of `Preferences` and `relevance_of`, event by event.

Cost: a sort of each event's matches, and a few nanoseconds per match and target of a relevance function.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rankcast.arrays import Array
from rankcast.compiling.arguments import KernelArguments
from rankcast.model.times import instant_of
from rankcast.ranking.batch_kernels import ARRAYS, count_relevant, rank_matches, scale_vectors
from rankcast.ranking.batch_table import Functions, RankingTable, RankTable
from rankcast.ranking.relevance import decayed

__all__ = ["Features", "RankedRows", "RankingTable", "rank_batch", "relevant_events"]


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

    @property
    def arrays(self) -> tuple[Array, ...]:
        """The arrays, as kernels take them."""
        return self.numbers, self.first, self.size, self.length, self.values

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

    def part(self, first: int, last: int) -> Features:
        """Return the features of some of the events."""
        columns = (self.numbers, self.first, self.size, self.length)
        numbers, starts, size, length = (np.ascontiguousarray(column[:, first:last]) for column in columns)
        return Features(numbers, starts, size, length, self.values)

    @staticmethod
    def joined(parts: Sequence[Features]) -> Features:
        """Return the features of the events of all parts, which are of the same ranking."""
        if len(parts) == 1:
            return parts[0]
        used = np.cumsum([0, *(len(part.values) for part in parts)])
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
    room = (np.empty(most, np.int64), np.empty(most, np.bool_), np.empty(count))
    written = (rows.event, rows.rank, rows.matched_start, rows.matched)
    arguments = KernelArguments.of(ARRAYS, (*table.to_arrays().values(), *features.arrays, *room, *written))
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
    nothing = [np.zeros(0, ARRAYS[name][0]) for name in list(ARRAYS)[len(table.to_arrays()) + len(features.arrays) :]]
    arguments = KernelArguments.of(ARRAYS, (*table.to_arrays().values(), *features.arrays, *nothing))
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
