"""Kernels of windows that many queues share: what enters and leaves their lists, and what is delivered.

Events lie in slots, which all queues share; a queue is a column. It lists the best of its events, the best first: every
event that is at least as good as the last one listed, unless nothing was ever left out, when it lists all it has. So
an event that is worse than the last one listed of a queue does not concern it, and one comparison tells (`thresholds`).
What a departure leaves of a list is still such a list. Only when fewer than k are left, while some were left out, is
it made anew from all events of the window.

- `lines[word, column]`: SIZE of the list; FIRST number of an event that the queue has seen; a bound below the ends
  (SOONEST) and the numbers (OLDEST) of what is listed.
- `flags[column]`: TRUNCATED: some were left out; CHANGED: the best k may hold something undelivered; UNSEEN: the queue
  took an event at an instant that has not been evaluated.
- `numbers[slot]`: events in order of arrival, FREE for an empty slot; `ends`, `times`, and `ties`, which orders events
  of one time.

Cost: `list_event` and `unlist_events` are a comparison or two per column and O(list) for those that are concerned;
`evaluate` looks at a byte per column, and makes a list anew in O(window).
"""

from __future__ import annotations

import math

from rankcast.compiling import compiled, inlined
from rankcast.delivery.batch_layout import NEVER, Array
from rankcast.ranking.dense_kernels import rank_one

SIZE, FIRST, SOONEST, OLDEST = range(4)
TRUNCATED, CHANGED, UNSEEN = 1, 2, 4
FREE = -1


@inlined
def _is_before(score: float, slot: int, other_score: float, other: int, times: Array, ties: Array) -> bool:
    """Whether one event ranks before another: by score, then newer, then identity."""
    if score != other_score:
        return score > other_score
    if times[slot] != times[other]:
        return bool(times[slot] > times[other])
    return bool(ties[slot] < ties[other])


@inlined
def _insert(
    column: int,
    slot: int,
    score: float,
    k: int,
    times: Array,
    ties: Array,
    ends: Array,
    numbers: Array,
    slots: Array,
    scores: Array,
    lines: Array,
    thresholds: Array,
    flags: Array,
) -> None:
    """List an event that a queue has, if it belongs there."""
    size, room = lines[SIZE, column], slots.shape[1]
    low, high = 0, size
    while low < high:
        middle = (low + high) >> 1
        if _is_before(score, slot, scores[column, middle], slots[column, middle], times, ties):
            high = middle
        else:
            low = middle + 1
    if low == size and (size == room or flags[column] & TRUNCATED):
        flags[column] |= TRUNCATED
        if size > 0:
            thresholds[column] = scores[column, size - 1]
        return
    if size == room:
        flags[column] |= TRUNCATED
        size -= 1
    for at in range(size, low, -1):
        slots[column, at] = slots[column, at - 1]
        scores[column, at] = scores[column, at - 1]
    slots[column, low] = slot
    scores[column, low] = score
    lines[SIZE, column] = size + 1
    lines[SOONEST, column] = min(lines[SOONEST, column], ends[slot])
    lines[OLDEST, column] = min(lines[OLDEST, column], numbers[slot])
    if flags[column] & TRUNCATED:
        thresholds[column] = scores[column, size]
    if low < k:
        flags[column] |= CHANGED


@compiled
def list_event(
    slot: int,
    found: Array,
    k: int,
    times: Array,
    ties: Array,
    ends: Array,
    numbers: Array,
    slots: Array,
    scores: Array,
    lines: Array,
    thresholds: Array,
    flags: Array,
) -> None:
    """Let an event with these scores enter every column."""
    for column in range(len(found)):
        if found[column] >= thresholds[column]:
            _insert(
                column,
                slot,
                found[column],
                k,
                times,
                ties,
                ends,
                numbers,
                slots,
                scores,
                lines,
                thresholds,
                flags,
            )


@compiled
def unlist_events(
    columns: int,
    instant: int,
    number: int,
    k: int,
    ends: Array,
    numbers: Array,
    slots: Array,
    scores: Array,
    lines: Array,
    thresholds: Array,
    flags: Array,
) -> None:
    """Take from the lists what ends by an instant, and what has a number up to the given one."""
    for column in range(columns):
        if lines[SOONEST, column] > instant and lines[OLDEST, column] > number:
            continue
        kept, soonest, oldest = 0, NEVER, NEVER
        for at in range(lines[SIZE, column]):
            slot = slots[column, at]
            if ends[slot] <= instant or numbers[slot] <= number:
                if at < k:
                    flags[column] |= CHANGED
                continue
            soonest, oldest = min(soonest, ends[slot]), min(oldest, numbers[slot])
            slots[column, kept] = slot
            scores[column, kept] = scores[column, at]
            kept += 1
        lines[SIZE, column], lines[SOONEST, column], lines[OLDEST, column] = kept, soonest, oldest
        if flags[column] & TRUNCATED:
            thresholds[column] = scores[column, kept - 1] if kept > 0 else math.inf


@inlined
def _list_anew(
    column: int,
    k: int,
    kind: int,
    features: Array,
    lengths: Array,
    targets: Array,
    settings: Array,
    times: Array,
    ties: Array,
    ends: Array,
    numbers: Array,
    slots: Array,
    scores: Array,
    lines: Array,
    thresholds: Array,
    flags: Array,
) -> None:
    """List the best of all events of a column."""
    lines[SIZE, column], lines[SOONEST, column], lines[OLDEST, column] = 0, NEVER, NEVER
    flags[column] &= ~TRUNCATED
    thresholds[column] = -math.inf
    for slot in range(len(numbers)):
        if numbers[slot] < lines[FIRST, column]:
            continue
        score = rank_one(kind, features[slot], lengths[slot], targets, settings, column)
        if score >= thresholds[column]:
            _insert(
                column,
                slot,
                score,
                k,
                times,
                ties,
                ends,
                numbers,
                slots,
                scores,
                lines,
                thresholds,
                flags,
            )


@compiled
def evaluate(
    start: int,
    columns: int,
    departed: int,
    everybody: bool,
    k: int,
    kind: int,
    features: Array,
    lengths: Array,
    targets: Array,
    settings: Array,
    times: Array,
    ties: Array,
    ends: Array,
    numbers: Array,
    slots: Array,
    scores: Array,
    lines: Array,
    thresholds: Array,
    flags: Array,
    delivered: Array,
    out_column: Array,
    out_slot: Array,
    out_score: Array,
) -> tuple[int, int]:
    """Deliver what is new among the best k of the columns from one on; return where to go on, and how many came out.

    Only the queues look that something happens to: `everybody`, or those that took an event at this instant, or that
    had seen the event of the last number that `departed`. There is room for at least k deliveries.
    """
    written = 0
    for column in range(start, columns):
        flag = flags[column]
        if not flag & CHANGED:
            continue
        if not everybody and not flag & UNSEEN and departed < lines[FIRST, column]:
            continue
        if written + k > len(out_slot):
            return column, written
        if flag & TRUNCATED and lines[SIZE, column] < k:
            _list_anew(
                column,
                k,
                kind,
                features,
                lengths,
                targets,
                settings,
                times,
                ties,
                ends,
                numbers,
                slots,
                scores,
                lines,
                thresholds,
                flags,
            )
        byte, bit = column >> 3, 1 << (column & 7)
        for at in range(min(k, lines[SIZE, column])):
            slot = slots[column, at]
            if not delivered[slot, byte] & bit:
                delivered[slot, byte] |= bit
                out_column[written], out_slot[written] = column, slot
                out_score[written] = scores[column, at]
                written += 1
        flags[column] &= ~CHANGED
    return columns, written
