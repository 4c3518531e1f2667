"""The broker overlay as an engine of the conformance suite: subscribers spread over a tree, events from any broker.

All brokers route by one strategy, and links take no time, so that every event reaches its subscribers at its own time.
Each source of events is a publisher somewhere, who advertises everything.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from datetime import datetime, timedelta

import numpy as np

from rankcast.model.expressions import Constant
from rankcast.model.filters import Filter
from rankcast.model.policies import OnDemand
from rankcast.model.subscriptions import Advertisement, AdvertisementId
from rankcast.overlay.broker import Settings
from rankcast.overlay.effects import Deliver
from rankcast.overlay.routing.strategies import Strategy
from rankcast.overlay.simulation.simulator import START, Simulation
from rankcast.overlay.simulation.topologies import random_tree
from rankcast.overlay.wire.messages import Advertise
from rankcast.testing.conformance import Case
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
        reads = deque(case.reads)
        for event in case.events:
            while reads and event.time is not None and reads[0] < event.time:
                read += _read(overlay, case, reads.popleft())
            if event.time is not None:
                overlay.run_until(event.time)
            overlay.publish(homes[event.source], AdvertisementId(event.source), event)
            overlay.settle()
        read += (one for at in reads for one in _read(overlay, case, at))
        overlay.finish()
        return [delivery_of(one) for one in (*found, *read)]


def _read(overlay: Simulation, case: Case, at: datetime) -> list[Deliver]:
    overlay.run_until(at)
    readers = [one for one in case.subscribers if isinstance(one.notify, OnDemand)]
    return [entry for one in readers for name in one.policies for entry in overlay.read(one.id, name)]


def delivery_of(one: Deliver) -> ExpectedDelivery:
    """Return a broker's delivery as the suite compares it."""
    return ExpectedDelivery(
        one.subscriber, one.event.identity, one.rank, one.matched, one.time, one.subscription, one.gathered
    )
