"""Events as Arrow columns: what a column of any type is as values, and Parquet files, a column for each attribute.

Columns become attributes by their Arrow type: bools, whole numbers, floats, strings (dictionary-encoded too), dates and
timestamps (without a zone they are UTC; finer digits than microseconds are cut); decimals become whole numbers when
they have no fraction digits, else the nearest floats; structs become nested attributes; lists of any of these values
become lists. A column of any other type is reported once and left out. A value that cannot be one of
ours (a time after the year 9999, bytes that are not UTF-8) makes its row a problem.

Values are converted and checked by column. Only where something is wrong, or where a type has no direct counterpart,
rows are looked at one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from rankcast.arrays import Array, starts_of
from rankcast.lazily import module
from rankcast.model.errors import Problem, RankcastError, shown
from rankcast.model.events import Event
from rankcast.model.times import EPOCH, FIRST_INSTANT, LAST_INSTANT, TICK
from rankcast.model.values import INT_MAX, INT_MIN, ValueType
from rankcast.storage.events.rows import columns_of, event_of_row, row_of_event
from rankcast.storage.text_files import invalid_file, unreadable

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
else:
    pa = module("pyarrow")
    pc = module("pyarrow.compute")
    pq = module("pyarrow.parquet")

BATCH_ROWS = 4_096
"""Rows held as Python objects at a time."""

_BASIC = ("null", "boolean", "integer", "floating", "string", "large_string", "string_view")
_CONVERTIBLE = ("timestamp", "date", "decimal")
_LISTS = ("list", "large_list", "fixed_size_list")
"""Types of Arrow, as the functions of `pyarrow.types` that recognise them are called."""

_MICROSECONDS = {"s": 1_000_000, "ms": 1_000, "us": 1, "ns": 1}
"""In a tick of a timestamp; those of nanoseconds are cut to microseconds first."""


_ALIASES = {ValueType.INT: "int64", ValueType.FLOAT: "float64"}


def arrow_type(kind: ValueType) -> pa.DataType:
    """Return the type of a column of values."""
    if kind.is_list:
        return pa.list_(arrow_type(kind.element))
    return pa.timestamp("us", "UTC") if kind is ValueType.TIME else pa.type_for_alias(_ALIASES.get(kind, kind.value))


class RowProblems:
    """What is wrong with the rows of a batch: the first thing found of each."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self.reasons: dict[int, str] = {}

    @property
    def good(self) -> Array:
        """The rows in which nothing is wrong."""
        bad = np.zeros(self._rows, bool)
        bad[list(self.reasons)] = True
        return np.flatnonzero(~bad)

    def add(self, row: int, reason: str) -> None:
        """Note what is wrong with a row."""
        self.reasons.setdefault(row, reason)

    def note(self, rows: Array, reason: str) -> None:
        """Note what is wrong with some rows."""
        for row in np.flatnonzero(rows).tolist():
            self.add(row, reason)


def plain_column(name: str, column: Any, problems: RowProblems) -> Any:
    """Return a column with values of rankcast's types; note the rows whose value cannot be one."""
    kind = column.type
    if is_text(kind):
        return _utf8(name, column, problems)
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return _times(name, column, problems)
    if is_list(kind):
        return _plain_lists(name, column, problems)
    return _from_decimal(name, column, problems) if pa.types.is_decimal(kind) else column


def is_list(kind: pa.DataType) -> bool:
    """Whether a column of this type has lists."""
    return _is_any(kind, _LISTS)


def _plain_lists(name: str, column: Any, problems: RowProblems) -> Any:
    lengths = np.asarray(pc.list_value_length(column).fill_null(0)).astype(np.int64)
    found = RowProblems(int(lengths.sum()))
    elements = column.flatten()
    elements = elements.dictionary_decode() if pa.types.is_dictionary(elements.type) else elements
    plain = plain_column(name, elements, found)
    owner = np.repeat(np.arange(len(column)), lengths)
    for at, reason in found.reasons.items():
        problems.add(int(owner[at]), reason)
    return pa.LargeListArray.from_arrays(starts_of(lengths), plain, mask=column.is_null())


