"""Matching in the poset, ranked and unranked: nodes that an event is compared with.

The thesis reports that ranked delivery compares events with twice as many nodes, on average over graphs whose sizes it
does not give. The factor depends on them, so what can be said is where it is 2.
Thesis: PrefSIENA, chapter 5 and Figure 6.9a.

Nodes of the poset that an event is compared with, when all matches are needed and when one per subscriber is enough.
Ranked delivery needs every matching subscription of a subscriber, since the best of their ranks counts. Without ranks
one is enough. The thesis does not say how its unranked walk ends, so two are measured:

- `own roots`: a subscription that another one of the same subscriber covers is not kept at all, as SIENA does it;
- `first match`: everything is kept, and the walk goes on only while somebody below has no match yet.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from rankcast.covering.topk.poset import Poset
from rankcast.model.filters import Filter
from rankcast.model.values import Value
from rankcast.plotting import BLACK, BLUE, GREEN, ORANGE, mark_numbers, tidy
from rankcast_lab.studies.findings import Finding, Outcome, Settings
from rankcast_lab.workloads.preferences import Constants, Film, Popularity, SubscriptionGenerator, generated_films

# Walks


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


# The study

ONE_SUBSCRIBER = tuple(Graph(1, size) for size in (10, 20, 50, 100, 200))
SERVERS = (Graph(10, 10), Graph(10, 40), Graph(40, 10))
EVENTS, SEEDS = 300, 5
QUICK_EVENTS, QUICK_SEEDS = 100, 2
TWICE = 2.0

Measured: TypeAlias = Mapping[tuple[Constants, Graph], Visits]


def run(settings: Settings) -> Outcome:
    """Measure graphs of one subscriber and of many, by both generators of subscriptions."""
    films = generated_films(settings.seed)
    events, seeds = (QUICK_EVENTS, QUICK_SEEDS) if settings.quick else (EVENTS, SEEDS)
    measured: dict[tuple[Constants, Graph], Visits] = {}
    for constants in Constants:
        for graph in (*ONE_SUBSCRIBER, *SERVERS):
            settings.say(f"{constants.value}, {graph}")
            measured[constants, graph] = _mean_visits(constants, films, graph, events, seeds, settings.seed)
    return Outcome(
        "covering-matching",
        "Nodes of the poset that an event is compared with",
        tuple(findings(measured)),
        _remarks(measured, events, seeds),
        lambda figure: _draw(figure, measured),
    )


def _mean_visits(
    constants: Constants, films: Sequence[Film], graph: Graph, events: int, seeds: int, seed: int
) -> Visits:
    generator = SubscriptionGenerator(Popularity.of(films), constants)
    runs = [visits(generator, films, graph, events, np.random.default_rng((seed, number))) for number in range(seeds)]
    columns = ("nodes", "ranked", "own_roots", "first_match")
    return Visits(*(float(np.mean([getattr(one, column) for one in runs])) for column in columns))


def findings(measured: Measured) -> Iterator[Finding]:
    """Yield the rows: graphs of one subscriber together first, then each graph."""
    for constants in Constants:
        own = [measured[constants, graph] for graph in ONE_SUBSCRIBER]
        sizes = f"{ONE_SUBSCRIBER[0].subscriptions} to {ONE_SUBSCRIBER[-1].subscriptions} of one subscriber"
        for walk, ratios in _ratios(own).items():
            name = f"{constants.value}, {sizes}: ranked / {walk}"
            yield Finding(name, TWICE, f"{min(ratios):.2f} to {max(ratios):.2f}", min(ratios) <= TWICE <= max(ratios))
            yield Finding(f"{name}: twice at", None, _size_of_twice(ratios), None)
    for (constants, graph), one in measured.items():
        name = f"{constants.value}, {graph}"
        yield Finding(f"{name}: ranked walk asks, % of nodes", None, 100 * one.ranked / one.nodes, None)
        for walk, ratios in _ratios([one]).items():
            yield Finding(f"{name}: ranked / {walk}", None, ratios[0], None)


def _size_of_twice(ratios: Sequence[float]) -> float | str:
    """Return with how many subscriptions of one subscriber the factor is 2, between the sizes that were measured."""
    sizes = [graph.subscriptions for graph in ONE_SUBSCRIBER]
    if not ratios[0] <= TWICE <= ratios[-1]:
        return "-"
    return float(np.exp(np.interp(np.log(TWICE), np.log(ratios), np.log(sizes))))


def _ratios(some: Sequence[Visits]) -> dict[str, list[float]]:
    return {
        "own roots": [one.ranked / one.own_roots for one in some],
        "first match": [one.ranked / one.first_match for one in some],
    }


def _remarks(measured: Measured, events: int, seeds: int) -> tuple[str, ...]:
    skipped = [1 - one.ranked / one.nodes for one in measured.values()]
    servers = [one for (_, graph), one in measured.items() if graph in SERVERS]
    low, high = (pick(_ratios(servers)["own roots"]) for pick in (min, max))
    return (
        f"Subscriptions and events are those of the thesis' generators on generated films; means over {seeds} draws of "
        f'{events} events each. "10 x 40" is a server of 10 subscribers with 40 subscriptions each.',
        "A ranked walk has to find every match. What it is compared with is not said: `own roots` does not keep a "
        "subscription that another one of the same subscriber covers, `first match` keeps all and stops asking for a "
        "subscriber that has a match.",
        "The factor is no constant: it grows with the subscriptions of one subscriber, and the published 2 is one "
        f"place on the way. On servers of many it is {low:.1f} to {high:.1f} (own roots), the less the fewer "
        "subscriptions each of them has: with one each there is nothing to save. The ranked walk itself skips "
        f"{min(skipped):.0%} to {max(skipped):.0%} of the nodes.",
    )


def _draw(figure: Any, measured: Measured) -> None:
    panels = figure.subplots(1, 2, sharey=True)
    for panel, constants in zip(panels, Constants, strict=True):
        own = [measured[constants, graph] for graph in ONE_SUBSCRIBER]
        sizes = [graph.subscriptions for graph in ONE_SUBSCRIBER]
        lines = {
            "all nodes": (BLACK, ".:", [one.nodes for one in own]),
            "ranked: every match": (BLUE, "o-", [one.ranked for one in own]),
            "unranked: own roots": (ORANGE, "s-", [one.own_roots for one in own]),
            "unranked: first match": (GREEN, "^-", [one.first_match for one in own]),
        }
        for name, (colour, style, values) in lines.items():
            panel.plot(sizes, values, style, color=colour, label=name)
        panel.set_xscale("log")
        panel.set_yscale("log")
        mark_numbers(panel.xaxis, sizes)
        mark_numbers(panel.yaxis, [1, 2, 5, 10, 20, 50, 100, 200])
        tidy(panel, f"One subscriber, {constants.value} constants", "subscriptions", "")
    panels[0].set_ylabel("nodes asked per event")
    panels[0].legend(frameon=False)
