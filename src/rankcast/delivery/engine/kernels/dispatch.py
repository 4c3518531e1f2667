"""The kernels that go over rows, or over queues, and let each queue do what its policy says.

They call what queues do themselves: a function more between them that is given the arrays costs a row 50 nanoseconds.

All stop when something they write to is full, and go on where they stopped when they are called again.

When queues act by themselves: a heap of all that will, each once. `timers` has three lines: the queues as a heap, the
place of each queue in it (-1: none), and when each is due. A period that ends at an instant is due at it; a window
evaluates an instant when that is over. So what is due at t counts as 2t for periods and as 2t + 1 for windows.
`counters[TIMED]` is how many there are. Cost: O(log n) for a queue whose next instant changes, O(1) for one whose does
not.
"""

from __future__ import annotations

import numpy as np

from rankcast.arrays import Array
from rankcast.compiling import ZERO, borrowing_inlined, compiled
from rankcast.compiling.intrinsics import prefetch
from rankcast.delivery.engine.kernels.diverse import diverse_of, pass_diverse, take_diverse
from rankcast.delivery.engine.kernels.held import DONE, FOUND_FULL, TIMED, Arrival, has_room, rebuild_top, write
from rankcast.delivery.engine.kernels.policies import (
    arrive_continuously,
    arrive_in_count_window,
    arrive_in_period,
    arrive_in_time_window,
    pass_in_period,
    pass_in_window,
)
from rankcast.delivery.engine.layout import ALL, CONTINUOUS, COUNT_WINDOW, LINE, PERIODIC, SLIDING, SLOT, TIME_WINDOW
from rankcast.model.times import FIRST_INSTANT, LAST_INSTANT, NEVER
from rankcast.ranking.batch import ROW_EXPIRES, ROW_QUEUE, ROW_SCORE, ROW_WORD

NO_FAULT, UNKNOWN_QUEUE, UNSORTED_QUEUE, NEGATIVE_EVENT, TIME_OUT_OF_RANGE, LATE, SCORE_NOT_A_NUMBER = range(7)

QUEUE, PLACE, DUE = range(3)
LINES = 3
"""Of `timers`."""

AHEAD = 16
"""Rows between the one that is taken and the one whose queue is fetched into the cache; its line comes as long before.
"""

WORDS_PER_LINE = 8
"""Of the cache."""

LARGEST = 2**63 - 1
NEGATIVE_ZERO = -(2**63)


@borrowing_inlined
def score_order(bits: int) -> int:
    """Return an integer that orders as the float of these bits does; zeros are equal."""
    if bits >= 0:
        return bits
    return 0 if bits == NEGATIVE_ZERO else bits ^ LARGEST


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
        if time < (queues[queue, LINE.clock] if is_first else times[row - 1]):
            return row, LATE
    return len(queue_column), NO_FAULT


@borrowing_inlined
def _pass(queues: Array, arena: Array, found: Array, counters: Array, queue: int, now: int) -> int:
    kind = queues[queue, LINE.kind]
    if kind in (COUNT_WINDOW, TIME_WINDOW):
        return pass_in_window(queues, arena, found, counters, queue, now)
    if kind == PERIODIC:
        return pass_in_period(queues, arena, found, counters, queue, now)
    return DONE


@borrowing_inlined
def _arrive(queues: Array, arena: Array, found: Array, counters: Array, queue: int, arrival: Arrival, now: int) -> int:
    kind = queues[queue, LINE.kind]
    if kind == ALL:
        if not has_room(found, counters, 1):
            return FOUND_FULL
        if arrival.expiry > now:
            write(found, counters, queue, arrival.event, now, arrival.score)
        return DONE
    if queues[queue, LINE.k] == 0:
        return DONE
    if kind == CONTINUOUS:
        return arrive_continuously(queues, arena, found, counters, queue, arrival, now)
    if kind in (SLIDING, COUNT_WINDOW):
        return arrive_in_count_window(queues, arena, found, counters, queue, arrival, now)
    if kind == TIME_WINDOW:
        return arrive_in_time_window(queues, arena, counters, queue, arrival, now)
    return arrive_in_period(queues, arena, counters, queue, arrival, now)


@borrowing_inlined
def _prefetch_line(queues: Array, queue: int) -> None:
    """Have the line of a queue, which lies in two of the cache."""
    prefetch(queues, queue)
    prefetch(queues, queue + 1)


@borrowing_inlined
def _prefetch(queues: Array, arena: Array, queue: int) -> None:
    """Have the memory that an arrival in a queue looks at: where events leave and enter, and the list of the best."""
    start = queues[queue, LINE.start]
    first = start + SLOT * queues[queue, LINE.head]
    free, best = first + SLOT * queues[queue, LINE.size], start + SLOT * queues[queue, LINE.capacity]
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
    diversities: Array,
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
        arrival = Arrival(events[row], time, expiries[row], score_order(score_bits[row]))
        if queues[queue, LINE.setting]:
            diverse = diverse_of(diversities, ZERO)
            status = take_diverse(queues, arena, found, counters, queue, arrival, time, diverse)
        else:
            status = _pass(queues, arena, found, counters, queue, time)
            if status == DONE:
                status = _arrive(queues, arena, found, counters, queue, arrival, time)
        if status != DONE:
            return row, status
        queues[queue, LINE.clock] = time
        row += 1
    return row, DONE


