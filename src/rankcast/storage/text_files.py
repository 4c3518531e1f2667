"""Whole text files and lines of byte streams, each with a bound, so that one bad line costs one line and little memory.

Text is UTF-8; the place of the first bad byte is told.
"""

from __future__ import annotations

import codecs
import gzip
import os
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from rankcast.model.errors import InvalidFileError, Problem

MAX_FILE_BYTES = 256 * 1024 * 1024
"""Size of a document that is read as a whole. Parsed, it takes about ten times as much memory."""

_OTHER_ENCODINGS = (
    (codecs.BOM_UTF32_LE, "UTF-32"),  # before that of UTF-16, with which it begins
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)


def read_text(path: Path) -> str:
    """Return the text of a file; raise InvalidFileError when it cannot be read, is too large or is not UTF-8."""
    check_plain(path)
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise unreadable(path, error) from None
    return decoded(data, str(path))


def check_plain(path: Path) -> None:
    """Raise InvalidFileError for what is no plain file: opening a pipe may wait for ever, and a device may never end.

    A folder is left to whoever opens it, who is told that it is one.
    """
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise unreadable(path, error) from None
    except ValueError as error:  # a NUL character in the name
        raise invalid_file(str(path), None, f"cannot be read: {error}") from None
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise invalid_file(str(path), None, "cannot be read: it is not a plain file but a pipe or a device")


def is_folder(path: Path) -> bool:
    """Whether a path is that of a folder; what may not be looked at is none, as whoever opens it is told."""
    return os.path.isdir(path)  # noqa: PTH112 (`Path.is_dir` raises where the way there is barred)


def decoded(data: bytes, file: str) -> str:
    """Return the text of a file's bytes, without a byte order mark."""
    if len(data) > MAX_FILE_BYTES:
        raise invalid_file(file, None, f"the file is larger than {MAX_FILE_BYTES:,} bytes")
    check_encoding(data[:4], file)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise invalid_file(file, line, f"not UTF-8: byte 0x{data[error.start]:02x} at offset {error.start:,}") from None


def check_encoding(start: bytes, file: str) -> None:
    """Raise InvalidFileError when the first bytes announce an encoding other than UTF-8."""
    for mark, name in _OTHER_ENCODINGS:
        if start.startswith(mark):
            raise invalid_file(file, 1, f"the file is {name}; expected UTF-8")


def unreadable(path: Path, error: OSError) -> InvalidFileError:
    """Return the error for a file that the operating system does not let us read."""
    return invalid_file(str(path), None, f"cannot be read: {error.strerror or error}")


def invalid_file(file: str, line: int | None, message: str) -> InvalidFileError:
    """Return the error for a file with one problem that concerns all of it."""
    return InvalidFileError([Problem(file, line, message)])


MAX_LINE_BYTES = 10 * 1024 * 1024
"""Length of one line (in CSV: of one record); a longer one is skipped and reported, never held in memory."""

_CHUNK = 1024 * 1024


class DamagedError(Exception):
    """The rest of a stream cannot be read; the message says why."""


class FileLine(NamedTuple):
    """One line: `number` counts from 1, `content` keeps its line end, `too_long` says that the content was dropped."""

    number: int
    content: bytes
    too_long: bool = False

    @property
    def ended(self) -> bool:
        """Whether the line has its end; the last line of a file that was cut off has none."""
        return self.content.endswith(b"\n")


def open_bytes(path: Path) -> BinaryIO:
    """Open a file; one that ends in .gz is decompressed on the way."""
    return cast(BinaryIO, gzip.open(path, "rb")) if path.suffix.lower() == ".gz" else path.open("rb")


def read_lines(stream: BinaryIO, file: str) -> Iterator[FileLine]:
    """Return the lines of a stream without a byte order mark; raise DamagedError where reading fails."""
    number = 0
    try:
        while content := stream.readline(MAX_LINE_BYTES + 1):
            number += 1
            if number == 1:
                check_encoding(content, file)
                content = content.removeprefix(codecs.BOM_UTF8)
            if len(content) > MAX_LINE_BYTES:
                _skip_line(stream, content)
                yield FileLine(number, b"\n", too_long=True)
            else:
                yield FileLine(number, content)
    except (EOFError, zlib.error, OSError) as error:
        raise _damage(error) from None


def read_bytes(stream: BinaryIO, limit: int) -> bytes:
    """Return at most `limit` bytes of a stream; raise DamagedError where reading fails."""
    try:
        return stream.read(limit)
    except (EOFError, zlib.error, OSError) as error:
        raise _damage(error) from None


def _damage(error: Exception) -> DamagedError:
    in_gzip = isinstance(error, EOFError | zlib.error | gzip.BadGzipFile)
    return DamagedError(f"{'the compressed data is damaged' if in_gzip else 'cannot be read'}: {error}")


def _skip_line(stream: BinaryIO, content: bytes) -> None:
    while content and not content.endswith(b"\n"):
        content = stream.readline(_CHUNK)
