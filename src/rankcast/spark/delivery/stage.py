"""The delivery stage: packed matches in, packed deliveries out, queues in shards whose state Spark manages.

    delivered = deliver_packed(packed, queues, shards=4, lateness=timedelta(minutes=1))

`packed` has INPUT_SCHEMA: the shard of a row, the newest event time in it, its kind, and bytes that say the rest. The
result has OUTPUT_SCHEMA. Rows that are none of this stage's business (`PASSING`) pass through it. The result does not
depend on micro-batches, partitions or retries: `rankcast.delivery.stream.shards` sees to that, given the watermark.

One call, for one shard and micro-batch:

1. The head of the shard's state is read. The live shard (`live_state`) is taken if it has the head's token, and loses
   it at once; otherwise the shard is brought back from snapshot and log (`state`).
2. The shard is given the watermark, changes of queues and rows. What it delivers is the result.
3. What it was given is appended to the log, or the snapshot is taken again. The head gets a new token.
4. The live shard gets this token. If the task is committed, the next call finds the same token in both places. If it
   fails at any point, Spark keeps the old head, no live shard has its token, and the next attempt starts from there.

Spark puts a key into the partition that its hash says. Keys of shards depend on the number of shards alone, because
they are part of a checkpoint, and are spread evenly: shard i gets a key whose hash is i modulo the number of shards, so
as many partitions as shards get one shard each, and if the number of partitions divides that of shards, all get equally
many.

Two attempts of one task at a time would write one state twice; sessions with speculative execution are refused.

Time: rows wait until the watermark is past them. Spark would tell so with the next micro-batch; a shard, which is given
the times of all events, knows it with this one (`ShardInput`). When nothing arrives, an event-time timer calls the
shard as soon as it has something to do. Spark itself would drop packed rows whose newest time is behind the watermark,
unseen; so it is not shown their times, and the shard reports what is late. END completes everything: waiting rows, open
periods and windows. A DataFrame that is no stream goes through the same shards and is finished at the end of its input.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache, partial
from itertools import count
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 (the name that all of Spark's documentation has)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from rankcast.delivery.stream.batches import MatchBatch
from rankcast.delivery.stream.handovers import Handover
from rankcast.delivery.stream.shards import Shard
from rankcast.model.errors import InvalidValueError
from rankcast.model.policies import Policy
from rankcast.model.times import TICK
from rankcast.spark.delivery.live_state import live_shard, query_folder
from rankcast.spark.delivery.state import (
    MILLISECOND,
    NO_TIMER,
    PASSING,
    Head,
    MessageKind,
    ShardAnswer,
    ShardInput,
    StoredShard,
)
from rankcast.spark.session import check_session

INPUT = pa.schema(
    [("shard", pa.int32()), ("time", pa.timestamp("us", "UTC")), ("kind", pa.int8()), ("data", pa.binary())]
)
_OUTPUT = INPUT.remove(1)
INPUT_SCHEMA, OUTPUT_SCHEMA = from_arrow_schema(INPUT), from_arrow_schema(_OUTPUT)

LONGEST_NOTICES = 500_000
"""Deliveries in one packed row of the result."""

_BEFORE_ALL = "0001-01-01 00:00:00"
"""The time of rows that say nothing of event time."""

_WORD = 0xFFFFFFFF
_SEED = 42
"""Of Spark's hash for partitioning, Murmur3."""


class PackedRow(NamedTuple):
    """One row of INPUT_SCHEMA; `time` is None for what says nothing of event time."""

    shard: int
    time: int | None
    kind: MessageKind
    data: bytes

    def to_batch(self) -> pa.RecordBatch:
        """Return the row as Spark takes it."""
        return pa.RecordBatch.from_pylist([self._asdict()], INPUT)


class QueuePolicies(Protocol):
    """Knows, on a worker, the policies with which the queues of a shard begin."""

    def policies(self, shard: int, shards: int) -> tuple[int, Sequence[Policy]]:
        """Return the version of the subscribers and, in the order of their numbers there, the policies of queues."""

    def handovers(self, shard: int, shards: int) -> Sequence[Handover]:
        """Return how these queues are handed over."""


