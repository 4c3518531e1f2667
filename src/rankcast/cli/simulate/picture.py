"""The picture of `rankcast simulate`: the tree of brokers with their loads.

Brokers are drawn where they are, if that is known and not one place for all. Else they lie on circles around the middle
of the tree, each branch in a sector as wide as it has ends. The area of a broker says how many subscriptions it knows,
or how many subscribers it serves, its colour whether there are any, the width of a link how much went over it. Where
names would lie on each other, publishers have theirs first, then the larger brokers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from rankcast.overlay.simulation.simulator import Simulation
from rankcast.overlay.simulation.topologies import Topology
from rankcast.plotting import BLUE, ORANGE, RED, save_picture

Places: TypeAlias = Mapping[str, tuple[float, float]]

LETTER, LINES, BELOW, AROUND = 0.0115, 0.05, 0.075, 0.015
"""The width of a letter, the height of a name with its number, how far below its broker that is, and the radius of most
brokers: as shares of the longer side of all places."""

NARROWEST, MARGIN = 0.4, 0.12
"""The least height or width of a map, and the room around it, as shares of its longer side."""

LARGEST = 900
"""The area of the broker that knows most, in square points."""


@dataclass(frozen=True, slots=True)
class NetworkLook:
    """What a picture shows: a title, the number of each running broker, who has subscribers, what went over each link
    from one broker to another, and where brokers are, if that is known."""

    title: str
    sizes: Mapping[str, int]
    serving: Set[str]
    over: Mapping[tuple[str, str], int]
    places: Places | None = None


def knowledge(overlay: Simulation, places: Places | None) -> NetworkLook:
    """Return how a simulation is drawn by what its brokers know."""
    sizes = overlay.table_sizes()
    serving = {name for name in sizes if sizes[name] > overlay.received(name)}
    title = f"{overlay.settings.strategy.value}: area = subscriptions known, width of links = messages"
    return NetworkLook(title, sizes, serving, overlay.measures.over_links, places)


def draw_network(path: Path, topology: Topology, publishers: Sequence[str], look: NetworkLook) -> None:
    """Draw the brokers of a network."""
    is_map = look.places is not None and len(set(look.places.values())) > 1
    places = look.places if look.places is not None and is_map else layout(topology)

    def draw(figure: Any) -> None:
        panel = figure.subplots()
        _links(panel, topology, look, places)
        _brokers(panel, look, places, publishers)
        nameless = len(places) - _names(panel, look, places, publishers)
        panel.set_aspect("equal")
        _set_limits(panel, places)
        panel.axis("off")
        panel.legend(loc="upper left", fontsize=9, frameon=False)
        without = f" ({nameless} without names)" if nameless else ""
        panel.set_title(f"{look.title}{without}", loc="left", fontsize=11, parse_math=False)

    save_picture(draw, (9.0, 8.0), path)


def _set_limits(panel: Any, places: Places) -> None:
    """Leave room around all brokers, and, where they lie on a line, beside it."""
    sides = [(min(ends), max(ends)) for ends in zip(*places.values(), strict=True)]
    longest = max(high - low for low, high in sides) or 1.0
    for (low, high), set_limits in zip(sides, (panel.set_xlim, panel.set_ylim), strict=True):
        middle, half = (low + high) / 2, max(high - low, NARROWEST * longest) / 2 + MARGIN * longest
        set_limits(middle - half, middle + half)


def layout(topology: Topology) -> Places:
    """Return where each broker is drawn."""
    centre = min(topology.brokers, key=lambda name: max(topology.hops(name, edge) for edge in topology.edges))
    ends: dict[str, int] = {}
    order: list[tuple[str, str | None]] = [(centre, None)]
    for name, parent in order:
        order += [(child, name) for child in topology.neighbours(name) if child != parent]
    for name, parent in reversed(order):
        children = [child for child in topology.neighbours(name) if child != parent]
        ends[name] = sum(ends[child] for child in children) or 1
    sectors = {centre: (0.0, 2 * math.pi)}
    radius = {centre: 0}
    for name, parent in order:
        start, width = sectors[name]
        for child in topology.neighbours(name):
            if child != parent:
                share = width * ends[child] / ends[name]
                sectors[child], radius[child] = (start, share), radius[name] + 1
                start += share
    middles = {name: start + width / 2 for name, (start, width) in sectors.items()}
    return {name: (radius[name] * math.cos(at), radius[name] * math.sin(at)) for name, at in middles.items()}


def _links(panel: Any, topology: Topology, look: NetworkLook, places: Places) -> None:
    most = max(look.over.values(), default=0) or 1
    for link in topology.links:
        count = max(look.over.get((link.one, link.other), 0), look.over.get((link.other, link.one), 0))
        across, up = zip(places[link.one], places[link.other], strict=True)
        panel.plot(across, up, color="#B0B0B0", linewidth=0.6 + 7 * count / most, solid_capstyle="round", zorder=1)


def _brokers(panel: Any, look: NetworkLook, places: Places, publishers: Sequence[str]) -> None:
    most = max(look.sizes.values(), default=0) or 1
    for serves, colour, label in ((False, BLUE, "without subscribers"), (True, ORANGE, "with subscribers")):
        names = [name for name in look.sizes if (name in look.serving) is serves]
        if names:
            across, up = zip(*(places[name] for name in names), strict=True)
            areas = [25 + LARGEST * look.sizes[name] / most for name in names]
            panel.scatter(across, up, s=areas, color=colour, edgecolors="white", linewidths=1, zorder=2)
            panel.scatter([], [], s=70, color=colour, label=label)  # of one size in the legend
    down = [name for name in places if name not in look.sizes]
    if down:
        across, up = zip(*(places[name] for name in down), strict=True)
        panel.scatter(across, up, marker="x", s=60, color="#606060", label="down", zorder=3)
    star = {"marker": "*", "s": 170, "color": RED, "edgecolors": "white"}
    across, up = zip(*(places[name] for name in dict.fromkeys(publishers)), strict=True)
    panel.scatter(across, up, **star, label="publisher", zorder=4)


def _names(panel: Any, look: NetworkLook, places: Places, publishers: Sequence[str]) -> int:
    """Write names and numbers below brokers, where they hide neither a name nor a broker; return how many."""
    longest = max(max(ends) - min(ends) for ends in zip(*places.values(), strict=True)) or 1.0
    written: list[tuple[float, float, float]] = []
    for name in sorted(places, key=lambda name: (name not in publishers, -look.sizes.get(name, 0), name)):
        text = f"{name}\n{look.sizes[name]:,}" if name in look.sizes else name
        (across, up), half = places[name], LETTER * longest * max(map(len, text.split("\n"))) / 2
        on_a_name = any(abs(across - x) < half + other and abs(up - y) < LINES * longest for x, y, other in written)
        high, wide = (LINES / 2 + AROUND) * longest, half + AROUND * longest
        middle = up - BELOW * longest
        on_a_broker = any(abs(across - x) < wide and abs(middle - y) < high for x, y in places.values())
        if on_a_name or (on_a_broker and name not in publishers):
            continue
        written.append((across, up, half))
        panel.annotate(
            text, places[name], (0, -20), textcoords="offset points", fontsize=8, ha="center", va="top", zorder=3,
            parse_math=False, bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.5},
        )  # fmt: skip
    return len(written)
