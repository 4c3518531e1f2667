"""Networks, interests and whole problems on which placement is studied, from a seed.

*Networks* follow measurements of some hundred sites in three regions, with the publisher in the second. Sites lie in
metropolitan areas, brokers at sites. A draw is taken when subscribers have about as many candidate brokers as was
published, a sixth of all at a delay of 0.3, and when load can be nearly balanced; else the next one is tried.

*Interests* are those of three workloads. Set 1 follows statistics of discussion groups: topics are nested rectangles,
popularity is Zipf's, half of it the same everywhere and half that of a region, and the hottest topics are left out. It
has two switches: *skew* (low: popularity is evened out among the children of a topic) and *breadth* (how much
popularity moves up to more general topics).
Set 2 follows feeds: fifty unit squares, each asked for from ten sites. Set 3 has hot spots on a grid and rectangles of
several widths, whatever the site. Where the paper gives no number, the ones here were fitted to its results.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from rankcast.arrays import Array
from rankcast.model.errors import PlacementError
from rankcast.placement.problem.interests import Interests
from rankcast.placement.problem.problem import PlacementProblem, limits_of_delay
from rankcast.placement.problem.tree import BrokerTree
from rankcast.placement.programme.flow import largest_flow
from rankcast.placement.tree_design import clustered_tree

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

BRANCHING = (4, 3, 3, 2)
"""Set 1: children of a topic along each attribute, level by level."""

FILL = 0.8
"""Set 1: the share of its cell that a topic takes at most."""

HOTTEST = 100
"""Set 1: topics that are left out, as others than brokers would serve them."""

KEPT_VARIANCE = 0.45
"""Set 1, low skew: what is left of the variance among the children of a topic."""

WIDTHS = (0.5, 1.0, 1.5, 2.0, 3.0)
"""Set 3: how wide an interest is, in cells."""


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
) -> PlacementProblem:
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
) -> PlacementProblem:
    """Draw the subscribers of a problem on a given network and tree."""
    found = demand(workload, subscribers, drawn, random)
    limits = limits_of_delay(tree, drawn.sites, delay)
    return PlacementProblem(
        tree, found.interests, found.interest_of, drawn.sites, limits, found.site_of, beta, beta_max
    )


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


class Level(Enum):
    """The setting of a switch of set 1."""

    LOW = "L"
    HIGH = "H"


MOVED_UP = {Level.LOW: 0.01, Level.HIGH: 0.10}
"""Set 1: the share of a topic's popularity that moves to the topic above it, by breadth."""


@dataclass(frozen=True, slots=True, eq=False)
class Demand:
    """Different interests, and by subscriber which one is theirs and at which site they are."""

    interests: Interests
    interest_of: Array
    site_of: Array


def feeds(count: int, sites: int, random: np.random.Generator) -> Demand:
    """Draw set 2: unit squares in [0, 10]^2, popularity Zipf(0.5), ten sites each."""
    corners = random.uniform(0, 9, (50, 2))
    homes = np.array([random.choice(sites, min(10, sites), replace=False) for _ in corners])
    interest_of = random.choice(len(corners), count, p=zipf(len(corners), 0.5))
    site_of = homes[interest_of, random.integers(0, homes.shape[1], count)]
    return Demand(Interests.of_boxes(corners, corners + 1), interest_of, site_of)


def hot_spots(count: int, sites: int, random: np.random.Generator, cells: int = 10) -> Demand:
    """Draw set 3: centres in a grid of unit cells, Zipf(0.5) in random order, widths Zipf(0.5), clipped to the grid."""
    cell = random.permutation(cells * cells)[random.choice(cells * cells, count, p=zipf(cells * cells, 0.5))]
    widths = random.choice(len(WIDTHS), (count, 2), p=zipf(len(WIDTHS), 0.5))
    codes, interest_of = np.unique(
        (cell * len(WIDTHS) + widths[:, 0]) * len(WIDTHS) + widths[:, 1], return_inverse=True
    )
    codes, second = np.divmod(codes, len(WIDTHS))
    codes, first = np.divmod(codes, len(WIDTHS))
    centres = np.column_stack(np.divmod(codes, cells)) + 0.5
    half = np.array(WIDTHS)[np.column_stack([first, second])] / 2
    made = Interests.of_boxes(np.maximum(centres - half, 0), np.minimum(centres + half, cells))
    return Demand(made, interest_of, random.integers(0, sites, count))


