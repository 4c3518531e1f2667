"""The delivery as a stage of its own: matches in, notifications out, with whatever a user does in between.

```python
audience = CompiledSubscribers.of(subscribers)
matches = match(events, audience, for_delivery=True)
notifications = deliver(matches.where("rank > 0.1"), audience)
```

Without a step in between the result is that of `Pipeline(subscribers).transform(events)`, for tables and for streams; a
pipeline costs less, because it packs matches as they are found. What is different: a stage that sees matches alone does
not know of events that nobody wants. They neither move the watermark of a stream, nor are they reported when they are
late, nor do they make a later event of the same identity a repetition.

A task gathers its rows, finds the events and queues that they name, and gives one packed row for each shard; with very
many rows, one for every `ROWS`. Rows of one event may come in any order, but to one task. Cost: a few sorts of the
rows, and one of the audience's names for each `ROWS` of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (the name that all of Spark's documentation has)
from pyspark.sql import types as T  # noqa: N812

from rankcast.arrays import Array
from rankcast.delivery.stream.event_tables import EventTable, Ragged
from rankcast.model.errors import InvalidEventError, UnknownIdError, shown
from rankcast.ranking.batch import RankedRows
from rankcast.spark.delivery.live_state import clean
from rankcast.spark.delivery.stage import INPUT_SCHEMA
from rankcast.spark.delivery.unpacked_rows import check_carried, notifications_of, outputs_of
from rankcast.spark.matching.compiled_subscribers import CompiledSubscribers
from rankcast.spark.matching.packing import ROWS, Packed, changes_for, chunks_of, counted, ends_for, task_partition
from rankcast.spark.matching.shipping import AudienceSource, source_of
from rankcast.spark.matching.stage import CONTENT, CONTENT_FIELD, MATCH_SCHEMA
from rankcast.spark.pipeline import SHARDS
from rankcast.spark.sources.event_values import as_microseconds
from rankcast.spark.sources.events import CARRIED, END, carried_json
from rankcast.spark.subscribers.changing import ChangingSubscribers

_RANKS = ("rank", "score")

NO_CONTENT = (
    f"matches: no column {shown(CONTENT)}, and some subscribers want what they get to be diverse; "
    "get the matches with match(..., for_delivery=True), and keep that column"
)


def deliver(
    matches: DataFrame,
    audience: CompiledSubscribers | ChangingSubscribers | AudienceSource,
    *,
    lateness: timedelta = timedelta(0),
    shards: int = SHARDS,
    carry: Sequence[str] = (),
) -> DataFrame:
    """Return the notifications that policies make of matches: NOTIFICATION_COLUMNS, and what is carried along.

    `matches` is what `match(..., for_delivery=True)` returns, or what is left of it after
    steps that leave out rows or change ranks. Events are ordered by their rank; where ranks decay, by the score, which
    is to be changed with it: log2(f) more for a rank times f. The audience is the one that was matched. `carry` names
    further columns of the matches, the same in all rows of an event. Rows whose column `rankcast_end` is true say that
    a stream ends: steps must let them pass. `lateness` and `shards` stay the same for the life of a checkpoint.
    """
    outputs = deliver_outputs(matches, audience, lateness=lateness, shards=shards, carry=carry)
    return notifications_of(outputs, carry)


def deliver_outputs(
    matches: DataFrame,
    audience: CompiledSubscribers | ChangingSubscribers | AudienceSource,
    *,
    lateness: timedelta = timedelta(0),
    shards: int = SHARDS,
    carry: Sequence[str] = (),
) -> DataFrame:
    """Return everything that comes of matches as `Pipeline.outputs` does: notifications, late events and counts.

    The rows of an event are brought together first, wherever steps have left them.
    """
    if isinstance(audience, CompiledSubscribers) and audience.queues.wanted_content and CONTENT not in matches.columns:
        raise InvalidEventError(NO_CONTENT)
    clean()
    chosen = _columns(matches, carry)
    source = audience.source if isinstance(audience, ChangingSubscribers) else source_of(audience, matches.sparkSession)
    # A step may have scattered the rows of an event; where ranks decay, they travel with the event, all together.
    selected = matches.select(*[column.alias(name) for name, column in chosen.items()]).repartition("source", "id")
    packed = selected.mapInArrow(PackMatchesTask(source, shards, tuple(chosen)), INPUT_SCHEMA)
    carried = [matches.schema[name] for name in carry]
    return outputs_of(packed, source, shards=shards, lateness=lateness, carried=carried)


def _columns(matches: DataFrame, carry: Sequence[str]) -> dict[str, Column]:
    """Return the columns that delivery needs; raise InvalidEventError for matches that are none."""
    found = {field.name: field.dataType for field in matches.schema.fields}
    wanted = {field.name: field.dataType for field in MATCH_SCHEMA.fields}
    if CONTENT in found:
        wanted[CONTENT] = CONTENT_FIELD.dataType
    if END in found:
        wanted[END] = T.BooleanType()
    for name, kind in wanted.items():
        if name not in found:
            raise InvalidEventError(f"matches: no column {shown(name)}; expected those that rankcast.spark.match gives")
        is_rank = name in _RANKS and isinstance(found[name], T.NumericType)
        if found[name].simpleString() != kind.simpleString() and not is_rank:
            raise InvalidEventError(
                f"matches: the column {shown(name)} is {found[name].simpleString()}; expected {kind.simpleString()}"
            )
    for name in carry:
        if name not in found:
            raise InvalidEventError(f"carry: the matches have no column {shown(name)}; they have {', '.join(found)}")
    check_carried(carry)
    chosen = {name: F.col(name).cast("double") if name in _RANKS else F.col(name) for name in wanted}
    return {**chosen, CARRIED: carried_json(carry)} if carry else chosen


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
        yield from changes_for(self.source, self.shards, version)
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
            yield from ends_for(self.shards)

    def _without_ends(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, bool]:
        if END not in self.names:
            return batch, False
        marked = batch.column(self.names.index(END)).fill_null(False)
        return batch.filter(pc.invert(marked)), bool(pc.any(marked, min_count=0).as_py())

    def _packed(
        self, held: list[pa.RecordBatch], audience: CompiledSubscribers, version: int
    ) -> Iterator[pa.RecordBatch]:
        table = pa.Table.from_batches(held)
        columns = {name: _in_one_piece(table.column(at)) for at, name in enumerate(self.names)}
        reporting = task_partition() % self.shards
        events, rows = ranked_rows(columns, audience)
        position: Array = np.arange(rows.matched.max(initial=-1) + 1)
        chunks = chunks_of(events, rows, audience, version, self.shards, reporting, position)
        yield from map(Packed.to_batch, chunks)
        yield counted(reporting, len(events), len(rows.event))


def ranked_rows(columns: dict[str, Any], audience: CompiledSubscribers) -> tuple[EventTable, RankedRows]:
    """Return the events of some matches, each once, and the matches; what matched is given by position in its queue.

    The rank orders events, and the score where it decays.
    """
    first, event = _events(columns)
    queue = _queues(columns, audience)
    starts, matched = _matched(columns["matched"], queue, audience)
    rank = _numbers(columns, "rank")
    score = np.where(audience.decays(queue), _numbers(columns, "score"), rank)
    rows = RankedRows(event, queue, rank, score, as_microseconds(columns["expires"]), starts, matched)
    chosen = {name: column.take(pa.array(first)) for name, column in columns.items()}
    table = EventTable.of(
        as_microseconds(chosen["time"]),
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
    _, identity = np.unique(source * max(ids, 1) + own, return_inverse=True)
    instants, time = np.unique(as_microseconds(columns["time"]), return_inverse=True)
    _, first, event = np.unique(identity * len(instants) + time, return_index=True, return_inverse=True)
    return first, event.astype(np.int64)


def _queues(columns: dict[str, Any], audience: CompiledSubscribers) -> Array:
    """Return the number of each row's queue."""
    queues = audience.queues
    known = _pairs(queues.subscriber_texts, queues.subscription_texts.fill_null(""))
    found = _places(_pairs(columns["subscriber"], columns["subscription"].fill_null("")), known)
    if (found < 0).any():
        row = int((found < 0).argmax())
        key = (columns["subscriber"][row].as_py(), columns["subscription"][row].as_py())
        raise UnknownIdError(f"matches: there is no queue {shown(key)} among these subscribers")
    return found


