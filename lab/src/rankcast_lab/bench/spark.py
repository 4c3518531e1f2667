"""`rankcast bench spark`: the pipeline on Spark against the same kernels in a plain process, and against Spark SQL.

Parquet to Parquet, sliding k=10, w=100, two cores for Spark. The start of the session and the first micro-batches
count for nobody; the SQL formulation gets fewer events, which leaves its windows short, and is warmed up by a run of
its own. What the pipeline delivers is compared with the plain process; on a smaller case, in which windows fill, all
three are compared.

The delivery stage is then measured alone: its rows per second with many queues, and whether its state stops growing
with queues whose windows are full.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

from rankcast.spark.matching.compiled_subscribers import CompiledSubscribers
from rankcast.spark.matching.shipping import give_back, shipped
from rankcast_lab.bench.memory import MEGABYTE
from rankcast_lab.bench.registry import Settings
from rankcast_lab.bench.report import Bound, Comparison, Figure, Report, Row
from rankcast_lab.bench.spark_compare import Notifications, difference_of
from rankcast_lab.bench.spark_delivery import MATCHES_PER_EVENT, DeliveryWork, measure, state_bytes
from rankcast_lab.bench.spark_memory import peak_memory
from rankcast_lab.bench.spark_plain import COLUMNS, run_plain_apart
from rankcast_lab.bench.spark_stream import match_seconds, run_sql, run_stream, session, written
from rankcast_lab.bench.spark_workload import FIRST, SPACING, SparkWork

LEAST_OF_PLAIN, LEAST_TIMES_SQL = 0.45, 10.0
LEAST_DELIVERY_ROWS = 100_000.0
MOST_GROWTH = 1.25
"""Of the state, between the middle and the end of a run whose windows are full before."""
MOST_MEGABYTES = 6_000.0


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    work: SparkWork
    sql_events: int
    small: SparkWork
    """Few subscribers with many matches each: windows fill, and the SQL formulation can take all events."""
    delivery: DeliveryWork
    growth: DeliveryWork
    warm_up: int = 1


FULL = Sizes(
    work=SparkWork(filters=100_000, subscribers=20_000, batches=3, batch=100_000),
    sql_events=2_000,
    small=SparkWork(filters=400, subscribers=20, batches=3, batch=300),
    delivery=DeliveryWork(queues=100_000, rows=200_000, batches=12),
    growth=DeliveryWork(queues=5_000, rows=50_000, batches=50),
)
QUICK = Sizes(
    work=SparkWork(filters=10_000, subscribers=2_000, batches=3, batch=10_000),
    sql_events=500,
    small=SparkWork(filters=400, subscribers=20, batches=2, batch=200),
    delivery=DeliveryWork(queues=10_000, rows=50_000, batches=5),
    growth=DeliveryWork(queues=200, rows=2_000, batches=24),
)


def run(settings: Settings) -> Report:
    """Measure at full size: some minutes."""
    return run_sizes(FULL, settings)


def run_sizes(sizes: Sizes, settings: Settings) -> Report:
    """Measure at some sizes; the seed is that of the settings."""
    report = Report("spark")
    report.warn_when_busy()
    with TemporaryDirectory(prefix="rankcast-bench-") as name, peak_memory() as peak:
        folder = Path(name)
        with session() as spark:
            _Pipelines(replace(sizes.small, seed=settings.seed), 0, settings, report, spark, folder / "small").compare()
            work = replace(sizes.work, seed=settings.seed)
            _Pipelines(work, sizes.warm_up, settings, report, spark, folder / "full").measure(sizes.sql_events)
            _deliver(sizes, settings, report, spark, folder)
    if peak.bytes:
        report.figures.append(Figure("whole run", "peak memory of all processes", peak.bytes / MEGABYTE, "MB"))
        report.require("peak memory in MB", Bound.BELOW, MOST_MEGABYTES, peak.bytes / MEGABYTE)
    return report


class _Pipelines:
    """One case for the three ways to get the notifications."""

    def __init__(
        self, work: SparkWork, warm_up: int, settings: Settings, report: Report, spark: SparkSession, folder: Path
    ) -> None:
        self.work, self.warm_up, self.say = work, warm_up, settings.say
        self.report, self.spark, self.folder = report, spark, folder
        self.case = f"{work.events:,} events x {work.filters:,} filters x {work.subscribers:,} subscribers"
        self.say(f"{self.case}: generating")
        self.events = folder / "events"
        work.write_events(self.events)
        self.say(f"{self.case}: building the index")
        self.source = shipped(CompiledSubscribers.of(work.audience_members()), spark, folder / "audience")
        self.plain = folder / "plain.parquet"
        give_back()

    def compare(self) -> None:
        """Compare all three on all events of a small case."""
        self._plain_and_stream()
        self.say(f"{self.case}: Spark SQL")
        self._sql(replace(self.work, batches=1, batch=self.work.batch), self.work.batch)
        self._same_as_plain()

    def measure(self, sql_events: int) -> None:
        """Measure all three."""
        self._plain_and_stream(timed=True)
        self._same_as_plain()
        self.say(f"{self.case}: Spark SQL")
        run_sql(self.spark, self.work, max(1, sql_events // 10), self.folder / "warm")
        seconds = self._sql(self.work, sql_events)
        self.report.rows.append(Row(self.case, "sql", seconds / sql_events * 1e6))
        ratio = self.report.ratio(self.case, "plain", "pipeline")
        self.report.require(f"{self.case}: speed of pipeline / plain", Bound.AT_LEAST, LEAST_OF_PLAIN, ratio)
        ratio = self.report.ratio(self.case, "sql", "pipeline")
        self.report.require(f"{self.case}: speed of pipeline / sql", Bound.AT_LEAST, LEAST_TIMES_SQL, ratio)

    def _plain_and_stream(self, *, timed: bool = False) -> None:
        self.say(f"{self.case}: the plain process")
        plain = run_plain_apart(self.work, Path(self.source.folder), self.events, self.plain)
        self.say(f"{self.case}: the pipeline")
        stream = run_stream(self.spark, self.work, self.source, self.events, self.folder)
        if timed:
            counted = (self.work.batches - self.warm_up) * self.work.batch
            matches = sum(plain.matched) / self.work.events
            taken = [seconds for seconds, events in zip(stream.seconds, stream.events, strict=True) if events]
            of_plain, of_stream = plain.seconds(self.warm_up), sum(taken[self.warm_up :])
            for engine, seconds in (("plain", of_plain), ("pipeline", of_stream)):
                self.report.rows.append(Row(self.case, engine, seconds / counted * 1e6, matches_per_event=matches))
                self._figure(f"{engine}, whole", counted / seconds, "events/s")
            self._stages(plain.match_seconds, plain.deliver_seconds, plain.write_seconds, counted=counted)

    def _stages(self, *plain: list[float], counted: int) -> None:
        for name, seconds in zip(("read, match and rank", "deliver", "unpack and write"), plain, strict=True):
            self._figure(f"plain, {name}", counted / sum(seconds[self.warm_up :]), "events/s")
        self.say(f"{self.case}: the match stage alone")
        seconds_of_match = match_seconds(self.spark, self.work, self.source, self.events, self.warm_up)
        self._figure("pipeline, read, match, rank and pack", counted / seconds_of_match, "events/s")

    def _figure(self, quantity: str, value: float, unit: str) -> None:
        self.report.figures.append(Figure(self.case, quantity, value, unit))

    def _sql(self, work: SparkWork, count: int) -> float:
        """Run the SQL formulation, and compare what is delivered before the last event, which plain may not see."""
        seconds = run_sql(self.spark, work, count, self.folder)
        last = FIRST + (count - 1) * SPACING
        found = Notifications(written(self.spark, self.folder / "sql"), last)
        self._same("sql", found, Notifications([self.plain], last), count, ("subscriber", "id", "rank", "delivered"))
        return seconds

    def _same_as_plain(self) -> None:
        found = Notifications(written(self.spark, self.folder / "out"))
        self._same("pipeline", found, Notifications([self.plain]), self.work.events, COLUMNS)

    def _same(
        self, engine: str, found: Notifications, truth: Notifications, events: int, columns: tuple[str, ...]
    ) -> None:
        difference = difference_of(found, truth, columns)
        self.report.comparisons.append(Comparison(self.case, engine, "plain", events, not difference, difference))


def _deliver(sizes: Sizes, settings: Settings, report: Report, spark: SparkSession, folder: Path) -> None:
    work = replace(sizes.delivery, seed=settings.seed)
    case = f"delivery, {work.queues:,} queues"
    settings.say(f"{case}: {work.batches} batches of {work.rows:,} rows")
    found = measure(spark, work, folder / "delivery")
    report.figures += (
        Figure(case, "delivery stage on Spark", found.rows_per_second, "rows/s"),
        Figure(case, "the same shards in a plain process", found.plain_rows_per_second, "rows/s"),
    )
    report.require(f"{case}: rows per second", Bound.AT_LEAST, LEAST_DELIVERY_ROWS, found.rows_per_second)
    _compare_deliveries(case, work, found.is_equal, found.delivered, report)
    work = replace(sizes.growth, seed=settings.seed)
    case = f"delivery, {work.queues:,} queues"
    settings.say(f"{case}: {work.batches} batches of {work.rows:,} rows")
    found = measure(spark, work, folder / "growth")
    _compare_deliveries(case, work, found.is_equal, found.delivered, report)
    third = work.batches // 3
    batches = range(third, work.batches)
    sizes_then = [state_bytes(spark, folder / "growth", batch) for batch in batches]
    middle, end = max(sizes_then[:third]), max(sizes_then[-third:])
    report.figures.append(Figure(case, f"state after {work.batches} batches", sizes_then[-1] / MEGABYTE, "MB"))
    name = f"{case}: state in the last third of {work.batches} batches / in the middle third"
    report.require(name, Bound.AT_MOST, MOST_GROWTH, end / max(middle, 1))


def _compare_deliveries(case: str, work: DeliveryWork, is_equal: bool, delivered: int, report: Report) -> None:
    difference = "" if is_equal and delivered else f"{delivered:,} deliveries, expected others"
    report.comparisons.append(
        Comparison(case, "spark", "plain", work.batches * work.rows // MATCHES_PER_EVENT, not difference, difference)
    )
