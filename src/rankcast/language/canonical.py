"""The normal form of a filter as an expression: short, and the same for filters that compare equal.

`Filter.of(canonical_expression(f), schema) == f` for every filter f made under that schema, as long as the expression
stays within Filter's own bounds (a product of long disjunctions can need more than MAX_CONSTRAINTS when it is written
out). What all conjunctions share is written once; a value set becomes the fewest constraints that are easy to read.
"""

from __future__ import annotations

from itertools import pairwise
from typing import cast

from rankcast.language.bounds import bounded, is_prefix
from rankcast.model.expressions import And, Constant, Constraint, Expression, Not, Operator, Or, all_of
from rankcast.model.filters import Filter
from rankcast.model.times import EARLIEST
from rankcast.model.values import Value
from rankcast.model.valuesets.intervals import END, START, Cut, Domain, IntervalSet
from rankcast.model.valuesets.patterns import Pattern, PatternKind
from rankcast.model.valuesets.sets import PRESENT, ValueSet
from rankcast.model.valuesets.strings import StringSet, prefix_range

Parts = list[Expression]
"""Expressions that hold together: the parts of an `and`."""

Piece = tuple[Cut, Cut]
"""An interval, or the gap between two."""

_OPERATOR_OF_KIND = {
    PatternKind.EXACT: Operator.EQ,
    PatternKind.PREFIX: Operator.PREFIX,
    PatternKind.SUFFIX: Operator.SUFFIX,
    PatternKind.CONTAINS: Operator.CONTAINS,
    PatternKind.LIKE: Operator.LIKE,
}


def canonical_expression(filter: Filter) -> Expression:  # noqa: A002 (the field's own word)
    """Return the expression that a filter's normal form is written as."""
    conjunctions = filter.conjunctions
    if not conjunctions:
        return Constant(False)
    first, *others = conjunctions
    if not others:
        return all_of(*_parts(first.items))
    shared = set(first.items).intersection(*(other.items for other in others))
    common = _parts(tuple(item for item in first.items if item in shared))
    alternatives = Or(
        tuple(
            _one_of_several(_parts(tuple(item for item in conjunction.items if item not in shared)))
            for conjunction in conjunctions
        )
    )
    return And((*common, alternatives)) if common else alternatives


def _one_of_several(parts: Parts) -> Expression:
    """Return a conjunction among others; one that is an `or` itself stays an `or` inside the `or`.

    Were it opened up, its alternatives might be merged with those of another conjunction.
    """
    return parts[0] if len(parts) == 1 else And(tuple(parts))


def _parts(items: tuple[tuple[str, ValueSet], ...]) -> Parts:
    return [part for name, values in items for part in _of_attribute(name, values)]


def _of_attribute(name: str, values: ValueSet) -> Parts:
    if values == PRESENT:
        return [Constraint(name, Operator.EXISTS)]
    alternatives: list[Parts] = []
    if values.missing:
        alternatives.append([Not(Constraint(name, Operator.EXISTS))])
    alternatives += _of_intervals(name, values.numbers)
    alternatives += _of_strings(name, values.strings)
    if values.bools:
        alternatives.append([_equal(name, sorted(values.bools, reverse=True))])
    alternatives += _of_intervals(name, values.times)
    return _any_of(alternatives)


def _any_of(alternatives: list[Parts]) -> Parts:
    return alternatives[0] if len(alternatives) == 1 else [Or(tuple(all_of(*parts) for parts in alternatives))]


def _of_strings(name: str, strings: StringSet) -> list[Parts]:
    if not strings.has_patterns:
        return _of_intervals(name, strings.ranges)
    ranges = _beyond_patterns(strings)
    parts = [] if ranges.is_full else _any_of(_of_intervals(name, ranges))
    parts += (_matching(name, pattern) for pattern in sorted(strings.required, key=_text))
    parts += (Not(_matching(name, pattern)) for pattern in sorted(strings.forbidden, key=_text))
    return [parts]


