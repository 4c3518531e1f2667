"""The pictures of the demo on Spark: how much each policy lets through, how good and diverse it is, how fresh."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rankcast.cli.demo_figures import Figures
from rankcast.plotting import BLUE, ORANGE, mark_numbers, save_picture, tidy

GREY = "#BBBBBB"


def save_pictures(found: Sequence[Figures], folder: Path) -> list[Path]:
    """Draw the pictures into a folder and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    drawings = {
        "delivered.png": (lambda figure: _amounts(figure, found), (8.0, 3.4)),
        "quality.png": (lambda figure: _quality(figure, found), (10.0, 3.4)),
        "waiting.png": (lambda figure: _waiting(figure, found), (8.0, 3.2)),
    }
    for name, (draw, size) in drawings.items():
        save_picture(draw, size, folder / name)
    return [folder / name for name in drawings]


def _places(panel: Any, found: Sequence[Figures]) -> range:
    """Give each policy a line, the first one on top."""
    panel.set_yticks(range(len(found)), [one.name for one in found])
    panel.invert_yaxis()
    panel.grid(visible=False, axis="y")
    panel.tick_params(axis="y", length=0)
    return range(len(found))


def _amounts(figure: Any, found: Sequence[Figures]) -> None:
    panel = figure.subplots()
    tidy(panel, "What a subscriber is offered, and gets", "events per subscriber", "")
    places = _places(panel, found)
    matched = [one.matched / max(one.subscribers, 1) for one in found]
    delivered = [one.delivered / max(one.subscribers, 1) for one in found]
    panel.barh(places, matched, height=0.72, color=GREY, label="matched")
    panel.barh(places, delivered, height=0.4, color=BLUE, label="delivered")
    for place, offered, got in zip(places, matched, delivered, strict=True):
        share = f"{got / offered:.1%}" if offered else "-"
        panel.annotate(f"{got:,.0f} = {share}", (offered, place), (5, 0), textcoords="offset points", va="center")
    panel.set_xlim(0, max([*matched, 1]) * 1.3)
    panel.xaxis.set_major_formatter("{x:,.0f}")
    figure.legend(*panel.get_legend_handles_labels(), frameon=False, loc="outside lower center", ncols=2)


def _quality(figure: Any, found: Sequence[Figures]) -> None:
    left, right = figure.subplots(1, 2, sharey=True)
    tidy(left, "How good it is", "mean rank", "")
    tidy(right, "How varied it is", "list diversity", "")
    places = _places(left, found)
    right.grid(visible=False, axis="y")
    right.tick_params(axis="y", length=0)
    pairs = (
        (left, [(one.matched_rank, one.delivered_rank) for one in found]),
        (right, [(one.matched_diversity, one.delivered_diversity) for one in found]),
    )
    for panel, values in pairs:
        before, after = [pair[0] for pair in values], [pair[1] for pair in values]
        panel.hlines(places, before, after, color=GREY, linewidth=3, zorder=1)
        panel.scatter(before, places, s=55, color=ORANGE, marker="o", label="of what matched", zorder=2)
        panel.scatter(after, places, s=65, color=BLUE, marker="D", label="of what was delivered", zorder=3)
        panel.margins(x=0.12)
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, loc="outside lower center", ncols=2)


def _waiting(figure: Any, found: Sequence[Figures]) -> None:
    panel = figure.subplots()
    tidy(panel, "How long it takes until a notification is due", "hours from publication to delivery", "")
    places = _places(panel, found)
    means, most = [one.waited[0] for one in found], [one.waited[2] for one in found]
    panel.hlines(places, 0, most, color=GREY, linewidth=7, label="nine of ten within", zorder=1)
    panel.scatter(means, places, s=60, color=BLUE, marker="D", label="mean", zorder=2)
    for place, mean, end in zip(places, means, most, strict=True):
        words = f"{mean:.1f} h" if mean else "at once"
        panel.annotate(words, (max(mean, end), place), (9, 0), textcoords="offset points", va="center")
    panel.set_xscale("symlog", linthresh=1, linscale=0.5)  # days for some, at once for most
    longest = max([*means, *most, 10.0])
    panel.set_xlim(-0.15, longest * 3)
    mark_numbers(panel.xaxis, [0, *(mark for mark in (1, 10, 100, 1000) if mark <= longest)])
    figure.legend(*panel.get_legend_handles_labels(), frameon=False, loc="outside lower center", ncols=2)
