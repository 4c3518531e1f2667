"""What a subscriber states of its delivery: the policy, its caps, when it is notified, and how near-copies are minded.

Policies say which of the matching events are delivered, and when. With a `diversity` the best k are those of a diverse
selection (`rankcast.ranking.diversity`) instead of those of the best ranks, and ranks have to lie in [0, 1]. `Notify`
says when the subscriber is handed what its policy delivers: at once, in a digest, or only when it asks. Caps
(`at_most`) say how much of that it is handed in a period; for the policy the rest is delivered, too.

The distance of two events is 1 minus the weighted share of the attributes on which they are equal; an attribute that
one of them lacks counts as different. Values are equal as filters compare them: 1 equals 1.0, but not true. Weights are
kept in the order of their attributes' names and added up one by one in that order, so that equal descriptions are equal
however they were written and every path gets bit-equal distances.

These are descriptions, checked where they are made; `rankcast.delivery` gives them their behaviour.

Paper: PrefSIENA, its timing policies and chapter 4.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import InitVar, dataclass, field, fields, replace
from datetime import timedelta
from enum import Enum
from typing import Any, TypeAlias, TypeGuard

from rankcast.model.errors import InvalidSubscriptionError, require, shown
from rankcast.model.periods import Period, check_duration, check_period, in_zone
from rankcast.model.schema import Schema, check_attribute
from rankcast.model.values import AttributeValue, elements_of, family_of


@dataclass(frozen=True, slots=True)
class Cap:
    """Hand over at most `count` in each period; with `per`, so many for each value of that attribute.

    Values count together as filters compare them: 1 with 1.0, but not with true. Events without the attribute, and
    those that have a list there, count together.
    """

    count: int
    every: Period
    per: str | None = None

    def __post_init__(self) -> None:
        check_count("count", self.count, at_least=1)
        check_period("every", self.every)
        if self.per is not None:
            check_attribute(self.per, "per: ")


MOST_CAPS = 16
"""Caps of one policy: each is looked at for every delivery."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Capped:
    """What all policies have in common: caps, all of which hold. One alone, or a list, becomes a tuple."""

    at_most: tuple[Cap, ...] = ()

    def __post_init__(self) -> None:
        given: object = self.at_most
        caps = tuple(given) if isinstance(given, list | tuple) else (given,)
        for cap in caps:
            require(isinstance(cap, Cap), "at_most", cap, "a Cap; expected Cap(count, every), or several")
        if len(caps) > MOST_CAPS:
            raise InvalidSubscriptionError(f"at_most: there are {len(caps)} caps; expected at most {MOST_CAPS}")
        object.__setattr__(self, "at_most", caps)
        if len({(cap.every, cap.per) for cap in self.at_most}) < len(caps):
            raise InvalidSubscriptionError("at_most: two caps count the same in the same periods; leave one out")

    def __repr__(self) -> str:
        stated = (f"{name}={value!r}" for name, value in stated_settings(self))
        return f"{type(self).__name__}({', '.join(stated)})"


def stated_settings(policy: Capped) -> list[tuple[str, Any]]:
    """Return the settings of a policy that are not as they are by default, those given by name last; a rule is text."""
    ordered = sorted(fields(policy), key=lambda each: each.kw_only is True)
    stated = [(each.name, getattr(policy, each.name)) for each in ordered if getattr(policy, each.name) != each.default]
    return [(name, value.value if isinstance(value, TieRule) else value) for name, value in stated]


@dataclass(frozen=True, slots=True, repr=False)
class AllMatches(Capped):
    """Deliver every matching event as it arrives.

    >>> AllMatches(at_most=Cap(5, timedelta(days=1)))
    AllMatches(at_most=(Cap(count=5, every=datetime.timedelta(days=1), per=None),))
    """


ALL_MATCHES = AllMatches()


