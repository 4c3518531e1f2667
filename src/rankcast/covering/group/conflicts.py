"""The conflict table of a box and many others: the paper's corollaries, its minimised set, its random answer.

A table compares one tested box with rows, boxes that may cover it together. Boxes are half-open ranges [start, end) of
integers, one per attribute, whatever the integers stand for: whole numbers themselves, or labels of places as in
`lines`. An entry of a row is a side on which it leaves a part of the tested box open, `x < start` or `x >= end`; the
tested box is covered exactly when no choice of one entry per row can hold together. Two entries conflict when they say
`x < a` and `x >= b` with a <= b. For closed ranges of integers that is a - b <= 1, as it has to be.

By name:

- `covering_row`: Corollary 1, a row without entries covers the tested box alone;
- `covered_rows`: Corollary 2, a row with all its entries lies in the tested box;
- `has_open_part`: Corollary 3, rows with so many entries that they cannot cover it together;
- `minimised_cover_set`: the paper's MCS, O(m k) a round for k rows of m attributes. Its rule "as many entries as there
  are rows" finds all that Corollary 3 does, and more;
- `quick_decision`: what these settle without looking at points;
- `random_cover`: the paper's RSPC. A "no" is certain; a "yes" is wrong with a probability of at most delta, provided
  that the open share of the box is not overestimated: `Estimate.SOUND` never does, `Estimate.PRINTED` often;
- `exact_cover`: random points, then the exact search with a budget of work.

A "no" has a point outside all rows, also outside those that the minimised set left out.

Paper: probabilistic subsumption checking in content-based publish/subscribe, sections 3 and 4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

import numpy as np

from rankcast.arrays import Array
from rankcast.covering.group.exact_search import (
    COVERED,
    NOT_COVERED,
    escape,
    minimised,
    printed_share,
    probe,
    search,
    sound_share,
)
from rankcast.model.errors import InvalidValueError

CHUNK = 10_000
"""Random points made at a time."""

MOST_POINTS = 1_000_000
"""Points of one random answer; past that it says "not covered", which is always safe."""


class CoverReason(Enum):
    """What settled an answer."""

    ONE_COVERS = "one covers it"
    ROWS_LEFT = "no rows are left that could cover it together"
    WITNESS = "a point outside all others was found"
    SEARCHED = "the exact search"
    POINTS = "no random point was outside all others"
    NOT_ASKED = "pairwise: only single covers count"
    EXHAUSTED = "the work allowed was used up"
    UNPROVEN = "string patterns or very many alternatives leave it open"
    EMPTY = "no event can match it"


class Estimate(Enum):
    """How the share of the tested box that is open, if any is, is estimated from below."""

    SOUND = "sound"
    PRINTED = "printed"


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether a box is covered, what settled it, and the proof: the rows of a "yes", the point of a "no".

    A "no" has no point when only want of work or of an allowed question is behind it.
    """

    covered: bool
    reason: CoverReason
    rows: tuple[int, ...] = ()
    point: Array | None = None
    work: int = 0
    points: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class ConflictTable:
    """A tested box and its rows: starts and ends by attribute, and the same with a line per row."""

    start: Array
    end: Array
    starts: Array
    ends: Array

    def __post_init__(self) -> None:
        shapes = {self.start.shape, self.end.shape, self.starts.shape[1:], self.ends.shape[1:]}
        if len(shapes) != 1 or self.starts.shape != self.ends.shape:
            raise InvalidValueError("a conflict table: box and rows have different numbers of attributes")

    @staticmethod
    def closed(lows: Array, highs: Array, row_lows: Array, row_highs: Array) -> ConflictTable:
        """Make the table of closed ranges of whole numbers: `low <= x <= high`."""
        sides = (np.ascontiguousarray(side, np.int64) for side in (lows, highs + 1, row_lows, row_highs + 1))
        return ConflictTable(*sides)

    def __len__(self) -> int:
        return len(self.starts)

    def is_open(self) -> tuple[Array, Array]:
        """Return the entries, by row and attribute: whether `x < start` leaves a part open, whether `x >= end` does."""
        return self.starts > self.start, self.ends < self.end

    def counts(self) -> Array:
        """Return the number of entries of each row."""
        below, above = self.is_open()
        return np.asarray(below.sum(axis=1) + above.sum(axis=1))

    def in_cells(self) -> tuple[ConflictTable, list[Array]]:
        """Return the same table with sides counted in cells between neighbouring ones, and the starts of the cells."""
        sides = np.concatenate([self.start[None], self.end[None], self.starts, self.ends]).clip(self.start, self.end)
        known = [np.unique(column) for column in sides.T]
        cells = np.empty_like(sides)
        for attribute, found in enumerate(known):
            cells[:, attribute] = np.searchsorted(found, sides[:, attribute])
        rows = 2 + len(self)
        return ConflictTable(cells[0], cells[1], cells[2:rows], cells[rows:]), known


@dataclass(frozen=True, slots=True, eq=False)
class MinimisedRows:
    """The rows of a table, those that are left first; behind them those that were dropped, the latest first."""

    order: Array
    left: int

    @property
    def kept(self) -> Array:
        """The rows that cover the tested box exactly when all do."""
        return self.order[: self.left]


def covering_row(table: ConflictTable) -> int | None:
    """Return the first row that covers the tested box alone, or None (Corollary 1)."""
    found = np.flatnonzero(table.counts() == 0)
    return int(found[0]) if len(found) else None


