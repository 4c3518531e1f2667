"""Subscriptions of the published group-cover experiments, seeded: a tested box and the boxes that may cover it.

All are conjunctions of ranges of whole numbers from 0 to DOMAIN - 1. A side at the end of the domain is open: the
filter says nothing about it, so a box that takes the whole domain does not name the attribute. Where the paper leaves
something open, the choice made here is the one under which its figures come out:

- redundant covering (1.b): a fifth of the rows are slabs along the first attribute that cover the tested box together;
  each of the others leaves a part open on every attribute with probability 1/2, on one side, and overlaps with at most
  four fifths of the width;
- non-cover (2.b): rows as the redundant ones, but none of them reaches into a gap of the first attribute;
- extreme non-cover (2.c): slabs along the first attribute, cut at uniform places, that cover all but the gap;
- comparison (1-2): each subscription draws as many attributes as there are, with replacement, by a Zipf distribution;
  centres are Pareto, cut off at the end of the domain, widths normal.

`partition` is none of the paper's: a box cut again and again, so that all its parts are needed to cover it.

Paper: probabilistic subsumption checking in content-based publish/subscribe, section 6 and Table 8.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankcast.arrays import Array
from rankcast.model.errors import InvalidValueError
from rankcast.model.expressions import Constant, Constraint, Expression, Operator, all_of
from rankcast.model.filters import Filter
from rankcast.model.schema import Schema
from rankcast.model.values import ValueType

DOMAIN = 1_000_000
FIRST, LAST = DOMAIN // 4, 3 * DOMAIN // 4 - 1
"""The sides of a tested box: rows can reach beyond it."""

COVERING_SHARE = 0.2
LARGEST_OVERLAP = 0.8


@dataclass(frozen=True, slots=True)
class BoxFilters:
    """Boxes as closed ranges: `lows` and `highs` have a line per box and a column per attribute."""

    lows: Array
    highs: Array

    def __len__(self) -> int:
        return len(self.lows)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the attributes."""
        return tuple(f"x{at:02d}" for at in range(1, self.lows.shape[1] + 1))

    def filters(self) -> list[Filter]:
        """Return the boxes as filters."""
        return [self.filter(at) for at in range(len(self))]

    def filter(self, number: int) -> Filter:
        """Return one box as a filter."""
        sides = zip(self.names, self.lows[number].tolist(), self.highs[number].tolist(), strict=True)
        constraints = [made for side in sides if (made := _constraint(*side)) is not None]
        return Filter.of(all_of(*constraints) if constraints else Constant(True))

    def schema(self, *, closed: bool) -> Schema:
        """Return a schema of whole numbers; closed: every event has every attribute."""
        return Schema(dict.fromkeys(self.names, ValueType.INT), required=frozenset(self.names if closed else ()))


@dataclass(frozen=True, slots=True)
class CoverCase:
    """A tested box, the first of `tested`, and the rows that may cover it; `redundant` marks those not needed."""

    tested: BoxFilters
    rows: BoxFilters
    is_covered: bool
    redundant: Array


@dataclass(frozen=True, slots=True)
class Ranges:
    """How the comparison draws ranges: `scale` is that of the Pareto centres, mean and deviation are of widths."""

    scale: float
    mean: float
    deviation: float


NARROW = Ranges(0.05, 0.1, 0.03)
WIDE = Ranges(0.2, 0.3, 0.1)


def pairwise_cover(generator: np.random.Generator, rows: int, attributes: int) -> CoverCase:
    """Scenario 1.a: one row covers the tested box, the others overlap with it."""
    made = _partial(generator, rows, attributes)
    one = int(generator.integers(rows))
    made.lows[one], made.highs[one] = FIRST // 2, (LAST + DOMAIN) // 2
    return CoverCase(_tested(attributes), made, is_covered=True, redundant=np.arange(rows) != one)


def redundant_cover(generator: np.random.Generator, rows: int, attributes: int) -> CoverCase:
    """Scenario 1.b: slabs cover the tested box, four times as many rows are redundant."""
    slabs = max(2, round(COVERING_SHARE * rows))
    made = _partial(generator, rows, attributes)
    _write_slabs(made, slabs, _cuts(generator, slabs, FIRST, LAST + 1))
    return CoverCase(_tested(attributes), made, is_covered=True, redundant=np.arange(rows) >= slabs)


