"""Builds what the selective kernel reads: the cells of every access dimension and the entries in them.

Cells are as fine as they can be without listing a row more than a few times on average, so equality gets cells of one
rank and ranges get cells somewhat narrower than themselves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankcast.arrays import Array
from rankcast.matching.segments.rows import DIMENSION, HIGH, LOW, SegmentRows, distinct, starts_of

COPIES = 6
"""Entries per row, on average at most: finer cells refuse more rows unseen, and cost this much more memory."""


@dataclass(frozen=True, slots=True)
class Selective:
    """The arrays of the selective kernel; see `rankcast.matching.kernels.cells`."""

    access: Array
    cell_of: Array
    cell_start: Array
    entries: Array


def build_selective(rows: SegmentRows, first_row: int, pivots: Array, seconds: Array, rank_counts: Array) -> Selective:
    """Return the kernel's arrays; `pivots` and `seconds` are the two most selective predicates of every row."""
    dimensions = rows.predicates[pivots, DIMENSION]
    order = np.argsort(dimensions, kind="stable")
    starts = np.searchsorted(dimensions[order], np.arange(len(rank_counts) + 1))
    access = np.full((len(rank_counts), 2), -1, np.int64)
    tables: list[Array] = []
    cell_counts: list[Array] = []
    entry_rows: list[Array] = []
    for dimension in np.flatnonzero(np.diff(starts)):
        own = order[starts[dimension] : starts[dimension + 1]]
        low, high, piece_row = _pieces(rows, pivots[own], own)
        edges = _cells(low, high, len(own), int(rank_counts[dimension]))
        table = np.repeat(np.arange(len(edges), dtype=np.int32), np.diff(np.append(edges, rank_counts[dimension])))
        cells, members = _spread(table[low], table[high], piece_row)
        access[dimension] = sum(map(len, tables)), sum(map(len, cell_counts))
        tables.append(table)
        cell_counts.append(np.bincount(cells, minlength=len(edges)))
        entry_rows.append(members)
    members = np.concatenate(entry_rows) if entry_rows else np.zeros(0, np.int64)
    entries = np.empty((len(members), 4), np.int32)
    entries[:, 0] = members + first_row
    entries[:, 1:] = rows.predicates[seconds[members]]
    counts = np.concatenate(cell_counts) if cell_counts else np.zeros(0, np.int64)
    cell_of = np.concatenate(tables) if tables else np.zeros(0, np.int32)
    return Selective(access, cell_of, starts_of(counts), entries)


def _pieces(rows: SegmentRows, predicates: Array, members: Array) -> tuple[Array, Array, Array]:
    """Return the ranges between gaps of some predicates as (low, high, row)."""
    low, high = rows.predicates[predicates, LOW], rows.predicates[predicates, HIGH]
    if not len(rows.gap_start):
        return low, high, members
    sizes = rows.gap_start[predicates + 1] - rows.gap_start[predicates]
    at = np.arange(int(sizes.sum())) + np.repeat(rows.gap_start[predicates] - starts_of(sizes)[:-1], sizes)
    gaps = rows.gaps[at]
    owner = np.repeat(np.arange(len(members)), sizes)
    lows = np.concatenate((low, gaps[:, 1] + 1))
    highs = np.concatenate((high, gaps[:, 0] - 1))
    low_owner = np.concatenate((np.arange(len(members)), owner))
    by_low = np.lexsort((lows, low_owner))
    by_high = np.lexsort((highs, low_owner))
    return lows[by_low], highs[by_high], members[low_owner[by_low]]


def _cells(low: Array, high: Array, row_count: int, rank_count: int) -> Array:
    """Return the first rank of every cell."""
    ends = np.concatenate((low, high + 1))
    ends = np.sort(ends[(ends > 0) & (ends < rank_count)])
    edges = distinct(ends)
    limit = len(edges)
    while limit > 1:
        inner = edges if len(edges) <= limit else distinct(ends[(np.arange(1, limit) * len(ends)) // limit])
        copies = np.searchsorted(inner, high, "right") - np.searchsorted(inner, low, "right") + 1
        if int(copies.sum()) <= COPIES * max(row_count, len(low)):
            return np.concatenate((np.zeros(1, np.int32), inner.astype(np.int32)))
        limit //= 2
    return np.zeros(1, np.int32)


def _spread(first: Array, last: Array, row: Array) -> tuple[Array, Array]:
    """Return the cells that ranges overlap and the rows listed in them, by cell, each row once per cell."""
    copies = (last - first + 1).astype(np.int64)
    cells = np.repeat(first, copies) + np.arange(int(copies.sum())) - np.repeat(starts_of(copies)[:-1], copies)
    members = np.repeat(row, copies)
    order = np.lexsort((members, cells))
    cells, members = cells[order], members[order]
    fresh = np.ones(len(cells), bool)
    fresh[1:] = (cells[1:] != cells[:-1]) | (members[1:] != members[:-1])
    return cells[fresh], members[fresh]
