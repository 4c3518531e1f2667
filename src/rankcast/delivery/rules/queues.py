"""Queues: explicit, immutable state of one subscriber's delivery, and how it moves on.

`step(queue, candidate, now) -> (queue, deliveries)` lets time pass to `now` and one matching event arrive (or none).
Times never go back. What is due before `now` comes first, in order, each delivery with its own instant. Arrivals of one
instant belong together: a caller that may still bring another one for the same `now` passes `closed=False`, and the
policies that look at whole instants wait until time moves on.

A `Candidate` is what a policy knows of an event: its identity, time, expiry, score and content. The order of a queue,
with its ties, is decided here and nowhere else in the definition: `best`, and what can still be among the best. Diverse
selection has an order of its own (`rankcast.ranking.diversity`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta, timezone
from heapq import heappush, heappushpop
from itertools import islice
from operator import attrgetter, eq
from typing import TypeAlias, TypeVar

import numpy as np
from msgspec import Struct

from rankcast.compiling import is_loaded
from rankcast.compiling.arguments import KernelArguments
from rankcast.delivery.engine.contents import NO_SETTINGS, Content, Contents, diverse_arguments
from rankcast.delivery.engine.kernels.diverse import select_events
from rankcast.model.events import Identity
from rankcast.model.policies import Diversity
from rankcast.model.times import LATEST
from rankcast.ranking.diversity import diverse_best


class Candidate(Struct, frozen=True, array_like=True):
    """A matching event that competes for delivery in one queue.

    `content` is what the queue's policy compares for diversity (`contents.WantedContent`): nothing without diversity.
    `arrival` is given by a window when the event enters it: its number among all that did. An identity may also be a
    number, where a caller has numbered events in the order of (source, id).
    """

    identity: Identity | int
    time: datetime
    score: float
    expires: datetime | None = None
    content: Content = ()
    arrival: int = 0

    def is_valid_at(self, now: datetime) -> bool:
        """Whether the event has not expired: `expires > now`."""
        return self.expires is None or self.expires > now

    def outlives(self, other: Candidate) -> bool:
        """Whether this event is valid at least as long as the other one."""
        return self.expires is None or (other.expires is not None and self.expires >= other.expires)


class Delivered(Struct, frozen=True):
    """A candidate that its policy delivers, and the instant at which it does."""

    candidate: Candidate
    time: datetime


def place(candidate: Candidate) -> tuple[float, timedelta, Identity | int]:
    """Return where a candidate stands, the better the smaller: by score, then newer time, then (source, id)."""
    return -candidate.score, LATEST - candidate.time, candidate.identity


_SCORE = attrgetter("score")


def ordered(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Return candidates in the order of their places, the best first.

    >>> from datetime import UTC
    >>> now = datetime(2026, 1, 1, tzinfo=UTC)
    >>> [one.identity for one in ordered([Candidate(2, now, 0.5), Candidate(1, now, 0.5), Candidate(3, now, 0.9)])]
    [3, 1, 2]
    """
    found = sorted(candidates, key=_SCORE, reverse=True)
    scores = list(map(_SCORE, found))
    if any(map(eq, scores, islice(scores, 1, None))):  # most of the time scores decide, and places cost more
        found.sort(key=place)
    return found


def best(candidates: Iterable[Candidate], k: int) -> list[Candidate]:
    """Return the best k, the best first."""
    return ordered(candidates)[:k]


FOREVER = datetime.max.replace(tzinfo=timezone(timedelta(hours=-23)))
"""Until when an event is valid that does not expire: later than any time that an event can have."""

Moment = TypeVar("Moment", int, datetime)


def needed(
    candidates: Iterable[Candidate],
    k: int,
    stay: Callable[[Candidate], tuple[Moment, datetime]],
    newest: Candidate | None = None,
    *,
    equals: bool = False,
) -> tuple[Candidate, ...]:
    """Return what can still be among the best k: all but those that at least k others come before and outstay.

    `stay` tells how long a candidate stays, in two ways: one stays as long as another if it does in both. With `newest`
    all others were needed before it came, so only what it outstays is looked at: what has left since was above none
    that stayed. What comes before one that is dropped and stays as long is counted only while it is kept itself:
    whatever is above that is above the dropped one too, so k of them are. With `equals` whatever scores as high comes
    before: of equals that which stays longer, or the better place. The candidates come back in the order in which they
    were given.
    """
    held = tuple(candidates)
    if len(held) <= k:
        return held
    best_first = ordered(held)
    if equals:
        best_first.sort(key=lambda event: (event.score, stay(event)), reverse=True)
    arrived = None if newest is None else stay(newest)
    dropped: set[Identity | int] = set()
    kept: list[tuple[Moment, datetime]] = []
    longest: list[Moment] = []  # of those kept, the k that stay longest in the first way: a heap
    for event in best_first:
        first, second = own = stay(event)
        if len(longest) < k:
            heappush(longest, first)
        elif longest and longest[0] < first:
            heappushpop(longest, first)
        elif arrived is None or (arrived[0] >= first and arrived[1] >= second):
            above = 0
            for other, as_long in kept:
                if other >= first and as_long >= second:
                    above += 1
                    if above == k:
                        break
            if above >= k:
                dropped.add(event.identity)
                continue
        kept.append(own)
    return held if not dropped else tuple([event for event in held if event.identity not in dropped])


