"""What is simulated, and its run: how brokers are joined, how they route, who subscribes and publishes, what fails.

In a run subscribers join, publishers publish, brokers and links fail and come back. Subscribers and events are drawn,
or given.

Drawn ones: publishers take turns. How many one central matcher would have delivered is counted beside, from the same
ranges and values. With a k only the numbers can be compared: what somebody beyond a cut should have got, others get
instead. Where time passes between events, the next one does not wait until the last has arrived everywhere; those who
come and go do, so that it is clear which events are theirs. All that is random comes from the plan's seed.

Given ones: each event is published at its own time, in the order of (time, source, id), and waits for no other one. The
overlay begins early enough for everybody to join before. Heartbeats are as usual, but for long times: there are at most
HEARTBEATS.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple, TypeAlias

import numpy as np

from rankcast.covering.group.cover import Checking
from rankcast.model.advertisements import Advertisement, AdvertisementId, AudienceRanking
from rankcast.model.events import Event, Identity
from rankcast.model.expressions import attr
from rankcast.model.filters import Filter
from rankcast.model.subscriptions import Subscriber, SubscriberId, Subscription, SubscriptionId
from rankcast.model.times import EARLIEST
from rankcast.overlay.broker import Settings
from rankcast.overlay.effects import Deliver
from rankcast.overlay.messages import Advertise
from rankcast.overlay.routing.strategies import Strategy
from rankcast.overlay.simulation.ranges import ranges
from rankcast.overlay.simulation.simulator import START, Simulation
from rankcast.overlay.simulation.topologies import Topology, balanced_tree, chain, random_tree, star

AFTERWARDS = timedelta(seconds=30)
"""How long what has failed is given at the end: longer than any timer of a broker."""

HEARTBEATS = 100
"""How many heartbeats there are at most while given events are published: of days, five seconds each would be many."""

Watch: TypeAlias = Callable[[str, range], Iterable[int]]
"""Told what is done for which numbers; gives them one by one."""

Received: TypeAlias = tuple[SubscriberId, SubscriptionId | None, Identity]
"""Who got which event, by the policy of which subscription; None: by the subscriber's."""


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
class DrawnLoad:
    """Generated subscribers and events; `churn` is the share of subscribers who are replaced after each event."""

    k: int | None
    ranking: AudienceRanking
    subscribers: int
    widths: tuple[float, float]
    churn: float
    events: int
    publishers: tuple[str, ...]
    interval: timedelta

    def advertisement(self, publisher: int) -> Advertisement:
        """Return what a publisher advertises: values of one attribute, and how far they should reach."""
        wanted, source = Filter.of(attr("a0").between(0.0, 1.0)), f"/simulated/{publisher}"
        name = AdvertisementId(f"simulated {publisher}")
        return Advertisement(name, source, wanted, k=self.k, ranking=self.ranking)

    @property
    def advertised(self) -> tuple[tuple[str, Advertisement], ...]:
        """What is advertised, each with its broker."""
        return tuple((broker, self.advertisement(at)) for at, broker in enumerate(self.publishers))


@dataclass(frozen=True, slots=True)
class GivenLoad:
    """Subscribers and advertisements, each with its broker, and events with times in their order, each under one of
    the advertisements."""

    advertised: tuple[tuple[str, Advertisement], ...]
    subscribers: tuple[tuple[str, Subscriber], ...]
    given: tuple[tuple[AdvertisementId, Event], ...]

    @property
    def events(self) -> int:
        """How many events there are."""
        return len(self.given)

    @property
    def publishers(self) -> tuple[str, ...]:
        """The brokers that publishers are at."""
        return tuple(dict.fromkeys(broker for broker, _ in self.advertised))


@dataclass(frozen=True, slots=True)
class SimulationPlan:
    """What is to be simulated."""

    topology: Topology
    strategy: Strategy
    group: Checking
    jitter: timedelta
    failures: tuple[Failure, ...]
    seed: int
    load: DrawnLoad | GivenLoad


class SimulationRun(ABC):
    """A simulation under way: who is there, and what fails; `expected` is how many deliveries there should be."""

    def __init__(self, plan: SimulationPlan, *, settings: Settings | None = None, start: datetime = START) -> None:
        self.plan = plan
        self.overlay = Simulation(
            plan.topology,
            settings or Settings(plan.strategy, group=plan.group),
            seed=plan.seed,
            start=start,
            jitter=plan.jitter,
            delivered=self._count,
        )
        self.expected = 0
        self.received = Counter[Received]()
        self._joined: dict[SubscriberId, tuple[str, Subscriber]] = {}
        for broker, advertisement in plan.load.advertised:
            self.overlay.advertise(broker, Advertise(advertisement))
        self.overlay.settle()

    @abstractmethod
    def go(self, watch: Watch = lambda _, numbers: numbers) -> None:
        """Run the whole plan."""

    @property
    def present(self) -> int:
        """How many subscriptions there are now."""
        return sum(len(subscriber.subscriptions) for _, subscriber in self._joined.values())

    def _count(self, _: str, deliver: Deliver) -> None:
        self.received[deliver.subscriber, deliver.subscription, deliver.event.identity] += 1

    def _join(self, broker: str, subscriber: Subscriber) -> None:
        self._joined[subscriber.id] = broker, subscriber
        self.overlay.subscribe(broker, subscriber)

    def _leave(self, subscriber: SubscriberId) -> None:
        del self._joined[subscriber]
        self.overlay.unsubscribe(subscriber)

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
        for home, advertisement in self.plan.load.advertised:
            if home == broker:
                self.overlay.advertise(broker, Advertise(advertisement))
        self.overlay.settle()
        for home, subscriber in self._joined.values():
            if home == broker:
                self.overlay.subscribe(broker, subscriber)
        self.overlay.settle()


