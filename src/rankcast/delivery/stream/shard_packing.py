"""The state of a shard as bytes: everything but its queues, which are packed or left in memory as the caller likes.

    queues.*      the queue table, if it is packed
    known.*       the events that were released and may still be needed
    waiting.*     rows that wait, all that are written down together
    dense0.* ...  rows that wait and are not written down, each part as a match batch
    changes.*     changes of queues that are still to come

Reading refuses bytes of another kind, damaged or contradicting themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import msgspec
import numpy as np

from rankcast.arrays import Array
from rankcast.containers.container import Buffer, pack, prefixed, under, unpack
from rankcast.containers.expectations import Column, Columns, Range, below, check, fail_where
from rankcast.delivery.engine.layout import EVENT, GONE
from rankcast.delivery.engine.queue_table import QueueTable
from rankcast.delivery.stream.batches import SET_COLUMNS, SETS, MatchBatch
from rankcast.delivery.stream.event_tables import Ragged
from rankcast.delivery.stream.kernels import CODE_BITS
from rankcast.delivery.stream.known_events import KnownEvents, RecentArrivals
from rankcast.delivery.stream.matched_sets import MatchedSets
from rankcast.delivery.stream.queue_changes import QueueChange, changes_from_arrays, changes_to_arrays
from rankcast.delivery.stream.waiting_rows import PendingRows
from rankcast.model.errors import InvalidValueError
from rankcast.model.times import FIRST_INSTANT, LAST_INSTANT

KIND, VERSION = "shard", 2

OWN: Columns = {
    "recall": Column(np.int64, "queues", Range()),
    "gone": Column(np.bool_, "queues"),
    "taken.numbers": Column(np.int64, "taken", Range()),
    "taken.queues": Column(np.int32, "taken", below("queues")),
    **SET_COLUMNS,
}
"""What is expected of the arrays that no part of the state brings along."""

LARGEST_TABLE = 1_000_000
"""Numbers that are looked up in a table, however few of them are known."""

_Count = Annotated[int, msgspec.Meta(ge=0, lt=1 << 63 - CODE_BITS)]


class _About(msgspec.Struct, forbid_unknown_fields=True):
    watermark: Annotated[int, msgspec.Meta(ge=FIRST_INSTANT, le=LAST_INSTANT + 1)]
    lateness: Annotated[int, msgspec.Meta(ge=0)]
    version: int
    needed: _Count
    next_number: _Count
    dense: _Count


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

    def to_bytes(self, queues: QueueTable | None = None) -> bytes:
        """Return the state, packed, with the queues if they are given."""
        plain = PendingRows.joined([part for part in self.waiting if part.dense is None])
        sets = self.sets.to_table()
        dense = [part for part in self.waiting if part.dense is not None]
        about = _About(self.watermark, self.lateness, self.version, self.needed, self.known.next_number, len(dense))
        arrays: dict[str, Array] = {
            "recall": self.recall,
            "gone": self.gone,
            "taken.numbers": self.taken.numbers,
            "taken.queues": self.taken.queues,
            **sets.to_arrays("sets"),
            **prefixed("changes.", changes_to_arrays(self.changes)),
            **prefixed("known.", self.known.to_arrays()),
            **prefixed("waiting.", _rows(plain, sets)),
        }
        for at, part in enumerate(dense):
            arrays |= prefixed(f"dense{at}.", _rows(part, sets))
        if queues is not None:
            arrays |= prefixed("queues.", queues.to_arrays())
        return pack(KIND, VERSION, arrays, msgspec.to_builtins(about))

    @staticmethod
    def from_bytes(packed: Buffer) -> tuple[ShardState, QueueTable | None]:
        """Return the state, and the queues if they are packed with it."""
        found = unpack(packed, KIND, VERSION)
        about, arrays = found.about(_About), found.arrays
        queues = under("queues.", arrays)
        table = QueueTable.from_arrays(queues) if queues else None
        given = {} if table is None else {"queues": len(table)}
        sizes = check(KIND, arrays, OWN, given)
        sets = {name: arrays[name] for name in SET_COLUMNS}
        batches = [MatchBatch.from_arrays(under(f"{name}.", arrays) | sets) for name in _waiting(about.dense, arrays)]
        state = ShardState(
            about.watermark,
            about.lateness,
            about.version,
            about.needed,
            recall=arrays["recall"],
            gone=arrays["gone"],
            taken=RecentArrivals(arrays["taken.numbers"], arrays["taken.queues"]),
            sets=MatchedSets.from_table(Ragged.from_arrays("sets", arrays)),
            changes=changes_from_arrays(under("changes.", arrays)),
            known=KnownEvents.from_arrays(under("known.", arrays), about.next_number),
            waiting=[PendingRows.of(batch) for batch in batches if len(batch.events)],
        )
        _check_parts(state, batches, sizes)
        if table is not None:
            _check_held(np.ascontiguousarray(queues["held"][:, EVENT]), state.known.numbers, sizes["sets"])
        return state, table


def _rows(part: PendingRows, sets: Ragged) -> dict[str, Array]:
    """Return rows that wait as those of a match batch; the sets are the shard's."""
    columns = (part.queue, part.event, part.score, part.expires, part.matched)
    batch = MatchBatch(part.events, *columns, sets, variant=part.variant, dense=part.dense)
    return {name: array for name, array in batch.to_arrays().items() if name not in SET_COLUMNS}


