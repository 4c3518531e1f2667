"""Local search: take the subscribers at one side of a box out of it, and put them back where they cost least.

A move picks a leaf, a box of its filter and a side, takes out everybody who reaches into the outermost slab there (now
and then all of the box), shrinks what is left, and puts them back one by one, largest interest first: where a filter
contains the interest already, the least loaded first; else, where one is full, by sending somebody there away who is
contained elsewhere; else where filters grow least. A move that costs more than simulated annealing allows is undone.

Cost: O(entries of the leaf + taken out * candidates * alpha) per move.
"""

from __future__ import annotations

import numpy as np

from rankcast.arrays import Array
from rankcast.compiling import compiled, constant, inner
from rankcast.placement.kernels.growth import NOWHERE
from rankcast.placement.search.filter_kernels import shrink_above, shrink_leaf
from rankcast.placement.search.place_kernels import cheapest_leaf, free_leaf, made_room, put
from rankcast.placement.search.state_kernels import (
    COUNT,
    ENTRIES,
    LEAF_COUNT,
    LEAVES,
    LOAD,
    MOST,
    OWNER,
    PART,
    RANK,
    ROOM,
    SLOT,
    Walk,
    begin,
    change,
    drawn,
    remember,
    remember_broker,
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
