"""The members of a stage at leaves whose filters cover them: by maximum flow, and shifted as filters change.

The flow is always one to the leaves, whatever the stage, so that whoever goes below a child finds room at some leaf
there, within the limit of latency.

A member may be at any leaf that covers its demand, and leaves have room for so many. When a demand is no more covered
at some leaves, its members there go to others that cover it; where these are full, along a shortest chain of leaves
each of which passes somebody on to the next, up to one with room. So the question whether a filter can do without a box
is answered exactly, for all members, at the cost of those few whom it concerns.

In the kernels `could[a, b]` counts the members at a who are covered at b; none in the list of a before `firsts[a, b]`
is. Cost: O(leaves) per member shifted and O(leaves^2) per chain, and lists are gone through only as far as `firsts`
move on.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rankcast.arrays import Array
from rankcast.compiling import ZERO, compiled, constant, inner
from rankcast.placement.kernels.boxes import NOWHERE
from rankcast.placement.problem.problem import Problem
from rankcast.placement.programme.assignment_step import Stage
from rankcast.placement.programme.flow import Flow, cheapest_flow, classes_of, drawn_members, largest_flow

PLACE, LEAF, DEMAND = range(3)
"""Columns of `members`: where in its leaf's list it is, the leaf, and the demand. NOWHERE is the leaf of those left out
from the start, for whom there is no room."""

_COVERED, _NOT_COVERED = constant(True), constant(False)


def assigned(stage: Stage, covers: Array, random: np.random.Generator) -> Array:
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
    flow, _ = _first_full(problem, len(stage.members), lambda rooms: largest_flow(within, classes.sizes, rooms))
    if flow.total < len(stage.members):
        flow, _ = _first_full(
            problem, len(stage.members), lambda rooms: cheapest_flow(anywhere, ~within, classes.sizes, rooms)
        )
    columns = drawn_members(flow, classes.members, random)
    lost = np.flatnonzero(columns < 0)
    if len(lost):  # there is no placement within the limits of load: those left over go to the least loaded
        loads = np.bincount(columns[columns >= 0], minlength=leaves) / np.maximum(problem.shares_of_leaves, 1e-300)
        open_leaves = possible[stage.demand_of[lost]] & (problem.shares_of_leaves > 0)
        columns[lost] = np.where(open_leaves, loads, np.inf).argmin(axis=1)
    return columns


class Loads:
    """Everybody at a leaf that covers them, at the least load factor that allows it; ready to be shifted.

    Where filters leave too little room even at `beta_max`, those without a place are left out.
    """

    def __init__(self, stage: Stage, covers: Array, random: np.random.Generator) -> None:
        self._stage = stage
        self._allowed = _possible(stage)
        self._covers = _at_leaves(stage, covers, self._allowed)
        classes = classes_of(self._covers, stage.demand_of)
        flow, self._rooms = _first_full(
            stage.problem, len(stage.members), lambda rooms: largest_flow(classes.allowed, classes.sizes, rooms)
        )
        leaves = len(self._rooms)
        self._members = np.zeros((len(stage.members), 3), np.int64)
        self._members[:, LEAF] = drawn_members(flow, classes.members, random)
        self._members[:, DEMAND] = stage.demand_of
        self._by_demand = np.argsort(stage.demand_of, kind="stable")
        self._starts = np.concatenate([[0], np.cumsum(stage.sizes)])
        self._lists = np.zeros((leaves, int(self._rooms.max()) + 1), np.int64)
        self._loads = np.zeros(leaves, np.int64)
        self._could, self._firsts = (np.zeros((leaves, leaves), np.int64) for _ in range(2))
        self._log = np.zeros((2 * len(stage.members) + leaves, 2), np.int64)
        self._count()

    def cover(self, covers: Array) -> None:
        """Let demands be covered by other brokers: all that did before, and more."""
        self._covers = _at_leaves(self._stage, covers, self._allowed)
        self._count()

    def can_do_without(self, demands: Array, broker: int) -> bool:
        """Let a broker of the stage not cover some demands any more, if everybody still finds a place."""
        leaves = len(self._loads)
        return shift_away(
            demands,
            self._stage.below[broker],
            self._allowed,
            self._starts,
            self._by_demand,
            self._members,
            self._covers,
            self._lists,
            self._loads,
            self._rooms,
            self._could,
            self._firsts,
            self._log,
            np.zeros(leaves, np.int64),
            np.zeros(leaves, np.int64),
        )

    def _count(self) -> None:
        count_all(self._members, self._covers, self._lists, self._loads, self._could, self._firsts)


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


def _first_full(problem: Problem, members: int, flow_within: Callable[[Array], Flow]) -> tuple[Flow, Array]:
    """Return the flow at the least load factor at which all have a place, or else at the largest, and the rooms."""
    for factor in problem.load_factors.tolist():
        rooms = problem.rooms(factor)
        flow = flow_within(rooms)
        if flow.total == members:
            break
    return flow, rooms


@compiled
def count_all(members: Array, covers: Array, lists: Array, loads: Array, could: Array, firsts: Array) -> None:
    """List members by leaf, and count who could go where."""
    loads[:] = 0
    could[:] = 0
    firsts[:] = 0
    for member in range(len(members)):
        leaf = members[member, LEAF]
        if leaf == NOWHERE:
            continue
        lists[leaf, loads[leaf]] = member
        members[member, PLACE] = loads[leaf]
        loads[leaf] += 1
        for other in range(covers.shape[1]):
            could[leaf, other] += covers[members[member, DEMAND], other]


@inner
def _shift(
    member: int, target: int, members: Array, covers: Array, lists: Array, loads: Array, could: Array, firsts: Array
) -> None:
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


@inner
def _chain(
    demand: int, left: int, covers: Array, loads: Array, rooms: Array, could: Array, before: Array, queue: Array
) -> int:
    """Find a shortest chain from the leaves that cover a demand to one with room; return that leaf, or NOWHERE.

    The leaf that the member has left has room for one more: others may go there in exchange.
    """
    before[:] = NOWHERE
    head, tail = 0, 0
    for leaf in range(len(loads)):
        if covers[demand, leaf]:
            before[leaf] = leaf
            queue[tail] = leaf
            tail += 1
    while head < tail:
        leaf = queue[head]
        head += 1
        if loads[leaf] < rooms[leaf] + (leaf == left):
            return int(leaf)
        for other in range(len(loads)):
            if could[leaf, other] > 0 and before[other] == NOWHERE:
                before[other] = leaf
                queue[tail] = other
                tail += 1
    return NOWHERE


@inner
def _passed_on(leaf: int, target: int, members: Array, covers: Array, lists: Array, firsts: Array) -> int:
    """Return the first member at a leaf who is covered at another one; `could` says that there is one."""
    place = firsts[leaf, target]
    while not covers[members[lists[leaf, place], DEMAND], target]:
        place += 1
    firsts[leaf, target] = place
    found: int = lists[leaf, place]
    return found


@inner
def _recover(
    demands: Array,
    is_left: Array,
    allowed: Array,
    is_covered: bool,
    starts: Array,
    by_demand: Array,
    members: Array,
    covers: Array,
    could: Array,
    firsts: Array,
) -> None:
    """Let demands be covered at some leaves, wherever that is allowed, or not be covered there."""
    for demand in demands:
        for leaf in range(len(is_left)):
            if not is_left[leaf] or not allowed[demand, leaf]:
                continue
            covers[demand, leaf] = is_covered
            for place in range(starts[demand], starts[demand + 1]):
                member = by_demand[place]
                at = members[member, LEAF]
                if at == NOWHERE:
                    continue
                could[at, leaf] += 1 if is_covered else -1
                if is_covered:
                    firsts[at, leaf] = min(firsts[at, leaf], members[member, PLACE])


@inner
def _shift_along(
    member: int,
    end: int,
    logged: int,
    members: Array,
    covers: Array,
    lists: Array,
    loads: Array,
    could: Array,
    firsts: Array,
    log: Array,
    before: Array,
) -> int:
    """Shift a member to the first leaf of a chain, and somebody of each leaf to the next; return the entries logged."""
    leaf = end
    while True:
        is_first = before[leaf] == leaf
        moving = member if is_first else _passed_on(before[leaf], leaf, members, covers, lists, firsts)
        log[logged, 0], log[logged, 1] = moving, members[moving, LEAF]
        logged += 1
        _shift(moving, leaf, members, covers, lists, loads, could, firsts)
        if is_first:
            return logged
        leaf = before[leaf]


@compiled
def shift_away(
    demands: Array,
    is_left: Array,
    allowed: Array,
    starts: Array,
    by_demand: Array,
    members: Array,
    covers: Array,
    lists: Array,
    loads: Array,
    rooms: Array,
    could: Array,
    firsts: Array,
    log: Array,
    before: Array,
    queue: Array,
) -> bool:
    """Let demands not be covered at some leaves any more, if all members find room elsewhere; return whether they do.

    `is_left` says by leaf which ones: there they are covered wherever that is allowed. Members of demand d are
    `by_demand[starts[d] : starts[d + 1]]`. When somebody finds no room, everything is as it was.
    """
    _recover(demands, is_left, allowed, _NOT_COVERED, starts, by_demand, members, covers, could, firsts)
    logged = ZERO
    is_done = True
    for demand in demands:
        for place in range(starts[demand], starts[demand + 1]):
            member = by_demand[place]
            if not is_done or members[member, LEAF] == NOWHERE or not is_left[members[member, LEAF]]:
                continue
            leaf = _chain(demand, members[member, LEAF], covers, loads, rooms, could, before, queue)
            is_done = leaf != NOWHERE and logged + len(loads) <= len(log)
            if is_done:
                logged = _shift_along(member, leaf, logged, members, covers, lists, loads, could, firsts, log, before)
    if not is_done:
        for at in range(logged - 1, -1, -1):
            _shift(log[at, 0], log[at, 1], members, covers, lists, loads, could, firsts)
        _recover(demands, is_left, allowed, _COVERED, starts, by_demand, members, covers, could, firsts)
    return is_done
