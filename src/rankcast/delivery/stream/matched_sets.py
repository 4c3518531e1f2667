"""Sets of matched positions that do not fit a mask, each once, by number.

Numbers begin at `SETS` of `rankcast.delivery.stream.batches`. One is given again when nothing uses it any more.
"""

from __future__ import annotations

import numpy as np

from rankcast.arrays import Array
from rankcast.delivery.stream.batches import SETS
from rankcast.delivery.stream.event_tables import Ragged
from rankcast.model.errors import InvalidValueError


class MatchedSets:
    """A table of sets that grows with those it is given."""

    def __init__(self) -> None:
        self._sets: list[bytes] = []
        self._places: dict[bytes, int] = {}
        self._free: list[int] = []

    def __len__(self) -> int:
        """How many sets are known."""
        return len(self._places)

    def entered(self, matched: Array, sets: Ragged) -> Array:
        """Return numbers of what matched with those of this table instead of those of `sets`."""
        if not len(sets):
            return matched
        starts = sets.starts.tolist()
        places = np.array([self._place(sets.values[a:b].tobytes()) for a, b in zip(starts, starts[1:])])  # noqa: B905, RUF007
        mapped: Array = np.where(matched < SETS, matched, SETS + places[np.maximum(matched - SETS, 0)])
        return mapped

    def left(self, matched: Array) -> tuple[Array, Ragged]:
        """Return numbers of what matched and a table of the sets that they use, for whoever does not know this one."""
        is_set = matched >= SETS
        if not is_set.any():
            return matched, Ragged.of([])
        used, places = np.unique(matched[is_set] - SETS, return_inverse=True)
        renumbered = matched.copy()
        renumbered[is_set] = SETS + places
        return renumbered, Ragged.of([np.frombuffer(self._sets[place], np.int32) for place in used.tolist()])

    def keep(self, is_used: Array) -> None:
        """Forget the sets that are not marked; there is a mark for every number below `2 * SETS`."""
        self._free = []
        for place, content in enumerate(self._sets):
            if not is_used[SETS + place]:
                self._places.pop(content, None)
                self._sets[place] = b""
                self._free.append(place)
        while self._sets and self._free and self._free[-1] == len(self._sets) - 1:
            self._sets.pop()
            self._free.pop()

    def to_table(self) -> Ragged:
        """Return all sets; those that are not used are empty."""
        return Ragged.of([np.frombuffer(content, np.int32) for content in self._sets])

    @staticmethod
    def from_table(table: Ragged) -> MatchedSets:
        """Return a table with these sets."""
        made, starts = MatchedSets(), table.starts.tolist()
        for place, start in enumerate(starts[:-1]):
            content = table.values[start : starts[place + 1]].tobytes()
            made._sets.append(content)
            if content:
                made._places[content] = place
            else:
                made._free.append(place)
        return made

    def _place(self, content: bytes) -> int:
        place = self._places.get(content)
        if place is None:
            place = self._free.pop() if self._free else len(self._sets)
            if place >= SETS:
                raise InvalidValueError(f"more than {SETS:,} different sets of matching subscriptions in one shard")
            if place == len(self._sets):
                self._sets.append(content)
            else:
                self._sets[place] = content
            self._places[content] = place
        return place
