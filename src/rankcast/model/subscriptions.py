"""Subscriptions and subscribers: which events, how much they are wanted, since when and until when.

A subscription sees events whose time lies in [active_from, active_until): the start belongs to it and the end does not,
so that a subscription replaced at an instant misses nothing and sees nothing twice. An event without a time is seen
only by subscriptions without such bounds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from enum import Enum
from typing import NamedTuple, NewType

from msgspec import Struct
from msgspec.structs import force_setattr, replace

from rankcast.model.errors import DuplicateIdError, InvalidSubscriptionError, InvalidValueError, require, shown
from rankcast.model.expressions import Constraint, Expression, Operator, all_of
from rankcast.model.filters import Filter
from rankcast.model.periods import check_duration, check_zone, in_zone
from rankcast.model.policies import (
    ALL_MATCHES,
    AT_ONCE,
    AllMatches,
    Digest,
    Notify,
    OnDemand,
    Policy,
    check_notify,
    check_policy,
    diversity_of,
    is_number,
    policy_in_zone,
)
from rankcast.model.relevance import Closeness, Cosine, Decay, IdealPoint, Relevance, check_relevance
from rankcast.model.schema import Schema
from rankcast.model.times import format_time
from rankcast.model.values import checked_value

SubscriberId = NewType("SubscriberId", str)
SubscriptionId = NewType("SubscriptionId", str)

MAX_ID_LENGTH = 1_000

MAX_WEIGHT = 1e100
"""Weight of one subscription: far from where a sum of weighted ranks is no longer a finite number."""

_A_WEIGHT = f"a finite number of at least 0 and at most {MAX_WEIGHT:g}"


class SubscriptionKey(NamedTuple):
    """Names one subscription among all subscribers'."""

    subscriber: SubscriberId
    subscription: SubscriptionId


class RankBy(Enum):
    """How the preference ranks of the matching subscriptions become the rank of an event."""

    MAX = "max"
    MIN = "min"
    MEAN = "mean"
    WEIGHTED_SUM = "weighted_sum"


class Subscription(Struct, frozen=True, gc=False):
    """A filter, how much its events are wanted, and when it is active (in event time).

    `rank` is the preference rank in [0, 1]; None leaves it to the subscriber's priorities or, without any, means 1.
    With a `relevance` each event's rank is that times its relevance; an event that has none is not seen. `weight`
    counts only when ranks are combined by weighted sum. Events are valid for the time `refresh`, if one is given. With
    a policy of its own in `deliver` it has a queue of its own, in which its events compete with each other only.
    """

    id: SubscriptionId
    filter: Filter
    rank: float | None = None
    weight: float = 1.0
    active_from: datetime | None = None
    active_until: datetime | None = None
    relevance: Relevance | None = None
    refresh: timedelta | None = None
    deliver: Policy | None = None

    def __post_init__(self) -> None:
        check_id("subscription", self.id)
        expected = "a Filter; expected parse_filter(text) or Filter.of(expression)"
        require(isinstance(self.filter, Filter), "filter", self.filter, expected)
        if self.rank is not None:
            require(is_number(self.rank) and 0 <= self.rank <= 1, "rank", self.rank, "a number from 0 to 1")
        require(is_number(self.weight) and 0 <= self.weight <= MAX_WEIGHT, "weight", self.weight, _A_WEIGHT)
        known = isinstance(self.relevance, IdealPoint | Closeness | Cosine | None)
        require(known, "relevance", self.relevance, "an IdealPoint, a Closeness or a Cosine")
        if self.rank is not None and self.scores_by_distance:
            raise InvalidSubscriptionError("relevance: an ideal point needs a reach to be combined with a rank")
        if self.refresh is not None:
            check_duration("refresh", self.refresh)
        if self.deliver is not None:
            check_policy(self.deliver)
        for name in ("active_from", "active_until"):
            if getattr(self, name) is not None:
                force_setattr(self, name, _checked_time(name, getattr(self, name)))
        if self.active_from is not None and self.active_until is not None and self.active_from >= self.active_until:
            raise InvalidSubscriptionError(
                f"active_until: {format_time(self.active_until)} is not after active_from, "
                f"{format_time(self.active_from)}"
            )

    @property
    def bounded(self) -> Filter:
        """The filter with the bounds of activity among its constraints; raise when that is too large."""
        condition = self.condition
        return self.filter if condition is self.filter.expression else Filter.of(condition, self.filter.schema)

    @property
    def condition(self) -> Expression:
        """What the filter says, with the bounds of activity."""
        bounds: list[Expression] = []
        if self.active_from is not None:
            bounds.append(Constraint("time", Operator.GE, (self.active_from,)))
        if self.active_until is not None:
            bounds.append(Constraint("time", Operator.LT, (self.active_until,)))
        return all_of(self.filter.expression, *bounds) if bounds else self.filter.expression

    @property
    def scores_by_distance(self) -> bool:
        """Whether events are ranked by a negated distance, which is no rank in [0, 1]."""
        return self.relevance is not None and not self.relevance.is_bounded

    def under(self, schema: Schema) -> Subscription:
        """Return the subscription with its filter under a schema; raise when filter or relevance do not fit it."""
        if self.relevance is not None:
            check_relevance(self.relevance, schema)
        checked = self.filter.under(schema)
        return self if checked is self.filter else replace(self, filter=checked)

    def is_active_at(self, time: datetime | None) -> bool:
        """Whether events of this time are seen."""
        if time is None:
            return self.active_from is None and self.active_until is None
        return (self.active_from is None or self.active_from <= time) and (
            self.active_until is None or time < self.active_until
        )


