"""Rows of a shard whose time has not come, and the events they speak of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from rankcast.arrays import Array
from rankcast.delivery.engine.queue_table import ArrivalRows
from rankcast.delivery.stream.batches import MatchBatch
from rankcast.delivery.stream.event_tables import EventTable
from rankcast.delivery.stream.queue_changes import QueueChange
from rankcast.delivery.stream.unfiltered import UnfilteredRows

ROW_COLUMNS = {"queue": np.int32, "event": np.int64, "score": np.float64, "expires": np.int64, "matched": np.int32}
"""The columns of rows."""

DENSE_ROWS = 2_000_000
"""Rows that are worked out at a time where none are written down: some 60 MB."""


@dataclass(frozen=True, slots=True)
class PendingRows:
    """Rows whose time has not come, and their events; `variant` by event, and `dense`, are as in a `MatchBatch`."""

    events: EventTable
    variant: Array
    queue: Array
    event: Array
    score: Array
    expires: Array
    matched: Array
    dense: UnfilteredRows | None = None

    @staticmethod
    def of(chunk: MatchBatch) -> PendingRows:
        """Return the rows of a chunk."""
        variant = np.zeros(len(chunk.events), np.int64) if chunk.variant is None else chunk.variant
        columns = (chunk.queue, chunk.event, chunk.score, chunk.expires, chunk.matched)
        return PendingRows(chunk.events, variant, *columns, chunk.dense)

    def __len__(self) -> int:
        """How many rows there are, about: dense rows of events without a relevance are counted too."""
        return len(self.queue) + (0 if self.dense is None else len(self.dense))

    @property
    def first_time(self) -> int:
        """The earliest time of an event that has rows; there are some."""
        times = self.events.time[self.event] if self.dense is None else self.events.time
        return int(times.min())

    def whole(self) -> PendingRows:
        """Return the same with all rows written down."""
        if self.dense is None:
            return self
        rows = self.dense.expanded()
        return PendingRows(
            self.events,
            self.variant,
            _concatenated([self.queue, rows.queue], np.int32),
            _concatenated([self.event, rows.event], np.int64),
            _concatenated([self.score, rows.score], np.float64),
            _concatenated([self.expires, rows.expires], np.int64),
            _concatenated([self.matched, rows.matched], np.int32),
        )

    @staticmethod
    def none() -> PendingRows:
        """Return no rows."""
        queue, event, score, expires, matched = (np.zeros(0, dtype) for dtype in ROW_COLUMNS.values())
        return PendingRows(EventTable.empty(), np.zeros(0, np.int64), queue, event, score, expires, matched)

    @staticmethod
    def joined(parts: Sequence[PendingRows]) -> PendingRows:
        """Return the rows of all parts, written down."""
        parts = [part.whole() for part in parts]
        if not parts:
            return PendingRows.none()
        if len(parts) == 1:
            return parts[0]
        offsets = np.cumsum([0, *(len(part.events) for part in parts)])
        return PendingRows(
            EventTable.joined([part.events for part in parts]),
            _concatenated([part.variant for part in parts], np.int64),
            _concatenated([part.queue for part in parts], np.int32),
            _concatenated([part.event + offset for part, offset in zip(parts, offsets, strict=False)], np.int64),
            _concatenated([part.score for part in parts], np.float64),
            _concatenated([part.expires for part in parts], np.int64),
            _concatenated([part.matched for part in parts], np.int32),
        )

    def of_events(self, is_chosen: Array) -> PendingRows:
        """Return the marked events and their rows."""
        if is_chosen.all():
            return self
        places = np.cumsum(is_chosen) - 1
        rows = np.flatnonzero(is_chosen[self.event])
        return PendingRows(
            self.events.taken(np.flatnonzero(is_chosen)),
            self.variant[is_chosen],
            self.queue[rows],
            places[self.event[rows]],
            self.score[rows],
            self.expires[rows],
            self.matched[rows],
            None if self.dense is None else self.dense.of_events(is_chosen),
        )

    def rows_of(self, is_chosen: Array) -> PendingRows:
        """Return all events, and the rows of the marked ones; all are written down."""
        rows = np.flatnonzero(is_chosen[self.event])
        columns = (self.queue, self.event, self.score, self.expires, self.matched)
        queue, event, score, expires, matched = (column[rows] for column in columns)
        return PendingRows(self.events, self.variant, queue, event, score, expires, matched)


def release_steps(parts: Sequence[PendingRows], since: int, watermark: int) -> list[int]:
    """Return the watermarks after one to go by, the given one last, so that few dense rows are worked out at once.

    That is no more than `DENSE_ROWS`; rows of one time are released together, however many they are.
    """
    known = [(part.events.time, len(part.dense.table)) for part in parts if part.dense is not None]
    if not known:
        return [watermark]
    times = np.concatenate([time for time, _ in known])
    rows = np.repeat([queues for _, queues in known], [len(time) for time, _ in known])
    order = np.argsort(times, kind="stable")
    steps = np.cumsum(rows[order]) // DENSE_ROWS
    firsts = times[order][np.flatnonzero(np.diff(steps, prepend=0))]
    return [*np.unique(firsts[(firsts > since) & (firsts < watermark)]).tolist(), watermark]


def _concatenated(parts: list[Array], dtype: type[np.generic]) -> Array:
    return np.concatenate(parts).astype(dtype, copy=False)


def rounds_of(
    rows: ArrivalRows, changes: Sequence[QueueChange], is_repeated: Array
) -> Iterator[tuple[list[QueueChange], Array]]:
    """Return, round by round, the changes that happen first and the positions of the rows that come then.

    Rows are in the order of queues and times, changes in that of times; a change comes before rows of its time.
    """
    seen = np.concatenate([[0], np.cumsum(is_repeated)])
    rounds = seen[1:] - seen[np.searchsorted(rows.queue, rows.queue)]
    stops: dict[int, list[QueueChange]] = {}
    before: dict[int, int] = {}
    for change in changes:
        low, high = np.searchsorted(rows.queue, [change.queue, change.queue + 1])
        at = low + int(np.searchsorted(rows.time[low:high], change.time))
        rounds[at:high] += 1
        before[change.queue] = before.get(change.queue, 0) + 1
        stops.setdefault(int(before[change.queue] + seen[at] - seen[low]), []).append(change)
    order = np.argsort(rounds, kind="stable")
    last = max([*stops, int(rounds.max(initial=0))])
    bounds = np.searchsorted(rounds[order], np.arange(last + 2))
    for number in range(last + 1):
        yield stops.get(number, []), order[bounds[number] : bounds[number + 1]]
