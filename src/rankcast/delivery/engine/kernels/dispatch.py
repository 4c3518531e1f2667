"""The kernels that go over rows, or over queues, and let each queue do what its policy says.

Both stop when something they write to is full, and go on where they stopped when they are called again.
"""

from __future__ import annotations

import numpy as np

from rankcast.arrays import Array
from rankcast.compiling import compiled, inlined
from rankcast.compiling.arguments import float64s, int64s, positions
from rankcast.compiling.intrinsics import prefetch
from rankcast.delivery.engine.diversity import DIVERSE_KINDS, Diverse
from rankcast.delivery.engine.kernels.buffers import (
    DONE,
    DUE,
    FOUND_FULL,
    QUEUE,
    TIMED,
    due_at,
    has_room,
    set_timer,
    write,
)
from rankcast.delivery.engine.kernels.continuous_periodic import arrive_continuously, arrive_in_period, pass_in_period
from rankcast.delivery.engine.kernels.diverse import pass_diverse, take_diverse
from rankcast.delivery.engine.kernels.top_list import rebuild_top
from rankcast.delivery.engine.kernels.windows import arrive_in_count_window, arrive_in_time_window, pass_in_window
from rankcast.delivery.engine.layout import (
    ALL,
    CAPACITY,
    CLOCK,
    CONTINUOUS,
    COUNT,
    COUNT_WINDOW,
    HEAD,
    KIND,
    PERIODIC,
    SETTING,
    SLIDING,
    SLOT,
    START,
    TIME_WINDOW,
    TOP,
    K,
)
from rankcast.model.times import FIRST_INSTANT, LAST_INSTANT
from rankcast.ranking.batch_kernels import ROW_EXPIRES, ROW_QUEUE, ROW_SCORE, ROW_WORD

NO_FAULT, UNKNOWN_QUEUE, UNSORTED_QUEUE, NEGATIVE_EVENT, TIME_OUT_OF_RANGE, LATE, SCORE_NOT_A_NUMBER = range(7)

AT = positions(DIVERSE_KINDS)

AHEAD = 16
"""Rows between the one that is taken and the one whose queue is fetched into the cache; its line comes as long before.
"""

WORDS_PER_LINE = 8
"""Of the cache."""

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
    now: int,
) -> int:
    kind = queues[queue, KIND]
    if kind == ALL:
        if not has_room(found, counters, 1):
            return FOUND_FULL
        if expiry > now:
            write(found, counters, queue, event, now, score)
        return DONE
    if queues[queue, K] == 0:
        return DONE
    if kind == CONTINUOUS:
        return arrive_continuously(queues, arena, found, counters, queue, event, time, expiry, score, now)
    if kind in (SLIDING, COUNT_WINDOW):
        return arrive_in_count_window(queues, arena, found, counters, queue, event, time, expiry, score, now)
    if kind == TIME_WINDOW:
        return arrive_in_time_window(queues, arena, counters, queue, event, time, expiry, score, now)
    return arrive_in_period(queues, arena, counters, queue, event, time, expiry, score, now)


@inlined
def _prefetch_line(queues: Array, queue: int) -> None:
    """Have the line of a queue, which lies in two of the cache."""
    prefetch(queues, queue)
    prefetch(queues, queue + 1)


@inlined
def _prefetch(queues: Array, arena: Array, queue: int) -> None:
    """Have the memory that an arrival in a queue looks at: where events leave and enter, and the list of the best."""
    start = queues[queue, START]
    first = start + SLOT * queues[queue, HEAD]
    free, best = first + SLOT * queues[queue, COUNT], start + SLOT * queues[queue, CAPACITY]
    for line in range(0, 2 * WORDS_PER_LINE, WORDS_PER_LINE):
        prefetch(arena, first + line)
        prefetch(arena, free + line)
    for line in range(0, 4 * WORDS_PER_LINE, WORDS_PER_LINE):
        prefetch(arena, best + line)


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
    announced = -1
    while row < len(queue_column):
        queue, time = queue_column[row], times[row]
        coming = queue_column[min(row + AHEAD, len(queue_column) - 1)]
        if coming != announced:
            announced = coming
            _prefetch_line(queues, queue_column[min(row + 2 * AHEAD, len(queue_column) - 1)])
            _prefetch(queues, arena, coming)
        score = score_order(score_bits[row])
        if queues[queue, SETTING]:
            status = take_diverse(
                queues, arena, found, counters, queue, events[row], time, expiries[row], score, time, diverse
            )
        else:
            status = _pass(queues, arena, found, counters, queue, time)
            if status == DONE:
                status = _arrive(queues, arena, found, counters, queue, events[row], time, expiries[row], score, time)
        if status != DONE:
            return row, status
        queues[queue, CLOCK] = time
        row += 1
    return row, DONE


