"""The one way kernels are compiled.

A kernel is a function of plain arrays and numbers that numba compiles to machine code, per signature, when it is first
called; arrays of a memory-mapped index are read-only, which numba counts as another signature. Machine code is kept on
disk (`rankcast.compiling.cache`). Nothing of numba is imported before the first call: importing a module that has
kernels costs nothing. A call through a `Kernel` costs some 0.15 microseconds more than one of numba's dispatcher, which
`load` returns for who cannot spare them.

Who must not wait for the compiler asks `rankcast.compiling.readiness`, which has all kernels compiled in a process of
its own and loaded in the background.

Counting references is what costs most in small kernels: each helper counts those of the arrays that it is given, also
where it is inlined, and a tuple of arrays that is passed on in an inner loop has all of them counted each time. To rank
a match took four times as long, and so did an arrival in a sliding window. Helpers that are `borrowing` count none;
they may make no arrays, and return none that they were not given.

Compiling takes long, and longest for the outermost kernels: all that they call is optimised once more with each of
them. A number or truth that is written out has a type of its own to numba, and a kernel to which it is passed is
compiled once more for it; what comes from `constant` has not.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from importlib import import_module
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Value = TypeVar("Value", int, bool)

_KERNEL: dict[str, Any] = {"nogil": True, "no_cfunc_wrapper": True, "_nrt": True}
_INNER = {**_KERNEL, "no_cpython_wrapper": True}
_BORROWING = {**_INNER, "_nrt": False}
"""Whether references are counted is said of every kernel: of one that is called it would be as in its caller."""


def constant(value: Value) -> Value:
    """Return a number or a truth that is to numba like any other of its kind."""
    return cast("Value", np.array(value)[()])


ZERO = constant(0)
"""The start of what is counted and passed to kernels on the way."""


class Postponed:
    """What numba makes or has, when it is first called or met in a kernel that is being compiled."""

    _loaded: Any = None

    @property
    def is_loaded(self) -> bool:
        """Whether the real thing is there."""
        return self._loaded is not None

    def load(self) -> Any:
        """Return the real thing, which is made once."""
        if self._loaded is None:
            self._loaded = self._make()
        return self._loaded

    def _make(self) -> Any:
        raise NotImplementedError

    def __call__(self, *arguments: Any) -> Any:
        """Call the real thing."""
        return (self._loaded or self.load())(*arguments)


class Kernel(Postponed):
    """A function that is compiled when it is first called."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        self.function, self.options = function, options
        update_wrapper(self, function)

    def _make(self) -> Any:
        # By name: the compiler reads and writes files, of which the packages that have kernels know nothing.
        return import_module("rankcast.compiling.dispatchers").dispatcher_of(self)

    def __reduce__(self) -> str:
        """Pickle as the name of the function."""
        return self.function.__qualname__


class Borrowed(Postponed):
    """A name of a module that imports numba."""

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name

    def _make(self) -> Any:
        import_module("rankcast.compiling.dispatchers")  # tells numba what a Postponed is
        return getattr(import_module(self.module), self.name)


def borrowed(module: str, name: str) -> Any:
    """Return what kernels call that is in a module that imports numba, which is not imported now."""
    return Borrowed(module, name)


def is_loaded(kernel: Callable[..., object]) -> bool:
    """Tell whether a kernel can be called without loading a compiler first."""
    return isinstance(kernel, Postponed) and kernel.is_loaded


def loaded(kernel: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Return what a kernel calls, for who cannot spare the way there."""
    assert isinstance(kernel, Postponed)
    return cast("Callable[Parameters, Result]", kernel.load())


def compiled(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Compile a function of plain arrays and numbers to machine code that runs without the GIL."""
    return cast("Callable[Parameters, Result]", Kernel(function, _KERNEL))


def inner(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Compile a function that is only called by kernels: there is no way in from Python, which is long to compile."""
    return cast("Callable[Parameters, Result]", Kernel(function, _INNER))


def borrowing(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Compile a function that is only called by kernels and makes no arrays: it borrows those that it is given.

    As no references are counted, it may be given a tuple of many arrays and pass it on.
    """
    return cast("Callable[Parameters, Result]", Kernel(function, _BORROWING))


def inlined(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Compile a function that is only called by kernels, into its callers."""
    return cast("Callable[Parameters, Result]", Kernel(function, {**_INNER, "forceinline": True}))


def borrowing_inlined(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Compile a function that is only called by kernels and makes no arrays, into its callers."""
    return cast("Callable[Parameters, Result]", Kernel(function, {**_BORROWING, "forceinline": True}))
