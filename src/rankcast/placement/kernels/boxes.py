"""Many boxes against many boxes: what each candidate box contains."""

from __future__ import annotations

import numpy as np

from rankcast.arrays import Array
from rankcast.compiling import ZERO, compiled, inlined


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
def shrunk_products(
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
def shrunk(parts: Array, boxes: Array) -> Array:
    """Return boxes shrunk to the hull of the parts in each; those without any are left out."""
    hulls = np.full(boxes.shape, -np.inf)
    made = ZERO
    for box in range(len(boxes)):
        found = False
        for part in range(len(parts)):
            if lies_within(parts, part, boxes, box):
                found = True
                widen(hulls, made, parts, part)
        made += found
    return hulls[:made]


@compiled
def contained(parts: Array, boxes: Array) -> tuple[Array, Array]:
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