def no_intersection(generator: np.random.Generator, rows: int, attributes: int) -> CoverCase:
    """Scenario 2.a: no row meets the tested box; each lies beside it on one attribute."""
    made = _partial(generator, rows, attributes)
    apart, above = generator.integers(attributes, size=rows), generator.random(rows) < 0.5
    at = np.arange(rows)
    made.lows[at, apart] = np.where(above, LAST + 1 + generator.integers(DOMAIN // 8, size=rows), 0)
    made.highs[at, apart] = np.where(above, DOMAIN - 1, FIRST - 1 - generator.integers(DOMAIN // 8, size=rows))
    return CoverCase(_tested(attributes), made, is_covered=False, redundant=np.ones(rows, np.bool_))


def non_cover(generator: np.random.Generator, rows: int, attributes: int) -> CoverCase:
    """Scenario 2.b: no row reaches into a gap of random size and place along the first attribute."""
    made = _partial(generator, rows, attributes)
    gap = np.sort(generator.integers(FIRST + 1, LAST, size=2))
    below = generator.random(rows) < 0.5
    made.lows[:, 0] = np.where(below, 0, generator.integers(gap[1] + 1, LAST + 1, size=rows))
    made.highs[:, 0] = np.where(below, generator.integers(FIRST, gap[0], size=rows), DOMAIN - 1)
    return CoverCase(_tested(attributes), made, is_covered=False, redundant=np.ones(rows, np.bool_))


def extreme_non_cover(generator: np.random.Generator, rows: int, attributes: int, gap: float) -> CoverCase:
    """Scenario 2.c: slabs cover the tested box but for a gap of this share of its width."""
    if not 0 < gap < 1:
        raise InvalidValueError(f"gap: {gap} is not a share between 0 and 1")
    width = round(gap * (LAST + 1 - FIRST))
    cuts = _cuts(generator, rows, FIRST, LAST + 1 - width)
    made = BoxFilters(np.zeros((rows, attributes), np.int64), np.full((rows, attributes), DOMAIN - 1, np.int64))
    _write_slabs(made, rows, cuts)
    # Everything from one of the cuts on moves up by the gap; at the first and the last one it would be at an end.
    behind = int(generator.integers(1, rows))
    made.lows[behind:, 0] += width
    made.highs[behind : rows - 1, 0] += width
    return CoverCase(_tested(attributes), made, is_covered=False, redundant=np.ones(rows, np.bool_))


def partition(generator: np.random.Generator, rows: int, attributes: int) -> CoverCase:
    """Cut the tested box, again and again a random part of it along a random attribute: all parts are needed."""
    lows = np.full((rows, attributes), FIRST, np.int64)
    highs = np.full((rows, attributes), LAST, np.int64)
    for made in range(1, rows):
        cut = int(generator.integers(made))
        along = int(generator.integers(attributes))
        low, high = int(lows[cut, along]), int(highs[cut, along])
        place = low + 1 + round((high - low - 1) * generator.uniform(0.3, 0.7))
        lows[made], highs[made] = lows[cut], highs[cut]
        highs[cut, along], lows[made, along] = place - 1, place
    return CoverCase(_tested(attributes), BoxFilters(lows, highs), is_covered=True, redundant=np.zeros(rows, np.bool_))


def comparison(
    generator: np.random.Generator, subscriptions: int, attributes: int, ranges: Ranges, skew: float = 2.0
) -> BoxFilters:
    """Draw the subscriptions of the comparison."""
    popularity = np.arange(1, attributes + 1) ** -skew
    chosen = np.zeros((subscriptions, attributes), np.bool_)
    drawn = generator.choice(attributes, (subscriptions, attributes), p=popularity / popularity.sum())
    np.put_along_axis(chosen, drawn, values=True, axis=1)
    # A Pareto variable under the condition that it is at most 1, by its inverse distribution function, moved to [0, 1].
    scale = ranges.scale
    centres = (scale / (1 - generator.random(chosen.shape) * (1 - scale)) - scale) / (1 - scale)
    widths = np.maximum(np.abs(generator.normal(ranges.mean, ranges.deviation, chosen.shape)), 1e-4)
    lows = np.clip(((centres - widths / 2) * DOMAIN).astype(np.int64), 0, DOMAIN - 1)
    highs = np.clip(((centres + widths / 2) * DOMAIN).astype(np.int64), 0, DOMAIN - 1)
    return BoxFilters(np.where(chosen, lows, 0), np.where(chosen, highs, DOMAIN - 1))


def _constraint(name: str, low: int, high: int) -> Expression | None:
    if low <= 0:
        return Constraint(name, Operator.LE, (high,)) if high < DOMAIN - 1 else None
    if high >= DOMAIN - 1:
        return Constraint(name, Operator.GE, (low,))
    return Constraint(name, Operator.BETWEEN, (low, high))


def _tested(attributes: int) -> BoxFilters:
    return BoxFilters(np.full((1, attributes), FIRST), np.full((1, attributes), LAST))


def _partial(generator: np.random.Generator, rows: int, attributes: int) -> BoxFilters:
    """Draw rows that leave, on about half of the attributes, a part of the tested box open on one side."""
    partial = generator.random((rows, attributes)) < 0.5
    partial[np.arange(rows), generator.integers(attributes, size=rows)] = True
    width = LAST + 1 - FIRST
    covered = (generator.random(partial.shape) * LARGEST_OVERLAP * width).astype(np.int64)
    above = generator.random(partial.shape) < 0.5
    lows = np.where(partial & above, LAST - covered, 0)
    highs = np.where(partial & ~above, FIRST + covered, DOMAIN - 1)
    return BoxFilters(lows, highs)


def _cuts(generator: np.random.Generator, parts: int, first: int, behind: int) -> Array:
    """Return the inner sides of so many parts of a range."""
    return first + 1 + np.sort(generator.choice(behind - first - 1, parts - 1, replace=False))


def _write_slabs(made: BoxFilters, slabs: int, cuts: Array) -> None:
    made.lows[:slabs], made.highs[:slabs] = 0, DOMAIN - 1
    made.lows[1:slabs, 0] = cuts
    made.highs[: slabs - 1, 0] = cuts - 1
