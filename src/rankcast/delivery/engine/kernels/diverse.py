"""Diverse selection in batched queues.

The list of a queue that diversifies has the events selected, in order, and the divranks by which they were. It stands
until one of them leaves, or an event enters that would have been selected instead of one of them; then it is empty, and
the next evaluation selects again from all that is held. What leaves without having been selected changes nothing: the
others would be selected again. So an arrival that changes nothing costs k distances, not k for each event held, and
none at all where its rank is too low for any distance to help.

Events mostly have the same attributes, so each is looked for where the event before had it.

Greedy diverse selection over arrays: `rankcast.ranking.diversity.diverse_best`, bit for bit.

Events are numbered from the oldest on. With weights their contents are a matrix of codes, a line per attribute in the
order of the attributes' names and a column per event; without, they are lists of attributes and values per event, by
ascending attribute. Distances are added up, and means updated, by the same operations in the same order as there.

Without weights every attribute counts 1. Where all events have the same attributes that is the same as weights of 1, to
the last bit, and faster.

A list is several values of one attribute, one after the other (`contents`). Most events have none; where one has, codes
do not say how alike two events are, and their values are looked at instead.

Cost: k * q distances for k of q events, each as long as there are attributes.
"""

from __future__ import annotations

import numpy as np

from rankcast.arrays import Array
from rankcast.compiling import ZERO, borrowing_inlined, compiled, inlined
from rankcast.compiling.arguments import readers
from rankcast.delivery.engine.contents import DIVERSE_KINDS, LIST, MISSING, Diverse
from rankcast.delivery.engine.kernels.held import DONE, FOUND_FULL, Arrival, has_room, list_of, number_of
from rankcast.delivery.engine.kernels.policies import (
    admit_to_count_window,
    arrive_in_period,
    arrive_in_time_window,
    depart,
    evaluate,
    next_instant,
    pass_in_period,
)
from rankcast.delivery.engine.layout import GONE, HELD, LINE, PERIODIC, SLIDING, SLOT, TIME_WINDOW

NO_DIVERSE_FAULT, SCORE_IS_NO_RANK, NO_CONTENT = range(3)


AT = readers(DIVERSE_KINDS)


@borrowing_inlined
def diverse_of(diversities: Array, shift: int) -> Diverse:
    """Return what diverse selection needs, made where it is used: as a tuple it is dear to pass on."""
    return Diverse(
        shift,
        AT.numbers(diversities),
        AT.starts(diversities),
        AT.attributes(diversities),
        AT.values(diversities),
        AT.sigmas(diversities),
        AT.totals(diversities),
        AT.weight_starts(diversities),
        AT.weight_attributes(diversities),
        AT.weights(diversities),
    )


