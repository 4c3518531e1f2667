"""Group cover: is a filter contained in the union of others, none of which need contain it alone?

Three strategies answer:

- PAIRWISE asks only whether one of them contains it.
- EXACT, the default, goes on: the rows that meet it, minimised; some random points, which can only say no; then the
  exact search with a budget of work. When the budget runs out the filter counts as not covered: that may cost traffic,
  but never a notification.
- PROBABILISTIC is the paper's: minimised rows, then so many random points that a wrong "covered" has at most the
  probability `delta`, provided the share of uncovered points is estimated well. The printed estimate is not a bound, so
  "covered" is wrong far more often than delta says; the sound one is the default here, and needs many more points.

A "no" comes with a witness, an event that the filter accepts and no other does, unless it is for want of budget or of a
proof: string patterns take part only as far as ranges of strings can express them. A "yes" comes with its support: the
numbers of those that together contain the filter.

Attributes may be missing from events: y <= 5 and y > 5 together do not cover a filter that says nothing of y, unless a
schema declares y required. Sets, exclusions, strings and disjunctions take part as boxes (see `boxes`), one conflict
table per box of the tested filter (see `conflicts`).

Paper: probabilistic subsumption checking in content-based publish/subscribe; docs/semantics.md has the corrections.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import Enum

import numpy as np

from rankcast.arrays import Array
from rankcast.covering.boxes import Box, Boxed, Space
from rankcast.covering.group.conflicts import ConflictTable, CoverReason, Decision, Estimate, exact_cover, random_cover
from rankcast.covering.group.exact_search import relations
from rankcast.covering.rows import BoxRows
from rankcast.model.errors import DuplicateIdError, InvalidValueError, UnknownIdError, shown
from rankcast.model.filters import Filter
from rankcast.model.schema import Schema
from rankcast.model.values import Value, ValueType

BUDGET = 100_000
"""Rows that one search may look at: decided every check of the paper's comparison workload."""

PROBES = 100
_MOST_WORK = 2**63 - 1

_ANY_VALUE: dict[ValueType, Value] = {
    ValueType.BOOL: False,
    ValueType.INT: 0,
    ValueType.FLOAT: 0.0,
    ValueType.STRING: "",
    ValueType.TIME: datetime(1970, 1, 1, tzinfo=UTC),
}


class GroupStrategy(Enum):
    """How group cover is decided."""

    PAIRWISE = "pairwise"
    EXACT = "exact"
    PROBABILISTIC = "probabilistic"


@dataclass(frozen=True, slots=True)
class Answer:
    """Whether a filter is covered, what settled it, and the proof either way.

    `support` are numbers whose filters together cover it; `witness` is an event that only it accepts. `work` counts
    rows looked at by the search, and `points` the random points tried.
    """

    covered: bool
    reason: CoverReason
    support: tuple[int, ...] = ()
    witness: dict[str, Value] | None = None
    work: int = 0
    points: int = 0


@dataclass(frozen=True, slots=True)
class Checking:
    """How to check: the strategy and its limits.

    `printed_bound` uses the paper's estimate of the share of uncovered points instead of a sound one.
    """

    strategy: GroupStrategy = GroupStrategy.EXACT
    budget: int = BUDGET
    probes: int = PROBES
    delta: float = 1e-6
    printed_bound: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.strategy, GroupStrategy):
            raise InvalidValueError(f"strategy: {shown(self.strategy)} is not a Strategy")
        if not 0 < self.delta < 1:
            raise InvalidValueError(f"delta: {self.delta} is not a probability between 0 and 1")
        if not (0 <= self.budget <= _MOST_WORK and 0 <= self.probes <= _MOST_WORK):
            raise InvalidValueError(
                f"budget {shown(self.budget)} and probes {shown(self.probes)}: expected numbers from 0 to {_MOST_WORK}"
            )


