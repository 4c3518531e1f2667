"""The pictures of `rankcast place`: what algorithms trade for what, how loads are spread, and filters over interests.

The triangles follow Figure 6 of the subscriber-assignment paper: traffic, delay and spread of loads are three axes from
a common middle, each up to the largest value that any algorithm has; the smaller a triangle, the better.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rankcast.arrays import Array
from rankcast.cli.output.terminal import shown_amount
from rankcast.model.errors import counted
from rankcast.placement.problem.boxes import corners
from rankcast.plotting import BLUE, ORANGE, RED, Drawing, save_picture, tidy

if TYPE_CHECKING:
    from rankcast.cli.place.command import Result

ANGLES = tuple(math.radians(degrees) for degrees in (90, 210, 330))
ACROSS = 4
"""Triangles side by side."""

LEAVES_DRAWN = 6
MOST_BOXES = 400
"""Interests drawn of one leaf: more are a blot anyway."""

GREY = "#9A9A9A"


PICTURES = ("triangles", "loads", "filters")


def picture_files(folder: Path) -> list[Path]:
    """Return the files of all pictures in a folder."""
    return [folder / f"{name}.png" for name in PICTURES]


def draw_results(folder: Path, results: Sequence[Result], best: Result) -> None:
    """Draw all pictures into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = math.ceil(len(results) / ACROSS)
    drawings: list[tuple[Drawing, tuple[float, float]]] = [
        (partial(triangles, results=results), (3.2 * min(len(results), ACROSS) + 0.4, 3.4 * rows)),
        (partial(loads, results=results), (9.0, 1.6 + 0.5 * len(results))),
        (partial(filters, result=best), (11.0, 7.4)),
    ]
    for path, (draw, size) in zip(picture_files(folder), drawings, strict=True):
        save_picture(draw, size, path)


def triangles(figure: Any, results: Sequence[Result]) -> None:
    """Draw a triangle for each result."""
    values = np.array(
        [[result.audit.bandwidth, result.audit.rms_delay, result.audit.loads.std()] for result in results]
    )
    shares = values / np.where(values.max(axis=0) > 0, values.max(axis=0), 1.0)
    columns = min(len(results), ACROSS)
    panels = figure.subplots(math.ceil(len(results) / columns), columns, squeeze=False).reshape(-1)
    for panel in panels:
        panel.axis("off")
    for panel, result, share, value in zip(panels, results, shares, values, strict=False):
        colour = BLUE if result.audit.is_feasible else RED
        rim = [(math.cos(angle), math.sin(angle)) for angle in ANGLES]
        panel.fill(*zip(*rim, strict=True), facecolor="none", edgecolor="#DDDDDD")
        for across, up in rim:
            panel.plot([0, across], [0, up], color="#DDDDDD", linewidth=0.8)
        points = [(part * across, part * up) for part, (across, up) in zip(share, rim, strict=True)]
        panel.fill(*zip(*points, strict=True), facecolor=colour, alpha=0.3, edgecolor=colour, linewidth=1.5)
        texts = (
            f"traffic {shown_amount(value[0], 4)}",
            f"RMS delay\n{value[1]:.2f}",
            f"load s.d.\n{shown_amount(value[2], 3)}",
        )
        for (across, up), text, align in zip(rim, texts, ("bottom", "top", "top"), strict=True):
            panel.annotate(text, (across, up), (0, 3 if align == "bottom" else -3), textcoords="offset points",
                           ha="center", va=align, fontsize=8)  # fmt: skip
        broken = (
            "" if result.audit.is_feasible else f"\nbreaks {', '.join(sorted(r.value for r in result.audit.broken()))}"
        )
        panel.set_title(f"{result.label}{broken}", fontsize=10, color="black" if result.audit.is_feasible else RED)
        panel.set_xlim(-1.3, 1.3)
        panel.set_ylim(-0.95, 1.25)
        panel.set_aspect("equal")
    figure.supxlabel("middle: 0; grey rim: the largest value of all; small is good", x=0.01, ha="left", fontsize=8)


