"""What is held, ranked anew: a change of a subscriber may change the ranks of events that its queues hold already.

A queue knows scores, not what they were made of. Whoever has the events' contents and the subscriber (`Reranking`) says
what each event that a queue holds is from now on; the shard puts that in the place of what it was. What matches nothing
any more leaves the queue. What was delivered stays delivered.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from rankcast.arrays import Array
from rankcast.delivery.event_tables import EventTable, Ragged
from rankcast.model.policies import Policy


class RankedAnew(NamedTuple):
    """Events in the order they were given, and what each of them is from now on.

    `is_known` tells which can be ranked at all; the others stay what they are. Of those, the ones that are not `wanted`
    match nothing. `matched` and `sets` are as in a `Chunk`; `events` have what the caller wants to know of them now.
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
