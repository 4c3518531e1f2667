"""Choosing the audience of an event: the k best of the interests that match, and how many of them are behind each link.

Scores come first; equals are taken in the order of their keys, or shuffled. In the weighted shuffle each interest comes
next with a probability in proportion to its weight among those left: every weight divides an exponential variate, and
the smallest quotients come first. That is the paper's shuffle with a tree of cumulative weights, in O(n log n) too.

Where only counts are known, the numbers that fall to each link follow the multivariate hypergeometric distribution: k
drawn at once from all that match, each as likely as any other.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rankcast.arrays import Array
from rankcast.model.advertisements import AudienceRanking, Scoring, Ties
from rankcast.model.events import Event
from rankcast.overlay.routing.interests import Record
from rankcast.ranking.audiences import by_id, diverse_scores, relevant_score, select
from rankcast.ranking.relevance import relevance_of

LEAST_WEIGHT = 1e-300
"""Weights below count as that much: what is divided by them stays finite."""

MOST_COUNTED = 10**9 - 1
"""Members of all groups that quotas are drawn for: numpy draws for no more. Whoever claims more has as many as that."""


def is_relevant(record: Record, event: Event) -> bool:
    """Whether an event whose filter matches is a match: one that a relevance function cannot judge is not."""
    relevance = record.interest.relevance
    return relevance is None or relevance_of(event, relevance) is not None


def choose(
    records: Sequence[Record],
    k: int,
    ranking: AudienceRanking,
    event: Event,
    random: np.random.Generator,
    weights: Sequence[float] | None = None,
) -> list[Record]:
    """Return the best relevant record of each of the k best subscribers, the best first."""
    names = [record.interest.key.subscriber for record in records]
    known = {name: at for at, name in enumerate(dict.fromkeys(names))}
    owner = np.array([known[name] for name in names], np.int64)
    if ranking.ties is Ties.BY_ID:
        order = by_id(names)
    else:
        order = chance(np.bincount(owner, weights, len(known)), random)[owner]
    best = select(owner, _scores(records, ranking.scoring, event), order, k)
    return [records[at] for at in best.tolist()]


def chance(weights: Array, random: np.random.Generator) -> Array:
    """Return places among equals by chance: the smaller comes first, heavier ones rather earlier.

    >>> int(chance(np.array([1.0, 1e12, 1.0]), np.random.default_rng(1)).argmin())
    1
    """
    draws: Array = random.standard_exponential(len(weights)) / np.maximum(weights, LEAST_WEIGHT)
    return draws


def quotas(counts: Sequence[int], k: int, random: np.random.Generator) -> list[int]:
    """Return how many of k fall to each of several groups of these sizes, when all members are equally likely.

    >>> quotas([3, 0, 2], 9, np.random.default_rng(1))
    [3, 0, 2]
    """
    if sum(counts) <= k:
        return list(counts)
    most = MOST_COUNTED // len(counts)
    believed = [min(count, most) for count in counts]
    drawn: list[int] = random.multivariate_hypergeometric(believed, min(k, sum(believed))).tolist()
    return drawn


def _scores(records: Sequence[Record], scoring: Scoring, event: Event) -> Array | None:
    if scoring is Scoring.NONE:
        return None
    if scoring is Scoring.DIVERSITY:
        return diverse_scores([record.interest.filter for record in records])
    if scoring is Scoring.PREFERENCE:
        return np.array([record.interest.score for record in records])
    found = [relevant_score(record.interest.score, record.interest.relevance, event) for record in records]
    return np.array([0.0 if score is None else score for score in found])
