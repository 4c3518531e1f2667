"""Deliveries and time over k and the window: Figures 12 and 13 of the paper."""

from __future__ import annotations

from functools import partial
from typing import Any, TypeAlias

import numpy as np

from rankcast_lab.bench.timing import timed
from rankcast_lab.studies.findings import Finding, Outcome, Settings
from rankcast_lab.studies.pages import number
from rankcast_lab.studies.topkw_data import deliveries, uniform

KS, WINDOWS = (1, 10, 100, 1000), (10, 100, 1_000, 10_000, 100_000)

Grid: TypeAlias = dict[tuple[int, int], tuple[float, float]]
"""Deliveries per subscription and CPU seconds, by k and window."""


def run(settings: Settings) -> Outcome:
    """Measure every pair of k and window."""
    events, subscriptions = (100_000, 4) if settings.quick else (1_000_000, 10)
    generator = np.random.default_rng(settings.seed)
    points, ideals = uniform(generator, events), uniform(generator, subscriptions)
    for k, window in ((1, 2), (2, 1)):  # compiled before anything is timed
        deliveries(points[:100], ideals, k, window)
    grid: Grid = {}
    for k in KS:
        for window in WINDOWS:
            settings.say(f"k={k}, window={window:,}")
            seconds, found = timed(partial(deliveries, points, ideals, k, window))
            grid[k, window] = (len(found) / subscriptions, seconds)
    return Outcome(
        "topkw-grid",
        "Deliveries and time over k and the window",
        _findings(grid, events, compared=not settings.quick),
        (
            f"{events:,} uniform events in two dimensions, {subscriptions} subscriptions; CPU seconds of one thread.",
            "Where the window is at most k everything is delivered, which is known at once: all that is left to do is "
            "to write the deliveries. The published program was slowest there.",
        ),
        partial(_draw, grid=grid),
        (12.0, 4.4),
    )


def _findings(grid: Grid, events: int, *, compared: bool) -> tuple[Finding, ...]:
    same = grid[10, 1_000][0] / grid[100, 10_000][0]
    middle = max(grid[100, 10_000][1], grid[10, 1_000][1])
    outer = min(grid[1, 100][1], grid[1000, 100_000][1])
    every = grid[100, 100]
    slowest = max(grid, key=lambda pair: grid[pair][1])
    return (
        Finding.near("deliveries of (10, 10^3) / (100, 10^4)", 1.0 if compared else None, same, 0.1),
        Finding.near("deliveries of k = w = 100", float(events), every[0], 0.5),
        Finding(
            "slower of (100, 10^4), (10, 10^3) / faster of (1, 100), (1000, 10^5)",
            "below 1",
            middle / outer,
            middle < outer if compared else None,
        ),
        Finding("slowest pair (k, w)", "k = w", f"{slowest}", slowest[0] == slowest[1] if compared else None),
    )


def _draw(figure: Any, grid: Grid) -> None:
    for panel, part, title, colours in zip(
        figure.subplots(1, 2), (0, 1), ("Deliveries per subscription", "CPU seconds"), ("Blues", "Oranges"), strict=True
    ):
        values = np.array([[grid[k, window][part] for window in WINDOWS] for k in KS])
        shades = np.log10(np.maximum(values, 1e-3))
        panel.imshow(shades, cmap=colours, aspect="auto", origin="lower", vmax=shades.max() + 1.5)
        for (row, column), value in np.ndenumerate(values):
            panel.text(column, row, number(float(value)), ha="center", va="center")
        panel.set_xticks(range(len(WINDOWS)), [f"{window:,}" for window in WINDOWS])
        panel.set_yticks(range(len(KS)), [f"{k:,}" for k in KS])
        panel.set_title(title, loc="left", fontsize=11)
        panel.set_xlabel("window")
        panel.set_ylabel("k")
        panel.spines[:].set_visible(False)
        panel.tick_params(length=0)
