"""Rows of Arrow batches as events, on the workers: the good ones as a batch of events, the bad ones with their reasons.

Where all attributes are columns, nothing is done row by row: values are checked and converted by column, and only the
rows in which something is wrong are looked at. JSON payloads and documents are read event by event.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from rankcast.model.cloudevents import event_from_json, parse_json
from rankcast.model.errors import InvalidEventError, RankcastError, shown
from rankcast.model.events import DEFAULT_TYPE, Event
from rankcast.model.schema import Schema
from rankcast.spark.sources.event_batches import ColumnEvents, EventBatch, OpenEvents
from rankcast.spark.sources.event_contents import TYPED, event_of_typed
from rankcast.spark.sources.event_values import (
    RejectedRow,
    RowProblems,
    as_datetime,
    as_microseconds,
    as_text,
    as_times,
    cell_values,
    column_at,
    conformed_column,
    is_equal,
    is_missing,
    payload_key,
    plain_column,
)
from rankcast.storage.events.rows import text_id

_TEXT_PLACES = ("type", "subject", "datacontenttype", "dataschema")


class Leaf(NamedTuple):
    """An attribute: its name for filters, the column and fields that it is found at, and whether it is a vector."""

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

    def named(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch that comes from Spark with the names that its columns had."""
        return batch.rename_columns(list(self.names))

    def read(self, batch: pa.RecordBatch) -> tuple[EventBatch, list[RejectedRow]]:
        """Return the events of a batch, in order, and the rows that are none."""
        problems = RowProblems(batch)
        if self.document is not None:
            found: EventBatch = self._opened(batch, problems, self._documents(batch, problems))
        elif self.payload is not None:
            found = self._opened(batch, problems, self._payloads(batch, problems))
        else:
            found = self._columns(batch, problems)
        return found, problems.rejected()

    def _columns(self, batch: pa.RecordBatch, problems: RowProblems) -> ColumnEvents:
        columns = self._envelope(batch, problems)
        vectors = {}
        for leaf in self.leaves:
            column = column_at(batch, leaf.path)
            if leaf.is_vector:
                vectors[leaf.name] = column
            else:
                columns[leaf.name] = conformed_column(
                    leaf.name, plain_column(leaf.name, column, problems), self.schema, problems
                )
        if self.schema is not None:
            for name in sorted(self.schema.required):
                problems.note(is_missing(columns.get(name), len(batch)), f"required attribute missing: {name}")
        carried = None if self.carried is None else batch.column(self.carried)
        if problems.any:
            good = pa.array(problems.good)
            columns = {name: column.take(good) for name, column in columns.items()}
            vectors = {name: column.take(good) for name, column in vectors.items()}
            carried = None if carried is None else carried.take(good)
        return ColumnEvents(problems.good, columns, vectors, carried)

    def _envelope(self, batch: pa.RecordBatch, problems: RowProblems) -> dict[str, Any]:
        """Return the envelope by its names for filters; expirytime, subject and the like as far as there are any."""
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
        for name in ("id", "source", "type"):
            if name in columns:
                problems.note(is_missing(columns[name], len(batch)), f"{name}: missing; every event needs one")
                problems.note(is_equal(columns[name], ""), f"{name}: '' is not a non-empty string")
        for name in ("time", "expirytime"):
            if place[name] in names:
                columns[name] = plain_column(name, as_times(name, batch.column(place[name]), problems), problems)
        problems.note(is_missing(columns["time"], len(batch)), "time: missing; every event needs one")
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
        if isinstance(parsed, dict) and "specversion" not in parsed:
            parsed = {**parsed, "id": text_id(parsed.get("id"))}
        return event_from_json(parsed, source=self.default_source)

    def _payloads(self, batch: pa.RecordBatch, problems: RowProblems) -> Iterator[tuple[int, Event]]:
        envelope = self._envelope(batch, problems)
        times = {name: as_microseconds(envelope[name]).tolist() for name in ("time", "expirytime") if name in envelope}
        texts = {name: column.to_pylist() for name, column in envelope.items() if name not in times}
        texts.pop("specversion")
        others = {
            leaf: cell_values(leaf.name, column_at(batch, leaf.path), problems)
            for leaf in self.leaves
            if not leaf.is_vector
        } | {leaf: column_at(batch, leaf.path).to_pylist() for leaf in self.leaves if leaf.is_vector}
        for row, text in enumerate(batch.column(self.payload).cast(pa.large_binary()).to_pylist()):
            if problems.has(row):
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
                yield row, Event(**named, time=stamps["time"], expires=stamps.get("expirytime"), data=data)
            except RankcastError as error:
                problems.add(row, str(error))

    def _opened(self, batch: pa.RecordBatch, problems: RowProblems, found: Iterator[tuple[int, Event]]) -> OpenEvents:
        events: list[Event] = []
        rows: list[int] = []
        for row, event in found:
            if problems.has(row):
                continue
            if event.time is None:
                problems.add(row, "time: missing; every event needs one")
                continue
            try:
                events.append(event if self.schema is None else event.conformed(self.schema))
                rows.append(row)
            except RankcastError as error:
                problems.add(row, str(error))
        carried = None if self.carried is None else batch.column(self.carried).take(pa.array(rows, pa.int64()))
        return OpenEvents(np.array(rows, np.int64), events, carried)
