"""The moves of local search, and a placement in motion as they keep it: tables of whole numbers.

A move picks a leaf, a box of its filter and a side, takes out everybody who reaches into the outermost slab there (now
and then all of the box), shrinks what is left, and puts them back one by one, largest interest first: where a filter
contains the interest already, the least loaded first; else, where one is full, by sending somebody there away who is
contained elsewhere; else where filters grow least. A move that costs more than simulated annealing allows is undone.

Every part of a subscriber's interest is a *holding*: it is in one slot, a box of the filter of the subscriber's leaf.
Each leaf has a list of entries, one per holding there. Every used slot of a broker is in one slot of the broker above.
A box is always at least the hull of what is in it, and the box of a slot with nothing in it contains nothing.

Before a move changes anything of a subscriber or of a broker it is remembered, once, with the number of the move.

*Filters* grow from a leaf up to let something in: where the box of a slot grows, the box of the slot above that it is
in has to contain it, and so on up the tree. Where a slot comes into use, it is put into the box above that contains it,
or into the one that grows least by it.

Cost: O(entries of the leaf + taken out * candidates * alpha) per move.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rankcast.arrays import Array
from rankcast.compiling import ZERO, borrowing, compiled, constant, inlined, inner
from rankcast.placement.kernels import (
    NOWHERE,
    begin_growing,
    cheapest_slot,
    contains,
    copy_filter,
    enlarge,
    grow,
    growth_of,
    holding,
    measure_of,
    working_space,
)
from rankcast.placement.problem.problem import PlacementProblem
from rankcast.placement.programme.flow import classes_of

WHOLE_BOX = 0.03
"""How often a move takes out all of a box."""

DEEPEST = 1.0
"""The deepest slab, as a share of the box; shallow ones are tried more often."""

EVERY_SLOT = constant(-1)
"""All bits set: every box of a leaf."""

EJECTIONS = 12
"""Subscribers of a full leaf that are asked to go elsewhere."""

RANK, GROUP, FIRST_PART, PARTS, FIRST_HOLDING, LEAF, OLD_LEAF, MOVED, MOVED_LIST = range(9)
"""Columns of `subscribers`. Rank: the larger the interest the lower, the same for equal interest and candidates. Parts:
where in `rows` they are, how many, and where their holdings are. Then what changes: the leaf, the leaf before the move,
and the number of the move that last moved it. The last column is a list: whom the move has moved."""

PLACE, OLD_SLOT = range(2)
"""Columns of `holdings`: where in its leaf's entries it is, and its slot before the move."""

HOLDING, OWNER, PART, SLOT = range(4)
"""What an entry says: which holding, whose, which part of all interests, and in which slot."""

PARENT, MOST, ROOM, LOAD, ENTRIES, CHANGED, FIRST_CHILD, LAST_CHILD, CHILDREN, LEAVES, CHANGED_LIST = range(11)
"""Columns of `brokers`: the broker above, how many boxes are allowed; of a leaf how many subscribers it may have and
has, and how many entries; the number of the move that last changed it; where in the list of children its own are. The
last three columns are lists: all children by parent, the leaves, and which brokers the move has changed."""

COUNT, UPPER = range(2)
"""What `uses` says of a slot: how many holdings, or slots below, are in it; and in which slot above it is."""

MOVE, MOVED_COUNT, CHANGED_COUNT, LEAF_COUNT = range(4)
"""What `sizes` says: the number of the move, how many subscribers and brokers it has remembered, and how many leaves
there are."""


class Walk(NamedTuple):
    """All arrays of a placement in motion.

    `rows` are the parts of all interests. Candidate leaves of group g are `candidates[starts[g] : starts[g + 1]]`.
    `boxes`, `uses` and `measures` are by broker, and have a second half of what was before the move. `taken` is working
    space for a move, `common` for measures.
    """

    rows: Array
    events: Array
    common: Array
    starts: Array
    candidates: Array
    subscribers: Array
    holdings: Array
    entries: Array
    brokers: Array
    boxes: Array
    uses: Array
    measures: Array
    sizes: Array
    taken: Array
    random: Array


