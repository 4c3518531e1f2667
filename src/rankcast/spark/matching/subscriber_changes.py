"""An audience made from the one before: what has changed is compiled, all else is copied or shared.

Subscriptions keep their numbers. Those of subscribers who change are taken out of the index, and what they are from now
on gets the next numbers; lines of the rank table that nothing refers to any more stay behind, some 60 bytes each.
Queues and the names within them are only added to, and so are policies: a queue's own is the one it began with, what it
has later is told by the version's changes.

Cost: an index update for each subscription that changes, and copies of the other arrays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from rankcast.arrays import Array
from rankcast.matching.segments.builder import Entry
from rankcast.model.policies import Policy
from rankcast.model.subscriptions import Subscriber, SubscriberId, SubscriptionId
from rankcast.ranking.batch_table import COSINE, NONE, RankingTable, RankTable
from rankcast.spark.matching.compiled_subscribers import CompiledQueues, CompiledSubscribers, QueueKey, queue_policies


class AudienceCompiler:
    """Makes audiences for `Versions`."""

    def compiled(
        self, before: CompiledSubscribers | None, changed: Mapping[SubscriberId, Sequence[Subscriber]]
    ) -> CompiledSubscribers:
        """Return the audience in which these subscribers are what is given; the one before is used up."""
        members = [member for periods in changed.values() for member in periods]
        if before is not None:
            return changed_audience(before, changed)
        made = CompiledSubscribers.of(members)
        return CompiledSubscribers(made.index, made.ranking, made.position, _with_policies(made.queues, members))

    def loaded(self, folder: Path) -> CompiledSubscribers:
        """Return what was saved, all of it verified: further versions are made from it."""
        return CompiledSubscribers.load(folder, verify=True)

    def policies(self, subscriber: Subscriber) -> Mapping[SubscriptionId | None, Policy]:
        """Return the delivery queues that a subscriber has."""
        return queue_policies(subscriber)


def changed_audience(
    before: CompiledSubscribers, changed: Mapping[SubscriberId, Sequence[Subscriber]]
) -> CompiledSubscribers:
    """Return an audience in which these subscribers are what is given, for each of their periods, or gone.

    Its index is that of the audience before, which must not be used any more.
    """
    members = [member for periods in changed.values() for member in periods]
    queues, queue, position = _with_queues(before.queues, members)
    first = len(before.ranking.table)
    for number in _numbers_of(before, changed):
        if number in before.index:
            before.index.remove(number)
    owned = [one for member in members for one in member.subscriptions]
    for at, one in enumerate(owned, start=first):
        before.index.add(Entry.of(at, one.filter, one.active_from, one.active_until))
    ranking = joined_rankings(before.ranking, RankingTable.of(members, queue))
    positions = np.concatenate([before.position, np.array(position, np.int32)])
    return CompiledSubscribers(before.index, ranking, positions, queues)


def _numbers_of(audience: CompiledSubscribers, subscribers: Mapping[SubscriberId, Sequence[Subscriber]]) -> list[int]:
    """Return the numbers that the subscriptions of some subscribers have, or had."""
    own = [number for number, key in enumerate(audience.queues.keys) if key.subscriber in subscribers]
    found: list[int] = np.flatnonzero(np.isin(audience.ranking.table.queue, own)).tolist()
    return found


def _with_queues(queues: CompiledQueues, members: Sequence[Subscriber]) -> tuple[CompiledQueues, list[int], list[int]]:
    """Return the queues with those of more subscribers, and the queue and the position of each subscription."""
    numbers = {key: number for number, key in enumerate(queues.keys)}
    policies = [queues.policies[number] for number in queues.policy.tolist()]
    texts, starts = queues.name.texts(), queues.name_start.tolist()
    places = [{name: at for at, name in enumerate(texts[start:end])} for start, end in pairwise(starts)]
    queue: list[int] = []
    position: list[int] = []
    for member in members:
        wanted = queue_policies(member)
        for own, policy in wanted.items():
            key = QueueKey(member.id, own)
            if key not in numbers:
                numbers[key] = len(numbers)
                policies.append(policy)
                places.append({})
        for one in member.subscriptions:
            number = numbers[QueueKey(member.id, one.id if one.id in wanted else None)]
            queue.append(number)
            position.append(places[number].setdefault(one.id, len(places[number])))
    made = CompiledQueues.of(list(numbers), policies, [list(own) for own in places])
    return _with_policies(made, members, queues.policies), queue, position


def _with_policies(
    queues: CompiledQueues, members: Sequence[Subscriber], earlier: Sequence[Policy] = ()
) -> CompiledQueues:
    """Return the queues with every policy that they have or may get later: some compare what events contain."""
    wanted = (policy for member in members for policy in queue_policies(member).values())
    return replace(queues, policies=tuple(dict.fromkeys((*queues.policies, *earlier, *wanted))))


def joined_rankings(one: RankingTable, other: RankingTable) -> RankingTable:
    """Return one ranking for the subscriptions of both; those of the second come after those of the first."""
    numbers = tuple(dict.fromkeys((*one.numbers, *other.numbers)))
    vectors = tuple(dict.fromkeys((*one.vectors, *other.vectors)))
    a, b = one.table, other.table
    relevance = np.where(b.relevance == NONE, NONE, b.relevance + len(a.kind))
    table = RankTable(
        queue=_joined(a.queue, b.queue),
        profile=_joined(a.profile, b.profile + len(a.rank_by)),
        rank=_joined(a.rank, b.rank),
        weight=_joined(a.weight, b.weight),
        refresh=_joined(a.refresh, b.refresh),
        relevance=_joined(a.relevance, relevance),
        general_start=_joined(a.general_start, b.general_start + len(a.general)),
        general_end=_joined(a.general_end, b.general_end + len(a.general)),
        general=_joined(a.general, b.general + len(a)),
        rank_by=_joined(a.rank_by, b.rank_by),
        half_life=_joined(a.half_life, b.half_life),
        kind=_joined(a.kind, b.kind),
        reach=_joined(a.reach, b.reach),
        part_start=_joined(a.part_start, b.part_start[1:] + len(a.part_value)),
        part_column=_joined(a.part_column, _columns(other, numbers, vectors)),
        part_value=_joined(a.part_value, b.part_value),
        part_scale=_joined(a.part_scale, b.part_scale),
        part_weight=_joined(a.part_weight, b.part_weight),
    )
    return RankingTable(table, numbers, vectors)


def _joined(one: Array, other: Array) -> Array:
    return np.concatenate([one, other.astype(one.dtype, copy=False)])


def _columns(ranking: RankingTable, numbers: Sequence[str], vectors: Sequence[str]) -> Array:
    """Return which attribute each part of a relevance function looks at, by its number among more attributes."""
    table = ranking.table
    is_cosine = np.repeat(table.kind == COSINE, np.diff(table.part_start))
    of_numbers = np.array([numbers.index(name) for name in ranking.numbers] or [0], np.int32)
    of_vectors = np.array([vectors.index(name) for name in ranking.vectors] or [0], np.int32)
    columns: Array = table.part_column.copy()
    columns[is_cosine] = of_vectors[columns[is_cosine]]
    columns[~is_cosine] = of_numbers[columns[~is_cosine]]
    return columns
