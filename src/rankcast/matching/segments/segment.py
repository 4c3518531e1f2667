"""Segments: immutable sets of subscriptions, ready to be searched.

A segment is nothing but named arrays (`to_arrays`), so it can be saved in a file, memory-mapped and shared between
processes. Its rows are ordered: first those of the wide kernel, then those of the selective one, then those that are
checked one by one. `numbers` are the caller's numbers of the subscriptions, ascending.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np

from rankcast.arrays import Array
from rankcast.matching.encoding.byte_tables import ByteTable
from rankcast.matching.encoding.dimensions import Dimensions
from rankcast.matching.segments.bitmap_index import Wide, attribute_order, build_wide
from rankcast.matching.segments.cell_index import Selective, build_selective
from rankcast.matching.segments.expectations import check_arrays, check_segment
from rankcast.matching.segments.plan import RowSample, plan
from rankcast.matching.segments.rows import SegmentRows


@dataclass(frozen=True, slots=True)
class Residues:
    """Patterns to verify on the text, by row: its strings must match the pattern or, negated, must not."""

    row: Array
    attribute: Array
    negated: Array
    patterns: ByteTable

    @staticmethod
    def none() -> Residues:
        """Return no residues."""
        return Residues(np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, np.uint8), ByteTable.of(()))

    def take(self, order: Array) -> Residues:
        """Return the residues of rows that were put in another order; rows left out lose theirs."""
        if not len(self.row):
            return self
        place = np.full(int(max(self.row.max(), order.max(initial=0))) + 1, -1, np.int64)
        place[order] = np.arange(len(order))
        row = place[self.row]
        kept = np.flatnonzero(row >= 0)
        kept = kept[np.argsort(row[kept], kind="stable")]
        texts = self.patterns.items()
        return Residues(
            row[kept].astype(np.int32),
            self.attribute[kept],
            self.negated[kept],
            ByteTable.of(texts[at] for at in kept.tolist()),
        )


@dataclass(frozen=True, slots=True)
class Segment:
    """One immutable set of subscriptions; build it with `rankcast.matching.segments.builder`."""

    dimensions: Dimensions
    rows: SegmentRows
    residues: Residues
    wide: Wide
    selective: Selective
    numbers: Array
    bounds: Array
    """The first selective row, and the first row that is checked one by one."""

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self.to_arrays().values())

    def to_arrays(self) -> dict[str, Array]:
        """Return everything as named arrays."""
        arrays: dict[str, Array] = {"numbers": self.numbers, "bounds": self.bounds}
        for group, kind in _GROUPS.items():
            held = getattr(self, group)
            for part in fields(kind):
                value = getattr(held, part.name)
                if isinstance(value, ByteTable):
                    arrays[f"{group}.{part.name}.start"] = value.start
                    arrays[f"{group}.{part.name}.data"] = value.data
                else:
                    arrays[f"{group}.{part.name}"] = value
        return arrays

    @staticmethod
    def from_arrays(arrays: Mapping[str, Array]) -> Segment:
        """Return the segment of named arrays; raise InvalidValueError when they cannot be one (`expectations`)."""
        check_arrays(arrays)
        groups = {}
        for group, kind in _GROUPS.items():
            parts = {}
            for part in fields(kind):
                name = f"{group}.{part.name}"
                parts[part.name] = (
                    ByteTable(arrays[f"{name}.start"], arrays[f"{name}.data"])
                    if "ByteTable" in str(part.type)
                    else arrays[name]
                )
            groups[group] = kind(**parts)
        made = Segment(numbers=arrays["numbers"], bounds=arrays["bounds"], **groups)
        check_segment(made)
        return made


_GROUPS = {"dimensions": Dimensions, "rows": SegmentRows, "residues": Residues, "wide": Wide, "selective": Selective}


def make_segment(
    dimensions: Dimensions, rows: SegmentRows, residues: Residues, numbers: Array, sample: RowSample | None = None
) -> Segment:
    """Return the segment of some rows: decide on each row's kernel, order the rows, and build both kernels' arrays."""
    counts = dimensions.rank_counts
    chosen = plan(rows, len(counts), sample)
    wide_order = chosen.wide[attribute_order(rows.take(chosen.wide))]
    order = np.concatenate((wide_order, chosen.selective, chosen.scanned))
    ordered = rows.take(order)
    first_selective = len(wide_order)
    first_scanned = first_selective + len(chosen.selective)
    selective_rows = ordered.take(np.arange(first_selective, first_scanned))
    moved = selective_rows.start[:-1] - rows.start[chosen.selective]
    return Segment(
        dimensions,
        ordered,
        residues.take(order),
        build_wide(ordered.take(np.arange(first_selective)), counts),
        build_selective(selective_rows, first_selective, chosen.pivots + moved, chosen.seconds + moved, counts),
        numbers,
        np.array((first_selective, first_scanned), np.int64),
    )
