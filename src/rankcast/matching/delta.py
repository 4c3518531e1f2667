"""The delta: the newest subscriptions of an index, in columns that a kernel scans without ranks.

Nothing but appends happens to a delta, and the moment a subscription died is noted in place, so a reader that knows how
many entries and rows there were at its snapshot sees exactly those. Most subscriptions are conjunctions of intervals of
numbers, which become rows; any other entry is kept aside and evaluated as it is.

Cost: a few microseconds per entry, no matter how many there are. `segments` turns a full delta into a segment by
a dozen operations on whole arrays: while the writer does that, readers wait for the interpreter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from rankcast.matching.builder import Entry, build_segment
from rankcast.matching.cuts import split_number
from rankcast.matching.dimensions import Dimensions
from rankcast.matching.kernels_delta import DELTA_KINDS
from rankcast.matching.part_tables import PartTable
from rankcast.matching.rows import Array, Rows, distinct, starts_of, taken
from rankcast.matching.segment import Segment, small_segment
from rankcast.model.intervals import Cut
from rankcast.model.values import Value
from rankcast.model.valuesets import ValueSet

ALIVE = np.iinfo(np.int64).max
"""When a subscription that is alive died."""

OTHERS = 64
"""Entries that are evaluated in Python: some 20 microseconds per event, few enough that a reader hardly notices."""

PREDICATES_PER_ENTRY = 6
"""Room for rows; a delta with larger entries is full earlier."""

BELOW_ALL, ABOVE_ALL = (-np.inf, -1), (np.inf, np.iinfo(np.int16).max)
"""The cuts of intervals without end: below and above every number, the infinite ones included."""


_Interval = tuple[str, float, int, float, int]
"""An attribute, and the split numbers of the two cuts around its values."""


class Delta:
    """Subscriptions by the order in which they came; `capacity` is how many there can be."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.entries: list[Entry] = []
        self.others: list[int] = []
        """Places of entries that are not rows."""
        self.row_count = 0
        rooms = {"row_start": capacity + 1, "owner": capacity, "numbers": capacity, "died": capacity}
        room = max(PREDICATES_PER_ENTRY * capacity, 64)
        self._arrays: dict[str, Array] = {
            name: np.zeros(rooms.get(name, room), kind) for name, (kind, _) in DELTA_KINDS.items()
        }
        self.died: Array = self._arrays["died"]
        self.died[:] = ALIVE
        self.table = PartTable.of(DELTA_KINDS, tuple(self._arrays.values()))
        self._place_of: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def is_full(self) -> bool:
        """Whether the next entry may have no room."""
        return (
            len(self.entries) >= self.capacity
            or self.row_count >= self.capacity
            or len(self.others) >= min(OTHERS, self.capacity)
        )

    def place(self, number: int) -> int | None:
        """Return where a living subscription is, or None when it is not here."""
        return self._place_of.get(number)

    def add(self, entry: Entry, attributes: dict[str, int]) -> None:
        """Append a subscription; `attributes` numbers the attributes of the index, new ones are added to it."""
        place = len(self.entries)
        rows = _intervals(entry)
        if rows is None or not self._has_room(rows):
            self.others.append(place)
        else:
            for row in rows:
                self._append(place, row, attributes)
        self._arrays["numbers"][place] = entry.number
        self.entries.append(entry)
        self._place_of[entry.number] = place

    def _has_room(self, rows: list[list[_Interval]]) -> bool:
        predicates = self._arrays["row_start"][self.row_count] + sum(map(len, rows))
        return self.row_count + len(rows) <= self.capacity and predicates <= len(self._arrays["attribute"])

    def _append(self, owner: int, row: list[_Interval], attributes: dict[str, int]) -> None:
        held = self._arrays
        first = int(held["row_start"][self.row_count])
        last = first + len(row)
        if row:
            names, lows, low_rests, highs, high_rests = zip(*row, strict=True)
            held["attribute"][first:last] = [attributes.setdefault(name, len(attributes)) for name in names]
            held["low_key"][first:last] = lows
            held["low_rest"][first:last] = low_rests
            held["high_key"][first:last] = highs
            held["high_rest"][first:last] = high_rests
        held["owner"][self.row_count] = owner
        self.row_count += 1
        held["row_start"][self.row_count] = last

    def bury(self, place: int, sequence: int) -> None:
        """Note that a subscription is gone from a sequence number on."""
        self.died[place] = sequence
        del self._place_of[self.entries[place].number]

    def living(self, count: int, sequence: int) -> Iterator[Entry]:
        """Yield the entries among the first ones that were alive at a sequence number."""
        for place, died in enumerate(self.died[:count].tolist()):
            if died > sequence:
                yield self.entries[place]

    def accepting(self, attributes: Mapping[str, Value], count: int, sequence: int) -> list[int]:
        """Return the numbers of those among the first entries that are not rows, were alive, and accept an event."""
        return [
            self.entries[place].number
            for place in self.others
            if place < count and self.died[place] > sequence and self.entries[place].accepts(attributes)
        ]

    def segments(self, names: list[str], count: int, rows: int, sequence: int) -> list[Segment]:
        """Return what was alive of the first entries and rows as segments; `names` are the attributes by number."""
        alive = self.died[:count] > sequence
        others = np.array([place for place in self.others if place < count], np.int64)
        found = [self.entries[place] for place in others[alive[others]].tolist()]
        alive[others] = False
        segments = [self._segment_of_rows(names, alive, rows), *([build_segment(found)] if found else ())]
        return [segment for segment in segments if len(segment)]

    def _segment_of_rows(self, names: list[str], alive: Array, row_count: int) -> Segment:
        held = self._arrays
        order = np.flatnonzero(alive)
        order = order[np.argsort(held["numbers"][order], kind="stable")]
        place = np.full(len(alive), -1, np.int32)
        place[order] = np.arange(len(order))
        owner = place[held["owner"][:row_count]]
        start, chosen = taken(held["row_start"][: row_count + 1], np.flatnonzero(owner >= 0))
        used = distinct(np.sort(held["attribute"][chosen]))
        by_name = sorted(used.tolist(), key=names.__getitem__)
        dimension_of = np.zeros(len(names), np.int32)
        dimension_of[by_name] = np.arange(len(by_name))
        dimension = dimension_of[held["attribute"][chosen]]
        lows = held["low_key"][chosen], held["low_rest"][chosen]
        highs = held["high_key"][chosen], held["high_rest"][chosen]
        cuts, predicates = _ranked(dimension, lows, highs, len(by_name))
        dimensions = Dimensions.of_numbers([names[at] for at in by_name], *cuts)
        rows = Rows.of(start, predicates, owner[owner >= 0])
        return small_segment(dimensions, rows, held["numbers"][order])


