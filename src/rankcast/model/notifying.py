"""When a subscriber is handed what its delivery policy delivers: at once, gathered, or only when it asks.

These are descriptions, checked where they are made; `rankcast.delivery.rules.handing_over` gives them their behaviour.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TypeAlias

from rankcast.model.errors import InvalidSubscriptionError, shown
from rankcast.model.policies import check_duration


@dataclass(frozen=True, slots=True)
class AtOnce:
    """Hand over each delivery at the policy's own instant."""


AT_ONCE = AtOnce()


@dataclass(frozen=True, slots=True)
class Gathered:
    """Hand over together, at the end of each period, what the policy delivered in it."""

    every: timedelta

    def __post_init__(self) -> None:
        check_duration("every", self.every)


@dataclass(frozen=True, slots=True)
class OnDemand:
    """Hand over nothing; the subscriber reads the current list when it wants to."""


Notify: TypeAlias = AtOnce | Gathered | OnDemand


def check_notify(value: object) -> None:
    """Raise unless `value` says when a subscriber is notified."""
    if not isinstance(value, AtOnce | Gathered | OnDemand):
        raise InvalidSubscriptionError(
            f"notify: {shown(value)} is not AtOnce(), Gathered(every) or OnDemand(), which say when a subscriber is "
            "notified"
        )
