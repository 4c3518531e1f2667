"""The conformance suite: every engine delivers exactly what the definitions say.

A `Case` is a set of subscribers and a sequence of events with times. An engine replays it, each event at its own time,
and returns what was delivered. `check` compares an engine with the oracle, which follows the definitions literally:
the naive matcher, ranks computed from scratch, policies over the whole history. New engines join by implementing
`Engine` and calling `check` on `cases()` and on recorded cases.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Protocol

from hypothesis import strategies as st

from rankcast.covering.relation import Relation, relation
from rankcast.hub import Hub, Notification
from rankcast.matching.entries import Entry
from rankcast.matching.index import Index
from rankcast.matching.naive import matches
from rankcast.model.advertisements import (
    Advertisement,
    AdvertisementId,
    Advertisements,
    Scoring,
    Ties,
)
from rankcast.model.events import Event, Identity
from rankcast.model.policies import Digest, OnDemand
from rankcast.model.subscriptions import RankBy, Subscriber, SubscriberId, Subscription, SubscriptionId
from rankcast.model.times import EARLIEST, LATEST
from rankcast.overlay.effects import Deliver
from rankcast.ranking.audiences import diverse_scores
from rankcast.ranking.preferences import preference_ranks, sum_in_order
from rankcast.ranking.relevance import decayed, relevance_of
from rankcast.testing.definitions import (
    ExpectedDelivery,
    Offer,
    chosen_subscribers,
    due,
    handed_over,
    in_digests,
    listed,
)
from rankcast.testing.strategies import (
    VECTOR,
    audience_rankings,
    events,
    notified_subscribers,
    policies_with,
    subscribers,
    vectors,
)


@dataclass(frozen=True, slots=True)
class Case:
    """Subscribers, and events in the order of their times; every event has a time and its own identity.

    `reads` are instants, in order, at which the lists of subscribers that are notified on demand are read, after all
    events up to that instant. `advertisements` are of different sources, and permit all their events; `asked` is what
    single events ask for, if that is less than is advertised.
    """

    subscribers: tuple[Subscriber, ...]
    events: tuple[Event, ...]
    reads: tuple[datetime, ...] = ()
    advertisements: tuple[Advertisement, ...] = ()
    asked: Mapping[Identity, int] = field(default_factory=dict)

    @property
    def steps(self) -> Iterator[Event | datetime]:
        """The events and the instants of reading, in the order in which an engine gets them."""
        reads = deque(self.reads)
        for event in self.events:
            while reads and event.time is not None and reads[0] < event.time:
                yield reads.popleft()
            yield event
        yield from reads

    @property
    def lists(self) -> Iterator[tuple[SubscriberId, SubscriptionId | None]]:
        """The lists that are read: of subscribers who are notified on demand, one for each policy."""
        readers = (subscriber for subscriber in self.subscribers if isinstance(subscriber.notify, OnDemand))
        return ((subscriber.id, name) for subscriber in readers for name in subscriber.policies)


class Engine(Protocol):
    """What the suite needs of an engine."""

    def deliveries(self, case: Case) -> Iterable[ExpectedDelivery]:
        """Replay a case and return every delivery, in any order."""


def check(engine: Engine, case: Case) -> None:
    """Raise AssertionError, with both differences, unless an engine delivers what the oracle delivers."""
    found, expected = sorted(engine.deliveries(case)), sorted(Oracle().deliveries(case))
    if found != expected:
        missing = [delivery for delivery in expected if delivery not in found]
        surplus = [delivery for delivery in found if delivery not in expected]
        raise AssertionError(
            f"{type(engine).__name__} differs from the oracle: missing {missing}, not expected {surplus}, "
            f"{len(found)} delivered, {len(expected)} expected"
        )


class Oracle:
    """The definitions, literally: slow, with the whole history at hand."""

    def deliveries(self, case: Case) -> list[ExpectedDelivery]:
        """Return what every subscriber is due."""
        return _due(case, self._matching)

    def _matching(self, subscriber: Subscriber, event: Event) -> list[Subscription]:
        return [subscription for subscription in subscriber.subscriptions if matches(subscription, event)]


class IndexEngine:
    """The matching index, built whole or subscription by subscription; everything after matching is the oracle's."""

    def __init__(self, *, incremental: bool = False) -> None:
        self.incremental = incremental

    def deliveries(self, case: Case) -> list[ExpectedDelivery]:
        """Match the events by the index."""
        owned = [(subscriber.id, held) for subscriber in case.subscribers for held in subscriber.subscriptions]
        entries = [
            Entry.of(number, held.filter, held.active_from, held.active_until) for number, (_, held) in enumerate(owned)
        ]
        index = Index(() if self.incremental else entries, delta=2)
        for entry in entries if self.incremental else ():
            index.add(entry)
        reader = index.reader()

        def matching(subscriber: Subscriber, event: Event) -> list[Subscription]:
            found = sorted(reader.match_one(event.attributes).tolist())
            return [held for owner, held in map(owned.__getitem__, found) if owner == subscriber.id]

        return _due(case, matching)


