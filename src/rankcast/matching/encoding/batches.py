"""Turns the columns of an Arrow RecordBatch into ranks; single events are ranked by the kernel that searches for them.

An encoder belongs to the dimensions of one segment. It keeps nothing that changes, so threads may share it. Attributes
that no subscription asks for are skipped; nulls and NaN are missing attributes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rankcast.arrays import Array, starts_of, take_lists
from rankcast.lazily import module
from rankcast.matching.encoding.byte_tables import ByteTable
from rankcast.matching.encoding.cuts import (
    positions_of_bytes,
    positions_of_numbers,
    rank_floats,
    rank_integers,
    reversed_items,
    split_integers,
)
from rankcast.matching.encoding.dimensions import Dimensions
from rankcast.matching.encoding.elements import Key
from rankcast.matching.encoding.texts import Texts
from rankcast.model.errors import InvalidEventError
from rankcast.model.values import Family
from rankcast.model.valuesets.lists import FAMILIES

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
else:
    pa = module("pyarrow")
    pc = module("pyarrow.compute")


_DENSE = {"int64": rank_integers, "double": rank_floats}
"""Kernels that rank whole columns, by the columns' type."""


class Encoder:
    """Ranks of events in the dimensions of one segment."""

    def __init__(self, dimensions: Dimensions, texts: Texts, text_attributes: Iterable[int] = ()) -> None:
        self.dimensions = dimensions
        self._texts = texts
        self._index = {name: at for at, name in enumerate(dimensions.attributes.texts())}
        self._text_attributes = frozenset(text_attributes)
        self._elements = dimensions.postings.by_attribute()

    def encode_batch(self, batch: pa.RecordBatch) -> EncodedEvents:
        """Return the ranks of a RecordBatch's rows; nested structs are attributes with dotted names.

        Raises InvalidEventError, naming the column, for a type that rankcast does not have.
        """
        columns = [(at, name, column) for name, column in flatten(batch) if (at := self._index.get(name)) is not None]
        dense = self._encode_dense(batch.num_rows, columns)
        if dense is not None:
            return dense
        texts: dict[int, dict[int, str]] = {}
        written = [ranks for at, name, column in columns for ranks in self._ranks(at, name, column, texts)]
        written += (self._element_ranks(at, name, column) for at, name, column in columns if at in self._elements)
        return _by_event(batch.num_rows, written, texts)

    def _encode_dense(self, count: int, columns: Sequence[tuple[int, str, Any]]) -> EncodedEvents | None:
        """Return the ranks of columns that are all 64-bit numbers without a gap, or None: the way with the least to do.

        Each column's ranks are written where they stay.
        """
        held = self.dimensions
        if any(column.null_count or str(column.type) not in _DENSE for _, _, column in columns):
            return None
        if any(at in self._elements for at, _, _ in columns):
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

    def _ranks(self, at: int, name: str, column: Any, texts: dict[int, dict[int, str]]) -> Iterable[_Ranks]:
        """Return the ranks of a column's present values, in every dimension of its attribute."""
        kind, held = column.type, self.dimensions
        if pa.types.is_null(kind):
            return ()
        if pa.types.is_dictionary(kind):
            if not _is_text(kind.value_type):
                return self._ranks(at, name, column.dictionary_decode(), texts)
            return self._text_ranks(at, *_from_dictionary(column), texts)
        if column.null_count:
            rows = np.flatnonzero(np.asarray(column.is_valid()))
            column = column.drop_null()
        else:
            rows = np.arange(len(column))
        if is_list(kind):
            return [_Ranks(rows, at, held.first_list[at] + _list_kinds(name, column))]
        if pa.types.is_integer(kind):
            return [self._number_ranks(at, rows, *split_integers(_int64(name, column)))]
        if pa.types.is_floating(kind):
            values = np.asarray(column.cast(pa.float64())) + 0.0
            present = ~np.isnan(values)
            if not present.all():
                rows, values = rows[present], values[present]
            return [self._number_ranks(at, rows, values, np.zeros(len(values), np.int16))]
        if pa.types.is_boolean(kind):
            return [_Ranks(rows, at, held.first_bool[at] + np.asarray(column.cast(pa.int8())))]
        if _is_text(kind) or pa.types.is_string_view(kind):
            return self._text_ranks(at, rows, byte_table(column), np.arange(len(rows)), texts)
        if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
            first, last = held.time_start[at : at + 2]
            position = np.searchsorted(held.times[first:last], _microseconds(name, column), "right")
            return [_Ranks(rows, at, held.first_time[at] + position)]
        raise InvalidEventError(f"column {name!r} has type {kind}; expected {_EXPECTED}")

    def _number_ranks(self, at: int, rows: Array, keys: Array, rests: Array) -> _Ranks:
        held = self.dimensions
        first, last = held.number_start[at : at + 2]
        return _Ranks(rows, at, 1 + positions_of_numbers(held.number_keys, held.number_rests, first, last, keys, rests))

    def _element_ranks(self, at: int, name: str, column: Any) -> _Ranks:
        """Return the conditions that the elements of a column satisfy, by row; a scalar is a list of one."""
        owner, keys, codes = _keys(name, *_elements(column))
        places, postings = self._elements[at], self.dimensions.postings
        known = np.array([places.get(key, -1) for key in keys], np.int64)
        place = known[codes] if len(codes) else np.zeros(0, np.int64)
        owner, place = owner[place >= 0], place[place >= 0]
        start, pick = take_lists(postings.start, place)
        # A condition may be satisfied by several elements, and an element may be there twice.
        pairs = np.sort(np.repeat(owner, np.diff(start)) * len(self.dimensions) + postings.dimensions[pick])
        pairs = pairs[np.diff(pairs, prepend=-1) > 0]
        return _Ranks(*np.divmod(pairs, len(self.dimensions)), np.ones(len(pairs), np.int32))

    def _text_ranks(
        self, at: int, rows: Array, items: ByteTable, codes: Array, texts: dict[int, dict[int, str]]
    ) -> Iterator[_Ranks]:
        """Encode a column of strings: each distinct item once, `codes` saying which item each row has."""
        held, texts_of = self.dimensions, self._texts
        first, last = held.string_start[at : at + 2]
        cuts = held.strings
        position = positions_of_bytes(texts_of.string_keys, cuts.start, cuts.data, first, last, items.start, items.data)
        yield _Ranks(rows, at, (held.first_string[at] + position)[codes])
        turn, group = int(texts_of.reversed_of[at]), int(texts_of.group_of[at])
        if turn >= 0:
            first, last = held.reversed_start[turn : turn + 2]
            turned = reversed_items(items.start[:-1], items.start[1:], items.data)
            cuts, keys = held.reversed_cuts, texts_of.reversed_keys
            position = positions_of_bytes(keys, cuts.start, cuts.data, first, last, items.start, turned)
            yield _Ranks(rows, held.first_reversed + turn, (1 + position)[codes])
        if group >= 0:
            item, found = texts_of.automaton.find(group, items.start, items.data)
            by_item = starts_of(np.bincount(item, minlength=len(items)))
            by_row, pick = take_lists(by_item, codes)
            owner = np.repeat(rows, np.diff(by_row))
            yield _Ranks(owner, held.first_substring + found[pick], np.ones(len(pick), np.int32))
        if at in self._text_attributes:
            known = items.texts()
            texts[at] = {row: known[code] for row, code in zip(rows.tolist(), codes.tolist(), strict=True)}


