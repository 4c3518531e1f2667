"""Placement against the number of subscribers: seconds of Gr*, of the linear programme on one level and on a tree.

Paper: Yu, Agarwal and Yang, Subscriber Assignment for Wide-Area Content-Based Publish/Subscribe, section 6: a million
subscribers took 23 hours with 100 brokers on one level and 4 hours with 200 brokers in a tree, on a desktop computer of
2008 with another solver.
"""

from __future__ import annotations

import resource
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np

from rankcast.placement.algorithms import Algorithm
from rankcast.placement.problem.problem import PlacementProblem
from rankcast.placement.warming import warm_up
from rankcast.plotting import BLUE, GREEN, RED, mark_numbers, tidy
from rankcast.samples.placement import Workload, layered_tree, network, placement_problem, problem_on
from rankcast_lab.bench.placement_runs import NAMES, Run, SearchBudget, measured
from rankcast_lab.studies.findings import Finding, Outcome, Settings

SIZES, QUICK_SIZES = (1_000, 10_000, 100_000, 1_000_000), (300, 1_000)
WORKLOAD = Workload.TOPICS_HL
ONE_LEVEL, TREE = "one level, 100 brokers", "tree, 200 brokers"
BROKERS = {ONE_LEVEL: 100, TREE: 200}
DEGREE = 15
LOOSE_DELAY, LOOSE = 1.0, (1.3, 1.5)

ALGORITHMS = (Algorithm.GREEDY_OFFLINE, Algorithm.PROGRAMME)
PUBLISHED_HOURS = {ONE_LEVEL: 23.0, TREE: 4.0}
"""Of the linear programme with a million subscribers."""

LARGEST = 1_000_000
GIGABYTE = 1_000_000_000

Measured: TypeAlias = Mapping[tuple[str, Algorithm, int], Run]


def run(settings: Settings) -> Outcome:
    """Measure every size; the largest last."""
    runs: dict[tuple[str, Algorithm, int], Run] = {}
    sizes = QUICK_SIZES if settings.quick else SIZES
    settings.say("compiling")
    warm_up(ALGORITHMS)
    for count in sizes:
        for shape in BROKERS:
            problem = drawn_problem(shape, count, settings.seed)
            for algorithm in ALGORITHMS:
                settings.say(f"{shape}, {count:,} subscribers: {NAMES[algorithm]}")
                runs[shape, algorithm, count] = measured(problem, algorithm, settings.seed, SearchBudget())
    return Outcome(
        "placement-scale",
        "Time of placement against the number of subscribers",
        tuple(findings(runs, peak_gigabytes())),
        (
            f"Set {WORKLOAD.value}; on the tree with a delay of {LOOSE_DELAY:g} and load factors of {LOOSE[0]:g} and "
            f"{LOOSE[1]:g}. CPU seconds of one thread, without drawing the problem; every placement is audited.",
            "The published times are of a desktop computer of 2008 and another solver: the factor says little of the "
            "algorithm alone.",
        ),
        lambda figure: _draw(figure, runs),
    )


def drawn_problem(shape: str, count: int, seed: int) -> PlacementProblem:
    """Draw a problem of one level or on a tree."""
    random = np.random.default_rng(seed)
    if shape == ONE_LEVEL:
        return placement_problem(WORKLOAD, count, BROKERS[shape], random)
    drawn = network(BROKERS[shape], random)
    return problem_on(WORKLOAD, count, drawn, layered_tree(drawn, DEGREE, random), random, LOOSE_DELAY, *LOOSE)


def peak_gigabytes() -> float:
    """Return the most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / GIGABYTE


def findings(runs: Measured, peak: float) -> Iterator[Finding]:
    """Yield the rows."""
    for (shape, algorithm, count), one in runs.items():
        name = f"{shape}, {count:,}: {NAMES[algorithm]}"
        hours = PUBLISHED_HOURS[shape] if (algorithm, count) == (Algorithm.PROGRAMME, LARGEST) else None
        published = None if hours is None else f"{hours:g} hours"
        holds = None if hours is None else one.seconds < hours * 3600
        yield Finding(f"{name}, seconds", published, one.seconds, holds)
        feasible = "yes" if one.audit.is_feasible else f"no: {one.audit.violations[0].message}"
        yield Finding(f"{name} keeps every limit", None, feasible, None)
        greedy = runs[shape, Algorithm.GREEDY_OFFLINE, count].audit.bandwidth
        if algorithm is not Algorithm.GREEDY_OFFLINE:
            yield Finding(f"{name}, bandwidth / Gr*", None, one.audit.bandwidth / greedy, None)
    yield Finding("largest memory of the process, GB", None, peak, None)


def _draw(figure: Any, runs: Measured) -> None:
    panel = figure.subplots()
    for shape, line in ((ONE_LEVEL, "-"), (TREE, "--")):
        for algorithm, colour in ((Algorithm.GREEDY_OFFLINE, BLUE), (Algorithm.PROGRAMME, GREEN)):
            own = {count: one.seconds for (at, by, count), one in runs.items() if (at, by) == (shape, algorithm)}
            label = f"{NAMES[algorithm]}, {shape}"
            panel.plot(list(own), list(own.values()), line, marker="o", color=colour, label=label)
        marker = "*" if shape == ONE_LEVEL else "P"
        hours = PUBLISHED_HOURS[shape]
        panel.plot(
            [LARGEST], [hours * 3600], marker, color=RED, markersize=11, label=f"published, {shape}: {hours:g} h"
        )
    panel.set_xscale("log")
    panel.set_yscale("log")
    mark_numbers(panel.xaxis, sorted({count for _, _, count in runs} | {LARGEST}))
    tidy(panel, "CPU seconds of placement", "subscribers", "seconds")
    panel.legend(fontsize=8)
