"""One attribute as a line of places, so that what a filter says about it is a few ranges of integers.

The line begins with "missing" and goes on with bools, numbers, strings and times, each in its order, and lists, by the
kind of their elements; a declared attribute has only the family of its type, or lists, and no "missing" when it is
required. What is asked of the elements of lists is no matter of places. A place is a cut of
`rankcast.model.valuesets.intervals` in its family. Between two different cuts there is always a value, over integers
too, where cuts are written in one way only; so ranges of places are all that covering has to compare, and `x < a`
conflicts with `x >= b` exactly when a <= b.

Places get integer labels in their order. A new place takes the middle between its neighbours, or a long step at either
end of its family, so that labels stay as they are while places are added; when there is no room left, all of them are
given again, and `moves` tells whoever keeps labels how they changed.
Cost: a bisection per cut; new labels for all about once in 2**18 places that come in ascending order.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from sortedcontainers import SortedDict

from rankcast.model.schema import ENVELOPE_TYPES, Schema
from rankcast.model.times import EARLIEST
from rankcast.model.values import FAMILY_OF_TYPE, AttributeValue, Family, ListValue
from rankcast.model.valuesets.intervals import END, START, Cut, Domain, IntervalSet
from rankcast.model.valuesets.sets import ValueSet

Place: TypeAlias = tuple[int, Cut]
"""The position of a family on the line, and a cut in it."""

FIRST = 0
LAST = 2**62
"""The labels of the two ends of every line."""

STEP = 2**44
"""How far a place at the end of its family lies from its neighbour: room for some 40 places between the two."""

MANY = 32
"""Places that come together beyond which all labels are given again: one after the other they would use up a gap."""

Part: TypeAlias = Family | None
"""A part of a line: values of one family or, as None, lists, with a cut between the empty one and those of each family.
"""

_PARTS: tuple[Part, ...] = (Family.BOOL, Family.NUMBER, Family.STRING, Family.TIME, None)
_TRUE: Cut = (0, 1, 0)
_SAMPLES: tuple[ListValue, ...] = ((), (0,), ("",), (False,), (EARLIEST,))


class NumberLine:
    """The places of one attribute that filters have named so far, with their labels."""

    def __init__(self, families: tuple[Part, ...] = _PARTS, *, may_be_missing: bool = True) -> None:
        self._position = {family: index + 1 for index, family in enumerate(families)}
        self._families = families
        self._may_be_missing = may_be_missing
        ends: list[Place] = [(position, START) for position in range(1 - may_be_missing, len(families) + 2)]
        self._labels: SortedDict[Place, int] = SortedDict(zip(ends, _evenly(len(ends)), strict=True))
        self.moves: list[tuple[list[int], list[int]]] = []
        """How labels changed, old and new in order, since whoever keeps labels last emptied this."""

    @staticmethod
    def of(attribute: str, schema: Schema | None) -> NumberLine:
        """Return the line of an attribute; what is not declared may be anything."""
        declared = None if schema is None else schema.attributes.get(attribute) or ENVELOPE_TYPES.get(attribute)
        if schema is None or declared is None:
            return NumberLine()
        part = None if declared.is_list else FAMILY_OF_TYPE[declared]
        return NumberLine((part,), may_be_missing=attribute not in schema.required)

    def add(self, values: ValueSet) -> list[tuple[Place, Place]]:
        """Give the places of a value set their labels, and return it as ranges of places; labels of others may move."""
        merged = self._merged(values)
        places = list(dict.fromkeys(place for piece in merged for place in piece if place not in self._labels))
        if len(places) > MANY:
            self._add_all(places)
        else:
            for place in places:
                self._add(place)
        return merged

    def add_all(self, sets: Iterable[ValueSet]) -> None:
        """Give the places of many value sets their labels at once, at the cost of sorting them."""
        places = {place for values in sets for piece in self._merged(values) for place in piece}
        self._add_all(places.difference(self._labels))

    def ranges_of(self, values: ValueSet) -> list[tuple[int, int]]:
        """Return a value set whose places were added as ranges [start, end) of labels, in order."""
        return self.ranges(self._merged(values))

    def ranges(self, places: list[tuple[Place, Place]]) -> list[tuple[int, int]]:
        """Return ranges of places that were added as ranges [start, end) of labels, in order."""
        return [(self._labels[start], self._labels[end]) for start, end in places]

    def _merged(self, values: ValueSet) -> list[tuple[Place, Place]]:
        merged: list[tuple[Place, Place]] = []
        for start, end in self._pieces(values):
            if merged and merged[-1][1] == start:
                merged[-1] = (merged[-1][0], end)
            else:
                merged.append((start, end))
        return merged

    def is_missing(self, label: int) -> bool:
        """Whether this is where the attribute is missing."""
        return self._may_be_missing and label == FIRST

    def value(self, label: int, numbers: Domain = Domain.REAL) -> AttributeValue | None:
        """Return a value between the place with this label and the next known one.

        None at the place of "missing", and where int64 and float64 have nothing between two neighbours.
        """
        at = bisect_left(self._labels.values(), label)
        (position, start), _ = self._labels.peekitem(at)
        (next_position, end), _ = self._labels.peekitem(at + 1)
        if position == 0:
            return None
        family = self._families[position - 1]
        if family is Family.BOOL:
            return start == _TRUE
        if family is None:
            return _SAMPLES[start[1] if start != START else 0]
        domain = {Family.NUMBER: numbers, Family.STRING: Domain.STRING, Family.TIME: Domain.TIME}[family]
        return IntervalSet(domain, (start, end if next_position == position else END)).witness()

    def _pieces(self, values: ValueSet) -> Iterator[tuple[Place, Place]]:
        if values.missing and self._may_be_missing:
            yield (0, START), (1, START)
        for family, position in self._position.items():
            for start, end in _cuts(values, family):
                yield (position, start), ((position, end) if end != END else (position + 1, START))

    def _add(self, place: Place) -> None:
        if place in self._labels:
            return
        at = self._labels.bisect_left(place)
        (_, cut_below), below = self._labels.peekitem(at - 1)
        (_, cut_above), above = self._labels.peekitem(at)
        if above - below < 2:
            self._add_all(())
            below, above = self._labels.peekitem(at - 1)[1], self._labels.peekitem(at)[1]
        middle = (below + above) // 2
        if cut_above == START:
            middle = min(middle, below + STEP)
        elif cut_below == START:
            middle = max(middle, above - STEP)
        self._labels[place] = middle

    def _add_all(self, places: Iterable[Place]) -> None:
        """Add new places and give all of them labels at equal distances."""
        old = self._labels
        ordered = sorted((*old, *places))
        self._labels = SortedDict(zip(ordered, _evenly(len(ordered)), strict=True))
        self.moves.append((list(old.values()), [self._labels[place] for place in old]))


def _cuts(values: ValueSet, family: Part) -> Iterator[tuple[Cut, Cut]]:
    """Yield what a value set accepts of one family, as pairs of cuts in order."""
    if family is Family.BOOL:
        if False in values.bools:
            yield START, _TRUE
        if True in values.bools:
            yield _TRUE, END
    elif family is None:
        held = (values.lists.empty, *(asked is not None for asked in values.lists.families))
        cuts = [START, *((0, kind, 0) for kind in range(1, len(held))), END]
        yield from ((cuts[kind], cuts[kind + 1]) for kind, is_held in enumerate(held) if is_held)
    elif family is Family.NUMBER:
        yield from values.numbers.pieces()
    else:
        yield from (values.strings.ranges if family is Family.STRING else values.times).pieces()


def _evenly(count: int) -> list[int]:
    """Return so many labels from FIRST to LAST, at equal distances."""
    return [LAST * index // (count - 1) for index in range(count)]
