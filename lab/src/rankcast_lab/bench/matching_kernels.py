"""The kernels that the index is measured against.

Brute force is what one writes first: every subscription, constraint after constraint, until one fails.

The limit is what a bitset index over wide ranges works towards: one bitset row per attribute of the event, and-ed
together, with nothing looked up, corrected or reported. It takes the rows in blocks, a few at a time, so that the
result stays in the fastest cache. Requirements are ratios to it.

The bandwidth kernel does the same as fast as we could make it: whole rows, ten at a time, which keeps the memory busier
than blocks do (about twice, once the rows outgrow the caches). Nothing that has to read these rows can be faster.
"""

from __future__ import annotations

import numpy as np

from rankcast.arrays import Array
from rankcast.compiling import compiled

STREAMS = 10
"""Rows that the bandwidth kernel reads at once. Measured with 2, 4, 5, 10 and 20."""

BLOCK, BLOCK_STREAMS = 512, 3
"""Words of a block of the limit kernel, and rows that it reads at once."""


@compiled
def match_all(
    start: Array, attribute: Array, low: Array, high: Array, events: Array, offsets: Array, found: Array
) -> int:
    """Write the subscriptions of every event; return how many events were done before `found` had no more room."""
    count = 0
    subscriptions = len(start) - 1
    for event in range(len(events)):
        if len(found) - count < subscriptions:
            return event
        values = events[event]
        for subscription in range(subscriptions):
            holds = True
            for k in range(start[subscription], start[subscription + 1]):
                value = values[attribute[k]]
                if value < low[k] or value > high[k]:
                    holds = False
                    break
            if holds:
                found[count] = subscription
                count += 1
        offsets[event + 1] = count
    return len(events)


@compiled
def and_rows(rows: Array, picked: Array, result: Array) -> None:
    """For every event, AND the rows that it picks: a whole number of STREAMS of them."""
    words = rows.shape[1]
    for event in range(picked.shape[0]):
        chosen = picked[event]
        result[:] = ~np.uint64(0)
        for k in range(0, len(chosen), STREAMS):
            row0, row1, row2, row3 = rows[chosen[k]], rows[chosen[k + 1]], rows[chosen[k + 2]], rows[chosen[k + 3]]
            row4, row5, row6, row7 = rows[chosen[k + 4]], rows[chosen[k + 5]], rows[chosen[k + 6]], rows[chosen[k + 7]]
            row8, row9 = rows[chosen[k + 8]], rows[chosen[k + 9]]
            for word in range(words):
                half = row0[word] & row1[word] & row2[word] & row3[word] & row4[word]
                result[word] &= half & row5[word] & row6[word] & row7[word] & row8[word] & row9[word]


@compiled
def and_rows_in_blocks(rows: Array, picked: Array, result: Array) -> None:
    """For every event, AND the rows that it picks, block by block: a whole number of BLOCK_STREAMS of them."""
    words = rows.shape[1]
    for event in range(picked.shape[0]):
        chosen = picked[event]
        for first in range(0, words, BLOCK):
            last = min(words, first + BLOCK)
            part = result[first:last]
            part[:] = ~np.uint64(0)
            for k in range(0, len(chosen), BLOCK_STREAMS):
                row0, row1 = rows[chosen[k], first:last], rows[chosen[k + 1], first:last]
                row2 = rows[chosen[k + 2], first:last]
                for word in range(last - first):
                    part[word] &= row0[word] & row1[word] & row2[word]


def in_groups(picked: Array, group: int) -> Array:
    """Repeat each event's last row until their number is a multiple of a group; and-ing it again changes nothing."""
    return np.pad(picked, ((0, 0), (0, -picked.shape[1] % group)), mode="edge")
