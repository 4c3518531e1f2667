"""Writing a file so that readers find either the old one or the new one, whole, whatever happens in between.

The new content goes to a temporary file in the same folder, reaches the disk, and then takes the name in one step. The
temporary file of a target has one name, and is locked while somebody writes it: what `kill -9` left is written over by
whoever writes that target next.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from rankcast.storage.text_files import invalid_file

_LONGEST = 200
"""Bytes of a name that a temporary name repeats; file systems allow 255 in all."""


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Give a stream whose content becomes the file at `path` when the block ends without an error.

    A link is followed; an existing file keeps its permissions. Those who write one file at once take turns. Raises
    InvalidFileError when the folder cannot be written to or the path is no plain file.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        raise invalid_file(str(path), None, "cannot be written: it is not a plain file")
    try:
        with _temporary(target) as (temporary, stream):
            yield stream
            _sync_stream(stream)
            if target.exists():
                shutil.copymode(target, temporary)
            temporary.replace(target)
            sync(target.parent)
    except OSError as error:
        raise invalid_file(str(path), None, f"cannot be written: {error.strerror or error}") from None


def create(path: Path, content: bytes) -> bool:
    """Make a file that must not exist yet, whole; return whether nobody else was quicker."""
    with _temporary(path) as (temporary, stream):
        stream.write(content)
        _sync_stream(stream)
        try:
            os.link(temporary, path)
        except FileExistsError:
            return False
    return True


@contextmanager
def _temporary(target: Path) -> Iterator[tuple[Path, BinaryIO]]:
    """Give the temporary file of a target, empty and locked; it is gone afterwards, unless it was renamed."""
    name = target.name
    if len(os.fsencode(name)) > _LONGEST:
        name = hashlib.sha256(os.fsencode(name)).hexdigest()
    temporary = target.with_name(f".{name}.rankcast-tmp")
    while True:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        with os.fdopen(descriptor, "wb") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            if not _is_at(stream, temporary):
                continue  # whoever had it before has renamed or removed it
            stream.truncate()
            try:
                yield temporary, stream
            finally:
                if _is_at(stream, temporary):
                    temporary.unlink()
            return


def _is_at(stream: BinaryIO, path: Path) -> bool:
    """Whether an open file has this name."""
    try:
        return os.path.samestat(os.fstat(stream.fileno()), path.lstat())
    except FileNotFoundError:
        return False


def _sync_stream(stream: BinaryIO) -> None:
    stream.flush()
    os.fsync(stream.fileno())


def sync(path: Path) -> None:
    """Bring a file, or the names in a folder, to the disk: a new name itself has to survive a crash."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
