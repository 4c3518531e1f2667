"""Filters to text.

`format_filter` writes the normal form: `parse_filter(format_filter(f)) == f`, with the schema that f was made under, as
long as the text stays within the bounds of parser and Filter. `format_expression` writes a tree as it stands:
`parse_expression(format_expression(e)) == e` for every tree whose `and`s and `or`s have two or more parts. (The `and`
of one part is written as that part, the `and` of none as `true`, the `or` of none as `false`.)
"""

from __future__ import annotations

from rankcast.language.canonical import canonical_expression
from rankcast.language.literals import format_name, format_value
from rankcast.model.expressions import PATTERNS, And, Constant, Constraint, Expression, Not, Operator, Or
from rankcast.model.filters import Conjunction, Filter
from rankcast.model.valuesets.sets import ValueSet

__all__ = ["format_constraint", "format_expression", "format_filter", "format_value", "format_value_set"]

_NOT_INSIDE = PATTERNS | {Operator.IN, Operator.BETWEEN}
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
    if operator is Operator.IN:
        return f"{name} {negation}in ({', '.join(constants)})"
    if operator is Operator.BETWEEN:
        return f"{name} {negation}between {constants[0]} and {constants[1]}"
    return f"{name} {negation}{operator.value} {constants[0]}"
