"""The interests that a broker knows, where each came from, and which of them an event matches.

The matching index follows when it is needed: interests that come and go between two events cost it nothing, and very
many at once are compiled together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from rankcast.matching.entries import Entry
from rankcast.matching.index import Index
from rankcast.model.advertisements import AdvertisementId
from rankcast.model.events import Event
from rankcast.model.subscriptions import SubscriptionKey
from rankcast.overlay.messages import Interest

Source: TypeAlias = str | None
"""The link that something came over; None is the broker's own clients."""

MANY = 2048
"""Changes after which an index is compiled again, unless it is much larger than that."""


@dataclass(slots=True, eq=False)
class Record:
    """An interest of a source; `weights` are what it stands for, by advertisement, where that is more than itself.

    `hides` says that the source may keep others back whose matches are all its own. The table gives it its number.
    """

    source: Source
    interest: Interest
    weights: dict[AdvertisementId, float] = field(default_factory=dict)
    hides: bool = False
    number: int = field(default=-1, init=False)

    def weight(self, advertisement: AdvertisementId) -> float:
        """How many subscriptions it stands for."""
        return self.weights.get(advertisement, 1.0)


class Table:
    """Records by number, and by source and key; `searched` and `found` count the work of matching so far."""

    def __init__(self) -> None:
        self._records: dict[int, Record] = {}
        self._by_source: dict[Source, dict[SubscriptionKey, Record]] = {}
        self._next = 0
        self._index = Index()
        self._reader = self._index.reader()
        self._indexed = 0
        self._changes: dict[int, Entry | None] = {}
        self.searched = 0
        self.found = 0

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[Record]:
        return iter(self._records.values())

    def __getitem__(self, number: int) -> Record:
        return self._records[number]

    def of(self, source: Source) -> dict[SubscriptionKey, Record]:
        """Return what came from a source, by key; not to be changed."""
        return self._by_source.get(source, {})

    def add(self, source: Source, interest: Interest) -> Record:
        """Take an interest in, in the place of the source's former one of that key."""
        record = Record(source, interest)
        record.number = self._next
        self._next += 1
        self._records[record.number] = record
        self._by_source.setdefault(source, {})[interest.key] = record
        self._changes[record.number] = Entry.of(record.number, interest.filter)
        return record

    def remove(self, record: Record) -> None:
        """Forget a record."""
        key = record.interest.key
        del self._records[record.number]
        if self._by_source[record.source].get(key) is record:
            del self._by_source[record.source][key]
        if self._changes.get(record.number) is not None:
            del self._changes[record.number]  # the index has never heard of it
        else:
            self._changes[record.number] = None

    def matching(self, event: Event) -> list[Record]:
        """Return the records whose filters accept an event, oldest first."""
        if self._changes:
            self._follow()
        numbers = sorted(self._reader.match_one(event.attributes).tolist())
        self.searched += len(self._records)
        self.found += len(numbers)
        return [self._records[number] for number in numbers]

    def _follow(self) -> None:
        if len(self._changes) > max(MANY, self._indexed // 4):
            self._index = Index([Entry.of(record.number, record.interest.filter) for record in self])
            self._reader = self._index.reader()
        else:
            for number, entry in self._changes.items():
                if entry is None:
                    self._index.remove(number)
                else:
                    self._index.add(entry)
        self._indexed = len(self._records)
        self._changes = {}
