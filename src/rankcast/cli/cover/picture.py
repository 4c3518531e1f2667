"""The picture of `rankcast cover`: subscriptions as rectangles over two attributes, covered ones faded.

A filter is drawn as the rectangles of its conjunctions on the two attributes; an open end goes to the border. What it
asks of other attributes is not visible, so such rectangles have dashed sides. Of whole numbers each takes the place
from half a unit below it to half a unit above, so that neighbours touch. There is a panel per strategy.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from rankcast.model.errors import InvalidValueError, shown
from rankcast.model.filters import Filter
from rankcast.model.schema import Schema
from rankcast.model.valuesets.intervals import END, START, Domain, IntervalSet
from rankcast.plotting import BLUE, GREEN, ORANGE, PURPLE, RED, save_picture, tidy

if TYPE_CHECKING:
    from rankcast.cli.cover.command import Reduction

Border: TypeAlias = tuple[tuple[float, float], tuple[float, float]]
"""What part of the plane is drawn: from where to where, across and up."""

Corners: TypeAlias = tuple[float, float, float, float]
"""Left, right, bottom and top of a rectangle that is drawn."""

COLOURS = (BLUE, GREEN, RED, PURPLE, ORANGE, "#56B4E9")
FADED = "#9A9A9A"
MOST_LABELS = 14
"""Subscriptions with names beside them; more could not be read."""

MOST_PIECES = 50
"""Rectangles drawn of one conjunction: a long list of values is a cloud anyway."""

FARTHEST = 1e150
"""Ends beyond are drawn here: what is drawn is also multiplied."""

LINE = 0.006
"""The width of a single value, as a share of the panel."""


class RectangleStyle(NamedTuple):
    """How a rectangle is drawn; `whole`: the two attributes are all that its filter asks for."""

    colour: str
    covered: bool
    whole: bool


class Rectangle(NamedTuple):
    """A part of a filter: low and high on both attributes, infinite where it is open; and whether that is all."""

    left: float
    right: float
    bottom: float
    top: float
    whole: bool


def draw_file(
    path: Path,
    panels: Sequence[Reduction],
    names: Sequence[str],
    filters: Sequence[Filter],
    schema: Schema | None,
    attributes: tuple[str, str] | None,
) -> None:
    """Draw subscriptions over two attributes, by default those that are named most often, and save the picture."""
    lowered = [one if schema is None else one.under(schema) for one in filters]
    chosen = attributes or _most_named(lowered)
    rectangles = [list(_rectangles(one, *chosen)) for one in lowered]
    if not any(rectangles):
        raise InvalidValueError(f"--plot: no filter says anything that can be drawn over {chosen[0]} and {chosen[1]}")
    across = min(3, len(panels))
    down = math.ceil(len(panels) / across)
    border = _border([one for some in rectangles for one in some])

    def draw(figure: Any) -> None:
        grid = figure.subplots(down, across, squeeze=False, sharex=True, sharey=True)
        for at, axes in enumerate(grid.flat):
            if at < len(panels):
                _draw_panel(axes, panels[at], names, rectangles, border, chosen)
            else:
                axes.set_visible(False)

    size = (6.0, 5.0) if len(panels) == 1 else (4.6 * across, 4.2 * down)
    save_picture(draw, size, path)


def _most_named(filters: Sequence[Filter]) -> tuple[str, str]:
    """Return the two attributes that most filters bound by numbers, in the order of their names."""
    count: Counter[str] = Counter()
    for one in filters:
        count.update(
            {
                name
                for found in one.conjunctions
                for name, values in found
                if values.numbers.cuts not in ((), (START, END))
            }
        )
    best = sorted(count, key=lambda name: (-count[name], name))[:2]
    if len(best) < 2:
        found = shown(best[0]) + " only" if best else "none"
        raise InvalidValueError(f"--plot: a picture needs two attributes that are bounded by numbers, there is {found}")
    first, second = sorted(best)
    return first, second


def _rectangles(wanted: Filter, first: str, second: str) -> Iterator[Rectangle]:
    for found in wanted.conjunctions:
        sets = [found.get(name).numbers for name in (first, second)]
        whole = all(name in (first, second) for name in found.attributes)
        pieces = [list(_ends(one)) for one in sets]
        drawn = [(one, other) for one in pieces[0] for other in pieces[1]][:MOST_PIECES]
        for (left, right), (bottom, top) in drawn:
            yield Rectangle(left, right, bottom, top, whole)


def _ends(numbers: IntervalSet) -> Iterator[tuple[float, float]]:
    for start, end in numbers.pieces():
        shift = 0.5 if numbers.domain is Domain.INTEGER else 0.0  # a cut of integers lies just below its number
        low = -math.inf if start == START else _drawable(float(start[1])) - shift
        yield low, math.inf if end == END else _drawable(float(end[1])) - shift


def _drawable(end: float) -> float:
    """Return the nearest number that can be drawn: differences and products of the largest are infinite."""
    return max(-FARTHEST, min(FARTHEST, end))


def _border(rectangles: Sequence[Rectangle]) -> Border:
    """Return what part of the plane is drawn: all finite ends and some room around them."""
    sides = []
    for low, high in (("left", "right"), ("bottom", "top")):
        ends = [getattr(one, side) for one in rectangles for side in (low, high)]
        finite = [end for end in ends if math.isfinite(end)] or [0.0, 1.0]
        room = 0.12 * (max(finite) - min(finite)) or max(1.0, 0.1 * abs(finite[0]))
        sides.append((min(finite) - room, max(finite) + room))
    return sides[0], sides[1]


def _draw_panel(
    axes: Any,
    panel: Reduction,
    names: Sequence[str],
    rectangles: Sequence[Sequence[Rectangle]],
    border: Border,
    attributes: tuple[str, str],
) -> None:
    axes.set_xlim(*border[0])
    axes.set_ylim(*border[1])
    active = [number for number in range(len(names)) if number not in panel.covered]
    labels = Labels(axes, border) if len(names) <= MOST_LABELS else None
    looks: dict[RectangleStyle, list[Corners]] = defaultdict(list)
    for number in [*active, *sorted(panel.covered)]:
        covered = number in panel.covered
        colour = FADED if covered else COLOURS[number % len(COLOURS)] if labels is not None else BLUE
        for one in rectangles[number]:
            looks[RectangleStyle(colour, covered, one.whole)].append(_drawn(one, border))
        if labels is not None and rectangles[number]:
            place = _visible(_drawn(rectangles[number][0], border), border)
            labels.write(names[number], place, "#707070" if covered else colour, covered=covered)
    for look, corners in looks.items():
        _draw_rectangles(axes, look, corners, many=labels is None)
    tidy(axes, f"{panel.title}: {len(active):,} of {len(names):,} forwarded", *attributes)
    axes.title.set_fontsize(10)
    drawn = [one for some in rectangles for one in some]
    for axis, sides in ((axes.xaxis, ("left", "right")), (axes.yaxis, ("bottom", "top"))):
        ends = [getattr(one, side) for one in drawn for side in sides]
        if all(end % 1 == 0.5 for end in ends if math.isfinite(end)):
            axis.get_major_locator().set_params(integer=True)  # only whole numbers are drawn


def _drawn(one: Rectangle, border: Border) -> Corners:
    """Return where the sides of a rectangle are drawn: left, right, bottom, top."""
    sides: list[float] = []
    for (low, high), (least, most) in zip(((one.left, one.right), (one.bottom, one.top)), border, strict=True):
        thin = LINE * (most - least)
        beyond = 0.02 * (most - least)  # the side of an open end lies outside the panel, where it is not seen
        start = least - beyond if low == -math.inf else low
        end = most + beyond if high == math.inf else high
        sides += (start, end) if end - start >= thin else (start - thin / 2, start + thin / 2)
    return sides[0], sides[1], sides[2], sides[3]


def _visible(corners: Corners, border: Border) -> Corners:
    (first, last), (lowest, highest) = border
    left, right, bottom, top = corners
    return max(left, first), min(right, last), max(bottom, lowest), min(top, highest)


def _draw_rectangles(axes: Any, look: RectangleStyle, drawn: Sequence[Corners], *, many: bool) -> None:
    """Draw rectangles that look alike, at once: thousands one by one would take minutes."""
    from matplotlib.collections import PolyCollection  # noqa: PLC0415 (an extra)

    shapes = [[(left, low), (right, low), (right, high), (left, high)] for left, right, low, high in drawn]
    # Many lie on top of each other: each is the fainter, so that one still sees where most of them are.
    opacity = max(0.006, 1.2 / len(drawn)) if many else 0.10 if look.covered else 0.22
    if not (many and look.covered):
        filled = PolyCollection(shapes, facecolors=look.colour, edgecolors="none", alpha=min(0.22, opacity))
        filled.set_zorder(1 if look.covered else 2)
        axes.add_collection(filled)
    axes.add_collection(
        PolyCollection(
            shapes,
            facecolors="none",
            edgecolors=look.colour,
            linestyles="-" if look.whole else "--",
            linewidths=(0.4 if many else 0.8) if look.covered else (1.0 if many else 1.8),
            alpha=0.55 if look.covered else 1.0,
            zorder=3 if look.covered else 4,
        )
    )


class Labels:
    """Names in the corners of their rectangles, each where none is yet."""

    def __init__(self, axes: Any, border: Border) -> None:
        self._axes = axes
        inches = axes.get_window_extent().size / axes.figure.dpi
        self._unit = [(most - least) / size for (least, most), size in zip(border, inches, strict=True)]
        self._taken: list[Corners] = []

    def write(self, name: str, seen: Corners, colour: str, *, covered: bool) -> None:
        """Write a name into the visible part of a rectangle: left, right, bottom, top."""
        from matplotlib.patheffects import withStroke  # noqa: PLC0415 (an extra)

        across, down = (0.068 * len(name) * self._unit[0], 0.15 * self._unit[1])
        left, right, bottom, top = seen
        gap = (0.05 * self._unit[0], 0.04 * self._unit[1])
        rows = [top - gap[1] - down, bottom + gap[1], *(top - gap[1] - (2 + at) * down for at in range(6))]
        places = [(x, y) for y in rows for x in (left + gap[0], right - gap[0] - across)]
        corner = min(places, key=lambda place: self._overlap(place, across, down))
        self._taken.append((corner[0], corner[0] + across, corner[1], corner[1] + down))
        text = self._axes.text(
            *corner,
            name,
            va="bottom",
            fontsize=7.5,
            color=colour,
            style="italic" if covered else "normal",
            zorder=6,
            clip_on=True,
        )
        text.set_parse_math(False)  # a name is text, whatever signs are in it
        text.set_path_effects([withStroke(linewidth=2.2, foreground="white", alpha=0.75)])

    def _overlap(self, place: tuple[float, float], across: float, down: float) -> float:
        (left, bottom), shared = place, 0.0
        for other_left, other_right, other_bottom, other_top in self._taken:
            wide = min(left + across, other_right) - max(left, other_left)
            high = min(bottom + down, other_top) - max(bottom, other_bottom)
            shared += max(0.0, wide) * max(0.0, high)
        return shared
