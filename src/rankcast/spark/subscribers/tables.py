"""Subscriber tables: subscribers that change while a stream runs, as rows that say from when on they hold.

    table = FolderTable("subscribers/")                           # Parquet files and JSON lines
    table = DataFrameTable("crm", lambda: spark.read.jdbc(...))   # anything that Spark reads

A row has the `id` of a subscriber and either its `document` (JSON, as in a subscriber file) or the same in columns
(`subscriptions`, `deliver`, ...). `active_from` and `active_until` say, in event time, when it holds; null is always.
`sequence`, a whole number, says which row counts where several hold: the highest. A row with neither a document nor
subscriptions says that the subscriber is not there.

A table is polled: `poll` returns its rows, or None as long as nothing has changed. A folder is known by the names,
sizes and times of its files, so that polling costs one listing; files must come whole, by a rename, as
`append_subscribers`, Spark and most tools do it. Names that start with a dot or an underscore are left out. Anything
else is known by its content, which is read each time.

Rows are read strictly: one in which anything is wrong is named with its file, its number, the value and what was
expected. Texts that were read before are not read again: of a table that changes here and there, only what changed
costs anything.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from rankcast.model.errors import InvalidFileError, InvalidSubscriptionError, InvalidValueError, Problem, shown
from rankcast.model.schema import Schema
from rankcast.model.subscriptions import Subscriber, SubscriberId, check_id
from rankcast.model.times import EXPECTED_TIME, NEVER, format_time, microseconds, parse_time
from rankcast.model.values import checked_value
from rankcast.spark.subscribers.timelines import ALWAYS, Revision, Timeline, moment, timeline_of
from rankcast.storage.documents import DocumentFormat, parse_document
from rankcast.storage.subscribers.files import (
    VERSION,
    SubscriberFile,
    subscribers_from_document,
    subscribers_to_document,
)
from rankcast.storage.text_files import DamagedError, decoded, invalid_file, open_bytes, read_lines, unreadable
from rankcast.storage.writing import create

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DOCUMENT, ACTIVE_FROM, ACTIVE_UNTIL, SEQUENCE = "document", "active_from", "active_until", "sequence"

LARGEST_SEQUENCE = 2**63 - 1


PARQUET, LINES = (".parquet",), (".jsonl", ".ndjson", ".json")
"""Suffixes of the files that a folder is read from."""


class TableRow(NamedTuple):
    """One row as it is in its file; `line` counts from 1."""

    file: str
    line: int
    values: Mapping[str, Any]


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
        self.name = str(self.path)

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


@dataclass(frozen=True)
class DataFrameTable:
    """Whatever a function returns as a DataFrame: a database through JDBC, a catalogue's table, a query."""

    name: str
    read: Callable[[], DataFrame]

    def poll(self, known: str | None) -> TableContent | None:
        """Read the table; its mark is that of its rows, whatever their order."""
        rows = [TableRow(self.name, at, row) for at, row in enumerate(_plain_rows(self.read().toArrow()), start=1)]
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
        if create(target, "".join(f"{line}\n" for line in lines).encode("utf-8")):
            return target


def _number(name: str) -> int:
    stem = name.partition(".")[0]
    return int(stem) if stem.isascii() and stem.isdigit() else 0


class _Placed(NamedTuple):
    """What a row says of one subscriber, and where."""

    row: TableRow
    id: SubscriberId
    revision: Revision


@dataclass(frozen=True, slots=True)
class RowReading:
    """What the rows of a table say, by subscriber, and everything that is wrong with them."""

    timelines: Mapping[SubscriberId, Timeline]
    problems: tuple[Problem, ...] = ()


@dataclass(slots=True)
class RowReader:
    """Reads tables, one after the other, under one schema; `subscribers` are those of the texts it has read."""

    schema: Schema | None = None
    subscribers: dict[str, Subscriber] = field(default_factory=dict)

    def read(self, rows: Iterable[TableRow]) -> RowReading:
        """Return what rows say; only what has no problems but warnings is meant to be used."""
        problems: list[Problem] = []
        placed: dict[SubscriberId, list[_Placed]] = {}
        for row in rows:
            try:
                said = _placed(row)
            except (InvalidSubscriptionError, InvalidValueError) as error:
                problems.append(Problem(row.file, row.line, str(error)))
            except InvalidFileError as error:
                problems += (
                    Problem(row.file, row.line, f"{DOCUMENT}: {problem.message}") for problem in error.problems
                )
            else:
                placed.setdefault(said.id, []).append(said)
        for own in placed.values():
            problems += _ties(own)
        problems += self._read_documents(placed.values())
        problems.sort(key=lambda problem: (problem.file, problem.line or 0))
        timelines = {name: timeline_of(said.revision for said in own) for name, own in placed.items()}
        return RowReading(timelines, tuple(problems))

    def subscriber(self, document: str) -> Subscriber:
        """Return the subscriber of a text that was read and found good, by this process or by an earlier one."""
        if document not in self.subscribers:
            problems = self._read_round({document: TableRow("<version>", 1, {})})
            bad = [problem for problem in problems if not problem.warning]
            if bad:
                raise InvalidFileError(bad)
        return self.subscribers[document]

    def file_document(self, document: str) -> dict[str, Any]:
        """Return the subscriber file, with the schema if there is one, that has the subscriber of a text only."""
        return self._document([document])

    def forget_but(self, documents: Iterable[str]) -> None:
        """Keep the subscribers of these texts only."""
        self.subscribers = {text: self.subscribers[text] for text in documents if text in self.subscribers}

    def _read_documents(self, placed: Iterable[list[_Placed]]) -> list[Problem]:
        """Read the new texts, in rounds in which each subscriber occurs once: a document has no id twice."""
        rounds: list[dict[str, TableRow]] = []
        for own in placed:
            new = {said.revision.document: said.row for said in reversed(own)}
            fresh = [(text, row) for text, row in new.items() if text is not None and text not in self.subscribers]
            for at, (text, row) in enumerate(fresh):
                if at == len(rounds):
                    rounds.append({})
                rounds[at][text] = row
        return [problem for texts in rounds for problem in self._read_round(texts)]

    def _read_round(self, texts: Mapping[str, TableRow]) -> list[Problem]:
        """Read texts of different subscribers at once; only when something is wrong, again one by one to say where."""
        problems: list[Problem] = []
        try:
            found = subscribers_from_document(self._document(texts))
            if len(found.subscribers) == len(texts) and not found.problems:
                self.subscribers.update(zip(texts, found.subscribers, strict=True))
                return []
        except InvalidFileError:
            pass  # one of them is not even a subscriber; below it is found which
        for text, row in texts.items():
            try:
                alone = subscribers_from_document(self._document([text]))
            except InvalidFileError as error:
                problems += (Problem(row.file, row.line, problem.message) for problem in error.problems)
                continue
            problems += (Problem(row.file, row.line, found.message, found.warning) for found in alone.problems)
            self.subscribers.update(zip([text], alone.subscribers, strict=False))
        return problems

    def _document(self, texts: Iterable[str]) -> dict[str, Any]:
        declared = {} if self.schema is None else {"schema": subscribers_to_document((), self.schema)["schema"]}
        return {"version": VERSION, **declared, "subscribers": [json.loads(text) for text in texts]}


