"""Rows of a chunk that nobody has to write down: every event with every one of some queues.

A subscription that accepts everything and only ranks by relevance has a row for every event. Of these rows a chunk has
the relevance functions, once each, and what the functions look at, once for each event. A shard that takes the chunk
lets it wait like this, and works the rows out when they are released (`expanded`), in blocks and with the same kernel
that ranks what the index finds, so that they are equal to those that could have been sent, bit for bit.

Size: some 60 bytes per queue and 40 per attribute of its function, and 8 per event and attribute, where the rows have
24 for every event and queue. Cost of `expanded`: that of `rank_batch`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from rankcast.arrays import Array
from rankcast.compiling import compiled
from rankcast.containers.container import from_arrays, to_arrays
from rankcast.containers.expectations import Column, Columns, Range, below, check, fail_where
from rankcast.delivery.stream.event_tables import mixed
from rankcast.model.times import FIRST_INSTANT, LAST_INSTANT, NEVER
from rankcast.ranking.batch import Features, RankedRows, rank_batch, relevant_events
from rankcast.ranking.batch_table import FUNCTION_COLUMNS, RANK_COLUMNS, RankingTable, RankTable, check_functions

BLOCK = 1 << 20
"""Rows that are worked out at a time, about."""

UNFILTERED = "unfiltered rows"
_TABLE = ("queue", "profile", "rank", "weight", "refresh", "relevance", "rank_by", *FUNCTION_COLUMNS)

UNFILTERED_COLUMNS: Columns = {
    **{name: RANK_COLUMNS[name] for name in _TABLE},
    "relevance": Column(np.int32, "subscriptions", below("functions")),
    "matched": Column(np.int64, "subscriptions", below("matched sets")),
    "expires": Column(np.int64, "events", Range(FIRST_INSTANT, LAST_INSTANT + 1, NEVER)),
    "numbers": Column(np.float64, "numbers", width="events"),
    "first": Column(np.int64, "vectors", width="events"),
    "size": Column(np.int64, "vectors", width="events"),
    "length": Column(np.float64, "vectors", width="events"),
    "values": Column(np.float64, "elements"),
}
"""What is expected of rows that are not written down: every subscription has a relevance function."""


class MatchRows(NamedTuple):
    """Rows, as columns of equal length."""

    queue: Array
    event: Array
    score: Array
    expires: Array
    matched: Array

    @staticmethod
    def joined(parts: Sequence[MatchRows]) -> MatchRows:
        """Return the rows of all parts; there may be none."""
        columns = zip(zip(NO_ROWS, *parts, strict=True), ROW_TYPES, strict=True)
        return MatchRows(*(np.concatenate(column).astype(kind, copy=False) for column, kind in columns))

    def chosen(self, chosen: Array) -> MatchRows:
        """Return some of the rows."""
        return MatchRows(*(column[chosen] for column in self))


ROW_TYPES = (np.int32, np.int64, np.float64, np.int64, np.int32)
"""Of the columns of rows that wait."""

NO_ROWS = MatchRows(*(np.zeros(0, kind) for kind in ROW_TYPES))


@dataclass(frozen=True, slots=True)
class UnfilteredRows:
    """Queues with the only subscription of each, in the order of `table`, and what they look at in each event.

    `matched` is the number of what matched, by subscription; `times` and `expires` are the events' own.
    """

    table: RankTable
    matched: Array
    times: Array
    expires: Array
    features: Features

    def __len__(self) -> int:
        """How many rows there are at most: events without a relevance have fewer."""
        return len(self.table) * len(self.times)

    def count(self) -> int:
        """Return how many rows there are."""
        return int(relevant_events(self.table, self.features, len(self.times))[self.table.relevance].sum())

    def of_events(self, is_chosen: Array) -> UnfilteredRows:
        """Return the rows of the marked events."""
        features = self.features.of_events(is_chosen)
        return UnfilteredRows(self.table, self.matched, self.times[is_chosen], self.expires[is_chosen], features)

    def expanded(self) -> MatchRows:
        """Return all rows, by event and then by queue."""
        return MatchRows.joined(
            [
                MatchRows(rows.queue, rows.event + first, rows.score, rows.expires, self.matched[rows.matched])
                for first, rows in self._blocks()
            ]
        )

    def _blocks(self) -> list[tuple[int, RankedRows]]:
        """Return the rows of some events at a time, each with the first of its events."""
        queues, found = len(self.table), list[tuple[int, RankedRows]]()
        ranking = RankingTable(self.table, ("",) * len(self.features.numbers), ("",) * len(self.features.size))
        step = max(1, BLOCK // max(1, queues))
        for first in range(0, len(self.times), step):
            times, expires = self.times[first : first + step], self.expires[first : first + step]
            offsets = np.arange(len(times) + 1, dtype=np.int64) * queues
            numbers = np.tile(np.arange(queues), len(times))
            features = self.features.of_events(slice(first, first + step))
            found.append((first, rank_batch(ranking, offsets, numbers, times, expires, features)))
        return found

    def to_arrays(self) -> dict[str, Array]:
        """Return everything but the times as named arrays."""
        table = self.table.to_arrays()
        return {
            **{name: table[name] for name in _TABLE},
            "matched": self.matched.astype(np.int64, copy=False),
            "expires": self.expires,
            **to_arrays(self.features),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array], times: Array, sets: int) -> Self | None:
        """Return what named arrays hold for events of these times; None when there are no arrays.

        `sets` says how many numbers of what matched there are.
        """
        if not arrays:
            return None
        check(UNFILTERED, arrays, UNFILTERED_COLUMNS, {"queues": 2**31, "matched sets": sets, "events": len(times)})
        features = from_arrays(Features, arrays)
        check_functions(UNFILTERED, arrays, len(features.numbers), len(features.size))
        last = len(features.values) - features.size
        leads_out = (features.first < 0) | (features.first > last) | ~(features.length > 0)
        fail_where((leads_out & (features.size > 0)).ravel(), f"{UNFILTERED}: array first: no vector is there")
        queues = len(arrays["queue"])
        table = RankTable(
            **{name: arrays[name] for name in _TABLE},
            general_start=np.zeros(queues, np.int64),
            general_end=np.zeros(queues, np.int64),
            general=np.zeros(0, np.int64),
            half_life=np.zeros((len(arrays["rank_by"]), 2), np.int64),
        )
        return cls(table, arrays["matched"], times, arrays["expires"], features)


def event_digests(features: Features, expires: Array) -> Array:
    """Return a number for each event that those have in common which dense rows say the same of."""
    found = np.empty(len(expires), np.int64)
    numbers, values = features.numbers.view(np.int64), features.values.view(np.int64)
    _digest(numbers, features.first, features.size, values, expires, found)
    return found


@compiled
def _digest(numbers: Array, first: Array, size: Array, values: Array, expires: Array, found: Array) -> None:
    for event in range(len(found)):
        digest = expires[event]
        for column in range(len(numbers)):
            digest = mixed(digest, numbers[column, event])
        for column in range(len(size)):
            digest = mixed(digest, size[column, event])
            for at in range(size[column, event]):
                digest = mixed(digest, values[first[column, event] + at])
        found[event] = digest
