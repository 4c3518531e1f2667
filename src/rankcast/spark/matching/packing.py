"""The match stage of a pipeline: events in, packed rows for the stateful stage out.

A task matches its batches piece by piece, gathers the ranked rows and gives, for each shard, one packed row of them;
with very many matches, one for every `ROWS`. Beside the chunks there are packed rows that pass through the stateful
stage: the rows that are no events, and how many events and matches there were.

Queue q belongs to shard q % shards, where it is q // shards. A chunk has the rows of one shard, and all events: a shard
has to know the identities of those that it has no rows of, too, to tell repetitions
(`rankcast.delivery.stream.shards`). Of these it gets nothing else. A number for each event tells whether publications
of one identity and time come to the same (`variants`).

What else travels with an event (the ranks of queues whose scores decay, its content, what is carried along) is in its
payload (`rankcast.spark.delivery.rerank`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from rankcast.arrays import Array
from rankcast.compiling import compiled
from rankcast.delivery.stream.batches import MatchBatch
from rankcast.delivery.stream.event_tables import EventTable, Ragged, digests, mixed
from rankcast.delivery.stream.matched_sets import WIDEST, MatchedSets
from rankcast.delivery.stream.unfiltered import UnfilteredRows, event_digests
from rankcast.ranking.batch import Features, RankedRows
from rankcast.ranking.batch_table import RankTable
from rankcast.spark.delivery.rerank import with_payloads
from rankcast.spark.delivery.stage import PackedRow
from rankcast.spark.delivery.state import MessageKind, packed_plan
from rankcast.spark.matching.compiled_subscribers import CompiledSubscribers
from rankcast.spark.matching.shipping import AudienceSource
from rankcast.spark.matching.stage import matched_pieces, without_ends
from rankcast.spark.sources.event_reader import EventReader


class Packed(NamedTuple):
    """A chunk, its shard, and the newest time in it."""

    shard: int
    newest: int
    chunk: MatchBatch

    def to_batch(self) -> pa.RecordBatch:
        """Return the chunk as Spark takes it."""
        return PackedRow(self.shard, self.newest, MessageKind.CHUNK, self.chunk.to_bytes()).to_batch()


class UnfilteredRanks(NamedTuple):
    """What is known of events beside their rows: what relevance functions look at, and when they say they expire."""

    features: Features
    expires: Array


def chunks_of(
    events: EventTable,
    rows: RankedRows,
    audience: CompiledSubscribers,
    version: int,
    shards: int,
    reporting: int,
    position: Array | None = None,
    apart: UnfilteredRanks | None = None,
    contents: Sequence[bytes] | None = None,
) -> Iterator[Packed]:
    """Divide ranked rows among the shards; the chunk of shard `reporting` has whole events, to report late ones.

    `position` says where in its queue what matched is, by the audience's numbers of subscriptions unless it is given.
    Then an event's rows may be divided among several chunks, and of what they say nothing is left out. `apart` is what
    the rows of subscriptions that every event matches are worked out from, where they are not among the rows.
    `contents` are the whole events, to be kept by the shards that have rows of them.
    """
    if not len(events):
        return
    matched, sets = matched_numbers(rows, audience.position if position is None else position)
    shard = (rows.queue % shards).astype(np.uint16 if shards < 2**16 else np.int64)  # short numbers sort by counting
    order = np.argsort(shard, kind="stable")
    bounds = np.searchsorted(shard[order], np.arange(shards + 1))
    decaying = audience.decays(rows.queue)
    variant, newest = variants(events, rows, matched) if position is None else None, int(events.time.max())
    if apart is not None and variant is not None:
        variant ^= event_digests(*apart)
    for at in range(shards):
        own = order[bounds[at] : bounds[at + 1]]
        reports = at == reporting
        event = rows.event[own]
        named = np.zeros(len(events), bool)
        named[event] = True
        dense = None if apart is None else dense_rows(events, apart, audience.table_apart(at, shards))
        table = events if reports or dense is not None else events.bare_unless(named)
        if contents is not None or len(table.payload.values) or decaying[own].any():
            kept = None if contents is None else [content if named[at] else None for at, content in enumerate(contents)]
            table = with_payloads(table, rows, own[decaying[own]].tolist(), kept)
        chunk = MatchBatch(
            table,
            (rows.queue[own] // shards).astype(np.int32),
            event.astype(np.int32),
            rows.score[own],
            rows.expires[own],
            matched[own],
            sets,
            version,
            reports,
            variant,
            dense,
        )
        yield Packed(at, newest, chunk)


def dense_rows(events: EventTable, apart: UnfilteredRanks, table: RankTable) -> UnfilteredRows | None:
    """Return the rows of the subscriptions of a table with all events; None when there is no subscription."""
    if not len(table):
        return None
    only = np.ones(len(table), np.int32)  # the mask of the only position
    return UnfilteredRows(table, only, events.time, apart.expires, apart.features)


def variants(events: EventTable, rows: RankedRows, matched: Array) -> Array:
    """Return numbers, one for each event, that are equal for those that all queues take alike."""
    found = digests(events.values.starts, events.values.values, np.arange(len(events)))
    found ^= digests(events.payload.starts, events.payload.values, np.arange(len(events)))
    _digest_rows(rows.event, rows.queue, rows.score.view(np.int64), rows.expires, matched, found)
    return found


def matched_numbers(rows: RankedRows, position: Array) -> tuple[Array, Ragged]:
    """Return what matched as `batches` wants it: a mask of positions, or the number of a set where none fits."""
    numbers = np.zeros(len(rows.event), np.int32)
    _masks(rows.matched_start, position[rows.matched].astype(np.int64), WIDEST, numbers)
    sets = MatchedSets()
    for row in np.flatnonzero(numbers < 0).tolist():
        own = position[rows.matched[rows.matched_start[row] : rows.matched_start[row + 1]]]
        numbers[row] = sets.number(tuple(sorted(own.tolist())))
    return sets.export_numbers(numbers)


@compiled
def _digest_rows(event: Array, queue: Array, score: Array, expires: Array, matched: Array, found: Array) -> None:
    """Mix what rows say into the numbers of their events."""
    for row in range(len(event)):
        digest = mixed(mixed(found[event[row]], queue[row]), score[row])
        found[event[row]] = mixed(mixed(digest, expires[row]), matched[row])


@compiled
def _masks(starts: Array, positions: Array, bits: int, numbers: Array) -> None:
    """Write the mask of each row's positions, -1 where one does not fit."""
    for row in range(len(numbers)):
        mask = 0
        for at in range(starts[row], starts[row + 1]):
            if positions[at] >= bits:
                mask = -1
                break
            mask |= 1 << positions[at]
        numbers[row] = mask


