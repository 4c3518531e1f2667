"""The subscribers of a broker: events that come for their subscriptions go through their delivery policies.

A publisher's k decides which subscriptions an event comes for; the subscriber's policy, with its own k, decides which
of these events are delivered, and when. All subscriptions of a subscriber share one queue, but those with a policy of
their own. Queues are made when the first event comes.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime

from rankcast.delivery.candidates import Candidate, Delivered
from rankcast.delivery.contents import content_for
from rankcast.delivery.policies import new_queue, with_candidates, with_policy
from rankcast.delivery.queues import Queue
from rankcast.delivery.running import RunningQueue, running
from rankcast.matching.naive import matches
from rankcast.model.errors import shown
from rankcast.model.events import Event, Identity
from rankcast.model.notifying import AtOnce
from rankcast.model.policies import Policy
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
    """A subscriber with its queues."""

    subscriber: Subscriber
    preferences: Preferences
    queues: dict[SubscriptionId | None, SeatQueue] = field(default_factory=dict)

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

    def welcome(self, subscriber: Subscriber, now: datetime) -> list[Interest]:
        """Take a subscriber in, or as it is from now on; return what others must know of its subscriptions."""
        if not isinstance(subscriber.notify, AtOnce):
            raise RefusedError(
                Reason.UNSUPPORTED,
                f"subscriber {shown(subscriber.id)}: brokers hand over at once; gather or read with a hub",
            )
        preferences = Preferences.of(subscriber)
        known = self.seats.get(subscriber.id)
        if known is None:
            self.seats[subscriber.id] = Seat(subscriber, preferences)
        else:
            self._change(known, subscriber, preferences, now)
        return [Interest.of(subscriber.id, one, preferences.ranks[one.id]) for one in subscriber.subscriptions]

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
        return sorted(done, key=lambda one: one.time)

    def finished(self) -> list[Deliver]:
        """End the input: complete open periods and windows as if time went on for ever."""
        done = [
            delivery
            for seat in self.seats.values()
            for name, queue in seat.queues.items()
            for delivery in self._moved(seat, name, queue, None, LATEST, closed=True)
        ]
        return sorted(done, key=lambda one: one.time)

    @property
    def next_instant(self) -> datetime | None:
        """When a queue may have something to do by itself."""
        return self._timers[0][0] if self._timers else None

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
        return done

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


def _delivery(seat: Seat, name: SubscriptionId | None, queue: SeatQueue, delivered: Delivered) -> Deliver:
    held = queue.held[delivered.candidate.identity]
    return Deliver(seat.subscriber.id, held.event, held.rank, held.matched, delivered.time, name)
