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

An `ActiveSet` forwards only what the union of the others does not cover, and loses nothing. An active subscription is
forwarded. A passive one is covered by active ones, its support: those that proved it. When a supporter goes, exactly
its dependents are looked at again, widest first, and those that the rest does not cover become active. So active
subscriptions accept together the same events as all, always.

A subscription that becomes active makes passive those active ones that it covers alone; it takes their place in the
supports of others, which stay proofs because it contains them.

`expire` removes what has ended. Imprecise publications are boxes of what an event may be: `check` of a filter that says
so tells whether every possible event is wanted by somebody.

Paper: probabilistic subsumption checking in content-based publish/subscribe; docs/semantics.md has the corrections.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import Enum

import numpy as np

from rankcast.arrays import Array
from rankcast.covering.boxes import Box, Boxed, BoxRows, Space, enlarge
from rankcast.covering.group.conflicts import ConflictTable, CoverReason, Decision, Estimate, exact_cover, random_cover
from rankcast.covering.group.exact_search import CONTAINS, MEETS, relations
from rankcast.covering.topk.cover_set import Change
from rankcast.covering.topk.order import BoxColumns, Order
from rankcast.model.errors import DuplicateIdError, InvalidValueError, UnknownIdError, shown
from rankcast.model.filters import Filter
from rankcast.model.schema import Schema
from rankcast.model.values import AttributeValue, ValueType

BUDGET = 100_000
"""Rows that one search may look at: decided every check of the paper's comparison workload."""

PROBES = 100
_MOST_WORK = 2**63 - 1

