"""The exact queue of top-k in a count window, for many ideal points over blocks of events.

Per subscription the kernel keeps the events of the window that are at least as good as a threshold (`entries`, oldest
first, and their `order`, best first); everything else is worse than all of them. Only what passes the threshold enters;
the list is cut to its capacity at the end of a segment, which lowers the threshold. As events leave it shrinks; once
fewer than k are left it is rebuilt from the raw window.

Within a segment of events nothing is inserted into or removed from a sorted list. The ranks of all entries, those that
are there and those that will come, are found by one merge; then a sweep over the arrivals and departures switches ranks
on and off and moves one mark, the k-th best that lives. Each arrival or departure moves the mark by at most one entry
that lives, so the cost does not grow with k: it is that of the threshold test (one distance per event and subscription,
in vector registers), a sort of the arrivals that pass, and O(capacity) per segment.

An event enters the best k when it arrives, or when the mark comes to it because a better one left; delivered events are
remembered by one bit each for as long as they live, since one that was cut off may come back by a rebuild. The bits are
a ring of words, a power of two of them, so that the place of an event is a mask away.
"""

from __future__ import annotations

import math

import numpy as np

from rankcast.arrays import Array
from rankcast.compiling import compiled, inlined
from rankcast_lab.engines.topkw_dense_distances import BLOCK, gather, sort_newest_first, square_bound, squares

NEVER = 1 << 62

SHORTEST = 64
"""Events of the shortest segment. The first ones are short: before there is a threshold, everything passes."""

TRIES = 6
"""Thresholds that a rebuild guesses before it searches for one."""

# Columns of the numbers that say how far a segment came.
FIRST, NEXT, COUNT = 0, 1, 2


@inlined
def _is_delivered(bits: Array, event: int) -> bool:
    at = event & (64 * len(bits) - 1)
    return bool((bits[at >> 6] >> np.uint64(at & 63)) & np.uint64(1))


@inlined
def _deliver(bits: Array, event: int, instant: int, deliveries: Array, count: int) -> int:
    at = event & (64 * len(bits) - 1)
    bits[at >> 6] |= np.uint64(1) << np.uint64(at & 63)
    deliveries[count, 0] = event
    deliveries[count, 1] = instant
    return count + 1


@inlined
def _forget(bits: Array, start: int, stop: int) -> None:
    """Clear the words of the events in [start, stop), each when its first event comes: what it held is long dead."""
    for word in range((start + 63) >> 6, (stop + 63) >> 6):
        bits[word & (len(bits) - 1)] = np.uint64(0)


@compiled
def merge_ranks(
    distances: Array, old: int, order: Array, total: int, arrivals: Array, rank: Array, entry: Array
) -> None:
    """Rank the `old` entries, ordered by `order`, together with the newer ones, ordered by `arrivals`."""
    left, right = 0, 0
    for at in range(total):
        # Of equal distances the newer is better.
        take = right < total - old and (left >= old or distances[old + arrivals[right]] <= distances[order[left]])
        if take:
            chosen = old + arrivals[right]
            right += 1
        else:
            chosen = np.int64(order[left])
            left += 1
        rank[chosen] = at
        entry[at] = chosen


@compiled
def sweep(
    events: Array,
    old: int,
    total: int,
    stop: int,
    k: int,
    window: int,
    complete: bool,
    rank: Array,
    entry: Array,
    lives: Array,
    bits: Array,
    deliveries: Array,
    delivered: int,
    progress: Array,
) -> tuple[int, int]:
    """Let entries arrive and leave up to `stop`, and deliver what comes to be among the best k.

    Returns the number of deliveries and the instant at which fewer than k were left of a list that is not complete, or
    `stop`.
    """
    first, next_, count = 0, old, old
    mark = _kth(lives, k, total) if old >= k else total
    while True:
        leaves = events[first] + window if first < next_ else NEVER
        enters = events[next_] if next_ < total else NEVER
        instant = min(leaves, enters)
        if instant >= stop:
            instant = stop
            break
        if leaves == instant:
            lives[rank[first]] = 0
            count -= 1
            if rank[first] <= mark < total:
                mark = _following(lives, mark, total)
            first += 1
        came = -1
        if enters == instant:
            came = rank[next_]
            lives[came] = 1
            count += 1
            next_ += 1
            if mark < total:
                mark = _preceding(lives, mark) if came < mark else mark
            elif count >= k:
                mark = _preceding(lives, total)
        if count < k and not complete:
            break
        if came >= 0 and came <= mark:
            delivered = _deliver(bits, instant, instant, deliveries, delivered)
        elif leaves == instant and mark < total and not _is_delivered(bits, events[entry[mark]]):
            delivered = _deliver(bits, events[entry[mark]], instant, deliveries, delivered)
    progress[FIRST], progress[NEXT], progress[COUNT] = first, next_, count
    return delivered, instant


