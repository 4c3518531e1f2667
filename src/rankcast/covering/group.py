"""Group cover: is a filter contained in the union of others, none of which need contain it alone?

Three strategies answer:

- PAIRWISE asks only whether one of them contains it.
- EXACT, the default, goes on: the rows that meet it, minimised; some random points, which can only say no; then the
  exact search with a budget of work. When the budget runs out the filter counts as not covered: that may cost traffic,
  but never a notification.
- PROBABILISTIC is the paper's: minimised rows, then so many random points that a wrong "covered" has at most the
  probability `delta`, provided the share of uncovered points is estimated well. The printed estimate is not a bound, so
  "covered" is wrong far more often than delta says; the sound one is the default here, and needs many more points.

A "no" comes with a witness, an event that the filter accepts and no other does, unless it is for want of budget. A
"yes" comes with its support: the numbers of those that together contain the filter.

Attributes may be missing from events: y <= 5 and y > 5 together do not cover a filter that says nothing of y, unless a
schema declares y required. String patterns, sets, exclusions and disjunctions take part as boxes (see `boxes`).

Paper: probabilistic subsumption checking in content-based publish/subscribe; docs/semantics.md has the corrections.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, TypeAlias

import numpy as np

from rankcast.covering.boxes import Box, Boxed, Space
from rankcast.covering.kernels_probes import printed_share, probe, sound_share
from rankcast.covering.kernels_search import COVERED, NOT_COVERED, escape, minimised, relations, search
from rankcast.covering.rows import BoxRows
from rankcast.model.errors import DuplicateIdError, InvalidValueError, UnknownIdError
from rankcast.model.filters import Filter
from rankcast.model.schema import Schema
from rankcast.model.values import Value

Array: TypeAlias = np.ndarray[Any, Any]

BUDGET = 100_000
"""Rows that one search may look at: decided every check of the paper's comparison workload."""

PROBES = 100

CHUNK = 10_000
"""Random points made at a time."""

MOST_POINTS = 1_000_000
"""Points of one probabilistic check; past that it says "not covered", which is always safe."""


class Strategy(Enum):
    """How group cover is decided."""

    PAIRWISE = "pairwise"
    EXACT = "exact"
    PROBABILISTIC = "probabilistic"


class Reason(Enum):
    """What settled an answer."""

    ONE_COVERS = "one covers it"
    ROWS_LEFT = "no rows are left that could cover it together"
    WITNESS = "a point outside all others was found"
    SEARCHED = "the exact search"
    POINTS = "no random point was outside all others"
    NOT_ASKED = "pairwise: only single covers count"
    EXHAUSTED = "the work allowed was used up"


@dataclass(frozen=True, slots=True)
class Answer:
    """Whether a filter is covered, what settled it, and the proof either way.

    `support` are numbers whose filters together cover it; `witness` is an event that only it accepts. `work` counts
    rows looked at by the search, and `points` the random points tried.
    """

    covered: bool
    reason: Reason
    support: tuple[int, ...] = ()
    witness: dict[str, Value] | None = None
    work: int = 0
    points: int = 0


@dataclass(frozen=True, slots=True)
class Checking:
    """How to check: the strategy and its limits.

    `printed_bound` uses the paper's estimate of the share of uncovered points instead of a sound one.
    """

    strategy: Strategy = Strategy.EXACT
    budget: int = BUDGET
    probes: int = PROBES
    delta: float = 1e-6
    printed_bound: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.delta < 1:
            raise InvalidValueError(f"delta: {self.delta} is not a probability between 0 and 1")
        if self.budget < 0 or self.probes < 0:
            raise InvalidValueError(f"budget {self.budget} and probes {self.probes}: expected numbers of at least 0")


