"""Filters as boxes of integer ranges, one range per attribute: the form in which covering compares many of them.

A conjunction is a product of value sets and each value set is a few ranges on its attribute's line, so a conjunction is
a few boxes and a filter the union of all of them. That is exact but for string patterns (suffix, contains, general
like), which ranges cannot express. A boxed filter therefore has an `outer` form, which contains it, and an `inner`
form, which it contains; both are the same boxes where nothing is lost. To prove that something is covered, take the
outer form of what is to be covered and the inner forms of what covers it: a proof is then certain, patterns or not.

Conjunctions of many alternatives on many attributes have too many boxes. Beyond `MAX_BOXES` the outer form joins the
ranges of attributes into their hull and the inner form leaves boxes out: both stay on the safe side.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice, product
from math import prod
from typing import TypeAlias

import numpy as np

from rankcast.arrays import Array
from rankcast.covering.lines import FIRST, LAST, NumberLine, Place
from rankcast.model.filters import Filter
from rankcast.model.schema import Schema
from rankcast.model.values import AttributeValue
from rankcast.model.valuesets.intervals import Domain
from rankcast.model.valuesets.sets import ValueSet

Box: TypeAlias = dict[int, tuple[int, int]]
"""Ranges [start, end) of labels by the number of their attribute; attributes that are not named are free."""

MAX_BOXES = 256
"""Boxes of one conjunction in exact form."""


@dataclass(frozen=True, slots=True)
class Boxed:
    """A filter as unions of boxes. `is_exact` says that both forms are the filter itself."""

    outer: tuple[Box, ...]
    inner: tuple[Box, ...]
    is_exact: bool


class Space:
    """The attributes that filters have named, in the order in which they came, each with its line.

    With a schema, filters are taken under it: a required attribute is never missing, and integers are integers.
    """

    def __init__(self, schema: Schema | None = None) -> None:
        self.schema = schema
        self.names: list[str] = []
        self.lines: list[NumberLine] = []
        self.keepers: list[BoxRows] = []
        self._number_of: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.lines)

    def settle(self) -> None:
        """Tell those who keep labels how they have changed."""
        for attribute, line in enumerate(self.lines):
            for old, new in line.moves:
                for keeper in self.keepers:
                    keeper.relabel(attribute, old, new)
            line.moves.clear()

    def lowered(self, wanted: Filter) -> Filter:
        """Return a filter under the schema, if there is one."""
        return wanted if self.schema is None else wanted.under(self.schema)

    def boxed(self, wanted: Filter) -> Boxed:
        """Return as boxes what `lowered` has returned: that is most of the work, and need not be done twice."""
        outer: list[Box] = []
        inner: list[Box] = []
        is_exact = True
        places = [  # all of them first: a new one can move the labels of others
            [self._add(name, values) for name, values in conjunction] for conjunction in wanted.conjunctions
        ]
        for conjunction, added in zip(wanted.conjunctions, places, strict=True):
            ranges = {number: self.lines[number].ranges(some) for number, some in added}
            if any(not found for found in ranges.values()):
                continue  # nothing that the schema allows
            small = prod(map(len, ranges.values())) <= MAX_BOXES
            outer += _product(ranges if small else _hulls(ranges))
            if not conjunction.has_patterns:
                inner += _product(ranges)
            is_exact = is_exact and small and not conjunction.has_patterns
        return Boxed(tuple(outer), tuple(inner), is_exact)

    def event(self, point: Iterable[int]) -> dict[str, AttributeValue] | None:
        """Return an event at a point of labels; None when no int64 or float64 lies there."""
        found: dict[str, AttributeValue] = {}
        for name, line, label in zip(self.names, self.lines, point, strict=False):
            if line.is_missing(int(label)):
                continue
            numbers = Domain.REAL if self.schema is None else self.schema.number_domain(name)
            value = line.value(int(label), numbers)
            if value is None:
                return None
            found[name] = value
        return found

    def _add(self, name: str, values: ValueSet) -> tuple[int, list[tuple[Place, Place]]]:
        """Return the number of an attribute, and values of it as ranges of places, which have labels now."""
        number = self._number_of.setdefault(name, len(self.lines))
        if number == len(self.lines):
            self.names.append(name)
            self.lines.append(NumberLine.of(name, self.schema))
        return number, self.lines[number].add(values)


def _product(ranges: Mapping[int, list[tuple[int, int]]]) -> list[Box]:
    chosen = islice(product(*ranges.values()), MAX_BOXES)
    return [dict(zip(ranges, ranges_of_box, strict=True)) for ranges_of_box in chosen]


def _hulls(ranges: Mapping[int, list[tuple[int, int]]]) -> dict[int, list[tuple[int, int]]]:
    """Join ranges, those of the attribute with the most first, until the product is small."""
    joined = dict(ranges)
    for attribute in sorted(joined, key=lambda attribute: -len(joined[attribute])):
        if prod(map(len, joined.values())) <= MAX_BOXES:
            break
        joined[attribute] = [(joined[attribute][0][0], joined[attribute][-1][1])]
    return joined


class BoxRows:
    """Boxes of many filters as two arrays, a row per box and a column per attribute, that grow as filters come.

    `generation` counts how often rows that were there have changed: new labels, or an attribute not named before.
    Several may share one space. Which rows are in use is the owner's business.
    """

    def __init__(self, schema: Schema | None = None, space: Space | None = None) -> None:
        self.space = Space(schema) if space is None else space
        self.space.keepers.append(self)
        self.starts = np.zeros((16, 0), np.int64)
        self.ends = np.zeros((16, 0), np.int64)
        self.generation = 0

    def write(self, row: int, box: Box) -> None:
        """Put a box into a row, which is made if it does not exist."""
        self.follow()
        self.starts, self.ends = enlarge(self.starts, row + 1, FIRST), enlarge(self.ends, row + 1, LAST)
        self.starts[row], self.ends[row] = self.array(box)

    def array(self, box: Box) -> tuple[Array, Array]:
        """Return a box as a row of starts and one of ends."""
        start, end = np.full(len(self.space), FIRST, np.int64), np.full(len(self.space), LAST, np.int64)
        for attribute, (low, high) in box.items():
            start[attribute], end[attribute] = low, high
        return start, end

    def follow(self) -> None:
        """Write rows in the labels that places have now; to be called whenever the space has taken in a filter."""
        self.space.settle()
        missing = len(self.space) - self.starts.shape[1]
        if missing:
            new = ((0, 0), (0, missing))
            self.starts = np.pad(self.starts, new, constant_values=FIRST)
            self.ends = np.pad(self.ends, new, constant_values=LAST)
            self.generation += 1

    def relabel(self, attribute: int, old: list[int], new: list[int]) -> None:
        """Write one column in new labels: the old ones in order, and what each of them is now."""
        labels = np.asarray(new)
        for column in (self.starts, self.ends):
            if attribute < column.shape[1]:
                column[:, attribute] = labels[np.searchsorted(old, column[:, attribute])]
        self.generation += 1


def enlarge(array: Array, rows: int, free: float = 0) -> Array:
    """Return an array with so many rows at least, and room for more; new ones are free."""
    missing = rows - len(array)
    if missing <= 0:
        return array
    new = np.full((max(missing, len(array)), *array.shape[1:]), free, array.dtype)
    return np.concatenate([array, new])


def hull(boxes: Iterable[Box]) -> Box:
    """Return the smallest box around some boxes; the whole space around none."""
    boxes = list(boxes)
    if not boxes:
        return {}
    shared = set.intersection(*(set(box) for box in boxes))
    return {
        attribute: (min(box[attribute][0] for box in boxes), max(box[attribute][1] for box in boxes))
        for attribute in shared
    }
