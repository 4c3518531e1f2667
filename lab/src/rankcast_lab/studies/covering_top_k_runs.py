"""Which share of subscriptions reaches the publisher's edge broker, by strategy, k, number and widths; over some seeds.

What a broker forwards is worked out from all subscriptions at once: for AncestorCoverK, and for RankCoverK by the
longest chain, the result at the publisher's edge is the same as hop by hop, which `hop_by_hop` shows. For depth by one
parent it is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np

from rankcast.covering.topk import Cover
from rankcast.samples.covering import WIDTHS, Ranges, attached, ranges
from rankcast_lab.engines.bulk import forwarded, levels_above
from rankcast_lab.studies.covering_top_k_depths import Array, Depth, depths
from rankcast_lab.studies.findings import Say

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
