"""What batched queues know of diversity: by what each of them selects, and the contents of the events they hold.

A queue that diversifies names one of the `DiversitySettings`, counted from 1. Contents are not part of a queue's state,
because many queues hold the same event: whoever lets rows arrive or time pass brings the contents (by event number) of
the rows and of everything that the queues concerned still hold.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np

from rankcast.arrays import Array
from rankcast.compiling.arguments import Kinds
from rankcast.delivery.engine.contents import Contents, attribute_code
from rankcast.model.errors import InvalidEventError, InvalidValueError
from rankcast.model.policies import Diversity, Weights


class DiversitySettings(NamedTuple):
    """Diversities as columns: number `i` has the weights `starts[i]` to `starts[i + 1]`, in the order of names."""

    sigmas: Array
    totals: Array
    starts: Array
    attributes: Array
    weights: Array

    @classmethod
    def of(cls, diversities: Iterable[Diversity]) -> DiversitySettings:
        """Return settings, one for each diversity."""
        stated = list(diversities)
        return cls(
            np.array([diversity.sigma for diversity in stated], np.float64),
            np.array([Weights(diversity.weights).total for diversity in stated], np.float64),
            np.cumsum([0, *(len(diversity.weights) for diversity in stated)], dtype=np.int64),
            np.array([attribute_code(name) for diversity in stated for name in diversity.weights], np.int64),
            np.array([weight for diversity in stated for weight in diversity.weights.values()], np.float64),
        )

    @property
    def size(self) -> int:
        """How many there are."""
        return len(self.sigmas)

    def one(self, number: int) -> DiversitySettings:
        """Return settings with one of these only."""
        part = slice(int(self.starts[number]), int(self.starts[number + 1]))
        starts = np.array([0, part.stop - part.start], np.int64)
        whole = slice(number, number + 1)
        return DiversitySettings(
            self.sigmas[whole], self.totals[whole], starts, self.attributes[part], self.weights[part]
        )

    def including(self, diversities: Iterable[Diversity]) -> tuple[DiversitySettings, dict[Diversity, int]]:
        """Return settings that have all of these as well, and the number from 1 on that stands for each."""
        known = {self.one(number).to_words().tobytes(): number + 1 for number in range(self.size)}
        numbers: dict[Diversity, int] = {}
        parts: list[DiversitySettings] = [self]
        for diversity in dict.fromkeys(diversities):
            own = DiversitySettings.of([diversity])
            key = own.to_words().tobytes()
            if key not in known:
                known[key] = self.size + len(parts)
                parts.append(own)
            numbers[diversity] = known[key]
        return _joined(parts), numbers

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
        totals = [_total(weights[start:end]) for start, end in pairwise(starts.tolist())]
        return cls(sigmas.copy(), np.array(totals, np.float64), starts, attributes.copy(), weights.copy())


def _total(weights: Array) -> float:
    total = 0.0
    for weight in weights.tolist():  # one by one, as everywhere
        total += weight
    return total


def _joined(parts: list[DiversitySettings]) -> DiversitySettings:
    if len(parts) == 1:
        return parts[0]
    lengths = np.concatenate([np.diff(part.starts) for part in parts])
    starts = np.cumsum(np.concatenate([[0], lengths]), dtype=np.int64)
    sigmas, totals, _, attributes, weights = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return DiversitySettings(sigmas, totals, starts, attributes, weights)


NO_SETTINGS = DiversitySettings.of([])


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
"""What a kernel that serves single events is given as a table, without the shift."""


def diverse_input(contents: Contents, settings: DiversitySettings) -> Diverse:
    """Return contents and settings together; raise when the contents cannot be any."""
    columns = [np.ascontiguousarray(column) for column in contents]
    for name, column in zip(Contents._fields, columns, strict=True):
        if column.ndim != 1 or column.dtype != np.int64:
            raise InvalidEventError(f"contents: {name} is a column of {column.dtype}; expected int64")
    numbers, starts, attributes, values = columns
    if len(starts) != len(numbers) + 1 or len(values) != len(attributes):
        raise InvalidEventError(
            f"contents: {len(numbers)} numbers, {len(starts)} starts, {len(attributes)} attributes and {len(values)} "
            "values; expected one start more than numbers, and as many values as attributes"
        )
    if (numbers[1:] <= numbers[:-1]).any():
        raise InvalidEventError("contents: the numbers of events do not ascend")
    if starts[0] < 0 or starts[-1] > len(attributes) or (starts[1:] < starts[:-1]).any():
        raise InvalidEventError("contents: starts do not ascend within the attributes")
    return Diverse(0, numbers, starts, attributes, values, *settings)
