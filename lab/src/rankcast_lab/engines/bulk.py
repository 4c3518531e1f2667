"""Top-k covering of many boxes from scratch: what `CoverSet` keeps up to date, worked out once.

For whoever has all subscriptions as ranges of numbers, one per attribute: studies, planning, and checks of what was
kept incrementally. Ranges are closed, or half-open alike; ties are broken by number, and a number is a row.

>>> starts, ends = [[0.0], [1.0], [2.0]], [[9.0], [8.0], [7.0]]
>>> levels_above(starts, ends).tolist()
[0, 1, 2]
>>> forwarded(starts, ends, Cover.ANCESTOR, k=2).tolist()
[0, 1]
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from rankcast.arrays import Array
from rankcast.covering.topk.cover_set import Cover, check_k
from rankcast.model.errors import InvalidValueError
from rankcast_lab.engines.kernels_bulk import levels_in_space, levels_on_a_line


def levels_above(
    starts: ArrayLike,
    ends: ArrayLike,
    cover: Cover = Cover.ANCESTOR,
    most: int | None = None,
    scores: ArrayLike | None = None,
) -> Array:
    """Return how many are above each box; with RankCoverK, the longest chain of them. Counting stops at `most`.

    With scores a box is above another when it contains it and has the larger score, or the same and a lower number.
    """
    low, high = _table("starts", starts), _table("ends", ends)
    if low.shape != high.shape:
        raise InvalidValueError(f"ends: a table of {high.shape} where that of starts has {low.shape}")
    if scores is not None:
        low, high = _ranked(low, high, np.asarray(scores))
    if cover is Cover.REGULAR:
        most = 1
    by_chain = cover is Cover.RANK
    start_codes, end_codes = _codes(low), _codes(high)
    places = end_codes.max(axis=1, keepdims=True, initial=0) - end_codes  # the latest end first
    order = np.lexsort([np.arange(len(low)), *_interleaved(start_codes, places)[::-1]])
    levels = np.empty(len(low), np.int64)
    if low.shape[1] == 1:
        levels_on_a_line(places[0, order], by_chain, levels)
    else:
        ordered = np.ascontiguousarray(start_codes[:, order]), np.ascontiguousarray(end_codes[:, order])
        levels_in_space(*ordered, by_chain, len(low) if most is None else most, levels)
    found = np.empty_like(levels)
    found[order] = levels
    return found if most is None else np.minimum(found, most)


def forwarded(starts: ArrayLike, ends: ArrayLike, cover: Cover, k: int = 1, scores: ArrayLike | None = None) -> Array:
    """Return the boxes that a broker which has all of them forwards, in ascending order."""
    check_k(k)
    most = 1 if cover is Cover.REGULAR else k
    return np.flatnonzero(levels_above(starts, ends, cover, most, scores) < most)


def _table(name: str, values: ArrayLike) -> Array:
    table = np.asarray(values)
    if table.ndim != 2 or not table.shape[1]:
        raise InvalidValueError(
            f"{name}: an array of shape {table.shape}; expected a row per box, a column per attribute"
        )
    return table


def _ranked(low: Array, high: Array, scores: Array) -> tuple[Array, Array]:
    """Add the place by score as one more range: whoever ranks higher starts before and ends together."""
    place = np.empty(len(low), np.int64)
    place[np.lexsort((np.arange(len(low)), -scores))] = np.arange(len(low))
    return np.column_stack([low, place]), np.column_stack([high, np.zeros(len(low), high.dtype)])


def _codes(table: Array) -> Array:
    """Return for each value its place among the different values of its column, a line per column."""
    codes = [np.unique(column, return_inverse=True)[1] for column in table.T]
    return np.array(codes, np.int32).reshape(table.shape[::-1])


def _interleaved(first: Array, second: Array) -> list[Array]:
    return [line for pair in zip(first, second, strict=True) for line in pair]
