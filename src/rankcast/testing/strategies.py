r"""Hypothesis strategies for values, events, filters, schemas, subscriptions and subscribers.

Everything is drawn from small shared pools most of the time and from the whole range of its type some of the time.
Events and filters therefore meet: the same attribute names, equal end points, hits, near misses; and the edges are all
visited: the ends of int64, integers around 2**53, -0.0, infinities, subnormals, empty strings, NUL, characters beyond
16 bits, the neighbours of the surrogates, the first and the last time.

>>> from hypothesis import given
>>> from rankcast.matching.naive import evaluate
>>> @given(filters(), attributes())
... def check_normal_form(wanted, found):
...     assert wanted.accepts(found) == (evaluate(wanted.expression, found) is True)
>>> check_normal_form()
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, TypeVar, cast

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from msgspec import structs

from rankcast.model.advertisements import Advertisement, AdvertisementId, AudienceRanking, Scoring, Ties
from rankcast.model.events import DEFAULT_TYPE, Event
from rankcast.model.expressions import (
    OF_ELEMENTS,
    OF_SEVERAL,
    ORDERINGS,
    PATTERNS,
    Constant,
    Constraint,
    Expression,
    Not,
    Operator,
    all_of,
    any_of,
)
from rankcast.model.filters import Filter
from rankcast.model.periods import WEEKDAYS, Every
from rankcast.model.policies import (
    AT_ONCE,
    AllMatches,
    Bounded,
    Cap,
    Continuous,
    Digest,
    Diversity,
    Notify,
    OnDemand,
    Periodic,
    Policy,
    Sliding,
    TieRule,
    TopKWindow,
    diversity_of,
)
from rankcast.model.relevance import Closeness, Cosine, Decay, IdealPoint, Relevance, Target
from rankcast.model.schema import ENVELOPE_TYPES, Schema
from rankcast.model.subscriptions import Priority, RankBy, Subscriber, SubscriberId, Subscription, SubscriptionId
from rankcast.model.times import EARLIEST, LATEST, TICK
from rankcast.model.values import (
    FAMILY_OF_TYPE,
    INT_MAX,
    INT_MIN,
    SCALARS,
    AttributeValue,
    Family,
    Value,
    ValueType,
    checked_list,
)

Drawn = TypeVar("Drawn")

_NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)

COMMON: Mapping[ValueType, tuple[Value, ...]] = {
    ValueType.BOOL: (False, True),
    ValueType.INT: (-1, 0, 1, 2, 3, 4),
    ValueType.FLOAT: (-0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0),
    ValueType.STRING: ("", "a", "aa", "ab", "aba", "abc", "b", "ba", "bab", "c"),
    ValueType.TIME: (_NOON - TICK, _NOON, _NOON + TICK, _NOON + timedelta(hours=1), _NOON + timedelta(days=1)),
}
"""The pools that events and filters share: few enough that a constant often equals a value, or just misses it."""

EDGES: Mapping[ValueType, tuple[Value, ...]] = {
    ValueType.BOOL: (False, True),
    ValueType.INT: (INT_MIN, INT_MIN + 1, INT_MAX - 1, INT_MAX, 2**53 - 1, 2**53, 2**53 + 1, -(2**53) - 1, 2**62 + 1),
    ValueType.FLOAT: (
        *(-0.0, 5e-324, -5e-324, sys.float_info.min, sys.float_info.max, -sys.float_info.max, math.inf, -math.inf),
        *(2.0**53, 2.0**53 + 2, 2.0**63, -(2.0**63), 1 + sys.float_info.epsilon, 1 - sys.float_info.epsilon / 2, 0.1),
    ),
    ValueType.STRING: (
        *("\0", "a\0", "a\0\0", "\ud7ff", "\ue000", "a\ud7ff", "a\ue000", "\U0010ffff", "a\U0010ffff", "😀", "é", "é"),
        *("%", "_", "\\", "'", '"', "a%b", "a_b", "a\\b", " ", "\n", "true", "1"),
    ),
    ValueType.TIME: (EARLIEST, EARLIEST + TICK, LATEST - TICK, LATEST),
}
"""Where mistakes are likely: the ends of each type and what is special in the middle of it."""

ATTRIBUTES: Mapping[str, ValueType] = {
    "n": ValueType.INT,
    "x": ValueType.FLOAT,
    "s": ValueType.STRING,
    "u": ValueType.STRING,
    "t": ValueType.TIME,
    "flag": ValueType.BOOL,
    "address.city": ValueType.STRING,
    "data.type": ValueType.INT,
    "tags": ValueType.STRINGS,
    "scores": ValueType.FLOATS,
}
"""The pool of names, each with the type that it has most of the time (in events) or is compared with (in filters)."""


@st.composite
def mostly(draw: DrawFn, common: SearchStrategy[Drawn], rare: SearchStrategy[Drawn], share: int = 8) -> Drawn:
    """Draw from `common` in `share` of 10 cases (one_of would choose evenly)."""
    return draw(common if draw(st.integers(1, 10)) <= share else rare)


def text(max_size: int = 12, min_size: int = 0) -> SearchStrategy[str]:
    """Draw any text without surrogates."""
    return st.text(st.characters(exclude_categories=["Cs"]), min_size=min_size, max_size=max_size)


_WIDE: Mapping[ValueType, SearchStrategy[Any]] = {
    ValueType.BOOL: st.booleans(),
    ValueType.INT: st.integers(INT_MIN, INT_MAX),
    ValueType.FLOAT: st.floats(allow_nan=False),
    ValueType.STRING: text(),
    ValueType.TIME: st.datetimes(timezones=st.just(UTC)).map(lambda time: time.replace(fold=0)),
}


def _of_type(kind: ValueType) -> SearchStrategy[AttributeValue]:
    if kind.is_list:
        return st.lists(values(kind.element), max_size=4).map(lambda drawn: checked_list(drawn, "list"))
    return mostly(st.sampled_from(COMMON[kind]), st.sampled_from(EDGES[kind]) | _WIDE[kind])


@cache
def values(*types: ValueType) -> SearchStrategy[Any]:
    """Draw what an attribute of an event may hold: any of the given types, or of all, lists among them.

    >>> from hypothesis import given
    >>> @given(values(ValueType.INT))
    ... def check_range(value):
    ...     assert INT_MIN <= value <= INT_MAX
    >>> check_range()
    """
    return st.one_of(*map(_of_type, types or ValueType))


@cache
def constants(*types: ValueType) -> SearchStrategy[Value]:
    """Draw what a filter may compare with: a value that is not infinite."""
    return values(*(types or SCALARS)).filter(lambda value: not (isinstance(value, float) and math.isinf(value)))


@cache
def attribute_names() -> SearchStrategy[str]:
    """Draw a name of an attribute, mostly one of `ATTRIBUTES`; envelope names are left to `events`."""
    return mostly(st.sampled_from(tuple(ATTRIBUTES)), _OTHER_NAMES, share=9)


def is_free(name: str) -> bool:
    """Whether a payload key is seen under its own name, which needs that no envelope name hides it."""
    while name.startswith("data."):
        name = name.removeprefix("data.")
    return name.partition(".")[0] not in ENVELOPE_TYPES


_OTHER_NAMES = text(min_size=1).filter(is_free)


@cache
def _values_for(name: str) -> SearchStrategy[AttributeValue]:
    """Return values that suit a name of the pool, and now and then others."""
    kind = ATTRIBUTES[name]
    return mostly(values(*alike(kind)), values(), share=7 if kind.is_list else 9)


def alike(kind: ValueType) -> tuple[ValueType, ...]:
    """Return the types whose values can be compared with those of a type."""
    if FAMILY_OF_TYPE[kind] is not Family.NUMBER:
        return (kind,)
    return (ValueType.INTS, ValueType.FLOATS) if kind.is_list else (ValueType.INT, ValueType.FLOAT)


@cache
def attributes() -> SearchStrategy[dict[str, AttributeValue]]:
    """Draw attributes as filters see them: `Filter.accepts` and `evaluate` take them as they are."""
    return _attributes()


@st.composite
def _attributes(draw: DrawFn) -> dict[str, AttributeValue]:
    present = draw(st.tuples(*(st.booleans() for _ in ATTRIBUTES)))
    found = {name: draw(_values_for(name)) for name, has in zip(ATTRIBUTES, present, strict=True) if has}
    return {**draw(mostly(st.just({}), _OTHER_ATTRIBUTES)), **found}


_OTHER_ATTRIBUTES = st.dictionaries(_OTHER_NAMES, values(), max_size=2)


@cache
def times() -> SearchStrategy[datetime]:
    """Draw a UTC time."""
    return cast(SearchStrategy[datetime], values(ValueType.TIME))


@cache
def identifiers() -> SearchStrategy[str]:
    """Draw an id: mostly a number, so that ids meet."""
    return mostly(st.integers(1, 99).map(str), text(min_size=1).filter(lambda drawn: bool(drawn.strip())), share=9)


@st.composite
def events(draw: DrawFn, content: SearchStrategy[Mapping[str, AttributeValue]] | None = None) -> Event:
    """Draw an event whose attributes are those of `content` and of an envelope; some payloads are nested objects.

    >>> from hypothesis import given
    >>> @given(events(st.just({"address.city": "Porto"})))
    ... def check_city(event):
    ...     assert event.attributes["address.city"] == "Porto"
    >>> check_city()
    """
    found = draw(attributes() if content is None else content)
    plain = {name: value for name, value in found.items() if name not in ENVELOPE_TYPES}
    payload = {
        name if is_free(name) else name.removeprefix("data."): list(value) if isinstance(value, tuple) else value
        for name, value in plain.items()
    }
    envelope: dict[str, Any] = {
        "id": draw(identifiers()),
        "source": draw(st.sampled_from(("/a", "/b", "/flats"))),
        "type": draw(st.sampled_from((DEFAULT_TYPE, "a", "ab"))),
        "time": draw(st.none() | times()),
        "expirytime": draw(st.none() | times()),
        "subject": draw(st.none() | values(ValueType.STRING)),
    }
    envelope |= {name: value for name, value in found.items() if name in ENVELOPE_TYPES}
    envelope.pop("specversion", None)
    expires = envelope.pop("expirytime")
    extensions = draw(st.just({}) | st.just({"region": draw(values(ValueType.STRING))}))
    data = _nested(payload) if draw(st.booleans()) else payload
    return Event(**envelope, expires=expires, extensions=extensions, data=data)


def _nested(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Write dotted names as nested objects where nothing stands in the way."""
    made: dict[str, Any] = {}
    inner: dict[str, dict[str, Any]] = {}
    for name, value in payload.items():
        head, _, tail = name.partition(".")
        if head and tail and head not in payload:
            inner.setdefault(head, {})[tail] = value
        else:
            made[name] = value
    return {**made, **{head: _nested(below) for head, below in inner.items()}}


