"""The policies that decide when an event arrives, and only then: all matches, continuous, sliding.

- all: every candidate that has not expired.
- continuous(k): unless k valid delivered events have a higher rank. What was delivered is kept as far as it can still
  matter: an event that k others precede and outlive never decides anything again, nor is it in the list that is read
  on demand (the k-skyband on rank and expiry). Keeping just the k best would be wrong once events expire.
- sliding(k, w): among the w most recent matching events; the expired ones leave first and free their places, then the
  new one enters, then whatever is in the best k and was not delivered before is. With diversity the best k are those
  of a diverse selection among the window, made anew at every match.

Paper: PrefSIENA, its timing policies, with the corrections of docs/semantics.md. Cost per arrival: O(n^2) in the events
that continuous keeps, O(w log w) for sliding, k * w distances with diversity.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from rankcast.delivery.candidates import Candidate, Delivered, chosen, place
from rankcast.delivery.queues import Moved, Queue
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
        """Deliver the candidate unless it has expired or k valid delivered events have a higher rank."""
        valid = tuple(one for one in self.delivered if one.is_valid_at(now))
        higher = sum(one.score > candidate.score for one in valid)
        if not candidate.is_valid_at(now) or higher >= self.policy.k:
            return replace(self, delivered=valid), []
        kept = _skyband((*valid, candidate), self.policy.k)
        return replace(self, delivered=kept), [Delivered(candidate, now)]

    @property
    def held(self) -> tuple[Candidate, ...]:
        """The delivered events that hold back others."""
        return self.delivered


def _skyband(delivered: tuple[Candidate, ...], k: int) -> tuple[Candidate, ...]:
    """Drop every event that k better ones outlive; of equal rank the newer one is better, as in a list."""
    return tuple(
        one for one in delivered if sum(place(other) < place(one) and other.outlives(one) for other in delivered) < k
    )


@dataclass(frozen=True, slots=True)
class SlidingQueue(Queue):
    """Sliding delivery: the most recent matching events, oldest first, and which of them were delivered."""

    policy: Sliding
    recent: tuple[Candidate, ...] = ()
    delivered: frozenset[Candidate] = frozenset()

    def arrived(self, candidate: Candidate, now: datetime) -> Moved:
        """Let expired events leave, the candidate enter, and deliver what is new among the best k."""
        valid = [one for one in (*self.recent, candidate) if one.is_valid_at(now)]
        recent = tuple(valid[-self.policy.window :])
        top = chosen(recent, self.policy.k, self.policy.diversity)
        new = [one for one in top if one not in self.delivered]
        delivered = (self.delivered | frozenset(new)) & frozenset(recent)
        return replace(self, recent=recent, delivered=delivered), [Delivered(one, now) for one in new]

    @property
    def held(self) -> tuple[Candidate, ...]:
        """The window."""
        return self.recent
