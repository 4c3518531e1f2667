"""What is wrong with a filter text, in words for its author.

The parser says where it stopped and which tokens it would have accepted there. Those tokens tell the situation (an
operator is due, a constant is due, ...); the text at that place tells the likely mistake, such as a string in double
quotes. Everything here runs once per bad text, on a few characters around the mistake.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from lark import Token, UnexpectedInput
from lark.exceptions import UnexpectedCharacters, UnexpectedToken

from rankcast.language.literals import OPERATOR_WORDS
from rankcast.model.errors import FilterSyntaxError

_LUMP = re.compile(
    r"""(?P<string>'(?:[^'\\]++|\\.|'')*+')|(?P<name>"(?:[^"]++|"")*+")|(?P<unclosed>['"])"""
    r"""|(?P<number>[+-]?\.?[0-9][\w.]*)|(?P<word>[\w.]+)|(?P<symbol>[=<>!~&|^*/%:+-]+)|(?P<other>.)""",
    re.DOTALL,
)
_NULL_TEST = re.compile(r"is\s+(not\s+)?(?:null|none)\b", re.IGNORECASE)
_NULL = re.compile(r"(?:null|none|nil|undefined)\b", re.IGNORECASE)
_NOT_FINITE = re.compile(r"[+-]?(?:nan|inf|infinity)\b", re.IGNORECASE)
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_SYMBOL_WORDS = {"&&": "and", "&": "and", "||": "or", "|": "or", "!": "not"}
_TYPOGRAPHIC_QUOTES = "\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u00b4`"
_WIDEST_SHOWN = 40

CONSTRAINT = "a constraint such as rent < 900"
OPERATOR = "an operator: =, !=, <, <=, >, >=, between, in, like, prefix, suffix or contains"


class _Due(Enum):
    """What the text should have gone on with; the value is how a message says so."""

    CONSTRAINT = (CONSTRAINT,)
    OPERATOR = (OPERATOR,)
    NEGATED_OPERATOR = ("between", "in", "like", "prefix", "suffix", "contains after 'not'")
    CONSTANT = ("a constant",)
    TIME = ("a time in single quotes, such as '2026-03-01T09:30:00Z'",)
    ATTRIBUTE = ("an attribute",)
    LIST = ("'(' and a list of constants",)
    NEXT_IN_LIST = ("','", "')'")
    UPPER_BOUND = ("'and' and the upper bound",)
    CLOSE = ("')'",)
    AND_OR_CLOSE = ("'and'", "'or'", "')'")
    AND_OR_END = ("'and'", "'or'", "the end of the text")


_ENDED = (_Due.AND_OR_CLOSE, _Due.AND_OR_END)
"""A constraint is complete here."""


@dataclass(frozen=True, slots=True)
class _Situation:
    """Where the parser stopped: what it found and what was due."""

    text: str
    offset: int
    due: _Due
    kind: str
    found: str
    stack: list[object]

    @property
    def attribute(self) -> str:
        """The attribute that is being spoken of, as it is written."""
        names = (item for item in reversed(self.stack) if isinstance(item, Token) and item.type == "NAME")
        return _cut(str(next(names, "a")))

    @property
    def rest(self) -> str:
        """The text from the offset on, as far as hints look."""
        return self.text[self.offset : self.offset + 1_000]


def diagnosed(error: UnexpectedInput, text: str) -> FilterSyntaxError:
    """Return the error to raise for what the parser could not read."""
    situation = _situation(error, text)
    if situation.kind == "end":
        opened = _unclosed_parenthesis(situation)
        if opened is not None:
            return FilterSyntaxError("this parenthesis is not closed", text, opened, ("')'",))
    for hint in _HINTS:
        problem = hint(situation)
        if problem is not None:
            return FilterSyntaxError(problem, text, situation.offset)
    found = "the text ends too early" if situation.kind == "end" else f"unexpected {_shown(situation)}"
    return FilterSyntaxError(found, text, situation.offset, situation.due.value)


