"""The events that queues hold, by numbers that order as (source, id) where times are equal.

Queues know an event by a word: its number, above the bits of what it matched (`CODE_BITS`). Among equal scores and
times the lower word is better, so of events with one time the numbers have to be in the order of (source, id),
whatever the order in which they came. The first of its time gets the next number; one that comes before all others of
its time gets a number below every other, one behind them all a number above; between two it gets one of the numbers
left free there. Where none is left all events of that time are renumbered, and queues are told; so are all events when
numbers end.

An event is kept until a look at what queues hold shows that nobody needs it (`Sweep`); that is taken when there are
half as many again as were needed the last time.

`Sweep` finds out which events no queue holds any more: a few queues are looked at with each event that arrives.

To look through all queues at once would stop publishers for tenths of a second where queues or events are very many.

Why a look at one queue after the other is right: a queue takes an event in when that arrives, and never later. So an
event that was there when the sweep began, and that was in no queue when that queue was looked at, has left every queue
for good. Events that have arrived since are left alone.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping

import numpy as np

from rankcast.delivery.stream.matched_sets import CODE_BITS, CODES
from rankcast.model.events import Event, Identity
from rankcast.model.times import microseconds
from rankcast.serving.queues import Queues

MIDDLE = 1 << 42
LIMIT = 1 << 43
GAP = 1 << 10
FEWEST = 1_000
"""Events that are kept before queues are asked what they hold."""

NO_CHANGE: Mapping[int, int] = {}


class HeldEvents:
    """Events by number.

    Nearly every event is the only one of its time and of its identity: then its number is kept there, and a list only
    where there are several. That spares the garbage collector, which stops everybody, three objects for each event.

    `are_many` says that it is time to look which of them are still needed.
    """

    def __init__(self) -> None:
        self.events: dict[int, Event] = {}
        self._by_time: dict[int, int | list[tuple[Identity, int]]] = {}
        self._numbers: dict[Identity, int | list[int]] = {}
        self._next, self._last = MIDDLE, MIDDLE
        self._many = FEWEST
        self.are_many = False

    def __getitem__(self, word: int) -> Event:
        """Return the event of a word."""
        return self.events[word >> CODE_BITS]

    def numbers(self, identity: Identity) -> list[int]:
        """Return the numbers of the events of an identity that are kept."""
        found = self._numbers.get(identity)
        if found is None:
            return []
        return [found] if isinstance(found, int) else found

    @property
    def have_repetitions(self) -> bool:
        """Whether there is an identity of which more than one event is kept."""
        return len(self._numbers) < len(self.events)

    def add(self, event: Event, time: int) -> tuple[int, Mapping[int, int]]:
        """Return the number of an event, whose time this is, and those that others have instead of those they had."""
        renumbered = self._renumber_all() if self._next > LIMIT - GAP or self._last < GAP else NO_CHANGE
        identity = event.identity
        if time in self._by_time:
            number, moved = self._add_to_others(identity, time)
            renumbered = {**renumbered, **moved}
        else:
            number = self._next = self._next + GAP
            self._by_time[time] = number
        self.events[number] = event
        if self._numbers.setdefault(identity, number) is not number:
            self._numbers[identity] = [*self.numbers(identity), number]
        self.are_many = len(self.events) > self._many
        return number, renumbered

    def _add_to_others(self, identity: Identity, time: int) -> tuple[int, Mapping[int, int]]:
        """Return a number among those of a time, and what others have instead of theirs."""
        number, renumbered = self._between(self._of_time(time), identity), NO_CHANGE
        if number < 0:
            renumbered = self._renumber([time])
            number = self._between(self._of_time(time), identity)
        same = self._of_time(time)
        same.insert(bisect_left(same, (identity, number)), (identity, number))
        self._by_time[time] = same
        return number, renumbered

    def _of_time(self, time: int) -> list[tuple[Identity, int]]:
        """Return the events of a time, in the order of their identities."""
        found = self._by_time[time]
        return [(self.events[found].identity, found)] if isinstance(found, int) else found

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

    def _renumber_all(self) -> Mapping[int, int]:
        """Give all events new numbers, as if they had come one after the other."""
        self._next = self._last = MIDDLE
        return self._renumber(self._by_time)

    def _renumber(self, times: Iterable[int]) -> Mapping[int, int]:
        """Give the events of some times new numbers, in their order."""
        renumbered: dict[int, int] = {}
        for time in times:
            same = self._of_time(time)
            for at, (identity, old) in enumerate(same):
                self._next += GAP
                same[at] = (identity, self._next)
                renumbered[old] = self._next
            self._by_time[time] = same if len(same) > 1 else self._next
        again = {new: self.events.pop(old) for old, new in renumbered.items()}
        self.events |= again
        for identity in {event.identity for event in again.values()}:
            numbers = [renumbered.get(number, number) for number in self.numbers(identity)]
            self._numbers[identity] = numbers if len(numbers) > 1 else numbers[0]
        return renumbered

    def discard(self, numbers: Iterable[int]) -> None:
        """Forget some events, which no queue holds."""
        events, of_identity, of_time = self.events, self._numbers, self._by_time
        for number in numbers:
            event = events.pop(number)
            identity, time = event.identity, microseconds(event.time)
            known, same = of_identity.pop(identity), of_time.pop(time)
            if type(known) is list:
                others = [other for other in known if other != number]
                of_identity[identity] = others if len(others) > 1 else others[0]
            if type(same) is list:
                del same[bisect_left(same, (identity, number))]
                of_time[time] = same if len(same) > 1 else same[0][1]

    def settle(self, queues: int) -> None:
        """Take note that all that are left are needed, by so many queues."""
        self._many = 3 * len(self.events) // 2 + max(FEWEST, queues // 16)
        self.are_many = False


PACE = 4
"""A sweep has looked at all queues before the events there are have grown by a part of this."""

FEWEST_LOOKS, MOST = 16, 1_024
"""Queues that are looked at a time: few cost no more than one, and many would be a pause."""

DISCARDED = 64
"""Events that are discarded at a time."""


class Sweep:
    """One look at so many queues. `codes` are what matched in the events that they hold."""

    def __init__(self, events: Collection[int], queues: int) -> None:
        self._events = np.sort(np.fromiter(events, np.int64, len(events)))
        self._is_held = np.zeros(len(events) + 1, np.bool_)  # what is above all events falls behind them
        self._next, self._queues = 0, queues
        self._step = min(max(PACE * queues // max(1, len(events)), FEWEST_LOOKS), MOST)
        self._unneeded: list[int] | None = None
        self.codes: set[int] = set()

    @property
    def has_looked(self) -> bool:
        """Whether all queues have been looked at."""
        return self._next == self._queues

    def look(self, queues: Queues) -> None:
        """Look at the next queues."""
        last = min(self._next + self._step, self._queues)
        words = queues.held(self._next, last)
        # An event that has arrived since may be taken for its neighbour, which then stays until the next sweep.
        self._is_held[self._events.searchsorted(words >> CODE_BITS)] = True
        self.codes.update((words & CODES).tolist())
        self._next = last

    def unneeded(self) -> list[int]:
        """Return the next events that nobody needs, when all queues have been looked at; none when all were named."""
        if self._unneeded is None:
            self._unneeded = self._events[~self._is_held[:-1]].tolist()
        found = self._unneeded[-DISCARDED:]
        del self._unneeded[-DISCARDED:]
        return found

    def renumber(self, numbers: Mapping[int, int]) -> None:
        """Let events have other numbers."""
        changed = np.array([numbers.get(number, number) for number in self._events.tolist()], np.int64)
        order = np.argsort(changed)
        self._events = changed[order]
        self._is_held[:-1] = self._is_held[:-1][order]
        if self._unneeded is not None:
            self._unneeded = [numbers.get(number, number) for number in self._unneeded]
