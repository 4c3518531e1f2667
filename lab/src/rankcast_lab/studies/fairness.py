"""Fairness of top-k publishing: who gets a publication of which k copies go out. Figure 6 of the paper.

Every scheme against k and against the distance from the publisher, with the noise that even a fair draw has; what
weights are worth while they are stale; and what each scheme costs in messages and tables.
Paper: efficient covering for top-k filtering in content-based publish/subscribe systems.

How far deliveries are from fair when publications go to k of their matches, through simulated overlays. Five core
brokers in a chain with five edge brokers each; 250 subscribers, ten at each edge; the publisher at the first core
broker. Fair is what a draw among all matches gives on average: the expectation of a subscription is the sum of k /
matches over the publications that match it. Unfairness is the sum of the differences to that over all subscriptions. It
is never 0: a fair draw has its own noise, which RegularK, knowing everybody, shows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from rankcast.arrays import Array
from rankcast.model.errors import counted
from rankcast.overlay.broker import Settings as BrokerSettings
from rankcast.overlay.routing.strategies import Strategy, Weighing
from rankcast.overlay.simulation.ranges import Ranges, ranges
from rankcast.overlay.simulation.simulator import Simulation
from rankcast.overlay.simulation.topologies import chain
from rankcast.plotting import BLACK, BLUE, GREEN, ORANGE, PURPLE, RED, tidy
from rankcast_lab.studies.findings import Finding, Outcome, Picture, Settings
from rankcast_lab.studies.parallel import each
from rankcast_lab.workloads.overlays import NAME, Audience, subscriber_of

# Runs


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
    def settings(self) -> BrokerSettings:
        """How brokers are set up for it."""
        strategy = {
            Scheme.REGULAR: Strategy.REGULAR_K,
            Scheme.RANDOM: Strategy.ANCESTOR_COVER_K,
            Scheme.EXACT: Strategy.EXACT_FAIR,
        }.get(self, Strategy.ANCESTOR_FAIR_K)
        weighing = Weighing.DESCENDANTS if self is Scheme.LITERAL else Weighing.SPLIT
        is_fresh = self is not Scheme.UNREFRESHED
        return BrokerSettings(strategy, weighing, weigh=is_fresh, heartbeat=HEARTBEAT, link_lease=1000 * HEARTBEAT)


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


def tables(settings: BrokerSettings, k: int | None, seed: int) -> dict[str, list[tuple[str, str]]]:
    """Return what each broker knows, and from where."""
    audience, _ = audience_of(seed)
    overlay = audience.advertised(settings, k)
    audience.subscribe(overlay)
    return {
        name: sorted((record.interest.key.subscriber, record.source or "") for record in broker.routing.table)
        for name, broker in overlay.brokers.items()
    }


# Pictures

STYLES: Mapping[Scheme, tuple[str, str]] = {
    Scheme.LITERAL: (RED, "s-"),
    Scheme.RANDOM: (ORANGE, "^-"),
    Scheme.UNREFRESHED: (PURPLE, "v--"),
    Scheme.SPLIT: (BLUE, "o-"),
    Scheme.EXACT: (GREEN, "D-"),
    Scheme.REGULAR: (BLACK, "x:"),
}
NOISE = f"{Scheme.REGULAR.value}: the noise"


def draw_fairness(figure: Any, runs: Mapping[tuple[Scheme, int], Sequence[Fairness]], ks: Sequence[int]) -> None:
    """Draw unfairness against k, and that of a subscription against its distance."""
    left, right = figure.subplots(1, 2)
    for scheme, (colour, style) in STYLES.items():
        values = [np.array([one.unfairness for one in runs[scheme, k]]) for k in ks]
        means, spread = [some.mean() for some in values], [some.std() for some in values]
        label = NOISE if scheme is Scheme.REGULAR else scheme.value
        left.errorbar(ks, means, spread, fmt=style, color=colour, markersize=4, capsize=3, label=label)
        rows = np.array([one.by_distance for k in ks for one in runs[scheme, k]])
        right.plot(range(1, CORES + 1), rows.mean(axis=0), style, color=colour, markersize=4, label=label)
    left.set_xticks(list(ks))
    right.set_xticks(range(1, CORES + 1))
    left.set_ylim(bottom=0)
    right.set_ylim(bottom=0)
    tidy(left, "All subscriptions (bars: deviation over seeds)", "k", "sum of differences to the fair expectation")
    tidy(right, "One subscription, mean over k", "core brokers between it and the publisher", "difference")
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False, fontsize=9)


def draw_staleness(figure: Any, stale: Mapping[Scheme, Sequence[tuple[Staleness, ...]]], k: int) -> None:
    """Draw unfairness after a change, heartbeat by heartbeat."""
    left, right = figure.subplots(1, 2)
    for scheme, found in stale.items():
        colour, style = STYLES[scheme]
        label = NOISE if scheme is Scheme.REGULAR else scheme.value
        unfair, weights = np.moveaxis(np.array(found, float), 2, 0)
        left.plot(AFTER, unfair.mean(axis=0), style, color=colour, markersize=4, label=label)
        if scheme is not Scheme.REGULAR:
            wrong = np.abs(weights - SUBSCRIBERS).mean(axis=0)
            right.plot(AFTER, wrong, style, color=colour, markersize=4)
    for panel in (left, right):
        panel.set_xticks(AFTER)
        panel.set_ylim(bottom=0)
    tidy(left, f"Half of {SUBSCRIBERS} subscribers replaced, k={k}", "heartbeats since", "sum of differences")
    tidy(right, "Weights at the publisher's broker", "heartbeats since", "sum of weights wrong by")
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False, fontsize=9)


# The study

NEAR = 0.03
"""How far ExactFair may be from the noise of RegularK."""

BETTER = 1.8
"""How many times fairer than AncestorCoverK the split weights have to be, for k of at least 2."""

TIMES, IMPROVED, BEST_DISTANCE = 2.24, 20.18, 3
"""Published: AncestorFairK is fairer by 224% on average; AncestorCoverK improves by 20.18% from k=1 to k=2; both are
fairest at a distance of 3."""


DIGITS = 9
"""After the point, of sums of weights: what is beyond is the noise of adding floats."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured: seeds of the two that are compared closely, and of the others; is it enough to judge?"""

    ks: tuple[int, ...]
    publications: int
    close: int
    others: int
    stale_k: int
    is_judged: bool


