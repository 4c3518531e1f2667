"""The picture of `rankcast simulate`: the tree of brokers with their loads.

Brokers are drawn where they are, if that is known and not one place for all. Else they lie on circles around the middle
of the tree, each branch in a sector as wide as it has ends. The area of a broker says how many subscriptions it knows,
its colour whether some of them are its own, the width of a link how many messages went over it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from rankcast.overlay.simulate import Simulation
from rankcast.overlay.topologies import Topology
from rankcast.studies.plotting import BLUE, ORANGE, RED, save_picture

Places: TypeAlias = Mapping[str, tuple[float, float]]

MOST_NAMES = 40
"""Brokers with names beside them; more could not be read."""

NARROWEST, MARGIN = 0.4, 0.12
"""The least height or width of a map, and the room around it, as shares of its longer side."""

LARGEST = 900
"""The area of the broker that knows most, in square points."""


def draw_network(
    path: Path, overlay: Simulation, publishers: Sequence[str], title: str = "", known: Places | None = None
) -> None:
    """Draw the brokers of a simulation, at known places if there are any; it is named by its strategy or a title."""
    is_map = known is not None and len(set(known.values())) > 1
    places = known if known is not None and is_map else placed(overlay.topology)

    def draw(figure: Any) -> None:
        panel = figure.subplots()
        _links(panel, overlay, places)
        _brokers(panel, overlay, places, publishers)
        panel.set_aspect("equal")
        _set_limits(panel, places)
        panel.axis("off")
        panel.legend(loc="upper left", fontsize=9, frameon=False)
        panel.set_title(
            f"{title or overlay.settings.strategy.value}: area = subscriptions known, width of links = messages",
            loc="left",
            fontsize=11,
            parse_math=False,
        )

    save_picture(draw, (9.0, 8.0), path)


def _set_limits(panel: Any, places: Places) -> None:
    """Leave room around all brokers, and, where they lie on a line, beside it."""
    sides = [(min(ends), max(ends)) for ends in zip(*places.values(), strict=True)]
    longest = max(high - low for low, high in sides) or 1.0
    for (low, high), set_limits in zip(sides, (panel.set_xlim, panel.set_ylim), strict=True):
        middle, half = (low + high) / 2, max(high - low, NARROWEST * longest) / 2 + MARGIN * longest
        set_limits(middle - half, middle + half)


def placed(topology: Topology) -> Places:
    """Return where each broker is drawn."""
    centre = min(topology.brokers, key=lambda name: max(topology.hops(name, edge) for edge in topology.edges))
    ends: dict[str, int] = {}
    order: list[tuple[str, str | None]] = [(centre, None)]
    for name, parent in order:
        order += [(child, name) for child in topology.neighbours(name) if child != parent]
    for name, parent in reversed(order):
        children = [child for child in topology.neighbours(name) if child != parent]
        ends[name] = sum(ends[child] for child in children) or 1
    places = {centre: (0.0, 0.0)}
    sectors = {centre: (0.0, 2 * math.pi)}
    radius = {centre: 0}
    for name, parent in order:
        start, width = sectors[name]
        for child in topology.neighbours(name):
            if child == parent:
                continue
            share = width * ends[child] / ends[name]
            sectors[child], radius[child] = (start, share), radius[name] + 1
            angle = start + share / 2
            places[child] = radius[child] * math.cos(angle), radius[child] * math.sin(angle)
            start += share
    return places


def _links(panel: Any, overlay: Simulation, places: Places) -> None:
    over = overlay.measures.over_links
    most = max(over.values(), default=1)
    for link in overlay.topology.links:
        count = max(over[link.one, link.other], over[link.other, link.one])
        across, up = zip(places[link.one], places[link.other], strict=True)
        panel.plot(across, up, color="#B0B0B0", linewidth=0.6 + 7 * count / most, solid_capstyle="round", zorder=1)


def _brokers(panel: Any, overlay: Simulation, places: Places, publishers: Sequence[str]) -> None:
    sizes = overlay.table_sizes()
    most = max(sizes.values(), default=0) or 1
    own = {name: sizes[name] - overlay.received(name) for name in sizes}
    for has_own, colour, label in ((False, BLUE, "without subscribers"), (True, ORANGE, "with subscribers")):
        names = [name for name in sizes if bool(own[name]) is has_own]
        if names:
            across, up = zip(*(places[name] for name in names), strict=True)
            areas = [25 + LARGEST * sizes[name] / most for name in names]
            panel.scatter(across, up, s=areas, color=colour, edgecolors="white", linewidths=1, zorder=2)
            panel.scatter([], [], s=70, color=colour, label=label)  # of one size in the legend
    star = {"marker": "*", "s": 170, "color": RED, "edgecolors": "white"}
    across, up = zip(*(places[name] for name in dict.fromkeys(publishers)), strict=True)
    panel.scatter(across, up, **star, label="publisher", zorder=4)
    if len(sizes) <= MOST_NAMES:
        for name, place in places.items():
            panel.annotate(
                f"{name}\n{sizes.get(name, 0):,}", place, (0, -20), textcoords="offset points",
                fontsize=8, ha="center", va="top", zorder=3, parse_math=False,
                bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.5},
            )  # fmt: skip
