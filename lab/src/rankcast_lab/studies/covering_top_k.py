"""Top-k covering: which share of the subscriptions reaches the publisher's edge broker. Figure 5 of the paper.

Published numbers hold when the mean over seeds differs by at most 0.15 points or 2%, whichever is more.
Paper: efficient covering for top-k filtering in content-based publish/subscribe systems.

Depth by one parent: what the published numbers of RankCoverK seem to rest on. For the study only. In a graph of
neighbours (the Hasse diagram of covering) a subscription usually has several parents. The paper takes "the depth in the
poset" without saying by which of them. Three readings, of one attribute:

- `LONGEST`: the longest chain above, plus 1. It belongs to the order itself, and hides only what k others outrank.
- `ANY`: one more than the depth of one parent, chosen at random. It depends on how the graph happens to be stored.
- `SHORTEST`: one more than the least deep parent.

With the last two, a broker that sees only what others forwarded finds other depths than one that sees everything: what
arrives upstream depends on the way and on how graphs are stored. Cost: each range looks back over all before it, n^2/2
comparisons.

Which share of subscriptions reaches the publisher's edge broker, by strategy, k, number and widths; over some seeds.
What a broker forwards is worked out from all subscriptions at once: for AncestorCoverK, and for RankCoverK by the
longest chain, the result at the publisher's edge is the same as hop by hop, which `hop_by_hop` shows. For depth by one
parent it is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from rankcast.arrays import Array
from rankcast.compiling import compiled
from rankcast.covering.topk.cover_set import Cover
from rankcast.overlay.simulation.ranges import WIDTHS, Ranges, ranges
from rankcast.plotting import BLACK, BLUE, GREEN, ORANGE, PURPLE, RED, mark_numbers, tidy
from rankcast_lab.engines.bulk import forwarded, levels_above
from rankcast_lab.studies.findings import Finding, Outcome, Picture, Say, Settings
from rankcast_lab.workloads.overlays import attached

# Depths


class Depth(Enum):
    """Which parent makes the depth."""

    LONGEST = "longest chain"
    ANY = "one arbitrary parent"
    SHORTEST = "shortest path"


def depths(made: Ranges, by: Depth, random: np.random.Generator) -> Array:
    """Return the depths of ranges of one attribute; those that nothing covers have depth 1."""
    if by is Depth.LONGEST:
        return levels_above(made.starts, made.ends, Cover.RANK) + 1
    starts, ends = made.starts[:, 0], made.ends[:, 0]
    order = np.lexsort((np.arange(len(made)), -ends, starts))
    draws = random.random(len(made)) if by is Depth.ANY else np.full(len(made), -1.0)
    found = np.empty(len(made), np.int64)
    found[order] = _depths_by_parents(ends[order], draws)
    return found


@compiled
def _depths_by_parents(ends: Array, draws: Array) -> Array:
    """Return depths of ranges sorted by start, then by descending end; a draw below 0 takes the least deep parent.

    Looking back, starts get no later: a range that ends no earlier is a parent, unless one found before ends no later.
    """
    found = np.ones(len(ends), np.int64)
    parents = np.empty(len(ends), np.int64)
    for at in range(len(ends)):
        end, nearest, count = ends[at], np.inf, 0
        for before in range(at - 1, -1, -1):
            if end <= ends[before] < nearest:
                nearest = ends[before]
                parents[count] = before
                count += 1
                if nearest == end:
                    break
        if count and draws[at] >= 0:
            found[at] = found[parents[int(draws[at] * count)]] + 1
        elif count:
            found[at] = found[parents[:count]].min() + 1
    return found


# Runs

Widths: TypeAlias = tuple[float, float]

LOW_KS = tuple(range(1, 11))
SELECTIVITIES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
"""k as shares of the number of subscriptions."""

ALL_WIDTHS: tuple[Widths, ...] = ((0.1, 0.6), WIDTHS, (0.3, 0.4), (0.5, 0.6))
K = 10


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Subscriptions drawn by one seed: how many are above each and, with the usual widths, their depths."""

    above: Array
    depths: Mapping[Depth, Array]

    def ancestor_share(self, k: float) -> float:
        """Return what AncestorCoverK forwards, in percent; k = 1 is RegularCover."""
        return 100 * float((self.above < k).mean())

    def rank_share(self, k: float, by: Depth) -> float:
        """Return what RankCoverK forwards, in percent."""
        return 100 * float((self.depths[by] <= k).mean())


