"""The match stage of a pipeline: events in, packed rows for the stateful stage out.

A task matches its batches piece by piece, gathers the ranked rows and gives, for each shard, one packed row of them;
with very many matches, one for every `ROWS`. Beside the chunks there are packed rows that pass through the stateful
stage: the rows that are no events, and how many events and matches there were.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from rankcast.arrays import Array
from rankcast.delivery.stream.event_tables import EventTable
from rankcast.ranking.batch import Features, RankedRows
from rankcast.spark.delivery.stage_input import MessageKind, counts_to_bytes, packed_plan
from rankcast.spark.matching.chunks import UnfilteredRanks, chunks_of, dense_rows
from rankcast.spark.matching.compiled_subscribers import CompiledSubscribers
from rankcast.spark.matching.shipping import AudienceSource
from rankcast.spark.matching.stage import MatchedPiece, matched_pieces, timestamps, without_ends
from rankcast.spark.matching.top_subscribers import TopSubscribers
from rankcast.spark.sources.event_reader import EventReader
from rankcast.spark.sources.event_values import RejectedRow
from rankcast.spark.sources.events import KEPT

ROWS = 2_000_000
"""Ranked rows that are gathered before they are packed: some 125 MB."""

ROWS_APART = 8
"""So many rows that are not written down count as one: they take room only where they are taken in."""

_SCHEMA = pa.schema(
    [("shard", pa.int32()), ("time", pa.timestamp("us", "UTC")), ("kind", pa.int8()), ("data", pa.binary())]
)


class PackedRow(NamedTuple):
    """One row of the stateful stage's input; `time` is None for what says nothing of event time."""

    shard: int
    time: int | None
    kind: MessageKind
    data: bytes


@dataclass(slots=True)
class _Gathered:
    """Ranked rows of several pieces, and their events."""

    events: list[EventTable] = field(default_factory=list)
    rows: list[RankedRows] = field(default_factory=list)
    apart: list[UnfilteredRanks] = field(default_factory=list)
    contents: list[bytes] = field(default_factory=list)
    count: int = 0

    def add(self, events: EventTable, rows: RankedRows, apart: UnfilteredRanks, others: int) -> None:
        """Add a piece; with each of its events go so many rows that are not written down."""
        self.events.append(events)
        self.rows.append(rows)
        self.apart.append(apart)
        self.count += len(rows.event) + len(events) * others // ROWS_APART

    def joined_apart(self) -> UnfilteredRanks:
        """Return what the rows that are not written down are worked out from."""
        features = Features.joined([one.features for one in self.apart])
        return UnfilteredRanks(features, np.concatenate([one.expires for one in self.apart]))

    def joined(self) -> tuple[EventTable, RankedRows]:
        if len(self.rows) == 1:
            return self.events[0], self.rows[0]
        first = np.cumsum([0, *map(len, self.events)])
        used = np.cumsum([0, *(len(one.matched) for one in self.rows)])
        pieces = list(zip(self.rows, first, used, strict=False))
        rows = RankedRows(
            np.concatenate([one.event + offset for one, offset, _ in pieces]),
            np.concatenate([one.queue for one in self.rows]),
            np.concatenate([one.rank for one in self.rows]),
            np.concatenate([one.score for one in self.rows]),
            np.concatenate([one.expires for one in self.rows]),
            np.concatenate([np.zeros(1, np.int64), *(one.matched_start[1:] + offset for one, _, offset in pieces)]),
            np.concatenate([one.matched for one in self.rows]),
        )
        return EventTable.joined(self.events), rows


@dataclass(frozen=True, slots=True)
class PackTask:
    """What a task of a pipeline's match stage does."""

    reader: EventReader
    source: AudienceSource
    shards: int
    top: TopSubscribers | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Return the packed rows of some batches."""
        version, audience = self.source.current()
        yield from map(as_batch, changes_for(self.source, self.shards, version))
        reporting = task_partition() % self.shards
        gathered, events, matches, ends = _Gathered(), 0, 0, list[pa.RecordBatch]()
        apart = self.top is None
        given = without_ends(batches, self.reader, ends)
        for piece in matched_pieces(given, self.reader, audience, apart=apart):
            table = piece.events.table(audience.queues.wanted_content)
            rows = self._selected(piece, table, audience)
            known = UnfilteredRanks(piece.features, piece.events.expires)
            gathered.add(table, rows, known, len(audience.apart) * apart)
            if self.source.keeps_contents:
                gathered.contents += piece.events.contents()
            events += len(table)
            matches += len(rows.event)
            if apart and len(audience.apart):
                everybody = dense_rows(table, known, audience.table_apart(0, 1))
                matches += 0 if everybody is None else everybody.count()
            if piece.rejected:
                yield as_batch(PackedRow(reporting, None, MessageKind.REJECTED, rejected_to_bytes(piece.rejected)))
            if gathered.count >= ROWS:
                yield from self._packed(gathered, audience, version, reporting)
                gathered = _Gathered()
        if gathered.events:
            yield from self._packed(gathered, audience, version, reporting)
            yield as_batch(
                PackedRow(reporting, None, MessageKind.COUNTS, counts_to_bytes(events=events, matches=matches))
            )
        if ends:
            yield from (as_batch(PackedRow(shard, None, MessageKind.END, b"")) for shard in range(self.shards))

    def _selected(self, piece: MatchedPiece, table: EventTable, audience: CompiledSubscribers) -> RankedRows:
        if self.top is None:
            return piece.rows
        own: Array | None = None
        if self.top.k_column is not None:
            asked = piece.batch.column(KEPT + self.top.k_column).cast(pa.int64()).fill_null(-1)
            own = np.asarray(asked)[piece.events.rows]
        return self.top.selected(table, piece.rows, audience, self.top.limits(own, len(table)))

    def _packed(
        self, gathered: _Gathered, audience: CompiledSubscribers, version: int, reporting: int
    ) -> Iterator[pa.RecordBatch]:
        apart = gathered.joined_apart() if self.top is None and len(audience.apart) else None
        contents = gathered.contents if self.source.keeps_contents else None
        chunks = chunks_of(
            *gathered.joined(), audience, version, self.shards, reporting, apart=apart, contents=contents
        )
        for packed in chunks:
            yield as_batch(PackedRow(packed.shard, packed.newest, MessageKind.CHUNK, packed.chunk.to_bytes()))


def changes_for(source: AudienceSource, shards: int, version: int) -> Iterator[PackedRow]:
    """Return what the shards have to be told of changes; a shard ignores what it knows already."""
    plan = source.changes(shards)
    if plan is not None:
        since, changes = plan
        for shard, own in changes.items():
            yield PackedRow(shard, None, MessageKind.CHANGES, packed_plan(own, version=version, since=since))


def task_partition() -> int:
    """Return the partition of the running task."""
    context = TaskContext.get()
    return 0 if context is None else context.partitionId()


def as_batch(row: PackedRow) -> pa.RecordBatch:
    """Return a packed row as Spark takes it."""
    time: Any = pa.nulls(1, pa.timestamp("us", "UTC")) if row.time is None else timestamps(np.array([row.time]))
    columns = [pa.array([row.shard], pa.int32()), time, pa.array([int(row.kind)], pa.int8()), pa.array([row.data])]
    return pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)


def rejected_to_bytes(rows: list[RejectedRow]) -> bytes:
    """Return rejected rows as one packed row has them."""
    return json.dumps(rows).encode()


def rejected_from_bytes(data: bytes) -> list[RejectedRow]:
    """Return the rejected rows of a packed row."""
    return [RejectedRow(*row) for row in json.loads(data)]
