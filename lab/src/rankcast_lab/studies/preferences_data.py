"""Readers of the study of preferences: a subscriber each, 800 films that match, and the order in which they come.

The thesis measures one subscriber, to whom 800 of 2,500 events matter, with a mean rank of 0.59, and says no more.
Subscribers are drawn by its generators until some are like that one, in one of two ways:

- by what is stated: about that share of films matches, with about that mean rank;
- fitted: moreover ranks tell films apart, and few films have the best one. That is not stated. It was inferred from the
  published numbers of deliveries, so those numbers are no independent check of fitted readers.

Matching is done by the index.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from rankcast.delivery.contents import MISSING, Array, value_code
from rankcast.matching.builder import Entry
from rankcast.matching.index import Index
from rankcast.model.errors import InvalidValueError
from rankcast.model.filters import Filter
from rankcast.model.subscriptions import Subscriber
from rankcast_lab.workloads.preferences import (
    RANK_DIGITS,
    Constants,
    Film,
    Popularity,
    SubscriptionGenerator,
    film_batch,
    preferential,
)

PUBLISHED_EVENTS, MATCHING = 2_500, 800
PUBLISHED_RANK = 0.59
SHARE = MATCHING / PUBLISHED_EVENTS
SHARE_MARGIN, RANK_MARGIN = 0.07, 0.05
FEWEST_RANKS, LARGEST_SHARE = 4, 0.5
"""How many different ranks the matching films have at least, and which share of them one rank at most."""

TOP_SHARE = (0.02, 0.1)
"""Which share of them has the best rank: inferred from the published 9% that were delivered one by one for k = 4."""

POOL = 4_000
"""Films that a subscriber is tried on: some 1,300 of them match."""

SUBSCRIPTIONS = 1_000
"""Subscriptions that are drawn, for subscribers to share."""

OWNED = (4, 15)
"""How many subscriptions a subscriber has: from, and below."""

MOST_TRIED, RANKS_TRIED = 50_000, 10

BURSTS, BURST_LENGTH = 5, 40


class Scenario(Enum):
    """The order in which matching films are published."""

    BEST_FIRST = "best-first"
    BEST_LAST = "best-last"
    BURST = "burst"
    RANDOM = "random"


@dataclass(frozen=True, slots=True, eq=False)
class Reader:
    """A subscriber, the films that match, their ranks for it, and the distances between them."""

    subscriber: Subscriber
    films: Sequence[Film]
    ranks: Array
    distances: Array

    def order(self, scenario: Scenario, random: np.random.Generator) -> Array:
        """Return the films in the order of a scenario; films of one rank come at random."""
        shuffled = random.permutation(len(self.ranks))
        if scenario is Scenario.RANDOM:
            return shuffled
        best_first: Array = shuffled[np.argsort(-self.ranks[shuffled], kind="stable")]
        if scenario is Scenario.BEST_FIRST:
            return best_first
        return best_first[::-1].copy() if scenario is Scenario.BEST_LAST else _bursts(best_first, random)


def _bursts(best_first: Array, random: np.random.Generator) -> Array:
    """Return some of the best in bursts at regular distances, and the others at random in between."""
    bursting = min(BURSTS * BURST_LENGTH, len(best_first) // 2)
    best, others = random.permutation(best_first[:bursting]), random.permutation(best_first[bursting:])
    parts = zip(np.array_split(others, BURSTS), np.array_split(best, BURSTS), strict=True)
    return np.concatenate([part for pair in parts for part in pair])


def readers(
    films: Sequence[Film], constants: Constants, count: int, random: np.random.Generator, *, fitted: bool = True
) -> list[Reader]:
    """Draw subscribers until so many are like the published one: by what is stated of it or, moreover, fitted.

    Subscriptions are drawn and matched once; a subscriber that is tried has some of them, with ranks of its own.
    """
    pool = [films[at] for at in random.integers(0, len(films), POOL).tolist()]
    filters = SubscriptionGenerator(Popularity.of(films), constants).filters(SUBSCRIPTIONS, random)
    matches = matches_of(filters, pool)
    found: list[Reader] = []
    for _ in range(MOST_TRIED):
        if len(found) == count:
            break
        owned = random.choice(SUBSCRIPTIONS, int(random.integers(*OWNED)), replace=False)
        stated = _ranks_like_the_published(matches[owned], random, fitted=fitted)
        if stated is not None:
            ranks = ranks_of(stated, matches[owned])
            chosen = np.sort(random.choice(np.flatnonzero(ranks >= 0), MATCHING, replace=False))
            matching = [pool[at] for at in chosen.tolist()]
            subscriber = preferential(f"{constants.value} {len(found) + 1}", [filters[at] for at in owned], stated)
            found.append(Reader(subscriber, matching, ranks[chosen], distances_of(matching)))
    if not found:
        raise InvalidValueError(f"films: none of {MOST_TRIED:,} subscribers matches as many as the published one")
    return found


def _ranks_like_the_published(matches: Array, random: np.random.Generator, *, fitted: bool) -> Array | None:
    """Draw ranks for subscriptions that match so, a few times if need be; None when they never are alike."""
    matching = matches.any(axis=0)
    if matching.sum() < MATCHING or abs(float(matching.mean()) - SHARE) > SHARE_MARGIN:
        return None
    for _ in range(RANKS_TRIED):
        stated: Array = random.random(len(matches)).round(RANK_DIGITS)
        ranks = ranks_of(stated, matches[:, matching])
        if has_the_published_mean(ranks) and (not fitted or is_fitted(ranks)):
            return stated
    return None


def matches_of(filters: Sequence[Filter], films: Sequence[Film]) -> Array:
    """Return which filter (row) matches which film (column), by the index."""
    index = Index([Entry.of(number, wanted) for number, wanted in enumerate(filters)])
    offsets, numbers = index.reader().match_batch(film_batch(films))
    matches = np.zeros((len(filters), len(films)), np.bool_)
    matches[numbers, np.repeat(np.arange(len(films)), np.diff(offsets))] = True
    return matches


def ranks_of(stated: Array, matches: Array) -> Array:
    """Return the rank of each film, the largest of the subscriptions that match it; -1 where none does."""
    ranks: Array = np.where(matches, stated[:, None], -1.0).max(axis=0)
    return ranks


def has_the_published_mean(ranks: Array) -> bool:
    """Whether the mean rank of matching films is about that of the thesis."""
    return abs(float(ranks.mean()) - PUBLISHED_RANK) <= RANK_MARGIN


def is_fitted(ranks: Array) -> bool:
    """Whether ranks tell matching films apart and few films have the best one."""
    shares = np.unique(ranks, return_counts=True)[1] / len(ranks)
    top_is_small = bool(TOP_SHARE[0] <= shares[-1] <= TOP_SHARE[1])
    return len(shares) >= FEWEST_RANKS and top_is_small and bool(shares.max() <= LARGEST_SHARE)


def distances_of(films: Sequence[Film]) -> Array:
    """Return the distances of all pairs, every attribute counting 1: `Diversity().distance` for many."""
    codes = np.array([[MISSING if value is None else value_code(value) for value in film] for film in films])
    alike, total = (np.zeros((len(films), len(films))) for _ in range(2))
    for column in codes.T:
        known = column != MISSING
        alike += (column[:, None] == column) & known
        total += known[:, None] | known
    distances: Array = 1 - alike / total
    return distances
