"""What travels to and from the shards of delivery, packed: named arrays in a container, no objects.

    MatchBatch      matching events of one shard's queues, found by one task: events, and rows (event, queue, score)
    DeliveryBatch   what one shard delivers:                                  events, and rows (queue, event, time)
    ListBatch       what can be read on demand: queues, and their lists as a delivery batch

All have an event table of their own, so that the identity, time and payload of an event stand there once however many
rows name it. Texts are offsets and UTF-8 bytes, as in Arrow. Reading checks everything that a kernel relies on: bytes
of another version, cut short or contradicting themselves raise InvalidValueError. They have no checksum, because the
ways by which tasks send them have one.

What matched is a number for each row (`matched_sets`), with a table of sets beside the rows. Cost: memory copies; some
5 ms per million rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Self

import msgspec
import numpy as np

from rankcast.arrays import Array
from rankcast.containers.container import Buffer, pack, prefixed, under, unpack
from rankcast.containers.expectations import Column, Columns, Range, below, check, check_types, check_values
from rankcast.delivery.stream.event_tables import EVENTS, EventTable, Ragged
from rankcast.delivery.stream.matched_sets import SETS
from rankcast.delivery.stream.unfiltered import NO_ROWS, MatchRows, UnfilteredRows
from rankcast.model.times import FIRST_INSTANT, LAST_INSTANT, NEVER

MATCHES, DELIVERIES, LISTS = "match batch", "delivery batch", "list batch"
VERSION = 2
"""Of the packed form of both."""

SET_COLUMNS: Columns = {"sets.starts": Column(np.int64, "sets", starts="listed"), "sets": Column(np.int32, "listed")}
_MATCHED = Column(np.int32, "rows", below("matched sets"), is_optional=True)

MATCH_COLUMNS: Columns = {
    **EVENTS,
    **SET_COLUMNS,
    "queue": Column(np.int32, "rows", Range()),
    "event": Column(np.int32, "rows", below("events")),
    "score": Column(np.float64, "rows", is_number=True),
    "expires": Column(np.int64, "rows", is_optional=True),
    "matched": _MATCHED,
    "variant": Column(np.int64, "events", is_optional=True),
}
"""What is expected of a `MatchBatch`. Columns in which every row says the usual (never, nothing) may be left out."""

_STATED: Columns = {"expires": Column(np.int64, "rows", Range(FIRST_INSTANT, LAST_INSTANT + 1, NEVER))}
"""Of columns that come from elsewhere and say something."""

DELIVERY_ROWS: Columns = {
    "queue": Column(np.int32, "rows", Range()),
    "event": Column(np.int32, "rows", below("events")),
    "delivered": Column(np.int64, "rows", Range(FIRST_INSTANT, LAST_INSTANT + 1)),
    "score": Column(np.float64, "rows", is_number=True),
    "matched": _MATCHED,
    "handed_over": Column(np.int64, "rows", Range(FIRST_INSTANT, LAST_INSTANT + 1), is_optional=True),
}
"""What is expected of the rows of a `DeliveryBatch`; what is handed over at once need not say so."""

_DENSE = "dense."


class _About(msgspec.Struct, forbid_unknown_fields=True):
    version: int
    reports_late: bool


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
    sets: Ragged = field(default_factory=partial(Ragged.none, 0, np.int32))
    version: int = 0
    reports_late: bool = False
    variant: Array | None = None
    dense: UnfilteredRows | None = None

    def __post_init__(self) -> None:
        columns = {"time": self.events.time, **self.rows._asdict(), "variant": self.variant}
        given = {"events": len(self.events), "matched sets": SETS + len(self.sets)}
        check_values(MATCHES, columns, MATCH_COLUMNS, given)

    @property
    def rows(self) -> MatchRows:
        """The rows that are written down."""
        return MatchRows(self.queue, self.event, self.score, self.expires, self.matched)

    def to_arrays(self) -> dict[str, Array]:
        """Return everything but the version and who reports late events as named arrays."""
        variant = {} if self.variant is None else {"variant": self.variant}
        return {
            **_typed({**self.rows._asdict(), **variant}, MATCH_COLUMNS),
            **self.sets.to_arrays("sets"),
            **({} if self.dense is None else prefixed(_DENSE, self.dense.to_arrays())),
            **self.events.to_arrays(),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array], version: int = 0, *, reports_late: bool = False) -> Self:
        """Return the batch of named arrays; raise InvalidValueError when they are not one."""
        check_types(MATCHES, arrays, MATCH_COLUMNS)
        rows, events, sets = len(arrays["queue"]), EventTable.from_arrays(arrays), Ragged.from_arrays("sets", arrays)
        if "expires" in arrays:
            check_values(MATCHES, arrays, _STATED)
        return cls(
            events,
            arrays["queue"],
            arrays["event"],
            arrays["score"],
            arrays.get("expires", np.full(rows, NEVER, np.int64)),
            arrays.get("matched", np.zeros(rows, np.int32)),
            sets,
            version,
            reports_late,
            arrays.get("variant"),
            UnfilteredRows.from_arrays(under(_DENSE, arrays), events.time, SETS + len(sets)),
        )

    def to_bytes(self) -> bytes:
        """Return the batch, packed."""
        about = {"version": self.version, "reports_late": self.reports_late}
        return pack(MATCHES, VERSION, self.to_arrays(), about, checked=False)

    @classmethod
    def from_bytes(cls, packed: Buffer) -> Self:
        """Return the batch that was packed."""
        found = unpack(packed, MATCHES, VERSION)
        about = found.about(_About)
        return cls.from_arrays(found.arrays, about.version, reports_late=about.reports_late)

    @property
    def last_queue(self) -> int:
        """The largest number of a queue that there are rows of; -1 when there are none."""
        dense = -1 if self.dense is None else int(self.dense.table.queue.max(initial=-1))
        return max(dense, int(self.queue.max(initial=-1)))

    @staticmethod
    def of_events(events: EventTable, version: int = 0) -> MatchBatch:
        """Return a chunk without rows whose only purpose is that late ones among its events are reported."""
        return MatchBatch(events, *NO_ROWS, version=version, reports_late=True)


@dataclass(frozen=True, slots=True)
class DeliveryBatch:
    """What a shard delivers, by queue, and within a queue in the order of delivery: columns of equal length.

    `time` is the instant of delivery, `event` the position in `events`. That has each delivered event once, and once
    more as it was before it was ranked again. `handed_over` is when the subscriber is handed it; None: all at once.
    """

    events: EventTable
    queue: Array
    event: Array
    time: Array
    score: Array
    matched: Array
    sets: Ragged = field(default_factory=partial(Ragged.none, 0, np.int32))
    handed_over: Array | None = None

    def __len__(self) -> int:
        return len(self.queue)

    @property
    def instants(self) -> Array:
        """When each delivery is handed over."""
        return self.time if self.handed_over is None else self.handed_over

    @staticmethod
    def joined(parts: Sequence[DeliveryBatch]) -> DeliveryBatch:
        """Return the notices of all parts; of one queue, those of the first part come first."""
        if len(parts) == 1:
            return parts[0]
        events = np.cumsum([0, *(len(part.events) for part in parts)])
        sets = np.cumsum([0, *(len(part.sets) for part in parts)])
        event = [part.event + first for part, first in zip(parts, events, strict=False)]
        matched = [part.matched + (part.matched >= SETS) * first for part, first in zip(parts, sets, strict=False)]
        queue = np.concatenate([part.queue for part in parts])
        order = np.argsort(queue, kind="stable")
        return DeliveryBatch(
            EventTable.joined([part.events for part in parts]),
            queue[order],
            np.concatenate(event)[order],
            np.concatenate([part.time for part in parts])[order],
            np.concatenate([part.score for part in parts])[order],
            np.concatenate(matched)[order],
            Ragged.joined([part.sets for part in parts]),
            np.concatenate([part.instants for part in parts])[order],
        )

    def part(self, start: int, end: int) -> DeliveryBatch:
        """Return the deliveries from one on up to another, with their events only."""
        return self if start <= 0 and end >= len(self) else self.chosen(np.arange(start, min(end, len(self))))

    def chosen(self, rows: Array) -> DeliveryBatch:
        """Return some of the deliveries, with their events only."""
        events, event = self.events.named(self.event[rows])
        queue, time, score, matched, instants = (
            column[rows] for column in (self.queue, self.time, self.score, self.matched, self.instants)
        )
        return DeliveryBatch(events, queue, event, time, score, matched, self.sets, instants)

    def to_arrays(self) -> dict[str, Array]:
        """Return the notices as named arrays."""
        columns = {"queue": self.queue, "event": self.event, "score": self.score, "matched": self.matched}
        later = {} if np.array_equal(self.instants, self.time) else {"handed_over": self.instants}
        return {
            **_typed({**columns, "delivered": self.time, **later}, DELIVERY_ROWS),
            **self.sets.to_arrays("sets"),
            **self.events.to_arrays(),
        }

    def to_bytes(self) -> bytes:
        """Return the notices, packed."""
        return pack(DELIVERIES, VERSION, self.to_arrays(), checked=False)

    @classmethod
    def from_bytes(cls, packed: Buffer) -> Self:
        """Return the notices that were packed."""
        return cls.from_arrays(unpack(packed, DELIVERIES, VERSION).arrays)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> Self:
        """Return the notices of named arrays; raise InvalidValueError when they are none."""
        check_types(DELIVERIES, arrays, {**EVENTS, **SET_COLUMNS, **DELIVERY_ROWS})
        events, sets = EventTable.from_arrays(arrays), Ragged.from_arrays("sets", arrays)
        check_values(DELIVERIES, arrays, DELIVERY_ROWS, {"events": len(events), "matched sets": SETS + len(sets)})
        matched = arrays.get("matched", np.zeros(len(arrays["queue"]), np.int32))
        queue, event, time, score = (arrays[name] for name in ("queue", "event", "delivered", "score"))
        return cls(events, queue, event, time, score, matched, sets, arrays.get("handed_over"))


class _AboutLists(msgspec.Struct, forbid_unknown_fields=True):
    as_of: Annotated[int, msgspec.Meta(ge=FIRST_INSTANT, le=LAST_INSTANT)]


@dataclass(frozen=True, slots=True)
class ListBatch:
    """The lists, read on demand, of some queues of a shard: what each has at an instant, the best first, or nothing."""

    queue: Array
    entries: DeliveryBatch
    as_of: int

    def to_bytes(self) -> bytes:
        """Return the lists, packed."""
        return pack(
            LISTS, VERSION, {"list": self.queue, **self.entries.to_arrays()}, {"as_of": self.as_of}, checked=False
        )

    @classmethod
    def from_bytes(cls, packed: Buffer) -> Self:
        """Return the lists that were packed."""
        found = unpack(packed, LISTS, VERSION)
        check(LISTS, found.arrays, {"list": Column(np.int64, "lists", Range(), ascends=True)})
        return cls(found.arrays["list"], DeliveryBatch.from_arrays(found.arrays), found.about(_AboutLists).as_of)


_USUAL = {"expires": NEVER, "matched": 0, "variant": 0}


def _typed(columns: Mapping[str, Array], declared: Columns) -> dict[str, Array]:
    """Return columns with their types, without those in which every row says the usual.

    Most columns with something to say say it in their first row.
    """
    typed = {name: column.astype(declared[name].dtype, copy=False) for name, column in columns.items()}
    return {
        name: column
        for name, column in typed.items()
        if name not in _USUAL or (len(column) and (column[0] != _USUAL[name] or (column != _USUAL[name]).any()))
    }
