"""Attributes of any kind as coordinates, so that filters become boxes and events points: the axes of an event space.

Every event has a point, and a filter's boxes contain the points of all events that it accepts: nothing that somebody
wants is lost, though more than that may be let through. Numbers and times are their own coordinates, within a range:
what is beyond an end counts as the end. Words get a cell of width 1 each, and one cell is for all other values. Where
an attribute is missing, or not of the kind that its axis is for, it counts as the upper end, which adds no volume.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from rankcast.model.values import Value
from rankcast.model.valuesets.intervals import END, START, IntervalSet
from rankcast.model.valuesets.sets import ValueSet
from rankcast.placement.problem.interests import Range


class Axis(Protocol):
    """One attribute as a coordinate from `low` to `high`."""

    @property
    def low(self) -> float:
        """The lowest coordinate."""

    @property
    def high(self) -> float:
        """The highest coordinate."""

    def coordinate(self, value: Value | None) -> float:
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

    def coordinate(self, value: Value | None) -> float:
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
        return bool(values.missing or values.strings or values.bools or other)

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

    def coordinate(self, value: Value | None) -> float:
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
        return bool(values.missing or values.numbers or values.times) and not values.strings.is_full

    def _holds(self, word: str, values: ValueSet) -> bool:
        return word in values.strings or any(named_value(one) == word for one in values.bools)

    def _has_others(self, values: ValueSet) -> bool:
        if values.missing or values.numbers or values.times:
            return True
        points = values.strings.ranges.points()
        if points is None:
            return True
        return any(word not in self.words for word in (*points, *map(named_value, values.bools)))


def named_value(value: Value | None) -> str | None:
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
