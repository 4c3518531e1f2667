"""The bitmap index: one bitset row per dimension of the event, and-ed in pieces that fit the cache.

Rows of a segment (conjunctions) are bits. Every dimension that wide rows constrain has up to a few hundred buckets of
ranks, and per bucket one bitset over the rows: "not constrained here, or satisfied by some rank of this bucket". An
event picks one bucket per dimension; the AND of those bitsets is a superset of its matches that errs only at rows with
an end point inside a picked bucket. These are listed per bucket in order, so that exactly the wrong ones are visited
and cleared; or, when fewer rows are left than end points would be visited, the rows themselves are checked.

Rows that constrain the same dimensions lie together. A dimension stores only the chunks of rows that constrain it, one
after the other, so its picked bitset is read as one stream, and memory follows what is constrained. A chunk whose rows
all need one dimension to be present (its gate) is skipped by events that lack it.

Cost: rows / 64 words per dimension that a chunk constrains, read sequentially, plus the corrections (or checks).

It is built as buckets, bitsets, chunks, and the end points inside buckets. Buckets of a dimension hold about equally
many end points, and an end point that very many rows share becomes an edge itself, so it needs no correction. Rank 0
(missing) is a bucket of its own. The number of buckets is a trade: twice as many halve the corrections and double the
memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankcast.arrays import Array, group, starts_of
from rankcast.compiling import compiled, inlined
from rankcast.compiling.intrinsics import count_bits, lowest_bit, prefetch
from rankcast.matching.segments.cell_index import row_holds
from rankcast.matching.segments.rows import DIMENSION, HIGH, LOW, SegmentRows, distinct
from rankcast.matching.segments.tables import AT

MAX_BUCKETS = 256
"""Enough that corrections cost less than the AND from 10,000 rows on."""

CHUNK_WORDS = 32
"""Words of a chunk: short, so that few dimensions are constrained in it, and long enough for the vector unit."""

LONG_CHUNK_WORDS = 160
LONG_CHUNK_ROWS = 20_000
"""In segments up to this size every chunk constrains every popular dimension anyway; longer loops are then better."""

BYTES_PER_ROW = 640
"""Bound on the bitsets' memory. Rows over many dimensions get fewer buckets rather than more memory."""


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
def pick_rows(table: Array, dimensions: Array, ranks: Array, picked: Array, located: Array, fetch: bool) -> int:
    """Point `picked` at the bitset of each dimension's bucket; dimensions the event lacks keep that of rank 0.

    `located` gets the bucket of the event's every dimension, -1 where wide rows do not constrain it. Returns how many
    end points are in these buckets; with `fetch`, those that `correct` visits first are called into the cache, to
    arrive while bitsets are and-ed.
    """
    layout, bucket_of = AT.wide_layout(table), AT.wide_bucket_of(table)
    ends_start, low_ends, high_ends = AT.wide_ends_start(table), AT.wide_low_ends(table), AT.wide_high_ends(table)
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
def restore_rows(table: Array, dimensions: Array, picked: Array) -> None:
    """Undo `pick_rows`."""
    layout = AT.wide_layout(table)
    for i in range(len(dimensions)):
        picked[dimensions[i]] = layout[dimensions[i], BITS_START]


@inlined
def and_chunks(table: Array, values: Array, picked: Array, words: Array) -> None:
    """Write the AND of the picked bitsets to `words`, chunk by chunk."""
    chunks, parts, bits = AT.wide_chunks(table), AT.wide_parts(table), AT.wide_bits(table)
    chunk_words = chunks[len(chunks) - 1, 1]
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
def correct(table: Array, located: Array, ranks: Array, words: Array) -> None:
    """Clear the rows whose range ends inside a picked bucket and does not reach the event's rank."""
    ends_start, low_ends, high_ends = AT.wide_ends_start(table), AT.wide_low_ends(table), AT.wide_high_ends(table)
    gaps = AT.wide_gaps(table)
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
def check_rows(table: Array, values: Array, words: Array, rows: Array) -> None:
    """Clear the rows of which some predicate does not hold, like `correct`; `rows` has room for all that are left.

    They are listed first, so that the predicates of all are on their way while the first are checked.
    """
    row_start, predicates = AT.rows_start(table), AT.rows_predicates(table)
    gap_start, gaps = AT.rows_gap_start(table), AT.rows_gaps(table)
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
    for k in range(count):
        if not row_holds(rows[k], values, row_start, predicates, gap_start, gaps):
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


