"""Points for the studies of top-k in a window: the paper's two generators, and two traces that break its assumption.

Uniform and clustered points are independent of time, as the bounded queue assumes. The traces repeat their content and
depend on time: sessions as network flows come (a few are active, each repeats one content exactly, sessions end and
others begin), and the offers of a ticket sale, whose price goes up with every seat that is sold.
"""

from __future__ import annotations

import numpy as np

from rankcast.arrays import Array
from rankcast_lab.engines.topkw_dense import Deliveries, DenseTopKWindow, QueueKind

BATCH = 50_000
"""Events that are published by one call."""

CLUSTERS, SPREAD = 10, 0.1


def uniform(generator: np.random.Generator, count: int, dimensions: int = 2) -> Array:
    """Return points that are uniform in the unit cube."""
    return generator.random((count, dimensions))


def clustered(generator: np.random.Generator, count: int, dimensions: int = 2) -> Array:
    """Return points of ten Gaussian clusters with a standard deviation of 0.1 around uniform centres."""
    centres = generator.random((CLUSTERS, dimensions))
    return centres[generator.integers(0, CLUSTERS, count)] + generator.normal(0, SPREAD, (count, dimensions))


def sessions(generator: np.random.Generator, count: int, active: int = 12, mean_length: float = 400.0) -> Array:
    """Return a trace of sessions that each repeat one point; lengths are heavy-tailed, busy ones come more often."""
    content = generator.random((active, 2))
    shares = 1 / np.arange(1, active + 1)
    chosen = generator.choice(active, count, p=shares / shares.sum())
    ends = generator.random(count) < 1 / mean_length
    fresh = generator.random((count, 2))
    points = np.empty((count, 2))
    for event in range(count):
        session = chosen[event]
        if ends[event]:
            content[session] = fresh[event]
        points[event] = content[session]
    return points


def sale(generator: np.random.Generator, count: int, seats: int, views: float = 10.0, returned: float = 0.1) -> Array:
    """Return the prices that visitors of a ticket shop are shown, from 0 for the first seat to nearly 1 for the last.

    A price stays for `views` visitors on average. A seat that is sold raises it, one that is returned (a share of all
    changes) lowers it; when a show is sold out, the next one is on sale.
    """
    changes = generator.random(count) < 1 / views
    moves = np.where(generator.random(count) < returned, -1, 1)
    prices, sold = np.empty(count), 0
    for event in range(count):
        if changes[event]:
            sold = max(0, sold + int(moves[event])) % seats
        prices[event] = sold / seats
    return prices[:, None]


def deliveries(points: Array, ideals: Array, k: int, window: int, queue: QueueKind = QueueKind.EXACT) -> Deliveries:
    """Publish points in batches; return all deliveries."""
    engine = DenseTopKWindow(ideals, k=k, window=window, queue=queue)
    return Deliveries.joined([engine.publish(points[start : start + BATCH]) for start in range(0, len(points), BATCH)])


def counts(found: Deliveries, subscriptions: int) -> Array:
    """Return the number of deliveries of each subscription."""
    return np.bincount(found.subscription, minlength=subscriptions)


def missed_and_false(right: Deliveries, other: Deliveries, events: int) -> tuple[float, float]:
    """Return the shares of right deliveries that are missing, and of the others' that are wrong, by event."""
    wanted, given = (np.unique(one.subscription.astype(np.int64) * events + one.event) for one in (right, other))
    common = len(np.intersect1d(wanted, given, assume_unique=True))
    return 1 - common / max(1, len(wanted)), 1 - common / max(1, len(given))
