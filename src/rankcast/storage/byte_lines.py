"""Lines of a byte stream, with a bound on their length, so that one bad line costs one line and little memory.

Lines are bytes: text is decoded line by line by the reader of the format, and bytes that are not UTF-8 spoil only the
line they are on. Damage to compressed data or to the disk ends the lines early with `DamagedError`.
"""

from __future__ import annotations

import codecs
import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from rankcast.storage.texts import check_encoding

MAX_LINE_BYTES = 10 * 1024 * 1024
"""Length of one line (in CSV: of one record); a longer one is skipped and reported, never held in memory."""

_CHUNK = 1024 * 1024


class DamagedError(Exception):
    """The rest of a stream cannot be read; the message says why."""


class Line(NamedTuple):
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


def read_lines(stream: BinaryIO, file: str) -> Iterator[Line]:
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
                yield Line(number, b"\n", too_long=True)
            else:
                yield Line(number, content)
    except (EOFError, zlib.error, OSError) as error:
        raise _damaged(error) from None


def read_bytes(stream: BinaryIO, limit: int) -> bytes:
    """Return at most `limit` bytes of a stream; raise DamagedError where reading fails."""
    try:
        return stream.read(limit)
    except (EOFError, zlib.error, OSError) as error:
        raise _damaged(error) from None


def _damaged(error: Exception) -> DamagedError:
    in_gzip = isinstance(error, EOFError | zlib.error | gzip.BadGzipFile)
    return DamagedError(f"{'the compressed data is damaged' if in_gzip else 'cannot be read'}: {error}")


def _skip_line(stream: BinaryIO, content: bytes) -> None:
    while content and not content.endswith(b"\n"):
        content = stream.readline(_CHUNK)
