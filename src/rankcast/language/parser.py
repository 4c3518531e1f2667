"""Filter text to filters.

The text is read by an LALR(1) parser whose callbacks build the expression bottom-up, so no step recurses over the
text: reading costs time linear in its length, whatever it holds. The tree keeps parentheses that group:
`a and (b and c)` is an `and` inside an `and`.

Every error that a text can cause is a `FilterError`. Where the place is known, its message ends with the line and a
caret below the column: always for FilterSyntaxError, and also for a FilterTypeError or an UnknownAttributeError.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import NamedTuple, NoReturn

from lark import Lark, Token, Transformer, UnexpectedInput, v_args

from rankcast.language.diagnosis import diagnosed
from rankcast.language.literals import LiteralError, read_name, read_number, read_string, read_time
from rankcast.model.errors import (
    FilterError,
    FilterSyntaxError,
    FilterTooLargeError,
    FilterTypeError,
    InvalidValueError,
    UnknownAttributeError,
    shown,
)
from rankcast.model.expressions import (
    MAX_DEPTH,
    And,
    Constant,
    Constraint,
    Expression,
    Not,
    Operator,
    Or,
)
from rankcast.model.filters import Filter
from rankcast.model.schema import Schema
from rankcast.model.values import MAX_NAME_LENGTH, Value, family_of

MAX_TEXT = 1_000_000
"""Characters of one filter text; the longest sensible filters are lists of some ten thousand values."""

_OPERATORS = {operator.value: operator for operator in Operator} | {"==": Operator.EQ, "<>": Operator.NE}
_NESTING = re.compile(r"[()]" r"|'(?:[^'\\]++|\\.|'')*+'?" r'|"(?:[^"]++|"")*+"?', re.DOTALL)
"""Parentheses, and the strings and quoted names (as in the grammar) whose parentheses do not count. One that is not
closed goes to the end of the text, so that each character is looked at once."""


def parse_filter(text: str, schema: Schema | None = None) -> Filter:
    """Return the filter of a text; with a schema, its attributes and constants are checked against it.

    >>> parse_filter("city = 'Porto' and rent between 500 and 900").accepts({"city": "Porto", "rent": 700})
    True
    """
    expression = parse_expression(text)
    try:
        return Filter.of(expression, schema)
    except (UnknownAttributeError, FilterTypeError) as error:
        if schema is None:
            raise
        raise _placed_by_schema(error, text, expression, schema) from None


def parse_expression(text: str) -> Expression:
    """Return the expression of a text, as it is written."""
    _check_text(text)
    try:
        expression: Expression = _parser().parse(text)  # type: ignore[assignment]  # what `_Builder.start` returns
    except UnexpectedInput as error:
        raise diagnosed(error, text) from None
    except _MisplacedError as error:
        raise error.placed_in(text) from None
    return expression


def _check_text(text: object) -> None:
    if not isinstance(text, str):
        raise FilterTypeError(f"a filter text is a string, not {shown(text)} ({type(text).__name__})")
    if len(text) > MAX_TEXT:
        raise FilterTooLargeError(f"the filter text has {len(text):,} characters; at most {MAX_TEXT:,} are allowed")
    if not text.strip():
        raise FilterSyntaxError("the filter is blank; write true to match every event", text, 0)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise FilterSyntaxError("half a surrogate pair, which is not a character", text, error.start) from None
    if text.count("(") > MAX_DEPTH:
        _check_nesting(text)


def _check_nesting(text: str) -> None:
    """Refuse deep parentheses before they are parsed; those in strings and quoted names do not count."""
    depth = 0
    for found in _NESTING.finditer(text):
        symbol = found.group()
        depth += (symbol == "(") - (symbol == ")")
        if depth > MAX_DEPTH:
            raise FilterTooLargeError(
                f"parentheses nest more than {MAX_DEPTH} deep, from character {found.start() + 1:,} on"
            )


@cache
def _parser() -> Lark:
    """Build the parser at its first use: that takes some tens of milliseconds, which an import should not."""
    return Lark.open_from_package(
        "rankcast.language", "grammar.lark", parser="lalr", lexer="contextual", transformer=_Builder()
    )


class _Literal(NamedTuple):
    """A constant and where it stands."""

    value: Value
    offset: int


class _MisplacedError(Exception):
    """Carries a problem out of the parser, with its offset, to where the text is known."""

    def __init__(self, error: LiteralError | InvalidValueError | FilterError, offset: int) -> None:
        super().__init__(str(error))
        self.error = error
        self.offset = offset

    def placed_in(self, text: str) -> FilterError:
        """Return the error to raise: of the same class if it is a filter's, with the place in its message."""
        placed = FilterSyntaxError(str(self.error), text, self.offset)
        return type(self.error)(str(placed)) if isinstance(self.error, FilterError) else placed


