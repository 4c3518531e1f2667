"""Placement while subscribers come and go.

A newcomer goes to a leaf whose filter lets its interest through already, the least loaded of these. Else it goes where
filters grow least; and when a leaf is better that is full, and somebody there would cost nothing elsewhere, that one is
moved and makes room. When all leaves it may have are full, as few others as possible are moved one leaf further, along
the shortest such chain: a newcomer is refused exactly when no placement has room for everybody. Who leaves lets
filters shrink. Capacities are numbers of subscribers, so that loads stay within limits when others leave.
Whom to move is decided by what that costs, for as many as are looked at.

*Filters* of all brokers grow to let boxes in, and shrink to what is needed. At every moment each needed box lies in
one box of its leaf's filter, and each box of a filter in one box of the filter above. Shrinking gives each needed box
to the smallest box around it and draws the boxes in; filters above follow as far as anything changed.

Nothing here is random, and nothing is a function of anything but the changes made so far.

Cost: some hundred microseconds per arrival with a hundred brokers, twice that per departure. Letting a box into
filters takes some microseconds per broker, shrinking them O(different boxes at the leaf * alpha).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from rankcast.arrays import Array
from rankcast.model.errors import InvalidValueError, PlacementError, UnknownIdError, shown
from rankcast.placement.kernels import empty_filters, growths, let_in, measure, used_boxes
from rankcast.placement.problem.audit import verify
from rankcast.placement.problem.boxes import UNIFORM, Density, hull, sides_of
from rankcast.placement.problem.interests import Interests
from rankcast.placement.problem.numeric_limits import LARGEST_FACTOR, MOST_EVENTS, UTMOST, wrong_place
from rankcast.placement.problem.problem import (
    TOLERANCE,
    Placement,
    PlacementProblem,
    allowed_boxes,
    attribute_count,
    check_density,
    volume_around,
)
from rankcast.placement.problem.tree import PUBLISHER, BrokerTree
from rankcast.placement.programme.fitting import hulls

LOOKED_AT = 12
"""Groups of a full leaf among which somebody is sought who would cost little elsewhere."""

LEAVES_LOOKED_AT = 2
"""Full leaves at which that is done for one newcomer, those that are best for it."""

MOST_SITES = 100_000
"""Sites whose candidate leaves are remembered."""

SAME = 1e-12
"""Growth less than that share of the traffic is none: it comes from rounding."""


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """The filters as they were."""

    boxes: Array
    measures: Array


class LivingFilters:
    """Filters by broker; `needed` boxes are the caller's business."""

    def __init__(self, tree: BrokerTree, most: Array, attributes: int, density: Density) -> None:
        self.tree = tree
        self.most = most
        self.measures = np.zeros(len(tree))
        self._density = density
        self._filters = empty_filters(most, tree.parents, 2 * attributes, density)
        self._children = [tree.children(broker) for broker in range(len(tree))]

    @property
    def traffic(self) -> float:
        """The sum of the measures of all filters."""
        return float(self.measures.sum())

    def of(self, broker: int) -> Array:
        """Return the boxes of a broker's filter; not to be changed."""
        return used_boxes(self._filters, broker)

    def all(self) -> tuple[Array, ...]:
        """Return copies of all filters."""
        return tuple(self.of(broker).copy() for broker in range(len(self.tree)))

    def growths(self, brokers: Array, parts: Array) -> Array:
        """Return how much filters grow to let parts in at each of some leaves."""
        found = np.empty(len(brokers))
        growths(brokers, parts, self._filters, found)
        return found

    def let_in(self, broker: int, parts: Array) -> None:
        """Let parts into the filters from a leaf up."""
        let_in(broker, parts, 0, len(parts), np.inf, self._filters)
        while broker != PUBLISHER:
            self.measures[broker] = self.measure(self.of(broker))
            broker = int(self.tree.parents[broker])

    def measure(self, boxes: Array) -> float:
        """Return the measure of the union of at most as many boxes as filters may have."""
        return measure(boxes, self._density)

    def touches(self, broker: int, parts: Array) -> bool:
        """Whether a box that contains one of the parts could shrink without it."""
        boxes = self.of(broker)
        around = (parts[:, None, :] <= boxes).all(axis=2)
        return bool((around & (parts[:, None, :] == boxes).any(axis=2)).any())

    def replace(self, broker: int, boxes: Array) -> None:
        """Give a leaf another filter that lies within the one above it, and draw those above in."""
        while True:
            if np.array_equal(boxes, self.of(broker)):
                return
            self._set(broker, boxes)
            broker = int(self.tree.parents[broker])
            if broker == PUBLISHER:
                return
            boxes = self.drawn_in(broker, np.concatenate([self.of(child) for child in self._children[broker]]))

    def exchange(self, broker: int, boxes: Array) -> None:
        """Give a leaf any other filter; those above grow where they have to, and are then drawn in."""
        self._set(broker, boxes)
        above = int(self.tree.parents[broker])
        if above == PUBLISHER:
            return
        self.let_in(above, boxes)
        while above != PUBLISHER:
            needed = np.concatenate([self.of(child) for child in self._children[above]])
            self._set(above, self.drawn_in(above, needed))
            above = int(self.tree.parents[above])

    def drawn_in(self, broker: int, needed: Array) -> Array:
        """Return a broker's boxes around needed ones, each in the smallest box that contains it."""
        boxes = self.of(broker)
        if not len(needed):
            return needed
        order = np.argsort([self.measure(box[None]) for box in boxes], kind="stable")
        inside = (needed[:, None, :] <= boxes[order]).all(axis=2)
        return hulls(needed, inside.argmax(axis=1))

    def set_all(self, filters: Sequence[Array]) -> None:
        """Take over the filters of all brokers."""
        for broker, boxes in enumerate(filters):
            self._set(broker, boxes)

    def keep(self) -> Kept:
        """Return the filters as they are, for `restore`."""
        return Kept(self._filters.boxes.copy(), self.measures.copy())

    def restore(self, kept: Kept) -> None:
        """Bring back what was kept."""
        self._filters.boxes[:] = kept.boxes
        self.measures[:] = kept.measures

    def _set(self, broker: int, boxes: Array) -> None:
        self._filters.boxes[broker, : len(boxes)] = boxes
        self._filters.boxes[broker, len(boxes) :] = -np.inf
        self.measures[broker] = self.measure(boxes)


