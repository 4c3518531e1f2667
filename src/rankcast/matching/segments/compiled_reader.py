"""Matches events against snapshots of a compiled index, and never takes a lock.

A single event is taken apart once, for all segments and deltas: the kernel is given its plain values and ranks them in
every segment that it searches. Everything that is derived from a segment was made by whoever put it in place; a reader
only has memory of its own to work in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from rankcast.arrays import Array, starts_of
from rankcast.compiling import loaded
from rankcast.matching.encoding.batches import EncodedEvents, Encoder
from rankcast.matching.encoding.cuts import split_number
from rankcast.matching.encoding.elements import key_of, kind_of
from rankcast.matching.entries import checked
from rankcast.matching.segments.building import build_segment
from rankcast.matching.segments.compiled_index import Name, Needs, Part, Parts, Snapshot
from rankcast.matching.segments.delta import BOOL, LIST, TIME
from rankcast.matching.segments.search import match_parts, scratch, search
from rankcast.model.times import microseconds
from rankcast.model.values import AttributeValue, elements_of

if TYPE_CHECKING:
    import pyarrow as pa

MORE_ATTRIBUTES = 64
"""Room for attributes beyond those there are, so that a new one seldom needs other memory."""

KNOWN = 2_048
"""Layouts and combinations of attributes that a reader remembers."""

NO_EXTRA = np.zeros((0, 2), np.int64)
NO_NUMBERS = np.zeros(0, np.int64)
NO_KEYS = np.zeros(0)
NO_RESTS = np.zeros(0, np.int16)
NO_DATA = np.zeros(0, np.uint8)


Shape: TypeAlias = tuple[tuple[str, ...], tuple[type, ...]]
"""The names of an event's attributes, and the types of their values."""

Numbers: TypeAlias = tuple[int | float, ...]
Texts: TypeAlias = tuple[str, ...]


def _picking(found: Sequence[tuple[int, int]]) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    """Return what picks the values of some attributes, given by number and place."""
    if len(found) > 1:
        return itemgetter(*(place for _, place in found))
    return lambda values: tuple(values[place] for _, place in found)


class Layout(NamedTuple):
    """Where events of the same names and types have what an index asks for.

    `asked` are the attributes of numbers, then of texts; `others` are the values of other types, each by its name, its
    attribute and its place; `listed` are the names and places of values that are asked for elements.
    """

    numbers: Callable[[tuple[Any, ...]], Numbers]
    words: Callable[[tuple[Any, ...]], Texts]
    asked: Array
    others: tuple[tuple[str, int, int], ...]
    listed: tuple[tuple[str, int], ...]

    @staticmethod
    def of(shape: Shape, number_of: Mapping[Name, int]) -> Layout:
        """Return the layout of events of a shape."""
        numbers, words = list[tuple[int, int]](), list[tuple[int, int]]()
        others = []
        for place, (name, kind) in enumerate(zip(*shape, strict=True)):
            if name in number_of and kind in (int, float, str):
                (words if kind is str else numbers).append((number_of[name], place))
            elif name in number_of:
                others.append((name, number_of[name], place))
        asked = np.array([number for number, _ in (*numbers, *words)], np.int64)
        listed = tuple((name, place) for place, name in enumerate(shape[0]) if (name,) in number_of)
        return Layout(_picking(numbers), _picking(words), asked, tuple(others), listed)


