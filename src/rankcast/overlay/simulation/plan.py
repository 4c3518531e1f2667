"""What is simulated, and its run: how brokers are joined, how they route, who subscribes and publishes, what fails.

It is stated as plain data, as the file of `rankcast simulate` has it:

    topology: {shape: chain, cores: 10, edges: 5, delay: 1ms}
    strategy: AncestorCoverK
    k: 10
    subscribers: 1000
    publications: 100

Whatever is wrong is told by its place in the data, with what is there and what was expected.

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
from enum import Enum
from typing import Any, NoReturn, TypeVar

import numpy as np

from rankcast.model.errors import InvalidPartsError, RankcastError, counted, hint, shown
from rankcast.model.events import Event
from rankcast.model.expressions import attr
from rankcast.model.filters import Filter
from rankcast.model.subscriptions import (
    Advertisement,
    AdvertisementId,
    Subscriber,
    SubscriberId,
    Subscription,
    SubscriptionId,
)
from rankcast.overlay.broker import Settings
from rankcast.overlay.effects import RefusedError
from rankcast.overlay.messages import Advertise, AudienceRanking, Scoring, Ties
from rankcast.overlay.routing.strategies import Strategy
from rankcast.overlay.simulation.ranges import WIDTHS, ranges
from rankcast.overlay.simulation.simulator import Simulation, check_links
from rankcast.overlay.simulation.topologies import DELAY, Link, Topology, balanced_tree, chain, random_tree, star

Kind = TypeVar("Kind", bound=Enum)
Made = TypeVar("Made")

SHAPES: Mapping[str, tuple[str, ...]] = {
    "chain": ("cores", "edges"),
    "star": ("edges",),
    "tree": ("branching", "depth"),
    "random": ("brokers",),
}
"""The shapes of topologies, and the numbers that each needs."""

MOST_BROKERS = 10_000
LONGEST, LONGEST_TEXT = timedelta(hours=1), "1h"
"""Of what passes between events: every heartbeat in between is simulated."""

KEYS = (
    *("topology", "links", "strategy", "k", "ranking", "subscribers", "widths", "churn"),
    *("publications", "publishers", "interval", "jitter", "failures", "seed"),
)
AFTERWARDS = timedelta(seconds=30)
"""How long what has failed is given at the end: longer than any timer of a broker."""

NO_TIME, A_SECOND = timedelta(0), timedelta(seconds=1)


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
        first, then = sorted((self, other), key=lambda one: one.after)
        return set(self.brokers) == set(other.brokers) and (first.until is None or then.after < first.until)


@dataclass(frozen=True, slots=True)
class SimulationPlan:
    """What is to be simulated; `churn` is the share of subscribers who are replaced after each event."""

    topology: Topology
    strategy: Strategy
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


def simulation_plan(value: object, duration: Callable[[Any], timedelta]) -> SimulationPlan:
    """Return the plan that plain data states, with durations such as 5ms as `duration` reads them.

    Raises InvalidPartsError for the first thing that is wrong.
    """
    return _Reader(value, duration).plan()


class _Reader:
    def __init__(self, value: object, duration: Callable[[Any], timedelta]) -> None:
        self._value, self._parse_duration = value, duration

    def plan(self) -> SimulationPlan:
        root = self._value
        if not isinstance(root, dict):
            self._refuse((), f"{shown(root)} is not a mapping with a topology")
        self._check_keys(root, (), KEYS)
        seed = self._number(root, "seed", 0, default=1)
        topology = self._topology(root, seed)
        publications = self._number(root, "publications", 0, default=100)
        failures = self._failures(root, topology, publications)
        strategy = self._enum(root, (), "strategy", Strategy, Strategy.REGULAR_COVER)
        k = self._number(root, "k", 1) if "k" in root else None
        plan = SimulationPlan(
            topology,
            strategy,
            k,
            self._ranking(root),
            self._number(root, "subscribers", 0, default=1000),
            self._widths(root),
            self._share(root, "churn"),
            publications,
            self._publishers(root, topology),
            self._duration_of(root, "interval", A_SECOND if failures or "jitter" in root else NO_TIME),
            self._duration_of(root, "jitter", NO_TIME),
            failures,
            seed,
        )
        self._check_strategy(plan)
        where = ("jitter",) if plan.jitter else ("topology",) if "topology" in root else ("links",)
        self._made(where, lambda: check_links(plan.topology, Settings(), plan.jitter))
        return plan

    def _topology(self, root: dict[str, Any], seed: int) -> Topology:
        if ("topology" in root) == ("links" in root):
            self._refuse((), "expected a topology or a list of links")
        if "links" in root:
            links = self._links(root["links"])
            return self._made(("links",), lambda: _of_links(links))
        given = root["topology"]
        path = ("topology",)
        expected = f"expected one of {', '.join(SHAPES)}, or `links` in place of a topology"
        if not isinstance(given, dict) or "shape" not in given:
            self._refuse(path, f"{shown(given)} has no shape; {expected}")
        shape = given["shape"]
        if not isinstance(shape, str) or shape not in SHAPES:
            self._refuse((*path, "shape"), f"shape: {shown(shape)} is not known; {expected}")
        self._check_keys(given, path, ("shape", "delay", *SHAPES[shape]))
        delay = self._duration(given["delay"], (*path, "delay")) if "delay" in given else DELAY
        counts = [self._number(given, name, 0, path=path, most=MOST_BROKERS) for name in SHAPES[shape]]
        if _size(shape, counts) > MOST_BROKERS:
            self._refuse(path, f"more than {MOST_BROKERS:,} brokers")
        return self._made(path, lambda: _shaped(shape, counts, delay, seed))

    def _links(self, given: object) -> list[Link]:
        if not isinstance(given, list):
            self._refuse(("links",), f"{shown(given)} is not a list of links such as [porto, lisbon, 5ms]")
        links: list[Link] = []
        for at, one in enumerate(given):
            path = ("links", at)
            if not isinstance(one, list) or len(one) not in (2, 3) or not all(isinstance(end, str) for end in one[:2]):
                self._refuse(path, f"{shown(one)} is not a link; expected such as [porto, lisbon, 5ms]")
            links.append(Link(one[0], one[1], self._duration(one[2], path) if len(one) == 3 else DELAY))
        return links

    def _publishers(self, root: dict[str, Any], topology: Topology) -> tuple[str, ...]:
        given = root.get("publishers", [topology.edges[0]])
        if not isinstance(given, list) or not given:
            self._refuse(("publishers",), f"{shown(given)} is not a list of brokers that publishers are at")
        for at, name in enumerate(given):
            self._check_broker(name, ("publishers", at), topology)
        return tuple(given)

    def _failures(self, root: dict[str, Any], topology: Topology, publications: int) -> tuple[Failure, ...]:
        given = root.get("failures", [])
        if not isinstance(given, list):
            self._refuse(("failures",), f"{shown(given)} is not a list of crashes and cuts")
        found = tuple(self._failure(one, ("failures", at), topology) for at, one in enumerate(given))
        for at, failure in enumerate(found):
            if any(failure.overlaps(other) for other in found[:at]):
                self._refuse(("failures", at), "fails while it has already failed")
            if failure.after >= publications:
                there_are = f"there {'is' if publications == 1 else 'are'} only {counted(publications, 'event')}"
                self._refuse(("failures", at), f"fails after {counted(failure.after, 'event')}, but {there_are}")
        return found

    def _failure(self, given: Any, path: tuple[str | int, ...], topology: Topology) -> Failure:
        if not isinstance(given, dict) or ("crash" in given) == ("cut" in given):
            self._refuse(path, f"{shown(given)} is no failure; expected such as {{crash: core1, after: 10, until: 20}}")
        self._check_keys(given, path, ("crash", "cut", "after", "until", "keeps_state"))
        after = self._number(given, "after", 0, path=path)
        until = self._number(given, "until", after + 1, path=path) if "until" in given else None
        keeps = given.get("keeps_state", False)
        if not isinstance(keeps, bool):
            self._refuse((*path, "keeps_state"), f"keeps_state: {shown(keeps)} is not true or false")
        if "crash" in given:
            self._check_broker(given["crash"], (*path, "crash"), topology)
            return Failure((given["crash"],), after, until, keeps)
        ends = given["cut"]
        if not isinstance(ends, list) or len(ends) != 2:
            self._refuse((*path, "cut"), f"{shown(ends)} is not a link; expected such as [core0, core1]")
        for name in ends:
            self._check_broker(name, (*path, "cut"), topology)
        self._made((*path, "cut"), lambda: topology.link(*ends))
        return Failure(tuple(ends), after, until, keeps)

    def _check_broker(self, name: Any, path: tuple[str | int, ...], topology: Topology) -> None:
        if name not in topology.brokers:
            self._refuse(path, f"there is no broker {shown(name)}")

    def _ranking(self, root: dict[str, Any]) -> AudienceRanking:
        given = root.get("ranking", {})
        if not isinstance(given, dict):
            self._refuse(("ranking",), f"{shown(given)} is not a mapping with scoring and ties")
        self._check_keys(given, ("ranking",), ("scoring", "ties"))
        return AudienceRanking(
            self._enum(given, ("ranking",), "scoring", Scoring, Scoring.NONE),
            self._enum(given, ("ranking",), "ties", Ties, Ties.FAIR),
        )

    def _widths(self, root: dict[str, Any]) -> tuple[float, float]:
        given = root.get("widths", list(WIDTHS))
        are_numbers = isinstance(given, list) and all(
            isinstance(one, int | float) and not isinstance(one, bool) for one in given
        )
        if not are_numbers or len(given) != 2 or not 0 <= given[0] <= given[1] <= 1:
            self._refuse(("widths",), f"{shown(given)} is not two shares of the domain; expected such as [0.3, 0.6]")
        return float(given[0]), float(given[1])

    def _share(self, root: dict[str, Any], name: str) -> float:
        given = root.get(name, 0)
        if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given <= 1:
            self._refuse((name,), f"{name}: {shown(given)} is not a share from 0 to 1")
        return float(given)

    def _duration_of(self, root: dict[str, Any], name: str, default: timedelta) -> timedelta:
        return self._duration(root[name], (name,)) if name in root else default

    def _check_strategy(self, plan: SimulationPlan) -> None:
        try:
            plan.strategy.check(Advertise(advertisement_of(plan), plan.ranking))
        except RefusedError as error:
            self._refuse(("k",) if plan.k is not None and not plan.strategy.takes_k else ("strategy",), str(error))

    def _number(
        self,
        given: dict[str, Any],
        name: str,
        least: int,
        *,
        path: tuple[str | int, ...] = (),
        most: int = 10_000_000,
        default: int | None = None,
    ) -> int:
        if name not in given and default is None:
            self._refuse(path, f"{name} is missing; expected a whole number from {least} to {most:,}")
        value = given.get(name, default)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            self._refuse((*path, name), f"{name}: {shown(value)} is not a whole number from {least} to {most:,}")
        return value

    def _enum(self, given: dict[str, Any], path: tuple[str, ...], name: str, kind: type[Kind], default: Kind) -> Kind:
        value = given.get(name, default.value)
        found = next((member for member in kind if member.value == value), None)
        if found is None:
            expected = ", ".join(str(member.value) for member in kind)
            self._refuse((*path, name), f"{name}: {shown(value)} is not known; expected one of {expected}")
        return found

    def _duration(self, value: Any, path: tuple[str | int, ...]) -> timedelta:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            self._refuse(path, f"{shown(value)} is not a duration such as 5ms")
        found = self._made(path, lambda: self._parse_duration(value))
        if not NO_TIME <= found <= LONGEST:
            self._refuse(path, f"{shown(value)} is not a duration from 0s to {LONGEST_TEXT}")
        return found

    def _check_keys(self, given: dict[str, Any], path: tuple[str | int, ...], known: tuple[str, ...]) -> None:
        for name in given:
            if name not in known:
                self._refuse((*path, name), f"unknown key {shown(name)}; {hint(name, known)}")

    def _made(self, path: tuple[str | int, ...], make: Callable[[], Made]) -> Made:
        try:
            return make()
        except RankcastError as error:
            self._refuse(path, str(error))

    def _refuse(self, path: tuple[str | int, ...], message: str) -> NoReturn:
        raise InvalidPartsError({path: message})


def advertisement_of(plan: SimulationPlan, publisher: int = 0) -> Advertisement:
    """Return what a publisher of a plan advertises: values of one attribute, and how far they should reach."""
    wanted = Filter.of(attr("a0").between(0.0, 1.0))
    return Advertisement(AdvertisementId(f"simulated {publisher}"), f"/simulated/{publisher}", wanted, k=plan.k)


def _shaped(shape: str, counts: list[int], delay: timedelta, seed: int) -> Topology:
    if shape == "chain":
        return chain(counts[0], counts[1], delay)
    if shape == "star":
        return star(counts[0], delay)
    if shape == "tree":
        return balanced_tree(counts[0], counts[1], delay)
    return random_tree(counts[0], np.random.default_rng(seed), delay)


def _size(shape: str, counts: list[int]) -> int:
    """Return how many brokers a shape has, as far as it matters whether they are too many."""
    if shape == "chain":
        return counts[0] * (1 + counts[1])
    if shape == "tree":
        return sum(counts[0] ** level for level in range(min(counts[1], 20) + 1)) if counts[0] > 1 else counts[1] + 1
    return counts[0] + 1


def _of_links(links: list[Link]) -> Topology:
    names = dict.fromkeys(name for link in links for name in (link.one, link.other))
    return Topology(tuple(names), tuple(links))


class SimulationRun:
    """A simulation under way; `expected` is how many deliveries there should have been so far."""

    def __init__(self, plan: SimulationPlan) -> None:
        self.plan = plan
        self.overlay = Simulation(plan.topology, Settings(plan.strategy), seed=plan.seed, jitter=plan.jitter)
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
        self.overlay.advertise(broker, Advertise(advertisement_of(self.plan, at), self.plan.ranking))

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
