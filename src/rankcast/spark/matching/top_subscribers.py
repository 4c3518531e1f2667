"""Producer-centric selection: of those who want an event, only the k best get it.

    relevance   the best ranks; among equal ones the smaller subscriber id
    fairness    everyone who wants the event is as likely to get it as any other
    both        the best ranks; among equal ones everyone is as likely as any other

Chance is a hash of (seed, event, subscriber): another seed draws otherwise, the same seed draws the same, whatever the
partitions, batches and repetitions. A subscriber with several queues is one subscriber, with the best of its ranks.

`top_subscribers` selects from matches as a stage of its own, `TopSubscribers` is what a pipeline is told to do within
its match stage; both select the same. Paper: top-k subscription filtering, its relevance and fairness semantics.

Draws that are fair and repeatable: a hash of (seed, event, subscriber), the same as Spark's `xxhash64` of the four.

Among the matches of an event every order of subscribers is as likely as any other, over events and seeds; yet it
depends on nothing else, so it is the same in every partition, batch and repetition. The algorithm is XXH64 by Yann
Collet, chained as Spark chains columns: the hash of one value is the seed of the next.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 (the name that all of Spark's documentation has)

from rankcast.arrays import Array
from rankcast.compiling import compiled, inlined
from rankcast.delivery.stream.event_tables import EventTable, Ragged
from rankcast.model.errors import InvalidEventError, InvalidSubscriptionError, shown
from rankcast.model.policies import check_count
from rankcast.ranking.batch import RankedRows
from rankcast.spark.matching.compiled_subscribers import CompiledSubscribers

By: TypeAlias = Literal["relevance", "fairness", "both"]
_BY = ("relevance", "fairness", "both")


@dataclass(frozen=True, slots=True)
class TopSubscribers:
    """The k best subscribers of each event; an event may ask for fewer in its column `k_column`."""

    k: int | None = None
    by: By = "both"
    seed: int = 0
    k_column: str | None = None

    def __post_init__(self) -> None:
        if self.k is None and self.k_column is None:
            raise InvalidSubscriptionError("top subscribers: expected k, the column that has it, or both")
        if self.k is not None:
            check_count("k", self.k, at_least=0)
        if self.by not in _BY:
            raise InvalidSubscriptionError(f"by: {shown(self.by)} is not one of {', '.join(_BY)}")
        if not -(2**63) <= self.seed < 2**63:
            raise InvalidSubscriptionError(f"seed: {self.seed} does not fit a 64-bit integer")

    def limits(self, own: Array | None, events: int) -> Array:
        """Return how many subscribers each event reaches, given what it asks for (below 0: nothing)."""
        most = np.iinfo(np.int64).max if self.k is None else self.k
        limits = np.full(events, most, np.int64)
        return limits if own is None else np.where(own < 0, limits, np.minimum(limits, own))

    def selected(
        self, events: EventTable, rows: RankedRows, audience: CompiledSubscribers, limits: Array
    ) -> RankedRows:
        """Return the rows of each event's best subscribers."""
        if not len(rows.event):
            return rows
        owner, first_queue = audience.people
        subscriber = owner[rows.queue]
        order = np.lexsort((subscriber, rows.event))
        event, person = rows.event[order], subscriber[order]
        is_first = np.ones(len(order), bool)
        is_first[1:] = (event[1:] != event[:-1]) | (person[1:] != person[:-1])
        first = np.flatnonzero(is_first)
        event, person = event[first], person[first]
        keys: list[Array] = [person]
        if self.by != "relevance":
            subscribers = audience.queues.subscriber
            keys.append(draws(self.seed, events.source, events.id, subscribers, event, first_queue[person]))
        if self.by != "fairness":
            keys.append(-np.maximum.reduceat(rows.rank[order], first))
        best = np.lexsort((*keys, event))
        start = np.searchsorted(event, event[best])  # groups come by event
        chosen = np.zeros(len(first), bool)
        chosen[best[np.arange(len(best)) - start < limits[event[best]]]] = True
        kept = np.zeros(len(order), bool)
        kept[order] = chosen[np.cumsum(is_first) - 1]
        return _taken(rows, np.flatnonzero(kept))


def _taken(rows: RankedRows, kept: Array) -> RankedRows:
    sizes = np.diff(rows.matched_start)[kept]
    starts = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
    matched = rows.matched[np.arange(starts[-1]) + np.repeat(rows.matched_start[kept] - starts[:-1], sizes)]
    event, queue, rank, score, expires = (column[kept] for column in rows[:5])
    return RankedRows(event, queue, rank, score, expires, starts, matched)


