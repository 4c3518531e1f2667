"""Local search: take the subscribers at one side of a box out of it, and put them back where they cost least.

A move picks a leaf, a box of its filter and a side, takes out everybody who reaches into the outermost slab there (now
and then all of the box), shrinks what is left, and puts them back one by one, largest interest first: where a filter
contains the interest already, the least loaded first; else, where one is full, by sending somebody there away who is
contained elsewhere; else where filters grow least. A move that costs more than simulated annealing allows is undone.

*Filters* grow from a leaf up to let something in: where the box of a slot grows, the box of the slot above that it is
in has to contain it, and so on up the tree. Where a slot comes into use, it is put into the box above that contains it,
or into the one that grows least by it.

Cost: O(entries of the leaf + taken out * candidates * alpha) per move.
"""

from __future__ import annotations

import numpy as np

from rankcast.arrays import Array
from rankcast.compiling import ZERO, compiled, constant, inner
from rankcast.placement.kernels.boxes import (
    NOWHERE,
    begin_growing,
    cheapest_slot,
    contains,
    enlarge,
    grow,
    growth_of,
    holding,
    measure_of,
)
from rankcast.placement.search.state import (
    CHILDREN,
    COUNT,
    ENTRIES,
    FIRST_CHILD,
    FIRST_HOLDING,
    FIRST_PART,
    GROUP,
    LAST_CHILD,
    LEAF,
    LEAF_COUNT,
    LEAVES,
    LOAD,
    MOST,
    OWNER,
    PARENT,
    PART,
    PARTS,
    PLACE,
    RANK,
    ROOM,
    SLOT,
    UPPER,
    Walk,
    begin,
    change,
    drawn,
    enter,
    remember,
    remember_broker,
    settle,
    take_out,
    undo,
    whole,
)

WHOLE_BOX = 0.03
"""How often a move takes out all of a box."""

DEEPEST = 1.0
"""The deepest slab, as a share of the box; shallow ones are tried more often."""

EVERY_SLOT = constant(-1)
"""All bits set: every box of a leaf."""

EJECTIONS = 12
"""Subscribers of a full leaf that are asked to go elsewhere."""


@inner
def path_growth(
    leaf: int,
    row: int,
    bound: float,
    rows: Array,
    events: Array,
    common: Array,
    brokers: Array,
    boxes: Array,
    uses: Array,
) -> float:
    """Return how much the filters from a leaf up grow to let a row in; more than `bound` may be any such number."""
    if holding(boxes, leaf, rows, row) != NOWHERE:
        return 0.0
    total, slot = cheapest_slot(boxes, leaf, brokers[leaf, MOST], ZERO, rows, row, events, common)
    growing = len(common) - 1
    begin_growing(common, rows, row)
    broker = leaf
    while brokers[broker, PARENT] >= 0 and total <= bound:
        above = brokers[broker, PARENT]
        if uses[broker, slot, COUNT] > 0:
            grow(common, boxes, broker, slot)
            upper = uses[broker, slot, UPPER]
            if contains(boxes, above, upper, common, growing):
                break
            total += growth_of(boxes, above, upper, common, growing, events, common)
        else:
            if holding(boxes, above, common, growing) != NOWHERE:
                break
            more, upper = cheapest_slot(boxes, above, brokers[above, MOST], ZERO, common, growing, events, common)
            total += more
        broker, slot = above, upper
    return total


@inner
def let_in(
    leaf: int,
    leaf_slot: int,
    row: int,
    rows: Array,
    events: Array,
    common: Array,
    brokers: Array,
    boxes: Array,
    uses: Array,
    measures: Array,
    sizes: Array,
) -> None:
    """Add a row to a slot of a leaf, and let the filters above contain what has grown, as `path_growth` reckons."""
    growing = len(common) - 1
    begin_growing(common, rows, row)
    broker, slot, arrives = leaf, leaf_slot, True
    while True:
        remember_broker(broker, brokers, boxes, uses, measures, sizes)
        is_new = uses[broker, slot, COUNT] == 0
        changes = not contains(boxes, broker, slot, common, growing)
        if changes:
            enlarge(boxes, broker, slot, common, growing)
            grow(common, boxes, broker, slot)
            measures[broker] = measure_of(boxes, broker, events, common)
        if arrives:
            uses[broker, slot, COUNT] += 1
        above = brokers[broker, PARENT]
        if above < 0 or not changes:
            break
        if is_new:
            upper = holding(boxes, above, common, growing)
            if upper == NOWHERE:
                _, upper = cheapest_slot(boxes, above, brokers[above, MOST], ZERO, common, growing, events, common)
            uses[broker, slot, UPPER] = upper
        broker, slot, arrives = above, uses[broker, slot, UPPER], is_new


