"""Searches one segment. A searcher owns its scratch memory: one per thread.

>>> from rankcast.matching.builder import Entry, build_segment
>>> from rankcast.model.expressions import attr
>>> from rankcast.model.filters import Filter
>>> segment = build_segment([Entry.of(7, Filter.of(attr("rent") < 900)), Entry.of(8, Filter.of(attr("rent") > 800))])
>>> Searcher(segment).match_one({"rent": 700})
array([7])
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from rankcast.matching.encoder import Encoder
from rankcast.matching.events import EncodedEvents
from rankcast.matching.kernels_search import scratch, search, search_holding
from rankcast.matching.kernels_wide import BITS_START
from rankcast.matching.rows import Array
from rankcast.matching.segment import Segment
from rankcast.model.patterns import Pattern

NEVER_DIED = np.zeros(0, np.int64)
"""For segments without removed subscriptions."""

FIRST_ROOM = 1 << 12
"""Results that fit beyond one per row, when space has to grow."""


class Searcher:
    """Finds the subscriptions of a segment that events satisfy; not to be shared between threads."""

    def __init__(self, segment: Segment, encoder: Encoder | None = None) -> None:
        self.segment = segment
        self.encoder = encoder or Encoder(segment.dimensions, segment.residues.attribute.tolist())
        rows, wide, selective, residues = segment.rows, segment.wide, segment.selective, segment.residues
        words = (len(wide.chunks) - 1) * wide.chunk_words
        flags = np.zeros(len(rows) if len(residues.row) else 0, np.uint8)
        flags[residues.row] = 1
        several = bool((np.bincount(rows.subscription, minlength=1) > 1).any())
        self._number_of: Array = segment.numbers.take(rows.subscription)
        self._arguments = (
            rows.start,
            rows.predicates,
            rows.gap_start,
            rows.gaps,
            rows.subscription,
            self._number_of,
            flags,
            wide.layout,
            wide.bucket_of,
            wide.bits,
            wide.chunks,
            wide.parts,
            wide.ends_start,
            wide.low_ends,
            wide.high_ends,
            wide.gaps,
            selective.access,
            selective.cell_of,
            selective.cell_start,
            selective.entries,
            int(segment.bounds[1]),
            *scratch(
                wide.layout[:, BITS_START],
                words,
                int(segment.bounds[1] - segment.bounds[0]) + 1,
                len(segment) if several else 0,
            ),
        )
        self._offsets = np.zeros(2, np.int64)
        self._open_offsets = np.zeros(2, np.int64)
        self._found = np.empty(len(rows), np.int64)
        self._opened = np.empty(len(rows) if len(residues.row) else 0, np.int32)
        self._results = (self._offsets, self._found, self._open_offsets, self._opened)
        self._patterns = _patterns_by_row(segment)

    def match_one(
        self,
        event: Mapping[str, Any] | EncodedEvents,
        died: Array = NEVER_DIED,
        sequence: int = 0,
        *,
        hold: bool = False,
    ) -> Array:
        """Return the numbers of the subscriptions that one event satisfies, in no particular order.

        `died` says, by subscription, from which sequence number on it is no longer there. With `hold` the GIL is kept.
        """
        encoded = event if isinstance(event, EncodedEvents) else self.encoder.encode(event)
        (search_holding if hold else search)(
            0, encoded.start, encoded.dimensions, encoded.ranks, *self._arguments, died, sequence, *self._results
        )
        numbers = self._found[: self._offsets[1]]
        if not self._patterns:
            return numbers.copy()
        return np.concatenate((numbers, self._verified(encoded, 0, self._opened[: self._open_offsets[1]], numbers)))

    def match_batch(
        self, events: pa.RecordBatch | EncodedEvents, died: Array = NEVER_DIED, sequence: int = 0
    ) -> tuple[Array, Array]:
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
                *self._arguments,
                died,
                sequence,
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
        self._results = (self._offsets, self._found, self._open_offsets, self._opened)

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
            number = int(self._number_of[row])
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


def _patterns_by_row(segment: Segment) -> dict[int, list[tuple[int, Pattern, bool]]]:
    residues = segment.residues
    found: dict[int, list[tuple[int, Pattern, bool]]] = {}
    columns = (residues.row.tolist(), residues.attribute.tolist(), residues.patterns.texts(), residues.negated.tolist())
    for row, attribute, text, negated in zip(*columns, strict=True):
        found.setdefault(row, []).append((attribute, Pattern.like(text), bool(negated)))
    return found
