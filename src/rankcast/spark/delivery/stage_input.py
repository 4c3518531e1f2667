"""What one call of the delivery stage gives a shard: a watermark, packed rows, perhaps the end of the input.

The effect on a shard depends on nothing else, which is what makes a log of these a way to bring a shard back. They are
packed as they came, without being read.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Self

from rankcast.delivery.stream.batches import DeliveryBatch, MatchBatch
from rankcast.delivery.stream.event_tables import EventTable
from rankcast.delivery.stream.queue_changes import QueueChange, pack_changes, unpack_changes
from rankcast.delivery.stream.shards import Shard
from rankcast.model.errors import InvalidValueError
from rankcast.model.times import FIRST_INSTANT
from rankcast.spark.delivery.rerank import RANKING_ANEW

VERSION = 1

MILLISECOND = 1_000
"""Spark counts watermarks in these, rounded down."""

_HEADER = struct.Struct("<4sHBxIq")
_MAGIC = b"rcin"
_ENTRY = struct.Struct("<Bq")
_PLAN = struct.Struct("<qq")
_ALWAYS = -(2**63)


class MessageKind(IntEnum):
    """What a packed row is, into the delivery stage or out of it."""

    CHUNK = 0
    """In: a `MatchBatch` of one shard."""
    CHANGES = 1
    """In: changes of one shard's queues, `packed_plan`."""
    END = 2
    """In: nothing more is to come for this shard."""
    REJECTED = 3
    """Passes through: a row that was no event."""
    COUNTS = 4
    """Passes through: what the match stage counted. Out: how many repetitions were ignored, told by one shard."""
    NOTICES = 5
    """Out: `DeliveryBatch` of one shard."""
    LATE = 6
    """Out: events that came too late, as a `MatchBatch` without rows."""


PASSING = frozenset({MessageKind.REJECTED, MessageKind.COUNTS})


def counts_to_bytes(**counts: int) -> bytes:
    """Return counts as one packed row has them."""
    return json.dumps(counts).encode()


def counts_from_bytes(data: bytes) -> dict[str, int]:
    """Return the counts of a packed row."""
    found: dict[str, int] = json.loads(data)
    return found


def packed_plan(changes: Iterable[QueueChange], *, version: int, since: int | None = None) -> bytes:
    """Return changes of a shard's queues that come with a version of the subscribers, as the data of a CHANGES row.

    They replace what earlier versions planned for `since` or later. A version that a shard knows already is ignored, so
    that every task may bring them.
    """
    return _PLAN.pack(version, _ALWAYS if since is None else since) + pack_changes(changes)


@dataclass(frozen=True, slots=True)
class ShardAnswer:
    """What a shard answers to an input.

    `repeated` says how many repetitions of events it ignored, as every shard does; `repeated_late` how many that would
    have been its to report as late.
    """

    notices: tuple[DeliveryBatch, ...]
    late: EventTable
    repeated: int = 0
    repeated_late: int = 0


@dataclass(frozen=True, slots=True)
class ShardInput:
    """One call's input: the watermark in microseconds, the rows (kind, data) of this stage, in any order.

    The watermark of the next call is going to be at least the newest time in this one's chunks, less the lateness, in
    whole milliseconds. An input that `foresees` this lets time pass so far at the end, instead of at the next call:
    the same things happen, earlier, and rows need not be kept until then.
    """

    watermark: int
    rows: Sequence[tuple[int, bytes]]
    foresees: bool = False

    def apply(self, shard: Shard) -> ShardAnswer:
        """Give a shard its input: time passes first, queues change, rows come, and time passes or is at its end."""
        before, shard.reranking = shard.repeated, RANKING_ANEW
        notices = [shard.advance(self.watermark)] if self.watermark > shard.watermark else []
        by_kind: dict[int, list[bytes]] = {MessageKind.CHUNK: [], MessageKind.CHANGES: [], MessageKind.END: []}
        for kind, data in self.rows:
            by_kind[kind].append(data)
        for version, since, changes in sorted(map(_plan, by_kind[MessageKind.CHANGES]), key=lambda plan: plan[0]):
            if version > shard.version:
                shard.change(changes, since=None if since == _ALWAYS else since)
                shard.version = version
        chunks = [MatchBatch.from_bytes(data) for data in by_kind[MessageKind.CHUNK]]
        late = EventTable.joined([shard.take(chunk) for chunk in chunks])
        reported = shard.unknown(late)
        if by_kind[MessageKind.END]:
            notices.append(shard.finish())
        elif self.foresees:
            newest = max((int(chunk.events.time.max()) for chunk in chunks if len(chunk.events)), default=FIRST_INSTANT)
            notices.append(shard.advance((newest - shard.lateness) // MILLISECOND * MILLISECOND))
        notified = tuple(one for one in notices if len(one))
        return ShardAnswer(notified, reported, shard.repeated - before, len(late) - len(reported))

    def to_bytes(self) -> bytes:
        """Return the input, packed."""
        parts = [_HEADER.pack(_MAGIC, VERSION, self.foresees, len(self.rows), self.watermark)]
        parts += [_ENTRY.pack(kind, len(data)) for kind, data in self.rows]
        parts += [data for _, data in self.rows]
        return b"".join(parts)

    @classmethod
    def from_bytes(cls, packed: bytes) -> Self:
        """Return the input that was packed."""
        if len(packed) < _HEADER.size or not packed.startswith(_MAGIC):
            raise InvalidValueError("log: an entry does not begin as the input of a shard does")
        _, version, foresees, count, watermark = _HEADER.unpack_from(packed)
        if version != VERSION:
            raise InvalidValueError(f"log: an entry of version {version}; expected {VERSION}")
        at = _HEADER.size + count * _ENTRY.size
        if at > len(packed):
            raise InvalidValueError("log: an entry is cut short")
        rows: list[tuple[int, bytes]] = []
        for number in range(count):
            kind, length = _ENTRY.unpack_from(packed, _HEADER.size + number * _ENTRY.size)
            rows.append((kind, packed[at : at + length]))
            at += length
        if at != len(packed):
            raise InvalidValueError(f"log: an entry of {len(packed):,} bytes, where {at:,} were expected")
        return cls(watermark, rows, bool(foresees))


def _plan(data: bytes) -> tuple[int, int, list[QueueChange]]:
    if len(data) < _PLAN.size:
        raise InvalidValueError("changes: cut short")
    version, since = _PLAN.unpack_from(data)
    return version, since, unpack_changes(memoryview(data)[_PLAN.size :])