@inner
def shrink_leaf(
    leaf: int,
    which: int,
    rows: Array,
    events: Array,
    common: Array,
    entries: Array,
    brokers: Array,
    boxes: Array,
    measures: Array,
) -> None:
    """Shrink those boxes of a leaf whose bits are set to what is in them."""
    for slot in range(boxes.shape[1]):
        if (which >> slot) & 1:
            for side in range(boxes.shape[2]):
                boxes[leaf, slot, side] = -np.inf
    for place in range(brokers[leaf, ENTRIES]):
        slot = whole(entries[leaf, place, SLOT])
        if (which >> slot) & 1:
            enlarge(boxes, leaf, slot, rows, whole(entries[leaf, place, PART]))
    measures[leaf] = measure_of(boxes, leaf, events, common)


@inner
def shrink_above(
    leaf: int, events: Array, common: Array, brokers: Array, boxes: Array, uses: Array, measures: Array, sizes: Array
) -> None:
    """Shrink the filters above a leaf to what is below them."""
    broker = brokers[leaf, PARENT]
    while broker >= 0:
        remember_broker(broker, brokers, boxes, uses, measures, sizes)
        for slot in range(boxes.shape[1]):
            uses[broker, slot, COUNT] = 0
            for side in range(boxes.shape[2]):
                boxes[broker, slot, side] = -np.inf
        for place in range(brokers[broker, FIRST_CHILD], brokers[broker, LAST_CHILD]):
            child = brokers[place, CHILDREN]
            for slot in range(brokers[child, MOST]):
                if uses[child, slot, COUNT] == 0:
                    continue
                upper = uses[child, slot, UPPER]
                uses[broker, upper, COUNT] += 1
                for side in range(boxes.shape[2]):
                    boxes[broker, upper, side] = max(boxes[broker, upper, side], boxes[child, slot, side])
        measures[broker] = measure_of(boxes, broker, events, common)
        broker = brokers[broker, PARENT]


@inner
def free_leaf(
    subscriber: int,
    but: int,
    rows: Array,
    starts: Array,
    candidates: Array,
    subscribers: Array,
    brokers: Array,
    boxes: Array,
) -> tuple[int, int]:
    """Return the least loaded leaf with room whose filter contains an interest, and one without room that does."""
    best, full = NOWHERE, NOWHERE
    group, first = subscribers[subscriber, GROUP], subscribers[subscriber, FIRST_PART]
    last = first + subscribers[subscriber, PARTS]
    for place in range(starts[group], starts[group + 1]):
        leaf = candidates[place]
        has_room = brokers[leaf, LOAD] < brokers[leaf, ROOM]
        if leaf == but or (best != NOWHERE and (not has_room or brokers[leaf, LOAD] >= brokers[best, LOAD])):
            continue
        part = first
        while part < last and holding(boxes, leaf, rows, part) != NOWHERE:
            part += 1
        if part == last and has_room:
            best = leaf
        elif part == last:
            full = leaf
    return best, full


@inner
def cheapest_leaf(
    subscriber: int,
    bound: float,
    rows: Array,
    events: Array,
    common: Array,
    starts: Array,
    candidates: Array,
    subscribers: Array,
    brokers: Array,
    boxes: Array,
    uses: Array,
) -> int:
    """Return the leaf with room where filters grow least, and not by more than a bound; else NOWHERE."""
    best, best_growth = NOWHERE, bound
    group, first = subscribers[subscriber, GROUP], subscribers[subscriber, FIRST_PART]
    for place in range(starts[group], starts[group + 1]):
        leaf = candidates[place]
        if brokers[leaf, LOAD] >= brokers[leaf, ROOM]:
            continue
        growth = 0.0
        for part in range(first, first + subscribers[subscriber, PARTS]):
            left = best_growth - growth
            growth += path_growth(leaf, part, left, rows, events, common, brokers, boxes, uses)
        if growth < best_growth or (growth == best_growth and best == NOWHERE):
            best, best_growth = leaf, growth
    return best


@inner
def put(
    subscriber: int,
    leaf: int,
    rows: Array,
    events: Array,
    common: Array,
    subscribers: Array,
    holdings: Array,
    entries: Array,
    brokers: Array,
    boxes: Array,
    uses: Array,
    measures: Array,
    sizes: Array,
) -> None:
    """Put a subscriber that is nowhere to a leaf, and let filters grow as they must."""
    remember_broker(leaf, brokers, boxes, uses, measures, sizes)
    first = subscribers[subscriber, FIRST_PART]
    for number in range(subscribers[subscriber, PARTS]):
        part = first + number
        slot = holding(boxes, leaf, rows, part)
        if slot != NOWHERE:  # the usual case: nothing grows
            uses[leaf, slot, COUNT] += 1
        else:
            _, slot = cheapest_slot(boxes, leaf, brokers[leaf, MOST], ZERO, rows, part, events, common)
            let_in(leaf, slot, part, rows, events, common, brokers, boxes, uses, measures, sizes)
        enter(subscriber, number, leaf, slot, subscribers, holdings, entries, brokers)
    settle(subscriber, leaf, subscribers, brokers)