@inlined
def _kth(lives: Array, k: int, total: int) -> int:
    seen = 0
    for at in range(total):
        seen += lives[at]
        if seen == k:
            return at
    return total


@inlined
def _following(lives: Array, mark: int, total: int) -> int:
    mark += 1
    while mark < total and lives[mark] == 0:
        mark += 1
    return mark


@inlined
def _preceding(lives: Array, mark: int) -> int:
    mark -= 1
    while lives[mark] == 0:
        mark -= 1
    return mark


@compiled
def keep_best(
    events: Array,
    distances: Array,
    progress: Array,
    capacity: int,
    rank: Array,
    entry: Array,
    lives: Array,
    order: Array,
    threshold: float,
) -> tuple[int, float]:
    """Keep the best entries that live, up to the capacity, in place; return how many, and the threshold."""
    first, size, count = progress[FIRST], progress[NEXT], progress[COUNT]
    last, kept = size, 0
    for at in range(size):
        kept += lives[at]
        if kept == capacity and count > capacity:
            last = at + 1
            threshold = distances[entry[at]]
            break
    new = 0
    for old in range(first, size):
        at = rank[old]
        if lives[at] and at < last:
            events[new] = events[old]
            distances[new] = distances[old]
            rank[old] = new
            new += 1
    placed = 0
    for at in range(last):
        if lives[at]:
            order[placed] = rank[entry[at]]
            placed += 1
    return new, threshold


@compiled
def search_threshold(squared: Array, k: int, capacity: int, threshold: float, dimensions: int) -> float:
    """Return a distance within which there are more than k, and hardly more than `capacity`, events of a window.

    The old threshold is a good start: counts grow with distance to the power of the number of dimensions. Where that
    leads nowhere (ties, a changed distribution) the exact distance is selected.
    """
    target = (k + 3 * capacity) / 4
    guess, count = threshold, max(1, k - 1)
    for _ in range(TRIES):
        guess *= (target / count) ** (1.0 / dimensions)
        bound = guess * guess
        number = np.int32(0)
        for i in range(len(squared)):
            number += np.int32(squared[i] <= bound)
        if 2 * number >= k + capacity and number <= capacity + capacity:
            return float(guess)
        count = max(1, int(number))
    return math.sqrt(np.partition(squared, capacity - 1)[capacity - 1])


@compiled
def rebuild(
    columns: Array,
    start: int,
    stop: int,
    base: int,
    ideal: Array,
    weights: Array,
    scales: Array,
    plain: bool,
    k: int,
    capacity: int,
    threshold: float,
    scratch: Array,
    events: Array,
    distances: Array,
    order: Array,
    spare: Array,
) -> tuple[int, float]:
    """Fill the entries again from the window at the places [start, stop); return their number and the threshold."""
    squared = scratch[: stop - start]
    squares(columns, start, stop, ideal, weights, scales, plain, squared)
    threshold = math.inf if len(squared) <= capacity else search_threshold(squared, k, capacity, threshold, len(ideal))
    bound = square_bound(threshold)
    count = 0
    for i in range(len(squared)):
        if squared[i] <= bound:
            distance = math.sqrt(squared[i])
            if distance <= threshold:
                events[count] = base + start + i
                distances[count] = distance
                count += 1
    sort_newest_first(distances, count, order, spare)
    if count > capacity:
        threshold = distances[order[capacity - 1]]
        count = _cut(events, distances, order, spare, count, capacity)
    return count, threshold


