"""What is wrong with a filter text, in words for its author.

The parser says where it stopped and what was due there (an operator, a constant, ...); the text at that place tells the
likely mistake, such as a string in double quotes. Everything here runs once per bad text, on a few characters around
the mistake.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from rankcast.language.literals import OPERATOR_WORDS
from rankcast.model.errors import FilterSyntaxError

_LUMP = re.compile(
    r"""(?P<string>'(?:[^'\\]++|\\.|'')*+')|(?P<name>"(?:[^"]++|"")*+")|(?P<unclosed>['"])"""
    r"""|(?P<number>[+-]?\.?[0-9][\w.]*)|(?P<word>[\w.]+)|(?P<symbol>[=<>!~&|^*/%:+-]+)|(?P<other>.)""",
    re.DOTALL,
)
_NULL_TEST = re.compile(r"is\s+(not\s+)?(?:null|none)\b", re.IGNORECASE)
_HAS = re.compile(r"has\s*\Z", re.IGNORECASE)
_NULL = re.compile(r"(?:null|none|nil|undefined)\b", re.IGNORECASE)
_NOT_FINITE = re.compile(r"[+-]?(?:nan|inf|infinity)\b", re.IGNORECASE)
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_SYMBOL_WORDS = {"&&": "and", "&": "and", "||": "or", "|": "or", "!": "not"}
_TYPOGRAPHIC_QUOTES = "\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u00b4`"
_WIDEST_SHOWN = 40

CONSTRAINT = "a constraint such as rent < 900"
OPERATOR = "an operator: =, !=, <, <=, >, >=, between, in, has, like, prefix, suffix or contains"


class Due(Enum):
    """What the text should have gone on with; the value is how a message says so."""

    CONSTRAINT = (CONSTRAINT,)
    OPERATOR = (OPERATOR,)
    NEGATED_OPERATOR = ("between", "in", "has", "like", "prefix", "suffix", "contains after 'not'")
    CONSTANT = ("a constant",)
    TIME = ("a time in single quotes, such as '2026-03-01T09:30:00Z'",)
    ATTRIBUTE = ("an attribute",)
    LIST = ("'(' and a list of constants",)
    NEXT_IN_LIST = ("','", "')'")
    UPPER_BOUND = ("'and' and the upper bound",)
    CLOSE = ("')'",)
    AND_OR_CLOSE = ("'and'", "'or'", "')'")
    AND_OR_END = ("'and'", "'or'", "the end of the text")


_ENDED = (Due.AND_OR_CLOSE, Due.AND_OR_END)
"""A constraint is complete here."""


@dataclass(eq=False)
class Unexpected(Exception):  # noqa: N818 (no error of a user's, until it is diagnosed)
    """The parser cannot go on: what was due at an offset.

    `attribute` is the one that is being spoken of, as it is written; `opened` is where the innermost open parenthesis
    is, and `follows_open` whether nothing stands behind it yet.
    """

    due: Due
    offset: int
    attribute: str = "a"
    opened: int = -1
    follows_open: bool = False


@dataclass(frozen=True, slots=True)
class _Situation:
    """Where the parser stopped: what it found and what was due."""

    text: str
    offset: int
    due: Due
    kind: str
    found: str
    attribute: str
    follows_open: bool

    @property
    def rest(self) -> str:
        """The text from the offset on, as far as hints look."""
        return self.text[self.offset : self.offset + 1_000]


def diagnosed(error: Unexpected, text: str) -> FilterSyntaxError:
    """Return the error to raise for what the parser could not read."""
    situation = _situation(error, text)
    if situation.kind == "end" and error.due in (Due.AND_OR_CLOSE, Due.NEXT_IN_LIST, Due.CLOSE):
        return FilterSyntaxError("this parenthesis is not closed", text, error.opened, ("')'",))
    for hint in _HINTS:
        problem = hint(situation)
        if problem is not None:
            return FilterSyntaxError(problem, text, situation.offset)
    found = "the text ends too early" if situation.kind == "end" else f"unexpected {_shown(situation)}"
    return FilterSyntaxError(found, text, situation.offset, situation.due.value)


def _situation(error: Unexpected, text: str) -> _Situation:
    offset, kind, found = error.offset, "end", ""
    lump = _LUMP.match(text, offset)
    if lump is None:
        offset = len(text.rstrip())
    else:
        kind, found = str(lump.lastgroup), lump.group()
    return _Situation(text, offset, error.due, kind, found, _cut(error.attribute), error.follows_open)


def _shown(situation: _Situation) -> str:
    found = _cut(situation.found)
    if situation.kind == "string":
        return f"string {found}"
    if situation.kind == "name":
        return f"name {found}"
    return f"'{found}'" if found.isprintable() else ascii(found)


