"""What subscribers are interested in: unions of boxes over the attributes of the event space.

Many subscribers share an interest, so the different interests are kept once, each as a few boxes, its *parts*. A broker
serves a subscriber when each part lies in one of the boxes of the broker's filter.

Filters become boxes by `of_filters`: a box per alternative and per range of the named attributes. What a filter says of
other attributes is left out, so that the boxes let through all that the filter matches, and perhaps more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from rankcast.arrays import Array, take_lists
from rankcast.model.errors import InvalidValueError
from rankcast.model.filters import Conjunction, Filter
from rankcast.model.valuesets.intervals import END, START
from rankcast.placement.problem.boxes import sides_of

Range: TypeAlias = tuple[float, float]

MAX_PARTS = 64
"""Boxes of one interest. Beyond that ranges of an attribute are joined, which only makes the interest larger."""


@dataclass(frozen=True, slots=True, eq=False)
class Interests:
    """The different interests: number i has the parts `sides[offsets[i] : offsets[i + 1]]`, rows of sides."""

    offsets: Array
    sides: Array

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def attributes(self) -> int:
        """How many attributes the event space has."""
        return int(self.sides.shape[1] // 2)

    def parts(self, interest: int) -> Array:
        """Return the boxes of an interest."""
        found: Array = self.sides[self.offsets[interest] : self.offsets[interest + 1]]
        return found

    def taken(self, numbers: Array) -> Interests:
        """Return the interests with these numbers, in their order."""
        offsets, rows = take_lists(self.offsets, numbers)
        return Interests(offsets, self.sides[rows])

    @property
    def hulls(self) -> Array:
        """The smallest box around each interest."""
        found: Array = np.maximum.reduceat(self.sides, self.offsets[:-1], axis=0)
        return found

    @staticmethod
    def of_boxes(low: ArrayLike, high: ArrayLike, offsets: ArrayLike | None = None) -> Interests:
        """Return interests of a box each, or of several where `offsets` say which rows belong together."""
        sides = sides_of(low, high)
        starts = np.arange(len(sides) + 1) if offsets is None else np.asarray(offsets)
        if starts.ndim != 1 or len(starts) < 2 or starts[0] != 0 or starts[-1] != len(sides):
            raise InvalidValueError(f"offsets: expected numbers from 0 to {len(sides):,}, one more than interests")
        if (np.diff(starts) < 1).any():
            at = int(np.flatnonzero(np.diff(starts) < 1)[0])
            raise InvalidValueError(f"offsets: interest {at} has no box; expected at least one")
        return Interests(starts.astype(np.int64), sides)

    @staticmethod
    def of_filters(filters: Iterable[Filter], attributes: Mapping[str, Range]) -> Interests:
        """Return the interests of filters over numeric attributes, each with the lowest and highest value it has."""
        low: list[list[float]] = []
        high: list[list[float]] = []
        offsets = [0]
        for number, wanted in enumerate(filters):
            parts = parts_within(wanted, attributes)
            if not parts:
                raise InvalidValueError(f"filter {number}: matches nothing within {dict(attributes)}; expected a box")
            for box in parts:
                low.append([start for start, _ in box])
                high.append([end for _, end in box])
            offsets.append(len(low))
        return Interests.of_boxes(low, high, offsets)


def parts_within(wanted: Filter, attributes: Mapping[str, Range]) -> list[tuple[Range, ...]]:
    """Return the boxes of a filter over numeric attributes, a range for each; none when it matches nothing there."""
    ranges = ([_ranges(found, name, *ends) for name, ends in attributes.items()] for found in wanted.conjunctions)
    return list(dict.fromkeys(box for own in ranges for box in boxes_of_ranges(own)))


def boxes_of_ranges(ranges: Sequence[Sequence[Range]]) -> Iterator[tuple[Range, ...]]:
    """Return the boxes with one of the ranges of each attribute; where they are too many, around ranges joined."""
    if prod(map(len, ranges)) > MAX_PARTS:
        ranges = [[(own[0][0], own[-1][1])] for own in ranges]
    return product(*ranges)


def _ranges(found: Conjunction, name: str, lowest: float, highest: float) -> list[Range]:
    """Return the ranges of one attribute, closed: an end that is not part of a range adds nothing to its volume."""
    if name not in found.attributes:
        return [(lowest, highest)]
    ranges = []
    for start, end in found.get(name).numbers.pieces():
        low = lowest if start == START else max(lowest, float(start[1]))
        high = highest if end == END else min(highest, float(end[1]))
        if low <= high:
            ranges.append((low, high))
    return ranges
