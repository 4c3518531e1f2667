"""The way of an event through a broker: which neighbours get it, with which share of k, and which own subscriptions.

- Without a k it goes wherever something matches.
- With a k the broker chooses the best k of the subscribers it knows of, its own and those of interests that neighbours
  told; each neighbour gets the event with the number of its chosen ones as its share, and chooses as many among all
  that it knows. A chosen subscriber gets the event for all its matching subscriptions.
- Where scores depend on who else matches (diversity), and where a chosen subscriber is behind two links, as it is
  while it moves, the first broker chooses for all, and names the chosen.
- ExactFair first asks neighbours how many want the event behind them, of which scores: those of whose matching
  interests one may hide others. Of the rest everything is known. Those asked ask on, and answer with sums. Then the
  shares are drawn; a neighbour that counted before draws from its own counts.

A count that stays out is taken as 0 when the neighbour is lost or the time for counting is over.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from rankcast.model.advertisements import Advertisement, AdvertisementId, Scoring
from rankcast.model.events import Event, Identity
from rankcast.model.subscriptions import SubscriberId, SubscriptionKey
from rankcast.overlay.effects import Reason, RefusedError
from rankcast.overlay.messages import Advertise, CountQuery, CountReply, Publish, ScoreCount
from rankcast.overlay.routing.audiences import best_scores, choose, levels, members, shares
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
    """Who wants an event, link by link: `missing` links have not answered.

    With a `k` the shares are drawn as soon as all have; without, the sums go back over the link `source`, as far as the
    advertised `most` may reach. `own` are the scores of own subscribers, and `keys` their matching subscriptions.
    """

    advertisement: AdvertisementId
    event: Event
    source: Source
    own: dict[SubscriberId, float]
    keys: tuple[SubscriptionKey, ...]
    counts: dict[str, tuple[ScoreCount, ...]]
    missing: set[str]
    most: int
    k: int | None = None

    @property
    def own_counts(self) -> tuple[ScoreCount, ...]:
        """How many own subscribers have each score."""
        return levels((ScoreCount(score, 1) for score in self.own.values()), len(self.own))

    @property
    def total(self) -> tuple[ScoreCount, ...]:
        """How many are known of, as far as k may reach."""
        return levels((level for group in (self.own_counts, *self.counts.values()) for level in group), self.most)


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
            return self._to_all(source, publish, floods=self._routing.strategy_of(advertise) is Strategy.FLOODING)
        if self._routing.strategy_of(advertise) is Strategy.EXACT_FAIR:
            return self._to_any(source, publish, publish.k, advertise)
        return self._to_best(source, publish, publish.k, advertise)

    def count(self, source: str, query: CountQuery, advertise: Advertise) -> PublishOutcome:
        """Begin to count the matches of an event for a neighbour."""
        identity = query.event.identity
        if identity in self.counts:
            raise RefusedError(Reason.REPLAY, f"the matches of event {tuple(identity)} have been asked for before")
        return self._begin(source, advertise.advertisement, query.event, None)

    def take_reply(self, link: str, reply: CountReply) -> PublishOutcome:
        """Take the count of a neighbour in."""
        identity = Identity(reply.source, reply.id)
        count = self.counts.get(identity)
        if count is None or link not in count.missing:
            raise RefusedError(Reason.UNKNOWN, f"nobody has asked there for the matches of event {tuple(identity)}")
        count.counts[link] = reply.counts
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

    def _to_all(self, source: Source, publish: Publish, *, floods: bool) -> PublishOutcome:
        found = self._routing.matching(publish.event, source)
        outcome = PublishOutcome(own=_keys(found.get(None, ())), event=publish.event)
        for link in self._routing.links:
            if link != source and (floods or link in found):
                outcome.told.append((link, Publish(publish.advertisement, publish.event)))
        return outcome

    def _to_targets(self, source: Source, publish: Publish, targets: Sequence[SubscriberId]) -> PublishOutcome:
        outcome = PublishOutcome(event=publish.event)
        for link, records in self._routing.matching(publish.event, source).items():
            behind = {record.interest.key.subscriber for record in records}
            named = tuple(name for name in targets if name in behind)
            if link is None:
                outcome.own = _of(_keys(records), named)
            elif named:
                outcome.told.append((link, Publish(publish.advertisement, publish.event, len(named), named)))
        return outcome

    def _to_best(self, source: Source, publish: Publish, k: int, advertise: Advertise) -> PublishOutcome:
        found = self._within_reach(publish.event, source)
        records = [record for held in found.values() for record in held]
        ranking, strategy = advertise.advertisement.ranking, self._routing.strategy_of(advertise)
        weights: list[float] | None = None
        if ranking.is_by_chance and strategy is Strategy.ANCESTOR_FAIR_K:
            weights = [record.weight(publish.advertisement) for record in records]
        knows_all = not ranking.is_by_chance or strategy is Strategy.REGULAR_K  # who may be equal to those it knows
        best = choose(records, k, ranking, publish.event, None if knows_all else self._random, weights)
        places = {(record.interest.key.subscriber, record.source) for record in records}
        behind = Counter(name for name, _ in places)
        if ranking.scoring is Scoring.DIVERSITY or any(behind[name] > 1 for name in best):
            return self._to_targets(source, publish, best)
        outcome = PublishOutcome(own=_of(_keys(found.get(None, ())), best), event=publish.event)
        for link in found:
            share = sum((name, link) in places for name in best)
            if link is not None and share:
                outcome.told.append((link, Publish(publish.advertisement, publish.event, share)))
        return outcome

    def _to_any(self, source: Source, publish: Publish, k: int, advertise: Advertise) -> PublishOutcome:
        count = self.counts.get(publish.event.identity)
        if count is None or count.k is not None or count.missing:
            return self._begin(source, advertise.advertisement, publish.event, k)
        count.k = k
        return self._draw(count)

    def _begin(self, source: Source, advertisement: Advertisement, event: Event, k: int | None) -> PublishOutcome:
        found = self._within_reach(event, source)
        has_room = self._has_room()  # else by what is known, rather than not at all
        hiding = {
            link
            for link, records in found.items()
            if has_room and link is not None and any(record.hides for record in records)
        }
        scoring, most = advertisement.ranking.scoring, advertisement.k or 0
        scores = {link: best_scores(records, scoring, event) for link, records in found.items() if link not in hiding}
        own = scores.pop(None, {})
        counts = {
            link: levels((ScoreCount(score, 1) for score in known.values()), most)
            for link, known in scores.items()
            if link is not None
        }
        keys = tuple(_keys(found.get(None, ())))
        count = MatchCount(advertisement.id, event, source, own, keys, counts, set(hiding), most, k)
        if has_room:
            self.counts[event.identity] = count
        if not hiding:
            return self._stop_waiting(count, set())
        query = CountQuery(advertisement.id, event)
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
        reply = CountReply(count.event.source, count.event.id, count.total)
        return PublishOutcome(told=[(count.source, reply)])

    def _draw(self, count: MatchCount) -> PublishOutcome:
        """Draw the shares of the links and the own subscribers."""
        self.counts.pop(count.event.identity, None)
        links = sorted(count.counts)
        groups = [count.own_counts, *(count.counts[link] for link in links)]
        own, *others = shares(groups, count.k or 0, self._random)
        chosen = members(count.own, own, self._random)
        outcome = PublishOutcome(own=_of(count.keys, chosen), event=count.event)
        for link, share in zip(links, others, strict=True):
            if share:
                outcome.told.append((link, Publish(count.advertisement, count.event, share)))
        return outcome


def _of(keys: Iterable[SubscriptionKey], chosen: Iterable[SubscriberId]) -> list[SubscriptionKey]:
    """Return the keys of chosen subscribers."""
    names = set(chosen)
    return [key for key in keys if key.subscriber in names]


def _keys(records: Iterable[Record]) -> list[SubscriptionKey]:
    return [record.interest.key for record in records]
