"""What the feeds share: how a feed is described, and how its events and its subscribers are made from that.

A feed draws its events block by block, as columns, and its subscribers one by one, each with a generator of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from itertools import count, islice, pairwise
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from rankcast.model.errors import InvalidValueError
from rankcast.model.events import Event
from rankcast.model.expressions import Expression
from rankcast.model.filters import Filter
from rankcast.model.policies import ALL_MATCHES, Continuous, Diversity, Policy, Sliding, TieRule
from rankcast.model.schema import Schema
from rankcast.model.subscriptions import Priority, RankBy, Subscriber, SubscriberId, Subscription, SubscriptionId
from rankcast.model.values import Value, ValueType
from rankcast.ranking.preferences import queues_without_order

DEFAULT_START = datetime(2025, 3, 3, 9, 0, tzinfo=UTC)
"""A Monday morning: no feed reads the clock, so that the same seed gives the same events on every day."""

BLOCK = 256
"""Events drawn from one generator: enough to use numpy well, few enough that a short feed costs nothing."""

Item = TypeVar("Item")
Floats = NDArray[np.float64]
Columns = Mapping[str, Sequence[Value | None]]
"""The payloads of a block by attribute; None is a missing one."""


class Stream(IntEnum):
    """Independent streams of random numbers under one seed."""

    EVENTS = 0
    SUBSCRIBERS = 1
    CATALOGUE = 2


def generator(seed: int, feed: str, stream: Stream, index: int = 0) -> np.random.Generator:
    """Return the generator of one block, subscriber or catalogue; no two of them overlap."""
    return np.random.default_rng((seed, *feed.encode(), int(stream), index))


@dataclass(frozen=True, slots=True)
class Wish:
    """One subscription to be: its id and what it asks for."""

    id: str
    expression: Expression


@dataclass(frozen=True, slots=True)
class Draw:
    """Random choices as plain Python values."""

    generator: np.random.Generator

    def one(self, options: Sequence[Item], weights: Sequence[float] | None = None) -> Item:
        """Return one option, by weight when there are weights."""
        if weights is None:
            return options[int(self.generator.integers(len(options)))]
        bounds = np.cumsum(weights)
        return options[int(np.searchsorted(bounds, self.generator.random() * bounds[-1], side="right"))]

    def several(self, options: Sequence[Item], count: int) -> list[Item]:
        """Return `count` different options."""
        chosen = self.generator.choice(len(options), size=min(count, len(options)), replace=False)
        return [options[index] for index in chosen.tolist()]

    def chance(self, probability: float) -> bool:
        """Return True with a probability."""
        return bool(self.generator.random() < probability)

    def whole(self, low: int, high: int, step: int = 1) -> int:
        """Return a whole number from low to high, both included, in steps."""
        return low + step * int(self.generator.integers((high - low) // step + 1))

    def normal(self, mean: float, deviation: float) -> float:
        """Return a normally distributed number."""
        return float(self.generator.normal(mean, deviation))


@dataclass(frozen=True, slots=True)
class Pulse:
    """When events come: at random, `gap` seconds apart on average while people are awake.

    `day` maps the share of a day's events to the hour by which they have come; hours outside it stay silent.
    """

    gap: float
    day: tuple[tuple[float, float], ...]
    workdays: bool = False
    tick: timedelta = timedelta(seconds=1)

    def times(self, random: np.random.Generator, start: datetime, elapsed: float) -> tuple[list[datetime], float]:
        """Return the next BLOCK times, and the days of activity that have elapsed since `start` after them.

        Raises OverflowError when they go beyond the year 9999.
        """
        shares, hours = np.array(self.day).T
        active_seconds = (hours[-1] - hours[0]) * 3600
        days = elapsed + np.cumsum(random.exponential(self.gap / active_seconds, BLOCK))
        whole, share = np.divmod(days + self._share_gone(start), 1)
        first = np.datetime64(start.date())
        day = first + whole.astype(np.int64)
        if self.workdays:
            day = np.busday_offset(first, whole.astype(np.int64), roll="forward")
        tick = round(self.tick / timedelta(microseconds=1))
        # Up to the next tick, so that no event comes before `start`, which a feed may begin with.
        micros = -(-(np.interp(share, shares, hours) * 3.6e9) // tick) * tick
        moments = day.astype("datetime64[us]") + micros.astype("timedelta64[us]")
        if moments.max() > np.datetime64("9999-12-31T23:59:59.999999"):
            raise OverflowError("the feed goes on after the year 9999")
        return [moment.replace(tzinfo=UTC) for moment in moments.tolist()], float(days[-1])

    def _share_gone(self, start: datetime) -> float:
        """Return the share of the first day's events that came before `start`; a free day begins with the next one."""
        if self.workdays and not np.is_busday(np.datetime64(start.date())):
            return 0.0
        midnight = start.replace(hour=0, minute=0, second=0, microsecond=0)
        shares, hours = np.array(self.day).T
        return float(np.interp((start - midnight) / timedelta(hours=1), hours, shares))


