"""Boxes of many filters as two arrays, a row per box and a column per attribute, that grow as filters come."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from rankcast.arrays import Array
from rankcast.covering.boxes import Box, Space
from rankcast.covering.lines import FIRST, LAST
from rankcast.model.schema import Schema


class BoxRows:
    """Rows of boxes in a space of attributes; which rows are in use is the owner's business.

    `generation` counts how often rows that were there have changed: new labels, or an attribute not named before.
    Several may share one space.
    """

    def __init__(self, schema: Schema | None = None, space: Space | None = None) -> None:
        self.space = Space(schema) if space is None else space
        self.space.keepers.append(self)
        self.starts = np.zeros((16, 0), np.int64)
        self.ends = np.zeros((16, 0), np.int64)
        self.generation = 0

    @property
    def room(self) -> int:
        """How many rows there are."""
        return len(self.starts)

    def write(self, row: int, box: Box) -> None:
        """Put a box into a row, which is made if it does not exist."""
        self.follow()
        if row >= self.room or len(self.space) > self.starts.shape[1]:
            self._grow(row)
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
        if len(self.space) > self.starts.shape[1]:
            self._grow(0)

    def relabel(self, attribute: int, old: list[int], new: list[int]) -> None:
        """Write one column in new labels."""
        labels = np.asarray(new)
        for column in (self.starts, self.ends):
            if attribute < column.shape[1]:
                column[:, attribute] = labels[np.searchsorted(old, column[:, attribute])]
        self.generation += 1

    def _grow(self, row: int) -> None:
        self.generation += len(self.space) > self.starts.shape[1]
        rows = max(self.room, 2 * row if row >= self.room else 0)
        self.starts = _grown(self.starts, rows, len(self.space), FIRST)
        self.ends = _grown(self.ends, rows, len(self.space), LAST)


def _grown(array: Array, rows: int, attributes: int, free: int) -> Array:
    grown = np.full((rows, attributes), free, np.int64)
    grown[: array.shape[0], : array.shape[1]] = array
    return grown


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