@inlined
def begin(sizes: Array) -> None:
    """Begin a move: forget the one before."""
    sizes[MOVE] += 1
    sizes[MOVED_COUNT] = 0
    sizes[CHANGED_COUNT] = 0


@borrowing
def remember(subscriber: int, walk: Walk) -> bool:
    """Remember where a subscriber is; return whether it was not yet remembered in this move."""
    subscribers, holdings, entries, sizes = walk.subscribers, walk.holdings, walk.entries, walk.sizes
    if subscribers[subscriber, MOVED] == sizes[MOVE]:
        return False
    leaf = subscribers[subscriber, LEAF]
    subscribers[subscriber, MOVED] = sizes[MOVE]
    subscribers[subscriber, OLD_LEAF] = leaf
    subscribers[sizes[MOVED_COUNT], MOVED_LIST] = subscriber
    sizes[MOVED_COUNT] += 1
    first = subscribers[subscriber, FIRST_HOLDING]
    for held in range(first, first + subscribers[subscriber, PARTS]):
        holdings[held, OLD_SLOT] = entries[leaf, holdings[held, PLACE], SLOT]
    return True


@borrowing
def _copy(source: int, target: int, walk: Walk) -> None:
    boxes, uses, measures = walk.boxes, walk.uses, walk.measures
    copy_filter(source, target, boxes)
    measures[target] = measures[source]
    for slot in range(boxes.shape[1]):
        uses[target, slot, COUNT] = uses[source, slot, COUNT]
        uses[target, slot, UPPER] = uses[source, slot, UPPER]


@borrowing
def remember_broker(broker: int, walk: Walk) -> None:
    """Remember a filter, the first time in a move."""
    brokers, sizes = walk.brokers, walk.sizes
    if brokers[broker, CHANGED] == sizes[MOVE]:
        return
    brokers[broker, CHANGED] = sizes[MOVE]
    brokers[sizes[CHANGED_COUNT], CHANGED_LIST] = broker
    sizes[CHANGED_COUNT] += 1
    _copy(broker, len(brokers) + broker, walk)


@borrowing
def change(walk: Walk) -> float:
    """Return by how much the move has changed the traffic so far."""
    brokers, measures = walk.brokers, walk.measures
    total = 0.0
    for at in range(walk.sizes[CHANGED_COUNT]):
        broker = brokers[at, CHANGED_LIST]
        total += measures[broker] - measures[len(brokers) + broker]
    return total


@borrowing
def take_out(subscriber: int, walk: Walk) -> int:
    """Take a subscriber out of its leaf; return the slots that it was in, as the bits of a number."""
    subscribers, holdings, entries, brokers = walk.subscribers, walk.holdings, walk.entries, walk.brokers
    leaf, first = subscribers[subscriber, LEAF], subscribers[subscriber, FIRST_HOLDING]
    left = 0
    for held in range(first, first + subscribers[subscriber, PARTS]):
        place = holdings[held, PLACE]
        slot = entries[leaf, place, SLOT]
        left |= 1 << slot
        walk.uses[leaf, slot, COUNT] -= 1
        brokers[leaf, ENTRIES] -= 1
        last = brokers[leaf, ENTRIES]
        for item in range(entries.shape[2]):
            entries[leaf, place, item] = entries[leaf, last, item]
        holdings[entries[leaf, place, HOLDING], PLACE] = place
    brokers[leaf, LOAD] -= 1
    subscribers[subscriber, LEAF] = NOWHERE
    return left


@inlined
def whole(number: int) -> int:
    """Return a number of an entry, which has 32 bits, with as many as all others have."""
    return ZERO + number


