"""Builds segments: from subscriptions, or from columns of plain ranges when there are very many."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

import numpy as np

from rankcast.matching.dimensions import Dimensions
from rankcast.matching.encoder import Encoder
from rankcast.matching.plan import Sample
from rankcast.matching.ranges import CutCollector, RangeWriter, Residue
from rankcast.matching.rows import Rows, starts_of
from rankcast.matching.segment import Residues, Segment, make_segment
from rankcast.matching.tables import ByteTable
from rankcast.model.filters import Conjunction, Filter
from rankcast.model.intervals import Domain, IntervalSet
from rankcast.model.values import Value
from rankcast.model.valuesets import ValueSet


@dataclass(frozen=True, slots=True)
class Entry:
    """One subscription as the index sees it: its number, and the conjunctions that say when it matches."""

    number: int
    conjunctions: tuple[Conjunction, ...]

    @staticmethod
    def of(
        number: int, wanted: Filter, active_from: datetime | None = None, active_until: datetime | None = None
    ) -> Entry:
        """Return a subscription's entry; when it is active is one more constraint, on the event's time."""
        if active_from is None and active_until is None:
            return Entry(number, wanted.conjunctions)
        active = IntervalSet.between(Domain.TIME, active_from, active_until, high_closed=False)
        bound = Conjunction((("time", ValueSet(times=active)),))
        both = (conjunction & bound for conjunction in wanted.conjunctions)
        return Entry(number, tuple(conjunction for conjunction in both if conjunction is not None))

    def accepts(self, attributes: Mapping[str, Value]) -> bool:
        """Whether an event with these attributes matches."""
        # Written as plain loops: this is what an index does for every event and every subscription of its delta.
        for conjunction in self.conjunctions:
            for name, values in conjunction.items:
                if not values.accepts(attributes.get(name)):
                    break
            else:
                return True
        return False


def build_segment(entries: Iterable[Entry], sample: Sequence[Mapping[str, Value]] = ()) -> Segment:
    """Return the segment of some subscriptions; `sample` are typical events, which help to choose kernels."""
    entries = sorted(entries, key=lambda entry: entry.number)
    cuts = CutCollector()
    for entry in entries:
        for conjunction in entry.conjunctions:
            for attribute, values in conjunction.items:
                cuts.add(attribute, values)
    dimensions = cuts.dimensions()
    rows, residues = _rows(entries, RangeWriter(dimensions))
    numbers = np.array([entry.number for entry in entries], np.int64)
    return make_segment(dimensions, rows, residues, numbers, _sample(dimensions, sample))


def _sample(dimensions: Dimensions, events: Sequence[Mapping[str, Value]]) -> Sample | None:
    if not events:
        return None
    encoder = Encoder(dimensions)
    encoded = [encoder.encode(event) for event in events]
    return Sample(
        np.concatenate([event.dimensions for event in encoded]),
        np.concatenate([event.ranks for event in encoded]),
        len(encoded),
    )


def _rows(entries: list[Entry], writer: RangeWriter) -> tuple[Rows, Residues]:
    predicates: list[tuple[int, int, int]] = []
    gaps: list[tuple[int, int]] = []
    sizes: list[int] = []
    gap_counts: list[int] = []
    owners: list[int] = []
    residues: list[tuple[int, Residue]] = []
    for owner, entry in enumerate(entries):
        for conjunction in entry.conjunctions:
            first = len(predicates)
            parts = [writer.write(writer.attributes[attribute], values) for attribute, values in conjunction.items]
            if any(not ranges for written, _ in parts for _, ranges in written):
                continue  # string patterns that contradict each other in a way the normal form does not see
            for written, left in parts:
                for dimension, ranges in written:
                    predicates.append((dimension, ranges[0][0], ranges[-1][1]))
                    gaps += ((low[1] + 1, high[0] - 1) for low, high in pairwise(ranges))
                    gap_counts.append(len(ranges) - 1)
                residues += ((len(sizes), residue) for residue in left)
            sizes.append(len(predicates) - first)
            owners.append(owner)
    start = starts_of(np.array(sizes, np.int64))
    table = np.array(predicates, np.int32).reshape(-1, 3)
    subscription = np.array(owners, np.int32)
    if not gaps:
        return Rows.of(start, table, subscription), _residues(residues)
    gap_start = starts_of(np.array(gap_counts, np.int64))
    return Rows(start, table, gap_start, np.array(gaps, np.int32), subscription), _residues(residues)


def _residues(found: list[tuple[int, Residue]]) -> Residues:
    return Residues(
        np.array([row for row, _ in found], np.int32),
        np.array([residue.attribute for _, residue in found], np.int32),
        np.array([residue.negated for _, residue in found], np.uint8),
        ByteTable.of_texts(residue.pattern for _, residue in found),
    )
