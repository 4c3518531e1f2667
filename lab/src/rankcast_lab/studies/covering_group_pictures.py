"""The pictures of the study of group cover."""

from __future__ import annotations

from typing import Any

from rankcast.plotting import BLUE, GREEN, ORANGE, RED, tidy
from rankcast_lab.studies.covering_group_comparison import ATTRIBUTES, RANGES, Growth
from rankcast_lab.studies.covering_group_scenarios import DELTAS, Extreme, Redundant

COLOURS = dict(zip(ATTRIBUTES, (BLUE, GREEN, RED), strict=True))
MARKERS = dict(zip(ATTRIBUTES, "os^", strict=True))
STYLES = {"pairwise": "--", "group": "-", "group, open": ":"}


def draw_scenarios(figure: Any, redundant: list[Redundant], extreme: list[Extreme]) -> None:
    """Draw what the minimised set removes, d before and after it, and random answers against the gap."""
    (removed, needed), (guesses, false) = figure.subplots(2, 2)
    _draw_removed(removed, redundant)
    _draw_needed(needed, redundant)
    _draw_guesses(guesses, extreme)
    _draw_false(false, extreme)


def _draw_removed(panel: Any, redundant: list[Redundant]) -> None:
    for attributes in ATTRIBUTES:
        own = [one for one in redundant if one.attributes == attributes]
        across, up = [one.rows for one in own], [100 * one.removed for one in own]
        panel.plot(across, up, "-", color=COLOURS[attributes], marker=MARKERS[attributes], label=f"m = {attributes}")
    panel.axhline(80, color="#888888", linestyle="--", linewidth=1)
    panel.annotate("published: 80 to 100%", (10, 80), xytext=(0, -12), textcoords="offset points", color="#666666")
    panel.set_ylim(70, 101.5)
    tidy(panel, "1.b: redundant rows that the minimised set leaves out", "rows k", "percent")
    panel.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 0.02))


def _draw_needed(panel: Any, redundant: list[Redundant]) -> None:
    for attributes in ATTRIBUTES:
        own = [one for one in redundant if one.attributes == attributes]
        across = [one.rows for one in own]
        colour, marker = COLOURS[attributes], MARKERS[attributes]
        panel.plot(across, [one.before for one in own], "--", color=colour, marker=marker, markersize=4, alpha=0.6)
        panel.plot(across, [one.after for one in own], "-", color=colour, marker=marker)
    panel.plot([], [], "--", color="#444444", label="all rows")
    panel.plot([], [], "-", color="#444444", label="minimised set")
    panel.set_ylim(0, 20)
    tidy(panel, "1.b: points d that delta = 1e-10 asks for (printed estimate)", "rows k", "log10 of d")
    panel.legend(frameon=False, ncols=2, loc="upper left")


def _draw_guesses(panel: Any, extreme: list[Extreme]) -> None:
    across = [100 * one.gap for one in extreme]
    for at, (delta, colour, marker) in enumerate(zip(DELTAS, (RED, ORANGE, BLUE), "^so", strict=True)):
        up = [one.guesses[at] for one in extreme]
        panel.plot(across, up, "-", color=colour, marker=marker, label=f"delta = {delta:g}")
    panel.plot(across, [100 / gap for gap in across], ":", color="#666666", label="1 / gap")
    panel.set_ylim(0)
    tidy(panel, "2.c: random points tried until a witness is found", "gap, percent of the width", "points, mean")
    panel.legend(frameon=False)


def _draw_false(panel: Any, extreme: list[Extreme]) -> None:
    across = [100 * one.gap for one in extreme]
    for at, (delta, colour, marker) in enumerate(zip(DELTAS, (RED, ORANGE, BLUE), "^so", strict=True)):
        up = [one.false_covers[at] for one in extreme]
        panel.plot(across, up, "-", color=colour, marker=marker, label=f"random, delta = {delta:g}")
    panel.plot(across, [one.exact_wrong for one in extreme], "--", color=GREEN, marker="x", label="exact search")
    panel.axhline(extreme[0].runs * DELTAS[0], color="#888888", linestyle=":", linewidth=1, label="allowed by 1e-3")
    panel.set_yscale("symlog", linthresh=1)
    panel.set_yticks([0, 1, 10, 100], ["0", "1", "10", "100"])
    panel.set_ylim(-0.15, 2 * max(1, *(max(one.false_covers) for one in extreme)))
    title = f"2.c: wrong covers in {extreme[0].runs:,} runs (printed estimate)"
    tidy(panel, title, "gap, percent of the width", "wrong answers")
    panel.legend(frameon=False)


def draw_growth(figure: Any, growths: list[Growth]) -> None:
    """Draw active sets as they grow, and their sizes as shares of the pairwise one."""
    panels = figure.subplots(2, len(RANGES))
    for at, (name, ranges) in enumerate(RANGES.items()):
        own = [one for one in growths if one.ranges == name]
        what = f"{name} ranges (width {ranges.mean:g} ± {ranges.deviation:g})"
        _draw_sizes(panels[0][at], own, what)
        _draw_ratios(panels[1][at], own, what)


def _draw_sizes(panel: Any, growths: list[Growth], what: str) -> None:
    for one in growths:
        for way, style in STYLES.items():
            panel.plot(one.marks, one.active[way], style, color=COLOURS[one.attributes], linewidth=1.8)
        place = (one.marks[-1], one.active["pairwise"][-1])
        panel.annotate(
            f"m={one.attributes}", place, xytext=(4, -4), textcoords="offset points", color=COLOURS[one.attributes]
        )
    for way, style in STYLES.items():
        panel.plot([], [], style, color="#444444", label=way)
    panel.set_xlim(0, growths[0].marks[-1] * 1.08)
    panel.set_ylim(0)
    tidy(panel, f"Active subscriptions, {what}", "subscriptions so far", "active")
    panel.legend(frameon=False, loc="upper left")


def _draw_ratios(panel: Any, growths: list[Growth], what: str) -> None:
    for one in growths:
        for way in ("group", "group, open"):
            up = [one.ratio(way, at) for at in range(len(one.marks))]
            closed = way == "group"
            label = f"m = {one.attributes}" if closed else None
            marker = MARKERS[one.attributes] if closed else None
            panel.plot(
                one.marks, up, STYLES[way], color=COLOURS[one.attributes], marker=marker, markersize=4, label=label
            )
    panel.plot([], [], ":", color="#444444", label="open schema")
    panel.set_xlim(0, growths[0].marks[-1] * 1.08)
    panel.set_ylim(0, 104)
    tidy(panel, f"Group / pairwise, {what}", "subscriptions so far", "percent")
    panel.legend(frameon=False, loc="lower left", ncols=2)
