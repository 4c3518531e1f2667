"""The relation of two filters: which events match both, and does one filter contain the other?

For conjunctions of value sets over reals, integers, strings, bools and times the answer is exact, and so it is for
disjunctions as long as the work stays within bounds: what a disjunction leaves of a conjunction is computed piece by
piece. String patterns (suffix, contains, general like) can leave a question open; then the answer is UNKNOWN, or a
weaker relation that is certain. Nothing is ever claimed that is not proven, so UNKNOWN means "treat as not covered".

An attribute may be missing from an event. A schema that declares attributes required, or integer, sharpens the answer.
"""

from __future__ import annotations

from enum import Enum

from rankcast.model.errors import FilterTooLargeError
from rankcast.model.filters import Conjunction, Filter, Work
from rankcast.model.schema import Schema
from rankcast.model.valuesets.sets import EVERYTHING

MAX_PIECES = 2_000
"""Pieces of a conjunction examined before "is it covered by this disjunction?" is given up as undecided."""


MAX_STEPS = 5_000_000
"""Steps that one question about two filters may take, half a second; what takes more is undecided."""


class Relation(Enum):
    """How the events of a first filter relate to those of a second one.

    COVERS and COVERED say that one contains the other and that equality is not proven; for filters without string
    patterns the containment is strict.
    """

    EQUAL = "equal"
    COVERS = "covers"
    COVERED = "covered"
    OVERLAPS = "overlaps"
    DISJOINT = "disjoint"
    UNKNOWN = "unknown"


def relation(first: Filter, second: Filter, schema: Schema | None = None) -> Relation:
    """Return how two filters relate; with a schema, among the events that conform to it.

    >>> from rankcast.model.expressions import attr
    >>> relation(Filter.of(attr("rent") < 900), Filter.of(attr("rent").between(500, 700)))
    <Relation.COVERS: 'covers'>
    """
    if schema is not None:
        first, second = first.under(schema), second.under(schema)
    forth, back = covers(first, second), covers(second, first)
    if forth and back:
        return Relation.EQUAL
    if forth:
        return Relation.COVERS
    if back:
        return Relation.COVERED
    apart = disjoint(first, second)
    if apart:
        return Relation.DISJOINT
    return Relation.OVERLAPS if forth is False and back is False and apart is False else Relation.UNKNOWN


def covers(first: Filter, second: Filter) -> bool | None:
    """Whether every event that matches `second` matches `first`; None when that is not decided."""
    if first.conjunctions == second.conjunctions:
        return True
    work = Work(MAX_STEPS)
    verdict: bool | None = True
    try:
        for conjunction in second.conjunctions:
            covered = _covered(conjunction, first.conjunctions, work)
            if covered is False:
                return False
            verdict = verdict and covered
    except FilterTooLargeError:  # of steps, or of patterns in a piece
        return None
    return verdict


def contains(first: Filter, second: Filter) -> bool:
    """Whether `covers` is True, without asking what else it would be: that takes most of the time with patterns."""
    if surely_covers(first, second):
        return True
    if len(first.conjunctions) == 1 and _has_whole_ranges(first) and _has_whole_ranges(second):
        return False  # patterns alone leave nothing of one another only where that is plain to see
    return covers(first, second) is True


def _has_whole_ranges(wanted: Filter) -> bool:
    """Whether no range of texts is asked for: patterns there may be, or any text, or none."""
    sets = (values.strings.ranges for conjunction in wanted.conjunctions for _, values in conjunction.items)
    return all(ranges.is_full or not ranges for ranges in sets)


def surely_covers(first: Filter, second: Filter) -> bool:
    """Whether one conjunction of `first` contains each one of `second`, as is plain to see: much cheaper than `covers`.

    No counterexample is looked for, and nothing is proven by several conjunctions together.
    """
    work = Work(MAX_STEPS)
    try:
        return all(
            any(wide.surely_covers(narrow, work) for wide in first.conjunctions) for narrow in second.conjunctions
        )
    except FilterTooLargeError:
        return False


def _covered(conjunction: Conjunction, disjunction: tuple[Conjunction, ...], work: Work) -> bool | None:
    """Whether a disjunction contains a conjunction."""
    work.spend(len(disjunction))
    verdicts = [other.covers(conjunction, work) for other in disjunction]
    if True in verdicts:
        return True
    if verdicts == [False] and _surely_satisfiable(conjunction, work):
        return False
    pieces = [conjunction]
    for other in disjunction:
        pieces = [rest for piece in pieces for rest in _difference(piece, other, work)]
        if len(pieces) > MAX_PIECES:
            return None
    if not pieces:
        return True
    return False if any(_surely_satisfiable(piece, work) for piece in pieces) else None


def _difference(piece: Conjunction, other: Conjunction, work: Work) -> list[Conjunction]:
    """Return disjoint pieces that hold exactly the events of `piece` that are not in `other`."""
    rest: list[Conjunction] = []
    inside = piece
    for name, values in other:
        work.spend(50 + len(piece) + values.size)
        for outside in values.complement():
            beyond = inside.intersection(Conjunction(((name, outside),)), work.both)
            if beyond is not None:
                rest.append(beyond)
        narrowed = inside.intersection(Conjunction(((name, values),)), work.both)
        if narrowed is None:
            return rest
        inside = narrowed
    return rest


def disjoint(first: Filter, second: Filter) -> bool | None:
    """Whether no event matches both filters; None when that is not decided."""
    work = Work(MAX_STEPS)
    verdict: bool | None = True
    try:
        for one in first.conjunctions:
            for other in second.conjunctions:
                apart = _apart(one, other, work)
                if apart is False:
                    return False
                verdict = verdict and apart
    except FilterTooLargeError:  # of steps, or of patterns in what is common
        return None
    return verdict


def _apart(one: Conjunction, other: Conjunction, work: Work) -> bool | None:
    work.spend(50)
    both = one.intersection(other, work.both)
    if both is None:
        return True
    for name, values in one:
        theirs = other.get(name)
        work.spend(values.steps_to_combine(theirs) + values.steps_to_decide(theirs))
        if values.disjoint(theirs):
            return True
    return False if _surely_satisfiable(both, work) else None


def _surely_satisfiable(conjunction: Conjunction, work: Work) -> bool:
    work.spend(sum(20 + values.steps_to_decide(values) for _, values in conjunction))
    return all(values is EVERYTHING or values.surely_satisfiable() for _, values in conjunction)