@inner
def _is_spare(subscriber: int, subscribers: Array, holdings: Array, entries: Array, uses: Array) -> bool:
    """Whether no slot is left empty when a subscriber goes."""
    leaf, first = subscribers[subscriber, LEAF], subscribers[subscriber, FIRST_HOLDING]
    parts = subscribers[subscriber, PARTS]
    for number in range(first, first + parts):
        if uses[leaf, entries[leaf, holdings[number, PLACE], SLOT], COUNT] <= parts:
            return False
    return True


@inner
def made_room(
    full: int,
    rows: Array,
    events: Array,
    common: Array,
    starts: Array,
    candidates: Array,
    subscribers: Array,
    holdings: Array,
    entries: Array,
    brokers: Array,
    boxes: Array,
    uses: Array,
    measures: Array,
    sizes: Array,
    random: Array,
) -> bool:
    """Send somebody of a full leaf to another one whose filter contains its interest; return whether anybody went."""
    for _ in range(EJECTIONS):
        subscriber = whole(entries[full, int(drawn(random) * brokers[full, ENTRIES]), OWNER])
        if not _is_spare(subscriber, subscribers, holdings, entries, uses):
            continue
        other, _full = free_leaf(subscriber, full, rows, starts, candidates, subscribers, brokers, boxes)
        if other == NOWHERE:
            continue
        remember(subscriber, subscribers, holdings, entries, sizes)
        remember_broker(full, brokers, boxes, uses, measures, sizes)
        take_out(subscriber, subscribers, holdings, entries, brokers, uses)
        put(
            subscriber,
            other,
            rows,
            events,
            common,
            subscribers,
            holdings,
            entries,
            brokers,
            boxes,
            uses,
            measures,
            sizes,
        )
        return True
    return False


@inner
def _take_out_slab(
    leaf: int,
    slot: int,
    side: int,
    limit: float,
    rows: Array,
    subscribers: Array,
    holdings: Array,
    entries: Array,
    brokers: Array,
    uses: Array,
    sizes: Array,
    taken: Array,
) -> tuple[int, int]:
    """Take out who reaches a limit at a side of a box; return how many they are, and the slots they have been in."""
    count = 0
    for place in range(brokers[leaf, ENTRIES]):
        if entries[leaf, place, SLOT] != slot or rows[entries[leaf, place, PART], side] < limit:
            continue
        subscriber = whole(entries[leaf, place, OWNER])
        if remember(subscriber, subscribers, holdings, entries, sizes):
            taken[count] = subscriber
            count += 1
    left = 0
    for place in range(count):
        left |= take_out(taken[place], subscribers, holdings, entries, brokers, uses)
    return count, left


@inner
def _sort_largest_first(taken: Array, count: int, subscribers: Array) -> None:
    """Sort subscribers by their ranks, by shell sort: numpy's sorting takes seconds to compile."""
    gap = 1
    while gap < count // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for place in range(gap, count):
            subscriber = taken[place]
            rank = subscribers[subscriber, RANK]
            at = place
            while at >= gap and subscribers[taken[at - gap], RANK] > rank:
                taken[at] = taken[at - gap]
                at -= gap
            taken[at] = subscriber
        gap //= 3


@inner
def _put_back(
    count: int,
    own: int,
    allowance: float,
    rows: Array,
    events: Array,
    common: Array,
    starts: Array,
    candidates: Array,
    subscribers: Array,
    holdings: Array,
    entries: Array,
    brokers: Array,
    boxes: Array,
    uses: Array,
    measures: Array,
    sizes: Array,
    taken: Array,
    random: Array,
) -> bool:
    """Put those taken out of a leaf where they cost least; return whether that is within the allowance."""
    leaf, leaf_rank = NOWHERE, NOWHERE
    for place in range(count):
        subscriber = taken[place]
        full = NOWHERE
        # Where one has gone another with the same interest and candidates is contained, too: no need to look again.
        if leaf_rank != subscribers[subscriber, RANK] or brokers[leaf, LOAD] >= brokers[leaf, ROOM]:
            leaf, full = free_leaf(subscriber, NOWHERE, rows, starts, candidates, subscribers, brokers, boxes)
        if leaf == NOWHERE and full not in (NOWHERE, own):
            made = made_room(
                full,
                rows,
                events,
                common,
                starts,
                candidates,
                subscribers,
                holdings,
                entries,
                brokers,
                boxes,
                uses,
                measures,
                sizes,
                random,
            )
            leaf = full if made else NOWHERE
        if leaf == NOWHERE:
            left = allowance - change(brokers, measures, sizes)
            leaf = cheapest_leaf(
                subscriber, left, rows, events, common, starts, candidates, subscribers, brokers, boxes, uses
            )
        if leaf == NOWHERE:
            return False
        put(
            subscriber,
            leaf,
            rows,
            events,
            common,
            subscribers,
            holdings,
            entries,
            brokers,
            boxes,
            uses,
            measures,
            sizes,
        )
        leaf_rank = subscribers[subscriber, RANK]
    return change(brokers, measures, sizes) <= allowance


