"""The match stage: events in, one row for each event and queue that wants it out.

Each task reads its Arrow batches as events, matches them with the index of its audience, leaves out those whom an event
is not for (`rankcast.spark.matching.choosing`) and ranks what matches; nothing is shuffled. The order of rows is that
of the events and, for one event, of the queues; all matches of an event come from one task, together.

Cost: that of the index, plus some 0.1 microseconds per match. Batches are taken in pieces of about `MATCHES` matches,
so that memory stays bounded however many subscriptions an event satisfies.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812 (the name that all of Spark's documentation has)
from pyspark.sql.pandas.types import from_arrow_schema, from_arrow_type

from rankcast.arrays import Array
from rankcast.delivery.engine.contents import WantedContent
from rankcast.model.advertisements import Advertisement
from rankcast.model.errors import InvalidEventError, shown
from rankcast.model.schema import Schema
from rankcast.model.times import NEVER
from rankcast.ranking.batch import Features, RankedRows, rank_batch
from rankcast.spark.matching.choosing import chosen_matches
from rankcast.spark.matching.compiled_subscribers import CompiledSubscribers
from rankcast.spark.matching.shipping import AudienceSource, source_of
from rankcast.spark.sources.event_reader import EventBatch, EventReader
from rankcast.spark.sources.event_values import REJECTED_SCHEMA, RejectedRow
from rankcast.spark.sources.events import END, KEPT, EventColumns, prepared

MATCHES = 1 << 20
"""Matches that are held at a time, about."""

FIRST_EVENTS, FEWEST_EVENTS = 4096, 64
"""Events of the first piece, before it is known how many matches they have, and of the smallest."""

_TIME = pa.timestamp("us", "UTC")
_TEXTS = pa.list_(pa.field("item", pa.string(), nullable=False))
_CODES = pa.list_(pa.field("item", pa.struct([("attribute", pa.int64()), ("value", pa.int64())]), nullable=False))
_MATCHES = pa.schema(
    [
        pa.field("source", pa.string(), nullable=False),
        pa.field("id", pa.string(), nullable=False),
        pa.field("time", _TIME, nullable=False),
        pa.field("expires", _TIME),
        pa.field("subscriber", pa.string(), nullable=False),
        pa.field("subscription", pa.string()),
        pa.field("rank", pa.float64(), nullable=False),
        pa.field("score", pa.float64(), nullable=False),
        pa.field("matched", _TEXTS, nullable=False),
    ]
)
MATCH_SCHEMA = from_arrow_schema(_MATCHES)
"""One event that a queue wants: the queue's subscriber (and subscription, if the queue is its own), the event's rank
there, what orders it in the queue (the rank, unless it decays), and the subscriptions that matched."""

CONTENT = "content"
CONTENT_FIELD = T.StructField(CONTENT, from_arrow_type(_CODES))
"""What diverse selection compares of the event: codes of attributes and values (`delivery.engine.contents`)."""


def match(
    events: DataFrame,
    audience: CompiledSubscribers | AudienceSource,
    *,
    columns: EventColumns | None = None,
    schema: Schema | None = None,
    keep: Sequence[str] = (),
    for_delivery: bool = False,
    advertisements: Iterable[Advertisement] = (),
) -> DataFrame:
    """Return who wants which event, and how much, with MATCH_SCHEMA and the columns to `keep` of the events.

    An event of a source that is advertised with a k has the matches of its k best subscribers only. Rows that are no
    events, or not what is advertised, are left out; `rejected_rows` has them. With `for_delivery` there is what
    `deliver` needs besides: the column `content`, for subscribers who want what they get to be diverse, and, if the
    events have rows that say that they end, a row for them and the column `rankcast_end` in which they are true.
    """
    more = [CONTENT_FIELD] if for_delivery else []
    if for_delivery and END in events.columns:
        more.append(T.StructField(END, T.BooleanType()))
    own = [*MATCH_SCHEMA.fields, *more]
    for name in keep:
        if name in {field.name for field in own}:
            raise InvalidEventError(f"keep: matches have a column {shown(name)} of their own; rename the event's")
    ready, reader = prepared(events, columns, schema, keep=keep, advertisements=advertisements)
    if isinstance(audience, CompiledSubscribers):
        audience.check_filters(reader.advertisements)
    kept = [events.schema[name] for name in keep]
    task = MatchTask(reader, source_of(audience, events.sparkSession), tuple(keep), tuple(field.name for field in more))
    return ready.mapInArrow(task, T.StructType([*own, *kept]))


def rejected_rows(
    events: DataFrame,
    *,
    columns: EventColumns | None = None,
    schema: Schema | None = None,
    advertisements: Iterable[Advertisement] = (),
) -> DataFrame:
    """Return the rows of a DataFrame that are no events, with the reason and the row as JSON."""
    ready, reader = prepared(events, columns, schema, advertisements=advertisements)
    return ready.mapInArrow(_RejectTask(reader), REJECTED_SCHEMA)


class MatchedPiece(NamedTuple):
    """Some events with everything that is known of them, and the rows beside them that are none.

    `rows` has no rows of subscriptions that every event matches if these are kept `apart`.
    """

    batch: pa.RecordBatch
    events: EventBatch
    rows: RankedRows
    rejected: list[RejectedRow]
    features: Features


def matched_pieces(
    batches: Iterator[pa.RecordBatch], reader: EventReader, audience: CompiledSubscribers, *, apart: bool = False
) -> Iterator[MatchedPiece]:
    """Read, match and rank batches, in pieces of a bounded number of matches; what is `apart` may be left out."""
    size = FIRST_EVENTS
    for given in batches:
        batch, start = reader.named(given), 0
        while start < batch.num_rows:
            part = batch.slice(start, size)
            start += part.num_rows
            events, rejected = reader.read(part)
            offsets, numbers = events.matched(audience.reader)
            if not apart:
                offsets, numbers = audience.with_apart(offsets, numbers)
            size = max(FEWEST_EVENTS, MATCHES * part.num_rows // max(len(numbers), part.num_rows))
            offsets, numbers = chosen_matches(events, reader, audience, offsets, numbers)
            rows, features = rank_events(events, audience, offsets, numbers)
            yield MatchedPiece(part, events, rows, rejected, features)


def rank_events(
    events: EventBatch, audience: CompiledSubscribers, offsets: Array, numbers: Array
) -> tuple[RankedRows, Features]:
    """Return the rows of the events that match, given the subscriptions that each satisfies, and what they look at."""
    features = events.features(audience.ranking)
    return rank_batch(audience.ranking, offsets, numbers, events.times, events.expires, features), features


@dataclass(frozen=True, slots=True)
class MatchTask:
    """What a task of `match` does."""

    reader: EventReader
    source: AudienceSource
    keep: tuple[str, ...] = ()
    more: tuple[str, ...] = ()
    """Columns for the delivery: CONTENT, and END for events that have it."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Return the matches of the events in some batches."""
        _, audience = self.source.current()
        ends = list[pa.RecordBatch]()
        for piece in matched_pieces(without_ends(batches, self.reader, ends), self.reader, audience):
            columns = match_columns(piece, audience)
            if CONTENT in self.more:
                columns.append(content_column(piece, audience))
            if END in self.more:
                columns.append(pa.nulls(len(piece.rows.event), pa.bool_()))
            rows = pa.array(piece.events.rows[piece.rows.event])
            columns += [piece.batch.column(KEPT + name).take(rows) for name in self.keep]
            yield self._batch(columns)
        if ends and END in self.more:
            kept = [self.reader.named(ends[0]).column(KEPT + name) for name in self.keep]
            marks = {CONTENT: _CODES, END: pa.bool_()}
            own = [*((field.name, field.type) for field in _MATCHES), *((name, marks[name]) for name in self.more)]
            yield self._batch([*(pa.array([_NOTHING.get(name)], kind) for name, kind in own), *kept])

    def _batch(self, columns: list[Any]) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(columns, names=[*MATCH_SCHEMA.fieldNames(), *self.more, *self.keep])


