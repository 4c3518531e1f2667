"""Events from where they are: files of every kind, Kafka, Spark's rate source; any other DataFrame needs none of this.

    source = read_events(spark, "flats/", schema)              # a folder, file or pattern; the suffix is the format
    source = read_events(spark, "flats/", schema, stream=True)
    source = read_kafka(spark, "host:9092", "flats", schema)   # a stream; with Kafka's connector on the class path
    Pipeline(subscribers, columns=source.columns).outputs(source.events)

All mark rows that are no events (`RowProblems`), which neither stops a query nor gets lost. `schema` is what the
subscriber file declares: JSON and CSV then have one column per attribute. Without one they are read as documents, one
by one, which is slower and takes attributes of any name. Parquet keeps the columns that it has.

What is parsed becomes rows in Spark's workers, by the same code that reads event files everywhere else: what makes an
event malformed, and the words for it, are those of `rankcast.storage`. An event without an id has that of its place in
Kafka, else a digest of its content: the same content is then the same event. Cost: some 60 microseconds per event;
Parquet needs none of this.

Lines of JSON are divided among tasks as Spark divides text. A CSV file is read by one task, since a quoted cell may
hold a line end.
"""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import urlsplit

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the name that all of Spark's documentation has)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.version import __version__ as spark_version

from rankcast.model.cloudevents import parse_json
from rankcast.model.errors import InvalidFileError, InvalidValueError, Problem, RankcastError
from rankcast.model.events import Event
from rankcast.model.schema import ENVELOPE_TYPES, Schema
from rankcast.model.times import format_time
from rankcast.spark.filesystems import FileSystem, resolved
from rankcast.spark.metrics import ENDS
from rankcast.spark.session import SparkSetupError
from rankcast.spark.sources.event_reader import typed_document
from rankcast.spark.sources.event_values import ORIGINAL, REASON
from rankcast.spark.sources.events import END, EventColumns
from rankcast.storage.events.arrow import arrow_type
from rankcast.storage.events.csv import events_of_csv
from rankcast.storage.events.files import EventFormat, event_format
from rankcast.storage.events.rows import event_of_object, text_id, whole_value
from rankcast.storage.text_files import invalid_file, read_lines

GLOB = "*?[{"
_END_FILE = f"{ENDS}/end"

ROWS = 10_000
"""Rows of a CSV file given at a time."""

CONTENT, PLACE, ID, SOURCE, TIME = "content", "place", "suggested_id", "suggested_source", "suggested_time"
"""Columns of what is parsed: the bytes, where they are from, and what stands in for a missing id, source or time."""

DOCUMENT = "document"
"""The column of an event as JSON."""


class EventSource(NamedTuple):
    """Events, and where their parts are found."""

    events: DataFrame
    columns: EventColumns


def source_of(
    spark: SparkSession,
    address: str,
    schema: Schema | None = None,
    *,
    format: EventFormat | None = None,  # noqa: A002
    stream: bool = False,
    options: Mapping[str, str] | None = None,
) -> EventSource:
    """Return the events at an address: a path, `kafka://host:9092,other:9092/topic`, or `rate://10` (per second)."""
    parts = urlsplit(address)
    if parts.scheme == "kafka":
        topic = parts.path.strip("/")
        if not parts.netloc or not topic or "/" in topic:
            raise InvalidValueError(f"{address!r} is no address of a topic; expected kafka://host:9092/topic")
        return read_kafka(spark, parts.netloc, topic, schema, stream=stream, options=options)
    if parts.scheme == "rate":
        if not parts.netloc.isdecimal() or not stream:
            raise InvalidValueError(f"{address!r} is no stream of events; expected rate://10, and streaming")
        return rate_events(spark, int(parts.netloc), options)
    return read_events(spark, address, schema, format=format, stream=stream, options=options)


def read_events(
    spark: SparkSession,
    path: str,
    schema: Schema | None = None,
    *,
    format: EventFormat | None = None,  # noqa: A002
    stream: bool = False,
    options: Mapping[str, str] | None = None,
) -> EventSource:
    """Return the events of a file, of the files in a folder, or of a pattern such as `flats/2026-*.parquet`.

    With `stream` the files that come later are read as they come; `options` are those of Spark's file sources, such as
    maxFilesPerTrigger. Raises InvalidFileError when there is nothing, or the format is not clear.
    """
    found = format or format_of(spark, path)
    options = options or {}
    if found is EventFormat.PARQUET:
        return EventSource(_parquet(spark, path, schema, stream, options), EventColumns())
    if found is EventFormat.CSV:
        return _parsed(_csv_files(spark, path, stream, options), schema, parse_csv_files)
    return _parsed(_lines(spark, path, stream, options), schema, parse_pieces)


