"""`rankcast run`: events in, ranked notifications out, on Spark; the whole input at once, or as a stream.

What Spark has to say goes to a file, and standard error stays the command's own: Spark's JVM takes over the standard
error of the process that starts it, for as long as it lives. So while it starts, standard error is a file; the file is
named when something fails, and removed when nothing does.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from time import perf_counter
from types import FrameType
from typing import Any

import typer
from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # py4j ships no types
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from rich.live import Live

from rankcast.cli.main import INTERRUPTED
from rankcast.cli.output.notifications import COLUMNS
from rankcast.cli.output.streams import Problems, complain, write_json
from rankcast.cli.output.terminal import console, shown_time, table
from rankcast.model.errors import RankcastError, counted
from rankcast.model.subscriptions import Subscriber
from rankcast.model.times import format_time
from rankcast.spark.metrics import BatchMetrics, JsonLines, Metrics, QueryProgress
from rankcast.spark.pipeline import Pipeline
from rankcast.spark.session import reason_of, spark_session
from rankcast.spark.sinks.databases import is_database, without_password
from rankcast.spark.sinks.outputs import Batch, Output, Sink
from rankcast.spark.sinks.sinks import new_run, sink_of, start_outputs, take_for_run, write_outputs
from rankcast.spark.sources.sources import EventSource, announce_end, has_ended, source_of, with_end
from rankcast.spark.subscribers.changing import ChangingSubscribers
from rankcast.storage.durations import format_duration
from rankcast.storage.events.files import EventFormat
from rankcast.storage.subscribers.files import SubscriberFile, load_advertisements, load_subscribers

SETTINGS: Mapping[str, str] = {
    "spark.ui.showConsoleProgress": "false",  # the command has a display of its own
    "spark.log.level": "WARN",
}

CONSOLE = "-"
REPORTED_WITHIN = 10.0
"""Seconds in which Spark reports the last batch of a query that has ended; listeners are told some moments later."""

SHOWN = 20
"""Notifications of a batch that a table shows."""

PATIENCE = 30.0
"""Seconds that a batch may go on after Ctrl-C; a batch that is cut off is done again when the run is resumed."""


class RunError(RankcastError):
    """Something failed in Spark."""


@dataclass(frozen=True)
class Run:
    """What was asked for."""

    events: str
    subscribers: Path
    out: str
    stream: bool = False
    checkpoint: str | None = None
    master: str | None = None
    format: EventFormat | None = None
    written: str = "parquet"
    lateness: timedelta = timedelta(0)
    available_now: bool = False
    finish: bool = False
    metrics: Path | None = None
    query: str = "rankcast"
    carry: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    as_json: bool = False
    now: datetime | None = None
    advertisements: Path | None = None

    @property
    def is_changing(self) -> bool:
        """Whether the subscribers are a table that is looked at again with every batch."""
        return self.subscribers.is_dir()

    @property
    def checkpoint_folder(self) -> str:
        """Where the run keeps what it needs to be resumed."""
        if self.checkpoint is not None:
            return self.checkpoint
        if self.out == CONSOLE:
            return tempfile.mkdtemp(prefix="rankcast-checkpoint-")
        return f"{self.out.rstrip('/')}/_checkpoint"


def run_pipeline(run: Run) -> int:
    """Run the command and return its exit code."""
    if run.stream and run.checkpoint is None and is_database(run.out):
        raise typer.BadParameter("a stream into a database needs --checkpoint DIR, to be resumed from")
    if run.is_changing and not run.stream:
        raise typer.BadParameter("a folder of subscribers that change goes with --stream or --available-now")
    loaded = SubscriberFile((), None, ()) if run.is_changing else load_subscribers(run.subscribers)
    loaded = replace(loaded, advertisements=load_advertisements(run.advertisements, loaded).all)
    problems = Problems(loaded.problems)
    problems.close()
    progress = QueryProgress()
    started = perf_counter()
    with session_of_command(run.master) as spark, _one_line_errors():
        code = _stream(run, spark, loaded, progress) if run.stream else _batch(run, spark, loaded, progress)
    if not run.as_json and run.out != CONSOLE:
        _show_summary(run, progress, perf_counter() - started)
    return code or (1 if problems.errors else 0)


@contextmanager
def _one_line_errors() -> Iterator[None]:
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise RunError(reason_of(error)) from None


def _source(run: Run, spark: SparkSession, loaded: SubscriberFile) -> EventSource:
    options = dict(run.options)
    return source_of(spark, run.events, loaded.schema, format=run.format, stream=run.stream, options=options)


def _pipeline(
    run: Run, source: EventSource, loaded: SubscriberFile, subscribers: Iterable[Subscriber] | ChangingSubscribers
) -> Pipeline:
    return Pipeline(
        subscribers,
        columns=source.columns,
        schema=loaded.schema,
        lateness=run.lateness,
        carry=run.carry,
        now=run.now,
        advertisements=loaded.advertisements,
    )


def _sink(run: Run, spark: SparkSession) -> Sink:
    if run.out == CONSOLE:
        return ConsoleSink(as_json=run.as_json)
    return sink_of(spark, run.out, format=run.written, query=run.query)


def _receivers(run: Run, progress: QueryProgress) -> Metrics:
    metrics = Metrics(progress)
    if run.metrics is not None:
        metrics.add(JsonLines(run.metrics))
    if run.as_json and run.out != CONSOLE:
        metrics.add(lambda batch: write_json(batch.to_json()))
    return metrics


def _batch(run: Run, spark: SparkSession, loaded: SubscriberFile, progress: QueryProgress) -> int:
    metrics = _receivers(run, progress)
    begin, started = datetime.now(UTC), perf_counter()  # noqa: TID251 (a command may look at the clock)
    source = _source(run, spark, loaded)
    outputs = _pipeline(run, source, loaded, loaded.subscribers).outputs(source.events)
    with ExitStack() as stack:
        if sys.stderr.isatty() and not run.as_json:
            stack.enter_context(console(sys.stderr).status(f"running {run.events}"))
        counts = write_outputs(outputs, _sink(run, spark), run=new_run())
    seconds = perf_counter() - started
    metrics.tell(BatchMetrics(run.query, 0, begin, counts.events + counts.rejected, counts, seconds))
    return 0


def _stream(run: Run, spark: SparkSession, loaded: SubscriberFile, progress: QueryProgress) -> int:
    checkpoint = run.checkpoint_folder
    metrics = _receivers(run, progress)
    source = _source(run, spark, loaded)
    sink = _sink(run, spark)
    take_for_run(spark, sink, checkpoint)
    if has_ended(spark, checkpoint) and not run.finish:
        raise RunError(f"{checkpoint}: this stream was finished, and its output is complete; choose another --out")
    changing = ChangingSubscribers(run.subscribers, checkpoint, lateness=run.lateness) if run.is_changing else None
    if changing is not None:
        metrics.follow(changing.updates)
    pipeline = _pipeline(run, source, loaded, changing or loaded.subscribers)
    outputs = pipeline.outputs(with_end(source.events, checkpoint))
    spark.streams.addListener(metrics)
    try:
        for is_end in (False, True) if run.finish else (False,):
            if is_end:
                announce_end(spark, checkpoint)
            query = start_outputs(
                outputs,
                sink,
                checkpoint=checkpoint,
                metrics=metrics,
                available_now=run.available_now,
                name=run.query,
                before=None if changing is None else changing.prepare,
            )
            if _follow(query, progress, metrics, quiet=run.as_json):
                complain(f"stopped; to go on where it stopped: {shlex.join(_command(run, checkpoint))}")
                return INTERRUPTED
        if run.finish:
            sink.finish()
    finally:
        with suppress(Py4JError, OSError):  # Spark may have been told to end as well
            spark.streams.removeListener(metrics)
    return 0


def _follow(query: StreamingQuery, progress: QueryProgress, metrics: Metrics, *, quiet: bool) -> bool:
    """Show the progress of a query until it ends; return whether that was by Ctrl-C or by a request to end.

    Such a request may go to everything that the command has started: Spark's JVM then ends in mid-batch. That is no
    failure, for the batch is done again when the run is resumed.
    """
    run = str(query.runId)
    with ExitStack() as stack:
        stopping = stack.enter_context(_interrupts())
        live: Live | None = None
        if not quiet and sys.stderr.isatty():
            live = stack.enter_context(Live(console=console(sys.stderr), auto_refresh=False, redirect_stdout=False))
        try:
            while not query.awaitTermination(1):
                if live is not None:
                    live.update(progress.table(), refresh=True)
                if stopping.is_set():
                    _stop(query, progress)
                    break
            metrics.wait_for_end(run, REPORTED_WITHIN)
        except (PySparkException, Py4JError, OSError):
            if not stopping.is_set():
                raise
        if live is not None:
            live.update(progress.table(), refresh=True)
    return stopping.is_set()


def _stop(query: StreamingQuery, progress: QueryProgress) -> None:
    """Let the batch that is being done come to its end, if that is soon, and stop."""
    deadline = perf_counter() + PATIENCE
    done = progress.batches
    while query.status["isTriggerActive"] and progress.batches == done and perf_counter() < deadline:
        query.awaitTermination(1)
    query.stop()


@contextmanager
def _interrupts() -> Iterator[threading.Event]:
    """Let Ctrl-C, or a request to end, set an event; the second one ends the command at once."""
    stopping = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        if stopping.is_set():
            raise KeyboardInterrupt
        stopping.set()
        complain("stopping after this batch; press Ctrl-C again to stop at once")

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopping
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _command(run: Run, checkpoint: str) -> list[str]:
    """Return the command that resumes a run."""
    words = ["rankcast", "run", "--events", run.events, "--subscribers", str(run.subscribers)]
    words += ["--out", without_password(run.out), "--available-now" if run.available_now else "--stream"]
    usual = Run(run.events, run.subscribers, run.out)
    stated = (
        ("--lateness", format_duration(run.lateness) if run.lateness != usual.lateness else None),
        ("--format", None if run.format is None else run.format.value),
        ("--write", run.written if run.written != usual.written else None),
        ("--query", run.query if run.query != usual.query else None),
        *(("--carry", name) for name in run.carry),
        *(("--option", f"{key}={value}") for key, value in run.options.items()),
    )
    beside = (
        ("--advertisements", run.advertisements),
        ("--checkpoint", checkpoint),
        ("--master", run.master),
        ("--metrics", run.metrics),
    )
    words += [word for name, value in stated if value is not None for word in (name, value)]
    words += ["--finish"] if run.finish else []
    words += ["--json"] if run.as_json else []
    return words + [str(word) for name, value in beside if value is not None for word in (name, value)]


def _show_summary(run: Run, progress: QueryProgress, seconds: float) -> None:
    counts = progress.counts
    told = [
        counted(counts.events, "event"),
        counted(counts.matches, "match", "matches"),
        f"{counts.delivered:,} delivered",
        *([counted(counts.listed, "entry of lists", "entries of lists")] if counts.listed else []),
        *(f"{number:,} {what}" for number, what in ((counts.capped, "capped"), (counts.muted, "muted")) if number),
        f"{counts.late:,} late",
        f"{counts.rejected:,} rejected",
    ]
    where = without_password(run.out) if is_database(run.out) else f"{run.out.rstrip('/')}/notifications"
    console().print(f"{', '.join(told)}, in {seconds:.1f} s; notifications in {where}", soft_wrap=True)


class ConsoleSink:
    """Shows notifications, a table per batch or JSON lines, and keeps nothing; rejected rows go to standard error."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json

    def open(self, run: str) -> None:
        """Need nothing."""

    def write(self, batch: Batch) -> None:
        """Show one batch."""
        rows = batch.tables[Output.NOTIFICATIONS].toLocalIterator()
        if self._as_json:
            for row in rows:
                write_json(_document(row))
        elif batch.counts.delivered:
            shown = console()
            shown.print(table(f"Batch {batch.number}", COLUMNS, map(_cells, islice(rows, SHOWN))))
            if batch.counts.delivered > SHOWN:
                shown.print(f"... and {counted(batch.counts.delivered - SHOWN, 'more notification')}")
        lists = batch.tables[Output.LISTS].orderBy("subscriber", "subscription", "place").toLocalIterator()
        if self._as_json:
            for row in lists:
                write_json(_document(row))
        elif batch.counts.listed:
            title = f"Lists as of batch {batch.number}, where they have changed"
            console().print(table(title, LISTED, map(_listed_cells, islice(lists, SHOWN))))
        for row in batch.tables[Output.REJECTED].limit(SHOWN).toLocalIterator() if batch.counts.rejected else ():
            complain(f"rejected: {row['reason']}")

    def finish(self) -> None:
        """Need nothing."""


