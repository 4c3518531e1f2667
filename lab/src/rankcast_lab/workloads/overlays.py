"""Overlays of the paper on top-k covering: ranges subscribed to at the edges of a chain of brokers, one publisher.

The publisher has an edge broker to itself. With subscribers there, one edge of fifty, the subscriptions known to it
would be 2% of all before any came from elsewhere: more than the paper reports in all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from rankcast.arrays import Array
from rankcast.model.advertisements import FAIRNESS, Advertisement, AdvertisementId, AudienceRanking
from rankcast.model.events import Event
from rankcast.model.expressions import attr
from rankcast.model.filters import Filter
from rankcast.model.subscriptions import Subscriber, SubscriberId, Subscription, SubscriptionId, SubscriptionKey
from rankcast.overlay.broker import Settings
from rankcast.overlay.effects import Deliver
from rankcast.overlay.messages import Advertise
from rankcast.overlay.simulation.ranges import Ranges
from rankcast.overlay.simulation.simulator import Simulation
from rankcast.overlay.simulation.topologies import Topology

NAME = AdvertisementId("ranges")
SOURCE = "/ranges"
_ONLY = SubscriptionId("1")

CORES, EDGES = 10, 5
"""Core brokers in the chain, and edge brokers of each."""


@dataclass(frozen=True, slots=True)
class Audience:
    """Subscriptions by number, the broker of each, and the publisher's broker; ranks are 1 unless they are given."""

    topology: Topology
    publisher: str
    ranges: Ranges
    homes: tuple[str, ...]
    ranks: tuple[float, ...] | None = None

    @staticmethod
    def spread(topology: Topology, ranges: Ranges, random: np.random.Generator, *, apart: bool = True) -> Audience:
        """Attach nearly equal numbers to each edge, at random; the publisher's, the first one, has none if `apart`."""
        publisher, *others = topology.edges
        edges = others if apart else [publisher, *others]
        places = np.arange(len(ranges)) % len(edges)
        return Audience(topology, publisher, ranges, tuple(edges[at] for at in random.permutation(places).tolist()))

    def distances(self) -> Array:
        """Return for each subscription how many links there are between its broker and the publisher's."""
        return np.array([self.topology.hops(self.publisher, home) for home in self.homes])

    def advertised(
        self,
        settings: Settings,
        k: int | None,
        ranking: AudienceRanking = FAIRNESS,
        *,
        seed: int = 0,
        stopwatch: Callable[[], float] | None = None,
        delivered: Callable[[str, Deliver], object] | None = None,
    ) -> Simulation:
        """Return an overlay in which the publisher has advertised all values, for the k best if so, and nobody else
        has come yet."""
        overlay = Simulation(self.topology, settings, seed=seed, stopwatch=stopwatch, delivered=delivered)
        everything = Filter.of(attr("a0").between(0.0, 1.0))
        overlay.advertise(self.publisher, Advertise(Advertisement(NAME, SOURCE, everything, k=k, ranking=ranking)))
        overlay.settle()
        return overlay

    def subscribe(self, overlay: Simulation, numbers: Sequence[int] | None = None) -> None:
        """Let subscribers come one after the other: some, or all."""
        filters = self.ranges.filters()
        for number in range(len(filters)) if numbers is None else numbers:
            wanted = Subscription(_ONLY, filters[number], 1.0 if self.ranks is None else self.ranks[number])
            overlay.subscribe(self.homes[number], Subscriber(subscriber_of(number), (wanted,)))
            overlay.settle()

    def publish(self, overlay: Simulation, name: str, value: float) -> None:
        """Publish one value, and let it arrive."""
        overlay.publish(self.publisher, NAME, Event(name, SOURCE, data={"a0": value}))
        overlay.settle()

    def delivered(self, overlay: Simulation) -> Array:
        """Return how many events each subscription has got."""
        found = overlay.measures.deliveries
        return np.array([found[SubscriptionKey(subscriber_of(number), _ONLY)] for number in range(len(self.homes))])


def subscriber_of(number: int) -> SubscriberId:
    """Return who has a subscription."""
    return SubscriberId(f"s{number}")


def numbers_told(overlay: Simulation, broker: str) -> list[int]:
    """Return the subscriptions that a broker was told by its neighbours, in ascending order."""
    table = overlay.brokers[broker].routing.table
    return sorted(int(record.interest.key.subscriber[1:]) for record in table if record.source is not None)


def attached(count: int, random: np.random.Generator, cores: int = CORES, edges: int = EDGES) -> list[list[Array]]:
    """Return which subscriptions are attached to each edge of each core broker: nearly equal numbers, at random."""
    parts = np.array_split(random.permutation(count), cores * edges)
    return [parts[first : first + edges] for first in range(0, len(parts), edges)]
