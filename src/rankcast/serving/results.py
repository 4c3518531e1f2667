"""What serving tells: matches, notifications, and how many deliveries were withheld.

One event can lead to thousands of them, so they are structs of msgspec, which are made ten times as fast as frozen
dataclasses. Nothing in them can refer back to them, so the garbage collector need not look at them either.
"""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from rankcast.model.events import Event
from rankcast.model.subscriptions import SubscriberId, SubscriptionId


class Match(Struct, frozen=True, gc=False):
    """One event that satisfies subscriptions of one subscriber, and its rank there.

    `subscription` is the one whose own policy it is offered to; None stands for the subscriber's.
    """

    subscriber: SubscriberId
    event: Event
    rank: float
    matched: tuple[SubscriptionId, ...]
    subscription: SubscriptionId | None = None


class Notification(Struct, frozen=True, gc=False):
    """One event delivered to one subscriber: its rank there, the subscriptions it satisfied, and the instant.

    `subscription` is the one whose own policy delivers it; None stands for the subscriber's policy. `digest` is the
    instant of the digest that it is in; None: it is handed over at once.
    """

    subscriber: SubscriberId
    event: Event
    rank: float
    matched: tuple[SubscriptionId, ...]
    time: datetime
    subscription: SubscriptionId | None = None
    digest: datetime | None = None

    @property
    def handed_over(self) -> datetime:
        """When it is handed over."""
        return self.digest or self.time


class Withheld(Struct, frozen=True, gc=False):
    """How many deliveries were not handed over: because a cap was used up, or because the subscriber was muted."""

    capped: int = 0
    muted: int = 0

    def __add__(self, other: Withheld) -> Withheld:
        return Withheld(self.capped + other.capped, self.muted + other.muted)


NOTHING_WITHHELD = Withheld()
