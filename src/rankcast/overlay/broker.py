"""A broker: messages and the passing of time in, effects out. No sockets, no threads, no clock of its own.

Links to neighbours are named by whoever runs the broker and announced with `connect`; messages over any other link are
those of clients. Every message is taken whole or rejected with a reason and without a trace (but for its number, when
it came in a packet). Brokers need no common clock: a lease, a heartbeat and a count run by the clock of who waits.
The overlay is a tree of brokers; nothing is assumed of the order of messages over different links, and little of that
over one (see `links`).

A neighbour that is silent for longer than `link_lease` is lost, with everything it told. Until then what it told still
counts, so that a short interruption changes no routes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import numpy as np

from rankcast.covering.group.cover import DEFAULT_CHECKING, Checking
from rankcast.delivery.stream.lateness import Remembered
from rankcast.model.advertisements import AdvertisementId
from rankcast.model.errors import InvalidMessageError, RankcastError, UnknownIdError, shown
from rankcast.model.events import Event, Identity
from rankcast.model.subscriptions import SubscriberId, SubscriptionKey
from rankcast.model.times import LATEST, TICK, later
from rankcast.overlay.effects import Effect, Listed, Reason, RefusedError, Rejected, Send
from rankcast.overlay.leases import Deadlines, Lease, Leased, LeaseKind, Leases, Room
from rankcast.overlay.links import Inbox, Neighbour
from rankcast.overlay.local_subscribers import LocalSubscribers
from rankcast.overlay.messages import (
    MAX_BYTES,
    MAX_PACKET_BYTES,
    Advertise,
    Alive,
    Connect,
    CountQuery,
    CountReply,
    Forward,
    Message,
    Packet,
    PeerMessage,
    Publish,
    Read,
    Renew,
    Reset,
    Subscribe,
    Synced,
    Terms,
    Unadvertise,
    Unsubscribe,
    Weigh,
    Withdraw,
    check_number,
    decoded,
)
from rankcast.overlay.publishing import Publishing, PublishOutcome
from rankcast.overlay.routing.interests import Source
from rankcast.overlay.routing.state import Routing, Told
from rankcast.overlay.routing.strategies import Strategy, Weighing

REMEMBERED = 100_000
"""Identities of events that a broker remembers at least, to recognise a repeated one: some 20 MB."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How a broker routes, and how long it waits.

    `lease` is that of clients who ask for none; None lets them stay for ever. `weigh` tells neighbours at each
    heartbeat which weights have changed; else weights travel with forwarded subscriptions alone, and grow stale.
    `group` says how GroupCover decides: exactly within a budget of work, or by the paper's RSPC, which may be wrong.
    `client_subscriptions` and `subscriptions` are how many one client may have, and all clients together; the same of
    advertisements.
    """

    strategy: Strategy = Strategy.REGULAR_COVER
    weighing: Weighing = Weighing.SPLIT
    weigh: bool = True
    group: Checking = DEFAULT_CHECKING
    heartbeat: timedelta = timedelta(seconds=5)
    link_lease: timedelta = timedelta(seconds=30)
    lease: timedelta | None = None
    count_time: timedelta = timedelta(seconds=2)
    client_subscriptions: int = 100_000
    subscriptions: int = 1_000_000
    client_advertisements: int = 1_000
    advertisements: int = 100_000

    def __post_init__(self) -> None:
        for name in ("client_subscriptions", "subscriptions", "client_advertisements", "advertisements"):
            check_number(name, getattr(self, name))


class Broker:
    """One broker; `incarnation` has to grow whenever it starts again without all of its state."""

    def __init__(self, name: str, settings: Settings, random: np.random.Generator, *, incarnation: int = 1) -> None:
        self.name = name
        self.settings = settings
        self.terms = Terms(settings.strategy, settings.weighing)
        self.incarnation = incarnation
        self.random = random
        self.routing = Routing(settings.strategy, settings.weighing, settings.group)
        self.publishing = Publishing(self.routing, random, self._listens)
        self.leases = Leases()
        self.subscribers = LocalSubscribers(lambda name: self.leases.client(Leased(LeaseKind.SUBSCRIBER, name)))
        self.neighbours: dict[str, Neighbour] = {}
        self.seen = Remembered()
        self.count_ends = Deadlines[Identity]()

    def connect(self, link: str, now: datetime) -> list[Effect]:
        """A link to a neighbour is there, for the first time or again."""
        neighbour = self.neighbours.get(link)
        if neighbour is None:
            neighbour = self.neighbours[link] = Neighbour(Inbox(self.incarnation))
            self.routing.join(link)
        neighbour.is_up, neighbour.heard, neighbour.beat = True, now, later(now, self.settings.heartbeat)
        return [Send(link, neighbour.inbox.ask(self.terms))]

    def disconnect(self, link: str, now: datetime) -> list[Effect]:
        """A link to a neighbour is lost: nothing goes over it until it is connected again."""
        neighbour = self.neighbours.get(link)
        if neighbour is None:
            raise UnknownIdError(f"there is no neighbour at {shown(link)}")
        neighbour.is_up, neighbour.heard = False, min(neighbour.heard, now)
        neighbour.outbox.silence()
        return self._go_on_without(frozenset({link}), self.publishing.unfinished, now)

    def receive(self, data: bytes, link: str, now: datetime) -> list[Effect]:
        """Take a message in as bytes."""
        try:
            message = decoded(data, MAX_PACKET_BYTES if link in self.neighbours else MAX_BYTES)
        except InvalidMessageError as error:
            return [_rejection(link, error)]
        return self.handle(message, link, now)

    def handle(self, message: Message, link: str, now: datetime) -> list[Effect]:
        """Take a message in; return what is to be done."""
        try:
            neighbour = self.neighbours.get(link)
            if neighbour is not None:
                return self._from_neighbour(message, link, neighbour, now)
            if isinstance(message, Packet | Connect | Alive):
                raise RefusedError(Reason.WRONG_LINK, f"a {type(message).__name__} from a client")
            return self._from_client(message, link, now)
        except RankcastError as error:
            return [_rejection(link, error)]

    def tick(self, now: datetime) -> list[Effect]:
        """Let time pass: leases end, silent neighbours are lost, heartbeats go out, queues deliver."""
        effects: list[Effect] = []
        for leased in self.leases.ends.take_ended(now):
            effects += self._end(leased)
        for link, neighbour in self.neighbours.items():
            if now - neighbour.heard > self.settings.link_lease:
                effects += self._lose(link, neighbour, now)
            if neighbour.is_up and neighbour.beat <= now:
                effects += self._beat(link, neighbour, now)
        effects += self._go_on_without(None, self.count_ends.take_ended(now), now)
        return effects + list(self.subscribers.due(now))

    def finish(self) -> list[Effect]:
        """End the input of the broker's subscribers: open periods and windows are completed."""
        return list(self.subscribers.finish())

    @property
    def next_instant(self) -> datetime | None:
        """When `tick` has something to do, as far as is known."""
        instants = [self.leases.ends.next, self.subscribers.next_instant, self.count_ends.next]
        for neighbour in self.neighbours.values():
            instants.append(neighbour.beat if neighbour.is_up else None)
            if neighbour.heard < LATEST:
                instants.append(later(neighbour.heard, self.settings.link_lease + TICK))
        return min((instant for instant in instants if instant is not None), default=None)

    # Neighbours

    def _from_neighbour(self, message: Message, link: str, neighbour: Neighbour, now: datetime) -> list[Effect]:
        if isinstance(message, Packet):
            messages = neighbour.inbox.take(message)
            self._hear(neighbour, now)
            return [effect for due in messages for effect in self._due_message(due, link, neighbour, now)]
        if isinstance(message, Connect):
            return self._begin_session(message, link, neighbour, now)
        if isinstance(message, Alive):
            self._hear(neighbour, now)
            neighbour.inbox.note(message)
            return []
        raise RefusedError(Reason.WRONG_LINK, f"a {type(message).__name__} outside a packet from a neighbour")

    def _hear(self, neighbour: Neighbour, now: datetime) -> None:
        """Take note that a neighbour is there. The next heartbeat is soon, even when the clock has been set back."""
        neighbour.heard = now
        neighbour.beat = min(neighbour.beat, later(now, self.settings.heartbeat))

    def _begin_session(self, connect: Connect, link: str, neighbour: Neighbour, now: datetime) -> list[Effect]:
        """Begin the session that a neighbour asks for; ask for another one too when it has lost its state.

        A neighbour on other terms is told nothing, and refuses this broker in turn.
        """
        inbox = neighbour.inbox
        if inbox.peer is not None and connect.session.incarnation < inbox.peer:
            raise RefusedError(Reason.REPLAY, f"session {tuple(connect.session)} is of an earlier incarnation")
        if not neighbour.outbox.begin(connect.session):
            raise RefusedError(Reason.REPLAY, f"session {tuple(connect.session)} was asked for before")
        if connect.terms != self.terms:
            neighbour.outbox.silence()
            differences = self.terms.differences(connect.terms)
            raise RefusedError(Reason.DISAGREEMENT, f"neighbours need the same terms: {differences}")
        self._hear(neighbour, now)
        effects: list[Effect] = []
        before, inbox.peer = inbox.peer, connect.session.incarnation
        if not neighbour.is_up:
            effects += self.connect(link, now)
        elif before is not None and before != inbox.peer and inbox.next:
            effects.append(Send(link, inbox.ask(self.terms)))
        state: list[PeerMessage] = [Reset(), *self.routing.announce_all(link), Synced()]
        return effects + self._send([(link, message) for message in state])

    def _due_message(self, message: PeerMessage, link: str, neighbour: Neighbour, now: datetime) -> list[Effect]:
        """Take in what comes next from a neighbour; what is rejected does not stop what follows."""
        try:
            return self._peer_message(message, link, neighbour, now)
        except RankcastError as error:
            return [_rejection(link, error)]

    def _peer_message(self, message: PeerMessage, link: str, neighbour: Neighbour, now: datetime) -> list[Effect]:
        match message:
            case Reset():
                self.routing.begin(link)
            case Synced():
                neighbour.inbox.is_synced = True
                return self._send(self.routing.sweep(link))
            case Advertise():
                return self._send(self.routing.advertise(link, message))
            case Unadvertise():
                return self._send(self.routing.unadvertise(link, message.advertisement))
            case Forward():
                return self._send(self.routing.forward(link, message.interest, message.weights, hides=message.hides))
            case Withdraw():
                return self._send(self.routing.withdraw(link, (message.key,)))
            case Weigh():
                self.routing.weigh(link, message)
            case Publish():
                return self._pass_on(message, link, now)
            case CountQuery():
                return self._count(message, link, now)
            case CountReply():
                return self._carry_out(self.publishing.take_reply(link, message), now)
        return []

    def _beat(self, link: str, neighbour: Neighbour, now: datetime) -> list[Effect]:
        neighbour.beat = later(now, self.settings.heartbeat)
        effects = self._send(self.routing.recheck_hidden(link))
        if self.settings.weigh:
            effects += self._send(self.routing.new_weights(link))
        if neighbour.outbox.session is not None:
            effects.append(Send(link, Alive(neighbour.outbox.session, neighbour.outbox.sent)))
        if not neighbour.inbox.check_progress():
            effects.append(Send(link, neighbour.inbox.ask(self.terms)))
        return effects

    def _lose(self, link: str, neighbour: Neighbour, now: datetime) -> list[Effect]:
        """Forget everything that a silent neighbour told; it has to tell it from the beginning when it is back."""
        neighbour.heard = LATEST
        connect = neighbour.inbox.ask(self.terms)
        self.routing.begin(link)
        effects = self._send(self.routing.sweep(link))
        effects += self._go_on_without(frozenset({link}), self.publishing.unfinished, now)
        return [*effects, Send(link, connect)] if neighbour.is_up else effects

    # Clients

    def _from_client(self, message: Message, link: str, now: datetime) -> list[Effect]:
        match message:
            case Subscribe():
                return self._subscribe(message, link, now)
            case Unsubscribe():
                return self._give_back(Leased(LeaseKind.SUBSCRIBER, message.subscriber), link)
            case Advertise():
                return self._advertise(message, link, now)
            case Unadvertise():
                return self._give_back(Leased(LeaseKind.ADVERTISEMENT, message.advertisement), link)
            case Publish():
                return self._publish(message, link, now)
            case Renew():
                self.leases.renew(link, now)
            case Read():
                return self._read(message, link, now)
        return []

    def _read(self, message: Read, client: str, now: datetime) -> list[Effect]:
        self.leases.check(client, Leased(LeaseKind.SUBSCRIBER, message.subscriber))
        entries = self.subscribers.read(message.subscriber, message.subscription, now)
        return [Listed(client, message.subscriber, tuple(entries))]

    def _subscribe(self, message: Subscribe, client: str, now: datetime) -> list[Effect]:
        subscriber = message.subscriber
        leased = Leased(LeaseKind.SUBSCRIBER, subscriber.id)
        size = len(subscriber.subscriptions)
        self.leases.check(client, leased)
        room = Room("subscriptions", self.settings.client_subscriptions, self.settings.subscriptions)
        self.leases.check_room(client, leased, size, room)
        known = self.subscribers.subscriber(subscriber.id)
        before = set() if known is None else {subscription.id for subscription in known.subscriptions}
        lease = Lease.begin(client, message.lease or self.settings.lease, now, size)
        interests = self.subscribers.subscribe(subscriber, now)
        self.leases.put(leased, lease)
        told = [message for interest in interests for message in self.routing.forward(None, interest)]
        gone = before - {subscription.id for subscription in subscriber.subscriptions}
        told += self.routing.withdraw(None, [SubscriptionKey(subscriber.id, name) for name in sorted(gone)])
        return self._send(told)

    def _advertise(self, message: Advertise, client: str, now: datetime) -> list[Effect]:
        leased = Leased(LeaseKind.ADVERTISEMENT, message.advertisement.id)
        self.leases.check(client, leased)
        room = Room("advertisements", self.settings.client_advertisements, self.settings.advertisements)
        self.leases.check_room(client, leased, 1, room)
        told = self.routing.advertise(None, message)
        self.leases.put(leased, Lease.begin(client, message.lease or self.settings.lease, now))
        return self._send(told)

    def _give_back(self, leased: Leased, client: str) -> list[Effect]:
        self.leases.check(client, leased)
        return self._end(leased)

    def _end(self, leased: Leased) -> list[Effect]:
        """End what a client has."""
        if leased.kind is LeaseKind.SUBSCRIBER:
            gone = self.subscribers.leave(SubscriberId(leased.id))
            keys = [SubscriptionKey(gone.id, subscription.id) for subscription in gone.subscriptions]
            told = self.routing.withdraw(None, keys)
        else:
            told = self.routing.unadvertise(None, AdvertisementId(leased.id))
        self.leases.drop(leased)
        return self._send(told)

    # Events

    def _publish(self, message: Publish, client: str, now: datetime) -> list[Effect]:
        """Take an event from the client that advertised it."""
        self.leases.check(client, Leased(LeaseKind.ADVERTISEMENT, message.advertisement))
        advertise, event = self._permit(message.advertisement, message.event.stamped(now), None)
        most = advertise.advertisement.k
        if message.targets is not None:
            raise RefusedError(Reason.UNSUPPORTED, "a publisher cannot name its audience")
        if message.k is not None and (most is None or message.k > most):
            raise RefusedError(Reason.OUTSIDE, f"k: {message.k} is more than the advertised {most}")
        k = most if message.k is None else message.k
        return self._take(Publish(message.advertisement, event, k), advertise, None, now)

    def _pass_on(self, message: Publish, link: str, now: datetime) -> list[Effect]:
        """Take an event from the neighbour that its advertisement came from."""
        advertise, event = self._permit(message.advertisement, message.event, link)
        most = advertise.advertisement.k
        if (message.k is None) != (most is None) or (message.k or 0) > (most or 0):
            raise RefusedError(Reason.OUTSIDE, f"k: {message.k}, but {most} is advertised")
        if message.targets is not None and len(message.targets) > (message.k or 0):
            raise RefusedError(Reason.OUTSIDE, f"an audience of {len(message.targets)}, but k is {message.k}")
        return self._take(replace(message, event=event), advertise, link, now)

    def _permit(self, name: AdvertisementId, event: Event, source: Source) -> tuple[Advertise, Event]:
        """Return the advertisement that permits an event from a source, and the event in the types it declares."""
        advertise = self.routing.advertisement(source, name)
        if advertise is None:
            raise RefusedError(Reason.WRONG_LINK, f"no advertisement {shown(name)} has come from there")
        event = event.conformed(advertise.advertisement.schema)
        if not advertise.advertisement.permits(event):
            raise RefusedError(Reason.OUTSIDE, f"event {tuple(event.identity)} is not what {shown(name)} advertises")
        if event.identity in self.seen:
            raise RefusedError(Reason.REPLAY, f"event {tuple(event.identity)} has come before")
        return advertise, event

    def _take(self, message: Publish, advertise: Advertise, source: Source, now: datetime) -> list[Effect]:
        outcome = self.publishing.publish(source, message, advertise)
        self.seen.add(message.event.identity, now)
        self.seen.forget(now, at_least=REMEMBERED, span=timedelta(0))
        return self._carry_out(outcome, now)

    def _count(self, query: CountQuery, link: str, now: datetime) -> list[Effect]:
        advertise, event = self._permit(query.advertisement, query.event, link)
        strategy = self.routing.strategy_of(advertise)
        if strategy is not Strategy.EXACT_FAIR or advertise.advertisement.k is None:
            raise RefusedError(Reason.UNSUPPORTED, f"{strategy.value} does not count")
        return self._carry_out(self.publishing.count(link, replace(query, event=event), advertise), now)

    def _carry_out(self, outcome: PublishOutcome, now: datetime) -> list[Effect]:
        """Send and deliver what an event has led to."""
        effects = self._send(outcome.told)
        if outcome.event is not None:
            self.count_ends.drop(outcome.event.identity)
            effects += self.subscribers.deliver(outcome.event, outcome.own, now)
        for _, message in outcome.told:
            if isinstance(message, CountQuery):
                self.count_ends.put(message.event.identity, later(now, self.settings.count_time))
            elif isinstance(message, CountReply):  # who asked waits for others as long, and then sends the share
                self.count_ends.put(Identity(message.source, message.id), now + 2 * self.settings.count_time)
        return effects

    def _go_on_without(self, links: frozenset[str] | None, events: Iterable[Identity], now: datetime) -> list[Effect]:
        """Go on with events without the counts of some links, or of all that have not answered."""
        effects: list[Effect] = []
        for identity in list(events):
            effects += self._carry_out(self.publishing.give_up(identity, links), now)
        return effects

    def _listens(self, link: str) -> bool:
        return self.neighbours[link].outbox.session is not None

    def _send(self, told: Told) -> list[Effect]:
        effects: list[Effect] = []
        for link, message in told:
            packet = self.neighbours[link].outbox.packet(message)
            if packet is not None:
                effects.append(Send(link, packet))
        return effects


def _rejection(link: str, error: RankcastError) -> Rejected:
    reason = error.reason if isinstance(error, RefusedError) else Reason.MALFORMED
    return Rejected(link, reason, str(error))
