"""Turns the columns of an Arrow RecordBatch into ranks; single events are ranked by the kernel that searches for them.

An encoder belongs to the dimensions of one segment. It keeps nothing that changes, so threads may share it. Attributes
that no subscription asks for are skipped; nulls and NaN are missing attributes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from rankcast.arrays import Array
from rankcast.matching.encoding.byte_tables import ByteTable
from rankcast.matching.encoding.columns import family_columns, flattened
from rankcast.matching.encoding.cuts import (
    positions_of_bytes,
    positions_of_numbers,
    rank_floats,
    rank_integers,
    reversed_items,
)
from rankcast.matching.encoding.dimensions import Dimensions
from rankcast.matching.encoding.texts import Texts
from rankcast.matching.segments.rows import starts_of

if TYPE_CHECKING:
    import pyarrow as pa


_DENSE = {"int64": rank_integers, "double": rank_floats}
"""Kernels that rank whole columns, by the columns' type."""


class Encoder:
    """Ranks of events in the dimensions of one segment."""

    def __init__(self, dimensions: Dimensions, texts: Texts, text_attributes: Iterable[int] = ()) -> None:
        self.dimensions = dimensions
        self._texts = texts
        self._index = {name: at for at, name in enumerate(dimensions.attributes.texts())}
        self._text_attributes = frozenset(text_attributes)

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
                write(held.bools[0], at, self.dimensions.first_bool[at] + held.bools[1])
            elif held.times is not None:
                first, last = self.dimensions.time_start[at : at + 2]
                position = np.searchsorted(self.dimensions.times[first:last], held.times[1], "right")
                write(held.times[0], at, self.dimensions.first_time[at] + position)
        return _by_event(count, events, dimensions, ranks, texts)

    def _write_texts(
        self, at: int, rows: Array, items: ByteTable, codes: Array, write: Any, texts: dict[int, dict[int, str]]
    ) -> None:
        """Encode a column of strings: each distinct item once, `codes` saying which item each row has."""
        held, texts_of = self.dimensions, self._texts
        first, last = held.string_start[at : at + 2]
        cuts = held.strings
        position = positions_of_bytes(texts_of.string_keys, cuts.start, cuts.data, first, last, items.start, items.data)
        write(rows, at, (held.first_string[at] + position)[codes])
        turn, group = int(texts_of.reversed_of[at]), int(texts_of.group_of[at])
        if turn >= 0:
            first, last = held.reversed_start[turn : turn + 2]
            turned = reversed_items(items.start[:-1], items.start[1:], items.data)
            cuts = held.reversed_cuts
            position = positions_of_bytes(
                texts_of.reversed_keys, cuts.start, cuts.data, first, last, items.start, turned
            )
            write(rows, held.first_reversed + turn, (1 + position)[codes])
        if group >= 0:
            item, found = texts_of.automaton.find(group, items.start, items.data)
            by_item = starts_of(np.bincount(item, minlength=len(items)))
            sizes = np.diff(by_item)[codes]
            pick = np.arange(int(sizes.sum())) + np.repeat(by_item[codes] - starts_of(sizes)[:-1], sizes)
            write(np.repeat(rows, sizes), held.first_substring + found[pick], np.ones(len(pick), np.int32))
        if at in self._text_attributes:
            known = items.texts()
            texts[at] = {row: known[code] for row, code in zip(rows.tolist(), codes.tolist(), strict=True)}


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


@dataclass(slots=True)
class EncodedEvents:
    """Events encoded for one segment; those of event i are start[i]..start[i+1].

    Not to be changed, but not frozen either: freezing would double the time it takes to make one per event.
    """

    start: Array
    dimensions: Array
    ranks: Array
    texts: Mapping[int, Mapping[int, str]] = field(default_factory=dict)
    """By attribute, then by event: the strings that residues look at."""

    def __len__(self) -> int:
        return len(self.start) - 1
