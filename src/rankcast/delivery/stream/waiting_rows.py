"""Rows of a shard whose time has not come, and the events they speak of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rankcast.arrays import Array
from rankcast.delivery.engine.queue_table import ArrivalRows
from rankcast.delivery.stream.batches import MatchBatch
from rankcast.delivery.stream.event_tables import EventTable
from rankcast.delivery.stream.queue_changes import QueueChange
from rankcast.delivery.stream.unfiltered import MatchRows, UnfilteredRows

DENSE_ROWS = 2_000_000
"""Rows that are worked out at a time where none are written down: some 60 MB."""


@dataclass(frozen=True, slots=True)
class PendingRows:
    """Rows whose time has not come, and their events; `variant` by event, and `dense`, are as in a `MatchBatch`."""

    events: EventTable
    variant: Array
    rows: MatchRows
    dense: UnfilteredRows | None = None

    @staticmethod
    def of(chunk: MatchBatch, matched: Array | None = None) -> PendingRows:
        """Return the rows of a chunk, with other numbers of what matched if they are given."""
        variant = np.zeros(len(chunk.events), np.int64) if chunk.variant is None else chunk.variant
        rows = chunk.rows if matched is None else chunk.rows._replace(matched=matched)
        return PendingRows(chunk.events, variant, rows, chunk.dense)

    def __len__(self) -> int:
        """How many rows there are, about: dense rows of events without a relevance are counted too."""
        return len(self.rows.queue) + (0 if self.dense is None else len(self.dense))

    @property
    def first_time(self) -> int:
        """The earliest time of an event that has rows; there are some."""
        times = self.events.time[self.rows.event] if self.dense is None else self.events.time
        return int(times.min())

    def whole(self) -> PendingRows:
        """Return the same with all rows written down."""
        if self.dense is None:
            return self
        return PendingRows(self.events, self.variant, MatchRows.joined([self.rows, self.dense.expanded()]))

    @staticmethod
    def joined(parts: Sequence[PendingRows]) -> PendingRows:
        """Return the rows of all parts, written down."""
        parts = [part.whole() for part in parts]
        if len(parts) == 1:
            return parts[0]
        offsets = np.cumsum([0, *(len(part.events) for part in parts)])
        rows = [
            part.rows._replace(event=part.rows.event + offset) for part, offset in zip(parts, offsets, strict=False)
        ]
        variants = [np.zeros(0, np.int64), *(part.variant for part in parts)]
        events = EventTable.joined([part.events for part in parts])
        return PendingRows(events, np.concatenate(variants), MatchRows.joined(rows))

    def of_events(self, is_chosen: Array) -> PendingRows:
        """Return the marked events and their rows."""
        if is_chosen.all():
            return self
        places = np.cumsum(is_chosen) - 1
        rows = self.rows.chosen(np.flatnonzero(is_chosen[self.rows.event]))
        return PendingRows(
            self.events.taken(np.flatnonzero(is_chosen)),
            self.variant[is_chosen],
            rows._replace(event=places[rows.event]),
            None if self.dense is None else self.dense.of_events(is_chosen),
        )

    def rows_of(self, is_chosen: Array) -> PendingRows:
        """Return all events, and the rows of the marked ones; all are written down."""
        return replace(self, rows=self.rows.chosen(np.flatnonzero(is_chosen[self.rows.event])))


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