@borrowing
def enter(subscriber: int, number: int, leaf: int, slot: int, walk: Walk) -> None:
    """Add a part of a subscriber, by its number, to the entries of a leaf."""
    subscribers, entries, brokers = walk.subscribers, walk.entries, walk.brokers
    place = brokers[leaf, ENTRIES]
    held = subscribers[subscriber, FIRST_HOLDING] + number
    entries[leaf, place, HOLDING] = held
    entries[leaf, place, OWNER] = subscriber
    entries[leaf, place, PART] = subscribers[subscriber, FIRST_PART] + number
    entries[leaf, place, SLOT] = slot
    walk.holdings[held, PLACE] = place
    brokers[leaf, ENTRIES] += 1


@borrowing
def settle(subscriber: int, leaf: int, walk: Walk) -> None:
    """Count a subscriber, all of whose parts have been entered, at a leaf."""
    walk.brokers[leaf, LOAD] += 1
    walk.subscribers[subscriber, LEAF] = leaf


@borrowing
def undo(walk: Walk) -> None:
    """Make the move undone."""
    subscribers, brokers, sizes = walk.subscribers, walk.brokers, walk.sizes
    for at in range(sizes[MOVED_COUNT]):
        subscriber = subscribers[at, MOVED_LIST]
        if subscribers[subscriber, LEAF] != NOWHERE:
            take_out(subscriber, walk)
    for at in range(sizes[MOVED_COUNT]):
        subscriber = subscribers[at, MOVED_LIST]
        leaf, first = subscribers[subscriber, OLD_LEAF], subscribers[subscriber, FIRST_HOLDING]
        for number in range(subscribers[subscriber, PARTS]):
            enter(subscriber, number, leaf, walk.holdings[first + number, OLD_SLOT], walk)
        settle(subscriber, leaf, walk)
    for at in range(sizes[CHANGED_COUNT]):
        broker = brokers[at, CHANGED_LIST]
        _copy(len(brokers) + broker, broker, walk)


