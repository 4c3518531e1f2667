"""Subscriber tables: subscribers that change while a stream runs, as rows that say from when on they hold.

    table = FolderTable("subscribers/")                           # Parquet files and JSON lines
    table = DataFrameTable("crm", lambda: spark.read.jdbc(...))   # anything that Spark reads

What a row has is told in `subscriber_rows`. A table is polled: `poll` returns its rows, or None as long as nothing has
changed. A folder is known by the names, sizes and times of its files, so that polling costs one listing; files must
come whole, by a rename, as `append_subscribers`, Spark and most tools do it. Names that start with a dot or an
underscore are left out. Anything else is known by its content, which is read each time.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from rankcast.model.errors import InvalidFileError, Problem
from rankcast.model.subscriptions import Subscriber, SubscriberId
from rankcast.model.times import format_time
from rankcast.spark.subscribers.rows import (
    ACTIVE_FROM,
    ACTIVE_UNTIL,
    DOCUMENT,
    SEQUENCE,
    TableRow,
    canonical,
)
from rankcast.storage.documents import DocumentFormat, parse_document
from rankcast.storage.subscribers.files import subscribers_to_document
from rankcast.storage.text_files import DamagedError, decoded, invalid_file, open_bytes, read_lines, unreadable
from rankcast.storage.writing import replacing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PARQUET, LINES = (".parquet",), (".jsonl", ".ndjson", ".json")
"""Suffixes of the files that a folder is read from."""


class TableContent(NamedTuple):
    """The rows of a table, what was wrong with whole files of it, and the mark by which this content is known."""

    mark: str
    rows: list[TableRow]
    problems: tuple[Problem, ...] = ()


class SubscriberTable(Protocol):
    """Where rows come from."""

    @property
    def name(self) -> str:
        """What messages call the table."""

    def poll(self, known: str | None) -> TableContent | None:
        """Return the content; None when it is still the one with the mark `known`."""


class FolderTable:
    """The files of a folder: Parquet and JSON lines, one object per line."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    @property
    def name(self) -> str:
        """The path."""
        return str(self.path)

    def poll(self, known: str | None) -> TableContent | None:
        """Return the rows of all files; a file that cannot be read at all is a problem."""
        files = self._files()
        mark = _mark(f"{file.name}\0{status.st_size}\0{status.st_mtime_ns}\0{status.st_ino}" for file, status in files)
        if mark == known:
            return None
        rows: list[TableRow] = []
        problems: list[Problem] = []
        for file, _ in files:
            try:
                rows += _rows_of_parquet(file) if file.suffix in PARQUET else _rows_of_lines(file, problems)
            except InvalidFileError as error:
                problems += error.problems
        return TableContent(mark, rows, tuple(problems))

    def _files(self) -> list[tuple[Path, os.stat_result]]:
        try:
            entries = sorted(self.path.iterdir())
            found = [(entry, entry.stat()) for entry in entries if not entry.name.startswith((".", "_"))]
        except OSError as error:
            raise unreadable(self.path, error) from None
        return [(file, status) for file, status in found if file.suffix in (*PARQUET, *LINES)]


class DataFrameTable:
    """Whatever a function returns as a DataFrame: a database through JDBC, a catalogue's table, a query."""

    def __init__(self, name: str, read: Callable[[], DataFrame]) -> None:
        self._name = name
        self._read = read

    @property
    def name(self) -> str:
        """The name that was given."""
        return self._name

    def poll(self, known: str | None) -> TableContent | None:
        """Read the table; its mark is that of its rows, whatever their order."""
        rows = [TableRow(self._name, at, row) for at, row in enumerate(_plain_rows(self._read().toArrow()), start=1)]
        mark = _mark(sorted(json.dumps(row.values, sort_keys=True, default=str) for row in rows))
        return None if mark == known else TableContent(mark, rows)


def _mark(parts: Iterable[str]) -> str:
    found = hashlib.sha256()
    for part in parts:
        found.update(part.encode("utf-8", "surrogateescape") + b"\n")
    return found.hexdigest()


def _rows_of_parquet(path: Path) -> list[TableRow]:
    try:
        table = pq.read_table(path, partitioning=None)
    except (OSError, pa.ArrowException) as error:
        raise invalid_file(str(path), None, f"cannot be read as Parquet: {str(error).partition(chr(10))[0]}") from None
    return [TableRow(str(path), at, row) for at, row in enumerate(_plain_rows(table), start=1)]


def _plain_rows(table: pa.Table) -> Iterator[Mapping[str, Any]]:
    """Return rows as plain data; times without a zone are UTC, and digits finer than microseconds are cut."""
    for at, column in enumerate(table.schema):
        if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
            cut = table.column(at).cast(pa.timestamp("us", getattr(column.type, "tz", None)), safe=False)
            table = table.set_column(at, column.name, cut.cast(pa.timestamp("us")))
    for batch in table.to_batches():
        for row in batch.to_pylist(maps_as_pydicts="strict"):
            yield {name: _in_utc(value) for name, value in row.items()}


def _in_utc(value: Any) -> Any:
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) else value


def _rows_of_lines(path: Path, problems: list[Problem]) -> Iterator[TableRow]:
    file = str(path)
    try:
        with open_bytes(path) as stream:
            for line in read_lines(stream, file):
                try:
                    row = _object_of(line.content, file)
                except InvalidFileError as error:
                    problems += (Problem(file, line.number, problem.message) for problem in error.problems)
                    continue
                if row is not None:
                    yield TableRow(file, line.number, row)
    except OSError as error:
        raise unreadable(path, error) from None
    except DamagedError as error:
        raise invalid_file(file, None, str(error)) from None


def _object_of(line: bytes, file: str) -> dict[str, Any] | None:
    text = decoded(line, file).strip()
    if not text:
        return None
    value = parse_document(text, DocumentFormat.JSON, file).value
    if not isinstance(value, dict):
        raise invalid_file(file, None, "is not a JSON object; expected one row of a subscriber table")
    return value


def append_subscribers(
    folder: str | os.PathLike[str],
    subscribers: Iterable[Subscriber] = (),
    *,
    gone: Iterable[str] = (),
    active_from: datetime | None = None,
    active_until: datetime | None = None,
) -> Path:
    """Add a file of JSON lines to a folder: these subscribers as they are, and those who are gone, from a time on.

    The file's number is the sequence of its rows, so what is appended later counts. Without `active_from` it holds as
    soon as a stream sees it. Returns the file.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    documents: dict[str, Any] = {entry["id"]: entry for entry in subscribers_to_document(subscribers)["subscribers"]}
    documents.update((SubscriberId(name), None) for name in gone)
    bounds = {
        name: format_time(time)
        for name, time in ((ACTIVE_FROM, active_from), (ACTIVE_UNTIL, active_until))
        if time is not None
    }
    while True:
        number = 1 + max((_number(file.name) for file in folder.iterdir()), default=0)
        target = folder / f"{number:08d}.jsonl"
        lines = (
            canonical({"id": name, DOCUMENT: document, **bounds, SEQUENCE: number})
            for name, document in documents.items()
        )
        if _created(target, "".join(f"{line}\n" for line in lines)):
            return target


def _number(name: str) -> int:
    stem = name.partition(".")[0]
    return int(stem) if stem.isascii() and stem.isdigit() else 0


def _created(target: Path, text: str) -> bool:
    """Make a file that must not exist yet, whole; return whether nobody else was quicker."""
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    with replacing(temporary) as stream:
        stream.write(text.encode("utf-8"))
    try:
        os.link(temporary, target)
    except FileExistsError:
        return False
    finally:
        temporary.unlink(missing_ok=True)
    return True