def is_text(kind: pa.DataType) -> bool:
    """Whether a column of this type has texts."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _utf8(name: str, column: Any, problems: RowProblems) -> Any:
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        for row, value in enumerate(column):
            _cell(name, row, value, problems)
    return column


def _cell(name: str, row: int, value: Any, problems: RowProblems) -> Any:
    """Return a value that may hold texts: one that is not UTF-8 costs one row."""
    try:
        return value.as_py()
    except UnicodeDecodeError as error:
        problems.add(row, f"{name}: not UTF-8: byte 0x{error.object[error.start]:02x} at offset {error.start}")
        return None


def _times(name: str, column: Any, problems: RowProblems) -> Any:
    """Count from the epoch in whole numbers: Arrow's own conversion fails a whole column for one odd value."""
    kind, wanted = column.type, arrow_type(ValueType.TIME)
    in_days = pa.types.is_date32(kind)
    ticks = np.asarray(column.cast(pa.int32() if in_days else pa.int64()).fill_null(0)).astype(np.int64)
    factor = 86_400_000_000 if in_days else _MICROSECONDS["ms" if pa.types.is_date(kind) else kind.unit]
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        ticks //= 1_000
    beyond = (ticks < FIRST_INSTANT // factor) | (ticks > LAST_INSTANT // factor)
    problems.note(beyond, f"{name}: a time outside the years 1 to 9999")
    if kind == wanted and not beyond.any():
        return column
    return pa.array(np.where(beyond, 0, ticks) * factor, mask=np.asarray(column.is_null())).cast(wanted)


def _from_decimal(name: str, column: Any, problems: RowProblems) -> Any:
    """Return whole numbers where there are no fraction digits, else the nearest floats."""
    if column.type.scale > 0:
        return floats_of(column)
    values: list[Decimal | None] = column.to_pylist()
    fits = [value is None or INT_MIN <= value <= INT_MAX for value in values]
    for row in np.flatnonzero(~np.array(fits, bool)).tolist():
        problems.add(row, f"{name}: {values[row]} does not fit a 64-bit integer")
    pairs = zip(values, fits, strict=True)
    return pa.array([int(value) if fit and value is not None else None for value, fit in pairs])


def floats_of(decimals: Any) -> Any:
    """Return the nearest floats: Python rounds once; Arrow's own cast multiplies by a power of ten that is rounded."""
    return pa.array([None if value is None else float(value) for value in decimals.to_pylist()], pa.float64())


def python_values(column: Any) -> list[Any]:
    """Return the values of a plain column as Python's."""
    if is_list(column.type):
        elements, lengths = python_values(column.flatten()), pc.list_value_length(column).to_pylist()
        ends = np.cumsum([length or 0 for length in lengths]).tolist()
        return [
            None if length is None else elements[end - length : end] for length, end in zip(lengths, ends, strict=True)
        ]
    if pa.types.is_timestamp(column.type):
        return [None if tick is None else EPOCH + tick * TICK for tick in column.cast(pa.int64()).to_pylist()]
    return list(column.to_pylist())


def cell_values(name: str, column: Any, problems: RowProblems) -> list[Any]:
    """Return the values of any column as Python's; note the rows whose value cannot be one.

    A struct is a mapping; a null one has only missing attributes, so it is an empty mapping.
    """
    if pa.types.is_dictionary(column.type):
        return cell_values(name, column.dictionary_decode(), problems)
    if pa.types.is_struct(column.type):
        inner = zip(column.type, column.flatten(), strict=True)
        parts = {
            field.name: cell_values(f"{name}.{field.name}", part, problems)
            for field, part in inner
            if pa.types.is_struct(field.type) or not _unsupported(field.type, "")
        }
        present = enumerate(column.is_valid().to_pylist())
        return [{own: part[at] for own, part in parts.items()} if is_there else {} for at, is_there in present]
    plain = plain_column(name, column, problems)
    try:
        return python_values(plain)
    except UnicodeDecodeError:
        return [_cell(name, row, value, problems) for row, value in enumerate(plain)]


def events_of_parquet(path: Path, source: str) -> Iterator[tuple[int, Event | Problem]]:
    """Return the event, or the problem, of each row; raise InvalidFileError for a file that is not Parquet."""
    file = str(path)
    try:
        parquet = pq.ParquetFile(path)
        schema = parquet.schema_arrow
    except OSError as error:
        raise unreadable(path, error) from None
    except pa.ArrowException as error:
        raise invalid_file(file, None, f"not a Parquet file: {_first_line(error)}") from None
    except UnicodeDecodeError:
        raise invalid_file(file, None, "not a Parquet file: the name of a column is not UTF-8") from None
    row_number = 0
    with parquet:
        usable, problems = _usable_columns(schema, file)
        for problem in problems:
            yield 0, problem
        try:
            for batch in parquet.iter_batches(BATCH_ROWS, columns=usable):
                problems_of_rows = RowProblems(len(batch))
                columns = {
                    name: cell_values(name, column, problems_of_rows)
                    for name, column in zip(batch.schema.names, batch.columns, strict=True)
                }
                for at in range(len(batch)):
                    row_number += 1
                    row = {name: values[at] for name, values in columns.items()}
                    wrong = problems_of_rows.reasons.get(at)
                    yield row_number, _event_of_row(row, wrong, row_number, file, source)
        except (pa.ArrowException, OSError) as error:
            yield row_number, Problem(file, row_number + 1, f"the rest cannot be read: {_first_line(error)}")


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _usable_columns(schema: pa.Schema, file: str) -> tuple[list[str], list[Problem]]:
    usable: list[str] = []
    problems: list[Problem] = []
    for field in schema:
        if schema.names.count(field.name) > 1:
            raise invalid_file(file, None, f"the column {shown(field.name)} occurs twice")
        unsupported = _unsupported(field.type, field.name)
        problems += [
            Problem(file, None, f"column {shown(name)} of type {kind} is left out: not a type of value", warning=True)
            for name, kind in unsupported
        ]
        if not any(name == field.name for name, _ in unsupported):
            usable.append(field.name)
    return usable, problems


def _unsupported(kind: pa.DataType, name: str) -> list[tuple[str, pa.DataType]]:
    """Return the columns, nested ones too, that cannot be used, by name and type."""
    if pa.types.is_struct(kind):
        return [found for inner in kind for found in _unsupported(inner.type, f"{name}.{inner.name}")]
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    element = kind.value_type if _is_any(kind, _LISTS) else kind
    if pa.types.is_dictionary(element):
        element = element.value_type
    return [] if _is_any(element, (*_BASIC, *_CONVERTIBLE)) else [(name, kind)]


def _is_any(kind: pa.DataType, names: Iterable[str]) -> bool:
    return any(getattr(pa.types, f"is_{name}")(kind) for name in names)


def _event_of_row(row: dict[str, Any], wrong: str | None, number: int, file: str, source: str) -> Event | Problem:
    try:
        return Problem(file, number, wrong) if wrong else event_of_row(row, source=source)
    except RankcastError as error:
        return Problem(file, number, str(error))


def write_parquet(stream: BinaryIO, events: Iterable[Event]) -> int:
    """Write events as Parquet; return how many. Raises InvalidEventError for what a column cannot hold."""
    rows = [row_of_event(event) for event in events]
    columns = columns_of(rows)
    arrays = [pa.array([row.get(name) for row in rows], arrow_type(declared)) for name, declared in columns.items()]
    pq.write_table(pa.table(arrays, names=list(columns)), stream)
    return len(rows)