@dataclass(frozen=True, slots=True)
class BitmapIndex:
    """The arrays of the wide-range kernel; see the module."""

    layout: Array
    bucket_of: Array
    bits: Array
    chunks: Array
    parts: Array
    ends_start: Array
    low_ends: Array
    high_ends: Array
    gaps: Array

    @property
    def chunk_words(self) -> int:
        """Words in every chunk."""
        return int(self.chunks[-1, 1])


def attribute_order(rows: SegmentRows) -> Array:
    """Return an order of the rows in which those that constrain the same dimensions are neighbours, rare ones first."""
    dimensions = rows.predicates[:, DIMENSION]
    counts = np.bincount(dimensions) if len(dimensions) else np.zeros(1, np.int64)
    by_rarity = np.argsort(np.argsort(counts, kind="stable"), kind="stable").astype(np.int32)
    row = rows.row_of_predicate
    rarity = by_rarity[dimensions]
    order = np.argsort(row.astype(np.int64) * (len(counts) + 1) + rarity, kind="stable")
    position = np.arange(len(row)) - rows.start[row]
    depth = 4
    keys = np.full((depth, len(rows)), len(counts), np.int32)
    for level in range(depth):
        here = position == level
        keys[level, row[here]] = rarity[order][here]
    return np.lexsort(keys[::-1])


