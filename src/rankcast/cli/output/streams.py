"""Standard output and standard error, safely.

Text that comes from files is shown with its control characters escaped, so that no file can drive the terminal.
Problems go to standard error, results to standard output, and JSON is one strict document per line.
"""

from __future__ import annotations

import errno
import io
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TextIO, TypeVar

from rankcast.model.errors import Problem, counted

_ENCODERS = {ascii_only: json.JSONEncoder(ensure_ascii=ascii_only, allow_nan=False) for ascii_only in (False, True)}

Item = TypeVar("Item")

SHOWN_PROBLEMS = 20
"""Problems that a command other than `check` prints in full, for each file."""


class _ClosedOutput(io.TextIOWrapper):
    """Stands for a standard output that the caller closed: whoever writes there is told."""

    def write(self, text: str) -> int:
        """Raise an error: nobody would get this."""
        raise OSError(errno.EBADF, "cannot be written: it is closed", "standard output")


def make_streams_safe() -> None:
    """Let a stream that cannot encode a character write its escape; where a stream was closed, have one nevertheless.

    Python has None for a closed stream. Its number is taken, too, so that no file gets what is meant for the stream.
    """
    sys.stdout = sys.stdout or _ClosedOutput(io.FileIO(os.devnull, "w"), encoding="utf-8")
    sys.stderr = sys.stderr or io.TextIOWrapper(io.FileIO(os.devnull, "w"), encoding="utf-8")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def printable(text: str) -> str:
    """Return the text with control characters as escapes; line ends are kept.

    >>> printable("a\\x1b[31mb")
    'a\\\\x1b[31mb'
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char == "\n" else _escape(char) for char in text)


def _escape(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def one_line(text: str) -> str:
    """Return the text as `printable` does, with line ends escaped too."""
    return printable(text).replace("\n", "\\n")


def complain(message: str) -> None:
    """Write a message to standard error."""
    sys.stdout.flush()
    sys.stderr.write(printable(message) + "\n")


def complain_of(problems: Sequence[Problem]) -> None:
    """Write the first few problems of a file that cannot be used, and how many more there are."""
    for problem in problems[:SHOWN_PROBLEMS]:
        complain(str(problem))
    if len(problems) > SHOWN_PROBLEMS:
        complain(counted(len(problems) - SHOWN_PROBLEMS, "more problem"))


def write_json(document: Mapping[str, Any]) -> None:
    """Write one line of JSON to standard output."""
    sys.stdout.write(json_text(document, ascii_only=not is_utf8(sys.stdout)) + "\n")


def json_text(document: Mapping[str, Any] | str, *, ascii_only: bool = False) -> str:
    """Return a document, or a text, as strict JSON on one line."""
    return _ENCODERS[ascii_only].encode(document)


def is_utf8(stream: TextIO) -> bool:
    """Whether a stream can encode every character."""
    return (stream.encoding or "").lower().replace("-", "").replace("_", "") == "utf8"


class Problems:
    """Problems as they are found: the first few of each file go to standard error, and all are counted."""

    def __init__(self, found: Iterable[Problem] = ()) -> None:
        self.errors = 0
        self._shown: dict[str, int] = {}
        for problem in found:
            self.add(problem)

    def add(self, problem: Problem) -> None:
        """Report one problem."""
        self.errors += not problem.warning
        seen = self._shown.get(problem.file, 0)
        self._shown[problem.file] = seen + 1
        if seen < SHOWN_PROBLEMS:
            complain(str(problem))

    def set_aside(self, items: Iterable[Item | Problem]) -> Iterator[Item]:
        """Yield what is no problem, and report the problems on the way."""
        for item in items:
            if isinstance(item, Problem):
                self.add(item)
            else:
                yield item

    def close(self) -> None:
        """Say how many problems were not shown."""
        for file, seen in self._shown.items():
            if seen > SHOWN_PROBLEMS:
                complain(f"{file}: {counted(seen - SHOWN_PROBLEMS, 'more problem')}; `rankcast check` lists all")
