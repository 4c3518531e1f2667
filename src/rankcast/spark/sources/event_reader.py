"""Rows of Arrow batches as events, on the workers: the good ones as a batch of events, the bad ones with their reasons.

Where all attributes are columns, nothing is done row by row: values are checked and converted by column, and only the
rows in which something is wrong are looked at. JSON payloads and documents are read event by event.

A batch of events, in columns (`ColumnEvents`) or one by one (`OpenEvents`), answers what matching, ranking and delivery
ask of it. A whole event as bytes is JSON that gives back exactly the event, less what every table of events has beside
it: the event as `rankcast.language.lossless` writes it, without identity and time. Cost: for an event with twenty
attributes some 300 bytes, 12 microseconds to write and 40 to read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa

from rankcast.arrays import Array, starts_of
from rankcast.delivery.engine.contents import Contents, WantedContent, attribute_code
from rankcast.delivery.stream.event_tables import EventTable, Ragged
from rankcast.language.lossless import from_plain, json_bytes, to_plain
from rankcast.matching.index import Reader
from rankcast.model.advertisements import Admitted, Advertisement
from rankcast.model.cloudevents import parse_json
from rankcast.model.errors import InvalidEventError, RankcastError, shown
from rankcast.model.events import DEFAULT_TYPE, Event, content_id
from rankcast.model.schema import ENVELOPE_TYPES, Schema
from rankcast.model.times import NEVER, format_time, microseconds
from rankcast.ranking.batch import Features, RankingTable
from rankcast.spark.sources.admission import Admission, Audiences
from rankcast.spark.sources.event_values import (
    TIME,
    BatchProblems,
    RejectedRow,
    as_datetime,
    as_microseconds,
    as_number,
    as_text,
    as_times,
    column_at,
    conformed_column,
    element_codes,
    is_equal,
    is_missing,
    is_number,
    payload_key,
    value_codes,
    vector_elements,
)
from rankcast.storage.events.arrow import RowProblems, cell_values, is_list, plain_column, python_values
from rankcast.storage.events.rows import NAMELESS, event_of_object

_TEXT_PLACES = ("type", "subject", "datacontenttype", "dataschema")

REMEMBERED = 4_096
"""Events that are read once for all the queues that hold them."""

_BESIDE = ("id", "source", "time", "specversion")
_FIELDS = {"expirytime": "expires"}
"""Fields of an event that have another name than its attributes."""

TYPED = "$event"
"""The only name in a document that is an event with all its types; other documents are plain JSON of an event."""


class ColumnEvents:
    """Events as columns, by the names that filters have for them."""

    def __init__(
        self,
        rows: Array,
        columns: Mapping[str, Any],
        vectors: Mapping[str, Any],
        carried: Any,
        audiences: Audiences | None = None,
    ) -> None:
        self.rows = rows
        self.columns = dict(columns)
        self.audiences = audiences
        self._vectors = dict(vectors)
        self._carried = carried

    def __len__(self) -> int:
        return len(self.columns["id"])

    def taken(self, chosen: Array) -> ColumnEvents:
        """Return some of the events."""
        places = pa.array(chosen)
        columns, vectors = (
            {name: column.take(places) for name, column in own.items()} for own in (self.columns, self._vectors)
        )
        carried = None if self._carried is None else self._carried.take(places)
        audiences = None if self.audiences is None else Audiences(*(column[chosen] for column in self.audiences))
        return ColumnEvents(self.rows[chosen], columns, vectors, carried, audiences)

    def events(self) -> list[Event]:
        """Return the events one by one."""
        sources, ids = (self.columns[name].to_pylist() for name in ("source", "id"))
        beside = zip(self.contents(), sources, ids, self.times.tolist(), strict=True)
        return [event_of_content(*content) for content in beside]

    @cached_property
    def times(self) -> Array:
        """When they were published, in microseconds since 1970."""
        return as_microseconds(self.columns["time"])

    @cached_property
    def expires(self) -> Array:
        """When they expire by themselves, NEVER for those that do not."""
        expires = self.columns.get("expirytime")
        return np.full(len(self), NEVER, np.int64) if expires is None else as_microseconds(expires)

    def table(self, wanted: WantedContent) -> EventTable:
        """Return their identities and times, what policies compare of them, and what is carried along."""
        return EventTable.of(
            self.times,
            Ragged.from_arrow(self.columns["source"]),
            Ragged.from_arrow(self.columns["id"]),
            contents=self._contents(wanted) if wanted else None,
            payload=None if self._carried is None else Ragged.from_arrow(self._carried),
        )

    def contents(self) -> list[bytes]:
        """Return the whole events, as bytes."""
        return column_contents(self.columns, self._vectors)

    def matched(self, reader: Reader) -> tuple[Array, Array]:
        """Return (offsets, numbers): the subscriptions that event i satisfies are numbers[offsets[i]:offsets[i+1]]."""
        return reader.match_batch(pa.RecordBatch.from_pydict(self.columns))

    def features(self, ranking: RankingTable) -> Features:
        """Return what relevance functions look at."""
        numbers = {
            name: np.asarray(self.columns[name].cast(pa.float64(), safe=False).fill_null(np.nan))
            for name in ranking.numbers
            if name in self.columns and is_number(self.columns[name].type)
        }
        vectors = {name: vector_elements(self._vectors[name]) for name in ranking.vectors if name in self._vectors}
        return Features.of(ranking, len(self), numbers, vectors)

    def _contents(self, wanted: WantedContent) -> tuple[Ragged, Ragged]:
        names = [
            name for name in self.columns if name in wanted.names or (wanted.payload and name not in ENVELOPE_TYPES)
        ]
        if any(is_list(self.columns[name].type) for name in names):
            return self._contents_with_lists(names)
        names.sort(key=attribute_code)
        codes = np.zeros((len(self), len(names)), np.int64)
        for at, name in enumerate(names):
            codes[:, at] = value_codes(self.columns[name])
        present = codes != 0
        starts = np.concatenate((np.zeros(1, np.int64), np.cumsum(present.sum(axis=1))))
        attributes = np.broadcast_to(np.array([attribute_code(name) for name in names], np.int64), codes.shape)
        return Ragged(starts, attributes[present]), Ragged(starts, codes[present])

    def _contents_with_lists(self, names: Sequence[str]) -> tuple[Ragged, Ragged]:
        parts = []
        for name in names:
            rows, codes = element_codes(self.columns[name])
            parts.append(np.stack((rows, np.full(len(rows), attribute_code(name)), codes), axis=1))
        found = np.unique(np.concatenate(parts), axis=0)
        starts = starts_of(np.bincount(found[:, 0], minlength=len(self)))
        return Ragged(starts, found[:, 1].copy()), Ragged(starts, found[:, 2].copy())


class OpenEvents:
    """Events one by one, each with attributes of its own."""

    def __init__(self, rows: Array, events: list[Event], carried: Any, audiences: Audiences | None = None) -> None:
        self.rows = rows
        self.audiences = audiences
        self._events = events
        self._carried = carried

    def __len__(self) -> int:
        return len(self._events)

    @cached_property
    def times(self) -> Array:
        """When they were published, in microseconds since 1970."""
        return np.array([microseconds(event.time) for event in self._events], np.int64)

    @cached_property
    def expires(self) -> Array:
        """When they expire by themselves, NEVER for those that do not."""
        return np.array([microseconds(event.expires) for event in self._events], np.int64)

    def table(self, wanted: WantedContent) -> EventTable:
        """Return their identities and times, what policies compare of them, and what is carried along."""
        contents = None
        if wanted:
            coded = Contents.of({at: wanted.of_event(event.attributes) for at, event in enumerate(self._events)})
            contents = Ragged(coded.starts, coded.attributes), Ragged(coded.starts, coded.values)
        return EventTable.of(
            self.times,
            Ragged.of_texts(event.source for event in self._events),
            Ragged.of_texts(event.id for event in self._events),
            contents=contents,
            payload=None if self._carried is None else Ragged.from_arrow(self._carried),
        )

    def contents(self) -> list[bytes]:
        """Return the whole events, as bytes."""
        return event_contents(self._events)

    def matched(self, reader: Reader) -> tuple[Array, Array]:
        """Return (offsets, numbers): the subscriptions that event i satisfies are numbers[offsets[i]:offsets[i+1]]."""
        found = [reader.match_one(event.attributes) for event in self._events]
        offsets = np.cumsum([0, *map(len, found)], dtype=np.int64)
        return offsets, np.concatenate([np.zeros(0, np.int64), *found])

    def features(self, ranking: RankingTable) -> Features:
        """Return what relevance functions look at."""
        numbers = {
            name: np.array([as_number(event.attributes.get(name)) for event in self._events], np.float64)
            for name in ranking.numbers
        }
        vectors = {}
        for name in ranking.vectors:
            lists = [event.vector(name) or () for event in self._events]
            starts = np.cumsum([0, *map(len, lists)], dtype=np.int64)
            vectors[name] = (starts, np.array([number for own in lists for number in own], np.float64))
        return Features.of(ranking, len(self), numbers, vectors)


EventBatch: TypeAlias = ColumnEvents | OpenEvents
"""Events that all have an identity and a time; `rows` are the rows of the batch that they are, and `audiences` says
whom they are for where that may be said."""


class Leaf(NamedTuple):
    """An attribute: its name for filters, the column and fields that it is found at, and whether it may be a vector."""

    name: str
    path: tuple[str, ...]
    is_vector: bool

    @property
    def key(self) -> str:
        """What a payload calls it."""
        return payload_key(self.name)


@dataclass(frozen=True, slots=True)
class EventReader:
    """How batches of a DataFrame become events; made by `rankcast.spark.sources.events.prepared`."""

    names: tuple[str, ...]
    leaves: tuple[Leaf, ...]
    places: tuple[tuple[str, str], ...]
    payload: str | None
    document: str | None
    default_source: str
    schema: Schema | None
    carried: str | None
    arrival: str | None = None
    advertisements: tuple[Advertisement, ...] = ()
    k_column: str | None = None
    advertisement_column: str | None = None

    @property
    def chooses(self) -> bool:
        """Whether some events may be for their k best subscribers only."""
        return any(advertisement.k is not None for advertisement in self.advertisements)

    def named(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch that comes from Spark with the names that its columns had."""
        return batch.rename_columns(list(self.names))

    def read(self, batch: pa.RecordBatch) -> tuple[EventBatch, list[RejectedRow]]:
        """Return the events of a batch, in order, and the rows that are none."""
        problems = BatchProblems(batch)
        if self.document is not None:
            found: EventBatch = self._opened(batch, problems, self._documents(batch, problems))
        elif self.payload is not None:
            found = self._opened(batch, problems, self._payloads(batch, problems))
        else:
            found = self._columns(batch, problems)
        return found, problems.rejected()

    def _admission(self, batch: pa.RecordBatch) -> Admission | None:
        if not self.advertisements and self.k_column is None and self.advertisement_column is None:
            return None
        return Admission(self.advertisements, batch, self.k_column, self.advertisement_column)

    def _columns(self, batch: pa.RecordBatch, problems: RowProblems) -> EventBatch:
        columns = self._envelope(batch, problems)
        vectors, plain = {}, {}
        for leaf in self.leaves:
            plain[leaf.name] = plain_column(leaf.name, column_at(batch, leaf.path), problems)
            if leaf.is_vector:
                vectors[leaf.name] = plain[leaf.name]
        if columns["id"].null_count:
            columns["id"] = _with_content_ids(columns, plain)
        columns["time"] = self._stamped(columns["time"], batch, problems)
        for name, column in plain.items():
            columns[name] = conformed_column(name, column, self.schema, problems)
        if self.schema is not None:
            for name in sorted(self.schema.required):
                problems.note(is_missing(columns.get(name), len(batch)), f"required attribute missing: {name}")
        carried = None if self.carried is None else batch.column(self.carried)
        found = ColumnEvents(np.arange(len(batch)), columns, vectors, carried)
        if problems.reasons:
            found = found.taken(problems.good)
        admission = self._admission(batch)
        return found if admission is None else self._admitted(found, admission, batch, problems)

    def _admitted(
        self, found: ColumnEvents, admission: Admission, batch: pa.RecordBatch, problems: RowProblems
    ) -> EventBatch:
        if admission.converts(found.columns):
            return self._opened(batch, problems, zip(found.rows.tolist(), found.events(), strict=True))
        found.audiences, unclear = admission.of_columns(found.columns, found.rows)
        if not len(unclear):
            return found
        some = found.taken(unclear)
        for at, row, event in zip(unclear.tolist(), some.rows.tolist(), some.events(), strict=True):
            try:
                decided = admission.audiences([admission.admit(row, event)])
                found.audiences.advertisement[at], found.audiences.k[at] = decided.advertisement[0], decided.k[0]
            except RankcastError as error:
                problems.add(row, str(error))
        return found.taken(np.flatnonzero(np.isin(found.rows, problems.good)))

    def _stamped(self, times: Any, batch: pa.RecordBatch, problems: RowProblems) -> Any:
        """Return publication times: their own or, lacking one, that of their arrival."""
        if self.arrival is not None:
            return times.fill_null(batch.column(self.arrival).cast(times.type)) if times.null_count else times
        problems.note(is_missing(times, len(batch)), "time: missing; every event needs one")
        return times

    def _arrivals(self, batch: pa.RecordBatch) -> list[datetime | None]:
        """Return when the rows arrived, as far as that is known."""
        return [None] * len(batch) if self.arrival is None else python_values(batch.column(self.arrival).cast(TIME))

    def _envelope(self, batch: pa.RecordBatch, problems: RowProblems) -> dict[str, Any]:
        """Return the envelope by its names for filters; expirytime, subject and the like as far as there are any.

        An id and a time may be missing.
        """
        place = dict(self.places)
        names = batch.schema.names
        columns: dict[str, Any] = {}
        for name in ("id", "source", *_TEXT_PLACES):
            column = place.get(name, name)
            if column in names:
                columns[name] = plain_column(name, as_text(batch.column(column)), problems)
        source = columns.get("source", pa.nulls(len(batch), pa.string()))
        columns["source"] = source.fill_null(self.default_source)
        if "type" in columns:
            columns["type"] = columns["type"].fill_null(DEFAULT_TYPE)
        columns.setdefault("id", pa.nulls(len(batch), pa.string()))
        for name in ("id", "source", "type"):
            if name in columns:
                problems.note(is_equal(columns[name], ""), f"{name}: '' is not a non-empty string")
        for name in ("time", "expirytime"):
            if place[name] in names:
                columns[name] = plain_column(name, as_times(name, batch.column(place[name]), problems), problems)
        columns.setdefault("time", pa.nulls(len(batch), TIME))
        columns["specversion"] = pa.array(["1.0"]).take(pa.array(np.zeros(len(batch), np.int64)))
        columns.setdefault("type", pa.array([DEFAULT_TYPE]).take(pa.array(np.zeros(len(batch), np.int64))))
        return columns

    def _documents(self, batch: pa.RecordBatch, problems: RowProblems) -> Iterator[tuple[int, Event]]:
        for row, text in enumerate(
            batch.column(self.document).cast(pa.large_string()).cast(pa.large_binary()).to_pylist()
        ):
            if text is None:
                problems.add(row, "the document is null; expected an event as JSON")
                continue
            try:
                yield row, self._document(text)
            except RankcastError as error:
                problems.add(row, str(error))

    def _document(self, text: bytes) -> Event:
        parsed = parse_json(text)
        if isinstance(parsed, dict) and parsed.keys() == {TYPED}:
            return event_of_typed(parsed[TYPED])
        return event_of_object(parsed, source=self.default_source)

    def _payloads(self, batch: pa.RecordBatch, problems: RowProblems) -> Iterator[tuple[int, Event]]:
        envelope = self._envelope(batch, problems)
        times = {name: as_microseconds(envelope[name]).tolist() for name in ("time", "expirytime") if name in envelope}
        texts = {name: column.to_pylist() for name, column in envelope.items() if name not in times}
        texts.pop("specversion")
        others = {leaf: cell_values(leaf.name, column_at(batch, leaf.path), problems) for leaf in self.leaves}
        for row, text in enumerate(batch.column(self.payload).cast(pa.large_binary()).to_pylist()):
            if row in problems.reasons:
                continue
            try:
                data = {} if text is None else parse_json(text)
                if not isinstance(data, dict):
                    raise InvalidEventError(f"{self.payload}: {shown(data)} is not a JSON object")
                for leaf, column in others.items():
                    if column[row] is not None:
                        if leaf.key in data:
                            raise InvalidEventError(f"{leaf.name}: both a column and a key of {self.payload}")
                        data[leaf.key] = column[row]
                stamps = {name: as_datetime(column[row]) for name, column in times.items()}
                named = {name: column[row] for name, column in texts.items()}
                event = Event(
                    **{**named, "id": named["id"] or NAMELESS},
                    time=stamps["time"],
                    expires=stamps.get("expirytime"),
                    data=data,
                )
                yield row, event if named["id"] else event.identified()
            except RankcastError as error:
                problems.add(row, str(error))

    def _opened(self, batch: pa.RecordBatch, problems: RowProblems, found: Iterator[tuple[int, Event]]) -> OpenEvents:
        events: list[Event] = []
        rows: list[int] = []
        admission, admitted = self._admission(batch), list[Admitted]()
        arrivals = self._arrivals(batch)
        for row, event in found:
            if row in problems.reasons:
                continue
            arrived = arrivals[row]
            if event.time is None and arrived is not None:
                event = event.stamped(arrived)  # noqa: PLW2901 (it is the same event)
            if event.time is None:
                problems.add(row, "time: missing; every event needs one")
                continue
            try:
                own = event if self.schema is None else event.conformed(self.schema)
                if admission is not None:
                    admitted.append(admission.admit(row, own))
                    own = admitted[-1].event
                events.append(own)
                rows.append(row)
            except RankcastError as error:
                problems.add(row, str(error))
        carried = None if self.carried is None else batch.column(self.carried).take(pa.array(rows, pa.int64()))
        audiences = None if admission is None else admission.audiences(admitted)
        return OpenEvents(np.array(rows, np.int64), events, carried, audiences)


