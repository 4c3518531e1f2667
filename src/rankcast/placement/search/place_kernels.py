"""Where a subscriber may go in local search, and putting it there.

Best is a leaf whose filter contains the interest already; next a full one of that kind, when somebody there can go to
another leaf at no cost; else the leaf from which up filters grow least.
"""

from __future__ import annotations

from rankcast.arrays import Array
from rankcast.compiling import ZERO, inner
from rankcast.placement.kernels.growth import NOWHERE, cheapest_slot, holding
from rankcast.placement.search.filter_kernels import let_in, path_growth
from rankcast.placement.search.state_kernels import (
    COUNT,
    ENTRIES,
    FIRST_HOLDING,
    FIRST_PART,
    GROUP,
    LEAF,
    LOAD,
    MOST,
    OWNER,
    PARTS,
    PLACE,
    ROOM,
    SLOT,
    drawn,
    enter,
    remember,
    remember_broker,
    settle,
    take_out,
    whole,
)

EJECTIONS = 12
"""Subscribers of a full leaf that are asked to go elsewhere."""


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
