"""What the demo on Spark measures: what matched against what was delivered, for each policy.

List diversity is the mean distance over all pairs of one subscriber's flats, by equal weights of a few attributes: 1
minus the mean share of pairs that are equal in an attribute. Pairs are counted by value, so it costs one pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rankcast.arrays import Array
from rankcast.model.events import Event
from rankcast.plotting import BLUE, ORANGE, mark_numbers, save_picture, tidy


@dataclass(frozen=True, slots=True)
class OutcomeRows:
    """Matches or notifications: the number of the subscriber, that of the event, the rank, the seconds it waited."""

    subscriber: Array
    event: Array
    rank: Array
    waited: Array

    def of(self, subscribers: Array) -> OutcomeRows:
        """Return the rows of some subscribers."""
        own = np.isin(self.subscriber, subscribers)
        return OutcomeRows(self.subscriber[own], self.event[own], self.rank[own], self.waited[own])

    def __len__(self) -> int:
        return len(self.rank)


@dataclass(frozen=True, slots=True)
class Figures:
    """Of some subscribers: how much matched and was delivered, how good and how diverse it was, how long it waited."""

    name: str
    subscribers: int
    matched: int
    delivered: int
    matched_rank: float
    delivered_rank: float
    matched_diversity: float
    delivered_diversity: float
    waited: tuple[float, float, float]
    """Hours from publication to delivery: the mean, the median, and what nine of ten notifications do not exceed."""

    def to_json(self) -> dict[str, Any]:
        """Return the figures as a JSON object."""
        mean, median, most = self.waited
        return {
            "policy": self.name,
            "subscribers": self.subscribers,
            "matched": self.matched,
            "delivered": self.delivered,
            "mean_rank": {"matched": self.matched_rank, "delivered": self.delivered_rank},
            "list_diversity": {"matched": self.matched_diversity, "delivered": self.delivered_diversity},
            "waited_hours": {"mean": mean, "median": median, "nine_of_ten": most},
        }


def read_rows(folder: Path, subscribers: Sequence[str]) -> OutcomeRows:
    """Return the rows that Spark wrote, with subscribers as their numbers."""
    table = pq.read_table(folder)
    numbers = pc.index_in(table["subscriber"], value_set=pa.array(subscribers, pa.string()))
    return OutcomeRows(
        numbers.to_numpy().astype(np.int64),
        table["event"].to_numpy().astype(np.int64),
        table["rank"].to_numpy(),
        table["waited"].to_numpy(),
    )


def codes_of(events: Sequence[Event], attributes: Sequence[str]) -> list[Array]:
    """Return for each attribute the numbers of the events' values; -1 is a missing one."""
    found = []
    for name in attributes:
        numbers: dict[object, int] = {}
        values = (event.attributes.get(name) for event in events)
        found.append(
            np.array([-1 if value is None else numbers.setdefault(value, len(numbers)) for value in values], np.int64)
        )
    return found


def list_diversity(rows: OutcomeRows, codes: Sequence[Array]) -> float:
    """Return the mean over subscribers, of those who have two flats or more, of their list's diversity."""
    if not len(rows):
        return 0.0
    subscribers, own = np.unique(rows.subscriber, return_inverse=True)
    counts = np.bincount(own)
    pairs = counts * (counts - 1) / 2
    alike = np.zeros(len(subscribers))
    for column in codes:
        width = int(column.max(initial=0)) + 1
        values = column[rows.event]
        known = values >= 0
        equal = np.bincount(own[known] * width + values[known], minlength=len(subscribers) * width)
        alike += (equal * (equal - 1) / 2).reshape(len(subscribers), width).sum(axis=1)
    several = pairs > 0
    return float(np.mean(1 - alike[several] / pairs[several] / len(codes))) if several.any() else 0.0


def figures(
    name: str, subscribers: Array, matched: OutcomeRows, delivered: OutcomeRows, codes: Sequence[Array]
) -> Figures:
    """Return the figures of some subscribers."""
    offered, got = matched.of(subscribers), delivered.of(subscribers)
    hours = got.waited / 3600
    waited = (_mean(hours), *(float(np.quantile(hours, share)) if len(hours) else 0.0 for share in (0.5, 0.9)))
    return Figures(
        name,
        len(subscribers),
        len(offered),
        len(got),
        _mean(offered.rank),
        _mean(got.rank),
        list_diversity(offered, codes),
        list_diversity(got, codes),
        (waited[0], waited[1], waited[2]),
    )


def _mean(values: Array) -> float:
    return float(values.mean()) if len(values) else 0.0


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
