"""Where a value lies among sorted cuts: exactly, for numbers, times and strings.

The position of a value is the number of cuts at or below it; a value set is a list of ranges of positions.

Numbers are int64 and float64 at once. Each is split into the largest float64 that is not above it and what is missing
from that (0 for floats, at most 1023 for integers), and compared first by one, then by the other: exact without ever
rounding. A cut also says whether it lies above its number, so it is (key, 2 * missing + above), and a number is
(key, 2 * missing). Times are microseconds. Strings are their UTF-8 bytes, whose order is that of code points.
"""

from __future__ import annotations

import numpy as np

from rankcast.arrays import Array
from rankcast.compiling import compiled, inlined

EXACT_INTEGERS = 2**53
"""Integers up to here are float64 values themselves."""


def split_number(value: int | float) -> tuple[float, int]:
    """Return the largest float64 that is not above a number, and twice what is missing from it.

    >>> split_number(2**53 + 1) == (2.0**53, 2)
    True
    """
    if isinstance(value, float):
        return value + 0.0, 0  # -0.0 becomes 0.0
    key = float(value)
    if int(key) > value:
        key = float(np.nextafter(key, -np.inf))
    return key, 2 * (value - int(key))


@inlined
def split_integer(value: int) -> tuple[float, int]:
    """Return `split_number` of an int64 value."""
    key = np.float64(value)
    rest = 0
    if value > EXACT_INTEGERS or value < -EXACT_INTEGERS:
        # float64 rounds the largest integers up to 2**63, which is no int64 to convert back to.
        if key >= 9223372036854775808.0 or int(key) > value:
            key = np.nextafter(key, -np.inf)
        rest = 2 * (value - int(key))
    return key, rest


@compiled
def split_integers(values: Array) -> tuple[Array, Array]:
    """Return `split_number` of many int64 values."""
    keys = np.empty(len(values), np.float64)
    rests = np.empty(len(values), np.int16)
    for i in range(len(values)):
        keys[i], rests[i] = split_integer(values[i])
    return keys, rests


LANES = 16
"""Numbers searched for at the same time. Each step of a search waits for memory, and those of several overlap."""


@inlined
def _largest_step(longest: int) -> int:
    """Return the largest power of two that is not above a length, or 0."""
    step = 1
    while step <= longest:
        step <<= 1
    return step >> 1


@inlined
def _past_equals(keys: Array, rests: Array, place: int, last: int, key: float, rest: int) -> int:
    """Return the first place from `place` on whose cut is above a split number; all cuts before `place` are below."""
    while place < last and keys[place] == key and rests[place] <= rest:
        place += 1
    return place


@inlined
def _place_block(
    cuts: Array, cut_rests: Array, first: int, last: int, keys: Array, rests: Array, places: Array
) -> None:
    """Write the places among the cuts first..last (excluded) of at most LANES split numbers."""
    for lane in range(len(keys)):
        places[lane] = first
    left = last - first
    while left > 0:
        # All lanes have as many cuts left, so that none has to look where its own end.
        step = (left + 1) >> 1
        for lane in range(len(keys)):
            places[lane] += step * int(cuts[np.uint64(places[lane] + step - 1)] < keys[lane])
        left -= step
    for lane in range(len(keys)):
        places[lane] = _past_equals(cuts, cut_rests, places[lane], last, keys[lane], rests[lane])


@compiled
def positions_of_numbers(cuts: Array, cut_rests: Array, first: int, last: int, keys: Array, rests: Array) -> Array:
    """Return the positions of split numbers among the cuts first..last (excluded)."""
    positions = np.empty(len(keys), np.int32)
    places = np.empty(LANES, np.int64)
    for block in range(0, len(keys), LANES):
        own, own_rests = keys[block : block + LANES], rests[block : block + LANES]
        _place_block(cuts, cut_rests, first, last, own, own_rests, places)
        for lane in range(len(own)):
            positions[block + lane] = places[lane] - first
    return positions


@compiled
def rank_integers(cuts: Array, cut_rests: Array, first: int, last: int, values: Array, ranks: Array) -> bool:
    """Write the ranks of a column of int64 values (position + 1) to another column; always True."""
    places = np.empty(LANES, np.int64)
    keys, rests = np.empty(LANES, np.float64), np.empty(LANES, np.int16)
    for block in range(0, len(values), LANES):
        count = min(LANES, len(values) - block)
        for lane in range(count):
            keys[lane], rests[lane] = split_integer(values[block + lane])
        _place_block(cuts, cut_rests, first, last, keys[:count], rests, places)
        for lane in range(count):
            ranks[block + lane] = 1 + places[lane] - first
    return True


