"""What each policy does in batched queues when an event arrives and when time passes; `diverse` goes on from there.

`ties: keep` is in the order of that list: of equals, what was delivered comes first (`held`).

Continuous: the delivered events that can still hold back another one, in their order, best first, each with the number
of others that outrank and outlive it. That number never falls while the event is valid (what outlives it is valid as
well), so an event is dropped for good when it reaches k. Without expiries at most k are held. Cost: O(1) for an event
that is held back, O(n) in the events held for one that is delivered or when one has expired.

Periodic: the end of a period is known when an event arrives in it, so only the best k of those that will be valid then
are held. Cost: O(1) for an event worse than those, O(k) otherwise. With diversity all of them are held: O(1) for each,
and the selection at the end.

Sliding delivery, and top-k in a window: the window's events in order of arrival, and the list of its best. The common
arrival (worse than the best, and so is the one that leaves) costs O(1). One among the best costs O(k). An event that
expires before it would leave costs O(n) in the events held: those before it move up. What leaves a window of time in
the order in which it came, as all does that does not expire, costs O(1).

An event has left a window of so many events when as many have entered after it: arrival numbers tell. In a sliding
window an event that expires frees its place, so those before it count as one newer; in top-k windows it does not. With
diversity the list has what was selected; `diverse` keeps it, around the steps that are made here. NEXT is a lower bound
of the instants at which an event leaves by itself, exact after every search for such events. A bounded queue that is
full turns away what is worse than all that it holds by one comparison, and drops the worst for what is better, O(l).
"""

from __future__ import annotations

from rankcast.arrays import Array
from rankcast.compiling import ZERO, borrowing_inlined
from rankcast.delivery.engine.kernels.held import (
    ARENA_FULL,
    CALENDARS,
    DONE,
    FOUND_FULL,
    Arrival,
    comes_before,
    delist,
    deselect,
    enlist,
    fill_slot,
    has_room,
    has_slot,
    is_bounded,
    leaves,
    list_of,
    rebuild_top,
    write,
)
from rankcast.delivery.engine.layout import DOMINATORS, HELD, LINE, SLIDING, SLOT, TIME_WINDOW
from rankcast.model.times import LAST_INSTANT, NEVER


@borrowing_inlined
def _copy(arena: Array, source: int, to: int) -> None:
    if source != to:
        for word in range(SLOT):
            arena[to + word] = arena[source + word]


@borrowing_inlined
def _forget_expired(queues: Array, arena: Array, queue: int, now: int) -> None:
    start, kept, soonest = queues[queue, LINE.start], 0, NEVER
    for at in range(queues[queue, LINE.size]):
        expiry = arena[start + SLOT * at + HELD.expiry]
        if expiry > now:
            _copy(arena, start + SLOT * at, start + SLOT * kept)
            soonest = min(soonest, expiry)
            kept += 1
    queues[queue, LINE.size], queues[queue, LINE.next] = kept, soonest


@borrowing_inlined
def arrive_continuously(
    queues: Array, arena: Array, found: Array, counters: Array, queue: int, arrival: Arrival, now: int
) -> int:
    """Deliver an event unless it has expired or k valid delivered events come before it or, kept, score as high."""
    k = queues[queue, LINE.k]
    if arrival.expiry <= now:
        return DONE
    if queues[queue, LINE.next] <= now:
        _forget_expired(queues, arena, queue, now)
    last = queues[queue, LINE.start] + SLOT * (k - 1)
    if queues[queue, LINE.size] >= k and (
        comes_before(arena, last, arrival) or (queues[queue, LINE.ties] and arena[last + HELD.score] == arrival.score)
    ):
        return DONE
    if not has_room(found, counters, 1):
        return FOUND_FULL
    if not has_slot(queues, arena, counters, queue):
        return ARENA_FULL
    write(found, counters, queue, arrival.event, now, arrival.score)
    _remember(queues, arena, queue, arrival)
    return DONE


