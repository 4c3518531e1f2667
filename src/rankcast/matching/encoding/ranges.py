"""Value sets as ranges of ranks: first the cuts they need are collected, then each set is written with them.

A range is a pair (low, high) of ranks, both included; a list of ranges is sorted, and neither overlaps nor touches.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from rankcast.matching.encoding.byte_tables import ByteTable
from rankcast.matching.encoding.cuts import split_number
from rankcast.matching.encoding.dimensions import Dimensions
from rankcast.matching.segments.rows import starts_of
from rankcast.model.times import microseconds
from rankcast.model.valuesets.intervals import END, START, Cut, IntervalSet
from rankcast.model.valuesets.patterns import Pattern, PatternKind
from rankcast.model.valuesets.sets import ValueSet

Range: TypeAlias = tuple[int, int]
Ranges: TypeAlias = list[Range]


@dataclass(frozen=True, slots=True)
class Residue:
    """A pattern that only the text itself can answer: strings must match it or, negated, must not."""

    attribute: int
    pattern: str
    negated: bool


@dataclass(slots=True)
class _Cuts:
    """What the value sets of one attribute need to tell apart."""

    numbers: set[tuple[Any, int]] = field(default_factory=set)
    strings: set[str] = field(default_factory=set)
    times: set[Any] = field(default_factory=set)
    suffixes: set[str] = field(default_factory=set)
    substrings: set[str] = field(default_factory=set)

    def add_patterns(self, values: ValueSet) -> None:
        """Take note of the literals that `RangeWriter` asks for when it writes the patterns of a value set."""
        for pattern in values.strings.required:
            self.suffixes.update(_suffix(pattern))
            if not _has_other_kinds(values):
                self.substrings.update(_substring(pattern))
        for pattern in values.strings.forbidden:
            if pattern.kind is PatternKind.SUFFIX:
                self.suffixes.add(pattern.literal)
            elif pattern.kind is PatternKind.CONTAINS:
                self.substrings.add(pattern.literal)


class CutCollector:
    """Collects the cuts of many value sets, by attribute."""

    def __init__(self) -> None:
        self._by_attribute: dict[str, _Cuts] = {}

    def add(self, attribute: str, values: ValueSet) -> None:
        """Take note of the cuts that a value set needs."""
        cuts = self._by_attribute.get(attribute)
        if cuts is None:
            cuts = self._by_attribute[attribute] = _Cuts()
        if values.numbers.cuts:
            cuts.numbers.update((value, above) for end, value, above in values.numbers.cuts if not end)
        if values.strings.ranges.cuts:
            cuts.strings.update(value for end, value, _ in values.strings.ranges.cuts if not end)
            cuts.add_patterns(values)
        if values.times.cuts:
            cuts.times.update(value for end, value, _ in values.times.cuts if not end)

    def dimensions(self) -> Dimensions:
        """Return the rank space of everything collected."""
        names = sorted(self._by_attribute)
        cuts = [self._by_attribute[name] for name in names]
        numbers = [sorted(own.numbers) for own in cuts]
        split = [split_number(value) for own in numbers for value, _ in own]
        above = np.array([cut[1] for own in numbers for cut in own], np.int16)
        turned = [(at, own.suffixes) for at, own in enumerate(cuts) if own.suffixes]
        turned_cuts = [sorted({cut for text in texts for cut in reversed_range(text)}) for _, texts in turned]
        substrings = [(at, text) for at, own in enumerate(cuts) for text in sorted(own.substrings)]
        return Dimensions(
            attributes=ByteTable.of_texts(names),
            number_start=_starts(numbers),
            number_keys=np.array([key for key, _ in split], np.float64),
            number_rests=np.array([rest for _, rest in split], np.int16) + above,
            string_start=_starts([own.strings for own in cuts]),
            strings=ByteTable.of_texts(text for own in cuts for text in sorted(own.strings)),
            time_start=_starts([own.times for own in cuts]),
            times=np.array([microseconds(time) for own in cuts for time in sorted(own.times)], np.int64),
            reversed_attribute=np.array([at for at, _ in turned], np.int32),
            reversed_start=_starts(turned_cuts),
            reversed_cuts=ByteTable.of(cut for own in turned_cuts for cut in own),
            substring_attribute=np.array([at for at, _ in substrings], np.int32),
            substrings=ByteTable.of_texts(text for _, text in substrings),
        )


def _starts(lists: Iterable[Any]) -> Any:
    return starts_of(np.array([len(own) for own in lists], np.int64))


def reversed_range(suffix: str) -> tuple[bytes, bytes]:
    """Return the cuts around all reversed strings that start with a reversed suffix.

    UTF-8 has no byte 0xFF, so the last byte can always be raised by one.
    """
    data = suffix.encode()[::-1]
    return data, data[:-1] + bytes((data[-1] + 1,))


def _has_other_kinds(values: ValueSet) -> bool:
    """Whether a value set has anything but strings."""
    return bool(values.missing or values.numbers or values.bools or values.times)


def _suffix(pattern: Pattern) -> tuple[str, ...]:
    """Return the literal that every match of a pattern ends with, when reversed strings can tell."""
    if len(pattern.segments) < 2:
        return ()
    tail: list[str] = []
    for symbol in reversed(pattern.segments[-1]):
        if symbol is None:
            break
        tail.append(symbol)
    return ("".join(reversed(tail)),) if tail else ()


def _substring(pattern: Pattern) -> tuple[str, ...]:
    """Return the longest literal between the ends of a pattern: every match contains it."""
    runs = [""]
    for segment in pattern.segments[1:-1]:
        runs.append("")
        for symbol in segment:
            if symbol is None:
                runs.append("")
            else:
                runs[-1] += symbol
    longest = max(runs, key=len)
    return (longest,) if longest else ()


class RangeWriter:
    """Writes value sets as ranges in the dimensions that were made of their cuts."""

    def __init__(self, dimensions: Dimensions) -> None:
        self.attributes = {name: at for at, name in enumerate(dimensions.attributes.texts())}
        self._numbers = _numbers_by_attribute(dimensions)
        self._strings = _items_by_list(dimensions.strings, dimensions.string_start)
        self._times = [dimensions.times[low:high].tolist() for low, high in pairwise(dimensions.time_start.tolist())]
        self._first_string = dimensions.first_string.tolist()
        self._first_bool = dimensions.first_bool.tolist()
        self._first_time = dimensions.first_time.tolist()
        self._rank_counts = dimensions.rank_counts.tolist()
        turned = _items_by_list(dimensions.reversed_cuts, dimensions.reversed_start)
        self._reversed = {
            attribute: (dimensions.first_reversed + at, turned[at])
            for at, attribute in enumerate(dimensions.reversed_attribute.tolist())
        }
        self._substrings = {
            (attribute, text): dimensions.first_substring + at
            for at, (attribute, text) in enumerate(
                zip(dimensions.substring_attribute.tolist(), dimensions.substrings.texts(), strict=True)
            )
        }

    def write(self, attribute: int, values: ValueSet) -> tuple[list[tuple[int, Ranges]], list[Residue]]:
        """Return the predicates of a value set as (dimension, ranges), and what is left to verify."""
        if len(values.numbers.cuts) == 2 and not (
            values.missing or values.strings.ranges.cuts or values.bools or values.times.cuts
        ):
            return [(attribute, [self._number_range(attribute, *values.numbers.cuts)])], []
        written = [(attribute, self._plain(attribute, values))]
        residues: list[Residue] = []
        if values.has_patterns:
            self._write_patterns(attribute, values, written, residues)
        return [item for item in written if item[1] != [(0, self._rank_counts[item[0]] - 1)]], residues

    def _number_range(self, at: int, low: Cut, high: Cut) -> Range:
        """Return the range of one interval of numbers, by far the most frequent set."""
        numbers = self._numbers[at]
        return (1 if low[0] else numbers[low[1:]] + 2, len(numbers) + 1 if high[0] else numbers[high[1:]] + 1)

    def _plain(self, at: int, values: ValueSet) -> Ranges:
        ranges: Ranges = [(0, 0)] if values.missing else []
        if values.numbers.cuts:
            numbers = self._numbers[at]
            _extend(ranges, 1, _positions(values.numbers, lambda cut: numbers[cut[1:]], len(numbers)))
        if values.strings.ranges.cuts:
            strings = self._strings[at]
            found = _positions(values.strings.ranges, lambda cut: bisect_left(strings, cut[1].encode()), len(strings))
            _extend(ranges, self._first_string[at], found)
        if values.bools:
            first = self._first_bool[at]
            _extend(ranges, first, [(value, value) for value in sorted(values.bools)])
        if values.times.cuts:
            times = self._times[at]
            found = _positions(values.times, lambda cut: bisect_left(times, microseconds(cut[1])), len(times))
            _extend(ranges, self._first_time[at], found)
        return ranges

    def _write_patterns(
        self, at: int, values: ValueSet, written: list[tuple[int, Ranges]], residues: list[Residue]
    ) -> None:
        others = _has_other_kinds(values)
        turned: Ranges | None = None
        for pattern in sorted(values.strings.required, key=lambda pattern: pattern.text):
            exact = pattern.kind is PatternKind.SUFFIX
            for suffix in _suffix(pattern):
                turned = _intersection(turned, self._suffix_ranges(at, suffix, others=others, negated=False))
            if not others:
                # A value that is no string has the same rank there as a string without the substring.
                exact = exact or pattern.kind is PatternKind.CONTAINS
                written += ((self._substrings[at, text], [(1, 1)]) for text in _substring(pattern))
            if not exact:
                residues.append(Residue(at, pattern.text, negated=False))
        for pattern in sorted(values.strings.forbidden, key=lambda pattern: pattern.text):
            if pattern.kind is PatternKind.SUFFIX:
                ranges = self._suffix_ranges(at, pattern.literal, others=others, negated=True)
                turned = _intersection(turned, ranges)
            elif pattern.kind is PatternKind.CONTAINS:
                written.append((self._substrings[at, pattern.literal], [(0, 0)]))
            else:
                residues.append(Residue(at, pattern.text, negated=True))
        if turned is not None:
            written.append((self._reversed[at][0], turned))
        # One substring may be asked for by several patterns of the set.
        written[:] = list({dimension: (dimension, ranges) for dimension, ranges in written}.values())

    def _suffix_ranges(self, at: int, suffix: str, *, others: bool, negated: bool) -> Ranges:
        dimension, cuts = self._reversed[at]
        low, high = (bisect_left(cuts, cut) for cut in reversed_range(suffix))
        # Positions low+1..high start with the suffix; rank 0 is "no string", so positions are ranks less one.
        inside = (low + 2, high + 1)
        if not negated:
            return [(0, 0), inside] if others and inside[0] > 1 else [inside]
        last = self._rank_counts[dimension] - 1
        pieces = ((0 if others else 1, inside[0] - 1), (inside[1] + 1, last))
        return [piece for piece in pieces if piece[0] <= piece[1]]


def _numbers_by_attribute(dimensions: Dimensions) -> list[dict[tuple[Any, int], int]]:
    """Return per attribute where each cut is, by the number as Python compares it."""
    keys, rests = dimensions.number_keys.tolist(), dimensions.number_rests.tolist()
    starts = dimensions.number_start.tolist()
    found = []
    for low, high in pairwise(starts):
        own: dict[tuple[Any, int], int] = {}
        for at in range(low, high):
            rest = rests[at]
            number = keys[at] if rest < 2 else int(keys[at]) + (rest >> 1)
            own[number, rest & 1] = at - low
        found.append(own)
    return found


def _items_by_list(table: ByteTable, start: Any) -> list[list[bytes]]:
    bounds = start.tolist()
    return [table.items(low, high) for low, high in pairwise(bounds)]


def _positions(values: IntervalSet, index: Any, count: int) -> Ranges:
    """Return an interval set as ranges of positions among `count` cuts, of which `index` finds one."""
    return [
        (0 if low == START else index(low) + 1, count if high == END else index(high)) for low, high in values.pieces()
    ]


def _extend(ranges: Ranges, first: int, more: Ranges) -> None:
    for low, high in more:
        if ranges and ranges[-1][1] + 1 == first + low:
            ranges[-1] = (ranges[-1][0], first + high)
        else:
            ranges.append((first + low, first + high))


def _intersection(one: Ranges | None, other: Ranges) -> Ranges:
    if one is None:
        return other
    both = [(max(low, other_low), min(high, other_high)) for low, high in one for other_low, other_high in other]
    return sorted(pair for pair in both if pair[0] <= pair[1])
