"""Filter text to filters.

    expression  = conjunction {"or" conjunction}
    conjunction = negation {"and" negation}
    negation    = "not" negation | "(" expression ")" | "true" | "false" | constraint
    constraint  = NAME (COMPARISON | PATTERN) constant | NAME "not" PATTERN constant
                | NAME ["not"] "between" constant "and" constant
                | NAME ["not"] ("in" | "has" ("any" | "all" | "none")) "(" constant {"," constant} ")"
                | NAME ["not"] "has" constant
                | "exists" NAME | "exists" "(" NAME ")"
    constant    = NUMBER | STRING | "true" | "false" | ("time" | "timestamp") STRING

The tokens are the regular expressions below; keywords are read in any case. docs/filter-language.md is the guide for
users. Only six words are reserved. The others (time, in, like, prefix, ...) are keywords where an operator or a
constant stands and plain names where an attribute stands.

One pass from left to right, with one token of lookahead and no recursion over the text: reading costs time linear in
its length, whatever it holds. The tree keeps parentheses that group: `a and (b and c)` is an `and` inside an `and`.
(Written by hand because a general parser took three quarters of the time to subscribe, and of a program's start.)

Every error that a text can cause is a `FilterError`. Where the place is known, its message ends with the line and a
caret below the column: always for FilterSyntaxError, and also for a FilterTypeError or an UnknownAttributeError.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple, NoReturn, TypeAlias

from rankcast.language.diagnosis import Due, Unexpected, diagnosed
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
    leaves,
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

Expected: TypeAlias = Callable[[str, int], re.Match[str] | None]
"""Finds one of some tokens at a place, behind any space: the name of the group that matched is its kind."""

_END_OF_WORD = r"(?![\w.])"  # "android" and "or.else" are names
_NAME_TOKEN = (
    rf"(?P<name>(?!(?ai:and|or|not|exists|true|false){_END_OF_WORD})[^\W\d]\w*+(?:\.\w++)*+"
    r"""|"(?:[^"]++|"")*+")"""
)
_STRING_TOKEN = r"(?P<string>'(?:[^'\\]++|\\.|'')*+')"


def _word(kind: str, words: str | None = None) -> str:
    return f"(?P<{kind}>(?ai:{words or kind}){_END_OF_WORD})"


def _expected(*tokens: str) -> Expected:
    return re.compile(rf"\s*+(?:{'|'.join(tokens)})", re.DOTALL).match


_BOOLEAN_TOKEN, _PATTERN_TOKEN = _word("boolean", "true|false"), _word("pattern", "like|prefix|suffix|contains")
_OPEN_TOKEN, _CLOSE_TOKEN = r"(?P<open>\()", r"(?P<close>\))"
_NEGATABLE = (_PATTERN_TOKEN, _word("between"), _word("several", r"in|has\s++(?:any|all|none)"), _word("has"))
_OPERAND = _expected(_NAME_TOKEN, _word("not"), _OPEN_TOKEN, _word("exists"), _BOOLEAN_TOKEN)
_CONNECTIVE = _expected(_word("and"), _word("or"), _CLOSE_TOKEN, r"(?P<end>\Z)")
_OPERATOR = _expected(r"(?P<comparison>(?:==|!=|<>|<=|>=|=|<|>)(?![=<>!~]))", *_NEGATABLE, _word("not"))
_NEGATED_OPERATOR = _expected(*_NEGATABLE)
_CONSTANT = _expected(
    r"(?P<number>[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?(?![\w.]))",
    _STRING_TOKEN,
    _BOOLEAN_TOKEN,
    _word("time", "time(?:stamp)?"),
)
_STRING, _NAME, _OPEN, _CLOSE = map(_expected, (_STRING_TOKEN, _NAME_TOKEN, _OPEN_TOKEN, _CLOSE_TOKEN))
_OPEN_OR_NAME, _UPPER_BOUND = _expected(_OPEN_TOKEN, _NAME_TOKEN), _expected(_word("and"))
_NEXT_IN_LIST = _expected(r"(?P<comma>,)", _CLOSE_TOKEN)
_SPACE: Expected = re.compile(r"\s*+").match


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
        return _Parser(text).expression()
    except Unexpected as error:
        raise diagnosed(error, text) from None
    except _MisplacedError as error:
        raise error.placed_in(text) from None


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


class _Level(NamedTuple):
    """What stands before the operand that is being read, between the same parentheses, and where these begin.

    `negations` counts the `not` right before it, `conjuncts` are joined by `and` and end with it, `alternatives` are
    joined by `or`.
    """

    opened: int
    alternatives: list[Expression]
    conjuncts: list[Expression]
    negations: int