def _waiting(dense: int, arrays: Mapping[str, Array]) -> list[str]:
    """Return the names of the parts that wait; every part has an array of queues."""
    names = ["waiting", *(f"dense{at}" for at in range(min(dense, len(arrays))))]
    if len(names) - 1 != dense:
        raise InvalidValueError(f"{KIND}: {dense:,} parts wait; expected fewer than there are arrays")
    return names


def _check_parts(state: ShardState, waiting: Sequence[MatchBatch], sizes: Mapping[str, int]) -> None:
    """Raise where parts of the state name queues, events or sets that others do not have."""
    last = max((batch.last_queue for batch in waiting), default=-1)
    last = max([last, *(change.queue for change in state.changes)])
    if sizes["sets"] > SETS:
        raise InvalidValueError(f"{KIND}: array sets.starts: {sizes['sets']:,} sets; expected at most {SETS:,}")
    if last >= sizes["queues"]:
        raise InvalidValueError(f"{KIND}: something waits for queue {last:,}; there are {sizes['queues']:,}")
    numbers = state.taken.numbers
    fail_where(numbers[1:] < numbers[:-1], f"{KIND}: array taken.numbers: descends")
    _check_known("taken.numbers", numbers, state.known.numbers)


def _check_held(held: Array, known: Array, sets: int) -> None:
    """Raise where a queue holds an event that is not known, or that matched a set that is not."""
    if (held == GONE).any():
        held = held[held != GONE]
    words = held >> 63
    words ^= held  # those that were delivered are negative: ~word
    _check_known("queues.held", words >> CODE_BITS, known)
    words &= (1 << CODE_BITS) - 1
    if words.max(initial=0) >= SETS + sets:
        raise InvalidValueError(f"{KIND}: array queues.held: no matched set {int(words.max()) - SETS:,}")


def _check_known(name: str, numbers: Array, known: Array) -> None:
    """Raise unless all numbers are among the ascending ones of known events."""
    if len(known) and len(numbers):
        first, spread = int(known[0]), int(known[-1] - known[0]) + 1
        offsets = numbers - first
        if spread <= 4 * len(known) + LARGEST_TABLE and offsets.view(np.uint64).max() < spread:
            is_known = np.zeros(spread, bool)
            is_known[known - first] = True
            if is_known.take(offsets).all():
                return
    fail_where(~np.isin(numbers, known), f"{KIND}: array {name}: no known event")