class Case(NamedTuple):
    """One number of subscriptions and one range of widths."""

    subscriptions: int
    widths: Widths


Samples: TypeAlias = Mapping[Case, Sequence[Sample]]


class Share(NamedTuple):
    """A percentage over seeds."""

    mean: float
    deviation: float


def over_seeds(samples: Iterable[Sample], share: Callable[[Sample], float]) -> Share:
    """Return the mean and the standard deviation of a percentage."""
    values = [share(sample) for sample in samples]
    return Share(float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0)


def sampled(counts: Sequence[int], seeds: Sequence[int], say: Say) -> dict[Case, list[Sample]]:
    """Draw and measure everything: other widths than the usual ones with the first number only."""
    found: dict[Case, list[Sample]] = {}
    for count in counts:
        for widths in ALL_WIDTHS if count == counts[0] else (WIDTHS,):
            say(f"{count:,} subscriptions of {widths[0]:.0%} to {widths[1]:.0%}")
            found[Case(count, widths)] = [_sample(count, widths, seed) for seed in seeds]
    return found


def _sample(count: int, widths: Widths, seed: int) -> Sample:
    random = np.random.default_rng(seed)
    made = ranges(count, random, widths)
    chosen = Depth if widths == WIDTHS else ()
    return Sample(levels_above(made.starts, made.ends), {by: depths(made, by, random) for by in chosen})


@dataclass(frozen=True, slots=True)
class Journey:
    """How many subscriptions each core broker sends on towards the publisher, and how many it would be all at once."""

    strategy: str
    sent: tuple[int, ...]
    at_once: int
    same: bool
    """Whether the ones that arrive are the same ones."""


Kept: TypeAlias = Callable[[Ranges], Array]


def hop_by_hop(count: int, seed: int, say: Say) -> list[Journey]:
    """Send subscriptions along the chain of brokers, each covering what it got; the publisher is at the last one."""
    random = np.random.default_rng(seed)
    made = ranges(count, random)
    brokers = attached(count, random)
    strategies: dict[str, Kept] = {
        Cover.REGULAR.value: lambda some: forwarded(some.starts, some.ends, Cover.REGULAR),
        f"{Cover.ANCESTOR.value} k={K}": lambda some: forwarded(some.starts, some.ends, Cover.ANCESTOR, K),
    }
    for by in (Depth.LONGEST, Depth.ANY):
        strategies[f"{Cover.RANK.value} k={K} by {by.value}"] = partial(_kept_by_depth, by, random)
    journeys = []
    for name, kept in strategies.items():
        say(f"{count:,} subscriptions hop by hop: {name}")
        journeys.append(_journey(name, made, brokers, kept))
    return journeys


def _journey(name: str, made: Ranges, brokers: Sequence[Sequence[Array]], kept: Kept) -> Journey:
    arrived, sent = np.zeros(0, np.int64), []
    for edges in brokers:
        parts = [arrived, *(_kept(made, edge, kept) for edge in edges)]
        arrived = _kept(made, np.concatenate(parts), kept)
        sent.append(len(arrived))
    at_once = kept(made)
    return Journey(name, tuple(sent), len(at_once), np.array_equal(arrived, at_once))


def _kept_by_depth(by: Depth, random: np.random.Generator, some: Ranges) -> Array:
    return np.flatnonzero(depths(some, by, random) <= K)


def _kept(made: Ranges, numbers: Array, kept: Kept) -> Array:
    numbers = np.sort(numbers)  # ties are broken by number, at every broker alike
    return numbers[kept(Ranges(made.starts[numbers], made.ends[numbers]))]


