"""Rows of matches as packed rows for the stateful stage: `PackTask` for matches that are already a DataFrame.

A task gathers its rows, finds the events and queues that they name, and gives one packed row for each shard; with very
many rows, one for every `ROWS`. Rows of one event may come in any order, but to one task.

Cost: a few sorts of the rows, and one of the audience's names for each `ROWS` of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rankcast.arrays import Array
from rankcast.delivery.stream.event_tables import EventTable, Ragged
from rankcast.model.errors import InvalidEventError, UnknownIdError, shown
from rankcast.model.times import NEVER
from rankcast.ranking.batch import RankedRows
from rankcast.spark.delivery.stage_input import MessageKind, counts_to_bytes
from rankcast.spark.matching.chunks import chunks_of
from rankcast.spark.matching.compiled_subscribers import CompiledSubscribers
from rankcast.spark.matching.packed_rows import ROWS, PackedRow, as_batch, changes_for, task_partition
from rankcast.spark.matching.shipping import AudienceSource
from rankcast.spark.matching.stage import CONTENT
from rankcast.spark.sources.events import CARRIED, END

NO_CONTENT = (
    f"matches: no column {shown(CONTENT)}, and some subscribers want what they get to be diverse; "
    "get the matches with match(..., for_delivery=True), and keep that column"
)


@dataclass(frozen=True, slots=True)
class PackMatchesTask:
    """What a task does with matches; `names` are their columns."""

    source: AudienceSource
    shards: int
    names: tuple[str, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Return the packed rows of some batches of matches."""
        version, audience = self.source.current()
        if audience.queues.wanted_content and CONTENT not in self.names:
            raise InvalidEventError(NO_CONTENT)
        yield from map(as_batch, changes_for(self.source, self.shards, version))
        held, count, is_end = list[pa.RecordBatch](), 0, False
        for given in batches:
            batch, ends = self._without_ends(given)
            is_end |= ends
            held.append(batch)
            count += batch.num_rows
            if count >= ROWS:
                yield from self._packed(held, audience, version)
                held, count = [], 0
        if count:
            yield from self._packed(held, audience, version)
        if is_end:
            yield from (as_batch(PackedRow(shard, None, MessageKind.END, b"")) for shard in range(self.shards))

    def _without_ends(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, bool]:
        if END not in self.names:
            return batch, False
        marked = batch.column(self.names.index(END)).fill_null(False)
        return batch.filter(pc.invert(marked)), bool(pc.any(marked, min_count=0).as_py())

    def _packed(
        self, held: list[pa.RecordBatch], audience: CompiledSubscribers, version: int
    ) -> Iterator[pa.RecordBatch]:
        table = pa.Table.from_batches(held)
        columns = {name: _one(table.column(at)) for at, name in enumerate(self.names)}
        reporting = task_partition() % self.shards
        events, rows = ranked_rows(columns, audience)
        position: Array = np.arange(rows.matched.max(initial=-1) + 1)
        for packed in chunks_of(events, rows, audience, version, self.shards, reporting, position):
            yield as_batch(PackedRow(packed.shard, packed.newest, MessageKind.CHUNK, packed.chunk.to_bytes()))
        yield as_batch(
            PackedRow(reporting, None, MessageKind.COUNTS, counts_to_bytes(events=len(events), matches=len(rows.event)))
        )


def ranked_rows(columns: dict[str, Any], audience: CompiledSubscribers) -> tuple[EventTable, RankedRows]:
    """Return the events of some matches, each once, and the matches; what matched is given by position in its queue.

    The rank orders events, and the score where it decays.
    """
    first, event = _events(columns)
    queue = _queues(columns, audience)
    starts, matched = _matched(columns["matched"], queue, audience)
    rank = _numbers(columns, "rank")
    score = np.where(audience.decays(queue), _numbers(columns, "score"), rank)
    rows = RankedRows(event, queue, rank, score, _micros(columns["expires"]), starts, matched)
    chosen = {name: column.take(pa.array(first)) for name, column in columns.items()}
    table = EventTable.of(
        _micros(chosen["time"]),
        Ragged.from_arrow(chosen["source"]),
        Ragged.from_arrow(chosen["id"]),
        contents=_contents(chosen[CONTENT]) if CONTENT in chosen and audience.queues.wanted_content else None,
        payload=Ragged.from_arrow(chosen[CARRIED]) if CARRIED in chosen else None,
    )
    return table, rows


