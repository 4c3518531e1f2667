"""Plain dataclasses to JSON and back, led by their declared types: the one codec of messages and snapshots.

- a dataclass is an object of its fields, those at their default left out; where a field may hold one of several
  dataclasses, the object names its class in "is";
- enums are their values, tuples lists, durations whole microseconds ({"microseconds": n} where a number may stand as
  well), times RFC 3339 texts, filters their texts;
- values of events keep their types: a time is {"$time": text}, an infinite float {"$float": text}, bytes {"$bytes":
  base64}, and a payload object with a name that begins with "$" is {"$object": [[name, value], ...]}.

Reading checks everything: a field that is missing, unknown or of another type raises InvalidMessageError, and so does
whatever the dataclass itself refuses. Nothing is looked up by a name from outside but the classes that a type names.
"""

from __future__ import annotations

import base64
import binascii
import math
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import UTC, date, datetime, timedelta
from enum import Enum
from functools import cache
from typing import Any, TypeAlias

from msgspec import Struct, structs

from rankcast.language.parser import parse_filter
from rankcast.language.printer import format_expression
from rankcast.model.errors import InvalidMessageError, RankcastError, hint, shown
from rankcast.model.filters import Filter
from rankcast.model.times import TICK, format_time, parse_time

Reader: TypeAlias = Callable[[Any, str], Any]
"""Turns plain data at a named place into a value."""

PLAIN = (bool, int, float, str)
MAX_NESTING = 64
"""Levels of objects and lists in a payload: twice what an event may have."""


def to_plain(value: Any, declared: Any) -> Any:
    """Return a value as plain data for `json.dumps`, given its declared type."""
    return _writer(declared)(value)


def from_plain(plain: Any, declared: Any, where: str = "message") -> Any:
    """Return the value of plain data, checked against the declared type."""
    try:
        return _reader(declared)(plain, where)
    except InvalidMessageError:
        raise
    except RankcastError as error:
        raise InvalidMessageError(f"{where}: {error}") from None


@cache
def _writer(declared: Any) -> Callable[[Any], Any]:
    declared = _unwrapped(declared)
    if declared in PLAIN:
        return _itself
    if declared is Any:
        return _payload
    if declared is datetime:
        return format_time
    if declared is timedelta:
        return lambda value: value // TICK
    if declared is Filter:
        return lambda value: format_expression(value.expression)
    if isinstance(declared, type) and issubclass(declared, Enum):
        return lambda value: value.value
    if is_record(declared):
        return _object_writer(declared)
    if _is_union(declared):
        return _union_writer(declared)
    return _container_writer(declared)


def _itself(value: Any) -> Any:
    return value


def _object_writer(declared: type) -> Callable[[Any], dict[str, Any]]:
    hints = typing.get_type_hints(declared)
    members = [(name, default, _writer(hints[name])) for name, default in fields_of(declared).items()]

    def write(value: Any) -> dict[str, Any]:
        plain: dict[str, Any] = {}
        for name, default, writer in members:
            held = getattr(value, name)
            if default is MISSING or held != default:
                plain[name] = writer(held)
        return plain

    return write


