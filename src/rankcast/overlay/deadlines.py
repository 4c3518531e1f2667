"""When events are waited for no longer: each has at most one end, and the next one is known at once."""

from __future__ import annotations

import heapq
from datetime import datetime

from rankcast.model.events import Identity


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
