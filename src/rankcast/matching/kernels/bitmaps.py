"""The wide-range kernel: one bitset row per dimension of the event, and-ed in pieces that fit the cache.

Rows of a segment (conjunctions) are bits. Every dimension that wide rows constrain has up to a few hundred buckets of
ranks, and per bucket one bitset over the rows: "not constrained here, or satisfied by some rank of this bucket". An
event picks one bucket per dimension; the AND of those bitsets is a superset of its matches that errs only at rows with
an end point inside a picked bucket. These are listed per bucket in order, so that exactly the wrong ones are visited
and cleared; or, when fewer rows are left than end points would be visited, the rows themselves are checked.

Rows that constrain the same dimensions lie together. A dimension stores only the chunks of rows that constrain it, one
after the other, so its picked bitset is read as one stream, and memory follows what is constrained. A chunk whose rows
all need one dimension to be present (its gate) is skipped by events that lack it.

Cost: rows / 64 words per dimension that a chunk constrains, read sequentially, plus the corrections (or checks).
"""

from __future__ import annotations

import numpy as np

from rankcast.arrays import Array
from rankcast.compiling import compiled, inlined
from rankcast.compiling.intrinsics import count_bits, lowest_bit, prefetch
from rankcast.matching.kernels.cells import row_holds

# Columns of `layout`, one line per dimension.
RANK_START, BUCKET_START, BITS_START, ROW_WORDS = 0, 1, 2, 3

GROUP = 5
"""Bitsets and-ed in one pass over a chunk; lists of chunks are padded to it by repeating a dimension."""

PREFETCHED = 16
"""End points called into the cache ahead of use, at each end; from there on the hardware sees the sequence itself."""

ENDS_PER_LINE = 8

SIX, SIXTY_THREE = np.uint64(6), np.uint64(63)
"""Unsigned, so that an index made with them needs no look at its sign."""


@inlined
def pick_rows(
    dimensions: Array,
    ranks: Array,
    layout: Array,
    bucket_of: Array,
    ends_start: Array,
    low_ends: Array,
    high_ends: Array,
    picked: Array,
    located: Array,
    fetch: bool,
) -> int:
    """Point `picked` at the bitset of each dimension's bucket; dimensions the event lacks keep that of rank 0.

    `located` gets the bucket of the event's every dimension, -1 where wide rows do not constrain it. Returns how many
    end points are in these buckets; with `fetch`, those that `correct` visits first are called into the cache, to
    arrive while bitsets are and-ed.
    """
    ends = 0
    for i in range(len(dimensions)):
        dimension = dimensions[i]
        located[i] = -1
        words = layout[dimension, ROW_WORDS]
        if words:
            bucket = np.int64(bucket_of[layout[dimension, RANK_START] + ranks[i]])
            picked[dimension] = layout[dimension, BITS_START] + bucket * words
            bucket += layout[dimension, BUCKET_START]
            located[i] = bucket
            ends += (
                ends_start[bucket + 1, 0] - ends_start[bucket, 0] + ends_start[bucket + 1, 1] - ends_start[bucket, 1]
            )
            if fetch:
                for ahead in range(0, PREFETCHED, ENDS_PER_LINE):
                    prefetch(low_ends, ends_start[bucket + 1, 0] - 1 - ahead)
                    prefetch(high_ends, ends_start[bucket, 1] + ahead)
    return int(ends)


@inlined
def restore_rows(dimensions: Array, layout: Array, picked: Array) -> None:
    """Undo `pick_rows`."""
    for i in range(len(dimensions)):
        picked[dimensions[i]] = layout[dimensions[i], BITS_START]


@inlined
def and_chunks(
    values: Array, picked: Array, chunks: Array, parts: Array, bits: Array, words: Array, chunk_words: int
) -> None:
    """Write the AND of the picked bitsets to `words`, chunk by chunk."""
    for chunk in range(len(chunks) - 1):
        found = words[chunk * chunk_words : (chunk + 1) * chunk_words]
        gate = chunks[chunk, 1]
        if gate >= 0 and values[gate] == 0:
            found[:] = 0
            continue
        for k in range(chunks[chunk, 0], chunks[chunk + 1, 0], GROUP):
            start = picked[parts[k, 0]] + parts[k, 1]
            first = bits[start : start + chunk_words]
            start = picked[parts[k + 1, 0]] + parts[k + 1, 1]
            second = bits[start : start + chunk_words]
            start = picked[parts[k + 2, 0]] + parts[k + 2, 1]
            third = bits[start : start + chunk_words]
            start = picked[parts[k + 3, 0]] + parts[k + 3, 1]
            fourth = bits[start : start + chunk_words]
            start = picked[parts[k + 4, 0]] + parts[k + 4, 1]
            fifth = bits[start : start + chunk_words]
            if k == chunks[chunk, 0]:
                for word in range(chunk_words):
                    found[word] = first[word] & second[word] & third[word] & fourth[word] & fifth[word]
            else:
                for word in range(chunk_words):
                    found[word] &= first[word] & second[word] & third[word] & fourth[word] & fifth[word]


