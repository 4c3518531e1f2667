"""The one way kernels are compiled.

Kernels live in importable modules, are cached on disk and release the GIL. They are compiled per signature on first
use; arrays of a memory-mapped index are read-only, which numba counts as another signature, cached as well.

Where speed counts they are given arrays one by one, however many: a tuple of arrays that is passed on to a helper in an
inner loop has the references to all of them counted each time (ranking a match took four times as long).

Compiling takes long, and longest for the outermost kernels: all that they call is optimised once more with each of
them. A number or truth that is written out has a type of its own to numba, and a kernel to which it is passed is
compiled once more for it; what comes from `constant` has not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import numba
import numpy as np

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Value = TypeVar("Value", int, bool)

_KERNEL: dict[str, Any] = {"cache": True, "nogil": True, "no_cfunc_wrapper": True}
_INNER = {**_KERNEL, "no_cpython_wrapper": True}


def constant(value: Value) -> Value:
    """Return a number or a truth that is to numba like any other of its kind."""
    return cast("Value", np.array(value)[()])


ZERO = constant(0)
"""The start of what is counted and passed to kernels on the way."""


def compiled(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Compile a function of plain arrays and numbers to machine code that runs without the GIL."""
    return cast("Callable[Parameters, Result]", numba.njit(**_KERNEL)(function))


def holding(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Compile a function that keeps the GIL."""
    return cast("Callable[Parameters, Result]", numba.njit(cache=True)(function))


def inner(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Compile a function that is only called by kernels: there is no way in from Python, which is long to compile."""
    return cast("Callable[Parameters, Result]", numba.njit(**_INNER)(function))


def inlined(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Compile a function that is only called by kernels, into its callers."""
    return cast("Callable[Parameters, Result]", numba.njit(forceinline=True, **_INNER)(function))
