"""The tree of brokers below a publisher, and how far away everything is in the network.

Publisher and brokers are points of a network space in which distance approximates latency. Events travel from the
publisher down the tree to a leaf broker, and from there to the leaf's subscribers: the latency of a subscriber is the
length of that whole path.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from rankcast.arrays import Array
from rankcast.model.errors import PlacementError
from rankcast.placement.problem.numeric_limits import FARTHEST, wrong_place

PUBLISHER = -1
"""The parent of brokers that are attached to the publisher itself."""


@dataclass(frozen=True, slots=True, eq=False)
class BrokerTree:
    """Brokers by number: their parents, their positions, and what follows from that.

    `leaves` are the brokers without children, ascending; `downwards` lists every broker after its parent; `reach` is
    the latency from the publisher to each broker along the tree.
    """

    publisher: Array
    positions: Array
    parents: Array
    leaves: Array = field(init=False)
    downwards: Array = field(init=False)
    reach: Array = field(init=False)

    def __post_init__(self) -> None:
        publisher, positions = _points("publisher", [self.publisher])[0], _points("positions", self.positions)
        if positions.shape[1] != len(publisher):
            raise PlacementError(
                f"positions: {positions.shape[1]} coordinates where the publisher has {len(publisher)}"
            )
        parents = np.asarray(self.parents, np.int64)
        if parents.shape != (len(positions),):
            raise PlacementError(
                f"parents: an array of shape {parents.shape}; expected one of {len(positions):,} brokers"
            )
        wrong = np.flatnonzero((parents < PUBLISHER) | (parents >= len(parents)))
        if len(wrong):
            raise PlacementError(
                f"broker {wrong[0]}: parent {parents[wrong[0]]}; expected a broker from 0 to {len(parents) - 1}, "
                f"or {PUBLISHER} for the publisher"
            )
        downwards = _downwards(parents)
        reach = np.empty(len(parents))
        for broker in downwards:
            parent = parents[broker]
            above, before = (publisher, 0.0) if parent == PUBLISHER else (positions[parent], reach[parent])
            reach[broker] = before + np.linalg.norm(positions[broker] - above)
        made = {
            "publisher": publisher,
            "positions": positions,
            "parents": parents,
            "leaves": np.setdiff1d(np.arange(len(parents)), parents),
            "downwards": downwards,
            "reach": reach,
        }
        for name, value in made.items():
            object.__setattr__(self, name, value)

    @staticmethod
    def star(publisher: ArrayLike, positions: ArrayLike) -> BrokerTree:
        """Return the tree of one level: all brokers are attached to the publisher."""
        points = _points("positions", positions)
        return BrokerTree(np.asarray(publisher), points, np.full(len(points), PUBLISHER))

    def __len__(self) -> int:
        return len(self.parents)

    @property
    def is_star(self) -> bool:
        """Whether all brokers are attached to the publisher."""
        return bool((self.parents == PUBLISHER).all())

    def children(self, broker: int) -> Array:
        """Return the brokers below a broker, or below the publisher."""
        return np.flatnonzero(self.parents == broker)

    def latencies(self, points: Array) -> Array:
        """Return the latency from the publisher to each point by way of each leaf: a row per point."""
        return self.last_hops(points) + self.reach[self.leaves]

    def last_hops(self, points: Array) -> Array:
        """Return the latency from each leaf to each point: a row per point."""
        found = np.empty((len(points), len(self.leaves)))
        for column, leaf in enumerate(self.leaves):
            found[:, column] = np.linalg.norm(points - self.positions[leaf], axis=1)
        return found

    def leaves_below(self) -> Array:
        """Return which leaves lie at or below each broker: a row per broker, a column per leaf."""
        below = np.zeros((len(self), len(self.leaves)), bool)
        below[self.leaves, np.arange(len(self.leaves))] = True
        for broker in self.downwards[::-1]:
            if self.parents[broker] != PUBLISHER:
                below[self.parents[broker]] |= below[broker]
        return below


def _points(name: str, values: ArrayLike) -> Array:
    points = np.asarray(values, np.float64)
    if points.ndim != 2 or not points.size or not np.isfinite(points).all():
        raise PlacementError(f"{name}: an array of shape {points.shape}; expected finite coordinates, a row per point")
    check_places(name, points)
    return points


def check_places(name: str, points: Array) -> None:
    """Refuse points that are too far out."""
    is_near = (np.abs(points) <= FARTHEST).all(axis=1)
    if not is_near.all():
        row = int(is_near.argmin())
        raise PlacementError(f"{name}: row {row} is {wrong_place(points[row].tolist())}")


def _downwards(parents: Array) -> Array:
    """Return the brokers level by level; raise when some are not below the publisher."""
    reached, level = [], np.flatnonzero(parents == PUBLISHER)
    while len(level):
        reached.append(level)
        level = np.flatnonzero(np.isin(parents, level))
    found = np.concatenate(reached) if reached else np.empty(0, np.int64)
    if len(found) < len(parents):
        lost = np.setdiff1d(np.arange(len(parents)), found)
        raise PlacementError(f"broker {lost[0]}: its parents form a cycle; expected a path up to the publisher")
    return found