@compiled
def pass_time(
    queues: Array, arena: Array, found: Array, counters: Array, now: int, ends: int, diverse: Diverse, queue: int
) -> tuple[int, int]:
    """Let time pass to `now` in all queues from one on; return the first that was not done, and why.

    With `ends`, 1 instead of 0, periods that end at `now` do so; without it only those that end before it.
    """
    while queue < len(queues):
        limit = now if ends or queues[queue, KIND] != PERIODIC else now - 1
        if queues[queue, SETTING]:
            status = pass_diverse(queues, arena, found, counters, queue, limit, diverse)
        else:
            status = _pass(queues, arena, found, counters, queue, limit)
        if status != DONE:
            return queue, status
        queues[queue, CLOCK] = max(queues[queue, CLOCK], now)
        queue += 1
    return queue, DONE


@inlined
def _diverse_of(diversities: Array, shift: int) -> Diverse:
    """Return what diverse selection needs, made where it is used: as a tuple it is dear to pass on."""
    return Diverse(
        shift,
        int64s(diversities, AT.numbers),
        int64s(diversities, AT.starts),
        int64s(diversities, AT.attributes),
        int64s(diversities, AT.values),
        float64s(diversities, AT.sigmas),
        float64s(diversities, AT.totals),
        int64s(diversities, AT.weight_starts),
        int64s(diversities, AT.weight_attributes),
        float64s(diversities, AT.weights),
    )


@compiled
def _pass_due(
    queues: Array,
    arena: Array,
    found: Array,
    counters: Array,
    timers: Array,
    now: int,
    closed: int,
    diversities: Array,
    shift: int,
) -> int:
    """Let the queues that have something to do by themselves before `now`, or at it when it is closed, do so."""
    while counters[TIMED] > 0:
        queue = timers[QUEUE, 0]
        if timers[DUE, queue] > 2 * now + closed:
            return DONE
        limit = now + int(closed and queues[queue, KIND] != PERIODIC)
        if queues[queue, SETTING]:
            status = pass_diverse(queues, arena, found, counters, queue, limit, _diverse_of(diversities, shift))
        else:
            status = _pass(queues, arena, found, counters, queue, limit)
        if status != DONE:
            return status
        queues[queue, CLOCK] = max(queues[queue, CLOCK], now)
        set_timer(timers, counters, queue, due_at(queues, queue))
    return DONE


@compiled
def serve_event(
    queues: Array,
    arena: Array,
    found: Array,
    counters: Array,
    timers: Array,
    rows: Array,
    count: int,
    time: int,
    now: int,
    closed: int,
    diversities: Array,
    shift: int,
    row: int,
) -> tuple[int, int]:
    """Let time pass to `now`, and one event arrive in some queues, each named once.

    The first so many rows count: the queue, the event's word, its expiry and the bits of its score. Goes on from a row;
    -1 is what is due before them, and what is due at `now`, if it is closed, comes after the last.
    """
    if row < 0:
        status = _pass_due(queues, arena, found, counters, timers, now, 0, diversities, shift)
        if status != DONE:
            return row, status
        row = 0
    while row < count:
        _prefetch_line(queues, rows[ROW_QUEUE, min(row + 2 * AHEAD, count - 1)])
        _prefetch(queues, arena, rows[ROW_QUEUE, min(row + AHEAD, count - 1)])
        queue, event, expiry = rows[ROW_QUEUE, row], rows[ROW_WORD, row], rows[ROW_EXPIRES, row]
        score = score_order(rows[ROW_SCORE, row])
        if queues[queue, SETTING]:
            diverse = _diverse_of(diversities, shift)
            status = take_diverse(queues, arena, found, counters, queue, event, time, expiry, score, now, diverse)
        else:
            status = _pass(queues, arena, found, counters, queue, now)
            if status == DONE:
                status = _arrive(queues, arena, found, counters, queue, event, time, expiry, score, now)
        if status != DONE:
            return row, status
        queues[queue, CLOCK] = now
        set_timer(timers, counters, queue, due_at(queues, queue))
        row += 1
    if closed:
        return row, _pass_due(queues, arena, found, counters, timers, now, 1, diversities, shift)
    return row, DONE


@compiled
def set_timers(queues: Array, timers: Array, counters: Array, first: int, last: int) -> None:
    """Note when some queues act by themselves."""
    for queue in range(first, last):
        set_timer(timers, counters, queue, due_at(queues, queue))


@compiled
def list_all(queues: Array, arena: Array) -> None:
    """Make the lists of all queues that rank what they hold; what was selected by diversity is selected again later."""
    for queue in range(len(queues)):
        queues[queue, TOP] = 0
        if queues[queue, SETTING] == 0 and queues[queue, KIND] >= SLIDING:
            rebuild_top(queues, arena, queue)
