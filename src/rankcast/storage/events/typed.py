"""Events as JSON that gives back exactly the event: CloudEvents JSON, and beside it the types that JSON cannot hold.

The record of an event is `{"event": {...CloudEvents 1.0...}, "types": [[path, type], ...]}`. JSON keeps ints and floats
apart by itself; `types` lists the places of times, dates, infinite floats and tuples, which stand in the event as texts
and lists, so the event part alone can be read by anyone. It is left out when there is nothing to list.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping
from datetime import date, datetime
from typing import Any, TypeAlias

from rankcast.model.cloudevents import event_from_json
from rankcast.model.errors import InvalidEventError, shown
from rankcast.model.events import Event
from rankcast.model.times import format_time, parse_time

Path: TypeAlias = list[str | int]

_ENVELOPE = ("id", "source", "type", "subject", "datacontenttype", "dataschema")


def event_to_record(event: Event) -> dict[str, Any]:
    """Return an event as plain data for `json.dumps`; raise InvalidEventError when its payload holds something else."""
    types: list[tuple[Path, str]] = []
    document: dict[str, Any] = {"specversion": "1.0"}
    for name in _ENVELOPE:
        if (value := getattr(event, name)) is not None:
            document[name] = value
    if event.time is not None:
        document["time"] = format_time(event.time)
    if event.expires is not None:
        document["expirytime"] = format_time(event.expires)
    for name, extension in event.extensions.items():
        document[name] = _plain(extension, [name], types)
    if isinstance(event.data, bytes):
        document["data_base64"] = base64.b64encode(event.data).decode("ascii")
    elif event.data is not None:
        document["data"] = _plain(event.data, ["data"], types)
    return {"event": document, "types": types} if types else {"event": document}


def _plain(value: Any, path: Path, types: list[tuple[Path, str]]) -> Any:
    """Return a value as JSON holds it; note the type of its place when JSON would lose it, inner places first."""
    if type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
        value = value.item()
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        types.append((path, "float"))
        return str(value)
    if isinstance(value, Mapping):
        return {_key(key, path): _plain(inner, [*path, key], types) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        plain = [_plain(inner, [*path, at], types) for at, inner in enumerate(value)]
        if isinstance(value, tuple):
            types.append((path, "tuple"))
        return plain
    if isinstance(value, datetime) and value.tzinfo is not None:
        types.append((path, "time"))
        return _time(value, path)
    if isinstance(value, date) and not isinstance(value, datetime):
        types.append((path, "date"))
        return value.isoformat()
    raise InvalidEventError(
        f"{_place(path)}: {shown(value)} cannot be stored; expected what JSON can hold, or a time with its zone"
    )


def _time(value: datetime, path: Path) -> str:
    try:
        return format_time(value)
    except OverflowError:  # in its zone it is in the calendar, but not in UTC
        raise InvalidEventError(f"{_place(path)}: {shown(value)} cannot be stored: its UTC time is none") from None


def _key(key: object, path: Path) -> str:
    if not isinstance(key, str):
        raise InvalidEventError(f"{_place(path)}: {shown(key)} cannot be stored as the name of a value; expected a str")
    return key


def _place(path: Path) -> str:
    return ".".join(map(str, path))


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "float": float,
    "tuple": tuple,
    "time": parse_time,
    "date": date.fromisoformat,
}


def event_from_record(record: Mapping[str, Any]) -> Event:
    """Return the event of a record; the record may be changed by it."""
    document = record["event"]
    for (*path, last), kind in record.get("types", ()):
        place = document
        for step in path:
            place = place[step]
        place[last] = _READERS[kind](place[last])
    return event_from_json(document)