class TieRule(Enum):
    """Which of equally good events come first: the newer ones, or those that were delivered already."""

    NEWER = "newer"
    KEEP = "keep"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class BestK(Capped):
    """What is common to the policies that deliver the best k. `ties` may be given as text.

    With `ties="keep"` an event is delivered only while fewer than k delivered ones that still count are as good. So k
    limits even where ranks are few. For periods, and with a diversity, it changes nothing.

    >>> Continuous(3, ties="keep")
    Continuous(k=3, ties='keep')
    """

    k: int = field(kw_only=False)
    ties: TieRule = TieRule.NEWER

    def __post_init__(self) -> None:
        Capped.__post_init__(self)
        check_count("k", self.k, at_least=0)
        known = [rule.value for rule in TieRule]
        require(self.ties in (*TieRule, *known), "ties", self.ties, f"one of {', '.join(known)}")
        object.__setattr__(self, "ties", TieRule(self.ties))


@dataclass(frozen=True, slots=True, repr=False)
class Continuous(BestK):
    """Deliver on arrival unless k valid events of higher rank were delivered before.

    There is no diversity here: what was delivered is not held, and nothing is known of what is to come.
    """

    diversity: InitVar[None] = None

    def __post_init__(self, diversity: None) -> None:
        BestK.__post_init__(self)
        expected = "possible here; expected a Periodic, Sliding or TopKWindow policy, which choose among several events"
        require(diversity is None, "diversity", diversity, expected)


@dataclass(frozen=True, slots=True, repr=False)
class Periodic(BestK):
    """Deliver the best k of each period when it ends: of one duration, or of a calendar."""

    period: Period
    diversity: Diversity | None = None

    def __post_init__(self) -> None:
        BestK.__post_init__(self)
        check_period("period", self.period)
        _check_diversity(self.diversity, self.k)


@dataclass(frozen=True, slots=True, repr=False)
class Sliding(BestK):
    """Deliver what enters the best k of the `window` most recent matching events.

    >>> Sliding(k=3, window=100, diversity=Diversity(sigma=0.8)).diversity
    Diversity(sigma=0.8, weights={})
    """

    window: int
    diversity: Diversity | None = None

    def __post_init__(self) -> None:
        BestK.__post_init__(self)
        check_count("window", self.window, at_least=1)
        _check_diversity(self.diversity, self.k, self.window)


LEAST_SIGMA = 1e-9
MOST_BOUNDED = 1_000_000
"""The largest k of a bounded queue."""


@dataclass(frozen=True, slots=True)
class Bounded:
    """Hold no more events than it takes to miss a share `sigma` of what should be delivered, were scores independent of
    time. Where they are not, far more may be missed, and others be delivered that should not."""

    sigma: float = 0.001

    def __post_init__(self) -> None:
        fits = is_number(self.sigma) and LEAST_SIGMA <= self.sigma <= 1
        require(fits, "sigma", self.sigma, f"a number from {LEAST_SIGMA:g} to 1")
        object.__setattr__(self, "sigma", float(self.sigma))


@dataclass(frozen=True, slots=True, repr=False)
class TopKWindow(BestK):
    """Deliver whatever is among the best k of a window (so many events, or so much time) at any instant.

    The queue of a window of so many events may be bounded; without that, it holds what it needs to be exact.

    >>> TopKWindow(10, 20_000, queue=Bounded(0.001))
    TopKWindow(k=10, window=20000, queue=Bounded(sigma=0.001))
    """

    window: int | timedelta
    diversity: Diversity | None = None
    queue: Bounded | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        BestK.__post_init__(self)
        require(isinstance(self.queue, Bounded | None), "queue", self.queue, "a Bounded; expected Bounded(sigma)")
        if isinstance(self.window, timedelta):
            check_duration("window", self.window)
        else:
            check_count("window", self.window, at_least=1)
        _check_diversity(self.diversity, self.k, self.window)
        if self.queue is None:
            return
        if isinstance(self.window, timedelta) or self.diversity is not None or self.ties is TieRule.KEEP:
            raise InvalidSubscriptionError(
                "queue: only that of a window of so many events can be bounded, without diversity and with ties: newer"
            )
        if self.k > MOST_BOUNDED:
            raise InvalidSubscriptionError(f"k: {self.k:,} is more than {MOST_BOUNDED:,}, the most of a bounded queue")


MOST_CHOSEN = 1_000
"""The largest k of a diverse selection, which takes k distances for each event held."""

MOST_DISTANCES = 1_000_000
"""Distances that one event may cost in a window of so many events: some ten milliseconds."""

Policy: TypeAlias = AllMatches | Continuous | Periodic | Sliding | TopKWindow


