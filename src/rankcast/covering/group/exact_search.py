"""Is a box contained in the union of other boxes? The exact search, what can answer sooner, and random points.

A row of the conflict table is one box; its entries are the sides on which it leaves a part of the tested box open:
`x < start` and `x >= end`. Some point of the tested box lies outside all rows exactly when one entry per row can be
chosen so that all of them hold together: a satisfiability problem whose clauses are the rows and whose literals are
order constraints. Two entries conflict when they say `x < a` and `x >= b` with a <= b, and in no other case.

`minimised` drops rows that cannot matter (the paper's MCS): a row with an entry that conflicts with no other row's, and
a row with at least as many entries as there are rows. It looks only at the two largest ends and two smallest starts per
attribute, so a round costs O(m k) for k rows of m attributes.

`search` decides: it alternates unit propagation (a row with one entry left forces it), the rules of `minimised`, and a
split of the box at the entry, among those of the shortest rows, that decides most on both sides (after Jeroslow and
Wang: rows count 2 ** -entries). Work is counted in rows looked at; past the budget the answer is UNDECIDED. It is never
wrong.

Rows that are dropped stay behind those that are left, the latest first: that is how a point outside all rows is found.

`probe` tries random points of the box: one that no row contains proves that it is not covered. That no such point was
found proves nothing; the paper bounds the probability of a wrong "covered" by (1 - w) ** d, for d points and any lower
bound w of the share of uncovered points. The bound it prints is none (`printed_share`): it takes, per attribute, the
smallest distance of a row's side from the box's side, but an uncovered cell may lie between the sides of two rows.
`sound_share` takes the smallest cell that such sides can enclose. Shares are in terms of the integer labels of boxes.

Paper: probabilistic subsumption checking by conflict tables, with the corrections of docs/semantics.md.
"""

from __future__ import annotations

import numpy as np

from rankcast.arrays import Array
from rankcast.compiling import compiled

NOT_COVERED, COVERED, UNDECIDED = 0, 1, 2
APART, MEETS, CONTAINS = 0, 1, 2

_LOW, _HIGH = -1, 2**62 + 1
"""Below and above every label."""


@compiled
def relations(start: Array, end: Array, starts: Array, ends: Array, rows: Array, found: Array) -> None:
    """Write for each row whether it CONTAINS the box, only MEETS it, or is APART from it."""
    for at in range(len(rows)):
        row = rows[at]
        found[at] = CONTAINS
        for attribute in range(len(start)):
            low, high = starts[row, attribute], ends[row, attribute]
            if low >= end[attribute] or high <= start[attribute]:
                found[at] = APART
                break
            if low > start[attribute] or high < end[attribute]:
                found[at] = MEETS


@compiled
def entries(start: Array, end: Array, starts: Array, ends: Array, row: int) -> int:
    """Return how many entries a row has; -1 when it has no point in common with the box."""
    count = 0
    for attribute in range(len(start)):
        if starts[row, attribute] >= end[attribute] or ends[row, attribute] <= start[attribute]:
            return -1
        count += starts[row, attribute] > start[attribute]
        count += ends[row, attribute] < end[attribute]
    return count


@compiled
def without_free_entries(
    start: Array, end: Array, starts: Array, ends: Array, rows: Array, sizes: Array, count: int
) -> int:
    """Drop, in place, the rows with an entry that conflicts with no other row's; return how many are left."""
    for attribute in range(len(start)):
        # Of the entries `x >= end` the two largest ends, of the entries `x < start` the two smallest starts, and whose
        # the first of each is: what conflicts with a row's own entry must come from another row.
        end_first, end_second, end_row = _LOW, _LOW, -1
        start_first, start_second, start_row = _HIGH, _HIGH, -1
        for at in range(count):
            row = rows[at]
            high, low = ends[row, attribute], starts[row, attribute]
            if high < end[attribute]:
                if high > end_first:
                    end_first, end_second, end_row = high, end_first, row
                elif high > end_second:
                    end_second = high
            if low > start[attribute]:
                if low < start_first:
                    start_first, start_second, start_row = low, start_first, row
                elif low < start_second:
                    start_second = low
        at = 0
        while at < count:
            row = rows[at]
            high, low = ends[row, attribute], starts[row, attribute]
            others_end = end_second if end_row == row else end_first
            others_start = start_second if start_row == row else start_first
            if (low > start[attribute] and others_end < low) or (high < end[attribute] and others_start > high):
                count -= 1
                rows[at], rows[count], sizes[at] = rows[count], row, sizes[count]
            else:
                at += 1
    return count


@compiled
def without_long_rows(rows: Array, sizes: Array, count: int) -> int:
    """Drop, in place, rows with at least as many entries as there are rows; return how many are left."""
    at = 0
    while at < count:
        if sizes[at] >= count:
            count -= 1
            rows[at], rows[count], sizes[at] = rows[count], rows[at], sizes[count]
            at = 0  # with one row less, shorter rows are long
        else:
            at += 1
    return count


