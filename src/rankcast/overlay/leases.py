"""What clients have at a broker, whose it is, and until when without renewal, by the broker's own clock.

When events are waited for no longer: each has at most one end, and the next one is known at once.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Hashable, ItemsView
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Generic, NamedTuple, TypeVar

from rankcast.model.errors import shown
from rankcast.model.times import LATEST, later
from rankcast.overlay.effects import Reason, RefusedError

Key = TypeVar("Key", bound=Hashable)


class LeaseKind(StrEnum):
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
        end = LATEST if duration is None else later(now, duration)
        return Lease(client, duration, end, size)


class Room(NamedTuple):
    """How many of something one client may have, and all clients of a broker together."""

    what: str
    of_client: int
    of_all: int


class Deadlines(Generic[Key]):
    """Ends by key, of keys that can be ordered. One that was replaced or dropped stays in the heap until its turn.

    >>> from datetime import UTC
    >>> deadlines, event = Deadlines(), ("/flats", "1")
    >>> deadlines.put(event, datetime(2026, 1, 1, tzinfo=UTC))
    >>> deadlines.take_ended(datetime(2026, 1, 2, tzinfo=UTC)), deadlines.next
    ([('/flats', '1')], None)
    """

    def __init__(self) -> None:
        self._ends: dict[Key, datetime] = {}
        self._heap: list[tuple[datetime, Key]] = []

    def items(self) -> ItemsView[Key, datetime]:
        """Return all that is waited for, with its end."""
        return self._ends.items()

    def put(self, key: Key, end: datetime) -> None:
        """Wait for something until then, and no longer than that."""
        if self._ends.get(key) != end:
            self._ends[key] = end
            heapq.heappush(self._heap, (end, key))

    def drop(self, key: Key) -> None:
        """Wait for something no more, if it was waited for."""
        self._ends.pop(key, None)

    @property
    def next(self) -> datetime | None:
        """When the next end comes."""
        while self._heap and self._ends.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def pop(self) -> Key:
        """Return what `next` is the end of, and wait for it no more."""
        _, key = heapq.heappop(self._heap)
        del self._ends[key]
        return key

    def take_ended(self, now: datetime) -> list[Key]:
        """Return that whose end has come, in the order of the ends, and wait for it no more."""
        found: list[Key] = []
        while (end := self.next) is not None and end <= now:
            found.append(self.pop())
        return found


class Leases:
    """The leases of all clients, and which one ends next."""

    def __init__(self) -> None:
        self._held: dict[Leased, Lease] = {}
        self._of_client: dict[str, set[Leased]] = {}
        self.ends = Deadlines[Leased]()
        self._sizes: Counter[tuple[str | None, LeaseKind]] = Counter()
        """Sums of sizes by client, and of all clients (None)."""

    def items(self) -> ItemsView[Leased, Lease]:
        """Return all that is leased, with its lease."""
        return self._held.items()

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
        self.ends.drop(leased)
        if lease.end < LATEST:
            self.ends.put(leased, lease.end)

    def drop(self, leased: Leased) -> None:
        """End a lease."""
        lease = self._held.pop(leased)
        self.ends.drop(leased)
        self._add_size(leased, lease, -1)
        self._of_client[lease.client].discard(leased)
        if not self._of_client[lease.client]:
            del self._of_client[lease.client]

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
        for leased in sorted(self._of_client[client]):
            held = self._held[leased]
            self.put(leased, Lease.begin(client, held.duration, now, held.size))
