"""`rankcast demo`: a feed of flats for thousands of people through the pipeline on Spark, and what it does for them.

The feed is written to Parquet; Spark matches it once to know what everyone is offered, and runs the pipeline from
Parquet to Parquet, which is what events/s are about. The stories of the named people are then told by a hub, which is
given what matched them in the same order; the demo fails if the flats it tells about fare differently there.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TypeVar

import numpy as np
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the name that all of Spark's documentation has)

from rankcast.cli.demo.audience import POLICIES, TELLING, named_people, others
from rankcast.cli.demo.figures import Figures, Rows, codes_of, figures, read_rows
from rankcast.cli.terminal import console, progress
from rankcast.model.events import Event
from rankcast.model.subscriptions import Subscriber
from rankcast.samples.feeds import flats
from rankcast.spark.matching.compiled_subscribers import Audience
from rankcast.spark.matching.stage import match
from rankcast.spark.pipeline import Pipeline
from rankcast.storage.events.files import write_events

PARTITIONS = 8
POLL_SECONDS = 0.5

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Told:
    """What the demo found out."""

    events: Sequence[Event]
    people: Sequence[Subscriber]
    subscribers: Sequence[Subscriber]
    matched: Rows
    delivered: Rows
    policies: Sequence[Figures]
    total: Figures
    seconds: float
    """How long the pipeline took, from Parquet to Parquet."""


def run_on_spark(spark: SparkSession, events: int, subscribers: int, seed: int, *, quiet: bool = False) -> Told:
    """Make the feed, run it through Spark and measure what came out."""
    with progress("making adverts", total=events, quiet=quiet) as bar:
        feed = list(bar.over(flats.events(events, seed)))
    with progress("making subscribers", quiet=quiet):
        people = named_people()
        everyone = [*people, *others(subscribers, seed)]
    with tempfile.TemporaryDirectory(prefix="rankcast-demo-") as name:
        folder = Path(name)
        write_events(folder / "events.parquet", feed)
        table = spark.read.parquet(str(folder / "events.parquet")).repartition(PARTITIONS)
        audience = Audience.of(everyone)
        waiting = F.lit(0.0).alias("waited")
        matches = _numbered(match(table, audience, schema=flats.schema), waiting)
        _shown(spark, "matching", lambda: matches.write.parquet(str(folder / "matches")), quiet=quiet)
        waited = (F.col("delivered").cast("double") - F.col("time").cast("double")).alias("waited")
        notifications = _numbered(Pipeline(audience, schema=flats.schema).transform(table), waited)
        started = perf_counter()
        write = notifications.write
        _shown(spark, "matching and delivering", lambda: write.parquet(str(folder / "notifications")), quiet=quiet)
        seconds = perf_counter() - started
        ids = [subscriber.id for subscriber in everyone]
        matched, delivered = read_rows(folder / "matches", ids), read_rows(folder / "notifications", ids)
    codes = codes_of(feed, TELLING)
    first, every = len(people), len(POLICIES)
    found = [
        figures(name, np.arange(first + at, len(everyone), every), matched, delivered, codes)
        for at, name in enumerate(POLICIES)
    ]
    total = figures("all of them", np.arange(len(everyone)), matched, delivered, codes)
    return Told(feed, people, everyone, matched, delivered, found, total, seconds)


def _numbered(rows: DataFrame, waited: Column) -> DataFrame:
    """Return subscriber, number of the event, rank, and how long it waited; flat-1 is event 0."""
    number = (F.substring(F.col("id"), len("flat-") + 1, 20).cast("int") - 1).alias("event")
    return rows.select("subscriber", number, "rank", waited)


def _shown(spark: SparkSession, words: str, action: Callable[[], Answer], *, quiet: bool) -> Answer:
    """Run an action of Spark and show meanwhile how many of its tasks are done."""
    if quiet or not sys.stderr.isatty():
        return action()
    tracker = spark.sparkContext.statusTracker()
    with ThreadPoolExecutor(1) as pool, console(sys.stderr).status(words) as status:
        running = pool.submit(action)
        while True:
            try:
                return running.result(POLL_SECONDS)
            except TimeoutError:
                if running.done():
                    raise
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            parts = [f"{one.numCompletedTasks} of {one.numTasks} tasks" for one in stages if one is not None]
            status.update(f"{words}: {', '.join(parts)}" if parts else words)