def _with_content_ids(columns: Mapping[str, Any], payload: Mapping[str, Any]) -> Any:
    """Return the ids of events, those of their contents where they have none."""
    stated = {
        _FIELDS.get(name, name): python_values(column)
        for name, column in columns.items()
        if name not in ("id", "source", "specversion")
    }
    own = {payload_key(name): python_values(column) for name, column in payload.items()}
    ids = columns["id"].to_pylist()
    for row, name in enumerate(ids):
        if name is None:
            envelope = {name: values[row] for name, values in stated.items()}
            ids[row] = content_id(envelope, {name: values[row] for name, values in own.items()})
    return pa.array(ids, pa.string())


def typed_document(event: Event) -> str:
    """Return an event as a document that keeps the types of its values."""
    return json_bytes({TYPED: to_plain(event, Event)}).decode()


def event_of_typed(plain: Any) -> Event:
    """Return the event in a document; raise InvalidMessageError where there is none."""
    event: Event = from_plain(plain, Event, "event")
    return event


def column_contents(columns: Mapping[str, Any], vectors: Mapping[str, Any]) -> list[bytes]:
    """Return the contents of events that are columns, by the names that filters have for them."""
    envelope, payload = dict[str, list[Any]](), dict[str, list[Any]]()
    for name, column in columns.items():
        if name not in _BESIDE:
            (envelope if name in ENVELOPE_TYPES else payload)[name] = python_values(column)
    payload |= {name: python_values(column) for name, column in vectors.items()}
    keys = [payload_key(name) for name in payload]
    rows = zip(zip(*payload.values(), strict=True), strict=True) if payload else (((),) for _ in columns["id"])
    found: list[bytes] = []
    for at, (values,) in enumerate(rows):
        held = {key: value for key, value in zip(keys, values, strict=True) if value is not None}
        stated = {_FIELDS.get(name, name): column[at] for name, column in envelope.items() if column[at] is not None}
        texts = {name: format_time(value) if name == "expires" else value for name, value in stated.items()}
        found.append(json_bytes({**texts, "data": to_plain(held, Any)}))
    return found


def event_contents(events: Iterable[Event]) -> list[bytes]:
    """Return the contents of events."""
    plain = (to_plain(event, Event) for event in events)
    return [json_bytes({name: value for name, value in own.items() if name not in _BESIDE}) for own in plain]


@lru_cache(maxsize=REMEMBERED)
def event_of_content(content: bytes, source: str, identity: str, time: int) -> Event:
    """Return the event with this content; its time is in microseconds since 1970."""
    beside = {"source": source, "id": identity, "time": format_time(as_datetime(time))}
    return event_of_typed({**msgspec.json.decode(content), **beside})