def policy_in_zone(policy: Policy, zone: str | None) -> Policy:
    """Return a policy with the calendars of its periods and caps in a zone, where they name none of their own."""
    caps = tuple(replace(cap, every=in_zone(cap.every, zone)) for cap in policy.at_most)
    changed = policy if caps == policy.at_most else replace(policy, at_most=caps)
    if isinstance(changed, Periodic):
        return replace(changed, period=in_zone(changed.period, zone))
    return changed


def diversity_of(policy: Policy) -> Diversity | None:
    """Return by what a policy diversifies, or None."""
    return None if isinstance(policy, AllMatches | Continuous) else policy.diversity


def keeps_ties(policy: Policy) -> bool:
    """Whether `ties` is `keep` where that changes anything."""
    if isinstance(policy, AllMatches | Periodic):
        return False
    return policy.ties is TieRule.KEEP and diversity_of(policy) is None


def passes_equals(policy: Policy) -> TypeGuard[Continuous | Sliding | TopKWindow]:
    """Whether of equally good events each newer one is delivered, and handed over, however small k is."""
    if isinstance(policy, AllMatches | Periodic) or diversity_of(policy) is not None or policy.at_most:
        return False
    holds_more = isinstance(policy, Continuous) or isinstance(policy.window, timedelta) or policy.window > policy.k
    return policy.ties is TieRule.NEWER and policy.k > 0 and holds_more


def attributes_counted(policy: Policy) -> tuple[str, ...]:
    """Return the attributes whose values a policy's caps count apart."""
    return tuple(cap.per for cap in policy.at_most if cap.per is not None)


def attributes_named(policy: Policy) -> tuple[str, ...]:
    """Return the attributes that a policy compares or counts, as far as it names them."""
    diversity = diversity_of(policy)
    return (*(() if diversity is None else diversity.weights), *attributes_counted(policy))


def check_attributes(policy: Policy, schema: Schema) -> None:
    """Raise when a policy compares or counts an attribute that a schema does not know."""
    for name in attributes_named(policy):
        schema.type_of(name)


def is_number(value: object) -> bool:
    """Whether a value is an int or a float."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def check_policy(value: object) -> None:
    """Raise unless `value` is a delivery policy."""
    require(
        isinstance(value, AllMatches | Continuous | Periodic | Sliding | TopKWindow),
        "deliver",
        value,
        "a delivery policy; expected AllMatches(), Continuous(k), Periodic(k, period), Sliding(k, window) or "
        "TopKWindow(k, window)",
    )


def check_count(name: str, value: object, *, at_least: int) -> None:
    """Raise unless `value` is a whole number of at least `at_least`."""
    fits = isinstance(value, int) and not isinstance(value, bool) and value >= at_least
    require(fits, name, value, f"a whole number of at least {at_least}")


def _check_diversity(value: object, k: int, window: object = 1) -> None:
    """Raise unless `value` is a diversity, or none, by which so many can be chosen in a time that has a bound."""
    require(isinstance(value, Diversity | None), "diversity", value, "a Diversity")
    if value is None:
        return
    if k > MOST_CHOSEN:
        raise InvalidSubscriptionError(f"k: {k:,} is more than {MOST_CHOSEN:,}, the most to be chosen by diversity")
    if isinstance(window, int) and k * window > MOST_DISTANCES:
        raise InvalidSubscriptionError(
            f"k: {k:,} of a window of {window:,} by diversity would take {k * window:,} distances per event; "
            f"expected at most {MOST_DISTANCES:,}"
        )


@dataclass(frozen=True, slots=True)
class AtOnce:
    """Hand over each delivery at the policy's own instant."""


AT_ONCE = AtOnce()


@dataclass(frozen=True, slots=True)
class Digest:
    """Hand over together, at each start of a period, what the policy has delivered by then."""

    every: Period

    def __post_init__(self) -> None:
        check_period("every", self.every)


@dataclass(frozen=True, slots=True)
class OnDemand:
    """Hand over nothing; the subscriber reads the current list when it wants to."""


Notify: TypeAlias = AtOnce | Digest | OnDemand


