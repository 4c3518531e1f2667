"""Kernels of a shard: rows in the order queues take them, identities seen before, what is still held and due.

A word is what a queue knows an event by: the event's number, above the `CODE_BITS` of what matched. Words of different
events are ordered as their numbers are. Below are kernels over sequences of different lengths: copying some of them,
comparing texts, digests.

Cost: sorting is by counting, O(rows + events + queues); identities cost one probe of a hash table per event; the others
are one pass over what they are given.
"""

from __future__ import annotations

import numpy as np

from rankcast.arrays import Array
from rankcast.compiling import compiled, inlined
from rankcast.delivery.engine.kernels.top_list import number_of
from rankcast.delivery.engine.layout import (
    COUNT,
    COUNT_WINDOW,
    EVENT,
    EXPIRY,
    GONE,
    HEAD,
    KIND,
    NEXT,
    PERIODIC,
    SLOT,
    SPAN,
    START,
    TIME,
    TIME_WINDOW,
    UNSEEN,
)
from rankcast.model.times import NEVER

CODE_BITS = 20
"""Of what matched: 19 bits of a mask, or a set's number with the bit above them."""


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
    return int(queues[queue, START] + SLOT * (queues[queue, HEAD] + offset))


@inlined
def _is_among(numbers: Array, start: int, end: int, number: int) -> int:
    """Return where a number is in an ascending part of an array, -1 if it is not."""
    low, high = start, end
    while low < high:
        middle = (low + high) >> 1
        if numbers[middle] < number:
            low = middle + 1
        else:
            high = middle
    return low if low < end and numbers[low] == number else -1


@compiled
def repeat_within(numbers: Array, times: Array, previous: Array, first: int, span: int) -> Array:
    """Return which events from one position on repeat an event that counts and is at most `span` older.

    `previous` has the number of the last event before with the same identity, -1 if none; those before `first` count.
    What repeats does not count, so a repetition does not prolong the span.
    """
    repeats = np.zeros(len(numbers) - first, np.bool_)
    counting = np.arange(first, len(numbers))
    for at in range(first, len(numbers)):
        earlier = _is_among(numbers, 0, at, previous[at]) if previous[at] >= 0 else -1
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
    kind = queues[queue, KIND]
    if kind == PERIODIC or arena[slot + EXPIRY] <= now:
        return False
    return bool(kind != TIME_WINDOW or arena[slot + TIME] + queues[queue, SPAN] > now)


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
        for offset in range(queues[queue, COUNT]):
            slot = _slot(queues, queue, offset)
            number = number_of(arena[slot + EVENT]) >> CODE_BITS
            if _lives(queues, arena, queue, slot, times[row]) and _is_among(numbers, start, end, number) >= 0:
                known[row] = True
                break
        for at in range(start, end):
            if known[row] or times[row] - number_times[at] > recall[queue]:
                continue
            taken = _is_among(taken_numbers, 0, len(taken_numbers), numbers[at])
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
        for offset in range(queues[queue, COUNT]):
            word = number_of(arena[_slot(queues, queue, offset) + EVENT])
            codes[word & ((1 << CODE_BITS) - 1)] = True
            at = _is_among(numbers, 0, len(numbers), word >> CODE_BITS)
            if at >= 0:
                marks[at] = True


@compiled
def words_held(queues: Array, arena: Array, is_chosen: Array) -> Array:
    """Return the words of all events that the chosen queues hold."""
    words = np.empty((queues[:, COUNT] * is_chosen).sum(), np.int64)
    written = 0
    for queue in range(len(queues)):
        if is_chosen[queue]:
            for offset in range(queues[queue, COUNT]):
                word = arena[_slot(queues, queue, offset) + EVENT]
                if word != GONE:
                    words[written] = number_of(word)
                    written += 1
    return words[:written]


@compiled
def first_due(queues: Array) -> int:
    """Return the earliest time before which a queue has something to do by itself; NEVER if there is none."""
    soonest = NEVER
    for queue in range(len(queues)):
        kind = queues[queue, KIND]
        if kind == PERIODIC:
            soonest = min(soonest, queues[queue, NEXT])
        elif kind in (COUNT_WINDOW, TIME_WINDOW):
            soonest = min(soonest, queues[queue, UNSEEN], queues[queue, NEXT])
    return soonest + 1 if soonest < NEVER else NEVER


SEED, FACTOR = -3750763034362895579, 1099511628211
"""Of the Fowler-Noll-Vo digest."""


@compiled
def copy_ragged(starts: Array, values: Array, chosen: Array, new_starts: Array, target: Array) -> None:
    """Copy the chosen sequences, one behind the other."""
    for at in range(len(chosen)):
        start, to = starts[chosen[at]], new_starts[at]
        for offset in range(new_starts[at + 1] - to):
            target[to + offset] = values[start + offset]


@inlined
def is_same(starts: Array, values: Array, one: int, other: int) -> bool:
    """Whether two sequences are equal."""
    start, length = starts[one], starts[one + 1] - starts[one]
    second = starts[other]
    if starts[other + 1] - second != length:
        return False
    for offset in range(length):  # noqa: SIM110 (a kernel has no generators)
        if values[start + offset] != values[second + offset]:
            return False
    return True


@compiled
def same_texts(starts: Array, values: Array, first: Array, second: Array) -> Array:
    """Return which pairs of sequences are equal."""
    same = np.empty(len(first), np.bool_)
    for at in range(len(first)):
        same[at] = is_same(starts, values, first[at], second[at])
    return same


@inlined
def mixed(before: int, said: int) -> int:
    """Return 64 bits that depend on all that was mixed into them, in its order."""
    found = (before ^ said) * FACTOR
    return found ^ (found >> 29)


@inlined
def digest(starts: Array, values: Array, one: int, seed: int) -> int:
    """Return 64 bits that equal sequences have in common."""
    found = seed
    for at in range(starts[one], starts[one + 1]):
        found = (found ^ values[at]) * FACTOR
    return found ^ (found >> 29)


@compiled
def digests(starts: Array, values: Array, chosen: Array) -> Array:
    """Return the digests of the chosen sequences."""
    found = np.empty(len(chosen), np.int64)
    for at in range(len(chosen)):
        found[at] = digest(starts, values, chosen[at], SEED)
    return found
