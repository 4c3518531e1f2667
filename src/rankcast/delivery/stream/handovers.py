"""How what the queues of a shard deliver is handed over: at once, in digests, or never, because it is read on demand.

What is for a digest waits in the shard until the digest's instant is over, so that who leaves before it gets none of
it. Cost: a pass over the deliveries of queues with digests, and one step of a calendar for each instant among them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from rankcast.arrays import Array
from rankcast.delivery.rules.policies import handed_over_ticks
from rankcast.language.lossless import from_plain, to_plain
from rankcast.model.errors import InvalidValueError, RankcastError
from rankcast.model.policies import AT_ONCE, AtOnce, Digest, Notify, OnDemand


@dataclass(slots=True)
class Handovers:
    """The ways in which queues are handed over, and the number of each queue's; the first way is at once."""

    number: Array
    ways: list[Notify] = field(default_factory=lambda: [AT_ONCE])

    @classmethod
    def of(cls, notify: Iterable[Notify]) -> Handovers:
        """Return those of queues, in their order."""
        made = cls(np.zeros(0, np.int32))
        made.number = np.array([made._number(way) for way in notify], np.int32)
        return made

    def _number(self, way: Notify) -> int:
        if way not in self.ways:
            self.ways.append(way)
        return self.ways.index(way)

    def __getitem__(self, queue: int) -> Notify:
        return self.ways[int(self.number[queue])]

    def __setitem__(self, queue: int, way: Notify) -> None:
        self.number[queue] = self._number(way)

    def grow(self, queues: int) -> None:
        """Add queues, which are handed over at once."""
        self.number = np.concatenate([self.number, np.zeros(queues, np.int32)])

    def are(self, kind: type[AtOnce | Digest | OnDemand]) -> Array:
        """Return which queues are handed over in this way."""
        chosen: Array = np.isin(self.number, [at for at, way in enumerate(self.ways) if isinstance(way, kind)])
        return chosen

    def instants(self, queue: Array, is_period: Array, time: Array) -> Array:
        """Return when deliveries are handed over, given their queues, which of these have periods, and their times."""
        number = self.number[queue]
        found: Array = time if not number.any() else time.copy()
        for at, way in enumerate(self.ways):
            for of_period in (False, True):
                rows = np.flatnonzero((number == at) & (is_period == of_period)) if isinstance(way, Digest) else ()
                if len(rows):
                    delivered, places = np.unique(time[rows], return_inverse=True)
                    handed = [handed_over_ticks(way, of_period, instant) for instant in delivered.tolist()]
                    found[rows] = np.array(handed, np.int64)[places]
        return found

    def to_plain(self) -> list[object]:
        """Return the ways as plain data."""
        return [to_plain(way, Notify) for way in self.ways]

    @classmethod
    def from_plain(cls, number: Array, ways: list[object]) -> Handovers:
        """Return what plain data says; raise InvalidValueError for ways that are none."""
        try:
            return cls(number, [from_plain(way, Notify, "handover") for way in ways])
        except RankcastError as error:
            raise InvalidValueError(f"shard: {error}") from None