def without_ends(
    batches: Iterator[pa.RecordBatch], reader: EventReader, ends: list[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Leave out the rows that mark the end of the input, and note one of each batch that has some."""
    for batch in batches:
        if END not in reader.names:
            yield batch
            continue
        marked = batch.column(reader.names.index(END)).fill_null(False)
        if pc.any(marked).as_py():
            ends.append(batch.filter(marked).slice(0, 1))
        yield batch.filter(pc.invert(marked))


_NOTHING = {"source": "", "id": "", "time": 0, "subscriber": "", "rank": 0.0, "score": 0.0, "matched": [], END: True}
"""The row that says that the input ends."""


def content_column(piece: MatchedPiece, audience: CompiledSubscribers) -> Any:
    """Return the content codes of each match's event; null when no queue compares contents."""
    wanted = audience.queues.wanted_content
    if not wanted:
        return pa.nulls(len(piece.rows.event), _CODES)
    table = piece.events.table(wanted)
    pairs = pa.StructArray.from_arrays(
        [pa.array(table.attributes.values), pa.array(table.values.values)], names=["attribute", "value"]
    )
    codes = pa.ListArray.from_arrays(pa.array(table.attributes.starts, pa.int32()), pairs, _CODES)
    return codes.take(pa.array(piece.rows.event))


def match_columns(piece: MatchedPiece, audience: CompiledSubscribers) -> list[Any]:
    """Return the columns of MATCH_SCHEMA."""
    rows, queues = piece.rows, audience.queues
    table = piece.events.table(WantedContent())
    event, queue = pa.array(rows.event), pa.array(rows.queue)
    names = queues.name_start[audience.ranking.table.queue[rows.matched]] + audience.position[rows.matched]
    matched = queues.name_texts.take(pa.array(names))
    return [
        table.source.to_arrow().take(event),
        table.id.to_arrow().take(event),
        timestamps(piece.events.times[rows.event]),
        timestamps(rows.expires),
        queues.subscriber_texts.take(queue),
        queues.subscription_texts.take(queue),
        pa.array(rows.rank),
        pa.array(rows.score),
        pa.ListArray.from_arrays(pa.array(rows.matched_start, pa.int32()), matched, _TEXTS),
    ]


def timestamps(micros: Array) -> Any:
    """Return times as Spark takes them, null for NEVER."""
    return pa.array(micros, pa.int64(), mask=micros == NEVER).cast(_TIME)


@dataclass(frozen=True, slots=True)
class _RejectTask:
    reader: EventReader

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            _, rejected = self.reader.read(self.reader.named(batch))
            columns = [pa.array([getattr(row, name) for row in rejected], pa.string()) for name in RejectedRow._fields]
            yield pa.RecordBatch.from_arrays(columns, names=list(RejectedRow._fields))
