"""Events: typed attributes in a CloudEvents 1.0 envelope.

Filters see envelope and payload alike, by name, in `Event.attributes`:

- the envelope under its CloudEvents names: `id`, `source`, `type`, `time`, `subject`, `expirytime`, and extensions;
- the payload (`data`, a JSON object) under its keys, nested objects by dotted names (`address.city`). A payload name
  that an envelope name would hide is reached with `data.` in front of it: `data.type`. Of an extension and a payload
  attribute with the same name, the payload's is seen.

Nulls and NaN are left out: the attribute is missing. A list of values of one type is an attribute, too, without its
nulls and with every element once; in `data` it stays as it came, which is where `vector` looks. Any other list, such as
one of objects, is refused: a filter would never see what is in it. Identity is (source, id). `time` is when the event
was published; an engine stamps events that come without one.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, date, datetime
from functools import lru_cache
from hashlib import sha256
from itertools import accumulate
from typing import Any, NamedTuple

from rankcast.model.errors import InvalidEventError, InvalidValueError, shown
from rankcast.model.schema import ENVELOPE_TYPES, Schema
from rankcast.model.times import format_time
from rankcast.model.values import (
    INT_MAX,
    INT_MIN,
    MAX_NAME_LENGTH,
    AttributeValue,
    Value,
    as_python,
    checked_attribute,
    checked_value,
    plain_list,
)

DEFAULT_TYPE = "rankcast.event"
MAX_NESTING = 32
"""Levels of nested objects and lists in a payload; deeper ones are refused as malformed."""


MAX_ATTRIBUTES, MAX_ITEMS = 100_000, 1_000_000
"""Names in a payload, and items in its lists, those of inner objects and lists included. What is held twice counts
twice: a payload that was made in Python may be small, and endless once it is written out."""

MOST_PLAIN = 1_000
"""Names in a payload that is looked through quickly: there is room for what their lists may hold then."""

NOT_EXTENSIONS = frozenset((*ENVELOPE_TYPES, "data", "data_base64"))


class Identity(NamedTuple):
    """What makes two publications the same event."""

    source: str
    id: str


@dataclass(frozen=True, slots=True)
class Event:
    """One publication. `Event.of` makes one from plain attributes, `rankcast.model.cloudevents` from JSON.

    >>> Event.of({"city": "Porto", "size": {"rooms": 2}}, id="1", source="/flats").attributes["size.rooms"]
    2
    """

    id: str
    source: str
    type: str = DEFAULT_TYPE
    time: datetime | None = None
    expires: datetime | None = None
    subject: str | None = None
    datacontenttype: str | None = None
    dataschema: str | None = None
    extensions: Mapping[str, Value] = field(default_factory=dict)
    data: Any = None
    attributes: Mapping[str, AttributeValue] = field(init=False, repr=False, compare=False)
    identity: Identity = field(init=False, repr=False, compare=False)
    """(source, id)."""

    def __post_init__(self) -> None:
        for name in ("id", "source", "type"):
            if not isinstance(getattr(self, name), str) or not getattr(self, name):
                raise InvalidEventError(f"{name}: {shown(getattr(self, name))} is not a non-empty string")
        for name in ("subject", "datacontenttype", "dataschema"):
            if not isinstance(getattr(self, name), str | None):
                raise InvalidEventError(f"{name}: {shown(getattr(self, name))} is not a string")
        object.__setattr__(self, "identity", Identity(self.source, self.id))
        try:
            for name in self.extensions:
                _check_extension(name)
            object.__setattr__(self, "time", _checked_time("time", self.time))
            object.__setattr__(self, "expires", _checked_time("expirytime", self.expires))
            object.__setattr__(self, "attributes", _attributes(self))
        except InvalidValueError as error:
            raise InvalidEventError(str(error)) from None

    def __hash__(self) -> int:
        return hash(self.identity)

    @staticmethod
    def of(
        attributes: Mapping[str, Any],
        *,
        id: str,  # noqa: A002 (CloudEvents' name)
        source: str,
        time: datetime | None = None,
    ) -> Event:
        """Return an event of plain attributes; those with an envelope's name go to the envelope.

        `id`, `source` and `time` are used when the attributes have none of their own.
        """
        if type(attributes) is not dict and not isinstance(attributes, Mapping):
            raise InvalidEventError(f"{shown(attributes)} is not a mapping of attributes")
        plain = _plain_event(attributes, id, source, time)
        if plain is not None:
            return plain
        payload = {name: value for name, value in attributes.items() if name not in ENVELOPE_TYPES}
        envelope = {name: attributes[name] for name in ENVELOPE_TYPES if attributes.get(name) is not None}
        envelope.pop("specversion", None)
        expires = envelope.pop("expirytime", None)
        return Event(**{"id": id, "source": source, "time": time, "expires": expires, "data": payload, **envelope})

    def stamped(self, now: datetime) -> Event:
        """Return the event with a publication time: its own or, lacking one, `now`."""
        if self.time is not None:
            return self
        try:
            time = _checked_time("time", now)
        except InvalidValueError as error:
            raise InvalidEventError(str(error)) from None
        return self._with(time=time, attributes={**self.attributes, "time": time})

    def _with(self, **values: object) -> Event:
        """Return the event with some fields that are known to be right."""
        made, put = object.__new__(Event), object.__setattr__
        for name in _FIELDS:
            put(made, name, values[name] if name in values else getattr(self, name))
        return made

    def identified(self) -> Event:
        """Return the event with a digest of all else for its id: equal contents are one event."""
        envelope = {name: getattr(self, name) for name in _STATED} | dict(self.extensions)
        made = content_id(envelope, self.data)
        return self._with(id=made, identity=Identity(self.source, made), attributes={**self.attributes, "id": made})

    def conformed(self, schema: Schema) -> Event:
        """Return the event with its attributes in their declared types; raise InvalidEventError where one cannot be."""
        if isinstance(self.data, Mapping) and any(isinstance(value, Mapping) for value in self.data.values()):
            self._refuse_objects(schema)
        conformed = schema.conformed(self.attributes)
        if all(_is_same(conformed[name], value) for name, value in self.attributes.items()):
            return self
        return self._with(attributes=conformed)

    def _refuse_objects(self, schema: Schema) -> None:
        """Raise where the payload has an object in the place of a declared value."""
        for name in schema.attributes.keys() - self.attributes.keys():
            path = name.removeprefix("data.") if _is_hidden(name) else name
            if (found := _payload_part(self.data, path)) is not None:
                expected = f"a value of type {schema.attributes[name].value}"
                raise InvalidEventError(f"{name}: {shown(found)} is an object; expected {expected}")

    @property
    def conversions(self) -> dict[str, AttributeValue]:
        """The attributes that a schema has converted: in another type or value than the event's own fields have."""
        own = _attributes(self)
        return {
            name: value for name, value in self.attributes.items() if name not in own or not _is_same(own[name], value)
        }

    def converted(self, conversions: Mapping[str, AttributeValue]) -> Event:
        """Return the event with attributes as a schema had converted them, to bring back one that was written down."""
        return self._with(attributes={**self.attributes, **conversions})

    def is_valid_at(self, now: datetime) -> bool:
        """Whether the event has not expired: `expires > now`."""
        return self.expires is None or self.expires > now

    def vector(self, name: str) -> tuple[float, ...] | None:
        """Return a list of finite numbers in the payload, named as filters name attributes; None when there is none.

        >>> Event.of({"item": {"embedding": [3, 0.5]}}, id="1", source="/items").vector("item.embedding")
        (3.0, 0.5)
        """
        found = self.list_of(name)
        return None if found is None else _numbers(found)

    def list_of(self, name: str) -> Sequence[Any] | None:
        """Return a list as it is in the payload, named as filters name attributes; None when there is none."""
        if _is_hidden(name):
            if not name.startswith("data."):
                return None
            name = name.removeprefix("data.")
        return _payload_list(self.data, name)


