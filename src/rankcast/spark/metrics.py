"""What a running pipeline does, batch by batch, for people and for programs.

`Metrics` is a StreamingQueryListener: add it to any session (`spark.streams.addListener(metrics)`) and it tells its
receivers one BatchMetrics per micro-batch of the queries it follows. Spark knows how many rows came in, how long the
batch took and how large the state is; the sink tells `record` what became of them. `JsonLines` is a receiver that
writes one JSON object per batch to a file.

What a run has done so far, as a table that can be shown while it goes on.

`QueryProgress` is a receiver of metrics: it keeps the sums and the last few batches, and `table` draws
them with rich. It may be told from one thread and drawn from another.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)
from rich import box
from rich.table import Table

from rankcast.model.times import EPOCH, format_time, parse_time

ENDS = "rankcast-ends"
"""The name of the folder by which a stream is told that it ends."""


@dataclass(frozen=True, slots=True)
class Counts:
    """What became of the rows of a batch: rows in = events + rejected.

    `events` were good rows and `matches` are their matches, one for each queue. `delivered` are notifications, which
    may speak of events of earlier batches. `late` are events that came after the allowed lateness, `duplicates` events
    that came again, as far as a batch shows it. `listed` are the rows of lists, read on demand, that have changed.
    `capped` and `muted` are deliveries that were never handed over.
    """

    events: int = 0
    matches: int = 0
    delivered: int = 0
    late: int = 0
    rejected: int = 0
    duplicates: int = 0
    listed: int = 0
    capped: int = 0
    muted: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(**{name: value + getattr(other, name) for name, value in asdict(self).items()})


@dataclass(frozen=True, slots=True)
class SubscriberUpdates:
    """What became of a table of subscribers that change, as of a batch: sums since this driver was started.

    `version` is the one that the batch is matched with. `late_changes` were told after events of their time had come.
    """

    version: int = 0
    updates: int = 0
    refused_updates: int = 0
    late_changes: int = 0


@dataclass(frozen=True, slots=True)
class BatchMetrics:
    """One micro-batch: what came in and out, what it cost, and how far behind it is.

    `rows` is what the source gave, `lag_seconds` the time from the newest event to the end of the batch, and
    `backlog` how many records a source with offsets has left. None where Spark or the source does not say. `updates`
    is None where subscribers do not change.
    """

    query: str
    batch: int
    time: datetime
    rows: int
    counts: Counts
    seconds: float
    state_bytes: int | None = None
    watermark: datetime | None = None
    lag_seconds: float | None = None
    backlog: int | None = None
    updates: SubscriberUpdates | None = None

    @property
    def rows_per_second(self) -> float:
        """Rows in, per second that the batch took."""
        return self.rows / self.seconds if self.seconds > 0 else 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the metrics as a JSON object."""
        return {
            "query": self.query,
            "batch": self.batch,
            "time": format_time(self.time),
            "rows": self.rows,
            **asdict(self.counts),
            "seconds": round(self.seconds, 3),
            "rows_per_second": round(self.rows_per_second, 1),
            "state_bytes": self.state_bytes,
            "watermark": None if self.watermark is None else format_time(self.watermark),
            "lag_seconds": None if self.lag_seconds is None else round(self.lag_seconds, 3),
            "backlog": self.backlog,
            **({} if self.updates is None else {"subscribers": asdict(self.updates)}),
        }


Receiver = Callable[[BatchMetrics], None]


