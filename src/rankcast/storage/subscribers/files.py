"""Subscriber files: YAML or JSON of one documented shape (`subscribers.schema.json`), loaded and saved.

Good subscribers load and each bad one is set aside with a Problem that names its line; a filter that no event can match
is a warning and loads. A file that cannot be used at all (missing, not UTF-8, broken syntax, wrong version, a schema
that contradicts itself) raises InvalidFileError. What is saved loads back equal.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rankcast.model.errors import InvalidFileError, Problem
from rankcast.model.schema import Schema
from rankcast.model.subscriptions import Subscriber
from rankcast.storage.documents import Document, DocumentFormat, dumps_document, parse_document
from rankcast.storage.subscribers.documents import read_document, subscribers_to_document
from rankcast.storage.text_files import invalid_file, read_text
from rankcast.storage.writing import replacing

__all__ = [
    "SubscriberFile",
    "load_subscribers",
    "loads_subscribers",
    "save_subscribers",
    "subscribers_from_document",
    "subscribers_to_document",
]

SUBSCRIBER_SUFFIXES = {".yaml": DocumentFormat.YAML, ".yml": DocumentFormat.YAML, ".json": DocumentFormat.JSON}


@dataclass(frozen=True, slots=True)
class SubscriberFile:
    """What a subscriber file holds, and what was wrong with the rest of it."""

    subscribers: tuple[Subscriber, ...]
    schema: Schema | None = None
    problems: tuple[Problem, ...] = ()


def load_subscribers(path: str | os.PathLike[str], *, format: DocumentFormat | None = None) -> SubscriberFile:  # noqa: A002
    """Load a file; the format is that of its suffix (.yaml, .yml, .json) unless it is given."""
    path = Path(path)
    known = format or _format_of(path)
    return loads_subscribers(read_text(path), format=known, file=str(path))


def loads_subscribers(
    text: str,
    *,
    format: DocumentFormat = DocumentFormat.YAML,  # noqa: A002
    file: str = "<text>",
) -> SubscriberFile:
    """Load a text.

    >>> text = "version: 1\\nsubscribers: [{id: ana, subscriptions: [{filter: rent < 500, rank: 7}]}]"
    >>> print(*loads_subscribers(text).problems)
    <text>:2: subscriber 'ana', subscription '1', rank: 7 is not a number from 0 to 1
    """
    return _loaded(parse_document(text, format, file))


def subscribers_from_document(document: Any, *, file: str = "<document>") -> SubscriberFile:
    """Load plain data (mappings, lists, texts, numbers, bools) of the documented shape; its problems have no lines."""
    reading = read_document(document)
    problems = [Problem(file, None, finding.message, finding.warning) for finding in reading.findings]
    if not reading.usable:
        raise InvalidFileError(problems)
    return SubscriberFile(reading.subscribers, reading.schema, tuple(problems))


def _loaded(document: Document) -> SubscriberFile:
    reading = read_document(document.value)
    lines = document.lines(finding.path for finding in reading.findings)
    problems = [
        Problem(document.file, lines[finding.path], finding.message, finding.warning) for finding in reading.findings
    ]
    problems.sort(key=lambda problem: problem.line or 0)
    if not reading.usable:
        raise InvalidFileError(problems)
    return SubscriberFile(reading.subscribers, reading.schema, tuple(problems))


def save_subscribers(
    path: str | os.PathLike[str],
    subscribers: Iterable[Subscriber],
    schema: Schema | None = None,
    *,
    format: DocumentFormat | None = None,  # noqa: A002
) -> None:
    """Write subscribers so that they load back equal (with filters in normal form under `schema`); atomic."""
    path = Path(path)
    document = subscribers_to_document(subscribers, schema)
    text = dumps_document(document, format or _format_of(path))
    with replacing(path) as stream:
        stream.write(text.encode("utf-8"))


def _format_of(path: Path) -> DocumentFormat:
    found = SUBSCRIBER_SUFFIXES.get(path.suffix.lower())
    if found is None:
        raise invalid_file(
            str(path),
            None,
            f"the suffix {path.suffix!r} is not that of a subscriber file; expected .yaml, .yml or .json",
        )
    return found