def _intervals(entry: Entry) -> list[list[_Interval]] | None:
    """Return an entry's conjunctions as intervals of numbers, or None when there is more to it."""
    rows = []
    for conjunction in entry.conjunctions:
        row = []
        for name, values in conjunction.items:
            if not _is_interval(values):
                return None
            low, high = values.numbers.cuts
            row.append((name, *_split(low), *_split(high)))
        rows.append(row)
    return rows


def _is_interval(values: ValueSet) -> bool:
    return len(values.numbers.cuts) == 2 and not (
        values.missing or values.strings.ranges.cuts or values.bools or values.times.cuts
    )


def _split(cut: Cut) -> tuple[float, int]:
    end, value, above = cut
    if end:
        return BELOW_ALL if end < 0 else ABOVE_ALL
    key, rest = split_number(value)
    return key, rest + above


def _ranked(
    dimension: Array, lows: tuple[Array, Array], highs: tuple[Array, Array], count: int
) -> tuple[tuple[Array, Array, Array], Array]:
    """Return the cuts of all dimensions as (start, keys, rests), and the predicates as ranges of ranks among them."""
    owner = np.concatenate((dimension, dimension))
    keys, rests = np.concatenate((lows[0], highs[0])), np.concatenate((lows[1], highs[1]))
    bounded = (rests != BELOW_ALL[1]) & (rests != ABOVE_ALL[1])
    order = np.lexsort((rests, keys, owner))
    fresh = np.ones(len(order), bool)
    differs = fresh[1:]
    differs[:] = False
    for column in (owner[order], keys[order], rests[order]):
        differs |= column[1:] != column[:-1]
    fresh &= bounded[order]
    start = starts_of(np.bincount(owner[order][fresh], minlength=count))
    position = np.empty(len(order), np.int64)
    position[order] = np.cumsum(fresh)
    position -= start[owner]
    # As in `columnar`: position p of a low cut is rank 1 + p, and what ends at a high cut is one less.
    half = len(dimension)
    low = np.where(bounded[:half], 1 + position[:half], 1)
    high = np.where(bounded[half:], position[half:], 1 + np.diff(start)[dimension])
    predicates = np.column_stack((dimension, low, high)).astype(np.int32)
    return (start, keys[order][fresh], rests[order][fresh]), predicates
