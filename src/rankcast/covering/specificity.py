"""Which of many filters strictly cover others of them: what is left when only the most specific count.

One strictly covers another when that is proven and the converse is not. Few filters are compared pair by pair, and what
was found is remembered. Among many, those that are one box each (see `boxes`) are compared by their boxes, in passes
over all of them; only pairs with a disjunction or a string pattern, whose boxes say no more than "perhaps", are
compared one by one. Boxes lie in groups with the same attributes: filters on different attributes never meet.

Nothing is worked out for all pairs: of n filters that lie in each other there are n**2 / 2.

>>> from rankcast.language.parser import parse_filter
>>> texts = {"flats": "rent < 900", "cheap": "rent < 500", "large": "rooms > 3"}
>>> owned = {name: parse_filter(text) for name, text in texts.items()}
>>> sorted(Specificity(owned).general_among(owned))
['flats']
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np

from rankcast.covering.boxes import Box
from rankcast.covering.lines import FIRST, LAST, Line
from rankcast.covering.relation import covers
from rankcast.covering.rows import hull
from rankcast.model.filters import Filter
from rankcast.model.valuesets import ValueSet

Array: TypeAlias = np.ndarray[Any, Any]
Key = TypeVar("Key", bound=Hashable)

FEW = 16
"""So many filters are compared pair by pair: that is done before the boxes of all are made."""

MAX_REMEMBERED = 1_000_000
"""Pairs of which it is remembered whether one strictly covers the other."""


class Specificity(Generic[Key]):
    """Filters under their keys, and which of them strictly cover others. Equal filters are one kind."""

    def __init__(self, owned: Mapping[Key, Filter]) -> None:
        numbers: dict[Filter, int] = {}
        self._kind = {key: numbers.setdefault(wanted, len(numbers)) for key, wanted in owned.items()}
        self._kinds = np.array(list(self._kind.values()), np.int64)
        self._filters = list(numbers)
        self._remembered: dict[int, bool] = {}
        self._boxes: Sequence[_OneBox] = ()
        self._all: _Groups | None = None

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
        perhaps = np.arange(len(self._filters))
        if len(self._filters) > FEW:
            if self._all is None:
                self._all = self._groups(range(len(self._filters)))
            found, perhaps = self._all.strictly_above(kind, self._boxes[kind])
            is_above[found] = True
        for other in perhaps.tolist():
            is_above[other] = self._is_above(other, kind)
        return np.flatnonzero(is_above[self._kinds])

    def _general_of_few(self, kinds: Collection[int]) -> set[int]:
        return {wide for wide in kinds if any(self._is_above(wide, narrow) for narrow in kinds)}

    def _general_of_many(self, kinds: Collection[int]) -> set[int]:
        groups = self._groups(kinds)
        by_box = np.zeros(len(self._filters), np.bool_)
        general = by_box.copy()
        for kind in sorted(kinds, key=self._width):
            # What contains a box that contains another one contains that as well, and is known already. So much cannot
            # be said of what was decided pair by pair: one pair may be proven and the next one undecided.
            found, perhaps = groups.strictly_above(kind, self._boxes[kind], known=bool(by_box[kind]))
            by_box[found] = general[found] = True
            for other in perhaps[~general[perhaps]].tolist():
                general[other] = self._is_above(other, kind)
        return set(np.flatnonzero(general).tolist())

    def _groups(self, kinds: Iterable[int]) -> _Groups:
        if not self._boxes:
            self._boxes = _boxes(self._filters)
        return _Groups({kind: self._boxes[kind] for kind in kinds})

    def _width(self, kind: int) -> list[tuple[int, int]]:
        """Return what sorts a box before those that contain it."""
        sides = sorted(self._boxes[kind].box.items())
        return [(-len(sides), 0), *((-start, end) for _, (start, end) in sides)]

    def _is_above(self, wide: int, narrow: int) -> bool:
        pair = wide * len(self._filters) + narrow
        known = self._remembered.get(pair)
        if known is None:
            first, second = self._filters[wide], self._filters[narrow]
            known = wide != narrow and covers(first, second) is True and covers(second, first) is not True
            if len(self._remembered) >= MAX_REMEMBERED:
                self._remembered.clear()
            self._remembered[pair] = known
        return known


class _OneBox(NamedTuple):
    """The box around a filter, without attributes that may be anything. `is_exact` says that it is the filter."""

    box: Box
    is_exact: bool
    is_empty: bool


class _Group(NamedTuple):
    """Boxes with the same attributes: a line of starts and one of ends per attribute."""

    attributes: tuple[int, ...]
    kinds: Array
    starts: Array
    ends: Array

    def containing(self, box: Box) -> tuple[Array, Array]:
        """Return which boxes contain one, and which of these are not equal to it."""
        contains = np.ones(len(self.kinds), np.bool_)
        differs = np.full(len(self.kinds), len(self.attributes) < len(box))
        for attribute, starts, ends in zip(self.attributes, self.starts, self.ends, strict=True):
            low, high = box[attribute]
            contains &= (starts <= low) & (ends >= high)
            differs |= (starts != low) | (ends != high)
        return contains, differs


class _Groups:
    """Some boxes, those that are exact and those that are not each in groups by their attributes."""

    def __init__(self, boxes: Mapping[int, _OneBox]) -> None:
        self._kinds = np.array(list(boxes), np.int64)
        self._exact = _grouped({kind: one.box for kind, one in boxes.items() if one.is_exact})
        self._hulls = _grouped({kind: one.box for kind, one in boxes.items() if not (one.is_exact or one.is_empty)})

    def strictly_above(self, kind: int, one: _OneBox, *, known: bool = False) -> tuple[Array, Array]:
        """Return the kinds that are strictly above one by their boxes, and those that may be.

        When the first are `known` they are left out.
        """
        if one.is_empty:  # everything covers nothing
            return self._kinds[self._kinds != kind], _NONE
        perhaps = [group.kinds[group.containing(one.box)[0]] for group in _within(self._hulls, one.box)]
        found = [_NONE]
        if not one.is_exact:
            perhaps += [group.kinds[group.containing(one.box)[0]] for group in _within(self._exact, one.box)]
        elif not known:
            for group in _within(self._exact, one.box):
                contains, differs = group.containing(one.box)
                found.append(group.kinds[contains & differs])
        return np.concatenate(found), np.concatenate([_NONE, *perhaps])


_NONE = np.zeros(0, np.int64)
_Listed: TypeAlias = dict[int | None, list[_Group]]
"""Groups, each under the one of its attributes that the fewest others have; None is that of boxes without any."""


def _grouped(boxes: Mapping[int, Box]) -> _Listed:
    by_attributes: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)
    for kind, box in boxes.items():
        by_attributes[tuple(sorted(box))].append(kind)
    frequency = Counter(attribute for attributes in by_attributes for attribute in attributes)
    listed: _Listed = {}
    for attributes, kinds in by_attributes.items():
        sides = np.array([[boxes[kind][one] for kind in kinds] for one in attributes], np.int64)
        starts, ends = np.moveaxis(sides.reshape(len(attributes), len(kinds), 2), 2, 0)
        group = _Group(attributes, np.array(kinds, np.int64), starts.copy(), ends.copy())
        listed.setdefault(min(attributes, key=frequency.__getitem__, default=None), []).append(group)
    return listed


def _within(listed: _Listed, box: Box) -> Iterator[_Group]:
    """Yield the groups whose boxes can contain one: they have none but its attributes."""
    if listed:
        for attribute in (None, *box):
            for group in listed.get(attribute, ()):
                if box.keys() >= set(group.attributes):
                    yield group


def _boxes(filters: Sequence[Filter]) -> list[_OneBox]:
    """Return the box around each filter, in labels that all of them share."""
    values: defaultdict[str, list[ValueSet]] = defaultdict(list)
    for wanted in filters:
        for conjunction in wanted.conjunctions:
            for name, accepted in conjunction:
                values[name].append(accepted)
    numbers = {name: number for number, name in enumerate(values)}
    lines = [Line() for _ in values]
    for line, sets in zip(lines, values.values(), strict=True):
        line.add_all(sets)
    found: list[_OneBox] = []
    for wanted in filters:
        hulls: list[Box] = []
        is_exact = len(wanted.conjunctions) == 1 and not wanted.conjunctions[0].has_patterns
        for conjunction in wanted.conjunctions:
            ranges = {numbers[name]: lines[numbers[name]].ranges_of(accepted) for name, accepted in conjunction}
            is_exact = is_exact and all(len(pieces) == 1 for pieces in ranges.values())
            hulls.append({number: (pieces[0][0], pieces[-1][1]) for number, pieces in ranges.items()})
        box = {number: sides for number, sides in hull(hulls).items() if sides != (FIRST, LAST)}
        found.append(_OneBox(box, is_exact, is_empty=not hulls))
    return found
