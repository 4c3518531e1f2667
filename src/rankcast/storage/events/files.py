"""Event files: JSON lines, JSON, CSV with a typed header, Parquet; streamed, with bad lines set aside.

The format is that of the suffix (.jsonl, .ndjson, .json, .csv, .parquet, .pq), all but Parquet also compressed (.gz).
A folder is its event files in the order of their names; hidden ones, and those that begin with `_`, are left out.
An event without an id is known by a digest of its content, one without a source has the file's name. Each event is
yielded as it is read; each line or row that is none is a Problem in its place. InvalidFileError means that nothing can
be read. Memory: one line (at most MAX_LINE_BYTES), batch or JSON document (at most MAX_FILE_BYTES), and the identities
seen so far.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from pathlib import Path
from typing import BinaryIO, cast

from rankcast.model.cloudevents import parse_json
from rankcast.model.errors import InvalidEventError, InvalidFileError, Problem, RankcastError, shown
from rankcast.model.events import Event, Identity
from rankcast.model.schema import Schema
from rankcast.storage.events.arrow import events_of_parquet, write_parquet
from rankcast.storage.events.csv import events_of_csv, write_csv
from rankcast.storage.events.json_lines import events_of_document, events_of_lines, write_lines, write_list
from rankcast.storage.text_files import (
    MAX_FILE_BYTES,
    DamagedError,
    check_plain,
    decoded,
    invalid_file,
    is_folder,
    open_bytes,
    read_bytes,
    read_lines,
    unreadable,
)
from rankcast.storage.writing import replacing

MAX_IDENTITIES = 1_000_000
"""Identities remembered per file to recognise duplicates: some 150 MB. Events after that many are not remembered."""


class EventFormat(Enum):
    """How the events of a file are written; JSON is one document or, where its first line is complete, JSON lines."""

    JSON_LINES = "jsonl"
    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"


EVENT_SUFFIXES = {
    ".jsonl": EventFormat.JSON_LINES,
    ".ndjson": EventFormat.JSON_LINES,
    ".json": EventFormat.JSON,
    ".csv": EventFormat.CSV,
    ".parquet": EventFormat.PARQUET,
    ".pq": EventFormat.PARQUET,
}

Numbered = Iterator[tuple[int, Event | Problem]]


def event_format(path: Path) -> EventFormat | None:
    """Return the format that a file's suffix names, `.gz` aside; None when it names none."""
    name = Path(path.stem) if path.suffix.lower() == ".gz" else path
    return EVENT_SUFFIXES.get(name.suffix.lower())


def read_events(
    path: str | os.PathLike[str],
    schema: Schema | None = None,
    *,
    format: EventFormat | None = None,  # noqa: A002
) -> Iterator[Event | Problem]:
    """Return the events of a file or a folder one by one, in their declared types when there is a schema.

    Raises InvalidFileError at once when the file cannot be opened or its format is unknown, and with the first event
    when the content turns out to be unusable; what is unusable of a folder is a problem in its place.
    """
    path = Path(path)
    if is_folder(path):
        return _of_folder(_event_files_in(path), schema, format)
    check_plain(path)
    try:
        path.open("rb").close()
    except OSError as error:
        raise unreadable(path, error) from None
    known = _known_format(path, format)
    return _check(_read_numbered(path, schema, known), schema, str(path))


def files_in(folder: Path) -> list[Path]:
    """Return what is in a folder by name, without what begins with `_` or a dot; raise InvalidFileError if it cannot
    be read."""
    try:
        return sorted(path for path in folder.iterdir() if not path.name.startswith(("_", ".")))
    except OSError as error:
        raise unreadable(folder, error) from None


def _event_files_in(folder: Path) -> list[Path]:
    found = [path for path in files_in(folder) if event_format(path) is not None]
    if not found:
        raise invalid_file(str(folder), None, f"no event files are in it; expected some of {', '.join(EVENT_SUFFIXES)}")
    return found


def _of_folder(files: Iterable[Path], schema: Schema | None, given: EventFormat | None) -> Iterator[Event | Problem]:
    for file in files:
        if is_folder(file):
            yield Problem(str(file), None, "a folder within a folder; expected an event file")
            continue
        try:
            yield from read_events(file, schema, format=given)
        except InvalidFileError as error:
            yield from error.problems