FULL = Size((1, 2, 3, 4, 5), 1000, 100, 20, 3, is_judged=True)
QUICK = Size((1, 2), 40, 1, 1, 2, is_judged=False)
CLOSE = (Scheme.REGULAR, Scheme.EXACT)
STALE = (Scheme.REGULAR, Scheme.SPLIT, Scheme.UNREFRESHED)
TABLE_SEEDS = 3

Runs = Mapping[tuple[Scheme, int], Sequence[Fairness]]
Stale = Mapping[Scheme, Sequence[tuple[Staleness, ...]]]


def run(settings: Settings) -> Outcome:
    """Measure all schemes; 100 seeds where 3% count."""
    size = QUICK if settings.quick else FULL
    first = 100 * settings.seed
    pieces = [
        Piece(scheme, k, seed, size.publications)
        for scheme in reversed(Scheme)
        for k in reversed(size.ks)
        for seed in range(first, first + (size.close if scheme in CLOSE else size.others))
    ]
    runs: dict[tuple[Scheme, int], list[Fairness]] = {(scheme, k): [] for scheme in Scheme for k in size.ks}
    for piece, found in zip(pieces, each(measured, pieces, settings.say, apart=not settings.quick), strict=True):
        runs[piece.scheme, piece.k].append(found)
    seeds = range(first, first + size.others)
    changes = [Piece(scheme, size.stale_k, seed, size.publications) for scheme in STALE for seed in seeds]
    stale: dict[Scheme, list[tuple[Staleness, ...]]] = {scheme: [] for scheme in STALE}
    for piece, after in zip(changes, each(staleness, changes, settings.say, apart=not settings.quick), strict=True):
        stale[piece.scheme].append(after)
    return Outcome(
        "fairness",
        "Fairness of top-k publishing",
        (*findings(runs, size), *_table_findings(size, first), *_stale_findings(stale, size)),
        _remarks(size),
        lambda figure: draw_fairness(figure, runs, size.ks),
        size=(12.0, 5.2),
        further=(
            Picture(
                "staleness",
                "Weights that are stale",
                lambda figure: draw_staleness(figure, stale, size.stale_k),
                size=(11.0, 4.8),
            ),
        ),
    )


def findings(runs: Runs, size: Size) -> Iterator[Finding]:
    """Yield unfairness, what it has to be, and what it costs."""
    means = {place: float(np.mean([one.unfairness for one in found])) for place, found in runs.items()}
    for k in size.ks:
        for scheme in Scheme:
            yield Finding(f"k={k}: {scheme.value}: unfairness", None, means[scheme, k], None)
        ratio = means[Scheme.EXACT, k] / means[Scheme.REGULAR, k]
        holds = abs(ratio - 1) <= NEAR if size.is_judged else None
        yield Finding(f"k={k}: ExactFair / RegularK, within {NEAR:.0%}", None, ratio, holds)
        gain = means[Scheme.RANDOM, k] / means[Scheme.SPLIT, k]
        holds = gain >= BETTER if k > 1 and size.is_judged else None
        yield Finding(f"k={k}: AncestorCoverK / AncestorFairK, at least {BETTER} from k=2", None, gain, holds)
    if size.is_judged:
        yield from _published(means, runs, size)
    most = size.ks[-1]
    for scheme in Scheme:
        found = runs[scheme, most]
        yield from _costs(f"k={most}: {scheme.value}", found)


