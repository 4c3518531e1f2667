"""One interval of a value set as constraints: between, prefix, or a lower and an upper bound.

Over integers, strings and times a cut has two spellings (`x < 5` is `x <= 4`): integers take closed bounds, strings and
times the shorter constant.
"""

from __future__ import annotations

from typing import NamedTuple

from rankcast.model.expressions import MAX_PATTERN_LENGTH, Constraint, Operator
from rankcast.model.times import TICK, format_time
from rankcast.model.values import Value
from rankcast.model.valuesets.intervals import END, START, Cut, Domain
from rankcast.model.valuesets.strings import prefix_range


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