def _beyond_patterns(strings: StringSet) -> IntervalSet:
    """Return the ranges without the ends that the head of a required pattern implies already."""
    implied = IntervalSet.full(Domain.STRING)
    for pattern in strings.required:
        implied &= prefix_range(pattern.head)
    first, *inner, last = strings.ranges.cuts
    return IntervalSet(
        Domain.STRING,
        (START if first == implied.cuts[0] else first, *inner, END if last == implied.cuts[-1] else last),
    )


def _text(pattern: Pattern) -> str:
    return pattern.text


def _matching(name: str, pattern: Pattern) -> Constraint:
    constant = pattern.text if pattern.kind is PatternKind.LIKE else pattern.literal
    return Constraint(name, _OPERATOR_OF_KIND[pattern.kind], (constant,))


def _equal(name: str, values: list[Value]) -> Constraint:
    return Constraint(name, Operator.EQ if len(values) == 1 else Operator.IN, tuple(values))


def _of_intervals(name: str, intervals: IntervalSet) -> list[Parts]:
    """Return alternatives: one list of single values, then the intervals, each with what it lacks."""
    if intervals.is_full:
        return [[part] for part in _whole_family(name, intervals.domain)]
    points, runs = _points_and_runs(intervals)
    alternatives: list[Parts] = [[_equal(name, points)]] if points else []
    for run in runs:
        gaps = [(gap_start, gap_end) for (_, gap_start), (gap_end, _) in pairwise(run)]
        within = bounded(name, intervals.domain, run[0][0], run[-1][1])
        alternatives.append([*within, *_without(name, intervals, gaps)])
    return alternatives


def _without(name: str, intervals: IntervalSet, gaps: list[Piece]) -> Parts:
    """Return what excludes some gaps, each of them a single value or all strings of one prefix."""
    lacking = [value for gap in gaps if (value := intervals.point(*gap)) is not None]
    parts: Parts = []
    if len(lacking) == 1:
        parts.append(Constraint(name, Operator.NE, tuple(lacking)))
    elif lacking:
        parts.append(Not(Constraint(name, Operator.IN, tuple(lacking))))
    parts += (Not(Constraint(name, Operator.PREFIX, (gap[0][1],))) for gap in gaps if is_prefix(intervals.domain, *gap))
    return parts


def _whole_family(name: str, domain: Domain) -> Parts:
    """Return what holds for all values of a family and is unknown for every other."""
    if domain is Domain.STRING:
        return [Constraint(name, Operator.GE, ("",))]
    if domain is Domain.TIME:
        return [Constraint(name, Operator.GE, (EARLIEST,))]
    return [Constraint(name, Operator.LT, (0,)), Constraint(name, Operator.GE, (0,))]


def _points_and_runs(intervals: IntervalSet) -> tuple[list[Value], list[list[Piece]]]:
    """Split the pieces of a set into single values, and runs of pieces with only one thing missing in between.

    A run neither starts nor ends with a single value: 1, 3 and 5 to 9 over the integers are "1, 3" and "5 to 9".
    """
    points: list[Value] = []
    runs: list[list[Piece]] = []
    run: list[Piece] = []
    for piece in intervals.pieces():
        if run and not _is_one_thing(intervals, run[-1][1], piece[0]):
            _close(intervals, run, points, runs)
            run = []
        run.append(piece)
    _close(intervals, run, points, runs)
    return points, runs


def _is_one_thing(intervals: IntervalSet, start: Cut, end: Cut) -> bool:
    return intervals.point(start, end) is not None or is_prefix(intervals.domain, start, end)


def _close(intervals: IntervalSet, run: list[Piece], points: list[Value], runs: list[list[Piece]]) -> None:
    wide = [at for at, piece in enumerate(run) if intervals.point(*piece) is None]
    if not wide:
        points += (_single(intervals, *piece) for piece in run)
        return
    first, last = wide[0], wide[-1]
    points += (_single(intervals, *piece) for piece in (*run[:first], *run[last + 1 :]))
    runs.append(run[first : last + 1])


def _single(intervals: IntervalSet, start: Cut, end: Cut) -> Value:
    """Return the value between two cuts that are known to have just one between them."""
    return cast(Value, intervals.point(start, end))
