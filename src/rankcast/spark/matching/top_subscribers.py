"""Producer-centric selection: of those who want an event, only the k best get it.

    relevance   the best ranks; among equal ones the smaller subscriber id
    fairness    everyone who wants the event is as likely to get it as any other
    both        the best ranks; among equal ones everyone is as likely as any other

Chance is a hash of (seed, event, subscriber): another seed draws otherwise, the same seed draws the same, whatever the
partitions, batches and repetitions. A subscriber with several queues is one subscriber, with the best of its ranks.

`top_subscribers` selects from matches as a stage of its own, `TopSubscribers` is what a pipeline is told to do within
its match stage; both select the same. Paper: top-k subscription filtering, its relevance and fairness semantics.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 (the name that all of Spark's documentation has)

from rankcast.arrays import Array
from rankcast.delivery.stream.event_tables import EventTable
from rankcast.model.errors import InvalidEventError, InvalidSubscriptionError, shown
from rankcast.model.policies import check_count
from rankcast.ranking.batch import RankedRows
from rankcast.spark.matching.compiled_subscribers import Audience
from rankcast.spark.matching.fair_draws import draws

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

    def selected(self, events: EventTable, rows: RankedRows, audience: Audience, limits: Array) -> RankedRows:
        """Return the rows of each event's best subscribers."""
        if not len(rows.event):
            return rows
        subscriber = audience.subscriber_of_queue[rows.queue]
        order = np.lexsort((subscriber, rows.event))
        event, person = rows.event[order], subscriber[order]
        is_first = np.ones(len(order), bool)
        is_first[1:] = (event[1:] != event[:-1]) | (person[1:] != person[:-1])
        first = np.flatnonzero(is_first)
        event, person = event[first], person[first]
        keys: list[Array] = [audience.subscriber_order[person]]
        if self.by != "relevance":
            queue = audience.first_queue[person]
            keys.append(draws(self.seed, events.source, events.id, audience.queues.subscriber, event, queue))
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
