"""`rankcast bench placement-spark`: two million subscribers by linear programming, on Spark and on one machine.

100 brokers of one level, two cores (`local[2]`), from Parquet files to broker and filters. The start of the session
does not count, and kernels are compiled on a small table first. The local path gets the same problem as arrays; the
placement, the filters and the yardstick of both are compared. Peak memory is that of the run on Spark, and of the
driver with what the bench itself holds.
"""

from __future__ import annotations

import resource
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from pyspark.sql import DataFrame, SparkSession

from rankcast.arrays import Array
from rankcast.placement.problem.problem import Placement, PlacementProblem
from rankcast.placement.programme.assignment import Stage
from rankcast.placement.programme.slp import ProgrammedPlacement, place_by_programme
from rankcast.samples.placement import Workload
from rankcast.spark.placement import LEAST_DEMANDS, PlacedSubscribers, SparkStage, Terms, fit_by_spark, stage_of
from rankcast_lab.bench.memory import MEGABYTE
from rankcast_lab.bench.placement_runs import check_workloads
from rankcast_lab.bench.placement_spark_table import OWN, drawn, terms_of, write_table
from rankcast_lab.bench.registry import Settings
from rankcast_lab.bench.report import Bound, Comparison, Figure, Report, Row
from rankcast_lab.bench.spark_memory import peak_memory
from rankcast_lab.bench.spark_stream import session
from rankcast_lab.bench.stopwatch import Stopwatch

SUBSCRIBERS, BROKERS = 2_000_000, 100
QUICK_SUBSCRIBERS, WARM_UP = 3_000, 1_000
MOST_SECONDS = 480.0
READING, DEMANDS, COVERAGE, FITTING = "read and number", "demands", "coverage", "fit filters of leaves"
PARTS = (READING, DEMANDS, COVERAGE, FITTING)
WHOLE = "whole"


def run(settings: Settings) -> Report:
    """Measure the named workloads, or set 3, on which the programme takes least beside what Spark does."""
    known = (*(workload.value for workload in Workload), OWN)
    check_workloads(settings.workloads, known)
    count = settings.subscriptions[0] if settings.subscriptions else SUBSCRIBERS
    report = Report("placement-spark")
    report.warn_when_busy()
    with TemporaryDirectory(prefix="rankcast-bench-") as name, session() as spark:
        settings.say("compiling")
        small = drawn(Workload.HOT_SPOTS.value, WARM_UP, BROKERS, np.random.default_rng(0))
        _Case("small", small, settings, spark, Path(name) / "small").compared()
        for workload in dict.fromkeys(settings.workloads) or (Workload.HOT_SPOTS.value,):
            case = f"{workload} {count:,}"
            settings.say(f"{case}: generating")
            problem = drawn(workload, count, BROKERS, np.random.default_rng(settings.seed))
            _Case(case, problem, settings, spark, Path(name) / workload).report(report)
    return report


def quick(settings: Settings) -> Settings:
    """Return settings for a run of seconds."""
    return replace(settings, subscriptions=settings.subscriptions or (QUICK_SUBSCRIBERS,))


