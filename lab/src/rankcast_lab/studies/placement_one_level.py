"""Subscribers to brokers of one level: bandwidth, delay and load of every algorithm, on all three sets of workloads.

The tables of the paper are not at hand in numbers; what its text states is compared. The workloads are drawn from what
it says of them, the network from published statistics, so bandwidths are in other units: ratios are compared.
Paper: Yu, Agarwal and Yang, Subscriber Assignment for Wide-Area Content-Based Publish/Subscribe, section 6.

A problem that misleads greedy placement, however well it sorts: built so, not drawn. Two rows of tiny squares, one
above the other. All filters together have so many boxes; as many squares of the lower row come first, and greedy
placement gives each a box of its own, as a new box costs next to nothing. Then come the squares of the upper row, each
midway between two of the lower row: every box has to reach up to them, and the whole space is covered. One flat box
around each row would do. The smaller the squares, the larger the ratio, without any limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from rankcast.placement.algorithms import Algorithm
from rankcast.placement.problem.audit import Rule, union_measure
from rankcast.placement.problem.interests import Interests
from rankcast.placement.problem.problem import PlacementProblem
from rankcast.placement.problem.tree import BrokerTree
from rankcast.placement.warming import warm_up
from rankcast.plotting import BLACK, BLUE, GREEN, ORANGE, PURPLE, RED, tidy
from rankcast.samples.placement import DELAY, Workload, placement_problem
from rankcast_lab.bench.placement_runs import NAMES, Run, SearchBudget, measured
from rankcast_lab.engines.exhaustive import least_traffic
from rankcast_lab.studies.findings import Finding, Outcome, Settings

# A problem that misleads

ALPHA = 3


def misleading_problem(side: float, brokers: int = 2, copies: int = 20) -> PlacementProblem:
    """Return the problem with squares of a side; so many subscribers want each square, the lower row first."""
    lower = (np.arange(brokers * ALPHA) + 0.5) / (brokers * ALPHA)
    upper = np.arange(brokers * ALPHA) / (brokers * ALPHA)
    corners = np.concatenate([np.column_stack([lower, np.zeros_like(lower)]), np.column_stack([upper, upper * 0 + 1])])
    tree = BrokerTree.star([0.0], np.ones((brokers, 1)))
    wanted = np.tile(np.arange(len(corners)).reshape(2, -1)[:, None], (1, copies, 1)).reshape(-1)
    sites = np.array([[1.0]])
    return PlacementProblem(
        tree,
        Interests.of_boxes(corners, corners + side),
        wanted,
        sites,
        np.array([2.0]),
        np.zeros(len(wanted), np.int64),
        beta=1.2,
        beta_max=1.2,
        alpha=ALPHA,
    )


# Tiny problems

TINY_SUBSCRIBERS, TINY_BROKERS = 7, 3
TINY_ALGORITHMS = (Algorithm.GREEDY_ONLINE, Algorithm.GREEDY_OFFLINE, Algorithm.PROGRAMME, Algorithm.LOCAL_SEARCH)
TINY_MOVES = 2_000


def tiny_problem(random: np.random.Generator) -> PlacementProblem:
    """Draw boxes in a unit square, anywhere, for subscribers who may all have any broker; one or two boxes a filter."""
    low = random.random((TINY_SUBSCRIBERS, 2))
    return PlacementProblem(
        BrokerTree.star([0.0], np.ones((TINY_BROKERS, 1))),
        Interests.of_boxes(low, low + random.random((TINY_SUBSCRIBERS, 2)) / 2),
        np.arange(TINY_SUBSCRIBERS),
        np.array([[1.0]]),
        np.array([2.0]),
        np.zeros(TINY_SUBSCRIBERS, np.int64),
        beta=1.3,
        beta_max=1.3,
        alpha=int(random.integers(1, 3)),
    )


def tiny_findings(problems: int, seed: int) -> Iterator[Finding]:
    """Yield the mean and the worst ratio of traffic to the least possible, over placements within all limits."""
    ratios: Mapping[Algorithm, list[float]] = {algorithm: [] for algorithm in TINY_ALGORITHMS}
    for number in range(problems):
        problem = tiny_problem(np.random.default_rng((seed, number)))
        least = least_traffic(problem, partial(union_measure, density=problem.density))
        if least is None:
            continue
        for algorithm, found in ratios.items():
            audit = measured(problem, algorithm, seed, SearchBudget(TINY_MOVES)).audit
            if audit.is_feasible:
                found.append(audit.bandwidth / least)
    for algorithm, found in ratios.items():
        name = f"{problems} tiny problems: {NAMES[algorithm]} / least possible"
        yield Finding(f"{name}, mean", None, float(np.mean(found)), None)
        yield Finding(f"{name}, worst", None, max(found), None)


# The study

SUBSCRIBERS, BROKERS = 100_000, 100
QUICK_SUBSCRIBERS = 1_000
QUICK_WORKLOADS = (Workload.TOPICS_HL, Workload.FEEDS, Workload.HOT_SPOTS)
MOVES_PER_SUBSCRIBER = 4

TOPICS = (Workload.TOPICS_LL, Workload.TOPICS_LH, Workload.TOPICS_HL, Workload.TOPICS_HH)
OVER_THE_LINE: Mapping[Workload, float] = {Workload.FEEDS: 39.0, Workload.HOT_SPOTS: 58.0}
"""By how many per cent the fullest broker of Gr is published to exceed the largest load factor."""

NEAR_LP = (1.3, 2.7)
"""Bandwidth of SLP1 and Gr* over that of the fractional solution, set 1, as published."""

ALIKE = 1.3
"""SLP1 and Gr* are published as comparable: within that factor of each other, here."""

SHARE, SHARE_MARGIN = 17.0, 3.0
TRAP_SIDES = (1e-2, 1e-4, 1e-6)
TINY, QUICK_TINY = 200, 10

COLOURS = {
    Algorithm.GREEDY_ONLINE: ORANGE,
    Algorithm.GREEDY_OFFLINE: BLUE,
    Algorithm.PROGRAMME: GREEN,
    Algorithm.LOCAL_SEARCH: RED,
    Algorithm.CLOSEST: PURPLE,
    Algorithm.BALANCE: "#56B4E9",
    Algorithm.CLOSEST_WITHOUT_BALANCE: "#999999",
    Algorithm.GREEDY_WITHOUT_LATENCY: BLACK,
}

Runs: TypeAlias = Mapping[Workload, Mapping[Algorithm, Run]]


def run(settings: Settings) -> Outcome:
    """Run every algorithm on every workload, and the constructed problem."""
    count = QUICK_SUBSCRIBERS if settings.quick else SUBSCRIBERS
    problems: dict[Workload, PlacementProblem] = {}
    runs: dict[Workload, dict[Algorithm, Run]] = {}
    settings.say("compiling")
    warm_up(Algorithm)
    for workload in QUICK_WORKLOADS if settings.quick else tuple(Workload):
        problem = placement_problem(workload, count, BROKERS, np.random.default_rng(settings.seed))
        problems[workload], runs[workload] = problem, {}
        for algorithm in Algorithm:
            settings.say(f"{workload.value}: {NAMES[algorithm]}")
            budget = SearchBudget(MOVES_PER_SUBSCRIBER * count)
            runs[workload][algorithm] = measured(problem, algorithm, settings.seed, budget)
    settings.say("the constructed problem, and tiny ones")
    return Outcome(
        "placement-one-level",
        "Placement on one level of brokers",
        (
            *findings(problems, runs, compared=not settings.quick),
            *trap_findings(settings.seed),
            *tiny_findings(QUICK_TINY if settings.quick else TINY, settings.seed),
        ),
        _remarks(count),
        lambda figure: _draw(figure, problems, runs),
        (12.0, 8.0),
    )


def findings(problems: Mapping[Workload, PlacementProblem], runs: Runs, *, compared: bool) -> Iterator[Finding]:
    """Yield the rows; quick runs are not compared with what is published of a hundred thousand subscribers."""

    def judged(holds: bool) -> bool | None:
        return holds if compared else None

    for workload, found in runs.items():
        problem, name = problems[workload], workload.value
        share = 100 * float(problem.candidates[problem.site_of].mean())
        near = abs(share - SHARE) <= SHARE_MARGIN
        yield Finding(f"{name}: candidate brokers of a subscriber, %", SHARE, share, judged(near))
        yield from _soundness(workload, problem, found, judged)
        yield from _bandwidths(workload, found, judged)
        delay = found[Algorithm.GREEDY_WITHOUT_LATENCY].audit.rms_delay
        yield Finding(
            f"{name}: Gr without latency, RMS delay", f"above {DELAY:g}, unacceptable", delay, judged(delay > DELAY)
        )
        for algorithm, one in found.items():
            yield Finding(f"{name}: {NAMES[algorithm]}, bandwidth", None, one.audit.bandwidth, None)
            yield Finding(f"{name}: {NAMES[algorithm]}, load factor", None, one.audit.load_factor, None)
            yield Finding(f"{name}: {NAMES[algorithm]}, RMS delay", None, one.audit.rms_delay, None)
            yield Finding(f"{name}: {NAMES[algorithm]}, standard deviation of loads", None, one.load_spread, None)
            yield Finding(f"{name}: {NAMES[algorithm]}, seconds", None, one.seconds, None)


def _soundness(
    workload: Workload, problem: PlacementProblem, found: Mapping[Algorithm, Run], judged: Any
) -> Iterator[Finding]:
    name = workload.value
    for algorithm in (Algorithm.PROGRAMME, Algorithm.GREEDY_OFFLINE, Algorithm.LOCAL_SEARCH):
        audit = found[algorithm].audit
        published = None if algorithm is Algorithm.LOCAL_SEARCH else "yes"
        verdict = None if published is None else judged(audit.is_feasible)
        words = "yes" if audit.is_feasible else f"no: {audit.violations[0].message}"
        yield Finding(f"{name}: {NAMES[algorithm]} keeps every limit", published, words, verdict)
    online = found[Algorithm.GREEDY_ONLINE].audit
    over = 100 * (online.load_factor / problem.beta_max - 1)
    if workload in OVER_THE_LINE:
        yield Finding(
            f"{name}: Gr, fullest broker over the largest load factor, %",
            OVER_THE_LINE[workload],
            over,
            judged(over > 0),
        )
    else:
        fails = Rule.LOAD in online.broken()
        yield Finding(f"{name}: Gr breaks the limit of load", "yes", "yes" if fails else "no", judged(fails))


def _bandwidths(workload: Workload, found: Mapping[Algorithm, Run], judged: Any) -> Iterator[Finding]:
    name, yardstick = workload.value, found[Algorithm.PROGRAMME].yardstick
    base = found[Algorithm.GREEDY_OFFLINE].audit.bandwidth
    ratios = {algorithm: one.audit.bandwidth / base for algorithm, one in found.items()}
    slp = ratios[Algorithm.PROGRAMME]
    yield Finding(f"{name}: SLP1 / Gr*", "comparable", slp, judged(1 / ALIKE <= slp <= ALIKE))
    yield Finding(f"{name}: local search / Gr*", None, ratios[Algorithm.LOCAL_SEARCH], None)
    yield Finding(
        f"{name}: Gr / Gr*",
        "above 1",
        ratios[Algorithm.GREEDY_ONLINE],
        judged(ratios[Algorithm.GREEDY_ONLINE] > 1),
    )
    for algorithm in (Algorithm.CLOSEST_WITHOUT_BALANCE, Algorithm.CLOSEST, Algorithm.BALANCE):
        holds = ratios[algorithm] > max(1.0, slp)
        yield Finding(f"{name}: {NAMES[algorithm]} / Gr*", "huge", ratios[algorithm], judged(holds))
    if yardstick is None:
        raise AssertionError("a linear programme has a yardstick")
    yield Finding(f"{name}: LP objective, {yardstick.sample:,} demands", None, yardstick.objective, None)
    for algorithm in (Algorithm.PROGRAMME, Algorithm.GREEDY_OFFLINE, Algorithm.LOCAL_SEARCH):
        ratio = found[algorithm].audit.bandwidth / yardstick.objective
        published: str | None = None
        holds_near: bool | None = None
        if algorithm is Algorithm.GREEDY_OFFLINE and workload is Workload.FEEDS:
            published, holds_near = "below 1", judged(ratio < 1)
        elif algorithm is not Algorithm.LOCAL_SEARCH and workload in TOPICS:
            published = f"{NEAR_LP[0]:g} to {NEAR_LP[1]:g}"
            holds_near = judged(NEAR_LP[0] <= ratio <= NEAR_LP[1])
        yield Finding(f"{name}: {NAMES[algorithm]} / LP", published, ratio, holds_near)


def trap_findings(seed: int) -> Iterator[Finding]:
    """Yield how much worse Gr* is on the constructed problem; it has one size, so a quick run is compared, too."""
    for side in TRAP_SIDES:
        problem = misleading_problem(side)
        found = {
            algorithm: measured(problem, algorithm, seed, SearchBudget(5_000))
            for algorithm in (Algorithm.GREEDY_OFFLINE, Algorithm.PROGRAMME, Algorithm.LOCAL_SEARCH)
        }
        greedy, *others = found.values()
        for one in others:
            ratio = greedy.audit.bandwidth / one.audit.bandwidth
            published = "orders of magnitude" if one.algorithm is Algorithm.PROGRAMME else None
            sound = all(other.audit.is_feasible for other in found.values())
            holds = None if published is None else sound and ratio >= 0.1 / side
            yield Finding(f"constructed, squares of {side:g}: Gr* / {NAMES[one.algorithm]}", published, ratio, holds)


def _remarks(count: int) -> tuple[str, ...]:
    return (
        f"{count:,} subscribers, {BROKERS} brokers attached to the publisher, one draw of each workload. Every "
        "placement is audited. Seconds are CPU time. "
        f"Local search starts from Gr* and tries {MOVES_PER_SUBSCRIBER} moves per subscriber.",
        "LP is the objective of the fractional solution of the last programme, of the sample shown: with its candidate "
        "boxes, and counted by the sum of boxes. A placement can be below it.",
        "Published statements are those of the paper's text; where it says only 'comparable' or 'huge', "
        f"comparable means here within a factor of {ALIKE:g}, and huge more than Gr* and SLP1.",
    )


def _draw(figure: Any, problems: Mapping[Workload, PlacementProblem], runs: Runs) -> None:
    panels = figure.subplots(3, 1, sharex=True)
    width = 0.8 / len(Algorithm)
    for number, algorithm in enumerate(COLOURS):
        places = np.arange(len(runs)) + (number - (len(Algorithm) - 1) / 2) * width
        audits = [found[algorithm].audit for found in runs.values()]
        base = [found[Algorithm.GREEDY_OFFLINE].audit.bandwidth for found in runs.values()]
        most = [problems[workload].beta_max for workload in runs]
        heights = (
            [audit.bandwidth / own for audit, own in zip(audits, base, strict=True)],
            [audit.load_factor / own for audit, own in zip(audits, most, strict=True)],
            [audit.rms_delay for audit in audits],
        )
        for panel, height in zip(panels, heights, strict=True):
            panel.bar(places, height, width, color=COLOURS[algorithm], label=NAMES[algorithm])
    tidy(panels[0], "Bandwidth / that of Gr*", "", "ratio, logarithmic")
    panels[0].set_yscale("log")
    panels[0].axhline(1, color=BLACK, linewidth=0.8)
    tidy(panels[1], "Load factor / the largest allowed", "", "ratio")
    panels[1].axhline(1, color=BLACK, linewidth=0.8)
    tidy(panels[2], "Root mean square of delays", "", "delay, logarithmic")
    panels[2].set_yscale("log")
    panels[2].axhline(DELAY, color=BLACK, linewidth=0.8)
    panels[2].set_xticks(range(len(runs)), [f"set {workload.value}" for workload in runs])
    panels[0].legend(ncols=4, fontsize=8, loc="lower left", bbox_to_anchor=(0.35, 1.0), frameon=False)
