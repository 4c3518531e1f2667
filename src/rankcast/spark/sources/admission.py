"""Events of a batch under their advertisements, on the workers: to which of them each belongs, and whom it is for.

What `Advertisements.admit` says counts: an event that its source does not advertise, or that asks for too many, is
rejected with that reason. Of events in columns those that are plain are admitted all at once, and only the others one
by one: where several advertisements of a source may be meant, where one is named, and whatever will be refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rankcast.arrays import Array
from rankcast.matching.entries import Entry
from rankcast.matching.index import Index, Reader
from rankcast.model.advertisements import Admitted, Advertisement, Advertisements
from rankcast.model.events import Event
from rankcast.spark.sources.event_values import is_declared, is_equal, is_missing

NONE = -1
"""How many subscribers an event is for that is for everybody who wants it."""

MOST = 1 << 31
"""A larger k is this one in the columns: no subscribers are more."""


class Audiences(NamedTuple):
    """Whom events are for: by event the number of its advertisement, one beyond the last without any, and its k."""

    advertisement: Array
    k: Array


class Admission:
    """Admits the events of a batch; `asked` and `named` are its columns of what events ask for and belong to."""

    def __init__(
        self, advertisements: tuple[Advertisement, ...], batch: pa.RecordBatch, asked: str | None, named: str | None
    ) -> None:
        self._advertisements = advertisements
        self._known = Advertisements(advertisements)
        self._asked = None if asked is None else batch.column(asked).cast(pa.int64())
        self._named = None if named is None else batch.column(named)

    def admit(self, row: int, event: Event) -> Admitted:
        """Return the event of a row as it is advertised; raise a RankcastError where it is not."""
        k, name = (None if column is None else column[row].as_py() for column in (self._asked, self._named))
        return self._known.admit(event, k, name)

    def audiences(self, events: Iterable[Admitted]) -> Audiences:
        """Return whom events that were admitted are for."""
        numbers = {own.id: number for number, own in enumerate(self._advertisements)}
        pairs = [
            (
                len(numbers) if own.advertisement is None else numbers[own.advertisement],
                NONE if own.audience is None else min(own.audience.k, MOST),
            )
            for own in events
        ]
        return Audiences(*np.array(pairs, np.int64).reshape(-1, 2).T)

    def converts(self, columns: Mapping[str, Any]) -> bool:
        """Whether some events may have to be put into other types than their columns have."""
        declared = (item for own in self._advertisements for item in own.schema.attributes.items())
        return any(name in columns and not is_declared(columns[name], kind) for name, kind in declared)

    def of_columns(self, columns: Mapping[str, Any], rows: Array) -> tuple[Audiences, Array]:
        """Return whom events in columns are for, and which of them `admit` has to decide."""
        count, missing = len(rows), len(self._advertisements)
        permitted = np.zeros((missing + 1, count), bool)
        offsets, numbers = _spaces(self._advertisements).match_batch(pa.RecordBatch.from_pydict(dict(columns)))
        permitted[numbers, np.repeat(np.arange(count), np.diff(offsets))] = True
        permitted[missing] = True
        for own, advertisement in zip(permitted, self._advertisements, strict=False):
            is_of_source = is_equal(columns["source"], advertisement.source)
            permitted[missing] &= ~is_of_source
            own &= is_of_source  # noqa: PLW2901 (a line of the table)
            for name in advertisement.schema.required:
                own &= ~is_missing(columns.get(name), count)  # noqa: PLW2901
        number = permitted.argmax(axis=0)
        is_plain = permitted.sum(axis=0) == 1
        k = np.array([min(own.k or NONE, MOST) for own in self._advertisements] + [NONE], np.int64)[number]
        if self._asked is not None:
            own_k = np.asarray(pc.fill_null(self._asked, NONE))[rows]
            asks = np.asarray(self._asked.is_valid())[rows]
            is_plain &= ~asks | ((own_k >= 0) & (own_k <= k))
            k = np.where(asks, own_k, k)
        if self._named is not None:
            is_plain &= np.asarray(self._named.is_null())[rows]
        return Audiences(number, k), np.flatnonzero(~is_plain)


@lru_cache(maxsize=16)
def _spaces(advertisements: tuple[Advertisement, ...]) -> Reader:
    """Return what finds the advertisements, by number, in whose spaces events lie."""
    return Index(Entry.of(number, own.space) for number, own in enumerate(advertisements)).reader()
