"""The one lossless JSON of what rankcast writes down or sends: messages, journals, snapshots, events between processes.

Values are led by their declared types:

- a dataclass or struct is an object of its fields, those at their default left out (a struct that is `array_like`: a
  list); where a field may hold one of several of them, the object names its class in "is";
- enums are their values, tuples lists, durations whole microseconds ({"microseconds": n} where a number may stand as
  well), times RFC 3339 texts, filters their texts, infinite floats {"$float": text};
- values of events keep their types: a time is {"$time": text}, a date {"$date": text}, an infinite float {"$float":
  text}, bytes {"$bytes": base64}, a tuple {"$tuple": [...]}, and a payload object with a name that begins with "$" is
  {"$object": [[name, value], ...]}.

Events that occur again and again, as in the queues of a hub, are written once where the caller asks for it (`shared`):
{"events": [...], "value": ...}, and everywhere else an event is its place in that list. There an event also has the
attributes that a schema has "converted".

Reading checks everything: a field that is missing, unknown or of another type raises InvalidMessageError, and so does
whatever the class itself refuses. Nothing is looked up by a name from outside but the classes that a type names.
"""

from __future__ import annotations

import base64
import binascii
import itertools
import math
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import date, datetime, timedelta
from enum import Enum
from functools import cache
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct, structs

from rankcast.language.parser import parse_filter
from rankcast.language.printer import format_expression
from rankcast.model.errors import InvalidMessageError, RankcastError, hint, shown
from rankcast.model.events import Event
from rankcast.model.filters import Filter
from rankcast.model.times import TICK, format_time, parse_time
from rankcast.model.values import Value


class SharedEvents:
    """Events that are written once, by the place of each; two are the same only if they are one object."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._places: dict[int, int] = {}

    def place(self, event: Event) -> int:
        """Return the place of an event, which may be a new one."""
        found = self._places.get(id(event))
        if found is None:
            found = self._places[id(event)] = len(self.events)
            self.events.append(event)
        return found


Writer: TypeAlias = Callable[[Any, SharedEvents | None], Any]
"""Turns a value into plain data."""

Reader: TypeAlias = Callable[[Any, Sequence[Event] | None], Any]
"""Turns plain data into a value."""

PLAIN = (bool, int, float, str)
MAX_NESTING = 64
"""Levels of objects and lists in a payload: twice what an event may have."""


class _MisfitError(Exception):
    """Something has no written form, or is none of a value; `path` leads to it, the innermost step first."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.path: list[str] = []

    def within(self, step: str) -> _MisfitError:
        """Return the error as one of whatever this is in."""
        self.path.append(step)
        return self

    def told(self, where: str = "") -> str:
        """Return the place and the reason."""
        place = f"{where}{''.join(self.path[::-1])}".lstrip(".")
        return f"{place}: {self}" if place else str(self)


def encode(value: Any, declared: Any, *, shared: bool = False) -> bytes:
    """Return a value as bytes, given its declared type; with `shared`, every event is written once.

    Raises InvalidMessageError, with its place, for a value that has no written form.

    >>> encode((1, None), tuple[int | None, ...])
    b'[1,null]'
    """
    if not shared:
        return json_bytes(to_plain(value, declared))
    events = SharedEvents()
    plain = to_plain(value, declared, events)
    return json_bytes({"events": list(map(_shared_event, events.events)), "value": plain})


def decode(data: bytes, declared: Any, where: str, *, shared: bool = False) -> Any:
    """Return the value of bytes, checked against its declared type.

    >>> decode(b"[1,null]", tuple[int | None, ...], "numbers")
    (1, None)
    """
    try:
        plain = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidMessageError(f"{where}: not JSON: {error}") from None
    if not shared:
        return from_plain(plain, declared, where)
    if not isinstance(plain, dict) or plain.keys() != {"events", "value"} or not isinstance(plain["events"], list):
        raise InvalidMessageError(f"{where}: {shown(plain)} is not an object of events and value")
    events = [_read_shared_event(event, f"{where}.events[{at}]") for at, event in enumerate(plain["events"])]
    return from_plain(plain["value"], declared, f"{where}.value", events)


def _shared_event(event: Event) -> dict[str, Any]:
    """Return an event as plain data, with the attributes that a schema has converted."""
    converted = event.conversions
    plain: dict[str, Any] = to_plain(event, Event)
    return {**plain, "converted": to_plain(converted, Any)} if converted else plain


