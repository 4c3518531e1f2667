"""What clients have at a broker, whose it is, and until when without renewal, by the broker's own clock."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import NamedTuple

from rankcast.model.errors import shown
from rankcast.model.times import LATEST
from rankcast.overlay.effects import Reason, RefusedError


class Kind(Enum):
    """What is leased."""

    SUBSCRIBER = "subscriber"
    ADVERTISEMENT = "advertisement"


class Leased(NamedTuple):
    """A subscriber or an advertisement by its id."""

    kind: Kind
    id: str


@dataclass(frozen=True, slots=True)
class Lease:
    """Who has it, for how long at a time (None: without end), and when it ends."""

    client: str
    duration: timedelta | None
    end: datetime

    @staticmethod
    def begin(client: str, duration: timedelta | None, now: datetime) -> Lease:
        """Return a lease that begins now."""
        end = LATEST if duration is None or duration >= LATEST - now else now + duration
        return Lease(client, duration, end)


class Leases:
    """The leases of all clients, and which one ends next."""

    def __init__(self) -> None:
        self._held: dict[Leased, Lease] = {}
        self._of_client: dict[str, set[Leased]] = {}
        self._ends: list[tuple[datetime, str, str, Leased]] = []

    def __iter__(self) -> Iterator[tuple[Leased, Lease]]:
        return iter(self._held.items())

    def check(self, client: str, leased: Leased) -> None:
        """Raise when something is another client's."""
        known = self._held.get(leased)
        if known is not None and known.client != client:
            raise RefusedError(Reason.WRONG_LINK, f"{leased.kind.value} {shown(leased.id)} belongs to another client")

    def put(self, leased: Leased, lease: Lease) -> None:
        """Let a lease begin, in the place of a former one."""
        self._held[leased] = lease
        self._of_client.setdefault(lease.client, set()).add(leased)
        if lease.end < LATEST:
            heapq.heappush(self._ends, (lease.end, leased.kind.value, leased.id, leased))

    def drop(self, leased: Leased) -> None:
        """End a lease."""
        client = self._held.pop(leased).client
        self._of_client[client].discard(leased)
        if not self._of_client[client]:
            del self._of_client[client]

    def renew(self, client: str, now: datetime) -> None:
        """Let all leases of a client begin anew."""
        if client not in self._of_client:
            raise RefusedError(Reason.UNKNOWN, "the client has nothing here that could be renewed")
        for leased in sorted(self._of_client[client], key=lambda one: (one.kind.value, one.id)):
            self.put(leased, Lease.begin(client, self._held[leased].duration, now))

    def ended(self, now: datetime) -> list[Leased]:
        """Return what has ended and is still held, in the order of its ends."""
        found: list[Leased] = []
        while self._ends and self._ends[0][0] <= now:
            end, _, _, leased = heapq.heappop(self._ends)
            lease = self._held.get(leased)
            if lease is not None and lease.end == end and leased not in found:
                found.append(leased)
        return found

    @property
    def next_end(self) -> datetime | None:
        """When a lease may end."""
        return self._ends[0][0] if self._ends else None
