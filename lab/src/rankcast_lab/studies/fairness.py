"""Fairness of top-k publishing: who gets a publication of which k copies go out. Figure 6 of the paper.

Every scheme against k and against the distance from the publisher, with the noise that even a fair draw has; what
weights are worth while they are stale; and what each scheme costs in messages and tables.
Paper: efficient covering for top-k filtering in content-based publish/subscribe systems.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rankcast.model.errors import counted
from rankcast.overlay.broker import Settings as BrokerSettings
from rankcast.overlay.strategies import Strategy
from rankcast_lab.studies.fairness_pictures import draw_fairness, draw_staleness
from rankcast_lab.studies.fairness_runs import (
    AFTER,
    CORES,
    SUBSCRIBERS,
    Fairness,
    Piece,
    Scheme,
    Staleness,
    measured,
    staleness,
    tables,
)
from rankcast_lab.studies.findings import Finding, Outcome, Picture, Settings
from rankcast_lab.studies.parallel import each

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
