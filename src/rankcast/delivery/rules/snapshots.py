"""The state of a queue as bytes, and back: `restored(snapshot(queue)) == queue`, at every point of a stream.

Equal queues give equal bytes. The layout (numbers are variable-length, seven bits a byte, lowest first; times are
microseconds since 1970, eight bytes; scores are eight bytes; all little-endian):

    version  kind of queue  policy  own time (period's end, instant not evaluated yet)  sources  names  candidates

A window has besides how many events entered and, if it is sliding, the places it keeps. A candidate is its source (a
place in the table of sources), its id, flags, time, score, how many entered after it and, if it has them, expiry and
content: attributes (places in the table of names) and values. The flags also say whether it was delivered, because what
a queue remembers as delivered it also still holds. A hundred candidates take some 3 kB besides contents. Bytes of
another version, cut short or otherwise wrong raise SnapshotError.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeVar

from rankcast.delivery.engine.contents import Content
from rankcast.delivery.rules.arrival import ContinuousQueue, EverythingQueue, SlidingQueue
from rankcast.delivery.rules.queues import Candidate, Queue
from rankcast.delivery.rules.timed import PeriodicQueue, TopKWindowQueue
from rankcast.model.diversity import Diversity
from rankcast.model.errors import InvalidSubscriptionError, RankcastError
from rankcast.model.events import Identity
from rankcast.model.policies import AllMatches, Continuous, Periodic, Sliding, TopKWindow
from rankcast.model.times import EPOCH, TICK
from rankcast.model.values import Value

VERSION = 3

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
            written.candidates(queue.delivered)
        case SlidingQueue(policy=policy):
            written.numbers(2, policy.k, policy.window)
            written.diversity(policy.diversity)
            written.numbers(queue.entered, len(queue.places))
            for number, expires in queue.places:
                written.number(queue.entered - number)
                written.time(expires)
            written.candidates(queue.recent, queue.delivered, queue.entered)
        case PeriodicQueue(policy=policy):
            written.numbers(3, policy.k, policy.period // TICK)
            written.diversity(policy.diversity)
            written.optional_time(queue.end)
            written.candidates(queue.arrivals)
        case TopKWindowQueue(policy=policy):
            in_time = isinstance(policy.window, timedelta)
            window = policy.window // TICK if isinstance(policy.window, timedelta) else policy.window
            written.numbers(4, policy.k, int(in_time), window)
            written.diversity(policy.diversity)
            written.optional_time(queue.unseen)
            written.number(queue.entered)
            written.candidates(queue.living, queue.delivered, queue.entered)
        case _:
            raise SnapshotError(f"a {type(queue).__name__} has no snapshot")
    return bytes(written.content)


def restored(content: bytes) -> Queue:
    """Return the queue of a snapshot; raise SnapshotError when the bytes are not one."""
    try:
        read = _Reader(content)
        version = read.number()
        if version != VERSION:
            raise SnapshotError(f"the snapshot of a queue has version {version}; this rankcast reads {VERSION}")
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
        sliding = Sliding(k, read.number(), read.diversity())
        entered = read.number()
        places = tuple((entered - read.number(), read.time()) for _ in range(read.number()))
        return SlidingQueue(sliding, *read.candidates(entered), entered, places)
    if kind == 3:
        policy = Periodic(k, read.number() * TICK, read.diversity())
        return PeriodicQueue(policy, read.optional(read.time), read.candidates()[0])
    if kind == 4:
        in_time, length = read.number(), read.number()
        window = TopKWindow(k, length * TICK if in_time else length, read.diversity())
        unseen, entered = read.optional(read.time), read.number()
        return TopKWindowQueue(window, *read.candidates(entered), unseen, entered)
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

    def candidates(
        self, held: tuple[Candidate, ...], delivered: frozenset[Identity | int] = frozenset(), entered: int = 0
    ) -> None:
        if not delivered <= {one.identity for one in held}:
            raise SnapshotError("the queue remembers a delivered event that it does not hold")
        identities = [one.identity for one in held if isinstance(one.identity, Identity)]
        if len(identities) < len(held):
            raise SnapshotError("the queue knows an event by a number, which means nothing elsewhere")
        sources = self.table(identity.source for identity in identities)
        names = self.table(name for one in held for name, _ in one.content)
        self.number(len(held))
        for one, identity in zip(held, identities, strict=True):
            self.number(sources[identity.source])
            self.text(identity.id)
            self.number(
                _HAS_EXPIRY * (one.expires is not None)
                + _WAS_DELIVERED * (identity in delivered)
                + _HAS_CONTENT * bool(one.content)
            )
            self.time(one.time)
            self.real(one.score)
            self.number(max(0, entered - one.arrival))
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
        if not self.number():
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

    def candidates(self, entered: int = 0) -> tuple[tuple[Candidate, ...], frozenset[Identity | int]]:
        sources = [self.text() for _ in range(self.number())]
        names = [self.text() for _ in range(self.number())]
        held: list[Candidate] = []
        delivered: list[Identity | int] = []
        for _ in range(self.number()):
            identity = Identity(sources[self.number()], self.text())
            flags = self.number()
            time, score, after = self.time(), self.real(), self.number()
            expires = self.time() if flags & _HAS_EXPIRY else None
            content = self.attributes(names) if flags & _HAS_CONTENT else ()
            held.append(Candidate(identity, time, score, expires, content, max(0, entered - after)))
            if flags & _WAS_DELIVERED:
                delivered.append(identity)
        return tuple(held), frozenset(delivered)
