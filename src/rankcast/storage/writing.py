"""Writing a file so that readers find either the old one or the new one, whole, whatever happens in between.

The new content goes to a temporary file in the same folder, reaches the disk, and then takes the name in one step.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from rankcast.storage.text_files import invalid_file


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Give a stream whose content becomes the file at `path` when the block ends without an error.

    A link is followed; an existing file keeps its permissions. Raises InvalidFileError when the folder cannot be
    written to or the path is no plain file.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        raise invalid_file(str(path), None, "cannot be written: it is not a plain file")
    temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(8)}.tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    except OSError as error:
        raise invalid_file(str(path), None, f"cannot be written: {error.strerror}") from None
    try:
        with os.fdopen(descriptor, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        if target.exists():
            shutil.copymode(target, temporary)
        temporary.replace(target)
        sync(target.parent)
    except OSError as error:
        raise invalid_file(str(path), None, f"cannot be written: {error.strerror or error}") from None
    finally:
        temporary.unlink(missing_ok=True)


def create(path: Path, content: bytes) -> bool:
    """Make a file that must not exist yet, whole; return whether nobody else was quicker."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    with replacing(temporary) as stream:
        stream.write(content)
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        temporary.unlink(missing_ok=True)
    return True


def sync(path: Path) -> None:
    """Bring a file, or the names in a folder, to the disk: a new name itself has to survive a crash."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
