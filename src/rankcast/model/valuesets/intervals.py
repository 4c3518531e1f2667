"""Sets of values of one ordered domain, as sorted cuts.

A cut is a place between values: just below a value or just above it, or one of the two ends of the domain. A set is
an even number of strictly increasing cuts; what lies between the first and the second is in, between the second and
the third is out, and so on. Intervals with open and closed ends, finite sets and excluded values are all this one
shape, so intersection, union and complement are one sweep each (linear), and membership is a bisection.

The form is canonical: two sets are equal as sets of their domain exactly when their cuts are. Over integers and times
"just above n" is the same place as "just below n+1", and over strings "just above s" is "just below s + NUL", the next
string; such cuts are always written the second way. So 3 < x < 4 is empty over integers and not over reals, and
[0,4] with [5,9] is [0,9] over integers. Reals stand for int64 and float64 together: a set that is empty only because
no float64 lies between two neighbours is not recognised as empty (sound: it is treated as larger than it is).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import Any, TypeAlias

from msgspec import Struct

from rankcast.model.times import EARLIEST, LATEST, TICK
from rankcast.model.values import INT_MAX, INT_MIN, Value

Cut: TypeAlias = tuple[int, Any, int]
"""(0, value, 0) just below a value, (0, value, 1) just above it; (-1, 0, 0) and (1, 0, 0) the ends of the domain."""

START: Cut = (-1, 0, 0)
END: Cut = (1, 0, 0)


class Domain(Enum):
    """What lies between two values of an attribute."""

    REAL = "real"
    INTEGER = "integer"
    STRING = "string"
    TIME = "time"

    __hash__ = object.__hash__  # each value is there once; an Enum would hash its name, in Python

    def cut(self, value: Any, *, above: bool) -> Cut:
        """Return the canonical cut just below or just above a value."""
        return _CUTS[self](value, above)


def _real_cut(value: int | float, above: bool) -> Cut:
    # One spelling per number, so that equal sets also print alike: 5.0 and -0.0 become 5 and 0.
    if isinstance(value, float) and value.is_integer() and INT_MIN <= value <= INT_MAX:
        value = int(value)
    return (0, value, int(above))


def _integer_cut(value: int | float, above: bool) -> Cut:
    low = math.floor(value) + 1 if above else math.ceil(value)
    if low <= INT_MIN:
        return START
    return (0, low, 0) if low <= INT_MAX else END


def _string_cut(value: str, above: bool) -> Cut:
    if above:
        return (0, value + "\0", 0)
    return (0, value, 0) if value else START


def _time_cut(value: Any, above: bool) -> Cut:
    if above:
        return END if value == LATEST else (0, value + TICK, 0)
    return START if value == EARLIEST else (0, value, 0)


_CUTS: dict[Domain, Callable[[Any, bool], Cut]] = {
    Domain.REAL: _real_cut,
    Domain.INTEGER: _integer_cut,
    Domain.STRING: _string_cut,
    Domain.TIME: _time_cut,
}


class IntervalSet(Struct, frozen=True, gc=False):
    """A set of values of one domain. Build it with `full`, `between` and `of_points`, never from raw cuts."""

    domain: Domain
    cuts: tuple[Cut, ...]

    @staticmethod
    def empty(domain: Domain) -> IntervalSet:
        """Return the set without values."""
        return IntervalSet(_plain(domain), ())

    @staticmethod
    def full(domain: Domain) -> IntervalSet:
        """Return the set of all values."""
        return IntervalSet(_plain(domain), (START, END))

    @staticmethod
    def between(
        domain: Domain,
        low: Value | None,
        high: Value | None,
        *,
        low_closed: bool = True,
        high_closed: bool = True,
    ) -> IntervalSet:
        """Return one interval; None means unbounded on that side.

        >>> 5 in IntervalSet.between(Domain.REAL, 1, 5, high_closed=False)
        False
        """
        start = START if low is None else domain.cut(low, above=not low_closed)
        end = END if high is None else domain.cut(high, above=high_closed)
        return _made(domain, (start, end) if start < end else ())

    @staticmethod
    def of_points(domain: Domain, points: Iterable[Value]) -> IntervalSet:
        """Return a finite set; values outside the domain, such as 1.5 over integers, are left out."""
        pairs = sorted({(domain.cut(point, above=False), domain.cut(point, above=True)) for point in points})
        cuts: list[Cut] = []
        for start, end in pairs:
            if start >= end:
                continue
            if cuts and cuts[-1] == start:
                cuts[-1] = end
            else:
                cuts += (start, end)
        return _made(domain, tuple(cuts))

    def __contains__(self, value: Any) -> bool:
        return bool(bisect_right(self.cuts, (0, value, 0)) & 1)

    def __bool__(self) -> bool:
        return bool(self.cuts)

    @property
    def is_full(self) -> bool:
        """Whether every value of the domain is in."""
        return self.cuts == (START, END)

    def complement(self) -> IntervalSet:
        """Return the values of the domain that are not in this set."""
        cuts = self.cuts
        cuts = cuts[1:] if cuts[:1] == (START,) else (START, *cuts)
        cuts = cuts[:-1] if cuts[-1:] == (END,) else (*cuts, END)
        return _made(self.domain, cuts)

    def __and__(self, other: IntervalSet) -> IntervalSet:
        if len(self.cuts) == len(other.cuts) == 2:  # one interval each, which is usual
            start, end = max(self.cuts[0], other.cuts[0]), min(self.cuts[1], other.cuts[1])
            return _made(self._common_domain(other), (start, end) if start < end else ())
        if not self.cuts or not other.cuts:
            return _made(self._common_domain(other), ())
        return self._combined(other, lambda mine, theirs: mine and theirs)

    def __or__(self, other: IntervalSet) -> IntervalSet:
        return self._combined(other, lambda mine, theirs: mine or theirs)

    def __sub__(self, other: IntervalSet) -> IntervalSet:
        return self._combined(other, lambda mine, theirs: mine and not theirs)

    def __le__(self, other: IntervalSet) -> bool:
        theirs = other.cuts
        if self.cuts == theirs:
            return True
        for start, end in self.pieces():
            at = bisect_right(theirs, start)
            if not at & 1 or theirs[at] < end:
                return False
        return True

    def _combined(self, other: IntervalSet, keep: Callable[[bool, bool], bool]) -> IntervalSet:
        mine, theirs = self.cuts, other.cuts
        i = j = 0
        inside = False
        cuts: list[Cut] = []
        while i < len(mine) or j < len(theirs):
            cut = min(mine[i : i + 1] + theirs[j : j + 1])
            i += i < len(mine) and mine[i] == cut
            j += j < len(theirs) and theirs[j] == cut
            if keep(bool(i & 1), bool(j & 1)) != inside:
                cuts.append(cut)
                inside = not inside
        return _made(self._common_domain(other), tuple(cuts))

    def _common_domain(self, other: IntervalSet) -> Domain:
        """Integers with reals are reals, unless one side is empty or full and so says nothing of its domain."""
        if not self.cuts or self.is_full:
            return other.domain
        if not other.cuts or other.is_full or self.domain is other.domain:
            return self.domain
        return Domain.REAL

    def pieces(self) -> Iterator[tuple[Cut, Cut]]:
        """Yield the maximal intervals as pairs of cuts, in order."""
        return zip(self.cuts[::2], self.cuts[1::2], strict=True)

    def point(self, start: Cut, end: Cut) -> Value | None:
        """Return the single value between two cuts, or None when there are none or several."""
        value = _first(self.domain, start)
        return value if value is not None and self.domain.cut(value, above=True) == end else None

    def points(self) -> tuple[Value, ...] | None:
        """Return the values in order when every piece is a single value, else None."""
        found: list[Value] = []
        for start, end in self.pieces():
            value = self.point(start, end)
            if value is None:
                return None
            found.append(value)
        return tuple(found)

    def witness(self) -> Value | None:
        """Return some value of the set, an end point where one belongs to it.

        None when the set is empty, which includes reals between two neighbours: no int64 or float64 lies there.
        """
        inside = (_inside(self.domain, start, end) for start, end in self.pieces())
        return next((value for value in inside if value is not None), None)


def _plain(domain: Domain) -> Domain:
    """Empty and full sets of numbers are the same over integers and reals; they are written as reals."""
    return Domain.REAL if domain is Domain.INTEGER else domain


def _made(domain: Domain, cuts: tuple[Cut, ...]) -> IntervalSet:
    if not cuts or cuts == (START, END):
        domain = _plain(domain)
    return IntervalSet(domain, cuts)


def _first(domain: Domain, start: Cut) -> Value | None:
    """Return the smallest value above a cut, or None when there is no smallest one."""
    if start == START:
        return _SMALLEST.get(domain)
    value: Value = start[1]
    return None if start[2] else value


_SMALLEST: dict[Domain, Value] = {Domain.INTEGER: INT_MIN, Domain.STRING: "", Domain.TIME: EARLIEST}


def _inside(domain: Domain, start: Cut, end: Cut) -> Value | None:
    first = _first(domain, start)
    if first is not None:
        return first
    if end[2]:  # closed above, so the upper end itself belongs to the set
        high: int | float = end[1]
        return high
    return _number_between(start, end)


def _number_between(start: Cut, end: Cut) -> int | float | None:
    if start[0]:
        return 0 if end[0] else _step(end[1], -1)
    if end[0]:
        return _step(start[1], 1)
    low: int | float = start[1]
    high: int | float = end[1]
    # A whole number if there is one, else the middle (halved first: the sum may overflow), else the next float64.
    candidates = (_step(low, 1), low / 2 + high / 2, math.nextafter(low, math.inf), math.nextafter(high, -math.inf))
    return next((number for number in candidates if low < number < high), None)


def _step(value: int | float, direction: int) -> int | float:
    """Return a number beyond `value`; the next whole one, or an infinity when float64 has nothing finite left."""
    whole = math.floor(value) + 1 if direction > 0 else math.ceil(value) - 1
    return whole if INT_MIN <= whole <= INT_MAX else math.inf * direction
