"""The delivery stage gives what one shard in one process gives, whatever Spark does with rows, batches and tasks."""

import os
import sys
from datetime import timedelta
from itertools import count
from random import Random
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.cloudpickle import register_pickle_by_value
from pyspark.sql import functions as F  # noqa: N812

from rankcast.delivery.stream.queue_changes import QueueChange
from rankcast.model.errors import InvalidValueError
from rankcast.model.policies import AllMatches, Periodic
from rankcast.model.times import NEVER
from rankcast.spark.delivery import live_state as state_live
from rankcast.spark.delivery.stage import INPUT, INPUT_SCHEMA, deliver_packed, has_watermark, shard_keys, spark_hash
from rankcast.spark.delivery.state import MessageKind, packed_plan
from rankcast.spark.session import REQUIRED, SparkSetupError
from spark import packed_deliveries
from spark.packed_deliveries import SECOND, Policies, batches_of, collected, expected, packed_of, rows_of

register_pickle_by_value(sys.modules[__name__])  # workers cannot import tests
register_pickle_by_value(packed_deliveries)


class NoQueues:
    """Queues come with changes."""

    def policies(self, shard, shards):
        return 0, []

    def handovers(self, shard, shards):
        return []


class Stream:
    """A stream of packed rows, one file and micro-batch after the other; every run goes on from the checkpoint."""

    def __init__(self, spark, folder, shards, *, queues=None, lateness=timedelta(0)):
        self.spark, self.folder, self.shards, self.lateness = spark, folder, shards, lateness
        self.queues = queues or Policies()
        self.numbers = count()
        (folder / "in").mkdir(parents=True)

    def add(self, packed):
        """Write the file of one micro-batch."""
        table = pa.table([pa.array(column, field.type) for column, field in zip(zip(*packed), INPUT)], INPUT)  # noqa: B905
        number = next(self.numbers)
        path = self.folder / "in" / f"{number:04}.parquet"
        pq.write_table(table, path.with_suffix(".new"))
        # Spark takes files in the order of their times, which may be equal when they are written one after the other.
        os.utime(path.with_suffix(".new"), (1_000_000 + number, 1_000_000 + number))
        path.with_suffix(".new").rename(path)

    def end(self):
        self.add([(shard, None, int(MessageKind.END), b"") for shard in range(self.shards)])

    def run(self):
        """Process what is there; return all output so far."""
        source = self.spark.readStream.schema(INPUT_SCHEMA).option("maxFilesPerTrigger", 1)
        packed = source.parquet(str(self.folder / "in"))
        result = deliver_packed(packed, self.queues, shards=self.shards, lateness=self.lateness)
        writing = result.writeStream.format("parquet").option("checkpointLocation", str(self.folder / "checkpoint"))
        query = writing.trigger(availableNow=True).start(str(self.folder / "out"))
        query.awaitTermination()
        self.rows = self.spark.read.parquet(str(self.folder / "out")).collect()
        return collected(self.rows, self.shards)


def forget_live_shards():
    """Let the workers, which are on this host, find no live shard."""
    for folder in state_live.base_folder().glob(f"{state_live.PREFIX}*"):
        for head in folder.glob("shard-*/head"):
            head.unlink(missing_ok=True)


def test_a_stream_delivers_what_one_shard_delivers_and_goes_on_from_its_checkpoint(spark, tmp_path):
    """Out of order within the lateness, at its edge, beyond it; several shards and chunks; with live shards and not."""
    lateness, rows, random = timedelta(seconds=30), rows_of(150), Random(4)
    jittered = sorted(rows, key=lambda row: (row[0] + random.randrange(20) * SECOND, row[1]))
    stream = Stream(spark, tmp_path, 3, lateness=lateness)
    first, second, third = batches_of(jittered, 3)
    rejected = (1, None, int(MessageKind.REJECTED), b"bad")
    stream.add([*packed_of(first, 3, random), rejected])
    stream.add(packed_of(second, 3, random))
    stream.run()
    forget_live_shards()
    newest = max(row[0] for row in (*first, *second))
    at_watermark = [(newest - 30 * SECOND, f"edge-{queue}", queue, 0.9, NEVER) for queue in range(3)]
    too_late = [(newest - 31 * SECOND, "too-late", 0, 0.9, NEVER)]
    stream.add(packed_of([*third, *at_watermark, *too_late], 3, random))
    stream.end()
    notices, late = stream.run()
    assert late == ["too-late"]
    assert notices == expected([*rows, *at_watermark], lateness=lateness // timedelta(microseconds=1))
    passed = [(row["shard"], bytes(row["data"])) for row in stream.rows if row["kind"] == MessageKind.REJECTED]
    assert passed == [(1, b"bad")]


def test_time_brings_deliveries_and_changes_without_more_rows_for_the_shard(spark, tmp_path):
    """A period ends while only another shard gets rows: a timer calls. Queues come with the first version's changes."""
    period, every = Periodic(2, timedelta(seconds=20)), AllMatches()
    plans = {
        shard: packed_plan([QueueChange(0, 0, policy)], version=1, since=0)
        for shard, policy in enumerate((period, every))
    }
    told_twice = [(shard, None, int(MessageKind.CHANGES), data) for shard, data in plans.items()] * 2
    stream = Stream(spark, tmp_path, 2, queues=NoQueues())
    stream.add([*packed_of([(1_001 * SECOND, "a", 0, 0.5, NEVER)], 2), *told_twice])
    stream.add(packed_of([(1_050 * SECOND, "b", 1, 0.5, NEVER)], 2))
    stream.add(packed_of([(1_051 * SECOND, "c", 1, 0.5, NEVER)], 2))
    notices, _ = stream.run()
    assert notices[0][:4] == (0, 1_020 * SECOND, "s", "a")


def test_speculative_execution_is_refused():
    settings = {**REQUIRED, "spark.speculation": "true"}
    session = SimpleNamespace(conf=SimpleNamespace(get=lambda key, default=None: settings.get(key, default)))
    with pytest.raises(SparkSetupError, match=r"spark\.speculation = 'true'; the pipeline needs false"):
        deliver_packed(SimpleNamespace(sparkSession=session), Policies(), shards=1)


def test_no_shards_and_negative_lateness_are_refused(spark):
    given = spark.createDataFrame([], INPUT_SCHEMA)
    with pytest.raises(InvalidValueError, match="shards: 0; expected at least 1"):
        deliver_packed(given, Policies(), shards=0)
    with pytest.raises(InvalidValueError, match="lateness: -1 day, 23:59:59; expected at least 0"):
        deliver_packed(given, Policies(), shards=1, lateness=timedelta(seconds=-1))


def test_a_watermark_that_a_step_before_has_set_is_seen(spark):
    rows = spark.readStream.format("rate").load()
    assert not has_watermark(rows)
    watched = rows.withWatermark("timestamp", "1 minute").selectExpr("value AS other")
    assert has_watermark(watched.mapInArrow(lambda batches: batches, "other bigint"))


def test_keys_of_shards_are_spread_as_spark_spreads_them(spark):
    for shards in (1, 2, 8):
        keys = shard_keys(shards)
        assert len(set(keys)) == shards
        made = spark.createDataFrame([(key,) for key in keys], "key int")
        found = [row[0] for row in made.select(F.pmod(F.hash("key"), F.lit(shards))).collect()]
        assert found == list(range(shards)) == [spark_hash(key) % shards for key in keys]
