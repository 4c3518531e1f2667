"""Nodes of the poset that an event is compared with, when all matches are needed and when one per subscriber is enough.

Ranked delivery needs every matching subscription of a subscriber, since the best of their ranks counts. Without ranks
one is enough. The thesis does not say how its unranked walk ends, so two are measured:

- `own roots`: a subscription that another one of the same subscriber covers is not kept at all, as SIENA does it;
- `first match`: everything is kept, and the walk goes on only while somebody below has no match yet.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rankcast.covering.poset import Poset
from rankcast.model.filters import Filter
from rankcast.model.values import Value
from rankcast_lab.workloads.preferences import Film, SubscriptionGenerator


class Graph(NamedTuple):
    """How many subscribers a server has, and how many subscriptions each."""

    subscribers: int
    subscriptions: int

    def __str__(self) -> str:
        return f"{self.subscribers} x {self.subscriptions}"


@dataclass(frozen=True, slots=True)
class Visits:
    """Nodes asked per event, on average: all, by a ranked walk, and by both walks without ranks."""

    nodes: float
    ranked: float
    own_roots: float
    first_match: float


class FirstMatchWalk:
    """Finds who has a filter that accepts an event, and asks as few nodes of a poset as that takes."""

    def __init__(self, poset: Poset) -> None:
        self._poset = poset
        self._below: dict[int, frozenset[Hashable]] = {}
        for root in poset.roots:
            self._members_below(root)

    def _members_below(self, node: int) -> frozenset[Hashable]:
        """Return who has the filter of a node or of one below it."""
        if node not in self._below:
            below = (self._members_below(child) for child in self._poset.children(node))
            self._below[node] = frozenset(self._poset.members(node)).union(*below)
        return self._below[node]

    def walk(self, attributes: Mapping[str, Value]) -> tuple[set[Hashable], int]:
        """Return who has a match, and how many nodes were asked; the roots come first, then level by level."""
        waiting = deque(sorted(self._poset.roots))
        seen = set(waiting)
        found: set[Hashable] = set()
        asked = 0
        while waiting:
            node = waiting.popleft()
            if self._below[node] <= found:
                continue
            asked += 1
            if self._poset.filter(node).accepts(attributes):
                found.update(self._poset.members(node))
                new = self._poset.children(node) - seen
                seen |= new
                waiting.extend(sorted(new))
        return found, asked


def posets(filters: Sequence[Filter], graph: Graph) -> tuple[Poset, Poset]:
    """Return the poset of all subscriptions, and that of those which no other of the same subscriber covers."""
    everything, own_roots = Poset(), Poset()
    for subscriber in range(graph.subscribers):
        own = Poset()
        for wanted in filters[subscriber * graph.subscriptions : (subscriber + 1) * graph.subscriptions]:
            everything.add(subscriber, wanted)
            own.add(subscriber, wanted)
        for root in sorted(own.roots):
            own_roots.add(subscriber, own.filter(root))
    return everything, own_roots


def visits(
    generator: SubscriptionGenerator, films: Sequence[Film], graph: Graph, events: int, random: np.random.Generator
) -> Visits:
    """Draw subscriptions and events, and count."""
    everything, own_roots = posets(generator.filters(graph.subscribers * graph.subscriptions, random), graph)
    drawn = [films[at].attributes() for at in random.integers(0, len(films), events).tolist()]
    first_match = FirstMatchWalk(everything)
    return Visits(
        len(everything),
        float(np.mean([everything.walk(event).visited for event in drawn])),
        float(np.mean([own_roots.walk(event).visited for event in drawn])),
        float(np.mean([first_match.walk(event)[1] for event in drawn])),
    )