class JsonLines:
    """A receiver that appends one line of JSON per batch to a file; each line is whole when it is there."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.open("a", encoding="utf-8").close()  # rather now than when the first batch is done

    def __call__(self, metrics: BatchMetrics) -> None:
        """Write one line."""
        with self._path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(metrics.to_json(), allow_nan=False) + "\n")


class Metrics(StreamingQueryListener):
    """Tells receivers the metrics of every micro-batch.

    With a `query` id only that one is followed. Spark calls listeners in a thread of its own, some moments after the
    batch. What a receiver raises goes to Spark's log and stops nothing.
    """

    def __init__(self, *receivers: Receiver, query: str | None = None) -> None:
        self._receivers = list(receivers)
        self._query = query
        self._recorded: dict[int, tuple[Counts, SubscriberUpdates | None]] = {}
        self._lock = threading.Lock()
        self._updates: Callable[[], SubscriberUpdates] | None = None
        self._ended: set[str] = set()
        self._ending = threading.Condition()

    def add(self, receiver: Receiver) -> None:
        """Tell one more receiver."""
        self._receivers.append(receiver)

    def follow(self, updates: Callable[[], SubscriberUpdates]) -> None:
        """Tell with each batch what became of updates of the subscribers: `ChangingSubscribers.updates`."""
        self._updates = updates

    def record(self, batch: int, counts: Counts) -> None:
        """Take what a sink counted in a batch, until Spark reports the batch."""
        updates = None if self._updates is None else self._updates()
        with self._lock:
            self._recorded[batch] = counts, updates

    def tell(self, metrics: BatchMetrics) -> None:
        """Tell every receiver."""
        for receiver in self._receivers:
            receiver(metrics)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 (Spark's name)
        """Be told that a query runs."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 (Spark's name)
        """Be told that a micro-batch is done."""
        progress = event.progress
        if self._query is not None and str(progress.id) != self._query:
            return
        with self._lock:
            counts, updates = self._recorded.pop(progress.batchId, (Counts(), None))
        self.tell(replace(batch_metrics(json.loads(progress.json), counts), updates=updates))

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 (Spark's name)
        """Be told that a query has ended: nothing more is reported of it."""
        with self._ending:
            self._ended.add(str(event.runId))
            self._ending.notify_all()

    def wait_for_end(self, run: str, seconds: float) -> bool:
        """Wait until everything of a run of a query has been reported; return whether that was in time."""
        with self._ending:
            return self._ending.wait_for(lambda: run in self._ended, seconds)


def batch_metrics(progress: Mapping[str, Any], counts: Counts) -> BatchMetrics:
    """Return the metrics of one progress report of Spark, given what the sink counted."""
    started = parse_time(progress["timestamp"])
    seconds = progress.get("durationMs", {}).get("triggerExecution", 0) / 1000
    operators = progress.get("stateOperators") or []
    event_time = progress.get("eventTime") or {}
    newest = parse_time(event_time["max"]) if "max" in event_time else None
    backlogs = [source.get("metrics", {}).get("maxOffsetsBehindLatest") for source in progress.get("sources", [])]
    known = [int(backlog) for backlog in backlogs if backlog is not None]
    return BatchMetrics(
        query=progress["id"],
        batch=progress["batchId"],
        time=started,
        rows=_rows(progress),
        counts=counts,
        seconds=seconds,
        state_bytes=sum(operator.get("memoryUsedBytes", 0) for operator in operators) if operators else None,
        watermark=_watermark(event_time),
        lag_seconds=None if newest is None else (started - newest).total_seconds() + seconds,
        backlog=sum(known) if known else None,
    )


def _rows(progress: Mapping[str, Any]) -> int:
    """Return how many rows came in, without those that only say that a stream ends."""
    ends = (source.get("numInputRows", 0) for source in progress.get("sources", []) if _is_end(source))
    return int(progress.get("numInputRows", 0) - sum(ends))


def _is_end(source: Mapping[str, Any]) -> bool:
    return str(source.get("description", "")).endswith(f"/{ENDS}]")


def _watermark(event_time: Mapping[str, str]) -> datetime | None:
    """Return the watermark; Spark says 1970 while there is none."""
    if "watermark" not in event_time:
        return None
    found = parse_time(event_time["watermark"])
    return None if found == EPOCH else found


SHOWN_BATCHES = 8
"""Batches that the table shows: the newest."""

_COLUMNS = ("Batch", "Events", "Matches", "Delivered", "Late", "Rejected", "Events/s", "State", "Lag", "Seconds")


class QueryProgress:
    """The sums of all batches, and the newest of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._newest: deque[BatchMetrics] = deque(maxlen=SHOWN_BATCHES)
        self.batches = 0
        self.rows = 0
        self.seconds = 0.0
        self.counts = Counts()

    def __call__(self, metrics: BatchMetrics) -> None:
        """Take one batch; one that came to nothing is not shown."""
        with self._lock:
            if metrics.rows == 0 and metrics.counts == Counts():
                return
            self.batches += 1
            self.rows += metrics.rows
            self.seconds += metrics.seconds
            self.counts += metrics.counts
            self._newest.append(metrics)

    def table(self) -> Table:
        """Return the newest batches and the sums, to be drawn."""
        made = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, show_footer=self.batches > 0)
        with self._lock:
            newest = list(self._newest)
            sums: Sequence[str] = [""] * len(_COLUMNS)
            if newest:
                sums = _cells("all", replace(newest[-1], rows=self.rows, counts=self.counts, seconds=self.seconds))
        for heading, cell in zip(_COLUMNS, sums, strict=True):
            made.add_column(heading, footer=cell, justify="right", no_wrap=True)
        for metrics in newest:
            made.add_row(*_cells(str(metrics.batch), metrics))
        return made


def _cells(heading: str, metrics: BatchMetrics) -> Sequence[str]:
    """Return a line of the table; a batch is behind by what the source has left, else by its newest event's age."""
    counts, state, lag = metrics.counts, metrics.state_bytes, metrics.lag_seconds
    numbers = counts.events, counts.matches, counts.delivered, counts.late, counts.rejected
    behind = "-" if lag is None else shown_age(lag)
    return (
        heading,
        *(f"{number:,}" for number in numbers),
        f"{metrics.rows_per_second:,.0f}",
        "-" if state is None else shown_bytes(state),
        behind if metrics.backlog is None else f"{metrics.backlog:,} left",
        f"{metrics.seconds:,.1f}",
    )


def shown_bytes(number: int) -> str:
    """Return a number of bytes as people read it.

    >>> [shown_bytes(number) for number in (0, 1_500, 2_345_678, 12_000_000_000)]
    ['0 B', '1.5 kB', '2.3 MB', '12 GB']
    """
    size = float(number)
    for unit in ("B", "kB", "MB"):
        if size < 1_000:
            return f"{size:.1f} {unit}" if size < 10 and unit != "B" else f"{size:.0f} {unit}"
        size /= 1_000
    return f"{size:.1f} GB" if size < 10 else f"{size:.0f} GB"


def shown_age(seconds: float) -> str:
    """Return a span of time as people read it.

    >>> [shown_age(seconds) for seconds in (0.21, 95, 7_300, 200_000)]
    ['0.2 s', '95 s', '2 h 1 min', '2 d']
    """
    span = timedelta(seconds=max(seconds, 0.0))
    if span < timedelta(minutes=2):
        return f"{span.total_seconds():.1f} s" if span < timedelta(seconds=10) else f"{span.total_seconds():.0f} s"
    minutes = span // timedelta(minutes=1)
    if minutes < 60:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min" if minutes < 2_880 else f"{minutes // 1_440} d"
