"""What a newcomer would cost at each broker that may have it."""

from __future__ import annotations

from rankcast.compiling import compiled
from rankcast.placement.boxes import Array
from rankcast.placement.kernels_filters import Events, Filters, Scratch, copy_into, holds, let_in, path_growth


@compiled
def growths(
    filters: Filters, leaves: Array, parts: Array, events: Events, scratch: Scratch, kept: Array, found: Array
) -> None:
    """Write how much all filters grow to let in some parts, for each of some leaves; 0 where a filter has them all.

    `kept` is working space like the boxes of one path; filters are as before in the end.
    """
    for place in range(len(leaves)):
        leaf = leaves[place]
        missing = 0
        for part in range(len(parts)):
            missing += not holds(filters, leaf, parts[part])
        if missing == 0:
            found[place] = 0.0
        elif len(parts) == 1:
            found[place] = path_growth(filters, leaf, parts[0], 1e308, events, scratch)
        else:
            found[place] = _growth_of_all(filters, leaf, parts, events, scratch, kept)


@compiled
def _growth_of_all(filters: Filters, leaf: int, parts: Array, events: Events, scratch: Scratch, kept: Array) -> float:
    """Let parts in one after the other, and undo that: what each costs depends on those before."""
    sides = filters.boxes.shape[2]
    most = filters.boxes.shape[1]
    depth, broker = 0, leaf
    while broker >= 0:
        for at in range(most):
            copy_into(kept[depth, at], filters.boxes[broker, at])
        kept[depth, most, 0] = filters.used[broker]
        kept[depth, most, sides - 1] = filters.measures[broker]
        depth, broker = depth + 1, filters.parents[broker]
    total = 0.0
    for part in range(len(parts)):
        total += let_in(filters, leaf, parts[part], events, scratch)
    depth, broker = 0, leaf
    while broker >= 0:
        for at in range(most):
            copy_into(filters.boxes[broker, at], kept[depth, at])
        filters.used[broker] = int(kept[depth, most, 0])
        filters.measures[broker] = kept[depth, most, sides - 1]
        depth, broker = depth + 1, filters.parents[broker]
    return total
