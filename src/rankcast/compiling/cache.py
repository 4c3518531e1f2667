"""Where machine code is kept between processes.

A file is named after all that its code depends on: the bytecode of the kernel and of every kernel that it reaches, the
constants they use, the signature, the processor and the versions of Python, numba and LLVM. So no code is ever stale,
processes that write at the same time cannot mix up each other's files, and several processors may share a folder. A
kernel's files from before it was changed are removed when it is compiled again.

Files are looked for in every folder of `places` and written to the first that can be written to: where
`NUMBA_CACHE_DIR` says, beside the source, in the user's cache, or in a temporary folder. So code that was compiled when
an image was made is found though the image is read-only. Files hold pickles: a folder that others may write to is not
used.
"""

from __future__ import annotations

import hashlib
import logging
import os
import stat
import sys
import tempfile
import uuid
from collections.abc import Iterator
from functools import cache
from pathlib import Path

log = logging.getLogger("rankcast.compiling")

PACKAGE = Path(__file__).resolve().parents[1]
IN_TREE = PACKAGE / "__pycache__" / "kernels"

DIGITS = 20
"""Hexadecimal digits of a digest in a file name: 80 bits."""


def digest(*parts: bytes) -> str:
    """Return a short digest of byte strings."""
    return hashlib.sha256(b"".join(len(part).to_bytes(8, "big") + part for part in parts)).hexdigest()[:DIGITS]


def places() -> list[Path]:
    """Return the folders for machine code, best first; not all of them exist, or can be written to."""
    name = f"kernels-{digest(os.fsencode(PACKAGE))}"
    given = os.environ.get("NUMBA_CACHE_DIR")
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111 (home may be unknown)
    folders = [IN_TREE, Path(home, "rankcast", name), _temporary() / name]
    return [Path(given, "rankcast", name), *folders] if given else folders


def _temporary() -> Path:
    return Path(tempfile.gettempdir(), f"rankcast-{os.getuid()}")


@cache
def writable() -> Path | None:
    """Return the folder that new files are written to; None where there is none. Says so once if it is unusual."""
    found = next(filter(_can_be_written, places()), None)
    if found is None:
        log.warning("compiled kernels cannot be kept: none of %s can be written to", ", ".join(map(str, places())))
    elif found.is_relative_to(_temporary()):
        log.warning("compiled kernels are kept in %s, a temporary folder: %s cannot be written to", found, IN_TREE)
    elif found != IN_TREE:
        log.info("compiled kernels are kept in %s", found)
    return found


def _can_be_written(folder: Path) -> bool:
    try:
        if folder.is_relative_to(_temporary()):
            _temporary().mkdir(mode=0o700, exist_ok=True)
        folder.mkdir(parents=True, exist_ok=True)
        if not _trusted(folder):
            return False
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


def _trusted(folder: Path) -> bool:
    """Tell whether a folder is of somebody whose code runs here anyway, and nobody else's to write to."""
    owners = {0, os.getuid(), PACKAGE.stat().st_uid}
    # A temporary folder lies in one that is anybody's: nobody may have been quicker in making it.
    for place in (folder, folder.parent) if folder.is_relative_to(_temporary()) else (folder,):
        found = place.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid not in owners or found.st_mode & stat.S_IWOTH:
            return False
    return True


def _readable() -> Iterator[Path]:
    for folder in places():
        try:
            if _trusted(folder):
                yield folder
        except OSError:
            continue


def find(name: str) -> Path | None:
    """Return the file of that name, wherever it is."""
    return next((path for folder in _readable() if (path := folder / name).exists()), None)


def keep(name: str, content: bytes, outdated: str, current: str) -> None:
    """Write a file at once or not at all, and remove those that begin like `outdated` and not like `current`."""
    folder = writable()
    if folder is None:
        return
    try:
        for path in folder.glob(f"{outdated}*"):
            if not path.name.startswith(current):
                path.unlink(missing_ok=True)
        written = folder / f"{uuid.uuid4().hex}.writing"
        try:
            written.write_bytes(content)
            written.replace(folder / name)
        finally:
            written.unlink(missing_ok=True)
    except OSError as error:
        log.warning("compiled kernels cannot be kept in %s: %s", folder, error)


@cache
def sources_digest() -> str:
    """Return a digest of rankcast's source; some 20 milliseconds."""
    paths = sorted(PACKAGE.rglob("*.py"))
    return digest(*(part for path in paths for part in (os.fsencode(path.relative_to(PACKAGE)), path.read_bytes())))


@cache
def processor() -> str:
    """Return a digest of what the processor says it is and can do, as far as can be told without LLVM."""
    told = [os.environ.get(f"NUMBA_CPU_{what}", "") for what in ("NAME", "FEATURES")]
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").partition("\n\n")[0].splitlines()
    except OSError:
        lines = []
    wanted = ("model name", "flags", "Features", "CPU implementer", "CPU part", "cpu", "machine")
    told += [line for line in lines if line.partition(":")[0].strip() in wanted]
    return digest(*(text.encode() for text in (*os.uname()[4:], sys.platform, *told)))
