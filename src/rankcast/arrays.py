"""The one name for numpy's arrays in annotations, how one grows, and lists that lie one behind the other in one."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, Any]


def longer(column: Array, size: int) -> Array:
    """Return a longer column that begins with this one and goes on with zeros."""
    grown = np.zeros(size, column.dtype)
    grown[: len(column)] = column
    return grown


def starts_of(sizes: Array) -> Array:
    """Return where each of some consecutive lists starts, and where the last one ends."""
    start = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=start[1:])
    return start


def take_lists(start: Array, order: Array) -> tuple[Array, Array]:
    """Return the starts of some of consecutive lists in another order, and the positions of their items."""
    sizes = np.diff(start)[order]
    taken = starts_of(sizes)
    return taken, np.arange(int(taken[-1])) + np.repeat(start[:-1][order] - taken[:-1], sizes)


def group(keys: Array, count: int) -> tuple[Array, Array]:
    """Return where the places of each of so many keys start, and the places, by key."""
    order = np.argsort(keys, kind="stable")
    return np.searchsorted(keys[order], np.arange(count + 1)), order