@compiled
def rank_floats(cuts: Array, cut_rests: Array, first: int, last: int, values: Array, ranks: Array) -> bool:
    """Write the ranks of a column of float64 values (position + 1) to another column; False when one is NaN."""
    places = np.empty(LANES, np.int64)
    rests = np.zeros(LANES, np.int16)
    for block in range(0, len(values), LANES):
        own = values[block : block + LANES]
        _place_block(cuts, cut_rests, first, last, own, rests, places)
        for lane in range(len(own)):
            if np.isnan(own[lane]):
                return False
            ranks[block + lane] = 1 + places[lane] - first
    return True


@inlined
def are_common(values: Array) -> bool:
    """Whether no value is NaN, or so large that it may stand for an integer that float64 does not have."""
    common = True
    for i in range(len(values)):
        common &= -EXACT_INTEGERS < values[i] < EXACT_INTEGERS
    return common


@inlined
def rank_numbers(
    start: Array, cuts: Array, cut_rests: Array, tables: Array, keys: Array, rests: Array, ranks: Array, places: Array
) -> None:
    """Rank some of one event's numbers, each among the cuts of its own table (rank 0 is "missing").

    `ranks` has the place of each table's number in the event, and gets its rank; `rests` may be empty: all 0.
    The searches go on side by side, step by step; see `LANES`.
    """
    longest = 0
    for i in range(len(tables)):
        places[i] = start[tables[i]]
        longest = max(longest, start[tables[i] + 1] - places[i])
    step = _largest_step(longest)
    while step:
        for i in range(len(tables)):
            probe = places[i] + step
            if probe <= start[tables[i] + 1]:
                places[i] += step * int(cuts[probe - 1] < keys[ranks[i]])
        step >>= 1
    for i in range(len(tables)):
        rest = int(rests[ranks[i]]) if len(rests) else 0
        last = start[tables[i] + 1]
        place = _past_equals(cuts, cut_rests, places[i], last, keys[ranks[i]], rest)
        ranks[i] = 1 + place - start[tables[i]]


@inlined
def at_most(first_data: Array, first_start: int, first_end: int, data: Array, start: int, end: int) -> bool:
    """Whether the first byte string is at most the second one."""
    common = min(first_end - first_start, end - start)
    for i in range(common):
        one, other = first_data[first_start + i], data[start + i]
        if one != other:
            return bool(one < other)
    return bool(first_end - first_start <= end - start)


@inlined
def text_key(data: Array, start: int, end: int) -> int:
    """Return the first eight bytes of a byte string as one number: strings in order have keys in order."""
    key = np.uint64(0)
    for i in range(start, start + 8):
        key = (key << np.uint64(8)) | np.uint64(data[i] if i < end else 0)
    return key  # type: ignore[return-value]  # a uint64


@inlined
def place_of_text(
    keys: Array, table_start: Array, table_data: Array, first: int, last: int, data: Array, start: int, end: int
) -> int:
    """Return the place of a byte string among the cuts first..last (excluded) of a table with their keys."""
    key = text_key(data, start, end)
    low, left = first, last - first
    while left > 0:
        step = (left + 1) >> 1
        low += step * int(keys[low + step - 1] < key)
        left -= step
    # Of the cuts with the same key, which are few unless all begin alike, the bytes decide.
    high, step = low, 1
    while high < last and keys[high] == key:
        high = min(high + step, last)
        step <<= 1
    while low < high:
        middle = (low + high) >> 1
        is_below = keys[middle] == key and at_most(
            table_data, table_start[middle], table_start[middle + 1], data, start, end
        )
        if is_below:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def keys_of_bytes(start: Array, data: Array) -> Array:
    """Return the keys of all items of a byte table."""
    keys = np.empty(len(start) - 1, np.uint64)
    for i in range(len(keys)):
        keys[i] = text_key(data, start[i], start[i + 1])
    return keys


@compiled
def positions_of_bytes(
    keys: Array, table_start: Array, table_data: Array, first: int, last: int, start: Array, data: Array
) -> Array:
    """Return the positions of many byte strings among the cuts first..last (excluded) of a table with their keys."""
    positions = np.empty(len(start) - 1, np.int32)
    for i in range(len(positions)):
        place = place_of_text(keys, table_start, table_data, first, last, data, start[i], start[i + 1])
        positions[i] = place - first
    return positions


@compiled
def reversed_items(start: Array, end: Array, data: Array) -> Array:
    """Return data with every item data[start[i]:end[i]] reversed."""
    turned = data.copy()
    for i in range(len(start)):
        for k in range(start[i], end[i]):
            turned[start[i] + end[i] - 1 - k] = data[k]
    return turned


END_OF_TEXT = 0xFF
"""The byte after every text of an event: UTF-8 has no such byte."""


@inlined
def split_texts(data: Array, start: Array, end: Array) -> None:
    """Write where each text of an event starts and ends."""
    at = 0
    for i in range(len(start)):
        start[i] = at
        while data[at] != END_OF_TEXT:
            at += 1
        end[i] = at
        at += 1
