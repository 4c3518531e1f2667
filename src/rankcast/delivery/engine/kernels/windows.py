"""Batched sliding delivery and top-k in a window: the window's events in order of arrival, and the list of its best.

The common arrival (worse than the best, and so is the one that leaves) costs O(1). One among the best costs O(k). An
event that expires before it would leave costs O(n) in the events held: those before it move up.

What leaves a window of time in the order in which it came, as all does that does not expire, costs O(1).

An event has left a window of so many events when as many have entered after it: arrival numbers tell. In a sliding
window an event that expires frees its place, so those before it count as one newer; in top-k windows it does not.

With diversity the list has what was selected; `diverse` keeps it, around the steps that are made here.

NEXT is a lower bound of the instants at which an event leaves by itself, exact after every search for such events.
"""

from __future__ import annotations

from rankcast.arrays import Array
from rankcast.compiling import inlined
from rankcast.delivery.engine.kernels.buffers import ARENA_FULL, DONE, FOUND_FULL, has_room, has_slot, write
from rankcast.delivery.engine.kernels.needed import leaves
from rankcast.delivery.engine.kernels.top_list import delist, deselect, enlist, list_of, rebuild_top
from rankcast.delivery.engine.layout import (
    ARRIVAL,
    COUNT,
    ENTERED,
    EVENT,
    EXPIRY,
    HEAD,
    KIND,
    NEXT,
    SCORE,
    SETTING,
    SLIDING,
    SLOT,
    SPAN,
    START,
    STRAY,
    TIME,
    TIME_WINDOW,
    TOP,
    UNSEEN,
    WINDOW,
    K,
)
from rankcast.model.times import NEVER


@inlined
def enter(queues: Array, arena: Array, queue: int, event: int, time: int, expiry: int, score: int) -> None:
    """Put an event into the next free slot."""
    count = queues[queue, COUNT]
    place = queues[queue, HEAD] + count
    slot = queues[queue, START] + SLOT * place
    queues[queue, ENTERED] += 1
    arena[slot + EVENT], arena[slot + TIME], arena[slot + EXPIRY], arena[slot + SCORE] = event, time, expiry, score
    arena[slot + ARRIVAL] = queues[queue, ENTERED]
    queues[queue, COUNT] = count + 1
    end = leaves(queues, arena, queue, slot)
    queues[queue, NEXT] = min(queues[queue, NEXT], end)
    if queues[queue, KIND] == TIME_WINDOW and count and end < leaves(queues, arena, queue, slot - SLOT):
        queues[queue, STRAY] = queues[queue, ENTERED]
    if queues[queue, SETTING] == 0:
        enlist(queues, arena, queue, place, count - queues[queue, TOP])


@inlined
def leave(queues: Array, arena: Array, queue: int, offset: int) -> None:
    """Remove the event that is so many slots after the first; what follows it is then at this offset."""
    if queues[queue, SETTING]:
        deselect(queues, arena, queue, queues[queue, HEAD] + offset)
    else:
        delist(queues, arena, queue, queues[queue, HEAD] + offset)
    if offset > 0:
        _move_up(queues, arena, queue, offset)
    queues[queue, HEAD] += 1
    queues[queue, COUNT] -= 1


@inlined
def _move_up(queues: Array, arena: Array, queue: int, offset: int) -> None:
    """Move the events before an offset by one slot, over the one that is there."""
    head = queues[queue, HEAD]
    first = queues[queue, START] + SLOT * head
    newer = int(queues[queue, KIND] == SLIDING)
    for word in range(SLOT * offset - 1, -1, -1):
        arena[first + SLOT + word] = arena[first + word]
    if newer:
        for moved in range(1, offset + 1):
            arena[first + SLOT * moved + ARRIVAL] += newer
    _, places = list_of(queues, queue)
    for at in range(places, places + queues[queue, TOP]):
        if (arena[at] >> 1) - head < offset:
            arena[at] += 2