class CompiledReader:
    """Matches events against snapshots; one per thread."""

    def __init__(self) -> None:
        self._match_parts = loaded(match_parts)
        self._known: dict[tuple[int, ...], Array] = {}
        self._layouts: dict[Shape, Layout] = {}
        self._names: Mapping[Name, int] = {}
        self._attributes = 0
        self._together: Parts | None = None
        self._room = Needs(rows=-1)
        self._searchers: dict[Part, Searcher] = {}
        self._newest: list[Searcher] = []
        self._batched_last: Snapshot | None = None
        self._asked_last: Snapshot | None = None
        self._any = np.zeros(0, np.int64)

    def match_one(self, attributes: Mapping[str, AttributeValue], snapshot: Snapshot) -> Array:
        """Return the numbers of the subscriptions that one event satisfies, in no particular order."""
        if snapshot is self._asked_last:
            return self._any.copy()
        if snapshot.together is not self._together or snapshot.attributes > self._room.attributes:
            self._make_room(snapshot)
        if not snapshot.attributes and not snapshot.has_others:
            return self._match_any(snapshot)
        values = tuple(attributes.values())
        layout = self._layout_of((tuple(attributes), tuple(map(type, values))), snapshot)
        numbers, words, asked, extra = layout.numbers(values), layout.words(values), layout.asked, NO_EXTRA
        if layout.others:
            numbers, words, asked, extra = self._with_others(layout, values, numbers, words)
        data = _bytes(words, attributes) if words else NO_DATA
        elements = _numbers_of(layout.listed, values, snapshot.names) if layout.listed else NO_NUMBERS
        count = self._search(snapshot, asked, numbers, data, extra, elements)
        found: Array = self._found[:count].copy()
        if snapshot.together.have_residues or snapshot.has_others:
            return self._with_rest(found, attributes, snapshot)
        return found

    def _match_any(self, snapshot: Snapshot) -> Array:
        """Return the numbers of the subscriptions of a snapshot in which nobody asks for an attribute.

        They are remembered: every event has them.
        """
        count = self._search(snapshot, NO_NUMBERS, (), NO_DATA, NO_EXTRA, NO_NUMBERS)
        self._asked_last, self._any = snapshot, self._found[:count].copy()
        return self._any.copy()

    def _layout_of(self, shape: Shape, snapshot: Snapshot) -> Layout:
        """Return where events of these names and types have what is asked for; most have those of an earlier one."""
        if snapshot.names is not self._names or snapshot.attributes != self._attributes:
            self._layouts, self._names, self._attributes = {}, snapshot.names, snapshot.attributes
        found = self._layouts.get(shape)
        if found is None:
            if len(self._layouts) == KNOWN:
                self._layouts.clear()
            found = self._layouts[shape] = Layout.of(shape, snapshot.names)
        return found

    def _with_others(
        self, layout: Layout, values: tuple[AttributeValue, ...], numbers: Numbers, words: Texts
    ) -> tuple[Numbers, Texts, Array, Array]:
        """Add values of other types, which tell their kind one by one; bools, times and lists are extra."""
        at = layout.asked.tolist()
        numbered = dict(zip(at, numbers, strict=False))
        worded = dict(zip(at[len(numbers) :], words, strict=True))
        others = [(name, number, values[place]) for name, number, place in layout.others]
        extra = _sort_by_kind(others, numbered, worded)
        table = np.array(list(extra.values()), np.int64) if extra else NO_EXTRA
        return (*numbered.values(),), (*worded.values(),), self._array((*numbered, *worded, *extra)), table

    def _search(
        self, snapshot: Snapshot, asked: Array, numbers: Numbers, data: Array, extra: Array, elements: Array
    ) -> int:
        """Return how many are found for the attributes `asked`: those with numbers, with texts, and the extra ones."""
        try:
            keys = np.array(numbers, np.float64) if numbers else NO_KEYS
        except OverflowError:
            count = -1
        else:
            count = self._call(snapshot, asked, keys, NO_RESTS, data, extra, elements)
        if count < 0:
            at = asked.tolist()
            numbered, keys, rests = _exact(zip(at, numbers, strict=False), snapshot)
            asked = self._array((*numbered, *at[len(numbers) :]))
            count = self._call(snapshot, asked, keys, rests, data, extra, elements)
        return count

    def _array(self, attributes: tuple[int, ...]) -> Array:
        """Return the attributes of an event as an array; most events have those of an earlier one."""
        found = self._known.get(attributes)
        if found is None:
            if len(self._known) == KNOWN:
                self._known.clear()
            found = self._known[attributes] = np.array(attributes, np.int64)
        return found

    def _call(
        self,
        snapshot: Snapshot,
        attributes: Array,
        keys: Array,
        rests: Array,
        data: Array,
        extra: Array,
        elements: Array,
    ) -> int:
        together = snapshot.together
        return self._match_parts(
            together.tables,
            together.delta_tables,
            together.full_rows,
            snapshot.rows,
            attributes,
            keys,
            rests,
            data,
            extra,
            elements,
            snapshot.sequence,
            self._work,
            self._open_offsets,
        )

    def _with_rest(self, found: Array, attributes: Mapping[str, AttributeValue], snapshot: Snapshot) -> Array:
        """Add what kernels cannot decide: rows with residues that hold, and entries of deltas that are no rows."""
        more = snapshot.others_matching(attributes)
        if snapshot.together.have_residues:
            seen = set(found.tolist())
            bounds = self._open_offsets.tolist()
            for part, (first, last) in zip(snapshot.parts, pairwise(bounds), strict=True):
                text_of = partial(_value, attributes, part.names)
                more += _verify(part, self._opened[first:last], text_of, seen)
        return np.concatenate((found, np.array(more, np.int64))) if more else found

    def _make_room(self, snapshot: Snapshot) -> None:
        """Have enough memory for a snapshot; it only grows."""
        self._together = snapshot.together
        self._open_offsets = np.zeros(len(snapshot.parts) + 1, np.int64)
        self._searchers = {part: one for part, one in self._searchers.items() if part in snapshot.parts}
        needs = snapshot.together.needs._replace(attributes=snapshot.attributes)
        if all(have >= need for have, need in zip(self._room, needs, strict=True)):
            return
        room = Needs(*map(max, self._room, needs))
        # Half as much again, so that an index that grows by and by seldom needs other memory.
        self._room = room._replace(rows=room.rows * 3 // 2, attributes=room.attributes + MORE_ATTRIBUTES)
        self._memory = scratch(*self._room)
        self._work = self._memory.addresses
        self._found, self._opened = self._memory.arrays["found"], self._memory.arrays["opened"]

    def match_batch(self, batch: pa.RecordBatch, snapshot: Snapshot) -> tuple[Array, Array]:
        """Return (offsets, numbers): the subscriptions of event i are numbers[offsets[i]:offsets[i+1]]."""
        if snapshot.together is not self._together:
            self._make_room(snapshot)
        for part in snapshot.parts:
            if part not in self._searchers:
                self._searchers[part] = Searcher(part)
        if snapshot is not self._batched_last:
            newest = snapshot.delta
            self._newest = [Searcher(Part.of(build_segment(newest)))] if newest else []
            self._batched_last = snapshot
        searchers = [self._searchers[part] for part in snapshot.parts] + self._newest
        return _interleave([searcher.match_batch(batch, snapshot.sequence) for searcher in searchers], batch.num_rows)


def _sort_by_kind(
    others: list[tuple[str, int, AttributeValue]], numbers: dict[int, int | float], words: dict[int, str]
) -> dict[int, tuple[int, int]]:
    """Add values whose types are not just int, float or str to the others of their kind; return the extra ones."""
    extra: dict[int, tuple[int, int]] = {}
    for name, at, raw in others:
        value = checked(raw, name)
        if isinstance(value, bool):
            extra[at] = (BOOL, value)
        elif isinstance(value, int | float):
            numbers[at] = value
        elif isinstance(value, str):
            words[at] = value
        elif isinstance(value, tuple):
            extra[at] = (LIST, kind_of(value))
        elif value is not None:
            extra[at] = (TIME, microseconds(value))
    return extra


def _numbers_of(listed: tuple[tuple[str, int], ...], values: tuple[Any, ...], names: Mapping[Name, int]) -> Array:
    """Return the numbers of the elements of an event that somebody asks for; a scalar is a list of one."""
    found: list[int] = []
    for name, place in listed:
        value = checked(values[place], name)
        for element in () if value is None else elements_of(value):
            number = names.get((name, element if type(element) is str else key_of(element)))
            if number is not None:
                found.append(number)
    return np.array(found, np.int64)


def _bytes(texts: Texts, attributes: Mapping[str, AttributeValue]) -> Array:
    """Return the UTF-8 of texts of an event, each followed by END_OF_TEXT."""
    # As a bytearray, because numba would compile another kernel for an array that cannot be written.
    if "".join(texts).isascii():
        return np.frombuffer(bytearray("\xff".join((*texts, "")), "latin-1"), np.uint8)
    try:
        items = [word.encode() for word in texts]
    except UnicodeEncodeError:
        for name, value in attributes.items():
            checked(value, name)
        raise
    return np.frombuffer(bytearray(b"\xff".join((*items, b""))), np.uint8)


def _exact(numbers: Iterable[tuple[int, int | float]], snapshot: Snapshot) -> tuple[list[int], Array, Array]:
    """Return numbers that float64 may not have, such as integers above 2**53; NaN is a missing attribute."""
    found = [(at, *split_number(number)) for at, number in numbers if checked(number, _name(snapshot, at)) is not None]
    return (
        [at for at, _, _ in found],
        np.array([key for _, key, _ in found], np.float64),
        np.array([rest for _, _, rest in found], np.int16),
    )


def _name(snapshot: Snapshot, number: int) -> str:
    """Return the attribute with a number."""
    return next(str(name) for name, at in list(snapshot.names.items()) if at == number)


def _value(attributes: Mapping[str, AttributeValue], names: Sequence[str], at: int) -> AttributeValue | None:
    return attributes.get(names[at])


def _verify(part: Part, rows: Array, text_of: Callable[[int], AttributeValue | None], seen: set[int]) -> Iterator[int]:
    """Yield the subscriptions of rows whose residues hold, and note them as seen; those seen before are left out.

    `text_of` returns what the event has for an attribute of the segment.
    """
    for row in rows.tolist():
        number = int(part.number_of[row])
        if number not in seen and all(
            not isinstance(text := text_of(at), str) or pattern.matches(text) != negated
            for at, pattern, negated in part.patterns[row]
        ):
            seen.add(number)
            yield number


def _interleave(found: list[tuple[Array, Array]], events: int) -> tuple[Array, Array]:
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


FIRST_ROOM = 1 << 12
"""Results that fit beyond one per row, when space has to grow."""


class Searcher:
    """Finds the subscriptions of a segment that events satisfy; not to be shared between threads."""

    def __init__(self, part: Part) -> None:
        self._part = part
        self.encoder = Encoder(part.segment.dimensions, part.texts, part.segment.residues.attribute.tolist())
        self._memory = scratch(*part.needs)
        self._work = self._memory.addresses
        self._found, self._opened = self._memory.arrays["found"], self._memory.arrays["opened"]

    def match_batch(self, events: pa.RecordBatch | EncodedEvents, sequence: int = 0) -> tuple[Array, Array]:
        """Return (offsets, numbers): the subscriptions of event i are numbers[offsets[i]:offsets[i+1]]."""
        encoded = events if isinstance(events, EncodedEvents) else self.encoder.encode_batch(events)
        offsets = np.zeros(len(encoded) + 1, np.int64)
        open_offsets = np.zeros(len(encoded) + 1, np.int64)
        done = 0
        while True:
            done = search(
                done,
                encoded.start,
                encoded.dimensions,
                encoded.ranks,
                self._part.table.addresses,
                sequence,
                self._work,
                offsets,
                self._found,
                open_offsets,
                self._opened,
            )
            if done == len(encoded):
                break
            self._found = _wider(self._found, int(offsets[done]))
            self._opened = _wider(self._opened, int(open_offsets[done]))
        numbers = self._found[: offsets[-1]]
        if not open_offsets[-1]:
            return offsets, numbers.copy()
        verified: list[int] = []
        counts = np.zeros(len(encoded), np.int64)
        for event in np.flatnonzero(np.diff(open_offsets)).tolist():
            rows = self._opened[open_offsets[event] : open_offsets[event + 1]]
            seen = set(numbers[offsets[event] : offsets[event + 1]].tolist())
            verified += _verify(self._part, rows, partial(encoded.text, event), seen)
            counts[event] = len(verified)
        ends = np.maximum.accumulate(counts)
        more = np.concatenate((np.zeros(1, np.int64), ends)), np.array(verified, np.int64)
        return _interleave([(offsets, numbers), more], len(encoded))


def _wider(array: Array, used: int) -> Array:
    wider = np.empty(2 * len(array) + FIRST_ROOM, array.dtype)
    wider[:used] = array[:used]
    return wider
