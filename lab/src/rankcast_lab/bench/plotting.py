"""Cost against the number of subscriptions, as a picture.

Both axes are logarithmic, so an engine whose cost grows in proportion is a straight line, and a factor between engines
is the same distance everywhere. Colours are those of Okabe and Ito, which people with any colour vision can tell apart;
markers and line styles differ as well, and every line carries its name.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rankcast.plotting import figure_class, save_figure
from rankcast_lab.bench.report import Row

STYLES: Mapping[str, tuple[str, str, str]] = {
    "index": ("#0072B2", "o", "-"),
    "limit": ("#000000", ".", "--"),
    "brute-force": ("#D55E00", "s", "-"),
    "duckdb": ("#E69F00", "^", "-"),
    "polars": ("#009E73", "D", "-"),
}
"""Colour, marker and line of each engine that is drawn."""

LABEL_HEIGHT = 0.04
"""Of the height of a panel."""

NAMES = {
    "index": "rankcast index",
    "limit": "limit: AND of bitset rows",
    "brute-force": "brute force (numba)",
    "duckdb": "DuckDB",
    "polars": "Polars",
}


def plot_costs(path: Path, rows: Sequence[Row], panels: Mapping[str, Mapping[str, int]]) -> None:
    """Save a plot with one panel for each workload; a panel maps its cases to their numbers of subscriptions."""
    figure = figure_class()(figsize=(2.2 + 5.8 * len(panels), 5.4), dpi=150, layout="constrained")
    axes = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    for panel, (workload, sizes) in zip(axes, panels.items(), strict=True):
        _draw(panel, [row for row in rows if row.case in sizes], sizes)
        panel.set_title(f"Workload {workload}", loc="left")
    _scale_costs(axes[0])
    for panel in axes:
        _label_ends(panel)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 3 * len(panels)), frameon=False)
    save_figure(figure, path)


def _draw(panel: Any, rows: Sequence[Row], sizes: Mapping[str, int]) -> None:
    for engine, (colour, marker, line) in STYLES.items():
        points = sorted((sizes[row.case], row.microseconds_per_event) for row in rows if row.engine == engine)
        if not points:
            continue
        places, costs = zip(*points, strict=True)
        panel.plot(places, costs, color=colour, marker=marker, linestyle=line, linewidth=2, label=NAMES[engine])
    panel.set_xscale("log")
    panel.set_yscale("log")
    marks = sorted(sizes.values())
    panel.set_xlim(marks[0] / 1.3, marks[-1] * 2)
    panel.set_xticks(marks, [f"{size:,}" for size in marks])
    panel.set_xlabel("subscriptions")
    panel.minorticks_off()
    panel.grid(visible=True, which="major", color="#DDDDDD", linewidth=0.8)
    panel.set_axisbelow(True)
    panel.spines[["top", "right"]].set_visible(False)


def _scale_costs(panel: Any) -> None:
    low, high = panel.get_ylim()
    marks = [10.0**power for power in range(-3, 9) if low <= 10.0**power <= high]
    panel.set_yticks(marks, [duration(mark) for mark in marks])
    panel.set_ylabel("CPU time per event, one thread")


def _label_ends(panel: Any) -> None:
    """Write at the end of each line what it costs there; labels of neighbours are moved apart."""
    ends = [(line.get_xdata()[-1], line.get_ydata()[-1], line.get_color()) for line in panel.get_lines()]
    low, high = (math.log10(limit) for limit in panel.get_ylim())
    heights = spread([math.log10(cost) for _, cost, _ in ends], LABEL_HEIGHT * (high - low))
    for (place, cost, colour), height in zip(ends, heights, strict=True):
        panel.text(place * 1.12, 10**height, duration(cost), va="center", color=colour)


def spread(values: Sequence[float], gap: float) -> list[float]:
    """Return values moved apart, as little as it takes, so that neighbours keep a gap; their order stays.

    >>> spread([1.0, 5.0, 1.0], 1.0)
    [0.5, 5.0, 1.5]
    """
    order = sorted(range(len(values)), key=lambda at: values[at])
    groups: list[tuple[float, list[int]]] = []  # the middle of each group of neighbours, and who they are
    for at in order:
        middle, members = values[at], [at]
        while groups and middle - groups[-1][0] < gap * (len(members) + len(groups[-1][1])) / 2:
            _, before = groups.pop()
            members = before + members
            middle = sum(values[one] for one in members) / len(members)
        groups.append((middle, members))
    places = list(values)
    for middle, members in groups:
        for rank, at in enumerate(members):
            places[at] = middle + gap * (rank - (len(members) - 1) / 2)
    return places


def duration(microseconds: float) -> str:
    """Return a time with the unit that suits it.

    >>> duration(0.5), duration(37.4), duration(412.3), duration(10_000), duration(2_500_000)
    ('0.5 µs', '37 µs', '412 µs', '10 ms', '2.5 s')
    """
    size, unit = next(((size, unit) for size, unit in ((1e6, "s"), (1e3, "ms")) if microseconds >= size), (1.0, "µs"))
    amount = microseconds / size
    return f"{amount:.0f} {unit}" if amount >= 100 else f"{amount:.2g} {unit}"
