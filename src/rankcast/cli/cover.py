"""`rankcast cover`: what the subscriptions of a file reduce to when covered ones are not forwarded, also as a picture.

The picture has a panel per strategy, with subscriptions as rectangles over two attributes, covered ones faded. A filter
is drawn as the rectangles of its conjunctions on the two attributes; an open end goes to the border. What it asks of
other attributes is not visible, so such rectangles have dashed sides. Of whole numbers each takes the place from half a
unit below it to half a unit above, so that neighbours touch.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple, TypeAlias

from rich.console import Console

from rankcast.cli.output.streams import Problems, complain, write_json
from rankcast.cli.output.terminal import Progress, console, progress, require_kernels, table
from rankcast.covering.group.cover import ActiveSet, Checking, GroupStrategy
from rankcast.covering.topk.cover_set import Cover, CoverSet
from rankcast.model.errors import InvalidValueError, counted, hint, shown
from rankcast.model.filters import Filter
from rankcast.model.schema import Schema
from rankcast.model.valuesets.intervals import END, START, Domain, IntervalSet
from rankcast.plotting import BLUE, GREEN, ORANGE, PURPLE, RED, save_picture, tidy
from rankcast.storage.subscribers.files import SubscriberFile, load_subscribers

Span: TypeAlias = tuple[float, float]
"""From where to where something goes, across or up."""

Area: TypeAlias = tuple[Span, Span]
"""A rectangular part of the plane, across and up."""

STRATEGIES = {
    "regular": "RegularCover",
    "rank": "RankCoverK",
    "ancestor": "AncestorCoverK",
    "pairwise": "group cover, pairwise",
    "exact": "group cover, exact",
    "probabilistic": "group cover, probabilistic",
}
"""What is shown for each strategy that can be asked for."""

BY_TOP_K = {"regular": Cover.REGULAR, "rank": Cover.RANK, "ancestor": Cover.ANCESTOR}
SHOWN_SUPPORT = 4
"""Names of those that cover one, in a line."""


@dataclass(frozen=True, slots=True)
class Reduction:
    """What one strategy leaves: who is covered, and by which forwarded ones.

    `exhausted` counts checks that were given up.
    """

    strategy: str
    k: int | None
    total: int
    covered: dict[int, tuple[int, ...]]
    exhausted: int
    seconds: float

    @property
    def forwarded(self) -> int:
        """How many are forwarded."""
        return self.total - len(self.covered)

    @property
    def share(self) -> float:
        """The forwarded share in percent."""
        return 100 * self.forwarded / self.total if self.total else 0.0

    @property
    def title(self) -> str:
        """The strategy as people read it."""
        return STRATEGIES[self.strategy] + (f", k={self.k}" if self.k is not None else "")


def cover_file(
    file: Path,
    strategies: Sequence[str],
    k: int,
    group: Checking,
    plot: Path | None,
    attributes: tuple[str, str] | None,
    *,
    details: int | None,
    as_json: bool,
) -> int:
    """Run the command and return its exit code; `details` is how many covered subscriptions are shown by name."""
    loaded = load_subscribers(file)
    problems = Problems(loaded.problems)
    problems.close()
    names, filters = _subscriptions(loaded)
    _check_named(attributes, filters, loaded.schema)
    require_kernels("covering")
    with progress("covering", total=len(filters) * len(strategies), quiet=as_json) as bar:
        found = [_reduce(strategy, filters, loaded.schema, k, group, bar) for strategy in strategies]
    if plot is not None:
        with progress("drawing", quiet=as_json):
            draw_file(plot, found, names, filters, loaded.schema, attributes)
    if as_json:
        strategies_found = [_document(reduction, names) for reduction in found]
        picture = None if plot is None else str(plot)
        write_json({"file": str(file), "subscriptions": len(names), "strategies": strategies_found, "plot": picture})
    else:
        _show(found, names, loaded, details)
        if plot is not None:
            complain(f"wrote {plot}")
    return 1 if problems.errors else 0


def checked_strategies(names: Sequence[str]) -> tuple[str, ...]:
    """Return the strategies that were named, each once, or all when none was."""
    for name in names:
        if name not in STRATEGIES:
            raise InvalidValueError(f"--strategy: there is no {shown(name)}; expected one of {', '.join(STRATEGIES)}")
    return tuple(dict.fromkeys(names)) or tuple(STRATEGIES)


def checked_attributes(text: str | None) -> tuple[str, str] | None:
    """Return the two attributes of a picture."""
    if text is None:
        return None
    names = [name.strip() for name in text.split(",")]
    if len(names) != 2 or not all(names) or names[0] == names[1]:
        raise InvalidValueError(f"--attributes: {shown(text)} is not two different names; expected such as rent,rooms")
    return names[0], names[1]


def _check_named(attributes: Sequence[str] | None, filters: Iterable[Filter], schema: Schema | None) -> None:
    """Raise for an attribute that neither a filter nor the schema names."""
    constrained = {name for wanted in filters for made in wanted.conjunctions for name in made.attributes}
    known = sorted(constrained.union(() if schema is None else schema.attributes))
    for name in attributes or ():
        if name not in known:
            raise InvalidValueError(f"--attributes: no filter names {shown(name)}; {hint(name, known)}")


def _subscriptions(loaded: SubscriberFile) -> tuple[list[str], list[Filter]]:
    """Return all subscriptions: their names, `subscriber/subscription`, and their filters."""
    own = [(owner.id, subscription) for owner in loaded.subscribers for subscription in owner.subscriptions]
    return [f"{owner}/{subscription.id}" for owner, subscription in own], [wanted.filter for _, wanted in own]


def _reduce(
    strategy: str, filters: Sequence[Filter], schema: Schema | None, k: int, group: Checking, bar: Progress
) -> Reduction:
    """Work out what a strategy leaves of some filters."""
    started = perf_counter()
    top_k = BY_TOP_K.get(strategy)
    made: CoverSet | ActiveSet
    if top_k:
        made = CoverSet(top_k, k, schema=schema)
    else:
        made = ActiveSet(replace(group, strategy=GroupStrategy(strategy)), schema)
    for number, wanted in enumerate(bar.over(filters)):
        made.add(number, wanted)
    if isinstance(made, CoverSet):
        covered, exhausted = {number: made.hiding(number) for number in made.hidden.tolist()}, 0
    else:
        covered, exhausted = {number: made.support(number) for number in made.passive}, made.exhausted
    named = k if top_k not in (None, Cover.REGULAR) else None
    return Reduction(strategy, named, len(filters), covered, exhausted, perf_counter() - started)


def _document(reduction: Reduction, names: Sequence[str]) -> dict[str, object]:
    covered = reduction.covered.items()
    return {
        "strategy": reduction.strategy,
        "k": reduction.k,
        "forwarded": reduction.forwarded,
        "covered": len(reduction.covered),
        "forwarded_percent": round(reduction.share, 3),
        "given_up": reduction.exhausted,
        "seconds": round(reduction.seconds, 6),
        "covered_by": {names[number]: [names[other] for other in others] for number, others in covered},
    }


def _show(found: Sequence[Reduction], names: Sequence[str], loaded: SubscriberFile, details: int | None) -> None:
    page = console()
    columns = {"Strategy": "left", "Forwarded": "right", "Covered": "right", "Forwarded %": "right", "Seconds": "right"}
    rows = [
        (cut.title, f"{cut.forwarded:,}", f"{len(cut.covered):,}", f"{cut.share:.1f}", f"{cut.seconds:.2f}")
        for cut in found
    ]
    page.print(table("What must be forwarded", columns, rows))
    page.print()
    for reduction in found if details is not None else ():
        _show_covered(page, reduction, names, details or 0)
    page.print(f"{counted(len(names), 'subscription')} of {counted(len(loaded.subscribers), 'subscriber')}")
    for note in _notes(found, loaded):
        page.print(note)


def _show_covered(page: Console, reduction: Reduction, names: Sequence[str], limit: int) -> None:
    rows = [(names[number], _by(others, names)) for number, others in islice(reduction.covered.items(), limit)]
    if rows:
        page.print(table(reduction.title, {"Covered": "left", "By": "rest"}, rows))
    else:
        page.print(f"{reduction.title}: nothing is covered")
    if len(reduction.covered) > limit:
        page.print(f"... and {len(reduction.covered) - limit:,} more; --limit sets how many are shown")
    page.print()


def _by(others: Sequence[int], names: Sequence[str]) -> str:
    if not others:
        return "nobody: no event can match it"
    first = ", ".join(names[other] for other in others[:SHOWN_SUPPORT])
    return first if len(others) <= SHOWN_SUPPORT else f"{first} and {len(others) - SHOWN_SUPPORT} more"


def _notes(found: Sequence[Reduction], loaded: SubscriberFile) -> list[str]:
    """Return what a reader of the figures should know."""
    notes = []
    subscriptions = (subscription for subscriber in loaded.subscribers for subscription in subscriber.subscriptions)
    timed = sum((wanted.active_from or wanted.active_until) is not None for wanted in subscriptions)
    if timed:
        notes.append(f"{counted(timed, 'subscription')} active for some time only: times are not looked at here")
    given_up = sum(reduction.exhausted for reduction in found)
    if given_up:
        notes.append(f"{counted(given_up, 'check')} given up for want of work allowed, and forwarded: always safe")
    if any(reduction.strategy == "probabilistic" for reduction in found):
        notes.append("probabilistic answers may be wrong; the others never are")
    return notes


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
    """A part of a filter: from low to high on both attributes, infinite where it is open; and whether that is all."""

    across: Span
    up: Span
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
    lowered = filters if schema is None else [wanted.under(schema) for wanted in filters]
    chosen = attributes or _most_named(lowered)
    rectangles = [list(_rectangles(wanted, *chosen)) for wanted in lowered]
    if not any(rectangles):
        raise InvalidValueError(f"--plot: no filter says anything that can be drawn over {chosen[0]} and {chosen[1]}")
    across = min(3, len(panels))
    down = math.ceil(len(panels) / across)

    def draw(figure: Any) -> None:
        grid = figure.subplots(down, across, squeeze=False, sharex=True, sharey=True)
        for axes in grid.flat[len(panels) :]:
            axes.set_visible(False)
        for axes, panel in zip(grid.flat, panels, strict=False):
            _draw_panel(axes, panel, names, rectangles, chosen)

    size = (6.0, 5.0) if len(panels) == 1 else (4.6 * across, 4.2 * down)
    save_picture(draw, size, path)


def _most_named(filters: Sequence[Filter]) -> tuple[str, str]:
    """Return the two attributes that most filters bound by numbers, in the order of their names."""
    count: Counter[str] = Counter()
    for wanted in filters:
        members = (member for conjunction in wanted.conjunctions for member in conjunction)
        count.update({name for name, values in members if values.numbers.cuts not in ((), (START, END))})
    best = sorted(count, key=lambda name: (-count[name], name))[:2]
    if len(best) < 2:
        found = shown(best[0]) + " only" if best else "none"
        raise InvalidValueError(f"--plot: a picture needs two attributes that are bounded by numbers, there is {found}")
    first, second = sorted(best)
    return first, second


def _rectangles(wanted: Filter, first: str, second: str) -> Iterator[Rectangle]:
    for conjunction in wanted.conjunctions:
        whole = {first, second}.issuperset(conjunction.attributes)
        across, up = (list(_ends(conjunction.get(name).numbers)) for name in (first, second))
        for left_right, bottom_top in islice(product(across, up), MOST_PIECES):
            yield Rectangle(left_right, bottom_top, whole)


def _ends(numbers: IntervalSet) -> Iterator[Span]:
    for start, end in numbers.pieces():
        shift = 0.5 if numbers.domain is Domain.INTEGER else 0.0  # a cut of integers lies just below its number
        low = -math.inf if start == START else _drawable(float(start[1])) - shift
        yield low, math.inf if end == END else _drawable(float(end[1])) - shift


def _drawable(end: float) -> float:
    """Return the nearest number that can be drawn: differences and products of the largest are infinite."""
    return max(-FARTHEST, min(FARTHEST, end))


def _border(rectangles: Sequence[Rectangle]) -> Area:
    """Return what part of the plane is drawn: all finite ends and some room around them."""

    def side(spans: Iterable[Span]) -> Span:
        finite = [end for span in spans for end in span if math.isfinite(end)] or [0.0, 1.0]
        room = 0.12 * (max(finite) - min(finite)) or max(1.0, 0.1 * abs(finite[0]))
        return min(finite) - room, max(finite) + room

    return side(drawn.across for drawn in rectangles), side(drawn.up for drawn in rectangles)


def _draw_panel(
    axes: Any,
    panel: Reduction,
    names: Sequence[str],
    rectangles: Sequence[Sequence[Rectangle]],
    attributes: tuple[str, str],
) -> None:
    every = [rectangle for own in rectangles for rectangle in own]
    border = _border(every)
    axes.set_xlim(*border[0])
    axes.set_ylim(*border[1])
    active = [number for number in range(len(names)) if number not in panel.covered]
    labels = Labels(axes, border) if len(names) <= MOST_LABELS else None
    looks: dict[RectangleStyle, list[Area]] = defaultdict(list)
    for number in [*active, *sorted(panel.covered)]:
        covered = number in panel.covered
        colour = FADED if covered else COLOURS[number % len(COLOURS)] if labels is not None else BLUE
        areas = [_area_of(rectangle, border) for rectangle in rectangles[number]]
        for area, rectangle in zip(areas, rectangles[number], strict=True):
            looks[RectangleStyle(colour, covered, rectangle.whole)].append(area)
        if labels is not None and areas:
            labels.write(names[number], areas[0], "#707070" if covered else colour, covered=covered)
    for look, areas in looks.items():
        _draw_rectangles(axes, look, areas, many=labels is None)
    tidy(axes, f"{panel.title}: {len(active):,} of {len(names):,} forwarded", *attributes)
    axes.title.set_fontsize(10)
    for axis, spans in ((axes.xaxis, [drawn.across for drawn in every]), (axes.yaxis, [drawn.up for drawn in every])):
        if all(end % 1 == 0.5 for span in spans for end in span if math.isfinite(end)):
            axis.get_major_locator().set_params(integer=True)  # only whole numbers are drawn


def _area_of(rectangle: Rectangle, border: Area) -> Area:
    """Return where the sides of a rectangle are drawn."""

    def side(span: Span, least: float, most: float) -> Span:
        thin, beyond = LINE * (most - least), 0.02 * (most - least)
        # The side of an open end lies outside the panel, where it is not seen.
        start = least - beyond if span[0] == -math.inf else span[0]
        end = most + beyond if span[1] == math.inf else span[1]
        return (start, end) if end - start >= thin else (start - thin / 2, start + thin / 2)

    return side(rectangle.across, *border[0]), side(rectangle.up, *border[1])


def _draw_rectangles(axes: Any, look: RectangleStyle, drawn: Sequence[Area], *, many: bool) -> None:
    """Draw rectangles that look alike, at once: thousands one by one would take minutes."""
    from matplotlib.collections import PolyCollection  # noqa: PLC0415 (an extra)

    shapes = [[(left, low), (right, low), (right, high), (left, high)] for (left, right), (low, high) in drawn]
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

    def __init__(self, axes: Any, border: Area) -> None:
        self._axes, self._border = axes, border
        inches = axes.get_window_extent().size / axes.figure.dpi
        self._unit = [(most - least) / size for (least, most), size in zip(border, inches, strict=True)]
        self._taken: list[Area] = []

    def write(self, name: str, area: Area, colour: str, *, covered: bool) -> None:
        """Write a name into the visible part of a rectangle."""
        from matplotlib.patheffects import withStroke  # noqa: PLC0415 (an extra)

        across, down = (0.068 * len(name) * self._unit[0], 0.15 * self._unit[1])
        (left, right), (bottom, top) = (
            (max(low, least), min(high, most)) for (low, high), (least, most) in zip(area, self._border, strict=True)
        )
        gap = (0.05 * self._unit[0], 0.04 * self._unit[1])
        rows = [top - gap[1] - down, bottom + gap[1], *(top - gap[1] - (2 + at) * down for at in range(6))]
        places = [((x, x + across), (y, y + down)) for y in rows for x in (left + gap[0], right - gap[0] - across)]
        place = min(places, key=self._overlap)
        self._taken.append(place)
        text = self._axes.text(
            place[0][0],
            place[1][0],
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

    def _overlap(self, place: Area) -> float:
        """Return how much of a place other names have taken."""
        (left, right), (bottom, top) = place
        return sum(
            max(0.0, min(right, other_right) - max(left, other_left))
            * max(0.0, min(top, other_top) - max(bottom, other_bottom))
            for (other_left, other_right), (other_bottom, other_top) in self._taken
        )
