"""The selective kernel: rows are found by their most selective predicate, and checked in full when a second one holds.

Every selective row is listed in the cells (small ranges of ranks) of one dimension, its access dimension, that its
predicate there overlaps. An event looks up one cell per attribute it carries. Each entry repeats the row's second most
selective predicate, so that most candidates are refused while a cell is read in sequence, without a branch and without
touching the row; the few survivors are checked exactly.

Cost: entries of the cells an event hits, about rows x selectivity of the access predicate. Dimensions the event lacks
cost nothing, however many there are.
"""

from __future__ import annotations

from rankcast.arrays import Array
from rankcast.compiling import inlined

# Columns of `access`, one line per dimension; RANKS is negative where no row is found by the dimension.
RANKS, CELLS = 0, 1


@inlined
def gather(
    dimensions: Array,
    ranks: Array,
    values: Array,
    access: Array,
    cell_of: Array,
    cell_start: Array,
    entries: Array,
    candidates: Array,
) -> int:
    """Write the rows of the event's cells whose second predicate holds; return how many there are."""
    count = 0
    for i in range(len(dimensions)):
        first_rank = access[dimensions[i], RANKS]
        if first_rank < 0:
            continue
        cell = access[dimensions[i], CELLS] + cell_of[first_rank + ranks[i]]
        for k in range(cell_start[cell], cell_start[cell + 1]):
            rank = values[entries[k, 1]]
            candidates[count] = entries[k, 0]
            count += int((rank >= entries[k, 2]) & (rank <= entries[k, 3]))
    return count


@inlined
def row_holds(
    row: int, values: Array, row_start: Array, predicates: Array, gap_start: Array, gaps: Array, has_gaps: bool
) -> bool:
    """Whether every predicate of a row holds."""
    holds = True
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
