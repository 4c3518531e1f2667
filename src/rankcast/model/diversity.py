"""Diversity as a subscriber states it: how much near-copies are minded, and which attributes tell events apart.

The distance of two events is 1 minus the weighted share of the attributes on which they are equal; an attribute that
one of them lacks counts as different. Values are equal as filters compare them: 1 equals 1.0, but not true.

This is a description, checked where it is made; `rankcast.ranking.diversity` selects by it. Weights are kept in the
order of their attributes' names and added up one by one in that order, so that equal descriptions are equal however
they were written and every path gets bit-equal distances.

Paper: PrefSIENA, chapter 4.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from rankcast.model.errors import InvalidSubscriptionError, InvalidValueError, shown
from rankcast.model.values import Value, checked_name, family_of


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
    counts 1.

    >>> Diversity(weights={"genre": 3, "year": 1}).distance({"genre": "war", "year": 1}, {"genre": "war", "year": 2})
    0.25
    """

    sigma: float = 0.5
    weights: Mapping[str, float] = field(default_factory=Weights)

    def __post_init__(self) -> None:
        if not (_is_number(self.sigma) and 0 <= self.sigma <= 1):
            raise InvalidSubscriptionError(f"sigma: {shown(self.sigma)} is not a number from 0 to 1")
        object.__setattr__(self, "sigma", float(self.sigma))
        object.__setattr__(self, "weights", _checked_weights(self.weights))

    def distance(self, first: Mapping[str, Value], second: Mapping[str, Value]) -> float:
        """Return the distance of two events by their attributes, from 0 (alike) to 1."""
        weights = self.weights or Weights(dict.fromkeys((*first, *second), 1.0))
        alike = total = 0.0
        for name, weight in weights.items():
            total += weight
            if _equal(first.get(name), second.get(name)):
                alike += weight
        return 1 - alike / total if total else 0.0


def _equal(first: Value | None, second: Value | None) -> bool:
    if first is None or second is None:
        return False
    return first == second and family_of(first) is family_of(second)  # Python takes 1 for True


def _checked_weights(weights: object) -> Weights:
    if not isinstance(weights, Mapping):
        raise InvalidSubscriptionError(f"weights: {shown(weights)} is not a mapping of attributes to weights")
    for name, weight in weights.items():
        _check_name(name)
        if not (_is_number(weight) and 0 < weight < math.inf):
            raise InvalidSubscriptionError(f"weight of {name}: {shown(weight)} is not a finite number above 0")
    try:
        checked = Weights(weights)
    except OverflowError:  # an int beyond every float
        raise InvalidSubscriptionError(f"weights: {shown(weights)} has one that is too large") from None
    if math.isinf(checked.total):
        raise InvalidSubscriptionError("weights: their sum is not a finite number")
    return checked


def _check_name(name: object) -> None:
    try:
        checked_name(name)
    except InvalidValueError as error:
        raise InvalidSubscriptionError(f"weights: {error}") from None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
