"""Events that queues hold, ranked again when their subscriber changes: matched and ranked as a hub does it.

A change says, as JSON, whose queue it is and who the subscriber is from then on (`ranking_text`). It stays with the
change wherever that is written, so that a shard which is brought back from its log does the same again. Events have
their contents with them (`payloads`); an event without, because a step of the user's own gave its rank, keeps it.

Cost: every event that a changed queue holds is matched with the subscriptions of the queue one by one, some tens of
microseconds each. Changes that leave ranks and filters alone cost nothing here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final

import numpy as np
from msgspec import structs

from rankcast.arrays import Array
from rankcast.delivery.engine.contents import WantedContent, content_codes
from rankcast.delivery.stream.event_tables import EventTable, Ragged
from rankcast.delivery.stream.matched_sets import SETS
from rankcast.delivery.stream.queue_changes import Reranked
from rankcast.matching.naive import matches
from rankcast.model.events import Event
from rankcast.model.policies import Policy
from rankcast.model.schema import Schema
from rankcast.model.subscriptions import Subscriber, Subscription, SubscriptionId
from rankcast.model.times import NEVER, microseconds
from rankcast.ranking.preferences import Preferences, Ranked
from rankcast.spark.delivery.payloads import Payload, ragged_bytes
from rankcast.spark.sources.event_contents import event_of_content
from rankcast.storage.subscribers.files import subscribers_from_document

REMEMBERED = 256
"""Changes that are read once for all shards and retries of a worker."""


def is_ranked_anew(before: Subscriber, after: Subscriber, own: SubscriptionId | None) -> bool:
    """Whether what a queue holds may have other ranks, or other contents to compare, after a change."""
    return bool(_what_ranks(before, own) != _what_ranks(after, own))


def _what_ranks(subscriber: Subscriber, own: SubscriptionId | None) -> Any:
    wanted = WantedContent.of([subscriber.policies[own]])
    plain = [structs.replace(one, deliver=None) for one in competing(subscriber, own)]
    return plain, subscriber.priorities, subscriber.rank_by, subscriber.most_specific, subscriber.decay, wanted


def competing(subscriber: Subscriber, own: SubscriptionId | None) -> list[Subscription]:
    """Return the subscriptions whose events compete in a queue: that of one of them, or of all that have none."""
    return [one for one in subscriber.subscriptions if (one.deliver is None if own is None else one.id == own)]


def ranking_text(queue: int, own: SubscriptionId | None, names: Sequence[str], document: Mapping[str, Any]) -> str:
    """Return what a change says of the ranks from then on.

    `document` is a subscriber file of the one subscriber; `names` are the queue's subscriptions by their positions.
    """
    return json.dumps({"queue": queue, "own": own, "names": list(names), "file": document})


@dataclass(frozen=True, slots=True)
class _Told:
    """What a change says, read."""

    queue: int
    competing: tuple[Subscription, ...]
    preferences: Preferences
    positions: Mapping[str, int]
    schema: Schema | None

    def ranked(self, event: Event) -> Ranked | None:
        """Return the rank of an event; None when it matches nothing."""
        seen = event if self.schema is None else event.conformed(self.schema)
        return self.preferences.ranked(seen, [one.id for one in self.competing if matches(one, seen)])


@lru_cache(maxsize=REMEMBERED)
def _told(ranking: str) -> _Told:
    said = json.loads(ranking)
    found = subscribers_from_document(said["file"])
    (subscriber,) = found.subscribers
    positions = {name: at for at, name in enumerate(said["names"])}
    rivals = tuple(competing(subscriber, said["own"]))
    return _Told(said["queue"], rivals, Preferences.of(subscriber), positions, found.schema)


class _Rows:
    """What becomes of events, one after the other."""

    def __init__(self, events: EventTable) -> None:
        self.is_known, self.is_wanted = np.zeros(len(events), bool), np.zeros(len(events), bool)
        self.score, self.expires = np.zeros(len(events)), np.full(len(events), NEVER)
        self.matched = np.zeros(len(events), np.int64)
        self.payloads = events.payload.to_arrow(text=False).to_pylist()
        self.contents = _codes(events)
        self._sets: dict[tuple[int, ...], int] = {}

    def take(self, at: int, told: _Told, event: Event, found: Ranked) -> None:
        """Note the new rank of an event, and everything that follows from it."""
        preferences = told.preferences
        assert event.time is not None, "events in a stream have a time"
        expires = event.expires
        if preferences.refreshes:
            expires = preferences.expires(found.matched, event.time, expires)
        self.is_wanted[at], self.expires[at] = True, microseconds(expires)
        self.score[at] = preferences.score(found.rank, event.time)
        self.matched[at] = self._number(sorted(told.positions[name] for name in found.matched))
        payload = Payload.from_bytes(self.payloads[at])
        if preferences.decay is not None or told.queue in payload.ranks:
            ranks = {**payload.ranks, told.queue: found.rank}
            self.payloads[at] = payload._replace(ranks=ranks).to_bytes()

    def _number(self, positions: list[int]) -> int:
        mask = sum(1 << position for position in positions)
        return mask if mask < SETS else SETS + self._sets.setdefault(tuple(positions), len(self._sets))

    def again(self, events: EventTable) -> Reranked:
        """Return all of it."""
        attributes, values = _columns(self.contents)
        told = replace(events, payload=ragged_bytes(self.payloads), attributes=attributes, values=values)
        sets = Ragged.of(list(self._sets))
        return Reranked(self.is_known, self.is_wanted, self.score, self.expires, self.matched, sets, told)


class _RankingAnew:
    """Ranks what a queue holds by the contents of the events."""

    def ranked(self, ranking: str, policy: Policy, events: EventTable) -> Reranked:
        """Return what events are from now on."""
        told, rows, wanted = _told(ranking), _Rows(events), WantedContent.of([policy])
        sources, ids, times = events.source.texts(), events.id.texts(), events.time.tolist()
        for at in range(len(events)):
            content = Payload.from_bytes(rows.payloads[at]).content
            if content is None:
                continue
            event = event_of_content(content, sources[at], ids[at], times[at])
            rows.is_known[at] = True
            found = told.ranked(event)
            if found is not None:
                rows.take(at, told, event, found)
            if wanted:
                rows.contents[at] |= _pairs(*content_codes(wanted.of_event(event.attributes)))
        return rows.again(events)


RANKING_ANEW: Final = _RankingAnew()
"""It has no state of its own."""


def _codes(events: EventTable) -> list[dict[int, int]]:
    """Return what is compared of each event: the codes of values by those of attributes."""
    starts = events.attributes.starts.tolist()
    ends = pairwise(starts)
    return [_pairs(events.attributes.values[low:high], events.values.values[low:high]) for low, high in ends]


def _pairs(attributes: Array, values: Array) -> dict[int, int]:
    return dict(zip(attributes.tolist(), values.tolist(), strict=True))


def _columns(contents: list[dict[int, int]]) -> tuple[Ragged, Ragged]:
    """Return the codes as an event table has them: those of attributes ascending, and those of values."""
    ordered = [sorted(one.items()) for one in contents]
    starts = np.cumsum([0, *map(len, ordered)], dtype=np.int64)
    pairs = np.array([pair for one in ordered for pair in one], np.int64).reshape(-1, 2)
    return Ragged(starts, pairs[:, 0].copy()), Ragged(starts, pairs[:, 1].copy())
