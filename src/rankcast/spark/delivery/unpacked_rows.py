"""Packed rows through the stateful stage and back to rows, by kind: notifications, lists, late events, and so on.

Queues become subscribers and subscriptions, and positions the names of what matched, by the audience of the running
batch: queues and names are only ever added, so any later version knows those of an earlier one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (the name that all of Spark's documentation has)
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema

from rankcast.arrays import Array
from rankcast.compiling import compiled
from rankcast.delivery.stream.batches import DeliveryBatch, ListBatch, MatchBatch
from rankcast.delivery.stream.event_tables import Ragged
from rankcast.delivery.stream.matched_sets import SETS, WIDEST
from rankcast.model.errors import InvalidEventError, shown
from rankcast.spark.delivery.rerank import Payload
from rankcast.spark.delivery.stage import deliver_packed
from rankcast.spark.delivery.state import MessageKind
from rankcast.spark.matching.compiled_subscribers import CompiledSubscribers
from rankcast.spark.matching.shipping import AudienceSource
from rankcast.spark.matching.stage import timestamps
from rankcast.spark.sources.events import CARRIED, carried_columns

NOTIFICATION, LIST, LATE, REJECTED, COUNTS = "notification", "list", "late", "rejected", "counts"
"""The kinds of rows."""

_TIME = pa.timestamp("us", "UTC")
_TEXTS = pa.list_(pa.field("item", pa.string(), nullable=False))
_UNPACKED = pa.schema(
    [
        pa.field("kind", pa.string(), nullable=False),
        ("subscriber", pa.string()),
        ("subscription", pa.string()),
        ("source", pa.string()),
        ("id", pa.string()),
        ("time", _TIME),
        ("rank", pa.float64()),
        ("matched", _TEXTS),
        ("delivered", _TIME),
        ("handed_over", _TIME),
        ("place", pa.int32()),
        ("as_of", _TIME),
        ("reason", pa.string()),
        ("original", pa.string()),
        ("events", pa.int64()),
        ("matches", pa.int64()),
        ("duplicates", pa.int64()),
        ("capped", pa.int64()),
        ("muted", pa.int64()),
        (CARRIED, pa.string()),
    ]
)
UNPACKED_SCHEMA = from_arrow_schema(_UNPACKED)

_OWN = ("subscriber", "subscription")
_EVENT = ("source", "id", "time", "rank", "matched")

NOTIFICATION_COLUMNS = (*_OWN, *_EVENT, "delivered", "handed_over")

LIST_COLUMNS = (*_OWN, "place", *_EVENT, "as_of")
"""Of the lists that are read on demand: the entries of each that has changed, from place 1 on. One that is empty now
has place 0, and nothing there."""


def outputs_of(
    packed: DataFrame, source: AudienceSource, *, shards: int, lateness: timedelta, carried: Sequence[T.StructField]
) -> DataFrame:
    """Return everything that comes of packed rows (`stage.INPUT_SCHEMA`), with the columns that are carried along."""
    delivered = deliver_packed(packed, source, shards=shards, lateness=lateness)
    unpacked = delivered.mapInArrow(UnpackTask(source, shards), UNPACKED_SCHEMA)
    if not carried:
        return unpacked.drop(CARRIED)
    own = [name for name in UNPACKED_SCHEMA.fieldNames() if name != CARRIED]
    return unpacked.select(*own, *carried_columns(F.col(CARRIED), T.StructType(list(carried))))


def notifications_of(outputs: DataFrame, carry: Sequence[str]) -> DataFrame:
    """Return the notifications among all outputs."""
    wanted = [F.col(f"`{name}`") for name in (*NOTIFICATION_COLUMNS, *carry)]
    return outputs.where(F.col("kind") == NOTIFICATION).select(*wanted)


def check_carried(carry: Sequence[str]) -> None:
    """Raise unless notifications can have further columns of these names."""
    for name in carry:
        if name in UNPACKED_SCHEMA.fieldNames():
            raise InvalidEventError(f"carry: notifications have a column {shown(name)} of their own; rename it")


@dataclass(frozen=True, slots=True)
class UnpackTask:
    """What the last stage of a pipeline does with the packed rows of a task."""

    source: AudienceSource
    shards: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Return the rows of some packed ones."""
        audience: CompiledSubscribers | None = None
        for batch in batches:
            for row in range(batch.num_rows):
                kind, data = batch.column("kind")[row].as_py(), batch.column("data")[row].as_buffer()
                if kind == MessageKind.NOTICES:
                    audience = audience or self.source.current()[1]
                    notices = DeliveryBatch.from_bytes(memoryview(data))
                    yield notification_rows(notices, batch.column("shard")[row].as_py(), self.shards, audience)
                elif kind == MessageKind.LISTS:
                    audience = audience or self.source.current()[1]
                    lists = ListBatch.from_bytes(memoryview(data))
                    yield from list_rows(lists, batch.column("shard")[row].as_py(), self.shards, audience)
                elif kind == MessageKind.LATE:
                    yield _late(MatchBatch.from_bytes(memoryview(data)))
                elif kind == MessageKind.REJECTED:
                    reasons, originals = zip(*json.loads(data.to_pybytes()), strict=True)
                    yield _rows(REJECTED, len(reasons), reason=reasons, original=originals)
                elif kind == MessageKind.COUNTS:
                    counted = json.loads(data.to_pybytes())
                    yield _rows(COUNTS, 1, **{name: [count] for name, count in counted.items()})


