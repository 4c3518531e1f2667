"""What the wide-range kernel reads, for few rows without gaps: a bucket for every rank, so nothing is left to correct.

A full delta becomes such a segment. It is searched in well under a microsecond, and built by a handful of operations on
whole arrays, most of which do not need the interpreter: readers wait while it is built (see `turns`).

Cost: ranks x rows / 8 bytes, ranks being at most twice the predicates: 1.4 MB for 1,024 rows of 5 predicates.
"""

from __future__ import annotations

import numpy as np

from rankcast.compiling import compiled
from rankcast.matching.kernels_wide import BITS_START, BUCKET_START, GROUP, RANK_START, ROW_WORDS
from rankcast.matching.rows import DIMENSION, Array, Rows, starts_of
from rankcast.matching.wide import Wide

MAX_ROWS = 1024
"""With more rows the bitsets, which grow with their square, outgrow the cache."""

WORDS_PER_LINE = 8

_NO_GATE = -1


def build_exact_wide(rows: Rows, rank_counts: Array) -> Wide:
    """Return the kernel's arrays for some rows without gaps, at least one of which has a predicate."""
    words = -(-len(rows) // (64 * WORDS_PER_LINE)) * WORDS_PER_LINE
    rank_start = starts_of(rank_counts)
    total = int(rank_start[-1])
    layout = np.zeros((len(rank_counts), 4), np.int64)
    layout[:, RANK_START] = layout[:, BUCKET_START] = rank_start[:-1]
    layout[:, BITS_START] = rank_start[:-1] * words
    layout[:, ROW_WORDS] = words
    bits = np.zeros(total * words, np.uint64)
    fill_exact_bits(rows.start, rows.predicates, rank_start, words, bits)
    used = np.flatnonzero(np.bincount(rows.predicates[:, DIMENSION], minlength=len(rank_counts)))
    parts = np.zeros((-(-len(used) // GROUP) * GROUP, 2), np.int64)
    parts[:, 0] = np.resize(used, len(parts))  # and-ing a dimension again changes nothing
    nothing = np.zeros((0, 2), np.int32)
    return Wide(
        layout=layout,
        bucket_of=(np.arange(total) - np.repeat(rank_start[:-1], rank_counts)).astype(np.uint16),
        bits=bits,
        chunks=np.array(((0, _NO_GATE), (len(parts), words)), np.int64),
        parts=parts,
        ends_start=np.zeros((total + 1, 3), np.int64),
        low_ends=nothing,
        high_ends=nothing,
        gaps=np.zeros((0, 3), np.int32),
    )


@compiled
def fill_exact_bits(row_start: Array, predicates: Array, rank_start: Array, words: int, bits: Array) -> None:
    """Write the bitsets of every rank of every dimension: those rows that are not constrained there, or satisfied.

    As in `fill_bits`, a range toggles its bit where it starts and after where it ends, and a running XOR spreads it. A
    row that a dimension does not constrain is toggled at rank 0, and nowhere else.
    """
    one = np.uint64(1)
    rows = len(row_start) - 1
    for dimension in range(len(rank_start) - 1):
        first = rank_start[dimension] * words
        for row in range(rows):
            bits[first + (row >> 6)] |= one << np.uint64(row & 63)
    for row in range(rows):
        bit = one << np.uint64(row & 63)
        for k in range(row_start[row], row_start[row + 1]):
            first, last = rank_start[predicates[k, 0]], rank_start[predicates[k, 0] + 1]
            bits[first * words + (row >> 6)] ^= bit
            bits[(first + predicates[k, 1]) * words + (row >> 6)] ^= bit
            if first + predicates[k, 2] + 1 < last:
                bits[(first + predicates[k, 2] + 1) * words + (row >> 6)] ^= bit
    for dimension in range(len(rank_start) - 1):
        for rank in range(rank_start[dimension] + 1, rank_start[dimension + 1]):
            for word in range(words):
                bits[rank * words + word] ^= bits[(rank - 1) * words + word]