@st.composite
def conforming_events(draw: DrawFn, schema: Schema) -> Event:
    """Draw an event that a schema accepts: the required attributes, some of the others, each of its declared type.

    >>> from hypothesis import given
    >>> flats = Schema({"rent": ValueType.INT}, required=frozenset({"rent"}))
    >>> @given(conforming_events(flats))
    ... def check_rent(event):
    ...     assert isinstance(event.attributes["rent"], int)
    >>> check_rent()
    """
    others = draw(attributes())
    found = {name: value for name, value in others.items() if name not in schema.attributes}
    for name in sorted(schema.attributes.keys() | schema.required):
        if name in schema.required or draw(st.booleans()):
            drawn = values(schema.type_of(name))
            found[name] = draw(drawn.filter(bool) if name in ("id", "source", "type") else drawn)
    return draw(events(st.just(found))).conformed(schema)


_LIKE_PIECES = ("a", "b", "c", "%", "_", "%", r"\%", r"\_", r"\\", "ab", "\0", "😀")


def like_texts() -> SearchStrategy[str]:
    """Draw the text of a `like`: mostly short, of few characters, with both wildcards and escapes."""
    return st.lists(st.sampled_from(_LIKE_PIECES), max_size=6).map("".join)


@st.composite
def constraints(
    draw: DrawFn, names: SearchStrategy[str] | None = None, *, schema: Schema | None = None, patterns: bool = True
) -> Constraint:
    """Draw one constraint with any operator; with a schema, one that fits it.

    Without `patterns`, it is one that ranges can say: no `like` and kin, and no `has`.
    """
    if names is None:
        names = attribute_names() if schema is None else _names_of(schema)
    name = draw(names)
    kind = draw(_types_for(name)) if schema is None else schema.type_of(name)
    usual = _operators(FAMILY_OF_TYPE[kind], patterns=patterns)
    if kind.is_list and patterns:
        of_lists = st.sampled_from(sorted((*OF_ELEMENTS, Operator.EXISTS), key=lambda operator: operator.value))
        usual = of_lists if schema is not None else mostly(of_lists, usual)
    elif kind.is_list and schema is not None:
        usual = st.just(Operator.EXISTS)
    operator = draw(usual)
    return Constraint(name, operator, draw(_constants_for(operator, alike(kind.element))))


