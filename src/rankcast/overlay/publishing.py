"""The way of an event through a broker: which neighbours get it, with which share of k, and which own subscriptions.

- Without a k it goes wherever something matches.
- With a k the broker chooses the best k of what it knows, its own and what neighbours told; each neighbour gets the
  event with the number of its chosen ones as its share, and chooses as many among all that it knows.
- Where scores depend on who else matches (diversity), the first broker chooses for all, and names the chosen.
- ExactFair first asks neighbours how many match behind them: those of whose matching interests one may hide others. Of
  the rest everything is known. Those asked ask on, and answer with sums. Then the shares are drawn; a neighbour that
  counted before draws from its own counts.

A count that stays out is taken as 0 when the neighbour is lost or the time for counting is over.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from rankcast.matching.naive import evaluate
from rankcast.model.advertisements import AdvertisementId, Scoring
from rankcast.model.events import Event, Identity
from rankcast.model.subscriptions import SubscriptionKey
from rankcast.overlay.effects import Reason, RefusedError
from rankcast.overlay.messages import MAX_NUMBER, Advertise, CountQuery, CountReply, Publish
from rankcast.overlay.routing.choosing import choose, is_relevant, quotas
from rankcast.overlay.routing.interests import Record, Source
from rankcast.overlay.routing.state import Routing, Told
from rankcast.overlay.routing.strategies import Strategy

MOST_COUNTS = 10_000
"""Events whose counts a broker remembers; one of which the share comes later is counted again."""


@dataclass(slots=True)
class PublishOutcome:
    """What an event leads to: messages, and the own subscriptions that get it."""

    told: Told = field(default_factory=list)
    own: list[SubscriptionKey] = field(default_factory=list)
    event: Event | None = None


@dataclass(slots=True)
class MatchCount:
    """The matches of an event, link by link: `missing` links have not answered.

    With a `k` the shares are drawn as soon as all have; without, the sum goes back over the link `source`.
    """

    advertisement: AdvertisementId
    event: Event
    source: Source
    own: tuple[SubscriptionKey, ...]
    counts: dict[str, int]
    missing: set[str]
    k: int | None = None

    @property
    def total(self) -> int:
        """How many matches are known of."""
        return len(self.own) + sum(self.counts.values())


class Publishing:
    """Routes events by what the routing state says; `listens` says whether something can be sent over a link."""

    def __init__(self, routing: Routing, random: np.random.Generator, listens: Callable[[str], bool]) -> None:
        self._routing = routing
        self._random = random
        self._listens = listens
        self.counts: OrderedDict[Identity, MatchCount] = OrderedDict()

    def publish(self, source: Source, publish: Publish, advertise: Advertise) -> PublishOutcome:
        """Let an event that its advertisement allows come from a source."""
        if publish.targets is not None:
            return self._to_targets(source, publish, publish.targets)
        if publish.k is None:
            return self._to_all(source, publish)
        if self._routing.strategy is Strategy.EXACT_FAIR:
            return self._to_any(source, publish, publish.k)
        return self._to_best(source, publish, publish.k, advertise)

    def count(self, source: str, query: CountQuery) -> PublishOutcome:
        """Begin to count the matches of an event for a neighbour."""
        identity = query.event.identity
        if identity in self.counts:
            raise RefusedError(Reason.REPLAY, f"the matches of event {tuple(identity)} have been asked for before")
        return self._begin(source, query.advertisement, query.event, None)

    def take_reply(self, link: str, reply: CountReply) -> PublishOutcome:
        """Take the count of a neighbour in."""
        identity = Identity(reply.source, reply.id)
        count = self.counts.get(identity)
        if count is None or link not in count.missing:
            raise RefusedError(Reason.UNKNOWN, f"nobody has asked there for the matches of event {tuple(identity)}")
        count.counts[link] = reply.count
        return self._stop_waiting(count, {link})

    def give_up(self, identity: Identity, links: frozenset[str] | None = None) -> PublishOutcome:
        """Wait no more for the counts of some links, or of any; forget one that is complete, and not drawn from."""
        count = self.counts.get(identity)
        if count is not None and not count.missing and links is None:
            del self.counts[identity]
        if count is None or not count.missing:
            return PublishOutcome()
        return self._stop_waiting(count, count.missing if links is None else count.missing & links)

    @property
    def unfinished(self) -> list[Identity]:
        """The events that counts are missing of."""
        return [identity for identity, count in self.counts.items() if count.missing]

    def _within_reach(self, event: Event, source: Source) -> dict[Source, list[Record]]:
        """Return the matching interests by where they are, but not those behind links that nobody listens to: who
        is chosen there would get nothing, and take the place of somebody else."""
        found = self._routing.matching(event, source)
        return {link: records for link, records in found.items() if link is None or self._listens(link)}

    def _to_all(self, source: Source, publish: Publish) -> PublishOutcome:
        found = self._routing.matching(publish.event, source)
        outcome = PublishOutcome(own=_keys(found.get(None, ())), event=publish.event)
        is_flooding = self._routing.strategy is Strategy.FLOODING
        for link in self._routing.links:
            if link != source and (is_flooding or link in found):
                outcome.told.append((link, Publish(publish.advertisement, publish.event)))
        return outcome

    def _to_targets(self, source: Source, publish: Publish, targets: Sequence[SubscriptionKey]) -> PublishOutcome:
        outcome = PublishOutcome(event=publish.event)
        by_link: dict[str, list[SubscriptionKey]] = {}
        for key in targets:
            for record in self._routing.table.named(key):
                if record.source is None:
                    if evaluate(record.interest.filter.expression, publish.event.attributes):  # it may have changed
                        outcome.own.append(key)
                elif record.source != source:
                    by_link.setdefault(record.source, []).append(key)
        for link, keys in by_link.items():
            outcome.told.append((link, Publish(publish.advertisement, publish.event, len(keys), tuple(keys))))
        return outcome

    def _to_best(self, source: Source, publish: Publish, k: int, advertise: Advertise) -> PublishOutcome:
        found = self._within_reach(publish.event, source)
        records = [record for held in found.values() for record in held if is_relevant(record, publish.event)]
        weights: list[float] | None = None
        if self._routing.strategy is Strategy.ANCESTOR_FAIR_K:
            weights = [record.weight(publish.advertisement) for record in records]
        best = choose(records, k, advertise.advertisement.ranking, publish.event, self._random, weights)
        if advertise.advertisement.ranking.scoring is Scoring.DIVERSITY:
            return self._to_targets(source, publish, _keys(best))
        shares: dict[str, int] = {}
        outcome = PublishOutcome(event=publish.event)
        for record in best:
            if record.source is None:
                outcome.own.append(record.interest.key)
            else:
                shares[record.source] = shares.get(record.source, 0) + 1
        for link, share in shares.items():
            outcome.told.append((link, Publish(publish.advertisement, publish.event, share)))
        return outcome

    def _to_any(self, source: Source, publish: Publish, k: int) -> PublishOutcome:
        count = self.counts.get(publish.event.identity)
        if count is None or count.k is not None or count.missing:
            return self._begin(source, publish.advertisement, publish.event, k)
        count.k = k
        return self._draw(count)

    def _begin(self, source: Source, name: AdvertisementId, event: Event, k: int | None) -> PublishOutcome:
        found = self._within_reach(event, source)
        has_room = self._has_room()  # else by what is known, rather than not at all
        hiding = {
            link
            for link, records in found.items()
            if has_room and link is not None and any(record.hides for record in records)
        }
        relevant = {
            link: _keys(record for record in records if is_relevant(record, event)) for link, records in found.items()
        }
        own = tuple(relevant.pop(None, ()))
        counts = {link: 0 if link in hiding else len(keys) for link, keys in relevant.items() if link is not None}
        count = MatchCount(name, event, source, own, counts, set(hiding), k)
        if has_room:
            self.counts[event.identity] = count
        if not hiding:
            return self._stop_waiting(count, set())
        query = CountQuery(name, event)
        return PublishOutcome(told=[(link, query) for link in sorted(hiding)])

    def _has_room(self) -> bool:
        """Whether another event can be counted: of those complete ones whose share is yet to come, the oldest goes."""
        if len(self.counts) < MOST_COUNTS:
            return True
        oldest = next((identity for identity, count in self.counts.items() if count.k is None), None)
        if oldest is not None:
            del self.counts[oldest]
        return oldest is not None

    def _stop_waiting(self, count: MatchCount, links: set[str]) -> PublishOutcome:
        """Take note that nothing more comes from some links; go on when nothing more comes from any."""
        count.missing = count.missing - links
        if count.missing:
            return PublishOutcome()
        if count.k is not None:
            return self._draw(count)
        if count.source is None:
            return PublishOutcome()
        total = min(count.total, MAX_NUMBER - 1)
        return PublishOutcome(told=[(count.source, CountReply(count.event.source, count.event.id, total))])

    def _draw(self, count: MatchCount) -> PublishOutcome:
        """Draw the shares of the links and the own subscriptions."""
        self.counts.pop(count.event.identity, None)
        links = sorted(count.counts)
        own, *shares = quotas([len(count.own), *(count.counts[link] for link in links)], count.k or 0, self._random)
        picked = self._random.choice(len(count.own), own, replace=False).tolist() if own else []
        outcome = PublishOutcome(own=[count.own[at] for at in picked], event=count.event)
        for link, share in zip(links, shares, strict=True):
            if share:
                outcome.told.append((link, Publish(count.advertisement, count.event, share)))
        return outcome


def _keys(records: Iterable[Record]) -> list[SubscriptionKey]:
    return [record.interest.key for record in records]