@inlined
def correct(
    located: Array, ranks: Array, ends_start: Array, low_ends: Array, high_ends: Array, gaps: Array, words: Array
) -> None:
    """Clear the rows whose range ends inside a picked bucket and does not reach the event's rank."""
    one = np.uint64(1)
    has_gaps = len(gaps) > 0
    for i in range(len(ranks)):
        bucket = located[i]
        if bucket < 0:
            continue
        rank = ranks[i]
        k = ends_start[bucket + 1, 0] - 1
        first = ends_start[bucket, 0]
        while k >= first and low_ends[k, 0] > rank:
            row = np.uint64(low_ends[k, 1])
            words[row >> SIX] &= ~(one << (row & SIXTY_THREE))
            k -= 1
        k = ends_start[bucket, 1]
        last = ends_start[bucket + 1, 1]
        while k < last and high_ends[k, 0] < rank:
            row = np.uint64(high_ends[k, 1])
            words[row >> SIX] &= ~(one << (row & SIXTY_THREE))
            k += 1
        if has_gaps:
            for k in range(ends_start[bucket, 2], ends_start[bucket + 1, 2]):
                if gaps[k, 0] <= rank <= gaps[k, 1]:
                    row = gaps[k, 2]
                    words[row >> 6] &= ~(one << np.uint64(row & 63))


@inlined
def count_rows(words: Array) -> int:
    """Return how many rows are left."""
    count = 0
    for word in range(len(words)):
        count += count_bits(words[word])
    return count


@inlined
def check_rows(
    values: Array, row_start: Array, predicates: Array, gap_start: Array, gap_ranges: Array, words: Array, rows: Array
) -> None:
    """Clear the rows of which some predicate does not hold, like `correct`; `rows` has room for all that are left.

    They are listed first, so that the predicates of all are on their way while the first are checked.
    """
    one, none = np.uint64(1), np.uint64(0)
    count = 0
    for word in range(len(words)):
        rest = words[word]
        while rest != none:
            row = (word << 6) + lowest_bit(rest)
            rest &= rest - one
            prefetch(predicates, row_start[row])
            prefetch(predicates, row_start[row + 1] - 1)
            rows[count] = row
            count += 1
    has_gaps = len(gap_start) > 0
    for k in range(count):
        if not row_holds(rows[k], values, row_start, predicates, gap_start, gap_ranges, has_gaps):
            wrong = np.uint64(rows[k])
            words[wrong >> SIX] &= ~(one << (wrong & SIXTY_THREE))


@inlined
def _all_rows(chunk_slot: Array, chunk_words: int, rows: int, row_words: int) -> Array:
    """Return a bitset over one dimension's chunks with a bit for every row that exists."""
    one = np.uint64(1)
    existing = np.zeros(row_words, np.uint64)
    for chunk in range(len(chunk_slot)):
        slot = chunk_slot[chunk]
        if slot < 0:
            continue
        for word in range(chunk_words):
            present = rows - ((chunk * chunk_words + word) << 6)
            if present >= 64:
                existing[slot * chunk_words + word] = ~np.uint64(0)
            elif present > 0:
                existing[slot * chunk_words + word] = (one << np.uint64(present)) - one
    return existing


@compiled
def fill_bits(
    predicate_row: Array,
    low_bucket: Array,
    high_bucket: Array,
    gap_toggles: Array,
    chunk_slot: Array,
    chunk_words: int,
    rows: int,
    bits: Array,
) -> None:
    """Write the bitsets of one dimension: `bits` is (buckets, words) and zero, `chunk_slot` maps chunks to slots.

    Every range toggles its bit where it starts and after where it ends; a running XOR over the buckets then spreads the
    ranges, which costs one pass however wide they are.
    """
    one = np.uint64(1)
    buckets, row_words = bits.shape
    free = _all_rows(chunk_slot, chunk_words, rows, row_words)
    for k in range(len(predicate_row)):
        row = predicate_row[k]
        word = row >> 6
        word = chunk_slot[word // chunk_words] * chunk_words + word % chunk_words
        bit = one << np.uint64(row & 63)
        free[word] &= ~bit
        bits[low_bucket[k], word] ^= bit
        if high_bucket[k] + 1 < buckets:
            bits[high_bucket[k] + 1, word] ^= bit
    for k in range(len(gap_toggles)):
        row = gap_toggles[k, 1]
        word = row >> 6
        word = chunk_slot[word // chunk_words] * chunk_words + word % chunk_words
        if gap_toggles[k, 0] < buckets:
            bits[gap_toggles[k, 0], word] ^= one << np.uint64(row & 63)
    for bucket in range(1, buckets):
        above, current = bits[bucket - 1], bits[bucket]
        for word in range(row_words):
            current[word] ^= above[word]
        for word in range(row_words):
            above[word] |= free[word]
    last = bits[buckets - 1]
    for word in range(row_words):
        last[word] |= free[word]