@inlined
def _cut(events: Array, distances: Array, order: Array, spare: Array, count: int, capacity: int) -> int:
    """Drop all but the best `capacity` entries; return how many are left."""
    for at in range(count):
        spare[order[at]] = at
    new = 0
    for old in range(count):
        if spare[old] < capacity:
            events[new] = events[old]
            distances[new] = distances[old]
            order[spare[old]] = new
            new += 1
    return new


@inlined
def _copy(
    events: Array, distances: Array, order: Array, size: int, to_events: Array, to_distances: Array, to_order: Array
) -> None:
    """Copy entries one by one: for a few, that is much faster than to assign slices."""
    for i in range(size):
        to_events[i], to_distances[i], to_order[i] = events[i], distances[i], order[i]


@compiled
def run_exact(
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
    capacity: int,
    held_events: Array,
    held_distances: Array,
    held_order: Array,
    sizes: Array,
    thresholds: Array,
    bits: Array,
    subscription: int,
    deliveries: Array,
    counts: Array,
    rebuilds: Array,
) -> int:
    """Let the events [start, stop) arrive for subscriptions from one on; return the first one that was not done.

    A subscription is left for the next call when there is no room for its deliveries: at most one per event.
    """
    room = max(capacity + stop - start, min(window, stop) if window < NEVER else 0) + 1
    events, distances = np.empty(room, np.int64), np.empty(room)
    order, arrivals, spare = np.empty(room, np.int32), np.empty(room, np.int32), np.empty(room, np.int32)
    rank, entry, lives = np.empty(room, np.int32), np.empty(room, np.int32), np.empty(room, np.uint8)
    progress, buffer = np.empty(3, np.int64), np.empty(BLOCK)
    scratch = np.empty(min(window, stop) if window < NEVER else 1)
    longest = max(SHORTEST, min(stop - start, 2 * min(window, stop)))
    delivered = 0
    while subscription < len(ideals) and delivered + stop - start <= len(deliveries):
        ideal, weight, scale = ideals[subscription], weights[subscription], scales[subscription]
        before, size, threshold = delivered, sizes[subscription], thresholds[subscription]
        _copy(
            held_events[subscription],
            held_distances[subscription],
            held_order[subscription],
            size,
            events,
            distances,
            order,
        )
        _forget(bits[subscription], start, stop)
        at = start
        while at < stop:
            end = min(stop, at + min(longest, max(SHORTEST, 2 * capacity, at)))
            found = gather(
                columns,
                at - base,
                end - base,
                ideal,
                weight,
                scale,
                plain,
                threshold,
                buffer,
                events[size:],
                distances[size:],
            )
            total = size + found
            for i in range(size, total):
                events[i] += base
            sort_newest_first(distances[size:], found, arrivals, spare)
            merge_ranks(distances, size, order, total, arrivals, rank, entry)
            for i in range(total):
                lives[i] = 0
            for i in range(size):
                lives[rank[i]] = 1
            complete = math.isinf(threshold)
            delivered, at = sweep(
                events,
                size,
                total,
                end,
                k,
                window,
                complete,
                rank,
                entry,
                lives,
                bits[subscription],
                deliveries,
                delivered,
                progress,
            )
            if at == end:
                size, threshold = keep_best(events, distances, progress, capacity, rank, entry, lives, order, threshold)
                continue
            rebuilds[0] += 1
            size, threshold = rebuild(
                columns,
                max(0, at - window + 1) - base,
                at + 1 - base,
                base,
                ideal,
                weight,
                scale,
                plain,
                k,
                capacity,
                threshold,
                scratch,
                events,
                distances,
                order,
                spare,
            )
            for place in range(min(k, size)):
                if not _is_delivered(bits[subscription], events[order[place]]):
                    delivered = _deliver(bits[subscription], events[order[place]], at, deliveries, delivered)
            at += 1
        _copy(
            events,
            distances,
            order,
            size,
            held_events[subscription],
            held_distances[subscription],
            held_order[subscription],
        )
        sizes[subscription], thresholds[subscription] = size, threshold
        counts[subscription] = delivered - before
        subscription += 1
    return subscription