@borrowing_inlined
def find(column: Array, low: int, high: int, wanted: int) -> int:
    """Return where a number is in an ascending part of a column; -1 when it is not there."""
    end = high
    while low < high:
        middle = (low + high) >> 1
        if column[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low if low < end and column[low] == wanted else -1


@borrowing_inlined
def row_of(numbers: Array, event: int) -> int:
    """Return where an event's content is; -1 when it is unknown. Numbers mostly follow each other."""
    if len(numbers) == 0:
        return -1
    guess = event - numbers[0]
    if 0 <= guess < len(numbers) and numbers[guess] == event:
        return int(guess)
    return find(numbers, 0, len(numbers), event)


@borrowing_inlined
def _payload(starts: Array, attributes: Array, row: int) -> int:
    """Return where the attributes of an event begin that are not the envelope's: those have negative codes."""
    at, end = starts[row], starts[row + 1]
    while at < end and attributes[at] < 0:
        at += 1
    return int(at)


@borrowing_inlined
def _write_codes(
    starts: Array, attributes: Array, values: Array, row: int, wanted: Array, hints: Array, codes: Array
) -> bool:
    """Write the codes of an event's values; `hints` say where the event before had the attributes.

    Returns whether one of them is a list, of which the code is that of any element.
    """
    start, end = starts[row], starts[row + 1]
    has_lists = False
    for line in range(len(wanted)):
        at = start + hints[line]
        if at >= end or attributes[at] != wanted[line]:
            at = find(attributes, start, end, wanted[line])
            hints[line] = max(0, at - start)
        codes[line] = values[at] if at >= 0 else MISSING
        if at >= 0:
            has_lists |= at + 1 < end and attributes[at + 1] == wanted[line]
            has_lists |= at > start and attributes[at - 1] == wanted[line]
    return bool(has_lists)


@borrowing_inlined
def _end_of(attributes: Array, at: int, end: int) -> int:
    """Return where the values of the attribute end that begin at a place."""
    last = at + 1
    while last < end and attributes[last] == attributes[at]:
        last += 1
    return int(last)


@borrowing_inlined
def _likeness(values: Array, first: int, first_end: int, second: int, second_end: int) -> float:
    """Return to what extent two values are equal, whose codes lie in these ranges: common by all distinct ones.

    `LIST` is no element. Two lists without elements are equal.
    """
    distinct, common = 0, 0
    while first < first_end or second < second_end:
        if second >= second_end or (first < first_end and values[first] < values[second]):
            distinct += int(values[first] != LIST)
            first += 1
        elif first >= first_end or values[first] > values[second]:
            distinct += int(values[second] != LIST)
            second += 1
        else:
            common += int(values[first] != LIST)
            first += 1
            second += 1
    return common / (common + distinct) if common + distinct else 1.0


@borrowing_inlined
def _next_share(
    attributes: Array, values: Array, first: int, first_end: int, second: int, second_end: int, above: float
) -> tuple[float, int]:
    """Return the least share below 1 and above another one to which two events are alike in lists, and how often."""
    least, times = 1.0, 0
    while first < first_end and second < second_end:
        if attributes[first] < attributes[second]:
            first += 1
        elif attributes[first] > attributes[second]:
            second += 1
        else:
            end, last = _end_of(attributes, first, first_end), _end_of(attributes, second, second_end)
            share = _likeness(values, first, end, second, last)
            if above < share < least:
                least, times = share, 1
            elif share == least and share < 1:
                times += 1
            first, second = end, last
    return least, times


@borrowing_inlined
def _distance_with_lists(
    starts: Array, attributes: Array, values: Array, row: int, other: int, wanted: Array, weights: Array, total: float
) -> float:
    """Return the distance of two events with weights, by the values themselves."""
    alike = 0.0
    for line in range(len(wanted)):
        at = find(attributes, starts[row], starts[row + 1], wanted[line])
        to = find(attributes, starts[other], starts[other + 1], wanted[line])
        if at >= 0 and to >= 0:
            end, last = _end_of(attributes, at, starts[row + 1]), _end_of(attributes, to, starts[other + 1])
            alike += weights[line] * _likeness(values, at, end, to, last)
    return float(1 - alike / total)


@borrowing_inlined
def _weighted_distance(codes: Array, others: Array, weights: Array, total: float) -> float:
    alike = 0.0
    for line in range(len(weights)):
        if codes[line] != MISSING and codes[line] == others[line]:
            alike += weights[line]
    return float(1 - alike / total)


@borrowing_inlined
def _is_older(arena: Array, slot: int, other: int) -> bool:
    if arena[slot + HELD.time] != arena[other + HELD.time]:
        return bool(arena[slot + HELD.time] < arena[other + HELD.time])
    return bool(number_of(arena[slot + HELD.event]) < number_of(arena[other + HELD.event]))


@inlined
def _is_hopeless(floats: Array, scores: int, length: int, rank: float, most: float) -> bool:
    """Whether an event would not be selected even if it were as different as can be, with a divrank of `most`."""
    if rank >= floats[scores]:
        return False
    return bool(most < floats[scores + 1 : scores + length].min()) if length > 1 else True


@compiled
def consider(queues: Array, arena: Array, queue: int, place: int, diverse: Diverse) -> None:
    """Empty the list of a queue if the event that entered at this place would have been selected."""
    length, start, setting = queues[queue, LINE.top], queues[queue, LINE.start], queues[queue, LINE.setting] - 1
    if length == 0:
        return
    queues[queue, LINE.top] = 0
    if length < queues[queue, LINE.k]:
        return
    floats, sigma = arena.view(np.float64), diverse.sigmas[setting]
    numbers, starts, attributes, values = diverse.numbers, diverse.starts, diverse.attributes, diverse.values
    scores, places = list_of(queues, queue)
    slot = start + SLOT * place
    rank, mean = floats[slot + HELD.score], 0.0
    if _is_hopeless(floats, scores, length, rank, divrank_of(sigma, rank, 1.0)):
        queues[queue, LINE.top] = length
        return
    row = row_of(numbers, arena[slot + HELD.event] >> diverse.shift)
    first, last = diverse.weight_starts[setting], diverse.weight_starts[setting + 1]
    weights, wanted, total = diverse.weights[first:last], diverse.weight_attributes[first:last], diverse.totals[setting]
    codes, others = np.empty(last - first, np.int64), np.empty(last - first, np.int64)
    hints = np.zeros(last - first, np.int64)
    has_lists = _write_codes(starts, attributes, values, row, wanted, hints, codes)
    payload = _payload(starts, attributes, row)
    for at in range(length):
        divrank = divrank_of(sigma, rank, mean) if at > 0 else rank
        other = start + SLOT * (arena[places + at] >> 1)
        if divrank > floats[scores + at]:
            return
        if divrank == floats[scores + at] and (
            rank > floats[other + HELD.score] or (rank == floats[other + HELD.score] and _is_older(arena, slot, other))
        ):
            return
        if at + 1 < length:
            selected = row_of(numbers, number_of(arena[other + HELD.event]) >> diverse.shift)
            if first < last:
                if _write_codes(starts, attributes, values, selected, wanted, hints, others) or has_lists:
                    distance = _distance_with_lists(starts, attributes, values, row, selected, wanted, weights, total)
                else:
                    distance = _weighted_distance(codes, others, weights, total)
            else:
                theirs = _payload(starts, attributes, selected)
                distance = unweighted_distance(
                    attributes, values, payload, starts[row + 1], theirs, starts[selected + 1]
                )
            mean = mean_with(mean, distance, at + 1)
    queues[queue, LINE.top] = length


@inlined
def _oldest_first(queues: Array, arena: Array, queue: int) -> Array:
    """Return the places of the events held, oldest first. They are in the order of their times already."""
    start, count = queues[queue, LINE.start], queues[queue, LINE.size]
    places, found = np.empty(count, np.int64), 0
    for offset in range(count):
        place = queues[queue, LINE.head] + offset
        if arena[start + SLOT * place + HELD.event] == GONE:
            continue
        at = found
        while at > 0 and _is_older(arena, start + SLOT * place, start + SLOT * places[at - 1]):
            places[at] = places[at - 1]
            at -= 1
        places[at] = place
        found += 1
    return places[:found]


@compiled
def _weighted_codes(starts: Array, attributes: Array, values: Array, rows: Array, wanted: Array) -> tuple[Array, bool]:
    """Return the codes of some events' values, a line per attribute, and whether some of them are lists."""
    codes, hints = np.empty((len(wanted), len(rows)), np.int64), np.zeros(len(wanted), np.int64)
    own, has_lists = np.empty(len(wanted), np.int64), False
    for at in range(len(rows)):
        has_lists |= _write_codes(starts, attributes, values, rows[at], wanted, hints, own)
        for line in range(len(wanted)):
            codes[line, at] = own[line]
    return codes, has_lists


@compiled
def _payloads(starts: Array, attributes: Array, rows: Array) -> tuple[Array, Array]:
    """Return where the attributes of some events begin and end."""
    begins, ends = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
    for at in range(len(rows)):
        begins[at], ends[at] = _payload(starts, attributes, rows[at]), starts[rows[at] + 1]
    return begins, ends


@compiled
def _common_codes(attributes: Array, values: Array, starts: Array, ends: Array) -> Array:
    """Return the codes of events that all have the same attributes, a line per attribute.

    There is no line if they have not, or have lists.
    """
    length = ends[0] - starts[0] if len(starts) else 0
    codes = np.empty((length, len(starts)), np.int64)
    for at in range(len(starts)):
        if ends[at] - starts[at] != length:
            return np.empty((0, 0), np.int64)
        for line in range(length):
            is_list = line > 0 and attributes[starts[at] + line] == attributes[starts[at] + line - 1]
            if is_list or attributes[starts[at] + line] != attributes[starts[0] + line]:
                return np.empty((0, 0), np.int64)
            codes[line, at] = values[starts[at] + line]
    return codes


@compiled
def select_again(queues: Array, arena: Array, queue: int, diverse: Diverse) -> None:
    """Make the list of a queue from all that it holds."""
    start, setting = queues[queue, LINE.start], queues[queue, LINE.setting] - 1
    held = _oldest_first(queues, arena, queue)
    floats, count = arena.view(np.float64), len(held)
    ranks, rows = np.empty(count), np.empty(count, np.int64)
    for at in range(count):
        slot = start + SLOT * held[at]
        ranks[at] = floats[slot + HELD.score]
        rows[at] = row_of(diverse.numbers, number_of(arena[slot + HELD.event]) >> diverse.shift)
    selected = np.empty(min(count, queues[queue, LINE.k]), np.int64)
    divranks = np.empty(len(selected))
    _select(ranks, rows, diverse, setting, selected, divranks)
    scores, places = list_of(queues, queue)
    for at in range(len(selected)):
        place = held[selected[at]]
        floats[scores + at] = divranks[at]
        arena[places + at] = 2 * place + int(arena[start + SLOT * place + HELD.event] < 0)
    queues[queue, LINE.top] = len(selected)


@borrowing_inlined
def _held_without_content(queues: Array, arena: Array, queue: int, numbers: Array) -> int:
    """Return an event that a queue holds and whose content is unknown; -1 when there is none."""
    first = queues[queue, LINE.start] + SLOT * queues[queue, LINE.head]
    for offset in range(queues[queue, LINE.size]):
        word = arena[first + SLOT * offset + HELD.event]
        if word != GONE and row_of(numbers, number_of(word)) < 0:
            return int(number_of(word))
    return -1


@compiled
def first_diverse_fault(
    queues: Array, arena: Array, queue_column: Array, events: Array, scores: Array, numbers: Array
) -> tuple[int, int, int]:
    """Return the first row that a queue that diversifies cannot take, why, and the event that is the reason."""
    for row in range(len(queue_column)):
        queue = queue_column[row]
        if queues[queue, LINE.setting] == 0:
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
def first_due_without_content(queues: Array, arena: Array, numbers: Array, now: int, ends: int) -> tuple[int, int]:
    """Return the first queue that has to select before `now` without knowing the content of an event, and the event.

    With `ends`, 1 instead of 0, a period that ends at `now` has to.
    """
    for queue in range(len(queues)):
        if queues[queue, LINE.setting] == 0 or queues[queue, LINE.size] == 0 or queues[queue, LINE.kind] == SLIDING:
            continue
        is_due = queues[queue, LINE.next] < now + ends
        if queues[queue, LINE.kind] != PERIODIC:
            is_due = min(queues[queue, LINE.next], queues[queue, LINE.unseen]) < now
        if is_due:
            event = _held_without_content(queues, arena, queue, numbers)
            if event >= 0:
                return queue, event
    return len(queues), -1


@inlined
def _evaluate(
    queues: Array, arena: Array, found: Array, counters: Array, queue: int, instant: int, diverse: Diverse
) -> None:
    if queues[queue, LINE.top] < min(queues[queue, LINE.k], queues[queue, LINE.size]):
        select_again(queues, arena, queue, diverse)
    evaluate(queues, arena, found, counters, queue, instant)


@compiled
def pass_diverse(
    queues: Array, arena: Array, found: Array, counters: Array, queue: int, now: int, diverse: Diverse
) -> int:
    """Let time pass to `now` in a queue that diversifies."""
    if queues[queue, LINE.kind] == SLIDING:
        return DONE
    if queues[queue, LINE.kind] == PERIODIC:
        if queues[queue, LINE.next] <= now:
            select_again(queues, arena, queue, diverse)
        return pass_in_period(queues, arena, found, counters, queue, now)
    while True:
        instant = next_instant(queues, queue)
        if instant >= now:
            return DONE
        if not has_room(found, counters, min(queues[queue, LINE.k], queues[queue, LINE.size])):
            return FOUND_FULL
        depart(queues, arena, queue, instant)
        _evaluate(queues, arena, found, counters, queue, instant, diverse)


@compiled
def take_diverse(
    queues: Array,
    arena: Array,
    found: Array,
    counters: Array,
    queue: int,
    arrival: Arrival,
    now: int,
    diverse: Diverse,
) -> int:
    """Let time pass and an event arrive in a queue that diversifies."""
    status = pass_diverse(queues, arena, found, counters, queue, now, diverse)
    if status != DONE or arrival.expiry <= now:
        return status
    kind = queues[queue, LINE.kind]
    if kind == PERIODIC:
        return arrive_in_period(queues, arena, counters, queue, arrival, now)
    if kind == TIME_WINDOW:
        if arrival.time + queues[queue, LINE.span] <= now:
            return DONE
        status = arrive_in_time_window(queues, arena, counters, queue, arrival, now)
    else:
        status = admit_to_count_window(queues, arena, found, counters, queue, arrival, now)
    if status == DONE:
        consider(queues, arena, queue, queues[queue, LINE.head] + queues[queue, LINE.size] - 1, diverse)
        if kind != TIME_WINDOW:
            _evaluate(queues, arena, found, counters, queue, now, diverse)
    return status


@borrowing_inlined
def unweighted_distance(
    attributes: Array, values: Array, first: int, first_end: int, second: int, second_end: int
) -> float:
    """Return the distance of two events whose contents lie in these ranges, every attribute counting 1.

    Shares of lists are added by size, as in the definition, and then what is equal.
    """
    alike, total, has_parts = 0, 0, False
    start, begin = first, second
    while first < first_end or second < second_end:
        total += 1
        if second >= second_end or (first < first_end and attributes[first] < attributes[second]):
            first = _end_of(attributes, first, first_end)
        elif first >= first_end or attributes[first] > attributes[second]:
            second = _end_of(attributes, second, second_end)
        else:
            end, last = _end_of(attributes, first, first_end), _end_of(attributes, second, second_end)
            if end == first + 1 and last == second + 1:
                alike += int(values[first] == values[second])
            else:
                share = _likeness(values, first, end, second, last)
                alike += int(share == 1)
                has_parts |= 0 < share < 1
            first, second = end, last
    if not total:
        return 0.0
    part, share = 0.0, 0.0
    while has_parts:
        share, times = _next_share(attributes, values, start, first_end, begin, second_end, share)
        for _ in range(times):
            part += share
        has_parts = times > 0
    return 1 - (part + alike) / total


@borrowing_inlined
def mean_with(mean: float, distance: float, count: int) -> float:
    """Return the mean of `count` distances, given the last of them and the mean of the others."""
    return (mean * (count - 1) + distance) / count


@borrowing_inlined
def divrank_of(sigma: float, rank: float, mean: float) -> float:
    """Return what a candidate is selected by."""
    return sigma * rank + (1 - sigma) * mean


@compiled
def _best_of(divranks: Array, ranks: Array, taken: Array) -> int:
    """Return the event of the largest divrank, among equals of the largest rank, among those the oldest."""
    chosen = -1
    for at in range(len(ranks)):
        if not taken[at] and (
            chosen < 0
            or divranks[at] > divranks[chosen]
            or (divranks[at] == divranks[chosen] and ranks[at] > ranks[chosen])
        ):
            chosen = at
    return chosen


@compiled
def _add_weighted_distances(
    codes: Array, weights: Array, total: float, last: int, count: int, means: Array, alike: Array
) -> None:
    alike[:] = 0.0
    for line in range(len(weights)):
        code, weight = codes[line, last], weights[line]
        if code != MISSING:
            for at in range(len(means)):
                alike[at] += weight if codes[line, at] == code else 0.0
    for at in range(len(means)):
        means[at] = mean_with(means[at], 1 - alike[at] / total, count)


@compiled
def _add_distances_with_lists(
    starts: Array,
    attributes: Array,
    values: Array,
    rows: Array,
    wanted: Array,
    weights: Array,
    total: float,
    last: int,
    count: int,
    means: Array,
) -> None:
    for at in range(len(means)):
        distance = _distance_with_lists(starts, attributes, values, rows[at], rows[last], wanted, weights, total)
        means[at] = mean_with(means[at], distance, count)


@compiled
def _add_unweighted_distances(
    starts: Array, ends: Array, attributes: Array, values: Array, last: int, count: int, means: Array, taken: Array
) -> None:
    for at in range(len(means)):
        if not taken[at]:
            distance = unweighted_distance(attributes, values, starts[at], ends[at], starts[last], ends[last])
            means[at] = mean_with(means[at], distance, count)


@compiled
def _select(ranks: Array, rows: Array, diverse: Diverse, setting: int, selected: Array, chosen_by: Array) -> None:
    """Select events, oldest first, whose contents are in some rows; write which, and their divranks, in order.

    With weights the contents are made a matrix of codes; without, those of event `at` are between two places.
    """
    first, last = diverse.weight_starts[setting], diverse.weight_starts[setting + 1]
    attributes, values, sigma = diverse.attributes, diverse.values, diverse.sigmas[setting]
    weights, total = diverse.weights[first:last], diverse.totals[setting]
    starts, ends = np.empty(0, np.int64), np.empty(0, np.int64)
    wanted, has_lists = diverse.weight_attributes[first:last], False
    if first < last:
        codes, has_lists = _weighted_codes(diverse.starts, attributes, values, rows, wanted)
    else:
        starts, ends = _payloads(diverse.starts, attributes, rows)
        codes = _common_codes(attributes, values, starts, ends)
        weights, total = np.ones(len(codes)), float(len(codes))
    means, taken = np.zeros(len(ranks)), np.zeros(len(ranks), np.bool_)
    divranks, alike = ranks.copy(), np.empty(len(ranks))
    for count in range(len(selected)):
        if count > 0:
            last = selected[count - 1]
            if has_lists:
                _add_distances_with_lists(
                    diverse.starts, attributes, values, rows, wanted, weights, total, last, count, means
                )
            elif len(weights):
                _add_weighted_distances(codes, weights, total, last, count, means, alike)
            else:
                _add_unweighted_distances(starts, ends, attributes, values, last, count, means, taken)
            for at in range(len(ranks)):
                divranks[at] = divrank_of(sigma, ranks[at], means[at])
        chosen = _best_of(divranks, ranks, taken)
        taken[chosen] = True
        selected[count], chosen_by[count] = chosen, divranks[chosen]


@compiled
def select_events(ranks: Array, diversities: Array, selected: Array) -> None:
    """Select from events, oldest first, whose contents are all that there are, by the only setting; write which."""
    _select(ranks, np.arange(len(ranks)), diverse_of(diversities, ZERO), ZERO, selected, np.empty(len(selected)))
