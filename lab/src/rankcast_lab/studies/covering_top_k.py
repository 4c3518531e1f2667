"""Top-k covering: which share of the subscriptions reaches the publisher's edge broker. Figure 5 of the paper.

Published numbers hold when the mean over seeds differs by at most 0.15 points or 2%, whichever is more.
Paper: efficient covering for top-k filtering in content-based publish/subscribe systems.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from rankcast.samples.covering import WIDTHS
from rankcast_lab.studies.covering_top_k_depths import Depth
from rankcast_lab.studies.covering_top_k_pictures import draw_example, draw_journeys, draw_shares
from rankcast_lab.studies.covering_top_k_published import (
    ANCESTOR_AT_MOST,
    ANCESTOR_BY_SELECTIVITY,
    ANCESTOR_BY_WIDTHS,
    EVERYTHING,
    RANK,
    REGULAR,
    REGULAR_BY_WIDTHS,
    RETAINED,
    STABLE,
)
from rankcast_lab.studies.covering_top_k_runs import (
    SELECTIVITIES,
    Case,
    Journey,
    K,
    Sample,
    Samples,
    Share,
    Widths,
    hop_by_hop,
    over_seeds,
    sampled,
)
from rankcast_lab.studies.findings import Finding, Outcome, Picture, Settings

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
