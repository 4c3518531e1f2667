"""Sets of strings: ranges in code point order, narrowed by patterns.

A set is `ranges` (prefixes are ranges too: 'ab' <= s < 'ac') and all of the `required` patterns and none of the
`forbidden` ones. Questions about ranges alone are answered exactly. Where patterns are involved an answer may be None,
"not decided": the callers treat that as "not covered" and "not disjoint", which is always safe.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import islice, pairwise

from msgspec import Struct

from rankcast.model.errors import FilterTooLargeError
from rankcast.model.valuesets.intervals import END, START, Cut, Domain, IntervalSet
from rankcast.model.valuesets.patterns import ANY_ONE, Pattern, PatternKind

MAX_PATTERNS = 64
"""Patterns on one attribute of one conjunction. Each is compared with each other, and none has an index of its own."""

_LAST_CHARACTER = chr(0x10FFFF)
_ALL = IntervalSet.full(Domain.STRING)
_NONE = IntervalSet.empty(Domain.STRING)
_STARTS = 16
"""Ranges that a string is looked for in."""

_ANY_STRING = Pattern.prefix("")


def prefix_range(prefix: str) -> IntervalSet:
    """Return the strings that start with `prefix` as one range.

    >>> "abc" in prefix_range("ab"), "ac" in prefix_range("ab")
    (True, False)
    """
    start = Domain.STRING.cut(prefix, above=False)
    return IntervalSet(Domain.STRING, (start, _end_of_prefix(prefix)))


def _end_of_prefix(prefix: str) -> Cut:
    stem = prefix.rstrip(_LAST_CHARACTER)
    if not stem:
        return END
    following = ord(stem[-1]) + 1
    if 0xD800 <= following <= 0xDFFF:  # surrogates are not characters; the next one after them is
        following = 0xE000
    return (0, stem[:-1] + chr(following), 0)


class StringSet(Struct, frozen=True, gc=False):
    """A canonical set of strings; build it with `of_range`, `of_pattern` and the operators."""

    ranges: IntervalSet
    required: frozenset[Pattern] = frozenset()
    forbidden: frozenset[Pattern] = frozenset()

    @staticmethod
    def of_range(ranges: IntervalSet) -> StringSet:
        """Return the strings of some ranges."""
        return StringSet(ranges)

    @staticmethod
    def of_pattern(pattern: Pattern, *, negated: bool = False) -> StringSet:
        """Return the strings that a pattern describes or, negated, all others."""
        return _made(_ALL, () if negated else (pattern,), (pattern,) if negated else ())

    @property
    def has_patterns(self) -> bool:
        """Whether patterns narrow the ranges."""
        return bool(self.required or self.forbidden)

    @property
    def is_full(self) -> bool:
        """Whether every string is in."""
        return self.ranges.is_full and not self.has_patterns

    def __bool__(self) -> bool:
        return bool(self.ranges)

    def __contains__(self, value: str) -> bool:
        return (
            value in self.ranges
            and all(pattern.matches(value) for pattern in self.required)
            and not any(pattern.matches(value) for pattern in self.forbidden)
        )

    def __and__(self, other: StringSet) -> StringSet:
        common = self._intersection(other)
        if len(common.required) + len(common.forbidden) > MAX_PATTERNS:
            raise FilterTooLargeError(f"more than {MAX_PATTERNS} patterns (like, suffix, contains) on one attribute")
        return common

    def _intersection(self, other: StringSet) -> StringSet:
        if not self.has_patterns and not other.has_patterns:
            return StringSet(self.ranges & other.ranges)
        return _made(self.ranges & other.ranges, self.required | other.required, self.forbidden | other.forbidden)

    def union(self, other: StringSet) -> StringSet | None:
        """Return both sets together, or None when ranges and patterns cannot express that."""
        if self.surely_covers(other):
            return self
        if other.surely_covers(self):
            return other
        if self.required == other.required and self.forbidden == other.forbidden:
            return _made(self.ranges | other.ranges, self.required, self.forbidden)
        return None

    def complement(self) -> tuple[StringSet, ...]:
        """Return sets that together hold exactly the strings not in this one."""
        parts = [
            StringSet(self.ranges.complement()),
            *(_made(self.ranges, (), (pattern,)) for pattern in self.required),
            *(_made(self.ranges, (pattern,), ()) for pattern in self.forbidden),
        ]
        return tuple(part for part in parts if part)

    def covers(self, other: StringSet) -> bool | None:
        """Whether every string of `other` is in this set; None when that is not decided."""
        if self.surely_covers(other):
            return True
        escape = other.ranges - self.ranges
        if escape and not other.has_patterns:
            return False
        counterexample = _witness(escape or other.ranges, other, self)
        return None if counterexample is None else False

    def surely_covers(self, other: StringSet) -> bool:
        """Whether it is certain that every string of `other` is in this set; no counterexample is looked for."""
        if not other:
            return True
        return (
            (self.ranges.is_full or other.ranges <= self.ranges)
            and all(_implied(other, pattern) for pattern in self.required)
            and all(_excluded(other, pattern) for pattern in self.forbidden)
        )

    def disjoint(self, other: StringSet) -> bool | None:
        """Whether no string is in both sets; None when that is not decided."""
        common = self._intersection(other)  # not &: a question about two good sets is never an error
        if not common:
            return True
        return None if common.witness() is None else False

    def steps_to_combine(self, other: StringSet) -> int:
        """About how many steps of 0.1 microseconds an intersection takes, at worst.

        Each pattern is held against each other one, and against each single string.
        """
        cuts = len(self.ranges.cuts) + len(other.ranges.cuts)
        mine, theirs = (*self.required, *self.forbidden), (*other.required, *other.forbidden)
        if not mine and not theirs:
            return 4 * cuts
        count = len(mine) + len(theirs)  # of one set all have been compared before, and what took long is remembered
        again = 80 + 80 * cuts + (10 * count + 8 * cuts) * count
        return again + _steps_to_compare(mine, theirs) + _steps_to_compare(theirs, mine)

    def steps_to_compare(self, other: StringSet) -> int:
        """About how many steps `surely_covers` takes, at worst."""
        cuts = len(self.ranges.cuts) + len(other.ranges.cuts)
        if not self.required and not self.forbidden:
            return cuts
        steps = 20 + cuts + _steps_to_compare(self.required, other.required)
        return steps + len(self.forbidden) * self.steps_to_combine(other) if self.forbidden else steps

    def steps_to_find(self, other: StringSet) -> int:
        """About how many steps it takes to look for a string of two sets, or of one that is not in the other."""
        patterns = (*self.required, *self.forbidden, *other.required, *other.forbidden)
        if not patterns:
            return 0
        starts = 2 + min(_STARTS, len(self.ranges.cuts) + len(other.ranges.cuts))
        length = sum(len(pattern.laid_out) for pattern in patterns)
        wild = sum(len(pattern.laid_out) for pattern in patterns if ANY_ONE in pattern.laid_out)
        return starts * (10 * len(patterns) * (len(patterns) + 3) + length * (len(patterns) // 50 + wild // 500))

    def witness(self) -> str | None:
        """Return some string of the set, or None when it is empty or none was found."""
        return _witness(self.ranges, self, None)


def _steps_to_compare(patterns: Collection[Pattern], others: Collection[Pattern]) -> int:
    """About how many steps it takes to hold each pattern against each other one: those with wildcards take longest."""
    theirs = sum(len(pattern.laid_out) for pattern in others)
    steps = 4 * len(patterns) * (1 + len(others)) + len(patterns) * theirs // 50
    return steps + sum(len(pattern.laid_out) * theirs // 1_000 for pattern in patterns if ANY_ONE in pattern.laid_out)


def _witness(ranges: IntervalSet, within: StringSet, outside: StringSet | None) -> str | None:
    """Look for a string of `ranges` and `within` that is not in `outside`: a few likely ones are tried, not all."""
    samples = [pattern.sample() for pattern in sorted(within.required, key=lambda pattern: pattern.text)]
    if outside is not None:
        samples += [pattern.sample() for pattern in sorted(outside.forbidden, key=lambda pattern: pattern.text)]
    joined = "".join(samples)
    starts = [str(start[1]) if not start[0] else "" for start, _ in islice(ranges.pieces(), _STARTS)]
    candidates: list[str] = []
    for start in starts:
        candidates += (start, *(start + sample for sample in samples), start + joined, start + "~" + joined)
    for candidate in (*candidates, *samples, joined, "~", "~" + joined + "~", joined + "~"):
        if candidate in ranges and candidate in within and (outside is None or candidate not in outside):
            return candidate
    return None


def _implied(given: StringSet, pattern: Pattern) -> bool:
    if any(known.implies(pattern) for known in given.required):
        return True
    return given.ranges.cuts[0] != START and _common_prefix(given.ranges).implies(pattern)


def _excluded(given: StringSet, pattern: Pattern) -> bool:
    if any(pattern.implies(known) for known in given.forbidden):
        return True
    return not (_made(given.ranges, (*given.required, pattern), given.forbidden))


def _common_prefix(ranges: IntervalSet) -> Pattern:
    """Return the pattern of the longest prefix that all strings of some ranges share (they hold at least one)."""
    start, end = ranges.cuts[0], ranges.cuts[-1]
    if start == START:
        return _ANY_STRING
    low = str(start[1])
    shared = 0
    while shared < len(low) and end <= _end_of_prefix(low[: shared + 1]):
        shared += 1
    return Pattern.prefix(low[:shared])


def _made(ranges: IntervalSet, required: Iterable[Pattern], forbidden: Iterable[Pattern]) -> StringSet:
    """Return the canonical set: what ranges can say is moved there, and no pattern repeats what another says."""
    needed: set[Pattern] = set()
    barred: set[Pattern] = set()
    for pattern in required:
        ranges &= _hull(pattern)
        if pattern.kind is not PatternKind.EXACT:
            needed.add(pattern)
    for pattern in forbidden:
        if pattern.kind in (PatternKind.EXACT, PatternKind.PREFIX):
            ranges -= _hull(pattern)
        else:
            barred.add(pattern)
    ranges = _without_idle_points(ranges, StringSet(_ALL, frozenset(needed), frozenset(barred)))
    contradictory = any(pattern.implies(bar) for pattern in needed for bar in barred) or _ends_differ(needed)
    if not ranges or contradictory:
        return StringSet(_NONE)
    if ranges.points() is not None:
        return StringSet(ranges)  # finite, and every point satisfies the patterns
    stem = _common_prefix(ranges)
    if any(stem.implies(bar) for bar in barred):
        return StringSet(_NONE)
    needed = {p for p in needed if not stem.implies(p) and not any(q != p and q.implies(p) for q in needed)}
    barred = {p for p in barred if not any(q != p and p.implies(q) for q in barred)}
    patterns = StringSet(_ALL, frozenset(needed), frozenset(barred))
    return StringSet(_without_idle_gaps(ranges, patterns), patterns.required, patterns.forbidden)


def _ends_differ(patterns: Iterable[Pattern]) -> bool:
    """Whether no string ends as all the patterns want: two of their ends are such that neither ends with the other."""
    tails = sorted((pattern.tail for pattern in patterns), key=len)
    return any(not longer.endswith(shorter) for shorter, longer in pairwise(tails))


def _hull(pattern: Pattern) -> IntervalSet:
    if pattern.kind is PatternKind.EXACT:
        return IntervalSet.of_points(Domain.STRING, (pattern.literal,))
    return prefix_range(pattern.head)


def _without_idle_points(ranges: IntervalSet, patterns: StringSet) -> IntervalSet:
    """Leave out single strings that the patterns exclude."""
    idle = _excluded_points(ranges, patterns)
    return ranges - IntervalSet.of_points(Domain.STRING, idle) if idle else ranges


def _without_idle_gaps(ranges: IntervalSet, patterns: StringSet) -> IntervalSet:
    """Fill single gaps, which the patterns exclude anyway."""
    idle = _excluded_points(ranges.complement(), patterns)
    return ranges | IntervalSet.of_points(Domain.STRING, idle) if idle else ranges


def _excluded_points(ranges: IntervalSet, patterns: StringSet) -> list[str]:
    """Return the single strings of some ranges that the patterns exclude."""
    lone = (ranges.point(*piece) for piece in ranges.pieces())
    return [point for point in lone if isinstance(point, str) and point not in patterns]