class Union:
    """Numbered filters whose union may cover others."""

    def __init__(self, schema: Schema | None = None, space: Space | None = None) -> None:
        self.boxes = BoxRows(schema, space)
        self._rows: dict[int, list[int]] = {}
        self._owner = np.zeros(16, np.int64)
        self._free: list[int] = []
        self._used = 0
        self._in_use = np.zeros(16, np.bool_)

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, number: int) -> bool:
        return number in self._rows

    def add(self, number: int, wanted: Filter) -> None:
        """Take a filter in: the part of it that boxes can express."""
        self.add_boxed(number, self.boxes.space.boxed(wanted))

    def add_boxed(self, number: int, boxed: Boxed) -> None:
        """Take in a filter whose boxes the space has just made."""
        if number in self._rows:
            raise DuplicateIdError(f"there is a filter {number} in the union already")
        rows: list[int] = []
        for box in boxed.inner:
            row = self._free.pop() if self._free else self._next_row()
            self.boxes.write(row, box)
            self._make_room()
            self._owner[row], self._in_use[row] = number, True
            rows.append(row)
        self._rows[number] = rows

    def remove(self, number: int) -> None:
        """Forget a filter."""
        if number not in self._rows:
            raise UnknownIdError(f"there is no filter {number} in the union")
        rows = self._rows.pop(number)
        self._in_use[rows] = False
        self._free += rows

    def check(self, wanted: Filter, checking: Checking, points: np.random.Generator) -> Answer:
        """Return whether a filter is covered by the union."""
        return self.check_boxed(self.boxes.space.boxed(wanted), checking, points)

    def check_boxed(self, boxed: Boxed, checking: Checking, points: np.random.Generator) -> Answer:
        """Return whether a filter is covered whose boxes the space has just made."""
        self.boxes.follow()
        parts = [self._check_box(box, checking, points) for box in boxed.outer]
        for part in parts:
            if not part.covered:
                return part
        support = sorted({number for part in parts for number in part.support})
        reason = parts[0].reason if len(parts) == 1 else Reason.SEARCHED
        work, tried = sum(part.work for part in parts), sum(part.points for part in parts)
        return Answer(True, reason, tuple(support), work=work, points=tried)

    def _check_box(self, box: Box, checking: Checking, points: np.random.Generator) -> Answer:
        start, end = self.boxes.array(box)
        rows = np.flatnonzero(self._in_use[: self._used])
        codes = np.zeros(len(rows), np.uint8)
        relations(start, end, self.boxes.starts, self.boxes.ends, rows, len(rows), codes)
        one = np.flatnonzero(codes & 1)
        if len(one):
            return Answer(True, Reason.ONE_COVERS, (int(self._owner[rows[one[0]]]),))
        if checking.strategy is Strategy.PAIRWISE:
            return Answer(False, Reason.NOT_ASKED)
        meeting = rows[codes != 0]
        starts, ends = self.boxes.starts[meeting], self.boxes.ends[meeting]
        attributes = np.flatnonzero(((starts > start) | (ends < end)).any(axis=0))
        table = _Table.of(*(np.ascontiguousarray(side[..., attributes]) for side in (start, end, starts, ends)))
        labels: list[Array] | None = None
        if checking.strategy is Strategy.PROBABILISTIC:
            table, labels = table.in_cells()
            found = table.probabilistic(checking, points)
        else:
            found = table.exact(checking, points)
        if found.covered:
            owners = {int(self._owner[meeting[row]]) for row in found.support}
            return replace(found, support=tuple(sorted(owners)))
        if table.point is None:
            return found
        start[attributes] = (
            table.point if labels is None else [known[at] for known, at in zip(labels, table.point, strict=True)]
        )
        return replace(found, witness=self.boxes.space.event(start))

    def _next_row(self) -> int:
        self._used += 1
        return self._used - 1

    def _make_room(self) -> None:
        missing = self.boxes.room - len(self._owner)
        if missing > 0:
            self._owner = np.concatenate([self._owner, np.zeros(missing, np.int64)])
            self._in_use = np.concatenate([self._in_use, np.zeros(missing, np.bool_)])


