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
from typing import Any, NamedTuple, NoReturn, TypeAlias, TypeVar

import numpy as np

from rankcast.covering.group.cover import DEFAULT_CHECKING, Checking
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
from rankcast.overlay.simulation.topologies import (
    DELAY,
    Link,
    Topology,
    balanced_tree,
    chain,
    random_tree,
    star,
    topology_of,
)

Kind = TypeVar("Kind", bound=Enum)
Made = TypeVar("Made")

Place: TypeAlias = tuple[str | int, ...]
"""Where something is in the data: names and numbers, from the outermost."""

MOST_BROKERS = 10_000
LONGEST, LONGEST_TEXT = timedelta(hours=1), "1h"
"""Of what passes between events: every heartbeat in between is simulated."""

KEYS = (
    *("topology", "links", "strategy", "group_cover", "k", "ranking", "subscribers", "widths", "churn"),
    *("publications", "publishers", "interval", "jitter", "failures", "seed"),
)
AFTERWARDS = timedelta(seconds=30)
"""How long what has failed is given at the end: longer than any timer of a broker."""

NO_TIME, A_SECOND = timedelta(0), timedelta(seconds=1)


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


def simulation_plan(value: object, duration: Callable[[Any], timedelta]) -> SimulationPlan:
    """Return the plan that plain data states, with durations such as 5ms as `duration` reads them.

    Raises InvalidPartsError for the first thing that is wrong.
    """
    if not isinstance(value, dict):
        _refuse((), f"{shown(value)} is not a mapping with a topology")
    root = _Part(value, KEYS, duration)
    seed = root.number("seed", 0, 1)
    topology = _topology(root, seed)
    publications = root.number("publications", 0, 100)
    failures = _failures(root, topology, publications)
    plan = SimulationPlan(
        topology,
        root.enum("strategy", Strategy.REGULAR_COVER),
        _group(root),
        root.number("k", 1) if "k" in value else None,
        _ranking(root),
        root.number("subscribers", 0, 1000),
        _widths(value.get("widths", list(WIDTHS))),
        float(root.checked("churn", 0, _is_share, "a share from 0 to 1")),
        publications,
        _publishers(value.get("publishers", [topology.edges[0]]), topology),
        root.duration("interval", A_SECOND if failures or "jitter" in value else NO_TIME),
        root.duration("jitter", NO_TIME),
        failures,
        seed,
    )
    try:
        plan.strategy.check(Advertise(advertisement_of(plan), plan.ranking))
    except RefusedError as error:
        _refuse(("k",) if plan.k is not None and not plan.strategy.takes_k else ("strategy",), str(error))
    where = ("jitter",) if plan.jitter else ("topology",) if "topology" in value else ("links",)
    _make(where, lambda: check_links(plan.topology, Settings(), plan.jitter))
    return plan


class _Part:
    """A mapping of a plan: what is wrong in it is told by its place."""

    def __init__(
        self, held: dict[str, Any], keys: tuple[str, ...], duration: Callable[[Any], timedelta], path: Place = ()
    ) -> None:
        self.held, self.path, self._parse_duration = held, path, duration
        for name in held:
            if name not in keys:
                _refuse((*path, name), f"unknown key {shown(name)}; {hint(name, keys)}")

    def part(self, held: dict[str, Any], keys: tuple[str, ...], path: Place) -> _Part:
        """Return a mapping within this one."""
        return _Part(held, keys, self._parse_duration, path)

    def checked(self, name: str, default: object, is_right: Callable[[Any], bool], expected: str) -> Any:
        """Return a value that is as it should be."""
        value = self.held.get(name, default)
        if not is_right(value):
            _refuse((*self.path, name), f"{name}: {shown(value)} is not {expected}")
        return value

    def number(self, name: str, least: int, default: int | None = None, most: int = 10_000_000) -> int:
        """Return a whole number, which has to be there without a default."""
        expected = f"a whole number from {least} to {most:,}"
        if name not in self.held and default is None:
            _refuse(self.path, f"{name} is missing; expected {expected}")
        return int(
            self.checked(name, default, lambda found: _is_number(found, int) and least <= found <= most, expected)
        )

    def enum(self, name: str, default: Kind) -> Kind:
        """Return the member of the default's kind that has a value."""
        members = {member.value: member for member in type(default)}
        value = self.held.get(name, default.value)
        if not isinstance(value, str) or value not in members:
            expected = ", ".join(members)
            _refuse((*self.path, name), f"{name}: {shown(value)} is not known; expected one of {expected}")
        return members[value]

    def duration(self, name: str, default: timedelta) -> timedelta:
        """Return a duration."""
        return self.read_duration(self.held[name], (*self.path, name)) if name in self.held else default

    def read_duration(self, value: Any, path: Place) -> timedelta:
        """Return what a value at some place says."""
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            _refuse(path, f"{shown(value)} is not a duration such as 5ms")
        found = _make(path, lambda: self._parse_duration(value))
        if not NO_TIME <= found <= LONGEST:
            _refuse(path, f"{shown(value)} is not a duration from 0s to {LONGEST_TEXT}")
        return found


def _topology(root: _Part, seed: int) -> Topology:
    if ("topology" in root.held) == ("links" in root.held):
        _refuse((), "expected a topology or a list of links")
    if "links" in root.held:
        links = _links(root)
        return _make(("links",), lambda: topology_of(links))
    given = root.held["topology"]
    path = ("topology",)
    expected = f"expected one of {', '.join(SHAPES)}, or `links` in place of a topology"
    if not isinstance(given, dict) or "shape" not in given:
        _refuse(path, f"{shown(given)} has no shape; {expected}")
    name = given["shape"]
    if not isinstance(name, str) or name not in SHAPES:
        _refuse((*path, "shape"), f"shape: {shown(name)} is not known; {expected}")
    shape = SHAPES[name]
    part = root.part(given, ("shape", "delay", *shape.numbers), path)
    delay = part.duration("delay", DELAY)
    counts = [part.number(number, 0, most=MOST_BROKERS) for number in shape.numbers]
    if shape.size(*counts) > MOST_BROKERS:
        _refuse(path, f"more than {MOST_BROKERS:,} brokers")
    return _make(path, lambda: shape.make(*counts, delay, seed))