def _situation(error: UnexpectedInput, text: str) -> _Situation:
    parser = error.interactive_parser  # the LALR parser sets it on every error
    due = _due(parser.accepts())  # type: ignore[no-untyped-call]
    stack: list[object] = parser.parser_state.value_stack
    at_end = isinstance(error, UnexpectedToken) and error.token.type == "$END"
    if at_end or not isinstance(error, UnexpectedToken | UnexpectedCharacters):
        return _Situation(text, len(text.rstrip()), due, "end", "", stack)
    offset = error.token.start_pos if isinstance(error, UnexpectedToken) else error.pos_in_stream
    lump = _LUMP.match(text, offset or 0)
    kind, found = (str(lump.lastgroup), lump.group()) if lump else ("other", "")
    return _Situation(text, offset or 0, due, kind, found, stack)


def _due(accepted: set[str]) -> _Due:
    telling = {
        "COMPARISON": _Due.OPERATOR,
        "_IN": _Due.NEGATED_OPERATOR,
        "NUMBER": _Due.CONSTANT,
        "STRING": _Due.TIME,
        "_EXISTS": _Due.CONSTRAINT,
        "NAME": _Due.ATTRIBUTE,
        "_COMMA": _Due.NEXT_IN_LIST,
        "_OPEN": _Due.LIST,
        "$END": _Due.AND_OR_END,
        "_OR": _Due.AND_OR_CLOSE,
        "_AND": _Due.UPPER_BOUND,
    }
    return next((due for token, due in telling.items() if token in accepted), _Due.CLOSE)


def _unclosed_parenthesis(situation: _Situation) -> int | None:
    if situation.due not in (_Due.AND_OR_CLOSE, _Due.NEXT_IN_LIST, _Due.CLOSE):
        return None
    opened = [item for item in situation.stack if isinstance(item, Token) and item.type == "_OPEN"]
    return opened[-1].start_pos


def _shown(situation: _Situation) -> str:
    found = _cut(situation.found)
    if situation.kind == "string":
        return f"string {found}"
    if situation.kind == "name":
        return f"name {found}"
    return f"'{found}'" if found.isprintable() else ascii(found)


def _cut(found: str) -> str:
    return found if len(found) <= _WIDEST_SHOWN else f"{found[:_WIDEST_SHOWN]}..."


def _unclosed_quote(at: _Situation) -> str | None:
    if at.kind != "unclosed":
        return None
    if at.found == '"':
        return 'this name is not closed; expected another "'
    return "this string is not closed; expected another ' (a quote inside a string is written twice: '')"


def _typographic_quote(at: _Situation) -> str | None:
    if not at.found or at.found[0] not in _TYPOGRAPHIC_QUOTES:
        return None
    return f"{at.found[0]} is not a quote of this language; strings stand in 'single quotes'"


def _symbol_for_word(at: _Situation) -> str | None:
    word = _SYMBOL_WORDS.get(at.found)
    fits = at.due is _Due.CONSTRAINT if word == "not" else at.due in (*_ENDED, _Due.OPERATOR, _Due.CONSTRAINT)
    return f"unexpected '{at.found}'; write '{word}'" if word and fits else None


def _null(at: _Situation) -> str | None:
    test = _NULL_TEST.match(at.rest)
    if at.due is _Due.OPERATOR and test:
        return f"there is no 'is null'; write '{'exists' if test.group(1) else 'not exists'} {at.attribute}'"
    if at.due is _Due.CONSTANT and _NULL.match(at.rest):
        return f"{at.found} is not a constant; a missing attribute is found with 'not exists {at.attribute}'"
    return None


def _odd_name(at: _Situation) -> str | None:
    digit_first = at.due in (_Due.CONSTRAINT, _Due.ATTRIBUTE) and re.match(r"[0-9]+[^\W\de]", at.found)
    odd_inside = at.due is _Due.OPERATOR and at.found[:1] in tuple(".-:/") and not at.text[at.offset - 1].isspace()
    if not digit_first and not odd_inside:
        return None
    return (
        f'unexpected {_shown(at)}; a name with other than letters, digits, _ and inner dots stands in "double quotes"'
    )


