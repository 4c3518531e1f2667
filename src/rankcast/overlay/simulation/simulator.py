"""A whole overlay in simulated time: deterministic, from one seed, with everything counted.

Brokers are joined as a topology says. A message takes its link's delay, and waits at a broker that is busy; how long
handling one takes is measured by a stopwatch that a study may lend, and nothing without one. With `jitter` each message
takes up to that much longer, so that links reorder. A link has to be quicker than a heartbeat, or brokers would ask
again and again for what is still on its way. Brokers crash and come back, links are cut and mended. Clients speak to
their brokers without delay.

Nothing here decides anything: all behaviour is that of `rankcast.overlay.broker`.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import numpy as np

from rankcast.model.advertisements import AdvertisementId
from rankcast.model.errors import InvalidValueError, UnknownIdError, shown
from rankcast.model.events import Event, Identity
from rankcast.model.subscriptions import Subscriber, SubscriberId, SubscriptionId, SubscriptionKey
from rankcast.model.times import later
from rankcast.overlay.broker import Broker, Settings
from rankcast.overlay.effects import Deliver, Effect, Rejected, Send
from rankcast.overlay.leases import Deadlines
from rankcast.overlay.messages import (
    Advertise,
    Alive,
    ClientMessage,
    Connect,
    CountQuery,
    Forward,
    Interest,
    Message,
    Packet,
    Publish,
    Session,
    Subscribe,
    Unsubscribe,
    encoded,
)
from rankcast.overlay.simulation.topologies import Topology
from rankcast.overlay.snapshots import restored, snapshot

START = datetime(2026, 1, 1, tzinfo=UTC)
NO_TIME = timedelta(0)
_SESSION = Session(0, 0)
KNOWN_SIZES = 4096
"""Sizes of messages that are remembered: more than are on their way with one event."""


def check_links(topology: Topology, settings: Settings, jitter: timedelta = NO_TIME) -> None:
    """Raise InvalidValueError when a message may be on its way for as long as a heartbeat."""
    for link in topology.links:
        slowest = link.delay + jitter
        if slowest >= settings.heartbeat:
            raise InvalidValueError(
                f"from {shown(link.one)} to {shown(link.other)} a message may take {slowest.total_seconds():g} s; "
                f"expected less than a heartbeat, {settings.heartbeat.total_seconds():g} s"
            )


class Sizes:
    """The bytes of messages. An interest is written once, however many links it goes over, and so is an event."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], tuple[object, int]] = {}
        """Sizes of packets without session and number, and what each holds: while it is kept, its id is its own."""

    def of(self, message: Packet | Connect | Alive) -> int:
        """Return how many bytes a message has on the wire."""
        if not isinstance(message, Packet):
            return len(encoded(message))
        inner = message.message
        held: Interest | Event
        match inner:
            case Forward(held, (), hides):
                rest: tuple[object, ...] = (hides,)
            case Publish(advertisement, held, k, targets):
                rest = advertisement, k, targets
            case CountQuery(advertisement, held):
                rest = (advertisement,)
            case _:
                return len(encoded(message))
        key = (type(inner), id(held), *rest)
        if key not in self._known:
            if len(self._known) >= KNOWN_SIZES:
                self._known.clear()
            self._known[key] = held, len(encoded(Packet(_SESSION, 0, inner))) - len(str(_SESSION)) - 1
        return self._known[key][1] + len(str(message.session)) + len(str(message.number))


