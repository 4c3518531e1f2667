"""The kernels of the Spark pipeline in one plain process, without Spark: Parquet files in, a Parquet file out.

One thread reads, matches, ranks, delivers through one shard and writes, batch after batch; nothing is packed or
shuffled. What it delivers is what the pipeline has to deliver.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter

import pyarrow as pa
import pyarrow.parquet as pq

from rankcast.delivery.engine.contents import WantedContent
from rankcast.delivery.stream.shards import Shard
from rankcast.spark.delivery.unpacked_rows import notification_rows
from rankcast.spark.matching.compiled_subscribers import CompiledSubscribers, loaded
from rankcast.spark.matching.packing import chunks_of
from rankcast.spark.matching.stage import matched_pieces
from rankcast.spark.sources.event_reader import EventReader, Leaf
from rankcast.spark.sources.events import DEFAULT_SOURCE, EventColumns
from rankcast_lab.bench.spark_workload import ATTRIBUTES, SparkWork

COLUMNS = ("subscriber", "source", "id", "time", "rank", "matched", "delivered")
"""What is written of a notification."""


@dataclass(slots=True)
class PlainRun:
    """What each batch took, by stage, and how many rows matched in it."""

    match_seconds: list[float] = field(default_factory=list)
    deliver_seconds: list[float] = field(default_factory=list)
    write_seconds: list[float] = field(default_factory=list)
    matched: list[int] = field(default_factory=list)

    def seconds(self, warm_up: int) -> float:
        """Return what all batches took but the first ones."""
        return sum(sum(stage[warm_up:]) for stage in (self.match_seconds, self.deliver_seconds, self.write_seconds))


def event_reader() -> EventReader:
    """Return what reads the work's events from Arrow."""
    return EventReader(
        names=("id", "source", "time", *ATTRIBUTES),
        leaves=tuple(Leaf(name, (name,), is_vector=False) for name in ATTRIBUTES),
        places=tuple(EventColumns().places.items()),
        payload=None,
        document=None,
        default_source=DEFAULT_SOURCE,
        schema=None,
        carried=None,
    )


def run_plain_apart(work: SparkWork, audience: Path, events: Path, out: Path) -> PlainRun:
    """Take all batches in a process of its own, for a saved audience: what that needs of memory ends with it."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as apart:
        return apart.submit(_run_saved, work, audience, events, out).result()


def _run_saved(work: SparkWork, audience: Path, events: Path, out: Path) -> PlainRun:
    return run_plain(work, loaded(audience), events, out)


def run_plain(work: SparkWork, audience: CompiledSubscribers, events: Path, out: Path) -> PlainRun:
    """Take all batches."""
    run, reader, shard = PlainRun(), event_reader(), Shard.of(audience.queues.policies_of(0, 1))
    writer: pq.ParquetWriter | None = None
    for batch in range(work.batches):
        clock = [perf_counter()]
        read = pa.concat_tables(pq.read_table(path) for path in work.files_of(events, batch))
        pieces = list(matched_pieces(iter(read.combine_chunks().to_batches()), reader, audience))
        clock.append(perf_counter())
        for piece in pieces:
            for packed in chunks_of(piece.events.table(WantedContent()), piece.rows, audience, 0, 1, 0):
                shard.take(packed.chunk)
        notices = shard.advance(work.end(batch))
        clock.append(perf_counter())
        rows = notification_rows(notices, 0, 1, audience).select(list(COLUMNS))
        writer = writer or pq.ParquetWriter(out, rows.schema, compression="snappy")
        writer.write_batch(rows)
        if batch == work.batches - 1:
            writer.close()
        clock.append(perf_counter())
        run.match_seconds.append(clock[1] - clock[0])
        run.deliver_seconds.append(clock[2] - clock[1])
        run.write_seconds.append(clock[3] - clock[2])
        run.matched.append(sum(len(piece.rows.event) for piece in pieces))
    return run