FEW = 16
"""Candidates up to which the plain algorithm is as fast as arrays are made."""


def diverse_selection(contents: Sequence[Content], ranks: Sequence[float], k: int, diversity: Diversity) -> list[int]:
    """Return the positions of the k events selected greedily, in order; events are oldest first.

    By the plain algorithm when they are few, by kernels when they are many; both give the same selection.

    >>> films = [(("genre", "drama"),), (("genre", "drama"),), (("genre", "war"),)]
    >>> diverse_selection(films, [0.9, 0.8, 0.5], 2, Diversity())
    [0, 2]
    """
    if len(contents) <= FEW or not is_loaded(select_events):  # a first event is not to wait for a compiler
        return diverse_best([dict(content) for content in contents], ranks, k, diversity.sigma, diversity.distance)
    return selected_by_kernel(selection_arguments(contents, diversity), ranks, k)


def selection_arguments(contents: Sequence[Content], diversity: Diversity) -> KernelArguments:
    """Return contents, and how they are compared, as the kernel takes them."""
    settings, _ = NO_SETTINGS.including([diversity])
    return diverse_arguments(Contents.of(dict(enumerate(contents))), settings)


def selected_by_kernel(arguments: KernelArguments, ranks: Sequence[float], k: int) -> list[int]:
    """Return the positions of the k events selected by the kernel, in order."""
    selected = np.empty(min(k, len(ranks)), np.int64)
    select_events(np.array(ranks, np.float64), arguments.addresses, selected)
    found: list[int] = selected.tolist()
    return found


def chosen(candidates: Iterable[Candidate], k: int, diversity: Diversity | None) -> list[Candidate]:
    """Return the k that a policy chooses: the best or, with diversity, those of a diverse selection, in its order.

    There equals go to the older one: of lower time, then (source, id).
    """
    if diversity is None:
        return best(candidates, k)
    oldest_first = sorted(candidates, key=lambda candidate: (candidate.time, candidate.identity))
    contents = [candidate.content for candidate in oldest_first]
    scores = [candidate.score for candidate in oldest_first]
    return [oldest_first[at] for at in diverse_selection(contents, scores, k, diversity)]


Moved: TypeAlias = tuple["Queue", list[Delivered]]


class Queue(Struct, frozen=True):
    """One subscriber's events that compete for delivery. Every method returns a new queue."""

    def arrive(self, candidate: Candidate, now: datetime) -> Moved:
        """Let one candidate arrive at `now`; everything due before has been done."""
        raise NotImplementedError

    def pass_time(self, now: datetime) -> Moved:
        """Let time pass to `now`: do everything that is due before it."""
        return self, []

    def close(self, now: datetime) -> Moved:
        """Nothing more arrives at `now`: do what was waiting for that."""
        return self, []

    @property
    def held(self) -> tuple[Candidate, ...]:
        """The candidates that may still be delivered or hold back others."""
        return ()

    def held_at(self, now: datetime) -> tuple[Candidate, ...]:
        """Return what is still held at `now`, to which the queue has not been moved yet."""
        return tuple(event for event in self.held if event.is_valid_at(now))

    @property
    def next_instant(self) -> datetime | None:
        """When the queue has something to do by itself, at the earliest; None when it only waits for arrivals."""
        return None


def step(queue: Queue, candidate: Candidate | None, now: datetime, *, closed: bool = True) -> Moved:
    """Move a queue to `now`, with the arrival of a candidate or without; return it and what is delivered, in order."""
    queue, delivered = queue.pass_time(now)
    if candidate is not None:
        queue, more = queue.arrive(candidate, now)
        delivered += more
    if closed:
        queue, more = queue.close(now)
        delivered += more
    return queue, delivered


def finished(queue: Queue) -> Moved:
    """End the input: open periods and windows are completed, as if time went on for ever."""
    return step(queue, None, LATEST)
