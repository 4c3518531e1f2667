"""Relevance functions and decay as subscribers state them: how much an event is wanted by what it holds, and how old.

These are descriptions, checked where they are made; `rankcast.ranking.relevance` gives them their
behaviour. A larger score is better. All scores lie in [0, 1] but those of an ideal point without a `reach`,
which are negated distances.

Targets are kept in the order of their attributes' names: equal functions are equal whatever order they were written in,
and every path adds up in the same order.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import TypeAlias

from rankcast.model.errors import FilterTypeError, InvalidSubscriptionError, require, shown
from rankcast.model.periods import check_duration
from rankcast.model.policies import is_number
from rankcast.model.schema import Schema, check_attribute
from rankcast.model.values import ValueType


@dataclass(frozen=True, slots=True)
class Target:
    """The value that a numeric attribute should have; a difference of `scale` from it counts as 1."""

    attribute: str
    value: float
    scale: float = 1.0
    weight: float = 1.0

    def __post_init__(self) -> None:
        check_attribute(self.attribute)
        where = f"target {self.attribute}"
        object.__setattr__(self, "value", _checked_number(f"{where}: value", self.value))
        for name in ("scale", "weight"):
            object.__setattr__(self, name, _checked_positive(f"{where}: {name}", getattr(self, name)))


@dataclass(frozen=True, slots=True)
class IdealPoint:
    """The nearer to a point the better: the score is the negated, weighted and scaled Euclidean distance.

    With a `reach` the score is 1 at the point and falls linearly to 0 at that distance and beyond; only then can it be
    combined with preference ranks, with other functions or with decay.

    >>> IdealPoint([Target("rooms", 3), Target("rent", 700, scale=100)]).targets[0].attribute
    'rent'
    """

    targets: tuple[Target, ...]
    reach: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "targets", _checked_targets(self.targets))
        if self.reach is not None:
            object.__setattr__(self, "reach", _checked_positive("reach", self.reach))

    @property
    def is_bounded(self) -> bool:
        """Whether all scores lie in [0, 1]."""
        return self.reach is not None


@dataclass(frozen=True, slots=True)
class Closeness:
    """The weighted mean of how close each attribute is: 1 at its target, falling linearly to 0 at `scale` from it."""

    targets: tuple[Target, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "targets", _checked_targets(self.targets))

    @property
    def is_bounded(self) -> bool:
        """Whether all scores lie in [0, 1]: they do."""
        return True


@dataclass(frozen=True, slots=True)
class Cosine:
    """How alike in direction a list of numbers in the payload is to a vector: 1 for the same, 0 for the opposite."""

    attribute: str
    vector: tuple[float, ...]

    def __post_init__(self) -> None:
        check_attribute(self.attribute)
        vector = _checked_vector(self.vector)
        if not any(vector):
            raise InvalidSubscriptionError(
                f"vector: {shown(list(vector))} has no direction; expected a number besides 0"
            )
        object.__setattr__(self, "vector", vector)

    @property
    def is_bounded(self) -> bool:
        """Whether all scores lie in [0, 1]: they do."""
        return True


Relevance: TypeAlias = IdealPoint | Closeness | Cosine


@dataclass(frozen=True, slots=True)
class Decay:
    """Of two events, one that is older by `half_life` must rank twice as high to be as good."""

    half_life: timedelta

    def __post_init__(self) -> None:
        check_duration("half_life", self.half_life)


def check_relevance(relevance: Relevance, schema: Schema) -> None:
    """Raise when targets name an unknown attribute or one that is no number. Vectors need not be declared."""
    for target in () if isinstance(relevance, Cosine) else relevance.targets:
        declared = schema.type_of(target.attribute)
        if declared not in (ValueType.INT, ValueType.FLOAT):
            raise FilterTypeError(f"{target.attribute} is declared {declared.value}; a target needs an int or a float")


def _checked_targets(targets: object) -> tuple[Target, ...]:
    if not isinstance(targets, Iterable):
        raise InvalidSubscriptionError(f"targets: {shown(targets)} is not a list of targets")
    found: list[Target] = []
    for target in targets:
        require(isinstance(target, Target), "targets", target, "a Target")
        found.append(target)
    found.sort(key=lambda target: target.attribute)
    if not found:
        raise InvalidSubscriptionError("targets: there is none; expected at least one")
    for first, second in pairwise(found):
        if first.attribute == second.attribute:
            raise InvalidSubscriptionError(f"targets: there are two for {shown(first.attribute)}")
    if math.isinf(sum(target.weight for target in found)):
        raise InvalidSubscriptionError("targets: the sum of the weights is not a finite number")
    return tuple(found)


def _checked_vector(vector: object) -> tuple[float, ...]:
    if isinstance(vector, str) or not isinstance(vector, Iterable):
        raise InvalidSubscriptionError(f"vector: {shown(vector)} is not a list of numbers")
    return tuple(_checked_number(f"vector[{at}]", number) for at, number in enumerate(vector))


def _checked_number(where: str, raw: object) -> float:
    try:
        number = float(raw) if is_number(raw) else math.nan  # type: ignore[arg-type]
    except OverflowError:  # an int beyond every float
        number = math.inf
    require(math.isfinite(number), where, raw, "a finite number")
    return number


def _checked_positive(where: str, raw: object) -> float:
    number = _checked_number(where, raw)
    require(number > 0, where, raw, "a number above 0")
    return number
