"""Subscribers who come and go: how far traffic drifts from the yardstick, with and without improvement.

The paper names this as future work and measures nothing. Interests move: newcomers are drawn from hot spots in other
places than those who leave. After each step all three ways hold the same subscribers, and the linear programme on a
sample of them is the yardstick of all three: nothing but arrivals and departures; improvement that may move a hundredth
of the subscribers per step; and planning again whenever the ratio has grown by a tenth since the last plan, which is
adopted if it has less traffic.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rankcast.placement.dynamic.drift import plan_again
from rankcast.placement.dynamic.dynamic import DynamicPlacement
from rankcast.placement.dynamic.improvement import improve
from rankcast.placement.greedy import greedy_offline
from rankcast.placement.problem.boxes import corners
from rankcast.placement.problem.problem import Placement, PlacementProblem
from rankcast.placement.problem.tree import BrokerTree
from rankcast.placement.programme.filter_assignment import yardstick_of
from rankcast.placement.search import anneal
from rankcast.plotting import BLUE, GREEN, ORANGE, tidy
from rankcast.samples.placement import DELAY, Workload, network, problem_on
from rankcast_lab.studies.findings import Finding, Outcome, Settings

ALONE, IMPROVED, REPLANNED = "arrivals alone", "improved", "planned again"
LOOKS = {ALONE: (ORANGE, "s"), IMPROVED: (BLUE, "o"), REPLANNED: (GREEN, "^")}
WORKLOAD = Workload.HOT_SPOTS
TURNOVER, BUDGET, LIMIT = 0.1, 0.01, 1.1
"""Of all subscribers, how many are replaced and how many improvement may move per step; and the drift to plan again."""

MOVES_PER_SUBSCRIBER = 5


@dataclass(slots=True)
class Course:
    """What became of one way: traffic over the yardstick, and subscribers moved, after each step."""

    ratios: list[float] = field(default_factory=list)
    moved: list[int] = field(default_factory=list)


def run(settings: Settings) -> Outcome:
    """Let everybody be replaced about once."""
    subscribers, brokers, steps = (200, 16, 3) if settings.quick else (2000, 40, 10)
    courses = followed(subscribers, brokers, steps, settings)
    return Outcome(
        "placement-dynamic",
        "Placement while subscribers come and go",
        tuple(findings(courses)),
        (
            f"{subscribers:,} subscribers on {brokers} brokers, workload {WORKLOAD.value}; {TURNOVER:.0%} are replaced "
            f"in each of {steps} steps, by others whose hot spots are elsewhere. All three start from one plan "
            f"by local search; a new plan is one, too. Improvement may move {BUDGET:.0%} of all per step, planning "
            f"again moves whom it likes and happens when the ratio is {LIMIT:g} times that of the last plan; "
            "a plan that has no less traffic is not adopted.",
            "Nothing is published to compare with.",
        ),
        lambda figure: draw(figure, courses),
    )


def followed(subscribers: int, brokers: int, steps: int, settings: Settings) -> dict[str, Course]:
    """Let subscribers come and go in the three ways."""
    random = np.random.default_rng(settings.seed)
    drawn = network(brokers, random)
    tree = BrokerTree.star(drawn.publisher, drawn.positions)
    first, second = (problem_on(WORKLOAD, subscribers, drawn, tree, random, DELAY, *WORKLOAD.betas) for _ in range(2))
    ways = {name: DynamicPlacement(tree, first.rooms(first.beta_max), 2) for name in LOOKS}
    courses = {name: Course() for name in LOOKS}
    for placement in ways.values():
        for number in range(subscribers):
            _arrive(placement, f"first {number}", first, number)
        _plan(placement, settings.seed)
    leaving = [f"first {number}" for number in random.permutation(subscribers)]
    bases = dict.fromkeys(LOOKS, 0.0)
    count = round(TURNOVER * subscribers)
    for step in range(steps + 1):
        settings.say(f"step {step} of {steps}")
        moved = dict.fromkeys(LOOKS, 0)
        if step:
            chosen = range((step - 1) * count, min(step * count, subscribers))
            for name, placement in ways.items():
                for number in chosen:
                    placement.leave(leaving[number])
                for number in chosen:
                    moved[name] += len(_arrive(placement, f"second {number}", second, number))
            done = improve(ways[IMPROVED], round(BUDGET * subscribers), np.random.default_rng([settings.seed, step]))
            moved[IMPROVED] += len(done.moved)
        yardstick = yardstick_of(ways[ALONE].snapshot().problem, np.random.default_rng([settings.seed, 9])).objective
        if ways[REPLANNED].traffic / yardstick > LIMIT * bases[REPLANNED] and step:
            moved[REPLANNED] += _plan(ways[REPLANNED], settings.seed)
            bases[REPLANNED] = ways[REPLANNED].traffic / yardstick
        for name, placement in ways.items():
            courses[name].ratios.append(placement.traffic / yardstick)
            courses[name].moved.append(moved[name])
        bases[REPLANNED] = bases[REPLANNED] or courses[REPLANNED].ratios[0]
    return courses


def findings(courses: dict[str, Course]) -> Iterator[Finding]:
    """Yield the rows."""
    for name, course in courses.items():
        yield Finding(f"{name}: traffic over yardstick at first", None, course.ratios[0], None)
        yield Finding(f"{name}: traffic over yardstick at last", None, course.ratios[-1], None)
        yield Finding(f"{name}: moved in all", None, sum(course.moved), None)


def draw(figure: Any, courses: dict[str, Course]) -> None:
    """Draw both as they change."""
    left, right = figure.subplots(1, 2)
    for name, course in courses.items():
        colour, marker = LOOKS[name]
        steps = list(range(len(course.ratios)))
        left.plot(steps, course.ratios, color=colour, marker=marker, label=name)
        right.plot(steps, np.cumsum(course.moved), color=colour, marker=marker, label=name)
    left.set_ylim(bottom=0)
    left.legend(fontsize=8, frameon=False)
    tidy(left, "Traffic over the yardstick", "steps", "ratio")
    tidy(right, "Subscribers who were moved", "steps", "moved so far")
    for panel in (left, right):
        panel.xaxis.get_major_locator().set_params(integer=True)


def _arrive(placement: DynamicPlacement, name: str, problem: PlacementProblem, number: int) -> tuple[Any, ...]:
    low, high = corners(problem.interests.parts(int(problem.interest_of[number])))
    site = int(problem.site_of[number])
    return placement.arrive(name, low, high, problem.sites[site], float(problem.limits[site])).moved


def _plan(placement: DynamicPlacement, seed: int) -> int:
    """Go over to a plan by local search if it is better; return how many move."""
    return plan_again(placement, planned, np.random.default_rng(seed))


def planned(problem: PlacementProblem, random: np.random.Generator) -> Placement:
    """Plan by local search."""
    return anneal(problem, greedy_offline(problem), random, MOVES_PER_SUBSCRIBER * len(problem))
