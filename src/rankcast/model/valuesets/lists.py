"""Sets of lists, by what their elements are.

A list has elements of one family, or none at all. What is asked of the lists of a family is that they have some element
of each of several sets (`required`), and none of another set (`forbidden`); a list may satisfy two such conditions by
two elements. Nothing is asked of an element beside that it is there, so the form is canonical once what is forbidden
has left the required sets and no required set contains another: then a set covers another one exactly when it forbids
no more, and each set that it requires contains one that the other requires. All questions are decided.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from msgspec import Struct

from rankcast.model.errors import FilterTooLargeError
from rankcast.model.values import INT_MAX, INT_MIN, Family, ListValue, Value, family_of

Values: TypeAlias = frozenset[Value]

MAX_CHOICES = 64
"""Conditions `has any` of several values, on one attribute of one conjunction: each is compared with each other."""

_NOTHING: Values = frozenset()


class Elements(Struct, frozen=True, gc=False):
    """What is asked of the elements of lists of one family; build it with `elements`."""

    required: frozenset[Values] = frozenset()
    forbidden: Values = _NOTHING

    def __bool__(self) -> bool:
        return bool(self.required or self.forbidden)

    @property
    def size(self) -> int:
        """How many elements are named."""
        return len(self.forbidden) + sum(map(len, self.required))

    def accepts(self, found: ListValue) -> bool:
        """Whether a list of the family is one of these."""
        return self.forbidden.isdisjoint(found) and not any(map(frozenset(found).isdisjoint, self.required))

    def covers(self, other: Elements) -> bool:
        """Whether all lists of `other` are among these."""
        return self.forbidden <= other.forbidden and all(
            _is_whole(mine) or any(theirs <= mine for theirs in other.required) for mine in self.required
        )

    def union(self, other: Elements) -> Elements | None:
        """Return what is asked of the lists of both together, or None when that cannot be said."""
        if self.covers(other):
            return self
        if other.covers(self):
            return other
        mine, theirs = self.required - other.required, other.required - self.required
        common = self.required & other.required
        if self.forbidden == other.forbidden and len(mine) == len(theirs) == 1:
            return elements((*common, *(a | b for a in mine for b in theirs)), self.forbidden)
        for one, two in ((self, other), (other, self)):  # those with an element of a set, and those without any
            more = two.forbidden - one.forbidden
            if more and one.required == two.required | {more} and one.forbidden <= two.forbidden:
                return Elements(two.required, one.forbidden)
        return None

    def complement(self) -> Iterator[Elements]:
        """Yield what is asked of lists of the family that are not among these."""
        yield from filter(None, (elements((), wanted) for wanted in self.required))
        if self.forbidden:
            yield Elements(frozenset((self.forbidden,)))

    def scalars(self) -> Values:
        """Return the values that are, as lists of one, among these; only where something is required are they few."""
        first, *others = self.required
        return first.intersection(*others) - self.forbidden

    @property
    def sort_key(self) -> tuple[object, ...]:
        """A key that puts conditions in one order."""
        return sorted(map(sorted, self.required)), sorted(self.forbidden)


def elements(required: Iterable[Values], forbidden: Values) -> Elements | None:
    """Return the canonical form of conditions, or None when no list satisfies them."""
    left = {wanted - forbidden for wanted in required}
    if _NOTHING in left or _is_whole(forbidden):
        return None
    single = frozenset().union(*(wanted for wanted in left if len(wanted) == 1))
    kept = [frozenset((value,)) for value in single]
    choices: list[Values] = []
    for wanted in sorted((wanted for wanted in left if len(wanted) > 1 and wanted.isdisjoint(single)), key=len):
        if not any(smaller <= wanted for smaller in choices):
            choices.append(wanted)
    return Elements(frozenset((*kept, *choices)), forbidden)


def _is_whole(values: Values) -> bool:
    """Whether these are all values of their family, of which every list that is not empty has some: both bools."""
    return len(values) == 2 and all(isinstance(value, bool) for value in values)


FAMILIES = (Family.NUMBER, Family.STRING, Family.BOOL, Family.TIME)
"""The order in which `ListSet.families` has what is asked of the lists of each."""


class ListSet(Struct, frozen=True, gc=False):
    """A canonical set of lists: the empty one or not, and by family what is asked; None: no list of that family.

    >>> wanted = ListSet.having(Family.STRING, ("Kafka",))
    >>> wanted.accepts(("Go", "Kafka")), wanted.accepts(("Go",)), wanted.accepts((1,))
    (True, False, False)
    """

    empty: bool = False
    families: tuple[Elements | None, ...] = (None,) * len(FAMILIES)

    @staticmethod
    def having(family: Family, *choices: Iterable[Value]) -> ListSet:
        """Return the lists that have one value at least of each of some choices."""
        return _of(family, elements((frozenset(map(_plain, values)) for values in choices), _NOTHING), empty=False)

    @staticmethod
    def lacking(family: Family, values: Iterable[Value]) -> ListSet:
        """Return the lists of a family that have none of some values."""
        return _of(family, elements((), frozenset(map(_plain, values))), empty=True)

    def __bool__(self) -> bool:
        return self.empty or self.families != NO_LISTS.families

    @property
    def has_conditions(self) -> bool:
        """Whether something is asked of elements."""
        return any(self.families)

    @property
    def size(self) -> int:
        """How many elements are named."""
        return sum(asked.size for asked in self.families if asked)

    def steps(self, other: ListSet) -> int:
        """About how many steps it takes to compare two sets or to put them together, at worst."""
        both = zip(self.families, other.families, strict=True)
        pairs = sum((len(mine.required) + 1) * (len(theirs.required) + 1) for mine, theirs in both if mine and theirs)
        return pairs + self.size + other.size

    @property
    def choice(self) -> Family | None:
        """The family of lists that are asked for one of some elements and for nothing else, as by `has any`.

        Two such sets of one family together are another one.
        """
        for family, asked in zip(FAMILIES, self.families, strict=True):
            if asked is not None:
                return family if len(asked.required) == 1 and not asked.forbidden else None
        return None

    def accepts(self, found: ListValue) -> bool:
        """Whether a list is in the set."""
        if not found:
            return self.empty
        asked = self.families[FAMILIES.index(family_of(found[0]))]
        return asked is not None and asked.accepts(found)

    def __and__(self, other: ListSet) -> ListSet:
        if self is other or other is ALL_LISTS:
            return self
        if self is ALL_LISTS:
            return other
        common = self.intersection(other)
        for asked in common.families:
            if asked is not None and sum(len(wanted) > 1 for wanted in asked.required) > MAX_CHOICES:
                raise FilterTooLargeError(f"more than {MAX_CHOICES} conditions `has any` on one attribute")
        return common

    def intersection(self, other: ListSet) -> ListSet:
        """Return what is in both sets, which is too much for a filter if there are more than `MAX_CHOICES`."""
        both = (
            None if one is None or two is None else elements(one.required | two.required, one.forbidden | two.forbidden)
            for one, two in zip(self.families, other.families, strict=True)
        )
        return ListSet(self.empty and other.empty, tuple(both))

    def union(self, other: ListSet) -> ListSet | None:
        """Return both sets together, or None when one set cannot say that."""
        if self is other or not other:
            return self
        if not self:
            return other
        together: list[Elements | None] = []
        for one, two in zip(self.families, other.families, strict=True):
            both = (two if one is None else one) if one is None or two is None else one.union(two)
            if both is None and one is not None:
                return None
            together.append(both)
        return ListSet(self.empty or other.empty, tuple(together))

    def complement(self) -> tuple[ListSet, ...]:
        """Return sets that together hold exactly the lists that are not in this one."""
        outside = tuple(Elements() if asked is None else None for asked in self.families)
        parts = [ListSet(not self.empty, outside)]
        for family, asked in zip(FAMILIES, self.families, strict=True):
            parts += (_of(family, part, empty=False) for part in (asked.complement() if asked else ()))
        return tuple(filter(None, parts))

    def covers(self, other: ListSet) -> bool:
        """Whether all of `other` is in this set."""
        if self is other or not other:
            return True
        pairs = zip(self.families, other.families, strict=True)
        return self.empty >= other.empty and all(
            theirs is None or (mine is not None and mine.covers(theirs)) for mine, theirs in pairs
        )

    def of_family(self, family: Family) -> ListSet:
        """Return the lists of one family, the empty one with them if it is there."""
        at = FAMILIES.index(family)
        return ListSet(self.empty, tuple(asked if at == k else None for k, asked in enumerate(self.families)))

    @property
    def sort_key(self) -> tuple[object, ...]:
        """A key that puts sets of lists in one order."""
        return self.empty, [() if asked is None else asked.sort_key for asked in self.families]


def _of(family: Family, asked: Elements | None, *, empty: bool) -> ListSet:
    return ListSet(empty, tuple(asked if family is other else None for other in FAMILIES))


def _plain(value: Value) -> Value:
    """Return the one spelling of a number, so that equal sets also print alike: 5.0 and -0.0 become 5 and 0."""
    if isinstance(value, float) and value.is_integer() and INT_MIN <= value <= INT_MAX:
        return int(value)
    return value


NO_LISTS = ListSet()
ALL_LISTS = ListSet(True, (Elements(),) * len(FAMILIES))
