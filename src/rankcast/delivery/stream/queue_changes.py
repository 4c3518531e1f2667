"""Changes of a shard's queues in event time: a queue gets a policy and perhaps other ranks, or goes.

A change acts at its time: what is due before it is done under the old policy; then the queue is what
`rankcast.delivery.rules.changes.changed_queue` says, and events of that time or later arrive under the new one. A queue
that goes is emptied, and takes nothing until it is given a policy again.

A queue knows scores, not what they were made of. Whoever has the events' contents and the subscriber (`Reranking`) says
what each event that a queue holds is from now on; the shard puts that in the place of what it was. What matches nothing
any more leaves the queue. What was delivered stays delivered.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

import numpy as np

from rankcast.arrays import Array
from rankcast.delivery.rules.arrival import ContinuousQueue, EverythingQueue, SlidingQueue
from rankcast.delivery.rules.changes import new_queue
from rankcast.delivery.rules.snapshots import restored, snapshot
from rankcast.delivery.rules.timed import PeriodicQueue, TopKWindowQueue
from rankcast.delivery.stream.batches import pack, unpack
from rankcast.delivery.stream.event_tables import EventTable, Ragged, no_sequences
from rankcast.model.errors import InvalidValueError
from rankcast.model.policies import Policy
from rankcast.model.times import FIRST_INSTANT, LAST_INSTANT

VERSION = 1
_MAGIC = b"rcchange"


class QueueChange(NamedTuple):
    """From a time on (microseconds since 1970), a queue of the shard has a policy; with None it is gone.

    `ranking` says how the events that it holds are ranked from then on (`Reranking`); empty: as they are.
    """

    queue: int
    time: int
    policy: Policy | None
    ranking: str = ""


def pack_changes(changes: Iterable[QueueChange]) -> bytes:
    """Return changes as bytes."""
    return pack(_MAGIC, VERSION, changes_to_arrays(changes))


def unpack_changes(packed: bytes | memoryview) -> list[QueueChange]:
    """Return the changes that were packed."""
    return changes_from_arrays(unpack(_MAGIC, VERSION, packed, "changes"))


def changes_to_arrays(changes: Iterable[QueueChange]) -> dict[str, Array]:
    """Return changes as named arrays. A policy is packed as the snapshot of its empty queue; none as nothing."""
    listed = list(changes)
    known: dict[Policy | None, bytes] = {None: b""}
    packed = [known.get(one.policy) or known.setdefault(one.policy, _packed(one.policy)) for one in listed]
    rankings = Ragged.of_texts(one.ranking for one in listed)
    stated = {"change.ranking.starts": rankings.starts, "change.ranking": rankings.values}
    return {
        "change.queue": np.array([one.queue for one in listed], np.int64),
        "change.time": np.array([one.time for one in listed], np.int64),
        "change.starts": np.cumsum([0, *map(len, packed)], dtype=np.int64),
        "change.policy": np.frombuffer(b"".join(packed), np.uint8),
        **(stated if len(rankings.values) else {}),
    }


def changes_from_arrays(arrays: dict[str, Array]) -> list[QueueChange]:
    """Return the changes of named arrays."""
    queues, times = arrays["change.queue"].tolist(), arrays["change.time"].tolist()
    policies = Ragged(arrays["change.starts"], arrays["change.policy"])
    rankings = no_sequences(len(queues))
    if "change.ranking" in arrays:
        rankings = Ragged(arrays["change.ranking.starts"], arrays["change.ranking"])
    if not len(queues) == len(times) == len(policies) == len(rankings):
        raise InvalidValueError("changes: columns of different lengths")
    content, starts = policies.values.tobytes(), policies.starts.tolist()
    changes = [
        QueueChange(queue, time, _policy(content[start:end]), ranking)
        for queue, time, start, end, ranking in zip(queues, times, starts, starts[1:], rankings.texts(), strict=False)
    ]
    for change in changes:
        check_change(change)
    return changes


def check_change(change: QueueChange) -> None:
    """Raise unless a change is about a queue and a time that can be."""
    if change.queue < 0:
        raise InvalidValueError(f"change: queue {change.queue}; expected a number of at least 0")
    if not FIRST_INSTANT <= change.time <= LAST_INSTANT:
        raise InvalidValueError(f"change: time {change.time} of queue {change.queue} is not within the years 1 to 9999")


def _packed(policy: Policy | None) -> bytes:
    return b"" if policy is None else snapshot(new_queue(policy))


def _policy(packed: bytes) -> Policy | None:
    if not packed:
        return None
    queue = restored(packed)
    assert isinstance(queue, EverythingQueue | ContinuousQueue | SlidingQueue | PeriodicQueue | TopKWindowQueue)
    return queue.policy


class RankedAnew(NamedTuple):
    """Events in the order they were given, and what each of them is from now on.

    `is_known` tells which can be ranked at all; the others stay what they are. Of those, the ones that are not `wanted`
    match nothing. `matched` and `sets` are as in a `MatchBatch`; `events` have what the caller wants to know of them
    now.
    """

    is_known: Array
    is_wanted: Array
    score: Array
    expires: Array
    matched: Array
    sets: Ragged
    events: EventTable


class Reranking(Protocol):
    """Ranks events anew."""

    def ranked(self, ranking: str, policy: Policy, events: EventTable) -> RankedAnew:
        """Return what events are in a queue with this policy, by the text that came with the queue's change."""