@inner
def _move(leaf: int, slot: int, allowance: float, walk: Walk) -> bool:
    """Make one move, unless it would cost more than its allowance; return whether it was made."""
    rows, events, common, starts, candidates = walk.rows, walk.events, walk.common, walk.starts, walk.candidates
    subscribers, holdings, entries = walk.subscribers, walk.holdings, walk.entries
    brokers, boxes, uses, measures = walk.brokers, walk.boxes, walk.uses, walk.measures
    sizes, taken, random = walk.sizes, walk.taken, walk.random
    attributes = boxes.shape[2] // 2
    side = int(drawn(random) * 2 * attributes)
    length = boxes[leaf, slot, side] + boxes[leaf, slot, (side + attributes) % (2 * attributes)]
    limit = boxes[leaf, slot, side] - DEEPEST * drawn(random) ** 2 * length
    if drawn(random) < WHOLE_BOX:
        limit = -np.inf
    begin(sizes)
    remember_broker(leaf, brokers, boxes, uses, measures, sizes)
    count, left = _take_out_slab(
        leaf, slot, side, limit, rows, subscribers, holdings, entries, brokers, uses, sizes, taken
    )
    shrink_leaf(leaf, left, rows, events, common, entries, brokers, boxes, measures)
    shrink_above(leaf, events, common, brokers, boxes, uses, measures, sizes)
    _sort_largest_first(taken, count, subscribers)
    is_made = _put_back(
        count,
        leaf,
        allowance,
        rows,
        events,
        common,
        starts,
        candidates,
        subscribers,
        holdings,
        entries,
        brokers,
        boxes,
        uses,
        measures,
        sizes,
        taken,
        random,
    )
    if not is_made:
        undo(subscribers, holdings, entries, brokers, boxes, uses, measures, sizes)
    return is_made


@compiled
def search(moves: int, temperature: float, walk: Walk) -> int:
    """Try so many moves at one temperature; return how many were made."""
    brokers, uses, random = walk.brokers, walk.uses, walk.random
    made = 0
    for _ in range(moves):
        leaf = brokers[int(drawn(random) * walk.sizes[LEAF_COUNT]), LEAVES]
        slot = int(drawn(random) * brokers[leaf, MOST])
        allowance = -temperature * np.log(1.0 - drawn(random))
        if uses[leaf, slot, COUNT] > 0:
            made += _move(leaf, slot, allowance, walk)
    return made


@compiled
def put_all(leaf_of: Array, walk: Walk) -> None:
    """Put everybody to a given leaf; there is no undoing that."""
    rows, events, common = walk.rows, walk.events, walk.common
    subscribers, holdings, entries = walk.subscribers, walk.holdings, walk.entries
    brokers, boxes, uses, measures, sizes = walk.brokers, walk.boxes, walk.uses, walk.measures, walk.sizes
    for subscriber in range(len(leaf_of)):
        begin(sizes)
        leaf = leaf_of[subscriber]
        put(
            subscriber,
            leaf,
            rows,
            events,
            common,
            subscribers,
            holdings,
            entries,
            brokers,
            boxes,
            uses,
            measures,
            sizes,
        )


@compiled
def shrink_all(walk: Walk) -> None:
    """Shrink all filters to what is in them."""
    rows, events, common, entries, brokers = walk.rows, walk.events, walk.common, walk.entries, walk.brokers
    boxes, uses, measures, sizes = walk.boxes, walk.uses, walk.measures, walk.sizes
    for at in range(sizes[LEAF_COUNT]):
        begin(sizes)
        leaf = brokers[at, LEAVES]
        shrink_leaf(leaf, EVERY_SLOT, rows, events, common, entries, brokers, boxes, measures)
        shrink_above(leaf, events, common, brokers, boxes, uses, measures, sizes)
