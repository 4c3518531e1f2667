"""The subscribers of a broker: events that come for their subscriptions go through their delivery policies.

A publisher's k decides which subscriptions an event comes for; the subscriber's policy, with its own k, decides which
of these events are delivered, and when. `rankcast.serving` does all of that, as in a hub; here are the names that a
broker knows subscriptions by, and what it tells others of them.

Policies take events as they arrive: time is the broker's own, which never goes back here, and an event that comes
behind a later one is taken then, as by a hub that keeps nothing back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime

import numpy as np

from rankcast.model.errors import shown
from rankcast.model.events import Event
from rankcast.model.policies import AllMatches
from rankcast.model.subscriptions import Subscriber, SubscriberId, SubscriptionId, SubscriptionKey
from rankcast.model.times import EARLIEST
from rankcast.overlay.effects import Deliver, Reason, RefusedError
from rankcast.overlay.messages import Interest
from rankcast.ranking.preferences import Preferences
from rankcast.serving.results import Notification
from rankcast.serving.serving import Serving
from rankcast.serving.subscriber_state import SubscriberRecord


class LocalSubscribers:
    """The subscribers of a broker, and what their queues deliver; `client_of` tells the link of a subscriber."""

    def __init__(self, client_of: Callable[[SubscriberId], str]) -> None:
        self.serving = Serving()
        self._client_of = client_of
        self._latest = EARLIEST

    def subscriber(self, name: SubscriberId) -> Subscriber | None:
        """Return a subscriber."""
        state = self.serving.subscribers.get(name)
        return None if state is None else state.subscriber

    def subscribe(self, subscriber: Subscriber, now: datetime) -> list[Interest]:
        """Take a subscriber in, or as it is from now on; return what others must know of its subscriptions."""
        ranks = Preferences.of(subscriber).ranks
        # First what may be refused: a filter can be too large with its time bounds. Then nothing has changed.
        interests = [Interest.of(subscriber.id, wanted, ranks[wanted.id]) for wanted in subscriber.subscriptions]
        if subscriber.id in self.serving.subscribers:
            self.serving.update(subscriber, self._reached(now))
        else:
            self.serving.subscribe(SubscriberRecord(subscriber))
        return interests

    def restore(self, record: SubscriberRecord) -> None:
        """Take a subscriber in with all that was kept of it."""
        self.serving.subscribe(record)

    def leave(self, subscriber: SubscriberId) -> Subscriber:
        """Forget a subscriber, with everything held for it."""
        if subscriber not in self.serving.subscribers:
            raise RefusedError(Reason.UNKNOWN, f"there is no subscriber {shown(subscriber)}")
        return self.serving.unsubscribe(subscriber).subscriber

    def deliver(self, event: Event, keys: Iterable[SubscriptionKey], now: datetime) -> list[Deliver]:
        """Let an event arrive for some subscriptions; return what is delivered by then."""
        numbers = [number for key in keys if (number := self._number(key)) is not None]
        found = self.serving.arrive(event, np.array(numbers, np.int64), self._reached(now), closed=False)
        return self._deliveries(found.notifications)

    def due(self, now: datetime) -> list[Deliver]:
        """Let time pass; return what queues deliver by themselves, in the order of their instants."""
        return self._deliveries(self.serving.advance(self._reached(now), closed=True))

    def finish(self) -> list[Deliver]:
        """End the input: complete open periods and windows as if time went on for ever."""
        return self._deliveries(self.serving.finish())

    @property
    def next_instant(self) -> datetime | None:
        """When a queue may have something to do by itself, or a digest is to be handed over."""
        return self.serving.next_instant

    def read(self, subscriber: SubscriberId, name: SubscriptionId | None, now: datetime) -> list[Deliver]:
        """Return the current list of a subscriber, or of one subscription with a policy of its own, the best first."""
        is_known = subscriber in self.serving.subscribers
        queue = self.serving.queues_of(subscriber).get(name) if is_known else None
        if queue is None:
            what = shown(subscriber) if name is None else f"{shown(subscriber)} with a policy for {shown(name)}"
            raise RefusedError(Reason.UNKNOWN, f"there is no subscriber {what}")
        if isinstance(queue.policy, AllMatches):
            raise RefusedError(
                Reason.UNSUPPORTED, f"subscriber {shown(subscriber)} gets all matches, of which none is held to be read"
            )
        return self._deliveries(self.serving.read(queue, self._reached(now)))

    def _reached(self, now: datetime) -> datetime:
        self._latest = max(now, self._latest)
        return self._latest

    def _number(self, key: SubscriptionKey) -> int | None:
        state = self.serving.subscribers.get(key.subscriber)
        return None if state is None else state.number(key.subscription)

    def _deliveries(self, notifications: Iterable[Notification]) -> list[Deliver]:
        return [
            Deliver(
                self._client_of(found.subscriber),
                found.subscriber,
                found.event,
                found.rank,
                found.matched,
                found.time,
                found.subscription,
                found.digest,
            )
            for found in notifications
        ]
