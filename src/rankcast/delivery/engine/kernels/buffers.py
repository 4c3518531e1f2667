"""What a batched kernel writes to, and what it does when there is no more room.

`counters` has the end of the used part of the arena and the number of deliveries written. A kernel stops between two
complete steps of one queue with FOUND_FULL or ARENA_FULL; its caller makes room and lets it go on from there.

A window without a free slot behind its others first moves to its front, if enough have left there; a small one is given
more slots; a larger one drops what it does not need, and is given more only when few are free then. So an arrival costs
O(1) here on average, and a window never has many more slots than it needs, or than are few anyway.
"""

from __future__ import annotations

from rankcast.arrays import Array
from rankcast.compiling import compiled, inlined
from rankcast.compiling.intrinsics import move_words
from rankcast.delivery.engine.kernels.needed import drop_unneeded
from rankcast.delivery.engine.kernels.top_list import move_queue, words_of
from rankcast.delivery.engine.layout import CAPACITY, COUNT, HEAD, KIND, SLIDING, SLOT, START, TIME_WINDOW, WINDOW

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
    """Return how many slots a queue is given that holds so many events: twice as many, if these are few."""
    return max(FEWEST_SLOTS, count + max(count >> 1, min(count, MANY_SLOTS)))


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
