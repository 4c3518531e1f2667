"""What is simulated, and its run: how brokers are joined, how they route, who subscribes and publishes, what fails.

In a run subscribers join, publishers take turns, brokers and links fail and come back. How many one central matcher
would have delivered is counted beside, from the same ranges and values. With a k only the numbers can be compared: what
somebody beyond a cut should have got, others get instead. Where time passes between events, the next one does not wait
until the last has arrived everywhere; those who come and go do, so that it is clear which events are theirs. All that
is random comes from the plan's seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

import numpy as np

from rankcast.covering.group.cover import Checking
from rankcast.model.advertisements import Advertisement, AdvertisementId, AudienceRanking
from rankcast.model.events import Event
from rankcast.model.expressions import attr
from rankcast.model.filters import Filter
from rankcast.model.subscriptions import Subscriber, SubscriberId, Subscription, SubscriptionId
from rankcast.overlay.broker import Settings
from rankcast.overlay.messages import Advertise
from rankcast.overlay.routing.strategies import Strategy
from rankcast.overlay.simulation.ranges import ranges
from rankcast.overlay.simulation.simulator import Simulation
from rankcast.overlay.simulation.topologies import Topology, balanced_tree, chain, random_tree, star

AFTERWARDS = timedelta(seconds=30)
"""How long what has failed is given at the end: longer than any timer of a broker."""


class Shape(NamedTuple):
    """A shape of topologies: the numbers that it needs, how many brokers these make, and the topology.

    `size` need not be right for a number of brokers that is too many.
    """

    numbers: tuple[str, ...]
    size: Callable[..., int]
    make: Callable[..., Topology]


SHAPES: Mapping[str, Shape] = {
    "chain": Shape(
        ("cores", "edges"),
        lambda cores, edges: cores * (1 + edges),
        lambda cores, edges, delay, _: chain(cores, edges, delay),
    ),
    "star": Shape(("edges",), lambda edges: edges + 1, lambda edges, delay, _: star(edges, delay)),
    "tree": Shape(
        ("branching", "depth"),
        lambda branching, depth: (
            sum(branching**level for level in range(min(depth, 20) + 1)) if branching > 1 else depth + 1
        ),
        lambda branching, depth, delay, _: balanced_tree(branching, depth, delay),
    ),
    "random": Shape(
        ("brokers",),
        lambda brokers: brokers + 1,
        lambda brokers, delay, seed: random_tree(brokers, np.random.default_rng(seed), delay),
    ),
}
"""The shapes of topologies by name."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A broker that crashes, or a link between two that is lost, after so many events; and when it is back, if ever."""

    brokers: tuple[str, ...]
    after: int
    until: int | None
    keeps_state: bool

    @property
    def is_crash(self) -> bool:
        """Whether a broker fails, not a link."""
        return len(self.brokers) == 1

    def overlaps(self, other: Failure) -> bool:
        """Whether the same thing fails again before it is back."""
        first, then = sorted((self, other), key=lambda failure: failure.after)
        return set(self.brokers) == set(other.brokers) and (first.until is None or then.after < first.until)


@dataclass(frozen=True, slots=True)
class SimulationPlan:
    """What is to be simulated; `churn` is the share of subscribers who are replaced after each event."""

    topology: Topology
    strategy: Strategy
    group: Checking
    k: int | None
    ranking: AudienceRanking
    subscribers: int
    widths: tuple[float, float]
    churn: float
    publications: int
    publishers: tuple[str, ...]
    interval: timedelta
    jitter: timedelta
    failures: tuple[Failure, ...]
    seed: int


def advertisement_of(plan: SimulationPlan, publisher: int = 0) -> Advertisement:
    """Return what a publisher of a plan advertises: values of one attribute, and how far they should reach."""
    wanted = Filter.of(attr("a0").between(0.0, 1.0))
    return Advertisement(
        AdvertisementId(f"simulated {publisher}"), f"/simulated/{publisher}", wanted, k=plan.k, ranking=plan.ranking
    )