@inlined
def drawn(random: Array) -> float:
    """Return the next random number in [0, 1): splitmix64."""
    random[0] += np.uint64(0x9E3779B97F4A7C15)
    mixed = random[0]
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed = mixed ^ (mixed >> np.uint64(31))
    return float(mixed >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@borrowing
def path_growth(leaf: int, row: int, bound: float, walk: Walk) -> float:
    """Return how much the filters from a leaf up grow to let a row in; more than `bound` may be any such number."""
    rows, events, common, brokers, boxes, uses = (
        walk.rows,
        walk.events,
        walk.common,
        walk.brokers,
        walk.boxes,
        walk.uses,
    )
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


@borrowing
def let_in(leaf: int, leaf_slot: int, row: int, walk: Walk) -> None:
    """Add a row to a slot of a leaf, and let the filters above contain what has grown, as `path_growth` reckons."""
    events, common, brokers, boxes, uses = walk.events, walk.common, walk.brokers, walk.boxes, walk.uses
    growing = len(common) - 1
    begin_growing(common, walk.rows, row)
    broker, slot, arrives = leaf, leaf_slot, True
    while True:
        remember_broker(broker, walk)
        is_new = uses[broker, slot, COUNT] == 0
        changes = not contains(boxes, broker, slot, common, growing)
        if changes:
            enlarge(boxes, broker, slot, common, growing)
            grow(common, boxes, broker, slot)
            walk.measures[broker] = measure_of(boxes, broker, events, common)
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


@borrowing
def shrink_leaf(leaf: int, which: int, walk: Walk) -> None:
    """Shrink those boxes of a leaf whose bits are set to what is in them."""
    entries, boxes = walk.entries, walk.boxes
    for slot in range(boxes.shape[1]):
        if (which >> slot) & 1:
            for side in range(boxes.shape[2]):
                boxes[leaf, slot, side] = -np.inf
    for place in range(walk.brokers[leaf, ENTRIES]):
        slot = whole(entries[leaf, place, SLOT])
        if (which >> slot) & 1:
            enlarge(boxes, leaf, slot, walk.rows, whole(entries[leaf, place, PART]))
    walk.measures[leaf] = measure_of(boxes, leaf, walk.events, walk.common)


@borrowing
def shrink_above(leaf: int, walk: Walk) -> None:
    """Shrink the filters above a leaf to what is below them."""
    brokers, boxes, uses = walk.brokers, walk.boxes, walk.uses
    broker = brokers[leaf, PARENT]
    while broker >= 0:
        remember_broker(broker, walk)
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
        walk.measures[broker] = measure_of(boxes, broker, walk.events, walk.common)
        broker = brokers[broker, PARENT]


@borrowing
def free_leaf(subscriber: int, but: int, walk: Walk) -> tuple[int, int]:
    """Return the least loaded leaf with room whose filter contains an interest, and one without room that does."""
    subscribers, brokers, boxes, rows = walk.subscribers, walk.brokers, walk.boxes, walk.rows
    best, full = NOWHERE, NOWHERE
    group, first = subscribers[subscriber, GROUP], subscribers[subscriber, FIRST_PART]
    last = first + subscribers[subscriber, PARTS]
    for place in range(walk.starts[group], walk.starts[group + 1]):
        leaf = walk.candidates[place]
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


@borrowing
def cheapest_leaf(subscriber: int, bound: float, walk: Walk) -> int:
    """Return the leaf with room where filters grow least, and not by more than a bound; else NOWHERE."""
    subscribers, brokers = walk.subscribers, walk.brokers
    best, best_growth = NOWHERE, bound
    group, first = subscribers[subscriber, GROUP], subscribers[subscriber, FIRST_PART]
    for place in range(walk.starts[group], walk.starts[group + 1]):
        leaf = walk.candidates[place]
        if brokers[leaf, LOAD] >= brokers[leaf, ROOM]:
            continue
        growth = 0.0
        for part in range(first, first + subscribers[subscriber, PARTS]):
            growth += path_growth(leaf, part, best_growth - growth, walk)
        if growth < best_growth or (growth == best_growth and best == NOWHERE):
            best, best_growth = leaf, growth
    return best


@borrowing
def put(subscriber: int, leaf: int, walk: Walk) -> None:
    """Put a subscriber that is nowhere to a leaf, and let filters grow as they must."""
    rows, boxes = walk.rows, walk.boxes
    remember_broker(leaf, walk)
    first = walk.subscribers[subscriber, FIRST_PART]
    for number in range(walk.subscribers[subscriber, PARTS]):
        part = first + number
        slot = holding(boxes, leaf, rows, part)
        if slot != NOWHERE:  # the usual case: nothing grows
            walk.uses[leaf, slot, COUNT] += 1
        else:
            most = walk.brokers[leaf, MOST]
            _, slot = cheapest_slot(boxes, leaf, most, ZERO, rows, part, walk.events, walk.common)
            let_in(leaf, slot, part, walk)
        enter(subscriber, number, leaf, slot, walk)
    settle(subscriber, leaf, walk)


@borrowing
def _is_spare(subscriber: int, walk: Walk) -> bool:
    """Whether no slot is left empty when a subscriber goes."""
    leaf, first = walk.subscribers[subscriber, LEAF], walk.subscribers[subscriber, FIRST_HOLDING]
    parts = walk.subscribers[subscriber, PARTS]
    for number in range(first, first + parts):
        if walk.uses[leaf, walk.entries[leaf, walk.holdings[number, PLACE], SLOT], COUNT] <= parts:
            return False
    return True


@borrowing
def make_room(full: int, walk: Walk) -> bool:
    """Send somebody of a full leaf to another one whose filter contains its interest; return whether anybody went."""
    for _ in range(EJECTIONS):
        subscriber = whole(walk.entries[full, int(drawn(walk.random) * walk.brokers[full, ENTRIES]), OWNER])
        if not _is_spare(subscriber, walk):
            continue
        other, _full = free_leaf(subscriber, full, walk)
        if other == NOWHERE:
            continue
        remember(subscriber, walk)
        remember_broker(full, walk)
        take_out(subscriber, walk)
        put(subscriber, other, walk)
        return True
    return False


@borrowing
def _take_out_slab(leaf: int, slot: int, side: int, limit: float, walk: Walk) -> tuple[int, int]:
    """Take out who reaches a limit at a side of a box; return how many they are, and the slots they have been in."""
    rows, entries, taken = walk.rows, walk.entries, walk.taken
    count = 0
    for place in range(walk.brokers[leaf, ENTRIES]):
        if entries[leaf, place, SLOT] != slot or rows[entries[leaf, place, PART], side] < limit:
            continue
        subscriber = whole(entries[leaf, place, OWNER])
        if remember(subscriber, walk):
            taken[count] = subscriber
            count += 1
    left = 0
    for place in range(count):
        left |= take_out(taken[place], walk)
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


@borrowing
def _put_back(count: int, own: int, allowance: float, walk: Walk) -> bool:
    """Put those taken out of a leaf where they cost least; return whether that is within the allowance."""
    subscribers, brokers = walk.subscribers, walk.brokers
    leaf, leaf_rank = NOWHERE, NOWHERE
    for place in range(count):
        subscriber = walk.taken[place]
        full = NOWHERE
        # Where one has gone another with the same interest and candidates is contained, too: no need to look again.
        if leaf_rank != subscribers[subscriber, RANK] or brokers[leaf, LOAD] >= brokers[leaf, ROOM]:
            leaf, full = free_leaf(subscriber, NOWHERE, walk)
        if leaf == NOWHERE and full not in (NOWHERE, own):
            leaf = full if make_room(full, walk) else NOWHERE
        if leaf == NOWHERE:
            leaf = cheapest_leaf(subscriber, allowance - change(walk), walk)
        if leaf == NOWHERE:
            return False
        put(subscriber, leaf, walk)
        leaf_rank = subscribers[subscriber, RANK]
    return change(walk) <= allowance


@borrowing
def _move(leaf: int, slot: int, allowance: float, walk: Walk) -> bool:
    """Make one move, unless it would cost more than its allowance; return whether it was made."""
    boxes, random = walk.boxes, walk.random
    attributes = boxes.shape[2] // 2
    side = int(drawn(random) * 2 * attributes)
    length = boxes[leaf, slot, side] + boxes[leaf, slot, (side + attributes) % (2 * attributes)]
    limit = boxes[leaf, slot, side] - DEEPEST * drawn(random) ** 2 * length
    if drawn(random) < WHOLE_BOX:
        limit = -np.inf
    begin(walk.sizes)
    remember_broker(leaf, walk)
    count, left = _take_out_slab(leaf, slot, side, limit, walk)
    shrink_leaf(leaf, left, walk)
    shrink_above(leaf, walk)
    _sort_largest_first(walk.taken, count, walk.subscribers)
    is_made = _put_back(count, leaf, allowance, walk)
    if not is_made:
        undo(walk)
    return is_made


@compiled
def search(moves: int, temperature: float, walk: Walk) -> int:
    """Try so many moves at one temperature; return how many were made."""
    brokers, random = walk.brokers, walk.random
    made = 0
    for _ in range(moves):
        leaf = brokers[int(drawn(random) * walk.sizes[LEAF_COUNT]), LEAVES]
        slot = int(drawn(random) * brokers[leaf, MOST])
        allowance = -temperature * np.log(1.0 - drawn(random))
        if walk.uses[leaf, slot, COUNT] > 0:
            made += _move(leaf, slot, allowance, walk)
    return made


@compiled
def put_all(leaf_of: Array, walk: Walk) -> None:
    """Put everybody to a given leaf; there is no undoing that."""
    for subscriber in range(len(leaf_of)):
        begin(walk.sizes)
        put(subscriber, leaf_of[subscriber], walk)


@compiled
def shrink_all(walk: Walk) -> None:
    """Shrink all filters to what is in them."""
    for at in range(walk.sizes[LEAF_COUNT]):
        begin(walk.sizes)
        shrink_leaf(walk.brokers[at, LEAVES], EVERY_SLOT, walk)
        shrink_above(walk.brokers[at, LEAVES], walk)


def empty_walk(problem: PlacementProblem, leaf_of: Array, random: np.random.Generator) -> Walk:
    """Return the tables with nobody anywhere."""
    tree, sides, most = problem.tree, problem.interests.sides, int(problem.boxes_of_brokers.max())
    groups = classes_of(problem.candidates, problem.site_of)
    columns, starts = groups.listed()
    brokers = _broker_table(problem, np.bincount(leaf_of, minlength=len(tree)))
    crowd = int(brokers[:, ROOM].max()) + 1
    parts = np.sort(problem.parts_of)
    fullest = int(parts[max(0, len(parts) - crowd) :].sum())
    sizes = np.zeros(4, np.int64)
    sizes[LEAF_COUNT] = len(tree.leaves)
    return Walk(
        sides,
        problem.density.rows,
        working_space(most, sides.shape[1]),
        starts,
        tree.leaves[columns],
        _subscriber_table(problem, groups.members),
        np.zeros((int(parts.sum()), 2), np.int64),
        np.zeros((len(tree), fullest, 4), np.int32),
        brokers,
        np.full((2 * len(tree), most, sides.shape[1]), -np.inf),
        np.zeros((2 * len(tree), most, 2), np.int64),
        np.zeros(2 * len(tree)),
        sizes,
        np.zeros(crowd, np.int64),
        random.integers(0, 1 << 63, 1, dtype=np.uint64),
    )


def _subscriber_table(problem: PlacementProblem, group_of: Array) -> Array:
    sizes = -problem.density.measures(problem.interests.hulls)[problem.interest_of]
    table = np.full((len(problem), 9), NOWHERE)
    table[:, RANK], table[:, GROUP] = _ranks(sizes, problem.interest_of, group_of), group_of
    table[:, FIRST_PART] = problem.interests.offsets[problem.interest_of]
    table[:, PARTS] = problem.parts_of
    table[:, FIRST_HOLDING] = np.cumsum(problem.parts_of) - problem.parts_of
    return table


def _broker_table(problem: PlacementProblem, loads: Array) -> Array:
    """Return the table of brokers; a leaf that is fuller than it should be at the start may stay so."""
    tree = problem.tree
    own = loads[tree.leaves]
    wanted = problem.rooms(problem.beta)
    rooms = wanted if (own <= wanted).all() else np.maximum(problem.rooms(problem.beta_max), own)
    children = np.argsort(tree.parents, kind="stable")
    table = np.zeros((len(tree), 11), np.int64)
    table[:, PARENT], table[:, MOST], table[:, CHANGED] = tree.parents, problem.boxes_of_brokers, NOWHERE
    table[tree.leaves, ROOM] = rooms
    table[:, FIRST_CHILD] = np.searchsorted(tree.parents[children], np.arange(len(tree)))
    table[:, LAST_CHILD] = np.searchsorted(tree.parents[children], np.arange(len(tree)), side="right")
    table[:, CHILDREN] = children
    table[: len(tree.leaves), LEAVES] = tree.leaves
    return table


def _ranks(*keys: Array) -> Array:
    """Return by subscriber the place of its keys among all different ones."""
    order = np.lexsort(keys[::-1])
    changes = np.any([np.diff(key[order], prepend=key[order[:1]]) != 0 for key in keys], axis=0)
    found = np.empty(len(order), np.int64)
    found[order] = np.cumsum(changes)
    return found
