"""Real subscribers as placement takes them: the interests of a subscriber file, over axes that are given or found.

What filters say of attributes that are not among the axes is left out: their boxes span the whole of it. Subscribers
whose filters accept no event at all want nothing and are left out themselves. All of that is told in `notes`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from rankcast.arrays import Array
from rankcast.model.errors import InvalidValueError, PlacementError, shown
from rankcast.model.events import Event
from rankcast.model.filters import Conjunction
from rankcast.model.subscriptions import Subscriber
from rankcast.model.valuesets.sets import ValueSet
from rankcast.placement.named.axes import Axis, Numbers, Words, end_points, named_value
from rankcast.placement.problem.density import Density
from rankcast.placement.problem.interests import Interests, Range, boxes_of_ranges

MOST_AXES = 3
"""Attributes that are taken when none are named: those that most filters speak of, if they tell events apart."""

MOST_WORDS = 256
"""Words of an attribute with a cell of their own: the most frequent ones."""

Wanted: TypeAlias = Range | str
"""A range of numbers; or "numbers", "times" or "words", with what the filters name."""


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
    for one in every:
        parts = dict.fromkeys(
            box
            for subscription in one.subscriptions
            for conjunction in subscription.filter.conjunctions
            for box in boxes_of(conjunction, axes)
        )
        if not parts:
            idle.append(one.id)
            continue
        names.append(str(one.id))
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
    for one in subscribers:
        for subscription in one.subscriptions:
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