@v_args(inline=True)
class _Builder(Transformer[Token, Expression]):
    """Callbacks of the grammar's rules. It has no state: one parser serves every thread."""

    def start(self, expression: Expression) -> Expression:
        return expression

    def any_of(self, *parts: Expression) -> Expression:
        return Or(parts)

    def all_of(self, *parts: Expression) -> Expression:
        return And(parts)

    def negated(self, part: Expression) -> Expression:
        return Not(part)

    def whole(self, token: Token) -> Expression:
        return Constant(token.lower() == "true")

    def compared(self, attribute: Token, operator: Token, constant: _Literal) -> Expression:
        return _constraint(attribute, _OPERATORS[operator.lower()], (constant,))

    def not_compared(self, attribute: Token, operator: Token, constant: _Literal) -> Expression:
        return Not(_constraint(attribute, _OPERATORS[operator.lower()], (constant,)))

    def between(self, attribute: Token, low: _Literal, high: _Literal) -> Expression:
        return _constraint(attribute, Operator.BETWEEN, (low, high))

    def not_between(self, attribute: Token, low: _Literal, high: _Literal) -> Expression:
        return Not(_constraint(attribute, Operator.BETWEEN, (low, high)))

    def within(self, attribute: Token, *constants: _Literal) -> Expression:
        return _constraint(attribute, Operator.IN, constants)

    def not_within(self, attribute: Token, *constants: _Literal) -> Expression:
        return Not(_constraint(attribute, Operator.IN, constants))

    def exists(self, attribute: Token) -> Expression:
        return _constraint(attribute, Operator.EXISTS, ())

    def number(self, token: Token) -> _Literal:
        return _literal(read_number, token)

    def string(self, token: Token) -> _Literal:
        return _literal(read_string, token)

    def time(self, token: Token) -> _Literal:
        return _literal(read_time, token)

    def boolean(self, token: Token) -> _Literal:
        return _Literal(token.lower() == "true", _start(token))


def _literal(read: Callable[[str], Value], token: Token) -> _Literal:
    try:
        return _Literal(read(str(token)), _start(token))
    except LiteralError as error:
        raise _MisplacedError(error, _start(token) + error.offset) from None


def _start(token: Token) -> int:
    return token.start_pos or 0


def _constraint(attribute: Token, operator: Operator, literals: tuple[_Literal, ...]) -> Constraint:
    name = read_name(str(attribute))
    try:
        return Constraint(name, operator, tuple([literal.value for literal in literals]))
    except (FilterTypeError, InvalidValueError) as error:
        _refuse(error, attribute, literals)


def _refuse(error: FilterError | InvalidValueError, attribute: Token, literals: tuple[_Literal, ...]) -> NoReturn:
    """Point at what is to blame: the name, or the first constant of another family than the first, or the first."""
    if not literals or not 0 < len(read_name(str(attribute))) <= MAX_NAME_LENGTH:
        raise _MisplacedError(error, _start(attribute)) from None
    family = family_of(literals[0].value)
    other = next((literal for literal in literals if family_of(literal.value) is not family), literals[0])
    raise _MisplacedError(error, other.offset) from None


def _placed_by_schema(error: FilterError, text: str, expression: Expression, schema: Schema) -> FilterError:
    """Return the error that the first unfitting constraint causes, with its place.

    The constraints of the tree, from left to right, are the attribute names of the text, one each.
    """
    names = (token for token in _parser().parse_interactive(text).exhaust_lexer() if token.type == "NAME")
    for name, constraint in zip(names, _constraints(expression), strict=True):
        try:
            schema.check(constraint)
        except (UnknownAttributeError, FilterTypeError) as found:
            return _MisplacedError(found, _start(name)).placed_in(text)
    return error


def _constraints(expression: Expression) -> list[Constraint]:
    found: list[Constraint] = []
    waiting = [expression]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Constraint):
            found.append(part)
        elif isinstance(part, Not):
            waiting.append(part.part)
        elif isinstance(part, And | Or):
            waiting += reversed(part.parts)
    return found
