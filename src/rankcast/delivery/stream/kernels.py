"""Kernels of a shard: rows in the order queues take them, identities seen before, what is still held and due.

A queue knows events by words (`matched_sets`). Words of different events are ordered as their numbers are.

Cost: sorting is by counting, O(rows + events + queues); identities cost one probe of a hash table per event; the others
are one pass over what they are given.
"""

from __future__ import annotations

import numpy as np

from rankcast.arrays import Array
from rankcast.compiling import compiled, inlined
from rankcast.delivery.engine.kernels.dispatch import due_at
from rankcast.delivery.engine.kernels.diverse import find
from rankcast.delivery.engine.kernels.held import number_of
from rankcast.delivery.engine.layout import HELD, LINE, PERIODIC, SLOT, TIME_WINDOW
from rankcast.delivery.stream.event_tables import SEED, digest, is_same
from rankcast.delivery.stream.matched_sets import CODE_BITS
from rankcast.model.times import NEVER


@compiled
def rows_in_order(queue: Array, place: Array, queues: int, places: int) -> Array:
    """Return the rows sorted by queue, then by place; both are counted from 0."""
    order = np.arange(len(queue))
    for at in range(1, len(queue)):
        if place[at] < place[at - 1]:
            order = _counted(place, order, places)
            break
    return _counted(queue, order, queues)


@inlined
def _counted(key: Array, order: Array, keys: int) -> Array:
    """Return rows, already in some order, sorted by a key; equal keys keep their order."""
    ends = np.zeros(keys + 1, np.int64)
    for at in range(len(order)):
        ends[key[at] + 1] += 1
    for at in range(keys):
        ends[at + 1] += ends[at]
    found = np.empty_like(order)
    for at in range(len(order)):
        row = order[at]
        found[ends[key[row]]] = row
        ends[key[row]] += 1
    return found


@compiled
def without_repeats(order: Array, queue: Array, place: Array, score: Array, expires: Array, matched: Array) -> Array:
    """Keep one of the rows with the same queue and place: the best score, then the latest expiry, then matched."""
    kept = 0
    for at in range(len(order)):
        row = order[at]
        if kept > 0:
            last = order[kept - 1]
            if queue[row] == queue[last] and place[row] == place[last]:
                if (score[row], expires[row], matched[row]) > (score[last], expires[last], matched[last]):
                    order[kept - 1] = row
                continue
        order[kept] = row
        kept += 1
    return order[:kept]


@compiled
def link_identities(
    source_starts: Array,
    sources: Array,
    id_starts: Array,
    ids: Array,
    numbers: Array,
    first: int,
    table: Array,
    previous: Array,
) -> None:
    """Enter events from one on into a hash table; write which earlier event had the same identity, -1 if none.

    The table has more than twice as many places as there are events, a power of two; a place has 0 or 1 + a position.
    """
    mask = len(table) - 1
    for at in range(first, len(numbers)):
        found = digest(id_starts, ids, at, digest(source_starts, sources, at, SEED))
        place = (found ^ (found >> 32)) & mask
        previous[at] = -1
        while table[place] != 0:
            other = table[place] - 1
            if is_same(id_starts, ids, at, other) and is_same(source_starts, sources, at, other):
                previous[at] = numbers[other]
                break
            place = (place + 1) & mask
        table[place] = at + 1


@inlined
def _slot(queues: Array, queue: int, offset: int) -> int:
    return int(queues[queue, LINE.start] + SLOT * (queues[queue, LINE.head] + offset))


@compiled
def repeat_within(numbers: Array, times: Array, previous: Array, first: int, span: int) -> Array:
    """Return which events from one position on repeat an event that counts and is at most `span` older.

    `previous` has the number of the last event before with the same identity, -1 if none; those before `first` count.
    What repeats does not count, so a repetition does not prolong the span.
    """
    repeats = np.zeros(len(numbers) - first, np.bool_)
    counting = np.arange(first, len(numbers))
    for at in range(first, len(numbers)):
        earlier = find(numbers, 0, at, previous[at]) if previous[at] >= 0 else -1
        if earlier >= first:
            earlier = counting[earlier - first]
        if earlier >= 0 and times[at] - times[earlier] <= span:
            repeats[at - first] = True
            counting[at - first] = earlier
    return repeats


@inlined
def _lives(queues: Array, arena: Array, queue: int, slot: int, now: int) -> bool:
    """Whether a queue holds an event at a time, whatever it has not got round to yet.

    A period may have held it or not, as it has only the best: what a period knows is what was taken lately.
    """
    kind = queues[queue, LINE.kind]
    if kind == PERIODIC or arena[slot + HELD.expiry] <= now:
        return False
    return bool(kind != TIME_WINDOW or arena[slot + HELD.time] + queues[queue, LINE.span] > now)


@compiled
def recognised(
    queues: Array,
    arena: Array,
    queue_column: Array,
    times: Array,
    starts: Array,
    numbers: Array,
    number_times: Array,
    recall: Array,
    taken_numbers: Array,
    taken_queues: Array,
) -> Array:
    """Return which rows repeat an event that their queue still knows.

    Row i has the identity of the earlier events `numbers[starts[i]:starts[i + 1]]`, ascending. A queue knows what it
    holds and has not expired, and for as long as `recall` says what it has taken: rows (number, queue), by number.
    """
    known = np.zeros(len(queue_column), np.bool_)
    for row in range(len(queue_column)):
        queue, start, end = queue_column[row], starts[row], starts[row + 1]
        for offset in range(queues[queue, LINE.size]):
            slot = _slot(queues, queue, offset)
            number = number_of(arena[slot + HELD.event]) >> CODE_BITS
            if _lives(queues, arena, queue, slot, times[row]) and find(numbers, start, end, number) >= 0:
                known[row] = True
                break
        for at in range(start, end):
            if known[row] or times[row] - number_times[at] > recall[queue]:
                continue
            taken = find(taken_numbers, 0, len(taken_numbers), numbers[at])
            while taken >= 0 and taken < len(taken_numbers) and taken_numbers[taken] == numbers[at]:
                if taken_queues[taken] == queue:
                    known[row] = True
                    break
                taken += 1
    return known


@compiled
def mark_held(queues: Array, arena: Array, numbers: Array, marks: Array, codes: Array) -> None:
    """Mark which of the ascending numbers are held by a queue, and which codes of what matched are used there."""
    for queue in range(len(queues)):
        for offset in range(queues[queue, LINE.size]):
            word = number_of(arena[_slot(queues, queue, offset) + HELD.event])
            codes[word & ((1 << CODE_BITS) - 1)] = True
            at = find(numbers, 0, len(numbers), word >> CODE_BITS)
            if at >= 0:
                marks[at] = True


@compiled
def first_due(queues: Array) -> int:
    """Return the earliest time before which a queue has something to do by itself; NEVER if there is none."""
    soonest = NEVER
    for queue in range(len(queues)):
        soonest = min(soonest, due_at(queues, queue))
    return (soonest >> 1) + 1 if soonest < NEVER else NEVER
