"""What clients have at a broker, whose it is, and until when without renewal, by the broker's own clock.

When events are waited for no longer: each has at most one end, and the next one is known at once.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import NamedTuple

from rankcast.model.errors import shown
from rankcast.model.events import Identity
from rankcast.model.times import LATEST
from rankcast.overlay.effects import Reason, RefusedError


class LeaseKind(Enum):
    """What is leased."""

    SUBSCRIBER = "subscriber"
    ADVERTISEMENT = "advertisement"


class Leased(NamedTuple):
    """A subscriber or an advertisement by its id."""

    kind: LeaseKind
    id: str


@dataclass(frozen=True, slots=True)
class Lease:
    """Who has it, for how long at a time (None: without end), when it ends, and how many subscriptions it has."""

    client: str
    duration: timedelta | None
    end: datetime
    size: int = 1

    @staticmethod
    def begin(client: str, duration: timedelta | None, now: datetime, size: int = 1) -> Lease:
        """Return a lease that begins now."""
        end = LATEST if duration is None or duration >= LATEST - now else now + duration
        return Lease(client, duration, end, size)


class Room(NamedTuple):
    """How many of something one client may have, and all clients of a broker together."""

    what: str
    of_client: int
    of_all: int


class Leases:
    """The leases of all clients, and which one ends next."""

    def __init__(self) -> None:
        self._held: dict[Leased, Lease] = {}
        self._of_client: dict[str, set[Leased]] = {}
        self._ends: list[tuple[datetime, str, str, Leased]] = []
        self._sizes: Counter[tuple[str | None, LeaseKind]] = Counter()
        """Sums of sizes by client, and of all clients (None)."""

    def __iter__(self) -> Iterator[tuple[Leased, Lease]]:
        return iter(self._held.items())

    def client(self, leased: Leased) -> str:
        """Return whose something is that is held."""
        return self._held[leased].client

    def check(self, client: str, leased: Leased) -> None:
        """Raise when something is another client's."""
        known = self._held.get(leased)
        if known is not None and known.client != client:
            raise RefusedError(Reason.WRONG_LINK, f"{leased.kind.value} {shown(leased.id)} belongs to another client")

    def check_room(self, client: str, leased: Leased, size: int, room: Room) -> None:
        """Raise when something of this size would be more than a client may have, or all of them."""
        known = self._held.get(leased)
        more = size - (0 if known is None else known.size)
        for owner, most, whose in ((client, room.of_client, "one client"), (None, room.of_all, "all clients")):
            if more > 0 and self._sizes[owner, leased.kind] + more > most:
                raise RefusedError(
                    Reason.TOO_MANY,
                    f"{leased.kind.value} {shown(leased.id)}: more than {most:,} {room.what} of {whose}",
                )

    def put(self, leased: Leased, lease: Lease) -> None:
        """Let a lease begin, in the place of a former one."""
        self._add_size(leased, self._held.get(leased), -1)
        self._add_size(leased, lease, 1)
        self._held[leased] = lease
        self._of_client.setdefault(lease.client, set()).add(leased)
        if lease.end < LATEST:
            heapq.heappush(self._ends, (lease.end, leased.kind.value, leased.id, leased))

    def drop(self, leased: Leased) -> None:
        """End a lease."""
        lease = self._held.pop(leased)
        self._add_size(leased, lease, -1)
        client = lease.client
        self._of_client[client].discard(leased)
        if not self._of_client[client]:
            del self._of_client[client]

    def _add_size(self, leased: Leased, lease: Lease | None, sign: int) -> None:
        if lease is not None:
            for owner in (lease.client, None):
                self._sizes[owner, leased.kind] += sign * lease.size
                if not self._sizes[owner, leased.kind]:
                    del self._sizes[owner, leased.kind]

    def renew(self, client: str, now: datetime) -> None:
        """Let all leases of a client begin again."""
        if client not in self._of_client:
            raise RefusedError(Reason.UNKNOWN, "the client has nothing here that could be renewed")
        for leased in sorted(self._of_client[client], key=lambda one: (one.kind.value, one.id)):
            held = self._held[leased]
            self.put(leased, Lease.begin(client, held.duration, now, held.size))

    def ended(self, now: datetime) -> list[Leased]:
        """Return what has ended and is still held, in the order of its ends."""
        found: dict[Leased, None] = {}
        while self._ends and self._ends[0][0] <= now:
            end, _, _, leased = heapq.heappop(self._ends)
            lease = self._held.get(leased)
            if lease is not None and lease.end == end:
                found[leased] = None
        return list(found)

    @property
    def next_end(self) -> datetime | None:
        """When a lease may end."""
        return self._ends[0][0] if self._ends else None


class Deadlines:
    """Ends by event. An end that was replaced or dropped stays in the heap until its turn, and then does not count.

    >>> from datetime import UTC
    >>> deadlines, one = Deadlines(), Identity("/flats", "1")
    >>> deadlines.put(one, datetime(2026, 1, 1, tzinfo=UTC))
    >>> deadlines.ended(datetime(2026, 1, 2, tzinfo=UTC)), deadlines.next
    ([Identity(source='/flats', id='1')], None)
    """

    def __init__(self) -> None:
        self._ends: dict[Identity, datetime] = {}
        self._heap: list[tuple[datetime, Identity]] = []

    def get(self, event: Identity) -> datetime | None:
        """Return when an event is waited for no longer; None when it is not waited for."""
        return self._ends.get(event)

    def put(self, event: Identity, end: datetime) -> None:
        """Wait for an event until then, and no longer than that."""
        self._ends[event] = end
        heapq.heappush(self._heap, (end, event))

    def drop(self, event: Identity) -> None:
        """Wait for an event no more, if it was waited for."""
        self._ends.pop(event, None)

    def ended(self, now: datetime) -> list[Identity]:
        """Return the events whose ends have come, in their order, and wait for them no more."""
        found: list[Identity] = []
        while self._heap and (self._heap[0][0] <= now or not self._counts(*self._heap[0])):
            end, event = heapq.heappop(self._heap)
            if self._counts(end, event):
                del self._ends[event]
                found.append(event)
        return found

    @property
    def next(self) -> datetime | None:
        """When the next end comes, or one that no longer counts."""
        return self._heap[0][0] if self._heap else None

    def _counts(self, end: datetime, event: Identity) -> bool:
        return self._ends.get(event) == end