def _read_shared_event(plain: Any, where: str) -> Event:
    converted = plain.pop("converted", None) if isinstance(plain, dict) else None
    event: Event = from_plain(plain, Event, where)
    return event if converted is None else event.converted(from_plain(converted, Mapping[str, Value], where))


def json_bytes(plain: Any) -> bytes:
    """Return plain data as bytes; raise InvalidMessageError for texts and numbers that JSON cannot have."""
    try:
        return msgspec.json.encode(plain)
    except UnicodeEncodeError:
        raise InvalidMessageError("a text holds half a surrogate pair, which is not text") from None
    except ValueError as error:  # an integer in a list that is too long to be written
        raise InvalidMessageError(f"cannot be stored: {error}") from None


def to_plain(value: Any, declared: Any, shared: SharedEvents | None = None) -> Any:
    """Return a value as plain data that JSON can hold, given its declared type."""
    try:
        return _writer(declared)(value, shared)
    except _MisfitError as error:
        raise InvalidMessageError(error.told()) from None


def from_plain(plain: Any, declared: Any, where: str = "message", events: Sequence[Event] | None = None) -> Any:
    """Return the value of plain data, checked against the declared type; with `events`, an event is a place in them."""
    try:
        return _reader(declared)(plain, events)
    except _MisfitError as error:
        raise InvalidMessageError(error.told(where)) from None
    except RankcastError as error:
        raise InvalidMessageError(f"{where}: {error}") from None


@cache
def _writer(declared: Any) -> Writer:
    declared = _unwrapped(declared)
    if declared is Event:
        return _event_writer()
    if declared is float:
        return lambda value, _: value if math.isfinite(value) else {"$float": str(value)}
    if declared in PLAIN:
        return lambda value, _: value
    if declared is Any:
        return lambda value, _: _payload(value)
    if declared is datetime:
        return lambda value, _: format_time(value)
    if declared is timedelta:
        return lambda value, _: value // TICK
    if declared is Filter:
        return lambda value, _: format_expression(value.expression)
    if isinstance(declared, type) and issubclass(declared, Enum):
        return lambda value, _: value.value
    if is_record(declared):
        return _object_writer(declared)
    if _is_union(declared):
        return _union_writer(declared)
    return _container_writer(declared)


def _event_writer() -> Writer:
    write = _object_writer(Event)
    return lambda value, shared: write(value, None) if shared is None else shared.place(value)


def _object_writer(declared: type) -> Writer:
    hints = typing.get_type_hints(declared)
    members = [(name, default, _writer(hints[name])) for name, default in fields_of(declared).items()]

    def write(value: Any, shared: SharedEvents | None) -> dict[str, Any]:
        plain: dict[str, Any] = {}
        for name, default, writer in members:
            held = getattr(value, name)
            if default is MISSING or held != default:
                try:
                    plain[name] = writer(held, shared)
                except _MisfitError as error:
                    raise error.within(f".{name}") from None
        return plain

    def write_list(value: Any, shared: SharedEvents | None) -> list[Any]:
        kept = len(members)
        while kept and getattr(value, members[kept - 1][0]) == members[kept - 1][1]:
            kept -= 1
        return [writer(getattr(value, name), shared) for name, _, writer in members[:kept]]

    return write_list if _is_listed(declared) else write


def _union_writer(declared: Any) -> Writer:
    options = typing.get_args(declared)
    known: dict[type, Writer] = {}

    def write(value: Any, shared: SharedEvents | None) -> Any:
        writer = known.get(type(value))
        if writer is None:
            writer = known[type(value)] = _option_writer(options, value, declared)
        return writer(value, shared)

    return write


