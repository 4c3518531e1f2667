"""The filters of all brokers while subscribers come and go: they grow to let boxes in, and shrink to what is needed.

At every moment each needed box lies in one box of its leaf's filter, and each box of a filter in one box of the filter
above. Shrinking gives each needed box to the smallest box around it and draws the boxes in; filters above follow as far
as anything changed.

Cost: letting in some microseconds per broker, shrinking O(different boxes at the leaf * alpha).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rankcast.arrays import Array
from rankcast.placement.kernels import empty_filters, growths, let_in, measure, used_boxes
from rankcast.placement.problem.boxes import Density
from rankcast.placement.problem.tree import PUBLISHER, BrokerTree
from rankcast.placement.programme.fitting import hulls


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """The filters as they were."""

    boxes: Array
    measures: Array


class LivingFilters:
    """Filters by broker; `needed` boxes are the caller's business."""

    def __init__(self, tree: BrokerTree, most: Array, attributes: int, density: Density) -> None:
        self.tree = tree
        self.most = most
        self.measures = np.zeros(len(tree))
        self._density = density
        self._filters = empty_filters(most, tree.parents, 2 * attributes, density)
        self._children = [tree.children(broker) for broker in range(len(tree))]

    @property
    def traffic(self) -> float:
        """The sum of the measures of all filters."""
        return float(self.measures.sum())

    def of(self, broker: int) -> Array:
        """Return the boxes of a broker's filter; not to be changed."""
        return used_boxes(self._filters, broker)

    def all(self) -> tuple[Array, ...]:
        """Return copies of all filters."""
        return tuple(self.of(broker).copy() for broker in range(len(self.tree)))

    def growths(self, brokers: Array, parts: Array) -> Array:
        """Return how much filters grow to let parts in at each of some leaves."""
        found = np.empty(len(brokers))
        growths(brokers, parts, self._filters, found)
        return found

    def let_in(self, broker: int, parts: Array) -> None:
        """Let parts into the filters from a leaf up."""
        let_in(broker, parts, 0, len(parts), np.inf, self._filters)
        while broker != PUBLISHER:
            self.measures[broker] = self.measure(self.of(broker))
            broker = int(self.tree.parents[broker])

    def measure(self, boxes: Array) -> float:
        """Return the measure of the union of at most as many boxes as filters may have."""
        return measure(boxes, self._density)

    def touches(self, broker: int, parts: Array) -> bool:
        """Whether a box that contains one of the parts could shrink without it."""
        boxes = self.of(broker)
        around = (parts[:, None, :] <= boxes).all(axis=2)
        return bool((around & (parts[:, None, :] == boxes).any(axis=2)).any())

    def shrink(self, broker: int, needed: Array) -> None:
        """Draw a leaf's filter in to the boxes that are needed, and those above it."""
        self.replace(broker, self.drawn_in(broker, needed))

    def replace(self, broker: int, boxes: Array) -> None:
        """Give a leaf another filter that lies within the one above it, and draw those above in."""
        while True:
            if np.array_equal(boxes, self.of(broker)):
                return
            self._set(broker, boxes)
            broker = int(self.tree.parents[broker])
            if broker == PUBLISHER:
                return
            boxes = self.drawn_in(broker, np.concatenate([self.of(child) for child in self._children[broker]]))

    def exchange(self, broker: int, boxes: Array) -> None:
        """Give a leaf any other filter; those above grow where they have to, and are then drawn in."""
        self._set(broker, boxes)
        above = int(self.tree.parents[broker])
        if above == PUBLISHER:
            return
        self.let_in(above, boxes)
        while above != PUBLISHER:
            needed = np.concatenate([self.of(child) for child in self._children[above]])
            self._set(above, self.drawn_in(above, needed))
            above = int(self.tree.parents[above])

    def drawn_in(self, broker: int, needed: Array) -> Array:
        """Return a broker's boxes around needed ones, each in the smallest box that contains it."""
        boxes = self.of(broker)
        if not len(needed):
            return needed
        order = np.argsort([self.measure(box[None]) for box in boxes], kind="stable")
        inside = (needed[:, None, :] <= boxes[order]).all(axis=2)
        return hulls(needed, inside.argmax(axis=1))

    def set_all(self, filters: Sequence[Array]) -> None:
        """Take over the filters of all brokers."""
        for broker, boxes in enumerate(filters):
            self._set(broker, boxes)

    def keep(self) -> Kept:
        """Return the filters as they are, for `restore`."""
        return Kept(self._filters.boxes.copy(), self.measures.copy())

    def restore(self, kept: Kept) -> None:
        """Bring back what was kept."""
        self._filters.boxes[:] = kept.boxes
        self.measures[:] = kept.measures

    def _set(self, broker: int, boxes: Array) -> None:
        self._filters.boxes[broker, : len(boxes)] = boxes
        self._filters.boxes[broker, len(boxes) :] = -np.inf
        self.measures[broker] = self.measure(boxes)
