"""Batches of events on the workers, in columns or one by one: what matching, ranking and delivery ask of them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from rankcast.arrays import Array
from rankcast.delivery.engine.contents import WantedContent, attribute_code, content_codes
from rankcast.delivery.stream.event_tables import EventTable, Ragged
from rankcast.matching.index import Reader
from rankcast.model.events import Event
from rankcast.model.schema import ENVELOPE_TYPES
from rankcast.model.times import NEVER, microseconds
from rankcast.ranking.batch import Features, RankingTable
from rankcast.spark.sources.event_contents import column_contents, event_contents
from rankcast.spark.sources.event_values import as_microseconds, as_number, is_number, value_codes, vector_elements


class EventBatch(Protocol):
    """Events that all have an identity and a time."""

    rows: Array
    """Which rows of the batch they are."""

    def __len__(self) -> int:
        """Return how many there are."""

    @property
    def times(self) -> Array:
        """When they were published, in microseconds since 1970."""

    @property
    def expires(self) -> Array:
        """When they expire by themselves, NEVER for those that do not."""

    def table(self, wanted: WantedContent) -> EventTable:
        """Return their identities and times, what policies compare of them, and what is carried along."""

    def contents(self) -> list[bytes]:
        """Return the whole events, as `event_contents` has them."""

    def matched(self, reader: Reader) -> tuple[Array, Array]:
        """Return (offsets, numbers): the subscriptions that event i satisfies are numbers[offsets[i]:offsets[i+1]]."""

    def features(self, ranking: RankingTable) -> Features:
        """Return what relevance functions look at."""


class ColumnEvents:
    """Events as columns, by the names that filters have for them."""

    def __init__(self, rows: Array, columns: Mapping[str, Any], vectors: Mapping[str, Any], carried: Any) -> None:
        self.rows = rows
        self._columns = dict(columns)
        self._vectors = dict(vectors)
        self._carried = carried

    def __len__(self) -> int:
        return len(self._columns["id"])

    @cached_property
    def times(self) -> Array:
        """When they were published, in microseconds since 1970."""
        return as_microseconds(self._columns["time"])

    @cached_property
    def expires(self) -> Array:
        """When they expire by themselves, NEVER for those that do not."""
        expires = self._columns.get("expirytime")
        return np.full(len(self), NEVER, np.int64) if expires is None else as_microseconds(expires)

    def table(self, wanted: WantedContent) -> EventTable:
        """Return their identities and times, what policies compare of them, and what is carried along."""
        return EventTable.of(
            self.times,
            Ragged.from_arrow(self._columns["source"]),
            Ragged.from_arrow(self._columns["id"]),
            contents=self._contents(wanted) if wanted else None,
            payload=None if self._carried is None else Ragged.from_arrow(self._carried),
        )

    def contents(self) -> list[bytes]:
        """Return the whole events."""
        return column_contents(self._columns, self._vectors)

    def matched(self, reader: Reader) -> tuple[Array, Array]:
        """Return (offsets, numbers): the subscriptions that event i satisfies are numbers[offsets[i]:offsets[i+1]]."""
        return reader.match_batch(pa.RecordBatch.from_pydict(self._columns))

    def features(self, ranking: RankingTable) -> Features:
        """Return what relevance functions look at."""
        numbers = {
            name: np.asarray(self._columns[name].cast(pa.float64(), safe=False).fill_null(np.nan))
            for name in ranking.numbers
            if name in self._columns and is_number(self._columns[name].type)
        }
        vectors = {name: vector_elements(self._vectors[name]) for name in ranking.vectors if name in self._vectors}
        return Features.of(ranking, len(self), numbers, vectors)

    def _contents(self, wanted: WantedContent) -> tuple[Ragged, Ragged]:
        names = [
            name for name in self._columns if name in wanted.names or (wanted.payload and name not in ENVELOPE_TYPES)
        ]
        names.sort(key=attribute_code)
        codes = np.zeros((len(self), len(names)), np.int64)
        for at, name in enumerate(names):
            codes[:, at] = value_codes(self._columns[name])
        present = codes != 0
        starts = np.concatenate((np.zeros(1, np.int64), np.cumsum(present.sum(axis=1))))
        attributes = np.broadcast_to(np.array([attribute_code(name) for name in names], np.int64), codes.shape)
        return Ragged(starts, attributes[present]), Ragged(starts, codes[present])


class OpenEvents:
    """Events one by one, each with attributes of its own."""

    def __init__(self, rows: Array, events: list[Event], carried: Any) -> None:
        self.rows = rows
        self._events = events
        self._carried = carried

    def __len__(self) -> int:
        return len(self._events)

    @cached_property
    def times(self) -> Array:
        """When they were published, in microseconds since 1970."""
        return np.array([microseconds(event.time) for event in self._events], np.int64)

    @cached_property
    def expires(self) -> Array:
        """When they expire by themselves, NEVER for those that do not."""
        return np.array([microseconds(event.expires) for event in self._events], np.int64)

    def table(self, wanted: WantedContent) -> EventTable:
        """Return their identities and times, what policies compare of them, and what is carried along."""
        contents = None
        if wanted:
            coded = [content_codes(wanted.of_event(event.attributes)) for event in self._events]
            starts = np.cumsum([0, *(len(attributes) for attributes, _ in coded)], dtype=np.int64)
            none = np.zeros(0, np.int64)
            contents = (
                Ragged(starts, np.concatenate([none, *(attributes for attributes, _ in coded)])),
                Ragged(starts, np.concatenate([none, *(values for _, values in coded)])),
            )
        return EventTable.of(
            self.times,
            Ragged.of_texts(event.source for event in self._events),
            Ragged.of_texts(event.id for event in self._events),
            contents=contents,
            payload=None if self._carried is None else Ragged.from_arrow(self._carried),
        )

    def contents(self) -> list[bytes]:
        """Return the whole events."""
        return event_contents(self._events)

    def matched(self, reader: Reader) -> tuple[Array, Array]:
        """Return (offsets, numbers): the subscriptions that event i satisfies are numbers[offsets[i]:offsets[i+1]]."""
        found = [reader.match_one(event.attributes) for event in self._events]
        offsets = np.cumsum([0, *map(len, found)], dtype=np.int64)
        return offsets, np.concatenate([np.zeros(0, np.int64), *found])

    def features(self, ranking: RankingTable) -> Features:
        """Return what relevance functions look at."""
        numbers = {
            name: np.array([as_number(event.attributes.get(name)) for event in self._events], np.float64)
            for name in ranking.numbers
        }
        vectors = {}
        for name in ranking.vectors:
            lists = [event.vector(name) or () for event in self._events]
            starts = np.cumsum([0, *map(len, lists)], dtype=np.int64)
            vectors[name] = (starts, np.array([number for own in lists for number in own], np.float64))
        return Features.of(ranking, len(self), numbers, vectors)
