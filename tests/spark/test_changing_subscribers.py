"""Subscribers that change while a stream runs, seen from the stream: each event meets those of its own time."""

import json
import os
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from pyspark.errors import PythonException, StreamingQueryException
from pyspark.sql import DataFrame

from rankcast.delivery.stream.queue_changes import QueueChange
from rankcast.model.errors import InvalidFileError
from rankcast.model.policies import ALL_MATCHES
from rankcast.spark.matching.stage import match
from rankcast.spark.metrics import BatchMetrics, Metrics
from rankcast.spark.pipeline import Pipeline
from rankcast.spark.sinks.files import FileSink
from rankcast.spark.sinks.sinks import start_outputs
from rankcast.spark.subscribers.changing import STORE, ChangingSubscribers, local_path
from rankcast.spark.subscribers.tables import append_subscribers
from rankcast.spark.subscribers.timelines import ALWAYS
from spark.builders import NOON, forget_last_commit, person

SCHEMA = "id string, time timestamp, rent int"


def minute(number: float) -> datetime:
    return NOON + timedelta(minutes=number)


class Stream:
    """A stream of one file per micro-batch, whose matches are collected batch by batch."""

    def __init__(self, spark, root: Path) -> None:
        self.spark = spark
        self.root = root
        self.table = root / "table"
        self.found: dict[int, set[tuple[str, str]]] = {}
        self.after: dict[int, Callable[[], object]] = {}
        (root / "events").mkdir()

    def publish(self, batch: int, *times: float) -> None:
        events = [{"id": f"{time:g}", "time": minute(time).isoformat(), "rent": 100} for time in times]
        file = self.root / "events" / f"{batch}.json"
        file.write_text("".join(json.dumps(event) + "\n" for event in events))
        os.utime(file, (NOON.timestamp() + batch, NOON.timestamp() + batch))  # Spark takes the oldest first

    def run(self, *, prepare: bool = True, lateness: timedelta = timedelta(0)) -> ChangingSubscribers:
        checkpoint = self.root / "checkpoint"
        subscribers = ChangingSubscribers(self.table, checkpoint, lateness=lateness)

        def collect(matches: DataFrame, batch: int) -> None:
            if prepare:
                subscribers.prepare(batch)
            self.found[batch] = {(row.subscriber, row.id) for row in matches.collect()}
            self.after.get(batch, lambda: None)()

        events = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(self.root / "events"))
        matches = match(events, subscribers.source).withWatermark("time", f"{lateness.total_seconds():g} seconds")
        writer = matches.writeStream.foreachBatch(collect).option("checkpointLocation", str(checkpoint))
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(120)
        return subscribers

    def everything(self) -> set[tuple[str, str]]:
        return set().union(*self.found.values())

    def seen_by(self, name: str) -> set[str]:
        return {event for subscriber, event in self.everything() if subscriber == name}


@pytest.fixture
def stream(spark, tmp_path: Path) -> Stream:
    return Stream(spark, tmp_path)


def test_each_event_meets_the_subscribers_of_its_own_time(stream: Stream) -> None:
    append_subscribers(stream.table, [person("ana", "rent < 500"), person("eva", "rent < 500")])
    append_subscribers(stream.table, [person("ana", "rent < 50")], active_from=minute(5))
    stream.publish(0, 1, 4, 6)
    stream.publish(1, 9, 12)
    stream.publish(2, 16)
    stream.after[0] = lambda: append_subscribers(stream.table, [person("leo", "rent < 500")], active_from=minute(10))
    stream.after[1] = lambda: append_subscribers(stream.table, gone=["eva"], active_from=minute(14))
    counts = stream.run().counts
    assert stream.seen_by("ana") == {"1", "4"}
    assert stream.seen_by("eva") == {"1", "4", "6", "9", "12"}
    assert stream.seen_by("leo") == {"12", "16"}
    assert (counts.version, counts.updates, counts.late_changes) == (3, 2, 0)


def test_a_batch_without_a_version_fails_and_says_what_to_call(stream: Stream) -> None:
    append_subscribers(stream.table, [person("ana", "rent < 500")])
    stream.publish(0, 1)
    with pytest.raises((PythonException, StreamingQueryException), match="no version of the subscribers was decided"):
        stream.run(prepare=False)