def _types_for(name: str) -> SearchStrategy[ValueType]:
    usual = ATTRIBUTES.get(name)
    return st.sampled_from(ValueType) if usual is None else mostly(st.just(usual), st.sampled_from(ValueType))


def _names_of(schema: Schema) -> SearchStrategy[str]:
    envelope = st.sampled_from(tuple(ENVELOPE_TYPES))
    return mostly(st.sampled_from(tuple(schema.attributes)), envelope) if schema.attributes else envelope


@cache
def _operators(family: Family, *, patterns: bool) -> SearchStrategy[Operator]:
    unfit: set[Operator] = set()
    if family is Family.BOOL:
        unfit |= ORDERINGS
    if family is not Family.STRING or not patterns:
        unfit |= PATTERNS
    if not patterns:
        unfit |= OF_ELEMENTS
    return st.sampled_from([operator for operator in Operator if operator not in unfit])


@cache
def _constants_for(operator: Operator, types: tuple[ValueType, ...]) -> SearchStrategy[tuple[Value, ...]]:
    if operator is Operator.EXISTS:
        return st.just(())
    if operator is Operator.LIKE:
        return like_texts().map(lambda text: (text,))
    constant = constants(*types)
    if operator in OF_SEVERAL:
        return st.lists(constant, min_size=1, max_size=4).map(tuple)
    return st.tuples(constant, constant) if operator is Operator.BETWEEN else st.tuples(constant)