class _Parser:
    """Reads one text from left to right, token by token: what may come next decides what a word is."""

    def __init__(self, text: str) -> None:
        self.names: list[int] = []
        """Where the attributes of the constraints stand, in the order of the text."""
        self._text = text
        self._at = 0

    def expression(self) -> Expression:
        """Return what the whole text says.

        Parentheses are levels of a list, not calls: a text that nests deep needs no deep stack.
        """
        levels: list[_Level] = []
        opened, negations = -1, 0
        alternatives: list[Expression] = []
        conjuncts: list[Expression] = []
        while True:
            kind, found = self._next(_OPERAND, Due.CONSTRAINT, opened=opened)
            if kind == "open":
                levels.append(_Level(opened, alternatives, conjuncts, negations))
                opened, alternatives, conjuncts, negations = self._at - 1, [], [], 0
                continue
            if kind == "not":
                negations += 1
                continue
            operand = self._operand(kind, found)
            while True:  # an operand is complete
                for _ in range(negations):
                    operand = Not(operand)
                conjuncts.append(operand)
                negations = 0
                due = Due.AND_OR_CLOSE if levels else Due.AND_OR_END
                kind, _ = self._next(_CONNECTIVE, due, opened=opened)
                if kind == "and":
                    break
                alternatives.append(conjuncts[0] if len(conjuncts) == 1 else And(tuple(conjuncts)))
                conjuncts = []
                if kind == "or":
                    break
                operand = alternatives[0] if len(alternatives) == 1 else Or(tuple(alternatives))
                if kind == "end" and not levels:
                    return operand
                if kind == "end" or not levels:
                    raise Unexpected(due, len(self._text.rstrip()) if kind == "end" else self._at - 1, opened=opened)
                opened, alternatives, conjuncts, negations = levels.pop()

    def _next(self, expected: Expected, due: Due, attribute: str = "a", opened: int = -1) -> tuple[str, str]:
        """Read the next token: one of those expected, as its kind and its text."""
        found = expected(self._text, self._at)
        if found is None or found.lastgroup is None:
            raise self._unexpected(due, attribute, opened)
        self._at = found.end()
        return found.lastgroup, found[found.lastgroup]

    def _unexpected(self, due: Due, attribute: str, opened: int) -> Unexpected:
        found = _SPACE(self._text, self._at)
        assert found is not None  # even where there is no space
        return Unexpected(due, found.end(), attribute, opened, follows_open=self._text[self._at - 1 : self._at] == "(")

    def _operand(self, kind: str, found: str) -> Expression:
        """Return the operand that begins with a token."""
        if kind == "boolean":
            return Constant(found.lower() == "true")
        if kind == "exists":
            return self._exists()
        self.names.append(self._at - len(found))
        kind, operator = self._next(_OPERATOR, Due.OPERATOR, found)
        if kind == "not":
            kind, operator = self._next(_NEGATED_OPERATOR, Due.NEGATED_OPERATOR, found)
            return Not(self._compared(found, kind, operator))
        return self._compared(found, kind, operator)

    def _compared(self, name: str, kind: str, operator: str) -> Constraint:
        start = self.names[-1]
        if kind == "between":
            low = self._constant(name)
            self._next(_UPPER_BOUND, Due.UPPER_BOUND, name)
            return _constraint(name, start, Operator.BETWEEN, (low, self._constant(name)))
        if kind == "several":
            return _constraint(name, start, _OPERATORS[" ".join(operator.lower().split())], self._list(name))
        return _constraint(name, start, _OPERATORS[operator.lower()], (self._constant(name),))

    def _list(self, name: str) -> tuple[_Literal, ...]:
        self._next(_OPEN, Due.LIST, name)
        opened = self._at - 1
        found = [self._constant(name, opened)]
        while self._next(_NEXT_IN_LIST, Due.NEXT_IN_LIST, name, opened)[0] == "comma":
            found.append(self._constant(name, opened))
        return tuple(found)

    def _exists(self) -> Expression:
        kind, name = self._next(_OPEN_OR_NAME, Due.ATTRIBUTE)
        opened = self._at - 1
        is_open = kind == "open"
        if is_open:
            _, name = self._next(_NAME, Due.ATTRIBUTE)
        self.names.append(self._at - len(name))
        if is_open:
            self._next(_CLOSE, Due.CLOSE, name, opened)
        return _constraint(name, self.names[-1], Operator.EXISTS, ())

    def _constant(self, name: str, opened: int = -1) -> _Literal:
        kind, found = self._next(_CONSTANT, Due.CONSTANT, name, opened)
        if kind == "time":
            _, found = self._next(_STRING, Due.TIME, name, opened)
        start = self._at - len(found)
        try:
            return _Literal(_READ[kind](found), start)
        except LiteralError as error:
            raise _MisplacedError(error, start + error.offset) from None


_READ: Mapping[str, Callable[[str], Value]] = {
    "number": read_number,
    "string": read_string,
    "time": read_time,
    "boolean": lambda found: found.lower() == "true",
}


def _constraint(name: str, start: int, operator: Operator, literals: tuple[_Literal, ...]) -> Constraint:
    attribute = read_name(name)
    try:
        return Constraint(attribute, operator, tuple([literal.value for literal in literals]))
    except (FilterTypeError, InvalidValueError) as error:
        _refuse(error, attribute, start, literals)


def _refuse(
    error: FilterError | InvalidValueError, attribute: str, start: int, literals: tuple[_Literal, ...]
) -> NoReturn:
    """Point at what is to blame: the name, or the first constant of another family than the first, or the first."""
    if not literals or not 0 < len(attribute) <= MAX_NAME_LENGTH:
        raise _MisplacedError(error, start) from None
    family = family_of(literals[0].value)
    other = next((literal for literal in literals if family_of(literal.value) is not family), literals[0])
    raise _MisplacedError(error, other.offset) from None


def _placed_by_schema(error: FilterError, text: str, expression: Expression, schema: Schema) -> FilterError:
    """Return the error that the first unfitting constraint causes, with its place.

    The constraints of the tree, from left to right, are the attribute names of the text, one each.
    """
    parser = _Parser(text)
    parser.expression()
    constraints = [leaf for leaf in leaves(expression) if isinstance(leaf, Constraint)]
    for start, constraint in zip(parser.names, constraints, strict=True):
        try:
            schema.check(constraint)
        except (UnknownAttributeError, FilterTypeError) as found:
            return _MisplacedError(found, start).placed_in(text)
    return error