class SimulationRun:
    """A simulation under way; `expected` is how many deliveries there should have been so far."""

    def __init__(self, plan: SimulationPlan) -> None:
        self.plan = plan
        self.overlay = Simulation(
            plan.topology, Settings(plan.strategy, group=plan.group), seed=plan.seed, jitter=plan.jitter
        )
        self.expected = 0
        self._random = np.random.default_rng([plan.seed, 2])
        self._homes: list[str] = []
        self._subscribers: list[Subscriber] = []
        self._low, self._high, self._is_here = np.empty(0), np.empty(0), np.empty(0, bool)
        for at, broker in enumerate(plan.publishers):
            self._advertise(at, broker)
        self.overlay.settle()

    def go(self, watch: Callable[[str, range], Iterable[int]] = lambda _, numbers: numbers) -> None:
        """Run the whole plan; `watch` is told what is done for which numbers, and gives them one by one."""
        plan = self.plan
        for number in watch("subscribing", self._drawn(plan.subscribers)):
            self._subscribe(number)
            self.overlay.settle()
        for number in watch("publishing", range(plan.publications)):
            self._fail_and_repair(number)
            self._publish(number)
            self._churn()
        if plan.interval:
            self.overlay.run_for(AFTERWARDS)
        self.overlay.settle()

    @property
    def present(self) -> int:
        """How many subscribers there are now."""
        return int(np.count_nonzero(self._is_here))

    def _advertise(self, at: int, broker: str) -> None:
        self.overlay.advertise(broker, Advertise(advertisement_of(self.plan, at)))

    def _drawn(self, count: int) -> range:
        """Draw newcomers, for all running edges alike; return their numbers."""
        found = ranges(count, self._random, self.plan.widths)
        edges = [edge for edge in self.plan.topology.edges if edge in self.overlay.brokers]
        first = len(self._homes)
        for number, wanted in enumerate(found.filters(), start=first):
            subscription = Subscription(SubscriptionId("1"), wanted, rank=float(self._random.random()))
            self._subscribers.append(Subscriber(SubscriberId(f"s{number}"), (subscription,)))
            self._homes.append(edges[number % len(edges)])
        self._low = np.concatenate((self._low, found.starts[:, 0]))
        self._high = np.concatenate((self._high, found.ends[:, 0]))
        self._is_here = np.concatenate((self._is_here, np.zeros(count, bool)))
        return range(first, first + count)

    def _subscribe(self, number: int) -> None:
        self._is_here[number] = True
        self.overlay.subscribe(self._homes[number], self._subscribers[number])

    def _publish(self, number: int) -> None:
        at = number % len(self.plan.publishers)
        advertisement = advertisement_of(self.plan, at)
        value = float(self._random.random())
        wanting = int(np.count_nonzero(self._is_here & (self._low <= value) & (value <= self._high)))
        self.expected += wanting if self.plan.k is None else min(wanting, self.plan.k)
        event = Event(str(number), advertisement.source, data={"a0": value})
        self.overlay.publish(self.plan.publishers[at], advertisement.id, event)
        if self.plan.interval:
            self.overlay.run_for(self.plan.interval)
        else:
            self.overlay.settle()

    def _churn(self) -> None:
        """Let some subscribers of running brokers leave, and as many others come."""
        if not self.plan.churn:
            return
        self.overlay.settle()
        numbers = [at for at in np.flatnonzero(self._is_here).tolist() if self._homes[at] in self.overlay.brokers]
        leaving = self._random.choice(numbers, self._random.binomial(len(numbers), self.plan.churn), replace=False)
        for number in leaving.tolist():
            self._is_here[number] = False
            self.overlay.unsubscribe(self._subscribers[number].id)
        for number in self._drawn(len(leaving)):
            self._subscribe(number)
        self.overlay.settle()

    def _fail_and_repair(self, number: int) -> None:
        """Do what is due before an event: what comes back does so before anything else fails."""
        for failure in self.plan.failures:
            if failure.until == number:
                self._repair(failure)
        for failure in self.plan.failures:
            if failure.after == number:
                self._fail(failure)

    def _fail(self, failure: Failure) -> None:
        if failure.is_crash:
            self.overlay.crash(*failure.brokers, keeps_state=failure.keeps_state)
        else:
            self.overlay.cut(*failure.brokers)

    def _repair(self, failure: Failure) -> None:
        if failure.is_crash:
            self.overlay.restart(*failure.brokers)
        else:
            self.overlay.mend(*failure.brokers)
        self.overlay.settle()
        if failure.is_crash and not failure.keeps_state:
            self._come_again(*failure.brokers)

    def _come_again(self, broker: str) -> None:
        """Let the clients of a broker that has lost its state say again what they want."""
        for at, home in enumerate(self.plan.publishers):
            if home == broker:
                self._advertise(at, broker)
        self.overlay.settle()
        for number in np.flatnonzero(self._is_here).tolist():
            if self._homes[number] == broker:
                self._subscribe(number)
        self.overlay.settle()
