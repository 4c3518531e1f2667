"""How fast is top-k in a window? Figures 10 and 11 of the paper: time against k and against the number of dimensions.

CPU time of one thread for 500 subscriptions and 1,000,000 events, uniform, a window of 20,000. Absolute times compare
machines of different decades; what can be compared are the shapes: how time grows with k and with dimensions.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from rankcast.arrays import Array
from rankcast.plotting import BLACK, BLUE, ORANGE, mark_numbers, tidy
from rankcast_lab.bench.timing import timed
from rankcast_lab.engines.topkw_dense import DenseTopKWindow, QueueKind
from rankcast_lab.studies.findings import Finding, Outcome, Settings
from rankcast_lab.studies.topkw_data import BATCH, uniform

SUBSCRIPTIONS, EVENTS, WINDOW = 500, 1_000_000, 20_000
QUICK_SUBSCRIPTIONS, QUICK_EVENTS = 40, 100_000
KS = (1, 10, 100, 1000)
DIMENSIONS = (1, 2, 3, 5, 10, 20)
PUBLISHED_SECONDS = 153.5
"""For k=1 and two dimensions, of a program in Java on a Pentium with 2.8 GHz."""

FEWER = {QueueKind.EXACT: 1, QueueKind.BOUNDED: 10}
"""The bounded queue is given a tenth of the subscriptions, and its time is multiplied: all are worked off alike."""


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds by k of both queues, and by number of dimensions of the exact one."""

    exact: dict[int, float]
    bounded: dict[int, float]
    dimensions: dict[int, float]


def run(settings: Settings) -> Outcome:
    """Measure both queues for every k, and the exact one for every number of dimensions."""
    subscriptions, events = (QUICK_SUBSCRIPTIONS, QUICK_EVENTS) if settings.quick else (SUBSCRIPTIONS, EVENTS)
    generator = np.random.default_rng(settings.seed)
    points, ideals = uniform(generator, events), uniform(generator, subscriptions)
    found: dict[QueueKind, dict[int, float]] = {queue: {} for queue in FEWER}
    for queue, fewer in FEWER.items():
        for k in KS:
            settings.say(f"{queue.value}, k={k}")
            found[queue][k] = fewer * _seconds(points, ideals[::fewer], k, queue)
    by_dimension = {}
    for dimensions in DIMENSIONS:
        settings.say(f"{dimensions} dimensions")
        by_dimension[dimensions] = _seconds(
            uniform(generator, events, dimensions), uniform(generator, subscriptions, dimensions), 1, QueueKind.EXACT
        )
    times = Times(found[QueueKind.EXACT], found[QueueKind.BOUNDED], by_dimension)
    return Outcome(
        "topkw-speed",
        "Speed of top-k in a window",
        _findings(times, compared=not settings.quick),
        (
            f"{subscriptions} subscriptions, {events:,} events, a window of {WINDOW:,}; CPU seconds of one thread. The "
            "bounded queue runs for a tenth of the subscriptions and its time is multiplied by ten.",
            "The published times are those of a machine of another decade; only the shapes compare. The exact queue "
            "keeps no list sorted while events come and go, so its time for large k grows less than in proportion.",
        ),
        partial(_draw, times=times, compared=not settings.quick),
    )


def _seconds(points: Array, ideals: Array, k: int, queue: QueueKind) -> float:
    DenseTopKWindow(ideals, k=k, window=WINDOW, queue=queue).publish(points[:10])  # compiled before it is timed
    engine = DenseTopKWindow(ideals, k=k, window=WINDOW, queue=queue)

    def publish_all() -> None:
        for start in range(0, len(points), BATCH):
            engine.publish(points[start : start + BATCH])

    return timed(publish_all)[0]


def _findings(times: Times, *, compared: bool) -> tuple[Finding, ...]:
    first = times.exact[1]
    growth = times.exact[100] / first
    large = times.exact[1000] / times.exact[100]
    few, many = times.dimensions[5], times.dimensions[20]
    per_dimension = (many / few) / (20 / 5)
    seconds = PUBLISHED_SECONDS if compared else None
    return (
        Finding("seconds, k=1", seconds, first, first <= PUBLISHED_SECONDS if compared else None),
        *(Finding(f"seconds, k={k}, exact", None, times.exact[k], None) for k in KS[1:]),
        *(Finding(f"seconds, k={k}, bounded", None, times.bounded[k], None) for k in KS),
        Finding("time of k=100 / k=1", "at most 2 (153 to 300 s)", growth, growth <= 2 if compared else None),
        Finding("time of k=1000 / k=100", "almost 10 (linear)", large, 7 <= large <= 13 if compared else None),
        Finding(
            "time of 20 dimensions / 5 dimensions, over 4", "1 (linear)", per_dimension, 0.7 <= per_dimension <= 1.3
        ),
        Finding("bounded / exact, k=1000", None, times.bounded[1000] / times.exact[1000], None),
    )


def _draw(figure: Any, times: Times, *, compared: bool) -> None:
    left, right = figure.subplots(1, 2)
    for name, found, colour, marker in (
        ("exact queue", times.exact, BLUE, "o"),
        ("bounded queue", times.bounded, ORANGE, "s"),
    ):
        left.plot(list(found), list(found.values()), color=colour, marker=marker, label=name)
    if compared:
        left.plot([1], [PUBLISHED_SECONDS], "x", color=BLACK, label="published (another machine)", markersize=8)
    left.set_xscale("log")
    left.set_yscale("log")
    mark_numbers(left.xaxis, list(KS))
    tidy(left, "Against k, two dimensions", "k", "CPU seconds")
    left.legend(frameon=False)
    right.plot(list(times.dimensions), list(times.dimensions.values()), color=BLUE, marker="o")
    right.set_ylim(0)
    right.set_xticks(list(DIMENSIONS))
    tidy(right, "Against dimensions, k=1, exact queue", "dimensions", "CPU seconds")
