"""What a hub accepts for subscriptions: texts, expressions, filters, ranks by filter, or whole subscriptions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, TypeAlias, TypeVar

from rankcast.language.parser import parse_filter
from rankcast.model.advertisements import AudienceRanking, Scoring
from rankcast.model.errors import InvalidSubscriptionError, shown
from rankcast.model.expressions import And, Constant, Constraint, Expression, Not, Or, check_expression
from rankcast.model.filters import Filter
from rankcast.model.schema import Schema
from rankcast.model.subscriptions import Priority, RankBy, Subscription, SubscriptionId
from rankcast.storage.subscribers.settings import parse_priority

AnyFilter: TypeAlias = str | Expression | Filter
AnySubscriptions: TypeAlias = AnyFilter | Subscription | Mapping[Any, float] | Iterable[AnyFilter | Subscription]
AnyPriority: TypeAlias = str | tuple[str, str]


class Unchanged(Enum):
    """Stands for what an update does not name, where None is a value."""

    UNCHANGED = "unchanged"


UNCHANGED = Unchanged.UNCHANGED

SETTINGS = ("deliver", "rank_by", "most_specific", "priorities", "decay", "notify", "zone", "muted_until")
"""What is said of a subscriber beside its subscriptions."""


def subscriptions_of(given: AnySubscriptions, schema: Schema | None) -> tuple[Subscription, ...]:
    """Return subscriptions; those given as filters get the ids "1", "2", ... by position.

    >>> [(made.id, made.rank) for made in subscriptions_of({"rent < 900": 0.9, "rooms > 2": 0.6}, None)]
    [('1', 0.9), ('2', 0.6)]
    """
    ranked = given.items() if isinstance(given, Mapping) else ((item, None) for item in _several(given))
    return tuple(
        item
        if isinstance(item, Subscription)
        else Subscription(SubscriptionId(str(number)), filter_of(item, schema), rank)
        for number, (item, rank) in enumerate(ranked, start=1)
    )


def _several(given: object) -> Iterable[object]:
    """Return a filter or subscription that stands alone as the only one of several."""
    if isinstance(given, str | Filter | Subscription):
        return (given,)
    if isinstance(given, Iterable):
        return given
    check_expression(given)
    return (given,)


def filter_of(given: object, schema: Schema | None) -> Filter:
    """Return a filter that is given as text, as an expression or as such."""
    if isinstance(given, str):
        return parse_filter(given, schema)
    if isinstance(given, Filter):
        return given
    if isinstance(given, Constraint | Constant | Not | And | Or):
        return Filter.of(given, schema)
    hint = "; ranks are given as a mapping {filter: rank}" if isinstance(given, tuple) else ""
    raise InvalidSubscriptionError(f"{shown(given)} is not a filter; expected text, an expression or a Filter{hint}")


def settings_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings as they are given, all or some, as those of a `Subscriber`."""
    found = dict(given)
    if "rank_by" in given:
        found["rank_by"] = rank_by_of(given["rank_by"])
    if "priorities" in given:
        found["priorities"] = priorities_of(given["priorities"])
    return found


def rank_by_of(given: RankBy | str) -> RankBy:
    """Return how ranks are combined."""
    return _member("rank_by", given, RankBy)


def ranking_of(given: AudienceRanking | Scoring | str) -> AudienceRanking:
    """Return how an audience is ranked; a scoring alone leaves ties to chance."""
    return given if isinstance(given, AudienceRanking) else AudienceRanking(_member("ranking", given, Scoring))


_Kind = TypeVar("_Kind", bound=Enum)


def _member(name: str, given: object, kind: type[_Kind]) -> _Kind:
    """Return a member of an enum that is given as such or by its value."""
    try:
        return kind(given)
    except ValueError:
        known = ", ".join(member.value for member in kind)
        raise InvalidSubscriptionError(f"{name}: {shown(given)} is not one of {known}") from None


def priorities_of(given: str | Iterable[AnyPriority]) -> tuple[Priority, ...]:
    """Return priorities; a text alone is one priority."""
    if not isinstance(given, Iterable):
        raise InvalidSubscriptionError(f'priorities: {shown(given)} is no list; expected texts "a before b", or pairs')
    return tuple(map(_priority, (given,) if isinstance(given, str) else given))


def _priority(given: object) -> Priority:
    """Return the priority of a text "a before b" or a pair of subscription ids."""
    if isinstance(given, str):
        return parse_priority(given)
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise InvalidSubscriptionError(f"priorities: {shown(given)} is not a pair of subscription ids")
    return Priority(SubscriptionId(given[0]), SubscriptionId(given[1]))


def check_instance(name: str, value: object, kind: type, *, optional: bool = True) -> None:
    """Raise unless `value` is of a kind or, where it is optional, None."""
    if not isinstance(value, kind) and not (optional and value is None):
        raise InvalidSubscriptionError(f"{name}: {shown(value)} is no {kind.__name__}")


def check_callable(name: str, value: object, *, optional: bool = True) -> None:
    """Raise unless `value` can be called or, where it is optional, is None."""
    if not callable(value) and not (optional and value is None):
        expected = "a function or None" if optional else "a function of no arguments"
        raise InvalidSubscriptionError(f"{name}: {shown(value)} cannot be called; expected {expected}")
