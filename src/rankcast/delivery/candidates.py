"""What a delivery policy knows of an event: its identity, time, expiry, score and content, and which are the best."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from rankcast.delivery.contents import Content
from rankcast.delivery.diverse_selection import diverse_selection
from rankcast.model.diversity import Diversity
from rankcast.model.events import Identity
from rankcast.model.times import LATEST


@dataclass(frozen=True, slots=True)
class Candidate:
    """A matching event that competes for delivery in one queue.

    `content` is what the queue's policy compares for diversity (`contents.WantedContent`): nothing without diversity.
    """

    identity: Identity
    time: datetime
    score: float
    expires: datetime | None = None
    content: Content = ()

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


def place(candidate: Candidate) -> tuple[float, timedelta, Identity]:
    """Return where a candidate stands, the better the smaller: by score, then newer time, then (source, id)."""
    return -candidate.score, LATEST - candidate.time, candidate.identity


def best(candidates: Iterable[Candidate], k: int) -> list[Candidate]:
    """Return the best k, the best first."""
    return sorted(candidates, key=place)[:k]


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