class DrawnRun(SimulationRun):
    """A run with drawn subscribers and events."""

    def __init__(self, plan: SimulationPlan, load: DrawnLoad) -> None:
        super().__init__(plan)
        self._load = load
        self._random = np.random.default_rng([plan.seed, 2])
        self._drawn: list[tuple[str, Subscriber]] = []
        self._low, self._high, self._is_here = np.empty(0), np.empty(0), np.empty(0, bool)

    def go(self, watch: Watch = lambda _, numbers: numbers) -> None:
        """Run the whole plan."""
        load = self._load
        for number in watch("subscribing", self._newcomers(load.subscribers)):
            self._come(number)
            self.overlay.settle()
        for number in watch("publishing", range(load.events)):
            self._fail_and_repair(number)
            self._publish(number)
            self._churn()
        if load.interval:
            self.overlay.run_for(AFTERWARDS)
        self.overlay.settle()

    def _newcomers(self, count: int) -> range:
        """Draw newcomers, for all running edges alike; return their numbers."""
        found = ranges(count, self._random, self._load.widths)
        edges = [edge for edge in self.plan.topology.edges if edge in self.overlay.brokers]
        first = len(self._drawn)
        for number, wanted in enumerate(found.filters(), start=first):
            subscription = Subscription(SubscriptionId("1"), wanted, rank=float(self._random.random()))
            self._drawn.append((edges[number % len(edges)], Subscriber(SubscriberId(f"s{number}"), (subscription,))))
        self._low = np.concatenate((self._low, found.starts[:, 0]))
        self._high = np.concatenate((self._high, found.ends[:, 0]))
        self._is_here = np.concatenate((self._is_here, np.zeros(count, bool)))
        return range(first, first + count)

    def _come(self, number: int) -> None:
        self._is_here[number] = True
        self._join(*self._drawn[number])

    def _publish(self, number: int) -> None:
        load, at = self._load, number % len(self._load.publishers)
        broker, advertisement = load.publishers[at], load.advertisement(at)
        value = float(self._random.random())
        wanting = int(np.count_nonzero(self._is_here & (self._low <= value) & (value <= self._high)))
        self.expected += wanting if load.k is None else min(wanting, load.k)
        self.overlay.publish(broker, advertisement.id, Event(str(number), advertisement.source, data={"a0": value}))
        if load.interval:
            self.overlay.run_for(load.interval)
        else:
            self.overlay.settle()

    def _churn(self) -> None:
        """Let some subscribers of running brokers leave, and as many others come."""
        if not self._load.churn:
            return
        self.overlay.settle()
        numbers = [at for at in np.flatnonzero(self._is_here).tolist() if self._drawn[at][0] in self.overlay.brokers]
        leaving = self._random.choice(numbers, self._random.binomial(len(numbers), self._load.churn), replace=False)
        for number in leaving.tolist():
            self._is_here[number] = False
            self._leave(self._drawn[number][1].id)
        for number in self._newcomers(len(leaving)):
            self._come(number)
        self.overlay.settle()


class GivenRun(SimulationRun):
    """A run with given subscribers and events."""

    def __init__(self, plan: SimulationPlan, load: GivenLoad) -> None:
        times = [time for _, event in load.given if (time := event.time) is not None]
        first, last = (min(times), max(times)) if times else (START, START)
        usual = Settings(plan.strategy, group=plan.group)
        slower = max(1.0, (last - first) / HEARTBEATS / usual.heartbeat)
        settings = replace(usual, heartbeat=slower * usual.heartbeat, link_lease=slower * usual.link_lease)
        # Nobody's subscription takes longer than over all links one after the other.
        way = sum((link.delay + plan.jitter for link in plan.topology.links), AFTERWARDS)
        joining = way * (2 + len(load.subscribers))
        super().__init__(plan, settings=settings, start=first - min(joining, first - EARLIEST))
        self._load = load

    def go(self, watch: Watch = lambda _, numbers: numbers) -> None:
        """Run the whole plan; in the end open periods and windows are completed."""
        overlay, load = self.overlay, self._load
        homes = {advertisement.id: broker for broker, advertisement in load.advertised}
        for number in watch("subscribing", range(len(load.subscribers))):
            self._join(*load.subscribers[number])
            overlay.settle()
        for number in watch("publishing", range(load.events)):
            name, event = load.given[number]
            overlay.run_until(event.time or overlay.now)
            overlay.settle(until=overlay.now)
            self._fail_and_repair(number)
            overlay.publish(homes[name], name, event)
        if self.plan.failures:
            overlay.run_for(AFTERWARDS)
        overlay.settle()
        overlay.finish()

    def told_without_cover(self) -> int:
        """Return how many subscriptions brokers were told if none were hidden."""
        plan = replace(self.plan, strategy=Strategy.REGULAR_K, failures=())
        bare = GivenRun(plan, replace(self._load, given=()))
        bare.go()
        return sum(map(bare.overlay.received, bare.overlay.brokers))


def run_of(plan: SimulationPlan) -> SimulationRun:
    """Return the run of a plan, which has not begun."""
    return DrawnRun(plan, plan.load) if isinstance(plan.load, DrawnLoad) else GivenRun(plan, plan.load)
