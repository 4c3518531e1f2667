"""What travels with an event through the delivery beside its identity: ranks, its content, what is carried along.

    count of ranks (uint32, with a flag when there is content), for each a queue (uint32) and its rank (float64),
    [length of the content (uint32), the content], the bytes carried along

The score alone comes back with a delivery, and for queues whose scores decay it does not tell the rank; theirs are
here. The content is there only where subscribers change, so that what queues hold can be ranked anew. Where there
is none of it, there is no payload at all.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from rankcast.delivery.stream.event_tables import EventTable, Ragged
from rankcast.ranking.batch import RankedRows

_COUNT = struct.Struct("<I")
_RANK = struct.Struct("<Id")
_HAS_CONTENT = 1 << 31


class Payload(NamedTuple):
    """What travels with an event; `content` is None where it is not kept."""

    ranks: Mapping[int, float]
    """By queue."""
    content: bytes | None
    carried: bytes

    def to_bytes(self) -> bytes:
        """Return it as it travels."""
        head = _COUNT.pack(len(self.ranks) | (0 if self.content is None else _HAS_CONTENT))
        ranks = [_RANK.pack(queue, rank) for queue, rank in self.ranks.items()]
        kept = () if self.content is None else (_COUNT.pack(len(self.content)), self.content)
        return b"".join((head, *ranks, *kept, self.carried))

    @staticmethod
    def from_bytes(packed: bytes) -> Payload:
        """Return what has travelled."""
        if not packed:
            return Payload({}, None, b"")
        (count,) = _COUNT.unpack_from(packed)
        at, content = _COUNT.size, None
        ranks = dict[int, float]()
        for _ in range(count & ~_HAS_CONTENT):
            queue, rank = _RANK.unpack_from(packed, at)
            ranks[queue] = rank
            at += _RANK.size
        if count & _HAS_CONTENT:
            (length,) = _COUNT.unpack_from(packed, at)
            at += _COUNT.size
            content, at = packed[at : at + length], at + length
        return Payload(ranks, content, packed[at:])


def with_payloads(
    table: EventTable, rows: RankedRows, decayed: Sequence[int], contents: Sequence[bytes | None] | None = None
) -> EventTable:
    """Return events with the ranks of some rows, and their contents, in front of what they carry along."""
    ranks: dict[int, dict[int, float]] = {}
    for row in decayed:
        ranks.setdefault(int(rows.event[row]), {})[int(rows.queue[row])] = float(rows.rank[row])
    carried = table.payload.to_arrow(text=False).to_pylist()
    packed = [
        Payload(ranks.get(at, {}), None if contents is None else contents[at], one).to_bytes()
        for at, one in enumerate(carried)
    ]
    return replace(table, payload=ragged_bytes(packed))


def ragged_bytes(texts: Sequence[bytes]) -> Ragged:
    """Return binaries, one behind the other."""
    starts = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    return Ragged(starts, np.frombuffer(b"".join(texts), np.uint8))
