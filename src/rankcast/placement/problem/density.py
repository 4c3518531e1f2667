"""How events are spread over the event space: what share of the traffic a filter lets through.

Uniform events make the measure of a filter its volume. Sampled events make it the weight of the samples that lie in
it. Either way the measure of a broker's filter is the expected bandwidth into that broker.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from rankcast.arrays import Array
from rankcast.model.errors import InvalidValueError
from rankcast.placement.problem.boxes import sides_of, volumes
from rankcast.placement.problem.numeric_limits import wrong_measure


@dataclass(frozen=True, slots=True, eq=False)
class Density:
    """Uniform where there are no `samples`; else events at these points, as rows of sides, with their weights.

    `rows` are the samples as kernels take them, with their weights behind; none when events are uniform.

    >>> UNIFORM.measures(sides_of([[0, 0]], [[2, 3]])).tolist()
    [6.0]
    >>> Density.sampled([[1, 1], [5, 5]]).measures(sides_of([[0, 0]], [[2, 3]])).tolist()
    [0.5]
    """

    samples: Array
    weights: Array
    rows: Array = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", np.column_stack([self.samples, self.weights]))

    @staticmethod
    def sampled(events: ArrayLike, weights: ArrayLike | None = None) -> Density:
        """Return the density of sampled events, a row each; equal weights that sum to 1 unless others are given."""
        points = np.asarray(events, np.float64)
        if points.ndim != 2 or not len(points):
            raise InvalidValueError(f"events: an array of shape {points.shape}; expected a row per sampled event")
        given = np.full(len(points), 1 / len(points)) if weights is None else np.asarray(weights, np.float64)
        if given.shape != (len(points),) or not (np.isfinite(given) & (given >= 0)).all():
            raise InvalidValueError(f"weights: expected {len(points):,} finite numbers of at least 0")
        with np.errstate(over="ignore"):
            wrong = wrong_measure(float(given.sum()))
        if wrong:
            raise InvalidValueError(f"weights: {wrong}")
        return Density(sides_of(points, points), given)

    @property
    def is_uniform(self) -> bool:
        """Whether the measure of a box is its volume."""
        return not len(self.weights)

    def measures(self, sides: Array) -> Array:
        """Return the measure of each box."""
        if self.is_uniform:
            return volumes(sides)
        found = [self.weights[(self.samples <= box).all(axis=1)].sum() for box in sides]
        return np.array(found, np.float64)


UNIFORM = Density(np.empty((0, 0)), np.empty(0))
"""Events everywhere alike."""
