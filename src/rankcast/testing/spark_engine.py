"""The Spark pipeline as an engine of the conformance suite, on tables and on streams; imports PySpark when it is used.

Events are given as documents that hold them exactly, so any case can be replayed. As a stream they come in several
micro-batches, divided and shuffled at random; they may be late by as much as the shuffling makes them. The last batch
says that the input ends. Arrivals (`rankcast.testing.arrivals`) keep their order, and their lateness.
"""

from __future__ import annotations

import json
import os
import random
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from rankcast.model.events import Event, Identity
from rankcast.model.policies import Digest
from rankcast.model.subscriptions import Subscriber, SubscriberId, SubscriptionId
from rankcast.model.times import EPOCH, instant_of
from rankcast.spark.sources.event_reader import typed_document
from rankcast.testing.arrivals import Arrivals, Arrived, late_by
from rankcast.testing.conformance import Case
from rankcast.testing.definitions import ExpectedDelivery

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_COLUMN, _ASKED = "value", "asked"
_SHAPE = f"{_COLUMN} string, {_ASKED} long"

NO_CASE = Case((), ())


@dataclass(frozen=True)
class SparkEngine:
    """`Pipeline` on a static DataFrame or, with `batches`, on a stream of so many micro-batches."""

    spark: SparkSession
    batches: int | None = None
    partitions: int = 2
    shards: int = 3
    displaced: int = 0
    """How many places an event of a stream may be away from where its time puts it."""
    seed: int = 0

    def deliveries(self, case: Case) -> list[ExpectedDelivery]:
        """Run the pipeline on the events of a case, each at its own time."""
        events = [event for event in case.events if event.time is not None]
        chooser = random.Random(self.seed)
        if self.batches is None:
            chooser.shuffle(events)
            return list(self._on_table(Arrivals(case.subscribers, tuple(events), timedelta(0)), case).deliveries)
        order = sorted(range(len(events)), key=lambda at: at + chooser.uniform(0, self.displaced + 1))
        arriving = tuple(events[at] for at in order)
        arrivals = Arrivals(case.subscribers, arriving, _latest(arriving))
        return list(self._on_stream(arrivals, chooser, case).deliveries)

    def arrived(self, arrivals: Arrivals) -> Arrived:
        """Run the pipeline on events as they come; on a table they are shuffled, as nothing says in which order."""
        chooser = random.Random(self.seed)
        if self.batches is not None:
            return self._on_stream(arrivals, chooser)
        return self._on_table(replace(arrivals, events=tuple(chooser.sample(arrivals.events, len(arrivals.events)))))

    def _on_table(self, arrivals: Arrivals, case: Case = NO_CASE) -> Arrived:
        rows = [(typed_document(event), case.asked.get(event.identity)) for event in arrivals.events]
        frame = self.spark.createDataFrame(rows, _SHAPE).repartition(self.partitions)
        return self._arrived([self._pipeline(arrivals, case).outputs(frame).toArrow()], arrivals)

    def _on_stream(self, arrivals: Arrivals, chooser: random.Random, case: Case = NO_CASE) -> Arrived:
        from rankcast.spark.sources.events import END  # noqa: PLC0415 (PySpark is imported when it is used)

        arriving = arrivals.events
        cuts = sorted(chooser.randint(0, len(arriving)) for _ in range((self.batches or 1) - 1))
        parts = [arriving[start:end] for start, end in zip((0, *cuts), (*cuts, len(arriving)), strict=True)]
        with tempfile.TemporaryDirectory() as folder:
            for at, part in enumerate(parts):
                documents = ({_COLUMN: typed_document(event), _ASKED: case.asked.get(event.identity)} for event in part)
                lines = list(map(json.dumps, documents))
                if at == len(parts) - 1:
                    lines.append(json.dumps({END: True}))
                _written(Path(folder) / "in" / f"{at}.json", lines, at)
            stream = (
                self.spark.readStream.schema(f"{_SHAPE}, {END} boolean")
                .option("maxFilesPerTrigger", 1)
                .json(str(Path(folder) / "in"))
                .repartition(self.partitions)
            )
            tables = self._drained(self._pipeline(arrivals, case).outputs(stream), folder)
        return replace(self._arrived(tables, arrivals), late=late_by(arrivals, cuts))

    def _drained(self, outputs: DataFrame, folder: str) -> list[pa.Table]:
        found: list[pa.Table] = []

        def take(batch: DataFrame, _: int) -> None:
            found.append(batch.toArrow())

        query = (
            outputs.writeStream.foreachBatch(take)
            .option("checkpointLocation", str(Path(folder) / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return found

    def _pipeline(self, arrivals: Arrivals, case: Case) -> Any:
        from rankcast.spark.pipeline import Pipeline  # noqa: PLC0415
        from rankcast.spark.sources.events import EventColumns  # noqa: PLC0415

        return Pipeline(
            arrivals.subscribers,
            columns=EventColumns(document=_COLUMN, k=_ASKED),
            shards=self.shards,
            lateness=arrivals.lateness,
            advertisements=case.advertisements,
        )

    def _arrived(self, tables: list[pa.Table], arrivals: Arrivals) -> Arrived:
        late = _of_kind(pa.concat_tables(tables), "late")
        identities = map(Identity, late["source"].to_pylist(), late["id"].to_pylist())
        times = (instant_of(micros) for micros in late["time"].cast("int64").to_pylist())
        reported = list(zip(identities, times, strict=True))
        newest = max((event.time for event in arrivals.events if event.time is not None), default=EPOCH)
        return Arrived(deliveries_of(tables, arrivals.subscribers, newest), reported=reported)


def deliveries_of(batches: Iterable[pa.Table], people: Iterable[Subscriber], now: datetime) -> list[ExpectedDelivery]:
    """Return what the outputs of a run's batches say: notifications, and the lists as they are in the end, read now."""
    digests = {subscriber.id for subscriber in people if isinstance(subscriber.notify, Digest)}
    found, lists = list[ExpectedDelivery](), dict[tuple[str, str | None], list[ExpectedDelivery]]()
    for table in batches:
        changed = _of_kind(table, "list").to_pylist()
        lists |= {(row["subscriber"], row["subscription"]): [] for row in changed}
        for row in changed:
            if row["place"]:
                lists[row["subscriber"], row["subscription"]].append(_delivery(row, now))
        for row in _of_kind(table, "notification").to_pylist():
            delivered = _delivery(row, instant_of(row["delivered"]))
            later = instant_of(row["handed_over"]) if row["subscriber"] in digests else None
            found.append(delivered._replace(digest=later))
    return [*found, *chain.from_iterable(lists.values())]


def _of_kind(table: pa.Table, kind: str) -> pa.Table:
    """Return the rows of one kind, with times in microseconds since 1970."""
    rows = table.filter(pc.equal(table["kind"], kind))
    for name in ("delivered", "handed_over"):
        rows = rows.set_column(rows.schema.get_field_index(name), name, rows[name].cast("int64"))
    return rows


def _delivery(row: dict[str, Any], at: datetime) -> ExpectedDelivery:
    own = row["subscription"]
    return ExpectedDelivery(
        SubscriberId(row["subscriber"]),
        Identity(row["source"], row["id"]),
        row["rank"],
        tuple(map(SubscriptionId, row["matched"])),
        at,
        None if own is None else SubscriptionId(own),
    )


def _latest(arriving: Sequence[Event]) -> timedelta:
    """Return by how much the latest event comes after a newer one."""
    newest, late = datetime.min.replace(tzinfo=UTC), timedelta(0)
    for event in arriving:
        if event.time is not None:
            newest = max(newest, event.time)
            late = max(late, newest - event.time)
    return late


def _written(path: Path, lines: Sequence[str], at: int) -> None:
    """Write a file that Spark takes as the at-th: it goes by the time of the last change."""
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    os.utime(path, (1_000_000_000 + at, 1_000_000_000 + at))