@inlined
def remove_departed(queues: Array, arena: Array, queue: int, now: int) -> None:
    """Remove every event that has left by itself. What follows a removed one stays in its slot, so one walk will do."""
    soonest, offset = NEVER, 0
    slot = queues[queue, START] + SLOT * queues[queue, HEAD]
    if queues[queue, KIND] == TIME_WINDOW and queues[queue, COUNT] and arena[slot + ARRIVAL] > queues[queue, STRAY]:
        while queues[queue, COUNT] and leaves(queues, arena, queue, slot) <= now:
            leave(queues, arena, queue, 0)
            slot += SLOT
        queues[queue, NEXT] = leaves(queues, arena, queue, slot) if queues[queue, COUNT] else NEVER
        return
    for _ in range(queues[queue, COUNT]):
        end = leaves(queues, arena, queue, slot)
        if end <= now:
            leave(queues, arena, queue, offset)
        else:
            soonest = min(soonest, end)
            offset += 1
        slot += SLOT
    queues[queue, NEXT] = soonest


@inlined
def evaluate(queues: Array, arena: Array, found: Array, counters: Array, queue: int, instant: int) -> None:
    """Deliver those of the best k that were not delivered before."""
    wanted = min(queues[queue, K], queues[queue, COUNT])
    if queues[queue, TOP] < wanted:  # seldom, so that what follows is left out elsewhere
        if queues[queue, SETTING] == 0:
            rebuild_top(queues, arena, queue)
        wanted = min(wanted, queues[queue, TOP])
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
    now: int,
) -> int:
    """Let expired events leave, then the new one enter, then those leave that are no longer among the most recent."""
    if not has_room(found, counters, min(queues[queue, K], queues[queue, COUNT] + 1)):
        return FOUND_FULL
    if not has_slot(queues, arena, counters, queue):
        return ARENA_FULL
    if queues[queue, NEXT] <= now:
        remove_departed(queues, arena, queue, now)
    oldest = queues[queue, ENTERED] + 2 - queues[queue, WINDOW]
    while queues[queue, COUNT] and arena[queues[queue, START] + SLOT * queues[queue, HEAD] + ARRIVAL] < oldest:
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
    now: int,
) -> int:
    """Let an event enter as others leave; evaluate."""
    if expiry <= now:
        return DONE
    status = admit_to_count_window(queues, arena, found, counters, queue, event, time, expiry, score, now)
    if status == DONE:
        evaluate(queues, arena, found, counters, queue, now)
    return status


@inlined
def arrive_in_time_window(
    queues: Array, arena: Array, counters: Array, queue: int, event: int, time: int, expiry: int, score: int, now: int
) -> int:
    """Let an event enter once those have left that live no longer; its instant is evaluated when it is over."""
    if min(expiry, time + queues[queue, SPAN]) > now:
        if queues[queue, NEXT] <= now:
            remove_departed(queues, arena, queue, now)
        if not has_slot(queues, arena, counters, queue):
            return ARENA_FULL
        enter(queues, arena, queue, event, time, expiry, score)
        queues[queue, UNSEEN] = now
    return DONE


@inlined
def next_instant(queues: Array, queue: int) -> int:
    """Return the first instant at which something entered that was not evaluated, or something may leave."""
    return int(min(queues[queue, UNSEEN], queues[queue, NEXT]))


@inlined
def depart(queues: Array, arena: Array, queue: int, instant: int) -> None:
    """Let everything leave whose time is over."""
    if queues[queue, NEXT] <= instant:
        remove_departed(queues, arena, queue, instant)
    queues[queue, UNSEEN] = NEVER


@inlined
def pass_in_window(queues: Array, arena: Array, found: Array, counters: Array, queue: int, now: int) -> int:
    """Evaluate, in order, the instants before `now` at which something entered or left."""
    while True:
        instant = next_instant(queues, queue)
        if instant >= now:
            return DONE
        if not has_room(found, counters, min(queues[queue, K], queues[queue, COUNT])):
            return FOUND_FULL
        depart(queues, arena, queue, instant)
        evaluate(queues, arena, found, counters, queue, instant)
