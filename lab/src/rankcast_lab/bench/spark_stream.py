"""The pipeline on Spark for `rankcast bench spark`: as a stream, its match stage alone, and the SQL formulation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from urllib.parse import unquote, urlparse

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from rankcast.spark.delivery.stage import INPUT_SCHEMA
from rankcast.spark.matching.packing import PackTask
from rankcast.spark.matching.shipping import AudienceSource
from rankcast.spark.pipeline import Pipeline
from rankcast.spark.session import spark_session
from rankcast.spark.sources.events import prepared
from rankcast_lab.bench.spark_plain import COLUMNS
from rankcast_lab.bench.spark_sql import formulation
from rankcast_lab.bench.spark_workload import ATTRIBUTES, POLICY, SparkWork

SHARDS = 2
"""One for each core: fewer copies of the events' identities."""

CORES = "local[2]"

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1500m",
}


@contextmanager
def session() -> Iterator[SparkSession]:
    """Give the running session, or one of two cores that ends with the block."""
    running = SparkSession.getActiveSession()
    spark = running or spark_session(CORES, name="rankcast-bench", settings=_SETTINGS)
    if running is None:
        spark.sparkContext.setLogLevel("ERROR")
    try:
        with _changed(spark, {"spark.sql.shuffle.partitions": str(SHARDS)}):
            yield spark
    finally:
        if running is None:
            spark.stop()


@contextmanager
def _changed(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    before = {key: spark.conf.get(key) for key in settings}
    try:
        for key, value in settings.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key, old in before.items():
            if old is not None:
                spark.conf.set(key, old)


@dataclass(frozen=True, slots=True)
class StreamRun:
    """What each micro-batch took, and how many events it had; the last of all may have none."""

    seconds: tuple[float, ...]
    events: tuple[int, ...]


def run_stream(spark: SparkSession, work: SparkWork, source: AudienceSource, events: Path, folder: Path) -> StreamRun:
    """Run the pipeline over all files, one batch at a time; notifications are written to `out` in the folder."""
    files = spark.readStream.schema(_schema(spark, work, events)).option("maxFilesPerTrigger", work.files)
    notifications = Pipeline(source, shards=SHARDS).transform(files.parquet(str(events))).select(*COLUMNS)
    writing = notifications.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    query = writing.trigger(availableNow=True).start(str(folder / "out"))
    query.awaitTermination()
    progress = query.recentProgress
    return StreamRun(
        tuple(one.durationMs["triggerExecution"] / 1000 for one in progress),
        tuple(int(one.numInputRows) for one in progress),
    )


def match_seconds(spark: SparkSession, work: SparkWork, source: AudienceSource, events: Path, warm_up: int) -> float:
    """Return what the match stage alone takes, up to its packed rows, for all events after the first batches."""
    ready, reader = prepared(spark.read.parquet(*_paths(work, events, range(warm_up, work.batches))))
    packed = ready.mapInArrow(PackTask(reader, source, SHARDS), INPUT_SCHEMA)
    start = perf_counter()
    packed.write.format("noop").mode("overwrite").save()
    return perf_counter() - start


def run_sql(spark: SparkSession, work: SparkWork, count: int, folder: Path) -> float:
    """Run the SQL formulation for the first events; return its seconds. The result is in `sql` in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(work.event_table(0).slice(0, count), folder / "events.parquet")
    pq.write_table(work.filter_table(), folder / "filters.parquet")
    spark.read.parquet(str(folder / "events.parquet")).createOrReplaceTempView("events")
    spark.read.parquet(str(folder / "filters.parquet")).createOrReplaceTempView("filters")
    query = spark.sql(formulation(ATTRIBUTES, POLICY))
    start = perf_counter()
    query.write.mode("overwrite").parquet(str(folder / "sql"))
    return perf_counter() - start


def written(spark: SparkSession, folder: Path) -> list[str]:
    """Return the files that Spark has written to a folder: only those of batches that were completed count."""
    return [unquote(urlparse(file).path) for file in spark.read.parquet(str(folder)).inputFiles()]


def _schema(spark: SparkSession, work: SparkWork, events: Path) -> str:
    kinds = spark.read.parquet(str(work.files_of(events, 0)[0])).schema
    return ", ".join(f"{one.name} {one.dataType.simpleString()}" for one in kinds.fields)


def _paths(work: SparkWork, events: Path, batches: range) -> list[str]:
    return [str(path) for batch in batches for path in work.files_of(events, batch)]
