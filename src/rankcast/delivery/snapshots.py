"""The state of a queue as bytes, and back: `restored(snapshot(queue)) == queue`, at every point of a stream.

Equal queues give equal bytes. The layout, version 2 (numbers are variable-length, seven bits a byte, lowest first;
times are microseconds since 1970, eight bytes; scores are eight bytes; all little-endian):

    version  kind of queue  policy  own time (period's end, instant not evaluated yet)  sources  names  candidates

A candidate is its source (a place in the table of sources), its id, flags, time, score and, if it has them, expiry and
content: attributes (places in the table of names) and values. The flags also say whether it was delivered, because what
a queue remembers as delivered it also still holds. A hundred candidates take some 3 kB besides contents. Version 1 had
no diversity, no names and no contents. Bytes of another version, cut short or otherwise wrong raise SnapshotError; a
version stays readable for as long as its number is in `VERSIONS`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeVar

from rankcast.delivery.arrival_policies import ContinuousQueue, EverythingQueue, SlidingQueue
from rankcast.delivery.candidates import Candidate
from rankcast.delivery.contents import Content
from rankcast.delivery.queues import Queue
from rankcast.delivery.timed_policies import EPOCH, PeriodicQueue, TopKWindowQueue
from rankcast.model.diversity import Diversity
from rankcast.model.errors import InvalidSubscriptionError, RankcastError
from rankcast.model.events import Identity
from rankcast.model.policies import AllMatches, Continuous, Periodic, Sliding, TopKWindow
from rankcast.model.times import TICK
from rankcast.model.values import Value

VERSION = 2
VERSIONS = frozenset({1, 2})

_HAS_EXPIRY, _WAS_DELIVERED, _HAS_CONTENT = 1, 2, 4
_FALSE, _TRUE, _INT, _FLOAT, _STRING, _TIME_VALUE = range(6)
_TIME = struct.Struct("<q")
_SCORE = struct.Struct("<d")

Read = TypeVar("Read")


class SnapshotError(RankcastError):
    """Bytes are not the snapshot of a queue, or a queue is of a kind that has no snapshot."""


def snapshot(queue: Queue) -> bytes:
    """Return the state of a queue as bytes."""
    written = _Writer()
    written.number(VERSION)
    match queue:
        case EverythingQueue():
            written.number(0)
        case ContinuousQueue(policy=policy):
            written.numbers(1, policy.k)
            written.candidates(queue.delivered, frozenset())
        case SlidingQueue(policy=policy):
            written.numbers(2, policy.k, policy.window)
            written.diversity(policy.diversity)
            written.candidates(queue.recent, queue.delivered)
        case PeriodicQueue(policy=policy):
            written.numbers(3, policy.k, policy.period // TICK)
            written.diversity(policy.diversity)
            written.optional_time(queue.end)
            written.candidates(queue.arrivals, frozenset())
        case TopKWindowQueue(policy=policy):
            in_time = isinstance(policy.window, timedelta)
            window = policy.window // TICK if isinstance(policy.window, timedelta) else policy.window
            written.numbers(4, policy.k, int(in_time), window)
            written.diversity(policy.diversity)
            written.optional_time(queue.unseen)
            written.candidates(queue.living, queue.delivered)
        case _:
            raise SnapshotError(f"a {type(queue).__name__} has no snapshot")
    return bytes(written.content)


def restored(content: bytes) -> Queue:
    """Return the queue of a snapshot; raise SnapshotError when the bytes are not one."""
    try:
        read = _Reader(content)
        read.version = read.number()
        if read.version not in VERSIONS:
            raise SnapshotError(
                f"the snapshot of a queue has version {read.version}; this rankcast reads 1 to {VERSION}"
            )
        queue = _queue(read)
    except (IndexError, struct.error, OverflowError, UnicodeDecodeError, InvalidSubscriptionError) as error:
        raise SnapshotError(f"the snapshot of a queue is damaged: {error}") from None
    if read.place != len(content):
        raise SnapshotError(f"the snapshot of a queue is damaged: {len(content) - read.place} bytes too many")
    return queue


def _queue(read: _Reader) -> Queue:
    kind = read.number()
    if kind == 0:
        return EverythingQueue(AllMatches())
    k = read.number()
    if kind == 1:
        return ContinuousQueue(Continuous(k), read.candidates()[0])
    if kind == 2:
        return SlidingQueue(Sliding(k, read.number(), read.diversity()), *read.candidates())
    if kind == 3:
        policy = Periodic(k, read.number() * TICK, read.diversity())
        return PeriodicQueue(policy, read.optional(read.time), read.candidates()[0])
    if kind == 4:
        in_time, length = read.number(), read.number()
        window = TopKWindow(k, length * TICK if in_time else length, read.diversity())
        unseen = read.optional(read.time)
        return TopKWindowQueue(window, *read.candidates(), unseen)
    raise SnapshotError(f"the snapshot of a queue is damaged: there is no queue of kind {kind}")


@dataclass(slots=True)
class _Writer:
    content: bytearray = field(default_factory=bytearray)

    def number(self, number: int) -> None:
        while number > 0x7F:
            self.content.append(number & 0x7F | 0x80)
            number >>= 7
        self.content.append(number)

    def numbers(self, *numbers: int) -> None:
        for number in numbers:
            self.number(number)

    def text(self, text: str) -> None:
        encoded = text.encode()
        self.number(len(encoded))
        self.content += encoded

    def time(self, time: datetime) -> None:
        self.content += _TIME.pack((time - EPOCH) // TICK)

    def optional_time(self, time: datetime | None) -> None:
        self.number(time is not None)
        if time is not None:
            self.time(time)

    def real(self, number: float) -> None:
        self.content += _SCORE.pack(number)

    def diversity(self, diversity: Diversity | None) -> None:
        self.number(diversity is not None)
        if diversity is not None:
            self.real(diversity.sigma)
            self.number(len(diversity.weights))
            for name, weight in diversity.weights.items():
                self.text(name)
                self.real(weight)

    def value(self, value: Value) -> None:
        match value:
            case bool():
                self.number(_TRUE if value else _FALSE)
            case int():
                self.number(_INT)
                self.content += _TIME.pack(value)
            case float():
                self.number(_FLOAT)
                self.real(value)
            case str():
                self.number(_STRING)
                self.text(value)
            case datetime():
                self.number(_TIME_VALUE)
                self.time(value)

    def table(self, texts: Iterable[str]) -> dict[str, int]:
        """Write different texts, as they come; return their places."""
        places = {text: place for place, text in enumerate(dict.fromkeys(texts))}
        self.number(len(places))
        for text in places:
            self.text(text)
        return places

    def candidates(self, held: tuple[Candidate, ...], delivered: Iterable[Candidate]) -> None:
        delivered = frozenset(delivered)
        if not delivered <= frozenset(held):
            raise SnapshotError("the queue remembers a delivered event that it does not hold")
        sources = self.table(one.identity.source for one in held)
        names = self.table(name for one in held for name, _ in one.content)
        self.number(len(held))
        for one in held:
            self.number(sources[one.identity.source])
            self.text(one.identity.id)
            self.number(
                _HAS_EXPIRY * (one.expires is not None)
                + _WAS_DELIVERED * (one in delivered)
                + _HAS_CONTENT * bool(one.content)
            )
            self.time(one.time)
            self.real(one.score)
            if one.expires is not None:
                self.time(one.expires)
            if one.content:
                self.number(len(one.content))
                for name, value in one.content:
                    self.number(names[name])
                    self.value(value)


@dataclass(slots=True)
class _Reader:
    content: bytes
    place: int = 0
    version: int = VERSION

    def number(self) -> int:
        number, shift = 0, 0
        while (byte := self.content[self.place]) > 0x7F:
            number |= (byte & 0x7F) << shift
            shift += 7
            self.place += 1
        self.place += 1
        return number | byte << shift

    def text(self) -> str:
        length = self.number()
        end = self.place + length
        if end > len(self.content):
            raise IndexError("a text ends early")
        text = self.content[self.place : end].decode()
        self.place = end
        return text

    def time(self) -> datetime:
        (ticks,) = _TIME.unpack_from(self.content, self.place)
        self.place += _TIME.size
        return EPOCH + timedelta(microseconds=ticks)

    def real(self) -> float:
        (number,) = _SCORE.unpack_from(self.content, self.place)
        self.place += _SCORE.size
        return float(number)

    def diversity(self) -> Diversity | None:
        if self.version == 1 or not self.number():
            return None
        sigma = self.real()
        return Diversity(sigma, {self.text(): self.real() for _ in range(self.number())})

    def value(self) -> Value:
        kind = self.number()
        if kind in (_FALSE, _TRUE):
            return kind == _TRUE
        if kind == _INT:
            (number,) = _TIME.unpack_from(self.content, self.place)
            self.place += _TIME.size
            return int(number)
        if kind == _FLOAT:
            return self.real()
        if kind == _STRING:
            return self.text()
        if kind == _TIME_VALUE:
            return self.time()
        raise SnapshotError(f"the snapshot of a queue is damaged: there is no value of kind {kind}")

    def attributes(self, names: list[str]) -> Content:
        return tuple((names[self.number()], self.value()) for _ in range(self.number()))

    def optional(self, read: Callable[[], Read]) -> Read | None:
        return read() if self.number() else None

    def candidates(self) -> tuple[tuple[Candidate, ...], frozenset[Candidate]]:
        sources = [self.text() for _ in range(self.number())]
        names = [self.text() for _ in range(self.number())] if self.version > 1 else []
        held: list[Candidate] = []
        delivered: list[Candidate] = []
        for _ in range(self.number()):
            identity = Identity(sources[self.number()], self.text())
            flags = self.number()
            time, score = self.time(), self.real()
            expires = self.time() if flags & _HAS_EXPIRY else None
            one = Candidate(identity, time, score, expires, self.attributes(names) if flags & _HAS_CONTENT else ())
            held.append(one)
            if flags & _WAS_DELIVERED:
                delivered.append(one)
        return tuple(held), frozenset(delivered)
