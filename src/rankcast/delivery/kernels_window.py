"""Batched sliding delivery and top-k in a window: a ring of the window's events and the list of its best.

The common arrival (worse than the best, and so is the one that leaves) costs O(1). One among the best costs O(k). An
event that expires before it would leave costs O(w): those before it in the ring move up.

With diversity the list has what was selected; `kernels_diverse_steps` keeps it, around the steps that are made here.

NEXT is a lower bound of the expiries held, exact after every search for expired events. Without expiries the first to
leave a window of time is its oldest event, so the next departure is the smaller of two numbers.
"""

from __future__ import annotations

from rankcast.compiling import inlined
from rankcast.delivery.batch_layout import (
    CAPACITY,
    COUNT,
    EVENT,
    EXPIRY,
    HEAD,
    NEVER,
    NEXT,
    SCORE,
    SETTING,
    SLOT,
    SPAN,
    START,
    TIME,
    TOP,
    UNSEEN,
    WINDOW,
    Array,
    K,
)
from rankcast.delivery.kernels_best import delist, deselect, enlist, list_again, list_of
from rankcast.delivery.kernels_room import ARENA_FULL, DONE, FOUND_FULL, has_room, has_slot, write


@inlined
def place_at(queues: Array, queue: int, offset: int) -> int:
    """Return the slot that is so many after the oldest event's."""
    place = queues[queue, HEAD] + offset
    return int(place - queues[queue, CAPACITY] if place >= queues[queue, CAPACITY] else place)


@inlined
def enter(queues: Array, arena: Array, queue: int, event: int, time: int, expiry: int, score: int) -> None:
    """Put an event into the next free slot."""
    count = queues[queue, COUNT]
    place = place_at(queues, queue, count)
    slot = queues[queue, START] + SLOT * place
    arena[slot + EVENT], arena[slot + TIME], arena[slot + EXPIRY], arena[slot + SCORE] = event, time, expiry, score
    queues[queue, COUNT] = count + 1
    queues[queue, NEXT] = min(queues[queue, NEXT], expiry)
    if queues[queue, SETTING] == 0:
        enlist(queues, arena, queue, place, count - queues[queue, TOP])


@inlined
def leave(queues: Array, arena: Array, queue: int, offset: int) -> None:
    """Remove the event that is so many after the oldest; what follows it is then at this offset."""
    if queues[queue, SETTING]:
        deselect(queues, arena, queue, place_at(queues, queue, offset))
    else:
        delist(queues, arena, queue, place_at(queues, queue, offset))
    if offset > 0:
        _move_up(queues, arena, queue, offset)
    queues[queue, HEAD] = place_at(queues, queue, 1)
    queues[queue, COUNT] -= 1


@inlined
def _move_up(queues: Array, arena: Array, queue: int, offset: int) -> None:
    """Move the events before an offset by one, over the one that is there."""
    start, head, capacity = queues[queue, START], queues[queue, HEAD], queues[queue, CAPACITY]
    place = place_at(queues, queue, offset)
    while place != head:
        before = place - 1 if place > 0 else capacity - 1
        for word in range(SLOT):
            arena[start + SLOT * place + word] = arena[start + SLOT * before + word]
        place = before
    _, places = list_of(queues, queue)
    for at in range(places, places + queues[queue, TOP]):
        distance = (arena[at] >> 1) - head
        if distance < 0:
            distance += capacity
        if distance < offset:
            arena[at] = 2 * place_at(queues, queue, distance + 1) + (arena[at] & 1)


@inlined
def expire(queues: Array, arena: Array, queue: int, now: int) -> None:
    """Remove every expired event. What follows a removed one stays in its slot, so one walk over the slots will do."""
    start, capacity, count = queues[queue, START], queues[queue, CAPACITY], queues[queue, COUNT]
    soonest, offset, place = NEVER, 0, queues[queue, HEAD]
    for _ in range(count):
        expiry = arena[start + SLOT * place + EXPIRY]
        if expiry <= now:
            leave(queues, arena, queue, offset)
        else:
            soonest = min(soonest, expiry)
            offset += 1
        place = place + 1 if place + 1 < capacity else 0
    queues[queue, NEXT] = soonest


