"""What the parts of something take that several processes work on: wall clock, and CPU time here and elsewhere.

CPU time of other processes, those that this one has started and that still run, is read from the system (Linux).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter, process_time

from rankcast.bench.spark_memory import family

USER_TIME, CHILDREN_SYSTEM_TIME = 11, 14
"""Words of /proc/N/stat behind the name: user and system time, its own and that of children that have ended."""


@dataclass(frozen=True, slots=True)
class Taken:
    """Seconds: by the wall clock, and of CPU in this process and in others."""

    wall: float = 0.0
    own: float = 0.0
    others: float = 0.0

    def __add__(self, other: Taken) -> Taken:
        return Taken(self.wall + other.wall, self.own + other.own, self.others + other.others)

    def __sub__(self, other: Taken) -> Taken:
        return Taken(self.wall - other.wall, self.own - other.own, self.others - other.others)


@dataclass(slots=True)
class Stopwatch:
    """Adds up what parts took, by name; what a part inside another one took counts for both."""

    parts: dict[str, Taken] = field(default_factory=dict)

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Measure a part until the end of the block."""
        start = now()
        yield
        self.parts[name] = self.parts.get(name, Taken()) + (now() - start)


def now() -> Taken:
    """Return what all clocks show."""
    return Taken(perf_counter(), process_time(), _seconds_of_others())


def _seconds_of_others() -> float:
    own = os.getpid()
    ticks = sum(_ticks(process) for process in family(own) if process != own)
    return ticks / os.sysconf("SC_CLK_TCK")


def _ticks(process: int) -> int:
    try:
        text = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return 0
    words = text.rpartition(")")[2].split()
    return sum(map(int, words[USER_TIME : CHILDREN_SYSTEM_TIME + 1]))
