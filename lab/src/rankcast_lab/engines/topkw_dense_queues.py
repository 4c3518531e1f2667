"""The other two queues of top-k in a count window, by name: the paper's bounded queue and the k-skyband.

Both keep sorted entries, best first, and no raw window.

- bounded: at most `length` entries; an event enters when there is room or it is better than the last one, which then
  has to go. It misses deliveries and makes false ones with a small probability as long as scores are independent of
  time, and collapses where they are not: what the queue threw away never comes back.
- skyband: every event enters, and goes once k newer ones are better, because then it can never be among the best k
  again. Exact, k (1 + H_w - H_k) entries on independent scores and up to the whole window in the worst case, but every
  arrival costs O(entries).

Papers: top-k/w publish/subscribe, section 3; Böhm et al. for the skyline of a query.
"""

from __future__ import annotations

import math

import numpy as np

from rankcast.arrays import Array
from rankcast.compiling import compiled, inlined
from rankcast_lab.engines.topkw_dense_distances import BLOCK, any_within, fill_plain_squares, square_bound, squares


@inlined
def _place(distances: Array, size: int, distance: float) -> int:
    """Return where an event goes that is newer than all: before the first that is not better."""
    low, high = 0, size
    while low < high:
        middle = (low + high) >> 1
        if distances[middle] < distance:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def _leave(events: Array, distances: Array, marks: Array, size: int, oldest: int) -> tuple[int, int]:
    """Remove the entry of one event, if it is there; return its place or -1, and the oldest event that is left."""
    gone, next_ = -1, np.iinfo(np.int64).max
    for at in range(size):
        if events[at] == oldest:
            gone = at
        elif events[at] < next_:
            next_ = events[at]
    if gone >= 0:
        for at in range(gone, size - 1):
            events[at], distances[at], marks[at] = events[at + 1], distances[at + 1], marks[at + 1]
    return gone, next_


@inlined
def _insert(events: Array, distances: Array, marks: Array, size: int, place: int, event: int, distance: float) -> None:
    for at in range(size, place, -1):
        events[at], distances[at], marks[at] = events[at - 1], distances[at - 1], marks[at - 1]
    events[place], distances[place], marks[place] = event, distance, 0


@compiled
def _bounded_one(
    event: int,
    distance: float,
    k: int,
    window: int,
    length: int,
    events: Array,
    distances: Array,
    marks: Array,
    size: int,
    oldest: int,
) -> tuple[int, int, int]:
    """Let one event arrive; return the new size, the oldest event, and the place that is to be delivered or -1."""
    left = -1
    if oldest <= event - window:
        left, oldest = _leave(events, distances, marks, size, oldest)
        size -= int(left >= 0)
    place = length
    if size < length or distance <= distances[size - 1]:
        place = _place(distances, size, distance)
        _insert(events, distances, marks, size, place, event, distance)
        size = min(size + 1, length)
        oldest = min(oldest, event)
    if place < k:
        return size, oldest, place
    due = 0 <= left < k <= size and marks[k - 1] == 0
    return size, oldest, k - 1 if due else -1


@compiled
def run_bounded(
    columns: Array,
    base: int,
    start: int,
    stop: int,
    ideals: Array,
    weights: Array,
    scales: Array,
    plain: bool,
    k: int,
    window: int,
    length: int,
    held_events: Array,
    held_distances: Array,
    held_marks: Array,
    sizes: Array,
    oldests: Array,
    subscription: int,
    deliveries: Array,
    counts: Array,
) -> int:
    """Let the events [start, stop) arrive for subscriptions from one on; return the first one that was not done."""
    buffer = np.empty(BLOCK)
    delivered = 0
    while subscription < len(ideals) and delivered + stop - start <= len(deliveries):
        ideal, weight, scale = ideals[subscription], weights[subscription], scales[subscription]
        events, distances, marks = held_events[subscription], held_distances[subscription], held_marks[subscription]
        size, oldest, before = sizes[subscription], oldests[subscription], delivered
        for first in range(start, stop, BLOCK):
            last = min(stop, first + BLOCK)
            bound = square_bound(distances[size - 1]) if size == length else math.inf
            some = any_within(columns, first - base, last - base, ideal, weight, scale, plain, bound, buffer)
            if not some and oldest > last - 1 - window:
                continue
            if plain:
                fill_plain_squares(columns, first - base, last - base, ideal, buffer)
            for event in range(first, last):
                if (
                    size == length
                    and buffer[event - first] > square_bound(distances[size - 1])
                    and oldest > event - window
                ):
                    continue
                size, oldest, due = _bounded_one(
                    event, math.sqrt(buffer[event - first]), k, window, length, events, distances, marks, size, oldest
                )
                if due >= 0:
                    marks[due] = 1
                    deliveries[delivered, 0], deliveries[delivered, 1] = events[due], event
                    delivered += 1
        sizes[subscription], oldests[subscription], counts[subscription] = size, oldest, delivered - before
        subscription += 1
    return subscription


@compiled
def _dominate(events: Array, distances: Array, marks: Array, size: int, place: int, k: int) -> int:
    """Count one more better, newer event for the entries behind a place; drop those with k; return the new size.

    A mark holds twice the count of better ones, plus one when the event was delivered.
    """
    kept = place + 1
    for at in range(place + 1, size):
        mark = marks[at] + 2
        if mark < 2 * k:
            events[kept], distances[kept], marks[kept] = events[at], distances[at], mark
            kept += 1
    return kept


@compiled
def run_skyband(
    columns: Array,
    base: int,
    start: int,
    stop: int,
    ideals: Array,
    weights: Array,
    scales: Array,
    plain: bool,
    k: int,
    window: int,
    held_events: Array,
    held_distances: Array,
    held_marks: Array,
    sizes: Array,
    oldests: Array,
    subscription: int,
    deliveries: Array,
    counts: Array,
) -> int:
    """Let the events [start, stop) arrive for subscriptions from one on; return the first one that was not done.

    One is not done when there is no room for its deliveries, or not for its entries.
    """
    buffer = np.empty(stop - start)
    delivered = 0
    while subscription < len(ideals) and delivered + stop - start <= len(deliveries):
        size, oldest, before = sizes[subscription], oldests[subscription], delivered
        if held_events.shape[1] < min(window, size + stop - start) + 1:
            break
        events, distances, marks = held_events[subscription], held_distances[subscription], held_marks[subscription]
        squares(
            columns,
            start - base,
            stop - base,
            ideals[subscription],
            weights[subscription],
            scales[subscription],
            plain,
            buffer,
        )
        for event in range(start, stop):
            left = -1
            if oldest <= event - window:
                left, oldest = _leave(events, distances, marks, size, oldest)
                size -= int(left >= 0)
            distance = math.sqrt(buffer[event - start])
            place = _place(distances, size, distance)
            _insert(events, distances, marks, size, place, event, distance)
            size = _dominate(events, distances, marks, size + 1, place, k)
            oldest = min(oldest, event)
            due = place if place < k else k - 1
            if (place < k or 0 <= left < k <= size) and marks[due] & 1 == 0:
                marks[due] |= 1
                deliveries[delivered, 0], deliveries[delivered, 1] = events[due], event
                delivered += 1
        sizes[subscription], oldests[subscription], counts[subscription] = size, oldest, delivered - before
        subscription += 1
    return subscription
