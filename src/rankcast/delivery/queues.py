"""Queues: explicit, immutable state of one subscriber's delivery, and how it moves on.

`step(queue, candidate, now) -> (queue, deliveries)` lets time pass to `now` and one matching event arrive (or none).
Times never go back. What is due before `now` comes first, in order, each delivery with its own instant. Arrivals of one
instant belong together: a caller that may still bring another one for the same `now` passes `closed=False`, and the
policies that look at whole instants wait until time moves on.

A queue holds its policy, so state and policy cannot disagree. Every policy is a subclass that follows its definition
literally; faster forms are tested against these.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import datetime
from typing import TypeAlias

from rankcast.delivery.candidates import Candidate, Delivered
from rankcast.model.times import LATEST

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
