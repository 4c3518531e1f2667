"""Placement: every algorithm on every workload, one level, 100 brokers.

Cost "per event" is per subscriber. Beside it: bandwidth, its ratio to Gr* and to the objective of the linear programme,
load factor, root mean square of delays, seconds. Every placement is audited; one that breaks a limit which its
algorithm promises to keep counts as a wrong answer. Kernels are compiled on a small problem first. One thread, CPU
time, a single pass; local search has 60 seconds of it, or four moves per subscriber in a quick run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from rankcast.placement.algorithms import Algorithm
from rankcast.placement.problem.problem import PlacementProblem
from rankcast.placement.warming import warm_up
from rankcast.samples.placement import Workload, placement_problem
from rankcast_lab.bench.placement_runs import NAMES, Run, SearchBudget, check_workloads, measured
from rankcast_lab.bench.registry import Settings
from rankcast_lab.bench.report import Bound, Comparison, Figure, Report, Row

SUBSCRIBERS, BROKERS = 100_000, 100
SECONDS = 60.0

SEARCH_LIMITS: Mapping[Workload, float] = {Workload.FEEDS: 0.90, Workload.HOT_SPOTS: 0.65}
"""What local search needs at most of the bandwidth of Gr*; of set 1 `TOPICS_LIMIT`."""

TOPICS_LIMIT = 0.65
PROGRAMME_LIMIT = 1.2
GREEDY_SECONDS, PROGRAMME_SECONDS = 3.0, 300.0


def run(settings: Settings) -> Report:
    """Measure the named workloads, or all of them."""
    known = {workload.value: workload for workload in Workload}
    check_workloads(settings.workloads, known)
    count = settings.subscriptions[0] if settings.subscriptions else SUBSCRIBERS
    budget = SearchBudget(seconds=SECONDS) if count >= SUBSCRIBERS else SearchBudget(4 * count)
    report = Report("placement")
    report.notes.append("Cost per event is per subscriber; ratios to LP are to the objective on the sample shown.")
    settings.say("compiling")
    warm_up(Algorithm)
    for name in dict.fromkeys(settings.workloads) or known:
        _measure(known[name], count, budget, settings, report)
    return report


def _measure(workload: Workload, count: int, budget: SearchBudget, settings: Settings, report: Report) -> None:
    case = f"{workload.value} {count:,}"
    problem = placement_problem(workload, count, BROKERS, np.random.default_rng(settings.seed))
    runs: dict[Algorithm, Run] = {}
    for algorithm in Algorithm:
        settings.say(f"{case}: {algorithm.value}")
        runs[algorithm] = measured(problem, algorithm, settings.seed, budget)
    for one in runs.values():
        _report(case, one, runs, problem, report)
    if count >= SUBSCRIBERS:
        _require(workload, runs, report)


def _report(case: str, one: Run, runs: Mapping[Algorithm, Run], problem: PlacementProblem, report: Report) -> None:
    named = f"{case} {NAMES[one.algorithm]}"
    audit, greedy = one.audit, runs[Algorithm.GREEDY_OFFLINE].audit
    yardstick = runs[Algorithm.PROGRAMME].yardstick
    report.rows.append(Row(case, one.algorithm.value, one.seconds / len(problem) * 1e6))
    report.figures += [
        Figure(named, "bandwidth", audit.bandwidth, ""),
        Figure(named, "bandwidth / Gr*", audit.bandwidth / greedy.bandwidth, ""),
        Figure(named, "load factor", audit.load_factor, ""),
        Figure(named, "root mean square of delays", audit.rms_delay, ""),
        Figure(named, "time", one.seconds, "s"),
    ]
    if yardstick is not None:
        report.figures.append(Figure(named, "bandwidth / LP", audit.bandwidth / yardstick.objective, ""))
    if one.yardstick is not None:
        report.figures += [
            Figure(named, "LP objective", one.yardstick.objective, ""),
            Figure(named, "LP bound from the dual", one.yardstick.bound, ""),
            Figure(named, "demands sampled for it", one.yardstick.sample, f"of {one.yardstick.demands:,}"),
            Figure(named, "programmes until all were covered", one.yardstick.rounds, ""),
        ]
    broken = "; ".join(violation.message for violation in audit.violations[:1])
    difference = "" if one.is_sound(problem) else broken
    report.comparisons.append(Comparison(case, one.algorithm.value, "audit", len(problem), not difference, difference))


def _require(workload: Workload, runs: Mapping[Algorithm, Run], report: Report) -> None:
    greedy, search = runs[Algorithm.GREEDY_OFFLINE], runs[Algorithm.LOCAL_SEARCH]
    programme = runs[Algorithm.PROGRAMME]
    limit = SEARCH_LIMITS.get(workload, TOPICS_LIMIT)
    base = greedy.audit.bandwidth
    report.require(f"{workload.value}: local search / Gr*", Bound.AT_MOST, limit, search.audit.bandwidth / base)
    report.require(f"{workload.value}: SLP1 / Gr*", Bound.AT_MOST, PROGRAMME_LIMIT, programme.audit.bandwidth / base)
    report.require(f"{workload.value}: Gr*, seconds", Bound.BELOW, GREEDY_SECONDS, greedy.seconds)
    report.require(f"{workload.value}: SLP1, seconds", Bound.BELOW, PROGRAMME_SECONDS, programme.seconds)


def quick(settings: Settings) -> Settings:
    """Return settings for a run of seconds: fewer subscribers, and three of the workloads unless others are named."""
    names = tuple(workload.value for workload in (Workload.FEEDS, Workload.HOT_SPOTS, Workload.TOPICS_HL))
    return replace(settings, workloads=settings.workloads or names, subscriptions=settings.subscriptions or (2_000,))
