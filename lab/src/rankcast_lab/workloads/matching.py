"""The three matching workloads, seeded: columns for the engine, and a RecordBatch of events.

W1  20 attributes, 5 of them constrained per subscription by ranges of 10% to 50% of the domain; events carry all 20.
W2  2 to 5 selective predicates: ranges of 1% to 5%, 6 of the 20 attributes are texts compared for equality with words
    of a Zipf vocabulary of 1,000; attributes have Zipf popularity, and events carry 10 of them.
W3  W1 with the values of events and the centres of ranges normal, mean .5 and deviation .15, so matches are many.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import pyarrow as pa

from rankcast.arrays import Array

ATTRIBUTES = 20
DOMAIN = 1_000_000
TEXT_ATTRIBUTES = (1, 4, 7, 10, 13, 16)
VOCABULARY = 1_000
CARRIED = 10
ABSENT = -1


class MatchingWorkload(Enum):
    """Which workload."""

    W1 = "W1"
    W2 = "W2"
    W3 = "W3"


@dataclass(frozen=True, slots=True)
class MatchingCase:
    """Subscriptions as columns (see `rankcast_lab.engines.columnar`), and events as integers, ABSENT where missing."""

    attributes: tuple[str, ...]
    row_start: Array
    attribute: Array
    low: Array
    high: Array
    events: Array
    vocabularies: Mapping[int, Sequence[str]]

    @property
    def subscriptions(self) -> int:
        """How many subscriptions there are."""
        return len(self.row_start) - 1

    def event_batch(self) -> pa.RecordBatch:
        """Return the events as Arrow columns."""
        columns = []
        for at in range(len(self.attributes)):
            values = self.events[:, at]
            missing = values == ABSENT
            if at in self.vocabularies:
                words = np.array([*self.vocabularies[at], None], object)
                columns.append(pa.array(words[np.where(missing, len(words) - 1, values)], pa.string()))
            else:
                columns.append(pa.array(values.astype(np.int64), pa.int64(), mask=missing))
        return pa.RecordBatch.from_arrays(columns, names=list(self.attributes))

    def event_mappings(self) -> list[dict[str, Any]]:
        """Return the events as plain mappings."""
        return [
            {name: value for name, value in row.items() if value is not None} for row in self.event_batch().to_pylist()
        ]


def matching_case(workload: MatchingWorkload, subscriptions: int, events: int, seed: int = 1) -> MatchingCase:
    """Return a workload of the given size; the same seed gives the same case."""
    generator = np.random.default_rng(seed)
    names = tuple(f"a{at:02d}" for at in range(ATTRIBUTES))
    if workload is MatchingWorkload.W2:
        return _selective(generator, names, subscriptions, events)
    normal = workload is MatchingWorkload.W3
    constrained = 5
    count = subscriptions * constrained
    chosen = np.argsort(generator.random((subscriptions, ATTRIBUTES), np.float32), axis=1)[:, :constrained]
    chosen.sort(axis=1)
    width = generator.uniform(0.1, 0.5, count)
    if normal:
        low = np.clip(generator.normal(0.5, 0.15, count), 0, 1) - width / 2
        values = generator.normal(0.5, 0.15, (events, ATTRIBUTES))
    else:
        low = generator.random(count) * (1 - width)
        values = generator.random((events, ATTRIBUTES))
    row_start = np.arange(subscriptions + 1, dtype=np.int64) * constrained
    attribute = chosen.ravel().astype(np.int32)
    return MatchingCase(names, row_start, attribute, _scaled(low), _scaled(low + width), _scaled(values), {})


def _scaled(share: Array) -> Array:
    scaled: Array = np.clip(share * DOMAIN, 0, DOMAIN - 1).astype(np.int64)
    return scaled


def _selective(generator: np.random.Generator, names: tuple[str, ...], subscriptions: int, events: int) -> MatchingCase:
    popularity = _zipf(ATTRIBUTES)
    sizes = generator.integers(2, 6, subscriptions)
    ranked = _by_popularity(generator, popularity, subscriptions)
    chosen = np.where(np.arange(ATTRIBUTES) < sizes[:, None], ranked, ATTRIBUTES)[:, :5]
    chosen.sort(axis=1)
    attribute = chosen[chosen < ATTRIBUTES].astype(np.int32)
    width = generator.uniform(0.01, 0.05, len(attribute))
    start = generator.random(len(attribute)) * (1 - width)
    low, high = _scaled(start), _scaled(start + width)
    texts = np.isin(attribute, TEXT_ATTRIBUTES)
    low[texts] = high[texts] = generator.choice(VOCABULARY, int(texts.sum()), p=_zipf(VOCABULARY))
    values = generator.integers(0, DOMAIN, (events, ATTRIBUTES))
    for at in TEXT_ATTRIBUTES:
        values[:, at] = generator.choice(VOCABULARY, events, p=_zipf(VOCABULARY))
    absent = _by_popularity(generator, popularity, events)[:, CARRIED:]
    np.put_along_axis(values, absent, ABSENT, axis=1)
    row_start = np.zeros(subscriptions + 1, np.int64)
    np.cumsum(sizes, out=row_start[1:])
    words = [f"word{at:04d}" for at in range(VOCABULARY)]
    return MatchingCase(names, row_start, attribute, low, high, values, dict.fromkeys(TEXT_ATTRIBUTES, words))


def _zipf(count: int) -> Array:
    weight = 1 / np.arange(1, count + 1)
    share: Array = weight / weight.sum()
    return share


def _by_popularity(generator: np.random.Generator, popularity: Array, count: int) -> Array:
    """Return, per row, all attributes in a random order that draws popular ones first (Gumbel's trick)."""
    keys = np.log(popularity) + generator.gumbel(size=(count, len(popularity)))
    return np.argsort(-keys, axis=1)
