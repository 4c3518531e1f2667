"""The covering order of many subscriptions: who is above whom, kept as arrays, while they come and go.

A subscription is above another when its filter covers the other's and it ranks no lower, for every publication that
matches both. A ranking has to be able to prove that:

- `FIXED`: each subscription has a score that no publication changes (a fixed score, the area of its box); the larger
  one ranks higher, and of equal scores the lower number.
- `STRICT`: the same, but equal scores are drawn: neither ranks above the other.
- `AGNOSTIC`: ranks are drawn at random for each publication; covering alone decides, as the paper evaluates it.
- `UNPROVABLE`: anything else. Nothing is above anything.

Equal filters are ordered by their numbers, so the order is strict. What covering cannot decide (UNKNOWN) counts as not
covered. Numbers are the caller's; they are never reused while the order lives.
Many subscriptions are columns: `starts[attribute]` and `ends[attribute]` are arrays over them, so that a comparison
with all of them is a few passes that the processor does several at a time. Subscriptions whose box does not tell all
(disjunctions, string patterns) are marked `partial`; their pairs pass the kernels whenever they may be related, and are
decided one by one.

Cost: a comparison with all rows is one pass of a kernel, about half a nanosecond per subscription and attribute.
"""

from __future__ import annotations

import math
from enum import Enum

import numpy as np

from rankcast.arrays import Array
from rankcast.compiling import compiled
from rankcast.covering.boxes import Boxed, BoxRows, enlarge, hull
from rankcast.covering.relation import contains
from rankcast.model.errors import DuplicateIdError, InvalidValueError, UnknownIdError, shown
from rankcast.model.filters import Filter
from rankcast.model.schema import Schema

BLOCK = 512
"""Subscriptions compared at a time: when none of them is left, their other attributes need not be looked at."""


class Ranking(Enum):
    """How the ranks of two subscriptions of one publication are known to compare."""

    FIXED = "fixed"
    STRICT = "strict"
    AGNOSTIC = "agnostic"
    UNPROVABLE = "unprovable"


SCORED = {Ranking.FIXED: 1, Ranking.STRICT: 2}
"""How kernels compare scores; others do not."""


