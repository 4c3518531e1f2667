"""What a hub keeps for each subscriber: its preferences, its queue, and the events the queue may still deliver."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

from rankcast.delivery.candidates import Candidate
from rankcast.delivery.contents import content_for
from rankcast.delivery.outlook import Outlook, outlook
from rankcast.delivery.queues import Moved, Queue, step
from rankcast.hub.results import Match, Notification
from rankcast.model.events import Event, Identity
from rankcast.model.subscriptions import Subscriber, SubscriptionId
from rankcast.ranking.preferences import Preferences

Callback: TypeAlias = Callable[[Notification], object]


@dataclass(slots=True, eq=False)
class Member:
    """One subscriber in a hub.

    `place` orders subscribers, `numbers` are its subscriptions' in the matching index, and `timer` is when its queue
    acts by itself.
    """

    place: int
    subscriber: Subscriber
    preferences: Preferences
    queue: Queue
    callback: Callback | None
    numbers: tuple[int, ...] = ()
    timer: datetime | None = None
    held: dict[Identity, Match] = field(default_factory=dict)

    def match(self, event: Event, satisfied: Collection[SubscriptionId]) -> Match | None:
        """Return what an event means to the subscriber, given the filters it satisfies; None when it is not ranked."""
        ranked = self.preferences.ranked(event, satisfied)
        return None if ranked is None else Match(self.subscriber.id, event, ranked.rank, ranked.matched)

    def holds(self, identity: Identity) -> bool:
        """Whether the queue holds an event of this identity."""
        return identity in self.held and any(one.identity == identity for one in self.queue.held)

    def candidate(self, match: Match, now: datetime) -> Candidate:
        """Return a match as it competes for delivery."""
        time = match.event.time or now
        expires = self.preferences.expires(match.matched, time, match.event.expires)
        content = content_for(self.subscriber.deliver, match.event.attributes)
        return Candidate(match.event.identity, time, self.preferences.score(match.rank, time), expires, content)

    def moved(self, match: Match | None, now: datetime, *, closed: bool) -> list[Notification]:
        """Let time pass and a match arrive, or none; return what is delivered."""
        if match is not None:
            self.held[match.event.identity] = match
        candidate = None if match is None else self.candidate(match, now)
        return self.notified(step(self.queue, candidate, now, closed=closed))

    def outlook(self, match: Match, now: datetime) -> Outlook:
        """Return what would become of a match that arrived now; nothing is changed."""
        return outlook(self.queue, self.candidate(match, now), now)

    def notified(self, moved: Moved) -> list[Notification]:
        """Take over a queue that has moved, and return its deliveries as notifications."""
        self.queue, delivered = moved
        found = [(self.held[one.candidate.identity], one.time) for one in delivered]
        if len(self.held) > 2 * len(self.queue.held):  # now and then, so that it costs nothing on average
            self.held = {one.identity: self.held[one.identity] for one in self.queue.held}
        return [Notification(one.subscriber, one.event, one.rank, one.matched, time) for one, time in found]
