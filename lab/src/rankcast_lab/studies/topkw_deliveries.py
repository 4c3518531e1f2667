"""How many events does top-k in a window deliver? Table 2 of the paper, the closed form, and two queues.

The table counts the deliveries of one subscription chosen at random; here many subscriptions are measured, so that the
published number can be judged as one draw: it holds within three standard deviations of a subscription from the mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rankcast.arrays import Array
from rankcast.plotting import BLACK, BLUE, ORANGE, RED, mark_numbers, tidy
from rankcast_lab.engines.topkw_dense import QueueKind
from rankcast_lab.engines.topkw_dense_lengths import expected_deliveries
from rankcast_lab.studies.findings import Finding, Outcome, Settings
from rankcast_lab.studies.topkw_data import clustered, counts, deliveries, missed_and_false, uniform

KS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)
PUBLISHED = {
    "uniform": dict(zip(KS, (102, 194, 418, 760, 1382, 3196, 6068, 11728, 28096, 54631, 106738), strict=True)),
    "clustered": dict(zip(KS, (104, 198, 410, 784, 1393, 3217, 6114, 11749, 28018, 54739, 106638), strict=True)),
}
"""Table 2, the exact column, for 1,000,000 publications and a window of 20,000."""

DRAWS = 3
"""Standard deviations within which one subscription counts as a plausible draw."""


@dataclass(frozen=True, slots=True)
class Cell:
    """The deliveries of one data set and k."""

    data: str
    k: int
    mean: float
    deviation: float
    expected: float
    missed: float
    false: float


def run(settings: Settings) -> Outcome:
    """Measure both data sets, every k, both queues."""
    events, window, subscriptions = (100_000, 2_000, 20) if settings.quick else (1_000_000, 20_000, 40)
    generator = np.random.default_rng(settings.seed)
    cells = []
    for name, made in (("uniform", uniform), ("clustered", clustered)):
        points, ideals = made(generator, events), generator.random((subscriptions, 2))
        for k in PUBLISHED[name]:
            if k * 10 <= window:
                settings.say(f"{name}, k={k}")
                cells.append(_cell(name, points, ideals, k, window))
    findings = [finding for cell in cells for finding in _findings(cell, compared=not settings.quick)]
    return Outcome(
        "topkw-deliveries",
        "Deliveries of top-k in a window",
        tuple(findings),
        _remarks(cells, events, window, subscriptions),
        lambda figure: _draw(figure, cells, compared=not settings.quick),
    )


def _cell(name: str, points: Array, ideals: Array, k: int, window: int) -> Cell:
    exact = deliveries(points, ideals, k, window)
    bounded = deliveries(points, ideals, k, window, QueueKind.BOUNDED)
    per_subscription = counts(exact, len(ideals))
    missed, false = missed_and_false(exact, bounded, len(points))
    mean, deviation = float(per_subscription.mean()), float(per_subscription.std(ddof=1))
    return Cell(name, k, mean, deviation, expected_deliveries(len(points), k, window), missed, false)


def _findings(cell: Cell, *, compared: bool) -> list[Finding]:
    name = f"{cell.data}, k={cell.k}"
    published = float(PUBLISHED[cell.data][cell.k]) if compared else None
    share = "below 0.001" if compared else None
    return [
        Finding.near(f"{name}: deliveries", published, cell.mean, DRAWS * cell.deviation),
        Finding(f"{name}: closed form", None, cell.expected, None),
        Finding(
            f"{name}: share the bounded queue misses", share, cell.missed, cell.missed < 0.001 if compared else None
        ),
    ]


def _remarks(cells: list[Cell], events: int, window: int, subscriptions: int) -> tuple[str, ...]:
    off = max(abs(cell.mean / cell.expected - 1) for cell in cells if cell.k >= 10)
    worst = max(cells, key=lambda cell: cell.missed)
    return (
        f"{events:,} events in two dimensions, a window of {window:,}, {subscriptions} uniform subscriptions. "
        f"A published count is that of one subscription; it holds when it lies within {DRAWS} standard deviations "
        "(of one subscription) of the mean here.",
        f"From k=10 on, means are within {off:.1%} of the closed form for independent scores. The bounded queue, with "
        f"the corrected length, misses at most {worst.missed:.2g} of the deliveries ({worst.data}, k={worst.k}).",
    )


def _draw(figure: Any, cells: list[Cell], *, compared: bool) -> None:
    left, right = figure.subplots(1, 2)
    for name, colour, marker in (("uniform", BLUE, "o"), ("clustered", ORANGE, "s")):
        chosen = [cell for cell in cells if cell.data == name]
        ks = [cell.k for cell in chosen]
        left.plot(ks, [cell.mean for cell in chosen], marker, color=colour, label=f"{name}, mean", markersize=7)
        off = [100 * (cell.mean / cell.expected - 1) for cell in chosen]
        spread = [100 * cell.deviation / cell.expected for cell in chosen]
        shifted = [k * (0.95 if name == "uniform" else 1.05) for k in ks]
        right.errorbar(shifted, off, spread, fmt=marker, color=colour, capsize=3, label=f"{name}, mean and deviation")
        if compared:
            published = [PUBLISHED[name][cell.k] for cell in chosen]
            left.plot(ks, published, "x", color=RED if name == "uniform" else BLACK, label=f"{name}, published")
            share = [100 * (count / cell.expected - 1) for count, cell in zip(published, chosen, strict=True)]
            right.plot(shifted, share, "x", color=RED if name == "uniform" else BLACK, label=f"{name}, published")
    ks = [cell.k for cell in cells if cell.data == "uniform"]
    left.plot(
        ks, [cell.expected for cell in cells if cell.data == "uniform"], color="#888888", label="closed form", zorder=1
    )
    right.axhline(0, color="#888888", zorder=1)
    for panel in (left, right):
        panel.set_xscale("log")
        mark_numbers(panel.xaxis, [k for k in ks if str(k)[0] == "1"])
    left.set_yscale("log")
    tidy(left, "Deliveries of one subscription", "k", "deliveries")
    tidy(right, "Against the closed form", "k", "difference in %")
    left.legend(frameon=False)
    right.legend(frameon=False)
