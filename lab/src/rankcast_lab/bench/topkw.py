"""`rankcast bench topkw`: exact top-k in a window for many ideal points, against plain passes over all distances.

The published setting: 500 subscriptions, 1,000,000 events in two dimensions, uniform, a window of 20,000. Cost is CPU
time of one thread. The limit is the fastest of three plain passes that only evaluate the distances, in the same run.
Deliveries are compared with those of the k-skyband, another exact algorithm, for a few subscriptions and events. Then
what a pipeline sends for such subscriptions (`topkw_shipping`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from rankcast.arrays import Array
from rankcast_lab.bench import topkw_shipping
from rankcast_lab.bench.registry import Settings
from rankcast_lab.bench.report import Bound, Comparison, Figure, Report, Row
from rankcast_lab.bench.timing import best_of_each
from rankcast_lab.bench.topkw_passes import count_within, find_nearest, store_all
from rankcast_lab.engines.topkw_dense import Deliveries, DenseTopKWindow, QueueKind
from rankcast_lab.engines.topkw_dense_lengths import expected_deliveries

SUBSCRIPTIONS, EVENTS, WINDOW = 500, 1_000_000, 20_000
QUICK_SUBSCRIPTIONS, QUICK_EVENTS = 100, 100_000

BATCH = 50_000
"""Events that are published by one call."""

MOST_TIMES_THE_LIMIT = {1: 5.0, 10: 6.0, 100: 20.0, 1000: 350.0}
"""What is promised in the published setting, by k."""

GOAL = (1000, 80.0)
"""What is aimed at beyond that: k and the most times the limit."""

REPEATS = 3
COMPARED_SUBSCRIPTIONS, COMPARED_EVENTS = 4, 40_000


def run(settings: Settings) -> Report:
    """Measure every k."""
    subscriptions = settings.subscriptions[0] if settings.subscriptions else SUBSCRIPTIONS
    events = settings.events or EVENTS
    generator = np.random.default_rng(settings.seed)
    points, ideals = generator.random((events, 2)), generator.random((subscriptions, 2))
    report = Report("topkw")
    full = (subscriptions, events) == (SUBSCRIPTIONS, EVENTS)
    passes = _passes(np.ascontiguousarray(points.T), ideals)
    for k in MOST_TIMES_THE_LIMIT:
        case = f"k={k}"
        settings.say(f"{case}: comparing the deliveries with those of the skyband")
        report.add([_compared(case, points, ideals, k)])
        settings.say(f"{case}: measuring")
        _measure(case, points, ideals, k, passes, report)
        if full:
            _judge(case, k, report)
    topkw_shipping.measure(settings, report)
    if not full:
        report.notes.append(
            f"Of the kernel, nothing is promised but for {SUBSCRIPTIONS} subscriptions and {EVENTS:,} events."
        )
    return report


def _passes(columns: Array, ideals: Array) -> Mapping[str, Callable[[], object]]:
    """Return the plain passes by name, compiled."""
    few = np.ascontiguousarray(columns[:, :100])
    for compile_first in (partial(count_within, few, ideals, 1e-4), partial(store_all, few, ideals)):
        compile_first()
    find_nearest(few, ideals)
    return {
        "pass: count": partial(count_within, columns, ideals, 1e-4),
        "pass: store": partial(store_all, columns, ideals),
        "pass: nearest": partial(find_nearest, columns, ideals),
    }


def _publish(points: Array, ideals: Array, k: int, queue: QueueKind = QueueKind.EXACT) -> list[Deliveries]:
    engine = DenseTopKWindow(ideals, k=k, window=WINDOW, queue=queue)
    return [engine.publish(points[start : start + BATCH]) for start in range(0, len(points), BATCH)]


def _count(points: Array, ideals: Array, k: int) -> int:
    """Return the number of deliveries; a batch is let go of before the next."""
    engine = DenseTopKWindow(ideals, k=k, window=WINDOW)
    return sum(len(engine.publish(points[start : start + BATCH])) for start in range(0, len(points), BATCH))


def _compared(case: str, points: Array, ideals: Array, k: int) -> Comparison:
    few_points, few_ideals = points[:COMPARED_EVENTS], ideals[:COMPARED_SUBSCRIPTIONS]
    exact, skyband = (
        _rows(_publish(few_points, few_ideals, k, queue)) for queue in (QueueKind.EXACT, QueueKind.SKYBAND)
    )
    differing = sorted(exact ^ skyband)
    difference = f"(subscription, event, instant) = {differing[0]}" if differing else ""
    return Comparison(case, "exact", "skyband", len(few_points), not differing, difference)


def _rows(batches: list[Deliveries]) -> set[tuple[int, int, int]]:
    found = Deliveries.joined(batches)
    return set(zip(found.subscription.tolist(), found.event.tolist(), found.instant.tolist(), strict=True))


def _measure(
    case: str, points: Array, ideals: Array, k: int, passes: Mapping[str, Callable[[], object]], report: Report
) -> None:
    counted: list[int] = []
    best = best_of_each(REPEATS, {**passes, "exact": lambda: counted.append(_count(points, ideals, k))})
    best["limit"] = min(best[name] for name in passes)
    report.rows += [Row(case, name, seconds / len(points) * 1e6) for name, seconds in best.items()]
    report.figures += [
        Figure(case, "CPU time, exact", best["exact"], "s"),
        Figure(case, "CPU time, limit", best["limit"], "s"),
        Figure(case, "deliveries per subscription", counted[0] / len(ideals), ""),
        Figure(case, "deliveries expected", expected_deliveries(len(points), k, WINDOW), ""),
    ]


def _judge(case: str, k: int, report: Report) -> None:
    ratio = report.ratio(case, "exact", "limit")
    report.require(f"{case}: exact / limit", Bound.AT_MOST, MOST_TIMES_THE_LIMIT[k], ratio)
    if k == GOAL[0]:
        report.require(f"{case}: exact / limit, goal", Bound.AT_MOST, GOAL[1], ratio)
