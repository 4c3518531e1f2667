"""The relation of one filter to many, in bulk: what `relation` says of each pair, by kernels over their boxes.

Filters that are one box each are decided by comparing labels, some nanoseconds a pair. When the one is a union of
boxes, each of its boxes is compared with the others, and a pair is left open only where two boxes of the one meet the
other and neither contains it. Of others with disjunctions, and of string patterns, only the hull is compared, which
proves that two are disjoint. What is left open is decided pair by pair.

>>> from rankcast.language.parser import parse_filter
>>> table = RelationTable()
>>> for number, text in enumerate(["rent < 900", "rent < 500", "rent > 1000"]):
...     table.add(number, parse_filter(text))
>>> for number, found in table.relations(parse_filter("rent between 400 and 800")).items():
...     print(number, found.value)
0 covered
1 overlaps
2 disjoint
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rankcast.arrays import Array
from rankcast.covering.boxes import Box, hull
from rankcast.covering.relation import Relation, relation
from rankcast.covering.topk.order import BoxColumns, Order
from rankcast.model.filters import Filter
from rankcast.model.schema import Schema
from rankcast_lab.engines.kernels_relations import CONTAINED, CONTAINS, MEETS, relate_boxes

RELATIONS = tuple(Relation)
"""The relations by their codes."""

_CODE = {one: code for code, one in enumerate(RELATIONS)}
_CODE_OF_BOXES = np.full(8, _CODE[Relation.DISJOINT], np.uint8)
_CODE_OF_BOXES[MEETS] = _CODE[Relation.OVERLAPS]
_CODE_OF_BOXES[MEETS | CONTAINS] = _CODE[Relation.COVERS]
_CODE_OF_BOXES[MEETS | CONTAINED] = _CODE[Relation.COVERED]
_CODE_OF_BOXES[MEETS | CONTAINS | CONTAINED] = _CODE[Relation.EQUAL]


class RelationTable:
    """Numbered filters that others are compared with."""

    def __init__(self, schema: Schema | None = None) -> None:
        self._order = Order(schema=schema)
        self._all = BoxColumns(self._order)

    def __len__(self) -> int:
        return len(self._order)

    @property
    def numbers(self) -> Array:
        """The numbers, in the order in which `codes` speaks of them."""
        return self._all.numbers.copy()

    def add(self, number: int, wanted: Filter) -> None:
        """Put a filter in."""
        self._order.add(number, wanted)
        self._all.add(number)

    def remove(self, number: int) -> None:
        """Take a filter out."""
        self._order.remove(number)
        self._all.remove(number)

    def relations(self, wanted: Filter) -> dict[int, Relation]:
        """Return how a filter relates to each of the others."""
        codes = self.codes(wanted).tolist()
        return {number: RELATIONS[code] for number, code in zip(self._all.numbers.tolist(), codes, strict=True)}

    def codes(self, wanted: Filter) -> Array:
        """Return the same as codes of `RELATIONS`, in the order of `numbers`."""
        space = self._order.boxes.space
        lowered = space.lowered(wanted)
        boxed = space.boxed(lowered)
        self._order.boxes.follow()
        is_union = boxed.is_exact and len(boxed.outer) > 0
        found, is_open = self._found(boxed.outer if is_union else (hull(boxed.outer),))
        codes = _CODE_OF_BOXES[found]
        is_open |= self._order.partial[self._all.numbers] | (not is_union)
        for at in np.flatnonzero(is_open & (codes != _CODE[Relation.DISJOINT])).tolist():
            codes[at] = _CODE[relation(lowered, self._order.filter(int(self._all.numbers[at])))]
        return codes

    def _found(self, boxes: Sequence[Box]) -> tuple[Array, Array]:
        """Return what is found of a union of boxes and each other box, and where that leaves the relation open."""
        count = len(self._all)
        contains, contained = np.zeros(count, np.uint8), np.full(count, CONTAINED, np.uint8)
        meeting = np.zeros(count, np.int64)
        one = np.empty(count, np.uint8)
        for box in boxes:
            relate_boxes(*self._order.boxes.array(box), *self._all.columns, count, one)
            contains |= one & CONTAINS
            contained &= one & CONTAINED
            meeting += (one & MEETS) > 0
        found = contains | contained | np.where(meeting > 0, np.uint8(MEETS), np.uint8(0))
        return np.where(meeting > 0, found, np.uint8(0)), (meeting > 1) & (contains == 0)
