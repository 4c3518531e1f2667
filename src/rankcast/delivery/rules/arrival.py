"""The policies that decide when an event arrives, and only then: all matches, continuous, sliding.

- all: every candidate that has not expired.
- continuous(k): unless k valid delivered events come before it in the queue's order.
- sliding(k, w): among the w most recent matching events; the expired ones leave first and free their places, then the
  new one enters, then whatever is in the best k and was not delivered before is. With diversity the best k are those
  of a diverse selection among the window, made at every match.

A queue holds what can still be among its best k, delivered or not, and no more (`candidates.needed`). Of continuous
delivery that are delivered events which fewer than k others precede and outlive; keeping just the k best would be wrong
once events expire. A sliding window drops what k newer ones precede and outlive. What is dropped keeps its place in the
window until it would have left: the arrival number of each event that is held says how many are newer, and of dropped
events that will expire, and free their places then, number and expiry are kept. A diverse selection needs its whole
window.

An event that has expired when it arrives changes nothing.

Paper: PrefSIENA, its timing policies, with the corrections of docs/semantics.md. Cost per arrival: O(n^2) in the events
held, k(1 + ln(w/k)) of a window of w on average; k * w distances with diversity.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from rankcast.delivery.rules.queues import Candidate, Delivered, Moved, Queue, chosen, needed, place
from rankcast.model.events import Identity
from rankcast.model.policies import AllMatches, Continuous, Sliding


@dataclass(frozen=True, slots=True)
class EverythingQueue(Queue):
    """Delivery of all matches: nothing to remember."""

    policy: AllMatches

    def arrived(self, candidate: Candidate, now: datetime) -> Moved:
        """Deliver the candidate unless it has expired."""
        return self, [Delivered(candidate, now)] if candidate.is_valid_at(now) else []


@dataclass(frozen=True, slots=True)
class ContinuousQueue(Queue):
    """Continuous delivery: the delivered events that can still hold back another one."""

    policy: Continuous
    delivered: tuple[Candidate, ...] = ()

    def arrived(self, candidate: Candidate, now: datetime) -> Moved:
        """Deliver the candidate unless it has expired or k valid delivered events come before it."""
        if not candidate.is_valid_at(now):
            return self, []
        valid = tuple(one for one in self.delivered if one.is_valid_at(now))
        if sum(place(one) < place(candidate) for one in valid) >= self.policy.k:
            return replace(self, delivered=valid), []
        return continuous_queue(self.policy, (*valid, candidate)), [Delivered(candidate, now)]

    @property
    def held(self) -> tuple[Candidate, ...]:
        """The delivered events that hold back others."""
        return self.delivered


def continuous_queue(policy: Continuous, delivered: Iterable[Candidate]) -> ContinuousQueue:
    """Return the queue that holds what it needs of some delivered events."""
    return ContinuousQueue(policy, needed(delivered, policy.k, Candidate.outlives))


@dataclass(frozen=True, slots=True)
class SlidingQueue(Queue):
    """Sliding delivery: what is needed of the most recent matching events, oldest first, and which were delivered.

    `entered` counts the events that entered. `places` are the arrival numbers and expiries of events that are not held,
    are newer than the oldest that is, and will free their places when they expire.
    """

    policy: Sliding
    recent: tuple[Candidate, ...] = ()
    delivered: frozenset[Identity | int] = frozenset()
    entered: int = 0
    places: tuple[tuple[int, datetime], ...] = ()

    def arrived(self, candidate: Candidate, now: datetime) -> Moved:
        """Let expired events leave, the candidate enter, and deliver what is new among the best k."""
        if not candidate.is_valid_at(now):
            return self, []
        queue = self.without_expired(now)
        number = queue.entered + 1
        staying = [one for one in queue.recent if one.arrival > number - self.policy.window]
        delivered = self.delivered & {one.identity for one in staying}
        recent = (*staying, replace(candidate, arrival=number))
        new = [one for one in chosen(recent, self.policy.k, self.policy.diversity) if one.identity not in delivered]
        delivered |= {one.identity for one in new}
        queue = replace(queue, recent=recent, delivered=delivered, entered=number).with_what_is_needed()
        return queue, [Delivered(one, now) for one in new]

    def without_expired(self, now: datetime) -> SlidingQueue:
        """Let what has expired leave; older events are then so much nearer to the newest."""
        gone = [one.arrival for one in self.recent if not one.is_valid_at(now)]
        gone += (number for number, expires in self.places if expires <= now)
        if not gone:
            return self

        def moved(number: int) -> int:
            return number + sum(other > number for other in gone)

        recent = (replace(one, arrival=moved(one.arrival)) for one in self.recent if one.is_valid_at(now))
        places = ((moved(number), expires) for number, expires in self.places if expires > now)
        return replace(self, recent=tuple(recent), places=tuple(places))

    def with_what_is_needed(self) -> SlidingQueue:
        """Hold nothing outside the window and nothing that can no longer be among the best k, but for its place."""
        oldest = self.entered - self.policy.window + 1
        inside = tuple(one for one in self.recent if one.arrival >= oldest)
        recent = inside
        if self.policy.diversity is None:
            recent = needed(inside, self.policy.k, _stays_no_shorter)
        held = {one.identity for one in recent}
        oldest = max(oldest, min((one.arrival for one in recent), default=self.entered + 1))
        dropped = ((one.arrival, one.expires) for one in inside if one.identity not in held and one.expires is not None)
        places = sorted(place for place in (*self.places, *dropped) if place[0] >= oldest)
        return replace(self, recent=recent, delivered=self.delivered & held, places=tuple(places))

    @property
    def held(self) -> tuple[Candidate, ...]:
        """What is needed of the window."""
        return self.recent


def _stays_no_shorter(one: Candidate, other: Candidate) -> bool:
    """Whether one event leaves a window of so many events no sooner than another."""
    return one.arrival > other.arrival and one.outlives(other)