def _events(columns: dict[str, Any]) -> tuple[Array, Array]:
    """Return the first row of each event (identity and time), and the event of each row."""
    if columns["time"].null_count:
        raise InvalidEventError("matches: a row has no time")
    source, _ = _coded(columns["source"])
    own, ids = _coded(columns["id"])
    _, identity = np.unique(source * max(len(ids), 1) + own, return_inverse=True)
    instants, time = np.unique(_micros(columns["time"]), return_inverse=True)
    _, first, event = np.unique(identity * len(instants) + time, return_index=True, return_inverse=True)
    return first, event.astype(np.int64)


def _queues(columns: dict[str, Any], audience: CompiledSubscribers) -> Array:
    """Return the number of each row's queue."""
    subscriber, people = _coded(columns["subscriber"])
    own, names = _coded(columns["subscription"].fill_null(""))
    queues = audience.queues
    of_people = _indexes(queues.subscriber_texts, people)
    of_names = _indexes(queues.subscription_texts.fill_null(""), names)
    known = np.where((of_people < 0) | (of_names < 0), -1, of_people * len(names) + of_names)
    found = _places(known, subscriber * len(names) + own)
    if (found < 0).any():
        row = int((found < 0).argmax())
        key = (columns["subscriber"][row].as_py(), columns["subscription"][row].as_py())
        raise UnknownIdError(f"matches: there is no queue {shown(key)} among these subscribers")
    return found


def _matched(lists: Any, queue: Array, audience: CompiledSubscribers) -> tuple[Array, Array]:
    """Return where the names of each row begin, and the positions of these names in the row's queue."""
    starts = _starts(lists)
    flat = lists.flatten()
    code, names = _coded(flat)
    queues = audience.queues
    owner = np.repeat(np.arange(len(queues)), np.diff(queues.name_start))
    of_names = _indexes(queues.name_texts, names)
    known = np.where(of_names < 0, -1, owner * len(names) + of_names)
    wanted = np.repeat(queue, np.diff(starts))
    found = _places(known, wanted * len(names) + code)
    if (found < 0).any():
        at = int((found < 0).argmax())
        key = queues.keys[int(wanted[at])]
        raise UnknownIdError(f"matches: subscriber {shown(key.subscriber)} has no subscription {flat[at]} there")
    return starts, found - queues.name_start[wanted]


def _numbers(columns: dict[str, Any], name: str) -> Array:
    column = columns[name]
    if column.null_count:
        raise InvalidEventError(f"matches: a row has no {name}")
    return np.asarray(column, np.float64)


def _contents(lists: Any) -> tuple[Ragged, Ragged]:
    starts, pairs = _starts(lists), lists.flatten()
    attributes, values = (np.asarray(column, np.int64) for column in pairs.flatten())
    return Ragged(starts, attributes), Ragged(starts, values)


def _one(column: Any) -> Any:
    """Return a column in one piece."""
    found = column.combine_chunks()
    return pa.concat_arrays(found.chunks) if isinstance(found, pa.ChunkedArray) else found


def _coded(column: Any) -> tuple[Array, Any]:
    """Return the number of each row's text, and the texts by number."""
    encoded = column.dictionary_encode()
    return np.asarray(encoded.indices.fill_null(-1), np.int64), encoded.dictionary


def _indexes(texts: Any, among: Any) -> Array:
    """Return the place of each text among others, -1 for one that is not there."""
    return np.asarray(pc.index_in(texts, value_set=among).fill_null(-1), np.int64)


def _places(known: Array, wanted: Array) -> Array:
    """Return where numbers are among the known ones, -1 for one that is not there."""
    if not len(known):
        return np.full(len(wanted), -1, np.int64)
    order = np.argsort(known, kind="stable")
    found: Array = order[np.minimum(np.searchsorted(known, wanted, sorter=order), len(known) - 1)]
    return np.where((known[found] == wanted) & (wanted >= 0), found, -1)


def _starts(lists: Any) -> Array:
    lengths = np.asarray(pc.list_value_length(lists).fill_null(0), np.int64)
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))


def _micros(times: Any) -> Array:
    return np.asarray(times.cast(pa.timestamp("us", "UTC")).cast(pa.int64()).fill_null(NEVER), np.int64)
