"""The one lossless JSON of what rankcast writes down or sends: messages, journals, snapshots, events between processes.

Values are led by their declared types:

- a dataclass or struct is an object of its fields, those at their default left out (a struct that is `array_like`: a
  list); where a field may hold one of several of them, the object names its class in "is";
- enums are their values, tuples and sets lists, a dict the list of its items (a Mapping, whose keys are texts, an
  object), durations whole microseconds ({"microseconds": n} where a number may stand as well), times RFC 3339 texts,
  filters their texts, infinite floats {"$float": text};
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
from dataclasses import MISSING, fields, is_dataclass
from datetime import date, datetime, timedelta
from enum import Enum
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import msgspec
from msgspec import Struct, structs

from rankcast.language.parser import parse_filter
from rankcast.language.printer import format_expression
from rankcast.model.errors import InvalidMessageError, RankcastError, hint, shown
from rankcast.model.events import Event
from rankcast.model.filters import Filter
from rankcast.model.times import TICK, format_time, parse_time
from rankcast.model.values import AttributeValue, as_python


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


class _Form(NamedTuple):
    """How values of a declared type are written and read."""

    write: Writer
    read: Reader


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
    return event if converted is None else event.converted(from_plain(converted, Mapping[str, AttributeValue], where))


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
        return _form(declared).write(value, shared)
    except _MisfitError as error:
        raise InvalidMessageError(error.told()) from None


def from_plain(plain: Any, declared: Any, where: str = "message", events: Sequence[Event] | None = None) -> Any:
    """Return the value of plain data, checked against the declared type; with `events`, an event is a place in them."""
    try:
        return _form(declared).read(plain, events)
    except _MisfitError as error:
        raise InvalidMessageError(error.told(where)) from None
    except RankcastError as error:
        raise InvalidMessageError(f"{where}: {error}") from None


@cache
def _form(declared: Any) -> _Form:
    declared = _unwrapped(declared)
    if declared in _SIMPLE:
        return _SIMPLE[declared]
    if declared is Event:
        return _event_form()
    if isinstance(declared, type) and issubclass(declared, Enum):
        return _Form(lambda value, _: value.value, lambda plain, _: _enum(declared, plain))
    if is_record(declared):
        return (_list_form if _is_listed(declared) else _object_form)(declared)
    return _union_form(declared) if _is_union(declared) else _container_form(declared)


def _plain_form(declared: type) -> _Form:
    def read(plain: Any, _: Sequence[Event] | None) -> Any:
        if not isinstance(plain, declared) or (isinstance(plain, bool) and declared is not bool):
            raise _wrong(plain, f"a {declared.__name__}")
        return plain

    return _Form(lambda value, _: value, read)


def _float(plain: Any) -> float:
    found = _read_payload(plain, MAX_NESTING) if isinstance(plain, dict) else plain
    if not isinstance(found, int | float) or isinstance(found, bool):
        raise _wrong(found, "a float")
    return found


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


_SIMPLE: Mapping[Any, _Form] = {
    **{kind: _plain_form(kind) for kind in (bool, int, str)},
    float: _Form(
        lambda value, _: value if math.isfinite(value) else {"$float": str(value)}, lambda plain, _: _float(plain)
    ),
    Any: _Form(lambda value, _: _payload(value), lambda plain, _: _read_payload(plain, 0)),
    object: _Form(lambda value, _: value, lambda plain, _: plain),
    datetime: _Form(lambda value, _: format_time(value), lambda plain, _: parse_time(_text(plain), exact=True)),
    timedelta: _Form(lambda value, _: value // TICK, lambda plain, _: _duration(plain)),
    Filter: _Form(lambda value, _: format_expression(value.expression), lambda plain, _: parse_filter(_text(plain))),
}


def _event_form() -> _Form:
    whole = _object_form(Event)

    def read(plain: Any, events: Sequence[Event] | None) -> Any:
        if events is None:
            return whole.read(plain, None)
        if not isinstance(plain, int) or isinstance(plain, bool) or not 0 <= plain < len(events):
            raise _wrong(plain, f"the place of one of {len(events)} events")
        return events[plain]

    return _Form(lambda value, shared: whole.write(value, None) if shared is None else shared.place(value), read)


def _object_form(declared: type) -> _Form:
    defaults, forms = fields_of(declared), _forms_of(declared)
    members = [(name, default, forms[name].write) for name, default in defaults.items()]

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

    return _Form(write, _object_reader(declared, {name: form.read for name, form in forms.items()}))


def _object_reader(declared: type, readers: Mapping[str, Reader]) -> Reader:
    needed = [name for name, default in fields_of(declared).items() if default is MISSING]

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


def _list_form(declared: type) -> _Form:
    defaults, forms = fields_of(declared), _forms_of(declared)
    members = [(name, default, forms[name].write) for name, default in defaults.items()]
    readers = [forms[name].read for name in defaults]
    needed = sum(default is MISSING for default in defaults.values())

    def write(value: Any, shared: SharedEvents | None) -> list[Any]:
        kept = len(members)
        while kept and getattr(value, members[kept - 1][0]) == members[kept - 1][1]:
            kept -= 1
        return [writer(getattr(value, name), shared) for name, _, writer in members[:kept]]

    def read(plain: Any, events: Sequence[Event] | None) -> Any:
        if not isinstance(plain, list) or not needed <= len(plain) <= len(readers):
            raise _wrong(plain, f"a list of {needed} to {len(readers)}")
        return _made(declared, dict(zip(defaults, _row(readers, plain, events), strict=False)))

    return _Form(write, read)


def _forms_of(declared: type) -> dict[str, _Form]:
    hints = typing.get_type_hints(declared)
    return {name: _form(hints[name]) for name in fields_of(declared)}


def _made(declared: type, held: dict[str, Any]) -> Any:
    try:
        return declared(**held)
    except RankcastError as error:
        raise _MisfitError(str(error)) from None


def _union_form(declared: Any) -> _Form:
    known: dict[type, Writer] = {}

    def write(value: Any, shared: SharedEvents | None) -> Any:
        writer = known.get(type(value))
        if writer is None:
            writer = known[type(value)] = _option_writer(declared, value)
        return writer(value, shared)

    return _Form(write, _union_reader(declared))


def _option_writer(declared: Any, value: Any) -> Writer:
    """Return what writes values of the type of this one, where there are several options."""
    options = typing.get_args(declared)
    kind: Any = type(value)
    if value is None:
        return lambda *_: None
    if is_record(kind):
        write = _form(kind).write
        if sum(is_record(option) for option in options) == 1:
            return write
        return lambda value, shared: {"is": kind.__name__, **write(value, shared)}
    if datetime in options and str in options:
        return lambda value, _: _payload(value)
    if kind is timedelta and int in options:
        return lambda value, _: {"microseconds": value // TICK}
    for option in options:
        if _holds(option, value):
            return _form(option).write
    raise _MisfitError(f"{shown(value)} has no written form; expected {declared}")


def _holds(option: Any, value: Any) -> bool:
    """Whether a value is of a kind; as everywhere in Python, a whole number may stand for a float."""
    plain = typing.get_origin(option) or _unwrapped(option)
    if plain is float and isinstance(value, int) and not isinstance(value, bool):
        return True
    return isinstance(plain, type) and isinstance(value, plain)


def _union_reader(declared: Any) -> Reader:
    options = [option for option in typing.get_args(declared) if option is not type(None)]
    optional = type(None) in typing.get_args(declared)
    classes = {option.__name__: _form(option).read for option in options if is_record(option)}
    others = [option for option in options if not is_record(option)]
    read_others = [_form(option).read for option in others]
    may_be_list = any(typing.get_origin(option) is tuple for option in others)
    may_be_whole = int in others and float not in others

    def read(plain: Any, events: Sequence[Event] | None) -> Any:
        if plain is None and optional:
            return None
        if may_be_whole and type(plain) is int:
            return plain
        if datetime in others and str in others:  # a value of an event, which may be a list if there is a tuple for it
            found = _read_payload(plain, MAX_NESTING - may_be_list)
            if isinstance(found, list | dict):
                raise _wrong(plain, "a value")
            return found
        if len(classes) == 1 and (not others or isinstance(plain, dict)):
            return next(iter(classes.values()))(plain, events)
        if classes and isinstance(plain, dict):
            name = plain.get("is")
            if not isinstance(name, str) or name not in classes:
                raise _wrong(name, f"one of {', '.join(classes)}").within(".is")
            return classes[name]({key: held for key, held in plain.items() if key != "is"}, events)
        if timedelta in others and int in others:
            if isinstance(plain, dict) and plain.keys() == {"microseconds"}:
                return _duration(plain["microseconds"])
            return _form(int).read(plain, events)
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


def _container_form(declared: Any) -> _Form:
    kind, inner = typing.get_origin(declared), typing.get_args(declared)
    if isinstance(declared, type) and issubclass(declared, tuple):  # a NamedTuple
        return _row_form(tuple(typing.get_type_hints(declared).values()), lambda row: declared(*row))
    if kind is tuple and inner[-1] is not Ellipsis:
        return _row_form(inner, tuple)
    if kind is Mapping:
        write, read = _form(inner[1])
        return _Form(
            lambda value, shared: {name: write(held, shared) for name, held in value.items()},
            lambda plain, events: _mapping(plain, read, events),
        )
    if kind is dict:
        write, read = _row_form(inner, tuple)
        return _Form(
            lambda value, shared: [write(item, shared) for item in value.items()],
            lambda plain, events: dict(_each(plain, read, events)),
        )
    if kind not in (frozenset, set, tuple, list):
        raise TypeError(f"no written form for {declared}")
    write, read = _form(inner[0])
    ordered = list if kind in (tuple, list) else sorted
    return _Form(
        lambda value, shared: ordered([write(held, shared) for held in value]),
        lambda plain, events: kind(_each(plain, read, events)),
    )


def _row_form(parts: tuple[Any, ...], make: Callable[[list[Any]], Any]) -> _Form:
    forms = list(map(_form, parts))
    readers = [form.read for form in forms]

    def write(value: Any, shared: SharedEvents | None) -> list[Any]:
        return [form.write(held, shared) for form, held in zip(forms, value, strict=True)]

    def read(plain: Any, events: Sequence[Event] | None) -> Any:
        if not isinstance(plain, list) or len(plain) != len(parts):
            raise _wrong(plain, f"a list of {len(parts)}")
        return make(_row(readers, plain, events))

    return _Form(write, read)


def _mapping(plain: Any, reader: Reader, events: Sequence[Event] | None = None) -> dict[str, Any]:
    if not isinstance(plain, dict):
        raise _wrong(plain, "an object")
    return _named(plain, reader, events)


def _named(given: Mapping[str, Any], convert: Callable[[Any, Any], Any], events: Any = None) -> dict[str, Any]:
    """Convert what names stand for; an error tells the name."""
    found: dict[str, Any] = {}
    for name, held in given.items():
        try:
            found[name] = convert(held, events)
        except _MisfitError as error:
            raise error.within(f".{name}") from None
    return found


def _each(plain: Any, reader: Reader, events: Sequence[Event] | None = None) -> list[Any]:
    if not isinstance(plain, list):
        raise _wrong(plain, "a list")
    return _row(itertools.repeat(reader), plain, events)


def _row(converts: Iterable[Callable[[Any, Any], Any]], given: Sequence[Any], events: Any = None) -> list[Any]:
    """Convert the elements of a list; an error tells the place."""
    found: list[Any] = []
    try:
        for convert, held in zip(converts, given, strict=False):
            found.append(convert(held, events))
    except _MisfitError as error:
        raise error.within(f"[{len(found)}]") from None
    return found


def _payload(value: Any, _: object = None) -> Any:
    """Return what an event holds as plain data that keeps its types."""
    value = as_python(value)
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
        return _row(itertools.repeat(_payload), value)
    if isinstance(value, tuple):
        return {"$tuple": _row(itertools.repeat(_payload), value)}
    raise _MisfitError(f"{shown(value)} cannot be stored; expected what JSON can hold, or a time with its zone")


def _payload_object(value: Mapping[Any, Any]) -> dict[str, Any]:
    unnamed = next((name for name in value if not isinstance(name, str)), None)
    if unnamed is not None:
        raise _MisfitError(f"{shown(unnamed)} cannot be stored as the name of a value; expected a str")
    plain = _named(value, _payload)
    return {"$object": list(map(list, plain.items()))} if any(name.startswith("$") for name in plain) else plain


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

    def inner(held: Any, _: object) -> Any:
        return _read_payload(held, depth + 1)

    return _each(plain, inner) if isinstance(plain, list) else _mapping(plain, inner)


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
        return {name: _read_payload(held, depth + 1) for name, held in _each(plain, _form(tuple[str, object]).read)}
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
        return {field.name: MISSING if field.required else field.default for field in structs.fields(declared)}
    return {
        field.name: field.default if field.default_factory is MISSING else field.default_factory()
        for field in fields(declared)
        if field.init
    }


def _wrong(value: object, expected: str) -> _MisfitError:
    return _MisfitError(f"{shown(value)} is not {expected}")
