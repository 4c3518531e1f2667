"""Events as JSON: one CloudEvents or plain object per line, or one document with an object or a list of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from rankcast.model.cloudevents import event_to_json, parse_json
from rankcast.model.errors import InvalidEventError, Problem, RankcastError, shown
from rankcast.model.events import Event
from rankcast.storage.documents import DocumentFormat, DocumentPath, parse_document
from rankcast.storage.events.rows import event_of_object
from rankcast.storage.text_files import MAX_LINE_BYTES, FileLine


def events_of_lines(lines: Iterable[FileLine], file: str, source: str) -> Iterator[tuple[int, Event | Problem]]:
    """Return the event, or the problem, of each line that is not blank."""
    for line in lines:
        if line.too_long:
            yield line.number, Problem(file, line.number, f"the line is longer than {MAX_LINE_BYTES:,} bytes; skipped")
        elif line.content.strip():
            yield line.number, _event_of_line(line, file, source)


def _event_of_line(line: FileLine, file: str, source: str) -> Event | Problem:
    content = line.content.rstrip(b"\r\n")
    try:
        return event_of_object(parse_json(content.decode("utf-8")), source=source)
    except UnicodeDecodeError as error:
        return not_utf8(file, line.number, content, error)
    except RankcastError as error:
        cut = "" if line.ended else " (the last line has no line end: is the file cut off?)"
        return Problem(file, line.number, f"{error}{cut}; the line is {excerpt(content)}")


def not_utf8(file: str, line: int, content: bytes, error: UnicodeDecodeError) -> Problem:
    """Return the problem of a line with a byte that is not UTF-8."""
    bad = content[error.start]
    return Problem(file, line, f"not UTF-8: byte 0x{bad:02x} at offset {error.start} of {excerpt(content)}")


def excerpt(content: bytes) -> str:
    """Return the start of a line as a message shows it."""
    return shown(content.decode("utf-8", errors="replace"))


def events_of_document(text: str, file: str, source: str) -> Iterator[tuple[int, Event | Problem]]:
    """Return the events of a JSON list, or of one object, with their positions, from 1."""
    document = parse_document(text, DocumentFormat.JSON, file)
    is_list = isinstance(document.value, list)
    found: list[Event | RankcastError] = []
    for entry in document.value if is_list else [document.value]:
        try:
            found.append(event_of_object(entry, source=source))
        except RankcastError as error:
            found.append(error)
    places: dict[int, DocumentPath] = {
        at: (at,) if is_list else () for at, item in enumerate(found) if isinstance(item, RankcastError)
    }
    lines = document.lines(places.values())
    for at, item in enumerate(found):
        yield at + 1, Problem(file, lines[places[at]], str(item)) if isinstance(item, RankcastError) else item


def write_lines(stream: BinaryIO, events: Iterable[Event]) -> int:
    """Write one CloudEvents object per line; return how many."""
    count = 0
    for event in events:
        stream.write(_json(event).encode("utf-8") + b"\n")
        count += 1
    return count


def write_list(stream: BinaryIO, events: Iterable[Event]) -> int:
    """Write one JSON list of CloudEvents objects, an object per line; return how many."""
    count = 0
    stream.write(b"[")
    for event in events:
        stream.write((",\n" if count else "\n").encode() + _json(event).encode("utf-8"))
        count += 1
    stream.write(b"\n]\n")
    return count


def _json(event: Event) -> str:
    try:
        return json.dumps(event_to_json(event), ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidEventError(f"event {shown(event.id)}: data cannot be written as JSON: {error}") from None
