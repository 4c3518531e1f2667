"""What the stateful stage gives, as rows: notifications, late events, rejected rows and counts in one table by kind.

Queues become subscribers and subscriptions, and positions the names of what matched, by the audience of the running
batch: queues and names are only ever added, so any later version knows those of an earlier one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import types as T  # noqa: N812 (the name that all of Spark's documentation has)

from rankcast.arrays import Array
from rankcast.compiling import compiled
from rankcast.delivery.stream.batches import DeliveryBatch, MatchBatch
from rankcast.delivery.stream.event_tables import Ragged
from rankcast.delivery.stream.matched_sets import SETS, positions
from rankcast.spark.delivery.payloads import Payload
from rankcast.spark.delivery.stage_input import MessageKind, counts_from_bytes
from rankcast.spark.matching.chunks import MASK_BITS
from rankcast.spark.matching.compiled_subscribers import CompiledSubscribers
from rankcast.spark.matching.packed_rows import rejected_from_bytes
from rankcast.spark.matching.shipping import AudienceSource
from rankcast.spark.matching.stage import timestamps
from rankcast.spark.sources.events import CARRIED

NOTIFICATION, LATE, REJECTED, COUNTS = "notification", "late", "rejected", "counts"
"""The kinds of rows."""

UNPACKED_SCHEMA = T.StructType(
    [
        T.StructField("kind", T.StringType(), nullable=False),
        T.StructField("subscriber", T.StringType()),
        T.StructField("subscription", T.StringType()),
        T.StructField("source", T.StringType()),
        T.StructField("id", T.StringType()),
        T.StructField("time", T.TimestampType()),
        T.StructField("rank", T.DoubleType()),
        T.StructField("matched", T.ArrayType(T.StringType(), containsNull=False)),
        T.StructField("delivered", T.TimestampType()),
        T.StructField("reason", T.StringType()),
        T.StructField("original", T.StringType()),
        T.StructField("events", T.LongType()),
        T.StructField("matches", T.LongType()),
        T.StructField("duplicates", T.LongType()),
        T.StructField(CARRIED, T.StringType()),
    ]
)

_TIME = pa.timestamp("us", "UTC")
_ARROW = {
    "string": pa.string(),
    "timestamp": _TIME,
    "double": pa.float64(),
    "bigint": pa.int64(),
    "array<string>": pa.list_(pa.string()),
}
_TYPES = {name: _ARROW[UNPACKED_SCHEMA[name].dataType.simpleString()] for name in UNPACKED_SCHEMA.fieldNames()}


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
                elif kind == MessageKind.LATE:
                    yield _late(MatchBatch.from_bytes(memoryview(data)))
                elif kind == MessageKind.REJECTED:
                    rows = rejected_from_bytes(data.to_pybytes())
                    yield _rows(
                        REJECTED, len(rows), reason=[one.reason for one in rows], original=[one[1] for one in rows]
                    )
                elif kind == MessageKind.COUNTS:
                    counted = counts_from_bytes(data.to_pybytes())
                    yield _rows(COUNTS, 1, **{name: [count] for name, count in counted.items()})


def _rows(kind: str, count: int, **columns: Any) -> pa.RecordBatch:
    """Return rows of one kind with some of the columns; the others are null."""
    arrays = []
    for name, wanted in _TYPES.items():
        found = columns.get(name)
        if name == "kind":
            arrays.append(pa.array([kind]).take(pa.array(np.zeros(count, np.int64))))
        elif found is None:
            arrays.append(pa.nulls(count, wanted))
        else:
            arrays.append(found if isinstance(found, pa.Array) else pa.array(found, wanted))
    return pa.RecordBatch.from_arrays(arrays, names=list(_TYPES))


def _late(chunk: MatchBatch) -> pa.RecordBatch:
    events = chunk.events
    identity = {"source": events.source.to_arrow(), "id": events.id.to_arrow(), "time": timestamps(events.time)}
    return _rows(LATE, len(events), **identity, **_carried(events.payload, None))


def notification_rows(notices: DeliveryBatch, shard: int, shards: int, audience: CompiledSubscribers) -> pa.RecordBatch:
    """Return what a shard delivers as rows of UNPACKED_SCHEMA."""
    queue = notices.queue.astype(np.int64) * shards + shard
    event = pa.array(notices.event)
    queues = audience.queues
    starts, names = matched_names(notices, queue, audience)
    return _rows(
        NOTIFICATION,
        len(notices),
        subscriber=queues.subscriber_texts.take(pa.array(queue)),
        subscription=queues.subscription_texts.take(pa.array(queue)),
        source=notices.events.source.to_arrow().take(event),
        id=notices.events.id.to_arrow().take(event),
        time=timestamps(notices.events.time[notices.event]),
        rank=pa.array(_ranks(notices, queue, audience)),
        matched=pa.ListArray.from_arrays(pa.array(starts, pa.int32()), queues.name_texts.take(pa.array(names))),
        delivered=timestamps(notices.time),
        **_carried(notices.events.payload, event),
    )


def _carried(payload: Ragged, event: Any) -> dict[str, Any]:
    """Return what events carry along, for the rows of some events or for all of them."""
    if not len(payload.values):
        return {}
    texts = [Payload.from_bytes(one).carried or None for one in payload.to_arrow(text=False).to_pylist()]
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
    matched = notices.matched.astype(np.int64)
    first = audience.queues.name_start[queue]
    starts = np.zeros(len(queue) + 1, np.int64)
    listed = {int(row): list(positions(int(matched[row]), notices.sets)) for row in np.flatnonzero(matched >= SETS)}
    for row, own in listed.items():
        starts[row + 1] = len(own)
    _count_bits(matched, SETS, MASK_BITS, starts)
    names = np.zeros(int(starts[-1]), np.int64)
    _write_bits(matched, SETS, MASK_BITS, np.ascontiguousarray(first), starts, names)
    for row, own in listed.items():
        names[starts[row] : starts[row + 1]] = first[row] + np.array(own, np.int64)
    return starts, names


@compiled
def _count_bits(matched: Array, sets: int, bits: int, starts: Array) -> None:
    """Make the counts of sets, and of the bits of masks, the places where each row's begin."""
    for row in range(len(matched)):
        if matched[row] < sets:
            for bit in range(bits):
                starts[row + 1] += (matched[row] >> bit) & 1
        starts[row + 1] += starts[row]


@compiled
def _write_bits(matched: Array, sets: int, bits: int, first: Array, starts: Array, names: Array) -> None:
    """Write the positions of the bits of masks."""
    for row in range(len(matched)):
        if matched[row] < sets:
            at = starts[row]
            for bit in range(bits):
                if (matched[row] >> bit) & 1:
                    names[at] = first[row] + bit
                    at += 1