_FIELDS = tuple(field.name for field in fields(Event))
_STATED = ("type", "time", "expires", "subject", "datacontenttype", "dataschema")
"""What an envelope may state besides the identity."""

(
    _put_id,
    _put_source,
    _put_type,
    _put_time,
    _put_expires,
    _put_subject,
    _put_datacontenttype,
    _put_dataschema,
    _put_extensions,
    _put_data,
    _put_attributes,
    _put_identity,
) = (Event.__dict__[name].__set__ for name in _FIELDS)
"""What sets each field: an event that is known to be right is made of them in a third of the time."""

_new_tuple = tuple.__new__


def _plain_lists(data: Mapping[str, Any]) -> dict[str, AttributeValue] | None:
    """Return the lists among values as attributes hold them; None where some value is not plain."""
    lists: dict[str, AttributeValue] = {}
    for key, value in data.items():
        kind = type(value)
        if kind is str:
            is_plain = value.isascii()
        elif kind is float:
            is_plain = value == value
        elif kind is list:
            is_plain = plain_list(value)
            if is_plain:
                lists[key] = tuple(dict.fromkeys(value))
        else:
            is_plain = kind is bool or (kind is int and INT_MIN <= value <= INT_MAX)
        if not is_plain:
            return None
    return lists


def _plain_event(attributes: Mapping[str, Any], name: str, source: str, time: datetime | None) -> Event | None:
    """Return the event of plain names and values, as most are, at a third of the cost; None for another.

    It is what `Event` would make of the same: no value needs to be checked further or converted.
    """
    data = dict(attributes)
    if (own := data.pop("id", None)) is not None:
        name = own
    if (own := data.pop("source", None)) is not None:
        source = own
    if (own := data.pop("time", None)) is not None:
        time = own
    if type(time) is not datetime or time.tzinfo is not UTC or type(name) is not str or type(source) is not str:
        return None
    if not (name and source and name.isascii() and source.isascii()):
        return None
    if not _are_plain(tuple(data)):
        return None
    lists = _plain_lists(data)
    if lists is None:
        return None
    envelope = {"id": name, "source": source, "specversion": "1.0", "type": DEFAULT_TYPE, "time": time}
    seen = {**data, **lists, **envelope}
    event = object.__new__(Event)
    _put_id(event, name)
    _put_source(event, source)
    _put_type(event, DEFAULT_TYPE)
    _put_time(event, time)
    _put_data(event, data)
    _put_attributes(event, seen)
    _put_identity(event, _new_tuple(Identity, (source, name)))
    _put_extensions(event, {})
    _put_expires(event, None)
    _put_subject(event, None)
    _put_datacontenttype(event, None)
    _put_dataschema(event, None)
    return event


