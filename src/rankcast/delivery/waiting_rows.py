"""Rows of a shard whose time has not come, and the events they speak of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rankcast.delivery.batch_layout import Array
from rankcast.delivery.event_tables import EventTable
from rankcast.delivery.packing import Chunk

ROW_COLUMNS = {"queue": np.int32, "event": np.int64, "score": np.float64, "expires": np.int64, "matched": np.int32}
"""The columns of rows, as they are packed."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Rows whose time has not come, and their events; `variant` as in a `Chunk`, by event."""

    events: EventTable
    variant: Array
    queue: Array
    event: Array
    score: Array
    expires: Array
    matched: Array

    @staticmethod
    def of(chunk: Chunk) -> Waiting:
        """Return the rows of a chunk."""
        variant = np.zeros(len(chunk.events), np.int64) if chunk.variant is None else chunk.variant
        return Waiting(chunk.events, variant, chunk.queue, chunk.event, chunk.score, chunk.expires, chunk.matched)

    @staticmethod
    def none() -> Waiting:
        """Return no rows."""
        none = np.zeros(0, np.int64)
        return Waiting(EventTable.empty(), none, *(np.zeros(0, dtype) for dtype in ROW_COLUMNS.values()))

    @staticmethod
    def joined(parts: Sequence[Waiting]) -> Waiting:
        """Return the rows of all parts."""
        if not parts:
            return Waiting.none()
        if len(parts) == 1:
            return parts[0]
        offsets = np.cumsum([0, *(len(part.events) for part in parts)])
        return Waiting(
            EventTable.joined([part.events for part in parts]),
            _concatenated([part.variant for part in parts], np.int64),
            _concatenated([part.queue for part in parts], np.int32),
            _concatenated([part.event + offset for part, offset in zip(parts, offsets, strict=False)], np.int64),
            _concatenated([part.score for part in parts], np.float64),
            _concatenated([part.expires for part in parts], np.int64),
            _concatenated([part.matched for part in parts], np.int32),
        )

    def of_events(self, is_chosen: Array) -> Waiting:
        """Return the marked events and their rows."""
        if is_chosen.all():
            return self
        places = np.cumsum(is_chosen) - 1
        rows = np.flatnonzero(is_chosen[self.event])
        return Waiting(
            self.events.taken(np.flatnonzero(is_chosen)),
            self.variant[is_chosen],
            self.queue[rows],
            places[self.event[rows]],
            self.score[rows],
            self.expires[rows],
            self.matched[rows],
        )

    def rows_of(self, is_chosen: Array) -> Waiting:
        """Return all events, and the rows of the marked ones."""
        rows = np.flatnonzero(is_chosen[self.event])
        columns = (self.queue, self.event, self.score, self.expires, self.matched)
        return Waiting(self.events, self.variant, *(column[rows] for column in columns))

    def columns(self) -> dict[str, Array]:
        """Return the columns of the rows by name, as they are packed."""
        return {name: getattr(self, name).astype(dtype, copy=False) for name, dtype in ROW_COLUMNS.items()}


def _concatenated(parts: list[Array], dtype: type[np.generic]) -> Array:
    return np.concatenate(parts).astype(dtype, copy=False)
