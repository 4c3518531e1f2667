"""Kernels over boxes: what boxes contain and cover, merging them, how unions grow, and filters that grow up a tree.

Boxes are rows of sides. The boxes of all brokers are in one array, by broker, slot and side. A slot that is not used
holds a box that contains nothing, all of its sides -inf, so nothing here has to ask which slots are used: such a box
has no volume, contains none, and is any other box once it is enlarged to contain that. A box that is to be let in is a
row of some array. Used slots are the first ones of each broker.

A *demand* is given by its interest, rows `offsets[i]` to `offsets[i + 1]` of `sides`, and by its class, a row of
`classes` that says which brokers it may have. Broker b has the boxes `boxes[starts[b] : starts[b + 1]]`. Cost: O(boxes
of the brokers that a demand may have) per demand; it ends where the answer is known.

*Merging* takes boxes two at a time, the two that grow least by it, until there are few enough. Cost: O(n^3) for n
boxes, a few nanoseconds each when events are uniform.

The *measure of a union* is found by inclusion and exclusion, within a given box: what a union gains from a box is the
box's own measure less that of the union within it. Cost: at most 2^k intersections for k boxes, and far fewer where
boxes do not meet; for sampled events, their number times k.

*Filters* grow from a leaf up. To let a box in, one of a filter's boxes is enlarged to contain it, or it becomes a box
of its own where there is room for one, whichever adds least; of equals, a box of its own. The enlarged box then has to
be let into the filter above, and so on up the tree, until some box above contains it already: so every box of a filter
lies in one box of the filter above.

`events` are the rows of a density. `common` is working space: a row per box and one more, with the sides of an
intersection and, behind them, the slot that it ends with; and a last row for a box that grows on its way up a tree.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rankcast.arrays import Array
from rankcast.compiling import ZERO, borrowing, compiled, constant, inlined
from rankcast.placement.problem.boxes import Density

NOWHERE = constant(-1)

_JOINED, _COMMON = constant(True), constant(False)
_HELD, _NOT_HELD = constant(True), constant(False)


@inlined
def lies_within(rows: Array, row: int, boxes: Array, box: int) -> bool:
    """Whether a row lies in a box."""
    for side in range(boxes.shape[1]):  # noqa: SIM110 (a generator would not be compiled)
        if boxes[box, side] < rows[row, side]:
            return False
    return True


@inlined
def widen(boxes: Array, box: int, rows: Array, row: int) -> None:
    """Enlarge a box to contain a row. One of sides -inf contains nothing before."""
    for side in range(boxes.shape[1]):
        boxes[box, side] = max(boxes[box, side], rows[row, side])


@inlined
def _inside_others(part: Array, lows: Array, highs: Array, digits: Array) -> bool:
    """Whether a part lies in the product along all attributes but the first."""
    for axis in range(1, len(digits)):
        if lows[axis, digits[axis]] < part[axis] or highs[axis, digits[axis]] < part[axis + len(digits)]:
            return False
    return True


@compiled
def shrink_products(
    parts: Array, keys: Array, lows: Array, highs: Array, counts: Array, hulls: Array, hashes: Array
) -> int:
    """Shrink every product of intervals to the hull of the parts in it; return how many contain any.

    `lows` and `highs` have a row of intervals per attribute, `counts` of each. The hash of a product is that of the set
    of parts in it: equal hashes, equal columns of the linear programme.
    """
    attributes = len(counts)
    total = 1
    for axis in range(attributes):
        total *= counts[axis]
    digits = np.zeros(attributes, np.int64)
    within_first = np.empty(len(parts), np.int64)
    selected = 0
    made = ZERO
    for product in range(total):
        rest = product
        for axis in range(attributes - 1, -1, -1):
            digits[axis] = rest % counts[axis]
            rest //= counts[axis]
        if product % (total // counts[0]) == 0:  # another interval of the first attribute: who lies in that at all?
            selected = 0
            for part in range(len(parts)):
                if lows[0, digits[0]] >= parts[part, 0] and highs[0, digits[0]] >= parts[part, attributes]:
                    within_first[selected] = part
                    selected += 1
        key = np.uint64(0)
        found = False
        for side in range(2 * attributes):
            hulls[made, side] = -np.inf
        for place in range(selected):
            part = within_first[place]
            if not _inside_others(parts[part], lows, highs, digits):
                continue
            key ^= keys[part]
            found = True
            widen(hulls, made, parts, part)
        if found:
            hashes[made] = key
            made += 1
    return made


@compiled
def contents_of(parts: Array, boxes: Array) -> tuple[Array, Array]:
    """Return which parts lie in each box, as offsets and part numbers."""
    offsets = np.zeros(len(boxes) + 1, np.int64)
    for box in range(len(boxes)):
        count = 0
        for part in range(len(parts)):
            count += lies_within(parts, part, boxes, box)
        offsets[box + 1] = offsets[box] + count
    numbers = np.empty(offsets[-1], np.int64)
    for box in range(len(boxes)):
        at = offsets[box]
        for part in range(len(parts)):
            if lies_within(parts, part, boxes, box):
                numbers[at] = part
                at += 1
    return offsets, numbers


@compiled
def units_inside(parts: Array, units: Array, boxes: Array) -> Array:
    """Return the sum of the units of the parts in each box: whole numbers, so that it is exact in any order."""
    sums = np.zeros(len(boxes))
    for box in range(len(boxes)):
        for part in range(len(parts)):
            if lies_within(parts, part, boxes, box):
                sums[box] += units[part]
    return sums


@inlined
def _is_held(first: int, last: int, sides: Array, start: int, end: int, boxes: Array) -> bool:
    """Whether each of some parts lies in one of some boxes."""
    for part in range(first, last):
        box = start
        while box < end and not lies_within(sides, part, boxes, box):
            box += 1
        if box == end:
            return False
    return True


@compiled
def covering_brokers(
    interest_of: Array,
    class_of: Array,
    classes: Array,
    offsets: Array,
    sides: Array,
    starts: Array,
    boxes: Array,
    only_first: bool,
) -> Array:
    """Return by which of the brokers that they may have demands are covered, or only by the first: a row per demand."""
    covers = np.zeros((len(interest_of), classes.shape[1]), np.bool_)
    for demand in range(len(interest_of)):
        first, last = offsets[interest_of[demand]], offsets[interest_of[demand] + 1]
        for broker in range(classes.shape[1]):
            if classes[class_of[demand], broker]:
                covers[demand, broker] = _is_held(first, last, sides, starts[broker], starts[broker + 1], boxes)
                if only_first and covers[demand, broker]:
                    break
    return covers


@inlined
def _measure_of_two(boxes: Array, one: int, other: int, is_joined: bool, events: Array) -> float:
    """Return the measure of the hull of two boxes, or of what they have in common."""
    sides = boxes.shape[1]
    if len(events) == 0:
        volume = 1.0
        for axis in range(sides // 2):
            upper = axis + sides // 2
            if is_joined:
                length = max(boxes[one, axis], boxes[other, axis]) + max(boxes[one, upper], boxes[other, upper])
            else:
                length = min(boxes[one, axis], boxes[other, axis]) + min(boxes[one, upper], boxes[other, upper])
            volume *= max(length, 0.0)
        return volume
    total = 0.0
    for event in range(len(events)):
        inside = True
        for side in range(sides):
            if is_joined:
                inside = inside and events[event, side] <= max(boxes[one, side], boxes[other, side])
            else:
                inside = inside and events[event, side] <= min(boxes[one, side], boxes[other, side])
        total += events[event, sides] if inside else 0.0
    return total


@inlined
def _growth_of_two(boxes: Array, measures: Array, one: int, other: int, events: Array) -> float:
    """Return how much larger the hull of two boxes is than the boxes."""
    growth: float = _measure_of_two(boxes, one, other, _JOINED, events) - measures[one] - measures[other]
    return growth + _measure_of_two(boxes, one, other, _COMMON, events)


@compiled
def merge(boxes: Array, count: int, most: int, measures: Array, events: Array) -> int:
    """Merge the first boxes in place until there are at most so many; return how many are left, with their measures."""
    for at in range(count):
        measures[at] = _measure_of_two(boxes, at, at, _JOINED, events)
    while count > most:
        best, first, second = np.inf, ZERO, ZERO + 1
        for one in range(count):
            for other in range(one + 1, count):
                growth = _growth_of_two(boxes, measures, one, other, events)
                if growth < best:
                    best, first, second = growth, one, other
        widen(boxes, first, boxes, second)
        measures[first] = _measure_of_two(boxes, first, first, _JOINED, events)
        kept = 0
        for at in range(count):  # the second one goes, and so does all else that the merged box contains
            if at == first or not lies_within(boxes, at, boxes, first):
                if kept != at:
                    for side in range(boxes.shape[1]):
                        boxes[kept, side] = boxes[at, side]
                    measures[kept] = measures[at]
                first = kept if at == first else first
                kept += 1
        count = kept
    return count


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


@borrowing
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


@borrowing
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


class Filters(NamedTuple):
    """By broker: boxes, how many are allowed, and the broker above; the rows of a density, and working space.

    `boxes` has a second half of what was there before something was tried.
    """

    boxes: Array
    most: Array
    parents: Array
    events: Array
    common: Array


def empty_filters(most: Array, parents: Array, sides: int, density: Density) -> Filters:
    """Return filters that let nothing through."""
    boxes = np.full((2 * len(parents), int(most.max()), sides), -np.inf)
    return Filters(boxes, most, parents, density.rows, working_space(int(most.max()), sides))


def used_boxes(filters: Filters, broker: int) -> Array:
    """Return the boxes of a broker's filter."""
    boxes = filters.boxes[broker]
    found: Array = boxes[: (boxes[:, 0] > -np.inf).sum()]
    return found


