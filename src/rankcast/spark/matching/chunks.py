"""Ranked matches as chunks for the delivery shards: queue q belongs to shard q % shards, where it is q // shards.

A chunk has the rows of one shard, and all events: a shard has to know the identities of those that it has no rows of,
too, to tell repetitions (`rankcast.delivery.stream.shards`). Of these it gets nothing else. A number for each event
tells whether publications of one identity and time come to the same (`variants`).

What else travels with an event (the ranks of queues whose scores decay, its content, what is carried along) is in its
payload (`payloads`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from rankcast.arrays import Array
from rankcast.compiling import compiled
from rankcast.delivery.stream.batches import MatchBatch
from rankcast.delivery.stream.event_tables import EventTable, Ragged, digests, mixed
from rankcast.delivery.stream.matched_sets import SETS
from rankcast.delivery.stream.unfiltered import UnfilteredRows, event_digests
from rankcast.ranking.batch import Features, RankedRows
from rankcast.ranking.batch_table import RankTable
from rankcast.spark.delivery.payloads import with_payloads
from rankcast.spark.matching.compiled_subscribers import CompiledSubscribers

MASK_BITS = SETS.bit_length() - 1
"""Positions below this one fit the mask of what matched."""


class Packed(NamedTuple):
    """A chunk, its shard, and the newest time in it."""

    shard: int
    newest: int
    chunk: MatchBatch


class UnfilteredRanks(NamedTuple):
    """What is known of events beside their rows: what relevance functions look at, and when they say they expire."""

    features: Features
    expires: Array


def chunks_of(
    events: EventTable,
    rows: RankedRows,
    audience: CompiledSubscribers,
    version: int,
    shards: int,
    reporting: int,
    position: Array | None = None,
    apart: UnfilteredRanks | None = None,
    contents: Sequence[bytes] | None = None,
) -> Iterator[Packed]:
    """Divide ranked rows among the shards; the chunk of shard `reporting` has whole events, to report late ones.

    `position` says where in its queue what matched is, by the audience's numbers of subscriptions unless it is given.
    Then an event's rows may be divided among several chunks, and of what they say nothing is left out. `apart` is what
    the rows of subscriptions that every event matches are worked out from, where they are not among the rows.
    `contents` are the whole events, to be kept by the shards that have rows of them.
    """
    if not len(events):
        return
    matched, sets = matched_numbers(rows, audience.position if position is None else position)
    shard = (rows.queue % shards).astype(np.uint16 if shards < 2**16 else np.int64)  # short numbers sort by counting
    order = np.argsort(shard, kind="stable")
    bounds = np.searchsorted(shard[order], np.arange(shards + 1))
    decaying = audience.decays(rows.queue)
    variant, newest = variants(events, rows, matched) if position is None else None, int(events.time.max())
    if apart is not None and variant is not None:
        variant ^= event_digests(*apart)
    for at in range(shards):
        own = order[bounds[at] : bounds[at + 1]]
        reports = at == reporting
        event = rows.event[own]
        named = np.zeros(len(events), bool)
        named[event] = True
        dense = None if apart is None else dense_rows(events, apart, audience.table_apart(at, shards))
        table = events if reports or dense is not None else events.bare_unless(named)
        if contents is not None or len(table.payload.values) or decaying[own].any():
            kept = None if contents is None else [one if named[at] else None for at, one in enumerate(contents)]
            table = with_payloads(table, rows, own[decaying[own]].tolist(), kept)
        chunk = MatchBatch(
            table,
            (rows.queue[own] // shards).astype(np.int32),
            event.astype(np.int32),
            rows.score[own],
            rows.expires[own],
            matched[own],
            sets if len(sets) else Ragged.of([]),
            version,
            reports,
            variant,
            dense,
        )
        yield Packed(at, newest, chunk)


def dense_rows(events: EventTable, apart: UnfilteredRanks, table: RankTable) -> UnfilteredRows | None:
    """Return the rows of the subscriptions of a table with all events; None when there is no subscription."""
    if not len(table):
        return None
    only = np.ones(len(table), np.int32)  # the mask of the only position
    return UnfilteredRows(table, only, events.time, apart.expires, apart.features)


def variants(events: EventTable, rows: RankedRows, matched: Array) -> Array:
    """Return numbers, one for each event, that are equal for those that all queues take alike."""
    found = digests(events.values.starts, events.values.values, np.arange(len(events)))
    found ^= digests(events.payload.starts, events.payload.values, np.arange(len(events)))
    _digest_rows(rows.event, rows.queue, rows.score.view(np.int64), rows.expires, matched, found)
    return found


def matched_numbers(rows: RankedRows, position: Array) -> tuple[Array, Ragged]:
    """Return what matched as `batches` wants it: a mask of positions, or the number of a set where none fits."""
    numbers = np.zeros(len(rows.event), np.int32)
    _masks(rows.matched_start, position[rows.matched].astype(np.int64), MASK_BITS, numbers)
    known: dict[tuple[int, ...], int] = {}
    for row in np.flatnonzero(numbers < 0).tolist():
        own = position[rows.matched[rows.matched_start[row] : rows.matched_start[row + 1]]]
        numbers[row] = SETS + known.setdefault(tuple(sorted(own.tolist())), len(known))
    return numbers, Ragged.of(list(known))


@compiled
def _digest_rows(event: Array, queue: Array, score: Array, expires: Array, matched: Array, found: Array) -> None:
    """Mix what rows say into the numbers of their events."""
    for row in range(len(event)):
        digest = mixed(mixed(found[event[row]], queue[row]), score[row])
        found[event[row]] = mixed(mixed(digest, expires[row]), matched[row])


@compiled
def _masks(starts: Array, positions: Array, bits: int, numbers: Array) -> None:
    """Write the mask of each row's positions, -1 where one does not fit."""
    for row in range(len(numbers)):
        mask = 0
        for at in range(starts[row], starts[row + 1]):
            if positions[at] >= bits:
                mask = -1
                break
            mask |= 1 << positions[at]
        numbers[row] = mask
