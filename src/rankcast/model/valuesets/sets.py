"""The set of what one attribute may be: missing, a number, a string, a bool, a time, a list.

This is the normal form of everything a conjunction says about one attribute. An attribute that a conjunction does not
name may be anything, `EVERYTHING`; a comparison only ever accepts values of its own family; `exists` accepts every
value and `not exists` accepts only a missing attribute.

A scalar is a list of one. So where lists of a family are in a set, scalars have the same conditions as lists; and where
some element is required, nothing but such lists and scalars is in the set. (The index relies on both.) Intersections
keep that, and `union` refuses what would break it.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import and_, or_
from typing import cast

from msgspec import Struct
from msgspec.structs import replace

from rankcast.model.values import AttributeValue, Family, Value
from rankcast.model.valuesets.intervals import Domain, IntervalSet
from rankcast.model.valuesets.lists import ALL_LISTS, FAMILIES, NO_LISTS, Elements, ListSet
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
    """A canonical set over "missing", the four families and lists."""

    missing: bool = False
    numbers: IntervalSet = _NO_NUMBERS
    strings: StringSet = _NO_STRINGS
    bools: frozenset[bool] = _NO_BOOLS
    times: IntervalSet = _NO_TIMES
    lists: ListSet = NO_LISTS

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
    def having(family: Family, choices: Iterable[Iterable[Value]], domain: Domain) -> ValueSet:
        """Return the lists, and scalars, that have one value at least of each of some choices."""
        chosen = [_within_domain(values, domain) for values in choices]
        scalars = reduce(and_, (ValueSet.of_points(family, values, domain) for values in chosen))
        return _with_lists(scalars, ListSet.having(family, *chosen))

    @staticmethod
    def lacking(family: Family, values: Iterable[Value], domain: Domain) -> ValueSet:
        """Return the lists, and scalars, of a family that have none of some values."""
        chosen = _within_domain(values, domain)
        outside = next(iter(ValueSet.of_points(family, chosen, domain).complement()))
        return _with_lists(outside & ValueSet.of_family(family), ListSet.lacking(family, chosen))

    @staticmethod
    def of_family(family: Family) -> ValueSet:
        """Return all scalars of one family."""
        name = _FIELDS[family]
        return ValueSet(**{name: getattr(PRESENT, name)})

    @property
    def _exact(self) -> tuple[bool, IntervalSet, frozenset[bool], IntervalSet]:
        """All but the strings: whatever is asked of these is decided."""
        return self.missing, self.numbers, self.bools, self.times

    def __bool__(self) -> bool:
        return bool(self.missing or self.numbers or self.strings or self.bools or self.times or self.lists)

    @property
    def has_patterns(self) -> bool:
        """Whether string patterns or conditions on elements of lists are part of the set: ranges do not say it all."""
        return self.strings.has_patterns or self.lists.has_conditions

    def accepts(self, value: AttributeValue | None) -> bool:
        """Whether the attribute may have this value; None stands for missing."""
        if value is None:
            return self.missing
        if isinstance(value, bool):
            return value in self.bools
        if isinstance(value, int | float):
            return value in self.numbers
        if isinstance(value, str):
            return value in self.strings
        return self.lists.accepts(value) if isinstance(value, tuple) else value in self.times

    def __and__(self, other: ValueSet) -> ValueSet:
        missing, numbers, bools, times = map(and_, self._exact, other._exact)
        return ValueSet(missing, numbers, self.strings & other.strings, bools, times, self.lists & other.lists)

    def union(self, other: ValueSet) -> ValueSet | None:
        """Return both sets together, or None when one set cannot express that (different patterns or conditions)."""
        strings, lists = self.strings.union(other.strings), self.lists.union(other.lists)
        if strings is None or lists is None:
            return None
        missing, numbers, bools, times = map(or_, self._exact, other._exact)
        both = ValueSet(missing, numbers, strings, bools, times, lists)
        return both if lists is NO_LISTS or both._treats_scalars_as_lists() else None

    def _treats_scalars_as_lists(self) -> bool:
        """Whether what is asked of lists is also asked of scalars, and of nothing else where elements are required."""
        for family, asked in zip(FAMILIES, self.lists.families, strict=True):
            if asked is None:
                continue
            held = getattr(self, _FIELDS[family])
            domain = held.domain if isinstance(held, IntervalSet) else DOMAIN_OF_FAMILY[family]
            if asked.required:
                alone = ValueSet.of_points(family, asked.scalars(), domain)
                return self == _with_lists(alone, self.lists.of_family(family)) and not self.lists.empty
            if held != getattr(ValueSet.lacking(family, asked.forbidden, domain), _FIELDS[family]):
                return False
        return True

    def without_conditions(self) -> ValueSet:
        """Return the set with all values of the families whose lists have conditions on their elements."""
        families = tuple(None if asked is None else Elements() for asked in self.lists.families)
        asked = [family for family, own in zip(FAMILIES, self.lists.families, strict=True) if own]
        whole = {_FIELDS[family]: getattr(PRESENT, _FIELDS[family]) for family in asked}
        return replace(self, lists=ListSet(self.lists.empty, families), **whole)

    def complement(self) -> tuple[ValueSet, ...]:
        """Return sets that together hold exactly what is not in this one."""
        strings, lists = self.strings.complement(), self.lists.complement()
        outside = ValueSet(
            not self.missing,
            self.numbers.complement(),
            strings[0] if len(strings) == 1 else _NO_STRINGS,
            _BOTH - self.bools,
            self.times.complement(),
            lists[0] if len(lists) == 1 else NO_LISTS,
        )
        parts = [outside, *(ValueSet(strings=part) for part in strings if len(strings) > 1)]
        parts += (ValueSet(lists=part) for part in lists if len(lists) > 1)
        return tuple(filter(None, parts))

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
            and self.lists.covers(other.lists)
        )

    def disjoint(self, other: ValueSet) -> bool | None:
        """Whether nothing is in both sets; None when string patterns leave that undecided."""
        if any(map(and_, self._exact, other._exact)) or self.lists.intersection(other.lists):
            return False
        return self.strings.disjoint(other.strings)

    def surely_satisfiable(self) -> bool:
        """Whether some member of the set is known (string patterns may leave that open)."""
        return any(self._exact) or bool(self.lists) or self.strings.witness() is not None

    @property
    def size(self) -> int:
        """How many cuts, patterns and elements of lists it has."""
        strings = self.strings
        patterns = len(strings.required) + len(strings.forbidden)
        return len(self.numbers.cuts) + len(strings.ranges.cuts) + len(self.times.cuts) + patterns + self.lists.size

    def steps_to_combine(self, other: ValueSet) -> int:
        """About how many steps of 0.1 microseconds an intersection takes, at worst."""
        return 60 + 4 * self._steps_but_for_strings(other) + self.strings.steps_to_combine(other.strings)

    def steps_to_unite(self, other: ValueSet) -> int:
        """About how many steps a union takes, at worst: string patterns are compared, and hardly ever combined."""
        mine, theirs = self.strings, other.strings
        steps = mine.steps_to_compare(theirs) + theirs.steps_to_compare(mine)
        return 60 + 4 * self._steps_but_for_strings(other) + steps

    def steps_to_compare(self, other: ValueSet) -> int:
        """About how many steps `surely_covers` takes, at worst."""
        return 30 + self._steps_but_for_strings(other) + self.strings.steps_to_compare(other.strings)

    def steps_to_decide(self, other: ValueSet) -> int:
        """About how many steps `covers` takes, at worst, or looking for a text that is in both."""
        return self.steps_to_compare(other) + self.strings.steps_to_find(other.strings)

    def _steps_but_for_strings(self, other: ValueSet) -> int:
        cuts = len(self.numbers.cuts) + len(other.numbers.cuts) + len(self.times.cuts) + len(other.times.cuts)
        return cuts + self.lists.steps(other.lists)

    @property
    def sort_key(self) -> tuple[object, ...]:
        """A key that puts value sets in one order."""
        patterns = (self.strings.required, self.strings.forbidden)
        texts = tuple(tuple(sorted(pattern.text for pattern in kind)) for kind in patterns)
        exact = (self.missing, self.numbers.cuts, self.strings.ranges.cuts, *texts, sorted(self.bools), self.times.cuts)
        return (*exact, self.lists.sort_key)

    def within(self, family: Family, *, required: bool, is_list: bool) -> ValueSet:
        """Return the plainest set that accepts the same among values of one type and, unless required, missing."""
        missing = self.missing and not required
        name = _FIELDS[family]
        inside, lists = getattr(self, name), self.lists.of_family(family) if is_list else NO_LISTS
        if inside == getattr(EVERYTHING, name) and (not is_list or lists == ALL_LISTS.of_family(family)):
            return EVERYTHING if missing or required else PRESENT
        return ValueSet(missing, lists=lists, **{name: inside})


NOTHING = ValueSet()
MISSING = ValueSet(missing=True)
PRESENT = ValueSet(False, _ALL_NUMBERS, _ALL_STRINGS, _BOTH, _ALL_TIMES, ALL_LISTS)
EVERYTHING = ValueSet(True, _ALL_NUMBERS, _ALL_STRINGS, _BOTH, _ALL_TIMES, ALL_LISTS)


def _with_lists(scalars: ValueSet, lists: ListSet) -> ValueSet:
    return ValueSet(scalars.missing, scalars.numbers, scalars.strings, scalars.bools, scalars.times, lists)


def _within_domain(values: Iterable[Value], domain: Domain) -> list[Value]:
    """Leave out what the domain does not have, such as 1.5 among integers."""
    return [value for value in values if domain is not Domain.INTEGER or IntervalSet.of_points(domain, (value,))]


_FIELDS = {Family.NUMBER: "numbers", Family.STRING: "strings", Family.BOOL: "bools", Family.TIME: "times"}


DOMAIN_OF_FAMILY = {
    Family.NUMBER: Domain.REAL,
    Family.STRING: Domain.STRING,
    Family.BOOL: Domain.REAL,
    Family.TIME: Domain.TIME,
}
"""The domain that constants of a family are cut in; bools have none of their own and never reach it."""