@dataclass(slots=True)
class Measures:
    """Counts of one simulation, or since they were last cleared.

    `messages` and `bytes` are by the name of the message; `over_links` counts messages by (from, to), `events_over`
    those of them that carry an event; `handled` and `busy` are, by broker, how many messages it took in and how many
    seconds that kept it; `rejected` is by reason.
    """

    messages: Counter[str] = field(default_factory=Counter)
    bytes: Counter[str] = field(default_factory=Counter)
    over_links: Counter[tuple[str, str]] = field(default_factory=Counter)
    events_over: Counter[tuple[str, str]] = field(default_factory=Counter)
    handled: Counter[str] = field(default_factory=Counter)
    busy: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)
    published: int = 0
    deliveries: Counter[SubscriptionKey] = field(default_factory=Counter)
    latencies: list[float] = field(default_factory=list)
    hops: Counter[int] = field(default_factory=Counter)

    @property
    def delivered(self) -> int:
        """How many deliveries there were."""
        return len(self.latencies)

    def latency(self, share: float) -> float:
        """Return the seconds from publication to delivery that this share of the deliveries took at most.

        >>> Measures(latencies=[0.1, 0.2, 0.9]).latency(0.5)
        0.2
        """
        return float(np.quantile(self.latencies, share)) if self.latencies else 0.0


