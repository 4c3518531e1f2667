"""Tables of addresses: how a kernel is given many arrays at once.

Taking an array from Python costs a compiled function some 0.1 microseconds, and some kernels need three dozen for one
event. A table is one array that says where the others are and how long: (address, length) for each, in a fixed order.
The kernel makes arrays of them again, for a few nanoseconds each, and can be given several tables (of the segments of
an index, say) as one array of two dimensions.

Whoever passes a table has to keep its arrays alive (`KernelArguments.arrays` does), and the arrays must be what the
kernel takes them for, so their types are checked when a table is made: nothing checks them later.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from rankcast.arrays import Array
from rankcast.compiling import borrowed, inlined
from rankcast.compiling.intrinsics import pointer

carray: Callable[..., Array] = borrowed("numba", "carray")

Kinds: TypeAlias = Mapping[str, tuple[type[np.generic], int]]
"""The type of every array of a table, and how many columns it has (0 for an array of one dimension, ANY for as many as
the kernel is told), in order."""

ANY = -1


def positions(kinds: Kinds) -> Any:
    """Return the places of the arrays in a table, by their names: to kernels, constants.

    >>> positions({"queue": (np.int64, 0), "rank": (np.float64, 0)}).rank
    1
    """
    return namedtuple("Positions", kinds)(*range(len(kinds)))


@dataclass(frozen=True, slots=True, eq=False)
class KernelArguments:
    """Addresses and lengths of arrays, and the arrays, which live as long as it does."""

    addresses: Array
    arrays: tuple[Array, ...]

    @staticmethod
    def of(kinds: Kinds, arrays: Sequence[Array]) -> KernelArguments:
        """Return the table of some arrays; raises ValueError when one is not what kernels take it for."""
        held = []
        addresses = np.zeros(2 * len(kinds), np.int64)
        for at, ((name, (kind, columns)), array) in enumerate(zip(kinds.items(), arrays, strict=True)):
            shape = array.shape[1:] if columns == ANY else (columns,) if columns else ()
            if array.dtype != kind or array.shape[1:] != shape or array.ndim != 1 + bool(columns):
                expected = f"{np.dtype(kind)}{[columns] if columns else ''}"
                raise ValueError(f"{name}: elements are {array.dtype}{list(array.shape[1:])}; expected {expected}")
            held.append(np.ascontiguousarray(array))
            addresses[2 * at] = held[-1].__array_interface__["data"][0]
            addresses[2 * at + 1] = len(array)
        return KernelArguments(addresses, tuple(held))


@inlined
def int64s(table: Array, which: int) -> Array:
    """Return an array of a table."""
    return carray(pointer(table[2 * which]), (table[2 * which + 1],), np.int64)


@inlined
def int64_columns(table: Array, which: int, columns: int) -> Array:
    """Return an array of a table that has columns."""
    return carray(pointer(table[2 * which]), (table[2 * which + 1], columns), np.int64)


@inlined
def int32s(table: Array, which: int) -> Array:
    """Return an array of a table."""
    return carray(pointer(table[2 * which]), (table[2 * which + 1],), np.int32)


@inlined
def int32_columns(table: Array, which: int, columns: int) -> Array:
    """Return an array of a table that has columns."""
    return carray(pointer(table[2 * which]), (table[2 * which + 1], columns), np.int32)


@inlined
def int8s(table: Array, which: int) -> Array:
    """Return an array of a table."""
    return carray(pointer(table[2 * which]), (table[2 * which + 1],), np.int8)


@inlined
def bools(table: Array, which: int) -> Array:
    """Return an array of a table."""
    return carray(pointer(table[2 * which]), (table[2 * which + 1],), np.bool_)


@inlined
def int16s(table: Array, which: int) -> Array:
    """Return an array of a table."""
    return carray(pointer(table[2 * which]), (table[2 * which + 1],), np.int16)


@inlined
def uint16s(table: Array, which: int) -> Array:
    """Return an array of a table."""
    return carray(pointer(table[2 * which]), (table[2 * which + 1],), np.uint16)


@inlined
def uint8s(table: Array, which: int) -> Array:
    """Return an array of a table."""
    return carray(pointer(table[2 * which]), (table[2 * which + 1],), np.uint8)


@inlined
def uint64s(table: Array, which: int) -> Array:
    """Return an array of a table."""
    return carray(pointer(table[2 * which]), (table[2 * which + 1],), np.uint64)


@inlined
def float64s(table: Array, which: int) -> Array:
    """Return an array of a table."""
    return carray(pointer(table[2 * which]), (table[2 * which + 1],), np.float64)


@inlined
def float64_columns(table: Array, which: int, columns: int) -> Array:
    """Return an array of a table that has columns."""
    return carray(pointer(table[2 * which]), (table[2 * which + 1], columns), np.float64)