def picks(random: np.random.Generator, weights: Sequence[float] | Floats, count: int = BLOCK) -> NDArray[np.int64]:
    """Return `count` indexes, drawn by weight."""
    bounds: Floats = np.cumsum(weights)
    found: NDArray[np.int64] = np.searchsorted(bounds, random.random(count) * bounds[-1], side="right")
    return found


def with_gaps(random: np.random.Generator, values: Sequence[Item], share: float) -> list[Item | None]:
    """Return the values with about a share of them missing."""
    missing = (random.random(len(values)) < share).tolist()
    return [None if gone else value for value, gone in zip(values, missing, strict=True)]


def zipf(count: int, exponent: float) -> Floats:
    """Return the weights of Zipf's law: the n-th of `count` has weight n ** -exponent."""
    return np.arange(1, count + 1, dtype=np.float64) ** -exponent


class Block(NamedTuple):
    """BLOCK events as they are drawn: when they expire, and what they carry."""

    expiries: Sequence[datetime | None]
    columns: Columns


BlockDraw: TypeAlias = Callable[[np.random.Generator, Sequence[datetime], int], Block]
"""Draws the next events, given the times at which they come and the number of the first."""

Follower: TypeAlias = Callable[[Draw, datetime], Sequence[Wish]]
"""A kind of subscriber: draws what one of them looks for, the dearest wish first, given the start of the feed."""


def schema(header: str, required: str) -> Schema:
    """Return the schema of a typed header, as CSV files have it, and of the names that are never missing."""
    types = (column.split(":") for column in header.split(","))
    return Schema({name: ValueType(kind) for name, kind in types}, frozenset(required.split(",")))


