"""Choosing the audience of an event: the k best of the interests that match, and how many of them are behind each link.

Scores come first; equals are taken in the order of their keys, or shuffled. In the weighted shuffle each interest comes
next with a probability in proportion to its weight among those left: every weight divides an exponential variate, and
the smallest quotients come first. That is the paper's shuffle with a tree of cumulative weights, in O(n log n) too.

Where only counts are known, the numbers that fall to each link follow the multivariate hypergeometric distribution: k
drawn at once from all that match, each as likely as any other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from rankcast.arrays import Array
from rankcast.covering.boxes import BoxRows, hull
from rankcast.model.events import Event
from rankcast.model.filters import Filter
from rankcast.overlay.messages import AudienceRanking, Scoring, Ties
from rankcast.overlay.routing.interests import Record
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
    """Return the best k of some relevant records, the best first."""
    if ranking.ties is Ties.BY_ID:
        ordered = sorted(range(len(records)), key=lambda at: records[at].interest.key)
    else:
        ordered = shuffle(np.ones(len(records)) if weights is None else np.asarray(weights, float), random)
    scores = _scores(records, ranking.scoring, event)
    if scores is not None:
        ordered = sorted(ordered, key=lambda at: -scores[at])
    return [records[at] for at in ordered[:k]]


def shuffle(weights: np.ndarray[tuple[int], np.dtype[np.float64]], random: np.random.Generator) -> list[int]:
    """Return all positions in a random order, heavier ones rather earlier.

    >>> shuffle(np.array([1.0, 1e12, 1.0]), np.random.default_rng(1))[0]
    1
    """
    draws = random.standard_exponential(len(weights)) / np.maximum(weights, LEAST_WEIGHT)
    order: list[int] = np.argsort(draws, kind="stable").tolist()
    return order


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


def _scores(records: Sequence[Record], scoring: Scoring, event: Event) -> Sequence[float] | None:
    if scoring is Scoring.NONE:
        return None
    if scoring is Scoring.DIVERSITY:
        # Rounded once, so that sums do not depend on the order in which a broker knows its interests.
        return [math.fsum(row.tolist()) for row in distance_rows([record.interest.filter for record in records])]
    if scoring is Scoring.PREFERENCE:
        return [record.interest.score for record in records]
    return [_relevance(record, event) for record in records]


def _relevance(record: Record, event: Event) -> float:
    relevance = record.interest.relevance
    found = 1.0 if relevance is None else relevance_of(event, relevance)
    return record.interest.score * (0.0 if found is None else found)


def distances(filters: Sequence[Filter]) -> Array:
    """Return the distance of each filter to each, as one table.

    >>> from rankcast.model.expressions import attr
    >>> low, high = Filter.of(attr("rent").between(0, 600)), Filter.of(attr("rent").between(300, 900))
    >>> distances([low, high])[0].round(2).tolist()
    [0.0, 0.67]
    """
    return np.array(list(distance_rows(filters))).reshape(len(filters), len(filters))


def distance_rows(filters: Sequence[Filter]) -> Iterator[Array]:
    """Give for one filter after the other its distances to all."""
    rows = BoxRows()
    for wanted in filters:  # all places first: a new one can move the labels of others
        rows.space.boxed(wanted)
    for number, wanted in enumerate(filters):
        rows.write(number, hull(rows.space.boxed(wanted).outer))
    count = len(filters)
    first, last = _cells(rows.starts[:count], rows.ends[:count])
    volumes = (last - first).prod(axis=1)
    for number in range(count):
        sides = np.minimum(last, last[number]) - np.maximum(first, first[number])
        shared = sides.clip(min=0).prod(axis=1)
        yield 1 - shared / (volumes + volumes[number] - shared)


def _cells(starts: Array, ends: Array) -> tuple[Array, Array]:
    """Return the boxes with their sides counted in cells of the grid of all sides."""
    first, last = np.empty(starts.shape), np.empty(ends.shape)
    for attribute in range(starts.shape[1]):
        cuts = np.unique(np.concatenate([starts[:, attribute], ends[:, attribute]]))
        first[:, attribute] = np.searchsorted(cuts, starts[:, attribute])
        last[:, attribute] = np.searchsorted(cuts, ends[:, attribute])
    return first, last
