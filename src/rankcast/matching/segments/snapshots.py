"""What a compiled index held at one moment: segments with the moments their subscriptions died, and deltas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from rankcast.arrays import Array
from rankcast.matching.entries import Entry
from rankcast.matching.few import ALIVE
from rankcast.matching.kernels.delta import DELTA_KINDS
from rankcast.matching.kernels.search import DEAD, SEGMENT_KINDS
from rankcast.matching.segments.delta import Delta
from rankcast.matching.segments.searchable import Needs, SearchableSegment
from rankcast.matching.segments.segment import Segment
from rankcast.model.values import Value


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A segment, ready to be searched, with the sequence numbers at which its subscriptions died."""

    segment: Segment
    prepared: SearchableSegment
    died: Array
    lowest: int
    highest: int

    @staticmethod
    def of(segment: Segment) -> Part:
        """Return a part with all its subscriptions alive; it has to be `numbered` before it is searched."""
        died = np.full(len(segment), ALIVE, np.int64)
        return Part(
            segment,
            SearchableSegment.of(segment, died),
            died,
            int(segment.numbers[0]) if len(segment) else 0,
            int(segment.numbers[-1]) if len(segment) else -1,
        )

    def numbered(self, names: dict[str, int]) -> Part:
        """Return the part, in its place, with the attributes' numbers in the index; `names` may grow."""
        numbers = [names.setdefault(name, len(names)) for name in self.prepared.names]
        dimension_of = np.full(max(numbers, default=-1) + 1, -1, np.int32)
        dimension_of[numbers] = np.arange(len(numbers))
        return replace(self, prepared=self.prepared.with_attributes(dimension_of))

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
    """Some parts and deltas, the newest delta last, and what a kernel that searches all of them is given."""

    held: tuple[Part, ...]
    deltas: tuple[Delta, ...]
    tables: Array
    delta_tables: Array
    full_rows: Array
    """The rows of all deltas but the newest."""
    needs: Needs
    have_residues: bool
    have_others: bool
    """Whether entries of deltas but the newest are no rows."""

    @staticmethod
    def of(held: tuple[Part, ...], deltas: tuple[Delta, ...]) -> Parts:
        """Return some parts and deltas together."""
        tables = np.zeros((len(held), 2 * len(SEGMENT_KINDS)), np.int64)
        for at, part in enumerate(held):
            tables[at] = part.prepared.table.addresses
        delta_tables = np.zeros((len(deltas), 2 * len(DELTA_KINDS)), np.int64)
        for at, delta in enumerate(deltas):
            delta_tables[at] = delta.table.addresses
        needs = Needs().joined(part.prepared.needs for part in held)
        return Parts(
            held,
            deltas,
            tables,
            delta_tables,
            np.array([delta.row_count for delta in deltas[:-1]], np.int64),
            needs._replace(rows=needs.rows + sum(delta.capacity for delta in deltas)),
            any(len(part.segment.residues.row) for part in held),
            any(len(delta.others) for delta in deltas[:-1]),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """What the index held at one moment; it never changes."""

    together: Parts
    names: Mapping[str, int]
    """Numbers of attributes, which may have come to be known later."""
    attributes: int
    """How many attributes had a number."""
    entries: int
    """How many entries the newest delta had, how many rows, and how many entries that are none."""
    rows: int
    others: int
    sequence: int

    @property
    def parts(self) -> tuple[Part, ...]:
        """The segments, with those who died."""
        return self.together.held

    @property
    def delta(self) -> tuple[Entry, ...]:
        """The subscriptions that are in no segment yet."""
        *full, newest = self.together.deltas
        found = [entry for delta in full for entry in delta.living(len(delta), self.sequence)]
        return (*found, *newest.living(self.entries, self.sequence))

    def others_matching(self, attributes: Mapping[str, Value]) -> list[int]:
        """Return the numbers of those that an event satisfies, of the entries in deltas that are no rows."""
        *full, newest = self.together.deltas
        counts = [(delta.others, len(delta.others)) for delta in full] + [(newest.others, self.others)]
        return [number for few, count in counts if count for number in few.matching(attributes, count, self.sequence)]

    @property
    def has_others(self) -> bool:
        """Whether some entries of the deltas are no rows."""
        return self.others > 0 or self.together.have_others

    def __len__(self) -> int:
        return len(self.delta) + sum(int((part.died > self.sequence).sum()) for part in self.parts)