@compiled
def minimised(start: Array, end: Array, starts: Array, ends: Array, rows: Array, sizes: Array, count: int) -> int:
    """Reduce rows, in place, to a set that covers the box exactly when all of them do; return how many are left.

    `sizes` are the numbers of entries of the rows; a row without points in common with the box is dropped first.
    """
    at = 0
    while at < count:
        sizes[at] = entries(start, end, starts, ends, rows[at])
        if sizes[at] < 0:
            count -= 1
            rows[at], rows[count] = rows[count], rows[at]
        else:
            at += 1
    while True:
        left = without_free_entries(start, end, starts, ends, rows, sizes, count)
        left = without_long_rows(rows, sizes, left)
        if left == count:
            return count
        count = left


@compiled
def _propagated(
    start: Array, end: Array, starts: Array, ends: Array, rows: Array, sizes: Array, count: int, used: Array
) -> tuple[bool, int, int]:
    """Narrow the box by rows with a single entry until there are none: (is covered, rows left, rows looked at).

    Rows that narrow it or cover it are marked in `used`.
    """
    visits, changed = 0, True
    while changed:
        changed = False
        at = 0
        while at < count:
            row = rows[at]
            visits += 1
            size, where, above, apart = 0, -1, False, False
            for attribute in range(len(start)):
                low, high = starts[row, attribute], ends[row, attribute]
                if low >= end[attribute] or high <= start[attribute]:
                    apart = True
                    break
                if low > start[attribute]:
                    size, where, above = size + 1, attribute, False
                if high < end[attribute]:
                    size, where, above = size + 1, attribute, True
            if not apart and size < 2:
                used[row] = 1
            if not apart and size == 0:
                return True, count, visits
            if not apart and size > 1:
                sizes[at] = size
                at += 1
                continue
            if not apart:
                if above:
                    start[where] = ends[row, where]
                else:
                    end[where] = starts[row, where]
                changed = True
            count -= 1
            rows[at], rows[count] = rows[count], row
    return False, count, visits


@compiled
def _split(
    start: Array, end: Array, starts: Array, ends: Array, rows: Array, sizes: Array, count: int
) -> tuple[int, int, int]:
    """Return where to split the box: an attribute, the label at which its upper part begins, and rows looked at."""
    shortest = sizes[:count].min()
    best, best_attribute, best_label, visits = -1.0, 0, 0, 0
    for at in range(count):
        if sizes[at] != shortest:
            continue
        for attribute in range(len(start)):
            for label in (starts[rows[at], attribute], ends[rows[at], attribute]):
                if label <= start[attribute] or label >= end[attribute]:
                    continue
                below, above = 0.0, 0.0
                for other in range(count):
                    low, high = starts[rows[other], attribute], ends[rows[other], attribute]
                    weight = 2.0 ** -float(sizes[other])
                    if low < label <= high < end[attribute]:
                        below += weight
                    if high > label >= low > start[attribute]:
                        above += weight
                visits += count // 8 + 1
                merit = (below + 1e-3) * (above + 1e-3)
                if merit > best:
                    best, best_attribute, best_label = merit, attribute, label
    return best_attribute, best_label, visits


@compiled
def search(
    first_start: Array,
    first_end: Array,
    starts: Array,
    ends: Array,
    first_rows: Array,
    budget: int,
    point: Array,
    used: Array,
) -> tuple[int, int]:
    """Decide whether rows cover a box: (COVERED, NOT_COVERED or UNDECIDED, rows looked at).

    On NOT_COVERED, `point` is a point of the box that no row contains. On COVERED, the rows marked in `used` cover it:
    those that narrowed a part of the box, and those that covered what was left of it.
    """
    width, most = len(first_start), len(first_rows)
    boxes = np.empty((16, 2, width), np.int64)
    waiting = np.empty((16, most), np.int64)
    counts = np.empty(16, np.int64)
    boxes[0, 0], boxes[0, 1], waiting[0], counts[0] = first_start, first_end, first_rows, most
    sizes = np.empty(most, np.int64)
    depth, visits = 1, 0
    while depth > 0:
        depth -= 1
        start, end, rows, count = boxes[depth, 0], boxes[depth, 1], waiting[depth], counts[depth]
        while True:
            covered, count, looked = _propagated(start, end, starts, ends, rows, sizes, count, used)
            visits += looked + count
            if covered:
                break
            left = without_free_entries(start, end, starts, ends, rows, sizes, count)
            left = without_long_rows(rows, sizes, left)
            if left == count:
                break
            count = left
        if covered:
            if visits > budget and depth > 0:
                return UNDECIDED, visits
            continue
        if count == 0:
            _leave(start, end, starts, ends, rows)
            point[:] = start
            return NOT_COVERED, visits
        if visits > budget:
            return UNDECIDED, visits
        attribute, label, looked = _split(start, end, starts, ends, rows, sizes, count)
        visits += looked
        if depth + 2 > len(counts):
            boxes, waiting, counts = _grown(boxes, waiting, counts)
        boxes[depth + 1] = boxes[depth]
        waiting[depth + 1] = waiting[depth]
        counts[depth], counts[depth + 1] = count, count
        boxes[depth, 1, attribute] = label
        boxes[depth + 1, 0, attribute] = label
        depth += 2
    return COVERED, visits