def loads(figure: Any, results: Sequence[Result]) -> None:
    """Draw the load of leaves, relative to their shares, with the wanted and the largest load factor."""
    panel = figure.subplots()
    factors = []
    for result in results:
        shares = result.named.problem.shares_of_leaves
        factors.append((result.audit.loads[shares > 0] / (shares[shares > 0] * len(result.named.problem))).tolist())
    places = list(range(len(results), 0, -1))
    panel.boxplot(
        factors, positions=places, orientation="horizontal", widths=0.55, whis=(0, 100),
        medianprops={"color": BLUE, "linewidth": 2},
    )  # fmt: skip
    problem = results[0].named.problem
    panel.axvline(problem.beta, color=ORANGE, linestyle="--", label=f"wanted: {problem.beta:g}")
    panel.axvline(problem.beta_max, color=RED, linestyle="--", label=f"at most: {problem.beta_max:g}")
    panel.set_yticks(places, [result.label for result in results])
    tidy(panel, "Loads of leaves: all, the middle half, and the median", "load over the leaf's share", "")
    panel.set_xlim(left=0)
    panel.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)


def filters(figure: Any, result: Result) -> None:
    """Draw the filters of the leaves with most subscribers over their interests, in the first two attributes."""
    problem, brokers, attributes = result.named.problem, result.named.brokers, tuple(result.named.attributes)
    busiest = np.argsort(-result.audit.loads, kind="stable")[:LEAVES_DRAWN]
    panels = figure.subplots(
        2 if len(busiest) > 3 else 1, min(3, len(busiest)), squeeze=False, sharex=True, sharey=True
    )
    for panel in panels.reshape(-1)[len(busiest) :]:
        panel.axis("off")
    for panel, column in zip(panels.reshape(-1), busiest.tolist(), strict=False):
        broker = int(problem.tree.leaves[column])
        wanted = np.unique(problem.interest_of[result.placement.brokers == broker])
        parts = [problem.interests.parts(int(interest)) for interest in wanted[:MOST_BOXES]]
        for part in parts:
            _rectangles(panel, part, facecolor=GREY, alpha=0.25, edgecolor=GREY, linewidth=0.5)
        _rectangles(panel, result.placement.filters[broker], facecolor="none", edgecolor=BLUE, linewidth=2)
        across, up = (*attributes, "")[:2]
        title = f"{brokers[broker]}: {counted(int(result.audit.loads[column]), 'subscriber')}"
        title += f", {MOST_BOXES:,} of {len(wanted):,} interests" if len(wanted) > MOST_BOXES else ""
        tidy(panel, title, across, up)
        panel.autoscale_view()
    figure.suptitle(_caption(result, len(busiest), attributes), x=0.01, ha="left", fontsize=11, parse_math=False)


def _caption(result: Result, leaves: int, attributes: Sequence[str]) -> str:
    """Say what is drawn, and what is not."""
    left_out = []
    if leaves < len(result.audit.loads):
        left_out.append(f"the {leaves} leaves with most subscribers, of {len(result.audit.loads):,}")
    if len(attributes) > 2:
        left_out.append(f"{attributes[0]} and {attributes[1]}, of {len(attributes)} attributes")
    return "\n".join(
        [f"{result.label}: interests in grey, filters in blue", *(["; ".join(left_out)] if left_out else [])]
    )


def _rectangles(panel: Any, boxes: Array, **look: Any) -> None:
    from matplotlib.patches import Rectangle  # noqa: PLC0415 (an extra)

    low, high = corners(boxes)
    for start, end in zip(low, high, strict=True):
        from_up, to_up = (start[1], end[1]) if len(start) > 1 else (0.0, 1.0)
        panel.add_patch(Rectangle((start[0], from_up), end[0] - start[0], to_up - from_up, **look))
