"""The whole state of a broker as versioned bytes, and back: it goes on with the same deliveries.

    {"snapshot": 5, "checksum": 305419896}
    {...}

The first line is about the second, which has the state, in the form of messages (`language.lossless`), each event
once. Derived state (matching index, covering) is not in it.

A broker that was down comes back with `restored(data, incarnation=...)`, an incarnation above all it had before: then
it keeps what its own clients told and the events it has seen, forgets what its neighbours told, and asks them again.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np

from rankcast.delivery.stream.lateness import Remembered
from rankcast.language.lossless import decode, encode
from rankcast.model.errors import InvalidMessageError, RankcastError, shown
from rankcast.model.events import Identity
from rankcast.overlay.broker import Broker, Settings
from rankcast.overlay.leases import Lease, Leased
from rankcast.overlay.links import Neighbour
from rankcast.overlay.messages import Advertise
from rankcast.overlay.publishing import MatchCount
from rankcast.overlay.routing.interests import Record, Source
from rankcast.overlay.routing.neighbours import Announced
from rankcast.overlay.routing.state import Stale
from rankcast.serving.subscriber_state import SubscriberRecord

VERSION = 5


@dataclass(frozen=True, slots=True)
class LinkState:
    """A link to a neighbour: both directions, what the neighbour was told, and what it has yet to repeat."""

    neighbour: Neighbour
    announced: Announced
    stale: Stale | None


@dataclass(frozen=True, slots=True)
class BrokerState:
    """Everything that a broker remembers."""

    name: str
    incarnation: int
    settings: Settings
    random: Any
    links: dict[str, LinkState]
    advertisements: tuple[tuple[Source, Advertise], ...]
    records: tuple[Record, ...]
    leases: dict[Leased, Lease]
    subscribers: tuple[SubscriberRecord, ...]
    seen: tuple[tuple[Identity, datetime], ...]
    counts: tuple[MatchCount, ...]
    count_ends: dict[Identity, datetime]


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
        {
            link: LinkState(neighbour, routing.routes(link).announced, routing.stale.get(link))
            for link, neighbour in broker.neighbours.items()
        },
        tuple(routing.advertisements()),
        tuple(routing.table),
        dict(broker.leases.items()),
        tuple(broker.subscribers.serving.records()),
        broker.seen.state(),
        tuple(broker.publishing.counts.values()),
        dict(broker.count_ends.items()),
    )


def _broker(state: BrokerState, incarnation: int | None) -> Broker:
    random = np.random.Generator(np.random.PCG64(0))
    random.bit_generator.state = state.random
    broker = Broker(state.name, state.settings, random, incarnation=incarnation or state.incarnation)
    goes_on = incarnation is None
    links = state.links if goes_on else {}
    for link, told in links.items():
        broker.neighbours[link] = told.neighbour
        broker.routing.join(link)
    for source, advertise in state.advertisements:
        if goes_on or source is None:
            broker.routing.advertise(source, advertise)
    for record in state.records:
        if goes_on or record.source is None:
            broker.routing.forward(record.source, record.interest, record.weights.items(), hides=record.hides)
    for link, told in links.items():
        broker.routing.routes(link).restore(told.announced)
        if told.stale is not None:
            broker.routing.stale[link] = told.stale
    for leased, lease in state.leases.items():
        broker.leases.put(leased, lease)
    for subscriber in state.subscribers:
        broker.subscribers.restore(subscriber)
    broker.seen = Remembered(state.seen)
    if goes_on:
        broker.publishing.counts.update((count.event.identity, count) for count in state.counts)
        for event, end in state.count_ends.items():
            broker.count_ends.put(event, end)
    return broker
