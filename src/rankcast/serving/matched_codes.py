"""What an event matched in a queue, as the low bits of its word: a mask of positions, or the number of a set of them.

Positions are those of a subscriber's subscriptions; the first 19 have a bit each.
"""

from __future__ import annotations

from rankcast.delivery.stream.batches import SETS
from rankcast.delivery.stream.kernels import CODE_BITS
from rankcast.model.errors import InvalidValueError

CODES = (1 << CODE_BITS) - 1
WIDEST = SETS.bit_length() - 1
"""Positions below this one have a bit."""

FEWEST, MOST = SETS // 8, SETS // 2
"""Sets that are kept before queues are asked which they need, where they need few or very many."""


class MatchedCodes:
    """Codes of sets of positions, those beyond a mask each once."""

    def __init__(self) -> None:
        self._sets: list[tuple[int, ...]] = []
        self._codes: dict[tuple[int, ...], int] = {}
        self._free: list[int] = []
        self._many = FEWEST
        self._recent: set[int] = set()

    @property
    def are_many(self) -> bool:
        """Whether it is time to look which of the sets are still needed."""
        return len(self._codes) > self._many

    def code(self, positions: tuple[int, ...]) -> int:
        """Return the code of ascending positions."""
        if not positions or positions[-1] < WIDEST:
            mask = 0
            for position in positions:
                mask |= 1 << position
            return mask
        found = self._codes.get(positions)
        if found is None:
            if not self._free and len(self._sets) == SETS:
                raise InvalidValueError(f"more than {SETS:,} different sets of matching subscriptions are held")
            at = self._free.pop() if self._free else len(self._sets)
            self._sets[at : at + 1] = [positions]
            found = self._codes[positions] = SETS + at
        self._recent.add(found)
        return found

    def positions(self, word: int) -> tuple[int, ...]:
        """Return the positions of a word."""
        code = word & CODES
        if code >= SETS:
            return self._sets[code - SETS]
        return tuple(bit for bit in range(code.bit_length()) if code >> bit & 1)

    def begin_sweep(self) -> None:
        """Remember from now on which codes are asked for."""
        self._recent = set()

    def keep(self, held: set[int]) -> None:
        """Forget the sets but those of some codes, and those that were asked for since the sweep began."""
        if self._codes:
            used = held | self._recent
            self._codes = {positions: code for positions, code in self._codes.items() if code in used}
            self._free = [at for at in range(len(self._sets)) if SETS + at not in used]
            self._many = min(max(2 * len(self._codes), FEWEST), MOST)
