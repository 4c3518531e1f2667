"""Events as Parquet: one column per attribute, read batch by batch.

Columns become attributes by their Arrow type: bools, whole numbers, floats, strings (dictionary-encoded too), dates and
timestamps (without a zone they are UTC; finer digits than microseconds are cut); decimals become whole numbers when
they have no fraction digits, else the nearest floats; structs become nested attributes; lists of bools, numbers and
strings are kept in the payload. A column of any other type is reported once and left out. A value that cannot be one of
ours (a time after the year 9999, bytes that are not UTF-8) makes its row a problem.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from rankcast.lazily import module
from rankcast.model.errors import InvalidEventError, Problem, RankcastError, shown
from rankcast.model.events import Event
from rankcast.model.times import EPOCH
from rankcast.model.values import ValueType
from rankcast.storage.events.rows import columns_of, event_of_row, row_of_event
from rankcast.storage.text_files import invalid_file, unreadable

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq
else:
    pa = module("pyarrow")
    pq = module("pyarrow.parquet")

BATCH_ROWS = 4_096
"""Rows held as Python objects at a time."""

_BASIC = ("null", "boolean", "integer", "floating", "string", "large_string", "string_view")
_CONVERTIBLE = ("timestamp", "date", "decimal")
_LISTS = ("list", "large_list", "fixed_size_list")
"""Types of Arrow, as the functions of `pyarrow.types` that recognise them are called."""

_TICKS_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


class _Unusable(NamedTuple):
    """Stands for a value that cannot be an event's."""

    message: str


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
                for row in _rows(batch):
                    row_number += 1
                    yield row_number, _event_of_row(row, row_number, file, source)
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
    is_usable = _is_any(kind, (*_BASIC, *_CONVERTIBLE)) or _is_list_of_basic(kind)
    return [] if is_usable else [(name, kind)]


def _is_list_of_basic(kind: pa.DataType) -> bool:
    return _is_any(kind, _LISTS) and (_is_any(kind.value_type, _BASIC) or _is_list_of_basic(kind.value_type))


def _is_any(kind: pa.DataType, names: Iterable[str]) -> bool:
    return any(getattr(pa.types, f"is_{name}")(kind) for name in names)


def _rows(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    names = batch.schema.names
    columns = [_values(column) for column in batch.columns]
    if not columns:
        return iter([{} for _ in range(batch.num_rows)])
    return (dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True))


def _values(array: pa.Array) -> list[Any]:
    """Return the values of a column as Python objects; what cannot be one is an _Unusable."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return _values(array.dictionary_decode())
    if pa.types.is_struct(kind):
        return _struct_values(array)
    if pa.types.is_timestamp(kind):
        ticks = array.cast(pa.int64()).to_pylist()
        return [None if tick is None else _time(tick, _TICKS_PER_SECOND[kind.unit]) for tick in ticks]
    if pa.types.is_date(kind):
        per_second = (1, 86_400) if pa.types.is_date32(kind) else (1_000, 1)
        days = array.cast(pa.int32() if pa.types.is_date32(kind) else pa.int64()).to_pylist()
        return [None if day is None else _time(day * per_second[1], per_second[0]) for day in days]
    if pa.types.is_decimal(kind):
        convert = int if kind.scale <= 0 else float
        return [None if value is None else convert(value) for value in array.to_pylist()]
    return _texts(array)


def _struct_values(array: pa.StructArray) -> list[Any]:
    """Return one mapping per row; a null struct has only missing attributes, so it is an empty mapping."""
    fields = [field for field in array.type if pa.types.is_struct(field.type) or not _unsupported(field.type, "")]
    parts = [array.field(field.name) for field in fields]
    present = array.is_valid().to_pylist()
    columns = [_values(part) for part in parts]
    names = [field.name for field in fields]
    return [
        {name: column[at] for name, column in zip(names, columns, strict=True)} if is_there else {}
        for at, is_there in enumerate(present)
    ]


def _time(tick: int, per_second: int) -> datetime | _Unusable:
    """Count from the epoch in whole numbers: Arrow's own conversion fails a whole column for one odd value."""
    try:
        return EPOCH + timedelta(microseconds=tick * 1_000_000 // per_second)
    except OverflowError:
        return _Unusable("a time outside the years 1 to 9999")


def _texts(array: pa.Array) -> list[Any]:
    """Return what may hold texts: one that is not UTF-8, which fails a whole column, costs one row."""
    try:
        return list(array.to_pylist())
    except UnicodeDecodeError:
        return [_text(value) for value in array]


def _text(value: pa.Scalar) -> Any:
    try:
        return value.as_py()
    except UnicodeDecodeError as error:
        return _Unusable(f"not UTF-8: byte 0x{error.object[error.start]:02x} at offset {error.start}")


def _event_of_row(row: dict[str, Any], number: int, file: str, source: str) -> Event | Problem:
    try:
        _check_usable(row, "")
        return event_of_row(row, id=str(number), source=source)
    except RankcastError as error:
        return Problem(file, number, str(error))


def _check_usable(row: dict[str, Any], prefix: str) -> None:
    for name, value in row.items():
        if isinstance(value, _Unusable):
            raise InvalidEventError(f"{prefix}{name}: {value.message}")
        if isinstance(value, dict):
            _check_usable(value, f"{prefix}{name}.")


def _arrow_type(declared: ValueType) -> pa.DataType:
    match declared:
        case ValueType.BOOL:
            return pa.bool_()
        case ValueType.INT:
            return pa.int64()
        case ValueType.FLOAT:
            return pa.float64()
        case ValueType.STRING:
            return pa.string()
    return pa.timestamp("us", "UTC")


def write_parquet(stream: BinaryIO, events: Iterable[Event]) -> int:
    """Write events as Parquet; return how many. Raises InvalidEventError for what a column cannot hold."""
    rows = [row_of_event(event) for event in events]
    columns = columns_of(rows)
    arrays = [pa.array([row.get(name) for row in rows], _arrow_type(declared)) for name, declared in columns.items()]
    pq.write_table(pa.table(arrays, names=list(columns)), stream)
    return len(rows)
