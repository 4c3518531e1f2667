"""What a window can do without: `rankcast.delivery.rules.queues.needed`, for batched queues.

An event is not needed when at least k others come before it and leave no sooner. Taken from the one that stays
longest, an event is needed if and only if it is among the best k of those taken so far, itself included, which a heap
of k knows. In a window of so many events in which some expire, an event outstays another if it is newer and expires no
sooner; there the needed ones that are newer are counted.

Cost: O(n log k) for n events held; O(n) for each event that is needed in a window of events of which some expire.
"""

from __future__ import annotations

import numpy as np

from rankcast.arrays import Array
from rankcast.compiling import compiled, inlined
from rankcast.delivery.engine.kernels.top_list import list_of, outranks
from rankcast.delivery.engine.layout import (
    COUNT,
    EVENT,
    EXPIRY,
    GONE,
    HEAD,
    KIND,
    NEXT,
    SCORE,
    SETTING,
    SLIDING,
    SLOT,
    SPAN,
    START,
    TIME,
    TIME_WINDOW,
    TOP,
    K,
)
from rankcast.model.times import NEVER


@inlined
def leaves(queues: Array, arena: Array, queue: int, slot: int) -> int:
    """Return when an event leaves a window by itself."""
    if queues[queue, KIND] == TIME_WINDOW:
        return int(min(arena[slot + EXPIRY], arena[slot + TIME] + queues[queue, SPAN]))
    return int(arena[slot + EXPIRY])


@compiled
def _longest_first(queues: Array, arena: Array, queue: int) -> Array:
    """Return the slots of a window of time from the one that stays longest on, of equals the better one first.

    They are nearly in this order already: only events that expire, or with times out of order, are not.
    """
    first, count = queues[queue, START] + SLOT * queues[queue, HEAD], queues[queue, COUNT]
    slots, ends = np.empty(count, np.int64), np.empty(count, np.int64)
    for taken in range(count):
        slot = first + SLOT * (count - 1 - taken)
        end = leaves(queues, arena, queue, slot)
        at = taken
        while at > 0 and (end > ends[at - 1] or (end == ends[at - 1] and outranks(arena, slot, slots[at - 1]))):
            slots[at], ends[at] = slots[at - 1], ends[at - 1]
            at -= 1
        slots[at], ends[at] = slot, end
    return slots


@inlined
def _sink(arena: Array, heap: Array, size: int) -> None:
    """Let the first of a heap, whose first is the worst, down to its place."""
    at, slot = 0, heap[0]
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and outranks(arena, heap[child], heap[child + 1]):
            child += 1
        if not outranks(arena, slot, heap[child]):
            break
        heap[at] = heap[child]
        at = child
    heap[at] = slot


@inlined
def _rise(arena: Array, heap: Array, at: int) -> None:
    slot = heap[at]
    while at > 0:
        above = (at - 1) >> 1
        if not outranks(arena, heap[above], slot):
            break
        heap[at] = heap[above]
        at = above
    heap[at] = slot


@inlined
def _is_among_best(arena: Array, heap: Array, size: int, slot: int) -> bool:
    """Whether an event is among the best of those offered so far, for whom a heap has room; if so, it is put there."""
    if size < len(heap):
        heap[size] = slot
        _rise(arena, heap, size)
        return True
    if size == 0 or arena[slot + SCORE] < arena[heap[0] + SCORE] or not outranks(arena, slot, heap[0]):
        return False
    heap[0] = slot
    _sink(arena, heap, size)
    return True


@compiled
def _mark_newest(arena: Array, first: int, k: int, marks: Array) -> None:
    """Mark what is among the best k of itself and all that are newer."""
    count, size = len(marks), 0
    heap = np.empty(min(k, count), np.int64)
    for offset in range(count - 1, -1, -1):
        if _is_among_best(arena, heap, size, first + SLOT * offset):
            marks[offset] = 1
            size = min(size + 1, len(heap))


@compiled
def _mark_longest(queues: Array, arena: Array, queue: int, first: int, marks: Array) -> None:
    """Mark what is among the best k of itself and all that stay as long."""
    slots, size = _longest_first(queues, arena, queue), 0
    heap = np.empty(min(queues[queue, K], len(slots)), np.int64)
    for at in range(len(slots)):
        if _is_among_best(arena, heap, size, slots[at]):
            marks[(slots[at] - first) // SLOT] = 1
            size = min(size + 1, len(heap))


@compiled
def _mark_by_places(arena: Array, first: int, k: int, marks: Array) -> None:
    """Mark what fewer than k newer ones precede and outlive."""
    kept, size = np.empty(len(marks), np.int64), 0
    for offset in range(len(marks) - 1, -1, -1):
        slot, above = first + SLOT * offset, 0
        if arena[slot + EVENT] == GONE:
            continue
        for other in range(size):
            if arena[kept[other] + EXPIRY] >= arena[slot + EXPIRY] and outranks(arena, kept[other], slot):
                above += 1
                if above == k:
                    break
        if above < k:
            kept[size] = slot
            size += 1
            marks[offset] = 1


@compiled
def drop_unneeded(queues: Array, arena: Array, queue: int) -> None:
    """Drop what a window does not need, all of which stays where it diversifies; put the rest into its first slots."""
    start, head, count, k = queues[queue, START], queues[queue, HEAD], queues[queue, COUNT], queues[queue, K]
    first = start + SLOT * head
    marks = np.zeros(count, np.int64)
    if queues[queue, SETTING]:
        marks[:] = 1
    elif queues[queue, KIND] == TIME_WINDOW:
        _mark_longest(queues, arena, queue, first, marks)
    elif queues[queue, NEXT] == NEVER:
        _mark_newest(arena, first, k, marks)
    else:
        _mark_by_places(arena, first, k, marks)
    keeps_places = queues[queue, KIND] == SLIDING
    kept, soonest = 0, NEVER
    for offset in range(count):
        slot = first + SLOT * offset
        if marks[offset] == 0:
            marks[offset] = -1
            if not keeps_places or kept == 0 or arena[slot + EXPIRY] == NEVER:
                continue
            arena[slot + EVENT] = GONE
        else:
            marks[offset] = kept
        soonest = min(soonest, leaves(queues, arena, queue, slot))
        to = start + SLOT * kept
        if to != slot:
            for word in range(SLOT):
                arena[to + word] = arena[slot + word]
        kept += 1
    queues[queue, HEAD], queues[queue, COUNT], queues[queue, NEXT] = 0, kept, soonest
    _renumber_list(queues, arena, queue, head, marks)


@inlined
def _renumber_list(queues: Array, arena: Array, queue: int, head: int, targets: Array) -> None:
    """Let the list name the new slots of what is still held. It was the best of all, so it is the best of the rest."""
    scores, places = list_of(queues, queue)
    length = 0
    for at in range(queues[queue, TOP]):
        target = targets[(arena[places + at] >> 1) - head]
        if target >= 0:
            arena[scores + length] = arena[scores + at]
            arena[places + length] = 2 * target + (arena[places + at] & 1)
            length += 1
    queues[queue, TOP] = length


@compiled
def drop_unneeded_of(queues: Array, arena: Array, chosen: Array) -> None:
    """Drop what some windows do not need."""
    for at in range(len(chosen)):
        queue = chosen[at]
        if SLIDING <= queues[queue, KIND] <= TIME_WINDOW and queues[queue, COUNT]:
            drop_unneeded(queues, arena, queue)
