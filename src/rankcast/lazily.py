"""Packages whose names are loaded when they are first used, so that importing them costs nothing that is not needed.

A package says `__getattr__, __dir__ = loading(__name__, homes)`; type checkers see the same names imported from their
homes under `TYPE_CHECKING`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module


def loading(
    package: str, homes: Mapping[str, Iterable[str]]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return the `__getattr__` and `__dir__` of a package, given the modules that its names are in."""
    home_of = {name: home for home, names in homes.items() for name in names}

    def load(name: str) -> object:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(import_module(home_of[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*home_of, *(name for name in vars(sys.modules[package]) if name.startswith("__"))})

    return load, names
