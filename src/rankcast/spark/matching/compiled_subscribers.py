"""The audience: what workers need of one version of the subscribers, as arrays that are saved once and mapped by all.

- An index that matches events, and the table that ranks the matches, by the numbers of subscriptions.
- The delivery queues: key (subscriber, subscription or None), policy, and the names of the subscriptions whose events
  compete in it. Queues are numbered from 0 and keep their numbers for ever: `changed_audience` only adds. So do the
  names within a queue; a matching subscription is told by its position among them, whatever version delivers later.

A subscriber may be there several times, as it is in several periods of time, if its subscriptions say when they are
active and the periods do not overlap.

An audience can be made from the one before: what has changed is compiled, all else is copied or shared. Subscriptions
keep their numbers. Those of subscribers who change are taken out of the index, and what they are from now on gets the
next numbers; lines of the rank table that nothing refers to any more stay behind, some 60 bytes each. A queue's policy
is the one it began with; what it has later is told by the version's changes.

`load` maps the arrays into memory, without reading them; what is loaded stays for the next task of the process. Cost of
`of`: the building of a matching index. Cost of `changed_audience`: an index update for each subscription that changes,
and copies of the other arrays.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rankcast.arrays import Array
from rankcast.containers.container import Container, prefixed, under
from rankcast.containers.expectations import Column, Columns, Range, below, check, check_texts, fail_where
from rankcast.delivery.engine.contents import WantedContent
from rankcast.delivery.stream.event_tables import Ragged
from rankcast.language.lossless import from_plain, to_plain
from rankcast.matching.entries import Entry
from rankcast.matching.index import Index, Reader
from rankcast.model.errors import InvalidMessageError, InvalidValueError, UnknownIdError, shown
from rankcast.model.policies import Notify, Policy
from rankcast.model.subscriptions import Subscriber, SubscriberId, Subscription, SubscriptionId
from rankcast.ranking.batch_table import COSINE, NONE, RANK_COLUMNS, RankingTable, RankTable
from rankcast.storage.index_files import index_from_arrays, index_to_arrays, load_arrays, save_arrays
from rankcast.storage.subscribers.settings import notify_to_document, policy_to_document
from rankcast.storage.text_files import invalid_file

KIND, VERSION = "audience", 4

FILE = "audience.arrays"
"""What an audience is saved as, in its folder."""

KEPT = 4
"""Audiences that a process keeps: the current one, and those of batches that are repeated or end late."""


FEWEST_APART = 16
"""Subscriptions that every event matches and that are kept apart: fewer are not worth it."""


class QueueKey(NamedTuple):
    """Whose queue it is: a subscriber's, or that of one of its subscriptions with a policy of its own."""

    subscriber: SubscriberId
    subscription: SubscriptionId | None = None


