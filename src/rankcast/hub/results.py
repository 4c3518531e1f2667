"""What a hub answers with: matches, notifications, and why."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from rankcast.matching.explain import Explanation
from rankcast.model.errors import RankcastError
from rankcast.model.events import Event
from rankcast.model.subscriptions import SubscriberId, SubscriptionId


@dataclass(frozen=True, slots=True)
class Match:
    """One event that satisfies subscriptions of one subscriber, and its rank there."""

    subscriber: SubscriberId
    event: Event
    rank: float
    matched: tuple[SubscriptionId, ...]


@dataclass(frozen=True, slots=True)
class Notification:
    """One event delivered to one subscriber: its rank there, the subscriptions it satisfied, and the instant."""

    subscriber: SubscriberId
    event: Event
    rank: float
    matched: tuple[SubscriptionId, ...]
    time: datetime


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
            verdict = (
                f"not delivered now: rank {self.rank:g} is not enough, it is not yet time, or the event has expired"
            )
        return "\n".join((*pages, f"{self.subscriber}: {verdict}"))