@dataclass(frozen=True, slots=True)
class Feed:
    """An endless source of events and of subscribers to them.

    `type` is the CloudEvents type; its first part names the events: "flat.offered" gives "flat-1", "flat-2". `span` is
    how long about a thousand events take: within it some subscriptions begin or end. `begin` returns what draws the
    blocks of a seed in turn; `followers` are the kinds of subscribers, by weight.
    """

    name: str
    description: str
    type: str
    schema: Schema
    pulse: Pulse
    span: timedelta
    begin: Callable[[int], BlockDraw]
    followers: Mapping[Follower, int]

    def events(self, count: int, seed: int = 0, start: datetime = DEFAULT_START) -> Iterator[Event]:
        """Yield the first `count` events, in order of time, none before `start` (an aware time)."""
        return islice(self._stream(seed, _utc(start)), count)

    def _stream(self, seed: int, start: datetime) -> Iterator[Event]:
        draw_block, noun = self.begin(seed), self.type.partition(".")[0]
        elapsed = 0.0
        for block in count():
            random = generator(seed, self.name, Stream.EVENTS, block)
            times, elapsed = self.pulse.times(random, start, elapsed)
            first = block * BLOCK + 1
            expiries, columns = draw_block(random, times, first)
            rows = zip(*columns.values(), strict=True)
            for number, (time, expires, row) in enumerate(zip(times, expiries, rows, strict=True), start=first):
                payload = {name: value for name, value in zip(columns, row, strict=True) if value is not None}
                yield Event(f"{noun}-{number}", f"/feeds/{self.name}", self.type, time, expires, data=payload)

    def subscribers(self, count: int, seed: int = 0, start: datetime = DEFAULT_START) -> list[Subscriber]:
        """Return the first `count` subscribers; `start` is the start of the events they are to see."""
        start = _utc(start)
        draws = (Draw(generator(seed, self.name, Stream.SUBSCRIBERS, index)) for index in range(count))
        return [self._subscriber(number, draw, start) for number, draw in enumerate(draws, start=1)]

    def _subscriber(self, number: int, draw: Draw, start: datetime) -> Subscriber:
        """Return a subscriber of one of the kinds, with preferences and a policy drawn for its wishes.

        Half of the subscribers give ranks, a third give priorities, the rest neither. Every fourth with a window minds
        near-copies. Whose matches all have one rank keeps ties, or k would limit nothing.
        """
        name = f"{draw.one(FIRST_NAMES).lower()}-{number}"
        wishes = draw.one(tuple(self.followers), tuple(self.followers.values()))(draw, start)
        style = draw.one(("ranks", "priorities", "none"), (0.5, 0.33, 0.17))
        ranks: list[float | None] = [None] * len(wishes)
        if style == "ranks":
            ranks = [round(max(0.05, 1 - 0.25 * at - 0.2 * draw.generator.random()), 2) for at in range(len(wishes))]
        subscriber = Subscriber(
            SubscriberId(name),
            tuple(self._subscription(wish, rank, draw, start) for wish, rank in zip(wishes, ranks, strict=True)),
            deliver=_policy(draw),
            rank_by=draw.one(tuple(RankBy), (0.7, 0.05, 0.15, 0.1)),
            most_specific=draw.chance(0.15),
            priorities=_priorities(wishes, draw) if style == "priorities" else (),
        )
        made = self._diversify(subscriber, draw)
        if isinstance(made.deliver, Sliding | Continuous) and queues_without_order(made):
            return structs.replace(made, deliver=replace(made.deliver, ties=TieRule.KEEP))
        return made

    def _subscription(self, wish: Wish, rank: float | None, draw: Draw, start: datetime) -> Subscription:
        """Return a subscription; one in twelve begins or ends within `span`, so that activation is exercised too."""
        bounds = draw.one(("always", "from", "until"), (11, 0.5, 0.5))
        moment = start + timedelta(seconds=round(self.span.total_seconds() * draw.generator.random(), 3))
        return Subscription(
            SubscriptionId(wish.id),
            Filter.of(wish.expression, self.schema),
            rank=rank,
            active_from=moment if bounds == "from" else None,
            active_until=moment if bounds == "until" else None,
        )

    def _diversify(self, subscriber: Subscriber, draw: Draw) -> Subscriber:
        """Return the subscriber, with diversity by one or two attributes if it has a window, bounded ranks and luck."""
        policy = subscriber.deliver
        if not isinstance(policy, Sliding) or subscriber.rank_by is RankBy.WEIGHTED_SUM or not draw.chance(0.25):
            return subscriber
        names = draw.several(sorted(self.schema.attributes), draw.whole(1, 2))
        diversity = Diversity(draw.one((0.3, 0.5, 0.7)), {name: float(draw.whole(1, 3)) for name in names})
        return structs.replace(subscriber, deliver=replace(policy, diversity=diversity))


def _utc(start: datetime) -> datetime:
    if start.tzinfo is None:
        raise InvalidValueError(f"start: {start.isoformat()} has no time zone; expected an aware datetime")
    return start.astimezone(UTC)


def _priorities(wishes: Sequence[Wish], draw: Draw) -> tuple[Priority, ...]:
    """Return "the dearest before each other" or a chain, one after the other."""
    ids = [SubscriptionId(wish.id) for wish in wishes]
    pairs = ((ids[0], other) for other in ids[1:]) if draw.chance(0.4) else pairwise(ids)
    return tuple(Priority(first, then) for first, then in pairs)


def _policy(draw: Draw) -> Policy:
    kind = draw.one(("all", "sliding", "continuous"), (0.3, 0.4, 0.3))
    if kind == "sliding":
        return Sliding(k=draw.whole(1, 10), window=draw.whole(20, 200, 10))
    return Continuous(k=draw.whole(1, 10)) if kind == "continuous" else ALL_MATCHES


FIRST_NAMES = (
    *("Ana", "Bruno", "Carla", "Diogo", "Elena", "Filipe", "Gabriel", "Helena", "Ines", "Joana", "Karim", "Lucia"),
    *("Marta", "Nuno", "Olga", "Pedro", "Quim", "Rita", "Sofia", "Tiago", "Ursula", "Vera", "Xavier", "Yara", "Zeno"),
)
