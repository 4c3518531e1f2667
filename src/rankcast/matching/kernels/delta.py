"""The delta's kernel: the newest subscriptions, looked at one by one, by the values themselves instead of ranks.

A row is a conjunction of predicates on distinct attributes. A predicate says whether its attribute may be missing,
false or true, and has pieces: intervals of numbers, times or strings, of which the value must be in one; and patterns,
all of which a string must satisfy. Rows of one subscription are neighbours, so it is written once when several hold.

Cost: rows times the predicates looked at until one fails, some 3 nanoseconds each for numbers.
"""

from __future__ import annotations

import numpy as np

from rankcast.arrays import Array
from rankcast.compiling import inlined
from rankcast.compiling.arguments import Kinds, float64s, int16s, int32s, int64s, positions, uint8s
from rankcast.matching.encoding.cuts import at_most, split_integer

DELTA_KINDS: Kinds = {
    "row_start": (np.int64, 0),
    "owner": (np.int32, 0),
    "attribute": (np.int32, 0),
    "flags": (np.uint8, 0),
    "piece_start": (np.int64, 0),
    "family": (np.uint8, 0),
    "low_key": (np.float64, 0),
    "low_rest": (np.int16, 0),
    "high_key": (np.float64, 0),
    "high_rest": (np.int16, 0),
    "text_start": (np.int64, 0),
    "text_data": (np.uint8, 0),
    "numbers": (np.int64, 0),
    "died": (np.int64, 0),
}
"""What the kernel is given of a delta, in the order of its table. Where a family is of texts, low and high keys number
two of them; a negative key is no end."""

AT = positions(DELTA_KINDS)

ACCEPTS_MISSING, ACCEPTS_FALSE = 1, 2
"""Flags of a predicate; that for true is twice that for false."""

OF_NUMBERS, OF_TIMES, OF_TEXTS, HAS_SUFFIX, HAS_NO_SUFFIX, CONTAINS, CONTAINS_NOT = range(7)
"""Families of pieces: intervals, and patterns with their literal as low key, the unwanted ones even."""

BOOL, TIME = 0, 1
"""Kinds of what an event has beside numbers and texts."""


@inlined
def _is_between(key: float, rest: int, low_key: float, low_rest: int, high_key: float, high_rest: int) -> bool:
    """Whether a split number is between two cuts: the low one is at or below it, the high one is not."""
    if not low_key <= key <= high_key:
        return False
    return not ((key == low_key and low_rest > rest) or (key == high_key and high_rest <= rest))


@inlined
def _occurs(literal: Array, first: int, last: int, data: Array, start: int, end: int) -> bool:
    """Whether literal[first:last] occurs in data[start:end]."""
    for at in range(start, end - (last - first) + 1):
        k = 0
        while first + k < last and literal[first + k] == data[at + k]:
            k += 1
        if first + k == last:
            return True
    return False


@inlined
def _accepts_text(
    first: int,
    last: int,
    family: Array,
    low: Array,
    high: Array,
    text_start: Array,
    text_data: Array,
    data: Array,
    start: int,
    end: int,
) -> bool:
    """Whether pieces first..last (excluded) accept the text data[start:end]."""
    inside = False
    for piece in range(first, last):
        kind = family[piece]
        if kind < OF_TEXTS:
            continue
        at = int(low[piece])
        if kind == OF_TEXTS:
            if not inside and (at < 0 or at_most(text_data, text_start[at], text_start[at + 1], data, start, end)):
                at = int(high[piece])
                inside = at < 0 or not at_most(text_data, text_start[at], text_start[at + 1], data, start, end)
        else:
            begin, stop = text_start[at], text_start[at + 1]
            searched = max(start, end - (stop - begin)) if kind < CONTAINS else start
            if _occurs(text_data, begin, stop, data, searched, end) == (kind & 1 == CONTAINS_NOT & 1):
                return False
    return inside


@inlined
def _accepts_number(
    first: int,
    last: int,
    wanted: int,
    key: float,
    rest: int,
    family: Array,
    low_key: Array,
    low_rest: Array,
    high_key: Array,
    high_rest: Array,
) -> bool:
    """Whether a piece first..last (excluded) of a family accepts a split number."""
    inside = False
    for piece in range(first, last):
        inside |= family[piece] == wanted and _is_between(
            key, rest, low_key[piece], low_rest[piece], high_key[piece], high_rest[piece]
        )
    return inside


@inlined
def _mark(attributes: Array, place_of: Array, present: int) -> None:
    """Write by attribute its place in the event, from 1 on, or 0 again; newer attributes may have no room, or need."""
    for i in range(len(attributes)):
        if attributes[i] < len(place_of):
            place_of[attributes[i]] = present * (i + 1)


@inlined
def scan_delta(
    table: Array,
    rows: int,
    attributes: Array,
    keys: Array,
    rests: Array,
    starts: Array,
    ends: Array,
    data: Array,
    extra: Array,
    sequence: int,
    place_of: Array,
    found: Array,
    count: int,
) -> int:
    """Write the subscriptions of a delta's first rows that an event satisfies, from `count` on; return the new count.

    The event is as in `match_parts`. `place_of` is scratch with room for every attribute of the rows: zero, and left
    so.
    """
    row_start, owner, attribute = int64s(table, AT.row_start), int32s(table, AT.owner), int32s(table, AT.attribute)
    flags, piece_start, family = uint8s(table, AT.flags), int64s(table, AT.piece_start), uint8s(table, AT.family)
    low_key, low_rest = float64s(table, AT.low_key), int16s(table, AT.low_rest)
    high_key, high_rest = float64s(table, AT.high_key), int16s(table, AT.high_rest)
    text_start, text_data = int64s(table, AT.text_start), uint8s(table, AT.text_data)
    numbers, died = int64s(table, AT.numbers), int64s(table, AT.died)
    first_text, first_extra = len(keys), len(keys) + len(starts)
    _mark(attributes, place_of, 1)
    written = -1
    for row in range(rows):
        holds = True
        for k in range(row_start[row], row_start[row + 1]):
            place = place_of[attribute[k]] - 1
            first, last = piece_start[k], piece_start[k + 1]
            if place < 0:
                holds = (flags[k] & ACCEPTS_MISSING) > 0
            elif place < first_text:
                key, rest = keys[place], int(rests[place]) if len(rests) else 0
                holds = _accepts_number(
                    first, last, OF_NUMBERS, key, rest, family, low_key, low_rest, high_key, high_rest
                )
            elif place < first_extra:
                start, end = starts[place - first_text], ends[place - first_text]
                holds = _accepts_text(first, last, family, low_key, high_key, text_start, text_data, data, start, end)
            elif extra[place - first_extra, 0] == TIME:
                key, rest = split_integer(extra[place - first_extra, 1])
                holds = _accepts_number(
                    first, last, OF_TIMES, key, rest, family, low_key, low_rest, high_key, high_rest
                )
            else:
                holds = (flags[k] & (ACCEPTS_FALSE << extra[place - first_extra, 1])) > 0
            if not holds:
                break
        if holds and owner[row] != written and died[owner[row]] > sequence:
            written = owner[row]
            found[count] = numbers[written]
            count += 1
    _mark(attributes, place_of, 0)
    return count
