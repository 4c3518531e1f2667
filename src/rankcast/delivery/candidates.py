"""What a delivery policy knows of an event: its identity, time, expiry and score, and the order these give."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from rankcast.model.events import Identity


@dataclass(frozen=True, slots=True)
class Candidate:
    """A matching event that competes for delivery in one queue."""

    identity: Identity
    time: datetime
    score: float
    expires: datetime | None = None

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


def best(candidates: Iterable[Candidate], k: int) -> list[Candidate]:
    """Return the best k: by score, then newer time, then (source, id)."""
    by_identity = sorted(candidates, key=lambda candidate: candidate.identity)
    return sorted(by_identity, key=lambda candidate: (candidate.score, candidate.time), reverse=True)[:k]
