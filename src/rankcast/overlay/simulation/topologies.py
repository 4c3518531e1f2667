"""How brokers are joined: trees, such as a chain of core brokers with edge brokers around each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import numpy as np

from rankcast.model.errors import InvalidValueError, UnknownIdError, shown

DELAY = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Link:
    """Two brokers, and how long a message takes from one to the other."""

    one: str
    other: str
    delay: timedelta = DELAY

    def __post_init__(self) -> None:
        if self.delay < timedelta(0):
            raise InvalidValueError(f"delay: {self.delay} of {self.one}-{self.other} is below 0")


@dataclass(frozen=True, slots=True)
class Topology:
    """A tree of brokers.

    >>> star(3).hops("edge0", "edge2")
    2
    """

    brokers: tuple[str, ...]
    links: tuple[Link, ...]
    _joined: dict[str, dict[str, Link]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.brokers or len(set(self.brokers)) < len(self.brokers):
            raise InvalidValueError("brokers: expected at least one, each name once")
        joined: dict[str, dict[str, Link]] = {name: {} for name in self.brokers}
        for link in self.links:
            for here, there in ((link.one, link.other), (link.other, link.one)):
                if here not in joined:
                    raise InvalidValueError(f"links: there is no broker {shown(here)}")
                joined[here][there] = link
        object.__setattr__(self, "_joined", joined)
        if len(self.links) != len(self.brokers) - 1 or len(self._distances(self.brokers[0])) != len(self.brokers):
            raise InvalidValueError(
                f"links: {len(self.links)} links do not join {len(self.brokers)} brokers to a tree; "
                "expected one way between any two"
            )

    @property
    def edges(self) -> tuple[str, ...]:
        """The brokers with one neighbour; the only broker of one."""
        return tuple(name for name in self.brokers if len(self._joined[name]) <= 1)

    def neighbours(self, broker: str) -> tuple[str, ...]:
        """Return the brokers that one is joined to."""
        return tuple(self._of(broker))

    def link(self, one: str, other: str) -> Link:
        """Return the link of two neighbours."""
        found = self._of(one).get(other)
        if found is None:
            raise UnknownIdError(f"there is no link between {shown(one)} and {shown(other)}")
        return found

    def hops(self, one: str, other: str) -> int:
        """Return the number of links between two brokers."""
        self._of(other)
        return self._distances(one)[other]

    def _of(self, broker: str) -> dict[str, Link]:
        if broker not in self._joined:
            raise UnknownIdError(f"there is no broker {shown(broker)}")
        return self._joined[broker]

    def _distances(self, start: str) -> dict[str, int]:
        self._of(start)
        found, waiting = {start: 0}, [start]
        for here in waiting:
            for there in self._joined[here]:
                if there not in found:
                    found[there] = found[here] + 1
                    waiting.append(there)
        return found


def chain(cores: int, edges: int, delay: timedelta = DELAY) -> Topology:
    """Return a chain of core brokers `core0`, `core1`, ..., each with edge brokers: `edge0.0`, `edge0.1`, ..."""
    _check_count("cores", cores, 1)
    _check_count("edges", edges, 0)
    links = [Link(f"core{at}", f"core{at + 1}", delay) for at in range(cores - 1)]
    links += [Link(f"core{at}", f"edge{at}.{number}", delay) for at in range(cores) for number in range(edges)]
    return topology_of(links, first=[f"core{at}" for at in range(cores)])


def star(edges: int, delay: timedelta = DELAY) -> Topology:
    """Return one core broker with edge brokers: `core`, `edge0`, `edge1`, ..."""
    _check_count("edges", edges, 0)
    return topology_of([Link("core", f"edge{at}", delay) for at in range(edges)], first=["core"])


def balanced_tree(branching: int, depth: int, delay: timedelta = DELAY) -> Topology:
    """Return a tree of so many levels below its root `b`, whose children are `b.0`, `b.1`, ..."""
    _check_count("branching", branching, 1)
    _check_count("depth", depth, 0)
    links: list[Link] = []
    level = ["b"]
    for _ in range(depth):
        below = [(parent, f"{parent}.{at}") for parent in level for at in range(branching)]
        links += [Link(parent, child, delay) for parent, child in below]
        level = [child for _, child in below]
    return topology_of(links, first=["b"])


def random_tree(brokers: int, random: np.random.Generator, delay: timedelta = DELAY) -> Topology:
    """Return a tree in which each broker but the first is joined to any earlier one: `b0`, `b1`, ..."""
    _check_count("brokers", brokers, 1)
    links = [Link(f"b{random.integers(at)}", f"b{at}", delay) for at in range(1, brokers)]
    return topology_of(links, first=["b0"])


def topology_of(links: Sequence[Link], first: Iterable[str] = ()) -> Topology:
    """Return what some links join; brokers come in the order of the links, but for those that come first."""
    names = dict.fromkeys([*first, *(name for link in links for name in (link.one, link.other))])
    return Topology(tuple(names), tuple(links))


def _check_count(name: str, value: int, least: int) -> None:
    if value < least:
        raise InvalidValueError(f"{name}: {value} is not a whole number of at least {least}")