def _matched(lists: Any, queue: Array, audience: CompiledSubscribers) -> tuple[Array, Array]:
    """Return where the names of each row begin, and the positions of these names in the row's queue."""
    starts, flat, queues = _starts(lists), lists.flatten(), audience.queues
    owner = np.repeat(np.arange(len(queues)), np.diff(queues.name_start))
    wanted = np.repeat(queue, np.diff(starts))
    known = pc.binary_join_element_wise(pa.array(owner).cast(pa.string()), queues.name_texts, ":")
    found = _places(pc.binary_join_element_wise(pa.array(wanted).cast(pa.string()), flat, ":"), known)
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


def _in_one_piece(column: Any) -> Any:
    """Return a column in one piece."""
    found = column.combine_chunks()
    return pa.concat_arrays(found.chunks) if isinstance(found, pa.ChunkedArray) else found


def _coded(column: Any) -> tuple[Array, int]:
    """Return the number of each row's text, and how many texts there are."""
    encoded = column.dictionary_encode()
    return np.asarray(encoded.indices.fill_null(-1), np.int64), len(encoded.dictionary)


def _pairs(first: Any, second: Any) -> Any:
    """Return texts that differ where pairs do: the length of the first says where the second begins."""
    return pc.binary_join_element_wise(pc.binary_length(first).cast(pa.string()), first, second, ":")


def _places(texts: Any, known: Any) -> Array:
    """Return where texts are among the known ones, -1 for one that is not there."""
    return np.asarray(pc.index_in(texts, value_set=known).fill_null(-1), np.int64)


def _starts(lists: Any) -> Array:
    lengths = np.asarray(pc.list_value_length(lists).fill_null(0), np.int64)
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
