"""Filters to text.

`format_filter` writes the normal form: `parse_filter(format_filter(f)) == f`, with the schema that f was made under, as
long as the text stays within the bounds of parser and Filter. `format_expression` writes a tree as it stands:
`parse_expression(format_expression(e)) == e` for every tree whose `and`s and `or`s have two or more parts. (The `and`
of one part is written as that part, the `and` of none as `true`, the `or` of none as `false`.)

Between them stands the normal form as an expression: short, and the same for filters that compare equal.
`Filter.of(canonical_expression(f), schema) == f` for every filter f made under that schema, as long as the expression
stays within Filter's own bounds (a product of long disjunctions can need more than MAX_CONSTRAINTS when it is written
out). What all conjunctions share is written once; a value set becomes the fewest constraints that are easy to read.

Over integers, strings and times a cut has two spellings (`x < 5` is `x <= 4`): integers take closed bounds, strings and
times the shorter constant.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple, cast

from rankcast.language.literals import format_name, format_value
from rankcast.model.expressions import (
    MAX_PATTERN_LENGTH,
    OF_ELEMENTS,
    OF_SEVERAL,
    PATTERNS,
    And,
    Constant,
    Constraint,
    Expression,
    Not,
    Operator,
    Or,
    all_of,
)
from rankcast.model.filters import Conjunction, Filter
from rankcast.model.times import EARLIEST, TICK, format_time
from rankcast.model.values import Family, Value
from rankcast.model.valuesets.intervals import END, START, Cut, Domain, IntervalSet
from rankcast.model.valuesets.lists import FAMILIES, NO_LISTS, Elements, Values
from rankcast.model.valuesets.patterns import Pattern, PatternKind
from rankcast.model.valuesets.sets import PRESENT, ValueSet
from rankcast.model.valuesets.strings import StringSet, prefix_range

_NOT_INSIDE = PATTERNS | OF_ELEMENTS | {Operator.IN, Operator.BETWEEN}
"""Operators whose negation has the `not` behind the attribute: `city not in ('Porto', 'Braga')`."""


def format_filter(filter: Filter) -> str:  # noqa: A002 (the field's own word)
    """Return the text of a filter's normal form; equal filters have the same text.

    >>> from rankcast.language.parser import parse_filter
    >>> format_filter(parse_filter("not (rent < 500 or rent > 900) and city = 'Porto'"))
    "city = 'Porto' and rent between 500 and 900"
    """
    return format_expression(canonical_expression(filter))


def format_value_set(attribute: str, values: ValueSet) -> str:
    """Return the text of what one attribute may be."""
    return format_filter(Filter(Constant(True), (Conjunction(((attribute, values),)),)))


def format_expression(expression: Expression) -> str:
    """Return the text of an expression as it is written.

    >>> from rankcast.model.expressions import attr
    >>> format_expression(~attr("city").is_in("Porto") & (attr("rent") < 900))
    "city not in ('Porto') and rent < 900"
    """
    expression = _plain(expression)
    if isinstance(expression, Constraint):
        return format_constraint(expression)
    if isinstance(expression, Constant):
        return format_value(expression.value)
    if isinstance(expression, Not):
        return _negation(expression.part)
    inside_or = isinstance(expression, Or)
    word = " or " if inside_or else " and "
    return word.join([_grouped(part, inside_or=inside_or) for part in expression.parts])


def format_constraint(constraint: Constraint) -> str:
    """Return the text of one constraint."""
    return _constraint(constraint, "")


def _negation(part: Expression) -> str:
    if isinstance(part, Constraint) and part.operator in _NOT_INSIDE:
        return _constraint(part, "not ")
    return "not " + _grouped(part, inside_or=False)


def _grouped(part: Expression, *, inside_or: bool) -> str:
    """Return the text of a part, in parentheses when it is an `and` or `or` that its surroundings would tear apart."""
    text = format_expression(part)
    torn = isinstance(_plain(part), Or) or (not inside_or and isinstance(_plain(part), And))
    return f"({text})" if torn else text


def _plain(part: Expression) -> Expression:
    """Return what an `and` or `or` of fewer than two parts is written as."""
    while isinstance(part, And | Or) and len(part.parts) < 2:
        part = part.parts[0] if part.parts else Constant(isinstance(part, And))
    return part


def _constraint(constraint: Constraint, negation: str) -> str:
    name = format_name(constraint.attribute)
    operator = constraint.operator
    if operator is Operator.EXISTS:
        return f"exists {name}"
    constants = [format_value(constant) for constant in constraint.constants]
    if operator in OF_SEVERAL:
        return f"{name} {negation}{operator.value} ({', '.join(constants)})"
    if operator is Operator.BETWEEN:
        return f"{name} {negation}between {constants[0]} and {constants[1]}"
    return f"{name} {negation}{operator.value} {constants[0]}"


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
    scalars: dict[Family, Callable[[], list[Parts]]] = {
        Family.NUMBER: lambda: _of_intervals(name, values.numbers),
        Family.STRING: lambda: _of_strings(name, values.strings),
        Family.BOOL: lambda: [[_equal(name, sorted(values.bools, reverse=True))]] if values.bools else [],
        Family.TIME: lambda: _of_intervals(name, values.times),
    }
    for family, asked in zip(FAMILIES, values.lists.families, strict=True):
        alternatives += scalars[family]() if asked is None else _of_elements(name, family, asked)
    if values.lists.empty and values.lists.families == NO_LISTS.families:
        alternatives.append([Constraint(name, Operator.HAS_NONE, (False, True))])  # the only family that ends
    return _any_of(alternatives)


def _of_elements(name: str, family: Family, asked: Elements) -> list[Parts]:
    """Return what is asked of the lists of a family, scalars included."""
    if not asked:  # of every list, which no constraint says alone
        some = (_SOME[family],)
        return [[Constraint(name, operator, some)] for operator in (Operator.HAS, Operator.HAS_NONE)]
    wanted = sorted(map(_sorted, asked.required), key=lambda values: (len(values), values))
    every = tuple(values[0] for values in wanted if len(values) == 1)
    parts: Parts = []
    if every:
        parts.append(Constraint(name, Operator.HAS if len(every) == 1 else Operator.HAS_ALL, every))
    parts += (Constraint(name, Operator.HAS_ANY, values) for values in wanted[len(every) :])
    if len(asked.forbidden) == 1:
        parts.append(Not(Constraint(name, Operator.HAS, _sorted(asked.forbidden))))
    elif asked.forbidden:
        parts.append(Constraint(name, Operator.HAS_NONE, _sorted(asked.forbidden)))
    return [parts]


_SOME: dict[Family, Value] = {Family.NUMBER: 0, Family.STRING: "", Family.BOOL: False, Family.TIME: EARLIEST}


def _sorted(values: Values) -> tuple[Value, ...]:
    return tuple(sorted(values))


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


class _Bound(NamedTuple):
    """One end of an interval; a closed one includes its value."""

    value: Value
    closed: bool


def bounded(name: str, domain: Domain, start: Cut, end: Cut) -> list[Constraint]:
    """Return the constraints, none to two, that hold together between two cuts."""
    if is_prefix(domain, start, end):
        return [Constraint(name, Operator.PREFIX, (start[1],))]
    low = None if start == START else _low(domain, start)
    high = None if end == END else _high(domain, end)
    if low and high and low.closed and high.closed:
        return [Constraint(name, Operator.BETWEEN, (low.value, high.value))]
    found: list[Constraint] = []
    if low:
        found.append(Constraint(name, Operator.GE if low.closed else Operator.GT, (low.value,)))
    if high:
        found.append(Constraint(name, Operator.LE if high.closed else Operator.LT, (high.value,)))
    return found


def is_prefix(domain: Domain, start: Cut, end: Cut) -> bool:
    """Whether the strings between two cuts are those that start with the first of them, if a prefix may be as long."""
    if domain is not Domain.STRING or start == START or len(start[1]) > MAX_PATTERN_LENGTH:
        return False
    return (start, end) == prefix_range(start[1]).cuts


def _low(domain: Domain, start: Cut) -> _Bound:
    value, above = start[1], bool(start[2])
    before = _before(domain, value)
    if before is not None and domain is not Domain.INTEGER and _length(before) < _length(value):
        return _Bound(before, closed=False)
    return _Bound(value, closed=not above)


def _high(domain: Domain, end: Cut) -> _Bound:
    value, above = end[1], bool(end[2])
    before = _before(domain, value)
    if before is not None and (domain is Domain.INTEGER or _length(before) <= _length(value)):
        return _Bound(before, closed=True)
    return _Bound(value, closed=above)


def _before(domain: Domain, value: Value) -> Value | None:
    """Return the value just before another, where there is such a thing."""
    if domain is Domain.INTEGER:
        return int(value) - 1  # type: ignore[arg-type]
    if domain is Domain.TIME:
        return value - TICK  # type: ignore[operator,return-value]
    if isinstance(value, str) and value.endswith("\0"):
        return value[:-1]
    return None


def _length(value: Value) -> int:
    return len(value) if isinstance(value, str) else len(format_time(value))  # type: ignore[arg-type]