def deliver_packed(
    packed: DataFrame, queues: QueuePolicies, *, shards: int, lateness: timedelta = timedelta(0)
) -> DataFrame:
    """Return what is delivered, packed by shard; `shards` and `lateness` stay the same for the life of a checkpoint.

    Where a step before has set a watermark too, Spark takes the lower one, and shards wait until it tells them.
    """
    check_session(packed.sparkSession)
    if shards < 1:
        raise InvalidValueError(f"shards: {shards}; expected at least 1")
    if lateness < timedelta(0):
        raise InvalidValueError(f"lateness: {lateness}; expected at least 0")
    keys = shard_keys(shards)
    key = F.element_at(F.array(*map(F.lit, keys)), F.col("shard") + 1)
    timed = packed.withColumn("key", key)
    if not packed.isStreaming:
        work = BatchDelivery(queues, shards, lateness // TICK)
        return timed.repartition(shards, "key").mapInArrow(work, OUTPUT_SCHEMA)
    timed = timed.withColumn("time", F.coalesce("time", F.lit(_BEFORE_ALL).cast("timestamp")))
    watched = timed.withWatermark("time", f"{lateness // TICK} microseconds").select("key", "shard", "kind", "data")
    processor = Delivery(queues, shards, lateness // TICK, foresees=not has_watermark(packed))
    return watched.groupBy("key").transformWithState(processor, OUTPUT_SCHEMA, "append", "eventtime")


def has_watermark(frame: DataFrame) -> bool:
    """Whether a step of a DataFrame's plan sets a watermark; nothing but the plan itself tells."""
    plan: Any = frame._jdf.queryExecution().analyzed()  # a classic session has it
    return "EventTimeWatermark" in plan.toString()


def _new_shard(queues: QueuePolicies, shard: int, shards: int, lateness: int) -> Shard:
    version, policies = queues.policies(shard, shards)
    return Shard.of(policies, handovers=queues.handovers(shard, shards), lateness=lateness, version=version)


class Delivery(StatefulProcessor):
    """What Spark calls for each shard of a stream."""

    def __init__(self, queues: QueuePolicies, shards: int, lateness: int, *, foresees: bool = True) -> None:
        self._queues = queues
        self._shards = shards
        self._lateness = lateness
        self._foresees = foresees
        self._numbers = {key: shard for shard, key in enumerate(shard_keys(shards))}

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state."""
        self._handle = handle
        self._state = StoredShard(handle)

    def handleInputRows(self, key: Any, rows: Any, timerValues: TimerValues) -> Iterator[Row]:  # noqa: N802, N803
        """Give a shard the rows of a micro-batch."""
        shard, taken = self._numbers[key[0]], list[tuple[int, bytes]]()
        for row in rows:
            kind, data = row["kind"], bytes(row["data"] or b"")
            if kind in PASSING:
                yield Row(shard=shard, kind=kind, data=data)
            else:
                taken.append((kind, data))
        yield from self._called(shard, taken, timerValues, None)

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803
    ) -> Iterator[Row]:
        """Let a shard do what is due."""
        yield from self._called(self._numbers[key[0]], [], timerValues, expiredTimerInfo.getExpiryTimeInMs())

    def close(self) -> None:
        """Do nothing: all is written after each call."""

    def _called(
        self, number: int, rows: list[tuple[int, bytes]], timers: TimerValues, expired: int | None
    ) -> Iterator[Row]:
        given = ShardInput(timers.getCurrentWatermarkInMs() * MILLISECOND, rows, self._foresees)
        head = self._state.head()
        with live_shard(query_folder(_query()), number) as live:
            new = partial(_new_shard, self._queues, number, self._shards, self._lateness)
            shard = live.taken(head.token) or self._state.restored(head, new)
            outcome = given.apply(shard)
            head = self._state.append(head, given, shard, os.urandom(16))
            head = self._timed(head, shard, expired)
            self._state.commit(head)
            live.kept(shard, head.token)
        for kind, data in packed_rows(outcome, number):
            yield Row(shard=number, kind=kind, data=data)

    def _timed(self, head: Head, shard: Shard, expired: int | None) -> Head:
        """Set the timer to the first watermark at which the shard has something to do; Spark fires it then.

        That is after the present watermark, so it is never the timer that has just expired: Spark would remove it.
        """
        due = shard.next_watermark
        timer = NO_TIMER if due is None else -(-due // 1000)
        if head.timer not in (NO_TIMER, timer, expired):
            self._handle.deleteTimer(head.timer)
        if timer not in (NO_TIMER, head.timer):
            self._handle.registerTimer(timer)
        return head._replace(timer=timer)


@dataclass(frozen=True, slots=True)
class BatchDelivery:
    """What a task does with the shards of a DataFrame that is no stream: all their rows, then the end."""

    queues: QueuePolicies
    shards: int
    lateness: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Return what the shards of this task deliver."""
        given: dict[int, list[tuple[int, bytes]]] = {}
        for batch in batches:
            columns = (batch.column(name).to_pylist() for name in ("shard", "kind", "data"))
            for shard, kind, data in zip(*columns, strict=True):
                if kind in PASSING:
                    yield _output(shard, kind, data)
                else:
                    given.setdefault(shard, []).append((kind, data or b""))
        for number in sorted(given):
            shard = _new_shard(self.queues, number, self.shards, self.lateness)
            rows = [*given.pop(number), (int(MessageKind.END), b"")]
            outcome = ShardInput(shard.watermark, rows).apply(shard)
            for kind, data in packed_rows(outcome, number):
                yield _output(number, kind, data)


def packed_rows(outcome: ShardAnswer, shard: int) -> Iterator[tuple[int, bytes]]:
    """Return what a shard answers as packed rows of bounded size."""
    for notices in outcome.notices:
        for start in range(0, len(notices), LONGEST_NOTICES):
            yield int(MessageKind.NOTICES), notices.part(start, start + LONGEST_NOTICES).to_bytes()
    if outcome.lists is not None:
        yield int(MessageKind.LISTS), outcome.lists.to_bytes()
    if len(outcome.late):
        yield int(MessageKind.LATE), MatchBatch.of_events(outcome.late).to_bytes()
    repeated = outcome.repeated_late + (outcome.repeated if shard == 0 else 0)  # all shards ignore the same ones
    counts = {"duplicates": repeated, "capped": outcome.capped, "muted": outcome.muted}
    if any(counts.values()):
        yield int(MessageKind.COUNTS), json.dumps(counts).encode()


def _output(shard: int, kind: int, data: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"shard": shard, "kind": kind, "data": data}], _OUTPUT)


