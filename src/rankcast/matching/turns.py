"""Turns: how readers and writers of one index share the interpreter.

Threads in Python share the interpreter's lock (the GIL). One that asks for it gets it when the one that has it lets go,
or after 5 milliseconds (`sys.getswitchinterval`), a hundred times as long as matching an event. So while an index is
being changed a reader that has no other reader beside it keeps the GIL (`match_parts_holding`), and is interrupted once
in 5 milliseconds; and a writer, which then has its turn, hands the GIL back after a few changes. A reader says that it
is there by a flag; in the kernel that lets go of the GIL, only when it is about to come back.

No reader waits for a lock of the index here. Flags only make writers wait, and not for long (`PATIENCE`): beside one
reader that never pauses, a writer makes `CHANGES` changes about every 5 milliseconds.
"""

from __future__ import annotations

from itertools import count
from typing import Any, TypeAlias

import numpy as np

from rankcast.compiling import compiled
from rankcast.matching.intrinsics import load_now

Array: TypeAlias = np.ndarray[Any, Any]

READERS = 64
"""Flags; readers beyond that share them, which makes a writer miss one now and then."""

CHANGES = 8
"""Changes of a turn: together about as long as it takes to match an event twice."""

PATIENCE = 20_000
"""Looks at all flags until a writer goes on: some 200 microseconds, which a thread may well take to wake up."""


class Turns:
    """The flags of the readers of one index, and how many changes its writers made in this turn."""

    __slots__ = ("_array", "_changes", "_numbers", "flags")

    def __init__(self) -> None:
        self.flags = bytearray(READERS)
        self._array: Array = np.frombuffer(self.flags, np.uint8)
        self._numbers = count()
        self._changes = 0

    def join(self) -> tuple[int, Array]:
        """Return a reader's place among the flags, and its flag."""
        at = next(self._numbers) % READERS
        return at, self._array[at : at + 1]

    def give_way(self) -> None:
        """Count a change; after a few, let the readers go first that are there."""
        self._changes += 1
        if self._changes >= CHANGES and 1 in self.flags:
            self._changes = 0
            wait_for(self._array, PATIENCE)


@compiled
def wait_for(flags: Array, patience: int) -> None:
    """Return when all flags are down, or after so many looks at them."""
    for _ in range(patience):
        up = 0
        for at in range(len(flags)):
            up |= load_now(flags, at)
        if not up:
            break
