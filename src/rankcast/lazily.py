"""Names and modules that are loaded when they are first used, so that importing costs nothing that is not needed.

A package says `__getattr__, __dir__, __all__ = loading(__name__, homes)`; type checkers see the same names imported
from their homes under `TYPE_CHECKING`, each `as` itself, which tells them that it is public. A module that needs a
large one now and then says `large = module("large")`, and imports it under `TYPE_CHECKING`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from types import ModuleType


class _Later(ModuleType):
    """Stands for a module until something of it is asked for."""

    def __getattr__(self, name: str) -> object:
        value: object = getattr(import_module(self.__name__), name)
        setattr(self, name, value)
        return value


def module(name: str) -> ModuleType:
    """Return what stands for a module, which is imported when it is first used."""
    return _Later(name)


def loading(
    package: str, homes: Mapping[str, Iterable[str]]
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Return the `__getattr__`, `__dir__` and `__all__` of a package, given the modules that its names are in."""
    home_of = {name: home for home, names in homes.items() for name in names}

    def load(name: str) -> object:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(import_module(home_of[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*home_of, *(name for name in vars(sys.modules[package]) if name.startswith("__"))})

    return load, names, sorted(home_of)