Moved: TypeAlias = tuple[tuple[str, int, int], ...]
"""Who was moved: name, from, to."""


@dataclass(frozen=True, slots=True)
class NewcomerPlacement:
    """Where a newcomer went, and who else was moved for it."""

    broker: int
    moved: Moved = ()


@dataclass(frozen=True, slots=True, eq=False)
class PlacementSnapshot:
    """The subscribers of a moment by number, the problem that they pose, and how it is solved."""

    names: tuple[str, ...]
    problem: PlacementProblem
    placement: Placement


@dataclass(slots=True, eq=False)
class Group:
    """Subscribers of one interest and one site: nothing tells them apart. `columns` are the leaves they may have."""

    key: Hashable
    parts: Array
    at: Array
    limit: float
    columns: Array
    members: dict[int, dict[str, None]] = field(default_factory=dict)
    """By column of a leaf, those who are there, in the order in which they came."""

    candidates: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.candidates = tuple(self.columns.tolist())


@dataclass(frozen=True, slots=True, eq=False)
class Move:
    """One of a group goes from a leaf to another one, by columns; and what that costs there."""

    group: Group
    source: int
    target: int
    cost: float = 0.0


def _checked_rooms(rooms: ArrayLike, leaves: int) -> Array:
    given = np.asarray(rooms)
    if (
        given.shape != (leaves,)
        or not np.issubdtype(given.dtype, np.integer)
        or (given < 0).any()
        or not 0 < sum(given.tolist()) <= LARGEST_FACTOR
    ):
        raise PlacementError(
            f"rooms: {shown(given.tolist())}; expected {leaves:,} whole numbers of at least 0, from 1 to "
            f"{LARGEST_FACTOR:g} in all"
        )
    return given.astype(np.int64)


