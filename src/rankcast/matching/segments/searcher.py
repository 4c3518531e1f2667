"""Searches one segment. A searcher owns its scratch memory: one per thread.

>>> import pyarrow as pa
>>> from rankcast.matching.segments.builder import Entry, build_segment
>>> from rankcast.model.expressions import attr
>>> from rankcast.model.filters import Filter
>>> segment = build_segment([Entry.of(7, Filter.of(attr("rent") < 900)), Entry.of(8, Filter.of(attr("rent") > 800))])
>>> Searcher(segment).match_batch(pa.RecordBatch.from_pydict({"rent": [700, 850]}))
(array([0, 1, 3]), array([7, 7, 8]))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rankcast.arrays import Array
from rankcast.matching.encoding.encoder import EncodedEvents, Encoder
from rankcast.matching.kernels.search import WORK, scratch, search
from rankcast.matching.segments.searchable import SearchableSegment
from rankcast.matching.segments.segment import Segment

if TYPE_CHECKING:
    import pyarrow as pa

FIRST_ROOM = 1 << 12
"""Results that fit beyond one per row, when space has to grow."""


class Searcher:
    """Finds the subscriptions of a segment that events satisfy; not to be shared between threads."""

    def __init__(self, segment: Segment | SearchableSegment) -> None:
        self.prepared = segment if isinstance(segment, SearchableSegment) else SearchableSegment.of(segment)
        dimensions, residues = self.prepared.segment.dimensions, self.prepared.segment.residues
        self.encoder = Encoder(dimensions, self.prepared.texts, residues.attribute.tolist())
        self._patterns = self.prepared.patterns
        self._table = self.prepared.table.addresses
        self._memory = scratch(*self.prepared.needs)
        self._work = self._memory.addresses
        self._found, self._opened = self._memory.arrays[WORK.found], self._memory.arrays[WORK.opened]

    def match_batch(self, events: pa.RecordBatch | EncodedEvents, sequence: int = 0) -> tuple[Array, Array]:
        """Return (offsets, numbers): the subscriptions of event i are numbers[offsets[i]:offsets[i+1]]."""
        encoded = events if isinstance(events, EncodedEvents) else self.encoder.encode_batch(events)
        offsets = np.zeros(len(encoded) + 1, np.int64)
        open_offsets = np.zeros(len(encoded) + 1, np.int64)
        done = 0
        while True:
            done = search(
                done,
                encoded.start,
                encoded.dimensions,
                encoded.ranks,
                self._table,
                sequence,
                self._work,
                offsets,
                self._found,
                open_offsets,
                self._opened,
            )
            if done == len(encoded):
                break
            self._make_room(int(offsets[done]), int(open_offsets[done]))
        numbers = self._found[: offsets[-1]]
        if not self._patterns:
            return offsets, numbers.copy()
        return self._completed(encoded, offsets, numbers, open_offsets, self._opened)

    def _make_room(self, found: int, opened: int) -> None:
        """Double the space for results, which is kept for later batches."""
        self._found = _wider(self._found, found)
        if self._patterns:
            self._opened = _wider(self._opened, opened)

    def _completed(
        self, encoded: EncodedEvents, offsets: Array, numbers: Array, open_offsets: Array, opened: Array
    ) -> tuple[Array, Array]:
        """Add the rows with residues that hold to what was found."""
        pieces: list[Array] = []
        sizes = np.diff(offsets)
        for event in range(len(encoded)):
            own = slice(offsets[event], offsets[event + 1])
            pieces.append(numbers[own])
            if open_offsets[event] < open_offsets[event + 1]:
                rows = opened[open_offsets[event] : open_offsets[event + 1]]
                verified = self._verified(encoded, event, rows, numbers[own])
                pieces.append(verified)
                sizes[event] += len(verified)
        completed = np.zeros(len(offsets), np.int64)
        np.cumsum(sizes, out=completed[1:])
        return completed, np.concatenate(pieces) if pieces else numbers.copy()

    def _verified(self, encoded: EncodedEvents, event: int, rows: Array, found: Array) -> Array:
        """Return the numbers of rows whose residues hold, less those found already."""
        seen = set(found.tolist()) if len(rows) else set()
        verified: list[int] = []
        for row in rows.tolist():
            number = int(self.prepared.number_of[row])
            if number not in seen and self._residues_hold(encoded, event, row):
                seen.add(number)
                verified.append(number)
        return np.array(verified, np.int64)

    def _residues_hold(self, encoded: EncodedEvents, event: int, row: int) -> bool:
        for attribute, pattern, negated in self._patterns[row]:
            text = encoded.texts.get(attribute, {}).get(event)
            if text is not None and pattern.matches(text) == negated:
                return False
        return True


def _wider(array: Array, used: int) -> Array:
    wider = np.empty(2 * len(array) + FIRST_ROOM, array.dtype)
    wider[:used] = array[:used]
    return wider
