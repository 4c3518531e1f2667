"""Rows of tables (CSV, Parquet) as events: one column per attribute.

Columns with an envelope's name go to the envelope; `data.type` is the payload's own `type`, as it is in filters; all
others are the payload, nested ones under their dotted names. Tables hold attributes, so a table read back gives an
event with the same attributes, but not which of them came from an extension or how the payload was nested.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rankcast.model.cloudevents import event_from_json
from rankcast.model.errors import InvalidEventError, InvalidValueError, shown
from rankcast.model.events import DEFAULT_TYPE, Event
from rankcast.model.schema import ENVELOPE_TYPES
from rankcast.model.times import parse_time
from rankcast.model.values import AttributeValue, ValueType, type_of

_DATA = "data."

NAMELESS = "-"
"""The id of an event that is going to have one made of its content."""


def event_of_row(row: Mapping[str, Any], *, source: str) -> Event:
    """Return the event of a row; None stands for an empty cell, and `source` fills in for a missing one.

    A row without an id is known by its content.
    """
    envelope: dict[str, Any] = {"id": NAMELESS, "source": source}
    payload: dict[str, Any] = {}
    for name, value in row.items():
        if value is None:
            continue
        if name in ENVELOPE_TYPES:
            envelope[name] = _time(name, value) if ENVELOPE_TYPES[name] is ValueType.TIME else value
        else:
            payload[_payload_name(name)] = value
    envelope.pop("specversion", None)
    envelope["id"] = text_id(envelope["id"])
    event = Event(**{"expires": envelope.pop("expirytime", None), **envelope}, data=payload)
    return event if row.get("id") is not None else event.identified()


def event_of_object(document: Any, *, source: str | None = None) -> Event:
    """Return the event of a parsed JSON object of a file; a plain one without an id is known by its content."""
    if not isinstance(document, dict) or "specversion" in document:
        return event_from_json(document)
    if (given := document.get("id")) is not None:
        return event_from_json({**document, "id": text_id(given)}, source=source)
    return event_from_json(document, id=NAMELESS, source=source).identified()


def text_id(value: Any) -> Any:
    """Return a whole number as text: tables and plain JSON often number their rows. Anything else stays as it is."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _time(name: str, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return parse_time(value)
    except InvalidValueError as error:
        raise InvalidEventError(f"{name}: {error}") from None


def _payload_name(attribute: str) -> str:
    """Return the payload's name for an attribute that an envelope name would hide."""
    start = 0
    while attribute.startswith(_DATA, start):
        start += len(_DATA)
    is_hidden = start > 0 and attribute[start:].partition(".")[0] in ENVELOPE_TYPES
    return attribute[len(_DATA) :] if is_hidden else attribute


def row_of_event(event: Event) -> dict[str, Any]:
    """Return the attributes of an event as a row; raise InvalidEventError when a table cannot hold all of it."""
    if event.data is not None and not isinstance(event.data, Mapping):
        raise _not_a_row(event, f"data: {shown(event.data)} is not an object")
    row = {name: whole_value(event, name, value) for name, value in event.attributes.items()}
    del row["specversion"]
    if event.type == DEFAULT_TYPE:
        del row["type"]
    return row


def _not_a_row(event: Event, what: str) -> InvalidEventError:
    return InvalidEventError(f"event {shown(event.id)}: {what}; a table cannot hold that, JSON lines can")


def whole_value(event: Event, name: str, value: AttributeValue) -> Any:
    """Return an attribute as a row has it: a list with all elements, in order, unless a schema has converted it."""
    if not isinstance(value, tuple):
        return value
    held = [element for element in event.list_of(name) or () if element is not None and element == element]
    return held if tuple(dict.fromkeys(held)) == value else list(value)


def columns_of(rows: Iterable[Mapping[str, Any]]) -> dict[str, ValueType]:
    """Return the columns that hold all rows, with their types: the envelope first, then by name.

    A column with whole numbers and floats is a float column where every whole number fits one exactly; any other mix of
    types raises InvalidEventError.
    """
    found: dict[str, set[ValueType | None]] = {}
    beyond: set[str] = set()
    for row in rows:
        for name, value in row.items():
            elements = value if isinstance(value, list) else [value]
            found.setdefault(name, set()).add(_type_of(value))
            if any(isinstance(element, int) and float(element) != element for element in elements):
                beyond.add(name)
    first = list(ENVELOPE_TYPES)
    names = sorted(found, key=lambda name: (first.index(name) if name in ENVELOPE_TYPES else len(first), name))
    return {name: _one_type(name, found[name], name in beyond) for name in names}


def _type_of(value: Any) -> ValueType | None:
    """Return the type of a value of a row; of an empty list, which is of every type of lists, none."""
    if not isinstance(value, list):
        return type_of(value)
    kinds = {type_of(element) for element in value}
    kind = ValueType.FLOAT if len(kinds) > 1 else next(iter(kinds), None)
    return None if kind is None else ValueType(f"[{kind.value}]")


def _one_type(name: str, found: set[ValueType | None], beyond_float: bool) -> ValueType:
    types = {kind for kind in found if kind is not None} or {ValueType.STRINGS}
    if len(types) == 1 and not (types == {ValueType.FLOATS} and beyond_float):
        return next(iter(types))
    if types in ({ValueType.INT, ValueType.FLOAT}, {ValueType.INTS, ValueType.FLOATS}) and not beyond_float:
        return max(types, key=lambda kind: kind in (ValueType.FLOAT, ValueType.FLOATS))
    kinds = " and ".join(sorted(kind.value for kind in types))
    raise InvalidEventError(f"{name}: the events mix {kinds}; a column of a table holds one type, JSON lines any")
