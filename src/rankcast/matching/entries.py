"""A subscription as the index sees it, and few of them matched in plain Python.

`Few` is the beginning of an index, and has the entries of a delta that are no rows. An entry whose every conjunction
asks one attribute for one of some values is listed under those values, and is looked at when an event has one of them;
every other entry is looked at for every event. Whatever is looked at is evaluated in full, so the lists only have to
contain enough. Nothing but appends happens there, and the moment a subscription died is noted in place, so a reader
that knows how many entries there were, and the sequence number of its snapshot, sees exactly what was there then.

Nothing here or in `index` imports a kernel: the first events of a program are matched without a compiler.

Cost: about half a microsecond per entry that an event looks at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from rankcast.arrays import Array
from rankcast.model.errors import DuplicateIdError, InvalidEventError, InvalidValueError
from rankcast.model.filters import Conjunction, Filter
from rankcast.model.values import AttributeValue, Family, Value, checked_attribute, elements_of
from rankcast.model.valuesets.intervals import Domain, IntervalSet
from rankcast.model.valuesets.lists import FAMILIES
from rankcast.model.valuesets.sets import ValueSet

ALIVE = 2**63 - 1
"""When a subscription that is alive died."""

MOST_VALUES = 16
"""Values that one attribute of a conjunction may name for an entry to be listed under them."""

EXACT = 2**53
"""Integers beyond this are checked: they may not fit 64 bits."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One subscription as the index sees it: its number, and the conjunctions that say when it matches."""

    number: int
    conjunctions: tuple[Conjunction, ...]

    @staticmethod
    def of(
        number: int, wanted: Filter, active_from: datetime | None = None, active_until: datetime | None = None
    ) -> Entry:
        """Return a subscription's entry; when it is active is one more constraint, on the event's time."""
        if active_from is None and active_until is None:
            return Entry(number, wanted.conjunctions)
        active = IntervalSet.between(Domain.TIME, active_from, active_until, high_closed=False)
        bound = Conjunction((("time", ValueSet(times=active)),))
        both = (conjunction & bound for conjunction in wanted.conjunctions)
        return Entry(number, tuple(conjunction for conjunction in both if conjunction is not None))

    def accepts(self, attributes: Mapping[str, AttributeValue]) -> bool:
        """Whether an event with these attributes matches."""
        # Written as plain loops: this is what an index does for every event and every one of a few subscriptions.
        for conjunction in self.conjunctions:
            for name, values in conjunction.items:
                if not values.accepts(attributes.get(name)):
                    break
            else:
                return True
        return False


def check_once(entries: Sequence[Entry]) -> None:
    """Raise DuplicateIdError when two entries have the same number."""
    if len(entries) > 1:
        for number, times in Counter(entry.number for entry in entries).items():
            if times > 1:
                raise DuplicateIdError(f"subscription number {number} is used twice")


def checked(raw: object, name: str) -> AttributeValue | None:
    """Return an attribute's value, or None when it is missing; raises InvalidEventError, naming it."""
    try:
        return checked_attribute(raw, name)
    except InvalidValueError as error:
        raise InvalidEventError(str(error)) from None


