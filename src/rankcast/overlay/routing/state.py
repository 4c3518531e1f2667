"""The routing state of a broker: who advertises what, who is interested in what, and what each neighbour is told.

Everything is known by the source that told it, a link or the broker's own clients, and what different sources say is
kept apart. Advertisements are told to all neighbours but the one they came from; interests go towards advertisements
that they meet, as far as the strategy asks. What a neighbour is told depends on what is known and on nothing else.

At the start of a session a neighbour tells everything again. Until it has, what it told before still counts; what it
did not repeat is then over (`begin` and `sweep`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from rankcast.model.errors import shown
from rankcast.model.events import Event
from rankcast.model.subscriptions import AdvertisementId, SubscriptionKey
from rankcast.overlay.effects import Reason, RefusedError
from rankcast.overlay.routing.interests import Record, Source, Table
from rankcast.overlay.routing.neighbours import NeighbourRoutes
from rankcast.overlay.routing.strategies import Strategy, Weighing
from rankcast.overlay.wire.messages import Advertise, Interest, PeerMessage, Unadvertise, Weigh

MAX_INTERESTS = 5_000_000
MAX_ADVERTISEMENTS = 100_000
"""What one neighbour may tell: some gigabytes, far beyond every sensible network, but not without end."""

Told: TypeAlias = list[tuple[str, PeerMessage]]
"""Messages, each with the link it goes over."""


class Routing:
    """What a broker knows and tells, without links and clocks."""

    def __init__(self, strategy: Strategy, weighing: Weighing = Weighing.SPLIT) -> None:
        self.strategy = strategy
        self._weighing = weighing
        self.table = Table()
        self._advertisements: dict[AdvertisementId, dict[Source, Advertise]] = {}
        self._outlets: dict[str, NeighbourRoutes] = {}
        self._stale_advertisements: dict[str, set[AdvertisementId]] = {}
        self._stale_keys: dict[str, set[SubscriptionKey]] = {}

    @property
    def links(self) -> tuple[str, ...]:
        """The links to neighbours."""
        return tuple(self._outlets)

    def join(self, link: str) -> None:
        """Get to know a neighbour."""
        if link not in self._outlets:
            self._outlets[link] = NeighbourRoutes(self.table, self.strategy, self._weighing)

    def advertisement(self, source: Source, name: AdvertisementId) -> Advertise | None:
        """Return what a source advertises under a name."""
        return self._advertisements.get(name, {}).get(source)

    def advertised(self, source: Source) -> Iterator[Advertise]:
        """Give what a source advertises."""
        for told in self._advertisements.values():
            if source in told:
                yield told[source]

    def advertisements(self) -> Iterator[tuple[Source, Advertise]]:
        """Give all that is advertised, and by which source."""
        for told in self._advertisements.values():
            yield from told.items()

    def outlet(self, link: str) -> NeighbourRoutes:
        """Return what a neighbour is told."""
        return self._outlets[link]

    def told(self, link: str) -> list[PeerMessage]:
        """Return all that a neighbour must know."""
        known = (self._passed_on(link, name) for name in self._advertisements)
        return [*(one for one in known if one is not None), *self._outlets[link].everything()]

    def advertise(self, source: Source, advertise: Advertise) -> Told:
        """Take an advertisement in, or as it is from now on."""
        self.strategy.check(advertise)
        name = advertise.advertisement.id
        if source is not None and self.advertisement(source, name) is None:
            _check_count("advertisements", self._outlets[source].advertisements, MAX_ADVERTISEMENTS)
        if source is not None:
            self._stale_advertisements.get(source, set()).discard(name)
        if self.advertisement(source, name) == advertise:
            return []
        before = {link: self._passed_on(link, name) for link in self._outlets if link != source}
        self._advertisements.setdefault(name, {})[source] = advertise
        if source is not None:
            self._outlets[source].advertise(advertise, (one for one in self.table if one.source != source))
        return self._flooded(name, before) + self._settled()

    def unadvertise(self, source: Source, name: AdvertisementId) -> Told:
        """Forget an advertisement of a source."""
        if self.advertisement(source, name) is None:
            raise RefusedError(Reason.UNKNOWN, f"there is no advertisement {shown(name)} from there")
        before = {link: self._passed_on(link, name) for link in self._outlets if link != source}
        del self._advertisements[name][source]
        if not self._advertisements[name]:
            del self._advertisements[name]
        if source is not None:
            self._stale_advertisements.get(source, set()).discard(name)
            self._outlets[source].unadvertise(name)
        return self._flooded(name, before) + self._settled()

    def forward(
        self,
        source: Source,
        interest: Interest,
        weights: Iterable[tuple[AdvertisementId, float]] = (),
        *,
        hides: bool = False,
    ) -> Told:
        """Take an interest in, or as it is from now on."""
        if source is not None:
            self._stale_keys.get(source, set()).discard(interest.key)
        known = self.table.of(source).get(interest.key)
        if source is not None and known is None:
            _check_count("interests", len(self.table.of(source)), MAX_INTERESTS)
        if known is not None and known.interest == interest:
            known.weights = dict(weights)
            self._reweigh(known)
            return self._hides(known, hides=hides)
        record = self.table.add(source, interest)
        record.weights.update(weights)
        record.hides = hides
        for link, outlet in self._outlets.items():
            if link != source:
                outlet.add(record)
        if known is not None:
            self._drop(known)
        return self._settled()

    def _hides(self, record: Record, *, hides: bool) -> Told:
        """Take note whether others may be hidden behind an interest."""
        if record.hides == hides:
            return []
        record.hides = hides
        for link, outlet in self._outlets.items():
            if link != record.source:
                outlet.touch(record)
        return self._settled()

    def withdraw(self, source: Source, keys: Iterable[SubscriptionKey]) -> Told:
        """Forget interests of a source."""
        records: list[Record] = []
        for key in keys:
            record = self.table.of(source).get(key)
            if record is None:
                raise RefusedError(Reason.UNKNOWN, f"there is no interest of {shown(tuple(key))} from there")
            records.append(record)
        for record in records:
            if source is not None:
                self._stale_keys.get(source, set()).discard(record.interest.key)
            self._drop(record)
        return self._settled()

    def weigh(self, source: Source, weigh: Weigh) -> None:
        """Take note of what interests of a source stand for; of those that are gone there is nothing to note."""
        for key, weight in weigh.weights:
            record = self.table.of(source).get(key)
            if record is not None:
                record.weights[weigh.advertisement] = weight
                self._reweigh(record)

    def _reweigh(self, record: Record) -> None:
        for link, outlet in self._outlets.items():
            if link != record.source:
                outlet.reweigh(record)

    def weighed(self, link: str) -> Told:
        """Return the weights that a neighbour has to be told."""
        return [(link, message) for message in self._outlets[link].weighed()]

    def relieved(self, link: str) -> Told:
        """Return what a neighbour has to be told of interests that hide nobody any more."""
        outlet = self._outlets[link]
        outlet.relieve()
        return [(link, message) for message in outlet.settled()]

    def begin(self, link: str) -> None:
        """A neighbour begins to tell everything again."""
        self._stale_advertisements[link] = {one.advertisement.id for one in self.advertised(link)}
        self._stale_keys[link] = set(self.table.of(link))

    def stale(self, link: str) -> tuple[set[AdvertisementId], set[SubscriptionKey]] | None:
        """Return what a neighbour has yet to repeat; None when it is not telling everything again."""
        if link not in self._stale_keys:
            return None
        return self._stale_advertisements[link], self._stale_keys[link]

    def restore_stale(self, link: str, names: Iterable[AdvertisementId], keys: Iterable[SubscriptionKey]) -> None:
        """Take over what a neighbour has yet to repeat."""
        self._stale_advertisements[link], self._stale_keys[link] = set(names), set(keys)

    def sweep(self, link: str) -> Told:
        """A neighbour has told everything: forget what it did not repeat."""
        keys, names = self._stale_keys.pop(link, set()), self._stale_advertisements.pop(link, set())
        told = self.withdraw(link, sorted(keys))
        for name in sorted(names):
            told += self.unadvertise(link, name)
        return told

    def matching(self, event: Event, source: Source) -> dict[Source, list[Record]]:
        """Return the interests that an event matches, by where they are; not where the event came from.

        Events of the broker's own clients may match its own clients.
        """
        found: dict[Source, list[Record]] = {}
        for record in self.table.matching(event):
            if record.source != source or source is None:
                found.setdefault(record.source, []).append(record)
        return found

    def _drop(self, record: Record) -> None:
        for link, outlet in self._outlets.items():
            if link != record.source:
                outlet.remove(record)
        self.table.remove(record)

    def _passed_on(self, link: str, name: AdvertisementId) -> Advertise | None:
        """Return an advertisement as a neighbour is told it: as any other source told it, without a lease."""
        told = self._advertisements.get(name, {})
        return next((_unleased(one) for source, one in told.items() if source != link), None)

    def _flooded(self, name: AdvertisementId, before: dict[str, Advertise | None]) -> Told:
        told: Told = []
        for link, known in before.items():
            now = self._passed_on(link, name)
            if now is None and known is not None:
                told.append((link, Unadvertise(name)))
            elif now is not None and now != known:
                told.append((link, now))
        return told

    def _settled(self) -> Told:
        return [
            (link, message)
            for link, outlet in self._outlets.items()
            if outlet.is_touched
            for message in outlet.settled()
        ]


def _check_count(what: str, count: int, most: int) -> None:
    if count >= most:
        raise RefusedError(Reason.TOO_MANY, f"more than {most:,} {what} from one neighbour")


def _unleased(advertise: Advertise) -> Advertise:
    return advertise if advertise.lease is None else Advertise(advertise.advertisement, advertise.ranking)