def _links(root: _Part) -> list[Link]:
    given = root.held["links"]
    if not isinstance(given, list):
        _refuse(("links",), f"{shown(given)} is not a list of links such as [porto, lisbon, 5ms]")
    links: list[Link] = []
    for at, link in enumerate(given):
        path = ("links", at)
        if not isinstance(link, list) or len(link) not in (2, 3) or not all(isinstance(end, str) for end in link[:2]):
            _refuse(path, f"{shown(link)} is not a link; expected such as [porto, lisbon, 5ms]")
        links.append(Link(link[0], link[1], root.read_duration(link[2], path) if len(link) == 3 else DELAY))
    return links


def _publishers(given: object, topology: Topology) -> tuple[str, ...]:
    if not isinstance(given, list) or not given:
        _refuse(("publishers",), f"{shown(given)} is not a list of brokers that publishers are at")
    for at, name in enumerate(given):
        _check_broker(name, ("publishers", at), topology)
    return tuple(given)


def _failures(root: _Part, topology: Topology, publications: int) -> tuple[Failure, ...]:
    given = root.held.get("failures", [])
    if not isinstance(given, list):
        _refuse(("failures",), f"{shown(given)} is not a list of crashes and cuts")
    found = tuple(_failure(root, failure, ("failures", at), topology) for at, failure in enumerate(given))
    for at, failure in enumerate(found):
        if any(failure.overlaps(other) for other in found[:at]):
            _refuse(("failures", at), "fails while it has already failed")
        if failure.after >= publications:
            there_are = f"there {'is' if publications == 1 else 'are'} only {counted(publications, 'event')}"
            _refuse(("failures", at), f"fails after {counted(failure.after, 'event')}, but {there_are}")
    return found


def _failure(root: _Part, given: Any, path: Place, topology: Topology) -> Failure:
    if not isinstance(given, dict) or ("crash" in given) == ("cut" in given):
        _refuse(path, f"{shown(given)} is no failure; expected such as {{crash: core1, after: 10, until: 20}}")
    part = root.part(given, ("crash", "cut", "after", "until", "keeps_state"), path)
    after = part.number("after", 0)
    until = part.number("until", after + 1) if "until" in given else None
    keeps = bool(part.checked("keeps_state", False, lambda value: isinstance(value, bool), "true or false"))
    if "crash" in given:
        _check_broker(given["crash"], (*path, "crash"), topology)
        return Failure((given["crash"],), after, until, keeps)
    ends, path = given["cut"], (*path, "cut")
    if not isinstance(ends, list) or len(ends) != 2:
        _refuse(path, f"{shown(ends)} is not a link; expected such as [core0, core1]")
    for name in ends:
        _check_broker(name, path, topology)
    _make(path, lambda: topology.link(*ends))
    return Failure(tuple(ends), after, until, keeps)


def _check_broker(name: Any, path: Place, topology: Topology) -> None:
    if name not in topology.brokers:
        _refuse(path, f"there is no broker {shown(name)}")


def _ranking(root: _Part) -> AudienceRanking:
    given = root.held.get("ranking", {})
    if not isinstance(given, dict):
        _refuse(("ranking",), f"{shown(given)} is not a mapping with scoring and ties")
    part = root.part(given, ("scoring", "ties"), ("ranking",))
    return AudienceRanking(part.enum("scoring", Scoring.NONE), part.enum("ties", Ties.FAIR))


def _group(root: _Part) -> Checking:
    """Return how GroupCover decides: `{by: probabilistic, delta: 1e-6}` or `{by: exact, budget: 100000}`."""
    given, path = root.held.get("group_cover", {}), ("group_cover",)
    if not isinstance(given, dict):
        _refuse(path, f"{shown(given)} is not a mapping with by, budget and delta")
    part = root.part(given, ("by", "budget", "delta"), path)
    budget = part.number("budget", 0, DEFAULT_CHECKING.budget, 10**9)
    delta = part.checked("delta", DEFAULT_CHECKING.delta, _is_share, "a share from 0 to 1")
    return _make(path, lambda: Checking(part.enum("by", DEFAULT_CHECKING.strategy), budget, delta=float(delta)))


def _widths(given: Any) -> tuple[float, float]:
    if not isinstance(given, list) or len(given) != 2 or not all(map(_is_share, given)) or given[0] > given[1]:
        _refuse(("widths",), f"{shown(given)} is not two shares of the domain; expected such as [0.3, 0.6]")
    return float(given[0]), float(given[1])


def _is_number(value: Any, kind: type) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


def _is_share(value: Any) -> bool:
    return (_is_number(value, int) or _is_number(value, float)) and 0 <= value <= 1


def _make(path: Place, make: Callable[[], Made]) -> Made:
    try:
        return make()
    except RankcastError as error:
        _refuse(path, str(error))


def _refuse(path: Place, message: str) -> NoReturn:
    raise InvalidPartsError({path: message})


def advertisement_of(plan: SimulationPlan, publisher: int = 0) -> Advertisement:
    """Return what a publisher of a plan advertises: values of one attribute, and how far they should reach."""
    wanted = Filter.of(attr("a0").between(0.0, 1.0))
    return Advertisement(AdvertisementId(f"simulated {publisher}"), f"/simulated/{publisher}", wanted, k=plan.k)


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
