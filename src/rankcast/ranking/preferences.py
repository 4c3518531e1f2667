"""Preference ranks, stated or derived from priorities, and the rank of an event for a subscriber.

Quantitative preferences are ranks in [0, 1] on subscriptions. Qualitative ones are conditions "a before b": by
multi-level winnow, the subscriptions that nothing remaining is before form the next level, and level l gets rank 1/l.
Subscriptions named in no condition are on level 1. Conditions in a cycle are an error that names the cycle.

The rank of an event is F(ranks of the matching subscriptions), with F max, min, mean or weighted sum; optionally over
the most specific ones only: a matching subscription that strictly covers another matching one is left out first. F is
computed in the order of the subscriber's subscriptions, so that equal inputs give bit-equal ranks on every path.

Paper: Preference-aware publish/subscribe delivery with diversity (PrefSIENA), its event ranks and winnow levels.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from rankcast.covering.relation import Relation, relation
from rankcast.model.errors import PriorityCycleError
from rankcast.model.subscriptions import Priority, RankBy, Subscriber, SubscriptionId


def preference_ranks(subscriber: Subscriber) -> dict[SubscriptionId, float]:
    """Return the preference rank of each subscription; raise PriorityCycleError for contradictory priorities."""
    if not subscriber.priorities:
        return {
            subscription.id: 1.0 if subscription.rank is None else float(subscription.rank)
            for subscription in subscriber.subscriptions
        }
    levels = winnow([subscription.id for subscription in subscriber.subscriptions], subscriber.priorities)
    return {name: 1 / (level + 1) for level, names in enumerate(levels) for name in names}


def winnow(names: Collection[SubscriptionId], priorities: Collection[Priority]) -> list[list[SubscriptionId]]:
    """Return the levels of preference, best first.

    >>> winnow(["a", "b", "c"], [Priority("a", "b")])
    [['a', 'c'], ['b']]
    """
    before: dict[SubscriptionId, set[SubscriptionId]] = {name: set() for name in names}
    for priority in priorities:
        before[priority.then].add(priority.first)
    levels: list[list[SubscriptionId]] = []
    while before:
        best = [name for name, better in before.items() if not better]
        if not best:
            raise PriorityCycleError(_cycle(before))
        levels.append(best)
        for name in best:
            del before[name]
        for better in before.values():
            better.difference_update(best)
    return levels


def _cycle(before: Mapping[SubscriptionId, set[SubscriptionId]]) -> tuple[SubscriptionId, ...]:
    """Return a cycle, starting at its smallest id. All that is left has another before it, so going back repeats."""
    path = [min(before)]
    while True:
        previous = min(before[path[-1]])
        if previous in path:
            cycle = path[path.index(previous) :][::-1]
            start = cycle.index(min(cycle))
            return (*cycle[start:], *cycle[:start])
        path.append(previous)


@dataclass(frozen=True, slots=True)
class Preferences:
    """What ranking an event for one subscriber needs, worked out once.

    `more_general` names, for each subscription, the others that strictly cover it (only where `most_specific` asks).
    """

    ranks: Mapping[SubscriptionId, float]
    weights: Mapping[SubscriptionId, float]
    rank_by: RankBy
    more_general: Mapping[SubscriptionId, frozenset[SubscriptionId]]

    @staticmethod
    def of(subscriber: Subscriber) -> Preferences:
        """Work out the preferences of a subscriber; raise PriorityCycleError for contradictory priorities."""
        return Preferences(
            preference_ranks(subscriber),
            {subscription.id: float(subscription.weight) for subscription in subscriber.subscriptions},
            subscriber.rank_by,
            _more_general(subscriber) if subscriber.most_specific else {},
        )

    def counted(self, matched: Collection[SubscriptionId]) -> list[SubscriptionId]:
        """Return the matching subscriptions whose ranks count, in the subscriber's order."""
        general = frozenset[SubscriptionId]().union(*(self.more_general.get(name, frozenset()) for name in matched))
        return [name for name in self.ranks if name in matched and name not in general]

    def event_rank(self, matched: Collection[SubscriptionId]) -> float:
        """Return the rank of an event that satisfies the given subscriptions (at least one).

        >>> from rankcast.model.expressions import Constant
        >>> from rankcast.model.filters import Filter
        >>> from rankcast.model.subscriptions import Subscription
        >>> everything = Filter.of(Constant(True))
        >>> ana = Subscriber("ana", (Subscription("a", everything, 0.9), Subscription("b", everything, 0.6)))
        >>> Preferences.of(ana).event_rank(["a", "b"])
        0.9
        """
        counted = self.counted(set(matched))
        ranks = [self.ranks[name] for name in counted]
        match self.rank_by:
            case RankBy.MAX:
                return max(ranks)
            case RankBy.MIN:
                return min(ranks)
            case RankBy.MEAN:
                return sum(ranks) / len(ranks)
        return sum(rank * self.weights[name] for name, rank in zip(counted, ranks, strict=True))


def _more_general(subscriber: Subscriber) -> dict[SubscriptionId, frozenset[SubscriptionId]]:
    return {
        narrow.id: frozenset(
            wide.id
            for wide in subscriber.subscriptions
            if wide is not narrow and relation(wide.filter, narrow.filter) is Relation.COVERS
        )
        for narrow in subscriber.subscriptions
    }