def _placed(row: TableRow) -> _Placed:
    values = {name: value for name, value in row.values.items() if value is not None}
    document = _document(row, values)
    name = values.get("id", document.get("id") if document else None)
    check_id("subscriber", name)
    if document is not None and document.setdefault("id", name) != name:
        raise InvalidSubscriptionError(
            f"{DOCUMENT}: its id is {shown(document['id'])}; expected {shown(name)}, the row's"
        )
    start, end = _time(values, ACTIVE_FROM, ALWAYS), _time(values, ACTIVE_UNTIL, NEVER)
    if start >= end:
        raise InvalidSubscriptionError(f"{ACTIVE_UNTIL}: {moment(end)} is not after {ACTIVE_FROM}, {moment(start)}")
    text = None if document is None else canonical(document)
    return _Placed(row, SubscriberId(str(name)), Revision(text, start, end, _sequence(values)))


def canonical(document: Mapping[str, Any]) -> str:
    """Return a document as the text that stands for it: equal documents have equal texts."""
    return json.dumps(document, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _document(row: TableRow, values: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the subscriber that a row describes; None where it says that there is none."""
    if DOCUMENT in row.values:
        given = values.get(DOCUMENT)
        if isinstance(given, str):
            given = parse_document(given, DocumentFormat.JSON, row.file).value
        if not isinstance(given, dict | None):
            raise InvalidSubscriptionError(
                f"{DOCUMENT}: {shown(given)} is not an object; expected a subscriber in JSON"
            )
        return None if given is None else dict(given)
    if "subscriptions" not in values:
        return None
    return {name: _without_nulls(value) for name, value in values.items() if name not in _OWN}


_OWN = frozenset((ACTIVE_FROM, ACTIVE_UNTIL, SEQUENCE))


def subscribers_of_rows(frame: DataFrame) -> SubscriberFile:
    """Return the subscribers of a DataFrame that has the fields of a subscriber file, one row for each.

    A field that is null is not there. Bad rows are set aside as problems, as they are in a file.
    """
    rows = [_without_nulls(row.asDict(recursive=True)) for row in frame.collect()]
    return subscribers_from_document({"version": VERSION, "subscribers": rows}, file="<DataFrame>")


def _without_nulls(value: Any) -> Any:
    """Return nested data without the nulls that a table has where a document has nothing."""
    if isinstance(value, Mapping):
        return {name: _without_nulls(inner) for name, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [_without_nulls(inner) for inner in value]
    return value


def _time(values: Mapping[str, Any], name: str, default: int) -> int:
    value = values.get(name)
    if value is None:
        return default
    try:
        time = parse_time(value, exact=True) if isinstance(value, str) else checked_value(value, name)
    except InvalidValueError as error:
        raise InvalidValueError(f"{name}: {error}" if isinstance(value, str) else str(error)) from None
    if not isinstance(time, datetime):
        raise InvalidValueError(f"{name}: {shown(value)} is not a time; expected {EXPECTED_TIME}")
    return microseconds(time)


def _sequence(values: Mapping[str, Any]) -> int:
    value = values.get(SEQUENCE, 0)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= LARGEST_SEQUENCE:
        raise InvalidValueError(f"{SEQUENCE}: {shown(value)} is not a whole number from 0 to 2^63-1")
    return value


def _ties(placed: list[_Placed]) -> list[Problem]:
    """Return a problem for each row that says something else than another one which counts as much."""
    first: dict[tuple[int, int], _Placed] = {}
    problems = []
    for said in placed:
        other = first.setdefault((said.revision.sequence, said.revision.start), said)
        if other.revision != said.revision:
            problems.append(
                Problem(
                    said.row.file,
                    said.row.line,
                    f"subscriber {shown(said.id)}: {other.row.file}:{other.row.line} says something else from the same "
                    f"{ACTIVE_FROM} on with the same {SEQUENCE}, {said.revision.sequence}; expected a higher one on "
                    "the row that counts",
                )
            )
    return problems
