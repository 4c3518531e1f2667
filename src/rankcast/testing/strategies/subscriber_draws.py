"""Subscribers: policies, relevance functions, preferences, ways of being notified."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from msgspec import structs

from rankcast.model.policies import (
    ALL_MATCHES,
    AT_ONCE,
    AllMatches,
    Continuous,
    Diversity,
    Gathered,
    Notify,
    OnDemand,
    Periodic,
    Policy,
    Sliding,
    TopKWindow,
    diversity_of,
)
from rankcast.model.relevance import Closeness, Cosine, Decay, IdealPoint, Relevance, Target
from rankcast.model.schema import Schema
from rankcast.model.subscriptions import Priority, RankBy, Subscriber, SubscriberId, Subscription, SubscriptionId
from rankcast.model.times import TICK
from rankcast.model.values import FAMILY_OF_TYPE, Family, ValueType
from rankcast.testing.strategies.filter_draws import filters
from rankcast.testing.strategies.pools import (
    ATTRIBUTES,
    attribute_names,
    constants,
    identifiers,
    mostly,
    times,
)


@cache
def policies() -> SearchStrategy[Policy]:
    """Draw a delivery policy of any kind, some of them with diversity."""
    return policies_with((TICK, timedelta(hours=1), timedelta(days=7)), most=10)


def policies_with(spans: tuple[timedelta, ...], *, most: int) -> SearchStrategy[Policy]:
    """Draw a delivery policy of any kind with one of these spans of time, or a window of at most so many events."""
    k, counts, times = st.integers(0, 5), st.integers(1, most), st.sampled_from(spans)
    diversity = mostly(st.none(), diversities(), share=6)
    return st.one_of(
        st.just(ALL_MATCHES),
        st.builds(Continuous, k),
        st.builds(Periodic, k, times, diversity),
        st.builds(Sliding, k, counts, diversity),
        st.builds(TopKWindow, k, counts | times, diversity),
    )


def _under(schema: Schema | None, policy: Policy) -> Policy:
    """Return a policy that compares no attribute which a schema does not know."""
    if schema is None or isinstance(policy, AllMatches | Continuous) or policy.diversity is None:
        return policy
    return replace(policy, diversity=Diversity(policy.diversity.sigma, dict.fromkeys(schema.attributes, 1.0)))


@cache
def diversities() -> SearchStrategy[Diversity]:
    """Draw a diversity: by all attributes, or by weights of some of those that events have."""
    weights = st.dictionaries(attribute_names(), st.sampled_from((1.0, 0.1, 2.5, 2)), max_size=3)
    return st.builds(Diversity, st.sampled_from((0.0, 0.3, 0.5, 1.0)), weights)


VECTOR = "v"
"""The name of the payload's list that `Cosine` functions look at; `vectors` draws such lists."""


@cache
def vectors() -> SearchStrategy[list[float]]:
    """Draw a list of numbers, mostly of two."""
    numbers = mostly(st.sampled_from((-1.0, 0.0, 0.5, 1.0)), st.floats(-1e6, 1e6), share=9)
    return mostly(st.lists(numbers, min_size=2, max_size=2), st.lists(numbers, max_size=3), share=9)


@st.composite
def _ideal_points(draw: DrawFn, names: tuple[str, ...], *, bounded: bool) -> IdealPoint:
    return IdealPoint(draw(_target_lists(names)), draw(_POSITIVE) if bounded else None)


@cache
def _target_lists(names: tuple[str, ...]) -> SearchStrategy[tuple[Target, ...]]:
    values = constants(ValueType.INT, ValueType.FLOAT)
    one = st.builds(Target, st.sampled_from(names), values, _POSITIVE, _POSITIVE)
    return st.lists(one, min_size=1, max_size=3, unique_by=lambda target: target.attribute).map(tuple)


_POSITIVE = st.sampled_from((1.0, 0.5, 2.0, 10.0)) | st.floats(1e-3, 1e3)


@cache
def relevances(names: tuple[str, ...] = ("n", "x")) -> SearchStrategy[Relevance]:
    """Draw a relevance function with scores in [0, 1], over numeric attributes of these names or over `VECTOR`."""
    cosines = st.builds(Cosine, st.just(VECTOR), vectors().filter(any).map(tuple))
    if not names:
        return cosines
    return st.one_of(_ideal_points(names, bounded=True), st.builds(Closeness, _target_lists(names)), cosines)


def _numeric_names(schema: Schema | None) -> tuple[str, ...]:
    declared = ATTRIBUTES if schema is None else schema.attributes
    return tuple(name for name, kind in declared.items() if name != "data.type" and _is_numeric(kind))


def _is_numeric(kind: ValueType) -> bool:
    return FAMILY_OF_TYPE[kind] is Family.NUMBER


