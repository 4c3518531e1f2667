"""Builds segments from subscriptions."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import numpy as np

from rankcast.matching.encoding.byte_tables import ByteTable
from rankcast.matching.encoding.ranges import CutCollector, RangeWriter, Residue
from rankcast.matching.entries import Entry
from rankcast.matching.segments.rows import SegmentRows, starts_of
from rankcast.matching.segments.segment import Residues, Segment, make_segment

__all__ = ["Entry", "build_segment"]


def build_segment(entries: Iterable[Entry]) -> Segment:
    """Return the segment of some subscriptions."""
    entries = sorted(entries, key=lambda entry: entry.number)
    cuts = CutCollector()
    for entry in entries:
        for conjunction in entry.conjunctions:
            for attribute, values in conjunction.items:
                cuts.add(attribute, values)
    dimensions = cuts.dimensions()
    rows, residues = _rows(entries, RangeWriter(dimensions))
    numbers = np.array([entry.number for entry in entries], np.int64)
    return make_segment(dimensions, rows, residues, numbers)


def _rows(entries: list[Entry], writer: RangeWriter) -> tuple[SegmentRows, Residues]:
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
        return SegmentRows.of(start, table, subscription), _residues(residues)
    gap_start = starts_of(np.array(gap_counts, np.int64))
    return SegmentRows(start, table, gap_start, np.array(gaps, np.int32), subscription), _residues(residues)


def _residues(found: list[tuple[int, Residue]]) -> Residues:
    return Residues(
        np.array([row for row, _ in found], np.int32),
        np.array([residue.attribute for _, residue in found], np.int32),
        np.array([residue.negated for _, residue in found], np.uint8),
        ByteTable.of_texts(residue.pattern for _, residue in found),
    )
