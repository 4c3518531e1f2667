"""What diverse selection compares of an event: its attributes, as values and as codes for kernels.

A subscriber's weights name the attributes that count, envelope or payload. Without weights all attributes count but the
envelope's own (`id`, `time`, `source`, ...), which tell publications apart and not what they are about.

A code is 64 bits of a digest of an attribute's name or of a value. Codes are the same in every process. Equal values
have equal codes: 1 and 1.0 have, 1 and true have not. Different values have different codes but for an accident of
probability 2^-64 a pair. A list has the codes of its elements and `LIST`, one after the other under one attribute.
Names of the envelope have negative codes, all others have not. `MISSING` is no value's code.

A queue that diversifies names one of the `DiversitySettings`, counted from 1. Contents are not part of a queue's state,
because many queues hold the same event: whoever lets rows arrive or time pass brings the contents (by event number) of
the rows and of everything that the queues concerned still hold.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from hashlib import blake2b
from itertools import pairwise
from typing import NamedTuple, Self, TypeAlias

import numpy as np

from rankcast.arrays import Array
from rankcast.compiling.arguments import KernelArguments, Kinds
from rankcast.model.errors import InvalidEventError, InvalidValueError
from rankcast.model.policies import Diversity, Policy, attributes_counted, diversity_of
from rankcast.model.schema import ENVELOPE_TYPES
from rankcast.model.times import microseconds
from rankcast.model.values import INT_MAX, INT_MIN, AttributeValue, Value

Content: TypeAlias = tuple[tuple[str, AttributeValue], ...]
"""Attributes and their values, in the order of names."""

MISSING = 0

LIST = 1
"""A code that every list has beside those of its elements, and no value has."""

_LOWER_BITS = 2**63 - 1


@dataclass(frozen=True, slots=True)
class WantedContent:
    """Which attributes of events are compared or counted: those named, and all of the payload if `payload` says so."""

    names: frozenset[str] = frozenset()
    payload: bool = False

    @classmethod
    def of(cls, policies: Iterable[Policy]) -> WantedContent:
        """Return what policies compare, and what their caps count: nothing unless one has a diversity, or a `per`."""
        listed = list(policies)
        wanted = [diversity.weights for policy in listed if (diversity := diversity_of(policy)) is not None]
        counted = map(attributes_counted, listed)
        return cls(frozenset[str]().union(*wanted, *counted), any(not weights for weights in wanted))

    def __bool__(self) -> bool:
        return self.payload or bool(self.names)

    def of_event(self, attributes: Mapping[str, AttributeValue]) -> Content:
        """Return the wanted attributes of an event.

        >>> WantedContent(frozenset({"genre"})).of_event({"id": "1", "title": "Ran", "genre": "war"})
        (('genre', 'war'),)
        """
        if not self.payload:
            return tuple((name, attributes[name]) for name in sorted(self.names) if name in attributes)
        return tuple(
            (name, attributes[name]) for name in sorted(attributes) if name in self.names or name not in ENVELOPE_TYPES
        )


def content_for(policy: Policy, attributes: Mapping[str, AttributeValue]) -> Content:
    """Return what a policy compares of an event with these attributes: nothing unless it diversifies."""
    diversity = diversity_of(policy)
    if diversity is None:
        return ()
    return WantedContent(frozenset(diversity.weights), not diversity.weights).of_event(attributes)


class Contents(NamedTuple):
    """The contents of many events, as codes: event `numbers[i]` has the attributes `starts[i]` to `starts[i + 1]`.

    All columns are int64. Numbers ascend, and so do the attribute codes of an event and the codes of a list.
    """

    numbers: Array
    starts: Array
    attributes: Array
    values: Array

    @classmethod
    def of(cls, contents: Mapping[int, Mapping[str, AttributeValue] | Content]) -> Contents:
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


def content_codes(attributes: Mapping[str, AttributeValue] | Content) -> tuple[Array, Array]:
    """Return the codes of an event's attributes, ascending, and those of their values; of a list, of each element."""
    pairs = attributes.items() if isinstance(attributes, Mapping) else attributes
    coded = sorted((attribute_code(name), code) for name, value in pairs for code in value_codes(value))
    codes = np.array(coded, np.int64).reshape(len(coded), 2)
    return np.ascontiguousarray(codes[:, 0]), np.ascontiguousarray(codes[:, 1])