# Published

REGULAR: Mapping[int, float] = {10_000: 1.47, 50_000: 0.69}
REGULAR_BY_WIDTHS: Mapping[Widths, float] = {(0.1, 0.6): 1.22, (0.3, 0.4): 3.08}
ANCESTOR_AT_MOST: Mapping[int, float] = {10_000: 6.03, 50_000: 2.5}
ANCESTOR_BY_SELECTIVITY: Mapping[float, float] = {0.001: 5.76, 0.1: 66.7}
ANCESTOR_BY_WIDTHS: Mapping[Widths, float] = {(0.1, 0.6): 40.33, (0.3, 0.4): 82.05, (0.5, 0.6): 69.59}
RANK: Mapping[int, float] = {10_000: 84.71, 50_000: 60.53}
EVERYTHING: Mapping[int, int] = {10_000: 19, 50_000: 27}
"""The k from which RankCoverK forwards everything."""

RETAINED = 81.0
"""The part of RegularCover's covering that is left at k = 1%."""

STABLE = 0.4
"""Points by which shares differ with the number of subscriptions."""


# Pictures

LINES = {10_000: "-", 50_000: "--"}
COLOURS = {(0.1, 0.6): GREEN, WIDTHS: BLUE, (0.3, 0.4): ORANGE, (0.5, 0.6): PURPLE}
EXAMPLE, EXAMPLE_SEED, EXAMPLE_K = 12, 4, 2


def draw_shares(figure: Any, samples: Samples) -> None:
    """Draw what is forwarded against small k, against k as a share of all, and by widths."""
    left, middle, right = figure.subplots(1, 3)
    counts = sorted({case.subscriptions for case in samples})
    for count in counts:
        _draw_low(left, samples, count)
        _draw_selectivity(middle, samples, count)
    _draw_widths(right, samples, counts[0])
    left.set_yscale("log")
    left.set_yticks([0.5, 1, 2, 5, 10, 20, 50, 100], ["0.5", "1", "2", "5", "10", "20", "50", "100"])
    left.set_xticks(LOW_KS)
    for panel in (middle, right):
        panel.set_xscale("log")
        panel.set_xticks([0.1, 1, 10], ["0.1%", "1%", "10%"])
        panel.set_ylim(0, 100)
    tidy(left, "Small k", "k", "forwarded to the publisher's edge, %")
    tidy(middle, "AncestorCoverK", "k as a share of all subscriptions", "forwarded, %")
    tidy(right, f"AncestorCoverK by widths, {counts[0]:,}", "k as a share of all subscriptions", "forwarded, %")
    left.legend(frameon=False, fontsize=8.5, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2)
    for panel in (middle, right):
        panel.legend(frameon=False, fontsize=8.5, loc="upper left")


def _draw_low(panel: Any, samples: Samples, count: int) -> None:
    own = samples[Case(count, WIDTHS)]
    lines = {
        "RankCoverK, one arbitrary parent": (
            RED,
            [over_seeds(own, partial(Sample.rank_share, k=k, by=Depth.ANY)) for k in LOW_KS],
        ),
        "RankCoverK, longest chain": (
            ORANGE,
            [over_seeds(own, partial(Sample.rank_share, k=k, by=Depth.LONGEST)) for k in LOW_KS],
        ),
        "AncestorCoverK": (BLUE, [over_seeds(own, partial(Sample.ancestor_share, k=k)) for k in LOW_KS]),
        "RegularCover": (GREEN, [over_seeds(own, partial(Sample.ancestor_share, k=1))] * len(LOW_KS)),
    }
    first = LINES[count] == "-"
    for name, (colour, shares) in lines.items():
        label = name if first else None
        panel.plot(LOW_KS, [one.mean for one in shares], LINES[count], color=colour, label=label)
    panel.plot([], [], LINES[count], color="#888888", label=f"{count:,} subscriptions")
    published = [REGULAR[count], ANCESTOR_AT_MOST[count], RANK[count]]
    panel.plot([LOW_KS[-1]] * len(published), published, "x", color=BLACK, label="published" if first else None)


