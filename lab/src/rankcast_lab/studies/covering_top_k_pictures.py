"""Pictures of top-k covering: shares against k and widths, the journey along the chain, and a small example."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from rankcast.covering.topk import Cover
from rankcast.plotting import BLACK, BLUE, GREEN, ORANGE, PURPLE, RED, mark_numbers, tidy
from rankcast.samples.covering import WIDTHS, Ranges, ranges
from rankcast_lab.engines.bulk import forwarded
from rankcast_lab.studies.covering_top_k_depths import Depth
from rankcast_lab.studies.covering_top_k_published import (
    ANCESTOR_AT_MOST,
    ANCESTOR_BY_SELECTIVITY,
    ANCESTOR_BY_WIDTHS,
    RANK,
    REGULAR,
)
from rankcast_lab.studies.covering_top_k_runs import (
    ALL_WIDTHS,
    LOW_KS,
    SELECTIVITIES,
    Case,
    Journey,
    Sample,
    Samples,
    over_seeds,
)

LINES = {10_000: "-", 50_000: "--"}
COLOURS = {(0.1, 0.6): GREEN, WIDTHS: BLUE, (0.3, 0.4): ORANGE, (0.5, 0.6): PURPLE}
EXAMPLE, EXAMPLE_SEED, EXAMPLE_K = 12, 4, 2


def draw_shares(figure: Any, samples: Samples) -> None:
    """Draw what is forwarded against small k, against k as a share of all, and by widths."""
    left, middle, right = figure.subplots(1, 3)
    counts = sorted({case.subscriptions for case in samples})
    for count in counts:
        _draw_low(left, samples, count)
        _draw_selectivity(middle, samples, count)
    _draw_widths(right, samples, counts[0])
    left.set_yscale("log")
    left.set_yticks([0.5, 1, 2, 5, 10, 20, 50, 100], ["0.5", "1", "2", "5", "10", "20", "50", "100"])
    left.set_xticks(LOW_KS)
    for panel in (middle, right):
        panel.set_xscale("log")
        panel.set_xticks([0.1, 1, 10], ["0.1%", "1%", "10%"])
        panel.set_ylim(0, 100)
    tidy(left, "Small k", "k", "forwarded to the publisher's edge, %")
    tidy(middle, "AncestorCoverK", "k as a share of all subscriptions", "forwarded, %")
    tidy(right, f"AncestorCoverK by widths, {counts[0]:,}", "k as a share of all subscriptions", "forwarded, %")
    left.legend(frameon=False, fontsize=8.5, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2)
    for panel in (middle, right):
        panel.legend(frameon=False, fontsize=8.5, loc="upper left")


def _draw_low(panel: Any, samples: Samples, count: int) -> None:
    own = samples[Case(count, WIDTHS)]
    lines = {
        "RankCoverK, one arbitrary parent": (
            RED,
            [over_seeds(own, partial(Sample.rank_share, k=k, by=Depth.ANY)) for k in LOW_KS],
        ),
        "RankCoverK, longest chain": (
            ORANGE,
            [over_seeds(own, partial(Sample.rank_share, k=k, by=Depth.LONGEST)) for k in LOW_KS],
        ),
        "AncestorCoverK": (BLUE, [over_seeds(own, partial(Sample.ancestor_share, k=k)) for k in LOW_KS]),
        "RegularCover": (GREEN, [over_seeds(own, partial(Sample.ancestor_share, k=1))] * len(LOW_KS)),
    }
    first = LINES[count] == "-"
    for name, (colour, shares) in lines.items():
        label = name if first else None
        panel.plot(LOW_KS, [one.mean for one in shares], LINES[count], color=colour, label=label)
    panel.plot([], [], LINES[count], color="#888888", label=f"{count:,} subscriptions")
    published = [REGULAR[count], ANCESTOR_AT_MOST[count], RANK[count]]
    panel.plot([LOW_KS[-1]] * len(published), published, "x", color=BLACK, label="published" if first else None)


def _draw_selectivity(panel: Any, samples: Samples, count: int) -> None:
    own = samples[Case(count, WIDTHS)]
    shares = [over_seeds(own, partial(Sample.ancestor_share, k=part * count)) for part in SELECTIVITIES]
    panel.errorbar(
        [100 * part for part in SELECTIVITIES],
        [one.mean for one in shares],
        [one.deviation for one in shares],
        fmt=f"o{LINES[count]}",
        color=BLUE if LINES[count] == "-" else ORANGE,
        markersize=4,
        capsize=3,
        label=f"{count:,}, mean and deviation",
    )
    if LINES[count] == "-":
        places = [100 * part for part in ANCESTOR_BY_SELECTIVITY]
        panel.plot(
            places, ANCESTOR_BY_SELECTIVITY.values(), "x", color=BLACK, markersize=8, zorder=5, label="published"
        )


def _draw_widths(panel: Any, samples: Samples, count: int) -> None:
    for widths in ALL_WIDTHS:
        own = samples[Case(count, widths)]
        shares = [over_seeds(own, partial(Sample.ancestor_share, k=part * count)) for part in SELECTIVITIES]
        label = f"{widths[0]:.0%} to {widths[1]:.0%}"
        places = [100 * part for part in SELECTIVITIES]
        panel.plot(places, [one.mean for one in shares], "o-", color=COLOURS[widths], markersize=4, label=label)
    panel.plot([5] * 3, ANCESTOR_BY_WIDTHS.values(), "x", color=BLACK, markersize=8, zorder=5, label="published")


def draw_journeys(figure: Any, journeys: Mapping[int, Sequence[Journey]]) -> None:
    """Draw what each core broker sends on, and what it would be all at once."""
    panels = figure.subplots(1, len(journeys), squeeze=False)[0]
    for panel, (count, travelled) in zip(panels, journeys.items(), strict=True):
        for journey, colour in zip(travelled, (GREEN, BLUE, ORANGE, RED), strict=True):
            places = range(1, len(journey.sent) + 1)
            panel.plot(places, journey.sent, "o-", color=colour, markersize=4, label=journey.strategy)
            panel.axhline(journey.at_once, color=colour, linestyle=":", linewidth=1.2)
        panel.set_yscale("log")
        panel.set_xticks(list(places))
        mark_numbers(panel.yaxis, [mark for mark in (100, 1_000, 10_000) if mark <= count])
        tidy(panel, f"{count:,} subscriptions (dotted: all at once)", "core broker, towards the publisher", "sent on")
    figure.legend(
        *panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False, fontsize=9
    )


def draw_example(figure: Any) -> None:
    """Draw some ranges, and which of them each strategy forwards."""
    made = ranges(EXAMPLE, np.random.default_rng(EXAMPLE_SEED), (0.1, 0.6))
    order = np.argsort(made.starts[:, 0] - made.ends[:, 0])
    made = Ranges(made.starts[order], made.ends[order])
    panels = figure.subplots(1, 3, sharey=True)
    for panel, (cover, k) in zip(
        panels, ((Cover.REGULAR, 1), (Cover.ANCESTOR, EXAMPLE_K), (Cover.RANK, EXAMPLE_K)), strict=True
    ):
        chosen = set(forwarded(made.starts, made.ends, cover, k).tolist())
        for number, (low, high) in enumerate(zip(made.starts[:, 0], made.ends[:, 0], strict=True)):
            sent = number in chosen
            panel.plot(
                [low, high], [number, number], color=BLUE if sent else "#BBBBBB", linewidth=5 if sent else 3,
                linestyle="-" if sent else (0, (1.5, 0.6)), solid_capstyle="butt",
            )  # fmt: skip
        name = cover.value if cover is Cover.REGULAR else f"{cover.value}, k={k}"
        tidy(panel, f"{name}: {len(chosen)} of {EXAMPLE} forwarded", "attribute", "")
        panel.set_xlim(0, 1)
        panel.set_yticks([])
    panels[0].set_ylabel("subscriptions, the widest on top")
    panels[0].invert_yaxis()
