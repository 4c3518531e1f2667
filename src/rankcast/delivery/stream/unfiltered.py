"""Rows of a chunk that nobody has to write down: every event with every one of some queues.

A subscription that accepts everything and only ranks by relevance has a row for every event. Of these rows a chunk has
the relevance functions, once each, and what the functions look at, once for each event. A shard that takes the chunk
lets it wait like this, and works the rows out when they are released (`expanded`), in blocks and with the same kernel
that ranks what the index finds, so that they are equal to those that could have been sent, bit for bit.

Size: some 60 bytes per queue and 40 per attribute of its function, and 8 per event and attribute, where the rows have
24 for every event and queue. Cost of `expanded`: that of `rank_batch`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from rankcast.arrays import Array
from rankcast.compiling import compiled
from rankcast.delivery.stream.kernels import mixed
from rankcast.model.errors import InvalidValueError
from rankcast.model.times import FIRST_INSTANT, LAST_INSTANT, NEVER
from rankcast.ranking.batch import Features, RankedRows, rank_batch, relevant_events
from rankcast.ranking.batch_table import COSINE, WEIGHTED_SUM, Ranking, RankTable

BLOCK = 1 << 20
"""Rows that are worked out at a time, about."""

PREFIX = "dense."
_FUNCTIONS = ("rank_by", "kind", "reach", "part_start", "part_column", "part_value", "part_scale", "part_weight")
_BY_QUEUE = ("queue", "profile", "rank", "weight", "refresh", "relevance")
_INTEGERS = frozenset({"queue", "refresh", "part_start"})
_FLOATS = frozenset({"rank", "weight", "reach", "part_value", "part_scale", "part_weight"})


class Expanded(NamedTuple):
    """Rows, as columns of equal length, by event and then by queue."""

    queue: Array
    event: Array
    score: Array
    expires: Array
    matched: Array


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
        one = self.features
        numbers, first, size, length = (
            np.ascontiguousarray(column[:, is_chosen]) for column in (one.numbers, one.first, one.size, one.length)
        )
        features = Features(numbers, first, size, length, one.values)
        return UnfilteredRows(self.table, self.matched, self.times[is_chosen], self.expires[is_chosen], features)

    def expanded(self) -> Expanded:
        """Return all rows."""
        parts = [
            Expanded(rows.queue, rows.event + first, rows.score, rows.expires, self.matched[rows.matched])
            for first, rows in self._blocks()
        ]
        none = Expanded(*(np.zeros(0, kind) for kind in (np.int64, np.int64, np.float64, np.int64, np.int32)))
        queue, event, score, expires, matched = (np.concatenate(columns) for columns in zip(none, *parts, strict=True))
        return Expanded(queue.astype(np.int32), event, score, expires, matched)

    def _blocks(self) -> list[tuple[int, RankedRows]]:
        """Return the rows of some events at a time, each with the first of its events."""
        queues, found = len(self.table), list[tuple[int, RankedRows]]()
        ranking = Ranking(self.table, ("",) * len(self.features.numbers), ("",) * len(self.features.size))
        step = max(1, BLOCK // max(1, queues))
        for first in range(0, len(self.times), step):
            times, expires = self.times[first : first + step], self.expires[first : first + step]
            offsets = np.arange(len(times) + 1, dtype=np.int64) * queues
            numbers = np.tile(np.arange(queues), len(times))
            features = self.features.part(first, first + step)
            found.append((first, rank_batch(ranking, offsets, numbers, times, expires, features)))
        return found

    def to_arrays(self) -> dict[str, Array]:
        """Return everything but the times as named arrays."""
        table, features = self.table.to_arrays(), self.features
        arrays = {name: table[name] for name in (*_BY_QUEUE, *_FUNCTIONS)}
        arrays |= {
            "matched": self.matched,
            "width": np.array([len(features.numbers), len(features.size)], np.int64),
            "expires": self.expires,
            "numbers": features.numbers.ravel(),
            "first": features.first.ravel(),
            "size": features.size.ravel(),
            "length": features.length.ravel(),
            "values": features.values,
        }
        return {
            PREFIX + name: array if array.dtype in (np.float64, np.int64) else array.astype(np.int32)
            for name, array in arrays.items()
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array], times: Array) -> Self | None:
        """Return what named arrays hold for events of these times; None when they hold nothing of the kind."""
        found = {name.removeprefix(PREFIX): array for name, array in arrays.items() if name.startswith(PREFIX)}
        if not found:
            return None
        try:
            queues, events = len(found["queue"]), len(times)
            columns = {name: _typed(name, found[name]) for name in (*_BY_QUEUE, *_FUNCTIONS)}
            table = RankTable(
                **columns,
                general_start=np.zeros(queues, np.int64),
                general_end=np.zeros(queues, np.int64),
                general=np.zeros(0, np.int64),
                half_life=np.zeros((len(columns["rank_by"]), 2), np.int64),
            )
            numeric, vectors = found["width"].tolist()
            numbers = found["numbers"].reshape(numeric, events)
            first, size, length = (found[name].reshape(vectors, events) for name in ("first", "size", "length"))
            made = cls(
                table,
                found["matched"],
                times,
                found["expires"],
                Features(numbers, first, size, length, found["values"]),
            )
        except (KeyError, ValueError) as error:
            raise InvalidValueError(f"chunk: its dense rows are damaged: {error}") from None
        if not _is_sound(made):
            raise InvalidValueError("chunk: the arrays of its dense rows contradict each other")
        return made


def _typed(name: str, array: Array) -> Array:
    """Return an array in the type that the ranking kernels know it by."""
    if name in _FLOATS:
        return array.astype(np.float64, copy=False)
    if name in _INTEGERS:
        return array.astype(np.int64, copy=False)
    return array.astype(np.int8 if name in ("rank_by", "kind") else np.int32)


def _is_sound(rows: UnfilteredRows) -> bool:
    """Whether no kernel can be led outside the arrays, whatever else they say."""
    table, features = rows.table, rows.features
    by_queue = (table.profile, table.rank, table.weight, table.refresh, table.relevance, rows.matched)
    parts = (table.part_value, table.part_scale, table.part_weight)
    if any(len(one) != len(table) for one in by_queue) or any(len(one) != len(table.part_column) for one in parts):
        return False
    if len(table.part_start) != len(table.kind) + 1 or len(table.reach) != len(table.kind):
        return False
    if len(rows.expires) != len(rows.times) or not features.first.shape == features.size.shape == features.length.shape:
        return False
    is_cosine = np.repeat(table.kind == COSINE, np.maximum(0, np.diff(table.part_start)))
    limits = np.where(is_cosine, len(features.size), len(features.numbers))
    return bool(
        _within(table.queue, 2**31)
        and _within(table.profile, len(table.rank_by))
        and _within(table.relevance, len(table.kind))
        and _within(table.rank_by, WEIGHTED_SUM + 1)
        and _within(table.kind, COSINE + 1)
        and (np.diff(table.part_start) > 0).all()
        and table.part_start[0] == 0
        and table.part_start[-1] == len(table.part_column) == len(limits)
        and ((table.part_column >= 0) & (table.part_column < limits)).all()
        and (table.refresh >= 0).all()
        and (
            (features.size < 1) | ((features.first >= 0) & (features.first + features.size <= len(features.values)))
        ).all()
        and ((rows.expires == NEVER) | ((rows.expires >= FIRST_INSTANT) & (rows.expires <= LAST_INSTANT))).all()
    )


def _within(array: Array, end: int) -> bool:
    return not len(array) or bool(array.min() >= 0 and array.max() < end)


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
