"""What ranking many events for many subscribers needs, as arrays: one line per subscription, profile and relevance.

Subscriptions are numbered from 0 in the order of their subscribers and, within one, in the subscriber's order; this is
the order in which ranks are added up. A profile is how one subscriber combines ranks. Several profiles may share a
queue (the same subscriber before and after a change) as long as no event matches subscriptions of two of them.

Relevance functions are kept once each, however many subscriptions share one. The numbers of their targets lie one after
the other; the vectors of cosines are divided by their largest element here, once, as `ranking.relevance` does it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

import numpy as np

from rankcast.arrays import Array, starts_of, take_lists
from rankcast.containers.container import from_arrays, to_arrays
from rankcast.containers.expectations import Column, Columns, Range, below, check, fail_where
from rankcast.model.relevance import Closeness, Cosine, Decay, IdealPoint, Relevance
from rankcast.model.subscriptions import RankBy, Subscriber
from rankcast.model.times import EARLIEST, LATEST, TICK
from rankcast.ranking.preferences import Preferences

LONGEST = (LATEST - EARLIEST) // TICK
"""A refresh time as long as this never comes to pass."""

NONE = -1
"""The relevance of subscriptions without one."""

MAX, MIN, MEAN, WEIGHTED_SUM = range(4)
RANK_BY = {RankBy.MAX: MAX, RankBy.MIN: MIN, RankBy.MEAN: MEAN, RankBy.WEIGHTED_SUM: WEIGHTED_SUM}

DISTANCE, NEARNESS, CLOSENESS, COSINE = range(4)


RANKS = "rank table"

FUNCTION_COLUMNS: Columns = {
    "kind": Column(np.int8, "functions", below(COSINE + 1)),
    "reach": Column(np.float64, "functions", is_number=True),
    "part_start": Column(np.int64, "functions", starts="parts"),
    "part_column": Column(np.int32, "parts", Range()),
    "part_value": Column(np.float64, "parts", is_number=True),
    "part_scale": Column(np.float64, "parts", is_positive=True),
    "part_weight": Column(np.float64, "parts", is_positive=True),
}
"""What is expected of relevance functions; `check_functions` has the rest."""

RANK_COLUMNS: Columns = {
    "queue": Column(np.int64, "subscriptions", below("queues")),
    "profile": Column(np.int32, "subscriptions", below("profiles")),
    "rank": Column(np.float64, "subscriptions", is_number=True),
    "weight": Column(np.float64, "subscriptions", is_number=True),
    "refresh": Column(np.int64, "subscriptions", Range()),
    "relevance": Column(np.int32, "subscriptions", below("functions", NONE)),
    "general_start": Column(np.int64, "subscriptions", below("ends of general ones")),
    "general_end": Column(np.int64, "subscriptions", below("ends of general ones")),
    "general": Column(np.int64, "general ones", below("subscriptions")),
    "rank_by": Column(np.int8, "profiles", below(WEIGHTED_SUM + 1)),
    "half_life": Column(
        np.int64, "profiles", width=2, columns={0: below(timedelta.max.days + 1), 1: below(timedelta(1) // TICK)}
    ),
    **FUNCTION_COLUMNS,
}
"""What is expected of a `RankTable`: subscriptions, profiles and functions that are named exist."""


def check_functions(what: str, arrays: Mapping[str, Array], numbers: int, vectors: int) -> None:
    """Raise unless every relevance function looks at attributes that exist, and divides by no zero.

    The arrays are as `FUNCTION_COLUMNS` expects them.
    """
    kind, starts = arrays["kind"], arrays["part_start"]
    fail_where(starts[1:] == starts[:-1], f"{what}: array part_start: a function without parts")
    is_cosine = np.repeat(kind == COSINE, np.diff(starts))
    limits = np.where(is_cosine, vectors, numbers)
    fail_where(arrays["part_column"] >= limits, f"{what}: array part_column: names no attribute")
    divides = (kind == COSINE) | (kind == NEARNESS)
    fail_where(divides & ~(arrays["reach"] > 0), f"{what}: array reach: not above 0")


@dataclass(frozen=True, slots=True)
class RankTable:
    """Everything about the ranks of numbered subscriptions."""

    queue: Array
    """By subscription: the queue that its events compete in."""
    profile: Array
    rank: Array
    weight: Array
    refresh: Array
    """By subscription, in microseconds; LONGEST for none."""
    relevance: Array
    """By subscription: the number of its relevance function, or NONE."""
    general_start: Array
    general_end: Array
    general: Array
    """The subscriptions that strictly cover subscription i, where most specific ones count, in ascending order:
    general_start[i]..general_end[i]."""
    rank_by: Array
    """By profile."""
    half_life: Array
    """By profile: days and microseconds of the half life, 0 and 0 without decay."""
    kind: Array
    """By relevance function."""
    reach: Array
    part_start: Array
    """The targets of function i, or the elements of its vector, are part_start[i]..part_start[i+1]."""
    part_column: Array
    """Which of the numeric attributes a target looks at, or which of the vectors a cosine."""
    part_value: Array
    part_scale: Array
    part_weight: Array

    def __len__(self) -> int:
        return len(self.queue)

    def to_arrays(self) -> dict[str, Array]:
        """Return everything as named arrays."""
        return to_arrays(self)

    @staticmethod
    def from_arrays(arrays: Mapping[str, Array], *, queues: int, numbers: int, vectors: int) -> RankTable:
        """Return the table of named arrays; raise InvalidValueError when they are not one.

        They are about so many queues, and numeric attributes and vectors that relevance functions look at.
        """
        general = arrays.get("general")
        ends = 1 if general is None else len(general) + 1
        check(RANKS, arrays, RANK_COLUMNS, {"queues": queues, "ends of general ones": ends})
        check_functions(RANKS, arrays, numbers, vectors)
        return from_arrays(RankTable, arrays)

    def chosen(self, numbers: Array) -> RankTable:
        """Return the table of some subscriptions, each the only one of its queue, in the given order.

        Profiles and relevance functions that none of them has are left out.
        """
        profiles, profile = np.unique(self.profile[numbers], return_inverse=True)
        functions, relevance = np.unique(self.relevance[numbers], return_inverse=True)
        part_start, parts = take_lists(self.part_start, functions)
        return RankTable(
            queue=self.queue[numbers],
            profile=profile.astype(np.int32),
            rank=self.rank[numbers],
            weight=self.weight[numbers],
            refresh=self.refresh[numbers],
            relevance=relevance.astype(np.int32),
            general_start=np.zeros(len(numbers), np.int64),
            general_end=np.zeros(len(numbers), np.int64),
            general=np.zeros(0, np.int64),
            rank_by=self.rank_by[profiles],
            half_life=self.half_life[profiles],
            kind=self.kind[functions],
            reach=self.reach[functions],
            part_start=part_start,
            part_column=self.part_column[parts],
            part_value=self.part_value[parts],
            part_scale=self.part_scale[parts],
            part_weight=self.part_weight[parts],
        )

    def decay(self, profile: int) -> Decay | None:
        """Return how scores of a profile decay."""
        days, rest = self.half_life[profile].tolist()
        return Decay(timedelta(days=days, microseconds=rest)) if days or rest else None


@dataclass(frozen=True, slots=True)
class RankingTable:
    """A rank table, and the attributes that its relevance functions look at, by their numbers in the table."""

    table: RankTable
    numbers: tuple[str, ...]
    vectors: tuple[str, ...]

    @staticmethod
    def of(subscribers: Iterable[Subscriber], queues: Iterable[int]) -> RankingTable:
        """Return the table of some subscribers, given the queue of each of their subscriptions in order.

        Raises PriorityCycleError for contradictory priorities.
        """
        functions = Functions()
        lines: list[tuple[int, float, float, int, int]] = []
        general, general_sizes = [np.zeros(0, np.int64)], list[int]()
        profiles: list[tuple[int, int, int]] = []
        for profile, subscriber in enumerate(subscribers):
            preferences, first = Preferences.of(subscriber), len(lines)
            specificity = preferences.specificity
            for at, subscription in enumerate(subscriber.subscriptions):
                refresh = LONGEST if subscription.refresh is None else min(LONGEST, subscription.refresh // TICK)
                relevance = NONE if subscription.relevance is None else functions.add(subscription.relevance)
                rank, weight = preferences.ranks[subscription.id], preferences.weights[subscription.id]
                lines.append((profile, rank, weight, refresh, relevance))
                general_sizes.append(0)
                if specificity is not None:
                    general.append(first + specificity.above(at))
                    general_sizes[-1] = len(general[-1])
            profiles.append(profile_of(subscriber))
        general_start = starts_of(np.array(general_sizes, np.int64))
        table = RankTable(
            queue=np.fromiter(queues, np.int64),
            **_columns(("profile", "rank", "weight", "refresh", "relevance"), lines),
            general_start=general_start[:-1],
            general_end=general_start[1:],
            general=np.concatenate(general),
            rank_by=np.array([rank_by for rank_by, *_ in profiles], np.int8),
            half_life=np.array([half_life for _, *half_life in profiles], np.int64).reshape(-1, 2),
            **functions.arrays(),
        )
        return RankingTable(table, tuple(functions.numbers), tuple(functions.vectors))


def profile_of(subscriber: Subscriber) -> tuple[int, int, int]:
    """Return how a subscriber combines ranks, and the days and microseconds of its half life, 0 and 0 without decay."""
    half_life = timedelta(0) if subscriber.decay is None else subscriber.decay.half_life
    rest = half_life - timedelta(days=half_life.days)
    return RANK_BY[subscriber.rank_by], half_life.days, rest // TICK


class Functions:
    """Collects relevance functions, each once."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.vectors: dict[str, int] = {}
        self._known: dict[Relevance, int] = {}
        self._lines: list[tuple[int, float]] = []
        self._sizes: list[int] = []
        self._parts: list[tuple[int, float, float, float]] = []

    def __len__(self) -> int:
        return len(self._lines)

    def add(self, function: Relevance) -> int:
        """Return the number of a function."""
        number = self._known.get(function)
        if number is None:
            number = self._known[function] = len(self._lines)
            parts = self._cosine(function) if isinstance(function, Cosine) else self._targets(function)
            self._parts += parts
            self._sizes.append(len(parts))
        return number

    def _targets(self, function: IdealPoint | Closeness) -> list[tuple[int, float, float, float]]:
        if isinstance(function, Closeness):
            self._lines.append((CLOSENESS, 0.0))
        else:
            self._lines.append((DISTANCE, 0.0) if function.reach is None else (NEARNESS, function.reach))
        return [
            (self.numbers.setdefault(target.attribute, len(self.numbers)), target.value, target.scale, target.weight)
            for target in function.targets
        ]

    def _cosine(self, function: Cosine) -> list[tuple[int, float, float, float]]:
        column = self.vectors.setdefault(function.attribute, len(self.vectors))
        largest = max(map(abs, function.vector))
        scaled = [element / largest for element in function.vector]
        self._lines.append((COSINE, _length(scaled)))
        return [(column, element, 1.0, 1.0) for element in scaled]

    def arrays(self) -> dict[str, Array]:
        """Return the functions as the columns of a table."""
        return {
            **_columns(("kind", "reach"), self._lines),
            "part_start": starts_of(np.array(self._sizes, np.int64)),
            **_columns(("part_column", "part_value", "part_scale", "part_weight"), self._parts),
        }


def _length(scaled: Iterable[float]) -> float:
    total = 0.0
    for element in scaled:
        total += element * element
    return math.sqrt(total)


def _columns(names: Sequence[str], lines: Sequence[tuple[float, ...]]) -> dict[str, Array]:
    """Return lines of numbers as columns, of the types that are expected of them."""
    columns = zip(*lines, strict=True) if lines else [()] * len(names)
    return {name: np.array(column, RANK_COLUMNS[name].dtype) for name, column in zip(names, columns, strict=True)}
