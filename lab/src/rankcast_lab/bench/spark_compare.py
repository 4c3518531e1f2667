"""Whether two sets of Parquet files have the same notifications, without having any of them in memory as a whole.

Every row becomes 64 bits of a digest, batch by batch; two sets are equal when their sorted digests are. Other rows
have the same digest in one of 2^64 cases. Cost: one pass over the files and 8 bytes a row; a pass for each column more
when they differ, to say in which.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from rankcast.arrays import Array
from rankcast.delivery.stream.event_tables import Ragged, digests

KEY = ("id", "subscriber")
"""What tells one notification from another."""

BATCH = 100_000
"""Rows that are in memory at a time."""

_ODD = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class Notifications:
    """The rows of some files; those delivered before an instant, in microseconds since 1970, if there is one."""

    files: Sequence[str | Path]
    before: int | None = None

    def digests(self, columns: Sequence[str]) -> Array:
        """Return the digests of the rows, of these columns only, sorted."""
        parts = [np.zeros(0, np.uint64), *(_digests(batch.select(list(columns))) for batch in self._batches(columns))]
        return np.sort(np.concatenate(parts))

    def _batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        source = ds.dataset([str(file) for file in self.files], format="parquet")
        named = list(dict.fromkeys([*columns, "delivered"]))
        for batch in source.to_batches(columns=named, batch_size=BATCH, batch_readahead=1, fragment_readahead=1):
            yield batch if self.before is None else batch.filter(pa.array(_times(batch["delivered"]) < self.before))


def difference_of(found: Notifications, truth: Notifications, columns: Sequence[str]) -> str:
    """Return how notifications differ from the right ones in some columns; empty when they do not."""
    own, right = found.digests(columns), truth.digests(columns)
    if len(own) != len(right) or not len(right):
        return f"{len(own):,} notifications, expected {len(right):,}"
    if np.array_equal(own, right):
        return ""
    for name in columns:
        looked_at = tuple(dict.fromkeys([*KEY, name]))
        if not np.array_equal(found.digests(looked_at), truth.digests(looked_at)):
            return f"other values of {name}"
    return "other notifications"


def _digests(rows: pa.RecordBatch) -> Array:
    """Return 64 bits for each row, which equal rows have in common."""
    found = np.zeros(len(rows), np.uint64)
    for column in rows.columns:
        found = _mixed(found, _column_digests(column))
    return found


def _column_digests(column: Any) -> Array:
    if pa.types.is_list(column.type):
        inner = _column_digests(column.flatten())
        starts = np.asarray(column.offsets).astype(np.int64)
        whole = Ragged(starts - starts[0], inner.view(np.int64))
        return digests(whole.starts, whole.values, np.arange(len(column))).view(np.uint64)
    if pa.types.is_timestamp(column.type):
        return _times(column).astype(np.uint64)
    if pa.types.is_floating(column.type):
        return np.asarray(column).astype(np.float64).view(np.uint64)
    texts = Ragged.from_arrow(column)
    return digests(texts.starts, texts.values, np.arange(len(texts))).view(np.uint64)


def _times(column: Any) -> Array:
    """Return times in microseconds since 1970. Files say them in more than one way; what has no zone is UTC."""
    return np.asarray(column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()))


def _mixed(one: Array, other: Array) -> Array:
    mixed = (one ^ other) * _ODD
    return np.asarray(mixed ^ (mixed >> np.uint64(29)))
