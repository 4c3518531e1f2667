"""What is known of each subscriber: its preferences, its queues, and what waits to be handed over.

All subscriptions of a subscriber share one queue, but those that have a policy of their own: each of these has a queue
of its own. What is delivered is handed over as its subscriber wants: at once, in a digest, or not at all; and as far as
the caps of the queue allow. What these or the subscriber withhold is counted.
"""

from __future__ import annotations

from bisect import bisect_right, insort_right
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from rankcast.delivery.engine.contents import MISSING
from rankcast.delivery.rules.caps import CapCount, CapCounts, changed_counts, code_of
from rankcast.delivery.rules.policies import AnyQueue, handed_over
from rankcast.model.errors import InvalidValueError
from rankcast.model.events import Event
from rankcast.model.periods import period_end_ticks
from rankcast.model.policies import AtOnce, Cap, Digest, Notify, Policy
from rankcast.model.subscriptions import Subscriber, SubscriberId, Subscription, SubscriptionId
from rankcast.model.times import LAST_INSTANT, instant_of, microseconds
from rankcast.ranking.preferences import Preferences, Ranked
from rankcast.serving.results import NOTHING_WITHHELD, Match, Notification, Withheld

MOST_QUEUES = 1 << 24
"""Queues of one subscriber: their order among all is one number."""

MOST_RANKS = 64
"""Combinations of filters whose rank a queue remembers: most subscribers have few subscriptions."""


class HeldEvent(NamedTuple):
    """An event in a queue, with its rank and the subscriptions that brought it there."""

    event: Event
    rank: float
    matched: tuple[SubscriptionId, ...]


@dataclass(frozen=True, slots=True)
class QueueState:
    """A queue, whose it is (None: shared by a subscriber's subscriptions), and the events in it, in its order.

    The candidates of the queue are known by their places among these events.
    """

    subscription: SubscriptionId | None
    queue: AnyQueue
    held: tuple[HeldEvent, ...] = ()
    caps: CapCounts = ()

    def __post_init__(self) -> None:
        if [candidate.identity for candidate in self.queue.held] != list(range(len(self.held))):
            raise InvalidValueError("the candidates of a queue are not the events that are with it")


@dataclass(frozen=True, slots=True)
class SubscriberRecord:
    """A subscriber, its queues, and what waits to be handed over: all of its state, to be written down."""

    subscriber: Subscriber
    queues: tuple[QueueState, ...] = ()
    gathered: tuple[Notification, ...] = ()
    withheld: Withheld = NOTHING_WITHHELD


class SubscriberState(Struct, eq=False, gc=False):
    """One subscriber.

    `place` orders subscribers, `first` is the number of its first subscription (the others follow), and `timer` is when
    a digest is handed over next. `handover` is its subscriber's, with the zones of calendars. `capped` and `muted`
    count what was delivered and never handed over.

    Nothing that it refers to leads back to it: it does not know its queues, which refer to it. So the garbage
    collector, which stops everybody, need not look at subscribers, however many there are.
    """

    place: int
    subscriber: Subscriber
    preferences: Preferences
    handover: Notify
    first: int = 0
    timer: datetime | None = None
    capped: int = 0
    muted: int = 0

    @property
    def withheld(self) -> Withheld:
        """What was delivered and never handed over."""
        return Withheld(self.capped, self.muted)

    def is_muted_at(self, now: datetime) -> bool:
        """Whether the subscriber is handed nothing at an instant."""
        return self.subscriber.muted_until is not None and now < self.subscriber.muted_until

    @property
    def numbers(self) -> range:
        """The numbers of its subscriptions."""
        return range(self.first, self.first + len(self.subscriber.subscriptions))

    def number(self, subscription: SubscriptionId) -> int | None:
        """Return the number of a subscription."""
        for number, one in zip(self.numbers, self.subscriber.subscriptions, strict=True):
            if one.id == subscription:
                return number
        return None

    def competing(self, name: SubscriptionId | None) -> Iterable[tuple[int, Subscription]]:
        """Return the subscriptions that compete in one of its queues, with their positions."""
        return (
            (at, one)
            for at, one in enumerate(self.subscriber.subscriptions)
            if (one.deliver is None if name is None else one.id == name)
        )


class Gathering:
    """What waits to be handed over to each subscriber of digests, in the order it will be."""

    def __init__(self) -> None:
        self._waiting: dict[SubscriberId, list[Notification]] = {}

    def of(self, subscriber: SubscriberId) -> list[Notification]:
        """Return what waits for a subscriber."""
        return self._waiting.get(subscriber, [])

    def put(self, subscriber: SubscriberId, notes: Iterable[Notification]) -> None:
        """Let this, and nothing else, wait for a subscriber."""
        waiting = sorted(notes, key=_handed_over)
        if waiting:
            self._waiting[subscriber] = waiting
        else:
            self._waiting.pop(subscriber, None)

    def hand_over(self, notify: Notify, policy: Policy, note: Notification) -> list[Notification]:
        """Return a notification of a policy if it is handed over at once; else gather it, or leave it to be read."""
        if isinstance(notify, AtOnce):
            return [note]
        if isinstance(notify, Digest):
            waiting = self._waiting.setdefault(note.subscriber, [])
            gathered = replace(note, digest=handed_over(notify, policy, note.time))
            insort_right(waiting, gathered, key=_handed_over)  # after others there may be what a period delivers
        return []

    def due(self, subscriber: SubscriberId, now: datetime) -> list[Notification]:
        """Hand over the digests up to now."""
        waiting = self.of(subscriber)
        ended = bisect_right(waiting, now, key=_handed_over)
        self.put(subscriber, waiting[ended:])
        return waiting[:ended]