def _draw_selectivity(panel: Any, samples: Samples, count: int) -> None:
    own = samples[Case(count, WIDTHS)]
    shares = [over_seeds(own, partial(Sample.ancestor_share, k=part * count)) for part in SELECTIVITIES]
    panel.errorbar(
        [100 * part for part in SELECTIVITIES],
        [one.mean for one in shares],
        [one.deviation for one in shares],
        fmt=f"o{LINES[count]}",
        color=BLUE if LINES[count] == "-" else ORANGE,
        markersize=4,
        capsize=3,
        label=f"{count:,}, mean and deviation",
    )
    if LINES[count] == "-":
        places = [100 * part for part in ANCESTOR_BY_SELECTIVITY]
        panel.plot(
            places, ANCESTOR_BY_SELECTIVITY.values(), "x", color=BLACK, markersize=8, zorder=5, label="published"
        )


def _draw_widths(panel: Any, samples: Samples, count: int) -> None:
    for widths in ALL_WIDTHS:
        own = samples[Case(count, widths)]
        shares = [over_seeds(own, partial(Sample.ancestor_share, k=part * count)) for part in SELECTIVITIES]
        label = f"{widths[0]:.0%} to {widths[1]:.0%}"
        places = [100 * part for part in SELECTIVITIES]
        panel.plot(places, [one.mean for one in shares], "o-", color=COLOURS[widths], markersize=4, label=label)
    panel.plot([5] * 3, ANCESTOR_BY_WIDTHS.values(), "x", color=BLACK, markersize=8, zorder=5, label="published")


def draw_journeys(figure: Any, journeys: Mapping[int, Sequence[Journey]]) -> None:
    """Draw what each core broker sends on, and what it would be all at once."""
    panels = figure.subplots(1, len(journeys), squeeze=False)[0]
    for panel, (count, travelled) in zip(panels, journeys.items(), strict=True):
        for journey, colour in zip(travelled, (GREEN, BLUE, ORANGE, RED), strict=True):
            places = range(1, len(journey.sent) + 1)
            panel.plot(places, journey.sent, "o-", color=colour, markersize=4, label=journey.strategy)
            panel.axhline(journey.at_once, color=colour, linestyle=":", linewidth=1.2)
        panel.set_yscale("log")
        panel.set_xticks(list(places))
        mark_numbers(panel.yaxis, [mark for mark in (100, 1_000, 10_000) if mark <= count])
        tidy(panel, f"{count:,} subscriptions (dotted: all at once)", "core broker, towards the publisher", "sent on")
    figure.legend(
        *panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False, fontsize=9
    )


def draw_example(figure: Any) -> None:
    """Draw some ranges, and which of them each strategy forwards."""
    made = ranges(EXAMPLE, np.random.default_rng(EXAMPLE_SEED), (0.1, 0.6))
    order = np.argsort(made.starts[:, 0] - made.ends[:, 0])
    made = Ranges(made.starts[order], made.ends[order])
    panels = figure.subplots(1, 3, sharey=True)
    for panel, (cover, k) in zip(
        panels, ((Cover.REGULAR, 1), (Cover.ANCESTOR, EXAMPLE_K), (Cover.RANK, EXAMPLE_K)), strict=True
    ):
        chosen = set(forwarded(made.starts, made.ends, cover, k).tolist())
        for number, (low, high) in enumerate(zip(made.starts[:, 0], made.ends[:, 0], strict=True)):
            sent = number in chosen
            panel.plot(
                [low, high], [number, number], color=BLUE if sent else "#BBBBBB", linewidth=5 if sent else 3,
                linestyle="-" if sent else (0, (1.5, 0.6)), solid_capstyle="butt",
            )  # fmt: skip
        name = cover.value if cover is Cover.REGULAR else f"{cover.value}, k={k}"
        tidy(panel, f"{name}: {len(chosen)} of {EXAMPLE} forwarded", "attribute", "")
        panel.set_xlim(0, 1)
        panel.set_yticks([])
    panels[0].set_ylabel("subscriptions, the widest on top")
    panels[0].invert_yaxis()


