"""The embedded engine: subscribe, publish and explain in one process.

The matching index finds the subscriptions that an event satisfies, so publishing costs what the matches cost.

Events are processed in the order of `publish`; `now` is the hub's clock unless the caller passes it (a replay passes an
event's own time). Each subscriber has one queue, in which its matching events compete under its delivery policy. A
second publication of the same identity is ignored for as long as it is remembered (`REMEMBERED` identities).

Calls may come from several threads; one lock makes each call a whole. Callbacks run after the call's work is done and
outside the lock, so a callback may call the hub.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import count
from threading import RLock
from typing import Any, TypeAlias

from rankcast.delivery.candidates import Candidate
from rankcast.delivery.policies import State, Window, changed, initial_state, step
from rankcast.language.parser import parse_filter
from rankcast.matching.builder import Entry
from rankcast.matching.explain import Explanation, explain
from rankcast.matching.index import Index
from rankcast.model.errors import DuplicateIdError, InvalidSubscriptionError, RankcastError, UnknownIdError, shown
from rankcast.model.events import Event, Identity
from rankcast.model.expressions import And, Constant, Constraint, Expression, Not, Or
from rankcast.model.filters import Filter
from rankcast.model.policies import ALL_MATCHES, Policy
from rankcast.model.schema import Schema
from rankcast.model.subscriptions import (
    Priority,
    RankBy,
    Subscriber,
    SubscriberId,
    Subscription,
    SubscriptionId,
)
from rankcast.ranking.preferences import Preferences
from rankcast.storage.priorities import parse_priority

REMEMBERED = 100_000
"""Identities remembered to recognise a repeated publication: some 20 MB at most."""

AnyFilter: TypeAlias = str | Expression | Filter
AnySubscriptions: TypeAlias = AnyFilter | Mapping[Any, float] | Iterable[AnyFilter | Subscription]


@dataclass(frozen=True, slots=True)
class Match:
    """One event that satisfies subscriptions of one subscriber, and its rank there."""

    subscriber: SubscriberId
    event: Event
    rank: float
    matched: tuple[SubscriptionId, ...]


@dataclass(frozen=True, slots=True)
class Notification:
    """One event delivered to one subscriber: its rank there, and the subscriptions it satisfied."""

    subscriber: SubscriberId
    event: Event
    rank: float
    matched: tuple[SubscriptionId, ...]
    time: datetime


Callback: TypeAlias = Callable[[Notification], object]


class CallbackError(RankcastError):
    """Callbacks raised. The event was published and every other callback was called; `notifications` has them all."""

    def __init__(self, notifications: list[Notification], errors: list[Exception]) -> None:
        self.notifications = notifications
        self.errors = errors
        super().__init__(f"{len(errors)} callback(s) raised, the first: {type(errors[0]).__name__}: {errors[0]}")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an event means to a subscriber: why each subscription matches or not, its rank, and whether it is delivered.

    `rank` is None when nothing matches. `delivered` tells whether publishing the event now would deliver it at once.
    """

    subscriber: SubscriberId
    explanations: tuple[Explanation, ...]
    rank: float | None
    delivered: bool

    def __str__(self) -> str:
        pages = [f"[{explanation.subscription.id}] {explanation}" for explanation in self.explanations]
        if self.rank is None:
            verdict = "not delivered: no subscription matches"
        elif self.delivered:
            verdict = f"delivered with rank {self.rank:g}"
        else:
            verdict = f"not delivered now: rank {self.rank:g} is not enough, or the event has expired"
        return "\n".join((*pages, f"{self.subscriber}: {verdict}"))


