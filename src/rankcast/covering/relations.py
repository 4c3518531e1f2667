"""The relation of one filter to many, in bulk: what `relation` says of each pair, by kernels over their boxes.

Filters that are one box each are decided by comparing labels, some nanoseconds a pair. Of those with disjunctions or
string patterns only the hull is compared, which proves that two are disjoint; what it leaves open is decided pair by
pair.

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

from typing import Any, TypeAlias

import numpy as np

from rankcast.covering.kernels_relations import CONTAINED, CONTAINS, MEETS, relate_boxes
from rankcast.covering.order import Group, Order
from rankcast.covering.relation import Relation, relation
from rankcast.covering.rows import hull
from rankcast.model.filters import Filter
from rankcast.model.schema import Schema

Array: TypeAlias = np.ndarray[Any, Any]

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
        self._all = Group(self._order)

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
        boxed = space.boxed_as_lowered(lowered)
        self._order.boxes.follow()
        found = np.empty(len(self._all), np.uint8)
        relate_boxes(*self._order.boxes.array(hull(boxed.outer)), *self._all.columns, len(self._all), found)
        codes = _CODE_OF_BOXES[found]
        partial = self._order.partial[self._all.numbers]
        if not boxed.is_exact or len(boxed.outer) != 1:
            partial = np.ones(len(partial), np.bool_)
        for at in np.flatnonzero(partial & (codes != _CODE[Relation.DISJOINT])).tolist():
            codes[at] = _CODE[relation(lowered, self._order.filter(int(self._all.numbers[at])))]
        return codes