def test_a_version_that_is_missing_stops_the_stream_with_a_clear_error_and_nothing_is_lost(stream: Stream) -> None:
    append_subscribers(stream.table, [person("ana", "rent < 500")])
    stream.publish(0, 1)
    stream.run()
    forget_last_commit(stream.root / "checkpoint")
    stream.found.clear()
    versions = stream.root / "checkpoint" / STORE / "versions"
    versions.rename(stream.root / "copy")
    with pytest.raises(StreamingQueryException, match="version 1 of the subscribers is not there"):
        stream.run()
    (stream.root / "copy").rename(versions)
    stream.run()
    assert stream.everything() == {("ana", "1")}


def test_shards_are_told_of_changes_by_the_first_batch_that_has_events(tmp_path: Path, monkeypatch) -> None:
    checkpoint, table = tmp_path / "checkpoint", tmp_path / "table"
    (checkpoint / "offsets").mkdir(parents=True)
    append_subscribers(table, [person("ana", "rent < 500"), person("eva", "rent < 500"), person("leo", "rent < 500")])
    subscribers = ChangingSubscribers(table, checkpoint)
    told = []
    for batch, watermark in enumerate([0, 5_000, 5_000, 9_000]):
        (checkpoint / "offsets" / str(batch)).write_text(f'v1\n{{"batchWatermarkMs": {watermark}}}\n')
        if batch == 1:  # a batch without events, as Spark makes one to let time pass
            append_subscribers(table, gone=["leo"])
        subscribers.prepare(batch)
        monkeypatch.setattr("rankcast.spark.subscribers.changing.batch_of_task", lambda batch=batch: batch)
        told.append(subscribers.source.changes(2))
    frontier = 5_001_000
    assert told == [(ALWAYS, {0: [], 1: []}), *[(frontier, {0: [QueueChange(1, frontier, None)], 1: []})] * 2, None]
    assert subscribers.source.policies(0, 2) == (0, [ALL_MATCHES, ALL_MATCHES])


def test_changes_that_are_found_while_no_events_come_reach_the_delivery(spark, tmp_path: Path) -> None:
    stream, found = Stream(spark, tmp_path), tmp_path / "out"
    append_subscribers(stream.table, [person("ana", "rent < 500"), person("eva", "rent < 500")])

    def run(change_in: int | None) -> list[dict]:
        checkpoint = tmp_path / "checkpoint"
        subscribers = ChangingSubscribers(stream.table, checkpoint)
        told: list[BatchMetrics] = []
        metrics = Metrics(told.append)
        metrics.follow(subscribers.updates)

        def before(batch: int) -> None:
            if batch == change_in:
                append_subscribers(stream.table, [person("leo", "rent < 500")], gone=["eva"])
            subscribers.prepare(batch)

        events = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(tmp_path / "events"))
        spark.streams.addListener(metrics)
        outputs = Pipeline(subscribers, shards=2).outputs(events)
        sink = FileSink(spark, str(found))
        query = start_outputs(
            outputs, sink, checkpoint=str(checkpoint), metrics=metrics, available_now=True, before=before
        )
        assert query.awaitTermination(120)
        assert metrics.wait_for_end(str(query.runId), 60)
        spark.streams.removeListener(metrics)
        return [one.to_json() for one in told]

    stream.publish(0, 1, 2)
    first = run(change_in=1)
    assert [one["rows"] for one in first] == [2, 0], "Spark lets time pass in a batch without events"
    assert [one["subscribers"]["version"] for one in first] == [1, 2]
    assert first[1]["subscribers"]["updates"] == 1
    stream.publish(1, 5)
    stream.publish(2, 9)
    run(change_in=None)
    rows = spark.read.parquet(str(found / "notifications")).collect()
    got = {(row.subscriber, row.id) for row in rows}
    assert got == {("ana", "1"), ("ana", "2"), ("eva", "1"), ("eva", "2"), ("ana", "5"), ("leo", "5")}


def test_versions_lie_on_a_file_system_that_is_mounted() -> None:
    assert local_path("file:///data/check%20point") == Path("/data/check point")
    assert local_path("/data/x") == Path("/data/x")
    with pytest.raises(InvalidFileError, match="a file system that is mounted on every machine, not 'hdfs'"):
        local_path("hdfs://host/checkpoint")