@st.composite
def subscriptions(
    draw: DrawFn, *, schema: Schema | None = None, ranked: bool = True, by_distance: bool = False
) -> Subscription:
    """Draw a subscription, mostly active at all times and without a relevance; unless `ranked`, without a rank.

    With `by_distance`, its relevance is an ideal point without a reach.
    """
    start, end = sorted(draw(_ACTIVATIONS)) or (None, None)
    names = _numeric_names(schema)
    relevance = _ideal_points(names, bounded=False) if by_distance else mostly(st.none(), relevances(names), share=7)
    return Subscription(
        SubscriptionId(draw(identifiers())),
        draw(filters(schema, max_leaves=5)),
        rank=draw(_RANKS) if ranked and not by_distance else None,
        weight=draw(st.sampled_from((1.0, 0.0, 2.5, 2))),
        active_from=start if draw(st.booleans()) else None,
        active_until=end if draw(st.booleans()) else None,
        relevance=draw(relevance),
        refresh=draw(_REFRESHES),
    )


_REFRESHES: SearchStrategy[timedelta | None] = mostly(
    st.none(), st.sampled_from((TICK, timedelta(seconds=2), timedelta(days=40), timedelta(days=9_000_000))), share=7
)
_DECAYS: SearchStrategy[Decay | None] = mostly(
    st.none(), st.builds(Decay, st.sampled_from((TICK, timedelta(seconds=1), timedelta(days=30)))), share=7
)
_ACTIVATIONS: SearchStrategy[list[datetime]] = mostly(
    st.just([]), st.lists(times(), min_size=2, max_size=2, unique=True), share=7
)
_RANKS = st.none() | st.sampled_from((0.0, 0.25, 0.5, 1.0, 0, 1)) | st.floats(0, 1)


@st.composite
def subscribers(
    draw: DrawFn, *, schema: Schema | None = None, deliver: SearchStrategy[Policy] | None = None
) -> Subscriber:
    """Draw a subscriber with ranks or with priorities that form no cycle, and any policy unless `deliver` says which.

    Some rank by relevance, a few of them by distance. A list of several needs different ids:
    `st.lists(subscribers(), unique_by=lambda subscriber: subscriber.id)`.
    """
    policy = _under(schema, draw(policies() if deliver is None else deliver))
    in_bounds = diversity_of(policy) is not None  # ranks have to lie in [0, 1] then
    by_distance = (
        not in_bounds and bool(_numeric_names(schema)) and draw(mostly(st.just(False), st.just(True), share=9))
    )
    by_priority = not by_distance and draw(st.booleans())
    owned = draw(
        st.lists(
            subscriptions(schema=schema, ranked=not by_priority, by_distance=by_distance),
            max_size=4,
            unique_by=lambda subscription: subscription.id,
        )
    )
    return Subscriber(
        SubscriberId(draw(identifiers())),
        tuple(owned),
        deliver=policy,
        rank_by=draw(st.sampled_from([one for one in RankBy if not (in_bounds and one is RankBy.WEIGHTED_SUM)])),
        most_specific=draw(st.booleans()),
        priorities=draw(_priorities([subscription.id for subscription in owned])) if by_priority else (),
        decay=None if by_distance or in_bounds else draw(_DECAYS),
    )


_WAYS: SearchStrategy[Notify] = st.sampled_from(
    (AT_ONCE, Gathered(timedelta(seconds=2)), Gathered(timedelta(days=50)), OnDemand())
)


@st.composite
def notified_subscribers(
    draw: DrawFn, *, schema: Schema | None = None, deliver: SearchStrategy[Policy] | None = None
) -> Subscriber:
    """Draw what `subscribers` does, with policies of their own for some subscriptions, and notified in any way."""
    policy = policies() if deliver is None else deliver
    drawn = draw(subscribers(schema=schema, deliver=deliver))
    in_bounds = drawn.decay is None and drawn.rank_by is not RankBy.WEIGHTED_SUM
    owned = []
    for subscription in drawn.subscriptions:
        own = draw(st.none() | policy)
        if isinstance(own, Periodic | Sliding | TopKWindow) and own.diversity is not None:
            fits = in_bounds and not subscription.scores_by_distance
            own = _under(schema, own) if fits else replace(own, diversity=None)
        owned.append(structs.replace(subscription, deliver=own))
    subscriber = structs.replace(drawn, subscriptions=tuple(owned))
    notify = draw(_WAYS)
    if isinstance(notify, OnDemand) and ALL_MATCHES in subscriber.policies.values():
        return subscriber
    return structs.replace(subscriber, notify=notify)


@st.composite
def _priorities(draw: DrawFn, ids: list[SubscriptionId]) -> tuple[Priority, ...]:
    """Draw conditions that all agree with one order of the ids, so that no cycle can arise."""
    order = draw(st.permutations(ids))
    pairs = [Priority(first, then) for at, first in enumerate(order) for then in order[at + 1 :]]
    return tuple(draw(st.lists(st.sampled_from(pairs), max_size=4, unique=True))) if pairs else ()
