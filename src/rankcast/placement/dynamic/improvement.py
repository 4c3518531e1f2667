"""Background improvement of a dynamic placement: less traffic, by moving no more subscribers than a budget allows.

First filters are fitted again where that is smaller, which moves nobody. Then the outermost of a leaf's subscribers
move elsewhere: those whose interests alone keep one side of one box where it is. All such sides are listed with what
drawing them in would save; they are tried in the order of savings per subscriber, and a try counts only when all
traffic together is less afterwards. Passes are repeated while they help and budget is left.

Cost: some ten microseconds per side and pass, and some hundred per subscriber in a try.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankcast.arrays import Array
from rankcast.model.errors import InvalidValueError
from rankcast.placement.dynamic.dynamic import DynamicPlacement, Group, Kept
from rankcast.placement.programme.fitting import enclosing

WORTHWHILE = 1e-9
"""The least share of the traffic that a change has to save."""

PASSES = 8


@dataclass(frozen=True, slots=True)
class Improvement:
    """What a round of improvement did: who moved, and the traffic before and after."""

    moved: tuple[str, ...]
    before: float
    after: float


@dataclass(frozen=True, slots=True, eq=False)
class _Side:
    """One side of a box of a leaf, those who keep it where it is, and what their leaving saves there."""

    column: int
    outermost: tuple[Group, ...]
    count: int
    saving: float


def improve(placement: DynamicPlacement, budget: int, random: np.random.Generator) -> Improvement:
    """Lower the traffic of a placement by moving at most `budget` subscribers."""
    if budget < 0:
        raise InvalidValueError(f"budget: {budget} is not a whole number of at least 0")
    before = placement.traffic
    columns = range(len(placement.tree.leaves))
    for column in columns:
        _fit(placement, column, random)
    moved: list[str] = []
    changed = set(columns)
    for _ in range(PASSES):
        sides = sorted(
            (side for column in sorted(changed) for side in _sides(placement, column) if side.saving > 0),
            key=lambda side: -side.saving / side.count,
        )
        changed = set()
        for side in sides:
            if side.count <= budget - len(moved):
                names = _draw_in(placement, side)
                moved += names
                changed |= {side.column, *(placement.column_of(name) for name in names)} if names else set()
        if not changed or len(moved) >= budget:
            break
    return Improvement(tuple(moved), before, placement.traffic)


def _fit(placement: DynamicPlacement, column: int, random: np.random.Generator) -> None:
    """Give a leaf another filter for the same subscribers, when all traffic is less with it."""
    filters, broker = placement.filters, int(placement.tree.leaves[column])
    needed = placement.needed(column)
    if not len(needed):
        return
    fitted = enclosing(needed, int(filters.most[broker]), placement.density, random)
    if filters.measure(fitted) >= filters.measures[broker] * (1 - WORTHWHILE):
        return
    kept, before = filters.keep(), filters.traffic
    filters.exchange(broker, fitted)
    if filters.traffic >= before * (1 - WORTHWHILE):
        filters.restore(kept)


def _sides(placement: DynamicPlacement, column: int) -> list[_Side]:
    """Return the sides of a leaf's boxes."""
    filters, broker = placement.filters, int(placement.tree.leaves[column])
    boxes = filters.of(broker)
    groups = list(placement.groups[column].values())
    if not groups:
        return []
    parts = np.concatenate([group.parts for group in groups])
    owners = np.repeat(np.arange(len(groups)), [len(group.parts) for group in groups])
    sizes = np.array([len(group.members[column]) for group in groups])
    slots = (parts[:, None, :] <= boxes).all(axis=2).argmax(axis=1)
    found = []
    for slot in range(len(boxes)):
        own = slots == slot
        for side in range(parts.shape[1]):
            outer = np.unique(owners[own & (parts[:, side] == boxes[slot, side])])
            rest = parts[own & ~np.isin(owners, outer)]
            without = np.delete(boxes, slot, axis=0)
            smaller = np.concatenate([without, rest.max(axis=0)[None]]) if len(rest) else without
            saving = float(filters.measures[broker]) - filters.measure(smaller)
            found.append(_Side(column, tuple(groups[at] for at in outer), int(sizes[outer].sum()), saving))
    return [side for side in found if side.count]


def _draw_in(placement: DynamicPlacement, side: _Side) -> list[str]:
    """Move the outermost of a side elsewhere if that saves traffic; return who moved, nobody if it does not."""
    filters = placement.filters
    kept, before = filters.keep(), filters.traffic
    moved: list[str] = []
    for group in side.outermost:
        for name in tuple(group.members.get(side.column, ())):
            target = _cheapest(placement, group, side.column)
            if target is None:
                return _undo(placement, side.column, moved, kept)
            placement.move(name, target)
            moved.append(name)
    if filters.traffic >= before * (1 - WORTHWHILE):
        return _undo(placement, side.column, moved, kept)
    return moved


def _cheapest(placement: DynamicPlacement, group: Group, column: int) -> int | None:
    """Return the leaf with room where one of a group costs least, of equals the least loaded."""
    loads, rooms = placement.loads[group.columns], placement.rooms[group.columns]
    others: Array = group.columns[(group.columns != column) & (loads < rooms)]
    if not len(others):
        return None
    costs = placement.costs(others, group)
    return int(others[np.lexsort((placement.loads[others] / placement.rooms[others], costs))[0]])


def _undo(placement: DynamicPlacement, column: int, moved: list[str], kept: Kept) -> list[str]:
    for name in moved:
        placement.move(name, column)
    placement.filters.restore(kept)
    return []