class Union:
    """Numbered filters whose union may cover others.

    Those that share a `space` with someone else are given as boxes that it has just made; others as filters.
    """

    def __init__(self, schema: Schema | None = None, space: Space | None = None) -> None:
        self.boxes = BoxRows(schema, space)
        self._rows: dict[int, list[int]] = {}
        self._inexact: dict[int, Filter] = {}
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
        lowered = self.boxes.space.lowered(wanted)
        self.add_boxed(number, lowered, self.boxes.space.boxed_as_lowered(lowered))

    def add_boxed(self, number: int, lowered: Filter, boxed: Boxed) -> None:
        """Take in a filter under the schema, and its boxes."""
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
        if not boxed.is_exact:
            self._inexact[number] = lowered

    def remove(self, number: int) -> None:
        """Forget a filter."""
        if number not in self._rows:
            raise UnknownIdError(f"there is no filter {number} in the union")
        rows = self._rows.pop(number)
        self._inexact.pop(number, None)
        self._in_use[rows] = False
        self._free += rows

    def check(self, wanted: Filter, checking: Checking, points: np.random.Generator) -> Answer:
        """Return whether a filter is covered by the union, with the proof."""
        lowered = self.boxes.space.lowered(wanted)
        boxed = self.boxes.space.boxed_as_lowered(lowered)
        answer, point = self.decide(boxed, checking, points)
        if point is None:
            return answer
        witness = self._event(point)
        if witness is not None and not (boxed.is_exact and not self._inexact):
            others = any(other.accepts(witness) for other in self._inexact.values())
            if others or not lowered.accepts(witness):
                return replace(answer, reason=CoverReason.UNPROVEN)
        return replace(answer, witness=witness)

    def decide(self, boxed: Boxed, checking: Checking, points: np.random.Generator) -> tuple[Answer, Array | None]:
        """Return whether boxes that the space has just made are covered, and the point of labels of a "no"."""
        self.boxes.follow()
        if not boxed.outer:
            return Answer(True, CoverReason.EMPTY), None
        support: set[int] = set()
        work, tried, reason = 0, 0, CoverReason.ONE_COVERS
        for box in boxed.outer:
            found, owners = self._decide_box(box, checking, points)
            work, tried = work + found.work, tried + found.points
            if not found.covered:
                return Answer(False, found.reason, work=work, points=tried), found.point
            support |= owners
            reason = found.reason if found.reason is not CoverReason.ONE_COVERS else reason
        return Answer(True, reason, tuple(sorted(support)), work=work, points=tried), None

    def _decide_box(self, box: Box, checking: Checking, points: np.random.Generator) -> tuple[Decision, set[int]]:
        """Decide one box: the point of a "no" is one of labels; and who owns the rows of a "yes"."""
        start, end = self.boxes.array(box)
        rows = np.flatnonzero(self._in_use[: self._used])
        codes = np.zeros(len(rows), np.uint8)
        relations(start, end, self.boxes.starts, self.boxes.ends, rows, len(rows), codes)
        one = np.flatnonzero(codes & 1)
        if len(one):
            return Decision(True, CoverReason.ONE_COVERS), {int(self._owner[rows[one[0]]])}
        if checking.strategy is GroupStrategy.PAIRWISE:
            return Decision(False, CoverReason.NOT_ASKED), set()
        meeting = rows[codes != 0]
        starts, ends = self.boxes.starts[meeting], self.boxes.ends[meeting]
        attributes = np.flatnonzero(((starts > start) | (ends < end)).any(axis=0))
        sides = (np.ascontiguousarray(side[..., attributes]) for side in (start, end, starts, ends))
        found = _decided(ConflictTable(*sides), checking, points)
        if found.point is not None:
            start[attributes] = found.point
            found = replace(found, point=start)
        return found, set(self._owner[meeting[list(found.rows)]].tolist())

    def _event(self, point: Array) -> dict[str, Value] | None:
        """Return an event at a point of labels; attributes that a schema requires have some value."""
        event = self.boxes.space.event(point)
        schema = self.boxes.space.schema
        if event is not None and schema is not None:
            event |= {name: _ANY_VALUE[schema.type_of(name)] for name in sorted(schema.required - event.keys())}
        return event

    def _next_row(self) -> int:
        self._used += 1
        return self._used - 1

    def _make_room(self) -> None:
        missing = self.boxes.room - len(self._owner)
        if missing > 0:
            self._owner = np.concatenate([self._owner, np.zeros(missing, np.int64)])
            self._in_use = np.concatenate([self._in_use, np.zeros(missing, np.bool_)])


def _decided(table: ConflictTable, checking: Checking, points: np.random.Generator) -> Decision:
    """Decide by the strategy; random points count cells, for distances of labels mean nothing."""
    if checking.strategy is GroupStrategy.EXACT:
        return exact_cover(table, checking.budget, checking.probes, points)
    cells, known = table.in_cells()
    estimate = Estimate.PRINTED if checking.printed_bound else Estimate.SOUND
    found = random_cover(cells, checking.delta, points, estimate)
    if found.point is None:
        return found
    labels = np.array([starts[at] for starts, at in zip(known, found.point, strict=True)], np.int64)
    return replace(found, point=labels)