def _rows(kind: str, count: int, **columns: Any) -> pa.RecordBatch:
    """Return rows of one kind with some of the columns; the others are null."""
    columns["kind"] = pa.array([kind]).take(pa.array(np.zeros(count, np.int64)))
    arrays = []
    for field in _UNPACKED:
        found = columns.get(field.name)
        if found is None:
            arrays.append(pa.nulls(count, field.type))
        else:
            arrays.append(found if isinstance(found, pa.Array) else pa.array(found, field.type))
    return pa.RecordBatch.from_arrays(arrays, names=_UNPACKED.names)


def _late(chunk: MatchBatch) -> pa.RecordBatch:
    events = chunk.events
    identity = {"source": events.source.to_arrow(), "id": events.id.to_arrow(), "time": timestamps(events.time)}
    return _rows(LATE, len(events), **identity, **_carried(events.payload, None))


def notification_rows(notices: DeliveryBatch, shard: int, shards: int, audience: CompiledSubscribers) -> pa.RecordBatch:
    """Return what a shard delivers as rows of UNPACKED_SCHEMA."""
    queue = notices.queue.astype(np.int64) * shards + shard
    instants = {"delivered": timestamps(notices.time), "handed_over": timestamps(notices.instants)}
    return _rows(NOTIFICATION, len(notices), **_entries(notices, queue, audience), **instants)


def list_rows(lists: ListBatch, shard: int, shards: int, audience: CompiledSubscribers) -> Iterator[pa.RecordBatch]:
    """Return lists of a shard that are read on demand as rows of UNPACKED_SCHEMA, with LIST_COLUMNS."""
    held = lists.entries.queue.astype(np.int64)
    places = 1 + np.arange(len(held)) - np.searchsorted(held, held)
    queue, emptied = held * shards + shard, np.setdiff1d(lists.queue, held) * shards + shard
    entries = {**_entries(lists.entries, queue, audience), "place": places}
    nothing = {**_owners(emptied, audience), "place": np.zeros(len(emptied), np.int32)}
    for size, columns in ((len(queue), entries), (len(emptied), nothing)):
        yield _rows(LIST, size, **columns, as_of=timestamps(np.full(size, lists.as_of, np.int64)))


def _entries(notices: DeliveryBatch, queue: Array, audience: CompiledSubscribers) -> dict[str, Any]:
    """Return the columns that say which events these are and for whom; the queues are numbered among all."""
    event = pa.array(notices.event)
    starts, names = matched_names(notices, queue, audience)
    texts = audience.queues.name_texts.take(pa.array(names))
    return {
        **_owners(queue, audience),
        "source": notices.events.source.to_arrow().take(event),
        "id": notices.events.id.to_arrow().take(event),
        "time": timestamps(notices.events.time[notices.event]),
        "rank": pa.array(_ranks(notices, queue, audience)),
        "matched": pa.ListArray.from_arrays(pa.array(starts, pa.int32()), texts, _TEXTS),
        **_carried(notices.events.payload, event),
    }


def _owners(queue: Array, audience: CompiledSubscribers) -> dict[str, Any]:
    """Return the columns that say whose queues these are."""
    texts = {"subscriber": audience.queues.subscriber_texts, "subscription": audience.queues.subscription_texts}
    return {name: column.take(pa.array(queue)) for name, column in texts.items()}


def _carried(payload: Ragged, event: Any) -> dict[str, Any]:
    """Return what events carry along, for the rows of some events or for all of them."""
    if not len(payload.values):
        return {}
    texts = [Payload.from_bytes(packed).carried or None for packed in payload.to_arrow(text=False).to_pylist()]
    kept = pa.array(texts, pa.binary()).cast(pa.string())
    return {CARRIED: kept if event is None else kept.take(event)}


def _ranks(notices: DeliveryBatch, queue: Array, audience: CompiledSubscribers) -> Array:
    """Return the rank of each delivery: its score, unless that decays."""
    decaying = np.flatnonzero(audience.decays(queue))
    if not len(decaying):
        return notices.score
    ranks: Array = notices.score.copy()
    payload = notices.events.payload.to_arrow(text=False)
    known: dict[int, Mapping[int, float]] = {}
    for row in decaying.tolist():
        event = int(notices.event[row])
        if event not in known:
            known[event] = Payload.from_bytes(payload[event].as_py()).ranks
        ranks[row] = known[event].get(int(queue[row]), ranks[row])  # it may have been held since before the decay
    return ranks


def matched_names(notices: DeliveryBatch, queue: Array, audience: CompiledSubscribers) -> tuple[Array, Array]:
    """Return where the names of each delivery's subscriptions begin, and which of the queues' names they are."""
    starts = np.zeros(len(queue) + 1, np.int64)
    first = np.ascontiguousarray(audience.queues.name_start[queue])
    sets = notices.sets.starts.astype(np.int64), notices.sets.values.astype(np.int64)
    return starts, _names(notices.matched.astype(np.int64), first, SETS, WIDEST, *sets, starts)


@compiled
def _names(
    matched: Array, first: Array, sets: int, bits: int, set_starts: Array, set_values: Array, starts: Array
) -> Array:
    """Write where the names of rows begin, and return the names: those of the bits of masks, and those of sets."""
    for row in range(len(matched)):
        starts[row + 1] = starts[row]
        if matched[row] < sets:
            for bit in range(bits):
                starts[row + 1] += (matched[row] >> bit) & 1
        else:
            starts[row + 1] += set_starts[matched[row] - sets + 1] - set_starts[matched[row] - sets]
    names = np.empty(starts[len(matched)], np.int64)
    for row in range(len(matched)):
        at = starts[row]
        if matched[row] < sets:
            for bit in range(bits):
                if (matched[row] >> bit) & 1:
                    names[at] = first[row] + bit
                    at += 1
        else:
            place = set_starts[matched[row] - sets]
            for number in range(starts[row + 1] - at):
                names[at + number] = first[row] + set_values[place + number]
    return names
