"""Where the bounded queue fails: content that repeats, and scores that depend on time.

The bounded queue relies on scores that are independent of time: an event far down on arrival is thrown away, since it
will hardly ever be among the best. Two traces where that is not so:

- sessions, each repeating its content. A good session fills the queue with copies of itself; what was worse is thrown
  away, and when the session is over and its copies leave, the queue knows nothing of the events that are then the best.
- a ticket sale, whose price climbs. Every offer is worse than those before it and will be the best when they have left
  the window, yet all of them are turned away while the queue is full. It takes in as many events as it holds, l, and
  turns the other w - l of a window away: of a counter, which only goes up, it misses 1 - l / w of all deliveries.

The exact queue rebuilds itself from the window. Counts of deliveries, which the paper compares on a network trace, hide
the errors of the first trace, not those of the second.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from rankcast.arrays import Array
from rankcast.plotting import BLACK, BLUE, GREEN, ORANGE, RED, mark_numbers, tidy
from rankcast_lab.engines.topkw_dense import Deliveries, QueueKind
from rankcast_lab.engines.topkw_dense_lengths import queue_length
from rankcast_lab.studies.findings import Finding, Outcome, Settings
from rankcast_lab.studies.topkw_data import deliveries, missed_and_false, sale, sessions, uniform

KS = (1, 2, 5, 10, 20, 50, 100, 200)
SHOWN_K = 10
"""Of the picture of one sale."""

VIEWS = 10
PUBLISHED_EXACT = (905, 1139, 1662, 2299, 3263, 6152, 9774, 15964)
PUBLISHED_BOUNDED = (1019, 1307, 1685, 2200, 3264, 5910, 9147, 15326)
PUBLISHED_NETFLOW = dict(zip(KS, zip(PUBLISHED_EXACT, PUBLISHED_BOUNDED, strict=True), strict=True))
"""Deliveries of one subscription on a network trace: exact and bounded queue."""


@dataclass(frozen=True, slots=True)
class Trace:
    """Events, the ideal points of some subscriptions, and a window."""

    points: Array
    ideals: Array
    window: int

    def both(self, k: int) -> tuple[Deliveries, Deliveries]:
        """Return what the exact and the bounded queue deliver."""
        exact, bounded = (
            deliveries(self.points, self.ideals, k, self.window, queue)
            for queue in (QueueKind.EXACT, QueueKind.BOUNDED)
        )
        return exact, bounded


@dataclass(frozen=True, slots=True)
class Cell:
    """What one k gives on one trace: deliveries per subscription, and the errors of the bounded queue by event."""

    k: int
    exact: float
    bounded: float
    missed: float
    false: float

    @staticmethod
    def of(trace: Trace, k: int) -> Cell:
        """Compare the two queues."""
        exact, bounded = trace.both(k)
        missed, false = missed_and_false(exact, bounded, len(trace.points))
        return Cell(k, len(exact) / len(trace.ideals), len(bounded) / len(trace.ideals), missed, false)


def run(settings: Settings) -> Outcome:
    """Compare both queues on both traces and on independent points."""
    events, window, subscriptions = (40_000, 4_000, 5) if settings.quick else (300_000, 20_000, 10)
    generator = np.random.default_rng(settings.seed)
    ideals = uniform(generator, subscriptions)
    seats = 3 * window // VIEWS
    lowest = np.zeros((1, 1))
    traces = {
        "sessions": Trace(sessions(generator, events), ideals, window),
        "sale": Trace(sale(generator, events, seats, VIEWS), lowest, window),
        "counter": Trace(np.arange(events, dtype=np.float64)[:, None], lowest, window),
        "independent": Trace(uniform(generator, events), ideals, window),
    }
    cells: dict[str, list[Cell]] = {name: [] for name in traces}
    for k in KS:
        settings.say(f"k={k}")
        for name, trace in traces.items():
            cells[name].append(Cell.of(trace, k))
    return Outcome(
        "topkw-correlated",
        "Where the bounded queue fails",
        tuple(finding for row in zip(*cells.values(), strict=True) for finding in _findings(window, *row)),
        (
            f"{events:,} events, a window of {window:,}, {subscriptions} subscriptions. Sessions: 12 at a time, each "
            "repeating one point exactly for 400 events on average. The published network trace is not part of this; "
            "its counts are shown for comparison of the two queues only.",
            f"Ticket sale: visitors are shown the price of the moment, the same for {VIEWS} visitors on average; it "
            f"goes up with each of {seats:,} seats that is sold and down with one in ten that is returned, and the "
            "next show starts again. The subscriber wants the k cheapest offers of the window. A counter is the same "
            "at its plainest: a number that only goes up, of which the lowest are wanted.",
            "Published as reasonable, since the counts of both queues are alike. By event, the bounded queue misses "
            "and wrongly delivers far more than its 0.1% on sessions. On the sale it collapses: while prices climb "
            "every offer is worse than all that the queue holds, so it is turned away, and has left nothing behind "
            "when its turn comes. Of each window the queue sees as many events as it holds; 1 - length / window is "
            "the share that it misses of a counter. The exact queue is exact here as everywhere.",
        ),
        partial(_draw, cells=cells, trace=traces["sale"]),
        size=(13.0, 8.4),
    )


def _findings(window: int, repeated: Cell, climbing: Cell, counter: Cell, independent: Cell) -> list[Finding]:
    k = repeated.k
    exact, bounded = PUBLISHED_NETFLOW[k]
    published, measured = bounded / exact, repeated.bounded / max(repeated.exact, 1e-9)
    least, most = "below 0.001 where independent", "above 0.999 where independent"
    return [
        Finding(f"k={k}: sessions: deliveries, bounded / exact", published, measured, abs(measured - 1) <= 0.15),
        Finding(f"k={k}: sessions: share missed", least, repeated.missed, repeated.missed < 0.001),
        Finding(f"k={k}: sessions: share of deliveries that are false", None, repeated.false, None),
        Finding(f"k={k}: sale: share of deliveries made", most, 1 - climbing.missed, climbing.missed < 0.001),
        Finding(f"k={k}: sale: share of deliveries that are false", None, climbing.false, None),
        Finding(f"k={k}: counter: share of deliveries made", most, 1 - counter.missed, counter.missed < 0.001),
        Finding(f"k={k}: counter: length of the queue / window", None, queue_length(k) / window, None),
        Finding(f"k={k}: independent: share missed", 0.001, independent.missed, independent.missed < 0.001),
    ]


def _draw(figure: Any, cells: dict[str, list[Cell]], trace: Trace) -> None:
    (counts, errors), (climb, missed) = figure.subplots(2, 2)
    for name, line in (("sessions", "-"), ("sale", "--")):
        for queue, colour, marker in (("exact", BLUE, "o"), ("bounded", ORANGE, "s")):
            found = [getattr(cell, queue) for cell in cells[name]]
            counts.plot(KS, found, line, color=colour, marker=marker, label=f"{name}, {queue} queue")
    counts.set_yscale("log")
    tidy(counts, "Deliveries per subscription", "k", "deliveries")
    shares = (("missed", RED, "s"), ("false", ORANGE, "^"))
    for share, colour, marker in shares:
        found = [100 * getattr(cell, share) for cell in cells["sessions"]]
        errors.plot(KS, found, "-", color=colour, marker=marker, label=f"{share}, sessions")
    independent = [100 * cell.missed for cell in cells["independent"]]
    errors.plot(KS, independent, "-o", color=GREEN, label="missed, independent points")
    tidy(errors, "Errors of the bounded queue: sessions", "k", "% of deliveries")
    for share, colour, marker in shares:
        found = [100 * getattr(cell, share) for cell in cells["sale"]]
        missed.plot(KS, found, "--", color=colour, marker=marker, label=f"{share}, sale")
    counter = [100 * cell.missed for cell in cells["counter"]]
    missed.plot(KS, counter, ":", color=BLACK, marker="x", label="missed, counter")
    missed.set_ylim(0, 105)
    tidy(missed, "Errors of the bounded queue: sale and counter", "k", "% of deliveries")
    for panel in (counts, errors, missed):
        panel.set_xscale("log")
        mark_numbers(panel.xaxis, [1, 10, 100])
        panel.legend(frameon=False)
    _draw_climb(climb, trace)


def _draw_climb(panel: Any, trace: Trace) -> None:
    """Show when which price of the first sales is delivered."""
    shown = min(len(trace.points), 8 * trace.window)
    part = Trace(trace.points[:shown], trace.ideals[:1], trace.window)
    exact, bounded = part.both(SHOWN_K)
    steps = np.arange(0, shown, max(1, shown // 2_000))
    panel.plot(steps, part.points[steps, 0], color="#999999", linewidth=1.2, label="price shown")
    panel.plot(exact.instant, part.points[exact.event, 0], ".", color=BLUE, markersize=2, label="delivered, exact")
    panel.plot(
        bounded.instant, part.points[bounded.event, 0], "s", color=RED, markersize=3.5, label="delivered, bounded"
    )
    tidy(panel, f"The first sales: what is delivered when, k={SHOWN_K}", "visitor", "price")
    panel.set_ylim(-0.03, 1.3)
    panel.legend(frameon=False, loc="upper center", ncols=3, markerscale=3)
