"""Tables of byte strings as two arrays, so that they can be saved and memory-mapped like everything else."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from rankcast.arrays import Array


@dataclass(frozen=True, slots=True)
class ByteTable:
    """Byte strings one after the other: item i is data[start[i]:start[i+1]].

    >>> ByteTable.of([b"ab", b"", b"c"])[0]
    b'ab'
    """

    start: Array
    data: Array

    @staticmethod
    def of(items: Iterable[bytes]) -> ByteTable:
        """Return the table of some byte strings."""
        held = list(items)
        start = np.zeros(len(held) + 1, np.int64)
        np.cumsum([len(item) for item in held], out=start[1:])
        return ByteTable(start, np.frombuffer(b"".join(held), np.uint8))

    @staticmethod
    def of_texts(texts: Iterable[str]) -> ByteTable:
        """Return the table of some texts in UTF-8."""
        return ByteTable.of(text.encode() for text in texts)

    def __len__(self) -> int:
        return len(self.start) - 1

    def __getitem__(self, at: int) -> bytes:
        return bytes(self.data[self.start[at] : self.start[at + 1]])

    def items(self) -> list[bytes]:
        """Return all byte strings."""
        data = self.data.tobytes()
        return [data[low:high] for low, high in pairwise(self.start.tolist())]

    def texts(self) -> list[str]:
        """Return all items as texts."""
        return [item.decode() for item in self.items()]