@borrowing_inlined
def _remember(queues: Array, arena: Array, queue: int, arrival: Arrival) -> None:
    """Hold a delivered event unless k outrank and outlive it; drop those to which it is the k-th such event."""
    start, k = queues[queue, LINE.start], queues[queue, LINE.k]
    position, dominators = 0, 0
    while position < queues[queue, LINE.size] and comes_before(arena, start + SLOT * position, arrival):
        dominators += int(arena[start + SLOT * position + HELD.expiry] >= arrival.expiry)
        position += 1
    kept = position
    for at in range(position, queues[queue, LINE.size]):
        slot = start + SLOT * at
        if arena[slot + HELD.expiry] <= arrival.expiry:
            arena[slot + DOMINATORS] += 1
        if arena[slot + DOMINATORS] < k:
            _copy(arena, slot, start + SLOT * kept)
            kept += 1
    if dominators < k:
        for at in range(kept, position, -1):
            _copy(arena, start + SLOT * (at - 1), start + SLOT * at)
        fill_slot(arena, start + SLOT * position, arrival, dominators)
        queues[queue, LINE.next] = min(queues[queue, LINE.next], arrival.expiry)
        kept += 1
    queues[queue, LINE.size] = kept


@borrowing_inlined
def end_of_period(counters: Array, span: int, now: int) -> int:
    """Return the end of the period that an instant lies in; see `held` for those of calendars."""
    if span > 0:
        return int(min(now // span * span + span, LAST_INSTANT))
    low, high = counters[CALENDARS + ~span], counters[CALENDARS + ~span + 1] - 1
    while low < high:
        middle = (low + high) >> 1
        if counters[middle] > now:
            high = middle
        else:
            low = middle + 1
    return int(counters[low])


@borrowing_inlined
def arrive_in_period(queues: Array, arena: Array, counters: Array, queue: int, arrival: Arrival, now: int) -> int:
    """Hold an event that may be among the best k of its period and will be valid at its end."""
    end = queues[queue, LINE.next]
    if end == NEVER:
        end = end_of_period(counters, queues[queue, LINE.span], now)
    if arrival.expiry <= end or arrival.expiry <= now:
        return DONE
    start, count = queues[queue, LINE.start], queues[queue, LINE.size]
    place = count
    diversifies = queues[queue, LINE.setting] != 0
    if count == queues[queue, LINE.k] and not diversifies:
        _, places = list_of(queues, queue)
        place = arena[places + count - 1] >> 1
        if comes_before(arena, start + SLOT * place, arrival):
            return DONE
        queues[queue, LINE.top] = count - 1
    elif has_slot(queues, arena, counters, queue):
        start = queues[queue, LINE.start]
        queues[queue, LINE.size] = count + 1
    else:
        return ARENA_FULL
    queues[queue, LINE.next] = end
    fill_slot(arena, start + SLOT * place, arrival, ZERO)
    if not diversifies:
        enlist(queues, arena, queue, place, 0)
    return DONE


@borrowing_inlined
def pass_in_period(queues: Array, arena: Array, found: Array, counters: Array, queue: int, now: int) -> int:
    """Deliver the best of a period that has ended."""
    end = queues[queue, LINE.next]
    if end > now:
        return DONE
    if not has_room(found, counters, min(queues[queue, LINE.k], queues[queue, LINE.size])):
        return FOUND_FULL
    start = queues[queue, LINE.start]
    _, places = list_of(queues, queue)
    for at in range(places, places + queues[queue, LINE.top]):
        slot = start + SLOT * (arena[at] >> 1)
        write(found, counters, queue, arena[slot + HELD.event], end, arena[slot + HELD.score])
    queues[queue, LINE.size], queues[queue, LINE.top], queues[queue, LINE.next] = 0, 0, NEVER
    return DONE


@borrowing_inlined
def _enter(queues: Array, arena: Array, queue: int, arrival: Arrival) -> None:
    """Put an event into the next free slot."""
    count = queues[queue, LINE.size]
    place = queues[queue, LINE.head] + count
    slot = queues[queue, LINE.start] + SLOT * place
    queues[queue, LINE.entered] += 1
    fill_slot(arena, slot, arrival, queues[queue, LINE.entered])
    queues[queue, LINE.size] = count + 1
    end = leaves(queues, arena, queue, slot)
    queues[queue, LINE.next] = min(queues[queue, LINE.next], end)
    if queues[queue, LINE.kind] == TIME_WINDOW and count and end < leaves(queues, arena, queue, slot - SLOT):
        queues[queue, LINE.stray] = queues[queue, LINE.entered]
    if queues[queue, LINE.setting] == 0:
        enlist(queues, arena, queue, place, count - queues[queue, LINE.top])


@borrowing_inlined
def _leave(queues: Array, arena: Array, queue: int, offset: int) -> None:
    """Remove the event that is so many slots after the first; what follows it is then at this offset."""
    if queues[queue, LINE.setting]:
        deselect(queues, arena, queue, queues[queue, LINE.head] + offset)
    else:
        delist(queues, arena, queue, queues[queue, LINE.head] + offset)
    if offset > 0:
        _move_up(queues, arena, queue, offset)
    queues[queue, LINE.head] += 1
    queues[queue, LINE.size] -= 1


@borrowing_inlined
def _move_up(queues: Array, arena: Array, queue: int, offset: int) -> None:
    """Move the events before an offset by one slot, over the one that is there."""
    head = queues[queue, LINE.head]
    first = queues[queue, LINE.start] + SLOT * head
    newer = int(queues[queue, LINE.kind] == SLIDING)
    for word in range(SLOT * offset - 1, -1, -1):
        arena[first + SLOT + word] = arena[first + word]
    if newer:
        for moved in range(1, offset + 1):
            arena[first + SLOT * moved + HELD.arrival] += newer
    _, places = list_of(queues, queue)
    for at in range(places, places + queues[queue, LINE.top]):
        if (arena[at] >> 1) - head < offset:
            arena[at] += 2


@borrowing_inlined
def _remove_departed(queues: Array, arena: Array, queue: int, now: int) -> None:
    """Remove every event that has left by itself. What follows a removed one stays in its slot, so one walk will do."""
    soonest, offset = NEVER, 0
    slot = queues[queue, LINE.start] + SLOT * queues[queue, LINE.head]
    is_timed = queues[queue, LINE.kind] == TIME_WINDOW
    if is_timed and queues[queue, LINE.size] and arena[slot + HELD.arrival] > queues[queue, LINE.stray]:
        while queues[queue, LINE.size] and leaves(queues, arena, queue, slot) <= now:
            _leave(queues, arena, queue, 0)
            slot += SLOT
        queues[queue, LINE.next] = leaves(queues, arena, queue, slot) if queues[queue, LINE.size] else NEVER
        return
    for _ in range(queues[queue, LINE.size]):
        end = leaves(queues, arena, queue, slot)
        if end <= now:
            _leave(queues, arena, queue, offset)
        else:
            soonest = min(soonest, end)
            offset += 1
        slot += SLOT
    queues[queue, LINE.next] = soonest


@borrowing_inlined
def evaluate(queues: Array, arena: Array, found: Array, counters: Array, queue: int, instant: int) -> None:
    """Deliver those of the best k that were not delivered before."""
    wanted = min(queues[queue, LINE.k], queues[queue, LINE.size])
    if queues[queue, LINE.top] < wanted:  # seldom, so that what follows is left out elsewhere
        if queues[queue, LINE.setting] == 0:
            rebuild_top(queues, arena, queue)
        wanted = min(wanted, queues[queue, LINE.top])
    _, places = list_of(queues, queue)
    for at in range(places, places + wanted):
        if arena[at] & 1 == 0:
            slot = queues[queue, LINE.start] + SLOT * (arena[at] >> 1)
            write(found, counters, queue, arena[slot + HELD.event], instant, arena[slot + HELD.score])
            arena[slot + HELD.event] = ~arena[slot + HELD.event]
            arena[at] |= 1


@borrowing_inlined
def admit_to_count_window(
    queues: Array, arena: Array, found: Array, counters: Array, queue: int, arrival: Arrival, now: int
) -> int:
    """Let expired events leave, then those that are no longer among the most recent, then the new one enter."""
    if not has_room(found, counters, min(queues[queue, LINE.k], queues[queue, LINE.size] + 1)):
        return FOUND_FULL
    if not has_slot(queues, arena, counters, queue):
        return ARENA_FULL
    if queues[queue, LINE.next] <= now:
        _remove_departed(queues, arena, queue, now)
    oldest = queues[queue, LINE.entered] + 2 - queues[queue, LINE.window]
    slot = queues[queue, LINE.start] + SLOT * queues[queue, LINE.head]
    while queues[queue, LINE.size] and arena[slot + HELD.arrival] < oldest:
        _leave(queues, arena, queue, 0)
        slot += SLOT
    if is_bounded(queues, queue) and not _is_better_than_worst(queues, arena, queue, arrival):
        queues[queue, LINE.entered] += 1
    else:
        _enter(queues, arena, queue, arrival)
    return DONE


@borrowing_inlined
def _is_better_than_worst(queues: Array, arena: Array, queue: int, arrival: Arrival) -> bool:
    """Whether a bounded queue has room for an event, or one that is worse; that one is dropped."""
    size = queues[queue, LINE.size]
    if size < queues[queue, LINE.span]:
        return True
    if queues[queue, LINE.top] < size:
        rebuild_top(queues, arena, queue)
    _, places = list_of(queues, queue)
    worst = arena[places + size - 1] >> 1
    if comes_before(arena, queues[queue, LINE.start] + SLOT * worst, arrival):
        return False
    _leave(queues, arena, queue, worst - queues[queue, LINE.head])
    return True


@borrowing_inlined
def arrive_in_count_window(
    queues: Array, arena: Array, found: Array, counters: Array, queue: int, arrival: Arrival, now: int
) -> int:
    """Let an event enter as others leave; evaluate."""
    if arrival.expiry <= now:
        return DONE
    status = admit_to_count_window(queues, arena, found, counters, queue, arrival, now)
    if status == DONE:
        evaluate(queues, arena, found, counters, queue, now)
    return status


@borrowing_inlined
def arrive_in_time_window(queues: Array, arena: Array, counters: Array, queue: int, arrival: Arrival, now: int) -> int:
    """Let an event enter once those have left that live no longer; its instant is evaluated when it is over."""
    if min(arrival.expiry, arrival.time + queues[queue, LINE.span]) > now:
        if queues[queue, LINE.next] <= now:
            _remove_departed(queues, arena, queue, now)
        if not has_slot(queues, arena, counters, queue):
            return ARENA_FULL
        _enter(queues, arena, queue, arrival)
        queues[queue, LINE.unseen] = now
    return DONE


@borrowing_inlined
def next_instant(queues: Array, queue: int) -> int:
    """Return the first instant at which something entered that was not evaluated, or something may leave."""
    return int(min(queues[queue, LINE.unseen], queues[queue, LINE.next]))


@borrowing_inlined
def depart(queues: Array, arena: Array, queue: int, instant: int) -> None:
    """Let everything leave whose time is over."""
    if queues[queue, LINE.next] <= instant:
        _remove_departed(queues, arena, queue, instant)
    queues[queue, LINE.unseen] = NEVER


@borrowing_inlined
def pass_in_window(queues: Array, arena: Array, found: Array, counters: Array, queue: int, now: int) -> int:
    """Evaluate, in order, the instants before `now` at which something entered or left."""
    while True:
        instant = next_instant(queues, queue)
        if instant >= now:
            return DONE
        if not has_room(found, counters, min(queues[queue, LINE.k], queues[queue, LINE.size])):
            return FOUND_FULL
        depart(queues, arena, queue, instant)
        evaluate(queues, arena, found, counters, queue, instant)
