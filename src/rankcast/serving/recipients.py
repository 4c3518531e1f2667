"""Whom the notifications of each queue are for, by the queue's number: what every delivery asks for.

An event can be delivered by thousands of queues at once. What they need for that is kept in lists of its own, so that a
delivery looks at two places in memory instead of the ten that a queue with its owner takes; with a hundred thousand
queues none of them is in a cache.
"""

from __future__ import annotations

from weakref import WeakValueDictionary

from rankcast.delivery.stream.batches import SETS
from rankcast.model.policies import AtOnce
from rankcast.model.subscriptions import SubscriberId, SubscriptionId
from rankcast.serving.ranking import MatchedCodes
from rankcast.serving.subscriber_state import ServedQueue

NOBODY = SubscriberId("")

MOST_NAMES = 4_096
"""Sets of names that are remembered for subscribers whose subscriptions have the same ids."""


class MatchedNames(dict[int, tuple[SubscriptionId, ...]]):
    """The subscriptions that an event matched, by its code; shared by all subscribers whose ids are the same."""

    def __init__(self, ids: tuple[SubscriptionId, ...], codes: MatchedCodes) -> None:
        super().__init__()
        self._ids = ids
        self._codes = codes

    def __missing__(self, code: int) -> tuple[SubscriptionId, ...]:
        found = tuple(self._ids[at] for at in self._codes.positions(code))
        if code < SETS:  # the number of a set may mean another one later
            if len(self) == MOST_NAMES:
                self.clear()
            self[code] = found
        return found


class Recipients:
    """Columns by number of queue: the subscriber, the names of what events match, and where it stands among all.

    `special` are the queues whose notifications need more than that: they have a policy of their own, their ranks
    decay, or they are not handed over at once. `are_in_order` says whether a queue of a higher number always comes
    after one of a lower.
    """

    def __init__(self, codes: MatchedCodes) -> None:
        self.subscribers: list[SubscriberId] = []
        self.names: list[MatchedNames] = []
        self.orders: list[int] = []
        self.special: set[int] = set()
        self.are_in_order = True
        self._codes = codes
        self._nameless = MatchedNames((), codes)
        self._known: WeakValueDictionary[tuple[SubscriptionId, ...], MatchedNames] = WeakValueDictionary()

    def put(self, queue: ServedQueue) -> None:
        """Take a queue in, or what has changed of it."""
        number, owner = queue.number, queue.owner
        while number >= len(self.subscribers):
            self.subscribers.append(NOBODY)
            self.names.append(self._nameless)
            self.orders.append(-1)
        if self.orders[number] != queue.order:
            is_last = number + 1 == len(self.orders)
            self.are_in_order &= is_last and (number == 0 or self.orders[number - 1] < queue.order)
            self.orders[number] = queue.order
        self.subscribers[number] = owner.subscriber.id
        self.names[number] = self._named(tuple(one.id for one in owner.subscriber.subscriptions))
        is_plain = isinstance(owner.subscriber.notify, AtOnce) and not queue.decays and queue.subscription is None
        (self.special.discard if is_plain else self.special.add)(number)

    def remove(self, number: int) -> None:
        """Forget a queue."""
        self.subscribers[number], self.names[number] = NOBODY, self._nameless
        self.special.discard(number)

    def _named(self, ids: tuple[SubscriptionId, ...]) -> MatchedNames:
        found = self._known.get(ids)
        if found is None:
            found = self._known[ids] = MatchedNames(ids, self._codes)
        return found
