"""How much memory a process and all it has started take at most, sampled while something runs (on Linux)."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PERIOD = 0.5
"""Seconds between two samples."""

_SHARE = re.compile(r"^Pss:\s+(\d+) kB", re.MULTILINE)


class Peak:
    """The largest sample so far, in bytes; 0 where the system does not tell.

    Processes count from the second sample on in which they are: one that has just been made for another program is
    still the memory of its parent, which would count twice.
    """

    def __init__(self) -> None:
        self.bytes = 0
        self._known = {os.getpid()}

    def sample(self) -> None:
        """Look once."""
        members = set(family(os.getpid()))
        self.bytes = max(self.bytes, sum(map(_bytes_of, members & self._known)))
        self._known = members


@contextmanager
def peak_memory() -> Iterator[Peak]:
    """Sample until the end of the block."""
    peak, done = Peak(), threading.Event()

    def watch() -> None:
        while not done.wait(PERIOD):
            peak.sample()

    peak.sample()
    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield peak
    finally:
        done.set()
        watcher.join()
        peak.sample()


def family(root: int) -> Iterator[int]:
    """Return a process and all that it has started, by the threads that started them."""
    yield root
    for listed in Path(f"/proc/{root}/task").glob("*/children"):
        for child in (_text(listed) or "").split():
            yield from family(int(child))


def _bytes_of(process: int) -> int:
    """Return a process's memory, with its proportional share of what several processes have mapped."""
    found = _SHARE.search(_text(Path(f"/proc/{process}/smaps_rollup")) or "")
    return int(found[1]) * 1024 if found else 0


def _text(path: Path) -> str | None:
    """Return what a file says, None when its process has ended meanwhile."""
    try:
        return path.read_text()
    except OSError:
        return None
