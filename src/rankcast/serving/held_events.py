"""The events that queues hold, by numbers that order as (source, id) where times are equal.

Queues know an event by a word: its number, above the bits of what it matched (`CODE_BITS`). Among equal scores and
times the lower word is better, so of events with one time the numbers have to be in the order of (source, id),
whatever the order in which they came. The first of its time gets the next number; one that comes before all others of
its time gets a number below every other, one behind them all a number above; between two it gets one of the numbers
left free there. Where none is left all events of that time are renumbered, and queues are told; so are all events when
numbers end.

An event is kept until a look at what queues hold shows that nobody needs it; that is taken when there are twice as many
as were needed the last time.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping

from rankcast.delivery.batch_layout import microseconds
from rankcast.delivery.kernels_shards import CODE_BITS
from rankcast.model.events import Event, Identity

MIDDLE = 1 << 42
LIMIT = 1 << 43
GAP = 1 << 10
FEWEST = 1_000
"""Events that are kept before queues are asked what they hold."""

NO_CHANGE: Mapping[int, int] = {}


class HeldEvents:
    """Events by number."""

    def __init__(self) -> None:
        self.events: dict[int, Event] = {}
        self._by_time: dict[int, list[tuple[Identity, int]]] = {}
        self._numbers: dict[Identity, list[int]] = {}
        self._next, self._last = MIDDLE, MIDDLE
        self._many = FEWEST

    def __getitem__(self, word: int) -> Event:
        """Return the event of a word."""
        return self.events[word >> CODE_BITS]

    def numbers(self, identity: Identity) -> list[int]:
        """Return the numbers of the events of an identity that are kept."""
        return self._numbers.get(identity, [])

    def add(self, event: Event, time: int) -> tuple[int, Mapping[int, int]]:
        """Return the number of an event of a time, and the numbers that others have instead of those they had."""
        renumbered = self._numbered_again() if self._next > LIMIT - GAP or self._last < GAP else NO_CHANGE
        identity = event.identity
        same = self._by_time.get(time)
        if same is None:
            number = self._next = self._next + GAP
            self._by_time[time] = [(identity, number)]
        else:
            number = self._between(same, identity)
            if number < 0:
                renumbered = {**renumbered, **self._spread(same)}
                number = self._between(same, identity)
            same.insert(bisect_left(same, (identity, number)), (identity, number))
        self.events[number] = event
        self._numbers.setdefault(identity, []).append(number)
        return number, renumbered

    def _between(self, same: list[tuple[Identity, int]], identity: Identity) -> int:
        """Return a free number for an identity among those of its time; -1 when there is none."""
        at = bisect_left(same, (identity, 0))
        if at == len(same):
            self._next += GAP
            return self._next
        if at == 0:
            self._last -= GAP
            return self._last
        low, high = same[at - 1][1], same[at][1]
        middle = (low + high) // 2
        return next((number for number in range(middle, high) if low < number and number not in self.events), -1)

    def _spread(self, same: list[tuple[Identity, int]]) -> dict[int, int]:
        """Give events of one time new numbers, in their order."""
        renumbered: dict[int, int] = {}
        for at, (identity, old) in enumerate(same):
            self._next += GAP
            same[at] = (identity, self._next)
            renumbered[old] = self._next
        for (identity, new), old in zip(same, list(renumbered), strict=True):
            self.events[new] = self.events.pop(old)
            numbers = self._numbers[identity]
            numbers[numbers.index(old)] = new
        return renumbered

    def _numbered_again(self) -> dict[int, int]:
        """Give all events new numbers, as if they had come one after the other."""
        self._next = self._last = MIDDLE
        renumbered: dict[int, int] = {}
        kept, self.events = self.events, {}
        for same in self._by_time.values():
            for at, (identity, old) in enumerate(same):
                self._next += GAP
                same[at] = (identity, self._next)
                renumbered[old] = self._next
                self.events[self._next] = kept[old]
        self._numbers = {}
        for number, event in self.events.items():
            self._numbers.setdefault(event.identity, []).append(number)
        return renumbered

    def discard(self, number: int) -> None:
        """Forget an event that no queue holds."""
        event = self.events.pop(number)
        identity, time = event.identity, microseconds(event.time)
        numbers, same = self._numbers[identity], self._by_time[time]
        numbers.remove(number)
        same.remove((identity, number))
        if not numbers:
            del self._numbers[identity]
        if not same:
            del self._by_time[time]

    @property
    def are_many(self) -> bool:
        """Whether it is time to look which of them are still needed."""
        return len(self.events) > self._many

    def keep(self, needed: set[int]) -> None:
        """Forget all events but those of some numbers."""
        self.events = {number: self.events[number] for number in needed}
        self._by_time, self._numbers = {}, {}
        for number, event in self.events.items():
            self._by_time.setdefault(microseconds(event.time), []).append((event.identity, number))
            self._numbers.setdefault(event.identity, []).append(number)
        for same in self._by_time.values():
            same.sort()
        self._many = 2 * len(self.events) + FEWEST