class _Ranks(NamedTuple):
    """Ranks of some rows, all in one dimension or each in its own."""

    rows: Array
    dimension: int | Array
    ranks: Array


def _by_event(count: int, written: list[_Ranks], texts: dict[int, dict[int, str]]) -> EncodedEvents:
    if not written:
        return EncodedEvents(np.zeros(count + 1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int32), texts)
    event = np.concatenate([part.rows for part in written])
    order = np.argsort(event, kind="stable")
    dimension = np.concatenate([np.broadcast_to(part.dimension, len(part.rows)) for part in written])
    ranks = np.concatenate([part.ranks for part in written])
    start = starts_of(np.bincount(event, minlength=count))
    return EncodedEvents(start, dimension[order].astype(np.int32), ranks[order].astype(np.int32), texts)


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

    def text(self, event: int, attribute: int) -> str | None:
        """Return an event's string, of an attribute that residues look at."""
        return self.texts.get(attribute, {}).get(event)

    def __len__(self) -> int:
        return len(self.start) - 1


def flatten(batch: pa.RecordBatch) -> Iterator[tuple[str, Any]]:
    """Yield the columns by attribute name: fields of structs by dotted names."""
    waiting = list(zip(batch.schema.names, batch.columns, strict=True))
    seen: set[str] = set()
    while waiting:
        name, column = waiting.pop()
        if pa.types.is_struct(column.type):
            fields = [column.type.field(at).name for at in range(column.type.num_fields)]
            waiting += ((f"{name}.{field}", pc.struct_field(column, at)) for at, field in enumerate(fields))
        elif not pa.types.is_nested(column.type) or is_list(column.type):
            if name in seen:
                raise InvalidEventError(f"{name}: the batch has this column twice")
            seen.add(name)
            yield name, column


