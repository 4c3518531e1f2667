"""Events as delivery knows them, in columns: identity, time, and what is carried along for selection and subscribers.

Texts are `Ragged`: where each begins, and all their UTF-8 bytes. The order of UTF-8 bytes is the order of code points,
the one in which Python compares strings, so nothing is ever decoded to be sorted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Self

import numpy as np

from rankcast.arrays import Array
from rankcast.compiling import compiled, inlined
from rankcast.containers.expectations import Column, Columns, Range, check_starts, check_texts
from rankcast.lazily import module
from rankcast.model.errors import InvalidValueError
from rankcast.model.times import FIRST_INSTANT, LAST_INSTANT

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
else:
    pa = module("pyarrow")
    pc = module("pyarrow.compute")

SEED, FACTOR = -3750763034362895579, 1099511628211
"""Of the Fowler-Noll-Vo digest."""


@compiled
def copy_ragged(starts: Array, values: Array, chosen: Array, new_starts: Array, target: Array) -> None:
    """Copy the chosen sequences, one behind the other."""
    for at in range(len(chosen)):
        start, to = starts[chosen[at]], new_starts[at]
        for offset in range(new_starts[at + 1] - to):
            target[to + offset] = values[start + offset]


@inlined
def is_same(starts: Array, values: Array, one: int, other: int) -> bool:
    """Whether two sequences are equal."""
    start, length = starts[one], starts[one + 1] - starts[one]
    second = starts[other]
    if starts[other + 1] - second != length:
        return False
    for offset in range(length):  # noqa: SIM110 (a kernel has no generators)
        if values[start + offset] != values[second + offset]:
            return False
    return True


@compiled
def same_texts(starts: Array, values: Array, first: Array, second: Array) -> Array:
    """Return which pairs of sequences are equal."""
    same = np.empty(len(first), np.bool_)
    for at in range(len(first)):
        same[at] = is_same(starts, values, first[at], second[at])
    return same


@inlined
def mixed(before: int, said: int) -> int:
    """Return 64 bits that depend on all that was mixed into them, in its order."""
    found = (before ^ said) * FACTOR
    return found ^ (found >> 29)


@inlined
def digest(starts: Array, values: Array, one: int, seed: int) -> int:
    """Return 64 bits that equal sequences have in common."""
    found = seed
    for at in range(starts[one], starts[one + 1]):
        found = (found ^ values[at]) * FACTOR
    return found ^ (found >> 29)


@compiled
def digests(starts: Array, values: Array, chosen: Array) -> Array:
    """Return the digests of the chosen sequences."""
    found = np.empty(len(chosen), np.int64)
    for at in range(len(chosen)):
        found[at] = digest(starts, values, chosen[at], SEED)
    return found


@dataclass(frozen=True, slots=True)
class Ragged:
    """Sequences of different lengths, one behind the other: number i is `values[starts[i]:starts[i + 1]]`."""

    starts: Array
    values: Array

    def __post_init__(self) -> None:
        check_starts("sequences: their starts", self.starts, len(self.values))

    def __len__(self) -> int:
        return len(self.starts) - 1

    @classmethod
    def of(cls, sequences: Iterable[Sequence[int] | Array]) -> Self:
        """Return sequences of whole numbers."""
        listed = [np.asarray(sequence, np.int32) for sequence in sequences]
        return cls(_starts(map(len, listed)), np.concatenate([np.zeros(0, np.int32), *listed]))

    @classmethod
    def of_texts(cls, texts: Iterable[str]) -> Self:
        """Return texts as UTF-8."""
        encoded = [text.encode() for text in texts]
        return cls(_starts(map(len, encoded)), np.frombuffer(b"".join(encoded), np.uint8))

    @classmethod
    def none(cls, count: int, dtype: type[np.generic] = np.uint8) -> Self:
        """Return so many empty sequences."""
        return cls(np.zeros(count + 1, np.int64), np.zeros(0, dtype))

    @classmethod
    def from_arrow(cls, array: pa.Array) -> Self:
        """Return the texts or binaries of an Arrow array without nulls."""
        is_text = pa.types.is_string(array.type) or pa.types.is_large_string(array.type)
        array = array.cast(pa.large_string() if is_text else pa.large_binary())
        if array.null_count:
            raise InvalidValueError(f"{array.null_count} of {len(array)} texts are null; expected none")
        _, offsets, data = array.buffers()
        if not len(array) or data is None:
            return cls(np.zeros(len(array) + 1, np.int64), np.zeros(0, np.uint8))
        starts = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
        return cls(starts - starts[0], np.frombuffer(data, np.uint8)[starts[0] : starts[-1]])

    def to_arrow(self, *, text: bool = True) -> pa.Array:
        """Return texts, or binaries, as an Arrow array."""
        kind = pa.large_string() if text else pa.large_binary()
        buffers = [None, pa.py_buffer(np.ascontiguousarray(self.starts)), pa.py_buffer(self.values)]
        found = pa.Array.from_buffers(kind, len(self), buffers)
        return found.cast(pa.string() if text else pa.binary())

    def texts(self) -> list[str]:
        """Return the texts."""
        whole = self.values.tobytes()
        return [whole[start:end].decode() for start, end in pairwise(self.starts.tolist())]

    def lists(self) -> list[list[int]]:
        """Return the sequences as lists."""
        values = self.values.tolist()
        return [values[start:end] for start, end in pairwise(self.starts.tolist())]

    def taken(self, chosen: Array) -> Ragged:
        """Return some of the sequences, in a given order."""
        lengths = (self.starts[1:] - self.starts[:-1])[chosen]
        starts = np.zeros(len(chosen) + 1, np.int64)
        np.cumsum(lengths, out=starts[1:])
        values = np.empty(int(starts[-1]), self.values.dtype)
        if len(values):
            copy_ragged(self.starts, self.values, chosen, starts, values)
        return Ragged(starts, values)

    def emptied(self, is_emptied: Array) -> Ragged:
        """Return all sequences, the marked ones empty."""
        lengths = np.diff(self.starts)
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.where(is_emptied, 0, lengths))])
        return Ragged(starts, self.values[np.repeat(~is_emptied, lengths)])

    def to_arrays(self, name: str) -> dict[str, Array]:
        """Return both arrays by the names that a column has in a container."""
        return {f"{name}.starts": self.starts, name: self.values}

    @classmethod
    def from_arrays(cls, name: str, arrays: Mapping[str, Array]) -> Self:
        """Return the column of a name."""
        return cls(arrays[f"{name}.starts"], arrays[name])

    @staticmethod
    def joined(parts: Sequence[Ragged]) -> Ragged:
        """Return sequences of several objects, one behind the other; there is at least one."""
        if len(parts) == 1:
            return parts[0]
        ends = np.cumsum([0, *(len(part.values) for part in parts)])
        starts = [np.zeros(1, np.int64), *(part.starts[1:] + end for part, end in zip(parts, ends, strict=False))]
        return Ragged(np.concatenate(starts), np.concatenate([part.values for part in parts]))


def _starts(lengths: Iterable[int]) -> Array:
    return np.cumsum([0, *lengths], dtype=np.int64)


EVENTS: Columns = {
    "time": Column(np.int64, "events", Range(FIRST_INSTANT, LAST_INSTANT + 1)),
    "source.starts": Column(np.int64, "events", starts="bytes of sources"),
    "source": Column(np.uint8, "bytes of sources"),
    "id.starts": Column(np.int64, "events", starts="bytes of ids"),
    "id": Column(np.uint8, "bytes of ids"),
    "contents.starts": Column(np.int64, "events", starts="codes", is_optional=True),
    "attributes": Column(np.int64, "codes", is_optional=True),
    "values": Column(np.int64, "codes", is_optional=True),
    "payload.starts": Column(np.int64, "events", starts="bytes of payloads", is_optional=True),
    "payload": Column(np.uint8, "bytes of payloads", is_optional=True),
}
"""What is expected of the arrays of an `EventTable`."""


@dataclass(frozen=True, slots=True)
class EventTable:
    """Events in columns of equal length.

    `attributes` and `values` are content codes (`rankcast.delivery.engine.contents`) that diverse selection compares:
    both have the same lengths, zero where no queue compares contents. `payload` is whatever the caller wants back.
    """

    time: Array
    source: Ragged
    id: Ragged
    attributes: Ragged
    values: Ragged
    payload: Ragged

    def __post_init__(self) -> None:
        if any(len(column) != len(self.time) for column in self._columns):
            raise InvalidValueError("event table: columns of different lengths")
        if not np.array_equal(self.attributes.starts, self.values.starts):
            raise InvalidValueError("event table: attributes and values of different lengths")

    @classmethod
    def of(
        cls,
        time: Array,
        source: Ragged,
        id: Ragged,  # noqa: A002 (the event's own word for it)
        *,
        contents: tuple[Ragged, Ragged] | None = None,
        payload: Ragged | None = None,
    ) -> Self:
        """Return a table of events, by default without content codes and payload."""
        attributes, values = contents or (Ragged.none(len(time), np.int64), Ragged.none(len(time), np.int64))
        times = np.ascontiguousarray(time, np.int64)
        return cls(times, source, id, attributes, values, payload or Ragged.none(len(time)))

    @classmethod
    def empty(cls) -> Self:
        """Return a table without events."""
        return cls.of(np.zeros(0, np.int64), Ragged.none(0), Ragged.none(0))

    def __len__(self) -> int:
        return len(self.time)

    @property
    def _columns(self) -> tuple[Ragged, ...]:
        """All but the times."""
        return self.source, self.id, self.attributes, self.values, self.payload

    def taken(self, chosen: Array) -> EventTable:
        """Return some of the events, in a given order."""
        return EventTable(self.time[chosen], *(column.taken(chosen) for column in self._columns))

    def named(self, positions: Array) -> tuple[EventTable, Array]:
        """Return the events at some positions, each once, and which of them is at each position."""
        is_named = np.zeros(len(self), bool)
        is_named[positions] = True
        return self.taken(np.flatnonzero(is_named)), (np.cumsum(is_named) - 1)[positions]

    def bare_unless(self, is_whole: Array) -> EventTable:
        """Return all events, the unmarked ones with no more than their identity and time."""
        if not len(self.payload.values) and not len(self.attributes.values):
            return self
        columns = (self.attributes, self.values, self.payload)
        return EventTable(self.time, self.source, self.id, *(column.emptied(~is_whole) for column in columns))

    @staticmethod
    def joined(parts: Sequence[EventTable]) -> EventTable:
        """Return the events of several tables, one behind the other."""
        parts = [part for part in parts if len(part)] or [EventTable.empty()]
        columns = zip(*(part._columns for part in parts), strict=True)
        return EventTable(np.concatenate([part.time for part in parts]), *map(Ragged.joined, columns))

    def in_order(self, variant: Array | None = None) -> tuple[Array, Array]:
        """Return the positions in the order of (time, source, id, variant), and which repeat the one before.

        Events of one identity and time are one event, whatever their variants; the one that comes first, and so counts,
        does not depend on how they were ordered.
        """
        order = np.argsort(self.time, kind="stable")
        times = self.time[order]
        is_tie = np.zeros(len(order) + 1, bool)
        np.equal(times[1:], times[:-1], out=is_tie[1:-1])
        tied = np.flatnonzero(is_tie[1:] | is_tie[:-1])
        if len(tied):
            order[tied] = self._ordered_ties(order[tied], variant)
        repeats = is_tie[:-1].copy()
        candidates = np.flatnonzero(repeats)
        if len(candidates):
            repeats[candidates] = self._are_same(order[candidates - 1], order[candidates])
        return order, repeats

    def _ordered_ties(self, positions: Array, variant: Array | None) -> Array:
        ties = pa.table(
            {
                "time": pa.array(self.time[positions]),
                "source": self.source.taken(positions).to_arrow(text=False),
                "id": self.id.taken(positions).to_arrow(text=False),
                "variant": pa.array(np.zeros(len(positions), np.int64) if variant is None else variant[positions]),
                "payload": self.payload.taken(positions).to_arrow(text=False),
                "content": pa.array(digests(self.attributes.starts, self.attributes.values, positions)),
                "values": pa.array(digests(self.values.starts, self.values.values, positions)),
            }
        )
        found: Array = positions[pc.sort_indices(ties, [(name, "ascending") for name in ties.column_names]).to_numpy()]
        return found

    def _are_same(self, first: Array, second: Array) -> Array:
        """Return which pairs of events have the same identity."""
        same: Array = same_texts(self.source.starts, self.source.values, first, second)
        same &= same_texts(self.id.starts, self.id.values, first, second)
        return same

    def to_arrays(self) -> dict[str, Array]:
        """Return the columns as named arrays; `contents` and `payload` are left out when there are none."""
        arrays = {
            "time": self.time.astype(np.int64, copy=False),
            **self.source.to_arrays("source"),
            **self.id.to_arrays("id"),
        }
        if len(self.attributes.values):
            arrays |= {"contents.starts": self.attributes.starts}
            arrays |= {"attributes": self.attributes.values, "values": self.values.values}
        if len(self.payload.values):
            arrays |= self.payload.to_arrays("payload")
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> Self:
        """Return the events of named arrays, whose types are those of `EVENTS`."""
        contents = payload = None
        if "contents.starts" in arrays:
            starts, none = arrays["contents.starts"], np.zeros(0, np.int64)
            contents = Ragged(starts, arrays.get("attributes", none)), Ragged(starts, arrays.get("values", none))
        if "payload.starts" in arrays:
            payload = Ragged(arrays["payload.starts"], arrays.get("payload", np.zeros(0, np.uint8)))
        source, identity = Ragged.from_arrays("source", arrays), Ragged.from_arrays("id", arrays)
        for column in (source, identity):
            check_texts("event table: sources and ids", column.starts, column.values)
        return cls.of(arrays["time"], source, identity, contents=contents, payload=payload)