@compiled
def pass_time(
    queues: Array, arena: Array, found: Array, counters: Array, now: int, ends: int, diversities: Array, queue: int
) -> tuple[int, int]:
    """Let time pass to `now` in all queues from one on; return the first that was not done, and why.

    With `ends`, 1 instead of 0, periods that end at `now` do so; without it only those that end before it.
    """
    while queue < len(queues):
        limit = now if ends or queues[queue, LINE.kind] != PERIODIC else now - 1
        if queues[queue, LINE.setting]:
            status = pass_diverse(queues, arena, found, counters, queue, limit, diverse_of(diversities, ZERO))
        else:
            status = _pass(queues, arena, found, counters, queue, limit)
        if status != DONE:
            return queue, status
        queues[queue, LINE.clock] = max(queues[queue, LINE.clock], now)
        queue += 1
    return queue, DONE


@borrowing_inlined
def due_at(queues: Array, queue: int) -> int:
    """Return when a queue acts by itself, as timers count; NEVER when it does not."""
    kind = queues[queue, LINE.kind]
    instant = NEVER
    if kind == PERIODIC:
        instant = queues[queue, LINE.next]
    elif kind in (COUNT_WINDOW, TIME_WINDOW):
        instant = min(queues[queue, LINE.unseen], queues[queue, LINE.next])
    return NEVER if instant >= NEVER >> 1 else int(2 * instant + int(kind != PERIODIC))


@borrowing_inlined
def _put(timers: Array, at: int, queue: int) -> None:
    timers[QUEUE, at] = queue
    timers[PLACE, queue] = at


@borrowing_inlined
def _up(timers: Array, at: int) -> int:
    queue = timers[QUEUE, at]
    while at > 0:
        above = (at - 1) >> 1
        if timers[DUE, timers[QUEUE, above]] <= timers[DUE, queue]:
            break
        _put(timers, at, timers[QUEUE, above])
        at = above
    _put(timers, at, queue)
    return at


@borrowing_inlined
def _down(timers: Array, at: int, size: int) -> None:
    queue = timers[QUEUE, at]
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and timers[DUE, timers[QUEUE, child + 1]] < timers[DUE, timers[QUEUE, child]]:
            child += 1
        if timers[DUE, timers[QUEUE, child]] >= timers[DUE, queue]:
            break
        _put(timers, at, timers[QUEUE, child])
        at = child
    _put(timers, at, queue)


@borrowing_inlined
def set_timer(timers: Array, counters: Array, queue: int, due: int) -> None:
    """Note when a queue acts by itself, or that it does not."""
    at = timers[PLACE, queue]
    if at < 0:
        if due == NEVER:
            return
        at = counters[TIMED]
        counters[TIMED] = at + 1
        timers[QUEUE, at] = queue
    elif timers[DUE, queue] == due:
        return
    timers[DUE, queue] = due
    if due < NEVER:
        _down(timers, _up(timers, at), counters[TIMED])
        return
    size = counters[TIMED] - 1
    counters[TIMED] = size
    timers[PLACE, queue] = -1
    if at < size:
        _put(timers, at, timers[QUEUE, size])
        _down(timers, _up(timers, at), size)


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
        limit = now + int(closed and queues[queue, LINE.kind] != PERIODIC)
        if queues[queue, LINE.setting]:
            status = pass_diverse(queues, arena, found, counters, queue, limit, diverse_of(diversities, shift))
        else:
            status = _pass(queues, arena, found, counters, queue, limit)
        if status != DONE:
            return status
        queues[queue, LINE.clock] = max(queues[queue, LINE.clock], now)
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
        status = _pass_due(queues, arena, found, counters, timers, now, ZERO, diversities, shift)
        if status != DONE:
            return row, status
        row = 0
    while row < count:
        _prefetch_line(queues, rows[ROW_QUEUE, min(row + 2 * AHEAD, count - 1)])
        _prefetch(queues, arena, rows[ROW_QUEUE, min(row + AHEAD, count - 1)])
        queue, score = rows[ROW_QUEUE, row], score_order(rows[ROW_SCORE, row])
        arrival = Arrival(rows[ROW_WORD, row], time, rows[ROW_EXPIRES, row], score)
        if queues[queue, LINE.setting]:
            diverse = diverse_of(diversities, shift)
            status = take_diverse(queues, arena, found, counters, queue, arrival, now, diverse)
        else:
            status = _pass(queues, arena, found, counters, queue, now)
            if status == DONE:
                status = _arrive(queues, arena, found, counters, queue, arrival, now)
        if status != DONE:
            return row, status
        queues[queue, LINE.clock] = now
        set_timer(timers, counters, queue, due_at(queues, queue))
        row += 1
    if closed:
        return row, _pass_due(queues, arena, found, counters, timers, now, closed, diversities, shift)
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
        queues[queue, LINE.top] = 0
        if queues[queue, LINE.setting] == 0 and queues[queue, LINE.kind] >= SLIDING:
            rebuild_top(queues, arena, queue)
