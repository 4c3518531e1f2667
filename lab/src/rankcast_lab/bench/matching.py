"""`rankcast bench matching`: the index against brute force, the limit, and what else a Python user would pick.

All engines get the same subscriptions and events in one run, on one thread. Each is warmed up, then they take turns;
slow ones are given fewer events. Answers are compared with those of brute force.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from rankcast_lab.bench.comparing import Matches, compare
from rankcast_lab.bench.matching_engines import Engine, brute_force, index_engines, limits
from rankcast_lab.bench.matching_lists import NAME as LISTS
from rankcast_lab.bench.matching_lists import ListWork, list_engines
from rankcast_lab.bench.matching_memory import resident_megabytes
from rankcast_lab.bench.matching_peers import duckdb_engine, polars_engine
from rankcast_lab.bench.matching_work import Work, case_name
from rankcast_lab.bench.registry import Settings
from rankcast_lab.bench.report import Bound, Figure, Report, Row
from rankcast_lab.bench.timing import best_of, best_of_each, count_within

DEFAULT_WORKLOADS = ("W1",)
DEFAULT_SUBSCRIPTIONS = (100_000,)
DEFAULT_EVENTS = 2_000

REPEATS, SLOW_REPEATS = 7, 3
TURN_SECONDS, SLOW_TURN_SECONDS = 0.15, 1.0
"""About how long one turn of an engine takes: a slow one gets fewer events, a fast one goes over them several times, so
that what the engine before it left in the caches has no weight."""

COMPARED = 50
"""Events whose matches are compared."""

REFERENCE = "brute-force"

REQUIRED_CASES = (
    *(("W1", 10_000), ("W1", 100_000), ("W1", 1_000_000), ("W2", 100_000), ("W3", 100_000)),
    (LISTS, 100_000),
)
"""What rankcast promises something about."""

MOST_TIMES_THE_LIMIT = {case_name("W1", 10_000): 4.0, case_name("W1", 100_000): 2.5, case_name("W1", 1_000_000): 2.5}
TIMES_FASTER_THAN_BRUTE_FORCE = {
    case_name("W1", 100_000): 30.0,
    case_name("W1", 1_000_000): 30.0,
    case_name("W2", 100_000): 50.0,
    case_name("W3", 100_000): 20.0,
    case_name(LISTS, 100_000): 30.0,
}
LARGEST = case_name("W1", 1_000_000)
MOST_BUILD_SECONDS, MOST_MEGABYTES = 60.0, 900.0


def run(settings: Settings) -> Report:
    """Measure every workload at every number of subscriptions."""
    workloads = settings.workloads or DEFAULT_WORKLOADS
    sizes = settings.subscriptions or DEFAULT_SUBSCRIPTIONS
    return run_cases([(workload, size) for workload in workloads for size in sizes], settings)


def run_cases(cases: Sequence[tuple[str, int]], settings: Settings) -> Report:
    """Measure some cases."""
    report = Report("matching")
    for workload, subscriptions in cases:
        settings.say(f"{case_name(workload, subscriptions)}: generating")
        if workload == LISTS:
            lists = ListWork.of(subscriptions, settings.events or DEFAULT_EVENTS, settings.seed)
            settings.say(f"{lists.name}: building the index")
            _measure_engines(lists.name, len(lists.numbers), list_engines(lists), settings, report)
            _judge(lists.name, report)
            continue
        work = Work.of(workload, subscriptions, settings.events or DEFAULT_EVENTS, settings.seed)
        _measure(work, settings, report)
        _judge(work.name, report)
        if work.name == LARGEST:
            _judge_memory(workload, subscriptions, settings, report)
    return report


def _measure(work: Work, settings: Settings, report: Report) -> None:
    engines: list[Engine] = []
    settings.say(f"{work.name}: building the index")
    engines += index_engines(work)
    engines += limits(work, np.random.default_rng(settings.seed))
    engines.append(brute_force(work))
    if settings.peers:
        for name, make in (("DuckDB", duckdb_engine), ("Polars", polars_engine)):
            settings.say(f"{work.name}: loading {name}")
            engines.append(make(work))
    _measure_engines(work.name, len(work.events), engines, settings, report)


def _measure_engines(case: str, events: int, engines: list[Engine], settings: Settings, report: Report) -> None:
    found = _compared(case, events, engines, settings, report)
    for slow in (False, True):
        chosen = [engine for engine in engines if engine.slow == slow]
        report.rows += _timed(case, events, chosen, found, settings, slow=slow)
    report.notes += (f"{case}, {engine.note}" for engine in engines if engine.note)


def _compared(case: str, events: int, engines: list[Engine], settings: Settings, report: Report) -> dict[str, Matches]:
    """Let every engine match a few events, once it is warm, and compare."""
    found: dict[str, Matches] = {}
    for engine in engines:
        settings.say(f"{case}: comparing the answers of {engine.name}")
        engine.match(1)  # which may have to compile, and would be taken for slow
        count = count_within(SLOW_TURN_SECONDS, engine.match, min(COMPARED, events))
        matches = engine.match(count)
        if matches is not None:
            found[engine.name] = matches
    report.add(compare(case, REFERENCE, found))
    return found


def _timed(
    case: str, events: int, engines: list[Engine], found: dict[str, Matches], settings: Settings, *, slow: bool
) -> list[Row]:
    """Return the cost of engines that take turns."""
    if not engines:
        return []
    settings.say(f"{case}: measuring {', '.join(engine.name for engine in engines)}")
    turn, repeats = (SLOW_TURN_SECONDS, SLOW_REPEATS) if slow else (TURN_SECONDS, REPEATS)
    counts = {engine.name: count_within(turn, engine.match, events) for engine in engines}
    rounds = {engine.name: _rounds_within(turn, engine, counts[engine.name]) for engine in engines}
    turns = {engine.name: partial(_go_round, engine, counts[engine.name], rounds[engine.name]) for engine in engines}
    best = best_of_each(repeats, turns)
    seen = min(map(len, found.values()))
    rows = []
    for engine in engines:
        per_event = found[engine.name].offsets[seen] / seen if engine.name in found else None
        cost = best[engine.name] / (counts[engine.name] * rounds[engine.name]) * 1e6
        rows.append(Row(case, engine.name, cost, engine.build_seconds, engine.megabytes, per_event))
    return rows


def _rounds_within(seconds: float, engine: Engine, count: int) -> int:
    """Return how often an engine can go over some events in a span of time: at least once."""
    took = best_of(2, partial(engine.match, count))
    return max(1, int(seconds / max(took, 1e-6)))


def _go_round(engine: Engine, count: int, rounds: int) -> None:
    for _ in range(rounds):
        engine.match(count)


def _judge(case: str, report: Report) -> None:
    # Texts in lists take most of the time to encode, and brute force is given codes.
    for engine in ("index-encoded",) if case.startswith(LISTS) else ("index", "index-encoded"):
        if case in MOST_TIMES_THE_LIMIT:
            ratio = report.ratio(case, engine, "limit")
            report.require(f"{case}: {engine} / limit", Bound.AT_MOST, MOST_TIMES_THE_LIMIT[case], ratio)
        if case in TIMES_FASTER_THAN_BRUTE_FORCE:
            ratio = report.ratio(case, "brute-force", engine)
            report.require(
                f"{case}: brute-force / {engine}", Bound.AT_LEAST, TIMES_FASTER_THAN_BRUTE_FORCE[case], ratio
            )
    if case == LARGEST:
        index = next(row for row in report.rows if (row.case, row.engine) == (case, "index"))
        report.require(f"{case}: seconds to build", Bound.AT_MOST, MOST_BUILD_SECONDS, index.build_seconds)


def _judge_memory(workload: str, subscriptions: int, settings: Settings, report: Report) -> None:
    case = case_name(workload, subscriptions)
    settings.say(f"{case}: building the index in a new process, for its resident memory")
    resident = resident_megabytes(workload, subscriptions, settings.seed)
    if resident is not None:
        report.figures.append(Figure(case, "resident memory of the index after its build", resident, "MB"))
    report.require(f"{case}: megabytes resident", Bound.AT_MOST, MOST_MEGABYTES, resident)
