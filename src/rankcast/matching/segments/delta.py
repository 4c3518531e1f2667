"""The delta: the newest subscriptions of an index, in columns that a kernel scans without ranks.

Nothing but appends happens to a delta, and the moment a subscription died is noted in place, so a reader that knows how
many entries and rows there were at its snapshot sees exactly those. Entries become rows, whatever they ask for; those
with a `like` that is neither prefix, suffix nor contains, and those that do not fit, are kept as a `Few` beside them.

Cost: a few microseconds per entry, no matter how many there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, field

import numpy as np

from rankcast.arrays import Array
from rankcast.compiling.arguments import KernelArguments
from rankcast.matching.encoding.cuts import split_number
from rankcast.matching.entries import Entry
from rankcast.matching.few import ALIVE, Few
from rankcast.matching.kernels.delta import (
    ACCEPTS_FALSE,
    ACCEPTS_MISSING,
    CONTAINS,
    CONTAINS_NOT,
    DELTA_KINDS,
    HAS_NO_SUFFIX,
    HAS_SUFFIX,
    OF_NUMBERS,
    OF_TEXTS,
    OF_TIMES,
)
from rankcast.model.times import microseconds
from rankcast.model.valuesets.intervals import Cut
from rankcast.model.valuesets.patterns import PatternKind
from rankcast.model.valuesets.sets import ValueSet

OTHERS = 64
"""Entries that are evaluated in Python: some 20 microseconds per event, few enough that a reader hardly notices."""

PIECES_PER_ENTRY, BYTES_PER_ENTRY = 8, 128
"""Room for predicates and their pieces, and for texts; a delta with larger entries is full earlier."""

BELOW_ALL, ABOVE_ALL = (-np.inf, -1), (np.inf, np.iinfo(np.int16).max)
"""The cuts of intervals without end: below and above every number, the infinite ones included."""

_PATTERNS = {PatternKind.SUFFIX: (HAS_SUFFIX, HAS_NO_SUFFIX), PatternKind.CONTAINS: (CONTAINS, CONTAINS_NOT)}


class _NoRowError(Exception):
    """An entry asks for what the kernel does not know."""


@dataclass(slots=True)
class _Written:
    """An entry as columns, before it is known that there is room for it; `texts` are numbered from `first_text`."""

    first_text: int
    sizes: list[int] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    flags: list[int] = field(default_factory=list)
    piece_counts: list[int] = field(default_factory=list)
    pieces: list[tuple[int, float, int, float, int]] = field(default_factory=list)
    texts: list[bytes] = field(default_factory=list)

    def add(self, entry: Entry) -> None:
        for conjunction in entry.conjunctions:
            for name, values in conjunction.items:
                first = len(self.pieces)
                self._add_pieces(values)
                self.names.append(name)
                self.piece_counts.append(len(self.pieces) - first)
                self.flags.append(
                    ACCEPTS_MISSING * values.missing
                    | (ACCEPTS_FALSE if False in values.bools else 0)
                    | (2 * ACCEPTS_FALSE if True in values.bools else 0)
                )
            self.sizes.append(len(conjunction))

    def _add_pieces(self, values: ValueSet) -> None:
        for low, high in values.numbers.pieces():
            self.pieces.append((OF_NUMBERS, *_split(low, low[1]), *_split(high, high[1])))
        for low, high in values.times.pieces():
            self.pieces.append((OF_TIMES, *_split_time(low), *_split_time(high)))
        for low, high in values.strings.ranges.pieces():
            self.pieces.append((OF_TEXTS, self._place(low), 0, self._place(high), 0))
        if values.has_patterns:
            for patterns, which in ((values.strings.required, 0), (values.strings.forbidden, 1)):
                for pattern in patterns:
                    if pattern.kind not in _PATTERNS:
                        raise _NoRowError
                    self.pieces.append((_PATTERNS[pattern.kind][which], self._text(pattern.literal), 0, 0.0, 0))

    def _place(self, cut: Cut) -> int:
        return -1 if cut[0] else self._text(cut[1])

    def _text(self, text: str) -> int:
        self.texts.append(text.encode())
        return self.first_text + len(self.texts) - 1


class Delta:
    """Subscriptions by the order in which they came; `capacity` is how many there can be."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.entries: list[Entry] = []
        self.others = Few()
        """Entries that are not rows."""
        self.row_count = 0
        self._is_crowded = False
        rooms = {"row_start": capacity + 1, "owner": capacity, "numbers": capacity, "died": capacity}
        room = max(PIECES_PER_ENTRY * capacity, 64)
        rooms |= {"piece_start": room + 1, "text_start": room + 1, "text_data": max(BYTES_PER_ENTRY * capacity, 1024)}
        self._arrays: dict[str, Array] = {
            name: np.zeros(rooms.get(name, room), kind) for name, (kind, _) in DELTA_KINDS.items()
        }
        self._predicates = self._pieces = self._texts = self._bytes = 0
        self.died: Array = self._arrays["died"]
        self.died[:] = ALIVE
        self.table = KernelArguments.of(DELTA_KINDS, tuple(self._arrays.values()))
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

    def add(self, entry: Entry, attributes: dict[str, int]) -> None:
        """Append a subscription; `attributes` numbers the attributes of the index, new ones are added to it."""
        place = len(self.entries)
        written = _Written(self._texts)
        try:
            written.add(entry)
        except _NoRowError:
            self.others.add(entry)
        else:
            if self._has_room(written):
                self._append(place, written, attributes)
            else:
                self._is_crowded = True
                self.others.add(entry)
        self._arrays["numbers"][place] = entry.number
        self.entries.append(entry)
        self._place_of[entry.number] = place

    def _has_room(self, written: _Written) -> bool:
        room = len(self._arrays["attribute"])
        return (
            self.row_count + len(written.sizes) <= self.capacity
            and self._predicates + len(written.names) <= room
            and self._pieces + len(written.pieces) <= room
            and self._texts + len(written.texts) <= room
            and self._bytes + sum(map(len, written.texts)) <= len(self._arrays["text_data"])
        )

    def _append(self, owner: int, written: _Written, attributes: dict[str, int]) -> None:
        held = self._arrays
        for text in written.texts:
            held["text_data"][self._bytes : self._bytes + len(text)] = np.frombuffer(text, np.uint8)
            self._bytes += len(text)
            self._texts += 1
            held["text_start"][self._texts] = self._bytes
        first, last = self._pieces, self._pieces + len(written.pieces)
        if written.pieces:
            columns = zip(*written.pieces, strict=True)
            for name, column in zip(("family", "low_key", "low_rest", "high_key", "high_rest"), columns, strict=True):
                held[name][first:last] = column
        self._pieces = last
        end = self._predicates + len(written.names)
        if written.names:
            numbers = [attributes.setdefault(name, len(attributes)) for name in written.names]
            held["attribute"][self._predicates : end] = numbers
            held["flags"][self._predicates : end] = written.flags
            held["piece_start"][self._predicates + 1 : end + 1] = np.cumsum(written.piece_counts) + first
        for size in written.sizes:
            self._predicates += size
            held["owner"][self.row_count] = owner
            self.row_count += 1
            held["row_start"][self.row_count] = self._predicates

    def renumbered(self, mapping: Array) -> Delta:
        """Return this delta with other numbers for attributes, in its place: `mapping` has the new one by the old one.

        Readers of older snapshots go on with this one, which shares everything else.
        """
        other = copy(self)
        other._arrays = {**self._arrays, "attribute": mapping[self._arrays["attribute"]].astype(np.int32)}
        other.table = KernelArguments.of(DELTA_KINDS, tuple(other._arrays.values()))
        return other

    def bury(self, place: int, sequence: int) -> None:
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