def _cut(found: str) -> str:
    return found if len(found) <= _WIDEST_SHOWN else f"{found[:_WIDEST_SHOWN]}..."


def _odd_quote(at: _Situation) -> str | None:
    if at.kind == "unclosed" and at.found == '"':
        return 'this name is not closed; expected another "'
    if at.kind == "unclosed":
        return "this string is not closed; expected another ' (a quote inside a string is written twice: '')"
    if at.found and at.found[0] in _TYPOGRAPHIC_QUOTES:
        return f"{at.found[0]} is not a quote of this language; strings stand in 'single quotes'"
    return None


def _symbol_for_word(at: _Situation) -> str | None:
    word = _SYMBOL_WORDS.get(at.found)
    fits = at.due is Due.CONSTRAINT if word == "not" else at.due in (*_ENDED, Due.OPERATOR, Due.CONSTRAINT)
    return f"unexpected '{at.found}'; write '{word}'" if word and fits else None


def _null(at: _Situation) -> str | None:
    test = _NULL_TEST.match(at.rest)
    if at.due is Due.OPERATOR and test:
        return f"there is no 'is null'; write '{'exists' if test.group(1) else 'not exists'} {at.attribute}'"
    if at.due is Due.CONSTANT and _NULL.match(at.rest):
        return f"{at.found} is not a constant; a missing attribute is found with 'not exists {at.attribute}'"
    return None


def _odd_name(at: _Situation) -> str | None:
    digit_first = at.due in (Due.CONSTRAINT, Due.ATTRIBUTE) and re.match(r"[0-9]+[^\W\de]", at.found)
    odd_inside = at.due is Due.OPERATOR and at.found[:1] in tuple(".-:/") and not at.text[at.offset - 1].isspace()
    if not digit_first and not odd_inside:
        return None
    return (
        f'unexpected {_shown(at)}; a name with other than letters, digits, _ and inner dots stands in "double quotes"'
    )


def _constant_first(at: _Situation) -> str | None:
    if at.due is Due.CONSTRAINT and at.kind in ("number", "string"):
        return f"unexpected {_shown(at)}; write the attribute first, as in rent > 500"
    if at.due in _ENDED and at.kind == "symbol" and at.found[0] in "=<>!":
        return (
            f"unexpected {_shown(at)}; write the attribute first and one comparison at a time, "
            "as in rent > 500 and rent < 900"
        )
    return None


def _not_a_constant(at: _Situation) -> str | None:
    if at.due is not Due.CONSTANT:
        return None
    if at.found == "(" and _HAS.search(at.text, 0, at.offset):
        return "has takes one constant; of several, write has any (...), has all (...) or has none (...)"
    if _NOT_FINITE.match(at.rest):
        return "not-a-number and infinity cannot be compared with; expected a finite constant"
    if at.kind == "name":
        return f"{_cut(at.found)} stands in double quotes, which are for attributes; strings stand in 'single quotes'"
    if at.kind == "word" and at.found.lower() not in ("and", "or", "not"):
        return f"{_shown(at)} is not a constant; compare with a constant (strings stand in 'single quotes')"
    if at.kind == "number":
        return f"{_shown(at)} is not a number; expected digits such as 42, -1.5 or 2e6"
    if at.found.startswith(")") and at.follows_open:
        return "the list is empty; expected at least one constant"
    return None


def _bare_date(at: _Situation) -> str | None:
    date = _DATE.match(at.text, max(at.offset - 4, 0)) or _DATE.match(at.text, at.offset)
    if at.kind != "number" or date is None:
        return None
    return f"unexpected {_shown(at)}; a time is written time '{date.group()}'"


def _unknown_operator(at: _Situation) -> str | None:
    if at.due is not Due.OPERATOR:
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


def _misplaced(at: _Situation) -> str | None:
    if at.due is Due.NEGATED_OPERATOR and at.kind == "symbol":
        return f"unexpected {_shown(at)} after 'not'; write 'not {at.attribute} {at.found} ...'"
    ended = at.due in (*_ENDED, Due.NEXT_IN_LIST, Due.UPPER_BOUND)
    if ended and at.kind == "word" and at.offset and at.text[at.offset - 1] == "'":
        return f"unexpected {_shown(at)} right after a string; a quote inside a string is written twice: ''"
    if at.due is Due.AND_OR_END and at.found == ")":
        return "unexpected ')': no parenthesis is open"
    return None


_HINTS: tuple[Callable[[_Situation], str | None], ...] = (
    _odd_quote,
    _symbol_for_word,
    _null,
    _bare_date,
    _odd_name,
    _constant_first,
    _not_a_constant,
    _unknown_operator,
    _misplaced,
)
"""Tried in order; the first that knows the mistake words the message."""