@dataclass(frozen=True)
class CompiledQueues:
    """The delivery queues by number; the names within queue i are names[name_start[i]:name_start[i+1]]."""

    subscriber: Ragged
    subscription: Ragged
    """Empty for a queue of all of a subscriber's subscriptions."""
    policy: Array
    policies: tuple[Policy, ...]
    """The different policies, by the numbers in `policy`."""
    handover: Array
    handovers: tuple[Notify, ...]
    """The different ways to be notified, by the numbers in `handover`."""
    name_start: Array
    name: Ragged

    def __len__(self) -> int:
        return len(self.policy)

    def with_queues_of(self, subscribers: Iterable[Subscriber]) -> tuple[CompiledQueues, Array, Array]:
        """Return these queues with those of more subscribers, and the queue and the position of each subscription.

        The policies are all that the queues have or may get later: some compare what events contain.
        """
        keys = {key: number for number, key in enumerate(self.keys)}
        known = {policy: number for number, policy in enumerate(self.policies)}
        ways = {way: number for number, way in enumerate(self.handovers)}
        policy, handover = self.policy.tolist(), self.handover.tolist()
        texts, starts = self.name.texts(), self.name_start.tolist()
        names = [{name: at for at, name in enumerate(texts[start:end])} for start, end in pairwise(starts)]
        queue: list[int] = []
        position: list[int] = []
        for subscriber in subscribers:
            policies, way = subscriber.policies, ways.setdefault(subscriber.handover, len(ways))
            for own, wanted in policies.items():
                known.setdefault(wanted, len(known))
                if keys.setdefault(QueueKey(subscriber.id, own), len(keys)) == len(names):
                    policy.append(known[wanted])
                    handover.append(way)
                    names.append({})
            for subscription in subscriber.subscriptions:
                number = keys[QueueKey(subscriber.id, subscription.id if subscription.id in policies else None)]
                queue.append(number)
                position.append(names[number].setdefault(subscription.id, len(names[number])))
        made = CompiledQueues(
            Ragged.of_texts(key.subscriber for key in keys),
            Ragged.of_texts(key.subscription or "" for key in keys),
            np.array(policy, np.int32),
            tuple(known),
            np.array(handover, np.int32),
            tuple(ways),
            np.cumsum([0, *map(len, names)], dtype=np.int64),
            Ragged.of_texts(name for own in names for name in own),
        )
        return made, np.array(queue, np.int64), np.array(position, np.int32)

    def policies_of(self, shard: int, shards: int) -> list[Policy]:
        """Return the policies of the queues of a shard: those whose number is `shard` modulo `shards`, in order."""
        return [self.policies[number] for number in self.policy[shard::shards].tolist()]

    def handovers_of(self, shard: int, shards: int) -> list[Notify]:
        """Return how the queues of a shard are handed over, in order."""
        return [self.handovers[number] for number in self.handover[shard::shards].tolist()]

    def policy_of(self, queue: int) -> Policy:
        """Return the policy of a queue."""
        return self.policies[int(self.policy[queue])]

    @cached_property
    def keys(self) -> list[QueueKey]:
        """The keys by number."""
        pairs = zip(self.subscriber.texts(), self.subscription.texts(), strict=True)
        return [QueueKey(SubscriberId(owner), SubscriptionId(own) if own else None) for owner, own in pairs]

    @cached_property
    def subscriber_texts(self) -> Any:
        """The subscribers by queue, for Arrow."""
        return self.subscriber.to_arrow()

    @cached_property
    def subscription_texts(self) -> Any:
        """The subscriptions by queue, null for a queue of all of a subscriber's."""
        is_empty = pa.array(np.diff(self.subscription.starts) == 0)
        return pc.if_else(is_empty, pa.scalar(None, pa.string()), self.subscription.to_arrow())

    @cached_property
    def name_texts(self) -> Any:
        """The names of all queues, for Arrow."""
        return self.name.to_arrow()

    def names_of(self, queue: int) -> list[str]:
        """Return the names of the subscriptions of a queue."""
        own = self.name.taken(np.arange(self.name_start[queue], self.name_start[queue + 1]))
        return own.texts()

    @property
    def fingerprint(self) -> int:
        """A number below 0 that other queues (keys, order, policies, ways, names) do not have: 62 bits of a digest."""
        policies = [policy_to_document(self.policy_of(queue)) for queue in range(len(self))]
        ways = [notify_to_document(way) for way in self.handovers_of(0, 1)]
        digest = hashlib.sha256(json.dumps([policies, ways]).encode())
        for texts in (self.subscriber, self.subscription, self.name):
            digest.update(texts.starts.tobytes())
            digest.update(texts.values.tobytes())
        digest.update(self.name_start.tobytes())
        return -1 - (int.from_bytes(digest.digest()[:8], "little") >> 2)

    @cached_property
    def wanted_content(self) -> WantedContent:
        """What policies compare of events."""
        return WantedContent.of(self.policies)


_NO_QUEUES = CompiledQueues(
    Ragged.of_texts(()),
    Ragged.of_texts(()),
    np.zeros(0, np.int32),
    (),
    np.zeros(0, np.int32),
    (),
    np.zeros(1, np.int64),
    Ragged.of_texts(()),
)


