"""What a shard is given, and its state in Spark: a snapshot, a log of what was given since, and a token.

    head       token; entries and bytes of the log; parts and bytes of the snapshot; the timer that is set
    snapshot   the whole shard, packed, in parts of bounded size
    log        what the shard was given since the snapshot, one entry per call

One call of the delivery stage gives a shard a `ShardInput`: a watermark, packed rows, perhaps the end of the input. The
effect on a shard depends on nothing else, so snapshot and log give back exactly the shard that a task left. Inputs are
packed as they came, without being read. The token says which update is the last.

A call appends its input, so it costs what its input costs, not what the shard is. When the log outgrows the snapshot,
the snapshot is taken again and the log is emptied: the state stays below about twice the shard (and `SMALLEST_LOG`),
and a byte is rewritten a bounded number of times. Everything here is written within a task and committed by Spark with
it, or not at all.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple, Self

from rankcast.delivery.stream.batches import DeliveryBatch, ListBatch, MatchBatch
from rankcast.delivery.stream.event_tables import EventTable
from rankcast.delivery.stream.queue_changes import QueueChange, pack_changes, unpack_changes
from rankcast.delivery.stream.shards import Shard
from rankcast.model.errors import InvalidValueError, RankcastError
from rankcast.model.times import FIRST_INSTANT
from rankcast.spark.delivery.rerank import RERANKING

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
    LISTS = 7
    """Out: lists that are read on demand and have changed, as a `ListBatch`."""


PASSING = frozenset({MessageKind.REJECTED, MessageKind.COUNTS})


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
    have been its to report as late. `lists` are those that are read on demand, as far as they have changed. `capped`
    and `muted` count deliveries that are never handed over.
    """

    notices: tuple[DeliveryBatch, ...]
    late: EventTable
    repeated: int = 0
    repeated_late: int = 0
    lists: ListBatch | None = None
    capped: int = 0
    muted: int = 0


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
        before, shard.reranking = (shard.repeated, shard.capped, shard.muted), RERANKING
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
        lists = None
        if by_kind[MessageKind.END]:
            notices.append(shard.advance(shard.newest + 1))
            lists = shard.lists()  # of all that has come; time that goes on for ever would leave nothing in them
            notices.append(shard.finish())
        elif self.foresees:
            newest = max((int(chunk.events.time.max()) for chunk in chunks if len(chunk.events)), default=FIRST_INSTANT)
            notices.append(shard.advance((newest - shard.lateness) // MILLISECOND * MILLISECOND))
        notified = tuple(batch for batch in notices if len(batch))
        lists = lists if by_kind[MessageKind.END] else shard.lists()
        repeated, capped, muted = map(operator.sub, (shard.repeated, shard.capped, shard.muted), before)
        return ShardAnswer(notified, reported, repeated, len(late) - len(reported), lists, capped, muted)

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


SMALLEST_LOG = 4 << 20
"""Bytes that a log may always have."""

LARGEST_PART = 8 << 20
"""Bytes of the snapshot in one value of the state."""

NO_TIMER = -1

HEAD_SCHEMA = "token binary, entries int, log_bytes bigint, parts int, snapshot_bytes bigint, timer bigint"


class StateError(RankcastError):
    """What Spark's state holds of a shard cannot be used."""


class Head(NamedTuple):
    """The value that says what the rest of the state is."""

    token: bytes = b""
    entries: int = 0
    log_bytes: int = 0
    parts: int = 0
    snapshot_bytes: int = 0
    timer: int = NO_TIMER


class StoredShard:
    """The state variables of the shard whose key Spark has set."""

    def __init__(self, handle: Any) -> None:
        self._head = handle.getValueState("head", HEAD_SCHEMA)
        self._snapshot = handle.getMapState("snapshot", "part int", "data binary")
        self._log = handle.getMapState("log", "entry int", "data binary")

    def head(self) -> Head:
        """Return what was committed last; without a token when there is nothing yet."""
        found = self._head.get()
        return Head() if found is None else Head(bytes(found[0]), *found[1:])

    def restored(self, head: Head, new: Callable[[], Shard]) -> Shard:
        """Return the shard that snapshot and log describe; `new` makes the one that has seen nothing."""
        try:
            if head.token:
                parts = [self._part(self._snapshot, part, "snapshot") for part in range(head.parts)]
                shard = Shard.from_bytes(b"".join(parts))
            else:
                shard = new()
            for entry in range(head.entries):
                ShardInput.from_bytes(self._part(self._log, entry, "log")).apply(shard)
        except InvalidValueError as error:
            raise StateError(f"the state of a delivery shard is damaged: {error}") from error
        return shard

    def append(self, head: Head, given: ShardInput, shard: Shard, token: bytes) -> Head:
        """Write what a shard was given, or all of it when the log becomes too long; return the head to be written.

        The first call writes all of it too: what a shard begins with need not be known ever again.
        """
        entry = given.to_bytes()
        if head.parts and head.log_bytes + len(entry) <= max(SMALLEST_LOG, head.snapshot_bytes):
            self._log.updateValue((head.entries,), (entry,))
            return head._replace(token=token, entries=head.entries + 1, log_bytes=head.log_bytes + len(entry))
        packed = shard.to_bytes()
        parts = [packed[at : at + LARGEST_PART] for at in range(0, len(packed), LARGEST_PART)]
        for number, part in enumerate(parts):
            self._snapshot.updateValue((number,), (part,))
        for number in range(len(parts), head.parts):
            self._snapshot.removeKey((number,))
        for number in range(head.entries):
            self._log.removeKey((number,))
        return Head(token, 0, 0, len(parts), len(packed), head.timer)

    def commit(self, head: Head) -> None:
        """Write the head, last of all."""
        self._head.update(tuple(head))

    @staticmethod
    def _part(values: Any, number: int, what: str) -> bytes:
        found = values.getValue((number,))
        if found is None:
            raise StateError(f"the state of a delivery shard is damaged: part {number} of its {what} is missing")
        return bytes(found[0])
