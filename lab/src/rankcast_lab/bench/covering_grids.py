"""Small random grids on which the exact search is compared with looking at every point.

A case is a tested box and up to ten rows on a grid of five numbers and one to three attributes. Over integers ranges
are closed; over reals each side is open or closed. Every point that could make a difference is looked at: whole
numbers, and over reals the halves between them too. So the comparison needs no labels, tables or searches.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankcast.arrays import Array
from rankcast.covering.group.conflicts import ConflictTable, exact_cover
from rankcast.covering.group.cover import Checking, Union
from rankcast.model.expressions import Constraint, Expression, Operator, all_of
from rankcast.model.filters import Filter
from rankcast.model.schema import Schema
from rankcast.model.values import ValueType

GRID = 5
MOST_ATTRIBUTES = 3
MOST_ROWS = 10
NAMES = ("x", "y", "z")
BUDGET = 10**6
PROBES = 5
"""Few: the search is what is tested."""


@dataclass(frozen=True, slots=True, eq=False)
class GridCase:
    """Ranges with a line per box, the tested one first; `*_open` says which sides do not belong to them."""

    lows: Array
    highs: Array
    lows_open: Array
    highs_open: Array
    reals: bool

    def table(self) -> ConflictTable:
        """Return the conflict table: over reals a label for each number and one for what lies behind it."""
        if not self.reals:
            return ConflictTable.closed(self.lows[0], self.highs[0], self.lows[1:], self.highs[1:])
        starts, ends = 2 * self.lows + self.lows_open, 2 * self.highs + 1 - self.highs_open
        return ConflictTable(starts[0], ends[0], starts[1:], ends[1:])

    def value(self, labels: Array) -> Array:
        """Return the numbers at a point of the table."""
        return labels / 2 if self.reals else labels

    def contains(self, box: int | slice, values: Array) -> Array:
        """Return whether boxes contain values, by attribute: a value for each."""
        above = (values > self.lows[box]) | ((values == self.lows[box]) & ~self.lows_open[box])
        below = (values < self.highs[box]) | ((values == self.highs[box]) & ~self.highs_open[box])
        return np.asarray(above & below)

    def is_covered(self) -> bool:
        """Look at every point of the tested box."""
        covered = np.ones((len(self.lows) - 1,) + (1,) * self.lows.shape[1], np.bool_)
        for attribute in range(self.lows.shape[1]):
            values = np.arange(0, GRID, 0.5 if self.reals else 1)
            lows, highs, lows_open, highs_open = (side[:, [attribute]] for side in self._sides())
            column = GridCase(lows, highs, lows_open, highs_open, self.reals)
            values = values[column.contains(0, values[:, None])[:, 0]]
            inside = column.contains(slice(1, None), values[:, None, None])[:, :, 0].T
            shape = [len(inside)] + [1] * self.lows.shape[1]
            shape[attribute + 1] = len(values)
            covered = covered & inside.reshape(shape)
        return bool(covered.any(axis=0).all())

    def is_witness(self, values: Array) -> bool:
        """Whether a point lies in the tested box and in no row."""
        inside = [bool(box.all()) for box in self.contains(slice(None), values)]
        return inside[0] and not any(inside[1:])

    def filters(self) -> list[Filter]:
        """Return the boxes as filters, the tested one first."""
        return [Filter.of(self._expression(box)) for box in range(len(self.lows))]

    def schema(self) -> Schema:
        """Return a schema in which every event has every attribute."""
        declared = ValueType.FLOAT if self.reals else ValueType.INT
        names = NAMES[: self.lows.shape[1]]
        return Schema(dict.fromkeys(names, declared), required=frozenset(names))

    def _sides(self) -> tuple[Array, Array, Array, Array]:
        return self.lows, self.highs, self.lows_open, self.highs_open

    def _expression(self, box: int) -> Expression:
        parts: list[Expression] = []
        sides = (side[box].tolist() for side in self._sides())
        for name, low, high, low_open, high_open in zip(NAMES, *sides, strict=False):  # names for more attributes
            parts.append(Constraint(name, Operator.GT if low_open else Operator.GE, (low,)))
            parts.append(Constraint(name, Operator.LT if high_open else Operator.LE, (high,)))
        return all_of(*parts)


def random_case(generator: np.random.Generator, *, reals: bool) -> GridCase:
    """Draw a case; half of the ranges of rows take the whole grid, so that unions cover something."""
    shape = (1 + int(generator.integers(MOST_ROWS + 1)), 1 + int(generator.integers(MOST_ATTRIBUTES)))
    ends = np.sort(generator.integers(0, GRID, (2, *shape)), axis=0)
    whole = generator.random(shape) < 0.5
    whole[0] = False
    ends[0][whole], ends[1][whole] = 0, GRID - 1
    is_open = (generator.random((2, *shape)) < 0.5) & (ends[0] < ends[1]) & reals
    return GridCase(ends[0], ends[1], is_open[0], is_open[1], reals)


def wrong_answer(case: GridCase, generator: np.random.Generator) -> str:
    """Return what is wrong with the answer of the exact search, or nothing."""
    found = exact_cover(case.table(), BUDGET, PROBES, generator)
    if found.covered != case.is_covered():
        return f"covered: {found.covered}"
    if found.point is not None and not case.is_witness(case.value(found.point)):
        return f"no witness: {case.value(found.point).tolist()}"
    return "" if found.covered or found.point is not None else found.reason.value


def wrong_answer_for_filters(case: GridCase, generator: np.random.Generator) -> str:
    """Return what is wrong with the answer that filters get, or nothing."""
    tested, *others = case.filters()
    union = Union(case.schema())
    for number, other in enumerate(others):
        union.add(number, other)
    found = union.check(tested, Checking(), generator)
    if found.covered != case.is_covered():
        return f"covered: {found.covered}"
    witness = found.witness
    if found.covered:
        return ""
    if witness is None or not tested.accepts(witness) or any(other.accepts(witness) for other in others):
        return f"no witness: {witness}"
    return ""
