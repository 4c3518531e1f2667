"""Events as the kernels read them: lists of (dimension, rank), ranks above 0, one event after the other.

Texts that a residue has to be verified on travel along, by attribute.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rankcast.arrays import Array


@dataclass(slots=True)
class EncodedEvents:
    """Events encoded for one segment; those of event i are start[i]..start[i+1].

    Not to be changed, but not frozen either: freezing would double the time it takes to make one per event.
    """

    start: Array
    dimensions: Array
    ranks: Array
    texts: Mapping[int, Mapping[int, str]] = field(default_factory=dict)
    """By attribute, then by event: the strings that residues look at."""

    def __len__(self) -> int:
        return len(self.start) - 1
