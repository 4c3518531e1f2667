"""The hub: subscribers, a matching index over their subscriptions, and one queue each.

Events are processed in the order of `publish`; the index finds what they match. Time is the hub's clock, unless the
caller passes `now` (a replay passes an event's own time), and it never goes back. Policies that act when time passes do
so at the next call: `publish`, or `advance` when nothing is published. Publications with the same explicit `now` are
one instant, which is over when a later one comes; by the clock, each publication is an instant of its own.

A second publication of the same identity is ignored for as long as it is remembered (`REMEMBERED` identities). Calls
may come from several threads; one lock makes each call a whole. Callbacks run after the call's work is done and outside
the lock, so a callback may call the hub.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from threading import RLock
from typing import Any

from rankcast.delivery.policies import new_queue, with_policy
from rankcast.delivery.queues import finished
from rankcast.hub.inputs import AnyPriority, AnySubscriptions, priorities_of, rank_by_of, subscriptions_of
from rankcast.hub.members import Callback, Member
from rankcast.hub.results import CallbackError, Match, Notification, Outcome, Verdict
from rankcast.matching.builder import Entry
from rankcast.matching.explain import explain
from rankcast.matching.index import Index
from rankcast.model.errors import DuplicateIdError, InvalidEventError, UnknownIdError, shown
from rankcast.model.events import Event, Identity
from rankcast.model.policies import ALL_MATCHES, Policy
from rankcast.model.schema import Schema
from rankcast.model.subscriptions import RankBy, Subscriber, SubscriberId, SubscriptionId
from rankcast.model.times import EARLIEST
from rankcast.ranking.preferences import Preferences

REMEMBERED = 100_000
"""Identities remembered to recognise a repeated publication: some 20 MB at most."""


def utc_now() -> datetime:
    """Return the time of the system's clock."""
    return datetime.now(UTC)  # noqa: TID251 (the hub is where the clock comes in)