class DynamicPlacement:
    """Subscribers by name on the leaves of a tree; `rooms` says how many each leaf may have, in the order of leaves."""

    def __init__(
        self, tree: BrokerTree, rooms: ArrayLike, attributes: int, alpha: ArrayLike = 3, density: Density = UNIFORM
    ) -> None:
        self.tree = tree
        self.rooms = _checked_rooms(rooms, len(tree.leaves))
        self.attributes = attribute_count(attributes)
        check_density(density, self.attributes)
        self.density = density
        self.filters = LivingFilters(tree, allowed_boxes(alpha, len(tree)), self.attributes, density)
        self.loads = np.zeros(len(tree.leaves), np.int64)
        self.groups: list[dict[Hashable, Group]] = [{} for _ in tree.leaves]
        self._known: dict[Hashable, Group] = {}
        self._by_candidates: list[dict[tuple[int, ...], dict[Hashable, Group]]] = [{} for _ in tree.leaves]
        self._candidates: dict[tuple[bytes, float], Array] = {}
        self._homes: dict[str, tuple[Group, int]] = {}
        self._around = np.full(2 * self.attributes, -np.inf)
        """A box around all present interests, perhaps a larger one: it does not shrink when somebody leaves."""

    def __len__(self) -> int:
        return len(self._homes)

    def __iter__(self) -> Iterator[str]:
        return iter(self._homes)

    def __contains__(self, name: object) -> bool:
        return name in self._homes

    @property
    def traffic(self) -> float:
        """The expected traffic into all brokers."""
        return self.filters.traffic

    def broker_of(self, name: str) -> int:
        """Return the leaf of a subscriber."""
        return int(self.tree.leaves[self.column_of(name)])

    def column_of(self, name: str) -> int:
        """Return the leaf of a subscriber by its place among the leaves."""
        return self._home(name)[1]

    def arrive(self, name: str, low: ArrayLike, high: ArrayLike, at: ArrayLike, limit: float) -> NewcomerPlacement:
        """Place a newcomer who wants some boxes, given by their corners, and allows a latency.

        Raises PlacementError, and changes nothing, when no leaf is near enough or none can be made to have room.
        """
        if name in self._homes:
            raise InvalidValueError(f"there is a subscriber {shown(name)} already")
        group = self._group(sides_of(low, high), np.asarray(at, np.float64), float(limit))
        if not len(group.columns):
            raise PlacementError(f"no broker is near enough to {name}: it has a latency limit of {limit:g}")
        costs = self.costs(group.columns, group)
        is_open = self.loads[group.columns] < self.rooms[group.columns]
        if is_open.any():
            moved, column = self._with_room(group, costs, is_open)
        else:
            moved, column = self._by_moving_one(group, costs) or self._by_chain(group, name)
        self._put(name, group, column)
        return NewcomerPlacement(self.broker_of(name), moved)

    def leave(self, name: str) -> None:
        """Let a subscriber go."""
        group, column = self._home(name)
        self._take(name, group, column)

    def move(self, name: str, column: int) -> None:
        """Move a subscriber to another leaf by its place among the leaves.

        Raises InvalidValueError where that is none of its candidates and PlacementError where it has no room, and
        changes nothing then.
        """
        group, before = self._home(name)
        if column not in group.candidates:
            columns = shown(list(group.candidates))
            raise InvalidValueError(f"column {shown(column)}; expected one that {name} may have, of {columns}")
        if column == before:
            return
        if self.loads[column] >= self.rooms[column]:
            raise PlacementError(
                f"column {column} is full: it has room for {self.rooms[column]:,} and has {self.loads[column]:,}; "
                f"{name} stays at column {before}"
            )
        self._take(name, group, before)
        self._put(name, group, column)

    def needed(self, column: int) -> Array:
        """Return the different boxes that are wanted at a leaf."""
        parts = [group.parts for group in self.groups[column].values()]
        return np.unique(np.concatenate(parts), axis=0) if parts else np.empty((0, 2 * self.attributes))

    def snapshot(self) -> PlacementSnapshot:
        """Return the present state as a problem and its solution, for the audit and for planning again.

        Loads within the problem's `beta_max` are those within `rooms`.
        """
        if not self._homes:
            raise PlacementError("there are no subscribers; expected at least one")
        names = tuple(self._homes)
        interests: dict[bytes, tuple[int, Array]] = {}
        sites: dict[tuple[bytes, float], tuple[int, Array]] = {}
        for group, _ in self._homes.values():
            interests.setdefault(group.parts.tobytes(), (len(interests), group.parts))
            sites.setdefault((group.at.tobytes(), group.limit), (len(sites), group.at))
        homes = self._homes.values()
        wanted = [parts for _, parts in interests.values()]
        offsets = np.cumsum([0, *map(len, wanted)])
        total = int(self.rooms.sum())
        problem = PlacementProblem(
            self.tree,
            Interests(offsets, np.concatenate(wanted)),
            np.array([interests[group.parts.tobytes()][0] for group, _ in homes]),
            np.array([at for _, at in sites.values()]),
            np.array([limit for _, limit in sites]),
            np.array([sites[group.at.tobytes(), group.limit][0] for group, _ in homes]),
            beta=total / len(names),
            beta_max=total / len(names),
            alpha=self.filters.most,
            shares=self.rooms / total,
            density=self.density,
            names=names,
        )
        brokers = self.tree.leaves[np.array([column for _, column in homes])]
        return PlacementSnapshot(names, problem, Placement(brokers, self.filters.all()))

    def adopt(self, snapshot: PlacementSnapshot, placement: Placement) -> int:
        """Go over to another solution of a snapshot's problem, with its filters; return how many move.

        Nobody may have come or gone since the snapshot. A solution that breaks a limit is refused.
        """
        if snapshot.names != tuple(self._homes):
            raise PlacementError("the placement is of other subscribers; expected one of the present ones")
        violations = verify(snapshot.problem, placement).violations
        if violations:
            raise PlacementError(f"the placement breaks a limit: {violations[0].message}")
        columns = np.searchsorted(self.tree.leaves, placement.brokers)
        moved = 0
        for name, column in zip(snapshot.names, columns.tolist(), strict=True):
            group, before = self._homes[name]
            moved += column != before
            self._unregister(name, group, before)
            self._register(name, group, column)
        self.filters.set_all(placement.filters)
        return moved

    def _home(self, name: str) -> tuple[Group, int]:
        if name not in self._homes:
            raise UnknownIdError(f"there is no subscriber {shown(name)}")
        return self._homes[name]

    def _group(self, parts: Array, at: Array, limit: float) -> Group:
        """Return the group of a newcomer; one that is not known yet is not kept before somebody is in it."""
        if parts.shape[1] != 2 * self.attributes or not len(parts):
            raise InvalidValueError(
                f"boxes of shape {parts.shape}; expected at least one, of {self.attributes} attributes"
            )
        if not np.abs(parts).max() <= UTMOST:
            raise InvalidValueError(f"boxes: values up to {np.abs(parts).max():g}; expected {UTMOST:g} at most")
        key = (parts.tobytes(), at.tobytes(), limit)
        known = self._known.get(key)
        if known is not None:
            return known
        self._check_volume(parts)
        return Group(key, parts, at, limit, self._columns_for(at, limit))

    def _check_volume(self, parts: Array) -> None:
        """Refuse a newcomer with whom the volume around all interests is too large to be worked with."""
        if not self.density.is_uniform:
            return
        around = np.maximum(self._around, hull(parts))
        if volume_around(around) > MOST_EVENTS:  # perhaps because of somebody who left
            present = (hull(group.parts) for group in self._known.values())
            around = np.max([hull(parts), *present], axis=0)
            if (volume := volume_around(around)) > MOST_EVENTS:
                raise InvalidValueError(
                    f"boxes: a volume of {volume:g} with all others; expected {MOST_EVENTS:g} at most"
                )
        self._around = around

    def _columns_for(self, at: Array, limit: float) -> Array:
        """Return the leaves that a subscriber at some place may have."""
        found = self._candidates.get((at.tobytes(), limit))
        if found is None:
            if at.shape != self.tree.publisher.shape or not np.isfinite(at).all():
                raise InvalidValueError(f"at: {shown(at.tolist())}; expected {len(self.tree.publisher)} finite numbers")
            if wrong := wrong_place(at.tolist()):
                raise InvalidValueError(wrong)
            near = self.tree.latencies(at[None])[0] <= limit * (1 + TOLERANCE)
            found = np.flatnonzero(near & (self.rooms > 0))
            if len(self._candidates) >= MOST_SITES:
                self._candidates.clear()
            self._candidates[at.tobytes(), limit] = found
        return found

    def _with_room(self, group: Group, costs: Array, is_open: Array) -> tuple[Moved, int]:
        """Return the leaf where a newcomer costs least, with room or with room made."""
        ratios = self.loads[group.columns] / self.rooms[group.columns]
        order = np.lexsort((ratios, costs))
        best = next(place for place in order if is_open[place])
        for place in order[:LEAVES_LOOKED_AT]:
            if is_open[place] or costs[place] >= costs[best]:
                break
            moved = self._best_move_from(int(group.columns[place]))
            if moved is not None and moved.cost == 0:
                return self._make(moved), int(group.columns[place])
        return (), int(group.columns[best])

    def _by_moving_one(self, newcomer: Group, costs: Array) -> tuple[Moved, int] | None:
        """Make room by moving one subscriber to where there is some, where that and the newcomer cost least."""
        found: list[tuple[float, Move]] = []
        for place in np.argsort(costs, kind="stable"):
            move = self._best_move_from(int(newcomer.columns[place]))
            if move is not None:
                found.append((float(costs[place]) + move.cost, move))
            if len(found) == LEAVES_LOOKED_AT:
                break
        if not found:
            return None
        best = min(found, key=lambda priced: priced[0])[1]
        return self._make(best), best.source

    def _best_move_from(self, column: int) -> Move | None:
        """Return the cheapest way, of those looked at, to move somebody from a leaf to one with room."""
        best: Move | None = None
        looked = 0
        for columns, groups in self._by_candidates[column].items():
            candidates = np.array(columns)
            others = candidates[(self.loads[candidates] < self.rooms[candidates]) & (candidates != column)]
            if not len(others):
                continue
            for group in islice(groups.values(), LOOKED_AT - looked):
                looked += 1
                costs = self.costs(others, group)
                at = np.lexsort((self.loads[others] / self.rooms[others], costs))[0]
                if best is None or costs[at] < best.cost:
                    best = Move(group, column, int(others[at]), float(costs[at]))
                if best.cost == 0:
                    return best
            if looked == LOOKED_AT:
                break
        return best

    def costs(self, columns: Array, group: Group) -> Array:
        """Return how much filters grow to let a group in at each of some leaves."""
        costs = self.filters.growths(self.tree.leaves[columns], group.parts)
        costs[costs <= SAME * self.traffic] = 0.0
        return costs

    def _make(self, move: Move) -> Moved:
        name = next(iter(move.group.members[move.source]))
        self.move(name, move.target)
        return ((name, int(self.tree.leaves[move.source]), int(self.tree.leaves[move.target])),)

    def _by_chain(self, newcomer: Group, name: str) -> tuple[Moved, int]:
        """Make room by moving one subscriber from leaf to leaf along a shortest chain that ends where there is room."""
        came_from: dict[int, tuple[int, Group] | None] = {int(column): None for column in newcomer.columns}
        waiting = deque(came_from)
        while waiting:
            column = waiting.popleft()
            if self.loads[column] < self.rooms[column]:
                return self._move_along(came_from, column)
            for columns, groups in self._by_candidates[column].items():
                for target in columns:
                    if target not in came_from:
                        came_from[target] = (column, next(iter(groups.values())))
                        waiting.append(target)
        raise PlacementError(
            f"no broker has room for {name}: all {len(came_from):,} that it or those in its way may have are full"
        )

    def _move_along(self, came_from: dict[int, tuple[int, Group] | None], last: int) -> tuple[Moved, int]:
        moved: list[tuple[str, int, int]] = []
        column = last
        while (step := came_from[column]) is not None:
            before, group = step
            moved += self._make(Move(group, before, column))
            column = before
        return tuple(moved), column

    def _put(self, name: str, group: Group, column: int) -> None:
        self._register(name, group, column)
        self.filters.let_in(int(self.tree.leaves[column]), group.parts)

    def _take(self, name: str, group: Group, column: int) -> None:
        self._unregister(name, group, column)
        broker = int(self.tree.leaves[column])
        if column not in group.members and self.filters.touches(broker, group.parts):
            self.filters.replace(broker, self.filters.drawn_in(broker, self.needed(column)))

    def _register(self, name: str, group: Group, column: int) -> None:
        self._known[group.key] = group
        self.groups[column][group.key] = group
        self._by_candidates[column].setdefault(group.candidates, {})[group.key] = group
        group.members.setdefault(column, {})[name] = None
        self._homes[name] = (group, column)
        self.loads[column] += 1

    def _unregister(self, name: str, group: Group, column: int) -> None:
        del self._homes[name]
        del group.members[column][name]
        self.loads[column] -= 1
        if not group.members[column]:
            del group.members[column], self.groups[column][group.key]
            alike = self._by_candidates[column][group.candidates]
            del alike[group.key]
            if not alike:
                del self._by_candidates[column][group.candidates]
            if not group.members:
                del self._known[group.key]
