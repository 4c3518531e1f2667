"""The small tree of errors, from which some rooms derive their own; and how messages show values, names and numbers.

Catch `RankcastError` to catch them all. An error names the place (a file and line, a column of a filter text, an
attribute), the value found there and what was expected, and it never stands in for an answer: a call that raises
changed nothing.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from reprlib import Repr
from typing import Any

EXCERPT = 60
"""How many characters of a bad value or line an error message shows: enough to recognise it, never a flood."""


def shown(value: object) -> str:
    """Return `value` as an error message shows it: its repr, cut to a readable length.

    >>> shown("abc")
    "'abc'"
    """
    if isinstance(value, str) and len(value) > EXCERPT:
        return f"{value[:EXCERPT]!r}... ({len(value):,} characters)"
    if isinstance(value, Collection) and not _is_short(value):
        return f"{_LONG.repr(value)} ({counted(len(value), 'item')})"
    try:
        text = repr(value)
    except RecursionError:
        return f"a deeply nested {type(value).__name__}"
    except ValueError:  # CPython refuses to print integers of more than 4300 digits
        if not isinstance(value, int):
            return f"a {type(value).__name__} that cannot be printed"
        return f"an integer of about {int(value.bit_length() * 0.30103):,} digits"
    return text if len(text) <= EXCERPT else f"{text[:EXCERPT]}... ({len(text):,} characters)"


_LONG = Repr()
_LONG.maxlevel = 4
"""Of what is long, nested or shared the first few parts: what lists hold many times over may have no end in print."""


def _is_short(value: object) -> bool:
    """Whether a value has so few parts that it can be printed in full."""
    waiting, room = [value], EXCERPT
    while waiting:
        part = waiting.pop()
        if isinstance(part, Mapping):
            part = [*part.keys(), *part.values()] if len(part) <= room else part
        if isinstance(part, list | tuple | set | frozenset | Mapping):
            room -= len(part)
            if room < 0:
                return False
            waiting += part
    return True


FEW_NAMES, SHORT_NAME, LISTED_NAMES = 24, 24, 40
"""Names are compared at length where these are few and short; others only where one edit makes them equal."""

MANY_NAMES = 20_000
"""Among more names no near one is looked for."""


def hint(name: object, known: Collection[str]) -> str:
    """Return what an error message says after a name that is not known: a near one, or those that are.

    Costs no more than going through the known names once, and is said of thousands of names in one file.

    >>> hint("rnet", ["rent", "rooms"]), hint("price", ["rent", "rooms"])
    ("did you mean 'rent'?", 'expected rent, rooms')
    """
    if (near := near_name(str(name), known)) is not None:
        return f"did you mean {near!r}?"
    return f"expected {', '.join(islice(known, LISTED_NAMES)) or 'none'}{', ...' if len(known) > LISTED_NAMES else ''}"


def near_name(name: str, known: Collection[str]) -> str | None:
    """Return the known name that was perhaps meant."""
    if len(name) > EXCERPT or len(known) > MANY_NAMES:
        return None
    by_edit = _one_edit_away(tuple(known))
    near = next((by_edit[form] for form in _forms(name) if form in by_edit), None)
    if near is not None or len(known) > FEW_NAMES or len(name) > SHORT_NAME:
        return near
    found = difflib.get_close_matches(name, [other for other in known if len(other) <= 2 * SHORT_NAME], n=1)
    return found[0] if found else None


@lru_cache(maxsize=16)
def _one_edit_away(known: tuple[str, ...]) -> dict[str, str]:
    """Return the known names by all that is left of them without one letter, and by themselves."""
    made = {form: name for name in reversed(known) if len(name) <= EXCERPT for form in _forms(name)}
    return made | {name.casefold(): name for name in reversed(known)}


def _forms(name: str) -> list[str]:
    folded = name.casefold()
    return [folded, *(folded[:at] + folded[at + 1 :] for at in range(len(folded)))]


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun.

    >>> counted(1, "event"), counted(1200, "match", "matches")
    ('1 event', '1,200 matches')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


class RankcastError(Exception):
    """Root of the tree. Errors can be pickled, as process pools do, whatever they are made from."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (type(self), self.args, self.__dict__)


