r"""Constants and attribute names, to text and back: `read_*` and `format_*` are inverse to each other.

Escapes of strings: `''` for a quote, `\\ \' \n \t \r \uXXXX \UXXXXXXXX`. `\%` and `\_` stay two characters, so that
the pattern of a `like` can escape its wildcards without doubling every backslash. Anything else after a backslash is
refused.
"""

from __future__ import annotations

import math
import re
from datetime import datetime

from rankcast.model.errors import InvalidValueError, shown
from rankcast.model.times import format_time, parse_time
from rankcast.model.values import INT_MAX, INT_MIN, Value

RESERVED = frozenset(("and", "or", "not", "exists", "true", "false"))
"""Words that are never attribute names, unless quoted."""

OPERATOR_WORDS = frozenset(("between", "in", "has", "like", "prefix", "suffix", "contains"))
"""Words that are attribute names in an attribute's place; printed in quotes all the same, for the reader's sake."""

_PLAIN_NAME = re.compile(r"[^\W\d]\w*(?:\.\w+)*")
_MAX_DIGITS = len(str(INT_MAX))
_ESCAPE = re.compile(
    r"\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})"  # two halves of one character, as in JSON
    r"|\\u([0-9a-fA-F]{4})|\\U([0-9a-fA-F]{8})|\\(.)|''",
    re.DOTALL,
)
_SIMPLE_ESCAPES = {"\\": "\\", "'": "'", "n": "\n", "t": "\t", "r": "\r", "%": "\\%", "_": "\\_"}
_SPECIAL = re.compile(r"\\(?![%_])|['\x00-\x1f\x7f-\x9f\u2028\u2029]")
_NAMED = {"\\": "\\\\", "'": "''", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


class LiteralError(Exception):
    """A literal cannot be read; `offset` counts from its start. The parser adds the place in the text."""

    def __init__(self, problem: str, offset: int = 0) -> None:
        super().__init__(problem)
        self.offset = offset


def read_number(text: str) -> int | float:
    """Return the number of a literal: an int without point and exponent, else the nearest float64."""
    digits = text.lstrip("+-")
    if digits.isdecimal():
        significant = digits.lstrip("0") or "0"
        value = int(significant) if len(significant) <= _MAX_DIGITS else INT_MAX + 2
        value = -value if text.startswith("-") else value
        if not INT_MIN <= value <= INT_MAX:
            raise LiteralError(f"{_cut(text)} does not fit a 64-bit integer")
        return value
    number = float(text)
    if math.isinf(number):
        raise LiteralError(f"{_cut(text)} is outside the range of 64-bit floats")
    return number


def read_string(literal: str) -> str:
    r"""Return the text of a string literal.

    >>> read_string(r"'it''s 100\% \u00e9'")
    "it's 100\\% é"
    """
    body = literal[1:-1]
    return _ESCAPE.sub(_unescaped, body) if "\\" in body or "''" in body else body


def _unescaped(found: re.Match[str]) -> str:
    high, low, short, long, simple = found.groups()
    if high is not None:
        return chr(0x10000 + ((int(high, 16) - 0xD800) << 10) + (int(low, 16) - 0xDC00))
    if simple is not None:
        if simple not in _SIMPLE_ESCAPES:
            raise LiteralError(_bad_escape(simple), found.start() + 1)
        return _SIMPLE_ESCAPES[simple]
    code = short or long
    if code is None:
        return "'"
    number = int(code, 16)
    if 0xD800 <= number <= 0xDFFF:
        raise LiteralError(f"{found.group()} is half a surrogate pair, which is not a character", found.start() + 1)
    if number > 0x10FFFF:
        raise LiteralError(f"{found.group()} is beyond the last Unicode character, \\U0010FFFF", found.start() + 1)
    return chr(number)


def _bad_escape(character: str) -> str:
    if character in "uU":
        return f"\\{character} must be followed by {4 if character == 'u' else 8} hexadecimal digits"
    return (
        f"{shown(character)} cannot follow a backslash; "
        r"known escapes are \\ \' \n \t \r \uXXXX \UXXXXXXXX \% \_, and a backslash itself is \\"
    )


def read_time(literal: str) -> datetime:
    """Return the time that a string literal names."""
    try:
        return parse_time(read_string(literal), exact=True)
    except InvalidValueError as error:
        raise LiteralError(str(error)) from None


def read_name(text: str) -> str:
    """Return the attribute that a name stands for: itself, or what its double quotes hold."""
    return text[1:-1].replace('""', '"') if text.startswith('"') else text


def format_value(value: Value) -> str:
    """Return the literal of a constant.

    >>> format_value("it's"), format_value(1.0), format_value(True)
    ("'it''s'", '1.0', 'true')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return "'" + _SPECIAL.sub(_escaped, value) + "'"
    return f"time '{format_time(value)}'" if isinstance(value, datetime) else repr(value)


def _escaped(found: re.Match[str]) -> str:
    character = found.group()
    return _NAMED.get(character) or f"\\u{ord(character):04x}"


def format_name(name: str) -> str:
    """Return an attribute name as filter text has it: in double quotes when it needs them.

    >>> format_name("address.city"), format_name("not"), format_name("net worth")
    ('address.city', '"not"', '"net worth"')
    """
    word = name.lower()
    if _PLAIN_NAME.fullmatch(name) and word not in RESERVED and word not in OPERATOR_WORDS:
        return name
    return '"' + name.replace('"', '""') + '"'


def _cut(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:40]}... ({len(text):,} characters)"