def _handed_over(note: Notification) -> datetime:
    return note.handed_over


class CapCounter(Struct, gc=False):
    """What has counted in a cap of a queue; `delivery.rules.caps` says how, here it is counted in place.

    `end` is in microseconds since 1970; `used` is what has counted without `per`, `by_value` with it, by codes.
    """

    cap: Cap
    most: int
    end: int
    used: int
    by_value: dict[int, int]

    @classmethod
    def of(cls, count: CapCount) -> CapCounter:
        """Go on from what has counted."""
        has_values = count.cap.per is not None
        used, by_value = (0, dict(count.counts)) if has_values else (count.counts.get(MISSING, 0), {})
        return cls(count.cap, count.cap.count, microseconds(count.end), used, by_value)

    @property
    def count(self) -> CapCount:
        """What has counted, as the rules know it."""
        counts = {MISSING: self.used} if self.used else dict(self.by_value)
        return CapCount(self.cap, instant_of(self.end), counts)

    def renew(self, now: int) -> None:
        """Begin the period of an instant. Nothing comes after the end of time, so nothing ends at it."""
        if self.end != LAST_INSTANT:
            self.end, self.used, self.by_value = period_end_ticks(now, self.cap.every), 0, {}

    def has_room(self, event: Event, now: int) -> bool:
        """Whether the cap lets an event be handed over at an instant."""
        if now >= self.end:
            self.renew(now)
        used = self.used if self.cap.per is None else self.by_value.get(code_of(self.cap, event.attributes), 0)
        return used < self.most

    def add(self, event: Event) -> None:
        """Count an event."""
        if self.cap.per is None:
            self.used += 1
        else:
            code = code_of(self.cap, event.attributes)
            self.by_value[code] = self.by_value.get(code, 0) + 1


class ServedQueue(Struct, eq=False, gc=False):
    """One queue of a subscriber: the one that its subscriptions share, or that of a subscription with its own policy.

    `subscription` is None or the id of the latter, `order` is where it stands among all queues, and `number` names it
    among all. `counters` are the caps of its policy, with what has counted. `ranks` has the ranks that depend on the
    filters alone, by the positions of those that match.
    """

    number: int
    owner: SubscriberState
    subscription: SubscriptionId | None
    policy: Policy
    counters: list[CapCounter] = []
    order: int = 0
    ranks: dict[tuple[int, ...], Ranked | None] = {}

    @property
    def caps(self) -> CapCounts:
        """What has counted in its caps."""
        return tuple(counter.count for counter in self.counters)

    @property
    def is_limited(self) -> bool:
        """Whether caps or the subscriber may withhold what is delivered."""
        return bool(self.counters) or self.owner.subscriber.muted_until is not None

    @property
    def decays(self) -> bool:
        """Whether what orders events is not their rank, which decays."""
        return self.owner.preferences.decay is not None

    @property
    def only_cap(self) -> CapCounter | None:
        """The cap that alone decides what is handed over, at once and whatever the event is; None: more than that."""
        own = self.owner
        is_plain = len(self.counters) == 1 and self.counters[0].cap.per is None and own.subscriber.muted_until is None
        return self.counters[0] if is_plain and isinstance(own.handover, AtOnce) and own.timer is None else None

    def follow(self, policy: Policy) -> None:
        """Have another policy, of an owner with other preferences."""
        counts = changed_counts(self.caps, policy.at_most)
        self.policy, self.ranks, self.counters = policy, {}, list(map(CapCounter.of, counts))

    def hand_over(self, event: Event, now: int) -> bool:
        """Have an event handed over at an instant, if that is not muted or capped; return whether it is."""
        own = self.owner
        muted_until = own.subscriber.muted_until
        if muted_until is not None and now < microseconds(muted_until):
            own.muted += 1
            return False
        for counter in self.counters:
            if not counter.has_room(event, now):
                own.capped += 1
                return False
        for counter in self.counters:
            counter.add(event)
        return True

    def ranked(self, event: Event, positions: tuple[int, ...]) -> Ranked | None:
        """Rank an event, given the subscriptions whose filters it satisfies; None when it is relevant to none.

        Without relevance functions that depends on the filters alone, and is worked out once.
        """
        preferences, owned = self.owner.preferences, self.owner.subscriber.subscriptions
        if preferences.relevances:
            return preferences.ranked(event, [owned[at].id for at in positions])
        if positions not in self.ranks:
            if len(self.ranks) == MOST_RANKS:
                self.ranks.clear()
            self.ranks[positions] = preferences.ranked(event, [owned[at].id for at in positions])
        return self.ranks[positions]

    def match(self, event: Event, ranked: Ranked) -> Match:
        """Return what an event of this rank means here."""
        return Match(self.owner.subscriber.id, event, ranked.rank, ranked.matched, self.subscription)

    def expires(self, event: Event, ranked: Ranked, time: datetime) -> datetime | None:
        """Return when an event expires here: as it says itself, or when it needs a refresh."""
        preferences = self.owner.preferences
        return preferences.expires(ranked.matched, time, event.expires) if preferences.refreshes else event.expires
