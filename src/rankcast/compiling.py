"""The one way kernels are compiled.

Kernels live in importable modules, are cached on disk and release the GIL. They are compiled per signature on first
use; arrays of a memory-mapped index are read-only, which numba counts as another signature, cached as well.

Where speed counts they are given arrays one by one, however many: a tuple of arrays that is passed on to a helper in an
inner loop has the references to all of them counted each time (ranking a match took four times as long).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numba

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def compiled(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Compile a function of plain arrays and numbers to machine code that runs without the GIL."""
    return cast("Callable[Parameters, Result]", numba.njit(cache=True, nogil=True)(function))


def holding(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Compile a function that keeps the GIL."""
    return cast("Callable[Parameters, Result]", numba.njit(cache=True)(function))


def inlined(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Compile a function that is only called by kernels, into its callers."""
    return cast("Callable[Parameters, Result]", numba.njit(cache=True, nogil=True, forceinline=True)(function))