def _option_writer(options: tuple[Any, ...], value: Any, declared: Any) -> Writer:
    """Return what writes values of the type of this one, where there are several options."""
    kind: Any = type(value)
    if value is None:
        return lambda *_: None
    if is_record(kind):
        write = _writer(kind)
        if sum(is_record(option) for option in options) == 1:
            return write
        return lambda value, shared: {"is": kind.__name__, **write(value, shared)}
    if datetime in options and str in options:
        return lambda value, _: _payload(value)
    if kind is timedelta and int in options:
        return lambda value, _: {"microseconds": value // TICK}
    for option in options:
        if _holds(option, value):
            return _writer(option)
    raise _MisfitError(f"{shown(value)} has no written form; expected {declared}")


def _holds(option: Any, value: Any) -> bool:
    """Whether a value is of a kind; as everywhere in Python, a whole number may stand for a float."""
    plain = typing.get_origin(option) or _unwrapped(option)
    if plain is float and isinstance(value, int) and not isinstance(value, bool):
        return True
    return isinstance(plain, type) and isinstance(value, plain)


def _container_writer(declared: Any) -> Writer:
    kind, inner = typing.get_origin(declared), typing.get_args(declared)
    if isinstance(declared, type) and issubclass(declared, tuple):  # a NamedTuple
        return _row_writer(list(typing.get_type_hints(declared).values()))
    if kind is tuple and inner[-1] is not Ellipsis:
        return _row_writer(list(inner))
    write = _writer(inner[-1] if kind is Mapping else inner[0])
    if kind is frozenset:
        return lambda value, shared: sorted(write(held, shared) for held in value)
    if kind in (tuple, list):
        return lambda value, shared: [write(held, shared) for held in value]
    if kind is Mapping:
        return lambda value, shared: {name: write(held, shared) for name, held in value.items()}
    raise TypeError(f"no written form for {declared}")


def _row_writer(parts: list[Any]) -> Writer:
    writers = list(map(_writer, parts))
    return lambda value, shared: [write(held, shared) for write, held in zip(writers, value, strict=True)]


@cache
def _reader(declared: Any) -> Reader:
    declared = _unwrapped(declared)
    if declared is Event:
        return _event_reader()
    if declared in PLAIN:
        return _plain_reader(declared)
    if declared is Any:
        return lambda plain, _: _read_payload(plain, 0)
    if declared is object:
        return lambda plain, _: plain
    if declared is datetime:
        return lambda plain, _: parse_time(_text(plain), exact=True)
    if declared is timedelta:
        return lambda plain, _: _duration(plain)
    if declared is Filter:
        return lambda plain, _: parse_filter(_text(plain))
    if isinstance(declared, type) and issubclass(declared, Enum):
        return lambda plain, _: _enum(declared, plain)
    if is_record(declared):
        return _list_reader(declared) if _is_listed(declared) else _object_reader(declared)
    if _is_union(declared):
        return _union_reader(declared)
    return _container_reader(declared)


def _event_reader() -> Reader:
    read_event = _object_reader(Event)

    def read(plain: Any, events: Sequence[Event] | None) -> Any:
        if events is None:
            return read_event(plain, None)
        if not isinstance(plain, int) or isinstance(plain, bool) or not 0 <= plain < len(events):
            raise _wrong(plain, f"the place of one of {len(events)} events")
        return events[plain]

    return read


def _plain_reader(declared: type) -> Reader:
    allowed = (int, float) if declared is float else (declared,)

    def read(plain: Any, _: Sequence[Event] | None) -> Any:
        if declared is float and isinstance(plain, dict):
            plain = _read_payload(plain, MAX_NESTING)
        if not isinstance(plain, allowed) or (isinstance(plain, bool) and declared is not bool):
            raise _wrong(plain, f"a {declared.__name__}")
        return plain

    return read


def _text(plain: Any) -> str:
    if not isinstance(plain, str):
        raise _wrong(plain, "a text")
    return plain


def _duration(plain: Any) -> timedelta:
    if not isinstance(plain, int) or isinstance(plain, bool):
        raise _wrong(plain, "whole microseconds")
    try:
        return plain * TICK
    except OverflowError:
        raise _wrong(plain, "a duration") from None


def _enum(declared: type[Enum], plain: Any) -> Enum:
    for member in declared:
        if member.value == plain and type(member.value) is type(plain):
            return member
    raise _wrong(plain, f"one of {', '.join(str(member.value) for member in declared)}")


def _object_reader(declared: type) -> Reader:
    hints = typing.get_type_hints(declared)
    defaults = fields_of(declared)
    needed = [name for name, default in defaults.items() if default is MISSING]
    readers = {name: _reader(hints[name]) for name in defaults}

    def read(plain: Any, events: Sequence[Event] | None) -> Any:
        if not isinstance(plain, dict):
            raise _wrong(plain, "an object")
        for name in plain:
            if name not in readers:
                wrong = f"there is no field {shown(name)} in {declared.__name__}"
                raise _MisfitError(f"{wrong}; {hint(name, readers)}")
        for name in needed:
            if name not in plain:
                raise _MisfitError(f"the field {name} of {declared.__name__} is missing")
        held = {}
        for name, value in plain.items():
            try:
                held[name] = readers[name](value, events)
            except _MisfitError as error:
                raise error.within(f".{name}") from None
            except RankcastError as error:
                raise _MisfitError(str(error)).within(f".{name}") from None
        return _made(declared, held)

    return read


def _list_reader(declared: type) -> Reader:
    hints = typing.get_type_hints(declared)
    defaults = fields_of(declared)
    readers = [_reader(hints[name]) for name in defaults]
    needed = sum(default is MISSING for default in defaults.values())

    def read(plain: Any, events: Sequence[Event] | None) -> Any:
        if not isinstance(plain, list) or not needed <= len(plain) <= len(readers):
            raise _wrong(plain, f"a list of {needed} to {len(readers)}")
        return _made(declared, dict(zip(defaults, _row(readers, plain, events), strict=False)))

    return read


def _made(declared: type, held: dict[str, Any]) -> Any:
    try:
        return declared(**held)
    except RankcastError as error:
        raise _MisfitError(str(error)) from None


def _union_reader(declared: Any) -> Reader:
    options = [option for option in typing.get_args(declared) if option is not type(None)]
    optional = type(None) in typing.get_args(declared)
    classes = {option.__name__: option for option in options if is_record(option)}
    readers = {name: _reader(option) for name, option in classes.items()}
    others = [option for option in options if option not in classes.values()]
    read_others = [_reader(option) for option in others]
    may_be_whole = int in others and float not in others

    def read(plain: Any, events: Sequence[Event] | None) -> Any:
        if plain is None and optional:
            return None
        if may_be_whole and type(plain) is int:
            return plain
        if datetime in others and str in others:
            return _read_payload(plain, MAX_NESTING)
        if len(classes) == 1 and not others:
            return readers[options[0].__name__](plain, events)
        if classes and isinstance(plain, dict):
            name = plain.get("is")
            if not isinstance(name, str) or name not in classes:
                raise _wrong(name, f"one of {', '.join(classes)}").within(".is")
            return readers[name]({key: held for key, held in plain.items() if key != "is"}, events)
        if timedelta in others and int in others:
            if isinstance(plain, dict) and plain.keys() == {"microseconds"}:
                return _duration(plain["microseconds"])
            return _reader(int)(plain, events)
        if not others:
            raise _wrong(plain, "an object")
        return _first_that_fits(read_others, plain, events)

    return read


def _first_that_fits(readers: list[Reader], plain: Any, events: Sequence[Event] | None) -> Any:
    for reader in readers[:-1]:
        try:
            return reader(plain, events)
        except (_MisfitError, RankcastError):
            continue
    return readers[-1](plain, events)


def _container_reader(declared: Any) -> Reader:
    kind, inner = typing.get_origin(declared), typing.get_args(declared)
    if isinstance(declared, type) and issubclass(declared, tuple):  # a NamedTuple
        read_row = _row_reader(list(typing.get_type_hints(declared).values()))
        return lambda plain, events: declared(*read_row(plain, events))
    if kind is tuple and inner[-1] is not Ellipsis:
        return _row_reader(list(inner))
    if kind in (frozenset, tuple, list):
        reader = _reader(inner[0])
        return lambda plain, events: kind(_each(plain, reader, events))
    if kind is Mapping:
        return _mapping_reader(_reader(inner[1]))
    raise TypeError(f"no written form for {declared}")


def _mapping_reader(reader: Reader) -> Reader:
    def read(plain: Any, events: Sequence[Event] | None) -> dict[str, Any]:
        if not isinstance(plain, dict):
            raise _wrong(plain, "an object")
        held = {}
        for name, value in plain.items():
            try:
                held[name] = reader(value, events)
            except _MisfitError as error:
                raise error.within(f".{name}") from None
        return held

    return read


def _each(plain: Any, reader: Reader, events: Sequence[Event] | None = None) -> list[Any]:
    if not isinstance(plain, list):
        raise _wrong(plain, "a list")
    return _row(itertools.repeat(reader), plain, events)


def _row(readers: Iterable[Reader], plain: list[Any], events: Sequence[Event] | None) -> list[Any]:
    found: list[Any] = []
    try:
        for reader, held in zip(readers, plain, strict=False):
            found.append(reader(held, events))
    except _MisfitError as error:
        raise error.within(f"[{len(found)}]") from None
    return found


def _row_reader(parts: list[Any]) -> Reader:
    readers = list(map(_reader, parts))

    def read(plain: Any, events: Sequence[Event] | None) -> tuple[Any, ...]:
        if not isinstance(plain, list) or len(plain) != len(parts):
            raise _wrong(plain, f"a list of {len(parts)}")
        return tuple(_row(readers, plain, events))

    return read


def _payload(value: Any) -> Any:
    """Return what an event holds as plain data that keeps its types."""
    if type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$float": str(value)}
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode("ascii")}
    if isinstance(value, datetime) and value.tzinfo is not None:
        return {"$time": _time(value)}
    if isinstance(value, date) and not isinstance(value, datetime):
        return {"$date": value.isoformat()}
    if isinstance(value, Mapping):
        return _payload_object(value)
    if isinstance(value, list):
        return _payload_list(value)
    if isinstance(value, tuple):
        return {"$tuple": _payload_list(value)}
    raise _MisfitError(f"{shown(value)} cannot be stored; expected what JSON can hold, or a time with its zone")


