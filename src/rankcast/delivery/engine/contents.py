"""What diverse selection compares of an event: its attributes, as values and as codes for kernels.

A subscriber's weights name the attributes that count, envelope or payload. Without weights all attributes count but the
envelope's own (`id`, `time`, `source`, ...), which tell publications apart and not what they are about.

A code is 64 bits of a digest of an attribute's name or of a value. Codes are the same in every process. Equal values
have equal codes: 1 and 1.0 have, 1 and true have not. Different values have different codes but for an accident of
probability 2^-64 a pair. Names of the envelope have negative codes, all others have not. `MISSING` is no value's code.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple, TypeAlias

import numpy as np

from rankcast.arrays import Array
from rankcast.model.policies import Policy, diversity_of
from rankcast.model.schema import ENVELOPE_TYPES
from rankcast.model.times import microseconds
from rankcast.model.values import INT_MAX, INT_MIN, Value

Content: TypeAlias = tuple[tuple[str, Value], ...]
"""Attributes and their values, in the order of names."""

MISSING = 0

_LOWER_BITS = 2**63 - 1


@dataclass(frozen=True, slots=True)
class WantedContent:
    """Which attributes of events some policies compare: those named, and all of the payload if `payload` says so."""

    names: frozenset[str] = frozenset()
    payload: bool = False

    @classmethod
    def of(cls, policies: Iterable[Policy]) -> WantedContent:
        """Return what policies compare: nothing unless one of them diversifies."""
        wanted = [diversity.weights for policy in policies if (diversity := diversity_of(policy)) is not None]
        return cls(frozenset[str]().union(*wanted), any(not weights for weights in wanted))

    def __bool__(self) -> bool:
        return self.payload or bool(self.names)

    def of_event(self, attributes: Mapping[str, Value]) -> Content:
        """Return the wanted attributes of an event.

        >>> WantedContent(frozenset({"genre"})).of_event({"id": "1", "title": "Ran", "genre": "war"})
        (('genre', 'war'),)
        """
        if not self.payload:
            return tuple((name, attributes[name]) for name in sorted(self.names) if name in attributes)
        return tuple(
            (name, attributes[name]) for name in sorted(attributes) if name in self.names or name not in ENVELOPE_TYPES
        )


def content_for(policy: Policy, attributes: Mapping[str, Value]) -> Content:
    """Return what a policy compares of an event with these attributes: nothing unless it diversifies."""
    return () if diversity_of(policy) is None else WantedContent.of([policy]).of_event(attributes)


class Contents(NamedTuple):
    """The contents of many events, as codes: event `numbers[i]` has the attributes `starts[i]` to `starts[i + 1]`.

    All columns are int64. Numbers ascend, and so do the attribute codes of an event.
    """

    numbers: Array
    starts: Array
    attributes: Array
    values: Array

    @classmethod
    def of(cls, contents: Mapping[int, Mapping[str, Value] | Content]) -> Contents:
        """Return the contents of events by their numbers."""
        numbers = sorted(contents)
        coded = [content_codes(contents[number]) for number in numbers]
        lengths = [len(attributes) for attributes, _ in coded]
        return cls(
            np.array(numbers, np.int64),
            np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64),
            np.concatenate([np.zeros(0, np.int64), *(attributes for attributes, _ in coded)]),
            np.concatenate([np.zeros(0, np.int64), *(values for _, values in coded)]),
        )


NO_CONTENTS = Contents.of({})


def content_codes(attributes: Mapping[str, Value] | Content) -> tuple[Array, Array]:
    """Return the codes of an event's attributes, ascending, and those of their values."""
    pairs = attributes.items() if isinstance(attributes, Mapping) else attributes
    coded = sorted((attribute_code(name), value_code(value)) for name, value in pairs)
    codes = np.array(coded, np.int64).reshape(len(coded), 2)
    return np.ascontiguousarray(codes[:, 0]), np.ascontiguousarray(codes[:, 1])


@lru_cache(maxsize=4096)
def attribute_code(name: str) -> int:
    """Return the code of an attribute's name."""
    code = _digest(b"a", name.encode()) & _LOWER_BITS
    return ~code if name in ENVELOPE_TYPES else code


def value_code(value: Value) -> int:
    """Return the code of a value.

    >>> value_code(1) == value_code(1.0), value_code(1) == value_code(True), value_code(1) == value_code("1")
    (True, False, False)
    """
    if isinstance(value, bool):
        return _digest(b"b", b"1" if value else b"0")
    if isinstance(value, str):
        return _digest(b"s", value.encode())
    if isinstance(value, datetime):
        return _digest(b"t", struct.pack("<q", microseconds(value)))
    if isinstance(value, float) and not (value.is_integer() and INT_MIN <= value <= INT_MAX):
        return _digest(b"f", struct.pack("<d", value))
    return _digest(b"i", struct.pack("<q", int(value)))


def _digest(kind: bytes, content: bytes) -> int:
    found = blake2b(content, digest_size=8, person=kind).digest()
    return int.from_bytes(found, "little", signed=True) or 1  # 0 stands for a missing value
