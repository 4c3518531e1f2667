"""Boxes of the event space as rows of sides, and their measure: what share of the traffic a filter lets through.

A row says how far a box reaches down and up along each attribute: that of a closed box [l1, h1] x ... x [ld, hd] is
(-l1, ..., -ld, h1, ..., hd). So a larger number is a larger box on every side: one box contains another where no side
is less, the hull of two is the larger of each side, what they have in common the smaller. No arithmetic is done on the
numbers, so containment is exact.

Uniform events make the measure of a filter its volume. Sampled events make it the weight of the samples that lie in
it. Either way the measure of a broker's filter is the expected bandwidth into that broker.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from rankcast.arrays import Array
from rankcast.model.errors import InvalidValueError
from rankcast.placement.problem.numeric_limits import wrong_measure


def sides_of(low: ArrayLike, high: ArrayLike) -> Array:
    """Return boxes as rows of sides, given their lowest and highest corners, a row each.

    >>> sides_of([[0, 1]], [[2, 3]]).tolist()
    [[0.0, -1.0, 2.0, 3.0]]
    """
    lowest, highest = np.asarray(low, np.float64), np.asarray(high, np.float64)
    if lowest.ndim != 2 or lowest.shape != highest.shape or not lowest.shape[1]:
        raise InvalidValueError(
            f"boxes: corners of shapes {lowest.shape} and {highest.shape}; expected a row per box and a column per "
            "attribute, alike"
        )
    wrong = np.flatnonzero(~(np.isfinite(lowest) & np.isfinite(highest) & (lowest <= highest)).all(axis=1))
    if len(wrong):
        at = int(wrong[0])
        raise InvalidValueError(
            f"box {at}: from {lowest[at].tolist()} to {highest[at].tolist()}; expected finite numbers, low <= high"
        )
    return np.concatenate([0.0 - lowest, highest], axis=1)


def corners(sides: Array) -> tuple[Array, Array]:
    """Return the lowest and highest corners of boxes."""
    attributes = sides.shape[-1] // 2
    return 0.0 - sides[..., :attributes], sides[..., attributes:]


def lengths(sides: Array) -> Array:
    """Return how long boxes are along each attribute; at most 0 where two boxes have nothing in common."""
    attributes = sides.shape[-1] // 2
    found: Array = sides[..., :attributes] + sides[..., attributes:]
    return found


def volumes(sides: Array) -> Array:
    """Return the volumes of boxes."""
    found: Array = np.prod(np.maximum(lengths(sides), 0.0), axis=-1)
    return found


def hull(sides: Array) -> Array:
    """Return the smallest box around boxes."""
    found: Array = sides.max(axis=0)
    return found


def grown(sides: Array, share: float, floor: float = 0.0) -> Array:
    """Return boxes grown by a share of their length, half of it on each side, and by no less than a floor."""
    more = np.maximum(lengths(sides) * (share / 2), floor)
    found: Array = sides + np.concatenate([more, more], axis=-1)
    return found


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
