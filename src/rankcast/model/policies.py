"""Delivery policies as a subscriber states them: which of the matching events, and when.

These are descriptions, checked where they are made; `rankcast.delivery` gives them their behaviour. With a `diversity`
the best k are those of a diverse selection (`rankcast.ranking.diversity`) instead of those of the best ranks, and ranks
have to lie in [0, 1].
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TypeAlias

from rankcast.model.diversity import Diversity
from rankcast.model.errors import InvalidSubscriptionError, shown
from rankcast.model.schema import Schema


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
    diversity: Diversity | None = None

    def __post_init__(self) -> None:
        check_count("k", self.k, at_least=0)
        check_duration("period", self.period)
        _check_diversity(self.diversity, self.k)


@dataclass(frozen=True, slots=True)
class Sliding:
    """Deliver what enters the best k of the `window` most recent matching events.

    >>> Sliding(k=3, window=100, diversity=Diversity(sigma=0.8)).diversity
    Diversity(sigma=0.8, weights={})
    """

    k: int
    window: int
    diversity: Diversity | None = None

    def __post_init__(self) -> None:
        check_count("k", self.k, at_least=0)
        check_count("window", self.window, at_least=1)
        _check_diversity(self.diversity, self.k, self.window)


@dataclass(frozen=True, slots=True)
class TopKWindow:
    """Deliver whatever is among the best k of a window (so many events, or so much time) at any instant."""

    k: int
    window: int | timedelta
    diversity: Diversity | None = None

    def __post_init__(self) -> None:
        check_count("k", self.k, at_least=0)
        if isinstance(self.window, timedelta):
            check_duration("window", self.window)
        else:
            check_count("window", self.window, at_least=1)
        _check_diversity(self.diversity, self.k, self.window)


MOST_CHOSEN = 1_000
"""The largest k of a diverse selection, which takes k distances for each event held."""

MOST_DISTANCES = 1_000_000
"""Distances that one event may cost in a window of so many events: some ten milliseconds."""

Policy: TypeAlias = AllMatches | Continuous | Periodic | Sliding | TopKWindow


def diversity_of(policy: Policy) -> Diversity | None:
    """Return by what a policy diversifies, or None."""
    return None if isinstance(policy, AllMatches | Continuous) else policy.diversity


def check_attributes(policy: Policy, schema: Schema) -> None:
    """Raise when a policy compares an attribute that a schema does not know."""
    diversity = diversity_of(policy)
    for name in () if diversity is None else diversity.weights:
        schema.type_of(name)


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


def _check_diversity(value: object, k: int, window: object = 1) -> None:
    """Raise unless `value` is a diversity, or none, by which so many can be chosen in a time that has a bound."""
    if not isinstance(value, Diversity | None):
        raise InvalidSubscriptionError(f"diversity: {shown(value)} is not a Diversity")
    if value is None:
        return
    if k > MOST_CHOSEN:
        raise InvalidSubscriptionError(f"k: {k:,} is more than {MOST_CHOSEN:,}, the most to be chosen by diversity")
    if isinstance(window, int) and k * window > MOST_DISTANCES:
        raise InvalidSubscriptionError(
            f"k: {k:,} of a window of {window:,} by diversity would take {k * window:,} distances per event; "
            f"expected at most {MOST_DISTANCES:,}"
        )


def check_duration(name: str, value: object) -> None:
    """Raise unless `value` is a duration above zero."""
    if not isinstance(value, timedelta) or value <= timedelta(0):
        raise InvalidSubscriptionError(f"{name}: {shown(value)} is not a duration above zero; expected a timedelta")
