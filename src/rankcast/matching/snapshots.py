"""What an index held at one moment: segments with the moments their subscriptions died, and the start of a delta."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankcast.matching.builder import Entry
from rankcast.matching.delta import ALIVE, Delta
from rankcast.matching.kernels_search import DEAD, SEGMENT_KINDS
from rankcast.matching.prepared import Needs, Prepared
from rankcast.matching.rows import Array
from rankcast.matching.segment import Segment


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A segment, ready to be searched, with the sequence numbers at which its subscriptions died."""

    segment: Segment
    prepared: Prepared
    died: Array
    lowest: int
    highest: int

    @staticmethod
    def of(segment: Segment, attributes: dict[str, int]) -> Part:
        """Return a part with all its subscriptions alive; `attributes` numbers those of the index, and may grow."""
        names = segment.dimensions.attributes.texts()
        numbers = [attributes.setdefault(name, len(attributes)) for name in names]
        dimension_of = np.full(max(numbers, default=-1) + 1, -1, np.int32)
        dimension_of[numbers] = np.arange(len(numbers))
        died = np.full(len(segment), ALIVE, np.int64)
        return Part(
            segment,
            Prepared.of(segment, died, dimension_of),
            died,
            int(segment.numbers[0]) if len(segment) else 0,
            int(segment.numbers[-1]) if len(segment) else -1,
        )

    @property
    def dead(self) -> int:
        """How many have died."""
        return int(self.prepared.facts[DEAD])

    @property
    def is_mostly_dead(self) -> bool:
        """Whether fewer than half are alive, so that a merge pays off whatever the size."""
        return 2 * self.dead > len(self.segment)

    def bury(self, places: int | Array, sequence: int) -> None:
        """Note that subscriptions are gone from a sequence number on."""
        # First the count, which kernels look at to know whether they have to look at who died.
        self.prepared.facts[DEAD] += np.size(places)
        self.died[places] = sequence

    def place(self, number: int) -> int | None:
        """Return where a living subscription is, or None when it is not here."""
        if not self.lowest <= number <= self.highest:
            return None
        numbers = self.segment.numbers
        at = int(numbers.searchsorted(number))
        return at if numbers[at] == number and self.died[at] == ALIVE else None


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """Some parts, and what a kernel that searches all of them is given."""

    held: tuple[Part, ...]
    tables: Array
    needs: Needs
    have_residues: bool

    @staticmethod
    def of(held: tuple[Part, ...]) -> Parts:
        """Return some parts together."""
        tables = np.zeros((len(held), 2 * len(SEGMENT_KINDS)), np.int64)
        for at, part in enumerate(held):
            tables[at] = part.prepared.table.addresses
        needs = Needs().joined(part.prepared.needs for part in held)
        return Parts(held, tables, needs, any(len(part.segment.residues.row) for part in held))


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """What the index held at one moment; it never changes."""

    together: Parts
    newest: Delta
    entries: int
    """How many entries the delta had, and how many rows."""
    rows: int
    attributes: int
    """How many attributes had a number."""
    sequence: int

    @property
    def parts(self) -> tuple[Part, ...]:
        """The segments, with those who died."""
        return self.together.held

    @property
    def delta(self) -> tuple[Entry, ...]:
        """The subscriptions that are in no segment yet."""
        return tuple(self.newest.living(self.entries, self.sequence))

    def delta_segments(self, names: list[str]) -> list[Segment]:
        """Return these as segments; `names` are the attributes of the index by number."""
        return self.newest.segments(names, self.entries, self.rows, self.sequence) if self.entries else []

    def __len__(self) -> int:
        delta = int((self.newest.died[: self.entries] > self.sequence).sum())
        return delta + sum(int((part.died > self.sequence).sum()) for part in self.parts)