def topics(
    count: int, regions: Array, weights: tuple[float, ...], random: np.random.Generator, skew: Level, breadth: Level
) -> Demand:
    """Draw set 1 for sites in regions of given weights: interests depend on the region of a subscriber."""
    tree = _topic_tree(random)
    popularity = _popularity(tree, len(weights), random, skew, breadth)
    region_of = random.choice(len(weights), count, p=np.array(weights) / sum(weights))
    interest_of, site_of = np.empty(count, np.int64), np.empty(count, np.int64)
    for region, chances in enumerate(popularity):
        members, sites = np.flatnonzero(region_of == region), np.flatnonzero(regions == region)
        site_of[members] = random.choice(sites, len(members))
        interest_of[members] = random.choice(len(chances), len(members), p=chances)
    wanted, interest_of = np.unique(interest_of, return_inverse=True)
    return Demand(Interests.of_boxes(tree.low[wanted], tree.high[wanted]), interest_of, site_of)


def zipf(count: int, exponent: float) -> Array:
    """Return the chances of the first, second and further most popular."""
    weights = np.arange(1, count + 1) ** -float(exponent)
    found: Array = weights / weights.sum()
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _TopicTree:
    """Topics level by level, the children of a topic side by side; `starts` is where the levels begin and end."""

    low: Array
    high: Array
    starts: tuple[int, ...]

    def children(self, level: int) -> slice:
        """Return where the children of the topics of a level are."""
        return slice(self.starts[level + 1], self.starts[level + 2])


def _topic_tree(random: np.random.Generator) -> _TopicTree:
    low, high = [np.zeros((1, 2))], [np.full((1, 2), 100.0)]
    for width in BRANCHING:
        cells = np.stack(np.meshgrid(np.arange(width), np.arange(width), indexing="ij"), axis=-1).reshape(-1, 2)
        size = ((high[-1] - low[-1]) / width)[:, None, :]
        filled = np.sqrt(FILL) * random.uniform(0.85, 1.0, (len(size), len(cells), 2))
        start = low[-1][:, None, :] + (cells + random.random(filled.shape) * (1 - filled)) * size
        low.append(start.reshape(-1, 2))
        high.append((start + filled * size).reshape(-1, 2))
    starts = np.cumsum([0, *map(len, low)]).tolist()
    return _TopicTree(np.concatenate(low), np.concatenate(high), tuple(starts))


def _popularity(tree: _TopicTree, regions: int, random: np.random.Generator, skew: Level, breadth: Level) -> Array:
    """Return the chances of every topic in each region."""
    leaves = tree.children(len(BRANCHING) - 1)
    count = leaves.stop - leaves.start
    chances = np.zeros((regions, tree.starts[-1]))
    everywhere = zipf(count, 1.0)[random.permutation(count)]
    for region in range(regions):
        mixed = (everywhere + zipf(count, 1.0)[random.permutation(count)]) / 2
        for level in range(1, len(BRANCHING)):  # whole branches are more or less popular, too
            branches = tree.starts[level + 1] - tree.starts[level]
            mixed *= np.repeat(random.lognormal(0, 0.7, branches), count // branches)
        chances[region, leaves] = mixed / mixed.sum()
    chances[:, np.argsort(-chances.sum(axis=0), kind="stable")[:HOTTEST]] = 0
    for own in chances:
        if skew is Level.LOW:
            _even_out(tree, own)
        _generalise(tree, own, MOVED_UP[breadth])
    found: Array = chances / chances.sum(axis=1, keepdims=True)
    return found


def _even_out(tree: _TopicTree, own: Array) -> None:
    """Bring the topics below each topic nearer to their mean, from the top; those left out stay out."""
    below = own.copy()
    for level in reversed(range(len(BRANCHING))):
        parents = slice(tree.starts[level], tree.starts[level + 1])
        below[parents] += below[tree.children(level)].reshape(parents.stop - parents.start, -1).sum(axis=1)
    target = below.copy()
    for level in range(len(BRANCHING)):
        parents, children = slice(tree.starts[level], tree.starts[level + 1]), tree.children(level)
        siblings = below[children].reshape(parents.stop - parents.start, -1)
        there = siblings > 0
        scale = np.divide(target[parents], below[parents], out=np.zeros_like(target[parents]), where=below[parents] > 0)
        shared = siblings * scale[:, None]
        mean = (shared.sum(axis=1) / np.maximum(there.sum(axis=1), 1))[:, None]
        evened = np.where(there, mean + np.sqrt(KEPT_VARIANCE) * (shared - mean), 0.0)
        target[children] = evened.reshape(-1)
    leaves = tree.children(len(BRANCHING) - 1)
    own[leaves] = target[leaves]


def _generalise(tree: _TopicTree, own: Array, share: float) -> None:
    """Move a share of every topic's popularity to the topic above it, from the bottom; the root is no topic."""
    for level in reversed(range(1, len(BRANCHING))):
        children = tree.children(level)
        moved = own[children] * share
        own[children] -= moved
        own[tree.starts[level] : tree.starts[level + 1]] += moved.reshape(
            tree.starts[level + 1] - tree.starts[level], -1
        ).sum(axis=1)
