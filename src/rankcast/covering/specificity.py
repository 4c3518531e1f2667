"""Which of many filters strictly cover others of them: what is left when only the most specific count.

One strictly covers another when that is proven and the converse is not. Few filters are compared pair by pair, and what
was found is remembered. Among many, those that are one box each (see `boxes`) are compared by their boxes, in passes
over all of them. Boxes lie in groups with the same attributes: filters on different attributes never meet. Pairs with a
disjunction or a string pattern are compared one by one, unless a point of one outside the other has settled it.

String patterns take long to compare. Where more than `FEW_PATTERNS` different filters have any, these only count as
covering, and covered, where that is plain to see (`surely_covers`); a text that one asks for and the other does not
have rules most pairs out at once. With more than `MOST_PAIRS` pairs they are not compared at all. What is not proven is
not covered, so this is sound; and it depends on nothing but all filters, so it is the same for every event and engine.

Nothing is kept of all pairs: of n filters that lie in each other there are n**2 / 2.

>>> from rankcast.language.parser import parse_filter
>>> texts = {"flats": "rent < 900", "cheap": "rent < 500", "large": "rooms > 3"}
>>> owned = {name: parse_filter(text) for name, text in texts.items()}
>>> sorted(Specificity(owned).general_among(owned))
['flats']
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from rankcast.arrays import Array
from rankcast.covering.boxes import Box, hull
from rankcast.covering.lines import FIRST, LAST, NumberLine
from rankcast.covering.relation import covers, surely_covers
from rankcast.model.filters import Filter
from rankcast.model.valuesets.patterns import ANY_ONE, ANY_TEXT
from rankcast.model.valuesets.sets import ValueSet

Key = TypeVar("Key", bound=Hashable)

_WILD = re.compile(f"[{ANY_ONE}{ANY_TEXT}]")

FEW = 16
"""So many filters are compared pair by pair: that is done before the boxes of all are made."""

MAX_POINTS = 8
"""Points of one conjunction, and conjunctions with points, by which it is seen that a filter is not covered."""

FEW_PATTERNS = 40
"""Kinds of filters with string patterns that are compared in full: some 0.3 milliseconds for each of their pairs."""

MOST_PAIRS = 2_500_000
"""Kinds of filters with string patterns, times all kinds, that are compared at all: some seconds, once."""

MAX_REMEMBERED = 50_000
"""Pairs of which it is remembered whether one strictly covers the other: some megabytes."""


class Specificity(Generic[Key]):
    """Filters under their keys, and which of them strictly cover others. Equal filters are one kind."""

    def __init__(self, owned: Mapping[Key, Filter]) -> None:
        numbers: dict[Filter, int] = {}
        self._kind = {key: numbers.setdefault(wanted, len(numbers)) for key, wanted in owned.items()}
        self._kinds = np.array(list(self._kind.values()), np.int64)
        self._filters = list(numbers)
        self._remembered: dict[int, bool] = {}
        self._patterned = [
            any(conjunction.has_patterns for conjunction in wanted.conjunctions) for wanted in self._filters
        ]
        self._is_plain = sum(self._patterned) <= FEW_PATTERNS
        self._is_too_much = not self._is_plain and sum(self._patterned) * len(self._filters) > MOST_PAIRS
        self._shapes: Sequence[_Shape] = ()
        self._all: tuple[_Boxes, dict[int, list[int]]] | None = None

    def general_among(self, keys: Iterable[Key]) -> set[Key]:
        """Return those of some filters that strictly cover another one of them."""
        keys = list(keys)
        kinds = sorted({self._kind[key] for key in keys})
        general = self._general_of_few(kinds) if len(kinds) <= FEW else self._general_of_many(kinds)
        return {key for key in keys if self._kind[key] in general}

    def above(self, place: int) -> Array:
        """Return which filters strictly cover one, as places in the order of the keys, ascending."""
        kind = int(self._kinds[place])
        is_above = np.zeros(len(self._filters), np.bool_)
        if len(self._filters) <= FEW:
            is_above[:] = [self._is_above(other, kind) for other in range(len(self._filters))]
        else:
            boxes, one_by_one = self._all_above()
            is_above[boxes.strictly_above(kind)] = True
            is_above[one_by_one[kind]] = True
        return np.flatnonzero(is_above[self._kinds])

    def _general_of_few(self, kinds: Collection[int]) -> set[int]:
        return {wide for wide in kinds if any(self._is_above(wide, narrow) for narrow in kinds)}

    def _general_of_many(self, kinds: Collection[int]) -> set[int]:
        boxes = self._boxes_of(kinds)
        is_general = np.zeros(len(self._filters), np.bool_)
        for kind in sorted(kinds, key=boxes.width):
            if not is_general[kind]:  # else what contains its box contains that of another as well, and is known
                is_general[boxes.strictly_above(kind)] = True
        if not self._is_plain:  # each pair is decided once, not for every event
            _, above = self._all_above()
            for kind in kinds:
                is_general[above.get(kind, [])] = True
            return {kind for kind in kinds if is_general[kind]}
        points = _Points(boxes, kinds)
        for kind in kinds:
            if not is_general[kind]:
                is_general[kind] = any(self._is_above(kind, other) for other in self._perhaps_below(points, kind))
        return set(np.flatnonzero(is_general).tolist())

    def _all_above(self) -> tuple[_Boxes, dict[int, list[int]]]:
        """Return the boxes of all, and for each kind those above it that boxes do not tell."""
        if self._all is None:
            kinds = range(len(self._filters))
            boxes = self._boxes_of(kinds)
            points = _Points(boxes, kinds)
            above: defaultdict[int, list[int]] = defaultdict(list)
            for kind in kinds:
                for other in self._perhaps_below(points, kind):
                    if self._compare(kind, other):
                        above[other].append(kind)
            self._all = boxes, above
        return self._all

    def _perhaps_below(self, points: _Points, kind: int) -> Iterable[int]:
        """Return the kinds that one may cover, without what the boxes of both have decided."""
        if not self._is_too_much:
            return points.perhaps_below(kind, None if self._is_plain else self._shapes[kind].wanted_text)
        if self._patterned[kind]:
            return ()
        return (other for other in points.perhaps_below(kind, None) if not self._patterned[other])

    def _boxes_of(self, kinds: Collection[int]) -> _Boxes:
        if not self._shapes:
            self._shapes = _shapes(self._filters)
        return _Boxes({kind: self._shapes[kind] for kind in kinds})

    def _is_above(self, wide: int, narrow: int) -> bool:
        pair = wide * len(self._filters) + narrow
        known = self._remembered.get(pair)
        if known is None:
            known = wide != narrow and self._compare(wide, narrow)
            if len(self._remembered) >= MAX_REMEMBERED:
                self._remembered.clear()
            self._remembered[pair] = known
        return known

    def _compare(self, wide: int, narrow: int) -> bool:
        first, second = self._filters[wide], self._filters[narrow]
        if self._is_plain or not (self._patterned[wide] or self._patterned[narrow]):
            return covers(first, second) is True and covers(second, first) is not True
        if self._is_too_much and second.conjunctions:
            return False
        return surely_covers(first, second) and not surely_covers(second, first)


class _Shape(NamedTuple):
    """A filter in labels: the box around it, without attributes that may be anything, and its conjunctions.

    `is_exact` says that the box is the filter. A conjunction has the ends of its ranges by attribute, starts and ends
    in turn; those with string patterns contain more than the filter does. `surely` is a box that whatever covers the
    filter must contain, but for attributes with patterns, which are `open`; None when no such box is known.

    `wanted_text` is an attribute and the longest text that a string pattern asks for there, if the filter is one
    conjunction; `texts` are all texts of patterns and ranges, by attribute, where every conjunction is about strings.
    """

    box: Box
    is_exact: bool
    conjunctions: tuple[Mapping[int, Array], ...]
    has_patterns: tuple[bool, ...]
    surely: Box | None
    open: frozenset[int]
    wanted_text: tuple[int, str] | None
    texts: Mapping[int, str]

    def may_imply(self, wanted: tuple[int, str] | None) -> bool:
        """Whether all that matches this filter may have a text; no filter lacks an attribute that only another names.

        That is told by the texts, unless some conjunction accepts more than strings there.
        """
        return wanted is None or wanted[0] not in self.texts or wanted[1] in self.texts[wanted[0]]


class _Group(NamedTuple):
    """Boxes with the same attributes: a line of starts and one of ends per attribute."""

    attributes: tuple[int, ...]
    kinds: Array
    starts: Array
    ends: Array

    def strictly_containing(self, box: Box) -> Array:
        """Return the kinds whose boxes contain one and are not equal to it."""
        contains = np.ones(len(self.kinds), np.bool_)
        differs = np.full(len(self.kinds), len(self.attributes) < len(box))
        for attribute, starts, ends in zip(self.attributes, self.starts, self.ends, strict=True):
            low, high = box[attribute]
            contains &= (starts <= low) & (ends >= high)
            differs |= (starts != low) | (ends != high)
        above: Array = self.kinds[contains & differs]
        return above


class _Boxes:
    """Some kinds of filters; those that are one box are in groups by their attributes.

    Each group is listed under the one of its attributes that the fewest others have, or under None.
    """

    def __init__(self, shapes: Mapping[int, _Shape]) -> None:
        self.shapes = shapes
        by_attributes: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)
        for kind, shape in shapes.items():
            if shape.is_exact:
                by_attributes[tuple(sorted(shape.box))].append(kind)
        frequency = Counter(attribute for attributes in by_attributes for attribute in attributes)
        self._listed: defaultdict[int | None, list[_Group]] = defaultdict(list)
        for attributes, kinds in by_attributes.items():
            sides = np.array([[shapes[kind].box[attribute] for kind in kinds] for attribute in attributes], np.int64)
            starts, ends = np.moveaxis(sides.reshape(len(attributes), len(kinds), 2), 2, 0)
            group = _Group(attributes, np.array(kinds, np.int64), starts.copy(), ends.copy())
            self._listed[min(attributes, key=frequency.__getitem__, default=None)].append(group)

    def strictly_above(self, kind: int) -> Array:
        """Return the kinds that strictly cover one by what their boxes say."""
        shape = self.shapes[kind]
        if not shape.conjunctions:  # everything covers nothing
            return np.array([other for other in self.shapes if other != kind], np.int64)
        above = (group.strictly_containing(shape.box) for group in self._within(shape))
        return np.concatenate([np.zeros(0, np.int64), *above])

    def _within(self, shape: _Shape) -> Iterator[_Group]:
        """Yield the groups that can contain a box: they have none but its attributes."""
        for attribute in (None, *shape.box) if shape.is_exact else ():
            for group in self._listed.get(attribute, ()):
                if shape.box.keys() >= set(group.attributes):
                    yield group

    def width(self, kind: int) -> list[tuple[int, int]]:
        """Return what sorts a box before those that contain it."""
        sides = sorted(self.shapes[kind].box.items())
        return [(-len(sides), 0), *((-start, end) for _, (start, end) in sides)]

    def may_cover(self, kind: int, other: int) -> bool:
        """Whether the box around one filter contains what a box around another must."""
        wide, narrow = self.shapes[kind].box, self.shapes[other].surely
        return narrow is None or all(
            attribute in self.shapes[other].open
            or (attribute in narrow and low <= narrow[attribute][0] and narrow[attribute][1] <= high)
            for attribute, (low, high) in wide.items()
        )


class _Points:
    """Some points of each filter: one that does not contain all points of another does not cover it.

    Points lie at both ends of conjunctions and at the starts of some ranges between. What a point does not name is
    missing. Of conjunctions with string patterns no points are known.
    """

    def __init__(self, boxes: _Boxes, kinds: Iterable[int]) -> None:
        self._boxes = boxes
        self._kinds = np.array([kind for kind in kinds if boxes.shapes[kind].conjunctions], np.int64)
        self._is_exact = np.array([boxes.shapes[kind].is_exact for kind in self._kinds.tolist()], np.bool_)
        labels: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        owners: list[int] = []
        for at, kind in enumerate(() if self._is_exact.all() else self._kinds.tolist()):
            for point in _points(boxes.shapes[kind]):
                for attribute, label in point.items():
                    labels[attribute].append((len(owners), label))
                owners.append(at)
        self._owners = np.array(owners, np.int64)
        self._labels = {attribute: np.array(found, np.int64).T for attribute, found in labels.items()}

    def perhaps_below(self, kind: int, wanted: tuple[int, str] | None) -> Iterator[int]:
        """Yield the kinds that one may cover, without what the boxes of both have decided; all have a wanted text."""
        shape = self._boxes.shapes[kind]
        if self._is_exact.all() or not shape.conjunctions:
            return
        accepted = np.zeros(len(self._owners), np.bool_)
        for conjunction in shape.conjunctions:
            accepted |= self._accepted(conjunction)
        is_open = ~self._is_exact if shape.is_exact else np.ones(len(self._kinds), np.bool_)
        is_open[self._owners[~accepted]] = False
        for other in self._kinds[is_open].tolist():
            may_imply = self._boxes.shapes[other].may_imply(wanted)
            if may_imply and other != kind and self._boxes.may_cover(kind, other):
                yield other

    def _accepted(self, conjunction: Mapping[int, Array]) -> Array:
        accepted = np.ones(len(self._owners), np.bool_)
        for attribute, ends in conjunction.items():
            inside = np.full(len(self._owners), ends[0] == FIRST)
            if attribute in self._labels:
                points, labels = self._labels[attribute]
                inside[points] = np.searchsorted(ends, labels, side="right") % 2 == 1
            accepted &= inside
        return accepted


def _points(shape: _Shape) -> Iterator[dict[int, int]]:
    told = zip(shape.conjunctions, shape.has_patterns, strict=True)
    sure = [conjunction for conjunction, has_patterns in told if not has_patterns]
    for conjunction in sure[:MAX_POINTS]:
        yield {attribute: int(ends[-1]) - 1 for attribute, ends in conjunction.items()}
        count = min(MAX_POINTS, max((len(ends) // 2 for ends in conjunction.values()), default=0))
        for at in range(count):
            yield {attribute: int(ends[len(ends) // 2 * at // count * 2]) for attribute, ends in conjunction.items()}


def _shapes(filters: Sequence[Filter]) -> list[_Shape]:
    """Return all filters in labels that they share."""
    values: defaultdict[str, list[ValueSet]] = defaultdict(list)
    for wanted in filters:
        for conjunction in wanted.conjunctions:
            for name, accepted in conjunction:
                values[name].append(accepted)
    numbers = {name: number for number, name in enumerate(values)}
    lines = [NumberLine() for _ in values]
    for line, sets in zip(lines, values.values(), strict=True):
        line.add_all(sets)
    return [_shape(wanted, numbers, lines) for wanted in filters]


def _shape(wanted: Filter, numbers: Mapping[str, int], lines: Sequence[NumberLine]) -> _Shape:
    ranges: list[Mapping[int, Array]] = []
    hulls: list[Box] = []
    sure: list[Box] = []
    patterns: set[int] = set()
    for conjunction in wanted.conjunctions:
        of_attribute = {numbers[name]: accepted for name, accepted in conjunction}
        with_patterns = {number for number, accepted in of_attribute.items() if accepted.has_patterns}
        found = {number: np.array(lines[number].ranges_of(values)).ravel() for number, values in of_attribute.items()}
        around = {number: (int(ends[0]), int(ends[-1])) for number, ends in found.items()}
        ranges.append(found)
        hulls.append(around)
        patterns |= with_patterns
        if all(of_attribute[number].surely_satisfiable() for number in with_patterns):
            sure.append({number: sides for number, sides in around.items() if number not in with_patterns})
    box = {number: sides for number, sides in hull(hulls).items() if sides != (FIRST, LAST)}
    has_patterns = tuple(conjunction.has_patterns for conjunction in wanted.conjunctions)
    is_exact = has_patterns == (False,) and all(len(ends) == 2 for ends in ranges[0].values())
    surely = hull(sure) if sure else None
    texts = _texts(wanted, numbers)
    return _Shape(
        box, is_exact, tuple(ranges), has_patterns, surely, frozenset(patterns), _wanted_text(wanted, numbers), texts
    )


def _wanted_text(wanted: Filter, numbers: Mapping[str, int]) -> tuple[int, str] | None:
    if len(wanted.conjunctions) != 1:
        return None
    texts = [
        (numbers[name], text)
        for name, accepted in wanted.conjunctions[0]
        for pattern in sorted(accepted.strings.required, key=lambda pattern: pattern.text)
        for text in _WILD.split(pattern.laid_out)
        if text
    ]
    return max(texts, key=lambda found: len(found[1]), default=None)


def _texts(wanted: Filter, numbers: Mapping[str, int]) -> dict[int, str]:
    """Return by attribute the texts that may make a pattern hold: those of patterns, and the first of the ranges."""
    found: defaultdict[int, list[str]] = defaultdict(list)
    mixed: set[int] = set()
    for conjunction in wanted.conjunctions:
        for name, accepted in conjunction:
            number = numbers[name]
            if not accepted.strings:
                mixed.add(number)
            found[number] += (pattern.laid_out for pattern in accepted.strings.required)
            found[number] += (str(value) for end, value, _ in accepted.strings.ranges.cuts[:1] if not end)
    return {number: ANY_TEXT.join(texts) for number, texts in found.items() if number not in mixed}
