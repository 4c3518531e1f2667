"""What changes a hub: each call that does becomes one command, and a hub's state is what its commands made of it.

A command is complete and checked: applying it needs no clock, cannot fail, and gives the same state and the same
notifications every time. That is what makes a log of commands enough to bring a hub back.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeAlias

from msgspec import Struct

from rankcast.model.events import Event, Identity
from rankcast.model.subscriptions import Subscriber, SubscriberId
from rankcast.model.times import EARLIEST
from rankcast.serving.results import Notification
from rankcast.serving.subscriber_state import SubscriberRecord


class PublishEvent(Struct, frozen=True):
    """An event at `now`; `closed` when nothing more comes at that instant; `next_id` what it numbers events from."""

    event: Event
    now: datetime
    closed: bool
    next_id: int


@dataclass(frozen=True, slots=True)
class PublishEvents:
    """Several events, one after the other."""

    publishes: tuple[PublishEvent, ...]


@dataclass(frozen=True, slots=True)
class AddSubscriber:
    """A new subscriber."""

    subscriber: Subscriber


@dataclass(frozen=True, slots=True)
class ChangeSubscriber:
    """A known subscriber as it is from now on."""

    subscriber: Subscriber


@dataclass(frozen=True, slots=True)
class RemoveSubscriber:
    """The end of a subscriber."""

    subscriber: SubscriberId


@dataclass(frozen=True, slots=True)
class Advance:
    """Time passes to `now`."""

    now: datetime


@dataclass(frozen=True, slots=True)
class Finish:
    """The end of the input."""


Command: TypeAlias = (
    PublishEvent | PublishEvents | AddSubscriber | ChangeSubscriber | RemoveSubscriber | Advance | Finish
)


@dataclass(frozen=True, slots=True)
class HubState:
    """Everything a hub remembers, subscribers in the order they came, identities from the one to be forgotten first.

    `waiting` are events kept back until nothing earlier can come, each with its time, in the order in which they are
    given back, and `late` counts those that came too late.
    """

    latest: datetime = EARLIEST
    next_id: int = 1
    seen: tuple[tuple[Identity, datetime], ...] = ()
    subscribers: tuple[SubscriberRecord, ...] = ()
    watermark: datetime = EARLIEST
    waiting: tuple[tuple[datetime, Event], ...] = ()
    late: int = 0


class Journal(Protocol):
    """Where a hub writes down its commands before it applies them."""

    @property
    def wants_state(self) -> bool:
        """Whether it is time to write down the state."""

    def keep_state(self, state: HubState) -> None:
        """Write down the state; the commands before it are no longer needed."""

    def check(self, command: PublishEvent) -> None:
        """Raise InvalidEventError for an event that cannot be written down."""

    def record(self, *commands: Command) -> int:
        """Write down commands, all or none, and return the number of the last one."""

    def applied(self, number: int, notifications: list[Notification]) -> None:
        """Take note of what a command gave, until it is settled."""

    def settle(self, number: int) -> None:
        """Take note that the call of a command has handed over its notifications."""

    def abandon(self) -> None:
        """Close at once, because commands that were written down have not been applied."""

    def close(self, state: HubState) -> None:
        """Write down the state if anything has changed, and close."""