@dataclass(eq=False)
class CompiledSubscribers:
    """One version of the subscribers; see the module."""

    index: Index
    ranking: RankingTable
    position: Array
    """By subscription number: the position of its name within its queue."""
    queues: CompiledQueues
    needs_hub: str | None = None
    """Why these subscribers can be matched but not notified by a pipeline, if that is so."""
    apart: Array = field(default_factory=lambda: np.zeros(0, np.int64))
    """Subscriptions that every event matches, which are not in the index; see `takes_everything`."""

    @cached_property
    def reader(self) -> Reader:
        """What finds the subscriptions that events match."""
        return self.index.reader()

    @staticmethod
    def of(subscribers: Iterable[Subscriber], *, apart: bool = False) -> CompiledSubscribers:
        """Return the audience of some subscribers; raise PriorityCycleError for contradictory priorities.

        With `apart`, subscriptions that every event matches are kept out of the index, if they are many.
        """
        subscribers = list(subscribers)
        queues, queue, position = _NO_QUEUES.with_queues_of(subscribers)
        kept_out = _apart(subscribers, queue) if apart else np.zeros(0, np.int64)
        left_out = set(kept_out.tolist())
        entries = [entry for entry in _entries(subscribers) if entry.number not in left_out]
        ranking = RankingTable.of(subscribers, queue.tolist())
        unfit = next(filter(None, map(needs_hub, subscribers)), None)
        return CompiledSubscribers(Index(entries), ranking, position, queues, unfit, kept_out)

    @property
    def subscribers(self) -> int:
        """How many subscribers have a queue."""
        return int((np.diff(self.queues.subscription.starts) == 0).sum())

    def __len__(self) -> int:
        return len(self.index) + len(self.apart)

    def with_apart(self, offsets: Array, numbers: Array) -> tuple[Array, Array]:
        """Return what the index finds of a batch of events with what every one of them matches."""
        if not len(self.apart):
            return offsets, numbers
        ends = offsets + np.arange(len(offsets)) * len(self.apart)
        joined = np.empty(int(ends[-1]), np.int64)
        is_apart = np.zeros(len(joined), bool)
        is_apart[(ends[1:, None] - len(self.apart) + np.arange(len(self.apart))).ravel()] = True
        joined[is_apart], joined[~is_apart] = np.tile(self.apart, len(offsets) - 1), numbers
        return ends, joined

    def table_apart(self, shard: int, shards: int) -> RankTable:
        """Return the ranks of what is apart in a shard, by the numbers that queues have there."""
        if (shard, shards) not in self._tables:
            table = self.ranking.table
            own = self.apart[table.queue[self.apart] % shards == shard]
            chosen = table.chosen(own)
            self._tables[shard, shards] = replace(chosen, queue=chosen.queue // shards)
        return self._tables[shard, shards]

    @cached_property
    def _tables(self) -> dict[tuple[int, int], RankTable]:
        return {}

    @cached_property
    def _numbers(self) -> dict[QueueKey, int]:
        return {key: number for number, key in enumerate(self.queues.keys)}

    def queue_number(self, key: tuple[SubscriberId, SubscriptionId | None]) -> int:
        """Return the number of a queue."""
        found = self._numbers.get(QueueKey(*key))
        if found is None:
            raise UnknownIdError(f"there is no queue {shown(tuple(key))}")
        return found

    def decays(self, queue: Array) -> Array:
        """Return which queues order events by a decayed rank, at any time."""
        found: Array = self._decaying[queue]
        return found

    @cached_property
    def _decaying(self) -> Array:
        table = self.ranking.table
        found = np.zeros(len(self.queues), bool)
        decaying: Array = np.flatnonzero(np.add.reduce(table.half_life, axis=1))
        found[table.queue[np.isin(table.profile, decaying)]] = True
        return found

    @cached_property
    def people(self) -> tuple[Array, Array]:
        """The subscriber of each queue, and the first queue of each subscriber; the numbers are in the order of ids."""
        texts = np.array(self.queues.subscriber.to_arrow(text=False).to_pylist(), object)
        _, first, owner = np.unique(texts, return_index=True, return_inverse=True)
        return owner.astype(np.int64), first.astype(np.int64)

    def save(self, folder: Path) -> None:
        """Write everything to a file in a folder."""
        queues = self.queues
        arrays: dict[str, Array] = {
            "position": self.position,
            "policy": queues.policy,
            "handover": queues.handover,
            "name_start": queues.name_start,
            "apart": self.apart,
            **queues.subscriber.to_arrays("subscriber"),
            **queues.subscription.to_arrays("subscription"),
            **queues.name.to_arrays("name"),
            **prefixed("ranks.", self.ranking.table.to_arrays()),
        }
        segments, about = index_to_arrays(self.index.snapshot)
        metadata = {
            **about,
            "numbers": self.ranking.numbers,
            "vectors": self.ranking.vectors,
            "policies": [to_plain(policy, Policy) for policy in queues.policies],
            "handovers": [to_plain(way, Notify) for way in queues.handovers],
            "needs_hub": self.needs_hub,
            "mark": secrets.token_hex(16),
        }
        save_arrays(folder / FILE, KIND, VERSION, arrays | segments, metadata)

    @staticmethod
    def load(folder: Path, *, verify: bool = False) -> CompiledSubscribers:
        """Map a saved audience; raise InvalidFileError for what is missing, of another kind or contradicts itself.

        `verify` reads all of it and refuses what is damaged.
        """
        saved = load_arrays(folder / FILE, KIND, VERSION, verify=verify)
        try:
            return _from_arrays(saved)
        except (InvalidValueError, InvalidMessageError) as error:
            raise invalid_file(str(folder / FILE), None, str(error)) from None


class _About(msgspec.Struct):
    numbers: tuple[str, ...]
    vectors: tuple[str, ...]
    policies: list[Any]
    handovers: list[Any]
    needs_hub: str | None


COLUMNS: Columns = {
    "position": Column(np.int32, "subscriptions", Range()),
    "policy": Column(np.int32, "queues", below("policies")),
    "handover": Column(np.int32, "queues", below("handovers")),
    "name_start": Column(np.int64, "queues", starts="names"),
    "apart": Column(np.int64, "apart", below("subscriptions"), ascends=True),
    "subscriber.starts": Column(np.int64, "queues", starts="bytes of subscribers"),
    "subscriber": Column(np.uint8, "bytes of subscribers"),
    "subscription.starts": Column(np.int64, "queues", starts="bytes of subscriptions"),
    "subscription": Column(np.uint8, "bytes of subscriptions"),
    "name.starts": Column(np.int64, "names", starts="bytes of names"),
    "name": Column(np.uint8, "bytes of names"),
}
"""What is expected of the arrays that neither the index nor the rank table brings along."""


def _from_arrays(saved: Container) -> CompiledSubscribers:
    arrays, about = saved.arrays, saved.about(_About)
    policies = tuple(from_plain(plain, Policy, "policy") for plain in about.policies)
    handovers = tuple(from_plain(plain, Notify, "notify") for plain in about.handovers)
    sizes = check(KIND, arrays, COLUMNS, {"policies": len(policies), "handovers": len(handovers)})
    texts = {name: Ragged.from_arrays(name, arrays) for name in ("subscriber", "subscription", "name")}
    for name, column in texts.items():
        check_texts(f"{KIND}: array {name}", column.starts, column.values)
    queues = CompiledQueues(
        policy=arrays["policy"],
        policies=policies,
        handover=arrays["handover"],
        handovers=handovers,
        name_start=arrays["name_start"],
        **texts,
    )
    table = RankTable.from_arrays(
        under("ranks.", arrays), queues=len(queues), numbers=len(about.numbers), vectors=len(about.vectors)
    )
    if len(table) != sizes["subscriptions"]:
        raise InvalidValueError(f"{KIND}: array position: not as many elements as the rank table has subscriptions")
    index = index_from_arrays(saved)
    _check_numbers(index, len(table))
    names = np.diff(queues.name_start)[table.queue]
    fail_where(arrays["position"] >= names, f"{KIND}: array position: no name of its queue")
    fail_where(table.relevance[arrays["apart"]] == NONE, f"{KIND}: array apart: without a relevance function")
    return CompiledSubscribers(
        index,
        RankingTable(table, about.numbers, about.vectors),
        arrays["position"],
        queues,
        about.needs_hub,
        arrays["apart"],
    )


def _check_numbers(index: Index, subscriptions: int) -> None:
    """Raise when the index has a subscription that the rank table has not."""
    for part in index.snapshot.parts:
        lowest, highest = part.ends
        if lowest < 0 or highest >= subscriptions:
            raise InvalidValueError(f"{KIND}: subscription {highest} in the index; there are {subscriptions:,}")


_kept: dict[tuple[str, int], CompiledSubscribers] = {}


def loaded(folder: Path) -> CompiledSubscribers:
    """Return the audience in a folder that never changes, from memory if this process has used it before."""
    file = folder / FILE
    key = (str(folder), file.stat().st_ino if file.exists() else 0)
    found = _kept.pop(key, None) or CompiledSubscribers.load(folder)
    _kept[key] = found
    while len(_kept) > KEPT:
        del _kept[next(iter(_kept))]
    return found


def needs_hub(subscriber: Subscriber) -> str | None:
    """Return why a subscriber cannot be notified by a pipeline; None when it can."""
    if any(policy.at_most for policy in subscriber.policies.values()) or subscriber.muted_until is not None:
        what = "muted_until" if subscriber.muted_until is not None else "at_most"
        return f"subscriber {shown(subscriber.id)}: {what} needs a hub; on Spark everything delivered is put out"
    return None


def takes_everything(subscriber: Subscriber, own: Subscription) -> bool:
    """Whether a subscription is matched by every event and only ranks it, so that its rows need not be written down.

    It accepts everything at all times and has a relevance function, and its scores do not decay; it also has to be the
    only one of its queue.
    """
    is_always = own.active_from is None and own.active_until is None
    return is_always and own.relevance is not None and subscriber.decay is None and own.filter.accepts_everything


def _entries(subscribers: Iterable[Subscriber], first: int = 0) -> Iterator[Entry]:
    """Return what the index has of the subscriptions of some subscribers, numbered one by one."""
    owned = (subscription for subscriber in subscribers for subscription in subscriber.subscriptions)
    for number, subscription in enumerate(owned, start=first):
        yield Entry.of(number, subscription.filter, subscription.active_from, subscription.active_until)


def _apart(subscribers: Iterable[Subscriber], queue: Array) -> Array:
    """Return the subscriptions that every event matches, each the only one of its queue; none if they are few."""
    owned = ((subscriber, own) for subscriber in subscribers for own in subscriber.subscriptions)
    is_alone = (np.bincount(queue)[queue] == 1).tolist() if len(queue) else []
    pairs = enumerate(zip(owned, is_alone, strict=True))
    found = [number for number, (pair, alone) in pairs if alone and takes_everything(*pair)]
    return np.array(found if len(found) >= FEWEST_APART else [], np.int64)


def changed_audience(
    before: CompiledSubscribers | None, changed: Mapping[SubscriberId, Sequence[Subscriber]]
) -> CompiledSubscribers:
    """Return an audience in which these subscribers are what is given, for each of their periods, or gone.

    Its index is that of the audience before, which must not be used any more. Nothing is kept apart.
    """
    members = [member for periods in changed.values() for member in periods]
    if before is None:
        return CompiledSubscribers.of(members)
    queues, queue, position = before.queues.with_queues_of(members)
    left = [number for number, key in enumerate(before.queues.keys) if key.subscriber in changed]
    for number in np.flatnonzero(np.isin(before.ranking.table.queue, left)).tolist():
        if number in before.index:
            before.index.remove(number)
    for entry in _entries(members, first=len(before.ranking.table)):
        before.index.add(entry)
    ranking = joined_rankings(before.ranking, RankingTable.of(members, queue.tolist()))
    return CompiledSubscribers(before.index, ranking, np.concatenate([before.position, position]), queues)


def joined_rankings(first: RankingTable, other: RankingTable) -> RankingTable:
    """Return one ranking for the subscriptions of both; those of the second come after those of the first.

    What one table numbers by itself, as RANK_COLUMNS tells, the other one goes on numbering; queues are those of both.
    """
    numbers = tuple(dict.fromkeys((*first.numbers, *other.numbers)))
    vectors = tuple(dict.fromkeys((*first.vectors, *other.vectors)))
    arrays, more = first.table.to_arrays(), other.table.to_arrays()
    more["part_column"] = _columns(other, numbers, vectors)
    sizes: dict[object, int] = {
        "subscriptions": len(first.table),
        "ends of general ones": len(arrays["general"]),
        "profiles": len(arrays["rank_by"]),
        "functions": len(arrays["kind"]),
        "parts": len(arrays["part_value"]),
    }
    for name, column in RANK_COLUMNS.items():
        found = more[name][1:] if column.starts else more[name]
        if (size := sizes.get(column.starts or (column.values and column.values.high))) is not None:
            found = np.where(found == NONE, NONE, found + size)
        arrays[name] = np.concatenate([arrays[name], found.astype(arrays[name].dtype, copy=False)])
    return RankingTable(RankTable(**arrays), numbers, vectors)


def _columns(ranking: RankingTable, numbers: Sequence[str], vectors: Sequence[str]) -> Array:
    """Return which attribute each part of a relevance function looks at, by its number among more attributes."""
    table = ranking.table
    is_cosine = np.repeat(table.kind == COSINE, np.diff(table.part_start))
    columns: Array = table.part_column.copy()
    for chosen, own, among in ((is_cosine, ranking.vectors, vectors), (~is_cosine, ranking.numbers, numbers)):
        columns[chosen] = np.array([among.index(name) for name in own] or [0], np.int32)[columns[chosen]]
    return columns
