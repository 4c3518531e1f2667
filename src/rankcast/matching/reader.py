"""Matches events against the newest snapshot of an index, and never takes a lock.

A single event is taken apart once, for all segments: its numbers are ranked by the kernel in every segment that it
searches, and only strings, bools and times are looked up from here. Everything that is derived from a segment was
made by whoever put it in place; a reader only has memory of its own to work in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from rankcast.matching.cuts import split_number
from rankcast.matching.encoder import checked
from rankcast.matching.kernels_search import FOUND_ROOM, OPENED_ROOM, match_parts, match_parts_holding, scratch
from rankcast.matching.prepared import Needs
from rankcast.matching.rows import Array, starts_of
from rankcast.matching.searcher import Searcher
from rankcast.matching.snapshots import Part, Parts, Snapshot
from rankcast.model.values import Value

if TYPE_CHECKING:
    import pyarrow as pa

if TYPE_CHECKING:
    from rankcast.matching.index import Index

Pairs: TypeAlias = list[tuple[str, Value]]

MORE_ATTRIBUTES = 64
"""Room for attributes beyond those there are, so that a new one seldom needs other memory."""

CALM = 256
"""Events matched without a change until an index counts as quiet, some 10 milliseconds; see `turns`."""

NO_EXTRA = np.zeros((0, 3), np.int32)
NO_RESTS = np.zeros(0, np.int16)


class Reader:
    """Matches events against the newest snapshot of an index; one per thread."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._together: Parts | None = None
        self._room = Needs(rows=-1)
        self._searchers: dict[Part, Searcher] = {}
        self._attributes = index.attributes
        self._flags = index.turns.flags
        self._place, self._flag = index.turns.join()
        self._latest, self._calm = index.snapshot.sequence, CALM
        """The sequence number seen last, and how many events were matched with it."""
        self._holds = False

    def match_one(self, attributes: Mapping[str, Value], snapshot: Snapshot | None = None) -> Array:
        """Return the numbers of the subscriptions that one event satisfies, in no particular order.

        Unless an older snapshot is given, the newest one is used.
        """
        if snapshot is None:
            snapshot = self._index.snapshot
        if snapshot.sequence != self._latest:
            self._latest, self._calm = snapshot.sequence, 0
        self._calm += 1
        self._holds = self._calm <= CALM and 1 not in self._flags
        if self._holds:
            self._flags[self._place] = 1
        try:
            return self._matching(attributes, snapshot)
        finally:
            self._flags[self._place] = 0

    def _matching(self, attributes: Mapping[str, Value], snapshot: Snapshot) -> Array:
        if snapshot.together is not self._together or snapshot.attributes > self._room.attributes:
            self._make_room(snapshot)
        numbered: list[int] = []
        numbers: list[int | float] = []
        others: Pairs = []
        number_of = self._attributes.get
        for name, value in attributes.items():
            at = number_of(name)
            if at is not None:
                kind = type(value)
                if kind is int or kind is float:
                    numbered.append(at)
                    numbers.append(value)  # type: ignore[arg-type]
                else:
                    others.append((name, value))
        extra = self._extra(snapshot, others, numbered, numbers) if others else NO_EXTRA
        count = self._search(snapshot, np.array(numbered, np.int32), numbers, extra)
        found = self._found[:count].copy()
        if snapshot.together.have_residues or snapshot.newest.others:
            return self._with_rest(found, attributes, snapshot)
        return found

    def _search(self, snapshot: Snapshot, numbered: Array, numbers: list[int | float], extra: Array) -> int:
        try:
            keys = np.array(numbers, np.float64)
        except OverflowError:
            count = -1
        else:
            count = self._call(snapshot, numbered, keys, NO_RESTS, extra)
        if count < 0:
            count = self._call(snapshot, *self._exact(numbered, numbers), extra)
        return count

    def _call(self, snapshot: Snapshot, numbered: Array, keys: Array, rests: Array, extra: Array) -> int:
        return (match_parts_holding if self._holds else match_parts)(
            snapshot.together.tables,
            snapshot.newest.table.addresses,
            snapshot.rows,
            numbered,
            keys,
            rests,
            extra,
            snapshot.sequence,
            self._work,
            self._open_offsets,
        )

    def _exact(self, numbered: Array, numbers: list[int | float]) -> tuple[Array, Array, Array]:
        """Return numbers that float64 may not have, such as integers above 2**53; NaN is a missing attribute."""
        names = list(self._attributes)
        found = [
            (at, *split_number(number))
            for at, number in zip(numbered.tolist(), numbers, strict=True)
            if checked(number, names[at]) is not None
        ]
        return (
            np.array([at for at, _, _ in found], np.int32),
            np.array([key for _, key, _ in found], np.float64),
            np.array([rest for _, _, rest in found], np.int16),
        )

    def _extra(self, snapshot: Snapshot, others: Pairs, numbered: list[int], numbers: list[int | float]) -> Array:
        """Return the ranks of strings, bools and times, by segment; move what turns out to be a number."""
        plain: Pairs = []
        for name, raw in others:
            value = raw if type(raw) is str else checked(raw, name)
            if type(value) is int or type(value) is float:
                numbered.append(self._attributes[name])
                numbers.append(value)
            elif value is not None:
                plain.append((name, value))
        lines = [
            (at, dimension, rank)
            for at, part in enumerate(snapshot.parts)
            for dimension, rank in part.prepared.encoder.ranks_of_others(plain)
        ]
        return np.array(lines, np.int32).reshape(-1, 3)

    def _with_rest(self, found: Array, attributes: Mapping[str, Value], snapshot: Snapshot) -> Array:
        """Add what kernels cannot decide: rows with residues that hold, and entries of the delta that are no rows."""
        more: list[int] = []
        if snapshot.newest.others:
            present = {name: value for name, value in attributes.items() if value == value}  # NaN is missing
            more += snapshot.newest.accepting(present, snapshot.entries, snapshot.sequence)
        if snapshot.together.have_residues:
            seen = set(found.tolist())
            bounds = self._open_offsets.tolist()
            for at, part in enumerate(snapshot.parts):
                more += _verified(part, self._opened[bounds[at] : bounds[at + 1]], attributes, seen)
        return np.concatenate((found, np.array(more, np.int64))) if more else found

    def _make_room(self, snapshot: Snapshot) -> None:
        """Have enough memory for a snapshot; it only grows."""
        self._together = snapshot.together
        self._open_offsets = np.zeros(len(snapshot.parts) + 1, np.int64)
        self._searchers = {part: one for part, one in self._searchers.items() if part in snapshot.parts}
        needs = snapshot.together.needs
        needs = needs._replace(rows=needs.rows + snapshot.newest.capacity, attributes=snapshot.attributes)
        if all(have >= need for have, need in zip(self._room, needs, strict=True)):
            return
        room = Needs(*map(max, self._room, needs))
        # Half as much again, so that an index that grows by and by seldom needs other memory.
        self._room = room._replace(rows=room.rows * 3 // 2, attributes=room.attributes + MORE_ATTRIBUTES)
        self._memory = scratch(*self._room, self._flag)
        self._work = self._memory.addresses
        self._found, self._opened = self._memory.arrays[FOUND_ROOM], self._memory.arrays[OPENED_ROOM]

    def match_batch(self, batch: pa.RecordBatch, snapshot: Snapshot | None = None) -> tuple[Array, Array]:
        """Return (offsets, numbers): the subscriptions of event i are numbers[offsets[i]:offsets[i+1]]."""
        if snapshot is None:
            snapshot = self._index.snapshot
        if snapshot.together is not self._together:
            self._make_room(snapshot)
        for part in snapshot.parts:
            if part not in self._searchers:
                self._searchers[part] = Searcher(part.prepared)
        found = [self._searchers[part].match_batch(batch, snapshot.sequence) for part in snapshot.parts]
        newest = snapshot.delta_segments(list(self._attributes))
        return _interleaved([*found, *(Searcher(segment).match_batch(batch) for segment in newest)], batch.num_rows)


def _verified(part: Part, rows: Array, attributes: Mapping[str, Value], seen: set[int]) -> Iterable[int]:
    """Yield the subscriptions of rows whose residues hold, and note them as seen; those seen before are left out."""
    names = part.prepared.encoder.names
    for row in rows.tolist():
        number = int(part.prepared.number_of[row])
        if number not in seen and all(
            not isinstance(text := attributes.get(names[at]), str) or pattern.matches(text) != negated
            for at, pattern, negated in part.prepared.patterns[row]
        ):
            seen.add(number)
            yield number


def _interleaved(found: list[tuple[Array, Array]], events: int) -> tuple[Array, Array]:
    """Return the results of several segments as one, event by event."""
    if len(found) == 1:
        return found[0]
    sizes = [np.diff(offsets) for offsets, _ in found]
    total = starts_of(np.sum(sizes, axis=0) if sizes else np.zeros(events, np.int64))
    numbers = np.empty(int(total[-1]), np.int64)
    first = total[:-1].copy()
    for (offsets, own), size in zip(found, sizes, strict=True):
        numbers[np.arange(len(own)) + np.repeat(first - offsets[:-1], size)] = own
        first += size
    return total, numbers
