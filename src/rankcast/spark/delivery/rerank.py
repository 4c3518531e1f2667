"""What travels with an event through the delivery, and what becomes of held events when their subscriber changes.

Beside its identity an event has a `Payload`: its ranks, its content, what is carried along. The score alone comes back
with a delivery, and for queues whose scores decay it does not tell the rank. The content is there only where
subscribers change, so that what queues hold can be matched and ranked again, as a hub does it. Where there is none of
it, there is no payload at all.

A change says, as JSON, whose queue it is and who the subscriber is from then on (`ranking_text`). It stays with the
change wherever that is written, so that a shard which is brought back from its log does the same again. An event
without its content, because a step of the user's own gave its rank, keeps the rank.

Cost: every event that a changed queue holds is matched with the subscriptions of the queue one by one, some tens of
microseconds each. Changes that leave ranks and filters alone cost nothing here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from msgspec import structs

from rankcast.arrays import Array
from rankcast.delivery.engine.contents import WantedContent, content_codes
from rankcast.delivery.stream.event_tables import EventTable, Ragged
from rankcast.delivery.stream.matched_sets import MatchedSets
from rankcast.delivery.stream.queue_changes import Reranked
from rankcast.matching.naive import matches
from rankcast.model.events import Event
from rankcast.model.policies import Policy
from rankcast.model.schema import Schema
from rankcast.model.subscriptions import Subscriber, Subscription, SubscriptionId
from rankcast.model.times import NEVER, microseconds
from rankcast.ranking.batch import RankedRows
from rankcast.ranking.preferences import Preferences, Ranked
from rankcast.spark.sources.event_reader import event_of_content
from rankcast.storage.subscribers.files import subscribers_from_document

REMEMBERED = 256
"""Changes that are read once for all shards and retries of a worker."""


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
    packed = [
        Payload(ranks.get(at, {}), None if contents is None else contents[at], carried).to_bytes()
        for at, carried in enumerate(table.payload.to_arrow(text=False).to_pylist())
    ]
    return replace(table, payload=ragged_bytes(packed))


def ragged_bytes(texts: Sequence[bytes]) -> Ragged:
    """Return binaries, one behind the other."""
    starts = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    return Ragged(starts, np.frombuffer(b"".join(texts), np.uint8))


def changes_ranks(before: Subscriber, after: Subscriber, own: SubscriptionId | None) -> bool:
    """Whether what a queue holds may have other ranks, or other contents to compare, after a change."""
    return bool(_what_ranks(before, own) != _what_ranks(after, own))


def _what_ranks(subscriber: Subscriber, own: SubscriptionId | None) -> Any:
    wanted = WantedContent.of([subscriber.policies[own]])
    plain = [structs.replace(rival, deliver=None) for rival in competing(subscriber, own)]
    return plain, subscriber.priorities, subscriber.rank_by, subscriber.most_specific, subscriber.decay, wanted


def competing(subscriber: Subscriber, own: SubscriptionId | None) -> list[Subscription]:
    """Return the subscriptions whose events compete in a queue: that of one of them, or of all that have none."""
    return [rival for rival in subscriber.subscriptions if (rival.deliver is None if own is None else rival.id == own)]


def ranking_text(queue: int, own: SubscriptionId | None, names: Sequence[str], document: Mapping[str, Any]) -> str:
    """Return what a change says of the ranks from then on.

    `document` is a subscriber file of the one subscriber; `names` are the queue's subscriptions by their positions.
    """
    return json.dumps({"queue": queue, "own": own, "names": list(names), "file": document})


@dataclass(frozen=True, slots=True)
class _Change:
    """What a change says, read."""

    queue: int
    competing: tuple[Subscription, ...]
    preferences: Preferences
    positions: Mapping[str, int]
    schema: Schema | None

    def rank(self, event: Event) -> Ranked | None:
        """Return the rank of an event; None when it matches nothing."""
        seen = event if self.schema is None else event.conformed(self.schema)
        return self.preferences.ranked(seen, [own.id for own in self.competing if matches(own, seen)])


@lru_cache(maxsize=REMEMBERED)
def _change_of(ranking: str) -> _Change:
    said = json.loads(ranking)
    found = subscribers_from_document(said["file"])
    (subscriber,) = found.subscribers
    positions = {name: at for at, name in enumerate(said["names"])}
    return _Change(
        said["queue"], tuple(competing(subscriber, said["own"])), Preferences.of(subscriber), positions, found.schema
    )


class _Reranking:
    """Ranks what a queue holds by the contents of the events."""

    def ranked(self, ranking: str, policy: Policy, events: EventTable) -> Reranked:
        """Return what events are from now on."""
        change, wanted = _change_of(ranking), WantedContent.of([policy])
        preferences = change.preferences
        is_known, is_wanted = np.zeros(len(events), bool), np.zeros(len(events), bool)
        score, expires = np.zeros(len(events)), np.full(len(events), NEVER)
        matched, sets = np.zeros(len(events), np.int64), MatchedSets()
        packed, codes = events.payload.to_arrow(text=False).to_pylist(), _codes(events)
        sources, ids, times = events.source.texts(), events.id.texts(), events.time.tolist()
        for at, payload in enumerate(map(Payload.from_bytes, list(packed))):
            if payload.content is None:
                continue
            event = event_of_content(payload.content, sources[at], ids[at], times[at])
            is_known[at] = True
            if wanted:
                codes[at] |= _pairs(*content_codes(wanted.of_event(event.attributes)))
            found = change.rank(event)
            if found is None:
                continue
            assert event.time is not None, "events in a stream have a time"
            is_wanted[at] = True
            score[at] = preferences.score(found.rank, event.time)
            expired = event.expires
            if preferences.refreshes:
                expired = preferences.expires(found.matched, event.time, expired)
            expires[at] = microseconds(expired)
            matched[at] = sets.number(tuple(sorted(change.positions[name] for name in found.matched)))
            if preferences.decay is not None or change.queue in payload.ranks:
                packed[at] = payload._replace(ranks={**payload.ranks, change.queue: found.rank}).to_bytes()
        attributes, values = _columns(codes)
        changed = replace(events, payload=ragged_bytes(packed), attributes=attributes, values=values)
        return Reranked(is_known, is_wanted, score, expires, *sets.export_numbers(matched), changed)


RERANKING: Final = _Reranking()
"""It has no state of its own."""


def _codes(events: EventTable) -> list[set[tuple[int, int]]]:
    """Return what is compared of each event: codes of attributes, and of their values."""
    bounds = pairwise(events.attributes.starts.tolist())
    return [_pairs(events.attributes.values[low:high], events.values.values[low:high]) for low, high in bounds]


def _pairs(attributes: Array, values: Array) -> set[tuple[int, int]]:
    return set(zip(attributes.tolist(), values.tolist(), strict=True))


def _columns(codes: list[set[tuple[int, int]]]) -> tuple[Ragged, Ragged]:
    """Return the codes as an event table has them: those of attributes ascending, and those of values."""
    starts = np.cumsum([0, *map(len, codes)], dtype=np.int64)
    pairs = np.array([pair for own in codes for pair in sorted(own)], np.int64).reshape(-1, 2)
    return Ragged(starts, pairs[:, 0].copy()), Ragged(starts, pairs[:, 1].copy())