class Simulation:
    """An overlay of brokers. `measures` counts what happens; `delivered` is told of every delivery, if given."""

    def __init__(
        self,
        topology: Topology,
        settings: Settings,
        *,
        seed: int = 0,
        start: datetime = START,
        stopwatch: Callable[[], float] | None = None,
        jitter: timedelta = NO_TIME,
        delivered: Callable[[str, Deliver], object] | None = None,
    ) -> None:
        check_links(topology, settings, jitter)
        self.topology = topology
        self.settings = settings
        self.now = start
        self.measures = Measures()
        self.brokers: dict[str, Broker] = {}
        self._seed = seed
        self._stopwatch = stopwatch
        self._jitter = jitter
        self._random = np.random.default_rng([seed, 0])
        self._told = delivered
        self._sizes = Sizes()
        self._arrivals: list[tuple[datetime, int, str, str, Message]] = []
        self._to_settle = 0
        self._ticks = Deadlines[str]()
        self._number = 0
        self._free_at: dict[str, datetime] = {}
        self._kept: dict[str, tuple[bytes | None, int]] = {}
        self._cut: set[tuple[str, str]] = set()
        self._homes: dict[str, str] = {}
        self._published: dict[Identity, tuple[datetime, str]] = {}
        for number, name in enumerate(topology.brokers):
            self.brokers[name] = Broker(name, settings, np.random.default_rng([seed, 1, number]))
        for link in topology.links:
            self._join(link.one, link.other)
        self.settle()

    # Clients

    def subscribe(self, broker: str, subscriber: Subscriber, lease: timedelta | None = None) -> None:
        """Let a subscriber join at a broker, or change."""
        self._homes[subscriber.id] = broker
        self.say(broker, _client(subscriber.id), Subscribe(subscriber, lease))

    def unsubscribe(self, subscriber: str) -> None:
        """Let a subscriber leave."""
        home = self._homes.pop(subscriber, None)
        if home is None:
            raise UnknownIdError(f"there is no subscriber {shown(subscriber)}")
        self.say(home, _client(subscriber), Unsubscribe(SubscriberId(subscriber)))

    def read(self, subscriber: str, subscription: str | None = None) -> list[Deliver]:
        """Return the current list of a subscriber, the best first; a broker that is down shows none."""
        home = self._homes.get(subscriber)
        if home is None:
            raise UnknownIdError(f"there is no subscriber {shown(subscriber)}")
        if home not in self.brokers:
            return []
        name = None if subscription is None else SubscriptionId(subscription)
        return self.brokers[home].subscribers.read(SubscriberId(subscriber), name, self.now)

    def advertise(self, broker: str, advertise: Advertise) -> None:
        """Let a publisher announce itself at a broker; its client has the name of the advertisement."""
        self.say(broker, _publisher(advertise.advertisement.id), advertise)

    def publish(self, broker: str, advertisement: AdvertisementId, event: Event, k: int | None = None) -> None:
        """Let a publisher publish."""
        self._published[event.identity] = (self.now, broker)
        self.measures.published += 1
        self.say(broker, _publisher(advertisement), Publish(advertisement, event, k))

    def say(self, broker: str, client: str, message: ClientMessage) -> None:
        """Let a client say something to its broker; a broker that is down hears nothing."""
        if broker in self.brokers:
            self._handle(broker, client, message)
        elif broker not in self._kept:
            raise UnknownIdError(f"there is no broker {shown(broker)}")

    # Time

    def settle(self, until: datetime | None = None) -> None:
        """Let everything that is on its way arrive, and what follows from it; but for heartbeats, which never end.

        With `until`, as far as at that instant.
        """
        while self._to_settle and (until is None or self._arrivals[0][0] <= until):
            self._once()

    def run_until(self, instant: datetime) -> None:
        """Let time pass, with heartbeats, leases and timers, as far as before an instant."""
        while (due := self._next_due()) is not None and due < instant:
            self._once()
        self.now = max(self.now, instant)

    def run_for(self, duration: timedelta) -> None:
        """Let so much time pass, its last instant included."""
        end = later(self.now, duration)
        while (due := self._next_due()) is not None and due <= end:
            self._once()
        self.now = end

    def finish(self) -> None:
        """End the input: let the subscribers' open periods and windows be completed."""
        for name, broker in self.brokers.items():
            self._do(name, broker.finish(), self.now)

    def _next_due(self) -> datetime | None:
        """Return when something happens next."""
        arrival = self._arrivals[0][0] if self._arrivals else None
        return min((instant for instant in (arrival, self._ticks.next) if instant is not None), default=None)

    def _once(self) -> None:
        """Let the next thing happen; at one instant messages arrive first, for a broker's own time closes it."""
        due = self._next_due()
        if due is None:
            return
        self.now = max(self.now, due)
        if self._arrivals and self._arrivals[0][0] <= self.now:
            _, _, here, there, message = heapq.heappop(self._arrivals)
            self._to_settle -= not isinstance(message, Alive)
            if there in self.brokers and (here, there) not in self._cut:
                self._handle(there, here, message)
            return
        name = self._ticks.pop()
        self._do(name, self.brokers[name].tick(self.now), self.now)

    def _set_tick(self, name: str) -> None:
        """Note when a broker has something to do by itself."""
        instant = self.brokers[name].next_instant
        if instant is None:
            self._ticks.drop(name)
        else:
            self._ticks.put(name, instant)

    # Failures

    def cut(self, one: str, other: str) -> None:
        """Lose a link, with everything on its way."""
        self.topology.link(one, other)
        self._cut |= {(one, other), (other, one)}
        self._lose(lambda here, there: {here, there} == {one, other})
        for here, there in ((one, other), (other, one)):
            if here in self.brokers:
                self._do(here, self.brokers[here].disconnect(there, self.now), self.now)

    def mend(self, one: str, other: str) -> None:
        """Repair a link."""
        if (one, other) not in self._cut:
            raise InvalidValueError(f"the link between {shown(one)} and {shown(other)} is not cut")
        self._cut -= {(one, other), (other, one)}
        self._join(one, other)

    def crash(self, broker: str, *, keeps_state: bool = False) -> None:
        """Stop a broker: what is on its way to it is lost, and its state too unless it was kept on disk."""
        crashed = self._broker(broker)
        self._kept[broker] = (snapshot(crashed) if keeps_state else None, crashed.incarnation)
        del self.brokers[broker]
        self._ticks.drop(broker)
        self._lose(lambda here, there: broker in (here, there))
        for neighbour in self.topology.neighbours(broker):
            if neighbour in self.brokers and (neighbour, broker) not in self._cut:
                self._do(neighbour, self.brokers[neighbour].disconnect(broker, self.now), self.now)

    def restart(self, broker: str) -> None:
        """Start a crashed broker again. Without kept state its clients have to come again."""
        if broker not in self._kept:
            raise InvalidValueError(f"broker {shown(broker)} has not crashed")
        kept, incarnation = self._kept.pop(broker)
        if kept is not None:
            self.brokers[broker] = restored(kept, incarnation=incarnation + 1)
        else:
            random = np.random.default_rng([self._seed, 1, self.topology.brokers.index(broker), incarnation])
            self.brokers[broker] = Broker(broker, self.settings, random, incarnation=incarnation + 1)
        for neighbour in self.topology.neighbours(broker):
            if (neighbour, broker) not in self._cut:
                self._join(neighbour, broker)

    # Looking at it

    def table_sizes(self) -> dict[str, int]:
        """Return how many interests each broker knows, its own subscribers' included."""
        return {name: len(broker.routing.table) for name, broker in self.brokers.items()}

    def received(self, broker: str) -> int:
        """Return how many interests a broker was told by its neighbours."""
        table = self._broker(broker).routing.table
        return len(table) - len(table.of(None))

    def matching_work(self) -> dict[str, tuple[int, int]]:
        """Return, for each broker, how many interests were searched and how many found, over all events."""
        return {
            name: (broker.routing.table.searched, broker.routing.table.found) for name, broker in self.brokers.items()
        }

    def _broker(self, name: str) -> Broker:
        if name not in self.brokers:
            raise UnknownIdError(f"there is no running broker {shown(name)}")
        return self.brokers[name]

    def _join(self, one: str, other: str) -> None:
        for here, there in ((one, other), (other, one)):
            if one in self.brokers and other in self.brokers:
                self._do(here, self.brokers[here].connect(there, self.now), self.now)

    def _lose(self, is_lost: Callable[[str, str], bool]) -> None:
        self._arrivals = [arrival for arrival in self._arrivals if not is_lost(arrival[2], arrival[3])]
        heapq.heapify(self._arrivals)
        self._to_settle = sum(not isinstance(message, Alive) for *_, message in self._arrivals)

    def _handle(self, name: str, link: str, message: Message) -> None:
        broker = self.brokers[name]
        began = 0.0 if self._stopwatch is None else self._stopwatch()
        effects = broker.handle(message, link, self.now)
        took = 0.0 if self._stopwatch is None else self._stopwatch() - began
        self.measures.handled[name] += 1
        done = self.now
        if took:
            done = max(self.now, self._free_at.get(name, self.now)) + timedelta(seconds=took)
            self._free_at[name] = done
            self.measures.busy[name] += took  # type: ignore[assignment]
        self._do(name, effects, done)

    def _do(self, name: str, effects: Iterable[Effect], done: datetime) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                self._send(name, effect, done)
            elif isinstance(effect, Deliver):
                self._deliver(name, effect, done)
            elif isinstance(effect, Rejected):
                self.measures.rejected[effect.reason.value] += 1
        self._set_tick(name)

    def _send(self, here: str, send: Send, done: datetime) -> None:
        message, there = send.message, send.link
        inner = message.message if isinstance(message, Packet) else message
        kind = type(inner).__name__
        self.measures.messages[kind] += 1
        self.measures.bytes[kind] += self._sizes.of(message)
        self.measures.over_links[here, there] += 1
        if isinstance(inner, Publish):
            self.measures.events_over[here, there] += 1
        arrival = later(done, self.topology.link(here, there).delay)
        if self._jitter:
            arrival = later(arrival, self._jitter * self._random.random())
        self._number += 1
        self._to_settle += not isinstance(message, Alive)
        heapq.heappush(self._arrivals, (arrival, self._number, here, there, message))

    def _deliver(self, name: str, deliver: Deliver, done: datetime) -> None:
        published, origin = self._published.get(deliver.event.identity, (done, name))
        self.measures.latencies.append((done - published).total_seconds())
        self.measures.hops[self.topology.hops(origin, name)] += 1
        for subscription in deliver.matched:
            self.measures.deliveries[SubscriptionKey(deliver.subscriber, subscription)] += 1
        if self._told is not None:
            self._told(name, deliver)


def _client(subscriber: str) -> str:
    """Return the link of a subscriber: not that of a broker with the same name."""
    return f"subscriber {subscriber}"


def _publisher(name: AdvertisementId) -> str:
    return f"publisher {name}"
