"""The search of one segment: both kernels on every event, and their rows turned into subscriptions.

Rows that neither kernel finds are checked one by one: all of a very small segment, and those that match every event.

An event is a list of (dimension, rank) with ranks above 0; dimensions that it lacks have rank 0. A row found is either
final, and the number of its subscription is written once per event even when several of its rows match; or it has a
residue (string patterns that ranks cannot express), and the row itself is written for the caller to verify.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from rankcast.matching.compiled import compiled, holding, inlined, lowest_bit
from rankcast.matching.kernels_selective import gather, row_holds
from rankcast.matching.kernels_wide import and_chunks, correct, pick_rows, restore_rows

Array: TypeAlias = np.ndarray[Any, Any]

# Positions in `state`, the counters of a search: the stamp of the current event, and how much was written.
STAMP, FOUND, OPEN = 0, 1, 2
COUNTERS = 3


def scratch(picked: Array, words: int, candidates: int, stamps: int) -> tuple[Array, Array, Array]:
    """Return the memory that `search` works in: (words, small, large).

    `small` holds the event's rank per dimension, the list of words that are not zero, and candidates; `large` holds
    per dimension where its picked bitset starts and the event's bucket, then the counters, and per subscription the
    stamp of the event that found it last.
    """
    width = len(picked)
    large = np.zeros(2 * width + COUNTERS + stamps, np.int64)
    large[:width] = picked
    return np.zeros(words, np.uint64), np.zeros(width + words + 1 + candidates, np.int32), large


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


@compiled
def search(
    event: int,
    event_start: Array,
    event_dimension: Array,
    event_rank: Array,
    row_start: Array,
    predicates: Array,
    gap_start: Array,
    gap_ranges: Array,
    subscription_of: Array,
    number_of: Array,
    residue: Array,
    layout: Array,
    bucket_of: Array,
    bits: Array,
    chunks: Array,
    parts: Array,
    ends_start: Array,
    low_ends: Array,
    high_ends: Array,
    gaps: Array,
    access: Array,
    cell_of: Array,
    cell_start: Array,
    entries: Array,
    first_scanned: int,
    words: Array,
    small: Array,
    large: Array,
    died: Array,
    sequence: int,
    offsets: Array,
    found: Array,
    open_offsets: Array,
    opened: Array,
) -> int:
    """Search the events from `event` on; return the first one that was not searched because space ran out.

    The subscription numbers of event i are found[offsets[i]:offsets[i+1]], and its rows with residues are
    opened[open_offsets[i]:open_offsets[i+1]]. An event is only begun when there is room for every row.

    `words`, `small` and `large` are scratch, few because each array costs a call some 0.1 microseconds; see `scratch`.
    """
    width = len(layout)
    values = small[:width]
    occupied = small[width : width + len(words) + 1]
    candidates = small[width + len(words) + 1 :]
    picked = large[:width]
    located = large[width : 2 * width]
    state = large[2 * width : 2 * width + COUNTERS]
    stamps = large[2 * width + COUNTERS :]
    rows = len(subscription_of)
    chunk_count = len(chunks) - 1
    has_gaps = len(gap_start) > 0
    state[FOUND] = offsets[event]
    state[OPEN] = open_offsets[event]
    while event < len(event_start) - 1:
        if len(found) - state[FOUND] < rows or (len(residue) and len(opened) - state[OPEN] < rows):
            break
        dimensions = event_dimension[event_start[event] : event_start[event + 1]]
        ranks = event_rank[event_start[event] : event_start[event + 1]]
        state[STAMP] += 1
        for i in range(len(dimensions)):
            values[dimensions[i]] = ranks[i]
        if chunk_count:
            pick_rows(dimensions, ranks, layout, bucket_of, ends_start, low_ends, high_ends, picked, located)
            and_chunks(values, picked, chunks, parts, bits, words, chunks[chunk_count, 1])
            correct(located, ranks, ends_start, low_ends, high_ends, gaps, words)
            restore_rows(dimensions, layout, picked)
            _emit_words(
                subscription_of, number_of, residue, died, sequence, stamps, state, words, occupied, found, opened
            )
        if len(entries):
            count = gather(dimensions, ranks, values, access, cell_of, cell_start, entries, candidates)
            for k in range(count):
                row = candidates[k]
                if row_holds(row, values, row_start, predicates, gap_start, gap_ranges, has_gaps):
                    _emit(row, subscription_of, number_of, residue, died, sequence, stamps, state, found, opened)
        for row in range(first_scanned, rows):
            if row_holds(row, values, row_start, predicates, gap_start, gap_ranges, has_gaps):
                _emit(row, subscription_of, number_of, residue, died, sequence, stamps, state, found, opened)
        for i in range(len(dimensions)):
            values[dimensions[i]] = 0
        event += 1
        offsets[event] = state[FOUND]
        open_offsets[event] = state[OPEN]
    return event


@holding
def search_holding(*arguments: Any) -> int:
    """Search like `search`, but keep the GIL: a thread that gives it up may wait milliseconds to get it back."""
    return search(*arguments)
