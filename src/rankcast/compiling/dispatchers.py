"""Makes numba's dispatchers of kernels, with rankcast's cache instead of numba's own.

numba's cache looks only at the file of the outermost function, so that a change to a kernel that it calls goes
unnoticed; and processes that compile different signatures of one kernel at once may leave one's code under the name of
the other's.
"""

from __future__ import annotations

import pickle
import sys
import threading
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, NamedTuple

import llvmlite  # type: ignore[import-untyped]
import numba
import numpy as np
from numba.core import caching, compiler, serialize
from numba.core.registry import cpu_target
from numba.extending import typeof_impl

from rankcast.compiling import Borrowed, Kernel, Postponed
from rankcast.compiling.cache import digest, find, keep, log

VERSIONS = f"{sys.version} numba {numba.__version__} llvmlite {llvmlite.__version__} numpy {np.__version__}"
_SETTINGS = repr([getattr(numba.config, name, None) for name in ("BOUNDSCHECK", "OPT", "DEBUGINFO_DEFAULT")])
"""What the environment can say that changes machine code."""
_making = threading.RLock()
_dumped: Callable[..., bytes] = serialize.dumps
_rebuilt: Callable[..., Any] = compiler.CompileResult._rebuild


def _postpone_scipy() -> None:
    """Let numba take scipy for granted where it is installed: only to see that it can be imported takes 0.2 seconds.

    Kernels that call BLAS, of which rankcast has none, import it when they are compiled.
    """
    if "numba.np.arraymath" not in sys.modules and find_spec("scipy") is not None:
        linalg: Any = import_module("numba.np.linalg")
        ensure = linalg.ensure_blas
        linalg.ensure_blas = lambda: None
        try:
            arraymath: Any = import_module("numba.np.arraymath")
            arraymath.ensure_blas = ensure
        finally:
            linalg.ensure_blas = ensure


_postpone_scipy()


class Overload(NamedTuple):
    """A kernel that Python can call, and a signature of it."""

    module: str
    name: str
    signature: Any

    def load(self) -> bool:
        """Load it from the cache; tells whether it was there."""
        dispatcher = getattr(import_module(self.module), self.name).load()
        if self.signature in dispatcher.overloads:
            return True
        if not dispatcher._cache.has(self.signature, dispatcher.targetctx):
            return False
        dispatcher.compile(self.signature)
        return True


callable_now: dict[tuple[str, str, str], Overload] = {}
"""What was compiled or loaded in this process, but for what only kernels call."""

compilations = 0
"""How often this process had to compile a kernel."""


@typeof_impl.register(Postponed)
def _type_of(value: Postponed, _: Any) -> Any:
    return cpu_target.typing_context.resolve_value_type(value.load())


def dispatcher_of(kernel: Kernel) -> Any:
    """Return the dispatcher of a kernel, the same each time."""
    with _making:
        if kernel._loaded is None:
            made = numba.njit(**kernel.options)(kernel.function)
            made._cache = Cache(kernel)
            kernel._loaded = made
        return kernel._loaded


class Cache(caching._Cache):
    """The code of one kernel on disk."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._fingerprint = ""

    cache_path = None

    def enable(self) -> None:
        """Do nothing: it always is."""

    disable = flush = enable

    def has(self, signature: Any, target: Any) -> bool:
        """Tell whether there is code for a signature."""
        return find(self._names(signature, target)[-1]) is not None

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """Return the code for a signature, or None."""
        function = self._kernel.function
        if "no_cpython_wrapper" not in self._kernel.options and not _has_literals(signature):
            overload = Overload(function.__module__, function.__qualname__, signature)
            callable_now[overload.module, overload.name, repr(signature)] = overload
        target_context.refresh()
        path = find(self._names(signature, target_context)[-1])
        return None if path is None else _read(path, target_context)

    def save_overload(self, signature: Any, data: Any) -> None:
        """Write the code for a signature."""
        global compilations  # noqa: PLW0603 (a counter for tests and for progress)
        compilations += 1
        if data.library.has_dynamic_globals:
            log.warning("%s: refers to an address, and cannot be kept compiled", self._kernel.function)
            return
        outdated, current, name = self._names(signature, data.target_context)
        keep(name, _dumped(data._reduce()), outdated, current)

    def _names(self, signature: Any, target: Any) -> tuple[str, str, str]:
        """Return how files of the kernel begin, and those of its present source, and the file for a signature."""
        function = self._kernel.function
        if not self._fingerprint:
            self._fingerprint = digest(*_reached(self._kernel, set()))
        start = f"{function.__module__}.{function.__qualname__}.{sys.implementation.cache_tag}."
        current = f"{start}{self._fingerprint}."
        key = digest(repr((signature, target.codegen().magic_tuple())).encode(), VERSIONS.encode(), _SETTINGS.encode())
        return start, current, f"{current}{key}.nbc"


def _has_literals(signature: Any) -> bool:
    """Tell whether numbers are written out in a call, which only kernels do."""
    return any(isinstance(kind, numba.types.Literal) for kind in signature)


def _read(path: Path, target: Any) -> Any:
    try:
        payload = pickle.loads(path.read_bytes())
    except (OSError, EOFError, pickle.UnpicklingError, ImportError, AttributeError) as error:  # a name may be gone
        log.warning("%s: cannot be read, so the kernel is compiled again: %s", path, error)
        return None
    return _rebuilt(target, *payload)


def _reached(kernel: Kernel, seen: set[Kernel]) -> Iterator[bytes]:
    """Generate all that the machine code of a kernel is made from, but for signature, processor and versions."""
    if kernel in seen:
        return
    seen.add(kernel)
    function = kernel.function
    yield repr((function.__module__, function.__qualname__, sorted(kernel.options.items()))).encode()
    for code in _codes(function.__code__):
        plain = tuple(constant for constant in code.co_consts if not isinstance(constant, CodeType))
        yield repr((plain, code.co_names, code.co_varnames, code.co_flags)).encode()
        yield code.co_code
        for name in code.co_names:
            if name in function.__globals__:
                yield from _described(function.__globals__[name], f"{function.__module__}.{name}", seen)


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


@cache
def _source(module: str) -> bytes:
    return Path(str(import_module(module).__file__)).read_bytes()


def _described(value: object, name: str, seen: set[Kernel]) -> Iterator[bytes]:
    if isinstance(value, Kernel):
        yield from _reached(value, seen)
    elif isinstance(value, Borrowed):
        yield f"{value.module}.{value.name}".encode()
        if value.module.startswith("rankcast."):
            yield _source(value.module)
    elif isinstance(value, ModuleType):
        yield value.__name__.encode()
    elif isinstance(value, int | float | np.generic):
        yield repr((type(value), value)).encode()
    elif isinstance(value, tuple):
        yield repr(getattr(value, "_fields", len(value))).encode()
        for at, part in enumerate(value):
            yield from _described(part, f"{name}[{at}]", seen)
    elif isinstance(value, type) and issubclass(value, tuple) and hasattr(value, "_fields"):
        yield repr((value.__qualname__, value._fields)).encode()
    else:
        expected = "a kernel, a module, a number, a tuple or a NamedTuple: kernels are cached by those"
        raise TypeError(f"{name} is {value!r}; expected {expected}")
