"""The kernels that go over rows, or over queues, and let each queue do what its policy says.

Both stop when something they write to is full, and go on where they stopped when they are called again.
"""

from __future__ import annotations

import numpy as np

from rankcast.compiling import compiled, inlined
from rankcast.delivery.batch_diversity import Diverse
from rankcast.delivery.batch_layout import (
    ALL,
    CAPACITY,
    CLOCK,
    CONTINUOUS,
    COUNT_WINDOW,
    FIRST_INSTANT,
    KIND,
    LAST_INSTANT,
    PERIODIC,
    SETTING,
    SLIDING,
    TIME_WINDOW,
    TOP,
    Array,
    K,
)
from rankcast.delivery.kernels_best import list_of
from rankcast.delivery.kernels_diverse_steps import pass_diverse, take_diverse
from rankcast.delivery.kernels_listed import arrive_continuously, arrive_in_period, pass_in_period
from rankcast.delivery.kernels_room import DONE, FOUND_FULL, has_room, write
from rankcast.delivery.kernels_window import arrive_in_count_window, arrive_in_time_window, pass_in_window

NO_FAULT, UNKNOWN_QUEUE, UNSORTED_QUEUE, NEGATIVE_EVENT, TIME_OUT_OF_RANGE, LATE, SCORE_NOT_A_NUMBER = range(7)

LARGEST = 2**63 - 1
NEGATIVE_ZERO = -(2**63)


@inlined
def score_order(bits: int) -> int:
    """Return an integer that orders as the float of these bits does; zeros are equal."""
    if bits >= 0:
        return bits
    return 0 if bits == NEGATIVE_ZERO else bits ^ LARGEST


@compiled
def score_bits_of(orders: Array) -> Array:
    """Return the bits of the floats that integers of `score_order` stand for; of the zeros, the positive one's."""
    bits = np.empty_like(orders)
    for at in range(len(orders)):
        bits[at] = orders[at] if orders[at] >= 0 else orders[at] ^ LARGEST
    return bits


@compiled
def first_fault(queues: Array, queue_column: Array, events: Array, times: Array, scores: Array) -> tuple[int, int]:
    """Return the first row that cannot be taken, and why; NO_FAULT when all can."""
    for row in range(len(queue_column)):
        queue, time = queue_column[row], times[row]
        if queue < 0 or queue >= len(queues):
            return row, UNKNOWN_QUEUE
        if events[row] < 0:
            return row, NEGATIVE_EVENT
        if time < FIRST_INSTANT or time > LAST_INSTANT:
            return row, TIME_OUT_OF_RANGE
        if np.isnan(scores[row]):
            return row, SCORE_NOT_A_NUMBER
        if row > 0 and queue_column[row - 1] > queue:
            return row, UNSORTED_QUEUE
        is_first = row == 0 or queue_column[row - 1] != queue
        if time < (queues[queue, CLOCK] if is_first else times[row - 1]):
            return row, LATE
    return len(queue_column), NO_FAULT


@inlined
def _pass(queues: Array, arena: Array, found: Array, counters: Array, queue: int, now: int) -> int:
    kind = queues[queue, KIND]
    if kind in (COUNT_WINDOW, TIME_WINDOW):
        return pass_in_window(queues, arena, found, counters, queue, now)
    if kind == PERIODIC:
        return pass_in_period(queues, arena, found, counters, queue, now)
    return DONE


@inlined
def _arrive(
    queues: Array,
    arena: Array,
    found: Array,
    counters: Array,
    queue: int,
    event: int,
    time: int,
    expiry: int,
    score: int,
) -> int:
    kind = queues[queue, KIND]
    if kind == ALL:
        if not has_room(found, counters, 1):
            return FOUND_FULL
        if expiry > time:
            write(found, counters, queue, event, time, score)
        return DONE
    if queues[queue, K] == 0:
        return DONE
    if kind == CONTINUOUS:
        return arrive_continuously(queues, arena, found, counters, queue, event, time, expiry, score)
    if kind in (SLIDING, COUNT_WINDOW):
        return arrive_in_count_window(queues, arena, found, counters, queue, event, time, expiry, score)
    if kind == TIME_WINDOW:
        return arrive_in_time_window(queues, arena, counters, queue, event, time, expiry, score)
    return arrive_in_period(queues, arena, counters, queue, event, time, expiry, score)


@compiled
def take_rows(
    queues: Array,
    arena: Array,
    found: Array,
    counters: Array,
    queue_column: Array,
    events: Array,
    times: Array,
    expiries: Array,
    score_bits: Array,
    diverse: Diverse,
    row: int,
) -> tuple[int, int]:
    """Take rows from one on; return the first that was not taken and DONE, FOUND_FULL or ARENA_FULL."""
    while row < len(queue_column):
        queue, time = queue_column[row], times[row]
        score = score_order(score_bits[row])
        if queues[queue, SETTING]:
            status = take_diverse(
                queues, arena, found, counters, queue, events[row], time, expiries[row], score, diverse
            )
        else:
            status = _pass(queues, arena, found, counters, queue, time)
            if status == DONE:
                status = _arrive(queues, arena, found, counters, queue, events[row], time, expiries[row], score)
        if status != DONE:
            return row, status
        queues[queue, CLOCK] = time
        row += 1
    return row, DONE


@compiled
def pass_time(
    queues: Array, arena: Array, found: Array, counters: Array, now: int, diverse: Diverse, queue: int
) -> tuple[int, int]:
    """Let time pass to `now` in all queues from one on; return the first that was not done, and why."""
    while queue < len(queues):
        if queues[queue, SETTING]:
            status = pass_diverse(queues, arena, found, counters, queue, now, diverse)
        else:
            status = _pass(queues, arena, found, counters, queue, now)
        if status != DONE:
            return queue, status
        queues[queue, CLOCK] = max(queues[queue, CLOCK], now)
        queue += 1
    return queue, DONE


@compiled
def all_places_exist(queues: Array, arena: Array) -> bool:
    """Whether every list names slots of its queue only; nothing else in the arena is followed."""
    for queue in range(len(queues)):
        _, places = list_of(queues, queue)
        for at in range(places, places + queues[queue, TOP]):
            if arena[at] < 0 or arena[at] >> 1 >= queues[queue, CAPACITY]:
                return False
    return True