# The study

COUNTS = (10_000, 50_000)
SEEDS = 10
POINTS, PART = 0.15, 0.02
"""How far a mean may be from a published percentage: so many points, or so large a part of it."""


def run(settings: Settings) -> Outcome:
    """Measure 10,000 and 50,000 subscriptions, or the smaller number alone."""
    counts = COUNTS[:1] if settings.quick else COUNTS
    seeds = range(SEEDS * settings.seed, SEEDS * (settings.seed + 1))
    samples = sampled(counts, seeds, settings.say)
    journeys = {count: hop_by_hop(count, settings.seed, settings.say) for count in counts}
    return Outcome(
        "covering-top-k",
        "Top-k covering: what reaches the publisher",
        tuple(findings(samples, journeys)),
        _remarks(samples, journeys),
        lambda figure: draw_shares(figure, samples),
        size=(14.0, 5.4),
        further=(
            Picture(
                "hops", "What each core broker sends on", lambda figure: draw_journeys(figure, journeys), (11.0, 5.0)
            ),
            Picture("example", "Twelve subscriptions, and who is forwarded", draw_example, size=(12.0, 4.2)),
        ),
    )


def findings(samples: Samples, journeys: dict[int, list[Journey]]) -> Iterator[Finding]:
    """Yield the rows, number by number."""
    for count in journeys:
        yield from _regular(count, samples)
        yield from _ancestors(count, samples)
        yield from _ranks(count, samples[Case(count, WIDTHS)])
    yield from _by_widths(samples)
    if len(journeys) > 1:
        yield _stability(samples)
    for count, travelled in journeys.items():
        yield from _hops(count, travelled)


def _regular(count: int, samples: Samples) -> Iterator[Finding]:
    share = over_seeds(samples[Case(count, WIDTHS)], lambda sample: sample.ancestor_share(1))
    yield from _near(f"{_named(count)}: RegularCover, %", REGULAR[count], share)


def _ancestors(count: int, samples: Samples) -> Iterator[Finding]:
    own = samples[Case(count, WIDTHS)]
    for k in (1, 5, K):
        share = over_seeds(own, partial(Sample.ancestor_share, k=k))
        most = ANCESTOR_AT_MOST[count]
        quantity = f"{_named(count)}: AncestorCoverK k={k}, %"
        yield Finding(quantity, f"at most {most:g}", share.mean, share.mean <= most)
        yield _spread(quantity, share)
    for selectivity in SELECTIVITIES:
        share = over_seeds(own, partial(Sample.ancestor_share, k=selectivity * count))
        quantity = f"{_named(count)}: AncestorCoverK k={selectivity:.1%}, %"
        yield from _near(quantity, ANCESTOR_BY_SELECTIVITY.get(selectivity), share)
    retained = over_seeds(own, lambda sample: _retained(sample, count))
    yield from _near(f"{_named(count)}: covering retained at k=1%, %", RETAINED, retained)


def _retained(sample: Sample, count: int) -> float:
    """Return which part of what RegularCover hides AncestorCoverK hides as well, in percent."""
    return 100 * (100 - sample.ancestor_share(count / 100)) / (100 - sample.ancestor_share(1))


def _ranks(count: int, own: Sequence[Sample]) -> Iterator[Finding]:
    for by in Depth:
        share = over_seeds(own, partial(Sample.rank_share, k=K, by=by))
        yield from _near(f"{_named(count)}: RankCoverK k={K} by {by.value}, %", RANK[count], share)
    for by in Depth:
        deepest = over_seeds(own, partial(_deepest, by=by))
        quantity = f"{_named(count)}: RankCoverK by {by.value}: all from k"
        published = EVERYTHING[count]
        yield Finding.near(quantity, published, deepest.mean, margin=max(1.0, 2 * deepest.deviation))


def _deepest(sample: Sample, by: Depth) -> float:
    return float(sample.depths[by].max())


