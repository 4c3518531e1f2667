"""What a queue holds: its region of the arena, the list of the best of its events, and what a window can do without.

**The list of the best**, best first. Invariant: it is a prefix of all held events in order (score, newer, lower
number), of at most `listed_at_most` events: up to twice k, so that events can leave a while before the list is shorter
than k and has to be made again from all held events. An event worse than the last one listed is turned away by one
comparison. With `ties: keep` the order is (score, delivered, newer, lower number), where it does not matter in which
order delivered equals come: an event that is delivered, as one of the first k, is behind no equal that was not.
Cost: O(1) for what is not listed, O(k) for what is; O(n k) to make the list again, which is rare.

**What a window can do without**: `rankcast.delivery.rules.queues.needed`. An event is not needed when at least k others
come before it and leave no sooner; with `ties: keep` a delivered one only if also k delivered others score as high and
leave no sooner. Taken from the one that stays longest, an event is needed if and only if it is among
the best k of those taken so far, itself included, which a heap of k knows. In a window of so many events in which some
expire, an event outstays another if it is newer and expires no sooner; there the needed ones that are newer are
counted. Cost: O(n log k) for n events held; O(n) for each event that is needed in a window of events of which some
expire.

**A bounded queue** lists all that it holds, up to as many as it may, so the worst is the last one listed.

**Calendars.** Behind its named words `counters` has the ends of the periods in which the call's events arrive, of each
calendar ascending: first where those of each calendar begin in it, and where the last ones end, then the ends. The end
of the period that an instant lies in is the first one after it, or the last one there is.

**Room.** `counters` has the end of the used part of the arena and the number of deliveries written. A kernel stops
between two complete steps of one queue with FOUND_FULL or ARENA_FULL; its caller makes room and lets it go on from
there. A window without a free slot behind its others first moves to its front, if enough have left there; a small one
is given more slots; a larger one drops what it does not need, and is given more only when few are free then. So an
arrival costs O(1) here on average, and a window never has many more slots than it needs, or than are few anyway.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rankcast.arrays import Array
from rankcast.compiling import borrowing_inlined, compiled
from rankcast.compiling.intrinsics import move_words
from rankcast.delivery.engine.layout import (
    CONTINUOUS,
    COUNT_WINDOW,
    GONE,
    HELD,
    LINE,
    LONGEST,
    PERIODIC,
    SLIDING,
    SLOT,
    TIME_WINDOW,
)
from rankcast.model.times import NEVER

DONE, FOUND_FULL, ARENA_FULL = range(3)
USED, WRITTEN, TIMED, CALENDARS = range(4)
"""The words of `counters`; TIMED is the number of timers, CALENDARS where what is said of calendars begins."""

FEWEST_SLOTS = 4
"""Of a queue that holds anything."""

FEW_SLOTS = 128
"""With fewer, a window is given more before it looks for what it does not need: a look costs as much as 30 arrivals."""

MANY_SLOTS = 48
"""Free slots that are enough for any queue: the more there are, the less often what is not needed is looked for."""


class Arrival(NamedTuple):
    """An event that arrives in a queue: its word, its time, when it expires, and its score as an integer."""

    event: int
    time: int
    expiry: int
    score: int


@borrowing_inlined
def fill_slot(arena: Array, slot: int, arrival: Arrival, last: int) -> None:
    """Write an event, and the last word of its slot."""
    arena[slot + HELD.event], arena[slot + HELD.time] = arrival.event, arrival.time
    arena[slot + HELD.expiry], arena[slot + HELD.score] = arrival.expiry, arrival.score
    arena[slot + HELD.arrival] = last


@borrowing_inlined
def number_of(word: int) -> int:
    """Return the number of an event, delivered or not."""
    return word if word >= 0 else ~word


@borrowing_inlined
def comes_before(arena: Array, slot: int, arrival: Arrival) -> bool:
    """Whether the event of a slot comes before one that arrives."""
    if arena[slot + HELD.score] != arrival.score:
        return bool(arena[slot + HELD.score] > arrival.score)
    if arena[slot + HELD.time] != arrival.time:
        return bool(arena[slot + HELD.time] > arrival.time)
    return bool(number_of(arena[slot + HELD.event]) < arrival.event)


@borrowing_inlined
def is_bounded(queues: Array, queue: int) -> bool:
    """Whether a queue is a bounded one."""
    return bool(queues[queue, LINE.kind] == COUNT_WINDOW and queues[queue, LINE.span] != LONGEST)


@borrowing_inlined
def listed_at_most(queues: Array, queue: int) -> int:
    """Return how many events a queue lists at most."""
    if queues[queue, LINE.kind] == CONTINUOUS:  # nor does ALL list any, as it has no slots
        return 0
    if queues[queue, LINE.kind] == PERIODIC or queues[queue, LINE.setting]:
        return int(queues[queue, LINE.k])
    most = queues[queue, LINE.span] if is_bounded(queues, queue) else 2 * queues[queue, LINE.k]
    return int(min(queues[queue, LINE.window], most))


@borrowing_inlined
def words_of(queues: Array, queue: int, capacity: int) -> int:
    """Return how many words a region of so many slots takes."""
    return SLOT * capacity + 2 * min(capacity, listed_at_most(queues, queue))


@borrowing_inlined
def list_of(queues: Array, queue: int) -> tuple[int, int]:
    """Return where the scores and the places of the list begin."""
    capacity = queues[queue, LINE.capacity]
    scores = queues[queue, LINE.start] + SLOT * capacity
    return scores, scores + min(capacity, listed_at_most(queues, queue))


@borrowing_inlined
def outranks(arena: Array, slot: int, other: int) -> bool:
    """Whether the event of one slot comes before that of another."""
    if arena[slot + HELD.score] != arena[other + HELD.score]:
        return bool(arena[slot + HELD.score] > arena[other + HELD.score])
    if arena[slot + HELD.time] != arena[other + HELD.time]:
        return bool(arena[slot + HELD.time] > arena[other + HELD.time])
    return bool(number_of(arena[slot + HELD.event]) < number_of(arena[other + HELD.event]))


@borrowing_inlined
def _is_listed_before(queues: Array, arena: Array, queue: int, slot: int, listed: int) -> bool:
    """Whether the event of a slot comes before one that scores as high, given by its place in the list."""
    if queues[queue, LINE.ties] and (arena[slot + HELD.event] < 0) != (listed & 1 == 1):
        return bool(arena[slot + HELD.event] < 0)
    return outranks(arena, slot, queues[queue, LINE.start] + SLOT * (listed >> 1))


@borrowing_inlined
def enlist(queues: Array, arena: Array, queue: int, place: int, unlisted: int) -> bool:
    """List the event of a slot if it is good enough; `unlisted` other events are held but not listed.

    Returns whether it is listed. The last one is dropped when the list is full.
    """
    start, length = queues[queue, LINE.start], queues[queue, LINE.top]
    scores, places = list_of(queues, queue)
    slot = start + SLOT * place
    score = arena[slot + HELD.score]
    is_full = length == places - scores
    if unlisted > 0 or is_full:
        if length == 0 or score < arena[scores + length - 1]:
            return False
        if score == arena[scores + length - 1] and not _is_listed_before(
            queues, arena, queue, slot, arena[places + length - 1]
        ):
            return False
    end = length - 1 if is_full else length
    at = end
    is_behind = queues[queue, LINE.ties] and arena[slot + HELD.event] >= 0  # its equals that were delivered
    while at > 0 and arena[scores + at - 1] <= score:
        if is_behind and arena[places + at - 1] & 1 and arena[scores + at - 1] == score:
            break
        at -= 1
    while at < end and arena[scores + at] == score:  # of equals the newest is the best, so mostly one look will do
        if _is_listed_before(queues, arena, queue, slot, arena[places + at]):
            break
        at += 1
    move_words(arena, scores + at + 1, arena, scores + at, end - at)
    move_words(arena, places + at + 1, arena, places + at, end - at)
    arena[scores + at] = score
    arena[places + at] = 2 * place + int(arena[slot + HELD.event] < 0)
    if not is_full:
        queues[queue, LINE.top] = length + 1
    return True


@borrowing_inlined
def delist(queues: Array, arena: Array, queue: int, place: int) -> None:
    """Take the event of a slot off the list, if it is there."""
    length = queues[queue, LINE.top]
    scores, places = list_of(queues, queue)
    score = arena[queues[queue, LINE.start] + SLOT * place + HELD.score]
    if length == 0 or score < arena[scores + length - 1]:
        return
    at = 0
    while at < length and arena[places + at] >> 1 != place:
        at += 1
    if at == length:
        return
    move_words(arena, scores + at, arena, scores + at + 1, length - 1 - at)
    move_words(arena, places + at, arena, places + at + 1, length - 1 - at)
    queues[queue, LINE.top] = length - 1


@borrowing_inlined
def deselect(queues: Array, arena: Array, queue: int, place: int) -> None:
    """Empty the list of a queue if the event at this place is on it."""
    _, places = list_of(queues, queue)
    for at in range(places, places + queues[queue, LINE.top]):
        if arena[at] >> 1 == place:
            queues[queue, LINE.top] = 0
            return


@borrowing_inlined
def rebuild_top(queues: Array, arena: Array, queue: int) -> None:
    """Make the list from all held events."""
    head, passed_over = queues[queue, LINE.head], 0
    queues[queue, LINE.top] = 0
    for offset in range(queues[queue, LINE.size]):
        if arena[queues[queue, LINE.start] + SLOT * (head + offset) + HELD.event] == GONE:
            passed_over += 1
        else:
            enlist(queues, arena, queue, head + offset, offset - passed_over - queues[queue, LINE.top])


@borrowing_inlined
def move_queue(queues: Array, source: Array, queue: int, target: Array, start: int, capacity: int) -> None:
    """Copy a queue's region to another one with room for all its events.

    Within one array the new region may overlap the old one if it begins no later and has no more slots.
    """
    old_start, head, length = queues[queue, LINE.start], queues[queue, LINE.head], queues[queue, LINE.top]
    old_scores, old_places = list_of(queues, queue)
    first = old_start + SLOT * head
    move_words(target, start, source, first, SLOT * queues[queue, LINE.size])
    queues[queue, LINE.start], queues[queue, LINE.capacity], queues[queue, LINE.head] = start, capacity, 0
    scores, places = list_of(queues, queue)
    move_words(target, scores, source, old_scores, length)
    for at in range(length):
        target[places + at] = source[old_places + at] - 2 * head


@borrowing_inlined
def leaves(queues: Array, arena: Array, queue: int, slot: int) -> int:
    """Return when an event leaves a window by itself."""
    if queues[queue, LINE.kind] == TIME_WINDOW:
        return int(min(arena[slot + HELD.expiry], arena[slot + HELD.time] + queues[queue, LINE.span]))
    return int(arena[slot + HELD.expiry])


@compiled
def _longest_first(queues: Array, arena: Array, queue: int) -> Array:
    """Return the slots of a window from the one that stays longest on, where that is known: where nothing expires, or
    in a window of time. There the better one of equals comes first.

    They are nearly in this order already: only events that expire, or with times out of order, are not.
    """
    first, count = queues[queue, LINE.start] + SLOT * queues[queue, LINE.head], queues[queue, LINE.size]
    is_timed = queues[queue, LINE.kind] == TIME_WINDOW
    slots, ends = np.empty(count, np.int64), np.empty(count, np.int64)
    for taken in range(count):
        slot = first + SLOT * (count - 1 - taken)
        end = leaves(queues, arena, queue, slot)
        at = taken
        while (
            is_timed
            and at > 0
            and (end > ends[at - 1] or (end == ends[at - 1] and outranks(arena, slot, slots[at - 1])))
        ):
            slots[at], ends[at] = slots[at - 1], ends[at - 1]
            at -= 1
        slots[at], ends[at] = slot, end
    return slots


@borrowing_inlined
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


@borrowing_inlined
def _rise(arena: Array, heap: Array, at: int) -> None:
    slot = heap[at]
    while at > 0:
        above = (at - 1) >> 1
        if not outranks(arena, heap[above], slot):
            break
        heap[at] = heap[above]
        at = above
    heap[at] = slot


@borrowing_inlined
def _counts_before(arena: Array, slot: int, other: int, equals: int) -> bool:
    """Whether an event comes before another one or, with `equals`, scores at least as high."""
    if equals:
        return bool(arena[slot + HELD.score] >= arena[other + HELD.score])
    return outranks(arena, slot, other)


@borrowing_inlined
def _is_among_best(arena: Array, heap: Array, size: int, slot: int, equals: int) -> bool:
    """Whether an event is among the best of those offered so far, for whom a heap has room; if so, it is put there."""
    if size < len(heap):
        heap[size] = slot
        _rise(arena, heap, size)
        return True
    if size == 0 or _counts_before(arena, heap[0], slot, equals):
        return False
    heap[0] = slot
    _sink(arena, heap, size)
    return True


@compiled
def _mark_best(arena: Array, first: int, k: int, slots: Array, marks: Array, equals: int) -> None:
    """Mark what is among the best k of itself and those before it; with `equals`, among what was delivered."""
    heap, size = np.empty(min(k, len(slots)), np.int64), 0
    for at in range(len(slots)):
        if equals and arena[slots[at] + HELD.event] >= 0:
            continue
        if _is_among_best(arena, heap, size, slots[at], equals):
            marks[(slots[at] - first) // SLOT] = 1
            size = min(size + 1, len(heap))


@compiled
def _mark_by_places(arena: Array, first: int, k: int, marks: Array, equals: int) -> None:
    """Mark what fewer than k newer ones precede and outlive; with `equals`, among what was delivered."""
    kept, size = np.empty(len(marks), np.int64), 0
    for offset in range(len(marks) - 1, -1, -1):
        slot, above = first + SLOT * offset, 0
        if arena[slot + HELD.event] == GONE or (equals and arena[slot + HELD.event] >= 0):
            continue
        for other in range(size):
            if arena[kept[other] + HELD.expiry] >= arena[slot + HELD.expiry] and _counts_before(
                arena, kept[other], slot, equals
            ):
                above += 1
                if above == k:
                    break
        if above < k:
            kept[size] = slot
            size += 1
            marks[offset] = 1


@compiled
def _mark_needed(queues: Array, arena: Array, queue: int, first: int, marks: Array) -> None:
    """Mark what a window needs that does not diversify."""
    k, keeps_ties = queues[queue, LINE.k], queues[queue, LINE.ties]
    if queues[queue, LINE.kind] == TIME_WINDOW or queues[queue, LINE.next] == NEVER:
        slots = _longest_first(queues, arena, queue)
        for equals in range(1 + keeps_ties):
            _mark_best(arena, first, k, slots, marks, equals)
    else:
        for equals in range(1 + keeps_ties):
            _mark_by_places(arena, first, k, marks, equals)


@compiled
def drop_unneeded(queues: Array, arena: Array, queue: int) -> None:
    """Drop what a window does not need; put the rest into its first slots.

    Where a window diversifies, and in a bounded queue, all that is held stays.
    """
    start, head = queues[queue, LINE.start], queues[queue, LINE.head]
    count, first = queues[queue, LINE.size], start + SLOT * head
    marks = np.zeros(count, np.int64)
    if queues[queue, LINE.setting] or is_bounded(queues, queue):
        marks[:] = 1
    else:
        _mark_needed(queues, arena, queue, first, marks)
    keeps_places = queues[queue, LINE.kind] == SLIDING
    kept, soonest = 0, NEVER
    for offset in range(count):
        slot = first + SLOT * offset
        if marks[offset] == 0:
            marks[offset] = -1
            if not keeps_places or kept == 0 or arena[slot + HELD.expiry] == NEVER:
                continue
            arena[slot + HELD.event] = GONE
        else:
            marks[offset] = kept
        soonest = min(soonest, leaves(queues, arena, queue, slot))
        to = start + SLOT * kept
        if to != slot:
            for word in range(SLOT):
                arena[to + word] = arena[slot + word]
        kept += 1
    queues[queue, LINE.head], queues[queue, LINE.size], queues[queue, LINE.next] = 0, kept, soonest
    _renumber_list(queues, arena, queue, head, marks)


@borrowing_inlined
def _renumber_list(queues: Array, arena: Array, queue: int, head: int, targets: Array) -> None:
    """Let the list name the new slots of what is still held. It was the best of all, so it is the best of the rest."""
    scores, places = list_of(queues, queue)
    length = 0
    for at in range(queues[queue, LINE.top]):
        target = targets[(arena[places + at] >> 1) - head]
        if target >= 0:
            arena[scores + length] = arena[scores + at]
            arena[places + length] = 2 * target + (arena[places + at] & 1)
            length += 1
    queues[queue, LINE.top] = length


@compiled
def drop_unneeded_of(queues: Array, arena: Array, chosen: Array) -> None:
    """Drop what some windows do not need."""
    for at in range(len(chosen)):
        queue = chosen[at]
        if SLIDING <= queues[queue, LINE.kind] <= TIME_WINDOW and queues[queue, LINE.size]:
            drop_unneeded(queues, arena, queue)


@borrowing_inlined
def has_room(found: Array, counters: Array, deliveries: int) -> bool:
    """Whether so many deliveries can be written."""
    return bool(found.shape[1] - counters[WRITTEN] >= deliveries)


@borrowing_inlined
def write(found: Array, counters: Array, queue: int, event: int, instant: int, score: int) -> None:
    """Write one delivery."""
    at = counters[WRITTEN]
    found[0, at], found[1, at], found[2, at], found[3, at] = queue, event, instant, score
    counters[WRITTEN] = at + 1


@borrowing_inlined
def capacity_for(count: int) -> int:
    """Return how many slots a queue is given that holds so many events: twice as many if these are few, else 11/8."""
    return max(FEWEST_SLOTS, count + max(3 * count >> 3, min(count, MANY_SLOTS)))


@borrowing_inlined
def has_slot(queues: Array, arena: Array, counters: Array, queue: int) -> bool:
    """Whether a queue has a free slot behind its others, now that it was given one if need be and possible."""
    if queues[queue, LINE.head] + queues[queue, LINE.size] < queues[queue, LINE.capacity]:
        return True
    return _has_made_room(queues, arena, counters, queue)


@compiled
def _has_made_room(queues: Array, arena: Array, counters: Array, queue: int) -> bool:
    capacity = queues[queue, LINE.capacity]
    is_window = SLIDING <= queues[queue, LINE.kind] <= TIME_WINDOW
    if is_window and capacity:
        if 8 * queues[queue, LINE.head] >= capacity:
            move_queue(queues, arena, queue, arena, queues[queue, LINE.start], capacity)
            return True
        if capacity >= FEW_SLOTS:
            drop_unneeded(queues, arena, queue)
            if 3 * queues[queue, LINE.size] <= 2 * capacity:
                return True
    capacity, start = capacity_for(queues[queue, LINE.size]), counters[USED]
    if is_window:
        capacity = min(capacity, queues[queue, LINE.window] + (queues[queue, LINE.window] >> 2) + FEWEST_SLOTS)
    end = start + words_of(queues, queue, capacity)
    if end > len(arena):
        return False
    move_queue(queues, arena, queue, arena, start, capacity)
    counters[USED] = end
    return True


@compiled
def repack(queues: Array, arena: Array, order: Array, capacities: Array) -> int:
    """Put all queues one behind the other, in the order of their places, with capacities that are no larger than now.

    Returns where the last one ends.
    """
    end = 0
    for at in range(len(order)):
        queue = order[at]
        move_queue(queues, arena, queue, arena, end, capacities[queue])
        end += words_of(queues, queue, capacities[queue])
    return end


@compiled
def sizes_of(queues: Array, capacities: Array) -> Array:
    """Return how many words the regions of queues take with these capacities."""
    sizes = np.empty(len(queues), np.int64)
    for queue in range(len(queues)):
        sizes[queue] = words_of(queues, queue, capacities[queue])
    return sizes


@compiled
def copy_slots(counts: Array, source: Array, starts: Array, target: Array, new_starts: Array) -> None:
    """Copy so many slots of each queue from where they begin in an array to where they do in another."""
    for queue in range(len(counts)):
        move_words(target, new_starts[queue], source, starts[queue], SLOT * counts[queue])


@compiled
def first_out_of_order(queues: Array, slots: Array) -> int:
    """Return the first window whose slots, one behind the other, do not ascend by arrival up to who entered; or -1."""
    line = 0
    for queue in range(len(queues)):
        end = line + queues[queue, LINE.size]
        if SLIDING <= queues[queue, LINE.kind] <= TIME_WINDOW:
            before = -1
            for at in range(line, end):
                if slots[at, HELD.arrival] <= before:
                    return queue
                before = slots[at, HELD.arrival]
            if before > queues[queue, LINE.entered]:
                return queue
        line = end
    return -1
