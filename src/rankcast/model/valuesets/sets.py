"""The set of what one attribute may be: missing, a number, a string, a bool, a time.

This is the normal form of everything a conjunction says about one attribute. An attribute that a conjunction does not
name may be anything, `EVERYTHING`; a comparison only ever accepts values of its own family; `exists` accepts every
value and `not exists` accepts only a missing attribute.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import and_, or_
from typing import cast

from msgspec import Struct

from rankcast.model.values import Family, Value
from rankcast.model.valuesets.intervals import Domain, IntervalSet
from rankcast.model.valuesets.patterns import Pattern
from rankcast.model.valuesets.strings import StringSet

_BOTH = frozenset((False, True))
_NO_BOOLS: frozenset[bool] = frozenset()
_NO_NUMBERS = IntervalSet.empty(Domain.REAL)
_NO_STRINGS = StringSet.of_range(IntervalSet.empty(Domain.STRING))
_NO_TIMES = IntervalSet.empty(Domain.TIME)
_ALL_NUMBERS = IntervalSet.full(Domain.REAL)
_ALL_STRINGS = StringSet.of_range(IntervalSet.full(Domain.STRING))
_ALL_TIMES = IntervalSet.full(Domain.TIME)


class ValueSet(Struct, frozen=True, gc=False):
    """A canonical set over "missing" and the four families."""

    missing: bool = False
    numbers: IntervalSet = _NO_NUMBERS
    strings: StringSet = _NO_STRINGS
    bools: frozenset[bool] = _NO_BOOLS
    times: IntervalSet = _NO_TIMES

    @staticmethod
    def of_interval(interval: IntervalSet) -> ValueSet:
        """Return the values of one interval set, whatever its domain."""
        if interval.domain is Domain.STRING:
            return ValueSet(strings=StringSet.of_range(interval))
        return ValueSet(times=interval) if interval.domain is Domain.TIME else ValueSet(numbers=interval)

    @staticmethod
    def of_points(family: Family, points: Iterable[Value], domain: Domain) -> ValueSet:
        """Return a finite set of values of one family; `domain` is that of the attribute's numbers."""
        if family is Family.BOOL:
            return ValueSet(bools=frozenset(cast(Iterable[bool], points)))
        return ValueSet.of_interval(IntervalSet.of_points(domain, points))

    @staticmethod
    def of_pattern(pattern: Pattern, *, negated: bool = False) -> ValueSet:
        """Return the strings that a pattern describes or, negated, all other strings."""
        return ValueSet(strings=StringSet.of_pattern(pattern, negated=negated))

    @staticmethod
    def of_family(family: Family) -> ValueSet:
        """Return all values of one family."""
        name = _FIELDS[family]
        return ValueSet(**{name: getattr(PRESENT, name)})

    @property
    def _exact(self) -> tuple[bool, IntervalSet, frozenset[bool], IntervalSet]:
        """All but the strings: whatever is asked of these is decided."""
        return self.missing, self.numbers, self.bools, self.times

    def __bool__(self) -> bool:
        return bool(self.missing or self.numbers or self.strings or self.bools or self.times)

    @property
    def has_patterns(self) -> bool:
        """Whether string patterns are part of the set, so that some questions may stay undecided."""
        return self.strings.has_patterns

    def accepts(self, value: Value | None) -> bool:
        """Whether the attribute may have this value; None stands for missing."""
        if value is None:
            return self.missing
        if isinstance(value, bool):
            return value in self.bools
        if isinstance(value, int | float):
            return value in self.numbers
        return value in self.strings if isinstance(value, str) else value in self.times

    def __and__(self, other: ValueSet) -> ValueSet:
        missing, numbers, bools, times = map(and_, self._exact, other._exact)
        return ValueSet(missing, numbers, self.strings & other.strings, bools, times)

    def union(self, other: ValueSet) -> ValueSet | None:
        """Return both sets together, or None when one set cannot express that (different string patterns)."""
        strings = self.strings.union(other.strings)
        missing, numbers, bools, times = map(or_, self._exact, other._exact)
        return None if strings is None else ValueSet(missing, numbers, strings, bools, times)

    def complement(self) -> tuple[ValueSet, ...]:
        """Return sets that together hold exactly what is not in this one."""
        outside = ValueSet(
            not self.missing, self.numbers.complement(), _NO_STRINGS, _BOTH - self.bools, self.times.complement()
        )
        parts = [ValueSet(strings=part) for part in self.strings.complement()]
        if len(parts) == 1:
            outside = cast(ValueSet, outside.union(parts.pop()))
        return tuple(part for part in (outside, *parts) if part)

    def covers(self, other: ValueSet) -> bool | None:
        """Whether this set holds all of `other`; None when string patterns leave that undecided."""
        if self == other:
            return True
        return self._covers_but_for_strings(other) and self.strings.covers(other.strings)

    def surely_covers(self, other: ValueSet) -> bool:
        """Whether it is certain that this set holds all of `other`: cheaper than `covers`."""
        return self == other or (self._covers_but_for_strings(other) and self.strings.surely_covers(other.strings))

    def _covers_but_for_strings(self, other: ValueSet) -> bool:
        return (
            self.missing >= other.missing
            and other.numbers <= self.numbers
            and other.bools <= self.bools
            and other.times <= self.times
        )

    def disjoint(self, other: ValueSet) -> bool | None:
        """Whether nothing is in both sets; None when string patterns leave that undecided."""
        return False if any(map(and_, self._exact, other._exact)) else self.strings.disjoint(other.strings)

    def surely_satisfiable(self) -> bool:
        """Whether some member of the set is known (string patterns may leave that open)."""
        return any(self._exact) or self.strings.witness() is not None

    @property
    def size(self) -> int:
        """How many cuts and patterns it has."""
        strings = self.strings
        patterns = len(strings.required) + len(strings.forbidden)
        return len(self.numbers.cuts) + len(strings.ranges.cuts) + len(self.times.cuts) + patterns

    def steps_to_combine(self, other: ValueSet) -> int:
        """About how many steps of 0.1 microseconds an intersection takes, at worst."""
        return 40 + 4 * self._cuts_but_for_strings(other) + self.strings.steps_to_combine(other.strings)

    def steps_to_unite(self, other: ValueSet) -> int:
        """About how many steps a union takes, at worst: string patterns are compared, and hardly ever combined."""
        mine, theirs = self.strings, other.strings
        steps = mine.steps_to_compare(theirs) + theirs.steps_to_compare(mine)
        return 40 + 4 * self._cuts_but_for_strings(other) + steps

    def steps_to_compare(self, other: ValueSet) -> int:
        """About how many steps `surely_covers` takes, at worst."""
        return 20 + self._cuts_but_for_strings(other) + self.strings.steps_to_compare(other.strings)

    def steps_to_decide(self, other: ValueSet) -> int:
        """About how many steps `covers` takes, at worst, or looking for a text that is in both."""
        return self.steps_to_compare(other) + self.strings.steps_to_find(other.strings)

    def _cuts_but_for_strings(self, other: ValueSet) -> int:
        return len(self.numbers.cuts) + len(other.numbers.cuts) + len(self.times.cuts) + len(other.times.cuts)

    @property
    def sort_key(self) -> tuple[object, ...]:
        """A key that puts value sets in one order."""
        patterns = (self.strings.required, self.strings.forbidden)
        texts = tuple(tuple(sorted(pattern.text for pattern in kind)) for kind in patterns)
        return (self.missing, self.numbers.cuts, self.strings.ranges.cuts, *texts, sorted(self.bools), self.times.cuts)

    def within(self, family: Family, *, required: bool) -> ValueSet:
        """Return the plainest set that accepts the same among values of one family and, unless required, missing."""
        missing = self.missing and not required
        name = _FIELDS[family]
        inside = getattr(self, name)
        if inside == getattr(EVERYTHING, name):
            return EVERYTHING if missing or required else PRESENT
        return ValueSet(missing, **{name: inside})


NOTHING = ValueSet()
MISSING = ValueSet(missing=True)
PRESENT = ValueSet(False, _ALL_NUMBERS, _ALL_STRINGS, _BOTH, _ALL_TIMES)
EVERYTHING = ValueSet(True, _ALL_NUMBERS, _ALL_STRINGS, _BOTH, _ALL_TIMES)

_FIELDS = {Family.NUMBER: "numbers", Family.STRING: "strings", Family.BOOL: "bools", Family.TIME: "times"}


DOMAIN_OF_FAMILY = {
    Family.NUMBER: Domain.REAL,
    Family.STRING: Domain.STRING,
    Family.BOOL: Domain.REAL,
    Family.TIME: Domain.TIME,
}
"""The domain that constants of a family are cut in; bools have none of their own and never reach it."""
