"""Conditions on the elements of lists, as kernels know them: "one of these values is in it".

Each condition that some filter names is a dimension of its own, as each substring is: rank 1 where the event's list has
one of the values, else 0. `has` wants 1 there and `has none` wants 0, beside a list at all. It is kept among the
substrings of its attribute, as bytes that no text has: `MARK`, then the values in order, each led by its length. So
whatever builds, merges, saves and checks substrings does the same for conditions.

An event finds its conditions by its elements (`Postings`), whichever of the values of a condition it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from rankcast.arrays import Array, starts_of
from rankcast.model.errors import InvalidValueError, shown
from rankcast.model.times import microseconds
from rankcast.model.values import ListValue, Value, family_of
from rankcast.model.valuesets.lists import FAMILIES

if TYPE_CHECKING:
    from rankcast.matching.encoding.dimensions import Dimensions

MARK = b"\xff"
"""The first byte of a condition: UTF-8 has no such byte."""

KINDS = 1 + len(FAMILIES)
"""Ranks that an attribute has for lists: the empty one, then those of each family."""

_LENGTH = 4

Key: TypeAlias = str | int | float | tuple[str, int]
"""An element as a key of dicts, where Python would take 1 for True."""


def kind_of(elements: ListValue) -> int:
    """Return which of the ranks for lists a list has, counted from 0."""
    return 1 + FAMILIES.index(family_of(elements[0])) if elements else 0


def key_of(element: Value) -> Key:
    """Return the key of an element: equal ones have equal keys, and no others."""
    if isinstance(element, bool):
        return "bool", int(element)
    return ("time", microseconds(element)) if isinstance(element, datetime) else element


def condition(values: Iterable[Value]) -> bytes:
    """Return the bytes of a condition."""
    members = sorted(map(_member, map(key_of, values)))
    return MARK + b"".join(len(member).to_bytes(_LENGTH, "big") + member for member in members)


def _member(key: Key) -> bytes:
    if isinstance(key, str):
        return b"s" + key.encode()
    if isinstance(key, tuple):
        return f"{key[0][0]}{key[1]}".encode()
    return (f"f{key!r}" if isinstance(key, float) else f"i{key}").encode()


def keys_of(data: bytes) -> list[Key]:
    """Return the keys of the values of a condition; raise InvalidValueError for what is none."""
    found: list[Key] = []
    at = len(MARK)
    while at < len(data):
        length = int.from_bytes(data[at : at + _LENGTH], "big")
        at += _LENGTH + length
        member = data[at - length : at]
        try:
            found.append(_read_member(member))
        except (KeyError, ValueError):  # a UnicodeDecodeError is a ValueError
            raise InvalidValueError(f"{shown(data)} is no condition on elements") from None
    return found


@lru_cache(maxsize=65_536)  # several conditions name the same value
def _read_member(member: bytes) -> Key:
    text = member[1:].decode()
    match member[:1]:
        case b"s":
            return text
        case b"i":
            return int(text)
        case b"f":
            return float(text)
    return {b"b": "bool", b"t": "time"}[member[:1]], int(text)


@dataclass(frozen=True, slots=True)
class Postings:
    """By element of an attribute, the dimensions of the conditions that it satisfies: start[i]..start[i+1] of those."""

    keys: Sequence[tuple[int, Key]]
    """The attribute and the key of each element that is named."""
    start: Array
    dimensions: Array

    @staticmethod
    def of(dimensions: Dimensions) -> Postings:
        """Return the postings of all conditions in some dimensions."""
        found: dict[tuple[int, Key], list[int]] = {}
        for dimension, attribute, data in _conditions(dimensions):
            for key in keys_of(data):
                found.setdefault((attribute, key), []).append(dimension)
        sizes = np.array([len(own) for own in found.values()], np.int64)
        flat = np.array([dimension for own in found.values() for dimension in own], np.int32)
        return Postings(tuple(found), starts_of(sizes), flat)

    def by_attribute(self) -> Mapping[int, Mapping[Key, int]]:
        """Return the places of elements by attribute and key."""
        found: dict[int, dict[Key, int]] = {}
        for at, (attribute, key) in enumerate(self.keys):
            found.setdefault(attribute, {})[key] = at
        return found


def _conditions(dimensions: Dimensions) -> Iterator[tuple[int, int, bytes]]:
    """Yield the dimension, the attribute and the bytes of each condition."""
    attributes = dimensions.substring_attribute.tolist()
    for at, (attribute, data) in enumerate(zip(attributes, dimensions.substrings.items(), strict=True)):
        if data.startswith(MARK):
            yield dimensions.first_substring + at, attribute, data
