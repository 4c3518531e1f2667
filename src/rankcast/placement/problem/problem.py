"""The placement problem: who is to be served, by which brokers, within which limits.

Every subscriber goes to one leaf of the broker tree. Each broker has a filter of at most `alpha` boxes, which contains
the filters below it and, at a leaf, the interests of its subscribers; the traffic into all brokers, the sum of the
measures of their filters, is to be small. Limits: the latency of each subscriber, and the load of each leaf, at most
`beta` times its share (the paper's name for the largest such factor is lbf), or `beta_max` times when that cannot be.

Candidate brokers depend on where a subscriber is and on its latency limit, and both are kept once per *site*; nothing
here grows with subscribers times brokers unless every subscriber has a site of its own: then it is a byte for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import InitVar, dataclass, field
from enum import Enum

import numpy as np
from numpy.typing import ArrayLike

from rankcast.arrays import Array
from rankcast.model.errors import PlacementError, shown
from rankcast.placement.problem.boxes import UNIFORM, Density, hull, volumes
from rankcast.placement.problem.interests import Interests
from rankcast.placement.problem.numeric_limits import LARGEST_FACTOR, LEAST_SHARE, MOST_EVENTS, UTMOST
from rankcast.placement.problem.tree import BrokerTree, check_places

TOLERANCE = 1e-9
"""Relative: latencies and load factors are sums and products of floats, and limits are often computed from them."""

FACTORS = 4
"""Load factors that are tried from `beta` to `beta_max`."""

MAX_ALPHA = 12
"""Boxes of a filter. The measure of a union takes time exponential in their number in the worst case."""

BLOCK = 1 << 16
"""Sites whose latencies are in memory at a time."""

NAMED = 5
"""How many subscribers an error names."""


class Latency(Enum):
    """What latency limits are about: the whole path from the publisher, or the way from the leaf to the subscriber."""

    PATH = "path"
    LAST_HOP = "last-hop"

    def of(self, tree: BrokerTree, points: Array) -> Array:
        """Return the latencies of points by way of each leaf: a row per point."""
        return tree.latencies(points) if self is Latency.PATH else tree.last_hops(points)


@dataclass(frozen=True, slots=True, eq=False)
class PlacementProblem:
    """A checked problem. `interest_of` and `site_of` say by subscriber which interest and which site is theirs.

    `shares` are the capacity fractions of the leaves, in the order of `tree.leaves`, and sum to 1; `alpha` is a number
    for all brokers or one for each. `candidates` has a row per site and a column per leaf; `near` is that, where
    `candidates_of` has been asked already. A limit may be infinite. Raises PlacementError for numbers beyond
    `numeric_limits`, and when some subscribers, who are named, have no leaf that they may be given to.
    """

    tree: BrokerTree
    interests: Interests
    interest_of: Array
    sites: Array
    limits: Array
    site_of: Array
    beta: float = 1.5
    beta_max: float = 1.8
    alpha: Array | int = 3
    shares: Array | None = None
    density: Density = UNIFORM
    names: Sequence[str] | None = None
    latency: Latency = Latency.PATH
    broker_names: Sequence[str] | None = None
    near: InitVar[Array | None] = None
    candidates: Array = field(init=False)

    def __post_init__(self, near: Array | None) -> None:
        self._set("sites", _floats("sites", self.sites))
        if self.sites.ndim != 2 or self.sites.shape[1] != self.tree.positions.shape[1]:
            raise PlacementError(
                f"sites: an array of shape {self.sites.shape}; expected rows of {self.tree.positions.shape[1]} numbers"
            )
        check_places("sites", self.sites)
        self._set("limits", _limits(self.limits, len(self.sites)))
        self._set("interest_of", _numbers("interest_of", self.interest_of, len(self.interests)))
        self._set("site_of", _numbers("site_of", self.site_of, len(self.sites)))
        self._check_sizes()
        self._set("alpha", allowed_boxes(self.alpha, len(self.tree)))
        self._set("shares", _shares(self.shares, len(self.tree.leaves)))
        if not 1 <= self.beta <= self.beta_max <= LARGEST_FACTOR:
            raise PlacementError(
                f"beta: {self.beta} and beta_max: {self.beta_max}; expected 1 <= beta <= beta_max <= {LARGEST_FACTOR:g}"
            )
        found = candidates_of(self.tree, self.latency, self.sites, self.limits) if near is None else near
        self._set("candidates", found)
        self._check_feasible()

    def __len__(self) -> int:
        return len(self.site_of)

    @property
    def parts_of(self) -> Array:
        """How many boxes the interest of each subscriber has."""
        found: Array = np.diff(self.interests.offsets)[self.interest_of]
        return found

    @property
    def boxes_of_brokers(self) -> Array:
        """How many boxes the filter of each broker may have."""
        return np.asarray(self.alpha)

    @property
    def shares_of_leaves(self) -> Array:
        """The capacity fractions of the leaves."""
        return np.asarray(self.shares)

    @property
    def load_factors(self) -> Array:
        """The load factors to try, from the wanted one to the largest that is allowed."""
        return np.linspace(self.beta, self.beta_max, FACTORS if self.beta < self.beta_max else 1)

    def rooms(self, factor: float) -> Array:
        """Return how many subscribers each leaf may have at a load factor: at most all of them."""
        found = self.shares_of_leaves * (factor * len(self)) * (1 + TOLERANCE)
        return np.floor(found).clip(max=len(self)).astype(np.int64)

    def name(self, subscriber: int) -> str:
        """Return what an error calls a subscriber."""
        return f"subscriber {subscriber}" if self.names is None else self.names[subscriber]

    def broker_name(self, broker: int) -> str:
        """Return what an error calls a broker."""
        return f"broker {broker}" if self.broker_names is None else self.broker_names[broker]

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _check_sizes(self) -> None:
        if len(self.interest_of) != len(self.site_of) or not len(self.site_of):
            raise PlacementError(
                f"subscribers: {len(self.interest_of):,} interests, {len(self.site_of):,} sites; expected one of each"
            )
        if self.names is not None and len(self.names) != len(self):
            raise PlacementError(f"names: {len(self.names):,} for {len(self):,} subscribers")
        if self.broker_names is not None and len(self.broker_names) != len(self.tree):
            raise PlacementError(f"broker_names: {len(self.broker_names):,} for {len(self.tree):,} brokers")
        check_density(self.density, self.interests.attributes)
        around = hull(self.interests.sides)
        if not np.abs(around).max() <= UTMOST:
            raise PlacementError(f"interests: values up to {np.abs(around).max():g}; expected {UTMOST:g} at most")
        volume = volume_around(around)
        if self.density.is_uniform and not volume <= MOST_EVENTS:
            raise PlacementError(f"interests: a volume of {volume:g}; expected {MOST_EVENTS:g} at most")

    def _check_feasible(self) -> None:
        usable: Array = self.candidates & (self.shares_of_leaves > 0)
        lost = np.flatnonzero(~np.asarray(usable.any(axis=1))[self.site_of])
        if not len(lost):
            return
        named = ", ".join(self.name(int(at)) for at in lost[:NAMED])
        more = f" and {len(lost) - NAMED:,} more" if len(lost) > NAMED else ""
        site = self.site_of[lost[0]]
        nearest = self.latency.of(self.tree, self.sites[[site]])[0, self.shares_of_leaves > 0].min(initial=np.inf)
        who = "it" if len(lost) == 1 else "the first"
        raise PlacementError(
            f"no broker is near enough to {named}{more}: {who} has a latency limit of {self.limits[site]:g} and "
            f"the nearest leaf with any capacity gives {nearest:g}"
        )


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """What every algorithm returns: the broker of each subscriber, and each broker's filter, boxes as rows of sides.

    Nothing is promised here: `audit.verify` says what a placement is worth.
    """

    brokers: Array
    filters: tuple[Array, ...]


def candidates_of(tree: BrokerTree, latency: Latency, sites: Array, limits: Array) -> Array:
    """Return which leaves are near enough to sites: a row per site, some at a time, as latencies take more room."""
    found = np.empty((len(sites), len(tree.leaves)), bool)
    for first in range(0, len(sites), BLOCK):
        block = slice(first, first + BLOCK)
        found[block] = latency.of(tree, sites[block]) <= limits[block, None] * (1 + TOLERANCE)
    return found


def limits_of_delay(tree: BrokerTree, sites: Array, delay: float, latency: Latency = Latency.PATH) -> Array:
    """Return latency limits that allow each site the least latency that it can have and a share of delay on top."""
    if not 0 <= delay <= LARGEST_FACTOR:
        raise PlacementError(f"delay: {delay} is not a number from 0 to {LARGEST_FACTOR:g}")
    found: Array = latency.of(tree, np.asarray(sites, np.float64)).min(axis=1) * (1 + delay)
    return found


def distinct_sites(positions: ArrayLike, limits: ArrayLike) -> tuple[Array, Array, Array]:
    """Return the different sites of subscribers, their limits, and the site of each subscriber."""
    points = _floats("positions", positions)
    rows = np.column_stack([points, np.broadcast_to(_floats("limits", limits), (len(points),))])
    found, site_of = np.unique(rows, axis=0, return_inverse=True)
    return found[:, :-1], found[:, -1], site_of.reshape(-1)


def _floats(name: str, values: ArrayLike) -> Array:
    try:
        return np.asarray(values, np.float64)
    except (TypeError, ValueError, OverflowError):
        raise PlacementError(f"{name}: {shown(values)}; expected numbers") from None


def _limits(limits: ArrayLike, sites: int) -> Array:
    found = _floats("limits", limits)
    if found.shape not in ((), (sites,)):
        raise PlacementError(
            f"limits: an array of shape {found.shape}; expected a number, or one for each of {sites:,} sites"
        )
    if np.isnan(found).any():
        raise PlacementError("limits: some are not a number; expected a latency for each site")
    return np.broadcast_to(found, (sites,))


def _numbers(name: str, values: ArrayLike, count: int) -> Array:
    numbers = np.asarray(values)
    if numbers.ndim != 1 or not np.issubdtype(numbers.dtype, np.integer):
        raise PlacementError(f"{name}: expected a whole number per subscriber")
    wrong = np.flatnonzero((numbers < 0) | (numbers >= count))
    if len(wrong):
        raise PlacementError(f"{name}: {numbers[wrong[0]]} at subscriber {wrong[0]}; expected 0 to {count - 1}")
    return numbers.astype(np.int64)


def allowed_boxes(alpha: ArrayLike, brokers: int) -> Array:
    """Return how many boxes the filter of each broker may have, given one number for all or one for each."""
    found = np.asarray(alpha)
    if found.shape not in ((), (brokers,)) or not np.issubdtype(found.dtype, np.integer):
        raise PlacementError(f"alpha: expected a whole number, or one for each of {brokers:,} brokers")
    if found.min() < 1 or found.max() > MAX_ALPHA:
        raise PlacementError(f"alpha: {found.min()} to {found.max()}; expected 1 to {MAX_ALPHA} boxes")
    return np.broadcast_to(found, (brokers,)).astype(np.int64)


def attribute_count(attributes: object) -> int:
    """Return a number of attributes; raise PlacementError for what is none."""
    if isinstance(attributes, bool) or not isinstance(attributes, (int, np.integer)) or attributes < 1:
        raise PlacementError(f"attributes: {shown(attributes)}; expected a whole number of at least 1")
    return int(attributes)


def check_density(density: Density, attributes: int) -> None:
    """Raise PlacementError when sampled events have other attributes than interests."""
    if not density.is_uniform and density.samples.shape[1] != 2 * attributes:
        raise PlacementError(
            f"density: events of {density.samples.shape[1] // 2} attributes where interests have {attributes}"
        )


def volume_around(around: Array) -> float:
    """Return the volume of the box around all interests, infinite where it is too large for a number."""
    with np.errstate(over="ignore"):
        return float(volumes(around))


def _shares(shares: ArrayLike | None, leaves: int) -> Array:
    if shares is None:
        return np.full(leaves, 1 / leaves)
    found = _floats("shares", shares)
    is_usual = (found >= LEAST_SHARE) | (found == 0)
    if found.shape != (leaves,) or not is_usual.all() or abs(found.sum() - 1) > TOLERANCE:
        raise PlacementError(
            f"shares: expected {leaves:,} capacity fractions that sum to 1, each 0 or at least {LEAST_SHARE:g}"
        )
    return found
