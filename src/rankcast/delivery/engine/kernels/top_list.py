"""The list of the best of a queue's events, best first, and the regions it lives in.

Invariant: the list is a prefix of all held events in order (score, newer, lower number), of at most `listed_at_most`
events: up to twice k, so that events can leave a while before the list is shorter than k and has to be made again from
all held events. An event worse than the last one listed is turned away by one comparison.

Cost: O(1) for what is not listed, O(k) for what is; O(n k) to make the list again, which is rare.
"""

from __future__ import annotations

from rankcast.arrays import Array
from rankcast.compiling import inlined
from rankcast.compiling.intrinsics import move_words
from rankcast.delivery.engine.layout import (
    CAPACITY,
    CONTINUOUS,
    COUNT,
    EVENT,
    GONE,
    HEAD,
    KIND,
    PERIODIC,
    SCORE,
    SETTING,
    SLOT,
    START,
    TIME,
    TOP,
    WINDOW,
    K,
)


@inlined
def listed_at_most(queues: Array, queue: int) -> int:
    """Return how many events a queue lists at most."""
    if queues[queue, KIND] == CONTINUOUS:  # nor does ALL list any, as it has no slots
        return 0
    if queues[queue, KIND] == PERIODIC or queues[queue, SETTING]:
        return int(queues[queue, K])
    return int(min(queues[queue, WINDOW], 2 * queues[queue, K]))


@inlined
def words_of(queues: Array, queue: int, capacity: int) -> int:
    """Return how many words a region of so many slots takes."""
    return SLOT * capacity + 2 * min(capacity, listed_at_most(queues, queue))


@inlined
def list_of(queues: Array, queue: int) -> tuple[int, int]:
    """Return where the scores and the places of the list begin."""
    capacity = queues[queue, CAPACITY]
    scores = queues[queue, START] + SLOT * capacity
    return scores, scores + min(capacity, listed_at_most(queues, queue))


@inlined
def number_of(word: int) -> int:
    """Return the number of an event, delivered or not."""
    return word if word >= 0 else ~word


@inlined
def outranks(arena: Array, slot: int, other: int) -> bool:
    """Whether the event of one slot comes before that of another."""
    if arena[slot + SCORE] != arena[other + SCORE]:
        return bool(arena[slot + SCORE] > arena[other + SCORE])
    if arena[slot + TIME] != arena[other + TIME]:
        return bool(arena[slot + TIME] > arena[other + TIME])
    return bool(number_of(arena[slot + EVENT]) < number_of(arena[other + EVENT]))


@inlined
def enlist(queues: Array, arena: Array, queue: int, place: int, unlisted: int) -> bool:
    """List the event of a slot if it is good enough; `unlisted` other events are held but not listed.

    Returns whether it is listed. The last one is dropped when the list is full.
    """
    start, length = queues[queue, START], queues[queue, TOP]
    scores, places = list_of(queues, queue)
    slot = start + SLOT * place
    score = arena[slot + SCORE]
    is_full = length == places - scores
    if unlisted > 0 or is_full:
        if length == 0 or score < arena[scores + length - 1]:
            return False
        if score == arena[scores + length - 1] and not outranks(
            arena, slot, start + SLOT * (arena[places + length - 1] >> 1)
        ):
            return False
    end = length - 1 if is_full else length
    at = end
    while at > 0 and arena[scores + at - 1] <= score:
        at -= 1
    while at < end and arena[scores + at] == score:  # of equals the newest is the best, so mostly one look will do
        if outranks(arena, slot, start + SLOT * (arena[places + at] >> 1)):
            break
        at += 1
    move_words(arena, scores + at + 1, arena, scores + at, end - at)
    move_words(arena, places + at + 1, arena, places + at, end - at)
    arena[scores + at] = score
    arena[places + at] = 2 * place + int(arena[slot + EVENT] < 0)
    if not is_full:
        queues[queue, TOP] = length + 1
    return True


@inlined
def delist(queues: Array, arena: Array, queue: int, place: int) -> None:
    """Take the event of a slot off the list, if it is there."""
    length = queues[queue, TOP]
    scores, places = list_of(queues, queue)
    score = arena[queues[queue, START] + SLOT * place + SCORE]
    if length == 0 or score < arena[scores + length - 1]:
        return
    at = 0
    while at < length and arena[places + at] >> 1 != place:
        at += 1
    if at == length:
        return
    for later in range(at + 1, length):
        arena[scores + later - 1] = arena[scores + later]
        arena[places + later - 1] = arena[places + later]
    queues[queue, TOP] = length - 1


@inlined
def deselect(queues: Array, arena: Array, queue: int, place: int) -> None:
    """Empty the list of a queue if the event at this place is on it."""
    _, places = list_of(queues, queue)
    for at in range(places, places + queues[queue, TOP]):
        if arena[at] >> 1 == place:
            queues[queue, TOP] = 0
            return


@inlined
def rebuild_top(queues: Array, arena: Array, queue: int) -> None:
    """Make the list from all held events."""
    head, passed_over = queues[queue, HEAD], 0
    queues[queue, TOP] = 0
    for offset in range(queues[queue, COUNT]):
        if arena[queues[queue, START] + SLOT * (head + offset) + EVENT] == GONE:
            passed_over += 1
        else:
            enlist(queues, arena, queue, head + offset, offset - passed_over - queues[queue, TOP])


@inlined
def move_queue(queues: Array, source: Array, queue: int, target: Array, start: int, capacity: int) -> None:
    """Copy a queue's region to another one with room for all its events.

    Within one array the new region may overlap the old one if it begins no later and has no more slots.
    """
    old_start, head, length = queues[queue, START], queues[queue, HEAD], queues[queue, TOP]
    old_scores, old_places = list_of(queues, queue)
    first = old_start + SLOT * head
    move_words(target, start, source, first, SLOT * queues[queue, COUNT])
    queues[queue, START], queues[queue, CAPACITY], queues[queue, HEAD] = start, capacity, 0
    scores, places = list_of(queues, queue)
    move_words(target, scores, source, old_scores, length)
    for at in range(length):
        target[places + at] = source[old_places + at] - 2 * head
