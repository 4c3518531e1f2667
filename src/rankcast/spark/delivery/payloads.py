"""What travels with an event through the delivery beside its identity: ranks, its content, what is carried along.

The score alone comes back with a delivery, and for queues whose scores decay it does not tell the rank; theirs are
here. The content is there only where subscribers change, so that what queues hold can be ranked again. Where there is
none of it, there is no payload at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import msgspec
import numpy as np

from rankcast.delivery.stream.event_tables import EventTable, Ragged
from rankcast.ranking.batch import RankedRows


class Payload(NamedTuple):
    """What travels with an event; `content` is None where it is not kept."""

    ranks: dict[int, float]
    """By queue."""
    content: bytes | None
    carried: bytes

    def to_bytes(self) -> bytes:
        """Return it as it travels."""
        return msgspec.msgpack.encode(self)

    @staticmethod
    def from_bytes(packed: bytes) -> Payload:
        """Return what has travelled."""
        return _PAYLOAD.decode(packed) if packed else Payload({}, None, b"")


_PAYLOAD = msgspec.msgpack.Decoder(Payload)


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
