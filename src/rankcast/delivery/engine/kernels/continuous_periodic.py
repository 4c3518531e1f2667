"""Batched continuous and periodic delivery: nothing is held but what is listed.

Continuous: the delivered events that can still hold back another one, in their order, best first, each with the number
of others that outrank and outlive it. That number never falls while the event is valid (what outlives it is valid as
well), so an event is dropped for good when it reaches k. Without expiries at most k are held. Cost: O(1) for an event
that is held back, O(n) in the events held for one that is delivered or when one has expired.

Periodic: the end of a period is known when an event arrives in it, so only the best k of those that will be valid then
are held. Cost: O(1) for an event worse than those, O(k) otherwise. With diversity all of them are held: O(1) for each,
and the selection at the end.
"""

from __future__ import annotations

from rankcast.arrays import Array
from rankcast.compiling import inlined
from rankcast.delivery.engine.kernels.buffers import ARENA_FULL, DONE, FOUND_FULL, has_room, has_slot, write
from rankcast.delivery.engine.kernels.top_list import enlist, list_of
from rankcast.delivery.engine.layout import (
    COUNT,
    DOMINATORS,
    EVENT,
    EXPIRY,
    NEXT,
    SCORE,
    SETTING,
    SLOT,
    SPAN,
    START,
    TIME,
    TOP,
    K,
)
from rankcast.model.times import LAST_INSTANT, NEVER


@inlined
def _copy(arena: Array, source: int, to: int) -> None:
    if source != to:
        for word in range(SLOT):
            arena[to + word] = arena[source + word]


@inlined
def _forget_expired(queues: Array, arena: Array, queue: int, now: int) -> None:
    start, kept, soonest = queues[queue, START], 0, NEVER
    for at in range(queues[queue, COUNT]):
        expiry = arena[start + SLOT * at + EXPIRY]
        if expiry > now:
            _copy(arena, start + SLOT * at, start + SLOT * kept)
            soonest = min(soonest, expiry)
            kept += 1
    queues[queue, COUNT], queues[queue, NEXT] = kept, soonest


@inlined
def _comes_before(arena: Array, slot: int, event: int, time: int, score: int) -> bool:
    """Whether the event of a slot comes before another one."""
    if arena[slot + SCORE] != score:
        return bool(arena[slot + SCORE] > score)
    if arena[slot + TIME] != time:
        return bool(arena[slot + TIME] > time)
    return bool(arena[slot + EVENT] < event)


@inlined
def arrive_continuously(
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
    """Deliver an event unless it has expired or k valid delivered events come before it."""
    k = queues[queue, K]
    if expiry <= now:
        return DONE
    if queues[queue, NEXT] <= now:
        _forget_expired(queues, arena, queue, now)
    last = queues[queue, START] + SLOT * (k - 1)
    if queues[queue, COUNT] >= k and _comes_before(arena, last, event, time, score):
        return DONE
    if not has_room(found, counters, 1):
        return FOUND_FULL
    if not has_slot(queues, arena, counters, queue):
        return ARENA_FULL
    write(found, counters, queue, event, now, score)
    remember(queues, arena, queue, event, time, expiry, score)
    return DONE


@inlined
def remember(queues: Array, arena: Array, queue: int, event: int, time: int, expiry: int, score: int) -> None:
    """Hold a delivered event unless k outrank and outlive it; drop those to which it is the k-th such event."""
    start, k = queues[queue, START], queues[queue, K]
    position, dominators = 0, 0
    while position < queues[queue, COUNT] and _comes_before(arena, start + SLOT * position, event, time, score):
        dominators += int(arena[start + SLOT * position + EXPIRY] >= expiry)
        position += 1
    kept = position
    for at in range(position, queues[queue, COUNT]):
        slot = start + SLOT * at
        if arena[slot + EXPIRY] <= expiry:
            arena[slot + DOMINATORS] += 1
        if arena[slot + DOMINATORS] < k:
            _copy(arena, slot, start + SLOT * kept)
            kept += 1
    if dominators < k:
        for at in range(kept, position, -1):
            _copy(arena, start + SLOT * (at - 1), start + SLOT * at)
        slot = start + SLOT * position
        arena[slot + EVENT], arena[slot + TIME], arena[slot + DOMINATORS] = event, time, dominators
        arena[slot + EXPIRY], arena[slot + SCORE] = expiry, score
        queues[queue, NEXT] = min(queues[queue, NEXT], expiry)
        kept += 1
    queues[queue, COUNT] = kept


@inlined
def arrive_in_period(
    queues: Array, arena: Array, counters: Array, queue: int, event: int, time: int, expiry: int, score: int, now: int
) -> int:
    """Hold an event that may be among the best k of its period and will be valid at its end."""
    period, end = queues[queue, SPAN], queues[queue, NEXT]
    if end == NEVER:
        end = min(now // period * period + period, LAST_INSTANT)
    if expiry <= end or expiry <= now:
        return DONE
    start, count = queues[queue, START], queues[queue, COUNT]
    place = count
    diversifies = queues[queue, SETTING] != 0
    if count == queues[queue, K] and not diversifies:
        _, places = list_of(queues, queue)
        place = arena[places + count - 1] >> 1
        if _comes_before(arena, start + SLOT * place, event, time, score):
            return DONE
        queues[queue, TOP] = count - 1
    elif has_slot(queues, arena, counters, queue):
        start = queues[queue, START]
        queues[queue, COUNT] = count + 1
    else:
        return ARENA_FULL
    queues[queue, NEXT] = end
    slot = start + SLOT * place
    arena[slot + EVENT], arena[slot + TIME], arena[slot + EXPIRY], arena[slot + SCORE] = event, time, expiry, score
    if not diversifies:
        enlist(queues, arena, queue, place, 0)
    return DONE


@inlined
def pass_in_period(queues: Array, arena: Array, found: Array, counters: Array, queue: int, now: int) -> int:
    """Deliver the best of a period that has ended."""
    end = queues[queue, NEXT]
    if end > now:
        return DONE
    if not has_room(found, counters, min(queues[queue, K], queues[queue, COUNT])):
        return FOUND_FULL
    start = queues[queue, START]
    _, places = list_of(queues, queue)
    for at in range(places, places + queues[queue, TOP]):
        slot = start + SLOT * (arena[at] >> 1)
        write(found, counters, queue, arena[slot + EVENT], end, arena[slot + SCORE])
    queues[queue, COUNT], queues[queue, TOP], queues[queue, NEXT] = 0, 0, NEVER
    return DONE
