"""Queues: explicit, immutable state of one subscriber's delivery, and how it moves on.

`step(queue, candidate, now) -> (queue, deliveries)` lets time pass to `now` and one matching event arrive (or none).
Times never go back. What is due before `now` comes first, in order, each delivery with its own instant. Arrivals of one
instant belong together: a caller that may still bring another one for the same `now` passes `closed=False`, and the
policies that look at whole instants wait until time moves on.

A `Candidate` is what a policy knows of an event: its identity, time, expiry, score and content. The order of a queue,
with its ties, is decided here and nowhere else in the definition: `best`, and what can still be among the best.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias

from rankcast.delivery.engine.contents import Content
from rankcast.delivery.rules.diverse_selection import diverse_selection
from rankcast.model.diversity import Diversity
from rankcast.model.events import Identity
from rankcast.model.times import LATEST


@dataclass(frozen=True, slots=True)
class Candidate:
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


@dataclass(frozen=True, slots=True)
class Delivered:
    """A candidate that its policy delivers, and the instant at which it does."""

    candidate: Candidate
    time: datetime


def place(candidate: Candidate) -> tuple[float, timedelta, Identity | int]:
    """Return where a candidate stands, the better the smaller: by score, then newer time, then (source, id)."""
    return -candidate.score, LATEST - candidate.time, candidate.identity


def best(candidates: Iterable[Candidate], k: int) -> list[Candidate]:
    """Return the best k, the best first."""
    return sorted(candidates, key=place)[:k]


def needed(
    candidates: Iterable[Candidate], k: int, stays: Callable[[Candidate, Candidate], bool]
) -> tuple[Candidate, ...]:
    """Return what can still be among the best k: all but those that at least k others come before and outstay.

    `stays(one, other)` tells whether one leaves no sooner than the other. What comes before one that is dropped and
    stays as long is counted only while it is kept itself: whatever is above that is above the dropped one too, so k of
    them are. The candidates come back in the order in which they were given.
    """
    held = list(candidates)
    kept: list[Candidate] = []
    for one in sorted(held, key=place):
        above = 0
        for other in kept:
            above += stays(other, one)
            if above >= k:
                break
        if above < k:
            kept.append(one)
    wanted = {one.identity for one in kept}
    return tuple(one for one in held if one.identity in wanted)


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


class Queue(ABC):
    """One subscriber's events that compete for delivery. Subclasses are frozen; every method returns a new queue."""

    __slots__ = ()

    @abstractmethod
    def arrived(self, candidate: Candidate, now: datetime) -> Moved:
        """Let one candidate arrive at `now`; everything due before has been done."""

    def passed(self, now: datetime) -> Moved:
        """Let time pass to `now`: do everything that is due before it."""
        return self, []

    def settled(self, now: datetime) -> Moved:
        """Nothing more arrives at `now`: do what was waiting for that."""
        return self, []

    @property
    def held(self) -> tuple[Candidate, ...]:
        """The candidates that may still be delivered or hold back others."""
        return ()

    def held_at(self, now: datetime) -> tuple[Candidate, ...]:
        """Return what is still held at `now`, to which the queue has not been moved yet."""
        return tuple(one for one in self.held if one.is_valid_at(now))

    @property
    def next_instant(self) -> datetime | None:
        """When the queue has something to do by itself, at the earliest; None when it only waits for arrivals."""
        return None


def step(queue: Queue, candidate: Candidate | None, now: datetime, *, closed: bool = True) -> Moved:
    """Move a queue to `now`, with the arrival of a candidate or without; return it and what is delivered, in order."""
    queue, delivered = queue.passed(now)
    if candidate is not None:
        queue, more = queue.arrived(candidate, now)
        delivered += more
    if closed:
        queue, more = queue.settled(now)
        delivered += more
    return queue, delivered


def finished(queue: Queue) -> Moved:
    """End the input: open periods and windows are completed, as if time went on for ever."""
    return step(queue, None, LATEST)
