"""Segments: immutable sets of subscriptions, ready to be searched.

A segment is nothing but named arrays (`to_arrays`), so it can be saved in a file, memory-mapped and shared between
processes. Its rows are ordered: first those of the wide kernel, then those of the selective one, then those that are
checked one by one. `numbers` are the caller's numbers of the subscriptions, ascending.

What comes from elsewhere is checked, so that no kernel is led outside the arrays and a merge finds what it needs.
`tables.SEGMENT` has what can be said of one array: its type and length, and that what it names exists. `RELATIONS` have
what several arrays say together: the parts of the two kernels' arrays follow each other, by dimension, without a space.
What is only compared, such as the bits of bitsets and the ranks of end points, may be anything: then a segment finds
other subscriptions, and nothing else happens. Cost: some passes over all arrays but the bitsets, which are most of a
large segment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from rankcast.arrays import Array, starts_of
from rankcast.containers.container import from_arrays, to_arrays
from rankcast.containers.expectations import check_starts, check_texts, check_types, check_values, fail_where
from rankcast.matching.encoding.byte_tables import ByteTable
from rankcast.matching.encoding.cuts import keys_of_bytes
from rankcast.matching.encoding.dimensions import Dimensions
from rankcast.matching.segments.bitmap_index import (
    BITS_START,
    BUCKET_START,
    GROUP,
    RANK_START,
    ROW_WORDS,
    BitmapIndex,
    attribute_order,
    build_bitmap_index,
)
from rankcast.matching.segments.cell_index import CELLS, RANKS, CellIndex, build_cell_index
from rankcast.matching.segments.plan import plan
from rankcast.matching.segments.rows import SegmentRows
from rankcast.matching.segments.tables import SEGMENT
from rankcast.model.errors import FilterTypeError, InvalidValueError
from rankcast.model.valuesets.patterns import Pattern

NAME = "segment"


@dataclass(frozen=True, slots=True)
class Residues:
    """Patterns to verify on the text, by row: its strings must match the pattern or, negated, must not."""

    row: Array
    attribute: Array
    negated: Array
    patterns: ByteTable

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
    """One immutable set of subscriptions; build it with `rankcast.matching.segments.building`."""

    dimensions: Dimensions
    rows: SegmentRows
    residues: Residues
    wide: BitmapIndex
    selective: CellIndex
    numbers: Array
    bounds: Array
    """The first selective row, and the first row that is checked one by one."""

    def __len__(self) -> int:
        return len(self.numbers)

    def to_arrays(self) -> dict[str, Array]:
        """Return everything as named arrays."""
        return to_arrays(self)

    @staticmethod
    def from_arrays(arrays: Mapping[str, Array]) -> Segment:
        """Return the segment of named arrays; raise InvalidValueError when they cannot be one."""
        check_arrays(arrays)
        segment = from_arrays(Segment, arrays)
        for relations in RELATIONS:
            for array, wrong in relations(segment):
                fail_where(np.atleast_1d(wrong), f"{NAME}: array {array}")
        return segment


def make_segment(dimensions: Dimensions, rows: SegmentRows, residues: Residues, numbers: Array) -> Segment:
    """Return the segment of some rows: decide on each row's kernel, order the rows, and build both kernels' arrays."""
    counts = dimensions.rank_counts
    chosen = plan(rows, dimensions)
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
        build_bitmap_index(ordered.take(np.arange(first_selective)), counts),
        build_cell_index(selective_rows, first_selective, chosen.pivots + moved, chosen.seconds + moved, counts),
        numbers,
        np.array((first_selective, first_scanned), np.int64),
    )


def check_arrays(arrays: Mapping[str, Array]) -> None:
    """Raise InvalidValueError, with the place, unless each array is what a segment has by that name."""
    check_types(NAME, arrays, SEGMENT)
    attributes, bounds = len(arrays["dimensions.attributes.start"]) - 1, arrays["bounds"]
    turned, substrings = arrays["dimensions.reversed_attribute"], arrays["dimensions.substring_attribute"]
    given = {
        "attributes": attributes,
        "dimensions": attributes + len(turned) + len(substrings),
        "rows and one": len(arrays["rows.start"]),
        "wide rows": int(bounds[0]) if len(bounds) else 0,
    }
    check_values(NAME, arrays, SEGMENT, given)


def _cuts(segment: Segment) -> Iterator[tuple[str, Array]]:
    held = segment.dimensions
    keys, rests, first = held.number_keys, held.number_rests, _firsts(held.number_start)
    ascend = (keys[1:] > keys[:-1]) | ((keys[1:] == keys[:-1]) & (rests[1:] > rests[:-1]))
    yield "dimensions.number_keys: cuts do not ascend", ~(ascend | first[1:])
    ascend = held.times[1:] > held.times[:-1]
    yield "dimensions.times: cuts do not ascend", ~(ascend | _firsts(held.time_start)[1:])
    attribute = held.substring_attribute
    yield "dimensions.substring_attribute: descends", attribute[1:] < attribute[:-1]
    yield "dimensions.substrings: an empty one", held.substrings.start[1:] == held.substrings.start[:-1]
    for name, table, starts in (
        ("attributes", held.attributes, np.array([0, len(held.attributes)])),
        ("strings", held.strings, held.string_start),
        ("reversed_cuts", held.reversed_cuts, held.reversed_start),
        ("substrings", held.substrings, starts_of(np.bincount(attribute, minlength=1))),
    ):
        yield f"dimensions.{name}: texts do not ascend", ~(_texts_ascend(table) | _firsts(starts)[1:])


def _firsts(starts: Array) -> Array:
    """Return which of consecutive lists' elements come first in theirs."""
    found = np.zeros(int(starts[-1]) + 1, bool)
    found[starts] = True
    return found[:-1]


