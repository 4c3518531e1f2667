"""The subscribers of a broker: events that come for their subscriptions go through their delivery policies.

A publisher's k decides which subscriptions an event comes for; the subscriber's policy, with its own k, decides which
of these events are delivered, and when. All subscriptions of a subscriber share one queue, but those with a policy of
their own. Queues are made when the first event comes.

What a policy delivers is handed over at once, gathered at the ends of periods, or left to be read. Policies take events
as they arrive: time is the broker's own, and an event that comes behind a later one is taken then, as by a hub that
keeps nothing back.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime

from rankcast.delivery.candidates import Candidate, Delivered
from rankcast.delivery.contents import content_for
from rankcast.delivery.gathering import current, handed_over
from rankcast.delivery.policies import new_queue, with_candidates, with_policy
from rankcast.delivery.queues import Queue
from rankcast.delivery.running import RunningQueue, running
from rankcast.matching.naive import matches
from rankcast.model.errors import shown
from rankcast.model.events import Event, Identity
from rankcast.model.notifying import AtOnce, Gathered
from rankcast.model.policies import AllMatches, Policy
from rankcast.model.subscriptions import Subscriber, SubscriberId, Subscription, SubscriptionId, SubscriptionKey
from rankcast.model.times import LATEST
from rankcast.overlay.effects import Deliver, Reason, RefusedError
from rankcast.overlay.messages import Interest
from rankcast.ranking.preferences import Preferences, Ranked


@dataclass(frozen=True, slots=True)
class Held:
    """An event in a queue, with its rank and the subscriptions that brought it there."""

    event: Event
    rank: float
    matched: tuple[SubscriptionId, ...]


@dataclass(slots=True, eq=False)
class SeatQueue:
    """One queue of a subscriber, and what is known of the events in it."""

    policy: Policy
    moving: RunningQueue
    held: dict[Identity, Held] = field(default_factory=dict)
    timer: datetime | None = None


@dataclass(slots=True, eq=False)
class Seat:
    """A subscriber with its queues, and the link of the client whose it is."""

    client: str
    subscriber: Subscriber
    preferences: Preferences
    queues: dict[SubscriptionId | None, SeatQueue] = field(default_factory=dict)
    gathered: list[Deliver] = field(default_factory=list)
    """What waits to be handed over, in the order in which it will be."""

    def notified(self, delivered: list[Deliver]) -> list[Deliver]:
        """Return what of some deliveries is handed over at once; gather the rest, or leave it to be read."""
        notify = self.subscriber.notify
        if isinstance(notify, AtOnce):
            return delivered
        if isinstance(notify, Gathered):
            self.gathered += (replace(one, gathered=handed_over(notify, one.time)) for one in delivered)
            self.gathered.sort(key=_handed_over)
        return []

    def gathered_until(self, now: datetime) -> list[Deliver]:
        """Hand over what was gathered in periods that have ended."""
        ended = bisect_right(self.gathered, now, key=_handed_over)
        handed, self.gathered = self.gathered[:ended], self.gathered[ended:]
        return handed

    def ranked(self, event: Event, matched: Collection[SubscriptionId]) -> Ranked | None:
        """Return the rank of an event; None when it is relevant to none of the subscriptions."""
        return self.preferences.ranked(event, matched)

    def candidate(self, policy: Policy, held: Held, now: datetime) -> Candidate:
        """Return an event as it competes for delivery."""
        event, time = held.event, held.event.time or now
        expires = self.preferences.expires(held.matched, time, event.expires)
        score = self.preferences.score(held.rank, time)
        return Candidate(event.identity, time, score, expires, content_for(policy, event.attributes))


class Desk:
    """The subscribers of a broker, and what their queues deliver."""

    def __init__(self) -> None:
        self.seats: dict[SubscriberId, Seat] = {}
        self._timers: list[tuple[datetime, str, str, SubscriptionId | None]] = []
        self._handovers: list[tuple[datetime, SubscriberId]] = []

    def welcome(self, subscriber: Subscriber, client: str, now: datetime) -> list[Interest]:
        """Take a client's subscriber in, or as it is from now on; return what others must know of its subscriptions."""
        preferences = Preferences.of(subscriber)
        # First what may be refused: a filter can be too large with its time bounds. Then nothing has changed.
        interests = [Interest.of(subscriber.id, one, preferences.ranks[one.id]) for one in subscriber.subscriptions]
        known = self.seats.get(subscriber.id)
        if known is None:
            self.seats[subscriber.id] = Seat(client, subscriber, preferences)
        else:
            self._change(known, subscriber, preferences, now)
        return interests

    def leave(self, subscriber: SubscriberId) -> Subscriber:
        """Forget a subscriber, with everything held for it."""
        if subscriber not in self.seats:
            raise RefusedError(Reason.UNKNOWN, f"there is no subscriber {shown(subscriber)}")
        return self.seats.pop(subscriber).subscriber

    def deliver(self, event: Event, keys: Iterable[SubscriptionKey], now: datetime) -> list[Deliver]:
        """Let an event arrive for some subscriptions; return what is delivered by then."""
        done = self.due(now, closed=False)
        wanted: dict[tuple[SubscriberId, SubscriptionId | None], list[SubscriptionId]] = {}
        for key in keys:
            seat = self.seats.get(key.subscriber)
            one = None if seat is None else seat.subscriber.subscription(key.subscription)
            if one is not None:
                wanted.setdefault((key.subscriber, None if one.deliver is None else one.id), []).append(one.id)
        for (owner, name), matched in wanted.items():
            done += self._arrive(self.seats[owner], name, event, matched, now)
        return done

    def due(self, now: datetime, *, closed: bool = True) -> list[Deliver]:
        """Let time pass; return what queues deliver by themselves, in the order of their instants."""
        done: list[Deliver] = []
        while self._timers and (self._timers[0][0] < now or (closed and self._timers[0][0] == now)):
            instant, owner, _, name = heapq.heappop(self._timers)
            seat = self.seats.get(SubscriberId(owner))
            queue = None if seat is None else seat.queues.get(name)
            if seat is not None and queue is not None and queue.timer == instant:
                queue.timer = None
                done += self._moved(seat, name, queue, None, now, closed=closed)
        while self._handovers and self._handovers[0][0] <= now:
            seat = self.seats.get(heapq.heappop(self._handovers)[1])
            if seat is not None:
                done += seat.gathered_until(now)
                self.set_handover(seat)
        return sorted(done, key=_handed_over)

    def finished(self) -> list[Deliver]:
        """End the input: complete open periods and windows as if time went on for ever."""
        done = [
            delivery
            for seat in self.seats.values()
            for name, queue in seat.queues.items()
            for delivery in self._moved(seat, name, queue, None, LATEST, closed=True)
        ]
        done += (delivery for seat in self.seats.values() for delivery in seat.gathered_until(LATEST))
        return sorted(done, key=_handed_over)

    @property
    def next_instant(self) -> datetime | None:
        """When a queue may have something to do by itself, or something gathered is to be handed over."""
        return min((heap[0][0] for heap in (self._timers, self._handovers) if heap), default=None)

    def current(self, subscriber: SubscriberId, name: SubscriptionId | None, now: datetime) -> list[Deliver]:
        """Return the current list of a subscriber, or of one subscription with a policy of its own, the best first."""
        seat = self.seats.get(subscriber)
        policy = None if seat is None else seat.subscriber.policies.get(name)
        if seat is None or policy is None:
            what = shown(subscriber) if name is None else f"{shown(subscriber)} with a policy for {shown(name)}"
            raise RefusedError(Reason.UNKNOWN, f"there is no subscriber {what}")
        if isinstance(policy, AllMatches):
            raise RefusedError(
                Reason.UNSUPPORTED, f"subscriber {shown(subscriber)} gets all matches, of which none is held to be read"
            )
        queue = seat.queues.get(name)
        if queue is None:
            return []
        found = current(queue.moving.frozen(), now)
        return [_delivery(seat, name, queue, Delivered(one, now)) for one in found]

    def set_handover(self, seat: Seat) -> None:
        """Note when a subscriber is handed what is gathered; a note for nothing does no harm."""
        if seat.gathered:
            heapq.heappush(self._handovers, (_handed_over(seat.gathered[0]), seat.subscriber.id))

    def open(
        self, seat: Seat, name: SubscriptionId | None, queue: Queue | None = None, held: Iterable[Held] = ()
    ) -> SeatQueue:
        """Give a subscriber a queue: a new one, or one that was kept."""
        policy = seat.subscriber.policies[name]
        moving = running(new_queue(policy) if queue is None else queue)
        seat.queues[name] = made = SeatQueue(policy, moving, {one.event.identity: one for one in held})
        self._set_timer(seat, name, made)
        return made

    def _arrive(
        self, seat: Seat, name: SubscriptionId | None, event: Event, matched: list[SubscriptionId], now: datetime
    ) -> list[Deliver]:
        ordered = [one.id for one in seat.subscriber.subscriptions if one.id in matched]
        ranked = seat.ranked(event, ordered)
        queue = seat.queues.get(name)
        if queue is None:
            queue = self.open(seat, name)
        if ranked is None or event.identity in queue.moving:
            return []
        held = queue.held[event.identity] = Held(event, ranked.rank, ranked.matched)
        return self._moved(seat, name, queue, seat.candidate(queue.policy, held, now), now, closed=False)

    def _moved(
        self,
        seat: Seat,
        name: SubscriptionId | None,
        queue: SeatQueue,
        candidate: Candidate | None,
        now: datetime,
        *,
        closed: bool,
    ) -> list[Deliver]:
        delivered = queue.moving.move(candidate, now, closed=closed)
        done = [_delivery(seat, name, queue, one) for one in delivered]
        if len(queue.held) > 2 * len(queue.moving):  # now and then, so that it costs nothing on average
            queue.held = {identity: queue.held[identity] for identity in queue.moving}
        self._set_timer(seat, name, queue)
        handed = seat.notified(done)
        if len(handed) < len(done):
            self.set_handover(seat)
        return handed

    def _set_timer(self, seat: Seat, name: SubscriptionId | None, queue: SeatQueue) -> None:
        instant = queue.moving.next_instant
        if instant is not None and instant != queue.timer:
            heapq.heappush(self._timers, (instant, seat.subscriber.id, name or "", name))
        queue.timer = instant

    def _change(self, seat: Seat, after: Subscriber, preferences: Preferences, now: datetime) -> None:
        """Let a subscriber be as it is from now on: what its queues hold is matched and ranked anew, or leaves."""
        seat.subscriber, seat.preferences = after, preferences
        policies = after.policies
        seat.queues = {name: queue for name, queue in seat.queues.items() if name in policies}
        seat.gathered = [one for one in seat.gathered if one.subscription in policies]
        for name, queue in seat.queues.items():
            competing = [one for one in after.subscriptions if (None if one.deliver is None else one.id) == name]
            queue.policy = policies[name]
            changed = with_policy(queue.moving.frozen(), queue.policy)
            self._rerank(seat, queue, changed, competing, now)
            self._set_timer(seat, name, queue)

    def _rerank(
        self, seat: Seat, queue: SeatQueue, changed: Queue, competing: list[Subscription], now: datetime
    ) -> None:
        kept: dict[Identity, Held] = {}

        def reranked(candidate: Candidate) -> Candidate | None:
            event = queue.held[candidate.identity].event
            ranked = seat.ranked(event, [one.id for one in competing if matches(one, event)])
            if ranked is None:
                return None
            held = kept[candidate.identity] = Held(event, ranked.rank, ranked.matched)
            return seat.candidate(queue.policy, held, now)

        queue.moving = running(with_candidates(changed, reranked))
        queue.held = kept


def _handed_over(one: Deliver) -> datetime:
    return one.gathered or one.time


def _delivery(seat: Seat, name: SubscriptionId | None, queue: SeatQueue, delivered: Delivered) -> Deliver:
    held = queue.held[delivered.candidate.identity]
    return Deliver(seat.client, seat.subscriber.id, held.event, held.rank, held.matched, delivered.time, name)
