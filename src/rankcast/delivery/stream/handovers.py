"""How what the queues of a shard deliver is handed over: at once, in digests, or never, because it is read on demand.

What is for a digest waits in the shard until the digest's instant is over, so that who leaves before it gets none of
it. Nothing is handed over before the instant until which a subscriber is muted. Cost: a pass over the deliveries of
queues with digests, and one step of a calendar for each instant among them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
from msgspec import Struct

from rankcast.arrays import Array
from rankcast.delivery.rules.policies import handed_over_ticks
from rankcast.language.lossless import from_plain, to_plain
from rankcast.model.errors import InvalidValueError, RankcastError
from rankcast.model.policies import AT_ONCE, AtOnce, Digest, Notify, OnDemand
from rankcast.model.subscriptions import Subscriber
from rankcast.model.times import FIRST_INSTANT, microseconds


class Handover(Struct, frozen=True, omit_defaults=True):
    """How the deliveries of a queue are handed over: when, and from when on."""

    notify: Notify = AT_ONCE
    muted_until: datetime | None = None

    @classmethod
    def of(cls, subscriber: Subscriber) -> Handover:
        """Return that of a subscriber's queues."""
        return cls(subscriber.handover, subscriber.muted_until)


PLAIN = Handover()
"""At once and always."""


@dataclass(slots=True)
class Handovers:
    """The ways in which queues are handed over, and the number of each queue's; the first way is at once.

    There may be as many ways as queues: each subscriber is muted until a time of its own.
    """

    number: Array
    ways: list[Handover] = field(default_factory=lambda: [PLAIN])
    _known: dict[Handover, int] = field(init=False)

    def __post_init__(self) -> None:
        self._known = {way: number for number, way in enumerate(self.ways)}

    @classmethod
    def of(cls, handovers: Iterable[Handover]) -> Handovers:
        """Return those of queues, in their order."""
        made = cls(np.zeros(0, np.int32))
        made.number = np.array([made._number(way) for way in handovers], np.int32)
        return made

    def _number(self, way: Handover) -> int:
        number = self._known.setdefault(way, len(self.ways))
        if number == len(self.ways):
            self.ways.append(way)
        return number

    def forget_unused(self) -> None:
        """Forget the ways in which no queue is handed over any more."""
        used = np.union1d(self.number, [0])
        if len(used) < len(self.ways):
            self.number = used.searchsorted(self.number).astype(np.int32)
            self.ways = [self.ways[number] for number in used.tolist()]
            self.__post_init__()

    def __getitem__(self, queue: int) -> Handover:
        return self.ways[int(self.number[queue])]

    def __setitem__(self, queue: int, way: Handover) -> None:
        self.number[queue] = self._number(way)

    def grow(self, queues: int) -> None:
        """Add queues, which are handed over at once."""
        self.number = np.concatenate([self.number, np.zeros(queues, np.int32)])

    def are(self, kind: type[AtOnce | Digest | OnDemand]) -> Array:
        """Return which queues are handed over in this way."""
        chosen: Array = np.isin(self.number, [at for at, way in enumerate(self.ways) if isinstance(way.notify, kind)])
        return chosen

    def are_muted(self, queue: Array, instants: Array) -> Array:
        """Return which deliveries of these queues fall due while their subscribers are muted."""
        number, place = np.unique(self.number[queue], return_inverse=True)
        untils = (self.ways[at].muted_until for at in number.tolist())
        ends = [FIRST_INSTANT if until is None else microseconds(until) for until in untils]
        muted: Array = instants < np.array(ends, np.int64)[place]
        return muted

    def instants(self, queue: Array, is_period: Array, time: Array) -> Array:
        """Return when deliveries are handed over, given their queues, which of these have periods, and their times."""
        number = self.number[queue]
        found: Array = time if not number.any() else time.copy()
        used, place = np.unique(number, return_inverse=True)
        notify = [self.ways[at].notify for at in used.tolist()]
        for digest in {each for each in notify if isinstance(each, Digest)}:
            is_own = np.array([each == digest for each in notify])[place]
            for of_period in (False, True):
                rows = np.flatnonzero(is_own & (is_period == of_period))
                if len(rows):
                    delivered, places = np.unique(time[rows], return_inverse=True)
                    handed = [handed_over_ticks(digest, of_period, instant) for instant in delivered.tolist()]
                    found[rows] = np.array(handed, np.int64)[places]
        return found

    def to_plain(self) -> list[object]:
        """Return the ways as plain data."""
        return [to_plain(way, Handover) for way in self.ways]

    @classmethod
    def from_plain(cls, number: Array, ways: list[object]) -> Handovers:
        """Return what plain data says; raise InvalidValueError for ways that are none."""
        try:
            return cls(number, [from_plain(way, Handover, "handover") for way in ways])
        except RankcastError as error:
            raise InvalidValueError(f"shard: {error}") from None
