"""Group cover: the exact search against brute force, and active sets against pairwise covering.

- **grids**: small random cases over integers and over reals, where every point can be looked at. No answer may differ.
- **partitions**: boxes cut into 310 parts, all of which are needed to cover them: what the search has to look at.
- **comparison**: the paper's subscriptions in a closed schema, one after the other into an active set, pairwise and by
  the exact group cover. Both take filters and return what to forward. Cost "per event" is per subscription.

One thread, CPU time, the best of some repeats that take turns. `subscriptions` is the size of the comparison, `events`
the number of grids.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from rankcast.covering.group.conflicts import ConflictTable, CoverReason, exact_cover
from rankcast.covering.group.cover import ActiveSet, Checking, GroupStrategy
from rankcast.model.filters import Filter
from rankcast.model.schema import Schema
from rankcast_lab.bench.covering_grids import random_case, wrong_answer, wrong_answer_for_filters
from rankcast_lab.bench.registry import Settings
from rankcast_lab.bench.report import Bound, Comparison, Figure, Report, Row
from rankcast_lab.bench.timing import best_of_each
from rankcast_lab.workloads.group_cover import NARROW, WIDE, BoxFilters, comparison, partition

GRIDS = 100_000
BY_FILTERS = 50
"""One of so many grids is asked a second time, as filters."""

PARTS, PARTITIONS = 310, 20
PARTITION_BUDGET = 1_000_000

SUBSCRIPTIONS = 5_000
ATTRIBUTES = (10, 15, 20)
RANGES = {"narrow": NARROW, "wide": WIDE}
MOST_SECONDS, MOST_TIMES = 5.0, 2.0
REPEATS = 2
SAMPLED_EVENTS = 2_000


def measure(settings: Settings, report: Report) -> None:
    """Measure everything and add it to a report."""
    _measure_grids(settings, report)
    _measure_partitions(settings, report)
    for name in RANGES:
        for attributes in ATTRIBUTES:
            _measure_comparison(name, attributes, settings, report)


def _measure_grids(settings: Settings, report: Report) -> None:
    generator = np.random.default_rng(settings.seed)
    count = settings.events or GRIDS
    for numbers in ("integers", "reals"):
        case = f"grids of {numbers}"
        differences: dict[str, list[str]] = {"search": [], "filters": []}
        asked = {"search": 0, "filters": 0}
        for number in range(count):
            if number % 10_000 == 0:
                settings.say(f"{case}: {number:,} of {count:,}")
            drawn = random_case(generator, reals=numbers == "reals")
            asks = {"search": wrong_answer, "filters": wrong_answer_for_filters}
            for engine in ("search", "filters") if number % BY_FILTERS == 0 else ("search",):
                asked[engine] += 1
                wrong = asks[engine](drawn, generator)
                if wrong:
                    differences[engine].append(f"grid {number}: {wrong}")
        for engine, found in differences.items():
            first = found[0] if found else ""
            report.comparisons.append(Comparison(case, engine, "brute force", asked[engine], not found, first))
            report.require(f"{case}: wrong answers, {engine}", Bound.AT_MOST, 0, len(found))


def _measure_partitions(settings: Settings, report: Report) -> None:
    generator = np.random.default_rng(settings.seed)
    for attributes in ATTRIBUTES:
        case = f"{PARTITIONS} partitions, m={attributes}"
        settings.say(case)
        decided, most = 0, 0
        for _ in range(PARTITIONS):
            drawn = partition(generator, PARTS, attributes)
            sides = (drawn.tested.lows[0], drawn.tested.highs[0], drawn.rows.lows, drawn.rows.highs)
            found = exact_cover(ConflictTable.closed(*sides), PARTITION_BUDGET, 0, generator)
            decided += found.covered and found.reason is CoverReason.SEARCHED
            most = max(most, found.work)
        report.figures.append(Figure(case, "rows looked at, at most", most, "rows"))
        report.require(f"{case}: decided", Bound.AT_LEAST, PARTITIONS, decided)


def _measure_comparison(name: str, attributes: int, settings: Settings, report: Report) -> None:
    count = (settings.subscriptions or (SUBSCRIPTIONS,))[0]
    case = f"{name} ranges, m={attributes}, {count:,}"
    settings.say(case)
    drawn = comparison(np.random.default_rng(settings.seed), count, attributes, RANGES[name])
    filters, schema = drawn.filters(), drawn.schema(closed=True)
    checkings = {"pairwise": Checking(GroupStrategy.PAIRWISE), "group": Checking()}
    for checking in checkings.values():
        active_set(filters[:50], schema, checking)  # compiles the kernels
    ways = {engine: partial(active_set, filters, schema, checking) for engine, checking in checkings.items()}
    seconds = best_of_each(REPEATS, ways)
    made = {engine: way() for engine, way in ways.items()}
    for engine, took in seconds.items():
        report.rows.append(Row(case, engine, took / count * 1e6))
        report.figures.append(Figure(case, f"active, {engine}", 100 * len(made[engine].active) / count, "%"))
    lost = _lost(drawn, made["group"].active, np.random.default_rng(settings.seed))
    report.comparisons.append(Comparison(case, "group", "all subscriptions", SAMPLED_EVENTS, not lost, lost))
    if count == SUBSCRIPTIONS:
        times, active = (
            report.ratio(case, "group", "pairwise"),
            (len(made[one].active) for one in ("group", "pairwise")),
        )
        report.require(f"{case}: seconds by group", Bound.BELOW, MOST_SECONDS, seconds["group"])
        report.require(f"{case}: group / pairwise, time", Bound.BELOW, MOST_TIMES, times)
        report.require(f"{case}: group / pairwise, active", Bound.BELOW, 1, next(active) / next(active))
        report.require(f"{case}: budgets used up", Bound.AT_MOST, 0, made["group"].exhausted)


def active_set(filters: list[Filter], schema: Schema | None, checking: Checking) -> ActiveSet:
    """Return filters as an active set, added one after the other."""
    made = ActiveSet(checking, schema)
    for number, wanted in enumerate(filters):
        made.add(number, wanted)
    return made


def _lost(drawn: BoxFilters, active: tuple[int, ...], generator: np.random.Generator) -> str:
    """Return an event of some subscription that no active one accepts, or nothing."""
    of = generator.integers(len(drawn), size=SAMPLED_EVENTS)
    events = generator.integers(drawn.lows[of], drawn.highs[of] + 1)
    lows, highs = drawn.lows[list(active)], drawn.highs[list(active)]
    for number, event in zip(of.tolist(), events, strict=True):
        if not ((lows <= event) & (event <= highs)).all(axis=1).any():
            return f"{event.tolist()} of subscription {number} is lost"
    return ""
