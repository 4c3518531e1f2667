"""Text and bytes to events, in Spark's workers, by the same code that reads event files everywhere else.

A line of JSON (CloudEvents or plain), the value of a Kafka message or a whole CSV file becomes rows. With a declared
schema (`Columns`) a row has one column per attribute; without one (`Documents`) it is an event as JSON text, which
keeps whatever attributes it has. Either way two columns mark a row that is no event (see `rejected`). What makes an
event malformed, and the words for it, are those of `rankcast.storage`: a file means the same to the hub and here.

An event without an id gets the one its origin suggests (a line number, an offset), else a digest of its content: the
same content is then the same event. Cost: some 60 µs per event; Parquet needs none of this.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import islice
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias

import pyarrow as pa

from rankcast.model.cloudevents import event_from_json, parse_json
from rankcast.model.errors import InvalidFileError, Problem, RankcastError
from rankcast.model.events import Event
from rankcast.model.schema import ENVELOPE_TYPES, Schema
from rankcast.model.times import format_time
from rankcast.model.values import ValueType
from rankcast.spark.sources.event_contents import typed_document
from rankcast.spark.sources.event_values import ORIGINAL, REASON
from rankcast.storage.events.csv import events_of_csv
from rankcast.storage.events.rows import text_id
from rankcast.storage.text_files import read_lines

ROWS = 10_000
"""Rows of a CSV file given at a time."""

CONTENT, PLACE, ID, SOURCE, TIME = "content", "place", "suggested_id", "suggested_source", "suggested_time"
"""Columns of what is parsed: the bytes, where they are from, and what stands in for a missing id, source or time."""

DOCUMENT = "document"
"""The column of an event as JSON."""

ENVELOPE = {name: kind for name, kind in ENVELOPE_TYPES.items() if name != "specversion"}

ARROW_TYPES: Mapping[ValueType, pa.DataType] = {
    ValueType.BOOL: pa.bool_(),
    ValueType.INT: pa.int64(),
    ValueType.FLOAT: pa.float64(),
    ValueType.STRING: pa.string(),
    ValueType.TIME: pa.timestamp("us", tz="UTC"),
}


Row: TypeAlias = dict[str, Any]


class Layout(Protocol):
    """The columns that events are read into."""

    @property
    def schema(self) -> Schema | None:
        """What is declared of the attributes."""

    @property
    def arrow(self) -> pa.Schema:
        """The columns, with those that mark a row as rejected."""

    def of_json(self, piece: Piece) -> Row:
        """Return a piece of JSON as a row; raise an error that says why it is no event."""

    def of_event(self, event: Event) -> Row:
        """Return an event as a row; raise an error that says why it does not fit."""


_MARKS = [(REASON, pa.string()), (ORIGINAL, pa.string())]


@dataclass(frozen=True)
class Columns:
    """One column for each attribute of the envelope and of a schema; what no filter may name is left out."""

    schema: Schema

    @cached_property
    def arrow(self) -> pa.Schema:
        """The columns, with those that mark a row as rejected."""
        types = {**ENVELOPE, **self.schema.attributes}
        return pa.schema([*((name, ARROW_TYPES[kind]) for name, kind in types.items()), *_MARKS])

    def of_json(self, piece: Piece) -> Row:
        """Return a piece of JSON as a row."""
        completed = _completed(piece)
        return self.of_event(event_from_json(completed, id=piece.id, source=piece.source))

    def of_event(self, event: Event) -> Row:
        """Return an event as a row."""
        return self.schema.conformed(event.attributes)


@dataclass(frozen=True)
class Documents:
    """One column with the event as JSON: attributes of all names and types."""

    schema: None = None
    arrow: ClassVar[pa.Schema] = pa.schema([(DOCUMENT, pa.string()), *_MARKS])

    def of_json(self, piece: Piece) -> Row:
        """Return a piece of JSON as a row; whether it is an event is seen when it is read in earnest."""
        return {DOCUMENT: json.dumps(_completed(piece), ensure_ascii=False)}

    def of_event(self, event: Event) -> Row:
        """Return an event as a row."""
        return {DOCUMENT: typed_document(event)}


def to_batch(rows: Sequence[Row], schema: pa.Schema) -> pa.RecordBatch:
    """Return rows as a batch."""
    arrays = [pa.array([row.get(field.name) for row in rows], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


class Piece(NamedTuple):
    """Something to parse, with its place and what stands in for what it lacks."""

    content: bytes
    place: str
    id: str | None = None
    source: str | None = None
    time: datetime | None = None


def _completed(piece: Piece) -> Any:
    """Return the JSON of a piece; a plain object gets the id, source and time that it lacks."""
    document = parse_json(piece.content)
    if isinstance(document, dict) and "specversion" not in document:
        document["id"] = piece.id or digest(piece.content) if document.get("id") is None else text_id(document["id"])
        if document.get("source") is None:
            document["source"] = piece.source or piece.place
        if document.get("time") is None and piece.time is not None:
            document["time"] = format_time(piece.time)
    return document


def digest(content: bytes) -> str:
    """Return the id of an event that has nothing but its content."""
    return hashlib.sha256(content.strip()).hexdigest()[:32]


def rejected_row(reason: str, content: bytes) -> Row:
    """Return the row of something that is no event."""
    return {REASON: reason, ORIGINAL: content.decode("utf-8", errors="replace")}


def row_of(piece: Piece, layout: Layout) -> Row:
    """Return the row of a piece of JSON, rejected or not."""
    try:
        return layout.of_json(piece)
    except RankcastError as error:
        return rejected_row(f"{piece.place}: {error}", piece.content)


def pieces(batch: pa.RecordBatch) -> Iterator[Piece]:
    """Return what a batch holds to parse; blank lines are nothing."""
    names = batch.schema.names
    lists = [batch.column(name).to_pylist() if name in names else [None] * len(batch) for name in (ID, SOURCE, TIME)]
    contents, places = batch.column(CONTENT).to_pylist(), batch.column(PLACE).to_pylist()
    for content, place, *rest in zip(contents, places, *lists, strict=True):
        if content is None:  # Kafka's mark of a deletion
            yield Piece(b"null", place, *rest)
        elif plain := content.removeprefix(b"\xef\xbb\xbf").strip():
            yield Piece(plain, place, *rest)


def parse_pieces(batches: Iterator[pa.RecordBatch], layout: Layout) -> Iterator[pa.RecordBatch]:
    """Parse batches of JSON."""
    for batch in batches:
        yield to_batch([row_of(piece, layout) for piece in pieces(batch)], layout.arrow)


def parse_csv_files(batches: Iterator[pa.RecordBatch], layout: Layout) -> Iterator[pa.RecordBatch]:
    """Parse batches of whole CSV files."""
    for batch in batches:
        for piece in pieces(batch):
            rows = csv_rows(piece, layout)
            while chunk := list(islice(rows, ROWS)):
                yield to_batch(chunk, layout.arrow)


def csv_rows(piece: Piece, layout: Layout) -> Iterator[Row]:
    """Return the rows of a whole CSV file; the original of a rejected one is the line that it starts on."""
    content, damage = _unpacked(piece.content)
    lines: list[bytes] = []
    for line, item in _csv_items(content, piece, layout.schema):
        try:
            if isinstance(item, Event):
                yield layout.of_event(item)
                continue
            reason = str(item)
        except RankcastError as error:
            reason = str(Problem(piece.place, line, str(error)))
        lines = lines or content.split(b"\n")
        yield rejected_row(reason, lines[line - 1].rstrip(b"\r"))
    if damage is not None:
        yield rejected_row(f"{piece.place}: nothing more can be read: {damage}", b"")


def _unpacked(content: bytes) -> tuple[bytes, str | None]:
    """Return what a file holds, compressed or not, as far as it can be read, and why no further."""
    if not content.startswith(b"\x1f\x8b"):
        return content, None
    parts: list[bytes] = []
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as stream:
            while part := stream.read1(1 << 16):  # what comes before the damage must not be lost
                parts.append(part)
    except (EOFError, zlib.error, OSError) as error:
        return b"".join(parts), f"the compressed data is damaged: {error}"
    return b"".join(parts), None


def _csv_items(content: bytes, piece: Piece, schema: Schema | None) -> Iterator[tuple[int, Event | Problem]]:
    lines = read_lines(io.BytesIO(content), piece.place)
    try:
        yield from events_of_csv(lines, piece.place, piece.source or piece.place, schema)
    except InvalidFileError as error:
        yield error.problems[0].line or 1, error.problems[0]
