"""Subscriptions that reach the publisher's edge broker through a whole overlay, hop by hop, and what that costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import process_time
from typing import NamedTuple, TypeAlias

import numpy as np

from rankcast.overlay.broker import Settings
from rankcast.overlay.strategies import Strategy
from rankcast.overlay.topologies import chain
from rankcast.samples.covering import CORES, EDGES, WIDTHS, ranges
from rankcast_lab.engines.bulk import forwarded
from rankcast_lab.studies.covering_top_k_published import ANCESTOR_BY_WIDTHS, REGULAR_BY_WIDTHS
from rankcast_lab.studies.covering_top_k_runs import K, Widths
from rankcast_lab.workloads.overlays import Audience, numbers_told

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
    overlay = audience.advertised(Settings(case.strategy), k)
    audience.subscribe(overlay)
    seconds = process_time() - began
    told = numbers_told(overlay, audience.publisher)
    cover = case.strategy.cover(k)
    at_once = [] if cover is None else forwarded(made.starts, made.ends, cover, case.k).tolist()
    sent = overlay.measures.messages
    return Arrival(100 * len(told) / case.subscriptions, told == at_once, seconds, sent["Forward"] + sent["Withdraw"])
