"""Events from and to CloudEvents 1.0 JSON, structured mode.

`event_from_json` takes the parsed object. With `specversion` it is a CloudEvent: `id`, `source` and `type` are required
and the payload is in `data`. Without, it is a plain event: every key is an attribute, those with an envelope's name go
to the envelope, and `id` and `source` may be given by the caller. `event_to_json` always writes a CloudEvent.

JSON has no times, no binary and no infinite numbers: times are RFC 3339 texts and infinite floats the texts "Infinity"
and "-Infinity" (a schema turns both back), binary data is `data_base64`.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import date, datetime
from functools import cache
from typing import Any, NoReturn, cast

from rankcast.model.errors import InvalidEventError, InvalidValueError, shown
from rankcast.model.events import NOT_EXTENSIONS, Event
from rankcast.model.times import format_time, parse_time
from rankcast.model.values import INFINITE_TEXTS, Value, as_python, checked_value

_ENVELOPE = ("id", "source", "type", "subject", "datacontenttype", "dataschema")


def parse_json(text: str | bytes) -> Any:
    """Parse JSON strictly: no NaN, no Infinity, no number past float64, no duplicate key, no endless nesting."""
    try:
        return strict_json(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}" if error.lineno > 1 else f"column {error.colno}"
        raise InvalidEventError(f"not JSON: {error.msg.removesuffix(' at')} at {place}") from None
    except UnicodeDecodeError as error:
        raise InvalidEventError(f"not UTF-8: byte 0x{error.object[error.start]:02x} at offset {error.start}") from None
    except RecursionError:
        raise InvalidEventError("not usable JSON: lists or objects are nested too deep") from None


def refuse_number(text: str) -> NoReturn:
    """Raise InvalidEventError for a number that float64 does not have, or JSON."""
    if text in ("NaN", "Infinity", "-Infinity"):
        raise InvalidEventError(f"not JSON: {text} is not a JSON number")
    raise InvalidEventError(f"number {shown(text)} is outside the range of float64")


def strict_json(text: str | bytes, unusable: Callable[[str], Any] = refuse_number) -> Any:
    """Parse JSON as `parse_json` does, which turns what the standard library raises into InvalidEventError, too.

    What stands for a number that float64 does not have is made by `unusable`.
    """

    if isinstance(text, str) and not text.startswith("\ufeff"):
        return _decoder(unusable).decode(text)
    return json.loads(text, **_rules(unusable))


def _rules(unusable: Callable[[str], Any]) -> dict[str, Any]:
    def number(text: str) -> Any:
        value = float(text)
        return unusable(text) if math.isinf(value) else value

    return {"parse_constant": unusable, "parse_float": number, "parse_int": _int, "object_pairs_hook": _object}


@cache
def _decoder(unusable: Callable[[str], Any]) -> json.JSONDecoder:
    return json.JSONDecoder(**_rules(unusable))


def _int(text: str) -> int:
    # The bound keeps absurd literals cheap; whether the number fits int64 is checked with its attribute's name.
    if len(text) > 400:
        raise InvalidEventError(f"number {shown(text)} does not fit a 64-bit integer")
    return int(text)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        twice = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise InvalidEventError(f"the key {shown(twice)} occurs twice in one object")
    return made


def event_from_json(document: object, *, id: str | None = None, source: str | None = None) -> Event:  # noqa: A002
    """Return the event of a parsed JSON object; `id` and `source` fill in for a plain event that lacks them.

    >>> event_from_json({"city": "Porto", "rent": 700}, id="1", source="/flats").attributes["rent"]
    700
    """
    if not isinstance(document, Mapping):
        found = "null" if document is None else shown(document)
        raise InvalidEventError(f"{found} is not a JSON object")
    if "specversion" in document:
        return _cloud_event(document)
    plain = {**document, **_times(document)}
    given = {"id": id, "source": source, **{name: value for name, value in plain.items() if value is not None}}
    for name in ("id", "source"):
        if given[name] is None:
            raise InvalidEventError(f"the event has no {name}")
    return Event.of(given, id="", source="")


def _cloud_event(document: Mapping[str, Any]) -> Event:
    if document["specversion"] != "1.0":
        raise InvalidEventError(f"specversion: {shown(document['specversion'])} is not supported; expected '1.0'")
    missing = [name for name in ("id", "source", "type") if document.get(name) is None]
    if missing:
        raise InvalidEventError(f"required CloudEvents attribute missing: {', '.join(missing)}")
    envelope: dict[str, Any] = {name: document[name] for name in _ENVELOPE if document.get(name) is not None}
    times = _times(document)
    extensions: dict[str, Value] = {}
    for name, raw in document.items():
        if name in NOT_EXTENSIONS:
            continue
        if isinstance(raw, Mapping | list):
            raise InvalidEventError(f"extension {name!r}: {shown(raw)} is not a simple value")
        try:
            value = checked_value(raw, f"extension {name!r}")
        except InvalidValueError as error:
            raise InvalidEventError(str(error)) from None
        if value is not None:
            extensions[name] = value
    return Event(
        **envelope,
        time=times.get("time"),
        expires=times.get("expirytime"),
        extensions=extensions,
        data=_data(document),
    )


def _times(document: Mapping[str, Any]) -> dict[str, datetime]:
    times: dict[str, datetime] = {}
    for name in ("time", "expirytime"):
        raw = document.get(name)
        if isinstance(raw, datetime):
            times[name] = raw
        elif isinstance(raw, str):
            try:
                times[name] = parse_time(raw)
            except InvalidValueError as error:
                raise InvalidEventError(f"{name}: {error}") from None
        elif raw is not None:
            raise InvalidEventError(f"{name}: {shown(raw)} is not a time")
    return times


def _data(document: Mapping[str, Any]) -> Any:
    if "data_base64" not in document:
        return document.get("data")
    if "data" in document:
        raise InvalidEventError("the event has both data and data_base64")
    try:
        return base64.b64decode(document["data_base64"], validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise InvalidEventError(f"data_base64: {shown(document['data_base64'])} is not base64") from None


def event_to_json(event: Event) -> dict[str, Any]:
    """Return the event as a CloudEvents object, ready for `json.dumps`."""
    document: dict[str, Any] = {"specversion": "1.0"}
    document |= {name: getattr(event, name) for name in _ENVELOPE if getattr(event, name) is not None}
    if event.time is not None:
        document["time"] = format_time(event.time)
    if event.expires is not None:
        document["expirytime"] = format_time(event.expires)
    document.update({name: _plain(value) for name, value in event.extensions.items()})
    if isinstance(event.data, bytes):
        document["data_base64"] = base64.b64encode(event.data).decode("ascii")
    elif event.data is not None:
        document["data"] = _plain(event.data)
    return document


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    value = as_python(value)
    if isinstance(value, date):
        return format_time(cast(datetime, checked_value(value, "data")))
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else INFINITE_TEXTS[value < 0]
    return value
