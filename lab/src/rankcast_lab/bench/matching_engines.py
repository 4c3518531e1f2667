"""The engines of the matching bench, all with the same face: built once, then asked for the first n events' matches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from rankcast.arrays import Array
from rankcast.matching.encoding.batches import EncodedEvents
from rankcast.matching.segments.compiled_index import Part
from rankcast.matching.segments.compiled_reader import Searcher
from rankcast.matching.segments.segment import Segment
from rankcast_lab.bench.comparing import Matches
from rankcast_lab.bench.matching_kernels import (
    BLOCK_STREAMS,
    STREAMS,
    and_rows,
    and_rows_in_blocks,
    in_groups,
    match_all,
)
from rankcast_lab.bench.matching_work import MISSING, Work
from rankcast_lab.bench.memory import megabytes
from rankcast_lab.bench.timing import timed
from rankcast_lab.engines.columnar import segment_of_ranges
from rankcast_lab.workloads.matching import MatchingCase

BUCKETS = 256
"""Bitset rows per attribute of the limit kernels: as many as the index has."""


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine that is ready to match; `match(n)` does the first n events, and returns None if it finds nothing."""

    name: str
    match: Callable[[int], Matches | None]
    build_seconds: float | None = None
    megabytes: float | None = None
    slow: bool = False
    """Whether it is measured on few events."""
    note: str = ""


def index_engines(work: Work) -> tuple[Engine, Engine]:
    """Return rankcast's index twice: from Arrow columns to matches, and the search alone, on encoded events."""
    seconds, segment = timed(lambda: build_index(work.source))
    searcher = Searcher(Part.of(segment))
    batch = work.source.event_batch()
    encoded = searcher.encoder.encode_batch(batch)
    size = megabytes(segment.to_arrays().values())

    def match(count: int) -> Matches:
        return Matches(*searcher.match_batch(batch.slice(0, count)))

    def match_encoded(count: int) -> Matches:
        return Matches(*searcher.match_batch(first_events(encoded, count)))

    return Engine("index", match, seconds, size), Engine("index-encoded", match_encoded, seconds, size)


def build_index(case: MatchingCase) -> Segment:
    """Return the index of a case's subscriptions."""
    columns = (case.row_start, case.attribute, case.low, case.high)
    return segment_of_ranges(case.attributes, *columns, vocabularies=case.vocabularies)


def first_events(encoded: EncodedEvents, count: int) -> EncodedEvents:
    """Return the first of some encoded events, without copying them."""
    return replace(encoded, start=encoded.start[: count + 1])


def brute_force(work: Work) -> Engine:
    """Return the kernel that tries every subscription."""
    columns = (work.start, work.attribute, work.low, work.high)
    return Engine("brute-force", lambda count: match_brute_force(work, count), 0.0, megabytes(columns))


def match_brute_force(work: Work, count: int) -> Matches:
    """Return the matches of the first events by trying every subscription."""
    events = work.events[:count]
    offsets = np.zeros(len(events) + 1, np.int64)
    found = np.empty(2 * work.subscriptions + 1024, np.int32)
    while match_all(work.start, work.attribute, work.low, work.high, events, offsets, found) < len(events):
        found = np.empty(4 * len(found), np.int32)
    return Matches(offsets, found[: offsets[-1]])


def limits(work: Work, generator: np.random.Generator) -> tuple[Engine, Engine]:
    """Return both kernels that only AND random rows, as many as each event has attributes."""
    words = -(-work.subscriptions // 64)
    count = work.attributes * BUCKETS
    rows = generator.integers(0, 2**64 - 1, (count, words), np.uint64, endpoint=True)
    picked = _picked(work, generator)
    result = np.zeros(words, np.uint64)

    def engine(name: str, kernel: Callable[[Array, Array, Array], None], streams: int) -> Engine:
        grouped = in_groups(picked, streams)
        return Engine(name, lambda events: kernel(rows, grouped[:events], result), None, megabytes((rows,)))

    return engine("limit", and_rows_in_blocks, BLOCK_STREAMS), engine("bandwidth", and_rows, STREAMS)


def _picked(work: Work, generator: np.random.Generator) -> Array:
    """Return per event one random row of each attribute that it has; events with fewer attributes repeat their last."""
    present = work.events != MISSING
    order = np.argsort(~present, axis=1, kind="stable")
    sizes = present.sum(axis=1)
    most = max(1, int(sizes.max(initial=0)))
    place = np.minimum(np.arange(most)[None, :], np.maximum(sizes, 1)[:, None] - 1)
    attribute = np.take_along_axis(order, place, axis=1)
    bucket = generator.integers(0, BUCKETS, work.events.shape)
    picked: Array = attribute * BUCKETS + np.take_along_axis(bucket, attribute, axis=1)
    return picked