def _constant_first(at: _Situation) -> str | None:
    if at.due is _Due.CONSTRAINT and at.kind in ("number", "string"):
        return f"unexpected {_shown(at)}; write the attribute first, as in rent > 500"
    if at.due in _ENDED and at.kind == "symbol" and at.found[0] in "=<>!":
        return (
            f"unexpected {_shown(at)}; write the attribute first and one comparison at a time, "
            "as in rent > 500 and rent < 900"
        )
    return None


def _not_a_constant(at: _Situation) -> str | None:
    if at.due is not _Due.CONSTANT:
        return None
    if _NOT_FINITE.match(at.rest):
        return "not-a-number and infinity cannot be compared with; expected a finite constant"
    if at.kind == "name":
        return f"{_cut(at.found)} stands in double quotes, which are for attributes; strings stand in 'single quotes'"
    if at.kind == "word" and at.found.lower() not in ("and", "or", "not"):
        return f"{_shown(at)} is not a constant; compare with a constant (strings stand in 'single quotes')"
    if at.kind == "number":
        return f"{_shown(at)} is not a number; expected digits such as 42, -1.5 or 2e6"
    if at.found.startswith(")") and isinstance(at.stack[-1], Token) and at.stack[-1].type == "_OPEN":
        return "the list is empty; expected at least one constant"
    return None


def _bare_date(at: _Situation) -> str | None:
    date = _DATE.match(at.text, max(at.offset - 4, 0)) or _DATE.match(at.text, at.offset)
    if at.kind != "number" or date is None:
        return None
    return f"unexpected {_shown(at)}; a time is written time '{date.group()}'"


def _unknown_operator(at: _Situation) -> str | None:
    if at.due is not _Due.OPERATOR:
        return None
    name = at.attribute
    if at.kind in ("number", "string") and name.lower() in OPERATOR_WORDS:
        return f"'{name}' has no attribute in front of it; expected one, as in city {name} ..."
    if at.kind == "end" or at.found.lower() in ("and", "or", ")"):
        found = "the text ends" if at.kind == "end" else f"unexpected {_shown(at)}"
        return f"{found} after the attribute {name}; expected {OPERATOR} (for a yes-or-no attribute: {name} = true)"
    if at.kind not in ("word", "symbol"):
        return None
    near = difflib.get_close_matches(at.found.lower(), sorted(OPERATOR_WORDS), n=1, cutoff=0.7)
    swapped = {"=>": ">=", "=<": "<=", "===": "=", "!==": "!=", "~=": "!=", "><": "<>"}.get(at.found)
    meant = swapped or (near[0] if near else None)
    return f"unknown operator {_shown(at)}; " + (f"did you mean '{meant}'?" if meant else f"expected {OPERATOR}")


def _negated_comparison(at: _Situation) -> str | None:
    if at.due is _Due.NEGATED_OPERATOR and at.kind == "symbol":
        return f"unexpected {_shown(at)} after 'not'; write 'not {at.attribute} {at.found} ...'"
    return None


def _quote_inside_string(at: _Situation) -> str | None:
    ended = at.due in (*_ENDED, _Due.NEXT_IN_LIST, _Due.UPPER_BOUND)
    if ended and at.kind == "word" and at.offset and at.text[at.offset - 1] == "'":
        return f"unexpected {_shown(at)} right after a string; a quote inside a string is written twice: ''"
    return None


def _not_open(at: _Situation) -> str | None:
    if at.due is _Due.AND_OR_END and at.found == ")":
        return "unexpected ')': no parenthesis is open"
    return None


_HINTS: tuple[Callable[[_Situation], str | None], ...] = (
    _unclosed_quote,
    _typographic_quote,
    _symbol_for_word,
    _null,
    _bare_date,
    _odd_name,
    _constant_first,
    _not_a_constant,
    _unknown_operator,
    _negated_comparison,
    _quote_inside_string,
    _not_open,
)
"""Tried in order; the first that knows the mistake words the message."""