def build_bitmap_index(rows: SegmentRows, rank_counts: Array) -> BitmapIndex:
    """Return the kernel's arrays for rows that are in `attribute_order`."""
    if not len(rows):
        return _empty(len(rank_counts))
    small = len(rows) <= LONG_CHUNK_ROWS
    # Whole multiples of CHUNK_WORDS: what is left over would be and-ed word by word.
    chunk_words = min(LONG_CHUNK_WORDS, -(-len(rows) // (64 * CHUNK_WORDS)) * CHUNK_WORDS) if small else CHUNK_WORDS
    chunk_of = rows.row_of_predicate // (64 * chunk_words)
    dimensions = rows.predicates[:, DIMENSION]
    chunk_count = -(-len(rows) // (64 * chunk_words))
    pairs = distinct(np.sort(dimensions.astype(np.int64) * max(chunk_count, 1) + chunk_of))
    part_dimension, part_chunk = np.divmod(pairs, max(chunk_count, 1))
    chunks_per_dimension = np.bincount(part_dimension, minlength=len(rank_counts))
    limit = _bucket_limit(rows, chunks_per_dimension * chunk_words)
    return _Builder(rows, rank_counts, chunk_words, chunk_count, limit).build(part_dimension, part_chunk)


def _empty(dimensions: int) -> BitmapIndex:
    nothing = np.zeros((0, 2), np.int32)
    return BitmapIndex(
        layout=np.zeros((dimensions, 4), np.int64),
        bucket_of=np.zeros(0, np.uint16),
        bits=np.zeros(0, np.uint64),
        chunks=np.zeros((1, 2), np.int64),
        parts=np.zeros((0, 2), np.int64),
        ends_start=np.zeros((1, 3), np.int64),
        low_ends=nothing,
        high_ends=nothing,
        gaps=np.zeros((0, 3), np.int32),
    )


def _bucket_limit(rows: SegmentRows, row_words: Array) -> int:
    """Return the most buckets per dimension that keep the bitsets within their memory."""
    limit = MAX_BUCKETS
    ends = 2 * np.bincount(rows.predicates[:, DIMENSION], minlength=len(row_words)) + 2
    while limit > 4 and np.sum(np.minimum(ends, limit) * row_words) * 8 > max(BYTES_PER_ROW * len(rows), 1 << 25):
        limit -= limit // 8 if limit > 64 else limit // 2
    return limit


class _Builder:
    """Gathers the lists of one `BitmapIndex`, dimension by dimension."""

    def __init__(self, rows: SegmentRows, rank_counts: Array, chunk_words: int, chunk_count: int, limit: int) -> None:
        self.rows = rows
        self.rank_counts = rank_counts
        self.chunk_words = chunk_words
        self.chunk_count = chunk_count
        self.limit = limit
        self.layout = np.zeros((len(rank_counts), 4), np.int64)

    def build(self, part_dimension: Array, part_chunk: Array) -> BitmapIndex:
        rows, layout = self.rows, self.layout
        dimensions = rows.predicates[:, DIMENSION]
        starts, by_dimension = group(dimensions, len(self.rank_counts))
        row_of = rows.row_of_predicate
        used = np.flatnonzero(np.diff(starts))
        tables, edge_lists = [], []
        # What is kept is written where it stays: pieces that are joined in the end leave unused memory behind.
        rank_start = starts_of(self.rank_counts[used])
        bucket_of = np.empty(int(rank_start[-1]), np.uint16)
        for at, dimension in enumerate(used):
            chosen = rows.predicates[by_dimension[starts[dimension] : starts[dimension + 1]]]
            edges = _edges(chosen, int(self.rank_counts[dimension]), self.limit)
            edge_lists.append(edges)
            tables.append(bucket_of[rank_start[at] : rank_start[at + 1]])
            sizes = np.diff(np.append(edges, self.rank_counts[dimension]))
            tables[-1][:] = np.repeat(np.arange(len(edges), dtype=np.uint16), sizes)
        bucket_counts = np.array([len(edges) for edges in edge_lists], np.int64)
        part_start = np.searchsorted(part_dimension, np.arange(len(self.rank_counts) + 1))
        row_words = np.diff(part_start)[used] * self.chunk_words
        layout[used, RANK_START] = rank_start[:-1]
        layout[used, BUCKET_START] = starts_of(bucket_counts)[:-1]
        layout[used, BITS_START] = starts_of(bucket_counts * row_words)[:-1]
        layout[used, ROW_WORDS] = row_words
        bits = np.zeros(int(np.sum(bucket_counts * row_words)), np.uint64)
        ends = _Ends(rows)
        for dimension, edges, table in zip(used, edge_lists, tables, strict=True):
            chosen_at = by_dimension[starts[dimension] : starts[dimension + 1]]
            predicates = rows.predicates[chosen_at]
            slots = np.full(self.chunk_count, -1, np.int64)
            own = part_chunk[part_start[dimension] : part_start[dimension + 1]]
            slots[own] = np.arange(len(own))
            start = int(layout[dimension, BITS_START])
            size = len(edges) * int(layout[dimension, ROW_WORDS])
            toggles = ends.add(chosen_at, predicates, row_of[chosen_at], edges, table)
            fill_bits(
                row_of[chosen_at],
                table[predicates[:, LOW]],
                table[predicates[:, HIGH]],
                toggles,
                slots,
                self.chunk_words,
                len(rows),
                bits[start : start + size].reshape(len(edges), -1),
            )
        chunks, parts = self._chunks(part_dimension, part_chunk, part_start)
        ends_start, low_ends, high_ends, gaps = ends.finished()
        return BitmapIndex(layout, bucket_of, bits, chunks, parts, ends_start, low_ends, high_ends, gaps)

    def _chunks(self, part_dimension: Array, part_chunk: Array, part_start: Array) -> tuple[Array, Array]:
        """Return per chunk its part list and gate, and per part its dimension and offset; the last line ends it."""
        offset = (np.arange(len(part_dimension)) - part_start[part_dimension]) * self.chunk_words
        order = np.argsort(part_chunk, kind="stable")
        counts = np.bincount(part_chunk, minlength=self.chunk_count)
        padded = -(-counts // GROUP) * GROUP
        chunks = np.zeros((self.chunk_count + 1, 2), np.int64)
        chunks[:, 0] = starts_of(padded)
        chunks[:-1, 1] = self._gates()
        chunks[-1, 1] = self.chunk_words
        parts = np.zeros((int(chunks[-1, 0]), 2), np.int64)
        first = starts_of(counts)
        for lane in range(GROUP):  # pad by repeating the first part; and-ing it again changes nothing
            fill = chunks[:-1, 0] + padded - 1 - lane
            parts[fill, 0] = part_dimension[order[first[:-1]]]
            parts[fill, 1] = offset[order[first[:-1]]]
        place = np.arange(len(order)) - first[part_chunk[order]] + chunks[part_chunk[order], 0]
        parts[place, 0] = part_dimension[order]
        parts[place, 1] = offset[order]
        return chunks, parts

    def _gates(self) -> Array:
        """Return per chunk a dimension that all its rows need to be present, or -1."""
        rows = self.rows
        needs = rows.predicates[:, LOW] > 0
        size = 64 * self.chunk_words
        key = (rows.row_of_predicate[needs] // size) * np.int64(len(self.rank_counts)) + rows.predicates[
            needs, DIMENSION
        ]
        found, counts = np.unique(key, return_counts=True)
        chunk, dimension = np.divmod(found, max(len(self.rank_counts), 1))
        members = np.minimum(size, len(rows) - chunk * size)
        gates = np.full(self.chunk_count, -1, np.int64)
        full = counts == members
        gates[chunk[full]] = dimension[full]
        return gates


def _edges(predicates: Array, rank_count: int, limit: int) -> Array:
    """Return the first rank of every bucket: rank 0 alone, then equal shares of the end points."""
    ends = np.concatenate((predicates[:, LOW], predicates[:, HIGH] + 1))
    ends = np.sort(ends[(ends > 1) & (ends < rank_count)])
    edges = distinct(ends)
    most = limit - 2
    if len(edges) > most:
        edges = distinct(ends[(np.arange(1, most + 1) * len(ends)) // (most + 1)])
    return np.concatenate((np.arange(min(2, rank_count), dtype=np.int32), edges.astype(np.int32)))


class _Ends:
    """The end points inside buckets, as the kernel's corrections read them."""

    def __init__(self, rows: SegmentRows) -> None:
        self.rows = rows
        most, gaps = len(rows.predicates) + len(rows.gaps), len(rows.gaps)
        self.lists = [np.empty(shape, np.int32) for shape in ((most, 2), (most, 2), (gaps, 3))]
        self.sizes = [0, 0, 0]
        self.counts: list[list[Array]] = [[], [], []]

    def add(self, predicate_at: Array, predicates: Array, row: Array, edges: Array, table: Array) -> Array:
        """List the ends of one dimension's predicates; return the bits its gaps toggle, as (bucket, row)."""
        low, high = predicates[:, LOW], predicates[:, HIGH]
        last = np.append(edges[1:], len(table)).astype(np.int64) - 1
        lows, highs = [np.stack((low, row), axis=1)], [np.stack((high, row), axis=1)]
        inner = np.zeros((0, 3), np.int32)
        toggles = np.zeros((0, 2), np.int64)
        if len(self.rows.gaps):
            inner, crossing, gap_rows, toggles = self._gaps(predicate_at, row, table)
            lows.append(np.stack((crossing[:, 1] + 1, gap_rows), axis=1))
            highs.append(np.stack((crossing[:, 0] - 1, gap_rows), axis=1))
        low_list, high_list = np.concatenate(lows).astype(np.int32), np.concatenate(highs).astype(np.int32)
        low_list = low_list[edges[table[low_list[:, 0]]] != low_list[:, 0]]
        high_list = high_list[last[table[high_list[:, 0]]] != high_list[:, 0]]
        for kind, found in enumerate((low_list, high_list, inner)):
            size = self.sizes[kind]
            self.lists[kind][size : size + len(found)] = found[np.argsort(found[:, 0], kind="stable")]
            self.sizes[kind] += len(found)
            self.counts[kind].append(np.bincount(table[found[:, 0]], minlength=len(edges)))
        return toggles

    def _gaps(self, predicate_at: Array, row: Array, table: Array) -> tuple[Array, Array, Array, Array]:
        """Split gaps into those inside one bucket and those across buckets, which end like ranges do."""
        owner, gaps = self.rows.gaps_of(predicate_at)
        gap_rows = row[owner]
        # The ranges beside a gap end at low-1 and start at high+1: they share a bucket or the gap goes across.
        before = table[gaps[:, 0] - 1].astype(np.int64)
        after = table[gaps[:, 1] + 1].astype(np.int64)
        inside = before == after
        inner = np.column_stack((gaps[inside], gap_rows[inside])).astype(np.int32)
        across = ~inside
        toggles = np.concatenate(
            (
                np.column_stack((before[across] + 1, gap_rows[across])),
                np.column_stack((after[across], gap_rows[across])),
            )
        )
        return inner, gaps[across], gap_rows[across], toggles

    def finished(self) -> tuple[Array, Array, Array, Array]:
        """Return where each bucket's ends start, and the low ends, high ends and gaps."""
        lists = [found[:size] for found, size in zip(self.lists, self.sizes, strict=True)]
        starts = [starts_of(np.concatenate(counts) if counts else np.zeros(0, np.int64)) for counts in self.counts]
        return np.stack(starts, axis=1), lists[0], lists[1], lists[2]
