"""Subscribers to a tree of brokers: a tight and a loose limit of latency, and who finds a placement when there is one.

Two settings of set 1 as published: a delay of 0.2 with load factors of 7 and 8, where about 6 is the least possible,
and a delay of 1 with 1.3 and 1.5. On other networks the least possible load factor is another, so tight ones are set in
the same proportion to it: 7/6 and 8/6 of what a maximum flow to the leaves says. That flow also says of further draws,
with load factors closer still, whether there is any placement at all.
Paper: Yu, Agarwal and Yang, Subscriber Assignment for Wide-Area Content-Based Publish/Subscribe, section 6.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

import numpy as np

from rankcast.placement.algorithms import Algorithm
from rankcast.placement.problem.problem import TOLERANCE, PlacementProblem
from rankcast.placement.programme.flow import feasible_factor
from rankcast.placement.warming import warm_up
from rankcast.plotting import BLUE, GREEN, ORANGE, RED, tidy
from rankcast.samples.placement import Workload, layered_tree, network, problem_on
from rankcast_lab.bench.placement_runs import NAMES, Run, SearchBudget, measured
from rankcast_lab.studies.findings import Finding, Outcome, Settings

SUBSCRIBERS, BROKERS, DEGREE = 100_000, 200, 15
QUICK_SUBSCRIBERS, QUICK_BROKERS, QUICK_DEGREE = 600, 60, 7
MOVES_PER_SUBSCRIBER = 4

DRAWS, QUICK_DRAWS = 20, 3
DRAWN_SUBSCRIBERS, QUICK_DRAWN_SUBSCRIBERS = 2_000, 400

TOPICS = (Workload.TOPICS_LL, Workload.TOPICS_LH, Workload.TOPICS_HL, Workload.TOPICS_HH)
ALGORITHMS = {
    Algorithm.GREEDY_ONLINE: ORANGE,
    Algorithm.GREEDY_OFFLINE: BLUE,
    Algorithm.PROGRAMME: GREEN,
    Algorithm.LOCAL_SEARCH: RED,
}

TIGHT_DELAY, LOOSE_DELAY = 0.2, 1.0
TIGHT, LOOSE = (7 / 6, 8 / 6), (1.3, 1.5)
DRAWN_ROOM = (1.0, 1.02, 1.1, 8 / 6)
"""Load factors of the further draws, beta and beta_max alike, as multiples of the least possible; in turn."""


class Latency(Enum):
    """The two published settings."""

    TIGHT = "tight"
    LOOSE = "loose"


Runs: TypeAlias = Mapping[tuple[Latency, Workload], Mapping[Algorithm, Run]]


@dataclass(frozen=True, slots=True)
class Draw:
    """One tight problem: whether a flow to the leaves finds room for all, and whether algorithms do."""

    is_possible: bool
    found: Mapping[Algorithm, bool]


def run(settings: Settings) -> Outcome:
    """Run both settings on four workloads, and the further draws of the tight one."""
    count = QUICK_SUBSCRIBERS if settings.quick else SUBSCRIBERS
    workloads = (Workload.TOPICS_HL,) if settings.quick else TOPICS
    budget = SearchBudget(MOVES_PER_SUBSCRIBER * count)
    runs: dict[tuple[Latency, Workload], dict[Algorithm, Run]] = {}
    settings.say("compiling")
    warm_up(ALGORITHMS)
    for latency in Latency:
        for workload in workloads:
            problem = drawn_problem(workload, count, latency, settings)
            runs[latency, workload] = {}
            for algorithm in ALGORITHMS:
                settings.say(f"{latency.value} latency, {workload.value}: {NAMES[algorithm]}")
                runs[latency, workload][algorithm] = measured(problem, algorithm, settings.seed, budget)
    draws = [_tight_draw(number, settings) for number in range(QUICK_DRAWS if settings.quick else DRAWS)]
    return Outcome(
        "placement-multi-level",
        "Placement on a tree of brokers",
        (*findings(runs, compared=not settings.quick), *draw_findings(draws)),
        _remarks(count, len(draws), settings),
        lambda figure: _draw(figure, runs, draws),
    )


def drawn_problem(workload: Workload, count: int, latency: Latency, settings: Settings) -> PlacementProblem:
    """Draw a network and a tree of it, then the subscribers."""
    brokers, degree = (QUICK_BROKERS, QUICK_DEGREE) if settings.quick else (BROKERS, DEGREE)
    random = np.random.default_rng(settings.seed)
    drawn = network(brokers, random)
    tree = layered_tree(drawn, degree, random)
    if latency is Latency.LOOSE:
        return problem_on(workload, count, drawn, tree, np.random.default_rng(settings.seed), LOOSE_DELAY, *LOOSE)

    def tight(beta: float, beta_max: float) -> PlacementProblem:
        random = np.random.default_rng(settings.seed)
        return problem_on(workload, count, drawn, tree, random, TIGHT_DELAY, beta, beta_max)

    least = feasible_factor(tight(1.0, float(brokers)))
    return tight(max(1.0, TIGHT[0] * least), max(1.0, TIGHT[1] * least))


def _tight_draw(number: int, settings: Settings) -> Draw:
    """Draw a network, a tree and subscribers again, with little room or none to spare, and ask every algorithm."""
    settings.say(f"tight latency, draw {number + 1}")
    brokers, degree = (QUICK_BROKERS, QUICK_DEGREE) if settings.quick else (BROKERS, DEGREE)
    count = QUICK_DRAWN_SUBSCRIBERS if settings.quick else DRAWN_SUBSCRIBERS
    random = np.random.default_rng((settings.seed, number))
    drawn = network(brokers, random)
    tree = layered_tree(drawn, degree, random)
    workload = TOPICS[number % len(TOPICS)]

    def tight(factor: float) -> PlacementProblem:
        random = np.random.default_rng((settings.seed, number, 1))
        return problem_on(workload, count, drawn, tree, random, TIGHT_DELAY, factor, factor)

    least = feasible_factor(tight(float(brokers)))
    problem = tight(max(1.0, DRAWN_ROOM[number % len(DRAWN_ROOM)] * least))
    budget = SearchBudget(MOVES_PER_SUBSCRIBER * count)
    found = {one: measured(problem, one, settings.seed, budget).audit.is_feasible for one in ALGORITHMS}
    return Draw(feasible_factor(problem) <= problem.beta_max * (1 + TOLERANCE), found)


def findings(runs: Runs, *, compared: bool) -> Iterator[Finding]:
    """Yield the rows of the two settings; quick runs are not compared."""
    for (latency, workload), found in runs.items():
        name = f"{latency.value}, {workload.value}"
        base = found[Algorithm.GREEDY_OFFLINE].audit.bandwidth
        for algorithm, one in found.items():
            published, holds = _published(latency, algorithm, one)
            feasible = "yes" if one.audit.is_feasible else "no"
            yield Finding(
                f"{name}: {NAMES[algorithm]} keeps every limit", published, feasible, holds if compared else None
            )
        slp = found[Algorithm.PROGRAMME].audit.bandwidth / base
        loose = latency is Latency.LOOSE
        verdict = slp >= 1 if compared and loose else None
        yield Finding(f"{name}: SLP / Gr*", "slightly above 1" if loose else None, slp, verdict)
        yield Finding(f"{name}: local search / Gr*", None, found[Algorithm.LOCAL_SEARCH].audit.bandwidth / base, None)
        for algorithm, one in found.items():
            yield Finding(f"{name}: {NAMES[algorithm]}, bandwidth", None, one.audit.bandwidth, None)
            yield Finding(f"{name}: {NAMES[algorithm]}, load factor", None, one.audit.load_factor, None)
            yield Finding(f"{name}: {NAMES[algorithm]}, RMS delay", None, one.audit.rms_delay, None)
            yield Finding(f"{name}: {NAMES[algorithm]}, seconds", None, one.seconds, None)


def _published(latency: Latency, algorithm: Algorithm, one: Run) -> tuple[str | None, bool | None]:
    """Return what is published of the limits, and whether it is so here."""
    if algorithm is Algorithm.LOCAL_SEARCH:
        return None, None
    if latency is Latency.TIGHT and algorithm is not Algorithm.PROGRAMME:
        return "no", not one.audit.is_feasible
    return "yes", one.audit.is_feasible


def draw_findings(draws: list[Draw]) -> Iterator[Finding]:
    """Yield how often each algorithm finds a placement on the draws for which a flow finds room."""
    possible = [draw for draw in draws if draw.is_possible]
    yield Finding("tight draws: a flow to the leaves finds room", None, f"{len(possible)} of {len(draws)}", None)
    for algorithm in ALGORITHMS:
        times = sum(draw.found[algorithm] for draw in possible)
        promised = algorithm in (Algorithm.PROGRAMME, Algorithm.LOCAL_SEARCH)
        yield Finding(
            f"tight draws: {NAMES[algorithm]} keeps every limit",
            "promised: always" if promised else None,
            f"{times} of {len(possible)}",
            times == len(possible) if promised else None,
        )


def _remarks(count: int, draws: int, settings: Settings) -> tuple[str, ...]:
    brokers, degree = (QUICK_BROKERS, QUICK_DEGREE) if settings.quick else (BROKERS, DEGREE)
    drawn = QUICK_DRAWN_SUBSCRIBERS if settings.quick else DRAWN_SUBSCRIBERS
    return (
        f"{count:,} subscribers of set 1, {brokers} brokers in a tree with at most {degree} children each. Every "
        "placement is audited; seconds are CPU time.",
        f"Tight: delay {TIGHT_DELAY:g}, load factors 7/6 and 8/6 of the least possible. Loose: delay {LOOSE_DELAY:g}, "
        f"load factors {LOOSE[0]:g} and {LOOSE[1]:g}.",
        f"Tight draws: {draws} networks with {drawn:,} subscribers each, load factors of "
        f"{', '.join(f'{room:.3g}' for room in DRAWN_ROOM)} times the least possible in turn. 'Promised' is by "
        "rankcast; the paper has one draw of each workload.",
    )


def _draw(figure: Any, runs: Runs, draws: list[Draw]) -> None:
    left, right = figure.subplots(1, 2, width_ratios=(2.4, 1))
    width = 0.8 / len(ALGORITHMS)
    for number, (algorithm, colour) in enumerate(ALGORITHMS.items()):
        places = np.arange(len(runs)) + (number - (len(ALGORITHMS) - 1) / 2) * width
        base = [found[Algorithm.GREEDY_OFFLINE].audit.bandwidth for found in runs.values()]
        own = [found[algorithm].audit for found in runs.values()]
        heights = [audit.bandwidth / other for audit, other in zip(own, base, strict=True)]
        hatches = ["" if audit.is_feasible else "///" for audit in own]
        left.bar(places, heights, width, color=colour, hatch=hatches, edgecolor="white", label=NAMES[algorithm])
    tidy(left, "Bandwidth / that of Gr*; hatched: breaks the limit of load", "", "ratio")
    left.set_xticks(range(len(runs)), [f"{latency.value}\n{workload.value}" for latency, workload in runs])
    left.legend(fontsize=8, ncols=2)
    possible = [draw for draw in draws if draw.is_possible]
    shares = [
        100 * np.mean([draw.found[algorithm] for draw in possible]) if possible else 0 for algorithm in ALGORITHMS
    ]
    right.bar(range(len(ALGORITHMS)), shares, color=list(ALGORITHMS.values()))
    right.set_xticks(range(len(ALGORITHMS)), [NAMES[algorithm] for algorithm in ALGORITHMS], rotation=20)
    tidy(right, f"Tight draws placed, of {len(possible)} that can be", "", "%")
