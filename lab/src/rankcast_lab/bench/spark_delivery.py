"""The delivery stage on Spark alone: packed rows from files, queues in Spark's state, packed deliveries to files.

Every event has 43 rows, for queues at random; events are a millisecond apart and scores are random. One micro-batch is
one file. A plain process gives the same chunks to the same shards, and what both deliver is compared. The first
batches fill caches and are not counted.

Cost: the files of all batches are written before anything is measured, some 24 bytes a row.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from rankcast.delivery.stream.batches import DeliveryBatch, MatchBatch
from rankcast.delivery.stream.event_tables import EventTable, Ragged
from rankcast.delivery.stream.handovers import PLAIN, Handover
from rankcast.delivery.stream.shards import Shard
from rankcast.model.policies import Policy, Sliding
from rankcast.model.times import NEVER
from rankcast.spark.delivery.stage import INPUT_SCHEMA, deliver_packed
from rankcast.spark.delivery.state import MessageKind

MATCHES_PER_EVENT = 43
POLICY = Sliding(10, 100)
SPACING = 1_000
"""Microseconds between two events."""

FIRST = 1_000_000_000 * 1_000_000
"""The time of the first event."""

_FILE = pa.schema(
    [("shard", pa.int32()), ("time", pa.timestamp("us", tz="UTC")), ("kind", pa.int8()), ("data", pa.binary())]
)


@dataclass(frozen=True, slots=True)
class DeliveryWork:
    """What is to be measured: so many queues with one policy, batches of so many rows."""

    queues: int = 100_000
    rows: int = 200_000
    batches: int = 50
    shards: int = 2
    policy: Policy = POLICY
    seed: int = 1

    def policies(self, shard: int, shards: int) -> tuple[int, Sequence[Policy]]:
        """Return the policies of a shard's queues."""
        return 0, [self.policy] * len(range(shard, self.queues, shards))

    def handovers(self, shard: int, shards: int) -> Sequence[Handover]:
        """Return that all of them are handed over at once."""
        return [PLAIN] * len(range(shard, self.queues, shards))

    def chunks(self, batch: int) -> Iterator[tuple[int, MatchBatch]]:
        """Return the chunks of a batch by shard, always the same for its number."""
        generator = np.random.default_rng((self.seed, batch))
        count = -(-self.rows // MATCHES_PER_EVENT)
        numbers = np.arange(batch * count, (batch + 1) * count)
        texts = Ragged.of_texts(f"event-{number:012}" for number in numbers.tolist())
        events = EventTable.of(FIRST + numbers * SPACING, Ragged.of_texts(["feed"] * count), texts)
        event = np.repeat(np.arange(count), MATCHES_PER_EVENT)[: self.rows]
        queue, score = generator.integers(0, self.queues, self.rows), generator.random(self.rows)
        for shard in range(self.shards):
            own = np.flatnonzero(queue % self.shards == shard)
            never, nothing = np.full(len(own), NEVER), np.zeros(len(own), np.int32)
            rows = (queue[own] // self.shards).astype(np.int32), event[own].astype(np.int32), score[own]
            yield shard, MatchBatch(events, *rows, never, nothing)

    def end(self, batch: int) -> int:
        """Return the newest time of a batch."""
        count = -(-self.rows // MATCHES_PER_EVENT)
        return FIRST + ((batch + 1) * count - 1) * SPACING


@dataclass(frozen=True, slots=True)
class DeliveryFigures:
    """What was measured: rows per second by Spark and in a plain process, and whether both delivered the same."""

    rows_per_second: float
    plain_rows_per_second: float
    delivered: int
    is_equal: bool


def measure(spark: SparkSession, work: DeliveryWork, folder: Path, *, warm_up: int = 2) -> DeliveryFigures:
    """Run all batches through Spark and through shards in this process; the folder is empty."""
    for batch in range(work.batches):
        _write(work, batch, folder / "in")
    plain_seconds, expected = _plain(work)
    source = spark.readStream.schema(INPUT_SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    writing = deliver_packed(source, work, shards=work.shards).writeStream.format("parquet")
    query = writing.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
    running = query.start(str(folder / "out"))
    running.awaitTermination()
    progress = [one for one in running.recentProgress if one.numInputRows]
    seconds = [one.durationMs["triggerExecution"] / 1000 for one in progress[warm_up:]]
    rows = spark.read.parquet(str(folder / "out")).filter(f"kind = {int(MessageKind.NOTICES)}").collect()
    found = [(row["shard"], DeliveryBatch.from_bytes(bytes(row["data"]))) for row in rows]
    return DeliveryFigures(
        rows_per_second=work.rows / median(seconds) if seconds else 0.0,
        plain_rows_per_second=work.rows / median(plain_seconds[warm_up:] or plain_seconds),
        delivered=sum(len(notices) for _, notices in found),
        is_equal=_digests(found) == _digests(expected),
    )


def _write(work: DeliveryWork, batch: int, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    packed = [(shard, chunk.to_bytes()) for shard, chunk in work.chunks(batch)]
    newest = datetime.fromtimestamp(work.end(batch) / 1_000_000, UTC)
    columns = [[shard for shard, _ in packed], [newest] * len(packed), [int(MessageKind.CHUNK)] * len(packed)]
    columns.append([data for _, data in packed])
    arrays = [pa.array(column, field.type) for column, field in zip(columns, _FILE, strict=True)]
    pq.write_table(pa.Table.from_arrays(arrays, schema=_FILE), folder / f"{batch:05}.parquet", compression="none")


def _plain(work: DeliveryWork) -> tuple[list[float], list[tuple[int, DeliveryBatch]]]:
    """Give the shards of this process what Spark gives its own: a batch is released as soon as it has come."""
    shards = [Shard.of(work.policies(shard, work.shards)[1]) for shard in range(work.shards)]
    found: list[tuple[int, DeliveryBatch]] = []
    seconds: list[float] = []
    for batch in range(work.batches):
        chunks = [(shard, chunk.to_bytes()) for shard, chunk in work.chunks(batch)]
        start = perf_counter()
        for shard, data in chunks:
            shards[shard].take(MatchBatch.from_bytes(data))
            found.append((shard, shards[shard].advance(_watermark(work, batch))))
        seconds.append(perf_counter() - start)
    return seconds, found


def _watermark(work: DeliveryWork, batch: int) -> int:
    return work.end(batch) // 1000 * 1000


def _digests(found: list[tuple[int, DeliveryBatch]]) -> list[str]:
    """Return what tells deliveries apart: one digest of each, in an order that does not depend on how they came."""
    lines: list[str] = []
    for shard, notices in found:
        ids = notices.events.id.texts()
        columns = (notices.queue, notices.event, notices.time, notices.score)
        for queue, event, time, score in zip(*(column.tolist() for column in columns), strict=True):
            lines.append(f"{shard} {queue} {ids[event]} {time} {score!r}")
    return [hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()]


def state_bytes(spark: SparkSession, folder: Path, batch: int) -> int:
    """Return how much the shards have in Spark's state after a batch of `measure`: their snapshots and logs.

    Spark's own figures are those of its store, which has what was overwritten as well until it tidies up.
    """
    reader = spark.read.format("statestore").option("stateVarName", "head").option("batchId", batch)
    heads = reader.load(str(folder / "checkpoint")).select("value.log_bytes", "value.snapshot_bytes").collect()
    return sum(row["log_bytes"] + row["snapshot_bytes"] for row in heads)