def _union_writer(declared: Any) -> Callable[[Any], Any]:
    options = typing.get_args(declared)

    def write(value: Any) -> Any:
        if value is None:
            return None
        kind: Any = type(value)
        if is_record(kind):
            plain = _writer(kind)(value)
            several = sum(is_record(one) for one in options) > 1
            return {"is": kind.__name__, **plain} if several else plain
        if any(one is datetime for one in options) and any(one is str for one in options):
            return _payload(value)
        if isinstance(value, timedelta) and int in options:
            return {"microseconds": value // TICK}
        for one in options:
            if _holds(one, value):
                return _writer(one)(value)
        raise InvalidMessageError(f"{shown(value)} has no wire form; expected {declared}")

    return write


def _holds(option: Any, value: Any) -> bool:
    """Whether a value is of a kind; as everywhere in Python, a whole number may stand for a float."""
    plain = typing.get_origin(option) or _unwrapped(option)
    if plain is float and isinstance(value, int) and not isinstance(value, bool):
        return True
    return isinstance(plain, type) and isinstance(value, plain)


def _container_writer(declared: Any) -> Callable[[Any], Any]:
    kind, inner = typing.get_origin(declared), typing.get_args(declared)
    if isinstance(declared, type) and issubclass(declared, tuple):  # a NamedTuple
        writers = [_writer(one) for one in typing.get_type_hints(declared).values()]
        return lambda value: [writer(one) for writer, one in zip(writers, value, strict=True)]
    if kind is frozenset:
        return lambda value: sorted(map(_writer(inner[0]), value))
    if kind is tuple and inner[-1] is Ellipsis:
        return lambda value: list(map(_writer(inner[0]), value))
    if kind is tuple:
        return lambda value: [_writer(one)(held) for one, held in zip(inner, value, strict=True)]
    if kind is Mapping:
        return lambda value: {name: _writer(inner[1])(held) for name, held in value.items()}
    raise TypeError(f"no wire form for {declared}")


@cache
def _reader(declared: Any) -> Reader:
    declared = _unwrapped(declared)
    if declared in PLAIN:
        return _plain_reader(declared)
    if declared is Any:
        return lambda plain, where: _read_payload(plain, where, 0)
    if declared is object:
        return lambda plain, _: plain
    if declared is datetime:
        return lambda plain, where: parse_time(_text(plain, where), exact=True)
    if declared is timedelta:
        return _duration
    if declared is Filter:
        return lambda plain, where: parse_filter(_text(plain, where))
    if isinstance(declared, type) and issubclass(declared, Enum):
        return lambda plain, where: _enum(declared, plain, where)
    if is_record(declared):
        return _object_reader(declared)
    if _is_union(declared):
        return _union_reader(declared)
    return _container_reader(declared)


def _plain_reader(declared: type) -> Reader:
    allowed = (int, float) if declared is float else (declared,)

    def read(plain: Any, where: str) -> Any:
        if not isinstance(plain, allowed) or (isinstance(plain, bool) and declared is not bool):
            raise _wrong(plain, where, f"a {declared.__name__}")
        return plain

    return read


def _text(plain: Any, where: str) -> str:
    if not isinstance(plain, str):
        raise _wrong(plain, where, "a text")
    return plain


def _duration(plain: Any, where: str) -> timedelta:
    if not isinstance(plain, int) or isinstance(plain, bool):
        raise _wrong(plain, where, "whole microseconds")
    try:
        return plain * TICK
    except OverflowError:
        raise _wrong(plain, where, "a duration") from None


def _enum(declared: type[Enum], plain: Any, where: str) -> Enum:
    for member in declared:
        if member.value == plain and type(member.value) is type(plain):
            return member
    raise _wrong(plain, where, f"one of {', '.join(str(member.value) for member in declared)}")


def _object_reader(declared: type) -> Reader:
    hints = typing.get_type_hints(declared)
    members = {name: (default is MISSING, hints[name]) for name, default in fields_of(declared).items()}

    def read(plain: Any, where: str) -> Any:
        if not isinstance(plain, dict):
            raise _wrong(plain, where, "an object")
        unknown = sorted(plain.keys() - members.keys())
        if unknown:
            wrong = f"{where}: there is no field {shown(unknown[0])} in {declared.__name__}"
            raise InvalidMessageError(f"{wrong}; {hint(unknown[0], members)}")
        missing = [name for name, (needed, _) in members.items() if needed and name not in plain]
        if missing:
            raise InvalidMessageError(f"{where}: the field {missing[0]} of {declared.__name__} is missing")
        held = {name: _reader(members[name][1])(value, f"{where}.{name}") for name, value in plain.items()}
        try:
            return declared(**held)
        except InvalidMessageError:
            raise
        except RankcastError as error:
            raise InvalidMessageError(f"{where}: {error}") from None

    return read


def _union_reader(declared: Any) -> Reader:
    options = [one for one in typing.get_args(declared) if one is not type(None)]
    optional = type(None) in typing.get_args(declared)
    classes = {one.__name__: one for one in options if is_record(one)}
    others = [one for one in options if one not in classes.values()]

    def read(plain: Any, where: str) -> Any:
        if plain is None and optional:
            return None
        if datetime in others and str in others:
            return _read_payload(plain, where, MAX_NESTING)
        if len(classes) == 1 and not others:
            return _reader(options[0])(plain, where)
        if classes and isinstance(plain, dict):
            name = plain.get("is")
            if not isinstance(name, str) or name not in classes:
                raise _wrong(name, f"{where}.is", f"one of {', '.join(classes)}")
            return _reader(classes[name])({key: held for key, held in plain.items() if key != "is"}, where)
        if timedelta in others and int in others:
            if isinstance(plain, dict) and plain.keys() == {"microseconds"}:
                return _duration(plain["microseconds"], where)
            return _reader(int)(plain, where)
        if not others:
            raise _wrong(plain, where, "an object")
        return _first_that_fits(others, plain, where)

    return read


def _first_that_fits(options: list[Any], plain: Any, where: str) -> Any:
    for option in options[:-1]:
        try:
            return _reader(option)(plain, where)
        except InvalidMessageError:
            continue
    return _reader(options[-1])(plain, where)


def _container_reader(declared: Any) -> Reader:
    kind, inner = typing.get_origin(declared), typing.get_args(declared)
    if isinstance(declared, type) and issubclass(declared, tuple):  # a NamedTuple
        parts = list(typing.get_type_hints(declared).values())
        return lambda plain, where: declared(*_listed(plain, where, parts))
    if kind is frozenset:
        return lambda plain, where: frozenset(_each(plain, where, inner[0]))
    if kind is tuple and inner[-1] is Ellipsis:
        return lambda plain, where: tuple(_each(plain, where, inner[0]))
    if kind is tuple:
        return lambda plain, where: tuple(_listed(plain, where, list(inner)))
    if kind is Mapping:
        return lambda plain, where: {
            name: _reader(inner[1])(held, f"{where}.{name}") for name, held in _members(plain, where).items()
        }
    raise TypeError(f"no wire form for {declared}")


def _each(plain: Any, where: str, inner: Any) -> list[Any]:
    if not isinstance(plain, list):
        raise _wrong(plain, where, "a list")
    return [_reader(inner)(one, f"{where}[{at}]") for at, one in enumerate(plain)]


def _listed(plain: Any, where: str, parts: list[Any]) -> list[Any]:
    if not isinstance(plain, list) or len(plain) != len(parts):
        raise _wrong(plain, where, f"a list of {len(parts)}")
    return [_reader(part)(one, f"{where}[{at}]") for at, (part, one) in enumerate(zip(parts, plain, strict=True))]


def _members(plain: Any, where: str) -> dict[str, Any]:
    if not isinstance(plain, dict):
        raise _wrong(plain, where, "an object")
    return plain


def _payload(value: Any) -> Any:
    """Return what an event holds as plain data that keeps its types; tuples become lists, dates times."""
    if type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$float": str(value)}
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode("ascii")}
    if isinstance(value, date):
        moment = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day, tzinfo=UTC)
        return {"$time": format_time(moment)}
    if isinstance(value, Mapping):
        pairs = [(name, _payload(held)) for name, held in value.items()]
        hidden = any(name.startswith("$") for name, _ in pairs)
        return {"$object": [list(pair) for pair in pairs]} if hidden else dict(pairs)
    if isinstance(value, list | tuple):
        return [_payload(one) for one in value]
    raise InvalidMessageError(f"{shown(value)} has no wire form; expected what JSON can hold, a time or bytes")