def _payload_object(value: Mapping[Any, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for name, held in value.items():
        if not isinstance(name, str):
            raise _MisfitError(f"{shown(name)} cannot be stored as the name of a value; expected a str")
        try:
            plain[name] = _payload(held)
        except _MisfitError as error:
            raise error.within(f".{name}") from None
    return {"$object": list(map(list, plain.items()))} if any(name.startswith("$") for name in plain) else plain


def _payload_list(value: Sequence[Any]) -> list[Any]:
    plain: list[Any] = []
    for at, held in enumerate(value):
        try:
            plain.append(_payload(held))
        except _MisfitError as error:
            raise error.within(f"[{at}]") from None
    return plain


def _time(value: datetime) -> str:
    try:
        return format_time(value)
    except OverflowError:  # in its zone it is in the calendar, but not in UTC
        raise _MisfitError(f"{shown(value)} cannot be stored: its UTC time is none") from None


def _read_payload(plain: Any, depth: int) -> Any:
    if not isinstance(plain, list | dict):
        return plain
    tag = next((name for name in plain if name.startswith("$")), None) if isinstance(plain, dict) else None
    if tag is not None:
        if len(plain) != 1:
            raise _wrong(sorted(plain), "one name where one begins with $")
        return _tagged(tag, plain[tag], depth)
    if depth >= MAX_NESTING:
        raise _wrong(plain, "a plain value")

    def inner(held: Any, _: Sequence[Event] | None) -> Any:
        return _read_payload(held, depth + 1)

    return _each(plain, inner) if isinstance(plain, list) else _mapping_reader(inner)(plain, None)


def _tagged(tag: str, plain: Any, depth: int) -> Any:
    if tag == "$time":
        return parse_time(_text(plain), exact=True)
    if tag == "$float" and plain in ("inf", "-inf", "nan"):
        return float(plain)
    if tag == "$bytes":
        try:
            return base64.b64decode(_text(plain), validate=True)
        except binascii.Error:
            raise _wrong(plain, "base64") from None
    if tag == "$date":
        try:
            return date.fromisoformat(_text(plain))
        except ValueError:
            raise _wrong(plain, "a date") from None
    if tag == "$tuple" and isinstance(plain, list) and depth < MAX_NESTING:
        return tuple(_read_payload(plain, depth))
    if tag == "$object" and depth < MAX_NESTING:
        return {name: _read_payload(held, depth + 1) for name, held in _each(plain, _reader(tuple[str, object]))}
    raise _wrong({tag: plain}, "$time, $date, $float, $bytes, $tuple or $object")


def _unwrapped(declared: Any) -> Any:
    while hasattr(declared, "__supertype__"):  # a NewType
        declared = declared.__supertype__
    return declared


def _is_union(declared: Any) -> bool:
    return typing.get_origin(declared) in (typing.Union, types.UnionType)


def is_record(declared: Any) -> bool:
    """Whether a type is one of named fields."""
    return isinstance(declared, type) and (is_dataclass(declared) or issubclass(declared, Struct))


def _is_listed(declared: Any) -> bool:
    return issubclass(declared, Struct) and declared.__struct_config__.array_like


def fields_of(declared: Any) -> dict[str, Any]:
    """Return the fields that a record is made with, and their defaults; MISSING for those without one."""
    if issubclass(declared, Struct):
        return {one.name: MISSING if one.required else one.default for one in structs.fields(declared)}
    return {one.name: _default(one) for one in fields(declared) if one.init}


def _default(one: Field[Any]) -> Any:
    return one.default_factory() if one.default_factory is not MISSING else one.default


def _wrong(value: object, expected: str) -> _MisfitError:
    return _MisfitError(f"{shown(value)} is not {expected}")
