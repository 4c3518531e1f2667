"""The state of a shard as bytes: everything but its queues, which are packed or left in memory as the caller likes.

Reading refuses bytes of another kind, cut short or contradicting themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rankcast.arrays import Array
from rankcast.delivery.stream.batches import MatchBatch, pack, unpack
from rankcast.delivery.stream.event_tables import EventTable, Ragged
from rankcast.delivery.stream.known_events import KnownEvents, RecentArrivals
from rankcast.delivery.stream.matched_sets import MatchedSets
from rankcast.delivery.stream.queue_changes import QueueChange, changes_from_arrays, changes_to_arrays
from rankcast.delivery.stream.waiting_rows import ROW_COLUMNS, PendingRows
from rankcast.model.errors import InvalidValueError

VERSION = 1
"""Of the packed state."""

_MAGIC = b"rcshard\0"
_QUEUES = "queues"


@dataclass(frozen=True, slots=True)
class ShardState:
    """What a shard is, beside its queues."""

    watermark: int
    lateness: int
    version: int
    needed: int
    recall: Array
    gone: Array
    taken: RecentArrivals
    sets: MatchedSets
    changes: Sequence[QueueChange]
    known: KnownEvents
    waiting: Sequence[PendingRows]

    def to_bytes(self, queues: bytes | None = None) -> bytes:
        """Return the state, packed, with the packed queues if they are given."""
        plain = PendingRows.joined([part for part in self.waiting if part.dense is None])
        sets = self.sets.to_table()
        dense = [
            MatchBatch(*_columns(part), sets, variant=part.variant, dense=part.dense)
            for part in self.waiting
            if part.dense is not None
        ]
        arrays: dict[str, Array] = {
            "about": np.array([self.watermark, self.lateness, self.version, self.needed], np.int64),
            **({} if queues is None else {_QUEUES: np.frombuffer(queues, np.uint8)}),
            "recall": self.recall,
            "gone": self.gone.view(np.uint8),
            "taken.numbers": self.taken.numbers,
            "taken.queues": self.taken.queues,
            "sets.starts": sets.starts,
            "sets": sets.values,
            **changes_to_arrays(self.changes),
            **{f"k.{name}": array for name, array in self.known.to_arrays().items()},
            **{f"w.{name}": array for name, array in plain.events.to_arrays().items()},
            "w.variant": plain.variant,
            **{f"w.row.{name}": array for name, array in plain.columns().items()},
            **{f"w.dense.{at}": np.frombuffer(chunk.to_bytes(), np.uint8) for at, chunk in enumerate(dense)},
        }
        return pack(_MAGIC, VERSION, arrays)

    @staticmethod
    def from_bytes(packed: bytes | memoryview) -> tuple[ShardState, bytes | None]:
        """Return the state, and the packed queues if there are any."""
        arrays = unpack(_MAGIC, VERSION, packed, "shard")
        try:
            found = _from_arrays(arrays)
        except KeyError as error:
            raise InvalidValueError(f"shard: there is no array {error}") from None
        return found, arrays[_QUEUES].tobytes() if _QUEUES in arrays else None


def _from_arrays(arrays: dict[str, Array]) -> ShardState:
    watermark, lateness, version, needed = arrays["about"].tolist()
    sets = MatchedSets.from_table(Ragged(arrays["sets.starts"], arrays["sets"]))
    waiting: list[PendingRows] = []
    events, variant = EventTable.from_arrays(_under("w.", arrays)), arrays["w.variant"]
    queue, event, score, expires, matched = (arrays[f"w.row.{name}"] for name in ROW_COLUMNS)
    if len(events):
        chunk = MatchBatch(events, queue, event, score, expires, matched, sets.to_table(), variant=variant)
        waiting.append(PendingRows.of(chunk))
    dense = [array for name, array in arrays.items() if name.startswith("w.dense.")]
    waiting += (PendingRows.of(MatchBatch.from_bytes(array.tobytes())) for array in dense)
    return ShardState(
        watermark,
        lateness,
        version,
        needed,
        recall=arrays["recall"].copy(),
        gone=arrays["gone"].astype(bool),
        taken=RecentArrivals(arrays["taken.numbers"], arrays["taken.queues"]),
        sets=sets,
        changes=changes_from_arrays(arrays),
        known=KnownEvents.from_arrays(_under("k.", arrays)),
        waiting=waiting,
    )


def _columns(part: PendingRows) -> tuple[EventTable, Array, Array, Array, Array, Array]:
    return part.events, part.queue, part.event, part.score, part.expires, part.matched


def _under(prefix: str, arrays: dict[str, Array]) -> dict[str, Array]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