@compiled
def _grown(boxes: Array, waiting: Array, counts: Array) -> tuple[Array, Array, Array]:
    room = len(counts)
    more_boxes = np.empty((2 * room, boxes.shape[1], boxes.shape[2]), np.int64)
    more_waiting = np.empty((2 * room, waiting.shape[1]), np.int64)
    more_counts = np.empty(2 * room, np.int64)
    more_boxes[:room], more_waiting[:room], more_counts[:room] = boxes, waiting, counts
    return more_boxes, more_waiting, more_counts


@compiled
def _leave(start: Array, end: Array, starts: Array, ends: Array, rows: Array) -> None:
    """Narrow a box, to which no row is left, until it lies outside all rows; they come in the order latest first.

    A row was dropped because, whatever the rows that were still there need, one of its entries can hold with that. So
    going back in time there is always one that leaves something of the box.
    """
    for row in rows:
        if entries(start, end, starts, ends, row) < 0:
            continue
        for attribute in range(len(start)):
            if starts[row, attribute] > start[attribute]:
                end[attribute] = starts[row, attribute]
                break
            if ends[row, attribute] < end[attribute]:
                start[attribute] = ends[row, attribute]
                break


@compiled
def escape(start: Array, end: Array, starts: Array, ends: Array, rows: Array, count: int, point: Array) -> None:
    """Move a point of the box that lies outside the first `count` rows, which `minimised` has left, outside all."""
    for at in range(count):
        row = rows[at]
        for attribute in range(len(start)):
            if point[attribute] < starts[row, attribute]:
                end[attribute] = min(end[attribute], starts[row, attribute])
                break
            if point[attribute] >= ends[row, attribute]:
                start[attribute] = max(start[attribute], ends[row, attribute])
                break
    _leave(start, end, starts, ends, rows[count:])
    point[:] = start


@compiled
def probe(start: Array, end: Array, starts: Array, ends: Array, rows: Array, points: Array, point: Array) -> int:
    """Return which of some points, given as shares of the box's sides, is the first that no row contains; -1: none.

    That point is written. The rows are reordered: one that contained a point is tried first next time.
    """
    for at in range(len(points)):
        for attribute in range(len(start)):
            width = end[attribute] - start[attribute]
            point[attribute] = start[attribute] + min(width - 1, np.int64(points[at, attribute] * width))
        inside = False
        for place in range(len(rows)):
            row = rows[place]
            inside = True
            for attribute in range(len(start)):
                if point[attribute] < starts[row, attribute] or point[attribute] >= ends[row, attribute]:
                    inside = False
                    break
            if inside:
                rows[0], rows[place] = row, rows[0]
                break
        if not inside:
            return at
    return -1


@compiled
def printed_share(start: Array, end: Array, starts: Array, ends: Array, rows: Array) -> float:
    """Return the logarithm of what the paper takes for a lower bound of the share of uncovered points."""
    share = 0.0
    for attribute in range(len(start)):
        width = end[attribute] - start[attribute]
        gap = width
        for row in rows:
            if starts[row, attribute] > start[attribute]:
                gap = min(gap, starts[row, attribute] - start[attribute])
            if ends[row, attribute] < end[attribute]:
                gap = min(gap, end[attribute] - ends[row, attribute])
        share += np.log(gap / width)
    return share


@compiled
def sound_share(start: Array, end: Array, starts: Array, ends: Array, rows: Array) -> float:
    """Return the logarithm of a lower bound of the share of uncovered points, if there are any.

    An uncovered point lies in a cell [b, a) of each attribute, where b is the start of the box or the end of a row and
    a the end of the box or the start of a row; the smallest such cells together are the bound.
    """
    share = 0.0
    count = len(rows)
    uppers, lowers = np.empty(count + 1, np.int64), np.empty(count + 1, np.int64)
    for attribute in range(len(start)):
        upper, lower = 1, 1
        uppers[0], lowers[0] = end[attribute], start[attribute]
        for row in rows:
            if start[attribute] < starts[row, attribute] < end[attribute]:
                uppers[upper] = starts[row, attribute]
                upper += 1
            if start[attribute] < ends[row, attribute] < end[attribute]:
                lowers[lower] = ends[row, attribute]
                lower += 1
        sides, floors = np.sort(uppers[:upper]), np.sort(lowers[:lower])
        gap = end[attribute] - start[attribute]
        below = 0
        for side in sides:
            while below < lower and floors[below] < side:
                below += 1
            gap = min(gap, side - floors[below - 1])
        share += np.log(gap / (end[attribute] - start[attribute]))
    return share
