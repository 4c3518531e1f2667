"""The part of `rankcast bench topkw` that is about a pipeline: what its match stage sends to a delivery shard.

Subscribers without a filter, each with an ideal point: with every event written down for every one of them, and with
what these rows are worked out from (`rankcast.delivery.stream.unfiltered`). Both chunks are packed and read back, and
have to give the same rows. CPU time of packing, reading and working out; the size says what crosses the network.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from rankcast.arrays import Array
from rankcast.delivery.stream.batches import MatchBatch
from rankcast.delivery.stream.event_tables import EventTable, Ragged
from rankcast.delivery.stream.unfiltered import MatchRows, UnfilteredRows
from rankcast.delivery.stream.waiting_rows import PendingRows
from rankcast.language.parser import parse_filter
from rankcast.model.relevance import IdealPoint, Target
from rankcast.model.subscriptions import Subscriber, SubscriberId, Subscription, SubscriptionId
from rankcast.model.times import NEVER
from rankcast.ranking.batch import Features, RankingTable, rank_batch
from rankcast_lab.bench.registry import Settings
from rankcast_lab.bench.report import Bound, Comparison, Figure, Report, Row
from rankcast_lab.bench.timing import best_of_each

SUBSCRIBERS, EVENTS = 1_000, 1_000
REPEATS = 3
LEAST_TIMES_SMALLER = 20.0


def measure(settings: Settings, report: Report) -> None:
    """Measure the chunk of one shard."""
    case = f"chunk {SUBSCRIBERS:,} subscribers, {EVENTS:,} events"
    settings.say(f"{case}: packing")
    generator = np.random.default_rng(settings.seed)
    ideals = generator.random((SUBSCRIBERS, 2)).tolist()
    ranking = RankingTable.of(map(_subscriber, range(SUBSCRIBERS), ideals), range(SUBSCRIBERS))
    times, expires = np.arange(EVENTS, dtype=np.int64), np.full(EVENTS, NEVER)
    features = Features.of(ranking, EVENTS, {"x": generator.random(EVENTS), "y": generator.random(EVENTS)})
    engines = {
        "dense": partial(_dense, ranking, times, expires, features),
        "rows": partial(_rows, ranking, times, expires, features),
    }
    taken = {name: _sent(make) for name, make in engines.items()}
    same = all(np.array_equal(sent, other) for sent, other in zip(taken["rows"], taken["dense"], strict=True))
    report.add([Comparison(case, "dense", "rows", EVENTS, same, "" if same else "other rows")])
    best = best_of_each(REPEATS, {name: partial(_sent, make) for name, make in engines.items()})
    report.rows += [Row(case, name, seconds / EVENTS * 1e6) for name, seconds in best.items()]
    sizes = {name: len(make().to_bytes()) for name, make in engines.items()}
    report.figures += [Figure(case, f"bytes sent, {name}", size, "bytes") for name, size in sizes.items()]
    ratio = sizes["rows"] / sizes["dense"]
    report.require(f"{case}: bytes of rows / dense", Bound.AT_LEAST, LEAST_TIMES_SMALLER, ratio)


def _subscriber(number: int, ideal: list[float]) -> Subscriber:
    x, y = ideal
    wanted = IdealPoint((Target("x", x), Target("y", y)))
    subscription = Subscription(SubscriptionId("1"), parse_filter("true"), relevance=wanted)
    return Subscriber(SubscriberId(f"s{number}"), (subscription,))


def _events(times: Array) -> EventTable:
    return EventTable.of(times, Ragged.of_texts(["/s"] * len(times)), Ragged.of_texts(map(str, times.tolist())))


def _rows(ranking: RankingTable, times: Array, expires: Array, features: Features) -> MatchBatch:
    """Return a chunk with a row for every event and queue."""
    offsets = np.arange(len(times) + 1, dtype=np.int64) * len(ranking.table)
    numbers = np.tile(np.arange(len(ranking.table)), len(times))
    rows = rank_batch(ranking, offsets, numbers, times, expires, features)
    matched = np.ones(len(rows.event), np.int32)
    return MatchBatch(_events(times), rows.queue, rows.event, rows.score, rows.expires, matched)


def _dense(ranking: RankingTable, times: Array, expires: Array, features: Features) -> MatchBatch:
    """Return a chunk with none of them written down."""
    only = np.ones(len(ranking.table), np.int32)
    none = np.zeros(0, np.int32)
    dense = UnfilteredRows(ranking.table.chosen(np.arange(len(ranking.table))), only, times, expires, features)
    return MatchBatch(_events(times), none, none, np.zeros(0), np.zeros(0, np.int64), none, dense=dense)


def _sent(make: Callable[[], MatchBatch]) -> MatchRows:
    """Make a chunk, pack it, take it in, and work its rows out."""
    return PendingRows.of(MatchBatch.from_bytes(make().to_bytes())).whole().rows
