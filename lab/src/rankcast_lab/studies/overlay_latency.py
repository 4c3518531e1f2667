"""Latency of top-k publishing through an overlay, against k and the number of subscriptions. Figures 7 and 8.

Links are simulated, the work of brokers is measured. The paper ran PADRES on sixty machines and gives its curves
without a table; what can be compared are its statements.
Paper: efficient covering for top-k filtering in content-based publish/subscribe systems.

How long a publication takes through a simulated overlay, from the publisher to each subscriber that gets it. Simulated:
links, each of which takes one millisecond, and waiting at a broker that is busy. Measured: the CPU time that a broker
really takes for each message, matching and choosing included. Publications come one at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from time import process_time
from typing import Any, NamedTuple

import numpy as np

from rankcast.model.errors import counted
from rankcast.overlay.broker import Settings as BrokerSettings
from rankcast.overlay.routing.strategies import Strategy
from rankcast.overlay.simulation.ranges import ranges
from rankcast.overlay.simulation.simulator import Simulation
from rankcast.overlay.simulation.topologies import DELAY, chain
from rankcast.plotting import BLACK, BLUE, GREEN, ORANGE, tidy
from rankcast_lab.studies.findings import Finding, Outcome, Settings
from rankcast_lab.workloads.overlays import Audience

# Runs

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
    overlay = audience.advertised(BrokerSettings(case.strategy), case.k, seed=seed, stopwatch=process_time)
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


# The study

GAIN = 25.0
"""Percent by which covering is published to improve the latency, on average over k."""

SHARE = 0.01
"""K as a share of the subscriptions where their number varies."""

STYLES: Mapping[Strategy, tuple[str, str]] = dict(
    zip(STRATEGIES, ((BLACK, "x:"), (ORANGE, "^-"), (BLUE, "o-"), (GREEN, "D-")), strict=True)
)


@dataclass(frozen=True, slots=True)
class Size:
    """The k for each number of subscriptions, the numbers compared at one selectivity, publications, seeds."""

    ks: Mapping[int, tuple[int, ...]]
    counts: tuple[int, ...]
    publications: int
    seeds: int


FULL = Size({250: (1, 2, 3, 4, 5), 500: (1, 2, 4, 6, 8, 10)}, (250, 500, 1000, 2000), 150, 2)
QUICK = Size({60: (1, 2)}, (60, 100), 10, 1)

Found = Mapping[Case, Latency]


def run(settings: Settings) -> Outcome:
    """Measure the four strategies."""
    size = QUICK if settings.quick else FULL
    cases = {Case(one, count, k) for count, ks in size.ks.items() for k in ks for one in STRATEGIES}
    cases |= {Case(one, count, k_of(count)) for count in size.counts for one in STRATEGIES}
    found: dict[Case, Latency] = {}
    for case in sorted(cases, key=lambda one: (one.subscriptions, one.k, STRATEGIES.index(one.strategy))):
        settings.say(f"{case.subscriptions:,} subscriptions, k={case.k}: {case.strategy.value}")
        seeds = range(10 * settings.seed, 10 * settings.seed + size.seeds)
        found[case] = _mean([measured(case, seed, size.publications) for seed in seeds])
    return Outcome(
        "overlay-latency",
        "Latency of top-k publishing",
        tuple(findings(found, size)),
        _remarks(size),
        lambda figure: draw(figure, found, size),
        size=(12.0, 8.6),
    )


def k_of(count: int) -> int:
    """Return the k that numbers of subscriptions are compared at."""
    return max(1, round(SHARE * count))


def _mean(some: Sequence[Latency]) -> Latency:
    rows = [(one.mean, one.half, one.most, one.links, one.busy) for one in some]
    return Latency(*(float(value) for value in np.mean(rows, axis=0)))


def findings(found: Found, size: Size) -> Iterator[Finding]:
    """Yield what the paper says, then everything that was measured."""
    is_full = size is FULL
    for count, ks in size.ks.items():
        yield from _statements(found, count, ks, is_full=is_full)
    for case, latency in found.items():
        name = f"{case.subscriptions:,}, k={case.k}: {case.strategy.value}"
        yield Finding(f"{name}: mean, ms", None, latency.mean, None)
        yield Finding(f"{name}: 50% / 99% within, ms", None, f"{latency.half:.2f} / {latency.most:.2f}", None)
        yield Finding(f"{name}: of the mean, links, ms", None, latency.links, None)
        yield Finding(f"{name}: CPU of all brokers, ms", None, latency.busy, None)


def _statements(found: Found, count: int, ks: Sequence[int], *, is_full: bool) -> Iterator[Finding]:
    def gains(strategy: Strategy, part: str = "mean") -> list[float]:
        pairs = [(found[Case(strategy, count, k)], found[Case(Strategy.REGULAR_K, count, k)]) for k in ks]
        return [100 * (1 - getattr(one, part) / getattr(regular, part)) for one, regular in pairs]

    covering = gains(Strategy.ANCESTOR_COVER_K)
    first = f"{count:,}: AncestorCoverK faster than RegularK"
    yield Finding(f"{first} at k={ks[0]}, %", "above 0", covering[0], covering[0] > 0 if is_full else None)
    yield Finding.near(f"{first}, mean over k, %", GAIN if is_full else None, float(np.mean(covering)), margin=10)
    lessens = covering[-1] < covering[0]
    yield Finding(f"{first} at k={ks[-1]}, %", "less than at first", covering[-1], lessens if is_full else None)
    small = [gain for k, gain in zip(ks, gains(Strategy.ANCESTOR_FAIR_K), strict=True) if k < SHARE * count]
    for part, name in (("links", "fewer links on the way"), ("beyond", "less work on the way")):
        less = float(np.mean(gains(Strategy.ANCESTOR_COVER_K, part)))
        yield Finding(f"{count:,}: AncestorCoverK: {name} than RegularK, mean over k, %", None, less, None)
    for least in [min(small)] if small else []:
        quantity = f"{count:,}: AncestorFairK faster than RegularK for k below 1%, at least %"
        yield Finding(quantity, "above 0", least, least > 0 if is_full else None)


def draw(figure: Any, found: Found, size: Size) -> None:
    """Draw latency against k for each number of subscriptions, and latency and work against that number."""
    panels = figure.subplots(2, 2)
    for panel, (count, ks) in zip(panels[0], size.ks.items(), strict=False):
        for strategy, (colour, style) in STYLES.items():
            means = [found[Case(strategy, count, k)].mean for k in ks]
            panel.plot(ks, means, style, color=colour, markersize=4, label=strategy.value)
        panel.set_xticks(ks)
        tidy(panel, f"{count:,} subscriptions", "k", "mean latency, ms")
    for panel in panels[0][len(size.ks) :]:
        panel.set_visible(False)
    for panel, name, up in zip(
        panels[1], ("mean", "busy"), ("mean latency, ms", "CPU of all brokers per publication, ms"), strict=True
    ):
        for strategy, (colour, style) in STYLES.items():
            values = [getattr(found[Case(strategy, count, k_of(count))], name) for count in size.counts]
            panel.plot(size.counts, values, style, color=colour, markersize=4)
        tidy(panel, f"k = {SHARE:.0%} of the subscriptions", "subscriptions", up)
    for panel in panels.flat:
        panel.set_ylim(bottom=0)
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)


def _remarks(size: Size) -> tuple[str, ...]:
    return (
        "Simulated: five core brokers in a chain with five edge brokers each; every link takes "
        f"{DELAY.total_seconds() * 1e3:g} ms, and a message waits at a broker that is busy. Measured: the CPU time a "
        "broker takes for each message in this process, which keeps it busy for so long. One publisher, one "
        f"publication every {APART.total_seconds():g} s, {size.publications} of them after a warm-up, "
        f"{counted(size.seeds, 'seed')}. Latency is from publication to delivery, on average over deliveries.",
        "The paper measured PADRES, in Java, on sixty machines of a LAN. Milliseconds cannot be compared, statements "
        "can. Its brokers took most of the time, here links do. Part of what AncestorCoverK gains is unfairness: it "
        "prefers subscribers nearby, so there are fewer links on the way. ExactFair waits for counts from as far as "
        "matches are hidden before anything is sent: up to three times the way.",
    )