def _known_format(path: Path, given: EventFormat | None) -> EventFormat:
    found = given or event_format(path)
    if found is None:
        expected = ", ".join(EVENT_SUFFIXES)
        raise invalid_file(
            str(path), None, f"the suffix {path.suffix!r} is not that of an event file; expected one of {expected}"
        )
    if found is EventFormat.PARQUET and path.suffix.lower() == ".gz":
        raise invalid_file(str(path), None, "Parquet is compressed inside; a .gz of it is not supported")
    return found


def _read_numbered(path: Path, schema: Schema | None, format: EventFormat) -> Numbered:  # noqa: A002
    if format is EventFormat.PARQUET:
        yield from events_of_parquet(path, path.name)
        return
    number = 0
    try:
        for number, item in _read_text_format(path, schema, format):
            yield number, item
    except DamagedError as error:
        if number == 0:
            raise invalid_file(str(path), None, str(error)) from None
        yield number, Problem(str(path), number, f"nothing can be read after this line: {error}")
    except OSError as error:
        raise unreadable(path, error) from None


def _read_text_format(path: Path, schema: Schema | None, format: EventFormat) -> Numbered:  # noqa: A002
    file = str(path)
    if format is EventFormat.JSON and not _has_lines(path):
        with open_bytes(path) as stream:
            text = decoded(read_bytes(stream, MAX_FILE_BYTES + 1), file)
        yield from events_of_document(text, file, path.name) if text.strip() else ()
        return
    with open_bytes(path) as stream:
        lines = read_lines(stream, file)
        if format is EventFormat.CSV:
            yield from events_of_csv(lines, file, path.name, schema)
        else:
            yield from events_of_lines(lines, file, path.name)


def _has_lines(path: Path) -> bool:
    """Whether the first line that is not blank is an object by itself."""
    with open_bytes(path) as stream:
        for line in read_lines(stream, str(path)):
            if line.content.strip():
                return not line.too_long and _is_object(line.content)
    return False


def _is_object(content: bytes) -> bool:
    try:
        return isinstance(parse_json(content.decode("utf-8")), dict)
    except (UnicodeDecodeError, InvalidEventError):
        return False


def _check(items: Numbered, schema: Schema | None, file: str) -> Iterator[Event | Problem]:
    """Set duplicates of an identity aside, and events that do not fit the schema."""
    seen: set[Identity] = set()
    for number, item in items:
        if isinstance(item, Problem):
            yield item
        elif item.identity in seen:
            if item.identified().id == item.id:
                message = "the same event as one before: it has no id, and the same content"
                yield Problem(file, number, message, warning=True)
            else:
                message = f"the event {shown(item.id)} of source {shown(item.source)} occurs before in this file"
                yield Problem(file, number, message)
        else:
            if len(seen) < MAX_IDENTITIES:
                seen.add(item.identity)
            yield item if schema is None else _conform(item, schema, file, number)


def _conform(event: Event, schema: Schema, file: str, number: int) -> Event | Problem:
    try:
        return event.conformed(schema)
    except RankcastError as error:
        return Problem(file, number, str(error))


_WRITERS: dict[EventFormat, Callable[[BinaryIO, Iterable[Event]], int]] = {
    EventFormat.JSON_LINES: write_lines,
    EventFormat.JSON: write_list,
    EventFormat.CSV: write_csv,
    EventFormat.PARQUET: write_parquet,
}


def write_events(
    path: str | os.PathLike[str],
    events: Iterable[Event],
    *,
    format: EventFormat | None = None,  # noqa: A002
) -> int:
    """Write events so that `read_events` gives them back; return how many. Atomic: on an error nothing is changed.

    JSON keeps events whole, as CloudEvents, streaming them. CSV and Parquet keep their attributes, and gather all
    events first to know the columns; what a table cannot hold (lists, one attribute with two types, in CSV an empty
    text) raises InvalidEventError.
    """
    path = Path(path)
    write = _WRITERS[_known_format(path, format)]
    with replacing(path) as stream:
        if path.suffix.lower() != ".gz":
            return write(stream, events)
        with gzip.GzipFile("", "wb", fileobj=stream, mtime=0) as compressed:  # equal events give equal files
            return write(cast(BinaryIO, compressed), events)
