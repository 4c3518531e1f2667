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
from rankcast.compiling.arguments import KernelArguments, Kinds, readers
from rankcast.compiling.intrinsics import count_bits, lowest_bit
from rankcast.matching.encoding.cuts import are_common, place_of_text, rank_numbers, reversed_items, split_texts
from rankcast.matching.encoding.texts import follow
from rankcast.matching.segments.bitmap_index import (
    BITS_START,
    and_chunks,
    check_rows,
    correct,
    count_rows,
    pick_rows,
    restore_rows,
)
from rankcast.matching.segments.cell_index import gather, row_holds
from rankcast.matching.segments.delta import BOOL, TIME, scan_delta
from rankcast.matching.segments.tables import AT, DEAD, ENDS_PER_CHECK, FIRST_SCANNED, HAS_SEVERAL

WORK_KINDS: Kinds = {
    "words": (np.uint64, 0),
    "small": (np.int32, 0),
    "large": (np.int64, 0),
    "found": (np.int64, 0),
    "opened": (np.int32, 0),
}
"""The memory of one thread; see `scratch`."""

WORK = readers(WORK_KINDS)

WORDS_AT_ONCE, USUAL_ROWS = 32, 4
"""Words whose rows are listed before they are emitted, and bits of a word that are listed without a look."""

ROWS_AT_ONCE = 64 * WORDS_AT_ONCE + USUAL_ROWS

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
    held: dict[str, Array] = {"words": np.zeros(words, np.uint64), "small": small, "large": large}
    return KernelArguments.of(
        WORK_KINDS, {**held, "found": np.empty(rows, np.int64), "opened": np.empty(rows, np.int32)}
    )


@inlined
def _emit(table: Array, rows: Array, sequence: int, work: Array, found: Array, opened: Array) -> None:
    """Write the subscriptions of rows that were found, or the rows that have residues."""
    number_of, residue, facts, large = AT.number_of(table), AT.has_residue(table), AT.facts(table), WORK.large(work)
    if not (len(residue) or facts[DEAD] or facts[HAS_SEVERAL]):
        first = large[FOUND]
        for k in range(len(rows)):
            found[first + k] = number_of[np.uint64(rows[k])]
        large[FOUND] += len(rows)
        return
    subscription_of, died = AT.rows_subscription(table), AT.died(table)
    stamps = large[STATE + 3 * large[WIDTH] :]
    has_dead, has_several = facts[DEAD] > 0, facts[HAS_SEVERAL] > 0
    for k in range(len(rows)):
        row = rows[k]
        subscription = subscription_of[row]
        if has_dead and died[subscription] <= sequence:
            continue
        if len(residue) and residue[row]:
            opened[large[OPEN]] = row
            large[OPEN] += 1
            continue
        if has_several:
            if stamps[subscription] == large[STAMP]:
                continue
            stamps[subscription] = large[STAMP]
        found[large[FOUND]] = number_of[row]
        large[FOUND] += 1


@inlined
def _emit_words(
    table: Array, words: Array, occupied: Array, sequence: int, work: Array, found: Array, opened: Array
) -> None:
    """Emit every set bit. Words that are not zero are listed first, then, some words at a time, the rows of their bits.

    Both without a branch to mispredict, as far as that goes: and then what is looked up by row is on its way for many
    rows at once. `occupied` has room for every word and `ROWS_AT_ONCE` more.
    """
    one = np.uint64(1)
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
        _emit(table, rows[:held], sequence, work, found, opened)


@inlined
def _point_at_missing(table: Array, work: Array) -> None:
    """Point every dimension of a segment at the bitset of events that lack it, if there are any bitsets."""
    layout, large = AT.wide_layout(table), WORK.large(work)
    for dimension in range(len(layout) if len(AT.wide_chunks(table)) > 1 else 0):
        large[STATE + dimension] = layout[dimension, BITS_START]


