"""Whole events as bytes: JSON that gives back exactly the event, less what every table of events has beside it.

The bytes are the event as `rankcast.language.lossless` writes it, without identity and time. Cost: for an event with
twenty attributes some 300 bytes, 12 microseconds to write and 40 to read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from rankcast.language.lossless import from_plain, json_bytes, to_plain
from rankcast.model.events import Event
from rankcast.model.schema import ENVELOPE_TYPES
from rankcast.model.times import format_time
from rankcast.spark.sources.event_values import as_datetime, payload_key, python_values

REMEMBERED = 4_096
"""Events that are read once for all the queues that hold them."""

_BESIDE = ("id", "source", "time", "specversion")
_FIELDS = {"expirytime": "expires"}
"""Fields of an event that have another name than its attributes."""

TYPED = "$event"
"""The only name in a document that is an event with all its types; other documents are plain JSON of an event."""


def typed_document(event: Event) -> str:
    """Return an event as a document that keeps the types of its values."""
    return json_bytes({TYPED: to_plain(event, Event)}).decode()


def event_of_typed(plain: Any) -> Event:
    """Return the event in a document; raise InvalidMessageError where there is none."""
    event: Event = from_plain(plain, Event, "event")
    return event


def column_contents(columns: Mapping[str, Any], vectors: Mapping[str, Any]) -> list[bytes]:
    """Return the contents of events that are columns, by the names that filters have for them."""
    envelope, payload = dict[str, list[Any]](), dict[str, list[Any]]()
    for name, column in columns.items():
        if name not in _BESIDE:
            (envelope if name in ENVELOPE_TYPES else payload)[name] = python_values(column)
    payload |= {name: column.to_pylist() for name, column in vectors.items()}
    keys = [payload_key(name) for name in payload]
    rows = zip(zip(*payload.values(), strict=True), strict=True) if payload else (((),) for _ in columns["id"])
    found: list[bytes] = []
    for at, (values,) in enumerate(rows):
        held = {key: value for key, value in zip(keys, values, strict=True) if value is not None}
        stated = {_FIELDS.get(name, name): column[at] for name, column in envelope.items() if column[at] is not None}
        texts = {name: format_time(value) if name == "expires" else value for name, value in stated.items()}
        found.append(json_bytes({**texts, "data": to_plain(held, Any)}))
    return found


def event_contents(events: Iterable[Event]) -> list[bytes]:
    """Return the contents of events."""
    return list(map(_content, events))


def _content(event: Event) -> bytes:
    plain = to_plain(event, Event)
    return json_bytes({name: value for name, value in plain.items() if name not in _BESIDE})


@lru_cache(maxsize=REMEMBERED)
def event_of_content(content: bytes, source: str, identity: str, time: int) -> Event:
    """Return the event with this content; its time is in microseconds since 1970."""
    beside = {"source": source, "id": identity, "time": format_time(as_datetime(time))}
    return event_of_typed({**msgspec.json.decode(content), **beside})