def format_of(spark: SparkSession, path: str) -> EventFormat:
    """Return the format of a file or of a folder's files, by their suffixes."""
    suffixed = event_format(Path(path))
    if suffixed is not None:
        return suffixed
    files = FileSystem(spark, path) if not any(sign in path for sign in GLOB) else None
    if files is not None and not files.exists():
        raise invalid_file(path, None, "no such file or folder")
    names = list(_names(files, "")) if files is not None else []
    formats = {found for name in names if (found := event_format(Path(name))) is not None}
    if len(formats) == 1:
        return formats.pop()
    what = "files of several formats" if formats else "no event file (.jsonl, .csv, .parquet)"
    raise invalid_file(path, None, f"{what}; say which format the events have")


def _names(files: FileSystem, folder: str) -> Iterator[str]:
    """Return the names of the files that Spark would read, in folders within the folder too."""
    for name in files.names(folder):
        inner = f"{folder}/{name}" if folder else name
        if name.startswith(("_", ".")):
            continue
        if files.is_folder(inner):
            yield from _names(files, inner)
        else:
            yield name


def _parquet(
    spark: SparkSession, path: str, schema: Schema | None, stream: bool, options: Mapping[str, str]
) -> DataFrame:
    try:
        found = spark.read.parquet(resolved(path))
    except AnalysisException as error:
        if not stream or schema is None:
            raise invalid_file(path, None, _first_line(error)) from None
        declared = from_arrow_schema(Layout(schema).arrow)
        return spark.readStream.schema(declared).options(**options).parquet(resolved(path))
    if stream:
        found = spark.readStream.schema(found.schema).options(**options).parquet(resolved(path))
    return found.withColumn("source", F.coalesce("source", _file_name()) if "source" in found.columns else _file_name())


def _first_line(error: AnalysisException) -> str:
    message = str(error).partition("\n")[0]
    return "no Parquet file there" if "UNABLE_TO_INFER_SCHEMA" in message else message


def _lines(spark: SparkSession, path: str, stream: bool, options: Mapping[str, str]) -> DataFrame:
    """Return the lines of text files, as bytes: a byte that is not UTF-8 spoils its own line only."""
    reader: Any = spark.readStream if stream else spark.read
    text = reader.options(**options).option("lineSep", "\n").text(resolved(path))
    return _placed(text, F.col("value").cast("binary"))


def _csv_files(spark: SparkSession, path: str, stream: bool, options: Mapping[str, str]) -> DataFrame:
    """Return CSV files whole."""
    reader: Any = spark.readStream if stream else spark.read
    if stream:
        reader = reader.schema("path string, modificationTime timestamp, length long, content binary")
    return _placed(reader.options(**options).format("binaryFile").load(resolved(path)), F.col("content"))


def _placed(files: DataFrame, content: Any) -> DataFrame:
    return files.select(content.alias(CONTENT), _file_name().alias(PLACE), _file_name().alias(SOURCE))


def _file_name() -> Column:
    """Return the name of the file that a row is from: the source of events that have none."""
    return F.expr("url_decode(replace(_metadata.file_name, '+', '%2B'))")


def _parsed(content: DataFrame, schema: Schema | None, parse: Any) -> EventSource:
    is_declared = schema is not None and bool(schema.attributes)
    layout = Layout(schema if is_declared else None)
    columns = EventColumns() if is_declared else EventColumns(document=DOCUMENT)
    return EventSource(content.mapInArrow(partial(parse, layout=layout), from_arrow_schema(layout.arrow)), columns)


def read_kafka(
    spark: SparkSession,
    servers: str,
    topic: str,
    schema: Schema | None = None,
    *,
    stream: bool = True,
    options: Mapping[str, str] | None = None,
) -> EventSource:
    """Return the events of a Kafka topic, whose messages are JSON, CloudEvents or plain.

    An event without an id is known by its partition and offset, one without a time has that of its message. `options`
    are those of Spark's Kafka source, such as startingOffsets. Raises SparkSetupError without Kafka's connector.
    """
    reader: Any = spark.readStream if stream else spark.read
    given = {"kafka.bootstrap.servers": servers, "subscribe": topic, **(options or {})}
    try:
        messages = reader.format("kafka").options(**given).load()
    except AnalysisException as error:
        if "kafka" not in str(error).lower():
            raise
        package = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{spark_version}"
        raise SparkSetupError(
            f"Kafka's connector is not on Spark's class path: run it with spark-submit --packages {package} "
            f"or set spark.jars.packages={package}"
        ) from None
    return events_of_messages(messages, schema)


