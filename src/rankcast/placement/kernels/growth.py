"""How much filters grow: the measure of a union of boxes, and of what a box would add to it.

The boxes of all brokers are in one array, by broker, slot and side. A slot that is not used holds a box that contains
nothing, all of its sides -inf, so nothing here has to ask which slots are used: such a box has no volume, contains
none, and is any other box once it is enlarged to contain that. A box that is to be let in is a row of some array.

The measure of a union is found by inclusion and exclusion, within a given box: what a union gains from a box is the
box's own measure less that of the union within it. Cost: at most 2^k intersections for k boxes, and far fewer where
boxes do not meet; for sampled events, their number times k.

`events` are the rows of a density. `common` is working space: a row per box and one more, with the sides of an
intersection and, behind them, the slot that it ends with; and a last row for a box that grows on its way up a tree.
"""

from __future__ import annotations

import numpy as np

from rankcast.arrays import Array
from rankcast.compiling import ZERO, compiled, constant, inlined, inner
from rankcast.placement.problem.density import Density

NOWHERE = constant(-1)

_HELD, _NOT_HELD = constant(True), constant(False)


def working_space(most: int, sides: int) -> Array:
    """Return the working space for filters of so many boxes."""
    return np.zeros((most + 2, sides + 1))


def measure(boxes: Array, density: Density) -> float:
    """Return the measure of the union of some boxes."""
    return float(measure_of(boxes[None], 0, density.rows, working_space(*boxes.shape)))


@inlined
def contains(boxes: Array, broker: int, slot: int, rows: Array, row: int) -> bool:
    """Whether a broker's box contains a row."""
    for side in range(boxes.shape[2]):  # noqa: SIM110 (a generator would not be compiled)
        if boxes[broker, slot, side] < rows[row, side]:
            return False
    return True


@inlined
def holding(boxes: Array, broker: int, rows: Array, row: int) -> int:
    """Return the first slot whose box contains a row, or NOWHERE."""
    for slot in range(boxes.shape[1]):
        if contains(boxes, broker, slot, rows, row):
            return slot
    return NOWHERE


@inlined
def enlarge(boxes: Array, broker: int, slot: int, rows: Array, row: int) -> None:
    """Enlarge a broker's box to contain a row."""
    for side in range(boxes.shape[2]):
        boxes[broker, slot, side] = max(boxes[broker, slot, side], rows[row, side])


@inlined
def grow(common: Array, boxes: Array, broker: int, slot: int) -> None:
    """Enlarge the growing box to contain that of a broker."""
    for side in range(boxes.shape[2]):
        common[len(common) - 1, side] = max(common[len(common) - 1, side], boxes[broker, slot, side])


@inlined
def begin_growing(common: Array, rows: Array, row: int) -> None:
    """Let the growing box be a row."""
    for side in range(rows.shape[1]):
        common[len(common) - 1, side] = rows[row, side]


@inlined
def copy_filter(source: int, target: int, boxes: Array) -> None:
    """Copy the boxes of one broker to another."""
    for slot in range(boxes.shape[1]):
        for side in range(boxes.shape[2]):
            boxes[target, slot, side] = boxes[source, slot, side]


@inlined
def _meet(common: Array, depth: int, boxes: Array, broker: int, slot: int) -> float:
    """Write what a box has in common with an intersection to the next row; return its volume."""
    attributes = boxes.shape[2] // 2
    volume = 1.0
    for axis in range(attributes):
        low = min(common[depth, axis], boxes[broker, slot, axis])
        high = min(common[depth, axis + attributes], boxes[broker, slot, axis + attributes])
        if low + high <= 0:
            return 0.0
        common[depth + 1, axis] = low
        common[depth + 1, axis + attributes] = high
        volume *= low + high
    common[depth + 1, 2 * attributes] = slot
    return volume


@inlined
def _volume_within(boxes: Array, broker: int, common: Array) -> float:
    """Return the volume of a filter within the box that is in the first row of `common`."""
    total = 0.0
    depth, slot = ZERO, ZERO
    while True:
        if slot < boxes.shape[1]:
            volume = _meet(common, depth, boxes, broker, slot)
            if volume > 0:
                total += volume if depth % 2 == 0 else -volume
                depth += 1
            slot += 1
        elif depth == 0:
            return total
        else:
            slot = int(common[depth, boxes.shape[2]]) + 1
            depth -= 1


@inlined
def _weight_within(boxes: Array, broker: int, is_held: bool, events: Array, common: Array) -> float:
    """Return the weight of the events in the first row of `common` that are in the filter, or that are not."""
    total = 0.0
    for event in range(len(events)):
        inside = True
        for side in range(boxes.shape[2]):
            inside = inside and events[event, side] <= common[0, side]
        if inside and (holding(boxes, broker, events, event) != NOWHERE) == is_held:
            total += events[event, boxes.shape[2]]
    return total


@compiled
def measure_of(boxes: Array, broker: int, events: Array, common: Array) -> float:
    """Return the measure of a broker's filter."""
    for side in range(boxes.shape[2]):
        common[0, side] = np.inf
    if len(events) > 0:
        return _weight_within(boxes, broker, _HELD, events, common)
    return _volume_within(boxes, broker, common)


@inner
def growth_of(boxes: Array, broker: int, slot: int, rows: Array, row: int, events: Array, common: Array) -> float:
    """Return how much a filter grows when the box in a slot is enlarged to contain a row."""
    for side in range(boxes.shape[2]):
        common[0, side] = max(boxes[broker, slot, side], rows[row, side])
    if len(events) > 0:
        return _weight_within(boxes, broker, _NOT_HELD, events, common)
    attributes = boxes.shape[2] // 2
    volume = 1.0
    for axis in range(attributes):
        volume *= common[0, axis] + common[0, axis + attributes]
    return max(volume - _volume_within(boxes, broker, common), 0.0)


@inner
def cheapest_slot(
    boxes: Array, broker: int, most: int, first: int, rows: Array, row: int, events: Array, common: Array
) -> tuple[float, int]:
    """Return how much a filter grows at least to let a row in, and in which slot.

    Slots are tried in a circle, and of equals the first is taken; unused slots are tried once.
    """
    best, best_slot = np.inf, NOWHERE
    tried_unused = False
    for step in range(most):
        slot = first + step if first + step < most else first + step - most
        if boxes[broker, slot, 0] == -np.inf:
            if tried_unused:
                continue
            tried_unused = True
        growth = growth_of(boxes, broker, slot, rows, row, events, common)
        if growth < best:
            best, best_slot = growth, slot
    return best, best_slot