def _document(row: Row) -> dict[str, Any]:
    return {name: format_time(value) if hasattr(value, "tzinfo") else value for name, value in row.asDict(True).items()}


LISTED = {"List": "left", "Place": "right", "Rank": "right", "Matched": "left", "Event": "rest"}


def _listed_cells(row: Row) -> tuple[str, ...]:
    values = row.asDict(recursive=True)
    owner = (
        values["subscriber"] if values["subscription"] is None else f"{values['subscriber']}: {values['subscription']}"
    )
    if not values["place"]:
        return owner, "-", "", "", "empty"
    event = f"{values['id']} of {values['source']}"
    return owner, str(values["place"]), f"{values['rank']:.2f}", ", ".join(values["matched"]), event


def _cells(row: Row) -> tuple[str, ...]:
    values = row.asDict(recursive=True)
    return (
        shown_time(values["handed_over"].astimezone()),
        values["subscriber"],
        f"{values['rank']:.2f}",
        ", ".join(values["matched"] or ()),
        f"{values['id']} of {values['source']}",
    )


@contextmanager
def session_of_command(master: str | None) -> Iterator[SparkSession]:
    """Give a session; one that this starts ends with the block."""
    running = SparkSession.getActiveSession()
    if running is not None or "PYSPARK_GATEWAY_PORT" in os.environ:  # spark-submit has its own ways of logging
        session = spark_session(master, settings={} if running is not None else SETTINGS)
        try:
            yield session
        finally:
            if running is None:
                session.stop()
        return
    descriptor, name = tempfile.mkstemp(prefix="rankcast-spark-", suffix=".log")
    log = Path(name)
    with os.fdopen(descriptor, "wb") as stream, _standard_error(stream.fileno()):
        session = spark_session(master, settings=SETTINGS)
    keep = True
    try:
        yield session
        keep = False
    except (RankcastError, KeyboardInterrupt) as error:
        keep = isinstance(error, RunError)  # the others say all there is to say
        raise
    finally:
        with suppress(Py4JError, OSError):  # whoever asked the command to end may have asked Spark's JVM too
            session.stop()
        if keep:
            complain(f"what Spark said is in {log}")
        else:
            log.unlink(missing_ok=True)


@contextmanager
def _standard_error(descriptor: int) -> Iterator[None]:
    """Let the standard error of the processes that are started in the block go to a file."""
    sys.stderr.flush()
    kept = os.dup(2)
    os.dup2(descriptor, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
