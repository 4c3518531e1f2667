"""What a batched kernel writes to, and what it does when there is no more room.

`counters` has the end of the used part of the arena and the number of deliveries written. A kernel stops between two
complete steps of one queue with FOUND_FULL or ARENA_FULL; its caller makes room and lets it go on from there.
"""

from __future__ import annotations

from rankcast.compiling import compiled, inlined
from rankcast.delivery.batch_layout import CAPACITY, COUNT, WINDOW, Array
from rankcast.delivery.kernels_best import move_queue, words_of

DONE, FOUND_FULL, ARENA_FULL = range(3)
USED, WRITTEN = range(2)

FEWEST_SLOTS = 4
"""Of a queue that holds anything. Its slots double when they are full, up to its window."""


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
def has_slot(queues: Array, arena: Array, counters: Array, queue: int) -> bool:
    """Whether a queue has a free slot, now that it was moved to the end of the arena if need be and possible."""
    capacity = queues[queue, CAPACITY]
    if queues[queue, COUNT] < capacity:
        return True
    capacity = min(queues[queue, WINDOW], max(FEWEST_SLOTS, 2 * capacity))
    start = counters[USED]
    end = start + words_of(queues, queue, capacity)
    if end > len(arena):
        return False
    move_queue(queues, arena, queue, arena, start, capacity)
    counters[USED] = end
    return True


@compiled
def repack(queues: Array, arena: Array, capacities: Array, target: Array) -> int:
    """Copy all queues, one behind the other, with these capacities; return where the last one ends."""
    end = 0
    for queue in range(len(queues)):
        move_queue(queues, arena, queue, target, end, capacities[queue])
        end += words_of(queues, queue, capacities[queue])
    return end