DIGITS = 20
"""Hexadecimal digits of an id that is a digest: 80 bits."""


def content_id(envelope: Mapping[str, object], payload: object) -> str:
    """Return the id of an event that has none: a digest of what its envelope states and of its payload.

    Neither the order of names, nor nulls, nor whether names are dotted or nested make a difference.

    >>> content_id({}, {"a": {"b": 1}, "c": None}) == content_id({"time": None}, {"a.b": 1})
    True
    """
    stated = {name: value for name, value in envelope.items() if value is not None}
    content = dict(_leaves(payload, "")) if isinstance(payload, Mapping) else payload
    text = json.dumps([stated, content], default=_as_text, sort_keys=True)
    return sha256(text.encode()).hexdigest()[:DIGITS]


def _leaves(data: Mapping[Any, object], prefix: str) -> Iterator[tuple[str, object]]:
    for key, given in data.items():
        value = as_python(given)
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{key}.")
        elif value is not None and value == value:
            yield prefix + str(key), value


def _as_text(value: object) -> object:
    plain = as_python(value)
    if plain is not value:
        return plain
    if isinstance(value, bytes):
        return value.hex()
    time = checked_value(value, "data") if isinstance(value, date) else value  # a day is the time at which it begins
    return format_time(time) if isinstance(time, datetime) else repr(value)


def _attributes(event: Event) -> dict[str, AttributeValue]:
    envelope = {
        "id": event.id,
        "source": event.source,
        "specversion": "1.0",
        "type": event.type,
        "subject": event.subject,
        "time": event.time,
        "datacontenttype": event.datacontenttype,
        "dataschema": event.dataschema,
        "expirytime": event.expires,
    }
    attributes: dict[str, AttributeValue] = {}
    for name, extension in event.extensions.items():
        value = checked_value(extension, name)
        if value is not None:
            attributes[name] = value
    for name, raw in (*_payload(event.data), *envelope.items()):
        if type(raw) is str and raw.isascii():  # most values: there is nothing to check
            attributes[name] = raw
            continue
        held = checked_attribute(raw, name)
        if held is not None:
            attributes[name] = held
    return attributes


def _is_same(value: AttributeValue, other: AttributeValue) -> bool:
    """Whether two values are equal and of one type, in lists element by element."""
    if type(value) is not type(other) or value != other:
        return False
    return not isinstance(value, tuple) or list(map(type, value)) == list(map(type, other))  # type: ignore[arg-type]


def _check_extension(name: str) -> None:
    _check_name(name)
    if name in NOT_EXTENSIONS:
        raise InvalidEventError(f"extension {name!r}: the name belongs to the envelope or the payload")


def _check_name(name: object, prefix: str = "") -> None:
    if not isinstance(name, str) or not name:
        raise InvalidEventError(f"{shown(name)} is not an attribute name; expected a non-empty string")
    if len(prefix) + len(name) > MAX_NAME_LENGTH:
        path = shown(prefix + name)
        raise InvalidEventError(
            f"{path}: an attribute name has at most {MAX_NAME_LENGTH:,} characters, nested ones in all"
        )
    if not name.isascii():
        checked_value(name, "attribute name")


def _checked_time(name: str, raw: object) -> datetime | None:
    value = checked_value(raw, name)
    if value is not None and not isinstance(value, datetime):
        raise InvalidEventError(f"{name}: {shown(raw)} is not a time; expected an aware datetime")
    return value


