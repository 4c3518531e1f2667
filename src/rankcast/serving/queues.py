"""The queues of all subscribers: by the step functions, one by one, or in the columnar engine, all together.

Both are told of one event at a time and give the same deliveries. The step functions are plain Python: what a process
uses until the kernels are there, which take seconds to compile. The columnar engine is for everything else.

Events are words (`held_events`), times are microseconds since 1970.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np
from msgspec import Struct

from rankcast.arrays import Array, longer
from rankcast.delivery.engine.contents import Content, Contents, content_codes, content_for
from rankcast.delivery.engine.queue_table import DeliveredRows, QueueTable
from rankcast.delivery.rules.policies import new_queue, renamed_queue
from rankcast.delivery.rules.queues import Candidate, Queue, step
from rankcast.delivery.stream.matched_sets import CODE_BITS
from rankcast.model.events import Identity
from rankcast.model.policies import Policy, diversity_of
from rankcast.model.times import LAST_INSTANT, NEVER, instant_of, microseconds
from rankcast.model.values import AttributeValue
from rankcast.ranking.batch import ROW_EXPIRES, ROW_QUEUE, ROW_SCORE, ROW_WORD


class ServedRows(Struct):
    """One event in some queues, each named once: the first `size` columns of a table.

    Its lines are the queues, the words of the event with what it matched there, when it expires, and the bits of its
    scores.
    """

    table: Array
    size: int

    @property
    def queue(self) -> Array:
        """The queues."""
        found: Array = self.table[ROW_QUEUE, : self.size]
        return found

    @property
    def columns(self) -> Iterable[tuple[int, int, int, float]]:
        """The rows as (queue, word, expires, score)."""
        queue, word, expires, bits = self.table[:, : self.size]
        return zip(queue.tolist(), word.tolist(), expires.tolist(), bits.view(np.float64).tolist(), strict=True)

    def chosen(self, is_chosen: Array) -> ServedRows:
        """Return some of the rows."""
        found = np.ascontiguousarray(self.table[:, : self.size][:, is_chosen])
        return ServedRows(found, found.shape[1])

    def joined(self, others: ServedRows) -> ServedRows:
        """Return these rows and others."""
        found = np.concatenate([self.table[:, : self.size], others.table[:, : others.size]], axis=1)
        return ServedRows(found, found.shape[1])

    @staticmethod
    def of(rows: Sequence[tuple[int, int, int, float]]) -> ServedRows:
        """Return rows of (queue, word, expires, score)."""
        table = np.empty((4, len(rows)), np.int64)
        scores = table[ROW_SCORE].view(np.float64)
        for at, row in enumerate(rows):
            table[ROW_QUEUE, at], table[ROW_WORD, at], table[ROW_EXPIRES, at], scores[at] = row
        return ServedRows(table, len(rows))


NO_ROWS = ServedRows.of(())


class Queues(Protocol):
    """Queues by number."""

    def add(self, queue: int, policy: Policy) -> None:
        """Begin an empty queue, under a number that is not used, at most one above all that were."""

    def remove(self, queue: int) -> None:
        """End a queue."""

    def arrive(self, rows: ServedRows, time: int, now: int, *, closed: bool) -> DeliveredRows:
        """Let time pass to `now`, and an event of a time arrive; return what is delivered, by queue in order."""

    def get(self, queue: int, policy: Policy) -> Queue:
        """Return a queue as the step functions know it, with words for identities."""

    def put(self, queue: int, state: Queue, policy: Policy) -> None:
        """Let a queue go on from a state."""

    @property
    def next_due(self) -> int | None:
        """When a queue acts by itself, at the earliest."""

    def held(self, first: int, last: int) -> Array:
        """Return the words of the events that queues from one up to another hold, each as often as it is."""

    def renumber(self, numbers: Mapping[int, int]) -> None:
        """Let events have other numbers."""

    def forget(self, events: Iterable[int]) -> None:
        """Take note that no queue holds these events any more."""

    def forget_all(self) -> None:
        """Take note that no queue holds any event any more."""


class SteppedQueues:
    """Queues that move by the step functions."""

    def __init__(self, attributes_of: Callable[[int], Mapping[str, AttributeValue]]) -> None:
        self._attributes_of = attributes_of
        self._queues: dict[int, tuple[Queue, Policy]] = {}
        self._timers: list[tuple[int, int]] = []

    def add(self, queue: int, policy: Policy) -> None:
        """Begin an empty queue."""
        self._queues[queue] = (new_queue(policy), policy)

    def remove(self, queue: int) -> None:
        """End a queue."""
        del self._queues[queue]

    def arrive(self, rows: ServedRows, time: int, now: int, *, closed: bool) -> DeliveredRows:
        """Let time pass to `now`, and an event of a time arrive; return what is delivered, by queue in order."""
        arriving = {queue: (word, expires, score) for queue, word, expires, score in rows.columns}
        moment, found = instant_of(now), DeliveredRows([], [], [], [])
        for number in sorted(arriving.keys() | self._due(now)):
            queue, policy = self._queues[number]
            candidate = None
            if number in arriving:
                word, expires, score = arriving[number]
                expiry = None if expires == NEVER else instant_of(expires)
                content = _content_of(policy, self._attributes_of)(word)
                candidate = Candidate(word, instant_of(time), score, expiry, content)
            queue, delivered = step(queue, candidate, moment, closed=closed)
            self._set(number, queue, policy)
            for delivery in delivered:
                found.queue.append(number)
                found.event.append(word_of(delivery.candidate))
                found.time.append(microseconds(delivery.time))
                found.score.append(delivery.candidate.score)
        return found

    def _due(self, now: int) -> set[int]:
        """Return the queues that may have something to do by themselves, each at most once."""
        due: set[int] = set()
        while self._timers and self._timers[0][0] <= now:
            due.add(heapq.heappop(self._timers)[1])
        return due & self._queues.keys()

    def _set(self, number: int, queue: Queue, policy: Policy) -> None:
        self._queues[number] = (queue, policy)
        if queue.next_instant is not None:
            heapq.heappush(self._timers, (microseconds(queue.next_instant), number))
            if len(self._timers) > 4 * len(self._queues) + 16:
                dues = ((one.next_instant, at) for at, (one, _) in self._queues.items())
                self._timers = sorted((microseconds(due), at) for due, at in dues if due is not None)

    def get(self, queue: int, _: Policy) -> Queue:
        """Return a queue."""
        return self._queues[queue][0]

    def put(self, queue: int, state: Queue, policy: Policy) -> None:
        """Let a queue go on from a state."""
        self._set(queue, state, policy)

    @property
    def next_due(self) -> int | None:
        """When a queue acts by itself, at the earliest."""
        dues = [due for queue, _ in self._queues.values() if (due := queue.next_instant) is not None]
        return microseconds(min(dues)) if dues else None

    def held(self, first: int, last: int) -> Array:
        """Return the words of the events that some queues hold."""
        some = (self._queues[number][0] for number in range(first, last) if number in self._queues)
        return np.array([word_of(candidate) for queue in some for candidate in queue.held], np.int64)

    def renumber(self, numbers: Mapping[int, int]) -> None:
        """Let events have other numbers."""
        for number, (queue, policy) in self._queues.items():
            self._queues[number] = (_renumbered(queue, numbers), policy)

    def forget(self, events: Iterable[int]) -> None:
        """Nothing is kept beside the queues."""

    def forget_all(self) -> None:
        """Nothing is kept beside the queues."""


def word_of(candidate: Candidate) -> int:
    """Return the word by which a queue knows an event."""
    assert isinstance(candidate.identity, int)
    return candidate.identity


def _content_of(
    policy: Policy, attributes_of: Callable[[int], Mapping[str, AttributeValue]]
) -> Callable[[int], Content]:
    """Return what tells the content that a policy compares of an event, by its word."""
    if diversity_of(policy) is None:
        return lambda _: ()
    return lambda word: content_for(policy, attributes_of(word))


def _renumbered(queue: Queue, numbers: Mapping[int, int]) -> Queue:
    def renamed(word: Identity | int) -> Identity | int:
        assert isinstance(word, int)
        number = numbers.get(word >> CODE_BITS)
        return word if number is None else number << CODE_BITS | word & ((1 << CODE_BITS) - 1)

    return renamed_queue(queue, renamed)


class ColumnarQueues:
    """Queues in the columnar engine."""

    def __init__(self, attributes_of: Callable[[int], Mapping[str, AttributeValue]]) -> None:
        self._attributes_of = attributes_of
        self._table = QueueTable.of(())
        self._table.serve()
        self._contents = ContentTable()
        self._diverse: set[int] = set()

    def add(self, queue: int, policy: Policy) -> None:
        """Begin an empty queue."""
        if queue == len(self._table):
            self._table.grow([policy])
        else:
            self._table.put(queue, new_queue(policy), policy)
        self._note(queue, policy)

    def _note(self, queue: int, policy: Policy) -> None:
        (self._diverse.discard if diversity_of(policy) is None else self._diverse.add)(queue)

    def remove(self, queue: int) -> None:
        """End a queue."""
        self._table.clear(queue)
        self._diverse.discard(queue)

    def arrive(self, rows: ServedRows, time: int, now: int, *, closed: bool) -> DeliveredRows:
        """Let time pass to `now`, and an event of a time arrive; return what is delivered, by queue in order."""
        table, size = rows.table, rows.size
        if not self._diverse:
            return self._table.arrive(table, size, time, min(now, LAST_INSTANT), int(closed))
        if not self._diverse.isdisjoint(rows.queue.tolist()):
            self._take_content(int(table[ROW_WORD, 0]))
        return self._table.arrive(
            table, size, time, min(now, LAST_INSTANT), int(closed), self._contents.contents, CODE_BITS
        )

    def get(self, queue: int, policy: Policy) -> Queue:
        """Return a queue as the step functions know it."""
        return self._table.get(queue, policy, _content_of(policy, self._attributes_of))

    def put(self, queue: int, state: Queue, policy: Policy) -> None:
        """Let a queue go on from a state."""
        self._table.put(queue, state, policy)
        self._note(queue, policy)
        if queue in self._diverse:
            for candidate in state.held:
                self._take_content(word_of(candidate))

    def _take_content(self, word: int) -> None:
        """Take in what diverse selection compares of an event."""
        self._contents.add(word >> CODE_BITS, self._attributes_of(word))

    @property
    def next_due(self) -> int | None:
        """When a queue acts by itself, at the earliest."""
        return self._table.next_due

    def held(self, first: int, last: int) -> Array:
        """Return the words of the events that some queues hold."""
        return self._table.words(slice(first, last))

    def renumber(self, numbers: Mapping[int, int]) -> None:
        """Let events have other numbers."""
        old = np.array(sorted(numbers), np.int64)
        self._table.renumber(old, np.array([numbers[number] for number in old.tolist()], np.int64), CODE_BITS)
        self._contents.renumber(numbers)

    def forget(self, events: Iterable[int]) -> None:
        """Forget the contents of some events."""
        self._contents.remove(events)

    def forget_all(self) -> None:
        """Forget the contents of all events."""
        self._contents = ContentTable()

    @property
    def nbytes(self) -> int:
        """What the queues take in memory."""
        return self._table.nbytes


class _Column:
    """Numbers, with room for more behind them."""

    def __init__(self, *numbers: int) -> None:
        self._room = np.array(numbers, np.int64)
        self._size = len(numbers)

    @property
    def used(self) -> Array:
        """The numbers."""
        return self._room[: self._size]

    def insert(self, at: int, added: Array) -> None:
        """Put numbers at a place; those behind it move on."""
        size, end = self._size, self._size + len(added)
        if end > len(self._room):
            self._room = longer(self._room, max(16, 2 * end))
        self._room[at + len(added) : end] = self._room[at:size].copy()
        self._room[at : at + len(added)] = added
        self._size = end


class ContentTable:
    """What diverse selection compares of events, as arrays that grow."""

    def __init__(self) -> None:
        self._codes: dict[int, tuple[Array, Array]] = {}
        self._clear()

    def _clear(self) -> None:
        self._numbers, self._starts, self._attributes, self._values = _Column(), _Column(0), _Column(), _Column()

    @property
    def contents(self) -> Contents:
        """The contents of the events, and of some that were forgotten."""
        return Contents(self._numbers.used, self._starts.used, self._attributes.used, self._values.used)

    def add(self, number: int, attributes: Mapping[str, AttributeValue]) -> None:
        """Take an event in."""
        if number not in self._codes:
            self._codes[number] = content_codes(attributes)
            numbers = self._numbers.used
            at = int(numbers.searchsorted(number))
            if at < len(numbers) and numbers[at] == number:  # one that was forgotten had it
                self._rebuild()
            else:
                self._insert(at, number)

    def _insert(self, at: int, number: int) -> None:
        """Put an event in its place; those of higher numbers move on."""
        attributes, values = self._codes[number]
        start = int(self._starts.used[at])
        self._starts.used[at:] += len(attributes)
        self._starts.insert(at, np.array([start]))
        self._numbers.insert(at, np.array([number]))
        self._attributes.insert(start, attributes)
        self._values.insert(start, values)

    def _rebuild(self) -> None:
        self._clear()
        for at, number in enumerate(sorted(self._codes)):
            self._insert(at, number)

    def remove(self, events: Iterable[int]) -> None:
        """Forget some events; what they took is given back when they were half of all."""
        for number in events:
            self._codes.pop(number, None)
        if 2 * len(self._codes) < len(self._numbers.used):
            self._rebuild()

    def renumber(self, numbers: Mapping[int, int]) -> None:
        """Let events have other numbers."""
        self._codes = {numbers.get(number, number): codes for number, codes in self._codes.items()}
        self._rebuild()