class Few:
    """Subscriptions by the order in which they came."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self.entries: list[Entry] = []
        self._died: list[int] = []
        self._place_of: dict[int, int] = {}
        self._listed: dict[str, dict[Value, list[int]]] = {}
        self._others: list[int] = []
        self._names: set[str] = set()
        for entry in entries:
            self.add(entry)

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def dead(self) -> int:
        """How many have died."""
        return len(self.entries) - len(self._place_of)

    @property
    def evaluated(self) -> int:
        """How many are evaluated for every event."""
        return len(self._others)

    def __contains__(self, number: int) -> bool:
        return number in self._place_of

    def add(self, entry: Entry) -> None:
        """Append a subscription, whose number none of the living has."""
        place = len(self.entries)
        self._place_of[entry.number] = place
        self._died.append(ALIVE)
        self.entries.append(entry)
        keys = [_key(conjunction) for conjunction in entry.conjunctions]
        self._names.update(name for conjunction in entry.conjunctions for name, _ in conjunction.items)
        if None in keys:
            self._others.append(place)
            return
        for name, value in dict.fromkeys((name, value) for key in keys if key for name, value in key):
            self._listed.setdefault(name, {}).setdefault(value, []).append(place)

    def remove(self, number: int, sequence: int) -> None:
        """Note that a subscription is gone from a sequence number on."""
        self._died[self._place_of.pop(number)] = sequence

    def living(self, count: int, sequence: int) -> Iterator[Entry]:
        """Yield the entries among the first ones that were alive at a sequence number."""
        for place in range(count):
            if self._died[place] > sequence:
                yield self.entries[place]

    def matching(self, attributes: Mapping[str, AttributeValue], count: int, sequence: int) -> list[int]:
        """Return the numbers of those among the first entries that were alive and accept an event, each once."""
        present = _present(attributes, self._names)
        places = self._others
        for name, listed in self._listed.items():
            value = present.get(name)
            for element in () if value is None else elements_of(value):
                if element in listed:
                    places = places + listed[element]
        died, entries = self._died, self.entries
        return [
            entries[place].number
            for place in (places if places is self._others else dict.fromkeys(places))
            if place < count and died[place] > sequence and entries[place].accepts(present)
        ]


@dataclass(frozen=True, slots=True, eq=False)
class FewSnapshot:
    """What an index of few subscriptions held at one moment; it never changes."""

    few: Few
    entries: int
    sequence: int

    @property
    def parts(self) -> tuple[()]:
        """No segments: there are none yet."""
        return ()

    @property
    def delta(self) -> tuple[Entry, ...]:
        """The subscriptions, none of which is in a segment."""
        return tuple(self.few.living(self.entries, self.sequence))

    def __len__(self) -> int:
        return len(self.delta)

    def matching(self, attributes: Mapping[str, AttributeValue]) -> Array:
        """Return the numbers of the subscriptions that an event satisfies."""
        return np.array(self.few.matching(attributes, self.entries, self.sequence), np.int64)


def _present(attributes: Mapping[str, AttributeValue], names: set[str]) -> dict[str, AttributeValue]:
    """Return the values that subscriptions may look at; raises InvalidEventError when one is no value."""
    present: dict[str, AttributeValue] = {}
    for name, value in attributes.items():
        if name in names:
            kind = type(value)
            if (
                kind is bool
                or (kind is str and value.isascii())  # type: ignore[union-attr]
                or (kind is float and value == value)
                or (kind is int and -EXACT < value < EXACT)  # type: ignore[operator]
            ):
                present[name] = value
            elif (found := checked(value, name)) is not None:
                present[name] = found
    return present


def _key(conjunction: Conjunction) -> list[tuple[str, Value]] | None:
    """Return the fewest (attribute, value) of which an event must have one to satisfy a conjunction; None: many."""
    best: list[tuple[str, Value]] | None = None
    for name, values in conjunction.items:
        points = _points(values)
        if points is not None and (best is None or len(points) < len(best)):
            best = [(name, point) for point in points]
    return best


def _points(values: ValueSet) -> tuple[Value, ...] | None:
    """Return the numbers and strings of a set that has nothing else and not many, or None.

    Where elements of lists are required, these are the fewest of which a list, or a scalar, must have one.
    """
    for family, asked in zip(FAMILIES, values.lists.families, strict=True):
        if asked is not None and asked.required and family in (Family.NUMBER, Family.STRING):
            fewest = min(asked.required, key=len)
            return tuple(fewest) if len(fewest) <= MOST_VALUES else None
    if values.lists:
        return None
    cuts = len(values.numbers.cuts) + len(values.strings.ranges.cuts)
    if values.missing or values.bools or values.times.cuts or cuts > 2 * MOST_VALUES:
        return None
    numbers, strings = values.numbers.points(), values.strings.ranges.points()
    return None if numbers is None or strings is None else numbers + strings
