"""What travels to and from the shards of delivery, packed: named arrays as bytes, no objects.

    MatchBatch      matching events of one shard's queues, found by one task: events, and rows (event, queue, score)
    DeliveryBatch   what one shard delivers:                                  events, and rows (queue, event, time)

Both have an event table of their own, so that the identity, time and payload of an event stand there once however many
rows name it. Texts are offsets and UTF-8 bytes, as in Arrow. Reading checks everything that a kernel relies on: bytes
of another version, cut short or contradicting themselves raise InvalidValueError.

What matched is a number from 0 to `SETS + 2**19 - 1`, for each row: below `SETS` it is a bit mask of positions (of a
subscriber's subscriptions, for instance; the meaning is the caller's); `SETS + i` stands for the set `i` of the table
beside the rows, for masks that do not fit. Cost: memory copies; some 5 ms per million rows.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from rankcast.arrays import Array
from rankcast.delivery.stream.event_tables import EventTable, Ragged
from rankcast.delivery.stream.unfiltered import UnfilteredRows
from rankcast.model.errors import InvalidValueError
from rankcast.model.times import FIRST_INSTANT, LAST_INSTANT, NEVER

VERSION = 1
"""Of the packed form of chunks and notices."""

SETS = 2**19
"""Numbers of matched sets below this one are masks of 19 bits."""

_HEADER = struct.Struct("<8sHHI")
_ENTRY = struct.Struct("<24s8sQ")
_LONGEST_NAME = 24
_KINDS = ("<i8", "<i4", "<f8", "|u1")
_CHUNK, _NOTICES = b"rcchunk\0", b"rcnotice"


def pack(magic: bytes, version: int, arrays: Mapping[str, Array]) -> bytes:
    """Return named one-dimensional arrays as bytes: a table of contents, then the arrays, each on a word boundary."""
    parts: list[bytes | memoryview] = [_HEADER.pack(magic, version, len(arrays), 0)]
    content: list[bytes | memoryview] = []
    for name, array in arrays.items():
        little = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
        if little.dtype.str not in _KINDS or little.ndim != 1 or len(name.encode()) > _LONGEST_NAME:
            raise InvalidValueError(f"array {name!r}: {little.ndim} dimensions of {little.dtype} cannot be packed")
        parts.append(_ENTRY.pack(name.encode(), little.dtype.str.encode(), len(little)))
        content += [little.data, bytes(-little.nbytes % 8)]
    return b"".join([*parts, *content])


def unpack(magic: bytes, version: int, packed: bytes | memoryview, what: str) -> dict[str, Array]:
    """Return the arrays that were packed."""
    if len(packed) < _HEADER.size or bytes(packed[: len(magic)]) != magic:
        raise InvalidValueError(f"{what}: these bytes do not begin as packed {what} do")
    _, found, count, _ = _HEADER.unpack_from(packed)
    if found != version:
        raise InvalidValueError(f"{what}: version {found} is not {version}, the one that is known")
    at, arrays = _HEADER.size + count * _ENTRY.size, dict[str, Array]()
    content = bytearray(packed)  # one copy; kernels are compiled once for arrays that can be written
    if at > len(packed):
        raise InvalidValueError(f"{what}: {len(packed):,} bytes end within the table of {count} arrays")
    for entry in range(count):
        name, kind, length = _ENTRY.unpack_from(packed, _HEADER.size + entry * _ENTRY.size)
        text = kind.rstrip(b"\0").decode("ascii", "replace")
        if text not in _KINDS:
            raise InvalidValueError(f"{what}: an array of {text!r}; expected one of {', '.join(_KINDS)}")
        size = length * int(text[-1])
        if at + size > len(packed):
            raise InvalidValueError(f"{what}: {len(packed):,} bytes, where at least {at + size:,} were expected")
        arrays[name.rstrip(b"\0").decode("ascii", "replace")] = np.frombuffer(content, text, length, at)
        at += size + -size % 8
    if at != len(packed):
        raise InvalidValueError(f"{what}: {len(packed):,} bytes, where {at:,} were expected")
    return arrays


def _no_sets() -> Ragged:
    return Ragged(np.zeros(1, np.int64), np.zeros(0, np.int32))


@dataclass(frozen=True, slots=True)
class MatchBatch:
    """Rows of one shard, as columns of equal length, and the events they name.

    `queue` is the number within the shard, `event` the position in `events`, `expires` is NEVER where nothing expires.
    `version` says which version of the subscribers was matched. Late events are reported by the chunk for which
    `reports_late` is set, so that an event which goes to many shards is reported once. Chunks may have events without
    rows: every shard is to know every identity, so that all decide alike which events are repetitions. `variant` tells
    publications of one identity and time apart that do not say the same, by any number each; None if all say the same.
    `dense` stands for further rows that are not written down, each of its queues with every event (`unfiltered`).
    """

    events: EventTable
    queue: Array
    event: Array
    score: Array
    expires: Array
    matched: Array
    sets: Ragged = field(default_factory=_no_sets)
    version: int = 0
    reports_late: bool = False
    variant: Array | None = None
    dense: UnfilteredRows | None = None

    def __post_init__(self) -> None:
        rows, sets = len(self.queue), len(self.sets)
        if self.variant is not None and len(self.variant) != len(self.events):
            raise InvalidValueError("chunk: not as many variants as events")
        if self.dense is not None and len(self.dense.times) != len(self.events):
            raise InvalidValueError("chunk: dense rows of more or fewer events than there are")
        columns = (self.event, self.score, self.expires, self.matched)
        if any(len(column) != rows for column in columns):
            raise InvalidValueError("chunk: columns of different lengths")
        if rows and (self.event.min() < 0 or self.event.max() >= len(self.events) or self.queue.min() < 0):
            raise InvalidValueError("chunk: a row names an event that is not in its table, or a queue below 0")
        if rows and (self.matched.min() < 0 or self.matched.max() >= SETS + sets):
            raise InvalidValueError("chunk: a row names a matched set that is not in its table")
        if np.isnan(self.score).any():
            raise InvalidValueError(f"chunk: the score of row {int(np.isnan(self.score).argmax())} is not a number")
        times = self.events.time
        if len(times) and (times.min() < FIRST_INSTANT or times.max() > LAST_INSTANT):
            raise InvalidValueError("chunk: the time of an event is not within the years 1 to 9999")

    def to_bytes(self) -> bytes:
        """Return the chunk, packed. Columns in which every row says the usual (never, nothing) take no room."""
        arrays: dict[str, Array] = {
            "about": np.array([self.version, self.reports_late], np.int64),
            "queue": self.queue.astype(np.int32, copy=False),
            "event": self.event.astype(np.int32, copy=False),
            "score": self.score.astype(np.float64, copy=False),
            **_unless_all("expires", self.expires.astype(np.int64, copy=False), NEVER),
            **_unless_all("matched", self.matched.astype(np.int32, copy=False), 0),
            **_ragged("sets", self.sets),
            **({} if self.variant is None else _unless_all("variant", self.variant, 0)),
            **({} if self.dense is None else self.dense.to_arrays()),
            **self.events.to_arrays(),
        }
        return pack(_CHUNK, VERSION, arrays)

    @classmethod
    def from_bytes(cls, packed: bytes | memoryview) -> Self:
        """Return the chunk that was packed."""
        arrays = unpack(_CHUNK, VERSION, packed, "chunk")
        try:
            rows = len(arrays["queue"])
            version, reports_late = arrays["about"].tolist()
            events = EventTable.from_arrays(arrays)
            return cls(
                events,
                arrays["queue"],
                arrays["event"],
                arrays["score"],
                arrays.get("expires", np.full(rows, NEVER, np.int64)),
                arrays.get("matched", np.zeros(rows, np.int32)),
                Ragged(arrays["sets.starts"], arrays["sets"]),
                version,
                bool(reports_late),
                arrays.get("variant"),
                UnfilteredRows.from_arrays(arrays, events.time),
            )
        except KeyError as error:
            raise InvalidValueError(f"chunk: there is no array {error}") from None

    @property
    def last_queue(self) -> int:
        """The largest number of a queue that there are rows of; -1 when there are none."""
        dense = -1 if self.dense is None else int(self.dense.table.queue.max(initial=-1))
        return max(dense, int(self.queue.max(initial=-1)))

    @staticmethod
    def of_events(events: EventTable, version: int = 0) -> MatchBatch:
        """Return a chunk without rows whose only purpose is that late ones among its events are reported."""
        none = np.zeros(0, np.int32)
        return MatchBatch(
            events, none, none, np.zeros(0), np.zeros(0, np.int64), none, version=version, reports_late=True
        )


@dataclass(frozen=True, slots=True)
class DeliveryBatch:
    """What a shard delivers, by queue, and within a queue in the order of delivery: columns of equal length.

    `time` is the instant of delivery, `event` the position in `events`. That has each delivered event once, and once
    more as it was before it was ranked anew.
    """

    events: EventTable
    queue: Array
    event: Array
    time: Array
    score: Array
    matched: Array
    sets: Ragged = field(default_factory=_no_sets)

    def __len__(self) -> int:
        return len(self.queue)

    @staticmethod
    def joined(parts: Sequence[DeliveryBatch]) -> DeliveryBatch:
        """Return the notices of all parts; of one queue, those of the first part come first."""
        if len(parts) == 1:
            return parts[0]
        events = np.cumsum([0, *(len(part.events) for part in parts)])
        sets = np.cumsum([0, *(len(part.sets) for part in parts)])
        queue = np.concatenate([part.queue for part in parts])
        order = np.argsort(queue, kind="stable")
        event = [part.event + first for part, first in zip(parts, events, strict=False)]
        matched = [part.matched + (part.matched >= SETS) * first for part, first in zip(parts, sets, strict=False)]
        return DeliveryBatch(
            EventTable.joined([part.events for part in parts]),
            queue[order],
            np.concatenate(event)[order],
            np.concatenate([part.time for part in parts])[order],
            np.concatenate([part.score for part in parts])[order],
            np.concatenate(matched)[order],
            Ragged.joined([part.sets for part in parts]),
        )

    def part(self, start: int, end: int) -> DeliveryBatch:
        """Return the deliveries from one on up to another, with their events only."""
        if start <= 0 and end >= len(self):
            return self
        event = self.event[start:end]
        is_named = np.zeros(len(self.events), bool)
        is_named[event] = True
        return DeliveryBatch(
            self.events.taken(np.flatnonzero(is_named)),
            self.queue[start:end],
            (np.cumsum(is_named) - 1)[event],
            self.time[start:end],
            self.score[start:end],
            self.matched[start:end],
            self.sets,
        )

    def to_bytes(self) -> bytes:
        """Return the notices, packed."""
        arrays: dict[str, Array] = {
            "queue": self.queue.astype(np.int32, copy=False),
            "event": self.event.astype(np.int32, copy=False),
            "delivered": self.time.astype(np.int64, copy=False),
            "score": self.score.astype(np.float64, copy=False),
            **_unless_all("matched", self.matched.astype(np.int32, copy=False), 0),
            **_ragged("sets", self.sets),
            **self.events.to_arrays(),
        }
        return pack(_NOTICES, VERSION, arrays)

    @classmethod
    def from_bytes(cls, packed: bytes | memoryview) -> Self:
        """Return the notices that were packed."""
        arrays = unpack(_NOTICES, VERSION, packed, "notices")
        try:
            queue, event = arrays["queue"], arrays["event"]
            matched = arrays.get("matched", np.zeros(len(queue), np.int32))
            sets = Ragged(arrays["sets.starts"], arrays["sets"])
            found = cls(
                EventTable.from_arrays(arrays), queue, event, arrays["delivered"], arrays["score"], matched, sets
            )
        except KeyError as error:
            raise InvalidValueError(f"notices: there is no array {error}") from None
        if len({len(column) for column in (queue, event, found.time, found.score, matched)}) > 1:
            raise InvalidValueError("notices: columns of different lengths")
        if len(event) and (event.min() < 0 or event.max() >= len(found.events)):
            raise InvalidValueError("notices: a row names an event that is not in its table")
        if len(event) and (matched.min() < 0 or matched.max() >= SETS + len(sets)):
            raise InvalidValueError("notices: a row names a matched set that is not in its table")
        return found


def positions(matched: int, sets: Ragged) -> Sequence[int]:
    """Return the positions that a number of a matched set stands for.

    >>> positions(0b101, Ragged.of([])), positions(SETS + 1, Ragged.of([[7], [2, 30]]))
    ([0, 2], [2, 30])
    """
    if matched < SETS:
        return [bit for bit in range(matched.bit_length()) if matched >> bit & 1]
    at = matched - SETS
    found: list[int] = sets.values[sets.starts[at] : sets.starts[at + 1]].tolist()
    return found


def _unless_all(name: str, column: Array, usual: int) -> dict[str, Array]:
    return {name: column} if (column != usual).any() else {}


def _ragged(name: str, table: Ragged) -> dict[str, Array]:
    return {f"{name}.starts": table.starts, name: table.values}
