"""What the parts of something take that several processes work on: wall clock, and CPU time here and elsewhere.

CPU time of other processes, those that this one has started, is read from the system (Linux) when a part starts and
ends. One that has ended counts as much as it had when it was last seen.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter, process_time

from rankcast_lab.bench.spark_memory import family

USER_TIME, SYSTEM_TIME = 11, 12
"""Words of /proc/N/stat behind the name."""


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
    _ticks: dict[int, int] = field(default_factory=dict)

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Measure a part until the end of the block."""
        start = self._now()
        yield
        self.parts[name] = self.parts.get(name, Taken()) + (self._now() - start)

    def _now(self) -> Taken:
        """Return what all clocks show."""
        own = os.getpid()
        for process in family(own):
            if process != own:
                self._ticks[process] = max(self._ticks.get(process, 0), _ticks_of(process))
        return Taken(perf_counter(), process_time(), sum(self._ticks.values()) / os.sysconf("SC_CLK_TCK"))


def _ticks_of(process: int) -> int:
    """Return the CPU time of a process, 0 when it has ended meanwhile."""
    try:
        text = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return 0
    words = text.rpartition(")")[2].split()
    return sum(map(int, words[USER_TIME : SYSTEM_TIME + 1]))
