"""Ranks of one event for many subscriptions that have no filter, only relevance functions over the same attributes.

`Shape` is what such functions have in common: their kind, the attributes they look at and how many numbers these are.
An event either has the features of a shape, or no relevance for any function of it; then only a distance beyond every
use makes it irrelevant to some. `RelevanceColumns` holds the functions, one column each, and ranks an event for all of
them in one pass. Ranks are bit-equal to those of `Preferences.ranked` for a subscriber's only matching subscription.

Cost: a few nanoseconds per function and attribute.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rankcast.model.events import Event
from rankcast.model.relevance import Closeness, Cosine, Relevance
from rankcast.ranking.batch_table import CLOSENESS, COSINE, DISTANCE, NEARNESS, Array
from rankcast.ranking.dense_kernels import FACTOR, RANK, REACH, SCALE, VALUE, WEIGHT, WEIGHTS, rank_columns, rank_events
from rankcast.ranking.preferences import added

FEWEST_COLUMNS = 16


class Features(NamedTuple):
    """What relevance functions of one shape look at in an event; `length` is a vector's, else 0."""

    numbers: Array
    length: float


@dataclass(frozen=True, slots=True)
class Shape:
    """What relevance functions have in common that can be worked out together."""

    kind: int
    attributes: tuple[str, ...]
    parts: int

    @staticmethod
    def of(function: Relevance) -> Shape:
        """Return the shape of a function.

        >>> from rankcast.model.relevance import Target
        >>> Shape.of(Closeness([Target("rooms", 3), Target("rent", 700)])).attributes
        ('rent', 'rooms')
        """
        if isinstance(function, Cosine):
            return Shape(COSINE, (function.attribute,), len(function.vector))
        kind = CLOSENESS if isinstance(function, Closeness) else DISTANCE if function.reach is None else NEARNESS
        names = tuple(target.attribute for target in function.targets)
        return Shape(kind, names, len(names))

    def features(self, event: Event) -> Features | None:
        """Return what the functions look at in an event; None when it has no relevance for any of them."""
        if self.kind != COSINE:
            values = [event.attributes.get(name) for name in self.attributes]
            if not all(
                isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
                for value in values
            ):
                return None
            return Features(np.array(values, np.float64), 0.0)
        vector = event.vector(self.attributes[0])
        largest = 0.0 if vector is None or len(vector) != self.parts else max(map(abs, vector))
        if vector is None or largest == 0:
            return None
        scaled = [element / largest for element in vector]
        return Features(np.array(scaled), _length(scaled))


class RelevanceColumns:
    """Relevance functions of one shape, in numbered columns."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.count = 0
        self.targets = np.ones((3, shape.parts, FEWEST_COLUMNS))
        self.settings = np.ones((4, FEWEST_COLUMNS))
        self._ranks = np.empty(FEWEST_COLUMNS)

    def put(self, column: int, function: Relevance, rank: float, factor: float) -> None:
        """Set a column, at most one beyond the last: its function, preference rank and weight in a weighted sum."""
        self.count = max(self.count, column + 1)
        while self.count > self.settings.shape[1]:
            self.targets = np.concatenate((self.targets, np.ones_like(self.targets)), axis=2)
            self.settings = np.concatenate((self.settings, np.ones_like(self.settings)), axis=1)
            self._ranks = np.empty(self.settings.shape[1])
        if isinstance(function, Cosine):
            largest = max(map(abs, function.vector))
            scaled = [element / largest for element in function.vector]
            self.targets[VALUE, :, column] = scaled
            self.settings[REACH, column] = _length(scaled)
        else:
            self.targets[VALUE, :, column] = [target.value for target in function.targets]
            self.targets[SCALE, :, column] = [target.scale for target in function.targets]
            self.targets[WEIGHT, :, column] = [target.weight for target in function.targets]
            self.settings[WEIGHTS, column] = added(target.weight for target in function.targets)
            reach = None if isinstance(function, Closeness) else function.reach
            self.settings[REACH, column] = 1.0 if reach is None else reach
        self.settings[RANK, column], self.settings[FACTOR, column] = rank, factor

    def ranks(self, features: Features) -> Array:
        """Return the ranks of an event by column, NaN where it has none; good until the next call."""
        rank_columns(self.shape.kind, *features, self.targets, self.settings, self.count, self._ranks[: self.count])
        return self._ranks[: self.count]

    def ranks_of(self, column: int, numbers: Array, lengths: Array, chosen: Array) -> Array:
        """Return the ranks of several events for one column: the chosen rows of their features."""
        ranks = np.empty(len(chosen))
        rank_events(self.shape.kind, numbers, lengths, chosen, self.targets, self.settings, column, ranks)
        return ranks


def _length(scaled: list[float]) -> float:
    return math.sqrt(added(element * element for element in scaled))
