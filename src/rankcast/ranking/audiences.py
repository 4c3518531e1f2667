"""Whom an event is for: the k best subscribers of those who want it, in every engine by the same selector.

Of an event's matches `select` takes subscribers by score, each by the best of its own, and equals in a given order:

- by id, or
- by `draws`: a hash of the ranking's seed, the event and the subscriber. Over events and seeds every order of the
  subscribers is as likely as any other; yet it depends on nothing else, so it is the same in the hub, in its replay, in
  every partition and batch on Spark, and at every broker.

What a match scores is for `Scoring` to say. A subscription that needs a relevance which the event does not have is no
match. Of diverse ones the score is the sum of the distances between filters, as boxes in the grid of all their sides:
the paper's diversity of subscriptions. It is rounded once, so that it does not depend on the order of the matches.

Paper: top-k covering for publish/subscribe overlays, its semantics of k: relevance, fairness, both, and diversity.
Cost: a sort of the matches; with diversity the square of their number.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b

import numpy as np

from rankcast.arrays import Array, starts_of
from rankcast.covering.boxes import BoxRows, hull
from rankcast.model.events import Event, Identity
from rankcast.model.filters import Filter
from rankcast.model.relevance import Relevance
from rankcast.ranking.relevance import relevance_of

_ONCE, _TWICE = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
"""The multipliers of splitmix64 (Steele, Lea and Flood), which lets every bit depend on every other."""

SPARE = 4
"""How many times k are looked at first, and how many more: a subscriber may be there several times."""

MANY = 2 * SPARE
"""An event with more matches than so many times k, and as many more, is looked at by itself, its best few first."""


def select(subscriber: Array, scores: Array | None, order: Array, k: int | Array, event: Array | None = None) -> Array:
    """Return the positions of the best match of each chosen subscriber, the best first.

    Matches have a subscriber, a score (without: all the same) and the subscriber's place among equals, the smaller one
    first. Those of several events say which `event` each is of, in ascending order; they are chosen apart, and `k` is
    an array by event then.

    >>> select(np.array([7, 7, 8, 9]), np.array([0.1, 0.9, 0.5, 0.5]), np.array([1, 1, 2, 0]), 2)
    array([1, 3])
    """
    if event is None:
        assert isinstance(k, int)
        return _select_of_one(subscriber, scores, order, k)
    k = np.asarray(k)
    sizes = np.bincount(event, minlength=len(k))
    are_many = sizes > MANY * (k + MANY)
    start = starts_of(sizes)
    found = [np.zeros(0, np.int64)]
    for at in np.flatnonzero(are_many).tolist():
        own = slice(start[at], start[at + 1])
        given = subscriber[own], None if scores is None else scores[own], order[own]
        found.append(start[at] + _select_of_one(*given, int(k[at])))
    few = np.flatnonzero(~are_many[event])
    best = few[np.lexsort((order[few], event[few]) if scores is None else (order[few], -scores[few], event[few]))]
    best = best[first_of_each(subscriber[best], event[best])]
    of = event[best]
    best = np.concatenate([best[np.arange(len(best)) - np.searchsorted(of, of) < k[of]], *found])
    return best[np.argsort(event[best], kind="stable")]


def _select_of_one(subscriber: Array, scores: Array | None, order: Array, k: int) -> Array:
    """Choose of the matches of one event: of the best few, as long as these are of enough subscribers."""
    few = _leading(scores, order, SPARE * (k + SPARE)) if len(order) > SPARE * (k + SPARE) else None
    at = np.arange(len(order)) if few is None else few
    best = at[np.lexsort((order[at],) if scores is None else (order[at], -scores[at]))]
    best = best[first_of_each(subscriber[best])]
    if few is not None and len(best) < k:
        best = np.lexsort((order,) if scores is None else (order, -scores))
        best = best[first_of_each(subscriber[best])]
    return best[:k]


def _leading(scores: Array | None, order: Array, count: int) -> Array:
    """Return the positions of at least so many of the best matches, in ascending order."""
    if scores is None:
        return np.flatnonzero(order <= np.partition(order, count - 1)[count - 1])
    least = -np.partition(-scores, count - 1)[count - 1]
    missing = count - np.count_nonzero(scores > least)
    last = np.partition(order[scores == least], missing - 1)[missing - 1]
    return np.flatnonzero((scores > least) | ((scores == least) & (order <= last)))


def first_of_each(subscriber: Array, event: Array | None = None) -> Array:
    """Return the positions at which a subscriber comes for the first time, or does for an event."""
    keys = (subscriber,) if event is None else (subscriber, event)
    by_who = np.lexsort(keys)
    is_first = np.zeros(len(by_who), bool)
    is_first[:1] = True
    for key in keys:
        is_first[1:] |= key[by_who][1:] != key[by_who][:-1]
    found = by_who[is_first]  # the sort is stable: of each the earliest
    found.sort()
    return found


def event_number(seed: int, event: Identity) -> int:
    """Return a number of 64 bits for an event under a seed."""
    text = event.source.encode("utf-8", "surrogatepass")
    return _hashed(b"%d:%d:%b:%b" % (seed, len(text), text, event.id.encode("utf-8", "surrogatepass")))


def subscriber_number(subscriber: str) -> int:
    """Return a number of 64 bits for a subscriber."""
    return _hashed(subscriber.encode("utf-8", "surrogatepass"))


def _hashed(text: bytes) -> int:
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "little")


def draws(events: int | Array, subscribers: Array) -> Array:
    """Return the places among equals that chance gives to subscribers, all by their numbers.

    >>> draws(event_number(0, Identity("/flats", "1")), np.array([subscriber_number("ana")], np.uint64)).dtype
    dtype('uint64')
    """
    found = subscribers ^ (np.uint64(events) if isinstance(events, int) else events)
    found = (found ^ (found >> np.uint64(30))) * _ONCE
    found = (found ^ (found >> np.uint64(27))) * _TWICE
    mixed: Array = found ^ (found >> np.uint64(31))
    return mixed


def by_id(subscribers: Iterable[str]) -> Array:
    """Return the place of each subscriber in the order of ids.

    >>> by_id(["rui", "ana", "rui"])
    array([1, 0, 1])
    """
    names = list(subscribers)
    places = {name: place for place, name in enumerate(sorted(set(names)))}
    return np.array([places[name] for name in names], np.int64)


def relevant_score(rank: float, relevance: Relevance | None, event: Event) -> float | None:
    """Return what a match scores by relevance; None when it has none, and so is no match by any scoring."""
    found = 1.0 if relevance is None else relevance_of(event, relevance)
    return None if found is None else rank * found


def diverse_scores(filters: Sequence[Filter]) -> Array:
    """Return the sum of the distances of each filter to all."""
    return np.array([math.fsum(row.tolist()) for row in distance_rows(filters)])


def distance_rows(filters: Sequence[Filter]) -> Iterator[Array]:
    """Give for one filter after the other its distances to all.

    >>> from rankcast.model.expressions import attr
    >>> low, high = Filter.of(attr("rent").between(0, 600)), Filter.of(attr("rent").between(300, 900))
    >>> [row.round(2).tolist() for row in distance_rows([low, high])]
    [[0.0, 0.67], [0.67, 0.0]]
    """
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
