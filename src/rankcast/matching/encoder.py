"""Turns events into ranks: one event at a time for low latency, or the columns of an Arrow RecordBatch.

An encoder belongs to the dimensions of one segment. It keeps nothing that changes, so threads may share it. Attributes
that no subscription asks for are skipped; nulls and NaN are missing attributes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from rankcast.matching.automaton import Automaton
from rankcast.matching.columns import family_columns, flattened
from rankcast.matching.cuts import (
    microseconds,
    positions_of_bytes,
    positions_of_numbers,
    rank_floats,
    rank_integers,
    ranks_of_numbers,
    reversed_items,
    split_number,
)
from rankcast.matching.dimensions import Dimensions
from rankcast.matching.events import EncodedEvents
from rankcast.matching.rows import Array, starts_of
from rankcast.matching.tables import ByteTable
from rankcast.model.errors import InvalidEventError, InvalidValueError
from rankcast.model.values import Value, checked_value

if TYPE_CHECKING:
    import pyarrow as pa

_DENSE = {"int64": rank_integers, "double": rank_floats}
"""Kernels that rank whole columns, by the columns' type."""


class Encoder:
    """Ranks of events in the dimensions of one segment."""

    def __init__(self, dimensions: Dimensions, text_attributes: Iterable[int] = ()) -> None:
        self.dimensions = dimensions
        self.names = dimensions.attributes.texts()
        self._index = {name: at for at, name in enumerate(self.names)}
        self._text_attributes = frozenset(text_attributes)
        self._first_string = dimensions.first_string.tolist()
        self._first_bool = dimensions.first_bool.tolist()
        self._first_time = dimensions.first_time.tolist()
        starts = dimensions.string_start.tolist()
        self._string_cuts = {
            at: dimensions.strings.items(starts[at], starts[at + 1])
            for at in range(len(self._index))
            if starts[at] < starts[at + 1]
        }
        starts = dimensions.reversed_start.tolist()
        self._reversed = {
            attribute: (dimensions.first_reversed + at, dimensions.reversed_cuts.items(starts[at], starts[at + 1]))
            for at, attribute in enumerate(dimensions.reversed_attribute.tolist())
        }
        self._substrings = _automata(dimensions)

    def encode(self, attributes: Mapping[str, Any]) -> EncodedEvents:
        """Return one event's ranks; `attributes` are values by name, as in `Event.attributes`."""
        numbered: list[int] = []
        numbers: list[int | float] = []
        others: list[int] = []
        ranks: list[int] = []
        texts: dict[int, dict[int, str]] = {}
        place = self._index.get
        for name, value in attributes.items():
            at = place(name)
            if at is None:
                continue
            kind = type(value)
            if kind is int or kind is float:
                numbered.append(at)
                numbers.append(value)
            elif kind is str:
                self._encode_text(at, name, value, others, ranks, texts)
            else:
                self._encode_other(at, name, value, numbered, numbers, others, ranks, texts)
        dimensions = np.array(numbered, np.int32)
        found = self._number_ranks(dimensions, numbers)
        if found is None:
            dimensions, found = self._uncommon_numbers(numbered, numbers)
        if others:
            dimensions = np.concatenate((dimensions, np.array(others, np.int32)))
            found = np.concatenate((found, np.array(ranks, np.int32)))
        return EncodedEvents(_start_of_one(len(dimensions)), dimensions, found, texts)

    def ranks_of_others(self, attributes: Iterable[tuple[str, Value]]) -> Iterable[tuple[int, int]]:
        """Return (dimension, rank) for those of an event's strings, bools and times that some subscription asks for."""
        others: list[int] = []
        ranks: list[int] = []
        for name, value in attributes:
            at = self._index.get(name)
            if at is None:
                continue
            if isinstance(value, str):
                self._encode_text(at, name, value, others, ranks, {})
            elif isinstance(value, bool):
                others.append(at)
                ranks.append(self._first_bool[at] + value)
            elif isinstance(value, datetime):
                others.append(at)
                ranks.append(self._first_time[at] + self._time_position(at, value))
        return zip(others, ranks, strict=True)

    def _number_ranks(self, dimensions: Array, numbers: list[int | float]) -> Array | None:
        """Return the ranks of one event's numbers, or None when one is no plain float64 value."""
        held = self.dimensions
        try:
            values = np.array(numbers, np.float64)
        except OverflowError:
            return None
        ranks = np.empty(len(numbers), np.int32)
        common = ranks_of_numbers(held.number_start, held.number_keys, held.number_rests, dimensions, values, ranks)
        return ranks if common else None

    def _uncommon_numbers(self, numbered: list[int], numbers: list[int | float]) -> tuple[Array, Array]:
        """Rank one event's numbers exactly, integers above 2**53 included; NaN is a missing attribute."""
        held = self.dimensions
        found: list[tuple[int, int]] = []
        for at, raw in zip(numbered, numbers, strict=True):
            value = checked(raw, self.names[at])
            if isinstance(value, int | float):
                key, rest = split_number(value)
                first, last = held.number_start[at : at + 2]
                one = (np.array((key,)), np.array((rest,), np.int16))
                found.append(
                    (at, 1 + int(positions_of_numbers(held.number_keys, held.number_rests, first, last, *one)[0]))
                )
        table = np.array(found, np.int32).reshape(-1, 2)
        return table[:, 0].copy(), table[:, 1].copy()

    def _encode_text(
        self, at: int, name: str, value: str, others: list[int], ranks: list[int], texts: dict[int, dict[int, str]]
    ) -> None:
        try:
            data = value.encode()
        except UnicodeEncodeError:
            checked(value, name)
            raise
        others.append(at)
        cuts = self._string_cuts.get(at)
        ranks.append(self._first_string[at] + (bisect_right(cuts, data) if cuts else 0))
        if at in self._reversed:
            dimension, turned = self._reversed[at]
            others.append(dimension)
            ranks.append(1 + bisect_right(turned, data[::-1]))
        if at in self._substrings:
            first, numbers, automaton = self._substrings[at]
            table = ByteTable.of((data,))
            _, found = automaton.find(table.start, table.data)
            others += (first + numbers[found]).tolist()
            ranks += [1] * len(found)
        if at in self._text_attributes:
            texts[at] = {0: value}

    def _encode_other(
        self,
        at: int,
        name: str,
        raw: object,
        numbered: list[int],
        numbers: list[int | float],
        others: list[int],
        ranks: list[int],
        texts: dict[int, dict[int, str]],
    ) -> None:
        """Encode what is neither a plain number nor a plain string."""
        value = checked(raw, name)
        if value is None:
            return
        if isinstance(value, bool):
            others.append(at)
            ranks.append(self._first_bool[at] + value)
        elif isinstance(value, int | float):
            numbered.append(at)
            numbers.append(value)
        elif isinstance(value, str):
            self._encode_text(at, name, value, others, ranks, texts)
        else:
            others.append(at)
            ranks.append(self._first_time[at] + self._time_position(at, value))

    def _time_position(self, at: int, value: datetime) -> int:
        held = self.dimensions
        own = held.times[held.time_start[at] : held.time_start[at + 1]]
        return int(np.searchsorted(own, microseconds(value), "right"))

    def encode_batch(self, batch: pa.RecordBatch) -> EncodedEvents:
        """Return the ranks of a RecordBatch's rows; nested structs are attributes with dotted names."""
        columns = [(at, name, column) for name, column in flattened(batch) if (at := self._index.get(name)) is not None]
        return self._encode_dense(batch.num_rows, columns) or self._encode_columns(batch.num_rows, columns)

    def _encode_dense(self, count: int, columns: Sequence[tuple[int, str, Any]]) -> EncodedEvents | None:
        """Return the ranks of columns that are all 64-bit numbers without a gap, or None: the way with the least to do.

        Each column's ranks are written where they stay.
        """
        held = self.dimensions
        if any(column.null_count or str(column.type) not in _DENSE for _, _, column in columns):
            return None
        ranks = np.empty((count, len(columns)), np.int32)
        for place, (at, _, column) in enumerate(columns):
            first, last = held.number_start[at : at + 2]
            kernel = _DENSE[str(column.type)]
            if not kernel(held.number_keys, held.number_rests, first, last, np.asarray(column), ranks[:, place]):
                return None
        dimensions = np.array([at for at, _, _ in columns], np.int32)
        start = np.arange(count + 1) * len(columns)
        return EncodedEvents(start, np.tile(dimensions, count), ranks.reshape(-1), {})

    def _encode_columns(self, count: int, columns: Sequence[tuple[int, str, Any]]) -> EncodedEvents:
        events: list[Array] = []
        dimensions: list[Array] = []
        ranks: list[Array] = []
        texts: dict[int, dict[int, str]] = {}

        def write(rows: Array, dimension: int | Array, found: Array) -> None:
            events.append(rows)
            dimensions.append(np.broadcast_to(np.asarray(dimension, np.int32), len(rows)))
            ranks.append(found)

        for at, name, column in columns:
            held = family_columns(name, column)
            if held.numbers is not None:
                rows, keys, rests = held.numbers
                start = self.dimensions.number_start
                found = positions_of_numbers(
                    self.dimensions.number_keys, self.dimensions.number_rests, start[at], start[at + 1], keys, rests
                )
                write(rows, at, found + 1)
            elif held.strings is not None:
                self._write_texts(at, *held.strings, write, texts)
            elif held.bools is not None:
                write(held.bools[0], at, self._first_bool[at] + held.bools[1])
            elif held.times is not None:
                first, last = self.dimensions.time_start[at : at + 2]
                position = np.searchsorted(self.dimensions.times[first:last], held.times[1], "right")
                write(held.times[0], at, self._first_time[at] + position)
        return _by_event(count, events, dimensions, ranks, texts)

    def _write_texts(
        self, at: int, rows: Array, items: ByteTable, codes: Array, write: Any, texts: dict[int, dict[int, str]]
    ) -> None:
        """Encode a column of strings: each distinct item once, `codes` saying which item each row has."""
        held = self.dimensions
        first, last = held.string_start[at : at + 2]
        position = positions_of_bytes(held.strings.start, held.strings.data, first, last, items.start, items.data)
        write(rows, at, (self._first_string[at] + position)[codes])
        if at in self._reversed:
            dimension, _ = self._reversed[at]
            first, last = held.reversed_start[dimension - held.first_reversed :][:2]
            turned = reversed_items(items.start, items.data)
            cuts = held.reversed_cuts
            position = positions_of_bytes(cuts.start, cuts.data, first, last, items.start, turned)
            write(rows, dimension, (1 + position)[codes])
        if at in self._substrings:
            first, numbers, automaton = self._substrings[at]
            item, found = automaton.find(items.start, items.data)
            by_item = starts_of(np.bincount(item, minlength=len(items)))
            sizes = np.diff(by_item)[codes]
            pick = np.arange(int(sizes.sum())) + np.repeat(by_item[codes] - starts_of(sizes)[:-1], sizes)
            write(np.repeat(rows, sizes), first + numbers[found[pick]], np.ones(len(pick), np.int32))
        if at in self._text_attributes:
            known = items.texts()
            texts[at] = {row: known[code] for row, code in zip(rows.tolist(), codes.tolist(), strict=True)}


