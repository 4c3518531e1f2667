"""The cell index: rows are found by their most selective predicate, and checked in full when a second one holds.

Every selective row is listed in the cells (small ranges of ranks) of one dimension, its access dimension, that its
predicate there overlaps. An event looks up one cell per attribute it carries. Each entry repeats the row's second most
selective predicate, so that most candidates are refused while a cell is read in sequence, without a branch and without
touching the row; the few survivors are checked exactly.

Cost: entries of the cells an event hits, about rows x selectivity of the access predicate. Dimensions the event lacks
cost nothing, however many there are.

Cells are as fine as they can be without listing a row more than a few times on average, so equality gets cells of one
rank and ranges get cells somewhat narrower than themselves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankcast.arrays import Array, group, starts_of
from rankcast.compiling import inlined
from rankcast.compiling.intrinsics import prefetch
from rankcast.matching.segments.rows import DIMENSION, HIGH, LOW, SegmentRows, distinct
from rankcast.matching.segments.tables import AT

COPIES = 6
"""Entries per row, on average at most: finer cells refuse more rows unseen, and cost this much more memory."""


PREFETCHED, ENTRIES_PER_LINE = 32, 4
"""Entries of a cell that are called into the cache ahead of use, and how many of them come together."""


# Columns of `access`, one line per dimension; RANKS is negative where no row is found by the dimension.
RANKS, CELLS = 0, 1


@inlined
def gather(table: Array, dimensions: Array, ranks: Array, values: Array, cells: Array, candidates: Array) -> int:
    """Write the rows of the event's cells whose second predicate holds; return how many there are.

    The cells are found first, in `cells`, so that their entries are on their way while the first are read.
    """
    access, entries = AT.selective_access(table), AT.selective_entries(table)
    cell_of, cell_start = AT.selective_cell_of(table), AT.selective_cell_start(table)
    found = 0
    for i in range(len(dimensions)):
        first_rank = access[dimensions[i], RANKS]
        if first_rank >= 0:
            cell = access[dimensions[i], CELLS] + cell_of[first_rank + ranks[i]]
            cells[found] = cell
            start = cell_start[cell]
            for ahead in range(start, min(cell_start[cell + 1], start + PREFETCHED), ENTRIES_PER_LINE):
                prefetch(entries, ahead)
            found += 1
    count = np.uint64(0)
    for i in range(found):
        for k in range(cell_start[cells[i]], cell_start[cells[i] + 1]):
            entry = np.uint64(k)  # unsigned, so that no index is looked at for its sign
            rank = values[np.uint64(entries[entry, 1])]
            candidates[count] = entries[entry, 0]
            count += np.uint64((rank >= entries[entry, 2]) & (rank <= entries[entry, 3]))
    return int(count)


@inlined
def row_holds(row: int, values: Array, row_start: Array, predicates: Array, gap_start: Array, gaps: Array) -> bool:
    """Whether every predicate of a row holds."""
    holds = True
    has_gaps = len(gap_start) > 0
    for k in range(row_start[row], row_start[row + 1]):
        rank = values[predicates[k, 0]]
        if rank < predicates[k, 1] or rank > predicates[k, 2]:
            holds = False
            break
        if has_gaps and gap_start[k] < gap_start[k + 1]:
            # The last gap that starts at or below the rank is the only one that can hold it.
            low, high = gap_start[k], gap_start[k + 1]
            while low < high:
                middle = (low + high) >> 1
                if gaps[middle, 0] <= rank:
                    low = middle + 1
                else:
                    high = middle
            if low > gap_start[k] and gaps[low - 1, 1] >= rank:
                holds = False
                break
    return holds


@dataclass(frozen=True, slots=True)
class CellIndex:
    """The arrays of the selective kernel; see the module."""

    access: Array
    cell_of: Array
    cell_start: Array
    entries: Array


def build_cell_index(rows: SegmentRows, first_row: int, pivots: Array, seconds: Array, rank_counts: Array) -> CellIndex:
    """Return the kernel's arrays; `pivots` and `seconds` are the two most selective predicates of every row."""
    dimensions = rows.predicates[pivots, DIMENSION]
    starts, order = group(dimensions, len(rank_counts))
    access = np.full((len(rank_counts), 2), -1, np.int64)
    tables: list[Array] = []
    cell_counts: list[Array] = []
    entry_rows: list[Array] = []
    ranks_before, cells_before = 0, 0
    for dimension in np.flatnonzero(np.diff(starts)):
        own = order[starts[dimension] : starts[dimension + 1]]
        low, high, piece_row = _pieces(rows, pivots[own], own)
        edges = _cells(low, high, len(own), int(rank_counts[dimension]))
        table = np.repeat(np.arange(len(edges), dtype=np.int32), np.diff(np.append(edges, rank_counts[dimension])))
        cells, members = _spread(table[low], table[high], piece_row)
        access[dimension] = ranks_before, cells_before
        ranks_before, cells_before = ranks_before + len(table), cells_before + len(edges)
        tables.append(table)
        cell_counts.append(np.bincount(cells, minlength=len(edges)))
        entry_rows.append(members)
    members = np.concatenate(entry_rows) if entry_rows else np.zeros(0, np.int64)
    entries = np.empty((len(members), 4), np.int32)
    entries[:, 0] = members + first_row
    entries[:, 1:] = rows.predicates[seconds[members]]
    counts = np.concatenate(cell_counts) if cell_counts else np.zeros(0, np.int64)
    cell_of = np.concatenate(tables) if tables else np.zeros(0, np.int32)
    return CellIndex(access, cell_of, starts_of(counts), entries)


def _pieces(rows: SegmentRows, predicates: Array, members: Array) -> tuple[Array, Array, Array]:
    """Return the ranges between gaps of some predicates as (low, high, row)."""
    low, high = rows.predicates[predicates, LOW], rows.predicates[predicates, HIGH]
    owner, gaps = rows.gaps_of(predicates)
    if not len(gaps):
        return low, high, members
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
