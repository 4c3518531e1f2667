"""When queues act by themselves: a heap of all that will, each once, and of what is due by now.

`timers` has three lines: the queues as a heap, the place of each queue in it (-1: none), and when each is due. A period
that ends at an instant is due at it; a window evaluates an instant when that is over. So what is due at t counts as 2t
for periods and as 2t + 1 for windows. `counters[TIMED]` is how many there are.

Cost: O(log n) for a queue whose next instant changes, O(1) for one whose does not.
"""

from __future__ import annotations

from rankcast.arrays import Array
from rankcast.compiling import inlined
from rankcast.delivery.engine.layout import COUNT_WINDOW, KIND, NEXT, PERIODIC, TIME_WINDOW, UNSEEN
from rankcast.model.times import NEVER

TIMED = 2
"""Where `counters` has the number of timers."""

QUEUE, PLACE, DUE = range(3)
LINES = 3


@inlined
def due_at(queues: Array, queue: int) -> int:
    """Return when a queue acts by itself, as timers count; NEVER when it does not."""
    kind = queues[queue, KIND]
    instant = NEVER
    if kind == PERIODIC:
        instant = queues[queue, NEXT]
    elif kind in (COUNT_WINDOW, TIME_WINDOW):
        instant = min(queues[queue, UNSEEN], queues[queue, NEXT])
    return NEVER if instant >= NEVER >> 1 else int(2 * instant + int(kind != PERIODIC))


@inlined
def _put(timers: Array, at: int, queue: int) -> None:
    timers[QUEUE, at] = queue
    timers[PLACE, queue] = at


@inlined
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


@inlined
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


@inlined
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