class HubEngine:
    """The embedded hub: with kernels from the start, never, or when they are loaded."""

    def __init__(self, *, kernels: bool | None = None) -> None:
        self._kernels = kernels

    def deliveries(self, case: Case) -> list[ExpectedDelivery]:
        """Publish the events one after the other."""
        hub = Hub(case.subscribers, advertisements=case.advertisements, kernels=self._kernels)
        notes: list[Notification] = []
        for step in case.steps:
            if isinstance(step, Event):
                notes += hub.publish(step, now=step.time, k=case.asked.get(step.identity))
            else:
                notes += (note for owner, name in case.lists for note in hub.read(owner, name, step))
        notes += hub.finish()
        return [delivery_of(note) for note in notes]


def delivery_of(note: Notification | Deliver) -> ExpectedDelivery:
    """Return a hub's notification, or a broker's delivery, as the suite compares it."""
    return ExpectedDelivery(
        note.subscriber, note.event.identity, note.rank, note.matched, note.time, note.subscription, note.digest
    )


def _due(case: Case, matching: Callable[[Subscriber, Event], list[Subscription]]) -> list[ExpectedDelivery]:
    """Return what every subscriber is due of the events that are for it."""
    reached = {event.identity: _audience(case, event, matching) for event in case.events}

    def offered(subscriber: Subscriber, event: Event) -> list[Subscription]:
        wanting = reached[event.identity]
        return matching(subscriber, event) if wanting is None or subscriber.id in wanting else []

    return [
        delivery
        for subscriber in case.subscribers
        for name in subscriber.policies
        for delivery in _due_to(subscriber, name, case, offered)
    ]


def _audience(
    case: Case, event: Event, matching: Callable[[Subscriber, Event], list[Subscription]]
) -> Collection[SubscriberId] | None:
    """Return whom an event is for; None when for everybody who wants it."""
    limit = Advertisements(case.advertisements).admit(event, case.asked.get(event.identity)).audience
    if limit is None:
        return None
    matched = [(whose, found) for whose in case.subscribers for found in matching(whose, event)]
    relevant = [(whose, found) for whose, found in matched if _relevance(found, event) is not None]
    if limit.ranking.scoring is Scoring.DIVERSITY:
        scores = diverse_scores([found.bounded for _, found in relevant]).tolist()
    else:
        scores = [_producers_score(limit.ranking.scoring, whose, found, event) for whose, found in relevant]
    names = [whose.id for whose, _ in relevant]
    return chosen_subscribers(limit, event.identity, zip(names, scores, strict=True))


def _producers_score(scoring: Scoring, subscriber: Subscriber, found: Subscription, event: Event) -> float:
    rank = preference_ranks(subscriber)[found.id]
    if scoring is Scoring.RELEVANCE:
        return rank * (_relevance(found, event) or 0.0)
    return rank if scoring is Scoring.PREFERENCE else 0.0


def _due_to(
    subscriber: Subscriber,
    name: SubscriptionId | None,
    case: Case,
    matching: Callable[[Subscriber, Event], list[Subscription]],
) -> list[ExpectedDelivery]:
    """Return what one queue is due: the subscriber's or, with a name, that of a subscription with its own policy.

    Offers compete by their scores; what is delivered has the rank.
    """
    policy = subscriber.policies[name]
    offers: list[Offer] = []
    ranks: dict[Identity, float] = {}
    for event in case.events:
        matched = [
            found
            for found in matching(subscriber, event)
            if (found.deliver is None if name is None else found.id == name) and _relevance(found, event) is not None
        ]
        if matched and event.time is not None:
            rank = ranks[event.identity] = _rank(subscriber, matched, event)
            score = rank if subscriber.decay is None else decayed(rank, event.time, subscriber.decay)
            names = tuple(subscription.id for subscription in matched)
            delivery = ExpectedDelivery(subscriber.id, event.identity, score, names, event.time, name)
            expires = min(event.expires or LATEST, _refresh(matched, event.time))
            offers.append(Offer(delivery, event.time, expires, tuple(event.attributes.items())))
    if isinstance(subscriber.notify, OnDemand):
        found = [delivery for at in case.reads for delivery in listed(policy, offers, at)]
    else:
        found = due(policy, offers)
        if isinstance(subscriber.handover, Digest):
            found = in_digests(subscriber.handover.every, policy, found)
        muted = EARLIEST if subscriber.muted_until is None else subscriber.muted_until
        heard = [delivery for delivery in found if (delivery.digest or delivery.time) >= muted]
        found = handed_over(policy.at_most, heard, {event.identity: event.attributes for event in case.events})
    return [delivery._replace(rank=ranks[delivery.event]) for delivery in found]


