"""Tables of addresses: how a kernel is given many arrays at once.

Taking an array from Python costs a compiled function some 0.1 microseconds, and some kernels need three dozen for one
event. A table is one array that says where the others are and how long: (address, length) for each, in a fixed order.
The kernel makes arrays of them again, for a few nanoseconds each, and can be given several tables (of the segments of
an index, say) as one array of two dimensions.

    KINDS: Kinds = {"queue": (np.int64, 0), "rank": (np.float64, 0)}     what is in a table, declared once
    AT = readers(KINDS)
    KernelArguments.of(KINDS, {"queue": queue, "rank": rank}).addresses  in Python
    AT.rank(table)                                                       in a kernel: the array

Whoever passes a table has to keep its arrays alive (`KernelArguments.arrays` does), and the arrays must be what the
kernel takes them for, so their types are checked when a table is made: nothing checks them later.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeAlias

import numpy as np

from rankcast.arrays import Array
from rankcast.compiling import Borrowed

Kinds: TypeAlias = Mapping[str, tuple[type[np.generic], int]]
"""The type of every array of a table, and how many columns it has (0 for an array of one dimension, ANY for as many as
the kernel is told), in order."""

ANY = -1


class _ArrayReader(Borrowed):
    """What kernels call to get one array of a table: with the table, and the number of columns if that is ANY."""

    def __init__(self, place: int, kind: type[np.generic], columns: int) -> None:
        super().__init__("rankcast.compiling.intrinsics_llvm", f"array_reader{(place, kind.__name__, columns)}")
        self._array = place, kind, columns

    def _make(self) -> Any:
        return import_module(self.module).array_reader(*self._array)


def readers(kinds: Kinds) -> Any:
    """Return what kernels get the arrays of a table by, each under its name."""
    made: list[Any] = [_ArrayReader(place, kind, columns) for place, (kind, columns) in enumerate(kinds.values())]
    return namedtuple("Readers", [*kinds])(*made)


@dataclass(frozen=True, slots=True, eq=False)
class KernelArguments:
    """Addresses and lengths of arrays, and the arrays, which live as long as it does."""

    addresses: Array
    arrays: Mapping[str, Array]

    @staticmethod
    def of(kinds: Kinds, arrays: Mapping[str, Array]) -> KernelArguments:
        """Return the table of some arrays; raises ValueError when one is not what kernels take it for."""
        held = {}
        addresses = np.zeros(2 * len(kinds), np.int64)
        for at, (name, (kind, columns)) in enumerate(kinds.items()):
            array = arrays[name]
            shape = array.shape[1:] if columns == ANY else (columns,) if columns else ()
            if array.dtype != kind or array.shape[1:] != shape or array.ndim != 1 + bool(columns):
                expected = f"{np.dtype(kind)}{[columns] if columns else ''}"
                raise ValueError(f"{name}: elements are {array.dtype}{list(array.shape[1:])}; expected {expected}")
            held[name] = array = np.ascontiguousarray(array)
            addresses[2 * at] = array.__array_interface__["data"][0]
            addresses[2 * at + 1] = len(array)
        return KernelArguments(addresses, held)
