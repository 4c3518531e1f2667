"""The search of segments: both kernels on every event, and their rows turned into subscriptions.

Rows that neither kernel finds are checked one by one: all of a very small segment, and those that match every event.

An event is a list of (dimension, rank) with ranks above 0; dimensions that it lacks have rank 0. A row found is either
final, and the number of its subscription is written once per event even when several of its rows match; or it has a
residue (string patterns that ranks cannot express), and the row itself is written for the caller to verify.

`search` takes events that were encoded for one segment. `match_parts` takes the plain values of one event, ranks them
in each of several segments, and searches all of those and the deltas in a single call.
"""

from __future__ import annotations

import numpy as np

from rankcast.arrays import Array
from rankcast.compiling import compiled, inlined
from rankcast.compiling.arguments import (
    KernelArguments,
    Kinds,
    float64s,
    int16s,
    int32_columns,
    int32s,
    int64_columns,
    int64s,
    positions,
    uint8s,
    uint16s,
    uint64s,
)
from rankcast.compiling.intrinsics import count_bits, lowest_bit
from rankcast.matching.encoding.cuts import are_common, place_of_text, rank_numbers, reversed_items, split_texts
from rankcast.matching.encoding.texts import follow
from rankcast.matching.kernels.bitmaps import (
    BITS_START,
    and_chunks,
    check_rows,
    correct,
    count_rows,
    pick_rows,
    restore_rows,
)
from rankcast.matching.kernels.cells import gather, row_holds
from rankcast.matching.kernels.delta import BOOL, scan_delta

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
    "string_start": (np.int64, 0),
    "string_keys": (np.uint64, 0),
    "string_at": (np.int64, 0),
    "string_data": (np.uint8, 0),
    "time_start": (np.int64, 0),
    "times": (np.int64, 0),
    "reversed_of": (np.int32, 0),
    "reversed_start": (np.int64, 0),
    "reversed_keys": (np.uint64, 0),
    "reversed_at": (np.int64, 0),
    "reversed_data": (np.uint8, 0),
    "group_of": (np.int32, 0),
    "roots": (np.int32, 0),
    "child_start": (np.int64, 0),
    "child_byte": (np.uint8, 0),
    "child_node": (np.int32, 0),
    "fail": (np.int32, 0),
    "ends": (np.int32, 0),
    "next_end": (np.int32, 0),
}
"""What a kernel is given of a segment, in the order of its table. By attribute, `reversed_of` and `group_of` have its
list of reversed cuts and its automaton, or -1."""

AT = positions(SEGMENT_KINDS)

WORK_KINDS: Kinds = {
    "words": (np.uint64, 0),
    "small": (np.int32, 0),
    "large": (np.int64, 0),
    "found": (np.int64, 0),
    "opened": (np.int32, 0),
}
"""The memory of one thread; see `scratch`."""

WORK = positions(WORK_KINDS)

WORDS_AT_ONCE, USUAL_ROWS = 32, 4
"""Words whose rows are listed before they are emitted, and bits of a word that are listed without a look."""

ROWS_AT_ONCE = 64 * WORDS_AT_ONCE + USUAL_ROWS

# Positions in `facts`: the first row that is checked one by one, whether some subscription has several rows, how many
# subscriptions have died (changed in place; `died` says when each did), and how many end points could be visited in the
# time that it takes to check a wide row: 0 where the rows are too many to be in the cache.
FIRST_SCANNED, HAS_SEVERAL, DEAD, ENDS_PER_CHECK = 0, 1, 2, 3

# Positions in `state`, the head of `large`: the stamp of the current event, how much was written, and the most
# dimensions, and attributes of an index, that there is room for.
STAMP, FOUND, OPEN, WIDTH, ATTRIBUTES = 0, 1, 2, 3, 4
STATE = 5