def events_of_messages(messages: DataFrame, schema: Schema | None = None) -> EventSource:
    """Return the events of a DataFrame with the columns of Spark's Kafka source."""
    place = F.format_string("topic %s, partition %s, offset %s", "topic", "partition", "offset")
    content = messages.select(
        F.col("value").alias(CONTENT),
        place.alias(PLACE),
        F.format_string("%s/%s", "partition", "offset").alias(ID),
        F.format_string("kafka:%s", "topic").alias(SOURCE),
        F.col("timestamp").alias(TIME),
    )
    return _parsed(content, schema, parse_pieces)


def rate_events(spark: SparkSession, rows_per_second: int = 1, options: Mapping[str, str] | None = None) -> EventSource:
    """Return a stream of numbered events from Spark's rate source, with the attribute `value`, to try things out."""
    rows = spark.readStream.format("rate").option("rowsPerSecond", rows_per_second).options(**(options or {})).load()
    events = rows.select(
        F.col("value").cast("string").alias("id"),
        F.lit("rate").alias("source"),
        F.col("timestamp").alias("time"),
        F.col("value"),
    )
    return EventSource(events, EventColumns())


def with_end(events: DataFrame, checkpoint: str) -> DataFrame:
    """Return a stream that can come to an end: `announce_end` says that nothing more is to come.

    The end is a row of its own, in a batch after all that was there before, and completes open windows.
    """
    folder = FileSystem(events.sparkSession, checkpoint)
    folder.make_folder(ENDS)
    ends = events.sparkSession.readStream.text(folder.path(ENDS)).select(F.lit(True).alias(END))
    return events.withColumn(END, F.lit(False)).unionByName(ends, allowMissingColumns=True)


def announce_end(spark: SparkSession, checkpoint: str) -> None:
    """Let the stream of `with_end` come to its end; saying it twice is saying it once."""
    if not has_ended(spark, checkpoint):
        FileSystem(spark, checkpoint).create_text(_END_FILE, "the end\n")


def has_ended(spark: SparkSession, checkpoint: str) -> bool:
    """Whether the end of a stream was announced."""
    return FileSystem(spark, checkpoint).exists(_END_FILE)


Row: TypeAlias = dict[str, Any]


_MARKS = {REASON: pa.string(), ORIGINAL: pa.string()}


@dataclass(frozen=True)
class Layout:
    """The columns that events are read into, and those that mark a row as rejected.

    With a schema there is one column for each attribute of the envelope and of the schema; what no filter may name is
    left out. Without one a column has the event as JSON: attributes of all names and types.
    """

    schema: Schema | None = None

    @cached_property
    def arrow(self) -> pa.Schema:
        """The columns."""
        if self.schema is None:
            return pa.schema({DOCUMENT: pa.string(), **_MARKS})
        kinds = {name: arrow_type(kind) for name, kind in {**ENVELOPE_TYPES, **self.schema.attributes}.items()}
        return pa.schema({name: kind for name, kind in kinds.items() if name != "specversion"} | _MARKS)

    def of_json(self, piece: Piece) -> Row:
        """Return a piece of JSON as a row; raise an error that says why it is no event.

        Without a schema, whether it is one is seen when it is read in earnest.
        """
        completed = _completed(piece)
        if self.schema is None:
            return {DOCUMENT: json.dumps(completed, ensure_ascii=False)}
        return self.of_event(event_of_object(completed))

    def of_event(self, event: Event) -> Row:
        """Return an event as a row; raise an error that says why it does not fit."""
        if self.schema is None:
            return {DOCUMENT: typed_document(event)}
        return {
            name: whole_value(event, name, value) for name, value in event.conformed(self.schema).attributes.items()
        }


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
        if document.get("source") is None:
            document["source"] = piece.source or piece.place
        given = document.get("id")
        document["id"] = piece.id or event_of_object(document).id if given is None else text_id(given)
        if document.get("time") is None and piece.time is not None:
            document["time"] = format_time(piece.time)
    return document


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
