"""Interests of the three workloads on which placement is studied.

Set 1 follows statistics of discussion groups: topics are nested rectangles, popularity is Zipf's, half of it the same
everywhere and half that of a region, and the hottest topics are left out. It has two switches: *skew* (low: popularity
is evened out among the children of a topic) and *breadth* (how much popularity moves up to more general topics).
Set 2 follows feeds: fifty unit squares, each asked for from ten sites. Set 3 has hot spots on a grid and rectangles of
several widths, whatever the site. Where the paper gives no number, the ones here were fitted to its results.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from rankcast.arrays import Array
from rankcast.placement.problem.interests import Interests

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
