"""What a batched kernel writes to, and what it does when there is no more room.

`counters` has the end of the used part of the arena and the number of deliveries written. A kernel stops between two
complete steps of one queue with FOUND_FULL or ARENA_FULL; its caller makes room and lets it go on from there.

A window without a free slot behind its others first moves to its front, if enough have left there; a small one is given
more slots; a larger one drops what it does not need, and is given more only when few are free then. So an arrival costs
O(1) here on average, and a window never has many more slots than it needs, or than are few anyway.

When queues act by themselves: a heap of all that will, each once, and of what is due by now.

`timers` has three lines: the queues as a heap, the place of each queue in it (-1: none), and when each is due. A period
that ends at an instant is due at it; a window evaluates an instant when that is over. So what is due at t counts as 2t
for periods and as 2t + 1 for windows. `counters[TIMED]` is how many there are.

Cost: O(log n) for a queue whose next instant changes, O(1) for one whose does not.
"""

from __future__ import annotations

from rankcast.arrays import Array
from rankcast.compiling import compiled, inlined
from rankcast.compiling.intrinsics import move_words
from rankcast.delivery.engine.kernels.needed import drop_unneeded
from rankcast.delivery.engine.kernels.top_list import move_queue, words_of
from rankcast.delivery.engine.layout import (
    ARRIVAL,
    CAPACITY,
    COUNT,
    COUNT_WINDOW,
    ENTERED,
    HEAD,
    KIND,
    NEXT,
    PERIODIC,
    SLIDING,
    SLOT,
    START,
    TIME_WINDOW,
    UNSEEN,
    WINDOW,
)
from rankcast.model.times import NEVER

DONE, FOUND_FULL, ARENA_FULL = range(3)
USED, WRITTEN = range(2)

FEWEST_SLOTS = 4
"""Of a queue that holds anything."""

FEW_SLOTS = 128
"""With fewer, a window is given more before it looks for what it does not need: a look costs as much as 30 arrivals."""

MANY_SLOTS = 48
"""Free slots that are enough for any queue: the more there are, the less often what is not needed is looked for."""


@inlined
def has_room(found: Array, counters: Array, deliveries: int) -> bool:
    """Whether so many deliveries can be written."""
    return bool(found.shape[1] - counters[WRITTEN] >= deliveries)


@inlined
def write(found: Array, counters: Array, queue: int, event: int, instant: int, score: int) -> None:
    """Write one delivery."""
    at = counters[WRITTEN]
    found[0, at], found[1, at], found[2, at], found[3, at] = queue, event, instant, score
    counters[WRITTEN] = at + 1


@inlined
def capacity_for(count: int) -> int:
    """Return how many slots a queue is given that holds so many events: twice as many if these are few, else 11/8."""
    return max(FEWEST_SLOTS, count + max(3 * count >> 3, min(count, MANY_SLOTS)))


@inlined
def has_slot(queues: Array, arena: Array, counters: Array, queue: int) -> bool:
    """Whether a queue has a free slot behind its others, now that it was given one if need be and possible."""
    if queues[queue, HEAD] + queues[queue, COUNT] < queues[queue, CAPACITY]:
        return True
    return _has_made_room(queues, arena, counters, queue)


@compiled
def _has_made_room(queues: Array, arena: Array, counters: Array, queue: int) -> bool:
    capacity = queues[queue, CAPACITY]
    is_window = SLIDING <= queues[queue, KIND] <= TIME_WINDOW
    if is_window and capacity:
        if 8 * queues[queue, HEAD] >= capacity:
            move_queue(queues, arena, queue, arena, queues[queue, START], capacity)
            return True
        if capacity >= FEW_SLOTS:
            drop_unneeded(queues, arena, queue)
            if 3 * queues[queue, COUNT] <= 2 * capacity:
                return True
    capacity, start = capacity_for(queues[queue, COUNT]), counters[USED]
    if is_window:
        capacity = min(capacity, queues[queue, WINDOW] + (queues[queue, WINDOW] >> 2) + FEWEST_SLOTS)
    end = start + words_of(queues, queue, capacity)
    if end > len(arena):
        return False
    move_queue(queues, arena, queue, arena, start, capacity)
    counters[USED] = end
    return True


@compiled
def repack(queues: Array, arena: Array, order: Array, capacities: Array, target: Array) -> int:
    """Copy all queues, one behind the other in this order, with these capacities; return where the last one ends.

    The target may be the arena itself if the order is that of the queues' places and no capacity grows.
    """
    end = 0
    for at in range(len(order)):
        queue = order[at]
        move_queue(queues, arena, queue, target, end, capacities[queue])
        end += words_of(queues, queue, capacities[queue])
    return end


@compiled
def copy_slots(queues: Array, arena: Array, starts: Array, target: Array) -> None:
    """Copy the slots in use of all queues, those of each from a line of the target on."""
    for queue in range(len(queues)):
        first = queues[queue, START] + SLOT * queues[queue, HEAD]
        move_words(target, SLOT * starts[queue], arena, first, SLOT * queues[queue, COUNT])


@compiled
def fill_slots(queues: Array, source: Array, arena: Array) -> None:
    """Copy slots, one behind the other, to where the queues that have so many of them begin."""
    line = 0
    for queue in range(len(queues)):
        count = queues[queue, COUNT]
        move_words(arena, queues[queue, START], source, SLOT * line, SLOT * count)
        line += count


@compiled
def first_out_of_order(queues: Array, slots: Array) -> int:
    """Return the first window whose slots, one behind the other, do not ascend by arrival up to who entered; or -1."""
    line = 0
    for queue in range(len(queues)):
        end = line + queues[queue, COUNT]
        if SLIDING <= queues[queue, KIND] <= TIME_WINDOW:
            before = -1
            for at in range(line, end):
                if slots[at, ARRIVAL] <= before:
                    return queue
                before = slots[at, ARRIVAL]
            if before > queues[queue, ENTERED]:
                return queue
        line = end
    return -1


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