@dataclass(slots=True, eq=False)
class _Queue:
    """A subscriber, the numbers of its subscriptions in the index, its queue's state, and the events still held."""

    place: int
    subscriber: Subscriber
    numbers: tuple[int, ...]
    preferences: Preferences
    state: State
    callback: Callback | None
    held: dict[Identity, Match] = field(default_factory=dict)


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
        self._event_ids = count(1)
        self._numbers = count()
        self._queues: dict[SubscriberId, _Queue] = {}
        self._owners: dict[int, tuple[_Queue, SubscriptionId]] = {}
        self._seen: OrderedDict[Identity, None] = OrderedDict()
        self._lock = RLock()
        entries = [entry for subscriber in subscribers for entry in self._welcomed(subscriber, None)]
        self._index = Index(entries)
        self._reader = self._index.reader()

    @property
    def subscribers(self) -> tuple[Subscriber, ...]:
        """The subscribers, in the order they came."""
        with self._lock:
            return tuple(queue.subscriber for queue in self._queues.values())

    def subscribe(
        self,
        subscriber: str,
        subscriptions: AnySubscriptions,
        *,
        deliver: Policy = ALL_MATCHES,
        rank_by: RankBy | str = RankBy.MAX,
        most_specific: bool = False,
        priorities: Iterable[str | tuple[str, str]] = (),
        callback: Callback | None = None,
    ) -> Subscriber:
        """Add a subscriber.

        `subscriptions` is a filter, several filters or `Subscription`s, or a mapping from filters to preference ranks;
        a filter is a text, an expression built with `attr`, or a `Filter`. Ids are "1", "2", ... by position.
        `priorities` are texts "a before b". `callback` is called with each notification.
        """
        made = Subscriber(
            SubscriberId(subscriber),
            self._subscriptions(subscriptions),
            deliver,
            _rank_by(rank_by),
            most_specific,
            tuple(map(_priority, priorities)),
        )
        return self.add(made, callback=callback)

    def add(self, subscriber: Subscriber, *, callback: Callback | None = None) -> Subscriber:
        """Add a subscriber that is made already, such as one from a subscriber file."""
        with self._lock:
            for entry in self._welcomed(subscriber, callback):
                self._index.add(entry)
            return self._queues[subscriber.id].subscriber

    def update(
        self,
        subscriber: str,
        *,
        subscriptions: AnySubscriptions | None = None,
        deliver: Policy | None = None,
        rank_by: RankBy | str | None = None,
        most_specific: bool | None = None,
        priorities: Iterable[str | tuple[str, str]] | None = None,
    ) -> Subscriber:
        """Change what is given of a subscriber, from the next event on; nothing delivered is taken back."""
        changes: dict[str, Any] = {
            "subscriptions": None if subscriptions is None else self._subscriptions(subscriptions),
            "deliver": deliver,
            "rank_by": None if rank_by is None else _rank_by(rank_by),
            "most_specific": most_specific,
            "priorities": None if priorities is None else tuple(map(_priority, priorities)),
        }
        with self._lock:
            queue = self._queue(subscriber)
            before = queue.subscriber
            after = self._checked(replace(before, **{name: new for name, new in changes.items() if new is not None}))
            preferences = Preferences.of(after)
            queue.state = changed(after.deliver, queue.state, before.deliver)
            queue.preferences = preferences
            self._replace(queue, after)
            return after

    def unsubscribe(self, subscriber: str, subscription: str | None = None) -> None:
        """Remove a subscriber with everything held for it, or one of its subscriptions."""
        with self._lock:
            queue = self._queue(subscriber)
            if subscription is None:
                self._replace(queue, replace(queue.subscriber, subscriptions=(), priorities=()))
                del self._queues[queue.subscriber.id]
                return
            if queue.subscriber.subscription(subscription) is None:
                raise UnknownIdError(f"subscriber {shown(subscriber)} has no subscription {shown(subscription)}")
            left = tuple(kept for kept in queue.subscriber.subscriptions if kept.id != subscription)
            priorities = tuple(kept for kept in queue.subscriber.priorities if subscription not in kept)
            self._replace(queue, replace(queue.subscriber, subscriptions=left, priorities=priorities))
            queue.preferences = Preferences.of(queue.subscriber)

    def publish(self, event: Event | Mapping[str, Any], now: datetime | None = None) -> list[Notification]:
        """Publish an event; return what it makes the hub deliver, in the order subscribers came.

        A mapping of attributes becomes an event of the hub's own source, numbered when it has no id. Raises
        InvalidEventError, and changes nothing, when the event is malformed or does not fit the schema.
        """
        now = self._clock() if now is None else now
        event = self._event(event, now)
        with self._lock:
            if not self._is_new(event.identity):
                return []
            waiting = [
                (queue.callback, notification)
                for queue, match in self._matches(event)
                for notification in _delivered(queue, match, now)
            ]
        notifications = [notification for _, notification in waiting]
        errors: list[Exception] = []
        for callback, notification in waiting:
            if callback is not None:
                try:
                    callback(notification)
                except Exception as error:  # noqa: BLE001 (collected, and raised below)
                    errors.append(error)
        if errors:
            raise CallbackError(notifications, errors)
        return notifications

    def matches(self, event: Event | Mapping[str, Any], now: datetime | None = None) -> list[Match]:
        """Return whom an event interests and how much, in the order subscribers came; nothing is delivered."""
        event = self._event(event, self._clock() if now is None else now)
        with self._lock:
            return [match for _, match in self._matches(event)]

    def explain(self, event: Event | Mapping[str, Any], subscriber: str, now: datetime | None = None) -> Outcome:
        """Tell what an event would mean to a subscriber if it were published now; nothing is changed."""
        now = self._clock() if now is None else now
        event = self._event(event, now)
        with self._lock:
            queue = self._queue(subscriber)
            explanations = tuple(explain(event, subscription) for subscription in queue.subscriber.subscriptions)
            matched = [explanation.subscription.id for explanation in explanations if explanation.matched]
            if not matched:
                return Outcome(queue.subscriber.id, explanations, None, False)
            match = Match(queue.subscriber.id, event, queue.preferences.event_rank(matched), tuple(matched))
            _, delivered = step(queue.subscriber.deliver, queue.state, _candidate(match, now), now)
            held = any(candidate.identity == event.identity for candidate in delivered)
            return Outcome(queue.subscriber.id, explanations, match.rank, held)

    def _welcomed(self, subscriber: Subscriber, callback: Callback | None) -> list[Entry]:
        """Check a new subscriber and give it a queue; return its subscriptions for the index."""
        subscriber = self._checked(subscriber)
        if subscriber.id in self._queues:
            raise DuplicateIdError(f"there is a subscriber {shown(subscriber.id)} already; use update to change it")
        preferences, state = Preferences.of(subscriber), initial_state(subscriber.deliver)
        queue = _Queue(next(self._numbers), subscriber, (), preferences, state, callback)
        self._queues[subscriber.id] = queue
        return self._entries(queue)

    def _entries(self, queue: _Queue) -> list[Entry]:
        """Number a queue's subscriptions anew; return them for the index."""
        subscriptions = queue.subscriber.subscriptions
        queue.numbers = tuple(next(self._numbers) for _ in subscriptions)
        for number, subscription in zip(queue.numbers, subscriptions, strict=True):
            self._owners[number] = (queue, subscription.id)
        return [
            Entry.of(number, subscription.filter, subscription.active_from, subscription.active_until)
            for number, subscription in zip(queue.numbers, subscriptions, strict=True)
        ]

    def _replace(self, queue: _Queue, subscriber: Subscriber) -> None:
        """Put other subscriptions in the place of a queue's."""
        if queue.subscriber.subscriptions != subscriber.subscriptions:
            for number in queue.numbers:
                self._index.remove(number)
                del self._owners[number]
            queue.subscriber = subscriber
            for entry in self._entries(queue):
                self._index.add(entry)
        queue.subscriber = subscriber

    def _matches(self, event: Event) -> list[tuple[_Queue, Match]]:
        found: dict[_Queue, list[SubscriptionId]] = {}
        for number in sorted(self._reader.match_one(event.attributes).tolist()):
            queue, subscription = self._owners[number]
            found.setdefault(queue, []).append(subscription)
        return [
            (queue, Match(queue.subscriber.id, event, queue.preferences.event_rank(matched), tuple(matched)))
            for queue, matched in sorted(found.items(), key=lambda item: item[0].place)
        ]

    def _queue(self, subscriber: str) -> _Queue:
        queue = self._queues.get(SubscriberId(subscriber))
        if queue is None:
            raise UnknownIdError(f"there is no subscriber {shown(subscriber)}")
        return queue

    def _checked(self, subscriber: Subscriber) -> Subscriber:
        if self._schema is None:
            return subscriber
        checked = tuple(
            replace(subscription, filter=subscription.filter.under(self._schema))
            for subscription in subscriber.subscriptions
        )
        return replace(subscriber, subscriptions=checked)

    def _event(self, event: Event | Mapping[str, Any], now: datetime) -> Event:
        if not isinstance(event, Event):
            event = Event.of(event, id=str(next(self._event_ids)), source=self._source)
        event = event.stamped(now)
        return event if self._schema is None else event.conformed(self._schema)

    def _is_new(self, identity: Identity) -> bool:
        if identity in self._seen:
            return False
        self._seen[identity] = None
        if len(self._seen) > REMEMBERED:
            self._seen.popitem(last=False)
        return True

    def _subscriptions(self, given: AnySubscriptions) -> tuple[Subscription, ...]:
        if isinstance(given, str | Filter | Constraint | Constant | Not | And | Or):
            given = (given,)
        ranked = given.items() if isinstance(given, Mapping) else ((item, None) for item in given)
        return tuple(
            item
            if isinstance(item, Subscription)
            else Subscription(SubscriptionId(str(number)), self._filter(item), rank)
            for number, (item, rank) in enumerate(ranked, start=1)
        )

    def _filter(self, given: object) -> Filter:
        if isinstance(given, str):
            return parse_filter(given, self._schema)
        if isinstance(given, Filter):
            return given
        if isinstance(given, Constraint | Constant | Not | And | Or):
            return Filter.of(given, self._schema)
        raise InvalidSubscriptionError(f"{shown(given)} is not a filter; expected text, an expression or a Filter")


