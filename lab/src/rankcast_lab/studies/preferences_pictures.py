"""The pictures of the study of preferences: number, rank, freshness and diversity of what is delivered."""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean
from typing import Any, Literal

from rankcast.plotting import BLACK, BLUE, GREEN, ORANGE, PURPLE, RED, tidy
from rankcast_lab.studies.preferences_data import Scenario
from rankcast_lab.studies.preferences_findings import (
    PUBLISHED_CONTINUOUS,
    SELECTING,
    Measurements,
    Quantity,
    diversity,
    rank,
    share,
    spans_of,
    wait,
)
from rankcast_lab.studies.preferences_runs import DIVERSE, SIGMA_K, SPANS, Case, Timing
from rankcast_lab.workloads.preferences import Constants

STYLES = {
    Scenario.BEST_FIRST: (BLUE, "o"),
    Scenario.BEST_LAST: (RED, "s"),
    Scenario.BURST: (ORANGE, "D"),
    Scenario.RANDOM: (GREEN, "^"),
}
LINES: dict[int, Literal["-", "--"]] = {0: "-", 40: "-", 80: "--"}
LETTERS = {Timing.CONTINUOUS: "", Timing.PERIODIC: "T", Timing.SLIDING: "w"}


def draw_numbers(figure: Any, measured: Measurements) -> None:
    """Draw the share that is delivered; the free place shows both generators beside the published numbers."""
    free = _grid(figure, measured, lambda result: 100 * share(result), "% of matching events", (0, 105))
    for constants, colour, marker in ((Constants.UNIFORM, BLUE, "o"), (Constants.ZIPF, PURPLE, "s")):
        cases = [Case(Scenario.RANDOM, Timing.CONTINUOUS, 0, k) for k in measured.ks]
        found = [[100 * value for value in measured.values(case, share, constants)] for case in cases]
        name = f"{constants.value} subscriptions"
        free.plot(measured.ks, [fmean(one) for one in found], color=colour, marker=marker, label=name)
        free.fill_between(
            measured.ks, [min(one) for one in found], [max(one) for one in found], color=colour, alpha=0.15
        )
    ks, published = zip(*PUBLISHED_CONTINUOUS.items(), strict=True)
    shares = [100 * one for one in published]
    free.plot(ks, shares, "x", color=BLACK, markersize=9, markeredgewidth=2, label="published")
    free.set_ylim(0)
    _mark_ks(free)
    tidy(free, "continuous, random: mean and range of readers", "k", "% of matching events")
    free.legend(frameon=False, loc="upper left")


def draw_ranks(figure: Any, measured: Measurements) -> None:
    """Draw the mean rank of what is delivered; the free place compares plain and diverse."""
    everything = fmean(one for ranks in measured.ranks.values() for one in ranks)
    free = _grid(figure, measured, rank, "mean rank", None, level=everything)
    _compare(free, measured, rank, "Random order: plain and diverse", "mean rank")


def draw_waits(figure: Any, measured: Measurements) -> None:
    """Draw how long events wait; the free place compares plain and diverse."""
    free = _grid(figure, measured, wait, "wait (matching events)", None)
    _compare(free, measured, wait, "Random order: plain and diverse", "wait (matching events)")
    for panel in figure.axes:
        room = 1.4 if panel is free else 1.0  # for its legend
        panel.set_ylim(0, max(1.0, room * panel.get_ylim()[1]))


def draw_diversity(figure: Any, measured: Measurements, sigmas: tuple[float, ...]) -> None:
    """Draw list diversity against sigma, and against k for plain and diverse delivery."""
    left, right = figure.subplots(1, 2)
    for timing, colour, marker in zip(SELECTING, (BLUE, RED), "os", strict=True):
        for span in SPANS:
            cases = [Case(Scenario.RANDOM, timing, span, SIGMA_K, sigma) for sigma in sigmas]
            found = [measured.mean([case], diversity) for case in cases]
            name = f"{timing.value}, {LETTERS[timing]} = {span}"
            left.plot(sigmas, found, LINES[span], color=colour, marker=marker, label=name)
    tidy(
        left,
        f"List diversity against sigma, random order, k = {SIGMA_K}",
        "sigma (1: only ranks count)",
        "mean distance",
    )
    left.legend(frameon=False)
    _compare(right, measured, diversity, "List diversity against k, random order", "mean distance")


def _grid(
    figure: Any,
    measured: Measurements,
    quantity: Quantity,
    name: str,
    limits: tuple[float, float] | None,
    level: float | None = None,
) -> Any:
    """Draw a quantity against k: a column per policy, plain above and diverse below; return the place left free."""
    panels = figure.subplots(2, 3, sharey=limits is not None)
    for row, sigma in enumerate((None, DIVERSE)):
        for panel, timing in zip(panels[row], Timing, strict=True):
            if sigma is not None and timing is Timing.CONTINUOUS:
                continue
            _draw_policy(panel, measured, quantity, timing, sigma)
            if level is not None:
                panel.axhline(level, color=BLACK, linewidth=1, linestyle=":")
            if limits is not None:
                panel.set_ylim(*limits)
            diverse = "" if sigma is None else f", diverse (sigma {sigma})"
            tidy(panel, f"{timing.value}{diverse}", "k", name)
    _legend(figure, level)
    return panels[1][0]


def _draw_policy(panel: Any, measured: Measurements, quantity: Quantity, timing: Timing, sigma: float | None) -> None:
    for scenario, (colour, marker) in STYLES.items():
        for span in spans_of(timing):
            found = [measured.mean([Case(scenario, timing, span, k, sigma)], quantity) for k in measured.ks]
            panel.plot(measured.ks, found, LINES[span], color=colour, marker=marker, markersize=5, alpha=0.9)
    _mark_ks(panel)


def _mark_ks(panel: Any) -> None:
    panel.set_xlim(0, 21)
    panel.set_xticks([1, 4, 8, 12, 16, 20])


def _legend(figure: Any, level: float | None) -> None:
    from matplotlib.lines import Line2D  # noqa: PLC0415 (an extra)

    handles = [
        Line2D([], [], color=colour, marker=marker, label=scenario.value)
        for scenario, (colour, marker) in STYLES.items()
    ]
    handles += [Line2D([], [], color="#555555", linestyle=LINES[span], label=f"T or w = {span}") for span in SPANS]
    if level is not None:
        handles.append(Line2D([], [], color=BLACK, linestyle=":", linewidth=1, label="all matching events"))
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles), frameon=False)


def _compare(panel: Any, measured: Measurements, quantity: Callable[..., float], title: str, name: str) -> None:
    """Draw plain and diverse delivery side by side for random order."""
    for timing, colour, marker in zip(SELECTING, (BLUE, RED), "os", strict=True):
        for sigma, line, filled in ((None, ":", "none"), (DIVERSE, "-", "full")):
            cases = [[Case(Scenario.RANDOM, timing, span, k, sigma) for span in SPANS] for k in measured.ks]
            found = [measured.mean(one, quantity) for one in cases]
            label = f"{timing.value}, {'plain' if sigma is None else f'sigma {sigma}'}"
            panel.plot(measured.ks, found, line, color=colour, marker=marker, fillstyle=filled, label=label)
    _mark_ks(panel)
    tidy(panel, title, "k", name)
    panel.legend(frameon=False)
