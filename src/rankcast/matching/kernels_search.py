"""The search of segments: both kernels on every event, and their rows turned into subscriptions.

Rows that neither kernel finds are checked one by one: all of a very small segment, and those that match every event.

An event is a list of (dimension, rank) with ranks above 0; dimensions that it lacks have rank 0. A row found is either
final, and the number of its subscription is written once per event even when several of its rows match; or it has a
residue (string patterns that ranks cannot express), and the row itself is written for the caller to verify.

`search` takes events that were encoded for one segment. `match_parts` takes one event as plain numbers, ranks them in
each of several segments, and searches all of those and the delta in a single call.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from rankcast.compiling import compiled, holding, inlined
from rankcast.matching.cuts import are_common, rank_numbers
from rankcast.matching.intrinsics import lowest_bit
from rankcast.matching.kernels_delta import scan_delta
from rankcast.matching.kernels_selective import gather, row_holds
from rankcast.matching.kernels_wide import (
    BITS_START,
    and_chunks,
    check_rows,
    correct,
    count_rows,
    pick_rows,
    restore_rows,
)
from rankcast.matching.part_tables import (
    Kinds,
    PartTable,
    float64s,
    int16s,
    int32_columns,
    int32s,
    int64_columns,
    int64s,
    uint8s,
    uint16s,
    uint64s,
)

Array: TypeAlias = np.ndarray[Any, Any]

SEGMENT_KINDS: Kinds = {
    "row_start": (np.int64, 0),
    "predicates": (np.int32, 3),
    "gap_start": (np.int64, 0),
    "gap_ranges": (np.int32, 2),
    "subscription_of": (np.int32, 0),
    "number_of": (np.int64, 0),
    "residue": (np.uint8, 0),
    "layout": (np.int64, 4),
    "bucket_of": (np.uint16, 0),
    "bits": (np.uint64, 0),
    "chunks": (np.int64, 2),
    "parts": (np.int64, 2),
    "ends_start": (np.int64, 3),
    "low_ends": (np.int32, 2),
    "high_ends": (np.int32, 2),
    "gaps": (np.int32, 3),
    "access": (np.int64, 2),
    "cell_of": (np.int32, 0),
    "cell_start": (np.int64, 0),
    "entries": (np.int32, 4),
    "number_start": (np.int64, 0),
    "number_keys": (np.float64, 0),
    "number_rests": (np.int16, 0),
    "facts": (np.int64, 0),
    "died": (np.int64, 0),
    "dimension_of": (np.int32, 0),
}
"""What a kernel is given of a segment, in the order of its table."""

ROW_START, PREDICATES, GAP_START, GAP_RANGES, SUBSCRIPTION_OF, NUMBER_OF, RESIDUE = 0, 1, 2, 3, 4, 5, 6
LAYOUT, BUCKET_OF, BITS, CHUNKS, PARTS, ENDS_START, LOW_ENDS, HIGH_ENDS, GAPS = 7, 8, 9, 10, 11, 12, 13, 14, 15
ACCESS, CELL_OF, CELL_START, ENTRIES, NUMBER_START, NUMBER_KEYS, NUMBER_RESTS = 16, 17, 18, 19, 20, 21, 22
FACTS, DIED, DIMENSION_OF = 23, 24, 25

WORK_KINDS: Kinds = {
    "words": (np.uint64, 0),
    "small": (np.int32, 0),
    "large": (np.int64, 0),
    "found": (np.int64, 0),
    "opened": (np.int32, 0),
    "flag": (np.uint8, 0),
}
"""The memory of one thread; see `scratch`."""

WORDS, SMALL, LARGE, FOUND_ROOM, OPENED_ROOM, FLAG = 0, 1, 2, 3, 4, 5

# Positions in `facts`: the first row that is checked one by one, whether some subscription has several rows, how many
# subscriptions have died (changed in place; `died` says when each did), and how many end points could be visited in the
# time that it takes to check a wide row: 0 where the rows are too many to be in the cache.
FIRST_SCANNED, HAS_SEVERAL, DEAD, ENDS_PER_CHECK = 0, 1, 2, 3

# Positions in `state`, the head of `large`: the stamp of the current event, how much was written, and the most
# dimensions, and attributes of an index, that there is room for.
STAMP, FOUND, OPEN, WIDTH, ATTRIBUTES = 0, 1, 2, 3, 4
STATE = 5


def scratch(width: int, words: int, listed: int, stamps: int, attributes: int, rows: int, flag: Array) -> PartTable:
    """Return the memory that kernels work in, for segments up to some size, as a table.

    `small` holds the event's rank per dimension, its dimensions and ranks as lists, for `match_parts` where in the
    event each attribute is, and a list that first has the words that are not zero, then candidates. `large` holds the
    state; per dimension where its picked bitset starts, the event's bucket, and the place of a number among the cuts;
    and per subscription the stamp of the event that found it last. `found` and `opened` take the results. `flag` is
    raised when `match_parts` is done; see `turns`.
    """
    large = np.zeros(STATE + 3 * width + stamps, np.int64)
    large[WIDTH], large[ATTRIBUTES] = width, attributes
    small = np.zeros(3 * width + attributes + listed, np.int32)
    arrays = (np.zeros(words, np.uint64), small, large, np.empty(rows, np.int64), np.empty(rows, np.int32), flag)
    return PartTable.of(WORK_KINDS, arrays)


@inlined
def _emit(
    row: int,
    subscription_of: Array,
    number_of: Array,
    residue: Array,
    died: Array,
    sequence: int,
    stamps: Array,
    state: Array,
    found: Array,
    opened: Array,
) -> None:
    subscription = subscription_of[row]
    if len(died) and died[subscription] <= sequence:
        return
    if len(residue) and residue[row]:
        opened[state[OPEN]] = row
        state[OPEN] += 1
        return
    if len(stamps):
        if stamps[subscription] == state[STAMP]:
            return
        stamps[subscription] = state[STAMP]
    found[state[FOUND]] = number_of[row]
    state[FOUND] += 1


@inlined
def _emit_words(
    subscription_of: Array,
    number_of: Array,
    residue: Array,
    died: Array,
    sequence: int,
    stamps: Array,
    state: Array,
    words: Array,
    occupied: Array,
    found: Array,
    opened: Array,
) -> None:
    """Emit every set bit. Words that are not zero are listed first, without a branch to mispredict."""
    one = np.uint64(1)
    none = np.uint64(0)
    plain = len(residue) == 0 and len(died) == 0 and len(stamps) == 0
    listed = 0
    for word in range(len(words)):
        occupied[listed] = word
        listed += int(words[word] != none)
    count = state[FOUND]
    for k in range(listed):
        first_row = np.uint64(occupied[k]) << np.uint64(6)
        rest = words[np.uint64(occupied[k])]
        while rest != none:
            row = first_row + np.uint64(lowest_bit(rest))
            rest &= rest - one
            if plain:
                found[count] = number_of[row]
                count += 1
            else:
                _emit(int(row), subscription_of, number_of, residue, died, sequence, stamps, state, found, opened)
    if plain:
        state[FOUND] = count


@inlined
def _point_at_missing(table: Array, work: Array) -> None:
    """Point every dimension of a segment at the bitset of events that lack it."""
    layout, large = int64_columns(table, LAYOUT, 4), int64s(work, LARGE)
    for dimension in range(len(layout)):
        large[STATE + dimension] = layout[dimension, BITS_START]


@inlined
def _search_segment(
    table: Array, dimensions: Array, ranks: Array, sequence: int, work: Array, found: Array, opened: Array
) -> None:
    """Search one segment for one event, from where `_point_at_missing` left the memory; leave that as it was."""
    words, small, large = uint64s(work, WORDS), int32s(work, SMALL), int64s(work, LARGE)
    width = large[WIDTH]
    state, stamps = large[:STATE], large[STATE + 3 * width :]
    values, listed = small[:width], small[3 * width + large[ATTRIBUTES] :]
    picked, located = large[STATE : STATE + width], large[STATE + width : STATE + 2 * width]
    row_start, predicates = int64s(table, ROW_START), int32_columns(table, PREDICATES, 3)
    gap_start, gap_ranges = int64s(table, GAP_START), int32_columns(table, GAP_RANGES, 2)
    subscription_of, number_of = int32s(table, SUBSCRIPTION_OF), int64s(table, NUMBER_OF)
    residue, chunks, facts = uint8s(table, RESIDUE), int64_columns(table, CHUNKS, 2), int64s(table, FACTS)
    entries = int32_columns(table, ENTRIES, 4)
    died = int64s(table, DIED)[: len(int64s(table, DIED)) if facts[DEAD] else 0]
    own_stamps = stamps[: len(stamps) if facts[HAS_SEVERAL] else 0]
    has_gaps = len(gap_start) > 0
    state[STAMP] += 1
    for i in range(len(dimensions)):
        values[dimensions[i]] = ranks[i]
    if len(chunks) > 1:
        layout, ends_start = int64_columns(table, LAYOUT, 4), int64_columns(table, ENDS_START, 3)
        low_ends, high_ends = int32_columns(table, LOW_ENDS, 2), int32_columns(table, HIGH_ENDS, 2)
        chunk_words = chunks[len(chunks) - 1, 1]
        own_words = words[: (len(chunks) - 1) * chunk_words]
        bucket_of, gaps = uint16s(table, BUCKET_OF), int32_columns(table, GAPS, 3)
        per_check = facts[ENDS_PER_CHECK]
        ends = pick_rows(
            dimensions, ranks, layout, bucket_of, ends_start, low_ends, high_ends, picked, located, per_check == 0
        )
        and_chunks(values, picked, chunks, int64_columns(table, PARTS, 2), uint64s(table, BITS), own_words, chunk_words)
        if per_check and count_rows(own_words) * per_check < ends:
            check_rows(values, row_start, predicates, gap_start, gap_ranges, own_words, listed)
        else:
            correct(located, ranks, ends_start, low_ends, high_ends, gaps, own_words)
        restore_rows(dimensions, layout, picked)
        _emit_words(
            subscription_of, number_of, residue, died, sequence, own_stamps, state, own_words, listed, found, opened
        )
    if len(entries):
        access, cell_of, cell_start = int64_columns(table, ACCESS, 2), int32s(table, CELL_OF), int64s(table, CELL_START)
        count = gather(dimensions, ranks, values, access, cell_of, cell_start, entries, listed)
        for k in range(count):
            row = listed[k]
            if row_holds(row, values, row_start, predicates, gap_start, gap_ranges, has_gaps):
                _emit(row, subscription_of, number_of, residue, died, sequence, own_stamps, state, found, opened)
    for row in range(facts[FIRST_SCANNED], len(row_start) - 1):
        if row_holds(row, values, row_start, predicates, gap_start, gap_ranges, has_gaps):
            _emit(row, subscription_of, number_of, residue, died, sequence, own_stamps, state, found, opened)
    for i in range(len(dimensions)):
        values[dimensions[i]] = 0


@compiled
def search(
    event: int,
    event_start: Array,
    event_dimension: Array,
    event_rank: Array,
    table: Array,
    sequence: int,
    work: Array,
    offsets: Array,
    found: Array,
    open_offsets: Array,
    opened: Array,
) -> int:
    """Search one segment for the events from `event` on; return the first one not searched because space ran out.

    The subscription numbers of event i are found[offsets[i]:offsets[i+1]], and its rows with residues are
    opened[open_offsets[i]:open_offsets[i+1]]. An event is only begun when there is room for every row.
    """
    state = int64s(work, LARGE)
    rows = table[2 * ROW_START + 1] - 1
    has_residues = table[2 * RESIDUE + 1] > 0
    _point_at_missing(table, work)
    state[FOUND] = offsets[event]
    state[OPEN] = open_offsets[event]
    while event < len(event_start) - 1:
        if len(found) - state[FOUND] < rows or (has_residues and len(opened) - state[OPEN] < rows):
            break
        dimensions = event_dimension[event_start[event] : event_start[event + 1]]
        ranks = event_rank[event_start[event] : event_start[event + 1]]
        _search_segment(table, dimensions, ranks, sequence, work, found, opened)
        event += 1
        offsets[event] = state[FOUND]
        open_offsets[event] = state[OPEN]
    return event


@compiled
def search_one(dimensions: Array, ranks: Array, table: Array, sequence: int, work: Array) -> int:
    """Search one segment for one event; return how many subscriptions were found, in `found` of the work table.

    There must be room for every row. Rows with residues are in `opened`, and their number is in the state.
    """
    state = int64s(work, LARGE)
    state[FOUND], state[OPEN] = 0, 0
    _point_at_missing(table, work)
    _search_segment(table, dimensions, ranks, sequence, work, int64s(work, FOUND_ROOM), int32s(work, OPENED_ROOM))
    return int(state[FOUND])


@compiled
def match_parts(
    tables: Array,
    delta: Array,
    delta_rows: int,
    attributes: Array,
    keys: Array,
    rests: Array,
    extra: Array,
    sequence: int,
    work: Array,
    open_offsets: Array,
) -> int:
    """Search several segments and a delta for one event; return how many subscriptions were found.

    The event's numbers are (attributes, keys, rests), see `cuts`, attributes by their number in the index; without
    `rests` all are 0, and -1 is returned when a key may be no such number. What else it has comes as ranks: lines of
    `extra` are (segment, dimension, rank), by segment. Results are in `found` of the work table, where there must be
    room for every row; rows with residues of segment p are open_offsets[p]..open_offsets[p+1] of `opened`.
    """
    if not len(rests) and not are_common(keys):
        return -1
    small, large = int32s(work, SMALL), int64s(work, LARGE)
    found, opened = int64s(work, FOUND_ROOM), int32s(work, OPENED_ROOM)
    width = large[WIDTH]
    places = large[STATE + 2 * width : STATE + 3 * width]
    large[FOUND], large[OPEN] = 0, 0
    if delta_rows:
        place_of = small[3 * width : 3 * width + large[ATTRIBUTES]]
        large[FOUND] = scan_delta(delta, delta_rows, attributes, keys, rests, sequence, place_of, found)
    next_extra = 0
    for part in range(len(tables)):
        table = tables[part]
        dimension_of = int32s(table, DIMENSION_OF)
        dimensions, ranks = small[width : 2 * width], small[2 * width : 3 * width]
        count = 0
        for i in range(len(attributes)):
            if attributes[i] < len(dimension_of) and dimension_of[attributes[i]] >= 0:
                dimensions[count] = dimension_of[attributes[i]]
                ranks[count] = i
                count += 1
        start, cuts, cut_rests = int64s(table, NUMBER_START), float64s(table, NUMBER_KEYS), int16s(table, NUMBER_RESTS)
        rank_numbers(start, cuts, cut_rests, dimensions[:count], keys, rests, ranks, places)
        while next_extra < len(extra) and extra[next_extra, 0] == part:
            dimensions[count] = extra[next_extra, 1]
            ranks[count] = extra[next_extra, 2]
            count += 1
            next_extra += 1
        _point_at_missing(table, work)
        _search_segment(table, dimensions[:count], ranks[:count], sequence, work, found, opened)
        open_offsets[part + 1] = large[OPEN]
    uint8s(work, FLAG)[0] = 1
    return int(large[FOUND])


@holding
def match_parts_holding(*arguments: Any) -> int:
    """Search like `match_parts`, but keep the GIL: a thread that gives it up may wait milliseconds to get it back."""
    return match_parts(*arguments)