_EXPECTED = "bool, int, float, string or timestamp, or a list of one of these"


def is_list(kind: Any) -> bool:
    """Whether a type of columns is one of lists."""
    types = pa.types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _list_kinds(name: str, column: Any) -> Array:
    """Return the kinds of the lists of a column without nulls, as `elements` numbers them."""
    owner, values = _elements(column)
    family = _family(name, values.type)
    has_some = np.zeros(len(column), bool)
    has_some[owner[np.asarray(_present(values))]] = True
    return np.where(has_some, 0 if family is None else 1 + FAMILIES.index(family), 0)


def _elements(column: Any) -> tuple[Array, Any]:
    """Return the rows and the values of the elements of a column; one that is no list has one in each row."""
    if not is_list(column.type):
        return np.arange(len(column)), column
    lengths = np.asarray(pc.fill_null(pc.list_value_length(column), 0))
    return np.repeat(np.arange(len(column)), lengths), column.flatten()


def _present(values: Any) -> Any:
    """Return which values of an array are neither null nor NaN."""
    if not pa.types.is_floating(values.type):
        return values.is_valid()
    return pc.invert(pc.fill_null(pc.is_nan(values), True))


def _keys(name: str, rows: Array, values: Any) -> tuple[Array, list[Key], Array]:
    """Return the rows of the values that are there, the keys of the distinct ones, and which of these each row has."""
    is_there = _present(values)
    values = values.filter(is_there)
    family = _family(name, values.type)
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if family is Family.TIME:
        values = pa.array(_microseconds(name, values))
    elif pa.types.is_integer(values.type):
        values = pa.array(_int64(name, values))
    distinct = values.dictionary_encode() if family is not None else pa.array([], pa.string()).dictionary_encode()
    keys = distinct.dictionary.to_pylist()
    if family in (Family.TIME, Family.BOOL):
        keys = [("time" if family is Family.TIME else "bool", int(key)) for key in keys]
    return rows[np.asarray(is_there)], keys, np.asarray(distinct.indices)


def _family(name: str, kind: Any) -> Family | None:
    """Return the family of a type of columns; None for that of nothing but nulls."""
    types = pa.types
    if types.is_null(kind):
        return None
    kind = kind.value_type if types.is_dictionary(kind) else kind
    if types.is_integer(kind) or types.is_floating(kind):
        return Family.NUMBER
    if _is_text(kind) or types.is_string_view(kind):
        return Family.STRING
    if types.is_boolean(kind):
        return Family.BOOL
    if types.is_timestamp(kind) or types.is_date(kind):
        return Family.TIME
    raise InvalidEventError(f"column {name!r} has elements of type {kind}; expected {_EXPECTED}")


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _from_dictionary(column: Any) -> tuple[Array, ByteTable, Array]:
    """Return the rows that are not missing, the distinct texts, and which of them each row has."""
    known = column.dictionary.is_valid()
    codes = column.indices
    present = np.asarray(codes.is_valid())
    codes = np.asarray(codes.fill_null(0)).astype(np.int64)
    if len(column.dictionary):
        present &= np.asarray(known)[codes]
    rows = np.flatnonzero(present)
    return rows, byte_table(column.dictionary.fill_null("")), codes[rows]


def _int64(name: str, column: Any) -> Array:
    try:
        return np.asarray(column.cast(pa.int64()))
    except pa.ArrowInvalid:
        raise InvalidEventError(f"column {name!r}: a value does not fit a 64-bit integer") from None


def _microseconds(name: str, column: Any) -> Array:
    if pa.types.is_timestamp(column.type) and column.type.tz is None:
        raise InvalidEventError(f"column {name!r}: timestamps have no time zone; expected UTC")
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        found: Array = np.asarray(column.cast(pa.int64())) // 1000  # finer digits of an event's time are cut
        return found
    return np.asarray(column.cast(pa.timestamp("us", "UTC")).cast(pa.int64()))


def byte_table(column: Any) -> ByteTable:
    """Return a string column without nulls as a byte table, sharing its memory where it can."""
    column = column.cast(pa.large_string())
    _, offsets, data = column.buffers()
    start = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
    return ByteTable(start, np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8))