@inlined
def _search_segment(
    table: Array, dimensions: Array, ranks: Array, sequence: int, work: Array, found: Array, opened: Array
) -> None:
    """Search one segment for one event, from where `_point_at_missing` left the memory; leave that as it was."""
    words, small, large = WORK.words(work), WORK.small(work), WORK.large(work)
    width = large[WIDTH]
    values, listed = small[:width], small[3 * width + large[ATTRIBUTES] :]
    picked, located = large[STATE : STATE + width], large[STATE + width : STATE + 2 * width]
    chunks, facts = AT.wide_chunks(table), AT.facts(table)
    large[STAMP] += 1
    for i in range(len(dimensions)):
        values[dimensions[i]] = ranks[i]
    if len(chunks) > 1:
        own_words = words[: (len(chunks) - 1) * chunks[len(chunks) - 1, 1]]
        per_check = facts[ENDS_PER_CHECK]
        ends = pick_rows(table, dimensions, ranks, picked, located, per_check == 0)
        and_chunks(table, values, picked, own_words)
        if per_check and count_rows(own_words) * per_check < ends:
            check_rows(table, values, own_words, listed)
        else:
            correct(table, located, ranks, own_words)
        restore_rows(table, dimensions, picked)
        _emit_words(table, own_words, listed, sequence, work, found, opened)
    row_start, predicates = AT.rows_start(table), AT.rows_predicates(table)
    gap_start, gaps = AT.rows_gap_start(table), AT.rows_gaps(table)
    if len(AT.selective_entries(table)):
        held = 0
        for k in range(gather(table, dimensions, ranks, values, located, listed)):
            row = listed[k]
            if row_holds(row, values, row_start, predicates, gap_start, gaps):
                listed[held] = row
                held += 1
        _emit(table, listed[:held], sequence, work, found, opened)
    rows = len(row_start) - 1
    for first in range(facts[FIRST_SCANNED], rows, ROWS_AT_ONCE):
        held = 0
        for row in range(first, min(first + ROWS_AT_ONCE, rows)):
            if row_holds(row, values, row_start, predicates, gap_start, gaps):
                listed[held] = row
                held += 1
        _emit(table, listed[:held], sequence, work, found, opened)
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
    state = WORK.large(work)
    rows, has_residues = len(AT.rows_start(table)) - 1, len(AT.has_residue(table)) > 0
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
    dimension_of, number_start = AT.dimension_of(table), AT.dimensions_number_start(table)
    start, keys = AT.dimensions_string_start(table), AT.string_keys(table)
    item_at, item_data = AT.dimensions_strings_start(table), AT.dimensions_strings_data(table)
    reversed_of, group_of = AT.reversed_of(table), AT.group_of(table)
    reversed_start = AT.dimensions_reversed_start(table)
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
            reversed_keys = AT.reversed_keys(table)
            cut_at, cut_data = AT.dimensions_reversed_cuts_start(table), AT.dimensions_reversed_cuts_data(table)
            dimensions[count] = len(group_of) + turn
            ranks[count] = 1 + place_of_text(reversed_keys, cut_at, cut_data, first, last, turned, begin, end) - first
            count += 1
        root = int(group_of[at])
        if root >= 0:
            roots, child_start = AT.automaton_roots(table), AT.automaton_child_start(table)
            child_byte, child_node = AT.automaton_child_byte(table), AT.automaton_child_node(table)
            fail, ends, next_end = AT.automaton_fail(table), AT.automaton_ends(table), AT.automaton_next_end(table)
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
    """Append the ranks of an event's bools, times and lists in one segment; return how many ranks there are now."""
    dimension_of, number_start = AT.dimension_of(table), AT.dimensions_number_start(table)
    string_start = AT.dimensions_string_start(table)
    time_start, times = AT.dimensions_time_start(table), AT.dimensions_times(table)
    for i in range(len(attributes)):
        at = dimension_of[attributes[i]] if attributes[i] < len(dimension_of) else -1
        if at < 0:
            continue
        first_bool = number_start[at + 1] - number_start[at] + string_start[at + 1] - string_start[at] + 3
        dimensions[count] = at
        if extra[i, 0] == BOOL:
            ranks[count] = first_bool + extra[i, 1]
        elif extra[i, 0] != TIME:
            ranks[count] = first_bool + 3 + time_start[at + 1] - time_start[at] + extra[i, 1]
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


@inlined
def _rank_elements(table: Array, elements: Array, values: Array, dimensions: Array, ranks: Array, count: int) -> int:
    """Append the conditions that an event's elements satisfy in one segment; return how many ranks there are now.

    `values` is zero; what was found is marked there, so that each is listed once.
    """
    start, conditions = AT.element_start(table), AT.element_dimensions(table)
    for i in range(len(elements)):
        if elements[i] + 1 < len(start):
            for k in range(start[elements[i]], start[elements[i] + 1]):
                dimension = conditions[k]
                if values[dimension] == 0:
                    values[dimension] = 1
                    dimensions[count] = dimension
                    ranks[count] = 1
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
    elements: Array,
    sequence: int,
    work: Array,
    open_offsets: Array,
) -> int:
    """Search several segments and deltas for one event; return how many subscriptions were found.

    All deltas but the newest one are full and have `delta_rows`.

    `attributes` has those of the event by their numbers in the index: first those with numbers, which are (keys,
    rests), see `cuts`; then those with texts, which are in `data`, each followed by `END_OF_TEXT`; then those with
    bools, times and lists, which are `extra`. `elements` has what the event's lists hold, by numbers in the index, and
    its scalars where somebody asks them as lists. Without `rests` all are 0, and -1 is returned when a key may be no
    such number.
    Results are in `found` of the work table, where there must be room for every row; rows with residues of segment p
    are open_offsets[p]..open_offsets[p+1] of `opened`.
    """
    if not len(rests) and not are_common(keys):
        return -1
    small, large = WORK.small(work), WORK.large(work)
    found, opened = WORK.found(work), WORK.opened(work)
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
        dimension_of = AT.dimension_of(table)
        dimensions, ranks = small[width : 2 * width], small[2 * width : 3 * width]
        count = 0
        for i in range(len(keys)):
            if attributes[i] < len(dimension_of) and dimension_of[attributes[i]] >= 0:
                dimensions[count] = dimension_of[attributes[i]]
                ranks[count] = i
                count += 1
        start, cuts = AT.dimensions_number_start(table), AT.dimensions_number_keys(table)
        cut_rests = AT.dimensions_number_rests(table)
        rank_numbers(start, cuts, cut_rests, dimensions[:count], keys, rests, ranks, places)
        if text_count:
            if len(AT.dimensions_reversed_start(table)) > 1 and not len(turned):
                turned = reversed_items(text_start, text_end, data)
            count = _rank_texts(
                table, of_texts, text_start, text_end, data, turned, small[:width], dimensions, ranks, count
            )
        if len(extra):
            count = _rank_extra(table, attributes[len(keys) + text_count :], extra, dimensions, ranks, count)
        if len(elements):
            count = _rank_elements(table, elements, small[:width], dimensions, ranks, count)
        _point_at_missing(table, work)
        _search_segment(table, dimensions[:count], ranks[:count], sequence, work, found, opened)
        open_offsets[part + 1] = large[OPEN]
    return int(large[FOUND])