@inlined
def evaluate(queues: Array, arena: Array, found: Array, counters: Array, queue: int, instant: int) -> None:
    """Deliver those of the best k that were not delivered before."""
    wanted = min(queues[queue, K], queues[queue, COUNT])
    if queues[queue, TOP] < wanted:
        list_again(queues, arena, queue)
    _, places = list_of(queues, queue)
    for at in range(places, places + wanted):
        if arena[at] & 1 == 0:
            slot = queues[queue, START] + SLOT * (arena[at] >> 1)
            write(found, counters, queue, arena[slot + EVENT], instant, arena[slot + SCORE])
            arena[slot + EVENT] = ~arena[slot + EVENT]
            arena[at] |= 1


@inlined
def admit_to_count_window(
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
    """Let expired events leave, then the oldest if the window is full, then the new one enter."""
    if not has_room(found, counters, min(queues[queue, K], queues[queue, COUNT] + 1)):
        return FOUND_FULL
    if queues[queue, COUNT] < queues[queue, WINDOW] and not has_slot(queues, arena, counters, queue):
        return ARENA_FULL
    if queues[queue, NEXT] <= time:
        expire(queues, arena, queue, time)
    if expiry > time:
        if queues[queue, COUNT] == queues[queue, WINDOW]:
            leave(queues, arena, queue, 0)
        enter(queues, arena, queue, event, time, expiry, score)
    return DONE


@inlined
def arrive_in_count_window(
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
    """Let an event enter as others leave; evaluate."""
    status = admit_to_count_window(queues, arena, found, counters, queue, event, time, expiry, score)
    if status == DONE:
        evaluate(queues, arena, found, counters, queue, time)
    return status


@inlined
def arrive_in_time_window(
    queues: Array, arena: Array, counters: Array, queue: int, event: int, time: int, expiry: int, score: int
) -> int:
    """Let an event enter; its instant is evaluated when it is over."""
    if expiry > time:
        if not has_slot(queues, arena, counters, queue):
            return ARENA_FULL
        enter(queues, arena, queue, event, time, expiry, score)
        queues[queue, UNSEEN] = time
    return DONE


@inlined
def next_instant(queues: Array, arena: Array, queue: int) -> int:
    """Return the first instant at which something entered that was not evaluated, or something leaves."""
    instant = min(queues[queue, UNSEEN], queues[queue, NEXT])
    if queues[queue, COUNT]:
        instant = min(instant, _oldest(queues, arena, queue) + queues[queue, SPAN])
    return int(instant)


@inlined
def depart(queues: Array, arena: Array, queue: int, instant: int) -> None:
    """Let everything leave whose time is over."""
    span = queues[queue, SPAN]
    while queues[queue, COUNT] and _oldest(queues, arena, queue) + span <= instant:
        leave(queues, arena, queue, 0)
    if queues[queue, NEXT] <= instant:
        expire(queues, arena, queue, instant)
    queues[queue, UNSEEN] = NEVER


@inlined
def pass_in_window(queues: Array, arena: Array, found: Array, counters: Array, queue: int, now: int) -> int:
    """Evaluate, in order, the instants before `now` at which something entered or left."""
    while True:
        instant = next_instant(queues, arena, queue)
        if instant >= now:
            return DONE
        if not has_room(found, counters, min(queues[queue, K], queues[queue, COUNT])):
            return FOUND_FULL
        depart(queues, arena, queue, instant)
        evaluate(queues, arena, found, counters, queue, instant)


@inlined
def _oldest(queues: Array, arena: Array, queue: int) -> int:
    """Return the time of the oldest event."""
    return int(arena[queues[queue, START] + SLOT * queues[queue, HEAD] + TIME])