def expressions(
    *, max_leaves: int = 8, leaves: SearchStrategy[Constraint] | None = None, schema: Schema | None = None
) -> SearchStrategy[Expression]:
    """Draw a filter as it is written: constraints and now and then `true` or `false`, under `and`, `or` and `not`.

    Trees have the shape that `&`, `|` and the grammar give them: an `and` directly under an `and` is one `and`.
    """
    if leaves is None and schema is None:
        return _expressions(max_leaves)
    return _trees(constraints(schema=schema) if leaves is None else leaves, max_leaves)


@cache  # a recursive strategy is costly to make, and subscribers need one for each subscription
def _expressions(max_leaves: int) -> SearchStrategy[Expression]:
    return _trees(constraints(), max_leaves)


def _trees(leaves: SearchStrategy[Constraint], max_leaves: int) -> SearchStrategy[Expression]:
    plain: SearchStrategy[Expression] = mostly(leaves, st.builds(Constant, st.booleans()), share=9)
    return st.recursive(
        plain,
        lambda inner: st.one_of(
            st.lists(inner, min_size=2, max_size=4).map(lambda parts: all_of(*parts)),
            st.lists(inner, min_size=2, max_size=4).map(lambda parts: any_of(*parts)),
            st.builds(Not, inner),
        ),
        max_leaves=max_leaves,
    )


