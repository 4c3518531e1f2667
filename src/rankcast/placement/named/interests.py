"""Real subscribers as placement takes them: interests over axes that are given or found, and events as points.

The *axes* of an event space are attributes of any kind as coordinates, so that filters become boxes and events points.
Every event has a point, and a filter's boxes contain the points of all events that it accepts: nothing that somebody
wants is lost, though more than that may be let through. Numbers and times are their own coordinates, within a range:
what is beyond an end counts as the end. Words get a cell of width 1 each, and one cell is for all other values. Where
an attribute is missing, a list, or not of the kind that its axis is for, it counts as the upper end, which adds no
volume: what is asked of the elements of lists is no coordinate.

What filters say of attributes that are not among the axes is left out: their boxes span the whole of it. Subscribers
whose filters accept no event at all want nothing and are left out themselves. All of that is told in `notes`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, TypeAlias

import numpy as np

from rankcast.arrays import Array
from rankcast.model.errors import InvalidValueError, PlacementError, shown
from rankcast.model.events import Event
from rankcast.model.filters import Conjunction
from rankcast.model.subscriptions import Subscriber
from rankcast.model.values import AttributeValue
from rankcast.model.valuesets.intervals import END, START, IntervalSet
from rankcast.model.valuesets.sets import ValueSet
from rankcast.placement.problem.boxes import Density
from rankcast.placement.problem.interests import Interests, Range, boxes_of_ranges

MOST_AXES = 3
"""Attributes that are taken when none are named: those that most filters speak of, if they tell events apart."""

MOST_WORDS = 256
"""Words of an attribute with a cell of their own: the most frequent ones."""

Wanted: TypeAlias = Range | str
"""A range of numbers; or "numbers", "times" or "words", with what the filters name."""


class Axis(Protocol):
    """One attribute as a coordinate from `low` to `high`."""

    @property
    def low(self) -> float:
        """The lowest coordinate."""

    @property
    def high(self) -> float:
        """The highest coordinate."""

    def coordinate(self, value: AttributeValue | None) -> float:
        """Return where an event with this value lies; None stands for missing."""

    def ranges(self, values: ValueSet) -> list[Range]:
        """Return ranges that contain the coordinates of all values of a set, ascending."""

    def is_strange(self, values: ValueSet) -> bool:
        """Whether a set asks for what the axis is not for, other than by asking for everything."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """Numbers in a range, or times in seconds when `are_times`."""

    low: float
    high: float
    are_times: bool = False

    def coordinate(self, value: AttributeValue | None) -> float:
        """Return a number itself, within the range."""
        if isinstance(value, datetime):
            return self._within(value.timestamp()) if self.are_times else self.high
        if isinstance(value, bool) or not isinstance(value, int | float) or self.are_times:
            return self.high
        return self._within(float(value))

    def ranges(self, values: ValueSet) -> list[Range]:
        """Return a range for each piece, closed: an end that is not part of it adds nothing to its volume."""
        found = [
            (
                self.low if start == START else self._within(_number(start[1])),
                self.high if end == END else self._within(_number(end[1])),
            )
            for start, end in self._own(values).pieces()
        ]
        if self._has_others(values) and (not found or found[-1][1] < self.high):
            found.append((self.high, self.high))
        return found

    def is_strange(self, values: ValueSet) -> bool:
        """Whether values of other kinds, or none, are asked for beside some but not all of the own kind."""
        return self._has_others(values) and not self._own(values).is_full

    def _own(self, values: ValueSet) -> IntervalSet:
        return values.times if self.are_times else values.numbers

    def _has_others(self, values: ValueSet) -> bool:
        other = values.numbers if self.are_times else values.times
        return bool(values.missing or values.strings or values.bools or other or values.lists)

    def _within(self, number: float) -> float:
        return min(max(number, self.low), self.high)


@dataclass(frozen=True, slots=True)
class Words:
    """Texts and bools by name: word i has the coordinates from i to i + 1, and the last cell is for all others."""

    words: tuple[str, ...]

    @property
    def low(self) -> float:
        """The start of the first cell."""
        return 0.0

    @property
    def high(self) -> float:
        """The end of the cell for all others."""
        return len(self.words) + 1.0

    def coordinate(self, value: AttributeValue | None) -> float:
        """Return the middle of the value's cell."""
        named = named_value(value)
        return (self.words.index(named) if named in self.words else len(self.words)) + 0.5

    def ranges(self, values: ValueSet) -> list[Range]:
        """Return a range for each run of words that a set holds."""
        held = [self._holds(word, values) for word in self.words] + [self._has_others(values)]
        found: list[Range] = []
        for at, is_held in enumerate(held):
            if is_held and found and found[-1][1] == at:
                found[-1] = (found[-1][0], at + 1.0)
            elif is_held:
                found.append((float(at), at + 1.0))
        return found

    def is_strange(self, values: ValueSet) -> bool:
        """Whether numbers, times or a missing attribute are asked for beside some texts but not all."""
        return bool(values.missing or values.numbers or values.times or values.lists) and not values.strings.is_full

    def _holds(self, word: str, values: ValueSet) -> bool:
        return word in values.strings or any(named_value(value) == word for value in values.bools)

    def _has_others(self, values: ValueSet) -> bool:
        if values.missing or values.numbers or values.times or values.lists:
            return True
        points = values.strings.ranges.points()
        if points is None:
            return True
        return any(word not in self.words for word in (*points, *map(named_value, values.bools)))


