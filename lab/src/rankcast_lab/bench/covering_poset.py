"""The poset of many filters: edges kept while filters come and go, and the walk that skips what cannot match.

- `poset`: filters are added one by one, some are removed. Cost "per event" is per addition.
- `walk`: events are matched from the roots; against asking every filter (`all filters`). Cost is per event.

Matches are compared, and the numbers of nodes above are compared with those of the bulk kernel.
One thread, CPU time, a single pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from rankcast.covering.topk.poset import Poset, PosetWalk
from rankcast.model.filters import Filter
from rankcast.model.values import Value
from rankcast.overlay.simulation.ranges import ranges
from rankcast_lab.bench.registry import Settings
from rankcast_lab.bench.report import Comparison, Figure, Report, Row
from rankcast_lab.bench.timing import timed
from rankcast_lab.engines.bulk import levels_above

SUBSCRIPTIONS = 50_000
ATTRIBUTES = (1, 3)
EVENTS = 10
REMOVED = 10
"""One of so many filters is removed."""

COUNTED = 200
"""Nodes whose ancestors are counted and compared."""


def measure(settings: Settings, report: Report) -> None:
    """Measure filters of one attribute and of three."""
    count = settings.subscriptions[0] if settings.subscriptions else SUBSCRIPTIONS
    for attributes in ATTRIBUTES:
        _measure(count, attributes, settings, report)


def _measure(count: int, attributes: int, settings: Settings, report: Report) -> None:
    case = f"poset, {attributes} attribute{'s' if attributes > 1 else ''} {count:,}"
    random = np.random.default_rng(settings.seed)
    made = ranges(count, random, attributes=attributes)
    filters = made.filters()
    events: list[Mapping[str, Value]] = [
        {f"a{at}": value for at, value in enumerate(row)} for row in random.random((EVENTS, attributes)).tolist()
    ]
    poset = Poset()
    settings.say(f"{case}: adding")
    seconds_in, _ = timed(partial(_add, poset, filters))
    chosen = random.choice(count, min(COUNTED, count), replace=False).tolist()
    expected = levels_above(made.starts, made.ends)[chosen].tolist()
    different = sum(poset.count_above(node) != above for node, above in zip(chosen, expected, strict=True))
    difference = f"{different} of {len(chosen)} numbers of ancestors differ" if different else ""
    report.comparisons.append(Comparison(case, "poset", "bulk kernel", len(chosen), not difference, difference))
    settings.say(f"{case}: matching")
    seconds_walking, walks = timed(partial(_walk, poset, events))
    seconds_asking, matches = timed(partial(_ask_all, filters, events))
    wrong = [at for at, (walk, match) in enumerate(zip(walks, matches, strict=True)) if sorted(walk.accepting) != match]
    difference = f"event {wrong[0]} has other matches" if wrong else ""
    report.comparisons.append(Comparison(case, "walk", "all filters", len(events), not wrong, difference))
    settings.say(f"{case}: removing")
    gone = random.permutation(count)[: max(1, count // REMOVED)].tolist()
    seconds_out, _ = timed(partial(_remove, poset, filters, gone))
    report.rows += [
        Row(case, "poset", seconds_in / count * 1e6),
        Row(case, "walk", seconds_walking / EVENTS * 1e6),
        Row(case, "all filters", seconds_asking / EVENTS * 1e6),
    ]
    report.figures += [
        Figure(case, "all additions", seconds_in, "s"),
        Figure(case, "one removal", seconds_out / len(gone) * 1e6, "µs"),
        Figure(case, "nodes asked by a walk", 100 * sum(walk.visited for walk in walks) / EVENTS / count, "%"),
    ]


def _add(poset: Poset, filters: Sequence[Filter]) -> None:
    for number, wanted in enumerate(filters):
        poset.add(number, wanted)


def _remove(poset: Poset, filters: Sequence[Filter], gone: Sequence[int]) -> None:
    for number in gone:
        poset.remove(number, filters[number])


def _walk(poset: Poset, events: Sequence[Mapping[str, Value]]) -> list[PosetWalk]:
    return [poset.walk(event) for event in events]


def _ask_all(filters: Sequence[Filter], events: Sequence[Mapping[str, Value]]) -> list[list[int]]:
    return [[number for number, wanted in enumerate(filters) if wanted.accepts(event)] for event in events]
