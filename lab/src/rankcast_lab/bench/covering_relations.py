"""One filter against many: the table of relations against the relation of two filters, pair by pair.

Filters are ranges of three attributes; some of the filters that ask are disjunctions, of which the table compares one
range after the other. Cost "per event" is per pair. Answers of all pairs that both have seen are compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from rankcast.covering.relation import relation
from rankcast.model.expressions import attr
from rankcast.model.filters import Filter
from rankcast.overlay.simulation.ranges import ranges
from rankcast_lab.bench.registry import Settings
from rankcast_lab.bench.report import Comparison, Figure, Report, Row
from rankcast_lab.bench.timing import best_of_each
from rankcast_lab.engines.relations import RELATIONS, RelationTable

SUBSCRIPTIONS = 50_000
ATTRIBUTES = 3
ASKING = 8
SINGLE_PAIRS = 2_000
"""Pairs per filter that are compared one by one: enough to tell the cost."""

REPEATS = 3


def measure(settings: Settings, report: Report) -> None:
    """Measure ranges, then disjunctions of ranges."""
    count = settings.subscriptions[0] if settings.subscriptions else SUBSCRIPTIONS
    random = np.random.default_rng(settings.seed)
    settings.say("relations: filling the table")
    filters = ranges(count, random, attributes=ATTRIBUTES).filters()
    table = RelationTable()
    for number, wanted in enumerate(filters):
        table.add(number, wanted)
    table.codes(filters[0])  # compiles the kernel
    asking = ranges(ASKING, random, attributes=ATTRIBUTES).filters()
    _measure(f"relations of ranges {count:,}", asking, filters, table, settings, report)
    sides = [
        Filter.of((attr("a0") < low) | (attr("a0") > 1 - low)) for low in random.uniform(0.1, 0.4, ASKING).tolist()
    ]
    _measure(f"relations of disjunctions {count:,}", sides, filters, table, settings, report)


def _measure(
    case: str,
    asking: Sequence[Filter],
    filters: Sequence[Filter],
    table: RelationTable,
    settings: Settings,
    report: Report,
) -> None:
    settings.say(f"{case}: asking")
    pairs = min(SINGLE_PAIRS, len(filters))
    wrong = []
    for wanted in asking:
        found = [RELATIONS[code] for code in table.codes(wanted)[:pairs].tolist()]
        expected = [relation(wanted, other) for other in filters[:pairs]]
        wrong += [f"{one} where {two} is right" for one, two in zip(found, expected, strict=True) if one is not two]
    compared = pairs * len(asking)
    report.comparisons.append(Comparison(case, "table", "pairs", compared, not wrong, wrong[0] if wrong else ""))
    best = best_of_each(
        REPEATS,
        {"table": partial(_ask_table, table, asking), "pairs": partial(_ask_pairs, asking, filters[:pairs])},
    )
    costs = {
        "table": best["table"] / (len(filters) * len(asking)) * 1e6,
        "pairs": best["pairs"] / compared * 1e6,
    }
    report.rows += [Row(case, name, cost) for name, cost in costs.items()]
    report.figures.append(Figure(case, "pairs / table", costs["pairs"] / costs["table"], "times"))


def _ask_table(table: RelationTable, asking: Sequence[Filter]) -> None:
    for wanted in asking:
        table.codes(wanted)


def _ask_pairs(asking: Sequence[Filter], filters: Sequence[Filter]) -> None:
    for wanted in asking:
        for other in filters:
            relation(wanted, other)