ROWS = 2_000_000
"""Ranked rows that are gathered before they are packed: some 125 MB."""

ROWS_APART = 8
"""So many rows that are not written down count as one: they take room only where they are taken in."""


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
        features = Features.joined([known.features for known in self.apart])
        return UnfilteredRanks(features, np.concatenate([known.expires for known in self.apart]))

    def joined(self) -> tuple[EventTable, RankedRows]:
        """Return all events, and all rows."""
        if len(self.rows) == 1:
            return self.events[0], self.rows[0]
        first = np.cumsum([0, *map(len, self.events[:-1])])
        event, queue, rank, score, expires, _, matched = map(np.concatenate, zip(*self.rows, strict=True))
        event += np.repeat(first, [len(rows.event) for rows in self.rows])
        sizes = np.concatenate([np.diff(rows.matched_start) for rows in self.rows])
        starts = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
        return EventTable.joined(self.events), RankedRows(event, queue, rank, score, expires, starts, matched)


@dataclass(frozen=True, slots=True)
class PackTask:
    """What a task of a pipeline's match stage does."""

    reader: EventReader
    source: AudienceSource
    shards: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Return the packed rows of some batches."""
        version, audience = self.source.current()
        yield from changes_for(self.source, self.shards, version)
        reporting = task_partition() % self.shards
        gathered, events, matches, ends = _Gathered(), 0, 0, list[pa.RecordBatch]()
        given, apart = without_ends(batches, self.reader, ends), not self.reader.chooses
        for piece in matched_pieces(given, self.reader, audience, apart=apart):
            table = piece.events.table(audience.queues.wanted_content)
            known = UnfilteredRanks(piece.features, piece.events.expires)
            gathered.add(table, piece.rows, known, len(audience.apart) * apart)
            if self.source.keeps_contents:
                gathered.contents += piece.events.contents()
            events += len(table)
            matches += len(piece.rows.event)
            if apart and len(audience.apart):
                everybody = dense_rows(table, known, audience.table_apart(0, 1))
                matches += 0 if everybody is None else everybody.count()
            if piece.rejected:
                rejected = json.dumps(piece.rejected).encode()
                yield PackedRow(reporting, None, MessageKind.REJECTED, rejected).to_batch()
            if gathered.count >= ROWS:
                yield from self._packed(gathered, audience, version, reporting)
                gathered = _Gathered()
        if gathered.events:
            yield from self._packed(gathered, audience, version, reporting)
            yield counted(reporting, events, matches)
        if ends:
            yield from ends_for(self.shards)

    def _packed(
        self, gathered: _Gathered, audience: CompiledSubscribers, version: int, reporting: int
    ) -> Iterator[pa.RecordBatch]:
        apart = None if self.reader.chooses or not len(audience.apart) else gathered.joined_apart()
        contents = gathered.contents if self.source.keeps_contents else None
        chunks = chunks_of(
            *gathered.joined(), audience, version, self.shards, reporting, apart=apart, contents=contents
        )
        yield from map(Packed.to_batch, chunks)


def changes_for(source: AudienceSource, shards: int, version: int) -> Iterator[pa.RecordBatch]:
    """Return what the shards have to be told of changes; a shard ignores what it knows already."""
    plan = source.changes(shards)
    if plan is not None:
        since, changes = plan
        for shard, own in changes.items():
            plan_of_shard = packed_plan(own, version=version, since=since)
            yield PackedRow(shard, None, MessageKind.CHANGES, plan_of_shard).to_batch()


def counted(reporting: int, events: int, matches: int) -> pa.RecordBatch:
    """Return how many events and matches there were, as a packed row."""
    counts = json.dumps({"events": events, "matches": matches}).encode()
    return PackedRow(reporting, None, MessageKind.COUNTS, counts).to_batch()


def ends_for(shards: int) -> Iterator[pa.RecordBatch]:
    """Return what tells every shard that nothing more is to come."""
    return (PackedRow(shard, None, MessageKind.END, b"").to_batch() for shard in range(shards))


def task_partition() -> int:
    """Return the partition of the running task."""
    context = TaskContext.get()
    return 0 if context is None else context.partitionId()