@lru_cache(maxsize=4096)
def attribute_code(name: str) -> int:
    """Return the code of an attribute's name."""
    code = _digest(b"a", name.encode()) & _LOWER_BITS
    return ~code if name in ENVELOPE_TYPES else code


def value_codes(value: AttributeValue) -> tuple[int, ...]:
    """Return the codes of what an attribute holds: one, or those of a list."""
    return (LIST, *map(value_code, value)) if isinstance(value, tuple) else (value_code(value),)


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


@lru_cache(maxsize=16_384)  # most values come again and again
def _digest(kind: bytes, content: bytes) -> int:
    found = blake2b(content, digest_size=8, person=kind).digest()
    code = int.from_bytes(found, "little", signed=True)
    return code if code not in (MISSING, LIST) else 2


Setting: TypeAlias = tuple[float, tuple[int, ...], tuple[float, ...]]
"""Sigma, and the codes of attributes with their weights."""


class DiversitySettings(NamedTuple):
    """Diversities as columns: number `i` has the weights `starts[i]` to `starts[i + 1]`, in the order of names."""

    sigmas: Array
    totals: Array
    starts: Array
    attributes: Array
    weights: Array

    @property
    def size(self) -> int:
        """How many there are."""
        return len(self.sigmas)

    def including(
        self, diversities: Iterable[Diversity], known: dict[Setting, int] | None = None
    ) -> tuple[DiversitySettings, dict[Diversity, int]]:
        """Return settings that have all of these as well, and the number from 1 on that stands for each.

        `known` is what `numbers` says of these settings; it is brought up to date, so that whoever keeps it pays for
        newcomers alone.
        """
        known, newcomers, numbers = self.numbers() if known is None else known, list[Setting](), dict[Diversity, int]()
        for diversity in diversities:
            setting = _coded(diversity)
            if setting not in known:
                known[setting] = len(known) + 1
                newcomers.append(setting)
            numbers[diversity] = known[setting]
        return self._joined(DiversitySettings._of_coded(newcomers)) if newcomers else self, numbers

    def numbers(self) -> dict[Setting, int]:
        """Return the number from 1 on of each setting."""
        return {setting: number for number, setting in enumerate(self._coded(), start=1)}

    def _joined(self, others: DiversitySettings) -> DiversitySettings:
        others = others._replace(starts=others.starts[1:] + self.starts[-1])
        return DiversitySettings(*map(np.concatenate, zip(self, others, strict=True)))

    def _coded(self) -> list[Setting]:
        attributes, weights = self.attributes.tolist(), self.weights.tolist()
        bounds = zip(self.sigmas.tolist(), pairwise(self.starts.tolist()), strict=True)
        return [(sigma, tuple(attributes[low:high]), tuple(weights[low:high])) for sigma, (low, high) in bounds]

    @classmethod
    def _of_coded(cls, settings: Sequence[Setting]) -> Self:
        return cls(
            np.array([sigma for sigma, _, _ in settings], np.float64),
            np.array([_total(weights) for _, _, weights in settings], np.float64),
            np.cumsum([0, *(len(weights) for _, _, weights in settings)], dtype=np.int64),
            np.array([attribute for _, attributes, _ in settings for attribute in attributes], np.int64),
            np.array([weight for _, _, weights in settings for weight in weights], np.float64),
        )

    def to_words(self) -> Array:
        """Return the settings as one array of int64, empty when there are none."""
        if not self.size:
            return np.zeros(0, np.int64)
        words = [np.array([self.size], np.int64), self.sigmas.view(np.int64), np.diff(self.starts)]
        return np.concatenate([*words, self.attributes, self.weights.view(np.int64)])

    @classmethod
    def from_words(cls, words: Array) -> Self:
        """Return the settings of such an array; raise when it is none."""
        if not len(words):
            words = np.zeros(1, np.int64)
        count = int(words[0])
        if not 0 <= count <= (len(words) - 1) // 2:
            raise InvalidValueError("queue table: the settings of diversity are cut short")
        sigmas, lengths = words[1 : count + 1].view(np.float64), words[count + 1 : 2 * count + 1]
        rest = words[2 * count + 1 :]
        if ((lengths < 0) | (lengths > len(rest))).any() or 2 * int(lengths.sum()) != len(rest):
            raise InvalidValueError("queue table: the settings of diversity contradict each other")
        attributes, weights = rest[: len(rest) // 2], rest[len(rest) // 2 :].view(np.float64)
        if not (((sigmas >= 0) & (sigmas <= 1)).all() and (weights > 0).all() and np.isfinite(weights).all()):
            raise InvalidValueError("queue table: the settings of diversity have numbers that none has")
        starts = np.cumsum(np.concatenate([[0], lengths]), dtype=np.int64)
        totals = [_total(weights[start:end].tolist()) for start, end in pairwise(starts.tolist())]
        return cls(sigmas.copy(), np.array(totals, np.float64), starts, attributes.copy(), weights.copy())


def _coded(diversity: Diversity) -> Setting:
    weights = diversity.weights
    return diversity.sigma, tuple(map(attribute_code, weights)), tuple(weights.values())


def _total(weights: Iterable[float]) -> float:
    total = 0.0
    for weight in weights:  # one after the other, as everywhere
        total += weight
    return total


NO_SETTINGS = DiversitySettings._of_coded([])


class Diverse(NamedTuple):
    """Contents and settings as the kernels take them; `shift` bits of an event's word are not of its number."""

    shift: int
    numbers: Array
    starts: Array
    attributes: Array
    values: Array
    sigmas: Array
    totals: Array
    weight_starts: Array
    weight_attributes: Array
    weights: Array


DIVERSE_KINDS: Kinds = {
    name: (np.float64 if name in ("sigmas", "totals", "weights") else np.int64, 0) for name in Diverse._fields[1:]
}
"""What a kernel is given as a table, without the shift."""


def diverse_table(contents: tuple[Array, ...], settings: DiversitySettings) -> KernelArguments:
    """Return contents and settings as kernels are given them; the contents are trusted."""
    return KernelArguments.of(DIVERSE_KINDS, dict(zip(DIVERSE_KINDS, (*contents, *settings), strict=True)))


def diverse_arguments(contents: Contents, settings: DiversitySettings) -> KernelArguments:
    """Return contents and settings as kernels are given them; raise when the contents cannot be any."""
    for name, column in zip(Contents._fields, contents, strict=True):
        if column.ndim != 1 or column.dtype != np.int64:
            raise InvalidEventError(f"contents: {name} is a column of {column.dtype}; expected int64")
    numbers, starts, attributes, values = contents
    if len(starts) != len(numbers) + 1 or len(values) != len(attributes):
        raise InvalidEventError(
            f"contents: {len(numbers)} numbers, {len(starts)} starts, {len(attributes)} attributes and {len(values)} "
            "values; expected one start more than numbers, and as many values as attributes"
        )
    if (numbers[1:] <= numbers[:-1]).any():
        raise InvalidEventError("contents: the numbers of events do not ascend")
    if starts[0] < 0 or starts[-1] > len(attributes) or (starts[1:] < starts[:-1]).any():
        raise InvalidEventError("contents: starts do not ascend within the attributes")
    return diverse_table(contents, settings)