def _rank_by(given: RankBy | str) -> RankBy:
    try:
        return RankBy(given)
    except ValueError:
        known = ", ".join(kind.value for kind in RankBy)
        raise InvalidSubscriptionError(f"rank_by: {shown(given)} is not one of {known}") from None


def _priority(given: str | tuple[str, str]) -> Priority:
    if isinstance(given, str):
        return parse_priority(given)
    if len(given) != 2:
        raise InvalidSubscriptionError(f"priorities: {shown(given)} is not a pair of subscription ids")
    return Priority(SubscriptionId(given[0]), SubscriptionId(given[1]))


def _candidate(match: Match, now: datetime) -> Candidate:
    return Candidate(match.event.identity, match.event.time or now, match.rank, match.event.expires)


def _delivered(queue: _Queue, match: Match, now: datetime) -> list[Notification]:
    queue.state, chosen = step(queue.subscriber.deliver, queue.state, _candidate(match, now), now)
    known = {**queue.held, match.event.identity: match}
    recent = queue.state.recent if isinstance(queue.state, Window) else ()
    queue.held = {held.identity: known[held.identity] for held in recent}
    delivered = (known[candidate.identity] for candidate in chosen)
    return [Notification(one.subscriber, one.event, one.rank, one.matched, now) for one in delivered]