def _relevance(subscription: Subscription, event: Event) -> float | None:
    return 1.0 if subscription.relevance is None else relevance_of(event, subscription.relevance)


def _refresh(matched: list[Subscription], time: datetime) -> datetime:
    """Return when the last of the matching subscriptions needs a refresh of an event of this time."""
    return max(LATEST if one.refresh is None else time + min(one.refresh, LATEST - time) for one in matched)


def _rank(subscriber: Subscriber, matched: list[Subscription], event: Event) -> float:
    if subscriber.most_specific:
        matched = [
            wide
            for wide in matched
            if not any(relation(wide.filter, narrow.filter) is Relation.COVERS for narrow in matched)
        ]
    stated = preference_ranks(subscriber)
    ranks = [stated[one.id] * relevance for one in matched if (relevance := _relevance(one, event)) is not None]
    match subscriber.rank_by:
        case RankBy.MAX:
            return max(ranks)
        case RankBy.MIN:
            return min(ranks)
        case RankBy.MEAN:
            return sum_in_order(ranks) / len(ranks)
    return sum_in_order(rank * subscription.weight for rank, subscription in zip(ranks, matched, strict=True))


@st.composite
def cases(draw: st.DrawFn, *, everything: bool = False) -> Case:
    """Random cases: subscribers with unique ids, events in time order with ties, expiry and unique identities.

    Most events have a vector for the relevance functions that look at one. With `everything`, subscriptions may have
    their own policies, and subscribers may be notified in digests or on demand; otherwise all are notified at once.
    """
    anybody = notified_subscribers if everything else subscribers
    policies = policies_with((timedelta(seconds=1), timedelta(seconds=3), timedelta(days=45)), most=6)
    people = draw(st.lists(anybody(deliver=policies), max_size=4, unique_by=lambda subscriber: subscriber.id))
    drawn = draw(st.lists(events(), max_size=20, unique_by=lambda event: event.identity))
    now = datetime(2026, 1, 1, tzinfo=UTC)
    timed: list[Event] = []
    for event in drawn:
        now += draw(st.sampled_from((timedelta(0), timedelta(seconds=1), timedelta(days=30))))
        lifetime = draw(st.none() | st.sampled_from((timedelta(0), timedelta(seconds=2), timedelta(days=40))))
        vector = draw(st.none() | vectors())
        data = event.data if vector is None else {**event.data, VECTOR: vector}
        timed.append(replace(event, time=now, expires=None if lifetime is None else now + lifetime, data=data))
    moments = (timedelta(0), timedelta(seconds=1), timedelta(seconds=4))
    choices = st.sampled_from([event.time + moment for event in timed if event.time for moment in moments] or [now])
    reads = sorted(draw(st.sets(choices, max_size=3))) if everything else ()
    return Case(tuple(people), tuple(timed), tuple(reads))


@st.composite
def advertised_cases(draw: st.DrawFn, *, everything: bool = False, ties: Sequence[Ties] = tuple(Ties)) -> Case:
    """Random cases whose sources advertise what they publish, most with a k; some events ask for fewer."""
    case = draw(cases(everything=everything))
    advertisements, asked = [], {}
    for source in sorted({event.source for event in case.events}):
        ranking = draw(audience_rankings(ties))
        k = draw(st.sampled_from((None, 1, 1, 2, 3)))
        advertisements.append(Advertisement(AdvertisementId(f"of {source}"), source, k=k, ranking=ranking))
        for event in case.events:
            if k is not None and event.source == source and draw(st.booleans()):
                asked[event.identity] = draw(st.integers(0, k))
    return replace(case, advertisements=tuple(advertisements), asked=asked)