class Order:
    """Numbered subscriptions under the covering order.

    `boxes`, `scores` and `partial` are arrays by number; `partial` marks those whose box is only the hull.
    """

    def __init__(self, ranking: Ranking = Ranking.AGNOSTIC, schema: Schema | None = None) -> None:
        self.ranking = ranking
        self.boxes = BoxRows(schema)
        self.scores = np.zeros(16, np.float64)
        self._filters: dict[int, Filter] = {}
        self.partial = np.zeros(16, np.bool_)
        self._has_partial = False
        self._room = np.empty(16, np.int64)
        self.comparisons = 0
        """How many boxes have been compared with one, in all."""

    def __len__(self) -> int:
        return len(self._filters)

    def __contains__(self, number: int) -> bool:
        return number in self._filters

    def filter(self, number: int) -> Filter:
        """Return the filter of a subscription, under the schema if there is one."""
        if number not in self._filters:
            raise UnknownIdError(f"there is no subscription {number} in the covering order")
        return self._filters[number]

    def boxed(self, number: int) -> Boxed:
        """Return the boxes of a subscription."""
        return self.boxes.space.boxed(self.filter(number))

    def add(self, number: int, wanted: Filter, score: float = 0.0) -> Boxed:
        """Take a subscription in and return its boxes. Its row is its number; rows are allocated up to the largest."""
        if number in self._filters:
            raise DuplicateIdError(f"there is a subscription {number} in the covering order already")
        _check_added(number, score)
        lowered = self.boxes.space.lowered(wanted)
        boxed = self.boxes.space.boxed(lowered)
        self.boxes.write(number, hull(boxed.outer))
        self.scores, self.partial = enlarge(self.scores, number + 1), enlarge(self.partial, number + 1)
        self.scores[number] = score if self.ranking in SCORED else 0.0
        self._filters[number] = lowered
        self.partial[number] = not boxed.is_exact or len(boxed.outer) != 1
        self._has_partial |= bool(self.partial[number])
        return boxed

    def remove(self, number: int) -> None:
        """Forget a subscription."""
        self.filter(number)
        del self._filters[number]

    def above(self, number: int, among: BoxColumns) -> Array:
        """Return which subscriptions of a group are above one."""
        return self._related(number, among, upwards=True)

    def below(self, number: int, among: BoxColumns) -> Array:
        """Return which subscriptions of a group one is above of."""
        return self._related(number, among, upwards=False)

    def top_down(self, numbers: Array) -> Array:
        """Return subscriptions sorted so that each comes before those it is above of.

        By score and number where ranks are fixed. Else by boxes: the earlier start, then the later end, attribute by
        attribute, which no rounding can confuse; then by number. Of equal boxes only the filters themselves can tell.
        """
        if self.ranking in SCORED:
            return numbers[np.lexsort((numbers, -self.scores[numbers]))]
        starts, ends = self.boxes.starts[numbers], self.boxes.ends[numbers]
        sides = [side for low, high in zip(starts.T, ends.T, strict=True) for side in (low, -high)]
        by_box = np.lexsort([numbers, *sides[::-1]])
        ordered = numbers[by_box]
        if self.partial[ordered].any():
            starts, ends = starts[by_box], ends[by_box]
            other = (starts[1:] != starts[:-1]).any(axis=1) | (ends[1:] != ends[:-1]).any(axis=1)
            runs = np.split(ordered, np.flatnonzero(other) + 1)
            ordered = np.concatenate([self._settled(run) if self.partial[run].any() else run for run in runs])
        return ordered

    def _settled(self, run: Array) -> Array:
        """Sort subscriptions with equal boxes by what their filters say, each behind all that are above it."""
        left, settled = dict.fromkeys(run.tolist()), []
        while left:
            waiting = [left.popitem()[0]]
            while waiting:
                above = next((other for other in left if self._is_settled_before(other, waiting[-1])), None)
                if above is None:
                    settled.append(waiting.pop())
                else:
                    del left[above]
                    waiting.append(above)
        return np.array(settled, np.int64)

    def _is_settled_before(self, one: int, other: int) -> bool:
        if self.partial[one] or self.partial[other]:
            return self._is_above(one, other)
        return one < other  # the filters are equal

    def _related(self, number: int, among: BoxColumns, *, upwards: bool) -> Array:
        if self.ranking is Ranking.UNPROVABLE or not len(among):
            return np.zeros(0, np.int64)
        self.comparisons += len(among)
        room = self._room_for(len(among))
        kept = related(number, upwards, *self._compared(among), room)
        found = room[:kept].copy()
        if not self._has_partial or not (self.partial[number] or self.partial[found].any()):
            return found
        pairs = [(other, number) if upwards else (number, other) for other in found.tolist()]
        return found[np.array([self._is_above(*pair) for pair in pairs], np.bool_)]

    def shares(self, uppers: Array, among: BoxColumns, weights: Array, levels: Array) -> Array:
        """Return for each of some subscriptions the sum of weights / levels, both by number, over those below it.

        As with `math.fsum`, the order in which they are summed does not show.
        """
        totals = np.zeros(len(uppers))
        if self._has_partial:
            below = [self.below(int(number), among) for number in uppers]
            totals[:] = [math.fsum((weights[found] / levels[found]).tolist()) for found in below]
        elif self.ranking is not Ranking.UNPROVABLE and len(among):
            self.comparisons += len(among) * len(uppers)
            room = self._room_for(len(among))
            add_shares(uppers, *self._compared(among), room, weights, levels, totals)
        return totals

    def _compared(self, among: BoxColumns) -> tuple[int, Array, Array, Array, Array, Array, Array, Array]:
        """Return what kernels need to compare a subscription with some."""
        by_score = SCORED.get(self.ranking, 0)
        return by_score, self.boxes.starts, self.boxes.ends, *among.columns, self.scores, self.partial, among.numbers

    def _room_for(self, count: int) -> Array:
        """Return an array for what a kernel finds: the same one, as a new one for each comparison takes time."""
        self._room = enlarge(self._room, count)
        return self._room

    def _is_above(self, upper: int, lower: int) -> bool:
        """Decide a pair whose boxes allow it."""
        if not self.partial[upper] and not self.partial[lower]:
            return True
        if not contains(self._filters[upper], self._filters[lower]):
            return False
        if upper < lower or self.ranking in SCORED:
            return True  # by score the kernel has decided
        # Of equal filters the lower number is above.
        return not contains(self._filters[lower], self._filters[upper])