@dataclass(slots=True)
class _Table:
    """The conflict table of a box: the rows that meet it, on the attributes where one of them leaves a part open.

    It is minimised: the first `left` of `rows` cover the box exactly when all do. `point` is a point outside all rows,
    once one is known.
    """

    start: Array
    end: Array
    starts: Array
    ends: Array
    rows: Array
    left: int
    point: Array | None = None

    @staticmethod
    def of(start: Array, end: Array, starts: Array, ends: Array) -> _Table:
        """Make the table of a box and the rows that meet it."""
        rows, sizes = np.arange(len(starts)), np.zeros(len(starts), np.int64)
        return _Table(start, end, starts, ends, rows, minimised(start, end, starts, ends, rows, sizes, len(rows)))

    def in_cells(self) -> tuple[_Table, list[Array]]:
        """Return the same table with sides counted in cells between neighbouring ones, and the labels of the cells."""
        sides = np.concatenate([self.start[None], self.end[None], self.starts, self.ends]).clip(self.start, self.end)
        labels = [np.unique(column) for column in sides.T]
        cells = np.empty_like(sides)
        for attribute, known in enumerate(labels):
            cells[:, attribute] = np.searchsorted(known, sides[:, attribute])
        rows = 2 + len(self.starts)
        return _Table(cells[0], cells[1], cells[2:rows], cells[rows:], self.rows, self.left), labels

    @property
    def deciding(self) -> Array:
        """The rows that decide, or all of them when none does."""
        return self.rows[: self.left] if self.left else self.rows

    def exact(self, checking: Checking, points: np.random.Generator) -> Answer:
        """Decide by random points and the exact search."""
        tried = self.probe(points, checking.probes) if self.left else 0
        if self.point is not None:
            return Answer(False, Reason.WITNESS, points=tried)
        point = np.empty(len(self.start), np.int64)
        verdict, work = search(self.start, self.end, self.starts, self.ends, self.deciding, checking.budget, point)
        if verdict == COVERED:
            return Answer(True, Reason.SEARCHED, tuple(self.deciding.tolist()), work=work, points=tried)
        if verdict != NOT_COVERED:
            return Answer(False, Reason.EXHAUSTED, work=work, points=tried)
        self._found(point)
        return Answer(False, Reason.SEARCHED if self.left else Reason.ROWS_LEFT, work=work, points=tried)

    def probabilistic(self, checking: Checking, points: np.random.Generator) -> Answer:
        """Decide by as many random points as the paper asks for."""
        if not self.left:
            return self.exact(checking, points)
        bound = printed_share if checking.printed_bound else sound_share
        share = math.exp(bound(self.start, self.end, self.starts, self.ends, self.deciding))
        wanted = math.log(checking.delta) / math.log1p(-share) if 0 < share < 1 else 1 / share if share else math.inf
        if wanted > MOST_POINTS:
            return Answer(False, Reason.EXHAUSTED)
        tried = 0
        while tried < wanted:
            tried += self.probe(points, min(CHUNK, math.ceil(wanted) - tried))
            if self.point is not None:
                return Answer(False, Reason.WITNESS, points=tried)
        return Answer(True, Reason.POINTS, tuple(self.deciding.tolist()), points=tried)

    def probe(self, points: np.random.Generator, count: int) -> int:
        """Try so many random points; return how many were tried until one was outside the rows that decide."""
        point = np.empty(len(self.start), np.int64)
        shares = points.random((count, len(self.start)))
        at = probe(self.start, self.end, self.starts, self.ends, self.deciding, shares, point)
        if at < 0:
            return count
        self._found(point)
        return int(at) + 1

    def _found(self, point: Array) -> None:
        """Keep a point outside the rows that decide, moved outside all rows."""
        if self.left:
            escape(self.start.copy(), self.end.copy(), self.starts, self.ends, self.rows, self.left, point)
        self.point = point