class Priority(NamedTuple):
    """ "first before then": of two subscriptions of one subscriber, which is preferred."""

    first: SubscriptionId
    then: SubscriptionId


class Subscriber(Struct, frozen=True, gc=False):
    """One who gets notifications: subscriptions that compete for one delivery policy, but those that have their own.

    Preferences are either ranks on the subscriptions or `priorities` among them, not both. With `most_specific`, a
    matching subscription that strictly covers another matching one does not count towards an event's rank. With a
    `decay`, newer events count more. `notify` says when what is delivered is handed over; nothing is before
    `muted_until`, and never later. `zone` is that of its calendars which name none. `policies` and `handover` have them
    in their zones: what engines go by.
    """

    id: SubscriberId
    subscriptions: tuple[Subscription, ...] = ()
    deliver: Policy = ALL_MATCHES
    rank_by: RankBy = RankBy.MAX
    most_specific: bool = False
    priorities: tuple[Priority, ...] = ()
    decay: Decay | None = None
    notify: Notify = AT_ONCE
    zone: str | None = None
    muted_until: datetime | None = None

    def __post_init__(self) -> None:
        check_id("subscriber", self.id)
        check_policy(self.deliver)
        check_notify(self.notify)
        if self.zone is not None:
            check_zone(self.zone)
        require(isinstance(self.rank_by, RankBy), "rank_by", self.rank_by, "a RankBy")
        require(isinstance(self.most_specific, bool), "most_specific", self.most_specific, "True or False")
        _make_tuple(self, "subscriptions")
        _make_tuple(self, "priorities")
        known: set[str] = set()
        for subscription in self.subscriptions:
            require(isinstance(subscription, Subscription), "subscriptions", subscription, "a Subscription")
            if subscription.id in known:
                raise DuplicateIdError(f"subscriber {shown(self.id)} has two subscriptions {shown(subscription.id)}")
            known.add(subscription.id)
        _check_priorities(self.id, self.priorities, known)
        ranked = [subscription.id for subscription in self.subscriptions if subscription.rank is not None]
        if self.priorities and ranked:
            raise InvalidSubscriptionError(
                f"subscriber {shown(self.id)}: subscription {shown(ranked[0])} has a rank although there are "
                "priorities; use one or the other"
            )
        require(isinstance(self.decay, Decay | None), "decay", self.decay, "a Decay")
        if self.muted_until is not None:
            force_setattr(self, "muted_until", _checked_time("muted_until", self.muted_until))
        shared = tuple(held for held in self.subscriptions if held.deliver is None)
        if shared or not self.subscriptions:
            self._check_queue(self.deliver, shared, "")
        for held in self.subscriptions:
            if held.deliver is not None:
                self._check_queue(held.deliver, (held,), f"subscription {shown(held.id)}: ")

    @property
    def policies(self) -> dict[SubscriptionId | None, Policy]:
        """The policy of each queue: the subscriber's own under None, if anything competes for it, then the others'."""
        own = [(held.id, held.deliver) for held in self.subscriptions if held.deliver is not None]
        found: dict[SubscriptionId | None, Policy] = {}
        if len(own) < len(self.subscriptions) or not own:
            found[None] = self.deliver
        found.update(own)
        return found if self.zone is None else {name: policy_in_zone(own, self.zone) for name, own in found.items()}

    @property
    def handover(self) -> Notify:
        """When it is notified."""
        return Digest(in_zone(self.notify.every, self.zone)) if isinstance(self.notify, Digest) else self.notify

    def _check_queue(self, policy: Policy, competing: tuple[Subscription, ...], whose: str) -> None:
        self._check_distances(competing)
        policy_in_zone(policy, self.zone)  # there two caps may be the same
        if diversity_of(policy) is not None:
            self._check_ranks(competing)
        if isinstance(self.notify, OnDemand) and isinstance(policy, AllMatches):
            raise InvalidSubscriptionError(
                f"{whose}notify: the policy of all matches holds nothing that could be read on demand; expected "
                "another policy"
            )
        if isinstance(self.notify, OnDemand) and policy.at_most:
            raise InvalidSubscriptionError(
                f"{whose}at_most: a list that is read on demand is not capped; expected another notify, or no caps"
            )

    def _check_ranks(self, competing: tuple[Subscription, ...]) -> None:
        """Raise when events could have scores outside [0, 1], which diversity cannot weigh against distances."""
        by_distance = next((held.id for held in competing if held.scores_by_distance), None)
        if by_distance is not None:
            problem = f"subscription {shown(by_distance)} has an ideal point without a reach"
        elif self.decay is not None:
            problem = "there is a decay"
        elif self.rank_by is RankBy.WEIGHTED_SUM and (largest := _largest_sum(competing)) > 1:
            problem = f"a weighted sum can be {largest:g}"
        else:
            return
        raise InvalidSubscriptionError(
            f"subscriber {shown(self.id)}: deliver: diversity needs ranks from 0 to 1, but {problem}"
        )

    def _check_distances(self, competing: tuple[Subscription, ...]) -> None:
        """Raise when distances would be combined with anything but distances."""
        by_distance = [subscription.id for subscription in competing if subscription.scores_by_distance]
        if not by_distance:
            return
        if len(by_distance) < len(competing):
            other = "another subscription's ranks"
        elif self.priorities or self.decay is not None:
            other = "priorities" if self.priorities else "decay"
        else:
            return
        raise InvalidSubscriptionError(
            f"subscriber {shown(self.id)}: subscription {shown(by_distance[0])}: relevance: an ideal point needs a "
            f"reach to be combined with {other}"
        )

    def subscription(self, id: str) -> Subscription | None:  # noqa: A002
        """Return one subscription by its id."""
        return next((subscription for subscription in self.subscriptions if subscription.id == id), None)


