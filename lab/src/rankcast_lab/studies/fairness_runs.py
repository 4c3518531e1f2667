"""How far deliveries are from fair when publications go to k of their matches, through simulated overlays.

Five core brokers in a chain with five edge brokers each; 250 subscribers, ten at each edge; the publisher at the first
core broker. Fair is what a draw among all matches gives on average: the expectation of a subscription is the sum of
k / matches over the publications that match it. Unfairness is the sum of the differences to that over all
subscriptions. It is never 0: a fair draw has its own noise, which RegularK, knowing everybody, shows.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from rankcast.overlay.broker import Settings
from rankcast.overlay.simulate import Simulation
from rankcast.overlay.strategies import Strategy, Weighing
from rankcast.overlay.topologies import chain
from rankcast.samples.covering import Ranges, ranges
from rankcast_lab.workloads.overlays import NAME, Audience, subscriber_of

Array: TypeAlias = np.ndarray[Any, Any]

CORES, EDGES, SUBSCRIBERS = 5, 5, 250
HEARTBEAT = timedelta(hours=1)
"""So long that no heartbeat comes between two publications: what is stale stays so until time is let pass."""

SETTLED = 2 * CORES
"""Heartbeats after which weights have come through the whole chain."""


class Scheme(Enum):
    """How the k are chosen."""

    REGULAR = "RegularK"
    RANDOM = "AncestorCoverK"
    LITERAL = "AncestorFairK, literal weights"
    UNREFRESHED = "AncestorFairK, weights not refreshed"
    SPLIT = "AncestorFairK"
    EXACT = "ExactFair"

    @property
    def settings(self) -> Settings:
        """How brokers are set up for it."""
        strategy = {
            Scheme.REGULAR: Strategy.REGULAR_K,
            Scheme.RANDOM: Strategy.ANCESTOR_COVER_K,
            Scheme.EXACT: Strategy.EXACT_FAIR,
        }.get(self, Strategy.ANCESTOR_FAIR_K)
        weighing = Weighing.DESCENDANTS if self is Scheme.LITERAL else Weighing.SPLIT
        is_fresh = self is not Scheme.UNREFRESHED
        return Settings(strategy, weighing, weigh=is_fresh, heartbeat=HEARTBEAT, link_lease=1000 * HEARTBEAT)


class Piece(NamedTuple):
    """One overlay."""

    scheme: Scheme
    k: int
    seed: int
    publications: int


@dataclass(frozen=True, slots=True)
class Fairness:
    """What one overlay has done.

    `by_distance` is per subscription, by the number of core brokers that its publications pass; `messages` are per
    publication; `told` is what the publisher's broker was told, `known` what all brokers know together.
    """

    unfairness: float
    by_distance: tuple[float, ...]
    messages: dict[str, float]
    told: int
    known: int


def audience_of(seed: int) -> tuple[Audience, np.random.Generator]:
    """Return the subscribers of a seed, and what draws the rest."""
    random = np.random.default_rng(seed)
    topology = chain(CORES, EDGES)
    made = ranges(SUBSCRIBERS, random)
    homes = [edge for edge in topology.edges for _ in range(SUBSCRIBERS // len(topology.edges))]
    return Audience(topology, topology.brokers[0], made, tuple(homes)), random


def measured(piece: Piece) -> Fairness:
    """Set up one overlay, let weights come through, and publish."""
    audience, random = audience_of(piece.seed)
    overlay = audience.advertised(piece.scheme.settings, piece.k, seed=piece.seed)
    audience.subscribe(overlay)
    overlay.run_for(SETTLED * HEARTBEAT)
    overlay.measures.messages.clear()
    deviations = _deviations(overlay, audience, random.random(piece.publications), piece.k)
    distances = audience.distances()
    by_distance = tuple(float(deviations[distances == passed].mean()) for passed in range(1, CORES + 1))
    sent = overlay.measures.messages
    messages = {kind: sent[kind] / piece.publications for kind in ("Publish", "CountQuery", "CountReply")}
    sizes = overlay.table_sizes()
    return Fairness(
        float(deviations.sum()), by_distance, messages, overlay.received(audience.publisher), sum(sizes.values())
    )


AFTER = (0, 1, 2, 5, 10)
"""Heartbeats since half of the subscribers were replaced."""


class Staleness(NamedTuple):
    """How unfair publications are some time after a change, and how many subscriptions the weights at the publisher's
    broker add up to."""

    unfairness: float
    weight: float


def staleness(piece: Piece) -> tuple[Staleness, ...]:
    """Replace half of the subscribers by others, and publish after more and more heartbeats."""
    audience, random = audience_of(piece.seed)
    overlay = audience.advertised(piece.scheme.settings, piece.k, seed=piece.seed)
    audience.subscribe(overlay)
    overlay.run_for(SETTLED * HEARTBEAT)
    gone = np.sort(random.permutation(SUBSCRIBERS)[: SUBSCRIBERS // 2])
    others = ranges(len(gone), random)
    starts, ends = audience.ranges.starts.copy(), audience.ranges.ends.copy()
    starts[gone], ends[gone] = others.starts, others.ends
    after = Audience(audience.topology, audience.publisher, Ranges(starts, ends), audience.homes)
    for number in gone.tolist():
        overlay.unsubscribe(subscriber_of(number))
        overlay.settle()
    after.subscribe(overlay, gone.tolist())
    table = overlay.brokers[audience.publisher].routing.table
    found: list[Staleness] = []
    passed = 0
    for heartbeats in AFTER:
        overlay.run_for((heartbeats - passed) * HEARTBEAT)
        passed = heartbeats
        weight = sum(record.weight(NAME) for record in table)
        deviations = _deviations(overlay, after, random.random(piece.publications), piece.k)
        found.append(Staleness(float(deviations.sum()), weight))
    return tuple(found)


def _deviations(overlay: Simulation, audience: Audience, values: Array, k: int) -> Array:
    """Publish values; return for each subscription how far what it got is from what it should expect."""
    before = audience.delivered(overlay)
    for number, value in enumerate(values.tolist()):
        audience.publish(overlay, f"{overlay.measures.published}-{number}", value)
    deviations: Array = np.abs(audience.delivered(overlay) - before - expected(audience.ranges, values, k))
    return deviations


def expected(made: Ranges, values: Array, k: int) -> Array:
    """Return how many of some publications each subscription gets on average when all matches are equally likely."""
    matching = (made.starts <= values) & (made.ends >= values)
    chance = np.minimum(k / np.maximum(matching.sum(axis=0), 1), 1.0)
    found: Array = (matching * chance).sum(axis=1)
    return found


def tables(settings: Settings, k: int | None, seed: int) -> dict[str, list[tuple[str, str]]]:
    """Return what each broker knows, and from where."""
    audience, _ = audience_of(seed)
    overlay = audience.advertised(settings, k)
    audience.subscribe(overlay)
    return {
        name: sorted((record.interest.key.subscriber, record.source or "") for record in broker.routing.table)
        for name, broker in overlay.brokers.items()
    }
