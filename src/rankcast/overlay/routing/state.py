"""The routing state of a broker: who advertises what, who is interested in what, and what each neighbour is told.

Everything is known by the source that told it, a link or the broker's own clients, and what different sources say is
kept apart. Advertisements are told to all neighbours but the one they came from; interests go towards advertisements
that they meet, as far as the strategy asks. What a neighbour is told depends on what is known and on nothing else.

At the start of a session a neighbour tells everything again. Until it has, what it told before still counts; what it
did not repeat is then over (`begin` and `sweep`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from rankcast.covering.group.cover import DEFAULT_CHECKING, Checking
from rankcast.model.advertisements import AdvertisementId
from rankcast.model.errors import shown
from rankcast.model.events import Event
from rankcast.model.subscriptions import SubscriptionKey
from rankcast.overlay.effects import Reason, RefusedError
from rankcast.overlay.messages import Advertise, Interest, PeerMessage, Unadvertise, Weigh
from rankcast.overlay.routing.interests import Record, Source, Table
from rankcast.overlay.routing.neighbours import NeighbourRoutes
from rankcast.overlay.routing.strategies import Strategy, Weighing

MAX_INTERESTS = 5_000_000
MAX_ADVERTISEMENTS = 100_000
"""What one neighbour may tell: some gigabytes, far beyond every sensible network, but not without end."""

Told: TypeAlias = list[tuple[str, PeerMessage]]
"""Messages, each with the link it goes over."""


@dataclass(slots=True)
class Stale:
    """What a neighbour told before it began to tell everything again, and has not repeated."""

    advertisements: set[AdvertisementId]
    keys: set[SubscriptionKey]


class Routing:
    """What a broker knows and tells, without links and clocks.

    `stale` has the neighbours that are telling everything again.
    """

    def __init__(
        self, strategy: Strategy, weighing: Weighing = Weighing.SPLIT, group: Checking = DEFAULT_CHECKING
    ) -> None:
        self.strategy = strategy
        self._weighing = weighing
        self._group = group
        self.table = Table()
        self._advertisements: dict[AdvertisementId, dict[Source, Advertise]] = {}
        self._routes: dict[str, NeighbourRoutes] = {}
        self.stale: dict[Source, Stale] = {}

    def strategy_of(self, advertise: Advertise) -> Strategy:
        """Return how the events of an advertisement are routed."""
        return advertise.strategy or self.strategy

    @property
    def links(self) -> tuple[str, ...]:
        """The links to neighbours."""
        return tuple(self._routes)

    def join(self, link: str) -> None:
        """Get to know a neighbour."""
        if link not in self._routes:
            self._routes[link] = NeighbourRoutes(self.table, self.strategy, self._weighing, self._group)

    def advertisement(self, source: Source, name: AdvertisementId) -> Advertise | None:
        """Return what a source advertises under a name."""
        return self._advertisements.get(name, {}).get(source)

    def advertisements(self) -> Iterator[tuple[Source, Advertise]]:
        """Give all that is advertised, and by which source."""
        for told in self._advertisements.values():
            yield from told.items()

    def routes(self, link: str) -> NeighbourRoutes:
        """Return what a neighbour is told."""
        return self._routes[link]

    def announce_all(self, link: str) -> list[PeerMessage]:
        """Return all that a neighbour must know."""
        known = (self._passed_on(link, name) for name in self._advertisements)
        return [*(advertise for advertise in known if advertise is not None), *self._routes[link].announce_all()]

    def advertise(self, source: Source, advertise: Advertise) -> Told:
        """Take an advertisement in, or as it is from now on."""
        refusal = self.strategy_of(advertise).refusal(advertise.advertisement)
        if refusal is not None:
            raise RefusedError(Reason.UNSUPPORTED, refusal)
        name = advertise.advertisement.id
        known = self.advertisement(source, name)
        routes = None if source is None else self._routes[source]
        if routes is not None and known is None:
            _check_count("advertisements", routes.advertisements, MAX_ADVERTISEMENTS)
        self._stale_of(source).advertisements.discard(name)
        if known == advertise:
            return []
        before = self._all_passed_on(source, name)
        self._advertisements.setdefault(name, {})[source] = advertise
        if routes is not None:
            routes.advertise(advertise, (record for record in self.table if record.source != source))
        return self._flood(name, before) + self._flush()

    def unadvertise(self, source: Source, name: AdvertisementId) -> Told:
        """Forget an advertisement of a source."""
        if self.advertisement(source, name) is None:
            raise RefusedError(Reason.UNKNOWN, f"there is no advertisement {shown(name)} from there")
        before = self._all_passed_on(source, name)
        del self._advertisements[name][source]
        if not self._advertisements[name]:
            del self._advertisements[name]
        if source is not None:
            self._stale_of(source).advertisements.discard(name)
            self._routes[source].unadvertise(name)
        return self._flood(name, before) + self._flush()

    def forward(
        self,
        source: Source,
        interest: Interest,
        weights: Iterable[tuple[AdvertisementId, float]] = (),
        *,
        hides: bool = False,
    ) -> Told:
        """Take an interest in, or as it is from now on."""
        self._stale_of(source).keys.discard(interest.key)
        known = self.table.of(source).get(interest.key)
        if source is not None and known is None:
            _check_count("interests", len(self.table.of(source)), MAX_INTERESTS)
        if known is not None and known.interest == interest:
            known.weights = dict(weights)
            self._reweigh(known)
            if known.hides == hides:
                return []
            known.hides = hides
            for routes in self._others(source):
                routes.touch(known)
            return self._flush()
        record = self.table.add(source, interest)
        record.weights.update(weights)
        record.hides = hides
        for routes in self._others(source):
            routes.add(record)
        if known is not None:
            self._drop(known)
        return self._flush()

    def withdraw(self, source: Source, keys: Iterable[SubscriptionKey]) -> Told:
        """Forget interests of a source."""
        records: list[Record] = []
        for key in keys:
            record = self.table.of(source).get(key)
            if record is None:
                raise RefusedError(Reason.UNKNOWN, f"there is no interest of {shown(tuple(key))} from there")
            records.append(record)
        for record in records:
            self._stale_of(source).keys.discard(record.interest.key)
            self._drop(record)
        return self._flush()

    def weigh(self, source: Source, weigh: Weigh) -> None:
        """Take note of what interests of a source stand for; of those that are gone there is nothing to note."""
        for key, weight in weigh.weights:
            record = self.table.of(source).get(key)
            if record is not None:
                record.weights[weigh.advertisement] = weight
                self._reweigh(record)

    def _reweigh(self, record: Record) -> None:
        for routes in self._others(record.source):
            routes.reweigh(record)

    def new_weights(self, link: str) -> Told:
        """Return the weights that a neighbour has to be told."""
        return [(link, message) for message in self._routes[link].new_weights()]

    def recheck_hidden(self, link: str) -> Told:
        """Return what a neighbour has to be told of interests that hide nobody any more."""
        self._routes[link].recheck_hidden()
        return [(link, message) for message in self._routes[link].flush()]

    def begin(self, link: str) -> None:
        """A neighbour begins to tell everything again."""
        names = {advertise.advertisement.id for source, advertise in self.advertisements() if source == link}
        self.stale[link] = Stale(names, set(self.table.of(link)))

    def sweep(self, link: str) -> Told:
        """A neighbour has told everything: forget what it did not repeat."""
        stale = self._stale_of(link)
        self.stale.pop(link, None)
        told = self.withdraw(link, sorted(stale.keys))
        for name in sorted(stale.advertisements):
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

    def _stale_of(self, source: Source) -> Stale:
        return self.stale.get(source) or Stale(set(), set())

    def _others(self, source: Source) -> Iterator[NeighbourRoutes]:
        """Give what each neighbour is told but the one that something came from."""
        return (routes for link, routes in self._routes.items() if link != source)

    def _drop(self, record: Record) -> None:
        for routes in self._others(record.source):
            routes.remove(record)
        self.table.remove(record)

    def _passed_on(self, link: str, name: AdvertisementId) -> Advertise | None:
        """Return an advertisement as a neighbour is told it: as any other source told it, without a lease."""
        told = self._advertisements.get(name, {})
        return next((replace(advertise, lease=None) for source, advertise in told.items() if source != link), None)

    def _all_passed_on(self, source: Source, name: AdvertisementId) -> dict[str, Advertise | None]:
        """Return an advertisement as each neighbour but its source is told it."""
        return {link: self._passed_on(link, name) for link in self._routes if link != source}

    def _flood(self, name: AdvertisementId, before: dict[str, Advertise | None]) -> Told:
        told: Told = []
        for link, known in before.items():
            now = self._passed_on(link, name)
            if now is None and known is not None:
                told.append((link, Unadvertise(name)))
            elif now is not None and now != known:
                told.append((link, now))
        return told

    def _flush(self) -> Told:
        return [
            (link, message) for link, routes in self._routes.items() if routes.is_touched for message in routes.flush()
        ]


def _check_count(what: str, count: int, most: int) -> None:
    if count >= most:
        raise RefusedError(Reason.TOO_MANY, f"more than {most:,} {what} from one neighbour")
