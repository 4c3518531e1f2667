"""Arrow columns as plain arrays of one family, with the rows that are not missing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rankcast.arrays import Array
from rankcast.lazily import module
from rankcast.matching.encoding.byte_tables import ByteTable
from rankcast.matching.encoding.cuts import split_integers
from rankcast.model.errors import InvalidEventError

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
else:
    pa = module("pyarrow")
    pc = module("pyarrow.compute")


@dataclass(frozen=True, slots=True)
class FamilyColumn:
    """The present values of one column: exactly one of the four, or none when every row is null."""

    numbers: tuple[Array, Array, Array] | None = None
    """Rows, keys and rests; see `cuts`."""
    strings: tuple[Array, ByteTable, Array] | None = None
    """Rows, distinct texts, and which of them each row has."""
    bools: tuple[Array, Array] | None = None
    times: tuple[Array, Array] | None = None
    """Rows and microseconds."""


def flattened(batch: pa.RecordBatch) -> Iterator[tuple[str, Any]]:
    """Yield the columns by attribute name: fields of structs by dotted names."""
    waiting = list(zip(batch.schema.names, batch.columns, strict=True))
    seen: set[str] = set()
    while waiting:
        name, column = waiting.pop()
        if pa.types.is_struct(column.type):
            fields = [column.type.field(at).name for at in range(column.type.num_fields)]
            waiting += ((f"{name}.{field}", pc.struct_field(column, at)) for at, field in enumerate(fields))
        elif not pa.types.is_nested(column.type):
            if name in seen:
                raise InvalidEventError(f"{name}: the batch has this column twice")
            seen.add(name)
            yield name, column


def family_columns(name: str, column: Any) -> FamilyColumn:
    """Return a column's present values; raise InvalidEventError, naming it, when it has no type of rankcast."""
    kind = column.type
    if pa.types.is_null(kind):
        return FamilyColumn()
    if pa.types.is_dictionary(kind):
        return _from_dictionary(name, column)
    if column.null_count:
        rows = np.flatnonzero(np.asarray(column.is_valid()))
        column = column.drop_null()
    else:
        rows = np.arange(len(column))
    if pa.types.is_boolean(kind):
        return FamilyColumn(bools=(rows, np.asarray(column.cast(pa.int8()))))
    if pa.types.is_integer(kind):
        return FamilyColumn(numbers=(rows, *split_integers(_int64(name, column))))
    if pa.types.is_floating(kind):
        values = np.asarray(column.cast(pa.float64())) + 0.0
        present = ~np.isnan(values)
        if not present.all():
            rows, values = rows[present], values[present]
        return FamilyColumn(numbers=(rows, values, np.zeros(len(values), np.int16)))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return FamilyColumn(strings=(rows, byte_table(column), np.arange(len(rows))))
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return FamilyColumn(times=(rows, _microseconds(name, column)))
    raise InvalidEventError(f"column {name!r} has type {kind}; expected bool, int, float, string or timestamp")


def _from_dictionary(name: str, column: Any) -> FamilyColumn:
    if not (pa.types.is_string(column.type.value_type) or pa.types.is_large_string(column.type.value_type)):
        return family_columns(name, column.dictionary_decode())
    known = column.dictionary.is_valid()
    codes = column.indices
    present = np.asarray(codes.is_valid())
    codes = np.asarray(codes.fill_null(0)).astype(np.int64)
    if len(column.dictionary):
        present &= np.asarray(known)[codes]
    rows = np.flatnonzero(present)
    return FamilyColumn(strings=(rows, byte_table(column.dictionary.fill_null("")), codes[rows]))


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
