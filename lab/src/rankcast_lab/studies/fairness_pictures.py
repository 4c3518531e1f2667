"""Pictures of fairness: against k, against the distance from the publisher, and while weights are stale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rankcast.plotting import BLACK, BLUE, GREEN, ORANGE, PURPLE, RED, tidy
from rankcast_lab.studies.fairness_runs import AFTER, CORES, SUBSCRIBERS, Fairness, Scheme, Staleness

STYLES: Mapping[Scheme, tuple[str, str]] = {
    Scheme.LITERAL: (RED, "s-"),
    Scheme.RANDOM: (ORANGE, "^-"),
    Scheme.UNREFRESHED: (PURPLE, "v--"),
    Scheme.SPLIT: (BLUE, "o-"),
    Scheme.EXACT: (GREEN, "D-"),
    Scheme.REGULAR: (BLACK, "x:"),
}
NOISE = f"{Scheme.REGULAR.value}: the noise"


def draw_fairness(figure: Any, runs: Mapping[tuple[Scheme, int], Sequence[Fairness]], ks: Sequence[int]) -> None:
    """Draw unfairness against k, and that of a subscription against its distance."""
    left, right = figure.subplots(1, 2)
    for scheme, (colour, style) in STYLES.items():
        values = [np.array([one.unfairness for one in runs[scheme, k]]) for k in ks]
        means, spread = [some.mean() for some in values], [some.std() for some in values]
        label = NOISE if scheme is Scheme.REGULAR else scheme.value
        left.errorbar(ks, means, spread, fmt=style, color=colour, markersize=4, capsize=3, label=label)
        rows = np.array([one.by_distance for k in ks for one in runs[scheme, k]])
        right.plot(range(1, CORES + 1), rows.mean(axis=0), style, color=colour, markersize=4, label=label)
    left.set_xticks(list(ks))
    right.set_xticks(range(1, CORES + 1))
    left.set_ylim(bottom=0)
    right.set_ylim(bottom=0)
    tidy(left, "All subscriptions (bars: deviation over seeds)", "k", "sum of differences to the fair expectation")
    tidy(right, "One subscription, mean over k", "core brokers between it and the publisher", "difference")
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False, fontsize=9)


def draw_staleness(figure: Any, stale: Mapping[Scheme, Sequence[tuple[Staleness, ...]]], k: int) -> None:
    """Draw unfairness after a change, heartbeat by heartbeat."""
    left, right = figure.subplots(1, 2)
    for scheme, found in stale.items():
        colour, style = STYLES[scheme]
        label = NOISE if scheme is Scheme.REGULAR else scheme.value
        unfair, weights = np.moveaxis(np.array(found, float), 2, 0)
        left.plot(AFTER, unfair.mean(axis=0), style, color=colour, markersize=4, label=label)
        if scheme is not Scheme.REGULAR:
            wrong = np.abs(weights - SUBSCRIBERS).mean(axis=0)
            right.plot(AFTER, wrong, style, color=colour, markersize=4)
    for panel in (left, right):
        panel.set_xticks(AFTER)
        panel.set_ylim(bottom=0)
    tidy(left, f"Half of {SUBSCRIBERS} subscribers replaced, k={k}", "heartbeats since", "sum of differences")
    tidy(right, "Weights at the publisher's broker", "heartbeats since", "sum of weights wrong by")
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False, fontsize=9)
