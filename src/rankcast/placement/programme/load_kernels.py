"""Members of a stage at leaves, and how they are shifted when a filter stops covering some of them.

A member may be at any leaf that covers its demand, and leaves have room for so many. When a demand is no more covered
at some leaves, its members there go to others that cover it; where these are full, along a shortest chain of leaves
each of which passes somebody on to the next, up to one with room. So the question whether a filter can do without a box
is answered exactly, for all members, at the cost of those few whom it concerns.

`could[a, b]` counts the members at a who are covered at b; none in the list of a before `firsts[a, b]` is. Cost:
O(leaves) per member shifted and O(leaves^2) per chain, and lists are gone through only as far as `firsts` move on.
"""

from __future__ import annotations

from rankcast.arrays import Array
from rankcast.compiling import ZERO, compiled, constant, inner
from rankcast.placement.kernels.growth import NOWHERE

PLACE, LEAF, DEMAND = range(3)
"""Columns of `members`: where in its leaf's list it is, the leaf, and the demand. NOWHERE is the leaf of those left out
from the start, for whom there is no room."""

_COVERED, _NOT_COVERED = constant(True), constant(False)


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
    member: int,
    target: int,
    members: Array,
    covers: Array,
    lists: Array,
    loads: Array,
    could: Array,
    firsts: Array,
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
