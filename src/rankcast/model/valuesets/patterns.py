r"""Patterns of strings: `like` with `%` (any text) and `_` (any one character), and what is written with it.

`prefix 'a'` is `like 'a%'`, `suffix` is `'%a'`, `contains` is `'%a%'`. A pattern is kept as the segments between its
percent signs; None in a segment stands for `_`. The form is canonical: runs of `%` collapse, and a `_` that follows a
`%` moves in front of it (`%_` and `_%` mean the same), so equal patterns have equal segments.

Matching is greedy from left to right, segment by segment: O(text length x segment length), never exponential, and 64
places of the text at a time where that is much.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from itertools import takewhile
from typing import TypeAlias, cast

from rankcast.model.errors import FilterTypeError, shown

Segment: TypeAlias = tuple[str | None, ...]

ESCAPE = "\\"
ANY_ONE, ANY_TEXT = "\ud800", "\ud801"
"""Stand for `_` and `%` where a pattern is laid out as a text; they are surrogates, which no text contains."""


class PatternKind(Enum):
    """The shapes of pattern that have an operator of their own, or an index of their own."""

    EXACT = "="
    PREFIX = "prefix"
    SUFFIX = "suffix"
    CONTAINS = "contains"
    LIKE = "like"


@dataclass(frozen=True, slots=True)
class Pattern:
    """A canonical pattern; build it with `like`, `prefix`, `suffix` or `contains`."""

    segments: tuple[Segment, ...]
    laid_out: str = field(init=False, repr=False, compare=False)
    """The pattern as one text, worked out once: patterns of one filter are compared with each other many times."""

    def __post_init__(self) -> None:
        segments = ("".join(symbol or ANY_ONE for symbol in segment) for segment in self.segments)
        object.__setattr__(self, "laid_out", ANY_TEXT.join(segments))

    def __eq__(self, other: object) -> bool:
        return self.laid_out == other.laid_out if isinstance(other, Pattern) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.laid_out)  # which the text remembers

    @staticmethod
    def like(text: str) -> Pattern:
        r"""Return the pattern of a `like` text; a backslash takes away the meaning of `%`, `_` and of itself.

        >>> Pattern.like("a%b_").matches("a...bc"), Pattern.like(r"100\%").matches("100%")
        (True, True)
        """
        segments: list[list[str | None]] = [[]]
        characters = iter(text)
        for character in characters:
            if character == "%":
                segments.append([])
            elif character == "_":
                segments[-1].append(None)
            elif character == ESCAPE:
                escaped = next(characters, None)
                if escaped is None or escaped not in "%_\\":
                    raise FilterTypeError(
                        rf"like {shown(text)}: a backslash must be followed by %, _ or another backslash"
                    )
                segments[-1].append(escaped)
            else:
                segments[-1].append(character)
        return Pattern(_canonical(segments))

    @staticmethod
    def prefix(text: str) -> Pattern:
        """Return the pattern of all strings that start with `text`."""
        return Pattern(_canonical((text, "")))

    @staticmethod
    def suffix(text: str) -> Pattern:
        """Return the pattern of all strings that end with `text`."""
        return Pattern(_canonical(("", text)))

    @staticmethod
    def contains(text: str) -> Pattern:
        """Return the pattern of all strings that `text` occurs in."""
        return Pattern(_canonical(("", text, "")))

    @property
    def kind(self) -> PatternKind:
        """The most specific operator that says the same."""
        if any(None in segment for segment in self.segments):
            return PatternKind.LIKE
        match self.segments:
            case (_,):
                return PatternKind.EXACT
            case (_, ()):
                return PatternKind.PREFIX
            case ((), _):
                return PatternKind.SUFFIX
            case ((), _, ()):
                return PatternKind.CONTAINS
        return PatternKind.LIKE

    @property
    def literal(self) -> str:
        """All literal characters in order: the whole argument for every kind but LIKE."""
        return "".join(symbol for segment in self.segments for symbol in segment if symbol)

    @property
    def head(self) -> str:
        """The literal characters that every match starts with."""
        return _leading(self.segments[0])

    @property
    def tail(self) -> str:
        """The literal characters that every match ends with."""
        return _leading(self.segments[-1][::-1])[::-1]

    @property
    def text(self) -> str:
        """The pattern in `like` notation."""
        return "%".join("".join(map(_escaped, segment)) for segment in self.segments)

    def matches(self, text: str) -> bool:
        """Whether the pattern describes the whole of `text`."""
        return _covers(self.laid_out, text)

    def implies(self, other: Pattern) -> bool:
        """Whether every text of this pattern is also one of `other`. True is certain; False may mean "not proven".

        >>> Pattern.suffix("abc").implies(Pattern.contains("b"))
        True
        """
        if ANY_ONE in other.laid_out:
            return _covers_remembered(other.laid_out, self.laid_out)
        return _covers(other.laid_out, self.laid_out)

    def sample(self) -> str:
        """Return a short text that matches."""
        return "".join(symbol if symbol is not None else "a" for segment in self.segments for symbol in segment)


def _canonical(segments: Iterable[Iterable[str | None]]) -> tuple[Segment, ...]:
    made: list[list[str | None]] = []
    for segment in segments:
        symbols = list(segment)
        if made:
            if len(made) > 1 and not made[-1]:
                made.pop()  # nothing stands between two percent signs: one is enough
            leading = next((i for i, symbol in enumerate(symbols) if symbol is not None), len(symbols))
            made[-1] += symbols[:leading]
            symbols = symbols[leading:]
        made.append(symbols)
    return tuple(map(tuple, made))


def _leading(segment: Segment) -> str:
    return "".join(takewhile(lambda symbol: symbol is not None, cast(tuple[str, ...], segment)))


def _escaped(symbol: str | None) -> str:
    if symbol is None:
        return "_"
    return ESCAPE + symbol if symbol in "%_\\" else symbol


def _covers(pattern: str, text: str) -> bool:
    """Match a laid-out pattern against a text, or against another one that is laid out ("covers every text of")."""
    first, *rest = pattern.split(ANY_TEXT)
    if not rest:
        return len(first) == len(text) and _fits(first, text, 0)
    *middle, last = rest
    start, end = len(first), len(text) - len(last)
    if start > end or not _fits(first, text, 0) or not _fits(last, text, end):
        return False
    for segment in middle:
        found = _find(segment, text, start, end)
        if found < 0:
            return False
        start = found + len(segment)
    return True


_covers_remembered = lru_cache(maxsize=8192)(_covers)
"""For two patterns of one filter: searching for wildcards is slow, and the same two meet again and again."""


def _find(segment: str, text: str, start: int, end: int) -> int:
    if ANY_ONE not in segment:
        return text.find(segment, start, end)
    if len(segment) * (end - start) > _LONG_SEARCH and len(segment) <= _WINDOW:
        return _find_by_places(segment, text, start, end)
    found = _with_wildcards(segment).search(text, start, end)
    return -1 if found is None else found.start()


_LONG_SEARCH = 50_000
"""Comparisons of characters that a search may take; beyond that places are looked at all at once."""


_WINDOW = 65_536
"""Places that are looked at together: what is known of them is kept."""


def _find_by_places(segment: str, text: str, start: int, end: int) -> int:
    """Find a segment, window by window; windows overlap by the length of a segment."""
    last = end - len(segment)
    for begin in range(start - start % _WINDOW, last + 1, _WINDOW):
        places = _places(text[begin : begin + 2 * _WINDOW])
        found = _found_among(segment, places, max(start - begin, 0), min(last - begin, _WINDOW - 1))
        if found >= 0:
            return begin + found
    return -1


def _found_among(segment: str, places_of: _Places, start: int, last: int) -> int:
    """Find a segment by whole numbers whose bits are places: where its first character is, its first two, ...

    O(length of the segment x places / 64), whatever is in them.
    """
    count = last - start + 1
    if count <= 0:
        return -1
    found = (1 << count) - 1
    for at, character in enumerate(segment, start):
        if character == ANY_ONE:
            found &= ~(places_of.bits(ANY_TEXT) >> at)
        else:
            found &= places_of.bits(character) >> at
        if not found:
            return -1
    return start + (found & -found).bit_length() - 1


class _Places:
    """Where each character of a text is, as the bits of a whole number, made when it is asked for."""

    def __init__(self, text: str) -> None:
        self._numbers: dict[str, list[int]] = defaultdict(list)
        for number, character in enumerate(text):
            self._numbers[character].append(number)
        self._bits: dict[str, int] = {}
        self._bytes = len(text) // 8 + 1

    def bits(self, character: str) -> int:
        """Return the places of a character."""
        if character not in self._numbers:
            return 0
        if character not in self._bits:
            made = bytearray(self._bytes)
            for number in self._numbers[character]:
                made[number >> 3] |= 1 << (number & 7)
            self._bits[character] = int.from_bytes(made, "little")
        return self._bits[character]


@lru_cache(maxsize=4)
def _places(text: str) -> _Places:
    """Return the places of a text; the last few are remembered, as many patterns look at one text."""
    return _Places(text)


def _fits(segment: str, text: str, at: int) -> bool:
    if ANY_ONE not in segment:
        return text.startswith(segment, at)
    return _with_wildcards(segment).match(text, at) is not None


@lru_cache(maxsize=4096)
def _with_wildcards(segment: str) -> re.Pattern[str]:
    """Return a segment as a regular expression of fixed length: it never backtracks, and it is searched for in C."""
    return re.compile(f"[^{ANY_TEXT}]".join(map(re.escape, segment.split(ANY_ONE))))
