"""The files that a command writes: none is one that it reads, and none takes the place of another unasked."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

from rankcast.model.errors import RankcastError, shown

Output: TypeAlias = tuple[str, Path | str | None]
"""An option and what it names; None where it was not given, and `-` is standard output."""


class OutputError(RankcastError):
    """Something would be lost if a command wrote where it was told to."""


def check_outputs(
    outputs: Iterable[Output], inputs: Iterable[Path | str | None] = (), *, overwrite: bool = False
) -> None:
    """Raise OutputError, before any work, if a file is also read or written twice, or exists and may not be replaced.

    Files are compared by what they are, whatever they are called: links and other spellings are the same file. Of a
    folder that is read, every file counts.
    """
    taken: dict[object, str] = {}
    for given in inputs:
        for path in _files_of(given):
            taken.setdefault(_identity(path), f"is {shown(str(given))}, which is read")
    for option, named in outputs:
        if named is None or named == "-":
            continue
        path = Path(named)
        if found := taken.get(_identity(path)):
            raise OutputError(f"{option}: {shown(str(path))} {found}; expected another file")
        if path.is_file() and not overwrite:
            raise OutputError(f"{option}: {shown(str(path))} exists; --overwrite replaces it")
        taken[_identity(path)] = f"is also where {option} writes"


def _files_of(given: Path | str | None) -> Iterable[Path]:
    if given is None:
        return ()
    path = Path(given)
    return (path, *(path.iterdir() if os.path.isdir(path) else ()))  # noqa: PTH112 (no error where the way is barred)


def _identity(path: Path) -> object:
    """Return what two names of one file have in common, also if it does not exist yet."""
    try:
        found = path.stat()
    except (OSError, ValueError):  # whoever opens it says what is wrong
        return os.path.realpath(path)
    return found.st_dev, found.st_ino
