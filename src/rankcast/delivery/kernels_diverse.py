"""Diverse selection in batched queues.

The list of a queue that diversifies has the events selected, in order, and the divranks by which they were. It stands
until one of them leaves, or an event enters that would have been selected instead of one of them; then it is empty, and
the next evaluation selects anew from all that is held. What leaves without having been selected changes nothing: the
others would be selected again. So an arrival that changes nothing costs k distances, not k for each event held.
"""

from __future__ import annotations

import numpy as np

from rankcast.delivery.batch_diversity import Diverse
from rankcast.delivery.batch_layout import (
    CAPACITY,
    COUNT,
    EVENT,
    HEAD,
    KIND,
    NEXT,
    PERIODIC,
    SCORE,
    SETTING,
    SLIDING,
    SLOT,
    SPAN,
    START,
    TIME,
    TOP,
    UNSEEN,
    Array,
    K,
)
from rankcast.delivery.contents import MISSING
from rankcast.delivery.kernels_best import list_of, number_of
from rankcast.delivery.kernels_diversity import divrank_of, mean_with, select_diverse, unweighted_distance
from rankcast.matching.compiled import compiled, inlined

NO_DIVERSE_FAULT, SCORE_IS_NO_RANK, NO_CONTENT = range(3)


@inlined
def _find(column: Array, low: int, high: int, wanted: int) -> int:
    """Return where a number is in an ascending part of a column; -1 when it is not there."""
    end = high
    while low < high:
        middle = (low + high) >> 1
        if column[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low if low < end and column[low] == wanted else -1


@inlined
def row_of(numbers: Array, event: int) -> int:
    """Return where an event's content is; -1 when it is unknown. Numbers mostly follow each other."""
    if len(numbers) == 0:
        return -1
    guess = event - numbers[0]
    if 0 <= guess < len(numbers) and numbers[guess] == event:
        return int(guess)
    return _find(numbers, 0, len(numbers), event)


@inlined
def _payload(diverse: Diverse, row: int) -> int:
    """Return where the attributes of an event begin that are not the envelope's: those have negative codes."""
    at, end = diverse.starts[row], diverse.starts[row + 1]
    while at < end and diverse.attributes[at] < 0:
        at += 1
    return int(at)


@inlined
def _code(diverse: Diverse, row: int, attribute: int) -> int:
    at = _find(diverse.attributes, diverse.starts[row], diverse.starts[row + 1], attribute)
    return int(diverse.values[at]) if at >= 0 else MISSING


@inlined
def _distance(diverse: Diverse, setting: int, row: int, other: int) -> float:
    """Return the distance of two events."""
    first, last = diverse.weight_starts[setting], diverse.weight_starts[setting + 1]
    if first == last:
        return unweighted_distance(
            diverse.attributes,
            diverse.values,
            _payload(diverse, row),
            diverse.starts[row + 1],
            _payload(diverse, other),
            diverse.starts[other + 1],
        )
    alike = 0.0
    for at in range(first, last):
        code = _code(diverse, row, diverse.weight_attributes[at])
        if code != MISSING and code == _code(diverse, other, diverse.weight_attributes[at]):
            alike += diverse.weights[at]
    return float(1 - alike / diverse.totals[setting])


@inlined
def _is_older(arena: Array, slot: int, other: int) -> bool:
    if arena[slot + TIME] != arena[other + TIME]:
        return bool(arena[slot + TIME] < arena[other + TIME])
    return bool(number_of(arena[slot + EVENT]) < number_of(arena[other + EVENT]))


@compiled
def consider(queues: Array, arena: Array, queue: int, place: int, diverse: Diverse) -> None:
    """Empty the list of a queue if the event that entered at this place would have been selected."""
    length, start, setting = queues[queue, TOP], queues[queue, START], queues[queue, SETTING] - 1
    if length == 0:
        return
    queues[queue, TOP] = 0
    if length < queues[queue, K]:
        return
    floats, sigma = arena.view(np.float64), diverse.sigmas[setting]
    scores, places = list_of(queues, queue)
    slot = start + SLOT * place
    rank, mean = floats[slot + SCORE], 0.0
    row = row_of(diverse.numbers, arena[slot + EVENT])
    for at in range(length):
        divrank = divrank_of(sigma, rank, mean) if at > 0 else rank
        other = start + SLOT * (arena[places + at] >> 1)
        if divrank > floats[scores + at]:
            return
        if divrank == floats[scores + at] and (
            rank > floats[other + SCORE] or (rank == floats[other + SCORE] and _is_older(arena, slot, other))
        ):
            return
        if at + 1 < length:
            selected = row_of(diverse.numbers, number_of(arena[other + EVENT]))
            mean = mean_with(mean, _distance(diverse, setting, row, selected), at + 1)
    queues[queue, TOP] = length


@inlined
def deselect(queues: Array, arena: Array, queue: int, place: int) -> None:
    """Empty the list of a queue if the event at this place is on it."""
    _, places = list_of(queues, queue)
    for at in range(places, places + queues[queue, TOP]):
        if arena[at] >> 1 == place:
            queues[queue, TOP] = 0
            return


@inlined
def _oldest_first(queues: Array, arena: Array, queue: int) -> Array:
    """Return the places of the events held, oldest first. They are in the order of their times already."""
    start, capacity, count = queues[queue, START], queues[queue, CAPACITY], queues[queue, COUNT]
    places = np.empty(count, np.int64)
    for offset in range(count):
        place = queues[queue, HEAD] + offset
        place = place - capacity if place >= capacity else place
        at = offset
        while at > 0 and _is_older(arena, start + SLOT * place, start + SLOT * places[at - 1]):
            places[at] = places[at - 1]
            at -= 1
        places[at] = place
    return places


@compiled
def select_anew(queues: Array, arena: Array, queue: int, diverse: Diverse) -> None:
    """Make the list of a queue from all that it holds."""
    start, count, setting = queues[queue, START], queues[queue, COUNT], queues[queue, SETTING] - 1
    floats, held = arena.view(np.float64), _oldest_first(queues, arena, queue)
    first, last = diverse.weight_starts[setting], diverse.weight_starts[setting + 1]
    ranks = np.empty(count)
    codes = np.empty((last - first, count), np.int64)
    starts, ends = np.empty(count, np.int64), np.empty(count, np.int64)
    for at in range(count):
        slot = start + SLOT * held[at]
        ranks[at] = floats[slot + SCORE]
        row = row_of(diverse.numbers, number_of(arena[slot + EVENT]))
        for line in range(last - first):
            codes[line, at] = _code(diverse, row, diverse.weight_attributes[first + line])
        if first == last:
            starts[at], ends[at] = _payload(diverse, row), diverse.starts[row + 1]
    selected = np.empty(min(count, queues[queue, K]), np.int64)
    divranks = np.empty(len(selected))
    select_diverse(
        ranks,
        diverse.sigmas[setting],
        diverse.weights[first:last],
        diverse.totals[setting],
        codes,
        starts,
        ends,
        diverse.attributes,
        diverse.values,
        selected,
        divranks,
    )
    scores, places = list_of(queues, queue)
    for at in range(len(selected)):
        place = held[selected[at]]
        floats[scores + at] = divranks[at]
        arena[places + at] = 2 * place + int(arena[start + SLOT * place + EVENT] < 0)
    queues[queue, TOP] = len(selected)


@inlined
def _held_without_content(queues: Array, arena: Array, queue: int, numbers: Array) -> int:
    """Return an event that a queue holds and whose content is unknown; -1 when there is none."""
    start, capacity = queues[queue, START], queues[queue, CAPACITY]
    for offset in range(queues[queue, COUNT]):
        place = queues[queue, HEAD] + offset
        place = place - capacity if place >= capacity else place
        event = number_of(arena[start + SLOT * place + EVENT])
        if row_of(numbers, event) < 0:
            return int(event)
    return -1


@compiled
def first_diverse_fault(
    queues: Array, arena: Array, queue_column: Array, events: Array, scores: Array, numbers: Array
) -> tuple[int, int, int]:
    """Return the first row that a queue that diversifies cannot take, why, and the event that is the reason."""
    for row in range(len(queue_column)):
        queue = queue_column[row]
        if queues[queue, SETTING] == 0:
            continue
        if not 0 <= scores[row] <= 1:
            return row, SCORE_IS_NO_RANK, events[row]
        if row_of(numbers, events[row]) < 0:
            return row, NO_CONTENT, events[row]
        if row == 0 or queue_column[row - 1] != queue:
            event = _held_without_content(queues, arena, queue, numbers)
            if event >= 0:
                return row, NO_CONTENT, event
    return len(queue_column), NO_DIVERSE_FAULT, -1


@compiled
def first_due_without_content(queues: Array, arena: Array, numbers: Array, now: int) -> tuple[int, int]:
    """Return the first queue that has to select before `now` without knowing the content of an event, and the event."""
    for queue in range(len(queues)):
        if queues[queue, SETTING] == 0 or queues[queue, COUNT] == 0 or queues[queue, KIND] == SLIDING:
            continue
        is_due = queues[queue, NEXT] <= now
        if queues[queue, KIND] != PERIODIC:
            oldest = arena[queues[queue, START] + SLOT * queues[queue, HEAD] + TIME]
            is_due = min(queues[queue, NEXT], queues[queue, UNSEEN], oldest + queues[queue, SPAN]) < now
        if is_due:
            event = _held_without_content(queues, arena, queue, numbers)
            if event >= 0:
                return queue, event
    return len(queues), -1