_ANY_VALUE: dict[ValueType, AttributeValue] = {
    ValueType.BOOL: False,
    ValueType.INT: 0,
    ValueType.FLOAT: 0.0,
    ValueType.STRING: "",
    ValueType.TIME: datetime(1970, 1, 1, tzinfo=UTC),
    **{kind: () for kind in ValueType if kind.is_list},
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
    witness: dict[str, AttributeValue] | None = None
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


DEFAULT_CHECKING = Checking()


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
        self.add_boxed(number, lowered, self.boxes.space.boxed(lowered))

    def add_boxed(self, number: int, lowered: Filter, boxed: Boxed) -> None:
        """Take in a filter under the schema, and its boxes."""
        if number in self._rows:
            raise DuplicateIdError(f"there is a filter {number} in the union already")
        rows: list[int] = []
        for box in boxed.inner:
            row = self._free.pop() if self._free else self._used
            self._used = max(self._used, row + 1)
            self.boxes.write(row, box)
            self._owner, self._in_use = enlarge(self._owner, row + 1), enlarge(self._in_use, row + 1)
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
        boxed = self.boxes.space.boxed(lowered)
        found = self.decide(boxed, checking, points)
        answer = Answer(found.covered, found.reason, found.rows, None, found.work, found.points)
        if found.point is None:
            return answer
        witness = self._event(found.point)
        if witness is not None and not (boxed.is_exact and not self._inexact):
            others = any(other.accepts(witness) for other in self._inexact.values())
            if others or not lowered.accepts(witness):
                return replace(answer, reason=CoverReason.UNPROVEN)
        return replace(answer, witness=witness)

    def decide(self, boxed: Boxed, checking: Checking, points: np.random.Generator) -> Decision:
        """Decide whether boxes that the space has just made are covered.

        In place of rows a "yes" has the numbers of their filters; the point of a "no" is one of labels.
        """
        self.boxes.follow()
        if not boxed.outer:
            return Decision(True, CoverReason.EMPTY)
        support: set[int] = set()
        work, tried, reason = 0, 0, CoverReason.ONE_COVERS
        for box in boxed.outer:
            found = self._decide_box(box, checking, points)
            work, tried = work + found.work, tried + found.points
            if not found.covered:
                return replace(found, work=work, points=tried)
            support.update(found.rows)
            reason = found.reason if found.reason is not CoverReason.ONE_COVERS else reason
        return Decision(True, reason, tuple(sorted(support)), work=work, points=tried)

    def _decide_box(self, box: Box, checking: Checking, points: np.random.Generator) -> Decision:
        start, end = self.boxes.array(box)
        rows = np.flatnonzero(self._in_use[: self._used])
        codes = np.zeros(len(rows), np.uint8)
        relations(start, end, self.boxes.starts, self.boxes.ends, rows, codes)
        containing = rows[codes == CONTAINS]
        if len(containing):
            return Decision(True, CoverReason.ONE_COVERS, (int(self._owner[containing[0]]),))
        if checking.strategy is GroupStrategy.PAIRWISE:
            return Decision(False, CoverReason.NOT_ASKED)
        meeting = rows[codes == MEETS]
        starts, ends = self.boxes.starts[meeting], self.boxes.ends[meeting]
        attributes = np.flatnonzero(((starts > start) | (ends < end)).any(axis=0))
        sides = (np.ascontiguousarray(side[..., attributes]) for side in (start, end, starts, ends))
        found = _decide(ConflictTable(*sides), checking, points)
        if found.point is not None:
            start[attributes] = found.point
            return replace(found, point=start)
        return replace(found, rows=tuple(self._owner[meeting[list(found.rows)]].tolist()))

    def _event(self, point: Array) -> dict[str, AttributeValue] | None:
        """Return an event at a point of labels; attributes that a schema requires have some value."""
        event = self.boxes.space.event(point)
        schema = self.boxes.space.schema
        if event is not None and schema is not None:
            event |= {name: _ANY_VALUE[schema.type_of(name)] for name in sorted(schema.required - event.keys())}
        return event


def _decide(table: ConflictTable, checking: Checking, points: np.random.Generator) -> Decision:
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


class ActiveSet:
    """Numbered subscriptions, active or passive; `seed` is that of the random points."""

    def __init__(self, checking: Checking = DEFAULT_CHECKING, schema: Schema | None = None, seed: int = 0) -> None:
        self.checking = checking
        self.exhausted = 0
        """How often the work allowed was used up, so that a subscription was forwarded that may be covered."""

        self._points = np.random.default_rng(seed)
        self._order = Order(schema=schema)
        self._active = BoxColumns(self._order)
        self._union = Union(space=self._order.boxes.space)
        self._support: dict[int, set[int]] = {}
        self._dependents: dict[int, set[int]] = {}
        self._ends: dict[int, datetime] = {}

    def __len__(self) -> int:
        return len(self._order)

    @property
    def active(self) -> tuple[int, ...]:
        """The active subscriptions, in ascending order."""
        return tuple(sorted(self._active.numbers.tolist()))

    @property
    def passive(self) -> tuple[int, ...]:
        """The passive subscriptions, in ascending order."""
        return tuple(sorted(self._support))

    def support(self, number: int) -> tuple[int, ...]:
        """Return the active subscriptions that prove a passive one covered."""
        if number not in self._support:
            raise UnknownIdError(f"there is no passive subscription {number}")
        return tuple(sorted(self._support[number]))

    def check(self, wanted: Filter) -> Answer:
        """Return whether the active subscriptions cover a filter."""
        return self._union.check(wanted, self.checking, self._points)

    def add(self, number: int, wanted: Filter, expires: datetime | None = None) -> Change:
        """Take a subscription in; return what to forward and what to withdraw."""
        boxed = self._order.add(number, wanted)
        if expires is not None:
            self._ends[number] = expires
        support = self._covering(number, boxed)
        if support is not None:
            self._make_passive(number, support)
            return Change()
        return Change((number,), tuple(sorted(self._activate(number, boxed))))

    def remove(self, number: int) -> Change:
        """Forget a subscription; return what to forward and what to withdraw."""
        self._order.filter(number)
        self._ends.pop(number, None)
        if number in self._support:
            self._forget_support(number)
            self._order.remove(number)
            return Change()
        self._active.remove(number)
        self._union.remove(number)
        forward, withdraw = self._promote(self._dependents.pop(number, set()))
        self._order.remove(number)
        return Change(tuple(sorted(forward)), tuple(sorted({*withdraw, number})))

    def expire(self, now: datetime) -> Change:
        """Remove what has ended by `now`; return what to forward and what to withdraw."""
        forward: set[int] = set()
        withdraw: set[int] = set()
        for number in sorted(number for number, end in self._ends.items() if end <= now):
            change = self.remove(number)
            # What was to be forwarded and is withdrawn again was never sent.
            withdraw |= set(change.withdraw) - forward
            forward = (forward - set(change.withdraw)) | set(change.forward)
        return Change(tuple(sorted(forward)), tuple(sorted(withdraw)))

    def _covering(self, number: int, boxed: Boxed) -> set[int] | None:
        """Return active subscriptions that together cover one, or None when they do not.

        Nobody is needed to cover what no event can match.
        """
        above = self._order.above(number, self._active)
        if len(above):
            return {int(above[0])}
        if self.checking.strategy is GroupStrategy.PAIRWISE and boxed.outer:
            return None
        found = self._union.decide(boxed, self.checking, self._points)
        self.exhausted += found.reason is CoverReason.EXHAUSTED
        return set(found.rows) if found.covered else None

    def _activate(self, number: int, boxed: Boxed) -> set[int]:
        """Make a subscription active; return those that are passive by that."""
        covered = set(self._order.below(number, self._active).tolist())
        self._active.add(number)
        self._union.add_boxed(number, self._order.filter(number), boxed)
        for other in covered:
            self._active.remove(other)
            self._union.remove(other)
            for dependent in self._dependents.pop(other, set()):
                self._support[dependent].remove(other)
                self._support[dependent].add(number)
                self._dependents.setdefault(number, set()).add(dependent)
            self._make_passive(other, {number})
        return covered

    def _promote(self, dependents: set[int]) -> tuple[set[int], set[int]]:
        """Look again at passive subscriptions of which a supporter is gone: (now active, now passive instead)."""
        forward: set[int] = set()
        withdraw: set[int] = set()
        for number in self._order.top_down(np.array(sorted(dependents), np.int64)).tolist():
            self._forget_support(number)
            boxed = self._order.boxed(number)
            support = self._covering(number, boxed)
            if support is not None:
                self._make_passive(number, support)
                continue
            gone = self._activate(number, boxed)
            withdraw |= gone - forward
            forward = (forward - gone) | {number}
        return forward, withdraw

    def _make_passive(self, number: int, support: set[int]) -> None:
        self._support[number] = support
        for supporter in support:
            self._dependents.setdefault(supporter, set()).add(number)

    def _forget_support(self, number: int) -> None:
        for supporter in self._support.pop(number):
            dependents = self._dependents.get(supporter)
            if dependents is not None:
                dependents.discard(number)
                if not dependents:
                    del self._dependents[supporter]
