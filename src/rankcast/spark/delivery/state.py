"""The state of a shard in Spark: a snapshot, a log of what was given since, and a token that says which update is last.

    head       token; entries and bytes of the log; parts and bytes of the snapshot; the timer that is set
    snapshot   the whole shard, packed, in parts of bounded size
    log        what the shard was given since the snapshot, one entry per call

A call appends its input, so it costs what its input costs, not what the shard is. When the log outgrows the snapshot,
the snapshot is taken again and the log is emptied: the state stays below about twice the shard (and `SMALLEST_LOG`),
and a byte is rewritten a bounded number of times. A shard depends on its input only, so snapshot and log give back
exactly the shard that a task left. Everything here is written within a task and committed by Spark with it, or not at
all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from rankcast.delivery.stream.shards import Shard
from rankcast.model.errors import InvalidValueError, RankcastError
from rankcast.spark.delivery.stage_input import ShardInput

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
