"""The one name for numpy's arrays in annotations, and how one grows."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, Any]


def longer(column: Array, size: int) -> Array:
    """Return a longer column that begins with this one and goes on with zeros."""
    grown = np.zeros(size, column.dtype)
    grown[: len(column)] = column
    return grown