class BoxColumns:
    """Some subscriptions of an order, with their boxes as columns; coming and going take constant time."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._numbers = np.empty(16, np.int64)
        self._place: dict[int, int] = {}
        self._starts = np.zeros((0, 16), np.int64)
        self._ends = np.zeros((0, 16), np.int64)
        self._generation = -1

    def __len__(self) -> int:
        return len(self._place)

    def __contains__(self, number: int) -> bool:
        return number in self._place

    @property
    def numbers(self) -> Array:
        """The numbers, in no particular order: a view, valid until the next change."""
        return self._numbers[: len(self._place)]

    @property
    def columns(self) -> tuple[Array, Array]:
        """The starts and ends of the boxes by attribute, in the order of the numbers; with room behind them."""
        if self._generation != self._order.boxes.generation:
            self._rebuild()
        return self._starts, self._ends

    def add(self, number: int) -> None:
        """Put a subscription in."""
        count = len(self._place)
        if count == len(self._numbers):
            self._numbers = enlarge(self._numbers, count + 1)
            self._generation = -1
        self._numbers[count] = number
        self._place[number] = count
        self._write(count)

    def remove(self, number: int) -> None:
        """Take a subscription out; the last one takes its place."""
        place = self._place.pop(number)
        last = int(self._numbers[len(self._place)])
        if last != number:
            self._numbers[place] = last
            self._place[last] = place
            self._write(place)

    def _write(self, place: int) -> None:
        if self._generation == self._order.boxes.generation:
            boxes, number = self._order.boxes, self._numbers[place]
            self._starts[:, place], self._ends[:, place] = boxes.starts[number], boxes.ends[number]

    def _rebuild(self) -> None:
        boxes, count = self._order.boxes, len(self._place)
        shape = boxes.starts.shape[1], len(self._numbers)
        self._starts, self._ends = np.empty(shape, np.int64), np.empty(shape, np.int64)
        self._starts[:, :count], self._ends[:, :count] = boxes.starts[self.numbers].T, boxes.ends[self.numbers].T
        self._generation = boxes.generation


def _check_added(number: object, score: float) -> None:
    """Raise unless a subscription can have this number, which is that of a row, and this score."""
    if not isinstance(number, int | np.integer) or isinstance(number, bool) or number < 0:
        raise InvalidValueError(f"number: {shown(number)} is not a whole number of at least 0")
    if math.isnan(score):
        raise InvalidValueError(f"score of subscription {number}: nan is above and below nothing; expected a number")


@compiled
def containing(start: Array, end: Array, starts: Array, ends: Array, count: int, found: Array) -> int:
    """Write the positions of the boxes that contain a box; return how many.

    With starts and ends exchanged, those of the box and of the boxes, it finds the boxes that lie in the box.
    """
    left = np.empty(BLOCK, np.uint8)
    total = 0
    for first in range(0, count, BLOCK):
        size = min(BLOCK, count - first)
        left[:size] = 1
        for attribute in range(len(start)):
            low, high = start[attribute], end[attribute]
            alive = 0
            for at in range(size):
                keep = left[at] & (starts[attribute, first + at] <= low) & (ends[attribute, first + at] >= high)
                left[at] = keep
                alive += keep
            if alive == 0:
                break
        for at in range(size):
            if left[at]:
                found[total] = first + at
                total += 1
    return total


@compiled
def only_outranking(
    number: int,
    upwards: bool,
    by_score: int,
    start: Array,
    end: Array,
    starts: Array,
    ends: Array,
    scores: Array,
    partial: Array,
    numbers: Array,
    found: Array,
    count: int,
) -> int:
    """Keep, of the positions found, those that rank above the subscription (upwards) or below it; return how many.

    `scores` and `partial` are by number. What is written are numbers, no longer positions.
    """
    kept = 0
    for at in range(count):
        place = found[at]
        other = numbers[place]
        upper, lower = (other, number) if upwards else (number, other)
        if upper == lower:
            continue
        if by_score:
            if scores[upper] < scores[lower]:
                continue
            if scores[upper] == scores[lower] and (by_score > 1 or upper > lower):
                continue
        elif upper > lower and not partial[upper] and not partial[lower]:
            equal = True
            for attribute in range(len(start)):
                if starts[attribute, place] != start[attribute] or ends[attribute, place] != end[attribute]:
                    equal = False
                    break
            if equal:
                continue
        found[kept] = other
        kept += 1
    return kept


@compiled
def related(
    number: int,
    upwards: bool,
    by_score: int,
    all_starts: Array,
    all_ends: Array,
    starts: Array,
    ends: Array,
    scores: Array,
    partial: Array,
    numbers: Array,
    found: Array,
) -> int:
    """Write the numbers of those among some subscriptions that are above one (upwards) or below it; return how many.

    `all_starts` and `all_ends` have a line per number; `starts`, `ends` and `numbers` are of the subscriptions that the
    one is compared with.
    """
    start, end = all_starts[number], all_ends[number]
    if upwards:
        count = containing(start, end, starts, ends, len(numbers), found)
    else:
        count = containing(end, start, ends, starts, len(numbers), found)
    return only_outranking(number, upwards, by_score, start, end, starts, ends, scores, partial, numbers, found, count)


@compiled
def add_shares(
    uppers: Array,
    by_score: int,
    all_starts: Array,
    all_ends: Array,
    starts: Array,
    ends: Array,
    scores: Array,
    partial: Array,
    numbers: Array,
    found: Array,
    weights: Array,
    levels: Array,
    totals: Array,
) -> None:
    """Add to each total the weights of those below one of `uppers`, each divided by its level.

    Sums keep what rounding loses and are rounded at the end, so that the order of what is added does not show.
    """
    for at in range(len(uppers)):
        count = related(
            uppers[at], False, by_score, all_starts, all_ends, starts, ends, scores, partial, numbers, found
        )
        total, lost = totals[at], 0.0
        for place in range(count):
            share = weights[found[place]] / levels[found[place]]
            larger = total + share
            part = larger - total
            lost += (total - (larger - part)) + (share - part)
            total = larger
        totals[at] = total + lost


@compiled
def nearest(starts: Array, ends: Array, numbers: Array, upwards: bool, kept: Array) -> int:
    """Write those of some subscriptions that are above no other of them (upwards) or below no other; return how many.

    `starts` and `ends` have a line per number. Each one is compared with those kept so far, which are few: it is
    dropped when one of them is nearer, and else drops those that it is nearer than.
    """
    total = 0
    for number in numbers:
        place, dropped = 0, False
        while place < total:
            other = kept[place]
            contains, contained = True, True
            for attribute in range(starts.shape[1]):
                low, high = starts[number, attribute], ends[number, attribute]
                contains &= (low <= starts[other, attribute]) & (high >= ends[other, attribute])
                contained &= (low >= starts[other, attribute]) & (high <= ends[other, attribute])
            if contains and contained:  # of equal boxes the lower number is above
                contains, contained = number < other, number > other
            if contains if upwards else contained:
                dropped = True
                break
            if contained if upwards else contains:
                total -= 1
                kept[place] = kept[total]
            else:
                place += 1
        if not dropped:
            kept[total] = number
            total += 1
    return total
