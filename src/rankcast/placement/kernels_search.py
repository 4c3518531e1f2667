"""Local search: take the subscribers at one side of a box out of it, and put them back where they cost least.

A move picks a leaf, a box of its filter and a side, takes out everybody who reaches into the outermost slab there (now
and then all of the box), shrinks what is left, and puts them back one by one, largest interest first: where a filter
contains the interest already, the least loaded first; else, where one is full, by sending somebody there away who is
contained elsewhere; else where filters grow least. A move that costs more than simulated annealing allows is undone.

Every part of a subscriber's interest is in one *slot*, a box of its leaf's filter, and every used slot of a broker in
one slot of the broker above: a box is always at least the hull of what is in it.

Cost: O(subscribers of the leaf + taken out * candidates * alpha) per move.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rankcast.compiling import compiled
from rankcast.placement.boxes import Array
from rankcast.placement.kernels_filters import Events, Scratch, contains, copy_into, measure, widen

NOWHERE = -1

WHOLE_BOX = 0.03
"""How often a move takes out all of a box."""

DEEPEST = 0.5
"""The deepest slab, as a share of the box; shallow ones are tried more often."""

EJECTIONS = 12
"""Subscribers of a full leaf that are asked to go elsewhere."""


class Terms(NamedTuple):
    """What does not change: the problem as kernels take it.

    Interests; by subscriber a rank (the larger its interest the lower; the same for equal interest and candidates), the
    interest, the group of candidates, and where its slots start; candidate columns by group; by column the broker and
    its room; by broker the one above, the boxes allowed, and the children.
    """

    offsets: Array
    sides: Array
    ranks: Array
    interest_of: Array
    group_of: Array
    slot_starts: Array
    starts: Array
    columns: Array
    leaves: Array
    rooms: Array
    parents: Array
    most: Array
    child_starts: Array
    children: Array


class State(NamedTuple):
    """The placement as it stands. `members` has a row of subscribers per column, `place_of` is where in it they are.

    By broker and slot: the box, how many things are in it, and the slot above it that it is in.
    """

    column_of: Array
    slots: Array
    members: Array
    place_of: Array
    loads: Array
    boxes: Array
    counts: Array
    upper: Array
    measures: Array


class Undo(NamedTuple):
    """What a move has changed, as it was before: subscribers and brokers that bear the number of the move."""

    moved: Array
    moved_at: Array
    columns: Array
    slots: Array
    brokers: Array
    brokers_at: Array
    boxes: Array
    counts: Array
    upper: Array
    measures: Array
    sizes: Array


SUBSCRIBERS, BROKERS, MOVE = range(3)
"""What `Undo.sizes` holds: how many subscribers and brokers are remembered, and the number of the move."""


@compiled
def _random(state: Array) -> float:
    """Return the next number in [0, 1): splitmix64."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    mixed = state[0]
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed = mixed ^ (mixed >> np.uint64(31))
    return float(mixed >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@compiled
def begin(undo: Undo) -> None:
    """Begin a move: forget the one before."""
    undo.sizes[SUBSCRIBERS] = 0
    undo.sizes[BROKERS] = 0
    undo.sizes[MOVE] += 1


@compiled
def _remember(subscriber: int, terms: Terms, state: State, undo: Undo) -> None:
    if undo.moved_at[subscriber] == undo.sizes[MOVE]:
        return
    undo.moved_at[subscriber] = undo.sizes[MOVE]
    undo.moved[undo.sizes[SUBSCRIBERS]] = subscriber
    undo.sizes[SUBSCRIBERS] += 1
    undo.columns[subscriber] = state.column_of[subscriber]
    for slot in range(terms.slot_starts[subscriber], terms.slot_starts[subscriber + 1]):
        undo.slots[slot] = state.slots[slot]


@compiled
def _remember_broker(broker: int, state: State, undo: Undo) -> None:
    if undo.brokers_at[broker] == undo.sizes[MOVE]:
        return
    undo.brokers_at[broker] = undo.sizes[MOVE]
    undo.brokers[undo.sizes[BROKERS]] = broker
    undo.sizes[BROKERS] += 1
    for slot in range(state.counts.shape[1]):
        copy_into(undo.boxes[broker, slot], state.boxes[broker, slot])
    copy_into(undo.counts[broker], state.counts[broker])
    copy_into(undo.upper[broker], state.upper[broker])
    undo.measures[broker] = state.measures[broker]


@compiled
def _take_out(subscriber: int, terms: Terms, state: State) -> None:
    column = state.column_of[subscriber]
    last = state.members[column, state.loads[column] - 1]
    place = state.place_of[subscriber]
    state.members[column, place] = last
    state.place_of[last] = place
    state.loads[column] -= 1
    state.column_of[subscriber] = NOWHERE
    for slot in range(terms.slot_starts[subscriber], terms.slot_starts[subscriber + 1]):
        state.counts[terms.leaves[column], state.slots[slot]] -= 1


@compiled
def _put_in(subscriber: int, column: int, terms: Terms, state: State) -> None:
    """Add a subscriber to a leaf, in whose slots its parts are already."""
    state.column_of[subscriber] = column
    state.members[column, state.loads[column]] = subscriber
    state.place_of[subscriber] = state.loads[column]
    state.loads[column] += 1


@compiled
def _measure_with(
    broker: int, changed: int, box: Array, terms: Terms, state: State, events: Events, scratch: Scratch
) -> float:
    """Return the measure of a filter if a slot, or none, also had a box in it."""
    used = 0
    for slot in range(terms.most[broker]):
        if state.counts[broker, slot] > 0:
            copy_into(scratch.trial[used], state.boxes[broker, slot])
            if slot == changed:
                widen(scratch.trial[used], box)
            used += 1
        elif slot == changed:
            copy_into(scratch.trial[used], box)
            used += 1
    return measure(scratch.trial, used, events, scratch)


@compiled
def _holding(broker: int, box: Array, terms: Terms, state: State) -> int:
    """Return a slot whose box contains a box, or NOWHERE."""
    for slot in range(terms.most[broker]):
        if state.counts[broker, slot] > 0 and contains(state.boxes[broker, slot], box):
            return slot
    return NOWHERE


@compiled
def _cheapest(
    broker: int, box: Array, terms: Terms, state: State, events: Events, scratch: Scratch
) -> tuple[float, int]:
    """Return how much one filter grows at least to let a box in, and in which slot; unused slots are tried once."""
    best, best_slot = np.inf, NOWHERE
    tried_unused = False
    for slot in range(terms.most[broker]):
        if state.counts[broker, slot] == 0:
            if tried_unused:
                continue
            tried_unused = True
        growth = _measure_with(broker, slot, box, terms, state, events, scratch) - state.measures[broker]
        if growth < best:
            best, best_slot = growth, slot
    return best, best_slot


@compiled
def _growth(leaf: int, box: Array, bound: float, terms: Terms, state: State, events: Events, scratch: Scratch) -> float:
    """Return how much the filters from a leaf up grow to let a box in; more than `bound` may be any such number."""
    if _holding(leaf, box, terms, state) != NOWHERE:
        return 0.0
    total, slot = _cheapest(leaf, box, terms, state, events, scratch)
    growing = scratch.box
    copy_into(growing, box)
    broker = leaf
    while terms.parents[broker] >= 0 and total <= bound:
        above = terms.parents[broker]
        if state.counts[broker, slot] > 0:
            widen(growing, state.boxes[broker, slot])
            upper = state.upper[broker, slot]
            if contains(state.boxes[above, upper], growing):
                break
            total += _measure_with(above, upper, growing, terms, state, events, scratch) - state.measures[above]
        else:
            if _holding(above, growing, terms, state) != NOWHERE:
                break
            more, upper = _cheapest(above, growing, terms, state, events, scratch)
            total += more
        broker, slot = above, upper
    return total


@compiled
def _raise(
    leaf: int, leaf_slot: int, box: Array, terms: Terms, state: State, undo: Undo, events: Events, scratch: Scratch
) -> None:
    """Add a box to a slot of a leaf, and let the filters above contain what has grown, as `_growth` reckons."""
    growing = scratch.box
    copy_into(growing, box)
    broker, slot, arrives = leaf, leaf_slot, True
    while True:
        _remember_broker(broker, state, undo)
        is_new = state.counts[broker, slot] == 0
        changes = is_new or not contains(state.boxes[broker, slot], growing)
        if changes:
            if not is_new:
                widen(growing, state.boxes[broker, slot])
            state.measures[broker] = _measure_with(broker, slot, growing, terms, state, events, scratch)
            copy_into(state.boxes[broker, slot], growing)
        if arrives:
            state.counts[broker, slot] += 1
        above = terms.parents[broker]
        if above < 0 or not changes:
            break
        if is_new:
            upper = _holding(above, growing, terms, state)
            if upper == NOWHERE:
                _, upper = _cheapest(above, growing, terms, state, events, scratch)
            state.upper[broker, slot] = upper
        broker, slot, arrives = above, state.upper[broker, slot], is_new


@compiled
def _refit_above(leaf: int, terms: Terms, state: State, undo: Undo, events: Events, scratch: Scratch) -> None:
    """Shrink the filters above a leaf to what is below them."""
    broker = terms.parents[leaf]
    while broker >= 0:
        _remember_broker(broker, state, undo)
        for slot in range(terms.most[broker]):
            state.counts[broker, slot] = 0
        for place in range(terms.child_starts[broker], terms.child_starts[broker + 1]):
            child = terms.children[place]
            for slot in range(terms.most[child]):
                if state.counts[child, slot] == 0:
                    continue
                upper = state.upper[child, slot]
                if state.counts[broker, upper] > 0:
                    widen(state.boxes[broker, upper], state.boxes[child, slot])
                else:
                    copy_into(state.boxes[broker, upper], state.boxes[child, slot])
                state.counts[broker, upper] += 1
        state.measures[broker] = _measure_with(broker, NOWHERE, scratch.box, terms, state, events, scratch)
        broker = terms.parents[broker]


@compiled
def _reaches(subscriber: int, slot: int, side: int, limit: float, terms: Terms, state: State) -> bool:
    """Whether some part of a subscriber in a slot reaches a limit at a side."""
    first = terms.offsets[terms.interest_of[subscriber]]
    for at in range(terms.slot_starts[subscriber], terms.slot_starts[subscriber + 1]):
        part = first + at - terms.slot_starts[subscriber]
        if state.slots[at] == slot and terms.sides[part, side] >= limit:
            return True
    return False


@compiled
def _take_out_slab(
    column: int,
    slot: int,
    side: int,
    limit: float,
    taken: Array,
    terms: Terms,
    state: State,
    undo: Undo,
    events: Events,
    scratch: Scratch,
) -> int:
    """Take out who reaches a limit at a side of a box, and shrink the leaf's filter; return how many they are."""
    leaf = terms.leaves[column]
    _remember_broker(leaf, state, undo)
    count = 0
    for place in range(state.loads[column]):
        subscriber = state.members[column, place]
        if _reaches(subscriber, slot, side, limit, terms, state):
            taken[count] = subscriber
            count += 1
    for place in range(count):
        _remember(taken[place], terms, state, undo)
        _take_out(taken[place], terms, state)
    for at in range(terms.most[leaf]):
        for other in range(terms.sides.shape[1]):
            state.boxes[leaf, at, other] = -np.inf
    for place in range(state.loads[column]):
        subscriber = state.members[column, place]
        first = terms.offsets[terms.interest_of[subscriber]]
        for at in range(terms.slot_starts[subscriber], terms.slot_starts[subscriber + 1]):
            part = first + at - terms.slot_starts[subscriber]
            for other in range(terms.sides.shape[1]):
                reach = terms.sides[part, other]
                state.boxes[leaf, state.slots[at], other] = max(state.boxes[leaf, state.slots[at], other], reach)
    state.measures[leaf] = _measure_with(leaf, NOWHERE, scratch.box, terms, state, events, scratch)
    _refit_above(leaf, terms, state, undo, events, scratch)
    return count


@compiled
def shrink_all(taken: Array, terms: Terms, state: State, undo: Undo, events: Events, scratch: Scratch) -> None:
    """Shrink all filters to what is in them."""
    for column in range(len(terms.leaves)):
        begin(undo)
        _take_out_slab(column, NOWHERE, 0, np.inf, taken, terms, state, undo, events, scratch)


@compiled
def _holds_all(subscriber: int, leaf: int, terms: Terms, state: State) -> bool:
    interest = terms.interest_of[subscriber]
    for part in range(terms.offsets[interest], terms.offsets[interest + 1]):
        if _holding(leaf, terms.sides[part], terms, state) == NOWHERE:
            return False
    return True


@compiled
def _free_column(subscriber: int, terms: Terms, state: State, but: int) -> tuple[int, int]:
    """Return the least loaded column with room that contains an interest, and one without room that does."""
    best, full = NOWHERE, NOWHERE
    group = terms.group_of[subscriber]
    for place in range(terms.starts[group], terms.starts[group + 1]):
        column = terms.columns[place]
        if column == but or (best != NOWHERE and state.loads[column] >= state.loads[best]):
            continue
        if best != NOWHERE and state.loads[column] >= terms.rooms[column]:
            continue
        if _holds_all(subscriber, terms.leaves[column], terms, state):
            if state.loads[column] < terms.rooms[column]:
                best = column
            else:
                full = column
    return best, full


@compiled
def _is_spare(subscriber: int, terms: Terms, state: State) -> bool:
    """Whether no slot is left empty when a subscriber goes."""
    leaf = terms.leaves[state.column_of[subscriber]]
    parts = terms.slot_starts[subscriber + 1] - terms.slot_starts[subscriber]
    for slot in range(terms.slot_starts[subscriber], terms.slot_starts[subscriber + 1]):
        if state.counts[leaf, state.slots[slot]] <= parts:
            return False
    return True


@compiled
def _put(
    subscriber: int, column: int, terms: Terms, state: State, undo: Undo, events: Events, scratch: Scratch
) -> None:
    """Put a subscriber that is nowhere to a leaf, and let filters grow as they must."""
    leaf = terms.leaves[column]
    first = terms.offsets[terms.interest_of[subscriber]]
    for slot in range(terms.slot_starts[subscriber], terms.slot_starts[subscriber + 1]):
        box = terms.sides[first + slot - terms.slot_starts[subscriber]]
        held = _holding(leaf, box, terms, state)
        if held != NOWHERE:  # the usual case: nothing grows
            _remember_broker(leaf, state, undo)
            state.counts[leaf, held] += 1
        else:
            _, held = _cheapest(leaf, box, terms, state, events, scratch)
            _raise(leaf, held, box, terms, state, undo, events, scratch)
        state.slots[slot] = held
    _put_in(subscriber, column, terms, state)


@compiled
def put_all(column_of: Array, terms: Terms, state: State, undo: Undo, events: Events, scratch: Scratch) -> None:
    """Put everybody to a given leaf; there is no undoing that."""
    for subscriber in range(len(column_of)):
        begin(undo)
        _put(subscriber, column_of[subscriber], terms, state, undo, events, scratch)


@compiled
def _made_room(
    column: int, terms: Terms, state: State, undo: Undo, events: Events, scratch: Scratch, random: Array
) -> bool:
    """Send somebody of a full leaf to another one that contains its interest."""
    for _ in range(EJECTIONS):
        subscriber = state.members[column, int(_random(random) * state.loads[column])]
        if not _is_spare(subscriber, terms, state):
            continue
        other, _full = _free_column(subscriber, terms, state, column)
        if other != NOWHERE:
            _remember(subscriber, terms, state, undo)
            _remember_broker(terms.leaves[column], state, undo)
            _take_out(subscriber, terms, state)
            _put(subscriber, other, terms, state, undo, events, scratch)
            return True
    return False


@compiled
def _change(state: State, undo: Undo) -> float:
    """Return by how much a move has changed the traffic so far."""
    total = 0.0
    for at in range(undo.sizes[BROKERS]):
        broker = undo.brokers[at]
        total += state.measures[broker] - undo.measures[broker]
    return total


@compiled
def _cheapest_column(
    subscriber: int, bound: float, terms: Terms, state: State, events: Events, scratch: Scratch
) -> int:
    """Return the column with room where filters grow least, and not by more than a bound; else NOWHERE."""
    best, best_growth = NOWHERE, bound
    interest, group = terms.interest_of[subscriber], terms.group_of[subscriber]
    for place in range(terms.starts[group], terms.starts[group + 1]):
        column = terms.columns[place]
        if state.loads[column] >= terms.rooms[column]:
            continue
        growth = 0.0
        for part in range(terms.offsets[interest], terms.offsets[interest + 1]):
            left = best_growth - growth
            growth += _growth(terms.leaves[column], terms.sides[part], left, terms, state, events, scratch)
        if growth < best_growth or (growth == best_growth and best == NOWHERE):
            best, best_growth = column, growth
    return best


@compiled
def _undo(terms: Terms, state: State, undo: Undo) -> None:
    for at in range(undo.sizes[SUBSCRIBERS]):
        if state.column_of[undo.moved[at]] != NOWHERE:
            _take_out(undo.moved[at], terms, state)
    for at in range(undo.sizes[SUBSCRIBERS]):
        subscriber = undo.moved[at]
        for slot in range(terms.slot_starts[subscriber], terms.slot_starts[subscriber + 1]):
            state.slots[slot] = undo.slots[slot]
        _put_in(subscriber, undo.columns[subscriber], terms, state)
    for at in range(undo.sizes[BROKERS]):
        broker = undo.brokers[at]
        for slot in range(state.counts.shape[1]):
            copy_into(state.boxes[broker, slot], undo.boxes[broker, slot])
        copy_into(state.counts[broker], undo.counts[broker])
        copy_into(state.upper[broker], undo.upper[broker])
        state.measures[broker] = undo.measures[broker]


@compiled
def _sort_largest_first(taken: Array, count: int, terms: Terms) -> None:
    """Sort subscribers by their ranks, by shell sort: numpy's sorting takes seconds to compile."""
    gap = 1
    while gap < count // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for place in range(gap, count):
            subscriber = taken[place]
            rank = terms.ranks[subscriber]
            at = place
            while at >= gap and terms.ranks[taken[at - gap]] > rank:
                taken[at] = taken[at - gap]
                at -= gap
            taken[at] = subscriber
        gap //= 3


@compiled
def _move(
    column: int,
    slot: int,
    allowance: float,
    taken: Array,
    terms: Terms,
    state: State,
    undo: Undo,
    events: Events,
    scratch: Scratch,
    random: Array,
) -> bool:
    """Make one move, unless it would cost more than its allowance; return whether it was made."""
    leaf = terms.leaves[column]
    attributes = terms.sides.shape[1] // 2
    side = int(_random(random) * 2 * attributes)
    length = state.boxes[leaf, slot, side] + state.boxes[leaf, slot, (side + attributes) % (2 * attributes)]
    limit = state.boxes[leaf, slot, side] - DEEPEST * _random(random) ** 2 * length
    if _random(random) < WHOLE_BOX:
        limit = -np.inf
    begin(undo)
    count = _take_out_slab(column, slot, side, limit, taken, terms, state, undo, events, scratch)
    _sort_largest_first(taken, count, terms)
    target, target_rank = NOWHERE, NOWHERE
    for place in range(count):
        subscriber = taken[place]
        full = NOWHERE
        # Where one has gone another with the same interest and candidates is contained, too: no need to look again.
        if target_rank != terms.ranks[subscriber] or state.loads[target] >= terms.rooms[target]:
            target, full = _free_column(subscriber, terms, state, NOWHERE)
        if (
            target == NOWHERE
            and full not in (NOWHERE, column)
            and _made_room(full, terms, state, undo, events, scratch, random)
        ):
            target = full
        if target == NOWHERE:
            left = allowance - _change(state, undo)
            target = _cheapest_column(subscriber, left, terms, state, events, scratch)
        if target == NOWHERE:
            _undo(terms, state, undo)
            return False
        _put(subscriber, target, terms, state, undo, events, scratch)
        target_rank = terms.ranks[subscriber]
    if _change(state, undo) > allowance:
        _undo(terms, state, undo)
        return False
    return True


@compiled
def search(
    moves: int,
    temperature: float,
    taken: Array,
    terms: Terms,
    state: State,
    undo: Undo,
    events: Events,
    scratch: Scratch,
    random: Array,
) -> int:
    """Try so many moves at one temperature; return how many were made."""
    made = 0
    for _ in range(moves):
        column = int(_random(random) * len(terms.leaves))
        slot = int(_random(random) * terms.most[terms.leaves[column]])
        allowance = -temperature * np.log(1.0 - _random(random))
        if state.counts[terms.leaves[column], slot] > 0:
            made += _move(column, slot, allowance, taken, terms, state, undo, events, scratch, random)
    return made
