"""Events from where they are: files of every kind, Kafka, Spark's rate source; any other DataFrame needs none of this.

    source = read_events(spark, "flats/", schema)              # a folder, file or pattern; the suffix is the format
    source = read_events(spark, "flats/", schema, stream=True)
    source = read_kafka(spark, "host:9092", "flats", schema)   # a stream; with Kafka's connector on the class path
    Pipeline(subscribers, columns=source.columns).outputs(source.events)

All mark rows that are no events (see `rejected`), which neither stops a query nor gets lost. `schema` is what the
subscriber file declares: JSON and CSV then have one column per attribute. Without one they are read as documents, one
by one, which is slower and takes attributes of any name. Parquet keeps the columns that it has.

Lines of JSON are divided among tasks as Spark divides text. A CSV file is read by one task, since a quoted cell may
hold a line end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the name that all of Spark's documentation has)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.version import __version__ as spark_version

from rankcast.model.errors import InvalidFileError, InvalidValueError, Problem
from rankcast.model.schema import Schema
from rankcast.spark.filesystems import FileSystem, resolved
from rankcast.spark.metrics import ENDS
from rankcast.spark.session import SparkSetupError
from rankcast.spark.sources.events import END, EventColumns
from rankcast.spark.sources.parsing import (
    CONTENT,
    DOCUMENT,
    ID,
    PLACE,
    SOURCE,
    TIME,
    Columns,
    Documents,
    Layout,
    parse_csv_files,
    parse_pieces,
)
from rankcast.storage.events.files import EventFormat, event_format

GLOB = "*?[{"
_END_FILE = f"{ENDS}/end"


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
    suffixed = event_format(_pure(path))
    if suffixed is not None:
        return suffixed
    files = FileSystem(spark, path) if not any(sign in path for sign in GLOB) else None
    if files is not None and not files.exists():
        raise _unusable(path, "no such file or folder")
    names = list(_names(files, "")) if files is not None else []
    formats = {found for name in names if (found := event_format(_pure(name))) is not None}
    if len(formats) == 1:
        return formats.pop()
    what = "files of several formats" if formats else "no event file (.jsonl, .csv, .parquet)"
    raise _unusable(path, f"{what}; say which format the events have")


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


def _pure(path: str) -> Any:
    return PurePosixPath(path)


def _unusable(path: str, what: str) -> InvalidFileError:
    return InvalidFileError([Problem(path, None, what)])


def _parquet(
    spark: SparkSession, path: str, schema: Schema | None, stream: bool, options: Mapping[str, str]
) -> DataFrame:
    try:
        found = spark.read.parquet(resolved(path))
    except AnalysisException as error:
        if not stream or schema is None:
            raise _unusable(path, _first_line(error)) from None
        declared = from_arrow_schema(Columns(schema).arrow)
        return spark.readStream.schema(declared).options(**options).parquet(resolved(path))
    if not stream:
        return found
    return spark.readStream.schema(found.schema).options(**options).parquet(resolved(path))


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
    name = F.expr("url_decode(replace(_metadata.file_name, '+', '%2B'))")
    return files.select(content.alias(CONTENT), name.alias(PLACE), name.alias(SOURCE))


def _parsed(content: DataFrame, schema: Schema | None, parse: Any) -> EventSource:
    is_declared = schema is not None and bool(schema.attributes)
    layout: Layout = Columns(schema) if schema is not None and is_declared else Documents()

    def parsed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return parse(batches, layout)  # type: ignore[no-any-return]

    columns = EventColumns() if is_declared else EventColumns(document=DOCUMENT)
    return EventSource(content.mapInArrow(parsed, from_arrow_schema(layout.arrow)), columns)


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