@inlined
def holds_all(boxes: Array, broker: int, rows: Array, first: int, last: int) -> bool:
    """Whether a filter has each of some rows in one of its boxes."""
    for row in range(first, last):  # noqa: SIM110 (a generator would not be compiled)
        if holding(boxes, broker, rows, row) == NOWHERE:
            return False
    return True


@inlined
def _unused_slot(boxes: Array, broker: int, most: int) -> int:
    """Return the first unused slot; the first slot of all if there is none."""
    for slot in range(most):
        if boxes[broker, slot, 0] == -np.inf:
            return slot
    return 0


@compiled
def let_in(leaf: int, rows: Array, first: int, last: int, bound: float, filters: Filters) -> float:
    """Let rows into all filters from a leaf up, one after the other, and return how much they have grown.

    When that is more than `bound`, it stops on the way.
    """
    boxes, most, parents, events, common = filters
    total = 0.0
    growing = len(common) - 1
    for row in range(first, last):
        begin_growing(common, rows, row)
        broker = leaf
        while broker >= 0 and total <= bound and holding(boxes, broker, common, growing) == NOWHERE:
            unused = _unused_slot(boxes, broker, most[broker])
            growth, slot = cheapest_slot(boxes, broker, most[broker], unused, common, growing, events, common)
            total += growth
            enlarge(boxes, broker, slot, common, growing)
            grow(common, boxes, broker, slot)
            broker = parents[broker]
    return total


@borrowing
def growth(leaf: int, rows: Array, first: int, last: int, bound: float, filters: Filters) -> float:
    """Return how much all filters from a leaf up grow to let rows in; more than `bound` may be any such number."""
    boxes, parents = filters.boxes, filters.parents
    broker = leaf
    while broker >= 0:
        copy_filter(broker, len(parents) + broker, boxes)
        broker = parents[broker]
    total = let_in(leaf, rows, first, last, bound, filters)
    broker = leaf
    while broker >= 0:
        copy_filter(len(parents) + broker, broker, boxes)
        broker = parents[broker]
    return total


@compiled
def growths(leaves: Array, parts: Array, filters: Filters, found: Array) -> None:
    """Write how much all filters grow to let in some parts, for each of some leaves; 0 where a filter has them all."""
    for place in range(len(leaves)):
        leaf = leaves[place]
        found[place] = 0.0
        if not holds_all(filters.boxes, leaf, parts, ZERO, len(parts)):
            found[place] = growth(leaf, parts, ZERO, len(parts), np.inf, filters)