def checked(raw: object, name: str) -> Value | None:
    """Return an attribute's value, or None when it is missing; raises InvalidEventError, naming it."""
    try:
        return checked_value(raw, name)
    except InvalidValueError as error:
        raise InvalidEventError(str(error)) from None


@cache
def _start_of_one(count: int) -> Array:
    return np.array((0, count), np.int64)


def _by_event(
    count: int, events: list[Array], dimensions: list[Array], ranks: list[Array], texts: dict[int, dict[int, str]]
) -> EncodedEvents:
    if not events:
        return EncodedEvents(np.zeros(count + 1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int32), texts)
    event = np.concatenate(events)
    order = np.argsort(event, kind="stable")
    start = starts_of(np.bincount(event, minlength=count))
    dimension = np.concatenate(dimensions)[order].astype(np.int32)
    return EncodedEvents(start, dimension, np.concatenate(ranks)[order].astype(np.int32), texts)


def _automata(dimensions: Dimensions) -> dict[int, tuple[int, Array, Automaton]]:
    """Return per attribute the automaton of its substrings and the number of each, from the first such dimension on."""
    numbers: dict[int, list[int]] = defaultdict(list)
    for number, attribute in enumerate(dimensions.substring_attribute.tolist()):
        numbers[attribute].append(number)
    literals = dimensions.substrings.items()
    return {
        attribute: (
            dimensions.first_substring,
            np.array(own, np.int64),
            Automaton.of([literals[number] for number in own]),
        )
        for attribute, own in numbers.items()
    }