def filters(schema: Schema | None = None, *, max_leaves: int = 8) -> SearchStrategy[Filter]:
    """Draw a filter; with a schema, one that fits it and is in normal form under it."""
    if schema is None:
        return _filters(max_leaves)
    return expressions(max_leaves=max_leaves, schema=schema).map(lambda expression: Filter.of(expression, schema))


@cache
def _filters(max_leaves: int) -> SearchStrategy[Filter]:
    return _expressions(max_leaves).map(Filter.of)


@st.composite
def schemas(draw: DrawFn) -> Schema:
    """Draw a schema: some names, mostly of the pool and with their usual types, some of them required."""
    names = draw(st.lists(attribute_names(), max_size=8, unique=True))
    declared = {name: draw(_types_for(name)) for name in names}
    required = draw(st.sets(st.sampled_from((*names, "subject", "time")), max_size=3))
    return Schema(declared, frozenset(required))


@cache
def policies() -> SearchStrategy[Policy]:
    """Draw a delivery policy of any kind, some of them with diversity."""
    return policies_with((TICK, timedelta(hours=1), timedelta(days=7)), most=10)


def policies_with(spans: tuple[timedelta, ...], *, most: int) -> SearchStrategy[Policy]:
    """Draw a delivery policy of any kind with one of these spans of time, or a window of at most so many events."""
    k, counts, times = st.integers(0, 5), st.integers(1, most), st.sampled_from(spans)
    diversity, at_most = mostly(st.none(), diversities(), share=6), mostly(st.just(()), caps(spans), share=6)
    ties = st.sampled_from(TieRule)
    return st.one_of(
        st.builds(AllMatches, at_most=at_most),
        st.builds(Continuous, k, ties=ties, at_most=at_most),
        st.builds(Periodic, k, times | calendars(), diversity, ties=ties, at_most=at_most),
        st.builds(Sliding, k, counts, diversity, ties=ties, at_most=at_most),
        st.builds(TopKWindow, k, counts | times, diversity, ties=ties, at_most=at_most),
        bounded_windows(k, counts, at_most=at_most),
    )


def bounded_windows(
    k: SearchStrategy[int], counts: SearchStrategy[int], **others: SearchStrategy[Any]
) -> SearchStrategy[TopKWindow]:
    """Draw windows of so many events with a bounded queue, of a few events to more than are drawn."""
    return st.builds(TopKWindow, k, counts, queue=st.builds(Bounded, st.sampled_from((1.0, 0.6, 0.3, 0.001))), **others)


@cache
def calendars() -> SearchStrategy[Every]:
    """Draw a calendar of any unit, in its own zone or in that of whom it belongs to."""
    times, zones = st.sampled_from(("00:00", "00:20", "08:00", "23:59")), st.none() | st.sampled_from(ZONES)
    return st.one_of(
        st.builds(Every, st.just("hour"), times),
        st.builds(Every, st.just("day"), times, zone=zones),
        st.builds(Every, st.just("week"), times, weekday=st.none() | st.sampled_from(WEEKDAYS), zone=zones),
        st.builds(Every, st.just("month"), times, day=st.none() | st.integers(1, 31), zone=zones),
    )


ZONES = ("UTC", "Europe/Berlin", "America/Havana", "Australia/Lord_Howe", "Asia/Kathmandu", "Pacific/Apia")
"""Zones whose clocks change, by an hour or half of one, at midnight or later; or that are off by a quarter."""


