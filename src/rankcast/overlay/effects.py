"""What a broker wants done, as values: whoever runs it sends, hands over and reports."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import TypeAlias

from rankcast.model.errors import RankcastError
from rankcast.model.events import Event
from rankcast.model.subscriptions import SubscriberId, SubscriptionId
from rankcast.overlay.messages import Alive, Connect, Packet


class Reason(Enum):
    """Why a message was rejected."""

    MALFORMED = "malformed"
    WRONG_LINK = "wrong link"
    UNKNOWN = "unknown"
    OUTSIDE = "outside its advertisement"
    REPLAY = "replay"
    TOO_MANY = "too many"
    UNSUPPORTED = "unsupported"
    DISAGREEMENT = "other terms"


class RefusedError(RankcastError):
    """A message cannot be taken; nothing has changed."""

    def __init__(self, reason: Reason, detail: str) -> None:
        self.reason = reason
        super().__init__(detail)


@dataclass(frozen=True, slots=True)
class Send:
    """Send a message over a link to a neighbour."""

    link: str
    message: Packet | Connect | Alive


@dataclass(frozen=True, slots=True)
class Deliver:
    """Hand an event to a subscriber of this broker: `matched` are its subscriptions that brought it there.

    `link` is that of the client that subscribed, whether or not anybody is there now. `time` is when its policy
    delivers it. `subscription` names the one whose own policy does; None is the subscriber's policy. `digest` is when
    it is handed over, for a subscriber of digests; None: at once.
    """

    link: str
    subscriber: SubscriberId
    event: Event
    rank: float
    matched: tuple[SubscriptionId, ...]
    time: datetime
    subscription: SubscriptionId | None = None
    digest: datetime | None = None


@dataclass(frozen=True, slots=True)
class Listed:
    """Show a client the current list of its subscriber, the best first; nothing is delivered by that."""

    link: str
    subscriber: SubscriberId
    entries: tuple[Deliver, ...]


@dataclass(frozen=True, slots=True)
class Rejected:
    """A message from a link was rejected, and has changed nothing."""

    link: str
    reason: Reason
    detail: str


Effect: TypeAlias = Send | Deliver | Listed | Rejected