def _texts_ascend(table: ByteTable) -> Array:
    """Return for each byte string but the first whether it is above the one before it."""
    keys = keys_of_bytes(table.start, table.data)
    ascend: Array = keys[1:] > keys[:-1]
    for at in np.flatnonzero(keys[1:] == keys[:-1]).tolist():  # alike in all that a key has
        ascend[at] = table[at + 1] > table[at]
    return ascend


def _texts(segment: Segment) -> Iterator[tuple[str, Array]]:
    attributes, patterns = segment.dimensions.attributes, segment.residues.patterns
    check_texts(f"{NAME}: array dimensions.attributes", attributes.start, attributes.data)
    check_texts(f"{NAME}: array residues.patterns", patterns.start, patterns.data)
    try:
        _ = segment.dimensions.postings
    except InvalidValueError as error:
        raise InvalidValueError(f"{NAME}: array dimensions.substrings: {error}") from None
    yield "residues.patterns: no pattern", np.array([not _is_pattern(text) for text in patterns.texts()], bool)


def _is_pattern(text: str) -> bool:
    try:
        Pattern.like(text)
    except FilterTypeError:
        return False
    return True


def _rows(segment: Segment) -> Iterator[tuple[str, Array]]:
    rows, counts = segment.rows, segment.dimensions.rank_counts
    dimension, low, high = rows.predicates.T
    yield "bounds: descend", segment.bounds[1:] < segment.bounds[:-1]
    yield "rows.predicates: no range of ranks", (low > high) | (high >= counts[dimension])
    if not len(rows.gap_start):
        yield "rows.gaps: gaps of no predicate", np.ones(len(rows.gaps), bool)
        return
    if len(rows.gap_start) != len(rows.predicates) + 1:
        raise InvalidValueError(f"{NAME}: array rows.gap_start: not as long as rows.predicates, and one")
    check_starts(f"{NAME}: array rows.gap_start", rows.gap_start, len(rows.gaps))
    owner, (first, last) = rows.predicate_of_gap, rows.gaps.T
    yield "rows.gaps: not inside their range", (first <= low[owner]) | (first > last) | (last >= high[owner])
    yield "rows.gaps: touch each other", (owner[1:] == owner[:-1]) & (first[1:] - 1 <= last[:-1])


