"""Networks and whole problems on which placement is studied, from a seed.

The network follows measurements of some hundred sites in three regions, with the publisher in the second. Sites lie in
metropolitan areas, brokers at sites. A draw is taken when subscribers have about as many candidate brokers as was
published, a sixth of all at a delay of 0.3, and when load can be nearly balanced; else the next one is tried.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from rankcast.arrays import Array
from rankcast.model.errors import PlacementError
from rankcast.placement.problem.problem import Problem, limits_of_delay
from rankcast.placement.problem.tree import BrokerTree
from rankcast.placement.programme.flow import largest_flow
from rankcast.placement.tree_design import clustered_tree
from rankcast.samples.placement_interests import Demand, Level, feeds, hot_spots, topics

SITES, METROS, DIMENSIONS = 484, 36, 5

REGIONS = ((-110.0, 30.0), (0.0, 0.0), (85.0, 35.0))
"""Where the regions are, in milliseconds; further coordinates are 0. The publisher is in the second."""

WEIGHTS = (4.0, 1.0, 4.0)
"""How subscribers, sites and brokers are divided among regions."""

METRO_SPREAD, SITE_SPREAD = 24.0, 6.0
"""Standard deviations of metropolitan areas around regions, and of sites around them."""

DELAY = 0.3
"""How much longer than the shortest path a path may be."""

CANDIDATE_SHARES = (0.14, 0.20)
"""A network of 100 brokers is taken when the mean share of candidates lies here; with fewer, the share is larger."""

MOST_BALANCE = 1.1
"""A network is taken when the load factor can be as low as that."""

DRAWS = 200


class Workload(Enum):
    """The workloads; of set 1 all four variants, skew and then breadth, each low or high."""

    TOPICS_LL = "1-LL"
    TOPICS_LH = "1-LH"
    TOPICS_HL = "1-HL"
    TOPICS_HH = "1-HH"
    FEEDS = "2"
    HOT_SPOTS = "3"

    @property
    def betas(self) -> tuple[float, float]:
        """The published load factors: the wanted and the largest."""
        return {"2": (2.3, 2.5), "3": (1.3, 1.5)}.get(self.value, (1.5, 1.8))


@dataclass(frozen=True, slots=True, eq=False)
class Network:
    """Sites with their regions, the publisher, and at which sites the brokers are."""

    publisher: Array
    sites: Array
    regions: Array
    brokers: Array

    @property
    def positions(self) -> Array:
        """Where the brokers are."""
        found: Array = self.sites[self.brokers]
        return found


def network(brokers: int, random: np.random.Generator) -> Network:
    """Draw a network until one is as published."""
    if not 3 <= brokers <= SITES:
        raise PlacementError(f"brokers: {brokers} do not fit the network; expected 3 to {SITES}, each at its own site")
    # The nearest of few brokers is further away, and so is what a share more than the shortest path allows.
    most_share = CANDIDATE_SHARES[1] * max(1.0, (100 / brokers) ** (1 / 3))
    for _ in range(DRAWS):
        drawn = _drawn(brokers, random)
        tree = BrokerTree.star(drawn.publisher, drawn.positions)
        latencies = tree.latencies(drawn.sites)
        allowed = latencies <= limits_of_delay(tree, drawn.sites, DELAY)[:, None]
        if not CANDIDATE_SHARES[0] <= allowed.mean() <= most_share:
            continue
        subscribers = np.full(len(drawn.sites), 1000)
        rooms = np.full(brokers, int(MOST_BALANCE * subscribers.sum() / brokers))
        if largest_flow(allowed, subscribers, rooms).total == subscribers.sum():
            return drawn
    raise PlacementError(
        f"network: none of {DRAWS} draws with {brokers} brokers has the published candidates and balance"
    )


def placement_problem(
    workload: Workload, subscribers: int, brokers: int, random: np.random.Generator, delay: float = DELAY
) -> Problem:
    """Draw a problem of one level: every broker is attached to the publisher."""
    drawn = network(brokers, random)
    return problem_on(
        workload, subscribers, drawn, BrokerTree.star(drawn.publisher, drawn.positions), random, delay, *workload.betas
    )


def problem_on(
    workload: Workload,
    subscribers: int,
    drawn: Network,
    tree: BrokerTree,
    random: np.random.Generator,
    delay: float,
    beta: float,
    beta_max: float,
) -> Problem:
    """Draw the subscribers of a problem on a given network and tree."""
    found = demand(workload, subscribers, drawn, random)
    limits = limits_of_delay(tree, drawn.sites, delay)
    return Problem(tree, found.interests, found.interest_of, drawn.sites, limits, found.site_of, beta, beta_max)


def demand(workload: Workload, subscribers: int, drawn: Network, random: np.random.Generator) -> Demand:
    """Draw subscribers: what they want, and where they are."""
    if workload is Workload.FEEDS:
        return feeds(subscribers, len(drawn.sites), random)
    if workload is Workload.HOT_SPOTS:
        return hot_spots(subscribers, len(drawn.sites), random)
    skew, breadth = (Level(letter) for letter in workload.value[-2:])
    return topics(subscribers, drawn.regions, WEIGHTS, random, skew, breadth)


def layered_tree(drawn: Network, degree: int, random: np.random.Generator) -> BrokerTree:
    """Return a tree of the network's brokers, by where they are, in which nobody has more children than `degree`."""
    return clustered_tree(drawn.publisher, drawn.positions, degree, random)


def _drawn(brokers: int, random: np.random.Generator) -> Network:
    publisher = np.zeros(DIMENSIONS)
    publisher[: len(REGIONS[1])] = REGIONS[1]
    regions = np.repeat(np.arange(len(REGIONS)), _divided(SITES))
    sites = np.empty((SITES, DIMENSIONS))
    at_sites = []
    for region, (metros, placed) in enumerate(zip(_divided(METROS), _divided(brokers), strict=True)):
        members = np.flatnonzero(regions == region)
        centre = np.zeros(DIMENSIONS)
        centre[: len(REGIONS[region])] = REGIONS[region]
        areas = centre + random.normal(0, METRO_SPREAD, (metros, DIMENSIONS))
        sites[members] = areas[random.integers(0, metros, len(members))]
        sites[members] += random.normal(0, SITE_SPREAD, (len(members), DIMENSIONS))
        at_sites.append(random.choice(members, placed, replace=False))
    return Network(publisher, sites, regions, np.concatenate(at_sites))


def _divided(count: int) -> list[int]:
    """Divide a number among the regions by weight; the rest goes to the second."""
    first, last = (round(count * WEIGHTS[region] / sum(WEIGHTS)) for region in (0, 2))
    return [first, count - first - last, last]