def _query() -> str:
    """Return what names the running query in this host's memory."""
    context = TaskContext.get()
    found = context.getLocalProperty("sql.streaming.queryId") if context is not None else None
    return found or "unnamed"


@lru_cache
def shard_keys(shards: int) -> tuple[int, ...]:
    """Return a key for each shard.

    >>> [spark_hash(key) % 4 for key in shard_keys(4)]
    [0, 1, 2, 3]
    """
    found: dict[int, int] = {}
    for key in count():
        found.setdefault(spark_hash(key) % shards, key)
        if len(found) == shards:
            return tuple(found[shard] for shard in range(shards))
    raise AssertionError("there is always another number")


def spark_hash(key: int) -> int:
    """Return what Spark's `hash` gives for an int column, which is not negative here.

    >>> spark_hash(1)
    -559580957
    """
    mixed = _rotated(key * 0xCC9E2D51 & _WORD, 15) * 0x1B873593 & _WORD
    mixed = (_rotated(_SEED ^ mixed, 13) * 5 + 0xE6546B64) & _WORD
    mixed ^= 4
    mixed = (mixed ^ mixed >> 16) * 0x85EBCA6B & _WORD
    mixed = (mixed ^ mixed >> 13) * 0xC2B2AE35 & _WORD
    mixed ^= mixed >> 16
    return mixed - (1 << 32) if mixed >> 31 else mixed


def _rotated(word: int, by: int) -> int:
    return (word << by | word >> (32 - by)) & _WORD