def covered_rows(table: ConflictTable) -> Array:
    """Return the rows with all of their entries: the tested box covers each of them (Corollary 2)."""
    return np.flatnonzero(table.counts() == 2 * len(table.start))


def has_open_part(table: ConflictTable) -> bool:
    """Whether the j-th of the rows, sorted by their entries, has at least j of them: then a part is open (Corollary 3).

    An entry conflicts with at most one of each other row's, so some are left however one chooses.
    """
    return bool((np.sort(table.counts()) > np.arange(len(table))).all())


def minimised_cover_set(table: ConflictTable) -> MinimisedRows:
    """Drop rows that cannot matter: with an entry that nothing conflicts with, or with as many as there are rows."""
    order = np.arange(len(table))
    left = minimised(table.start, table.end, table.starts, table.ends, order, np.zeros_like(order), len(order))
    return MinimisedRows(order, int(left))


def quick_decision(table: ConflictTable, rows: MinimisedRows | None = None) -> Decision | None:
    """Decide by Corollary 1 and by the minimised set, which includes Corollary 3; None when they leave it open."""
    one = covering_row(table)
    if one is not None:
        return Decision(True, CoverReason.ONE_COVERS, (one,))
    return _decide_by_rows(table, minimised_cover_set(table) if rows is None else rows)


def _decide_by_rows(table: ConflictTable, rows: MinimisedRows) -> Decision | None:
    if rows.left:
        return None
    return Decision(False, CoverReason.ROWS_LEFT, point=_outside(table, rows, table.start.copy()))


def open_share(table: ConflictTable, rows: Array, estimate: Estimate = Estimate.SOUND) -> float:
    """Return the natural logarithm of the estimated share of the tested box that is open, if any is."""
    share = sound_share if estimate is Estimate.SOUND else printed_share
    return float(share(table.start, table.end, table.starts, table.ends, rows))


def points_needed(log_share: float, delta: float) -> float:
    """Return how many random points miss an open share of this logarithm with probability delta.

    >>> round(points_needed(math.log(0.01), 1e-6))
    1375
    """
    if not 0 < delta < 1:
        raise InvalidValueError(f"delta: {delta} is not a probability between 0 and 1")
    if log_share >= 0:
        return 1.0
    share = math.exp(log_share)
    # Below that, log1p(-share) is -share to the last digit, and the share itself may be too small for a number.
    return math.log(delta) / math.log1p(-share) if share > 1e-12 else _exp(math.log(-math.log(delta)) - log_share)


def random_cover(
    table: ConflictTable,
    delta: float,
    generator: np.random.Generator,
    estimate: Estimate = Estimate.SOUND,
    rows: MinimisedRows | None = None,
    most: float = MOST_POINTS,
) -> Decision:
    """Decide by as many random points as the paper asks for, against the minimised rows or those given."""
    rows = minimised_cover_set(table) if rows is None else rows
    if decided := _decide_by_rows(table, rows):
        return decided
    wanted = points_needed(open_share(table, rows.kept, estimate), delta)
    if wanted > most:
        return Decision(False, CoverReason.EXHAUSTED)
    tried = 0
    while tried < wanted:
        point, more = _probed(table, rows, generator, min(CHUNK, math.ceil(wanted) - tried))
        tried += more
        if point is not None:
            return Decision(False, CoverReason.WITNESS, point=point, points=tried)
    return Decision(True, CoverReason.POINTS, tuple(rows.kept.tolist()), points=tried)


def exact_cover(
    table: ConflictTable,
    budget: int,
    probes: int,
    generator: np.random.Generator,
    rows: MinimisedRows | None = None,
) -> Decision:
    """Decide by some random points, which can only say no, and the exact search, which is never wrong.

    A budget that is used up makes it a "no" without a point.
    """
    rows = minimised_cover_set(table) if rows is None else rows
    if decided := _decide_by_rows(table, rows):
        return decided
    point, tried = _probed(table, rows, generator, probes)
    if point is not None:
        return Decision(False, CoverReason.WITNESS, point=point, points=tried)
    found = np.empty(len(table.start), np.int64)
    used = np.zeros(len(table), np.uint8)
    verdict, work = search(table.start, table.end, table.starts, table.ends, rows.kept, budget, found, used)
    if verdict == COVERED:
        return Decision(True, CoverReason.SEARCHED, tuple(np.flatnonzero(used).tolist()), work=work, points=tried)
    if verdict == NOT_COVERED:
        return Decision(False, CoverReason.SEARCHED, point=_outside(table, rows, found), work=work, points=tried)
    return Decision(False, CoverReason.EXHAUSTED, work=work, points=tried)


def _probed(
    table: ConflictTable, rows: MinimisedRows, generator: np.random.Generator, count: int
) -> tuple[Array | None, int]:
    """Try random points: one outside all rows, if there was one, and how many were tried."""
    point = np.empty(len(table.start), np.int64)
    shares = generator.random((count, len(table.start)))
    at = probe(table.start, table.end, table.starts, table.ends, rows.kept, shares, point)
    return (None, count) if at < 0 else (_outside(table, rows, point), int(at) + 1)


def _outside(table: ConflictTable, rows: MinimisedRows, point: Array) -> Array:
    """Move a point outside the rows that are left outside all rows."""
    escape(table.start.copy(), table.end.copy(), table.starts, table.ends, rows.order, rows.left, point)
    return point


def _exp(power: float) -> float:
    return math.exp(power) if power < 700 else math.inf
