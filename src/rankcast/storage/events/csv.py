"""Events as CSV with a typed header: `id,city:string,rent:int,posted:time,furnished:bool,score:float`.

A column without a type has that of the envelope or of the schema, else string. A list (`skills:[string]`) has its
elements in one cell, with the separator between them that the schema declares, else a semicolon. An empty cell, quoted
or not, is a missing attribute. Quoting is that of RFC 4180. Records are gathered from byte lines, so that bad bytes or
a quote that is never closed cost one record: after an unclosed quote reading resumes on the next line. Cost: linear,
because a line that is looked at again opens no quote itself; the memory is one record's, at most MAX_LINE_BYTES.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import BinaryIO, NamedTuple, cast

from rankcast.model.errors import InvalidEventError, InvalidFileError, InvalidValueError, Problem, RankcastError, shown
from rankcast.model.events import Event
from rankcast.model.schema import ENVELOPE_TYPES, SEPARATOR, Schema
from rankcast.model.times import format_time, parse_time
from rankcast.model.values import INT_MAX, INT_MIN, Value, ValueType
from rankcast.storage.events.json_lines import excerpt, not_utf8
from rankcast.storage.events.rows import columns_of, event_of_row, row_of_event
from rankcast.storage.text_files import MAX_LINE_BYTES, FileLine, invalid_file

TYPES = ", ".join(kind.value for kind in ValueType)


class CsvColumn(NamedTuple):
    """A column of the header."""

    name: str
    type: ValueType
    read: Callable[[str], Value]
    separator: str | None = None
    """What separates the elements of a list, each of which `read` reads."""


class _Record(NamedTuple):
    """The bytes of one record and the line it starts on, or what is wrong with it."""

    line: int
    content: bytes
    wrong: str | None = None


_TO_CLOSING_QUOTE = re.compile(rb'(?:[^"]|"")*+"')


class _QuoteError(Exception):
    """Something other than a comma follows a closing quote."""


def _ends_inside_quotes(content: bytes, inside: bool) -> bool:
    """Whether a record goes on after this line, given whether the line starts inside a quoted cell."""
    content = content.rstrip(b"\r\n")
    position = 0
    while True:
        if inside:
            closing = _TO_CLOSING_QUOTE.match(content, position)
            if closing is None:
                return True
            position = closing.end()
            if position == len(content):
                return False
            if content[position : position + 1] != b",":
                raise _QuoteError
            position += 1
            inside = False
        if content[position : position + 1] == b'"':
            position += 1
            inside = True
        else:
            position = content.find(b",", position) + 1
            if position == 0:
                return False


def _records(lines: Iterable[FileLine]) -> Iterator[_Record]:
    waiting: deque[FileLine] = deque()  # lines to look at again after an unclosed quote
    source = iter(lines)
    while (line := waiting.popleft() if waiting else next(source, None)) is not None:
        if line.too_long:
            yield _Record(line.number, b"", f"the line is longer than {MAX_LINE_BYTES:,} bytes; skipped")
            continue
        record = _one_record(line, waiting, source)
        if record.content.strip(b"\r\n"):
            yield record


def _one_record(line: FileLine, waiting: deque[FileLine], source: Iterator[FileLine]) -> _Record:
    taken: list[FileLine] = [line]
    size, wrong = len(line.content), "the quoted cell that starts here is never closed"
    try:
        inside = b'"' in line.content and _ends_inside_quotes(line.content, inside=False)
        while inside:
            following = waiting.popleft() if waiting else next(source, None)
            if following is None:
                break
            taken.append(following)
            size += len(following.content)
            if following.too_long or size > MAX_LINE_BYTES:
                wrong = f"the quoted cell that starts here goes on for more than {MAX_LINE_BYTES:,} bytes"
                break
            inside = _ends_inside_quotes(following.content, inside=True)
        else:
            return _Record(line.number, b"".join(part.content for part in taken).rstrip(b"\r\n"))
    except _QuoteError:
        wrong = "a comma must follow a closing quote, and a quote inside quotes is written twice"
    waiting.extendleft(reversed(taken[1:]))
    return _Record(line.number, line.content.rstrip(b"\r\n"), wrong)


def events_of_csv(
    lines: Iterable[FileLine], file: str, source: str, schema: Schema | None
) -> Iterator[tuple[int, Event | Problem]]:
    """Return the event, or the problem, of each record; raise InvalidFileError when the header cannot be used."""
    records = _records(lines)
    header = next(records, None)
    if header is None:
        return
    columns = _columns(header, file, schema)
    for record in records:
        yield record.line, _event_of_record(record, columns, file, source)


def _event_of_record(record: _Record, columns: list[CsvColumn], file: str, source: str) -> Event | Problem:
    if record.wrong is not None:
        what = f"; the line is {excerpt(record.content)}" if record.content else ""
        return Problem(file, record.line, record.wrong + what)
    try:
        cells = _cells(record.content)
    except UnicodeDecodeError as error:
        return not_utf8(file, record.line, record.content, error)
    if len(cells) != len(columns):
        message = (
            f"{len(cells)} cells; expected {len(columns)}, as in the header; the line is {excerpt(record.content)}"
        )
        return Problem(file, record.line, message)
    try:
        row = {column.name: _value(column, cell) for column, cell in zip(columns, cells, strict=True) if cell}
        return event_of_row(row, source=source)
    except RankcastError as error:
        return Problem(file, record.line, str(error))


_CELL = re.compile(r'(?:"((?:[^"]|"")*+)"|([^,]*+))(,|\Z)')


def _cells(content: bytes) -> list[str]:
    text = content.decode("utf-8")
    if '"' not in text:
        return text.split(",")
    cells: list[str] = []
    for cell in _CELL.finditer(text):
        cells.append(cell[1].replace('""', '"') if cell[1] is not None else cell[2])
        if not cell[3]:
            break
    return cells


def _value(column: CsvColumn, cell: str) -> Value | list[Value]:
    try:
        if column.separator is not None:
            return [column.read(element) for element in cell.split(column.separator) if element]
        return column.read(cell)
    except InvalidValueError as error:
        raise InvalidEventError(f"{column.name}: {error}") from None


_INT = re.compile(r"[+-]?[0-9]{1,400}", re.ASCII)
_FLOAT = re.compile(r"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?", re.ASCII)
_INFINITIES = {"Infinity": float("inf"), "-Infinity": float("-inf")}


def _read_bool(cell: str) -> bool:
    found = {"true": True, "false": False}.get(cell.strip().lower())
    if found is None:
        raise InvalidValueError(f"{shown(cell)} is not a bool; expected true or false")
    return found


def _read_int(cell: str) -> int:
    text = cell.strip()
    if _INT.fullmatch(text) is None:
        raise InvalidValueError(f"{shown(cell)} is not a whole number")
    value = int(text)
    if not INT_MIN <= value <= INT_MAX:
        raise InvalidValueError(f"{shown(cell)} does not fit a 64-bit integer")
    return value


def _read_float(cell: str) -> float:
    text = cell.strip()
    if text in _INFINITIES:
        return _INFINITIES[text]
    if text.lower() == "nan":
        raise InvalidValueError(f"{shown(cell)} is not a number; leave the cell empty where there is none")
    if _FLOAT.fullmatch(text) is None:
        raise InvalidValueError(f"{shown(cell)} is not a number")
    value = float(text)
    if value in _INFINITIES.values():
        raise InvalidValueError(f"{shown(cell)} is outside the range of float64")
    return value


def _read_time(cell: str) -> Value:
    return parse_time(cell.strip())


_READERS: Mapping[ValueType, Callable[[str], Value]] = {
    ValueType.BOOL: _read_bool,
    ValueType.INT: _read_int,
    ValueType.FLOAT: _read_float,
    ValueType.STRING: str,
    ValueType.TIME: _read_time,
}


def _columns(header: _Record, file: str, schema: Schema | None) -> list[CsvColumn]:
    if header.wrong is not None:
        raise invalid_file(file, header.line, f"header: {header.wrong}")
    try:
        cells = _cells(header.content)
    except UnicodeDecodeError as error:
        raise InvalidFileError([not_utf8(file, header.line, header.content, error)]) from None
    if len(cells) == 1 and (other := next((mark for mark in ";\t|" if mark in cells[0]), None)):
        message = f"header: {shown(cells[0])} is one column with {other!r} in it; cells are separated by commas"
        raise invalid_file(file, header.line, message)
    columns: dict[str, CsvColumn] = {}
    for cell in cells:
        try:
            column = _column(cell.strip(), schema)
        except InvalidEventError as error:
            raise invalid_file(file, header.line, f"header: {error}") from None
        if column.name in columns:
            raise invalid_file(file, header.line, f"header: the column {shown(column.name)} occurs twice")
        columns[column.name] = column
    return list(columns.values())


def _column(cell: str, schema: Schema | None) -> CsvColumn:
    name, colon, kind = cell.rpartition(":")
    if not colon:
        name, kind = cell, _default_type(cell, schema).value
    if not name:
        raise InvalidEventError(f"{shown(cell)} is not a column; expected a name such as rent or rent:int")
    if kind not in [known.value for known in ValueType]:
        raise InvalidEventError(
            f"{shown(cell)} has the unknown type {shown(kind)}; expected one of {TYPES} "
            "(a name with a colon needs its type too, as in dc:title:string)"
        )
    declared = ValueType(kind)
    known = ENVELOPE_TYPES.get(name, declared)
    if known is not declared:
        raise InvalidEventError(f"{name!r} belongs to the envelope and is a {known.value}, not a {kind}")
    separator = None
    if declared.is_list:
        separator = SEPARATOR if schema is None else schema.separators.get(name, SEPARATOR)
    return CsvColumn(name, declared, _READERS[declared.element], separator)


def _default_type(name: str, schema: Schema | None) -> ValueType:
    declared = schema.attributes.get(name, ValueType.STRING) if schema is not None else ValueType.STRING
    return ENVELOPE_TYPES.get(name, declared)


def write_csv(stream: BinaryIO, events: Iterable[Event]) -> int:
    """Write events as CSV; return how many. Raises InvalidEventError for what a cell cannot hold."""
    rows = [row_of_event(event) for event in events]
    columns = columns_of(rows)
    if rows:
        _write_record(stream, [_title(name, kind) for name, kind in columns.items()])
    for row in rows:
        _write_record(stream, [_cell(name, row[name], kind) if name in row else "" for name, kind in columns.items()])
    return len(rows)


def _write_record(stream: BinaryIO, cells: Iterable[str]) -> None:
    stream.write((",".join(map(_quote, cells)) + "\n").encode("utf-8"))


_NEEDS_QUOTES = re.compile(r'[,"\r\n]')


def _quote(cell: str) -> str:
    return '"' + cell.replace('"', '""') + '"' if _NEEDS_QUOTES.search(cell) else cell


def _title(name: str, kind: ValueType) -> str:
    if name != name.strip():
        raise InvalidEventError(f"{shown(name)}: a name of a CSV column cannot start or end with a space")
    return name if name in ENVELOPE_TYPES else f"{name}:{kind.value}"


def _cell(name: str, value: Value | list[Value], kind: ValueType) -> str:
    if kind.is_list:
        cells = [_cell(name, element, kind.element) for element in cast(list[Value], value)]
        if not cells or any(SEPARATOR in cell for cell in cells):
            what = f"an element with {SEPARATOR!r} in it" if cells else "an empty list"
            raise InvalidEventError(f"{name}: {what} cannot be written in CSV; JSON lines can hold it")
        return SEPARATOR.join(cells)
    if value == "":
        raise InvalidEventError(f"{name}: an empty text cannot be told from a missing one in CSV; JSON lines can")
    if kind is ValueType.STRING:
        return str(value)
    if kind is ValueType.TIME:
        return format_time(value)  # type: ignore[arg-type]  # the column's type
    if kind is ValueType.FLOAT:
        number = float(value)  # type: ignore[arg-type]  # the column's type
        return next((text for text, infinite in _INFINITIES.items() if number == infinite), repr(number))
    return str(value).lower()
