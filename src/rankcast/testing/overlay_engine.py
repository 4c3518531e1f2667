"""The broker overlay as an engine of the conformance suite: subscribers spread over a tree, events from any broker.

All brokers route by one strategy, and links take no time, so that every event reaches its subscribers at its own time.
Each source of events is a publisher somewhere, who advertises everything unless the case says what. Events for the k
best are routed by RegularK where the strategy takes no k, or draws equals otherwise than by the event's own draws.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

import numpy as np

from rankcast.model.advertisements import Advertisement, AdvertisementId
from rankcast.model.events import Event
from rankcast.overlay.broker import Settings
from rankcast.overlay.effects import Deliver
from rankcast.overlay.messages import Advertise
from rankcast.overlay.routing.strategies import Strategy
from rankcast.overlay.simulation.simulator import START, Simulation
from rankcast.overlay.simulation.topologies import random_tree
from rankcast.testing.conformance import Case, delivery_of
from rankcast.testing.definitions import ExpectedDelivery

_FOREVER = timedelta(days=365_000)


class OverlayEngine:
    """An overlay of some brokers; `seed` decides how they are joined, and who is where."""

    def __init__(self, strategy: Strategy, brokers: int = 5, seed: int = 0) -> None:
        self.strategy = strategy
        self.brokers = brokers
        self.seed = seed

    def deliveries(self, case: Case) -> Iterable[ExpectedDelivery]:
        """Let everybody subscribe and publish the events one after the other."""
        random = np.random.default_rng(self.seed)
        found: list[Deliver] = []
        topology = random_tree(self.brokers, random, delay=timedelta(0))
        settings = Settings(self.strategy, heartbeat=_FOREVER, link_lease=_FOREVER)
        start = min((event.time for event in case.events if event.time is not None), default=START)
        overlay = Simulation(
            topology, settings, seed=self.seed, start=start, delivered=lambda _, one: found.append(one)
        )
        homes: dict[str, str] = {}
        names: dict[str, Advertisement] = {}
        for source in dict.fromkeys(event.source for event in case.events):
            homes[source] = str(random.choice(topology.brokers))
            own = [advertisement for advertisement in case.advertisements if advertisement.source == source]
            (names[source],) = own or [Advertisement(AdvertisementId(source), source)]
            overlay.advertise(homes[source], Advertise(names[source], strategy=self._other_strategy(names[source])))
        for subscriber in case.subscribers:
            overlay.subscribe(str(random.choice(topology.brokers)), subscriber)
        overlay.settle()
        read: list[Deliver] = []
        for step in case.steps:
            if isinstance(step, Event):
                if step.time is not None:
                    overlay.run_until(step.time)
                overlay.publish(homes[step.source], names[step.source].id, step, case.asked.get(step.identity))
                overlay.settle()
            else:
                overlay.run_until(step)
                read += (entry for owner, name in case.lists for entry in overlay.read(owner, name))
        overlay.finish()
        return [delivery_of(delivery) for delivery in (*found, *read)]

    def _other_strategy(self, advertisement: Advertisement) -> Strategy | None:
        """Return how events are routed that the strategy would not bring to those whom the definition names."""
        draws = self.strategy is Strategy.EXACT_FAIR or advertisement.ranking.is_by_chance
        is_other = advertisement.k is not None and (draws or not self.strategy.takes_k)
        return Strategy.REGULAR_K if is_other and self.strategy is not Strategy.REGULAR_K else None
