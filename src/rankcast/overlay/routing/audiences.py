"""Choosing the audience of an event: the k best of the subscribers who want it, and how many are behind each link.

Scores come first; equals are taken in the order of their ids, or by chance: by the event's own draws, which are the
same at every broker and in a hub (`ranking.audiences`), or drawn anew by a broker that may not know all equals. Then
each subscriber may have a weight, and comes next with a probability in proportion to it among those left: every weight
divides an exponential variate, and the smallest quotients come first. That is the paper's shuffle with a tree of
cumulative weights, in O(n log n) too.

Where only counts are known, the numbers that fall to each link are those of the best scores and, of the last of these,
follow the multivariate hypergeometric distribution: as many as are left drawn at once, each as likely as any other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from rankcast.arrays import Array
from rankcast.model.advertisements import AudienceRanking, Scoring, Ties
from rankcast.model.events import Event
from rankcast.model.subscriptions import SubscriberId
from rankcast.overlay.messages import MAX_NUMBER, ScoreCount
from rankcast.overlay.routing.interests import Record
from rankcast.ranking.audiences import (
    by_id,
    diverse_scores,
    draws,
    event_number,
    relevant_score,
    select,
    subscriber_number,
)

LEAST_WEIGHT = 1e-300
"""Weights below count as that much: what is divided by them stays finite."""

MOST_COUNTED = 10**9 - 1
"""Members of all groups that quotas are drawn for: numpy draws for no more. Whoever claims more has as many as that."""


def choose(
    records: Sequence[Record],
    k: int,
    ranking: AudienceRanking,
    event: Event,
    random: np.random.Generator | None = None,
    weights: Sequence[float] | None = None,
) -> list[SubscriberId]:
    """Return the k best subscribers of those with a relevant record, the best first; `random` draws anew."""
    found = _scored(records, ranking.scoring, event)
    names = [records[at].interest.key.subscriber for at, _ in found]
    known = {name: at for at, name in enumerate(dict.fromkeys(names))}
    owner = np.array([known[name] for name in names], np.int64)
    if ranking.ties is Ties.BY_ID:
        order = by_id(names)
    elif random is None:
        numbers = np.array([subscriber_number(name) for name in known], np.uint64)
        order = draws(event_number(ranking.seed, event.identity), numbers)[owner]
    else:
        weighed = None if weights is None else [weights[at] for at, _ in found]
        several = np.bincount(owner, minlength=len(known)) - 1  # a subscriber stands for itself once
        order = chance(np.bincount(owner, weighed, len(known)) - several, random)[owner]
    scores = None if ranking.scoring is Scoring.NONE else np.array([score for _, score in found])
    return [names[at] for at in select(owner, scores, order, k).tolist()]


def best_scores(records: Iterable[Record], scoring: Scoring, event: Event) -> dict[SubscriberId, float]:
    """Return what each subscriber scores, by the best of its relevant records."""
    given, best = list(records), dict[SubscriberId, float]()
    for at, score in _scored(given, scoring, event):
        name = given[at].interest.key.subscriber
        best[name] = max(score, best.get(name, score))
    return best


def _scored(records: Sequence[Record], scoring: Scoring, event: Event) -> list[tuple[int, float]]:
    """Return the positions of the relevant records, and what they score."""
    interests = [record.interest for record in records]
    relevant = [
        (at, score)
        for at, interest in enumerate(interests)
        if (score := relevant_score(interest.score, interest.relevance, event)) is not None
    ]
    if scoring is Scoring.RELEVANCE:
        return relevant
    if scoring is Scoring.DIVERSITY:
        scores = diverse_scores([interests[at].filter for at, _ in relevant]).tolist()
        return [(at, score) for (at, _), score in zip(relevant, scores, strict=True)]
    return [(at, interests[at].score if scoring is Scoring.PREFERENCE else 0.0) for at, _ in relevant]


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


def levels(scores: Iterable[ScoreCount], k: int) -> tuple[ScoreCount, ...]:
    """Return how many have each score, the best first, down to where k are reached."""
    counts: Counter[float] = Counter()
    for score, number in scores:
        counts[score] += number
    found: list[ScoreCount] = []
    reached = 0
    for score in sorted(counts, reverse=True):
        if reached >= k:
            break
        found.append(ScoreCount(score, min(counts[score], MAX_NUMBER - 1)))
        reached += counts[score]
    return tuple(found)


def shares(groups: Sequence[Iterable[ScoreCount]], k: int, random: np.random.Generator) -> list[int]:
    """Return how many of the k best fall to each of several groups, when members of one score are equally likely.

    >>> shares([[ScoreCount(0.9, 1), ScoreCount(0.5, 4)], [ScoreCount(0.7, 2)]], 3, np.random.default_rng(1))
    [1, 2]
    """
    counts = [dict(group) for group in groups]
    drawn = [0] * len(groups)
    for score in sorted({score for group in counts for score in group}, reverse=True):
        if sum(drawn) == k:
            break
        own = quotas([group.get(score, 0) for group in counts], k - sum(drawn), random)
        drawn = [before + more for before, more in zip(drawn, own, strict=True)]
    return drawn


def members(scores: Mapping[SubscriberId, float], share: int, random: np.random.Generator) -> list[SubscriberId]:
    """Return the best of some subscribers, so many, those of one score equally likely."""
    by_score: dict[float, list[SubscriberId]] = {}
    for name, score in scores.items():
        by_score.setdefault(score, []).append(name)
    found: list[SubscriberId] = []
    for score in sorted(by_score, reverse=True):
        names, left = by_score[score], min(len(by_score[score]), share - len(found))
        found += [names[at] for at in random.choice(len(names), left, replace=False).tolist()] if left else []
    return found