def _again(kind: type[RankcastError], arguments: tuple[object, ...], state: dict[str, object]) -> RankcastError:
    """Return an error as it was."""
    error = kind.__new__(kind)
    error.args = arguments
    error.__dict__.update(state)
    return error


class InvalidValueError(RankcastError):
    """A value is not one of the five types, or lies outside its type's range."""


class InvalidEventError(RankcastError):
    """An event is malformed; the rest of its file or stream is not affected."""


class InvalidSubscriptionError(RankcastError):
    """A subscription, subscriber or advertisement is malformed."""


class FilterError(RankcastError):
    """A filter cannot be used."""


class FilterTooLargeError(FilterError):
    """A filter exceeds a stated bound: text length, nesting depth or number of conjunctions."""


class FilterTypeError(FilterError):
    """A constant does not fit its operator, its fellow constants or the declared type of its attribute."""


class UnknownAttributeError(FilterError):
    """A filter names an attribute that the declared schema does not have."""


class FilterSyntaxError(FilterError):
    """A filter text does not follow the grammar.

    `line` and `column` count from 1; the message shows the line with a caret under the column.
    """

    def __init__(self, problem: str, text: str, offset: int, expected: Iterable[str] = ()) -> None:
        self.problem = problem
        self.text = text
        self.offset = min(max(offset, 0), len(text))
        self.expected = tuple(expected)
        before = text[: self.offset]
        self.line = before.count("\n") + 1
        start = before.rfind("\n") + 1
        self.column = self.offset - start + 1
        end = text.find("\n", self.offset)
        super().__init__(self._message(start, end if end >= 0 else len(text)))

    def _message(self, line_start: int, line_end: int) -> str:
        start, end = max(line_start, self.offset - EXCERPT), min(line_end, self.offset + EXCERPT)
        head = "..." if start > line_start else ""
        tail = "..." if end < line_end else ""
        excerpt = head + "".join(c if c.isprintable() else " " for c in self.text[start:end]) + tail
        caret = " " * (len(head) + self.offset - start) + "^"
        place = f"column {self.column}" if "\n" not in self.text else f"line {self.line}, column {self.column}"
        expectation = f"; expected {_alternatives(self.expected)}" if self.expected else ""
        return f"{place}: {self.problem}{expectation}\n  {excerpt}\n  {caret}"


def _alternatives(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " or " + names[-1]


class PriorityCycleError(InvalidSubscriptionError):
    """The "a before b" conditions of one subscriber contradict each other; `cycle` lists the ids along the cycle."""

    def __init__(self, cycle: tuple[str, ...]) -> None:
        self.cycle = cycle
        super().__init__("the priorities form a cycle: " + " before ".join((*cycle, cycle[0])))


class InvalidMessageError(RankcastError):
    """A message between brokers, or a broker's snapshot, is malformed."""


class PlacementError(RankcastError):
    """A placement problem is malformed or cannot be solved, or a solution does not belong to it."""


class DuplicateIdError(RankcastError):
    """An id is taken already."""


class UnknownIdError(RankcastError):
    """No such subscriber, subscription or event."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with an input file: reported and set aside while the good rest is used.

    `line` counts from 1; None when the problem is not about one line.
    """

    file: str
    line: int | None
    message: str
    warning: bool = False

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {'warning: ' if self.warning else ''}{self.message}"


class InvalidPartsError(RankcastError):
    """Parts of plain data cannot be used; `parts` says what is wrong with each, by the keys and numbers down to it."""

    def __init__(self, parts: Mapping[tuple[str | int, ...], str]) -> None:
        self.parts = dict(parts)
        super().__init__("\n".join(self.parts.values()))


class InvalidFileError(RankcastError):
    """A file cannot be used as a whole; `problems` lists everything found in it."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


def require(fits: bool, name: str, value: object, expected: str) -> None:
    """Raise unless a value that a subscriber states fits; the message has its name, the value and what is expected."""
    if not fits:
        raise InvalidSubscriptionError(f"{name}: {shown(value)} is not {expected}")
