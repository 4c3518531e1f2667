"""One decision of the linear programme: who goes to which of some sibling brokers, given what their filters cover.

In a tree of one level there is one *stage*, and its brokers are the leaves. In a deeper tree there is a stage for every
inner broker, from the top down: a child may serve a subscriber when some leaf below it may, and has the room of all
leaves below it. The flow is always one to the leaves, whatever the stage, so that whoever goes below a child finds room
at some leaf there, within the limit of latency.

Subscribers with the same interest and the same candidates are one *demand*: nothing here tells them apart. A member of
a stage may be at any leaf that covers its demand, and leaves have room for so many. When a demand is no more covered at
some leaves, its members there go to others that cover it; where these are full, along a shortest chain of leaves each
of which passes somebody on to the next, up to one with room. So the question whether a filter can do without a box is
answered exactly, for all members, at the cost of those few whom it concerns.

Cost of shifting: O(leaves) per member shifted and O(leaves^2) per chain, and lists are gone through only as far as
`firsts` move on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rankcast.arrays import Array, group
from rankcast.compiling import ZERO, borrowing, compiled, constant
from rankcast.placement.kernels import NOWHERE, covering_brokers
from rankcast.placement.problem.problem import PlacementProblem
from rankcast.placement.programme.flow import (
    Classes,
    cheapest_flow,
    classes_of,
    draw_members,
    first_full_flow,
    largest_flow,
)

PLACE, LEAF, DEMAND = range(3)
"""Columns of `members`: where in its leaf's list it is, the leaf, and the demand. NOWHERE is the leaf of those left out
from the start, for whom there is no room."""

_COVERED, _NOT_COVERED = constant(True), constant(False)


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """The subscribers `members` and the `brokers` among which to divide them; `below` says which leaves each one has.

    By demand: its interest, a site of it, how many members it has, and its class, the row of `classes` that says which
    brokers it may have.
    """

    problem: PlacementProblem
    members: Array
    brokers: Array
    below: Array
    demand_of: Array
    interests: Array
    sites: Array
    sizes: Array
    classes: Array
    class_of: Array

    @staticmethod
    def of(problem: PlacementProblem, members: Array, brokers: Array) -> Stage:
        """Return the stage at which members are divided among sibling brokers."""
        below = problem.tree.leaves_below()[brokers]
        groups = classes_of(problem.candidates & below.any(axis=0), problem.site_of[members])
        codes = problem.interest_of[members] * len(groups.allowed) + groups.members
        found, first, demand_of, sizes = np.unique(codes, return_index=True, return_inverse=True, return_counts=True)
        interests, class_of = np.divmod(found, len(groups.allowed))
        sites = problem.site_of[members][first]
        classes = classes_at(groups, below)
        return Stage(
            problem, members, brokers, below, demand_of.reshape(-1), interests, sites, sizes, classes, class_of
        )

    @property
    def most(self) -> Array:
        """How many boxes the filter of each broker may have."""
        found: Array = self.problem.boxes_of_brokers[self.brokers]
        return found

    def allowed_of(self, demands: Array | slice = slice(None)) -> Array:
        """Return which brokers some demands may have, or all of them: a row per demand."""
        found: Array = self.classes[self.class_of[demands]]
        return found

    def allowed_at(self, broker: int) -> Array:
        """Return which demands may have a broker."""
        found: Array = self.classes[:, broker][self.class_of]
        return found

    def rooms(self, factor: float) -> Array:
        """Return how many subscribers each broker has room for at a load factor."""
        found: Array = self.below @ self.problem.rooms(factor)
        return found

    def held(self, demands: Array, boxes: Array) -> Array:
        """Return which of some demands have every part of their interest in one of some boxes."""
        interests, anywhere = self.problem.interests, np.zeros(len(demands), np.int64)
        all_boxes = np.array([0, len(boxes)])
        one_class = np.ones((1, 1), bool)
        found: Array = covering_brokers(
            self.interests[demands], anywhere, one_class, interests.offsets, interests.sides, all_boxes, boxes, False
        )
        return found[:, 0]

    def covers(self, demands: Array, starts: Array, boxes: Array, *, only_first: bool = False) -> Array:
        """Return by which brokers some demands are covered, given the boxes of each broker: a row per demand."""
        sides, offsets = self.problem.interests.sides, self.problem.interests.offsets
        wanted, class_of = self.interests[demands], self.class_of[demands]
        return covering_brokers(wanted, class_of, self.classes, offsets, sides, starts, boxes, only_first)

    def all_covers(self, starts: Array, boxes: Array) -> Array:
        """Return by which brokers all demands are covered: a row per demand."""
        return self.covers(np.arange(len(self.sizes)), starts, boxes)

    def uncovered(self, starts: Array, boxes: Array) -> Array:
        """Return which demands no broker covers."""
        covers = self.covers(np.arange(len(self.sizes)), starts, boxes, only_first=True)
        return np.logical_not(covers.any(axis=1))


def classes_at(groups: Classes, below: Array) -> Array:
    """Return which brokers classes may have, given which leaves they may have, and those below each broker."""
    found: Array = (groups.allowed.astype(np.float32) @ below.T.astype(np.float32)) > 0
    return found


def assign_members(stage: Stage, covers: Array, random: np.random.Generator) -> Array:
    """Return the leaf column of each member: covered, within its candidates, and balanced.

    When the filters that cover demands leave too little room at `beta_max`, as few as possible go to leaves whose
    filters do not cover them yet: a place is found whenever there is one within latency and load.
    """
    problem = stage.problem
    leaves = len(problem.tree.leaves)
    rows = np.empty((len(covers), 2 * leaves), bool)
    rows[:, leaves:] = _possible(stage)
    possible = rows[:, leaves:]
    rows[:, :leaves] = _at_leaves(stage, covers, possible)
    classes = classes_of(rows, stage.demand_of)
    within, anywhere = classes.allowed[:, :leaves], classes.allowed[:, leaves:]
    flow, _ = first_full_flow(problem, len(stage.members), lambda rooms: largest_flow(within, classes.sizes, rooms))
    if flow.total < len(stage.members):
        flow, _ = first_full_flow(
            problem, len(stage.members), lambda rooms: cheapest_flow(anywhere, ~within, classes.sizes, rooms)
        )
    columns = draw_members(flow, classes.members, random)
    lost = np.flatnonzero(columns < 0)
    if len(lost):  # there is no placement within the limits of load: those left over go to the least loaded
        loads = np.bincount(columns[columns >= 0], minlength=leaves) / np.maximum(problem.shares_of_leaves, 1e-300)
        open_leaves = possible[stage.demand_of[lost]] & (problem.shares_of_leaves > 0)
        columns[lost] = np.where(open_leaves, loads, np.inf).argmin(axis=1)
    return columns


class LoadTables(NamedTuple):
    """Who is where, and who could go where, as kernels keep it.

    Where it is `allowed` demands may be covered at leaves, and where it is in `covers` they are. Members of demand d
    are `by_demand[starts[d] : starts[d + 1]]`. The members at leaf a are the first `loads[a]` in row a of `lists`;
    `could[a, b]` counts those of them who are covered at b, and none in the list before `firsts[a, b]` is. `log`,
    `before` and `queue` are working space.
    """

    allowed: Array
    covers: Array
    starts: Array
    by_demand: Array
    members: Array
    lists: Array
    loads: Array
    rooms: Array
    could: Array
    firsts: Array
    log: Array
    before: Array
    queue: Array


class Loads:
    """Everybody at a leaf that covers them, at the least load factor that allows it; ready to be shifted.

    Where filters leave too little room even at `beta_max`, those without a place are left out.
    """

    def __init__(self, stage: Stage, covers: Array, random: np.random.Generator) -> None:
        self._stage = stage
        allowed = _possible(stage)
        covered = _at_leaves(stage, covers, allowed)
        classes = classes_of(covered, stage.demand_of)
        flow, rooms = first_full_flow(
            stage.problem, len(stage.members), lambda rooms: largest_flow(classes.allowed, classes.sizes, rooms)
        )
        leaves = len(rooms)
        members = np.zeros((len(stage.members), 3), np.int64)
        members[:, LEAF] = draw_members(flow, classes.members, random)
        members[:, DEMAND] = stage.demand_of
        self._tables = LoadTables(
            allowed,
            covered,
            *group(stage.demand_of, len(stage.sizes)),
            members=members,
            lists=np.zeros((leaves, int(rooms.max()) + 1), np.int64),
            loads=np.zeros(leaves, np.int64),
            rooms=rooms,
            could=np.zeros((leaves, leaves), np.int64),
            firsts=np.zeros((leaves, leaves), np.int64),
            log=np.zeros((2 * len(members) + leaves, 2), np.int64),
            before=np.zeros(leaves, np.int64),
            queue=np.zeros(leaves, np.int64),
        )
        count_all(self._tables)

    def cover(self, covers: Array) -> None:
        """Let demands be covered by other brokers: all that did before, and more."""
        self._tables.covers[:] = _at_leaves(self._stage, covers, self._tables.allowed)
        count_all(self._tables)

    def can_do_without(self, demands: Array, broker: int) -> bool:
        """Let a broker of the stage not cover some demands any more, if everybody still finds a place."""
        return shift_away(demands, self._stage.below[broker], self._tables)


def _possible(stage: Stage) -> Array:
    """Return which leaves below the stage each demand may have."""
    found: Array = stage.problem.candidates[stage.sites]
    found &= stage.below.any(axis=0)
    return found


def _at_leaves(stage: Stage, covers: Array, possible: Array) -> Array:
    """Return at which of the leaves that are possible demands are covered, given by which brokers of the stage."""
    found: Array = np.take(covers, stage.below.argmax(axis=0), axis=1)
    found &= possible  # at leaves below none of the brokers, too, nothing is
    return found


@compiled
def count_all(tables: LoadTables) -> None:
    """List members by leaf, and count who could go where."""
    members, covers, loads, could = tables.members, tables.covers, tables.loads, tables.could
    loads[:] = 0
    could[:] = 0
    tables.firsts[:] = 0
    for member in range(len(members)):
        leaf = members[member, LEAF]
        if leaf == NOWHERE:
            continue
        tables.lists[leaf, loads[leaf]] = member
        members[member, PLACE] = loads[leaf]
        loads[leaf] += 1
        for other in range(covers.shape[1]):
            could[leaf, other] += covers[members[member, DEMAND], other]


@borrowing
def _shift(member: int, target: int, tables: LoadTables) -> None:
    """Put a member to another leaf."""
    members, covers, lists, loads = tables.members, tables.covers, tables.lists, tables.loads
    could, firsts = tables.could, tables.firsts
    leaf, place, demand = members[member, LEAF], members[member, PLACE], members[member, DEMAND]
    loads[leaf] -= 1
    last = lists[leaf, loads[leaf]]
    lists[leaf, place] = last
    members[last, PLACE] = place
    for other in range(covers.shape[1]):
        if covers[members[last, DEMAND], other]:
            firsts[leaf, other] = min(firsts[leaf, other], place)
    lists[target, loads[target]] = member
    members[member, PLACE], members[member, LEAF] = loads[target], target
    loads[target] += 1
    for other in range(covers.shape[1]):
        if covers[demand, other]:
            could[leaf, other] -= 1
            could[target, other] += 1
            firsts[target, other] = min(firsts[target, other], members[member, PLACE])


@borrowing
def _chain(demand: int, left: int, tables: LoadTables) -> int:
    """Find a shortest chain from the leaves that cover a demand to one with room; return that leaf, or NOWHERE.

    The leaf that the member has left has room for one more: others may go there in exchange.
    """
    loads, could, before, queue = tables.loads, tables.could, tables.before, tables.queue
    before[:] = NOWHERE
    head, tail = 0, 0
    for leaf in range(len(loads)):
        if tables.covers[demand, leaf]:
            before[leaf] = leaf
            queue[tail] = leaf
            tail += 1
    while head < tail:
        leaf = queue[head]
        head += 1
        if loads[leaf] < tables.rooms[leaf] + (leaf == left):
            return int(leaf)
        for other in range(len(loads)):
            if could[leaf, other] > 0 and before[other] == NOWHERE:
                before[other] = leaf
                queue[tail] = other
                tail += 1
    return NOWHERE


@borrowing
def _passed_on(leaf: int, target: int, tables: LoadTables) -> int:
    """Return the first member at a leaf who is covered at another one; `could` says that there is one."""
    place = tables.firsts[leaf, target]
    while not tables.covers[tables.members[tables.lists[leaf, place], DEMAND], target]:
        place += 1
    tables.firsts[leaf, target] = place
    found: int = tables.lists[leaf, place]
    return found


@borrowing
def _set_covered(demands: Array, is_left: Array, is_covered: bool, tables: LoadTables) -> None:
    """Let demands be covered at some leaves, wherever that is allowed, or not be covered there."""
    members, could, firsts = tables.members, tables.could, tables.firsts
    for demand in demands:
        for leaf in range(len(is_left)):
            if not is_left[leaf] or not tables.allowed[demand, leaf]:
                continue
            tables.covers[demand, leaf] = is_covered
            for place in range(tables.starts[demand], tables.starts[demand + 1]):
                member = tables.by_demand[place]
                at = members[member, LEAF]
                if at == NOWHERE:
                    continue
                could[at, leaf] += 1 if is_covered else -1
                if is_covered:
                    firsts[at, leaf] = min(firsts[at, leaf], members[member, PLACE])


@borrowing
def _shift_along(member: int, end: int, logged: int, tables: LoadTables) -> int:
    """Shift a member to the first leaf of a chain, and somebody of each leaf to the next; return the entries logged."""
    log, before = tables.log, tables.before
    leaf = end
    while True:
        is_first = before[leaf] == leaf
        moving = member if is_first else _passed_on(before[leaf], leaf, tables)
        log[logged, 0], log[logged, 1] = moving, tables.members[moving, LEAF]
        logged += 1
        _shift(moving, leaf, tables)
        if is_first:
            return logged
        leaf = before[leaf]


@compiled
def shift_away(demands: Array, is_left: Array, tables: LoadTables) -> bool:
    """Let demands not be covered at some leaves any more, if all members find room elsewhere; return whether they do.

    `is_left` says by leaf which ones: there they are covered wherever that is allowed. When somebody finds no room,
    everything is as it was.
    """
    starts, members, log = tables.starts, tables.members, tables.log
    _set_covered(demands, is_left, _NOT_COVERED, tables)
    logged = ZERO
    is_done = True
    for demand in demands:
        for place in range(starts[demand], starts[demand + 1]):
            member = tables.by_demand[place]
            if not is_done or members[member, LEAF] == NOWHERE or not is_left[members[member, LEAF]]:
                continue
            leaf = _chain(demand, members[member, LEAF], tables)
            is_done = leaf != NOWHERE and logged + len(tables.loads) <= len(log)
            if is_done:
                logged = _shift_along(member, leaf, logged, tables)
    if not is_done:
        for at in range(logged - 1, -1, -1):
            _shift(log[at, 0], log[at, 1], tables)
        _set_covered(demands, is_left, _COVERED, tables)
    return is_done
