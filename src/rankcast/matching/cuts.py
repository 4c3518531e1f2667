"""Where a value lies among sorted cuts: exactly, for numbers, times and strings.

The position of a value is the number of cuts at or below it; a value set is a list of ranges of positions.

Numbers are int64 and float64 at once. Each is split into the largest float64 that is not above it and what is missing
from that (0 for floats, at most 1023 for integers), and compared first by one, then by the other: exact without ever
rounding. A cut also says whether it lies above its number, so it is (key, 2 * missing + above), and a number is
(key, 2 * missing). Times are microseconds. Strings are their UTF-8 bytes, whose order is that of code points.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

import numpy as np

from rankcast.matching.compiled import compiled, inlined

Array: TypeAlias = np.ndarray[Any, Any]

EXACT_INTEGERS = 2**53
"""Integers up to here are float64 values themselves."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def microseconds(time: datetime) -> int:
    """Return a UTC time as microseconds since 1970."""
    return (time - _EPOCH) // _MICROSECOND


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


@compiled
def split_integers(values: Array) -> tuple[Array, Array]:
    """Return `split_number` of many int64 values."""
    keys = np.empty(len(values), np.float64)
    rests = np.zeros(len(values), np.int16)
    for i in range(len(values)):
        value = values[i]
        key = np.float64(value)
        if value > EXACT_INTEGERS or value < -EXACT_INTEGERS:
            # float64 rounds the largest integers up to 2**63, which is no int64 to convert back to.
            if key >= 9223372036854775808.0 or np.int64(key) > value:
                key = np.nextafter(key, -np.inf)
            rests[i] = 2 * (value - np.int64(key))
        keys[i] = key
    return keys, rests


@inlined
def _position_of_number(keys: Array, rests: Array, first: int, last: int, key: float, rest: int) -> int:
    low, high = first, last
    while low < high:
        middle = (low + high) >> 1
        if keys[middle] < key or (keys[middle] == key and rests[middle] <= rest):
            low = middle + 1
        else:
            high = middle
    return low - first


@compiled
def positions_of_numbers(keys: Array, rests: Array, first: int, last: int, values: Array, extra: Array) -> Array:
    """Return the positions of split numbers among the cuts first..last (excluded)."""
    positions = np.empty(len(values), np.int32)
    for i in range(len(values)):
        positions[i] = _position_of_number(keys, rests, first, last, values[i], extra[i])
    return positions


@compiled
def rank_numbers(start: Array, keys: Array, rests: Array, tables: Array, values: Array, ranks: Array) -> bool:
    """Write the ranks of one event's float64 values, each among the cuts of its own table (rank 0 is "missing").

    Return False when a value is NaN, or so large that it may stand for an integer that float64 does not have.
    """
    for i in range(len(values)):
        value = values[i]
        if not -EXACT_INTEGERS < value < EXACT_INTEGERS:
            return False
        table = tables[i]
        ranks[i] = 1 + _position_of_number(keys, rests, start[table], start[table + 1], value, 0)
    return True


@inlined
def _at_most(first_data: Array, first_start: int, first_end: int, data: Array, start: int, end: int) -> bool:
    """Whether the first byte string is at most the second one."""
    common = min(first_end - first_start, end - start)
    for i in range(common):
        one, other = first_data[first_start + i], data[start + i]
        if one != other:
            return bool(one < other)
    return bool(first_end - first_start <= end - start)


@compiled
def positions_of_bytes(
    table_start: Array, table_data: Array, first: int, last: int, start: Array, data: Array
) -> Array:
    """Return the positions of many byte strings among the cuts first..last (excluded) of a table."""
    positions = np.empty(len(start) - 1, np.int32)
    for i in range(len(start) - 1):
        low, high = first, last
        while low < high:
            middle = (low + high) >> 1
            if _at_most(table_data, table_start[middle], table_start[middle + 1], data, start[i], start[i + 1]):
                low = middle + 1
            else:
                high = middle
        positions[i] = low - first
    return positions


@compiled
def reversed_items(start: Array, data: Array) -> Array:
    """Return the data of a byte table with every item reversed."""
    turned = np.empty(len(data), np.uint8)
    for i in range(len(start) - 1):
        for k in range(start[i], start[i + 1]):
            turned[start[i] + start[i + 1] - 1 - k] = data[k]
    return turned