def scratch(width: int, words: int, listed: int, stamps: int, attributes: int, rows: int) -> KernelArguments:
    """Return the memory that kernels work in, for segments up to some size, as a table.

    `small` holds the event's rank per dimension, its dimensions and ranks as lists, for `match_parts` where in the
    event each attribute is, and a list that first has the words that are not zero, then candidates. `large` holds the
    state; per dimension where its picked bitset starts, the event's bucket, and the place of a number among the cuts;
    and per subscription the stamp of the event that found it last. `found` and `opened` take the results.
    """
    large = np.zeros(STATE + 3 * width + stamps, np.int64)
    large[WIDTH], large[ATTRIBUTES] = width, attributes
    small = np.zeros(3 * width + attributes + listed, np.int32)
    arrays = (np.zeros(words, np.uint64), small, large, np.empty(rows, np.int64), np.empty(rows, np.int32))
    return KernelArguments.of(WORK_KINDS, arrays)


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
    """Emit every set bit. Words that are not zero are listed first, then, some words at a time, the rows of their bits.

    Both without a branch to mispredict, as far as that goes: and then what is looked up by row is on its way for many
    rows at once. `occupied` has room for every word and `ROWS_AT_ONCE` more.
    """
    one = np.uint64(1)
    plain = len(residue) == 0 and len(died) == 0 and len(stamps) == 0
    listed = 0
    for word in range(len(words)):
        occupied[listed] = word
        listed += int(words[word] != np.uint64(0))
    rows = occupied[len(words) :]
    for block in range(0, listed, WORDS_AT_ONCE):
        held = 0
        for k in range(block, min(block + WORDS_AT_ONCE, listed)):
            first_row = occupied[k] << 6
            rest = words[np.uint64(occupied[k])]
            count = count_bits(rest)
            for i in range(USUAL_ROWS):  # what is beyond the last bit is overwritten
                rows[held + i] = first_row + lowest_bit(rest)
                rest &= rest - one
            for i in range(USUAL_ROWS, count):
                rows[held + i] = first_row + lowest_bit(rest)
                rest &= rest - one
            held += count
        if plain:
            first = state[FOUND]
            for k in range(held):
                found[first + k] = number_of[np.uint64(rows[k])]
            state[FOUND] += held
        else:
            for k in range(held):
                _emit(rows[k], subscription_of, number_of, residue, died, sequence, stamps, state, found, opened)


@inlined
def _point_at_missing(table: Array, work: Array) -> None:
    """Point every dimension of a segment at the bitset of events that lack it."""
    layout, large = int64_columns(table, AT.layout, 4), int64s(work, WORK.large)
    for dimension in range(len(layout)):
        large[STATE + dimension] = layout[dimension, BITS_START]


@inlined
def _search_segment(
    table: Array, dimensions: Array, ranks: Array, sequence: int, work: Array, found: Array, opened: Array
) -> None:
    """Search one segment for one event, from where `_point_at_missing` left the memory; leave that as it was."""
    words, small, large = uint64s(work, WORK.words), int32s(work, WORK.small), int64s(work, WORK.large)
    width = large[WIDTH]
    state, stamps = large[:STATE], large[STATE + 3 * width :]
    values, listed = small[:width], small[3 * width + large[ATTRIBUTES] :]
    picked, located = large[STATE : STATE + width], large[STATE + width : STATE + 2 * width]
    row_start, predicates = int64s(table, AT.row_start), int32_columns(table, AT.predicates, 3)
    gap_start, gap_ranges = int64s(table, AT.gap_start), int32_columns(table, AT.gap_ranges, 2)
    subscription_of, number_of = int32s(table, AT.subscription_of), int64s(table, AT.number_of)
    residue, chunks, facts = uint8s(table, AT.residue), int64_columns(table, AT.chunks, 2), int64s(table, AT.facts)
    entries = int32_columns(table, AT.entries, 4)
    died = int64s(table, AT.died)[: len(int64s(table, AT.died)) if facts[DEAD] else 0]
    own_stamps = stamps[: len(stamps) if facts[HAS_SEVERAL] else 0]
    has_gaps = len(gap_start) > 0
    state[STAMP] += 1
    for i in range(len(dimensions)):
        values[dimensions[i]] = ranks[i]
    if len(chunks) > 1:
        layout, ends_start = int64_columns(table, AT.layout, 4), int64_columns(table, AT.ends_start, 3)
        low_ends, high_ends = int32_columns(table, AT.low_ends, 2), int32_columns(table, AT.high_ends, 2)
        chunk_words = chunks[len(chunks) - 1, 1]
        own_words = words[: (len(chunks) - 1) * chunk_words]
        bucket_of, gaps = uint16s(table, AT.bucket_of), int32_columns(table, AT.gaps, 3)
        per_check = facts[ENDS_PER_CHECK]
        ends = pick_rows(
            dimensions, ranks, layout, bucket_of, ends_start, low_ends, high_ends, picked, located, per_check == 0
        )
        parts, bits = int64_columns(table, AT.parts, 2), uint64s(table, AT.bits)
        and_chunks(values, picked, chunks, parts, bits, own_words, chunk_words)
        if per_check and count_rows(own_words) * per_check < ends:
            check_rows(values, row_start, predicates, gap_start, gap_ranges, own_words, listed)
        else:
            correct(located, ranks, ends_start, low_ends, high_ends, gaps, own_words)
        restore_rows(dimensions, layout, picked)
        _emit_words(
            subscription_of, number_of, residue, died, sequence, own_stamps, state, own_words, listed, found, opened
        )
    if len(entries):
        access, cell_of = int64_columns(table, AT.access, 2), int32s(table, AT.cell_of)
        cell_start = int64s(table, AT.cell_start)
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
    state = int64s(work, WORK.large)
    rows = table[2 * AT.row_start + 1] - 1
    has_residues = table[2 * AT.residue + 1] > 0
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


