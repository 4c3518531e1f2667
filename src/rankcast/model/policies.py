"""Delivery policies as a subscriber states them: which of the matching events, and when.

These are descriptions, checked where they are made; `rankcast.delivery` gives them their behaviour.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TypeAlias

from rankcast.model.errors import InvalidSubscriptionError, shown


@dataclass(frozen=True, slots=True)
class AllMatches:
    """Deliver every matching event as it arrives."""


ALL_MATCHES = AllMatches()


@dataclass(frozen=True, slots=True)
class Continuous:
    """Deliver on arrival unless k valid events of higher rank were delivered before."""

    k: int

    def __post_init__(self) -> None:
        check_count("k", self.k, at_least=0)


@dataclass(frozen=True, slots=True)
class Periodic:
    """Deliver the best k of each period when it ends."""

    k: int
    period: timedelta

    def __post_init__(self) -> None:
        check_count("k", self.k, at_least=0)
        check_duration("period", self.period)


@dataclass(frozen=True, slots=True)
class Sliding:
    """Deliver what enters the best k of the `window` most recent matching events.

    >>> Sliding(k=3, window=100)
    Sliding(k=3, window=100)
    """

    k: int
    window: int

    def __post_init__(self) -> None:
        check_count("k", self.k, at_least=0)
        check_count("window", self.window, at_least=1)


@dataclass(frozen=True, slots=True)
class TopKWindow:
    """Deliver whatever is among the best k of a window (so many events, or so much time) at any instant."""

    k: int
    window: int | timedelta

    def __post_init__(self) -> None:
        check_count("k", self.k, at_least=0)
        if isinstance(self.window, timedelta):
            check_duration("window", self.window)
        else:
            check_count("window", self.window, at_least=1)


Policy: TypeAlias = AllMatches | Continuous | Periodic | Sliding | TopKWindow


def check_policy(value: object) -> None:
    """Raise unless `value` is a delivery policy."""
    if not isinstance(value, AllMatches | Continuous | Periodic | Sliding | TopKWindow):
        raise InvalidSubscriptionError(
            f"deliver: {shown(value)} is not a delivery policy; expected AllMatches(), Continuous(k), "
            "Periodic(k, period), Sliding(k, window) or TopKWindow(k, window)"
        )


def check_count(name: str, value: object, *, at_least: int) -> None:
    """Raise unless `value` is a whole number of at least `at_least`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < at_least:
        raise InvalidSubscriptionError(f"{name}: {shown(value)} is not a whole number of at least {at_least}")


def check_duration(name: str, value: object) -> None:
    """Raise unless `value` is a duration above zero."""
    if not isinstance(value, timedelta) or value <= timedelta(0):
        raise InvalidSubscriptionError(f"{name}: {shown(value)} is not a duration above zero; expected a timedelta")