def _payload(data: object) -> Iterator[tuple[str, object]]:
    if isinstance(data, str):
        checked_value(data, "data")
    if isinstance(data, list | tuple):
        _check_list(data, "data", 0, _Room())
    if not isinstance(data, Mapping):
        return
    room = _Room()
    if all(map(_is_plain, data)) and not any(isinstance(value, Mapping) for value in data.values()):
        for name, value in data.items():
            if isinstance(value, list | tuple):
                room.take(len(value), name)
            yield name, value
        return
    seen: set[str] = set()
    for path, value in _flattened(data, "", 1, room):
        if path in seen:
            raise InvalidEventError(f"{path}: the payload has this attribute twice, nested and with a dotted name")
        seen.add(path)
        yield f"data.{path}" if _is_hidden(path) else path, value


@lru_cache(maxsize=256)
def _are_plain(names: tuple[object, ...]) -> bool:
    """Whether all names of a payload are plain; publishers use the same ones again, in the same order."""
    return len(names) <= MOST_PLAIN and all(map(_is_plain, names))


@lru_cache(maxsize=4096)
def _is_plain(name: object) -> bool:
    """Whether a name of a payload is seen as it is and leads nowhere else; publishers use the same ones again."""
    is_name = isinstance(name, str) and name.isidentifier() and name.isascii() and len(name) <= MAX_NAME_LENGTH
    return is_name and not _is_hidden(str(name))


def _is_hidden(path: str) -> bool:
    """Whether an envelope name would hide this payload name, so that it is seen with `data.` in front."""
    start = 0
    while path.startswith("data.", start):
        start += len("data.")
    return path[start:].partition(".")[0] in ENVELOPE_TYPES


@dataclass(slots=True)
class _Room:
    """What a payload may still hold."""

    attributes: int = MAX_ATTRIBUTES
    items: int = MAX_ITEMS

    def take(self, items: int, path: str) -> None:
        """Take items of lists in; raise when there is no room for them."""
        self.items -= items
        if self.items < 0:
            raise InvalidEventError(f"{shown(path)}: the lists of the payload hold more than {MAX_ITEMS:,} items")


def _flattened(data: Mapping[Any, object], prefix: str, depth: int, room: _Room) -> Iterator[tuple[str, object]]:
    room.attributes -= len(data)
    if room.attributes < 0:
        raise InvalidEventError(f"{shown(prefix)}: the payload has more than {MAX_ATTRIBUTES:,} attributes")
    if depth > MAX_NESTING:
        raise InvalidEventError(f"{shown(prefix)}: the payload nests more than {MAX_NESTING} objects")
    for key, value in data.items():
        _check_name(key, prefix)
        if isinstance(value, Mapping):
            yield from _flattened(value, f"{prefix}{key}.", depth + 1, room)
            continue
        if isinstance(value, list | tuple):
            room.take(len(value), prefix + key)
        yield prefix + key, value


def _check_list(values: Sequence[object], path: str, depth: int, room: _Room) -> None:
    """Raise when a payload that is a list nests too deep, holds too much or holds what is not text."""
    level: list[Any] = [values]
    while level:
        depth += 1
        room.take(sum(map(len, level)), path)
        if depth > MAX_NESTING:
            raise InvalidEventError(f"{shown(path)}: the payload nests more than {MAX_NESTING} objects and lists")
        keys = [key for part in level if isinstance(part, Mapping) for key in part]
        items = [item for part in level for item in (part.values() if isinstance(part, Mapping) else part)]
        for text in (*keys, *items):
            if isinstance(text, str) and not text.isascii():
                checked_value(text, path)
        level = [item for item in items if isinstance(item, Mapping | list | tuple)]


def _payload_list(data: object, path: str) -> Sequence[object] | None:
    """Return the list at a path."""
    found = _payload_part(data, path)
    return found if isinstance(found, list | tuple) else None


def _payload_part(data: object, path: str) -> Sequence[object] | Mapping[str, object] | None:
    """Return the list or object at a path, of which any dot may belong to a key or lead into a nested object."""
    if not isinstance(data, Mapping):
        return None
    found = data.get(path)
    if isinstance(found, list | tuple | Mapping):
        return found
    inner = (_payload_part(data[key], path[len(key) + 1 :]) for key in _leading(data, path))
    return next((found for found in inner if found is not None), None)


def _leading(data: Mapping[str, Any], path: str) -> list[str]:
    """Return the keys that a path begins with, shortest first; as many are tried as there are keys, or dots if fewer.

    So all that is tried to find a path is no more than the payload has keys, however many ways there are.
    """
    if path.count(".") > len(data):
        return sorted((key for key in data if path.startswith(f"{key}.")), key=len)
    words = path.split(".")
    return [key for key in accumulate(words[:-1], "{}.{}".format) if key in data]


def _numbers(items: Sequence[object]) -> tuple[float, ...] | None:
    numbers: list[float] = []
    for item in items:
        if not isinstance(item, int | float) or isinstance(item, bool) or not abs(item) <= sys.float_info.max:
            return None
        numbers.append(float(item))
    return tuple(numbers)