def _by_widths(samples: Samples) -> Iterator[Finding]:
    count = COUNTS[0]
    for widths, published in REGULAR_BY_WIDTHS.items():
        share = over_seeds(samples[Case(count, widths)], lambda sample: sample.ancestor_share(1))
        yield from _near(f"{_named(count, widths)}: RegularCover, %", published, share)
    for widths, published in ANCESTOR_BY_WIDTHS.items():
        share = over_seeds(samples[Case(count, widths)], lambda sample: sample.ancestor_share(0.05 * count))
        yield from _near(f"{_named(count, widths)}: AncestorCoverK k=5.0%, %", published, share)


def _stability(samples: Samples) -> Finding:
    """Judge that the share for one selectivity does not depend on the number of subscriptions."""
    differences = {}
    for selectivity in SELECTIVITIES:
        means = [
            over_seeds(samples[Case(count, WIDTHS)], partial(Sample.ancestor_share, k=selectivity * count)).mean
            for count in COUNTS
        ]
        differences[selectivity] = abs(means[0] - means[1])
    worst = max(differences.values())
    quantity = "AncestorCoverK k=0.1% to 10%: 10,000 against 50,000, points"
    return Finding(quantity, f"below {STABLE}", worst, worst < STABLE)


def _hops(count: int, journeys: Sequence[Journey]) -> Iterator[Finding]:
    for journey in journeys:
        found = f"{100 * journey.sent[-1] / count:.2f}, at once {100 * journey.at_once / count:.2f}"
        quantity = f"{_named(count)}: {journey.strategy}: hop by hop as at once"
        yield Finding(quantity, None, found, journey.same)


def _near(quantity: str, published: float | None, share: Share) -> Iterator[Finding]:
    margin = 0.0 if published is None else max(POINTS, PART * published)
    yield Finding.near(quantity, published, share.mean, margin)
    yield _spread(quantity, share)


def _spread(quantity: str, share: Share) -> Finding:
    return Finding(f"{quantity}: spread", None, share.deviation, None)


def _named(count: int, widths: Widths = WIDTHS) -> str:
    sizes = "" if widths == WIDTHS else f" of {widths[0]:.0%} to {widths[1]:.0%}"
    return f"{count:,}{sizes}"


def _remarks(samples: Samples, journeys: dict[int, list[Journey]]) -> tuple[str, ...]:
    count = next(iter(journeys))
    own = samples[Case(count, WIDTHS)]
    longest, arbitrary, shortest = (over_seeds(own, partial(Sample.rank_share, k=K, by=by)).mean for by in Depth)
    travelled = journeys[count][-1]
    return (
        "The paper does not say how many attributes subscriptions have. What fits is one: a range of 30% to 60% of the "
        "domain, its width and then its start uniform. Every subscription is rank-covered by plain covering, as in the "
        f"paper, whose ranks are drawn at random. k in percent is a share of all subscriptions. Means over {len(own)} "
        f"seeds, spread is the standard deviation of one seed; a published percentage holds within {POINTS} points or "
        f"{PART:.0%} of it.",
        "The overlay is that of the paper: ten core brokers in a chain with five edge brokers each, and the publisher "
        "at one end. Percentages are worked out from all subscriptions at once. For RegularCover, AncestorCoverK and "
        "the longest chain, brokers that cover hop by hop send the very same subscriptions to the publisher's edge.",
        "RankCoverK is published by depth in the poset, without a word on which of several parents makes the depth. "
        f"By one arbitrary parent {arbitrary:.0f}% of {count:,} are forwarded for k={K} (published: {RANK[count]}%), "
        f"by the shortest path {shortest:.0f}%. Such a depth belongs to the stored graph, not to the subscriptions: "
        f"hop by hop it forwards {100 * travelled.sent[-1] / count:.0f}%. rankcast uses the longest chain, which "
        f"forwards {longest:.0f}% and does not depend on the way.",
        'The paper calls 1% of 50,000 "5000" where it means 500.',
    )
