"""Write what a pipeline puts out: a whole bounded input at once, or micro-batch by micro-batch.

    write_outputs(pipeline.outputs(events), FileSink(spark, "out"))
    query = start_outputs(pipeline.outputs(stream), FileSink(spark, "out"), checkpoint="checkpoint")

A run is known by an id that lies in its checkpoint; a sink belongs to one run, so that two runs never mix their
outputs and a restart goes on where it stopped. Delivery is exactly once: Spark computes the same batch again under the
same number after a crash, and every sink replaces what it holds of that number.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from rankcast.model.errors import RankcastError
from rankcast.model.periods import TZDATA_VERSION
from rankcast.spark.filesystems import FileSystem, resolved
from rankcast.spark.metrics import Counts, Metrics
from rankcast.spark.sinks.databases import DatabaseSink, is_database
from rankcast.spark.sinks.files import FileSink
from rankcast.spark.sinks.outputs import Sink, computed
from rankcast.storage.text_files import invalid_file

log = logging.getLogger("rankcast.spark.sinks")

RUN_FILE = "rankcast.json"
"""The file of a checkpoint that names its run, and the tzdata whose calendars it began with."""

_VERSION = 1


def sink_of(spark: SparkSession, out: str, *, format: str = "parquet", query: str = "rankcast") -> Sink:  # noqa: A002
    """Return the sink that an address names: a database by its URL, or a folder."""
    return DatabaseSink(out, query=query) if is_database(out) else FileSink(spark, out, format=format)


def write_outputs(outputs: DataFrame, sink: Sink, *, run: str | None = None) -> Counts:
    """Write the outputs of a bounded input; return what there was. The sink must be new to this run."""
    sink.open(run or new_run())
    with computed(outputs, 0) as batch:
        sink.write(batch)
    sink.finish()
    return batch.counts


def start_outputs(
    outputs: DataFrame,
    sink: Sink,
    *,
    checkpoint: str,
    metrics: Metrics | None = None,
    available_now: bool = False,
    every: str = "0 seconds",
    name: str | None = None,
    before: Callable[[int], object] | None = None,
) -> StreamingQuery:
    """Start a query that writes the outputs of a stream; `outputs` is a streaming DataFrame.

    With `available_now` it takes what is there and ends. `metrics`, when given, is told what each batch came to; it
    has to be added to the session's listeners as well. `before` is called with the number of each batch before anything
    of it is computed, again when it is repeated.
    """
    take_for_run(outputs.sparkSession, sink, checkpoint)

    def write(found: DataFrame, number: int) -> None:
        if before is not None:
            before(number)
        with computed(found, number) as batch:
            sink.write(batch)
        if metrics is not None:
            metrics.record(number, batch.counts)

    writer = outputs.writeStream.foreachBatch(write).option("checkpointLocation", resolved(checkpoint))
    writer = writer.outputMode("append")
    if name is not None:
        writer = writer.queryName(name)
    return (writer.trigger(availableNow=True) if available_now else writer.trigger(processingTime=every)).start()


def take_for_run(spark: SparkSession, sink: Sink, checkpoint: str) -> None:
    """Take a sink for the run of a checkpoint; when it is another's, a new checkpoint is not kept."""
    files = FileSystem(spark, checkpoint)
    is_new = not files.exists()
    run = run_of(spark, checkpoint)
    try:
        sink.open(run)
    except RankcastError:
        if is_new:
            files.remove("")
        raise


def new_run() -> str:
    """Return the id of a new run."""
    return str(uuid.uuid4())


def run_of(spark: SparkSession, checkpoint: str) -> str:
    """Return the id of the run that a checkpoint belongs to; a new checkpoint gets one."""
    files = FileSystem(spark, checkpoint)
    if not files.exists(RUN_FILE):
        # What begins with an underscore may be a file of ours that a crash kept from getting its name.
        if any(not name.startswith(("_", ".")) for name in files.names()):
            what = f"holds other things but no {RUN_FILE}; it is no checkpoint of rankcast"
            raise invalid_file(checkpoint, None, what)
        files.make_folder()
        files.create_text(
            RUN_FILE, json.dumps({"version": _VERSION, "run": new_run(), "tzdata": TZDATA_VERSION}) + "\n"
        )
    found = files.read_json(RUN_FILE)
    if found.get("version") != _VERSION or not isinstance(found.get("run"), str):
        raise invalid_file(checkpoint, None, f"has a {RUN_FILE} that this version cannot read")
    if found.get("tzdata") != TZDATA_VERSION:
        before = found.get("tzdata")
        log.warning(
            "%s: began with the calendars of tzdata %s; now they are those of %s", checkpoint, before, TZDATA_VERSION
        )
    return str(found["run"])
