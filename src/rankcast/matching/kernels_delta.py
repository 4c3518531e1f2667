"""The delta's kernel: the newest subscriptions, looked at one by one, by the numbers themselves instead of ranks.

A row is a conjunction of intervals of numbers, each between two cuts (see `cuts`). Rows of one subscription are
neighbours, so it is written once when several of them hold.

Cost: rows times the predicates looked at until one fails, some 3 nanoseconds each.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from rankcast.compiling import inlined
from rankcast.matching.part_tables import Kinds, float64s, int16s, int32s, int64s

Array: TypeAlias = np.ndarray[Any, Any]

DELTA_KINDS: Kinds = {
    "row_start": (np.int64, 0),
    "owner": (np.int32, 0),
    "attribute": (np.int32, 0),
    "low_key": (np.float64, 0),
    "low_rest": (np.int16, 0),
    "high_key": (np.float64, 0),
    "high_rest": (np.int16, 0),
    "numbers": (np.int64, 0),
    "died": (np.int64, 0),
}
"""What the kernel is given of a delta, in the order of its table."""

ROW_START, OWNER, ATTRIBUTE, LOW_KEY, LOW_REST, HIGH_KEY, HIGH_REST, NUMBERS, DIED = 0, 1, 2, 3, 4, 5, 6, 7, 8


@inlined
def scan_delta(
    table: Array,
    rows: int,
    attributes: Array,
    keys: Array,
    rests: Array,
    sequence: int,
    place_of: Array,
    found: Array,
) -> int:
    """Write the subscriptions of a delta's first rows that an event satisfies; return how many there are.

    `place_of` is scratch with room for every attribute of the rows: zero, and left so.
    """
    row_start, owner, attribute = int64s(table, ROW_START), int32s(table, OWNER), int32s(table, ATTRIBUTE)
    low_key, low_rest = float64s(table, LOW_KEY), int16s(table, LOW_REST)
    high_key, high_rest = float64s(table, HIGH_KEY), int16s(table, HIGH_REST)
    numbers, died = int64s(table, NUMBERS), int64s(table, DIED)
    for i in range(len(attributes)):
        if attributes[i] < len(place_of):
            place_of[attributes[i]] = i + 1
    count = 0
    written = -1
    for row in range(rows):
        holds = True
        for k in range(row_start[row], row_start[row + 1]):
            place = place_of[attribute[k]] - 1
            if place < 0:
                holds = False
                break
            key = keys[place]
            # A value between two cuts: the low one is at or below it, the high one is not.
            if not low_key[k] <= key <= high_key[k]:
                holds = False
                break
            if key == low_key[k] or key == high_key[k]:
                rest = int(rests[place]) if len(rests) else 0
                if (key == low_key[k] and low_rest[k] > rest) or (key == high_key[k] and high_rest[k] <= rest):
                    holds = False
                    break
        if holds and owner[row] != written and died[owner[row]] > sequence:
            written = owner[row]
            found[count] = numbers[written]
            count += 1
    for i in range(len(attributes)):
        if attributes[i] < len(place_of):
            place_of[attributes[i]] = 0
    return count