@inlined
def _rank_texts(
    table: Array,
    attributes: Array,
    text_start: Array,
    text_end: Array,
    data: Array,
    turned: Array,
    values: Array,
    dimensions: Array,
    ranks: Array,
    count: int,
) -> int:
    """Append the ranks of an event's texts in one segment; return how many ranks there are now.

    `attributes` are those of the texts, `turned` has every text of `data` reversed. `values` is zero; substrings that
    were found are marked there, so that each is listed once.
    """
    dimension_of, number_start = int32s(table, AT.dimension_of), int64s(table, AT.number_start)
    start, keys = int64s(table, AT.string_start), uint64s(table, AT.string_keys)
    item_at, item_data = int64s(table, AT.string_at), uint8s(table, AT.string_data)
    reversed_of, group_of = int32s(table, AT.reversed_of), int32s(table, AT.group_of)
    reversed_start = int64s(table, AT.reversed_start)
    first_substring = len(group_of) + len(reversed_start) - 1
    for i in range(len(attributes)):
        at = dimension_of[attributes[i]] if attributes[i] < len(dimension_of) else -1
        if at < 0:
            continue
        begin, end = text_start[i], text_end[i]
        place = place_of_text(keys, item_at, item_data, start[at], start[at + 1], data, begin, end)
        dimensions[count] = at
        ranks[count] = number_start[at + 1] - number_start[at] + 2 + place - start[at]
        count += 1
        turn = reversed_of[at]
        if turn >= 0:
            first, last = reversed_start[turn], reversed_start[turn + 1]
            reversed_keys = uint64s(table, AT.reversed_keys)
            cut_at, cut_data = int64s(table, AT.reversed_at), uint8s(table, AT.reversed_data)
            dimensions[count] = len(group_of) + turn
            ranks[count] = 1 + place_of_text(reversed_keys, cut_at, cut_data, first, last, turned, begin, end) - first
            count += 1
        root = int(group_of[at])
        if root >= 0:
            roots, child_start = int32s(table, AT.roots), int64s(table, AT.child_start)
            child_byte, child_node = uint8s(table, AT.child_byte), int32s(table, AT.child_node)
            fail, ends, next_end = int32s(table, AT.fail), int32s(table, AT.ends), int32s(table, AT.next_end)
            node = root
            for k in range(begin, end):
                node = follow(root, node, data[k], roots, child_start, child_byte, child_node, fail)
                reached = node if ends[node] >= 0 else int(next_end[node])
                while ends[reached] >= 0:
                    dimension = first_substring + ends[reached]
                    if values[dimension] == 0:
                        values[dimension] = 1
                        dimensions[count] = dimension
                        ranks[count] = 1
                        count += 1
                    reached = int(next_end[reached])
    return count


