"""Top-k covering through a whole overlay: which subscriptions reach the publisher's edge broker. Figure 5 of the paper.

Ten core brokers in a chain, five edge brokers each; subscribers come one by one, and brokers tell each other what they
must. `covering-top-k` works out the same from all subscriptions at once. Here the ones that arrive have to be the very
same ones, seed by seed; published numbers hold within the same margins.
Paper: efficient covering for top-k filtering in content-based publish/subscribe systems.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import process_time
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from rankcast.overlay.broker import Settings as BrokerSettings
from rankcast.overlay.routing.strategies import Strategy
from rankcast.overlay.simulation.ranges import WIDTHS, ranges
from rankcast.overlay.simulation.topologies import chain
from rankcast.plotting import BLACK, BLUE, GREEN, ORANGE, mark_numbers, tidy
from rankcast_lab.engines.bulk import forwarded
from rankcast_lab.studies.covering_top_k import (
    ANCESTOR_AT_MOST,
    ANCESTOR_BY_SELECTIVITY,
    ANCESTOR_BY_WIDTHS,
    PART,
    POINTS,
    REGULAR,
    REGULAR_BY_WIDTHS,
    RETAINED,
    K,
    Widths,
)
from rankcast_lab.studies.findings import Finding, Outcome, Settings
from rankcast_lab.studies.parallel import each
from rankcast_lab.workloads.overlays import CORES, EDGES, Audience, numbers_told

# Runs

SELECTIVITIES = (0.001, 0.01, 0.05, 0.1)
WIDTHS_AT = 0.05
"""The k, as a share of all subscriptions, at which widths are compared."""


class Case(NamedTuple):
    """One overlay: how many subscriptions of which widths, and how they are covered."""

    subscriptions: int
    strategy: Strategy
    k: int = 1
    widths: Widths = WIDTHS

    @property
    def name(self) -> str:
        """The case as it is shown."""
        sizes = "" if self.widths == WIDTHS else f" of {self.widths[0]:.0%} to {self.widths[1]:.0%}"
        k = "" if self.strategy is Strategy.REGULAR_COVER else f" k={self.k:,}"
        return f"{self.subscriptions:,}{sizes}: {self.strategy.value}{k}"

    @property
    def selectivity(self) -> float:
        """K as a share of all subscriptions."""
        return self.k / self.subscriptions


@dataclass(frozen=True, slots=True)
class Arrival:
    """What has reached the publisher's edge.

    `share` is in percent, `same` says whether these are the ones that all at once would give, `seconds` of CPU are
    those of the whole set-up, `messages` are those that forward or withdraw.
    """

    share: float
    same: bool
    seconds: float
    messages: int


Arrivals: TypeAlias = Mapping[Case, Sequence[Arrival]]


def cases_of(count: int, *, with_widths: bool) -> Iterator[Case]:
    """Give the cases for one number of subscriptions."""
    yield Case(count, Strategy.REGULAR_COVER)
    yield Case(count, Strategy.RANK_COVER_K, K)
    for k in sorted({K, *(max(1, round(part * count)) for part in SELECTIVITIES)}):
        yield Case(count, Strategy.ANCESTOR_COVER_K, k)
    if with_widths:
        for widths in REGULAR_BY_WIDTHS:
            yield Case(count, Strategy.REGULAR_COVER, widths=widths)
        for widths in ANCESTOR_BY_WIDTHS:
            yield Case(count, Strategy.ANCESTOR_COVER_K, round(WIDTHS_AT * count), widths)


def arrived(piece: tuple[Case, int]) -> Arrival:
    """Set up one overlay, with the subscriptions that `covering-top-k` draws from the same seed."""
    case, seed = piece
    random = np.random.default_rng(seed)
    made = ranges(case.subscriptions, random, case.widths)
    audience = Audience.spread(chain(CORES, EDGES), made, random)
    k = None if case.strategy is Strategy.REGULAR_COVER else case.k
    began = process_time()
    overlay = audience.advertised(BrokerSettings(case.strategy), k)
    audience.subscribe(overlay)
    seconds = process_time() - began
    told = numbers_told(overlay, audience.publisher)
    cover = case.strategy.cover(k)
    at_once = [] if cover is None else forwarded(made.starts, made.ends, cover, case.k).tolist()
    sent = overlay.measures.messages
    return Arrival(100 * len(told) / case.subscriptions, told == at_once, seconds, sent["Forward"] + sent["Withdraw"])


# The study

SEEDS: Mapping[int, int] = {10_000: 10, 50_000: 3}
"""How many seeds, by the number of subscriptions."""

QUICK: Mapping[int, int] = {400: 1}
MOST_SECONDS = 180.0
"""In which all subscribers have to be set up: a requirement of rankcast, which nobody published."""

COLOURS = (BLUE, ORANGE)


def run(settings: Settings) -> Outcome:
    """Set up overlays of 10,000 and 50,000 subscribers; quick, of 400."""
    sizes = QUICK if settings.quick else SEEDS
    cases = [case for count in sorted(sizes) for case in cases_of(count, with_widths=count == min(sizes))]
    pieces = [
        (case, seed)
        for case in sorted(cases, key=lambda one: (-one.subscriptions, -one.k))
        for seed in range(10 * settings.seed, 10 * settings.seed + sizes[case.subscriptions])
    ]
    found: dict[Case, list[Arrival]] = {case: [] for case in cases}
    arrivals = each(arrived, pieces, settings.say, apart=not settings.quick)
    for (case, _), arrival in zip(pieces, arrivals, strict=True):
        found[case].append(arrival)
    return Outcome(
        "overlay-covering",
        "Top-k covering through an overlay: what reaches the publisher",
        tuple(findings(found)),
        _remarks(found),
        lambda figure: draw(figure, found),
        size=(11.0, 5.2),
    )


def findings(found: Arrivals) -> Iterator[Finding]:
    """Yield the rows, case by case."""
    for case, arrivals in found.items():
        share = _share(arrivals)
        yield _judged(case, share)
        same = sum(one.same for one in arrivals)
        yield Finding(f"{case.name}: same as all at once", None, f"{same} of {len(arrivals)}", same == len(arrivals))
        seconds = max(one.seconds for one in arrivals)
        is_quick_enough = seconds < MOST_SECONDS if case.subscriptions in REGULAR else None  # small ones say nothing
        yield Finding(f"{case.name}: set-up, s (required: below {MOST_SECONDS:g})", None, seconds, is_quick_enough)
        yield Finding(f"{case.name}: messages", None, float(np.mean([one.messages for one in arrivals])), None)
    for count in dict.fromkeys(case.subscriptions for case in found):
        regular = _share(found[Case(count, Strategy.REGULAR_COVER)])
        ancestors = _share(found[Case(count, Strategy.ANCESTOR_COVER_K, round(0.01 * count))])
        retained = 100 * (100 - ancestors) / (100 - regular)
        published = RETAINED if count in REGULAR else None
        yield _near(f"{count:,}: covering retained at k=1%, %", published, retained)


def _judged(case: Case, share: float) -> Finding:
    """Compare a share with what is published of it, if anything."""
    quantity = f"{case.name}, %"
    if case.subscriptions not in REGULAR or case.strategy is Strategy.RANK_COVER_K:
        return _near(quantity, None, share)  # for RankCoverK see the study of covering
    if case.strategy is Strategy.REGULAR_COVER:
        published = REGULAR[case.subscriptions] if case.widths == WIDTHS else REGULAR_BY_WIDTHS[case.widths]
        return _near(quantity, published, share)
    if case.widths != WIDTHS:
        return _near(quantity, ANCESTOR_BY_WIDTHS[case.widths], share)
    if case.k == K and case.selectivity not in ANCESTOR_BY_SELECTIVITY:
        most = ANCESTOR_AT_MOST[case.subscriptions]
        return Finding(quantity, f"at most {most:g}", share, share <= most)
    return _near(quantity, ANCESTOR_BY_SELECTIVITY.get(case.selectivity), share)


def _near(quantity: str, published: float | None, share: float) -> Finding:
    return Finding.near(quantity, published, share, 0.0 if published is None else max(POINTS, PART * published))


def _share(arrivals: Sequence[Arrival]) -> float:
    return float(np.mean([one.share for one in arrivals]))


def draw(figure: Any, found: Arrivals) -> None:
    """Draw shares and the cost of set-up against k."""
    left, right = figure.subplots(1, 2)
    for count, colour in zip(dict.fromkeys(case.subscriptions for case in found), COLOURS, strict=False):
        cases = [case for case in found if (case.subscriptions, case.widths) == (count, WIDTHS)]
        lines = [case for case in cases if case.strategy is Strategy.ANCESTOR_COVER_K]
        across = [100 * case.selectivity for case in lines]
        name = f"{count:,} subscribers"
        left.plot(across, [_share(found[case]) for case in lines], "o-", color=colour, label=f"AncestorCoverK, {name}")
        right.plot(across, [_seconds(found[case]) for case in lines], "o-", color=colour, label=name)
        regular = Case(count, Strategy.REGULAR_COVER)
        left.axhline(_share(found[regular]), color=colour, linestyle=":", label=f"RegularCover, {name}")
        right.axhline(_seconds(found[regular]), color=colour, linestyle=":", label=f"RegularCover, {name}")
    places = [100 * part for part in ANCESTOR_BY_SELECTIVITY]
    left.plot(places, ANCESTOR_BY_SELECTIVITY.values(), "x", color=BLACK, markersize=8, zorder=5, label="published")
    right.axhline(MOST_SECONDS, color=GREEN, linestyle="--", label="required of 50,000")
    for panel in (left, right):
        panel.set_xscale("log")
        panel.set_xticks([100 * part for part in SELECTIVITIES], [f"{part:g}%" for part in (0.1, 1, 5, 10)])
        panel.minorticks_off()
    left.set_ylim(0, 100)
    right.set_yscale("log")
    mark_numbers(right.yaxis, [1, 10, 100])
    tidy(left, "Told to the publisher's edge broker", "k as a share of all subscriptions", "%")
    tidy(right, "Set-up of 60 brokers, one process", "k as a share of all subscriptions", "seconds of CPU")
    for panel in (left, right):
        panel.legend(frameon=False, fontsize=8.5, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2)


def _seconds(arrivals: Sequence[Arrival]) -> float:
    return float(np.mean([one.seconds for one in arrivals]))


def _remarks(found: Arrivals) -> tuple[str, ...]:
    seeds = {case.subscriptions: len(arrivals) for case, arrivals in found.items()}
    slowest = max(found, key=lambda case: _seconds(found[case]))
    return (
        "Ten core brokers in a chain with five edge brokers each, simulated in one process. Subscribers, one after the "
        "other, join all edges but the publisher's: with one fiftieth of them there, it would know 2% before anything "
        "is forwarded, more than the paper reports of RegularCover in all. "
        f"Seeds: {', '.join(f'{count} at {size:,}' for size, count in seeds.items())}; subscriptions are those that "
        "`covering-top-k` draws from the same seeds, and what arrives is compared with its result one by one.",
        "Set-up is measured in seconds of CPU of one thread, the longest of the seeds; messages are those that "
        f"forward and withdraw, on average. {slowest.name} takes longest, {_seconds(found[slowest]):.0f} s.",
    )
