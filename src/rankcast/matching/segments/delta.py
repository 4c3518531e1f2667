"""The delta: the newest subscriptions of an index, in columns that a kernel scans without ranks.

Nothing but appends happens to a delta, and the moment a subscription died is noted in place, so a reader that knows how
many entries and rows there were at its snapshot sees exactly those. Entries become rows, whatever they ask for; those
with a `like` that is neither prefix, suffix nor contains, and those that do not fit, are kept as a `Few` beside them.

Cost: a few microseconds per entry, no matter how many there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from typing import Any

import numpy as np

from rankcast.arrays import Array
from rankcast.compiling import inlined
from rankcast.compiling.arguments import KernelArguments, Kinds, readers
from rankcast.matching.encoding.cuts import at_most, split_integer, split_number
from rankcast.matching.entries import ALIVE, Entry, Few
from rankcast.model.times import microseconds
from rankcast.model.valuesets.intervals import Cut
from rankcast.model.valuesets.lists import ListSet
from rankcast.model.valuesets.patterns import PatternKind
from rankcast.model.valuesets.sets import ValueSet

DELTA_KINDS: Kinds = {
    "row_start": (np.int64, 0),
    "owner": (np.int32, 0),
    "attribute": (np.int32, 0),
    "flags": (np.uint8, 0),
    "piece_start": (np.int64, 0),
    "family": (np.uint8, 0),
    "low_key": (np.float64, 0),
    "low_rest": (np.int16, 0),
    "high_key": (np.float64, 0),
    "high_rest": (np.int16, 0),
    "text_start": (np.int64, 0),
    "text_data": (np.uint8, 0),
    "numbers": (np.int64, 0),
    "died": (np.int64, 0),
}
"""What the kernel is given of a delta, in the order of its table. Where a family is of texts, low and high keys number
two of them; a negative key is no end."""

AT = readers(DELTA_KINDS)

ACCEPTS_MISSING, ACCEPTS_FALSE, ACCEPTS_EMPTY_LIST = 1, 2, 8
"""Flags of a predicate; that for true is twice that for false, and those for lists of each family follow."""

OF_NUMBERS, OF_TIMES, OF_TEXTS, HAS_SUFFIX, HAS_NO_SUFFIX, CONTAINS, CONTAINS_NOT = range(7)
"""Families of pieces: intervals, and patterns with their literal as low key, the unwanted ones even."""

BOOL, TIME, LIST = 0, 1, 2
"""Kinds of what an event has beside numbers and texts; of a list, what kind it is (`elements`)."""


@inlined
def _is_between(key: float, rest: int, low_key: float, low_rest: int, high_key: float, high_rest: int) -> bool:
    """Whether a split number is between two cuts: the low one is at or below it, the high one is not."""
    if not low_key <= key <= high_key:
        return False
    return not ((key == low_key and low_rest > rest) or (key == high_key and high_rest <= rest))


@inlined
def _occurs(literal: Array, first: int, last: int, data: Array, start: int, end: int) -> bool:
    """Whether literal[first:last] occurs in data[start:end]."""
    for at in range(start, end - (last - first) + 1):
        k = 0
        while first + k < last and literal[first + k] == data[at + k]:
            k += 1
        if first + k == last:
            return True
    return False


@inlined
def _accepts_text(
    first: int,
    last: int,
    family: Array,
    low: Array,
    high: Array,
    text_start: Array,
    text_data: Array,
    data: Array,
    start: int,
    end: int,
) -> bool:
    """Whether pieces first..last (excluded) accept the text data[start:end]."""
    inside = False
    for piece in range(first, last):
        kind = family[piece]
        if kind < OF_TEXTS:
            continue
        at = int(low[piece])
        if kind == OF_TEXTS:
            if not inside and (at < 0 or at_most(text_data, text_start[at], text_start[at + 1], data, start, end)):
                at = int(high[piece])
                inside = at < 0 or not at_most(text_data, text_start[at], text_start[at + 1], data, start, end)
        else:
            begin, stop = text_start[at], text_start[at + 1]
            searched = max(start, end - (stop - begin)) if kind < CONTAINS else start
            if _occurs(text_data, begin, stop, data, searched, end) == (kind & 1 == CONTAINS_NOT & 1):
                return False
    return inside


@inlined
def _accepts_number(
    first: int,
    last: int,
    wanted: int,
    key: float,
    rest: int,
    family: Array,
    low_key: Array,
    low_rest: Array,
    high_key: Array,
    high_rest: Array,
) -> bool:
    """Whether a piece first..last (excluded) of a family accepts a split number."""
    inside = False
    for piece in range(first, last):
        inside |= family[piece] == wanted and _is_between(
            key, rest, low_key[piece], low_rest[piece], high_key[piece], high_rest[piece]
        )
    return inside


@inlined
def _mark(attributes: Array, place_of: Array, present: int) -> None:
    """Write by attribute its place in the event, from 1 on, or 0 again; newer attributes may have no room, or need."""
    for i in range(len(attributes)):
        if attributes[i] < len(place_of):
            place_of[attributes[i]] = present * (i + 1)


@inlined
def scan_delta(
    table: Array,
    rows: int,
    attributes: Array,
    keys: Array,
    rests: Array,
    starts: Array,
    ends: Array,
    data: Array,
    extra: Array,
    sequence: int,
    place_of: Array,
    found: Array,
    count: int,
) -> int:
    """Write the subscriptions of a delta's first rows that an event satisfies, from `count` on; return the new count.

    The event is as in `match_parts`. `place_of` is scratch with room for every attribute of the rows: zero, and left
    so.
    """
    row_start, owner, attribute = AT.row_start(table), AT.owner(table), AT.attribute(table)
    flags, piece_start, family = AT.flags(table), AT.piece_start(table), AT.family(table)
    low_key, low_rest = AT.low_key(table), AT.low_rest(table)
    high_key, high_rest = AT.high_key(table), AT.high_rest(table)
    text_start, text_data = AT.text_start(table), AT.text_data(table)
    numbers, died = AT.numbers(table), AT.died(table)
    first_text, first_extra = len(keys), len(keys) + len(starts)
    _mark(attributes, place_of, 1)
    written = -1
    for row in range(rows):
        holds = True
        for k in range(row_start[row], row_start[row + 1]):
            place = place_of[attribute[k]] - 1
            first, last = piece_start[k], piece_start[k + 1]
            if place < 0:
                holds = (flags[k] & ACCEPTS_MISSING) > 0
            elif place < first_text:
                key, rest = keys[place], int(rests[place]) if len(rests) else 0
                holds = _accepts_number(
                    first, last, OF_NUMBERS, key, rest, family, low_key, low_rest, high_key, high_rest
                )
            elif place < first_extra:
                start, end = starts[place - first_text], ends[place - first_text]
                holds = _accepts_text(first, last, family, low_key, high_key, text_start, text_data, data, start, end)
            elif extra[place - first_extra, 0] == TIME:
                key, rest = split_integer(extra[place - first_extra, 1])
                holds = _accepts_number(
                    first, last, OF_TIMES, key, rest, family, low_key, low_rest, high_key, high_rest
                )
            elif extra[place - first_extra, 0] == LIST:
                holds = (flags[k] & (ACCEPTS_EMPTY_LIST << extra[place - first_extra, 1])) > 0
            else:
                holds = (flags[k] & (ACCEPTS_FALSE << extra[place - first_extra, 1])) > 0
            if not holds:
                break
        if holds and owner[row] != written and died[owner[row]] > sequence:
            written = owner[row]
            found[count] = numbers[written]
            count += 1
    _mark(attributes, place_of, 0)
    return count


OTHERS = 64
"""Entries that are evaluated in Python for every event: some 20 microseconds, so few that readers hardly notice."""

PIECES_PER_ENTRY, BYTES_PER_ENTRY = 8, 128
"""Room for predicates and their pieces, and for texts; a delta with larger entries is full earlier."""

BELOW_ALL, ABOVE_ALL = (-np.inf, -1), (np.inf, np.iinfo(np.int16).max)
"""The cuts of intervals without end: below and above every number, the infinite ones included."""

PIECE = ("family", "low_key", "low_rest", "high_key", "high_rest")
_PATTERNS = {PatternKind.SUFFIX: (HAS_SUFFIX, HAS_NO_SUFFIX), PatternKind.CONTAINS: (CONTAINS, CONTAINS_NOT)}


class _NoRowError(Exception):
    """An entry asks for what the kernel does not know."""


class _Written:
    """What an entry adds to the columns of a delta, before it is known that there is room for it."""

    def __init__(self, place: int, used: Mapping[str, int]) -> None:
        self._place, self._used = place, used
        self._pieces: list[tuple[int, float, int, float, int]] = []
        self._data = bytearray()
        names = ("owner", "row_start", "attribute", "flags", "piece_start", "text_start")
        self._columns: dict[str, list[Any]] = {name: [] for name in names}

    def columns(self, entry: Entry) -> dict[str, Sequence[Any]]:
        """Return the columns; attributes have their names there, instead of numbers."""
        columns, used = self._columns, self._used
        for conjunction in entry.conjunctions:
            for name, values in conjunction.items:
                self._add_pieces(values)
                columns["attribute"].append(name)
                columns["piece_start"].append(used["family"] + len(self._pieces))
                columns["flags"].append(
                    ACCEPTS_MISSING * values.missing
                    | (ACCEPTS_FALSE if False in values.bools else 0)
                    | (2 * ACCEPTS_FALSE if True in values.bools else 0)
                    | self._accepted_lists(values.lists)
                )
            columns["owner"].append(self._place)
            columns["row_start"].append(used["attribute"] + len(columns["attribute"]))
        pieces: Iterable[Sequence[Any]] = zip(*self._pieces, strict=True) if self._pieces else ((),) * len(PIECE)
        return {**columns, "text_data": self._data, **dict(zip(PIECE, pieces, strict=True))}

    @staticmethod
    def _accepted_lists(lists: ListSet) -> int:
        if lists.has_conditions:
            raise _NoRowError
        held = (lists.empty, *(asked is not None for asked in lists.families))
        return sum(ACCEPTS_EMPTY_LIST << kind for kind, is_held in enumerate(held) if is_held)

    def _add_pieces(self, values: ValueSet) -> None:
        for low, high in values.numbers.pieces():
            self._pieces.append((OF_NUMBERS, *_split(low, low[1]), *_split(high, high[1])))
        for low, high in values.times.pieces():
            self._pieces.append((OF_TIMES, *_split_time(low), *_split_time(high)))
        for low, high in values.strings.ranges.pieces():
            self._pieces.append((OF_TEXTS, self._cut(low), 0, self._cut(high), 0))
        if values.strings.has_patterns:
            for patterns, which in ((values.strings.required, 0), (values.strings.forbidden, 1)):
                for pattern in patterns:
                    if pattern.kind not in _PATTERNS:
                        raise _NoRowError
                    self._pieces.append((_PATTERNS[pattern.kind][which], self._text(pattern.literal), 0, 0.0, 0))

    def _cut(self, cut: Cut) -> int:
        return -1 if cut[0] else self._text(cut[1])

    def _text(self, text: str) -> int:
        """Return the number of a text."""
        ends = self._columns["text_start"]
        self._data += text.encode()
        ends.append(self._used["text_data"] + len(self._data))
        return self._used["text_start"] + len(ends) - 2


class Delta:
    """Subscriptions by the order in which they came; `capacity` is how many there can be."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.entries: list[Entry] = []
        self.others = Few()
        """Entries that are not rows."""
        self._is_crowded = False
        rooms = {"row_start": capacity + 1, "owner": capacity, "numbers": capacity, "died": capacity}
        room = max(PIECES_PER_ENTRY * capacity, 64)
        rooms |= {"piece_start": room + 1, "text_start": room + 1, "text_data": max(BYTES_PER_ENTRY * capacity, 1024)}
        self._arrays: dict[str, Array] = {
            name: np.zeros(rooms.get(name, room), kind) for name, (kind, _) in DELTA_KINDS.items()
        }
        self._used = {name: int(name.endswith("_start")) for name in DELTA_KINDS}
        """How far each column is filled; of the first list of each kind it is known that it starts at 0."""
        self.died: Array = self._arrays["died"]
        self.died[:] = ALIVE
        self.table = KernelArguments.of(DELTA_KINDS, self._arrays)
        self._place_of: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def row_count(self) -> int:
        """How many rows there are."""
        return self._used["owner"]

    @property
    def is_full(self) -> bool:
        """Whether the next entry may have no room."""
        return (
            len(self.entries) >= self.capacity
            or self.row_count >= self.capacity
            or self.others.evaluated >= min(OTHERS, self.capacity)
            or self._is_crowded
        )

    def place(self, number: int) -> int | None:
        """Return where a living subscription is, or None when it is not here."""
        return self._place_of.get(number)

    def names(self) -> Iterator[str]:
        """Yield the attributes of the living entries, each as often as it is asked for."""
        for place in self._place_of.values():
            for conjunction in self.entries[place].conjunctions:
                yield from conjunction.attributes

    def add(self, entry: Entry, attributes: dict[Any, int]) -> None:
        """Append a subscription; `attributes` numbers the attributes of the index, new ones are added to it."""
        place = len(self.entries)
        try:
            columns = _Written(place, self._used).columns(entry)
        except _NoRowError:
            self.others.add(entry)
        else:
            held, used = self._arrays, self._used
            if all(used[name] + len(column) <= len(held[name]) for name, column in columns.items()):
                columns["attribute"] = [attributes.setdefault(name, len(attributes)) for name in columns["attribute"]]
                for name, column in columns.items():
                    held[name][used[name] : used[name] + len(column)] = column
                    used[name] += len(column)
            else:
                self._is_crowded = True
                self.others.add(entry)
        self._arrays["numbers"][place] = entry.number
        self.entries.append(entry)
        self._place_of[entry.number] = place

    def renumber(self, mapping: Array) -> Delta:
        """Return this delta with other numbers for attributes, in its place: `mapping` has the new one by the old one.

        Readers of older snapshots go on with this one, which shares everything else.
        """
        other = copy(self)
        other._arrays = {**self._arrays, "attribute": mapping[self._arrays["attribute"]].astype(np.int32)}
        other.table = KernelArguments.of(DELTA_KINDS, other._arrays)
        return other

    def delete(self, place: int, sequence: int) -> None:
        """Note that a subscription is gone from a sequence number on."""
        number = self.entries[place].number
        self.died[place] = sequence
        del self._place_of[number]
        if number in self.others:
            self.others.remove(number, sequence)

    def living(self, count: int, sequence: int) -> Iterator[Entry]:
        """Yield the entries among the first ones that were alive at a sequence number."""
        for place, died in enumerate(self.died[:count].tolist()):
            if died > sequence:
                yield self.entries[place]


def _split(cut: Cut, value: int | float) -> tuple[float, int]:
    if cut[0]:
        return BELOW_ALL if cut[0] < 0 else ABOVE_ALL
    key, rest = split_number(value)
    return key, rest + cut[2]


def _split_time(cut: Cut) -> tuple[float, int]:
    return _split(cut, 0 if cut[0] else microseconds(cut[1]))