class _Case:
    """One problem for the two ways to place it."""

    def __init__(
        self, case: str, problem: PlacementProblem, settings: Settings, spark: SparkSession, folder: Path
    ) -> None:
        self.case, self.problem, self.settings = case, problem, settings
        self.watch, self.local_watch = Stopwatch(), Stopwatch()
        write_table(problem, folder)
        self.frame = spark.read.parquet(str(folder))

    def report(self, report: Report) -> None:
        """Measure both, and compare them."""
        difference = self.compared()
        whole, local = self.watch.parts[WHOLE], self.local_watch.parts[WHOLE]
        for engine, seconds in (("spark", whole.wall), ("local", local.wall)):
            report.rows.append(Row(self.case, engine, seconds / len(self.problem) * 1e6))
        parts = {name: self.watch.parts[name] for name in PARTS if name in self.watch.parts}
        rest = whole
        for taken in parts.values():
            rest = rest - taken
        named = {WHOLE: whole, **parts, "programme, flow and search on the driver": rest}
        for part, taken in named.items():
            report.figures += [
                Figure(self.case, f"spark, {part}", taken.wall, "s"),
                Figure(self.case, f"spark, {part}, CPU of the driver", taken.own, "s"),
                Figure(self.case, f"spark, {part}, CPU of JVM and workers", taken.others, "s"),
            ]
        report.figures += [Figure(self.case, "local", local.wall, "s"), Figure(self.case, "local, CPU", local.own, "s")]
        for name, megabytes in self.peaks.items():
            report.figures.append(Figure(self.case, name, megabytes, "MB"))
        report.comparisons.append(
            Comparison(self.case, "spark", "local", len(self.problem), not difference, difference)
        )
        if len(self.problem) >= SUBSCRIBERS:
            report.require(f"{self.case}: seconds on Spark", Bound.BELOW, MOST_SECONDS, whole.wall)

    def compared(self) -> str:
        """Place in both ways and return the first difference."""
        self.settings.say(f"{self.case}: on Spark")
        with peak_memory() as peak, self.watch.part(WHOLE):
            placed, posed = placed_and_timed(self.frame, terms_of(self.problem), self.settings.seed, self.watch)
        driver = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        self.peaks: Mapping[str, float] = {
            "peak memory of the driver": driver / MEGABYTE,
            "peak memory of all processes": peak.bytes / MEGABYTE,
        }
        self.settings.say(f"{self.case}: on one machine")
        with self.local_watch.part(WHOLE):
            local = place_by_programme(self.problem, np.random.default_rng(self.settings.seed))
        return difference_of(posed, self.problem, placed, local)


def placed_and_timed(
    frame: DataFrame, terms: Terms, seed: int, watch: Stopwatch, least_demands: int = LEAST_DEMANDS
) -> tuple[ProgrammedPlacement, PlacementProblem]:
    """Do what `place_table` does, with every stage measured; return the problem, too."""
    with watch.part(READING):
        table = PlacedSubscribers.of(frame, terms)

    def timed_stage(problem: PlacementProblem, members: Array, brokers: Array) -> Stage:
        with watch.part(DEMANDS):
            made = stage_of(table, problem, members, brokers, least_demands)
        if not isinstance(made, SparkStage):
            return made
        return _TimedStage(**{one.name: getattr(made, one.name) for one in fields(made)}, watch=watch)

    def timed_fit(
        problem: PlacementProblem, column_of: Array, random: np.random.Generator, known: Mapping[int, Array]
    ) -> Placement:
        with watch.part(FITTING):
            return fit_by_spark(table, problem, column_of, random, known)

    with table:
        return place_by_programme(
            table.problem, np.random.default_rng(seed), None, timed_stage, timed_fit
        ), table.problem


@dataclass(frozen=True, slots=True, eq=False)
class _TimedStage(SparkStage):
    """A stage that adds up what coverage takes."""

    watch: Stopwatch

    def all_covers(self, starts: Array, boxes: Array) -> Array:
        with self.watch.part(COVERAGE):
            return SparkStage.all_covers(self, starts, boxes)

    def uncovered(self, starts: Array, boxes: Array) -> Array:
        with self.watch.part(COVERAGE):
            return SparkStage.uncovered(self, starts, boxes)


def difference_of(
    posed: PlacementProblem, problem: PlacementProblem, placed: ProgrammedPlacement, local: ProgrammedPlacement
) -> str:
    """Return the first difference between two problems and their solutions, nothing when they are equal."""
    pairs = {
        "interests": (posed.interests.sides, problem.interests.sides),
        "interests of subscribers": (posed.interest_of, problem.interest_of),
        "sites": (posed.sites, problem.sites),
        "sites of subscribers": (posed.site_of, problem.site_of),
        "brokers": (placed.placement.brokers, local.placement.brokers),
    }
    for broker, both in enumerate(zip(placed.placement.filters, local.placement.filters, strict=True)):
        pairs[f"the filter of broker {broker}"] = both
    for name, (one, other) in pairs.items():
        if not np.array_equal(one, other):
            return f"other values of {name}"
    return "" if placed.yardstick == local.yardstick else f"yardstick {placed.yardstick}, expected {local.yardstick}"