@inlined
def _rank_extra(table: Array, attributes: Array, extra: Array, dimensions: Array, ranks: Array, count: int) -> int:
    """Append the ranks of an event's bools and times in one segment; return how many ranks there are now."""
    dimension_of, number_start = int32s(table, AT.dimension_of), int64s(table, AT.number_start)
    string_start = int64s(table, AT.string_start)
    time_start, times = int64s(table, AT.time_start), int64s(table, AT.times)
    for i in range(len(attributes)):
        at = dimension_of[attributes[i]] if attributes[i] < len(dimension_of) else -1
        if at < 0:
            continue
        first_bool = number_start[at + 1] - number_start[at] + string_start[at + 1] - string_start[at] + 3
        dimensions[count] = at
        if extra[i, 0] == BOOL:
            ranks[count] = first_bool + extra[i, 1]
        else:
            low, high = time_start[at], time_start[at + 1]
            while low < high:
                middle = (low + high) >> 1
                if times[middle] <= extra[i, 1]:
                    low = middle + 1
                else:
                    high = middle
            ranks[count] = first_bool + 2 + low - time_start[at]
        count += 1
    return count


@compiled
def match_parts(
    tables: Array,
    deltas: Array,
    delta_rows: Array,
    newest_rows: int,
    attributes: Array,
    keys: Array,
    rests: Array,
    data: Array,
    extra: Array,
    sequence: int,
    work: Array,
    open_offsets: Array,
) -> int:
    """Search several segments and deltas for one event; return how many subscriptions were found.

    All deltas but the newest one are full and have `delta_rows`.

    `attributes` has those of the event by their numbers in the index: first those with numbers, which are (keys,
    rests), see `cuts`; then those with texts, which are in `data`, each followed by `END_OF_TEXT`; then those with
    bools and times, which are `extra`. Without `rests` all are 0, and -1 is returned when a key may be no such number.
    Results are in `found` of the work table, where there must be room for every row; rows with residues of segment p
    are open_offsets[p]..open_offsets[p+1] of `opened`.
    """
    if not len(rests) and not are_common(keys):
        return -1
    small, large = int32s(work, WORK.small), int64s(work, WORK.large)
    found, opened = int64s(work, WORK.found), int32s(work, WORK.opened)
    width = large[WIDTH]
    places = large[STATE + 2 * width : STATE + 3 * width]
    text_count = len(attributes) - len(keys) - len(extra)
    of_texts = attributes[len(keys) : len(keys) + text_count]
    text_start, text_end = np.zeros(text_count, np.int64), np.zeros(text_count, np.int64)
    split_texts(data, text_start, text_end)
    turned = data[:0]
    large[FOUND], large[OPEN] = 0, 0
    place_of = small[3 * width : 3 * width + large[ATTRIBUTES]]
    for at in range(len(deltas)):
        rows = delta_rows[at] if at < len(delta_rows) else newest_rows
        if rows:
            large[FOUND] = scan_delta(
                deltas[at],
                rows,
                attributes,
                keys,
                rests,
                text_start,
                text_end,
                data,
                extra,
                sequence,
                place_of,
                found,
                large[FOUND],
            )
    for part in range(len(tables)):
        table = tables[part]
        dimension_of = int32s(table, AT.dimension_of)
        dimensions, ranks = small[width : 2 * width], small[2 * width : 3 * width]
        count = 0
        for i in range(len(keys)):
            if attributes[i] < len(dimension_of) and dimension_of[attributes[i]] >= 0:
                dimensions[count] = dimension_of[attributes[i]]
                ranks[count] = i
                count += 1
        start, cuts = int64s(table, AT.number_start), float64s(table, AT.number_keys)
        cut_rests = int16s(table, AT.number_rests)
        rank_numbers(start, cuts, cut_rests, dimensions[:count], keys, rests, ranks, places)
        if text_count:
            if len(int64s(table, AT.reversed_start)) > 1 and not len(turned):
                turned = reversed_items(text_start, text_end, data)
            count = _rank_texts(
                table, of_texts, text_start, text_end, data, turned, small[:width], dimensions, ranks, count
            )
        if len(extra):
            count = _rank_extra(table, attributes[len(keys) + text_count :], extra, dimensions, ranks, count)
        _point_at_missing(table, work)
        _search_segment(table, dimensions[:count], ranks[:count], sequence, work, found, opened)
        open_offsets[part + 1] = large[OPEN]
    return int(large[FOUND])
