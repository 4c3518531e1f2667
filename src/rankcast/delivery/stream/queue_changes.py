"""Changes of a shard's queues in event time: a queue gets a policy and perhaps other ranks, or goes.

A change acts at its time: what is due before it is done under the old policy; then the queue is what `changed_queue`
of `rankcast.delivery.rules.policies` says, and events of that time or later arrive under the new one. A queue that goes
is emptied, and takes nothing until it is given a policy again.

A queue knows scores, not what they were made of. Whoever has the events' contents and the subscriber (`Reranking`) says
what each event that a queue holds is from now on; the shard puts that in the place of what it was. What matches nothing
any more leaves the queue. What was delivered stays delivered.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np

from rankcast.arrays import Array
from rankcast.containers.container import Buffer, pack, unpack
from rankcast.containers.expectations import Column, Columns, Range, check, check_texts
from rankcast.delivery.stream.event_tables import EventTable, Ragged
from rankcast.delivery.stream.handovers import PLAIN, Handover
from rankcast.language.lossless import decode, encode
from rankcast.model.errors import InvalidValueError, RankcastError
from rankcast.model.policies import Policy
from rankcast.model.times import FIRST_INSTANT, LAST_INSTANT

KIND, VERSION = "queue changes", 4

CHANGES: Columns = {
    "queue": Column(np.int64, "changes", Range()),
    "time": Column(np.int64, "changes", Range(FIRST_INSTANT, LAST_INSTANT + 1)),
    "policy.starts": Column(np.int64, "changes", starts="bytes of policies"),
    "policy": Column(np.uint8, "bytes of policies"),
    "ranking.starts": Column(np.int64, "changes", starts="bytes of rankings"),
    "ranking": Column(np.uint8, "bytes of rankings"),
    "handover.starts": Column(np.int64, "changes", starts="bytes of handovers"),
    "handover": Column(np.uint8, "bytes of handovers"),
}
"""What is expected of the arrays of changes."""


class QueueChange(NamedTuple):
    """From a time on (microseconds since 1970), a queue of the shard has a policy; with None it is gone.

    `ranking` says how the events that it holds are ranked from then on (`Reranking`); empty: as they are.
    """

    queue: int
    time: int
    policy: Policy | None
    ranking: str = ""
    handover: Handover = PLAIN


def pack_changes(changes: Iterable[QueueChange]) -> bytes:
    """Return changes as bytes."""
    return pack(KIND, VERSION, changes_to_arrays(changes))


def unpack_changes(packed: Buffer) -> list[QueueChange]:
    """Return the changes that were packed."""
    return changes_from_arrays(unpack(packed, KIND, VERSION).arrays)


def changes_to_arrays(changes: Iterable[QueueChange]) -> dict[str, Array]:
    """Return changes as named arrays. No policy is packed as nothing."""
    listed = list(changes)
    policies = [stated_text(change.policy, Policy, None) for change in listed]
    return {
        "queue": np.array([change.queue for change in listed], np.int64),
        "time": np.array([change.time for change in listed], np.int64),
        **Ragged.of_texts(policies).to_arrays("policy"),
        **Ragged.of_texts(change.ranking for change in listed).to_arrays("ranking"),
        **Ragged.of_texts(stated_text(change.handover, Handover, PLAIN) for change in listed).to_arrays("handover"),
    }


def changes_from_arrays(arrays: Mapping[str, Array]) -> list[QueueChange]:
    """Return the changes of named arrays."""
    check(KIND, arrays, CHANGES)
    texts = [Ragged.from_arrays(name, arrays) for name in ("policy", "ranking", "handover")]
    for column in texts:
        check_texts(KIND, column.starts, column.values)
    columns = (arrays["queue"].tolist(), arrays["time"].tolist(), *(column.texts() for column in texts))
    return [
        QueueChange(queue, time, stated_from(policy, Policy, None), ranking, stated_from(handover, Handover, PLAIN))
        for queue, time, policy, ranking, handover in zip(*columns, strict=True)
    ]


def check_change(change: QueueChange) -> None:
    """Raise unless a change is about a queue and a time that can be."""
    if change.queue < 0:
        raise InvalidValueError(f"change: queue {change.queue}; expected a number of at least 0")
    if not FIRST_INSTANT <= change.time <= LAST_INSTANT:
        raise InvalidValueError(f"change: time {change.time} of queue {change.queue} is not within the years 1 to 9999")


@lru_cache
def stated_text(stated: object, declared: Any, usual: object) -> str:
    """Return a policy, or a handover, as text: what is usual as nothing."""
    return "" if stated == usual else encode(stated, declared).decode()


def stated_from(text: str, declared: Any, usual: object) -> Any:
    """Return what a text says."""
    try:
        return decode(text.encode(), declared, "policy") if text else usual
    except RankcastError as error:
        raise InvalidValueError(f"{KIND}: {error}") from None


class Reranked(NamedTuple):
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
    """Ranks events again."""

    def ranked(self, ranking: str, policy: Policy, events: EventTable) -> Reranked:
        """Return what events are in a queue with this policy, by the text that came with the queue's change."""
