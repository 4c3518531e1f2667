"""How long a publication takes through a simulated overlay, from the publisher to each subscriber that gets it.

Simulated: links, each of which takes one millisecond, and waiting at a broker that is busy. Measured: the CPU time that
a broker really takes for each message, matching and choosing included. Publications come one at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from time import process_time
from typing import NamedTuple

import numpy as np

from rankcast.overlay.broker import Settings
from rankcast.overlay.simulate import Simulation
from rankcast.overlay.strategies import Strategy
from rankcast.overlay.topologies import DELAY, chain
from rankcast.samples.covering import ranges
from rankcast_lab.workloads.overlays import Audience

CORES, EDGES = 5, 5
WARM_UP = 20
"""Publications before those that count: an index is compiled with the first one."""

APART = timedelta(seconds=2)
"""Between two publications, as published: 30 per minute."""

STRATEGIES = (Strategy.REGULAR_K, Strategy.ANCESTOR_COVER_K, Strategy.ANCESTOR_FAIR_K, Strategy.EXACT_FAIR)


class Case(NamedTuple):
    """One overlay."""

    strategy: Strategy
    subscriptions: int
    k: int


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds from publication to delivery: the mean, and what half and 99% took at most.

    `links` is the part of the mean that links on the way take; `busy` is the work of all brokers per publication.
    """

    mean: float
    half: float
    most: float
    links: float
    busy: float

    @property
    def beyond(self) -> float:
        """The part of the mean that is the work of brokers on the way and, with ExactFair, the wait for counts."""
        return self.mean - self.links


def measured(case: Case, seed: int, publications: int) -> Latency:
    """Set an overlay up and publish."""
    random = np.random.default_rng(seed)
    topology = chain(CORES, EDGES)
    made = ranges(case.subscriptions, random)
    audience = Audience.spread(topology, made, random)
    overlay = audience.advertised(Settings(case.strategy), case.k, seed=seed, stopwatch=process_time)
    audience.subscribe(overlay)
    _publish(overlay, audience, random.random(WARM_UP).tolist(), "warm-up")
    overlay.measures.latencies.clear()
    overlay.measures.hops.clear()
    overlay.measures.busy.clear()
    _publish(overlay, audience, random.random(publications).tolist(), "measured")
    measures = overlay.measures
    seconds = (
        float(np.mean(measures.latencies)),
        measures.latency(0.5),
        measures.latency(0.99),
        sum(hops * count for hops, count in measures.hops.items()) / measures.delivered * DELAY.total_seconds(),
        sum(measures.busy.values()) / publications,
    )
    return Latency(*(1e3 * one for one in seconds))


def _publish(overlay: Simulation, audience: Audience, values: list[float], name: str) -> None:
    for number, value in enumerate(values):
        audience.publish(overlay, f"{name} {number}", value)
        overlay.run_for(APART)