def check_notify(value: object) -> None:
    """Raise unless `value` says when a subscriber is notified."""
    expected = "AtOnce(), Digest(every) or OnDemand(), which say when a subscriber is notified"
    require(isinstance(value, AtOnce | Digest | OnDemand), "notify", value, expected)


class Weights(Mapping[str, float]):
    """Weights of attributes: a mapping in the order of names that does not change and can be hashed.

    >>> Weights({"year": 1, "genre": 3})
    {'genre': 3.0, 'year': 1.0}
    """

    __slots__ = ("_weights",)

    def __init__(self, weights: Mapping[str, float] | None = None) -> None:
        self._weights = {name: float(weight) for name, weight in sorted((weights or {}).items())}

    def __getitem__(self, name: str) -> float:
        return self._weights[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._weights)

    def __len__(self) -> int:
        return len(self._weights)

    def __hash__(self) -> int:
        return hash(tuple(self._weights.items()))

    def __repr__(self) -> str:
        return repr(self._weights)

    @property
    def total(self) -> float:
        """The sum of the weights."""
        total = 0.0
        for weight in self._weights.values():
            total += weight
        return total


@dataclass(frozen=True, slots=True)
class Diversity:
    """How much a subscriber minds near-copies: `sigma` in [0, 1], and the attributes that tell events apart.

    With sigma 1 only ranks count, with 0 only distances. Without `weights`, every attribute that either event has
    counts 1. Two lists are equal to the extent of their overlap.

    >>> Diversity(weights={"genre": 3, "year": 1}).distance({"genre": "war", "year": 1}, {"genre": "war", "year": 2})
    0.25
    >>> Diversity(weights={"cast": 1}).distance({"cast": ("Mifune", "Shimura")}, {"cast": ("Mifune",)})
    0.5
    """

    sigma: float = 0.5
    weights: Mapping[str, float] = field(default_factory=Weights)

    def __post_init__(self) -> None:
        require(is_number(self.sigma) and 0 <= self.sigma <= 1, "sigma", self.sigma, "a number from 0 to 1")
        object.__setattr__(self, "sigma", float(self.sigma))
        object.__setattr__(self, "weights", _checked_weights(self.weights))

    def distance(self, first: Mapping[str, AttributeValue], second: Mapping[str, AttributeValue]) -> float:
        """Return the distance of two events by their attributes, from 0 (alike) to 1."""
        if not self.weights:
            names = {*first, *second}
            shares = sorted(likeness(first.get(name), second.get(name)) for name in names)
            whole, part = bisect_left(shares, 1.0), 0.0
            for share in shares[:whole]:  # by size, then what is equal: whatever the order of names, the same sum
                part += share
            return 1 - (part + (len(shares) - whole)) / len(names) if names else 0.0
        alike = total = 0.0
        for name, weight in self.weights.items():
            total += weight
            alike += weight * likeness(first.get(name), second.get(name))
        return 1 - alike / total if total else 0.0


def likeness(first: AttributeValue | None, second: AttributeValue | None) -> float:
    """Return to what extent two values are equal, 0 or 1 but for lists: common by all distinct elements.

    A scalar is a list of one. Two lists without elements are equal.
    """
    if first is None or second is None:
        return 0.0
    if not isinstance(first, tuple) and not isinstance(second, tuple):
        return float(first == second and family_of(first) is family_of(second))  # Python takes 1 for True
    one, other = elements_of(first), elements_of(second)
    if not one or not other:
        return float(one == other)
    if family_of(one[0]) is not family_of(other[0]):
        return 0.0
    common = len({*one}.intersection(other))
    return common / (len(one) + len(other) - common)


def _checked_weights(weights: object) -> Weights:
    if not isinstance(weights, Mapping):
        raise InvalidSubscriptionError(f"weights: {shown(weights)} is not a mapping of attributes to weights")
    for name, weight in weights.items():
        check_attribute(name, "weights: ")
        fits = is_number(weight) and 0 < weight < math.inf
        require(fits, f"weight of {name}", weight, "a finite number above 0")
    try:
        checked = Weights(weights)
    except OverflowError:  # an int beyond every float
        raise InvalidSubscriptionError(f"weights: {shown(weights)} has one that is too large") from None
    if math.isinf(checked.total):
        raise InvalidSubscriptionError("weights: their sum is not a finite number")
    return checked