def _published(means: Mapping[tuple[Scheme, int], float], runs: Runs, size: Size) -> Iterator[Finding]:
    for scheme in (Scheme.LITERAL, Scheme.SPLIT):
        gain = float(np.mean([means[Scheme.RANDOM, k] / means[scheme, k] for k in size.ks]))
        yield Finding.near(f"AncestorCoverK / {scheme.value}, mean over k", TIMES, gain, margin=0.1 * TIMES)
    better = 100 * (1 - means[Scheme.RANDOM, 2] / means[Scheme.RANDOM, 1])
    yield Finding.near("AncestorCoverK: less unfair at k=2 than at k=1, %", IMPROVED, better, margin=5)
    for scheme in (Scheme.RANDOM, Scheme.SPLIT):
        fairest = int(np.argmin(distances(runs, scheme, size.ks))) + 1
        quantity = f"{scheme.value}: fairest distance, in core brokers"
        yield Finding(quantity, BEST_DISTANCE, float(fairest), fairest == BEST_DISTANCE)


def distances(runs: Runs, scheme: Scheme, ks: Sequence[int]) -> list[float]:
    """Return the unfairness of a subscription by its distance, on average over k."""
    rows = [one.by_distance for k in ks for one in runs[scheme, k]]
    return [float(np.mean([row[at] for row in rows])) for at in range(CORES)]


def _costs(name: str, found: Sequence[Fairness]) -> Iterator[Finding]:
    sent = {kind: float(np.mean([one.messages[kind] for one in found])) for kind in found[0].messages}
    yield Finding(f"{name}: messages per publication", None, sum(sent.values()), None)
    yield Finding(f"{name}: of these, counts", None, sent["CountQuery"] + sent["CountReply"], None)
    yield Finding(f"{name}: told to the publisher's broker", None, float(np.mean([one.told for one in found])), None)
    yield Finding(f"{name}: known at all brokers", None, float(np.mean([one.known for one in found])), None)


def _table_findings(size: Size, first: int) -> Iterator[Finding]:
    plain = BrokerSettings(Strategy.REGULAR_COVER)
    seeds = range(first, first + TABLE_SEEDS)
    cases = [(k, seed) for k in size.ks for seed in seeds]
    equal = sum(tables(Scheme.EXACT.settings, k, seed) == tables(plain, None, seed) for k, seed in cases)
    quantity = "ExactFair's tables are RegularCover's, at every broker"
    yield Finding(quantity, None, f"{equal} of {len(cases)}", equal == len(cases))


def _stale_findings(stale: Stale, size: Size) -> Iterator[Finding]:
    for at, heartbeats in enumerate(AFTER):
        ago = f"{counted(heartbeats, 'heartbeat')} ago"
        for scheme, found in stale.items():
            quantity = f"k={size.stale_k}, half replaced {ago}: {scheme.value}"
            yield Finding(quantity, None, float(np.mean([one[at].unfairness for one in found])), None)
            if scheme is not Scheme.REGULAR:
                total = round(float(np.mean([abs(one[at].weight - SUBSCRIBERS) for one in found])), DIGITS)
                yield Finding(f"{quantity}: weights wrong by", None, total, None)


def _remarks(size: Size) -> tuple[str, ...]:
    return (
        "Five core brokers in a chain with five edge brokers each, 250 subscribers with one range of 30% to 60% of the "
        f"domain, ten at each edge; the publisher at the first core broker, {size.publications:,} publications. "
        "Unfairness is the sum over subscriptions of the difference between what each gets and what it should expect "
        "from a draw among all matches. A fair draw differs too: RegularK, which knows everybody, is the noise. "
        f"RegularK and ExactFair are means over {counted(size.close, 'seed')}, the others over {size.others}.",
        "Literal weights count all descendants that a broker knows; a hidden one then counts for each forwarded one "
        "above it. AncestorFairK without more words splits it evenly among them. The paper's own figure gives no "
        "numbers beside the ones in the rows.",
        "Weights travel with subscriptions, and are refreshed at heartbeats, hop by hop. To show them stale, half of "
        "the subscribers are replaced by others; publications go out before the next heartbeat, and after more and "
        f"more of them; k={size.stale_k}. Split weights add up to all subscriptions when they are fresh: how much the "
        "sum at the publisher's broker is wrong says how stale they are.",
    )
