"""Where the bounded queue fails: content that repeats, and scores that depend on time.

The bounded queue relies on scores that are independent of time. In a trace of sessions, each repeating its content, a
good session fills the queue with copies of itself; what was worse is thrown away, and when the session is over and its
copies leave, the queue knows nothing of the events that are then the best. The exact queue rebuilds itself from the
window. The counts of deliveries, which the paper compares on a network trace, hide most of that.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from rankcast.delivery.topkw_dense import QueueKind
from rankcast.studies.findings import Finding, Outcome, Settings
from rankcast.studies.plotting import BLUE, GREEN, ORANGE, RED, mark_numbers, tidy
from rankcast.studies.topkw_data import deliveries, missed_and_false, sessions, uniform

KS = (1, 2, 5, 10, 20, 50, 100, 200)
PUBLISHED_NETFLOW = {
    1: (905, 1019),
    2: (1139, 1307),
    5: (1662, 1685),
    10: (2299, 2200),
    20: (3263, 3264),
    50: (6152, 5910),
    100: (9774, 9147),
    200: (15964, 15326),
}
"""Deliveries of one subscription on a network trace: exact and bounded queue."""


@dataclass(frozen=True, slots=True)
class Cell:
    """What one k gives on the trace, and the share missed on independent points."""

    k: int
    exact: float
    bounded: float
    missed: float
    false: float
    missed_independent: float


def run(settings: Settings) -> Outcome:
    """Compare both queues on a trace of sessions and on independent points."""
    events, window, subscriptions = (40_000, 4_000, 5) if settings.quick else (300_000, 20_000, 20)
    generator = np.random.default_rng(settings.seed)
    trace, independent = sessions(generator, events), uniform(generator, events)
    ideals = uniform(generator, subscriptions)
    cells = []
    for k in KS:
        settings.say(f"k={k}")
        exact, bounded = (deliveries(trace, ideals, k, window, queue) for queue in (QueueKind.EXACT, QueueKind.BOUNDED))
        plain = [deliveries(independent, ideals, k, window, queue) for queue in (QueueKind.EXACT, QueueKind.BOUNDED)]
        missed, false = missed_and_false(exact, bounded, events)
        share = missed_and_false(plain[0], plain[1], events)[0]
        cells.append(Cell(k, len(exact) / subscriptions, len(bounded) / subscriptions, missed, false, share))
    return Outcome(
        "topkw-correlated",
        "Where the bounded queue fails",
        tuple(finding for cell in cells for finding in _findings(cell)),
        (
            f"{events:,} events of 12 sessions at a time, each repeating one point exactly for 400 events on average; "
            f"a window of {window:,}, {subscriptions} subscriptions. The published network trace is not part of "
            "this; its counts are shown for comparison of the two queues only.",
            "Published as reasonable, since the counts of both queues are alike. By event, the bounded queue misses "
            "and wrongly delivers far more than its 0.1%; the exact queue is exact here as everywhere.",
        ),
        partial(_draw, cells=cells),
    )


def _findings(cell: Cell) -> list[Finding]:
    exact, bounded = PUBLISHED_NETFLOW[cell.k]
    published, measured = bounded / exact, cell.bounded / max(cell.exact, 1e-9)
    return [
        Finding(f"k={cell.k}: deliveries, bounded / exact", published, measured, abs(measured - 1) <= 0.15),
        Finding(f"k={cell.k}: share missed", "below 0.001 where independent", cell.missed, cell.missed < 0.001),
        Finding(f"k={cell.k}: share of deliveries that are false", None, cell.false, None),
        Finding(
            f"k={cell.k}: share missed, independent points",
            0.001,
            cell.missed_independent,
            cell.missed_independent < 0.001,
        ),
    ]


def _draw(figure: Any, cells: list[Cell]) -> None:
    left, right = figure.subplots(1, 2)
    ks = [cell.k for cell in cells]
    left.plot(ks, [cell.exact for cell in cells], "-o", color=BLUE, label="exact")
    left.plot(ks, [cell.bounded for cell in cells], "-s", color=ORANGE, label="bounded")
    left.set_ylim(0, 1.08 * max(cell.bounded for cell in cells))
    tidy(left, "Deliveries per subscription, trace of sessions", "k", "deliveries")
    right.plot(ks, [100 * cell.missed for cell in cells], "-s", color=RED, label="missed, sessions")
    right.plot(ks, [100 * cell.false for cell in cells], "-^", color=ORANGE, label="false, sessions")
    right.plot(
        ks, [100 * cell.missed_independent for cell in cells], "-o", color=GREEN, label="missed, independent points"
    )
    tidy(right, "Errors of the bounded queue", "k", "% of deliveries")
    right.set_ylim(-0.5, 1.35 * max(1.0, *(100 * max(cell.missed, cell.false) for cell in cells)))
    for panel in (left, right):
        panel.set_xscale("log")
        mark_numbers(panel.xaxis, [1, 10, 100])
        panel.legend(frameon=False)
