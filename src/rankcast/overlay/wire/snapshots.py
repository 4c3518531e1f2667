"""The whole state of a broker as versioned bytes, and back: it goes on with the same deliveries.

    {"snapshot": 1, "checksum": 305419896}
    {...}

The first line is about the second, which has the state, in the form of messages (`language.lossless`), each event
once. Derived state (matching index, covering) is not in it.

A broker that was down comes back with `restored(data, incarnation=...)`, an incarnation above all it had before: then
it keeps what its own clients told and the events it has seen, forgets what its neighbours told, and asks them again.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from rankcast.delivery.stream.lateness import Remembered
from rankcast.language.lossless import decode, encode
from rankcast.model.errors import InvalidMessageError, RankcastError, shown
from rankcast.model.events import Event, Identity
from rankcast.model.subscriptions import AdvertisementId, SubscriptionKey
from rankcast.overlay.broker import Broker, Settings
from rankcast.overlay.leases import Lease, Leased, LeaseKind
from rankcast.overlay.links import Inbox, Neighbour, Outbox
from rankcast.overlay.publishing import MatchCount
from rankcast.overlay.routing.neighbours import NeighbourRoutes
from rankcast.overlay.wire.messages import Advertise, Interest, PeerMessage, Session
from rankcast.serving.subscriber_state import SubscriberRecord

VERSION = 3


@dataclass(frozen=True, slots=True)
class LinkState:
    """A link to a neighbour: both directions, what the neighbour was told, and what it has yet to repeat."""

    link: str
    is_up: bool
    heard: datetime
    beat: datetime
    request: int
    next: int
    peer: int | None
    promised: int
    is_synced: bool
    waiting: tuple[tuple[int, PeerMessage], ...]
    marked: tuple[int, int] | None
    session: Session | None
    latest: Session | None
    sent: int
    told: tuple[Interest, ...]
    weights: tuple[tuple[AdvertisementId, SubscriptionKey, float], ...]
    stale_advertisements: tuple[AdvertisementId, ...] | None
    stale_keys: tuple[SubscriptionKey, ...] | None
    hiding: tuple[SubscriptionKey, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordState:
    """An interest, and the source that told it."""

    source: str | None
    interest: Interest
    weights: Mapping[AdvertisementId, float]
    hides: bool = False


@dataclass(frozen=True, slots=True)
class LeaseState:
    """What a client has, until when, and how many subscriptions that are."""

    kind: LeaseKind
    id: str
    client: str
    duration: timedelta | None
    end: datetime
    size: int = 1


@dataclass(frozen=True, slots=True)
class CountState:
    """An event whose matches are being counted."""

    advertisement: AdvertisementId
    event: Event
    source: str | None
    own: tuple[SubscriptionKey, ...]
    counts: Mapping[str, int]
    missing: tuple[str, ...]
    k: int | None
    end: datetime | None


@dataclass(frozen=True, slots=True)
class BrokerState:
    """Everything that a broker remembers."""

    name: str
    incarnation: int
    settings: Settings
    random: Any
    links: tuple[LinkState, ...]
    advertisements: tuple[tuple[str | None, Advertise], ...]
    records: tuple[RecordState, ...]
    leases: tuple[LeaseState, ...]
    subscribers: tuple[SubscriberRecord, ...]
    seen: tuple[tuple[Identity, datetime], ...]
    counts: tuple[CountState, ...]


def snapshot(broker: Broker) -> bytes:
    """Return the state of a broker as bytes; equal states give equal bytes."""
    state = encode(_state(broker), BrokerState, shared=True)
    return _about(state) + state


def _about(state: bytes) -> bytes:
    """Return the line before a state."""
    return json.dumps({"snapshot": VERSION, "checksum": zlib.crc32(state)}).encode() + b"\n"


def restored(data: bytes, *, incarnation: int | None = None) -> Broker:
    """Return the broker of a snapshot; with an `incarnation`, one that has been down since.

    Raises InvalidMessageError when the bytes are no snapshot of this version, or not what was written.
    """
    state: BrokerState = decode(_checked(data), BrokerState, "snapshot", shared=True)
    if incarnation is not None and incarnation <= state.incarnation:
        raise InvalidMessageError(f"incarnation {incarnation} is not above that of the snapshot, {state.incarnation}")
    try:
        return _broker(state, incarnation)
    except InvalidMessageError:
        raise
    except RankcastError as error:
        raise InvalidMessageError(f"snapshot: {error}") from None
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:  # each well-formed, but not together
        raise InvalidMessageError(f"snapshot: its parts do not fit together ({error!r})") from None


def _checked(data: bytes) -> bytes:
    """Return the state in a snapshot, if it is what was written."""
    about, _, state = data.partition(b"\n")
    stated = decode(about, Any, "snapshot")
    if not isinstance(stated, dict) or stated.get("snapshot") != VERSION:
        raise InvalidMessageError(f"{shown(stated)} is not a broker's snapshot of version {VERSION}")
    if about + b"\n" != _about(state):
        raise InvalidMessageError("snapshot: is damaged: its checksum is not that of its content")
    return state


def _state(broker: Broker) -> BrokerState:
    routing = broker.routing
    return BrokerState(
        broker.name,
        broker.incarnation,
        broker.settings,
        broker.random.bit_generator.state,
        tuple(_link_state(broker, link, neighbour) for link, neighbour in broker.neighbours.items()),
        tuple(routing.advertisements()),
        tuple(RecordState(one.source, one.interest, one.weights, one.hides) for one in routing.table),
        tuple(LeaseState(*leased, one.client, one.duration, one.end, one.size) for leased, one in broker.leases),
        tuple(broker.desk.serving.records()),
        broker.seen.state(),
        tuple(_count_state(broker, one) for one in broker.publishing.counts.values()),
    )


def _link_state(broker: Broker, link: str, neighbour: Neighbour) -> LinkState:
    inbox, outbox = neighbour.inbox, neighbour.outbox
    outlet = broker.routing.outlet(link)
    stale = broker.routing.stale(link)
    return LinkState(
        link,
        neighbour.is_up,
        neighbour.heard,
        neighbour.beat,
        inbox.request,
        inbox.next,
        inbox.peer,
        inbox.promised,
        inbox.is_synced,
        tuple(sorted(inbox.waiting.items(), key=lambda one: one[0])),
        inbox.marked,
        outbox.session,
        outbox.latest,
        outbox.sent,
        tuple(outlet.told.values()),
        tuple((name, key, weight) for (name, key), weight in outlet.told_weights.items()),
        None if stale is None else tuple(sorted(stale[0])),
        None if stale is None else tuple(sorted(stale[1])),
        tuple(sorted(outlet.told_hiding)),
    )


def _count_state(broker: Broker, count: MatchCount) -> CountState:
    return CountState(
        count.advertisement,
        count.event,
        count.source,
        count.own,
        count.counts,
        tuple(sorted(count.missing)),
        count.k,
        broker.count_ends.get(count.event.identity),
    )


def _broker(state: BrokerState, incarnation: int | None) -> Broker:
    random = np.random.Generator(np.random.PCG64(0))
    random.bit_generator.state = state.random
    broker = Broker(state.name, state.settings, random, incarnation=incarnation or state.incarnation)
    goes_on = incarnation is None
    for link in state.links if goes_on else ():
        broker.neighbours[link.link] = _neighbour(link, broker.incarnation)
        broker.routing.join(link.link)
    for source, advertise in state.advertisements:
        if goes_on or source is None:
            broker.routing.advertise(source, advertise)
    for record in state.records:
        if goes_on or record.source is None:
            broker.routing.forward(record.source, record.interest, record.weights.items(), hides=record.hides)
    for link in state.links if goes_on else ():
        _restore_outlet(broker.routing.outlet(link.link), link)
        if link.stale_advertisements is not None:
            broker.routing.restore_stale(link.link, link.stale_advertisements, link.stale_keys or ())
    for lease in state.leases:
        broker.leases.put(Leased(lease.kind, lease.id), Lease(lease.client, lease.duration, lease.end, lease.size))
    for one in state.subscribers:
        broker.desk.restore(one)
    broker.seen = Remembered(state.seen)
    for count in state.counts if goes_on else ():
        _restore_count(broker, count)
    return broker


def _restore_count(broker: Broker, state: CountState) -> None:
    event = state.event
    own, counts, missing = state.own, dict(state.counts), set(state.missing)
    broker.publishing.counts[event.identity] = MatchCount(
        state.advertisement, event, state.source, own, counts, missing, state.k
    )
    if state.end is not None:
        broker.count_ends.put(event.identity, state.end)


def _neighbour(state: LinkState, incarnation: int) -> Neighbour:
    inbox = Inbox(
        incarnation,
        state.request,
        state.next,
        state.peer,
        state.promised,
        state.is_synced,
        dict(state.waiting),
        state.marked,
    )
    return Neighbour(inbox, Outbox(state.session, state.sent, state.latest), state.is_up, state.heard, state.beat)


def _restore_outlet(outlet: NeighbourRoutes, state: LinkState) -> None:
    weights = {(name, key): weight for name, key, weight in state.weights}
    outlet.restore({one.key: one for one in state.told}, weights, state.hiding)
