"""The broker overlay as an engine of the conformance suite: subscribers spread over a tree, events from any broker.

All brokers route by one strategy, and links take no time, so that every event reaches its subscribers at its own time.
Each source of events is a publisher somewhere, who advertises everything.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

import numpy as np

from rankcast.model.advertisements import Advertisement, AdvertisementId
from rankcast.model.events import Event
from rankcast.model.expressions import Constant
from rankcast.model.filters import Filter
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
        for source in dict.fromkeys(event.source for event in case.events):
            homes[source] = str(random.choice(topology.brokers))
            everything = Advertisement(AdvertisementId(source), source, Filter.of(Constant(True)))
            overlay.advertise(homes[source], Advertise(everything))
        for subscriber in case.subscribers:
            overlay.subscribe(str(random.choice(topology.brokers)), subscriber)
        overlay.settle()
        read: list[Deliver] = []
        for step in case.steps:
            if isinstance(step, Event):
                if step.time is not None:
                    overlay.run_until(step.time)
                overlay.publish(homes[step.source], AdvertisementId(step.source), step)
                overlay.settle()
            else:
                overlay.run_until(step)
                read += (entry for owner, name in case.lists for entry in overlay.read(owner, name))
        overlay.finish()
        return [delivery_of(delivery) for delivery in (*found, *read)]