def named_value(value: AttributeValue | None) -> str | None:
    """Return a text or the name of a bool; None for anything else.

    A text that is the name of a bool shares its cell, which only lets more through.

    >>> named_value(True), named_value("Porto"), named_value(3)
    ('true', 'Porto', None)
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else None


def end_points(values: IntervalSet) -> Iterator[float]:
    """Yield the ends of the pieces of a set of numbers or times."""
    for cut in values.cuts:
        if cut not in (START, END):
            yield _number(cut[1])


def _number(value: Any) -> float:
    return value.timestamp() if isinstance(value, datetime) else float(value)


@dataclass(frozen=True, slots=True, eq=False)
class NamedInterests:
    """The interests of subscribers, which of them each one has, the axes by attribute, and what was left out."""

    names: tuple[str, ...]
    interests: Interests
    interest_of: Array
    axes: Mapping[str, Axis]
    notes: tuple[str, ...]

    def density(self, events: Iterable[Event]) -> Density:
        """Return the density of some events."""
        points = [[axis.coordinate(event.attributes.get(name)) for name, axis in self.axes.items()] for event in events]
        if not points:
            raise InvalidValueError("events: there are none; expected at least one")
        found, counts = np.unique(np.array(points), axis=0, return_counts=True)
        return Density.sampled(found, counts / counts.sum())


def named_interests(
    subscribers: Iterable[Subscriber], attributes: Mapping[str, Wanted] | None = None
) -> NamedInterests:
    """Return subscribers as placement takes them; attributes are found when none are given."""
    every = tuple(subscribers)
    said = _said(every)
    axes = {name: _axis(name, wanted, said.get(name, ())) for name, wanted in (attributes or _found(said)).items()}
    if not axes:
        raise PlacementError("attributes: the filters speak of none; expected at least one")
    numbers: dict[tuple[tuple[Range, ...], ...], int] = {}
    names, interest_of, idle = [], [], []
    for subscriber in every:
        parts = dict.fromkeys(
            box
            for subscription in subscriber.subscriptions
            for conjunction in subscription.filter.conjunctions
            for box in boxes_of(conjunction, axes)
        )
        if not parts:
            idle.append(subscriber.id)
            continue
        names.append(str(subscriber.id))
        interest_of.append(numbers.setdefault(tuple(parts), len(numbers)))
    if not names:
        raise PlacementError("subscribers: nobody wants anything; expected at least one")
    table = np.array([box for parts in numbers for box in parts])
    offsets = np.cumsum([0, *map(len, numbers)])
    interests = Interests.of_boxes(table[:, :, 0], table[:, :, 1], offsets)
    notes = (*_notes(said, axes), *([f"left out, as they accept no event: {', '.join(idle[:5])}"] if idle else []))
    return NamedInterests(tuple(names), interests, np.array(interest_of), axes, notes)


def boxes_of(conjunction: Conjunction, axes: Mapping[str, Axis]) -> Iterator[tuple[Range, ...]]:
    """Return boxes that contain the points of all events a conjunction accepts."""
    return boxes_of_ranges([axis.ranges(conjunction.get(name)) for name, axis in axes.items()])


def _said(subscribers: Sequence[Subscriber]) -> dict[str, list[ValueSet]]:
    """Return all that filters say, by attribute."""
    found: dict[str, list[ValueSet]] = {}
    for subscriber in subscribers:
        for subscription in subscriber.subscriptions:
            for conjunction in subscription.filter.conjunctions:
                for name, values in conjunction:
                    found.setdefault(name, []).append(values)
    return found


def _found(said: Mapping[str, Sequence[ValueSet]]) -> dict[str, Wanted]:
    """Return the attributes that most is said of, and of which kind they are.

    One that tells nothing apart, as patterns alone do, is taken only where no other is there.
    """
    kinds = {name: _kind(values) for name, values in said.items()}
    useful = [name for name, kind in kinds.items() if _tells_apart(_axis(name, kind, said[name]), said[name])]
    common = sorted(useful or said, key=lambda name: (-len(said[name]), name))[:MOST_AXES]
    return {name: kinds[name] for name in sorted(common)}


def _tells_apart(axis: Axis, said: Sequence[ValueSet]) -> bool:
    """Whether anything that is said of an attribute is about less than the whole of its axis."""
    width = axis.high - axis.low
    return any(sum(high - low for low, high in axis.ranges(values)) < width for values in said)


def _kind(said: Sequence[ValueSet]) -> str:
    counts = Counter(
        "numbers" if list(end_points(values.numbers)) else "times" if list(end_points(values.times)) else "words"
        for values in said
    )
    return max(("numbers", "times", "words"), key=lambda kind: counts[kind])


def _axis(name: str, wanted: Wanted, said: Sequence[ValueSet]) -> Axis:
    if isinstance(wanted, tuple):
        if not wanted[0] < wanted[1]:
            raise PlacementError(f"attributes: {name}: {wanted[0]} to {wanted[1]}; expected a lower end and a higher")
        return Numbers(*wanted)
    if wanted == "words":
        return Words(_words(said))
    if wanted not in ("numbers", "times"):
        raise PlacementError(
            f"attributes: {name}: {shown(wanted)}; expected a range such as [0, 100], numbers, times or words"
        )
    are_times = wanted == "times"
    ends = [end for values in said for end in end_points(values.times if are_times else values.numbers)]
    if not ends:
        raise PlacementError(
            f"attributes: {name}: no filter has {wanted} of it; expected a range, or another attribute"
        )
    low, high = min(ends), max(ends)
    return Numbers(low, high if low < high else low + 1.0, are_times)


def _words(said: Sequence[ValueSet]) -> tuple[str, ...]:
    counts: Counter[str] = Counter()
    for values in said:
        points = values.strings.ranges.points() or ()
        counts.update(named for value in (*points, *values.bools) if (named := named_value(value)) is not None)
    common = sorted(counts, key=lambda word: (-counts[word], word))[:MOST_WORDS]
    return tuple(sorted(common))


def without_axis(name: str, conditions: int) -> str:
    """Return the note on an attribute that filters speak of and that is not among the axes."""
    return f"{name}: no axis; conditions on it ({conditions:,}) are taken as if anything would do"


def _notes(said: Mapping[str, Sequence[ValueSet]], axes: Mapping[str, Axis]) -> Iterator[str]:
    left_out = sorted(name for name in said if name not in axes)
    for name in left_out:
        yield without_axis(name, len(said[name]))
    for name, axis in axes.items():
        strange = sum(axis.is_strange(values) for values in said.get(name, ()))
        if strange:
            yield f"{name}: conditions about other kinds of values, or none ({strange:,}), count as its end"
        if isinstance(axis, Words):
            patterns = sum(values.has_patterns for values in said.get(name, ()))
            if patterns:
                yield f"{name}: patterns ({patterns:,}) let all words through that are in no list"