def _largest_sum(subscriptions: Iterable[Subscription]) -> float:
    """Return the rank of an event that matches all of these as well as can be, added as ranks are."""
    largest = 0.0
    for subscription in subscriptions:
        largest += (1.0 if subscription.rank is None else subscription.rank) * subscription.weight
    return largest


def unique_subscribers(subscribers: Iterable[Subscriber]) -> dict[SubscriberId, Subscriber]:
    """Return subscribers by id; a second one with the same id is an error."""
    found: dict[SubscriberId, Subscriber] = {}
    if not isinstance(subscribers, Iterable):
        raise InvalidSubscriptionError(f"subscribers: {shown(subscribers)} is no list of Subscribers")
    for subscriber in subscribers:
        if not isinstance(subscriber, Subscriber):
            raise InvalidSubscriptionError(
                f"subscribers: {shown(subscribers if isinstance(subscribers, str) else subscriber)} is no Subscriber; "
                "expected a list of Subscribers"
            )
        if subscriber.id in found:
            raise DuplicateIdError(f"there are two subscribers {shown(subscriber.id)}")
        found[subscriber.id] = subscriber
    return found


def check_id(kind: str, value: object) -> None:
    """Raise unless `value` can be the id of a subscriber, subscription or advertisement."""
    if not isinstance(value, str) or not value.strip() or len(value) > MAX_ID_LENGTH:
        raise InvalidSubscriptionError(f"{kind} id: {shown(value)} is not a string of 1 to {MAX_ID_LENGTH} characters")
    try:
        checked_value(value, f"{kind} id")
    except InvalidValueError as error:
        raise InvalidSubscriptionError(str(error)) from None


def _check_priorities(subscriber: str, priorities: Iterable[object], known: Collection[str]) -> None:
    """Raise unless each priority is a pair of subscriptions that are known."""
    for priority in priorities:
        if not isinstance(priority, tuple | list) or len(priority) != 2:
            raise InvalidSubscriptionError(
                f"priorities: {shown(priority)} is not a Priority, which is a pair of subscription ids"
            )
        for name in priority:
            if not isinstance(name, str) or name not in known:
                raise InvalidSubscriptionError(
                    f"priorities: subscriber {shown(subscriber)} has no subscription {shown(name)}"
                )


def _make_tuple(subscriber: Subscriber, name: str) -> None:
    """Let a field be a tuple where it was given as a list, which others could change."""
    value = getattr(subscriber, name)
    if not isinstance(value, tuple):
        require(isinstance(value, list), name, value, "a tuple")
        force_setattr(subscriber, name, tuple(value))


def _checked_time(name: str, raw: object) -> datetime:
    try:
        value = checked_value(raw, name)
    except InvalidValueError as error:
        raise InvalidSubscriptionError(str(error)) from None
    if not isinstance(value, datetime):
        raise InvalidSubscriptionError(f"{name}: {shown(raw)} is not a time; expected an aware datetime")
    return value