def _read_payload(plain: Any, where: str, depth: int) -> Any:
    if isinstance(plain, list) and depth < MAX_NESTING:
        return [_read_payload(one, f"{where}[{at}]", depth + 1) for at, one in enumerate(plain)]
    if not isinstance(plain, dict):
        if isinstance(plain, list):
            raise _wrong(plain, where, "a plain value")
        return plain
    tag = next((name for name in plain if name.startswith("$")), None)
    if tag is not None:
        if len(plain) != 1:
            raise _wrong(sorted(plain), where, "one name where one begins with $")
        return _tagged(tag, plain[tag], where, depth)
    if depth >= MAX_NESTING:
        raise _wrong(plain, where, "a plain value")
    return {name: _read_payload(held, f"{where}.{name}", depth + 1) for name, held in plain.items()}


def _tagged(tag: str, plain: Any, where: str, depth: int) -> Any:
    if tag == "$time":
        return parse_time(_text(plain, where), exact=True)
    if tag == "$float" and plain in ("inf", "-inf", "nan"):
        return float(plain)
    if tag == "$bytes":
        try:
            return base64.b64decode(_text(plain, where), validate=True)
        except binascii.Error:
            raise _wrong(plain, where, "base64") from None
    if tag == "$object" and depth < MAX_NESTING:
        pairs = _each(plain, where, tuple[str, object])
        return {name: _read_payload(held, f"{where}.{name}", depth + 1) for name, held in pairs}
    raise _wrong({tag: plain}, where, "$time, $float, $bytes or $object")


def _unwrapped(declared: Any) -> Any:
    while hasattr(declared, "__supertype__"):  # a NewType
        declared = declared.__supertype__
    return declared


def _is_union(declared: Any) -> bool:
    return typing.get_origin(declared) in (typing.Union, types.UnionType)


def is_record(declared: Any) -> bool:
    """Whether a type is one of named fields."""
    return isinstance(declared, type) and (is_dataclass(declared) or issubclass(declared, Struct))


def fields_of(declared: Any) -> dict[str, Any]:
    """Return the fields that a record is made with, and their defaults; MISSING for those without one."""
    if issubclass(declared, Struct):
        return {one.name: MISSING if one.required else one.default for one in structs.fields(declared)}
    return {one.name: _default(one) for one in fields(declared) if one.init}


def _default(one: Field[Any]) -> Any:
    return one.default_factory() if one.default_factory is not MISSING else one.default


def _wrong(value: object, where: str, expected: str) -> InvalidMessageError:
    return InvalidMessageError(f"{where}: {shown(value)} is not {expected}")