def caps(spans: tuple[timedelta, ...]) -> SearchStrategy[tuple[Cap, ...]]:
    """Draw the caps of a policy: a few small ones, some per attribute, with these spans of time or calendars.

    Two of one unit and attribute could be the same in the zone of a subscriber, so there is one at most.
    """
    cap = st.builds(Cap, st.integers(1, 3), st.sampled_from(spans) | calendars(), st.none() | attribute_names())
    drawn = st.lists(
        cap, min_size=1, max_size=3, unique_by=lambda cap: (getattr(cap.every, "unit", cap.every), cap.per)
    )
    return drawn.map(tuple)


def _under(schema: Schema | None, policy: Policy) -> Policy:
    """Return a policy that compares and counts no attribute which a schema does not know."""
    if schema is None:
        return policy
    known = tuple(cap for cap in policy.at_most if cap.per is None or cap.per in schema.attributes)
    policy = replace(policy, at_most=known)
    if isinstance(policy, AllMatches | Continuous) or policy.diversity is None:
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
    targets = st.builds(Target, st.sampled_from(names), values, _POSITIVE, _POSITIVE)
    return st.lists(targets, min_size=1, max_size=3, unique_by=lambda target: target.attribute).map(tuple)


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
    numeric = (name for name, kind in declared.items() if kind in (ValueType.INT, ValueType.FLOAT))
    return tuple(name for name in numeric if name != "data.type")


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
        rank_by=draw(st.sampled_from([kind for kind in RankBy if not (in_bounds and kind is RankBy.WEIGHTED_SUM)])),
        most_specific=draw(st.booleans()),
        priorities=draw(_priorities([subscription.id for subscription in owned])) if by_priority else (),
        decay=None if by_distance or in_bounds else draw(_DECAYS),
        zone=draw(mostly(st.none(), st.sampled_from(ZONES), share=4)),
        muted_until=draw(_MUTED),
    )


_NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
_MUTED: SearchStrategy[datetime | None] = mostly(
    st.none(), times() | st.sampled_from((_NEW_YEAR + timedelta(seconds=1), _NEW_YEAR + timedelta(days=31)))
)
_WAYS: SearchStrategy[Notify] = st.one_of(
    st.sampled_from((AT_ONCE, OnDemand())),
    st.builds(Digest, st.sampled_from((timedelta(seconds=2), timedelta(days=50)))),
    st.builds(Digest, calendars()),
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
        if isinstance(own, Periodic | Sliding | TopKWindow) and not (in_bounds and not subscription.scores_by_distance):
            own = replace(own, diversity=None)
        own = own and _under(schema, own)
        owned.append(structs.replace(subscription, deliver=own))
    subscriber = structs.replace(drawn, subscriptions=tuple(owned))
    notify = draw(_WAYS)
    policies_drawn = subscriber.policies.values()
    if isinstance(notify, OnDemand) and any(isinstance(own, AllMatches) or own.at_most for own in policies_drawn):
        return subscriber
    return structs.replace(subscriber, notify=notify)


@st.composite
def _priorities(draw: DrawFn, ids: list[SubscriptionId]) -> tuple[Priority, ...]:
    """Draw conditions that all agree with one order of the ids, so that no cycle can arise."""
    order = draw(st.permutations(ids))
    pairs = [Priority(first, then) for at, first in enumerate(order) for then in order[at + 1 :]]
    return tuple(draw(st.lists(st.sampled_from(pairs), max_size=4, unique=True))) if pairs else ()


def audience_rankings(ties: Sequence[Ties] = tuple(Ties)) -> SearchStrategy[AudienceRanking]:
    """Rankings of audiences, with few seeds."""
    return st.builds(AudienceRanking, st.sampled_from(Scoring), st.sampled_from(ties), st.integers(0, 3))


@st.composite
def advertisements(draw: DrawFn) -> Advertisement:
    """Advertisements of any events or of some, for everybody or for a few."""
    k = draw(st.none() | st.integers(1, 9))
    name, source = AdvertisementId(draw(identifiers())), draw(identifiers())
    return Advertisement(name, source, draw(filters()), draw(schemas()), k, draw(audience_rankings()))
