"""Preference ranks, stated or derived from priorities, and the rank of an event for a subscriber.

Quantitative preferences are ranks in [0, 1] on subscriptions. Qualitative ones are conditions "a before b": by
multi-level winnow, the subscriptions that nothing remaining is before form the next level, and level l gets rank 1/l.
Subscriptions named in no condition are on level 1. Conditions in a cycle are an error that names the cycle.

A subscription with a relevance function ranks each event by its preference rank times the event's relevance, which is
the relevance alone where no rank is stated. An event that has no relevance is none of its matches.

The rank of an event is F(ranks of the matching subscriptions), with F max, min, mean or weighted sum; optionally over
the most specific ones only: a matching subscription that strictly covers another matching one is left out first. F is
computed in the order of the subscriber's subscriptions, so that equal inputs give bit-equal ranks on every path.
Queues order events by their `score`: the rank, or what forward decay makes of it.

Paper: Preference-aware publish/subscribe delivery with diversity (PrefSIENA), its event ranks and winnow levels.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

from msgspec import Struct

from rankcast.covering.specificity import Specificity
from rankcast.model.errors import PriorityCycleError
from rankcast.model.events import Event
from rankcast.model.policies import passes_equals
from rankcast.model.relevance import Decay, Relevance
from rankcast.model.subscriptions import Priority, RankBy, Subscriber, SubscriptionId
from rankcast.model.times import LATEST
from rankcast.ranking.relevance import decayed, relevance_of


def preference_ranks(subscriber: Subscriber) -> dict[SubscriptionId, float]:
    """Return the preference rank of each subscription; raise PriorityCycleError for contradictory priorities."""
    if not subscriber.priorities:
        return {
            subscription.id: 1.0 if subscription.rank is None else float(subscription.rank)
            for subscription in subscriber.subscriptions
        }
    levels = winnow([subscription.id for subscription in subscriber.subscriptions], subscriber.priorities)
    ranks = {name: 1 / (level + 1) for level, names in enumerate(levels) for name in names}
    return {subscription.id: ranks[subscription.id] for subscription in subscriber.subscriptions}  # in their order


AGAINST_TIES = "what helps is ties: keep, ranks that differ, or a relevance"


def queues_without_order(subscriber: Subscriber) -> list[SubscriptionId | None]:
    """Return the queues, by the names of their policies, that let all their matches pass, as these have the same rank.

    >>> from rankcast.language.parser import parse_filter
    >>> from rankcast.model.policies import Sliding
    >>> from rankcast.model.subscriptions import Subscription
    >>> wanted = Subscription("large", parse_filter("rooms > 2")), Subscription("cheap", parse_filter("rent < 500"))
    >>> [queues_without_order(Subscriber("ana", wanted, Sliding(3, 100, ties=ties))) for ties in ("newer", "keep")]
    [[None], []]
    """
    found: list[SubscriptionId | None] = []
    ranks = preference_ranks(subscriber)
    for name, policy in subscriber.policies.items():
        competing = [held for held in subscriber.subscriptions if name == (None if held.deliver is None else held.id)]
        is_plain = subscriber.decay is None and all(held.relevance is None for held in competing)
        if passes_equals(policy) and is_plain and _give_one_rank([ranks[held.id] for held in competing], subscriber):
            found.append(name)
    return found


def _give_one_rank(ranks: Sequence[float], subscriber: Subscriber) -> bool:
    """Whether an event has the same rank whichever of some subscriptions it matches."""
    if len(set(ranks)) != 1 or subscriber.rank_by is RankBy.WEIGHTED_SUM:
        return len(ranks) == 1
    numbers = range(1, len(ranks) + 1) if subscriber.rank_by is RankBy.MEAN else ()
    return all(sum_in_order(ranks[:number]) / number == ranks[0] for number in numbers)


def winnow(names: Collection[SubscriptionId], priorities: Collection[Priority]) -> list[list[SubscriptionId]]:
    """Return the levels of preference, best first.

    >>> winnow(["a", "b", "c"], [Priority("a", "b")])
    [['a', 'c'], ['b']]
    """
    before: dict[SubscriptionId, set[SubscriptionId]] = {name: set() for name in names}
    for priority in priorities:
        before[priority.then].add(priority.first)
    place = {name: at for at, name in enumerate(before)}
    sorter = TopologicalSorter(before)
    with suppress(CycleError):  # what is in no cycle and behind none is sorted all the same
        sorter.prepare()
    levels: list[list[SubscriptionId]] = []
    while best := sorter.get_ready():
        levels.append(sorted(best, key=place.__getitem__))
        sorter.done(*best)
    left = place.keys() - {name for level in levels for name in level}
    if left:
        raise PriorityCycleError(_cycle({name: before[name] & left for name in left}))
    return levels


def _cycle(before: Mapping[SubscriptionId, set[SubscriptionId]]) -> tuple[SubscriptionId, ...]:
    """Return a cycle, starting at its smallest id. All that is left has another before it, so going back repeats."""
    path: dict[SubscriptionId, int] = {}
    name = min(before)
    while name not in path:
        path[name] = len(path)
        name = min(before[name])
    cycle = list(path)[path[name] :][::-1]
    start = cycle.index(min(cycle))
    return (*cycle[start:], *cycle[:start])


class Ranked(NamedTuple):
    """The rank of an event for a subscriber, and the subscriptions that rank it."""

    rank: float
    matched: tuple[SubscriptionId, ...]


class Preferences(Struct, frozen=True, gc=False):
    """What ranking an event for one subscriber needs, worked out once.

    `specificity` tells which subscriptions strictly cover others (only where `most_specific` asks); `relevances`
    and `refreshes` have the subscriptions that state one.
    """

    ranks: Mapping[SubscriptionId, float]
    weights: Mapping[SubscriptionId, float]
    rank_by: RankBy
    specificity: Specificity[SubscriptionId] | None
    relevances: Mapping[SubscriptionId, Relevance]
    refreshes: Mapping[SubscriptionId, timedelta]
    decay: Decay | None

    @staticmethod
    def of(subscriber: Subscriber) -> Preferences:
        """Work out the preferences of a subscriber; raise PriorityCycleError for contradictory priorities."""
        owned = subscriber.subscriptions
        return Preferences(
            preference_ranks(subscriber),
            {subscription.id: float(subscription.weight) for subscription in owned},
            subscriber.rank_by,
            Specificity({subscription.id: subscription.filter for subscription in owned})
            if subscriber.most_specific
            else None,
            {subscription.id: subscription.relevance for subscription in owned if subscription.relevance is not None},
            {subscription.id: subscription.refresh for subscription in owned if subscription.refresh is not None},
            subscriber.decay,
        )

    def counted(self, matched: Collection[SubscriptionId]) -> list[SubscriptionId]:
        """Return the matching subscriptions whose ranks count, in the subscriber's order."""
        counted = set(matched)
        if self.specificity is not None:
            counted -= self.specificity.general_among(counted)
        return [name for name in self.ranks if name in counted]

    def event_rank(self, matched: Collection[SubscriptionId]) -> float:
        """Return the rank of an event that satisfies the given subscriptions (at least one), by their ranks alone.

        >>> from rankcast.model.expressions import Constant
        >>> from rankcast.model.filters import Filter
        >>> from rankcast.model.subscriptions import Subscription
        >>> everything = Filter.of(Constant(True))
        >>> ana = Subscriber("ana", (Subscription("a", everything, 0.9), Subscription("b", everything, 0.6)))
        >>> Preferences.of(ana).event_rank(["a", "b"])
        0.9
        """
        return self._combined({name: self.ranks[name] for name in matched})

    def ranked(self, event: Event, matched: Collection[SubscriptionId]) -> Ranked | None:
        """Return the rank of an event whose filters the given subscriptions have; None when it is relevant to none."""
        ranks: dict[SubscriptionId, float] = {}
        for name in matched:
            wanted = self.relevances.get(name)
            relevance = 1.0 if wanted is None else relevance_of(event, wanted)
            if relevance is not None:
                ranks[name] = self.ranks[name] * relevance
        return Ranked(self._combined(ranks), tuple(ranks)) if ranks else None

    def score(self, rank: float, time: datetime) -> float:
        """Return what orders events in a queue, for one of this rank and time."""
        return rank if self.decay is None else decayed(rank, time, self.decay)

    def expires(self, matched: Collection[SubscriptionId], time: datetime, stated: datetime | None) -> datetime | None:
        """Return when an event expires: as it states itself or when it needs a refresh, whichever is sooner.

        Of several matching subscriptions the largest refresh time counts; one without any never needs a refresh.
        """
        refreshes = [refresh for name in matched if (refresh := self.refreshes.get(name)) is not None]
        return expiry(time, stated, max(refreshes) if refreshes and len(refreshes) == len(matched) else None)

    def _combined(self, ranks: Mapping[SubscriptionId, float]) -> float:
        counted = self.counted(ranks)
        combined = [ranks[name] for name in counted]
        match self.rank_by:
            case RankBy.MAX:
                return max(combined)
            case RankBy.MIN:
                return min(combined)
            case RankBy.MEAN:
                return sum_in_order(combined) / len(combined)
        return sum_in_order(rank * self.weights[name] for name, rank in zip(counted, combined, strict=True))


def expiry(time: datetime, stated: datetime | None, refresh: timedelta | None) -> datetime | None:
    """Return when an event expires: as it states itself, or so long after its time as the refresh says, if at all."""
    if refresh is None or refresh >= LATEST - time:  # nothing outlives the end of time
        return stated
    return time + refresh if stated is None else min(time + refresh, stated)


def sum_in_order(numbers: Iterable[float]) -> float:
    """Add up from left to right, each sum rounded: `sum` rounds otherwise from Python 3.12 on."""
    total = 0.0
    for number in numbers:
        total += number
    return total