def top_subscribers(
    matches: DataFrame, k: int | None = None, by: By = "both", seed: int = 0, *, k_column: str | None = None
) -> DataFrame:
    """Return the matches (`rankcast.spark.match`) of each event's k best subscribers; needs a static DataFrame.

    `k_column` is a column of the matches, kept from the events, with the number that an event asks for itself; the
    smaller of the two counts, and a null or negative number asks for nothing. A stream is given to a pipeline instead:
    `Pipeline(subscribers, top=TopSubscribers(k, by, seed))`.
    """
    wanted = TopSubscribers(k, by, seed, k_column)
    if matches.isStreaming:
        raise InvalidEventError(
            "top_subscribers: Spark has no window functions for streams; use Pipeline(subscribers, "
            "top=TopSubscribers(...)), which selects within the match stage"
        )
    event = Window.partitionBy("source", "id")
    order = [F.col("subscriber").asc()]
    if wanted.by != "relevance":
        order.insert(0, F.xxhash64(F.lit(wanted.seed).cast("long"), "source", "id", "subscriber").asc())
    if wanted.by != "fairness":
        order.insert(0, F.max("rank").over(Window.partitionBy("source", "id", "subscriber")).desc())
    place = F.dense_rank().over(event.orderBy(*order))
    limit = F.lit(2**63 - 1 if wanted.k is None else wanted.k)
    if wanted.k_column is not None:
        own = F.col(f"`{wanted.k_column}`")
        limit = F.when(own >= 0, F.least(limit, own.cast("long"))).otherwise(limit)
    return matches.withColumn(_PLACE, place).where(F.col(_PLACE) <= limit).drop(_PLACE)


_PLACE = "rankcast_place"


SPARK_SEED = 42
"""What Spark's hash functions begin with."""

_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_P4 = np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)


def draws(seed: int, sources: Ragged, ids: Ragged, subscribers: Ragged, event: Array, subscriber: Array) -> Array:
    """Return `xxhash64(seed, source, id, subscriber)` for pairs of an event and a subscriber, by their positions."""
    everyone = np.arange(len(ids))
    first = Ragged(np.array([0, 8]), np.array([seed], np.int64).view(np.uint8))
    by_seed = _hashed(first, np.zeros(len(ids), np.int64), np.full(len(ids), SPARK_SEED, np.uint64))
    by_event = _hashed(ids, everyone, _hashed(sources, everyone, by_seed))
    return _hashed(subscribers, subscriber, by_event[event]).view(np.int64)


def _hashed(texts: Ragged, chosen: Array, seeds: Array) -> Array:
    """Return the hashes of some texts, each with a seed of its own."""
    found = np.empty(len(chosen), np.uint64)
    _hashes(texts.starts.copy(), texts.values.copy(), chosen, seeds, found)  # what is mapped is another type to numba
    return found


@inlined
def _rotated(value: np.uint64, bits: int) -> np.uint64:
    return (value << np.uint64(bits)) | (value >> np.uint64(64 - bits))


@inlined
def _word(data: Array, at: int, size: int) -> np.uint64:
    word = np.uint64(0)
    for byte in range(size):
        word |= np.uint64(data[at + byte]) << np.uint64(8 * byte)
    return word


@inlined
def _round(accumulated: np.uint64, word: np.uint64) -> np.uint64:
    return _rotated(accumulated + word * _P2, 31) * _P1


@inlined
def _merged(accumulated: np.uint64, value: np.uint64) -> np.uint64:
    return (accumulated ^ _round(np.uint64(0), value)) * _P1 + _P4


@inlined
def _hash(data: Array, start: int, end: int, seed: np.uint64) -> np.uint64:
    """Return the XXH64 of data[start:end]."""
    at = start
    if end - start >= 32:
        one, two, three, four = seed + _P1 + _P2, seed + _P2, seed, seed - _P1
        while at + 32 <= end:
            one = _round(one, _word(data, at, 8))
            two = _round(two, _word(data, at + 8, 8))
            three = _round(three, _word(data, at + 16, 8))
            four = _round(four, _word(data, at + 24, 8))
            at += 32
        found = _rotated(one, 1) + _rotated(two, 7) + _rotated(three, 12) + _rotated(four, 18)
        found = _merged(_merged(_merged(_merged(found, one), two), three), four)
    else:
        found = seed + _P5
    found += np.uint64(end - start)
    while at + 8 <= end:
        found = _rotated(found ^ _round(np.uint64(0), _word(data, at, 8)), 27) * _P1 + _P4
        at += 8
    if at + 4 <= end:
        found = _rotated(found ^ (_word(data, at, 4) * _P1), 23) * _P2 + _P3
        at += 4
    while at < end:
        found = _rotated(found ^ (np.uint64(data[at]) * _P5), 11) * _P1
        at += 1
    found = (found ^ (found >> np.uint64(33))) * _P2
    found = (found ^ (found >> np.uint64(29))) * _P3
    return found ^ (found >> np.uint64(32))


@compiled
def _hashes(starts: Array, data: Array, chosen: Array, seeds: Array, found: Array) -> None:
    for at in range(len(found)):
        text = chosen[at]
        found[at] = _hash(data, starts[text], starts[text + 1], seeds[at])