class Hub:
    """An engine in one process.

    >>> hub = Hub()
    >>> _ = hub.subscribe("ana", {"city = 'Porto' and rent < 900": 0.9, "rooms >= 3": 0.6})
    >>> [(note.subscriber, note.rank) for note in hub.publish({"city": "Porto", "rent": 700, "rooms": 2})]
    [('ana', 0.9)]
    """

    def __init__(
        self,
        subscribers: Iterable[Subscriber] = (),
        *,
        schema: Schema | None = None,
        clock: Callable[[], datetime] = utc_now,
        source: str = "hub",
    ) -> None:
        self._schema = schema
        self._clock = clock
        self._source = source
        self._next_id = 1
        self._numbers = count()
        self._latest = EARLIEST
        self._members: dict[SubscriberId, Member] = {}
        self._owners: dict[int, tuple[Member, SubscriptionId]] = {}
        self._timers: list[tuple[datetime, int, SubscriberId]] = []
        self._seen: OrderedDict[Identity, None] = OrderedDict()
        self._lock = RLock()
        entries = [entry for subscriber in subscribers for entry in self._welcomed(subscriber, None)]
        self._index = Index(entries)
        self._reader = self._index.reader()

    @property
    def subscribers(self) -> tuple[Subscriber, ...]:
        """The subscribers, in the order they came."""
        with self._lock:
            return tuple(member.subscriber for member in self._members.values())

    def subscribe(
        self,
        subscriber: str,
        subscriptions: AnySubscriptions,
        *,
        deliver: Policy = ALL_MATCHES,
        rank_by: RankBy | str = RankBy.MAX,
        most_specific: bool = False,
        priorities: Iterable[AnyPriority] = (),
        callback: Callback | None = None,
    ) -> Subscriber:
        """Add a subscriber.

        `subscriptions` is a filter, several filters or `Subscription`s, or a mapping from filters to preference ranks;
        a filter is a text, an expression built with `attr`, or a `Filter`. Ids are "1", "2", ... by position.
        `priorities` are texts "a before b" or pairs of ids. `callback` is called with each notification.
        """
        made = Subscriber(
            SubscriberId(subscriber),
            subscriptions_of(subscriptions, self._schema),
            deliver,
            rank_by_of(rank_by),
            most_specific,
            priorities_of(priorities),
        )
        return self.add(made, callback=callback)

    def add(self, subscriber: Subscriber, *, callback: Callback | None = None) -> Subscriber:
        """Add a subscriber that is made already, such as one from a subscriber file."""
        with self._lock:
            for entry in self._welcomed(subscriber, callback):
                self._index.add(entry)
            return self._members[subscriber.id].subscriber

    def update(
        self,
        subscriber: str,
        *,
        subscriptions: AnySubscriptions | None = None,
        deliver: Policy | None = None,
        rank_by: RankBy | str | None = None,
        most_specific: bool | None = None,
        priorities: Iterable[AnyPriority] | None = None,
    ) -> Subscriber:
        """Change what is given of a subscriber, from the next event on; nothing delivered is taken back."""
        changes: dict[str, Any] = {
            "subscriptions": None if subscriptions is None else subscriptions_of(subscriptions, self._schema),
            "deliver": deliver,
            "rank_by": None if rank_by is None else rank_by_of(rank_by),
            "most_specific": most_specific,
            "priorities": None if priorities is None else priorities_of(priorities),
        }
        with self._lock:
            member = self._member(subscriber)
            given = {name: new for name, new in changes.items() if new is not None}
            after = self._checked(replace(member.subscriber, **given))
            member.preferences = Preferences.of(after)
            if deliver is not None:
                member.queue = with_policy(member.queue, deliver)
                self._set_timer(member)
            self._replace(member, after)
            return after

    def unsubscribe(self, subscriber: str, subscription: str | None = None) -> None:
        """Remove a subscriber with everything held for it, or one of its subscriptions."""
        with self._lock:
            member = self._member(subscriber)
            if subscription is None:
                self._replace(member, replace(member.subscriber, subscriptions=(), priorities=()))
                del self._members[member.subscriber.id]
                return
            if member.subscriber.subscription(subscription) is None:
                raise UnknownIdError(f"subscriber {shown(subscriber)} has no subscription {shown(subscription)}")
            left = tuple(kept for kept in member.subscriber.subscriptions if kept.id != subscription)
            priorities = tuple(kept for kept in member.subscriber.priorities if subscription not in kept)
            after = replace(member.subscriber, subscriptions=left, priorities=priorities)
            member.preferences = Preferences.of(after)
            self._replace(member, after)

    def publish(self, event: Event | Mapping[str, Any], now: datetime | None = None) -> list[Notification]:
        """Publish an event; return everything that is delivered by now: what was due before, then in the order of
        subscribers.

        A mapping of attributes becomes an event of the hub's own source, numbered when it has no id. Raises
        InvalidEventError, and changes nothing, when the event is malformed or does not fit the schema.
        """
        closed = now is None
        now = self._clock() if now is None else now
        with self._lock:
            event = self._event(event, now)
            delivered = self._due(now, closed=closed)
            if self._is_new(event.identity):
                for member, match in self._matches(event):
                    delivered += ((member, note) for note in member.moved(match, self._latest, closed=closed))
                    self._set_timer(member)
        return _called_back(delivered)

    def advance(self, now: datetime | None = None) -> list[Notification]:
        """Let time pass without an event; return what is delivered up to now, `now` itself included."""
        with self._lock:
            delivered = self._due(self._clock() if now is None else now, closed=True)
        return _called_back(delivered)

    def finish(self) -> list[Notification]:
        """End the input: complete open periods and windows as if time went on for ever; return what they deliver."""
        with self._lock:
            delivered = [
                (member, note) for member in self._members.values() for note in member.notified(finished(member.queue))
            ]
        return _called_back(sorted(delivered, key=_instant))

    def matches(self, event: Event | Mapping[str, Any], now: datetime | None = None) -> list[Match]:
        """Return whom an event interests and how much, in the order subscribers came; nothing is delivered."""
        now = self._clock() if now is None else now
        with self._lock:
            event = self._event(event, now)
            return [match for _, match in self._matches(event)]

    def explain(self, event: Event | Mapping[str, Any], subscriber: str, now: datetime | None = None) -> Outcome:
        """Tell what an event would mean to a subscriber if it were published now; nothing is changed."""
        now = self._clock() if now is None else now
        with self._lock:
            event = self._event(event, now)
            member = self._member(subscriber)
            explanations = tuple(explain(event, subscription) for subscription in member.subscriber.subscriptions)
            matched = [explanation.subscription.id for explanation in explanations if explanation.matched]
            match = member.match(event, matched)
            if match is None:
                verdict = Verdict.NO_RELEVANCE if matched else Verdict.NO_MATCH
                return Outcome(member.subscriber.id, explanations, None, verdict)
            repeated = event.identity in self._seen
            verdict = Verdict.REPEATED if repeated else member.outlook(match, max(now, self._latest))
            return Outcome(member.subscriber.id, explanations, match.rank, verdict)

    def _welcomed(self, subscriber: Subscriber, callback: Callback | None) -> list[Entry]:
        """Check a new subscriber and take it in; return its subscriptions for the index."""
        subscriber = self._checked(subscriber)
        if subscriber.id in self._members:
            raise DuplicateIdError(f"there is a subscriber {shown(subscriber.id)} already; use update to change it")
        preferences, queue = Preferences.of(subscriber), new_queue(subscriber.deliver)
        member = Member(next(self._numbers), subscriber, preferences, queue, callback)
        self._members[subscriber.id] = member
        return self._entries(member)

    def _entries(self, member: Member) -> list[Entry]:
        """Number a member's subscriptions anew; return them for the index."""
        subscriptions = member.subscriber.subscriptions
        member.numbers = tuple(next(self._numbers) for _ in subscriptions)
        for number, subscription in zip(member.numbers, subscriptions, strict=True):
            self._owners[number] = (member, subscription.id)
        return [
            Entry.of(number, subscription.filter, subscription.active_from, subscription.active_until)
            for number, subscription in zip(member.numbers, subscriptions, strict=True)
        ]

    def _replace(self, member: Member, after: Subscriber) -> None:
        """Put other subscriptions in the place of a member's."""
        before, member.subscriber = member.subscriber, after
        if before.subscriptions == after.subscriptions:
            return
        for number in member.numbers:
            self._index.remove(number)
            del self._owners[number]
        for entry in self._entries(member):
            self._index.add(entry)

    def _due(self, now: datetime, *, closed: bool) -> list[tuple[Member, Notification]]:
        """Let time pass to `now`; return what queues deliver by themselves, in the order of their instants."""
        self._latest = now = max(now, self._latest)
        delivered: list[tuple[Member, Notification]] = []
        waiting: list[Member] = []
        while self._timers and (self._timers[0][0] < now or (closed and self._timers[0][0] == now)):
            instant, place, name = heapq.heappop(self._timers)
            member = self._members.get(name)
            if member is not None and member.place == place and member.timer == instant:
                member.timer = None
                waiting.append(member)
        for member in waiting:
            delivered += ((member, note) for note in member.moved(None, now, closed=closed))
            self._set_timer(member)
        return sorted(delivered, key=_instant)

    def _set_timer(self, member: Member) -> None:
        """Note when a member's queue acts next; an older note in the heap no longer counts."""
        instant = member.queue.next_instant
        if instant is not None and instant != member.timer:
            heapq.heappush(self._timers, (instant, member.place, member.subscriber.id))
        member.timer = instant

    def _matches(self, event: Event) -> list[tuple[Member, Match]]:
        found: dict[Member, list[SubscriptionId]] = {}
        for number in sorted(self._reader.match_one(event.attributes).tolist()):
            member, subscription = self._owners[number]
            found.setdefault(member, []).append(subscription)
        by_place = sorted(found.items(), key=lambda item: item[0].place)
        ranked = ((member, member.match(event, matched)) for member, matched in by_place)
        return [(member, match) for member, match in ranked if match is not None]

    def _member(self, subscriber: str) -> Member:
        member = self._members.get(SubscriberId(subscriber))
        if member is None:
            raise UnknownIdError(f"there is no subscriber {shown(subscriber)}")
        return member

    def _checked(self, subscriber: Subscriber) -> Subscriber:
        if self._schema is None:
            return subscriber
        checked = tuple(subscription.under(self._schema) for subscription in subscriber.subscriptions)
        return replace(subscriber, subscriptions=checked)

    def _event(self, event: Event | Mapping[str, Any], now: datetime) -> Event:
        if not isinstance(event, Event | Mapping):
            raise InvalidEventError(f"{shown(event)} is not an event; expected an Event or a mapping of attributes")
        if not isinstance(event, Event):
            event = self._numbered(event)
        event = event.stamped(now)
        return event if self._schema is None else event.conformed(self._schema)

    def _numbered(self, attributes: Mapping[str, Any]) -> Event:
        """Return an event of plain attributes; without an id it gets the next number that is no id yet."""
        event = Event.of(attributes, id=str(self._next_id), source=self._source)
        while attributes.get("id") is None and event.identity in self._seen:
            self._next_id += 1
            event = replace(event, id=str(self._next_id))
        return event

    def _is_new(self, identity: Identity) -> bool:
        if identity in self._seen:
            return False
        self._seen[identity] = None
        self._next_id += identity.id == str(self._next_id)
        if len(self._seen) > REMEMBERED:
            self._seen.popitem(last=False)
        return True


def _instant(delivered: tuple[Member, Notification]) -> datetime:
    return delivered[1].time


def _called_back(delivered: list[tuple[Member, Notification]]) -> list[Notification]:
    """Call the subscribers' callbacks; raise CallbackError, once all have been called, when some raised."""
    notifications = [note for _, note in delivered]
    errors: list[Exception] = []
    for member, note in delivered:
        if member.callback is not None:
            try:
                member.callback(note)
            except Exception as error:  # noqa: BLE001 (collected, and raised below)
                errors.append(error)
    if errors:
        raise CallbackError(notifications, errors)
    return notifications
