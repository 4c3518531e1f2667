"""Columns of Spark's batches as values (`rankcast.storage.events.arrow`), and what events in columns need beside that.

Rows that are no events: set aside with the reason and the original, counted, never lost and never fatal.

A source marks a row that it could not read by two columns beside those of the event: REASON says what is wrong and
ORIGINAL is the row as it came. Both are null in a good row. The events stage moves marked rows, and rows whose values
cannot be an event's, to the rejected output, whose columns are those of REJECTED_SCHEMA.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StringType, StructField, StructType

from rankcast.arrays import Array
from rankcast.delivery.engine.contents import LIST, value_code
from rankcast.model.errors import InvalidEventError, InvalidValueError
from rankcast.model.schema import ENVELOPE_TYPES, Schema
from rankcast.model.times import EPOCH, NEVER, TICK, microseconds, parse_time
from rankcast.model.values import AttributeValue, ValueType, checked_attribute
from rankcast.storage.events.arrow import RowProblems, arrow_type, floats_of, is_list, is_text, python_values

TIME = arrow_type(ValueType.TIME)


class RejectedRow(NamedTuple):
    """A row that is no event: why, and what it was."""

    reason: str
    original: str


class BatchProblems(RowProblems):
    """What is wrong with the rows of a batch, those that the source has marked included."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        super().__init__(len(batch))
        self._batch = batch
        names = batch.schema.names
        marked = np.flatnonzero(np.asarray(batch.column(REASON).is_valid())).tolist() if REASON in names else []
        self.reasons.update({row: batch.column(REASON)[row].as_py() for row in marked})
        self._originals = {row: batch.column(ORIGINAL)[row].as_py() for row in marked} if ORIGINAL in names else {}

    def rejected(self) -> list[RejectedRow]:
        """Return the rows that are no events, in their order."""
        return [
            RejectedRow(reason, self._originals.get(row) or _original(self._batch, row))
            for row, reason in sorted(self.reasons.items())
        ]


def _original(batch: pa.RecordBatch, row: int) -> str:
    names = [name for name in batch.schema.names if not name.startswith("rankcast_")]
    return json.dumps({name: _shown_cell(batch.column(name)[row]) for name in names}, ensure_ascii=False, default=str)


def _shown_cell(cell: Any) -> Any:
    try:
        return cell.as_py()
    except (UnicodeDecodeError, OverflowError, ValueError):  # bytes that are no text, a time that Python cannot hold
        return str(cell.cast(pa.int64())) if pa.types.is_timestamp(cell.type) else cell.as_buffer().to_pybytes().hex()


def column_at(batch: pa.RecordBatch, path: tuple[str, ...]) -> Any:
    """Return a column, or a field within it; null where the struct around it is."""
    column = batch.column(path[0])
    for name in path[1:]:
        column = pc.struct_field(column, column.type.get_field_index(name))
    return column


def is_missing(column: Any, rows: int) -> Array:
    """Return which rows have no value: null, NaN, or no such column at all."""
    if column is None:
        return np.ones(rows, bool)
    missing: Array = np.asarray(column.is_null(nan_is_null=True))
    return missing


def is_equal(column: Any, text: str) -> Array:
    """Return which rows have this text."""
    return np.asarray(pc.equal(column, text).fill_null(False))


def as_text(column: Any) -> Any:
    """Return whole numbers as texts."""
    return column.cast(pa.string()) if pa.types.is_integer(column.type) or pa.types.is_null(column.type) else column


def as_times(name: str, column: Any, problems: RowProblems) -> Any:
    """Return a column of times, which may be written as texts."""
    if pa.types.is_null(column.type):
        return column.cast(TIME)
    if not is_text(column.type):
        return column
    found: list[int | None] = []
    for row, text in enumerate(column.cast(pa.large_binary()).to_pylist()):
        try:
            found.append(None if text is None else microseconds(parse_time(text.decode("utf-8", "replace"))))
        except InvalidValueError as error:
            problems.add(row, f"{name}: {error}")
            found.append(0)
    return pa.array(found, pa.int64()).cast(TIME)


