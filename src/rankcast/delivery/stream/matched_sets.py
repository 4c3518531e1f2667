"""What matched, as one number: a mask of positions, or the number of a set of them where they do not fit one.

Positions are those of a subscriber's subscriptions, for instance; the meaning is the caller's. Numbers go from 0 to
`SETS + 2**19 - 1`: below `SETS` one is a mask of the first `WIDEST` positions, `SETS + i` stands for set i of a table,
which is sent with the numbers or kept beside them. A queue knows an event by a word: the event's number, above the
`CODE_BITS` of what matched. A number of a set is given again when nothing uses it any more.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

import numpy as np

from rankcast.arrays import Array
from rankcast.delivery.stream.event_tables import Ragged
from rankcast.model.errors import InvalidValueError

SETS = 2**19
"""Numbers below this one are masks of 19 bits."""

WIDEST = SETS.bit_length() - 1
"""Positions below this one have a bit."""

CODE_BITS = 20
"""Of what matched: 19 bits of a mask, or a set's number with the bit above them."""

CODES = (1 << CODE_BITS) - 1


def positions(matched: int, sets: Ragged) -> Sequence[int]:
    """Return the positions that a number stands for.

    >>> positions(0b101, Ragged.of([])), positions(SETS + 1, Ragged.of([[7], [2, 30]]))
    ([0, 2], [2, 30])
    """
    if matched < SETS:
        return [bit for bit in range(matched.bit_length()) if matched >> bit & 1]
    at = matched - SETS
    found: list[int] = sets.values[sets.starts[at] : sets.starts[at + 1]].tolist()
    return found


class MatchedSets:
    """A table of sets, each once, that grows with those it is given; those that are not used are empty."""

    def __init__(self, sets: Sequence[tuple[int, ...]] = ()) -> None:
        self._hold(sets)

    def _hold(self, sets: Sequence[tuple[int, ...]]) -> None:
        self._sets = list(sets)
        self._places = {content: place for place, content in enumerate(sets) if content}
        self._free = [place for place, content in enumerate(sets) if not content]

    def __len__(self) -> int:
        """How many sets are known."""
        return len(self._places)

    def number(self, chosen: tuple[int, ...]) -> int:
        """Return the number of ascending positions."""
        if chosen and chosen[-1] >= WIDEST:
            return SETS + self._place(chosen)
        mask = 0
        for position in chosen:
            mask |= 1 << position
        return mask

    def positions(self, number: int) -> tuple[int, ...]:
        """Return the positions of a number."""
        if number >= SETS:
            return self._sets[number - SETS]
        return tuple(bit for bit in range(number.bit_length()) if number >> bit & 1)

    def import_numbers(self, matched: Array, sets: Ragged) -> Array:
        """Return numbers of what matched with those of this table instead of those of `sets`."""
        if not len(sets):
            return matched
        places = np.array([self._place(tuple(content)) for content in sets.lists()])
        mapped: Array = np.where(matched < SETS, matched, SETS + places[np.maximum(matched - SETS, 0)])
        return mapped

    def export_numbers(self, matched: Array) -> tuple[Array, Ragged]:
        """Return numbers of what matched and a table of the sets that they use, for whoever does not know this one."""
        is_set = matched >= SETS
        if not is_set.any():
            return matched, Ragged.of([])
        used, places = np.unique(matched[is_set] - SETS, return_inverse=True)
        renumbered = matched.copy()
        renumbered[is_set] = SETS + places
        return renumbered, Ragged.of([self._sets[place] for place in used.tolist()])

    def keep(self, used: Container[int]) -> None:
        """Forget the sets whose numbers are not among some."""
        kept = [content if SETS + place in used else () for place, content in enumerate(self._sets)]
        while kept and not kept[-1]:
            kept.pop()
        self._hold(kept)

    def to_table(self) -> Ragged:
        """Return all sets; those that are not used are empty."""
        return Ragged.of(self._sets)

    @staticmethod
    def from_table(table: Ragged) -> MatchedSets:
        """Return a table with these sets."""
        return MatchedSets([tuple(content) for content in table.lists()])

    def _place(self, content: tuple[int, ...]) -> int:
        place = self._places.get(content)
        if place is None:
            if not self._free and len(self._sets) == SETS:
                raise InvalidValueError(f"more than {SETS:,} different sets of matching subscriptions are held")
            place = self._places[content] = self._free.pop() if self._free else len(self._sets)
            self._sets[place : place + 1] = [content]
        return place
