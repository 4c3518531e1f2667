"""A placement in motion, as local search keeps it: tables of whole numbers, and how a move is made undone.

Every part of a subscriber's interest is a *holding*: it is in one slot, a box of the filter of the subscriber's leaf.
Each leaf has a list of entries, one per holding there. Every used slot of a broker is in one slot of the broker above.
A box is always at least the hull of what is in it, and the box of a slot with nothing in it contains nothing.

Before a move changes anything of a subscriber or of a broker it is remembered, once, with the number of the move.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rankcast.arrays import Array
from rankcast.compiling import ZERO, inlined, inner
from rankcast.placement.kernels.boxes import NOWHERE, copy_filter, working_space
from rankcast.placement.problem.problem import Problem
from rankcast.placement.programme.flow import classes_of

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


@inner
def remember(subscriber: int, subscribers: Array, holdings: Array, entries: Array, sizes: Array) -> bool:
    """Remember where a subscriber is; return whether it was not yet remembered in this move."""
    if subscribers[subscriber, MOVED] == sizes[MOVE]:
        return False
    leaf = subscribers[subscriber, LEAF]
    subscribers[subscriber, MOVED] = sizes[MOVE]
    subscribers[subscriber, OLD_LEAF] = leaf
    subscribers[sizes[MOVED_COUNT], MOVED_LIST] = subscriber
    sizes[MOVED_COUNT] += 1
    first = subscribers[subscriber, FIRST_HOLDING]
    for holding in range(first, first + subscribers[subscriber, PARTS]):
        holdings[holding, OLD_SLOT] = entries[leaf, holdings[holding, PLACE], SLOT]
    return True


@inlined
def _copy(source: int, target: int, boxes: Array, uses: Array, measures: Array) -> None:
    copy_filter(source, target, boxes)
    measures[target] = measures[source]
    for slot in range(boxes.shape[1]):
        uses[target, slot, COUNT] = uses[source, slot, COUNT]
        uses[target, slot, UPPER] = uses[source, slot, UPPER]


@inner
def remember_broker(broker: int, brokers: Array, boxes: Array, uses: Array, measures: Array, sizes: Array) -> None:
    """Remember a filter, the first time in a move."""
    if brokers[broker, CHANGED] == sizes[MOVE]:
        return
    brokers[broker, CHANGED] = sizes[MOVE]
    brokers[sizes[CHANGED_COUNT], CHANGED_LIST] = broker
    sizes[CHANGED_COUNT] += 1
    _copy(broker, len(brokers) + broker, boxes, uses, measures)


@inlined
def change(brokers: Array, measures: Array, sizes: Array) -> float:
    """Return by how much the move has changed the traffic so far."""
    total = 0.0
    for at in range(sizes[CHANGED_COUNT]):
        broker = brokers[at, CHANGED_LIST]
        total += measures[broker] - measures[len(brokers) + broker]
    return total


@inner
def take_out(subscriber: int, subscribers: Array, holdings: Array, entries: Array, brokers: Array, uses: Array) -> int:
    """Take a subscriber out of its leaf; return the slots that it was in, as the bits of a number."""
    leaf, first = subscribers[subscriber, LEAF], subscribers[subscriber, FIRST_HOLDING]
    left = 0
    for holding in range(first, first + subscribers[subscriber, PARTS]):
        place = holdings[holding, PLACE]
        slot = entries[leaf, place, SLOT]
        left |= 1 << slot
        uses[leaf, slot, COUNT] -= 1
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


@inlined
def enter(
    subscriber: int,
    number: int,
    leaf: int,
    slot: int,
    subscribers: Array,
    holdings: Array,
    entries: Array,
    brokers: Array,
) -> None:
    """Add a part of a subscriber, by its number, to the entries of a leaf."""
    place = brokers[leaf, ENTRIES]
    holding = subscribers[subscriber, FIRST_HOLDING] + number
    entries[leaf, place, HOLDING] = holding
    entries[leaf, place, OWNER] = subscriber
    entries[leaf, place, PART] = subscribers[subscriber, FIRST_PART] + number
    entries[leaf, place, SLOT] = slot
    holdings[holding, PLACE] = place
    brokers[leaf, ENTRIES] += 1


@inlined
def settle(subscriber: int, leaf: int, subscribers: Array, brokers: Array) -> None:
    """Count a subscriber, all of whose parts have been entered, at a leaf."""
    brokers[leaf, LOAD] += 1
    subscribers[subscriber, LEAF] = leaf


@inner
def undo(
    subscribers: Array,
    holdings: Array,
    entries: Array,
    brokers: Array,
    boxes: Array,
    uses: Array,
    measures: Array,
    sizes: Array,
) -> None:
    """Make the move undone."""
    for at in range(sizes[MOVED_COUNT]):
        subscriber = subscribers[at, MOVED_LIST]
        if subscribers[subscriber, LEAF] != NOWHERE:
            take_out(subscriber, subscribers, holdings, entries, brokers, uses)
    for at in range(sizes[MOVED_COUNT]):
        subscriber = subscribers[at, MOVED_LIST]
        leaf, first = subscribers[subscriber, OLD_LEAF], subscribers[subscriber, FIRST_HOLDING]
        for number in range(subscribers[subscriber, PARTS]):
            slot = holdings[first + number, OLD_SLOT]
            enter(subscriber, number, leaf, slot, subscribers, holdings, entries, brokers)
        settle(subscriber, leaf, subscribers, brokers)
    for at in range(sizes[CHANGED_COUNT]):
        broker = brokers[at, CHANGED_LIST]
        _copy(len(brokers) + broker, broker, boxes, uses, measures)


@inlined
def drawn(random: Array) -> float:
    """Return the next random number in [0, 1): splitmix64."""
    random[0] += np.uint64(0x9E3779B97F4A7C15)
    mixed = random[0]
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed = mixed ^ (mixed >> np.uint64(31))
    return float(mixed >> np.uint64(11)) * (1.0 / 9007199254740992.0)


def empty_walk(problem: Problem, leaf_of: Array, random: np.random.Generator) -> Walk:
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


def _subscriber_table(problem: Problem, group_of: Array) -> Array:
    sizes = -problem.density.measures(problem.interests.hulls)[problem.interest_of]
    table = np.full((len(problem), 9), NOWHERE)
    table[:, RANK], table[:, GROUP] = _ranks(sizes, problem.interest_of, group_of), group_of
    table[:, FIRST_PART] = problem.interests.offsets[problem.interest_of]
    table[:, PARTS] = problem.parts_of
    table[:, FIRST_HOLDING] = np.cumsum(problem.parts_of) - problem.parts_of
    return table


def _broker_table(problem: Problem, loads: Array) -> Array:
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