def conformed_column(name: str, column: Any, schema: Schema | None, problems: RowProblems) -> Any:
    """Return a column in its declared type; note the rows that cannot be."""
    declared = None if schema is None else schema.attributes.get(name)
    if declared is None or is_declared(column, declared):
        return column
    alone = Schema({name: declared})
    found: list[AttributeValue | None] = []
    for row, value in enumerate(python_values(column)):
        try:
            held = checked_attribute(value, name)
            found.append(None if held is None else alone.conformed({name: held})[name])
        except (InvalidEventError, InvalidValueError) as error:
            problems.add(row, str(error))
            found.append(None)
    return pa.array(found, arrow_type(declared))


_IS_OF: Mapping[ValueType, Callable[[pa.DataType], bool]] = {
    ValueType.BOOL: pa.types.is_boolean,
    ValueType.INT: pa.types.is_integer,
    ValueType.FLOAT: pa.types.is_floating,
    ValueType.STRING: is_text,
    ValueType.TIME: pa.types.is_timestamp,
}


def is_declared(column: Any, declared: ValueType) -> bool:
    """Whether all values of a column are of a declared type."""
    if pa.types.is_null(column.type):
        return True
    if is_list(column.type) != declared.is_list:
        return False
    kind = column.type.value_type if declared.is_list else column.type
    return bool(pa.types.is_null(kind) or _IS_OF[declared.element](kind))


def payload_key(name: str) -> str:
    """Return what a payload calls an attribute that filters know by a name: `data.type` is the payload's own `type`."""
    inner = name.removeprefix("data.")
    return inner if inner.partition(".")[0] in ENVELOPE_TYPES else name


def as_microseconds(column: Any) -> Array:
    """Return a column of times, NEVER where there is none."""
    return np.asarray(column.cast(TIME).cast(pa.int64()).fill_null(NEVER))


def as_datetime(micros: int) -> Any:
    """Return a time; None for NEVER."""
    return None if micros == NEVER else EPOCH + micros * TICK


def is_number(kind: Any) -> bool:
    """Whether a plain column of this type has numbers."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def as_number(value: AttributeValue | None) -> float:
    """Return a number as a float, NaN for what is none."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else np.nan


def vector_elements(column: Any) -> tuple[Array, Array]:
    """Return the starts and elements of a column of lists; a null list is empty, a null element NaN."""
    sizes = np.asarray(pc.list_value_length(column).fill_null(0)).astype(np.int64)
    flat = pc.list_flatten(column)
    if pa.types.is_decimal(flat.type):
        flat = floats_of(flat)
    elements = np.asarray(flat.cast(pa.float64(), safe=False).fill_null(np.nan))
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes))), elements


def value_codes(column: Any) -> Array:
    """Return the code of each value, 0 where there is none; each distinct value is coded once."""
    encoded = column.dictionary_encode()
    distinct = python_values(encoded.dictionary)
    codes = np.array([0 if value is None or value != value else value_code(value) for value in distinct])
    found = np.zeros(len(column), np.int64)
    present = np.asarray(encoded.indices.is_valid())
    found[present] = codes[np.asarray(encoded.indices.fill_null(0))[present]]
    return found


def element_codes(column: Any) -> tuple[Array, Array]:
    """Return the rows and codes of what a column holds: one of each value, those of each list."""
    if not is_list(column.type):
        codes = value_codes(column)
        return np.flatnonzero(codes), codes[codes != 0]
    rows = np.flatnonzero(np.asarray(column.is_valid()))
    owner = np.repeat(rows, np.asarray(pc.list_value_length(column).drop_null()))
    codes = value_codes(column.flatten())
    rows = np.concatenate((rows, owner[codes != 0]))
    return rows, np.concatenate((np.full(len(rows) - np.count_nonzero(codes), LIST), codes[codes != 0]))


REASON = "rankcast_reason"
"""What is wrong with a row; null in a good one."""

ORIGINAL = "rankcast_original"
"""The row as its source had it: a line of text, or JSON."""

REJECTED_SCHEMA = StructType([StructField(name, StringType()) for name in RejectedRow._fields])
"""The columns of the rejected output."""
