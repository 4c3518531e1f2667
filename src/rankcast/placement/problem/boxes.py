"""Boxes of the event space as rows of sides: how far a box reaches down and up along each attribute.

The row of a closed box [l1, h1] x ... x [ld, hd] is (-l1, ..., -ld, h1, ..., hd). So a larger number is a larger box on
every side: one box contains another where no side is less, the hull of two is the larger of each side, what they have
in common the smaller. No arithmetic is done on the numbers, so containment is exact.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from rankcast.arrays import Array
from rankcast.model.errors import InvalidValueError


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