def _wide(segment: Segment) -> Iterator[tuple[str, Array]]:
    wide, counts, rows = segment.wide, segment.dimensions.rank_counts, int(segment.bounds[0])
    layout, used = wide.layout, np.flatnonzero(wide.layout[:, ROW_WORDS])
    if not len(wide.chunks) or not len(wide.ends_start):
        raise InvalidValueError(f"{NAME}: arrays wide.chunks and wide.ends_start: empty; expected a line at least")
    chunk_words, chunks = wide.chunk_words, len(wide.chunks) - 1
    yield "wide.chunks: without words", np.array([rows > 0 and chunk_words < 1])
    yield "wide.chunks: not as many as the rows need", _unless(chunks, -(-rows // (64 * max(1, chunk_words))))
    yield "wide.layout: bitsets without rows", _unless(len(used), len(used) if rows else 0)
    for at, lists in enumerate((wide.low_ends, wide.high_ends, wide.gaps)):
        check_starts(f"{NAME}: array wide.ends_start, column {at}", wide.ends_start[:, at], len(lists))
    yield from _follow("wide.layout", layout[used, RANK_START], counts[used], len(wide.bucket_of))
    buckets = np.diff(layout[used, BUCKET_START], append=len(wide.ends_start) - 1)
    yield "wide.layout: buckets", (buckets < 1) | (layout[used, BUCKET_START] != starts_of(buckets)[:-1])
    yield "wide.bucket_of: no bucket", wide.bucket_of >= np.repeat(buckets, counts[used])
    words = layout[used, ROW_WORDS]
    yield "wide.layout: longer than the bitsets", buckets > len(wide.bits) // words
    yield from _follow("wide.layout", layout[used, BITS_START], buckets * words, len(wide.bits))
    check_starts(f"{NAME}: array wide.chunks, column 0", wide.chunks[:, 0], len(wide.parts))
    sizes = np.diff(wide.chunks[:, 0])
    yield "wide.chunks: no whole group of parts", (sizes % GROUP != 0) | (sizes == 0)
    yield "wide.chunks: no dimension", wide.chunks[:-1, 1] >= len(counts)
    yield "wide.parts: beyond its bitset", wide.parts[:, 1] > layout[wide.parts[:, 0], ROW_WORDS] - chunk_words
    if chunks:
        yield "wide.bits: rows that are not there", _bits_beyond(segment, buckets[used == wide.parts[-1, 0]])


def _bits_beyond(segment: Segment, buckets: Array) -> Array:
    """Return which bitsets of the last part have a bit behind the last row; as parts are and-ed, one speaks for all."""
    wide, (dimension, offset) = segment.wide, segment.wide.parts[-1].tolist()
    _, _, start, words = wide.layout[dimension].tolist()
    table = wide.bits[start : start + int(buckets[0]) * words].reshape(-1, words)
    own = table[:, offset : offset + wide.chunk_words]
    kept = int(segment.bounds[0]) - 64 * wide.chunk_words * (len(wide.chunks) - 2)
    word, bit = divmod(kept, 64)
    beyond = (own[:, word + (bit > 0) :] != 0).any(axis=1)
    found: Array = beyond | (own[:, word] >> np.uint64(bit) != 0) if bit else beyond
    return found


def _selective(segment: Segment) -> Iterator[tuple[str, Array]]:
    held, counts = segment.selective, segment.dimensions.rank_counts
    access, used = held.access, np.flatnonzero(held.access[:, RANKS] >= 0)
    yield from _follow("selective.access", access[used, RANKS], counts[used], len(held.cell_of))
    cells = np.diff(access[used, CELLS], append=len(held.cell_start) - 1)
    yield "selective.access: cells", (cells < 1) | (access[used, CELLS] != starts_of(cells)[:-1])
    yield "selective.access: cells of no dimension", _unless(len(held.cell_start) - 1, int(cells.sum()))
    yield "selective.cell_of: no cell", held.cell_of >= np.repeat(cells, counts[used])
    row, (first, last) = held.entries[:, 0], segment.bounds.tolist()
    yield "selective.entries: no row of this kernel", (row < first) | (row >= last)
    # Candidates have room for each row once: a row is in the cells of one dimension, and in each of these once.
    yield "selective.entries: rows do not ascend", ~((row[1:] > row[:-1]) | _firsts(held.cell_start)[1:])
    cell_of = np.repeat(np.arange(len(held.cell_start) - 1), np.diff(held.cell_start))
    dimension = np.repeat(used, cells)[cell_of]
    owner = np.zeros(len(segment.rows), np.int64)
    owner[row] = dimension
    yield "selective.entries: a row of two dimensions", owner[row] != dimension


def _follow(name: str, found: Array, sizes: Array, total: int) -> Iterator[tuple[str, Array]]:
    """Yield whether lists of some sizes do not begin one behind the other, or do not end with what they lie in."""
    starts = starts_of(sizes)
    yield f"{name}: not one behind the other", found != starts[:-1]
    yield f"{name}: not as long as what it describes", _unless(int(starts[-1]), total)


def _unless(found: int, expected: int) -> Array:
    return np.array([found != expected])


RELATIONS = (_cuts, _texts, _rows, _wide, _selective)
"""Each yields, one after the other, an array with what may be wrong with it, and where that is so."""
