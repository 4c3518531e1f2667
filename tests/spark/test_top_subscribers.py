"""The k best subscribers of each event: by relevance, by chance, or by relevance with fair ties."""

from collections import Counter
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import functions as F  # noqa: N812

from rankcast.delivery.stream.event_tables import EventTable, Ragged
from rankcast.language.parser import parse_filter
from rankcast.model.errors import InvalidEventError, InvalidSubscriptionError
from rankcast.model.subscriptions import Subscriber, Subscription
from rankcast.ranking.batch import RankedRows
from rankcast.spark.matching.compiled_subscribers import CompiledSubscribers
from rankcast.spark.matching.stage import match
from rankcast.spark.matching.top_subscribers import TopSubscribers, draws, top_subscribers

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
RANKS = (0.25, 0.5, 0.5, 0.5, 1.0)


def _audience(ranks=RANKS):
    wanted = parse_filter("x >= 0")
    return CompiledSubscribers.of(
        Subscriber(f"s{at}", (Subscription("1", wanted, rank),)) for at, rank in enumerate(ranks)
    )


def _rows(events, queues, ranks):
    count = len(events)
    never = np.full(count, 2**63 - 1)
    rank = np.array(ranks, np.float64)
    return RankedRows(np.array(events), np.array(queues), rank, rank, never, np.arange(count + 1), np.array(queues))


def _table(count):
    names = Ragged.of_texts(f"e{at}" for at in range(count))
    return EventTable.of(np.zeros(count, np.int64), Ragged.of_texts(["/s"] * count), names)


def _chosen(events, by, k, seed=0, ranks=RANKS):
    """Who gets each of so many events that everyone wants."""
    people = len(ranks)
    rows = _rows(np.repeat(np.arange(events), people), list(range(people)) * events, list(ranks) * events)
    wanted = TopSubscribers(k, by, seed)
    kept = wanted.selected(_table(events), rows, _audience(ranks), wanted.limits(None, events))
    return [kept.queue[kept.event == event].tolist() for event in range(events)]


def test_by_relevance_the_best_ranks_win_and_ties_go_to_the_smaller_id():
    assert _chosen(3, "relevance", 2) == [[1, 4]] * 3
    assert _chosen(1, "relevance", 0) == [[]]
    assert _chosen(1, "relevance", 9) == [[0, 1, 2, 3, 4]]


def test_by_both_ties_are_broken_with_equal_probability():
    found = Counter(tuple(one) for one in _chosen(3000, "both", 2))
    assert set(found) == {(1, 4), (2, 4), (3, 4)}
    assert all(880 < count < 1120 for count in found.values())  # 1000 and 4.6 standard deviations


def test_by_fairness_everyone_is_as_likely_as_any_other():
    found = Counter(queue for one in _chosen(3000, "fairness", 2) for queue in one)
    assert all(1070 < found[queue] < 1330 for queue in range(5))  # 1200 and 4.8 standard deviations


def test_draws_depend_on_the_seed_and_on_nothing_else():
    assert _chosen(50, "fairness", 2, seed=1) == _chosen(50, "fairness", 2, seed=1)
    assert _chosen(50, "fairness", 2, seed=1) != _chosen(50, "fairness", 2, seed=2)
    assert _chosen(50, "fairness", 2)[:20] == _chosen(20, "fairness", 2)


@given(st.lists(st.text(max_size=70), min_size=1, max_size=5), st.integers(-(2**63), 2**63 - 1))
def test_draws_are_deterministic_for_any_text(texts, seed):
    table = Ragged.of_texts(texts)
    pairs = np.arange(len(texts))
    assert draws(seed, table, table, table, pairs, pairs).tolist() == [
        int(draws(seed, *(Ragged.of_texts([text]),) * 3, np.zeros(1, int), np.zeros(1, int))[0]) for text in texts
    ]


def test_a_subscriber_with_several_queues_is_one(monkeypatch):
    audience = _audience((0.5, 0.5, 0.5))
    monkeypatch.setattr(CompiledSubscribers, "people", (np.array([0, 0, 1]), np.array([0, 2])))
    rows = _rows([0, 0, 0], [0, 1, 2], [0.2, 0.9, 0.5])
    kept = TopSubscribers(1, "relevance").selected(_table(1), rows, audience, np.array([1]))
    assert kept.queue.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "expected k, the column that has it, or both"),
        ({"k": -1}, "k: -1 is not a whole number of at least 0"),
        ({"k": 1, "by": "luck"}, "by: 'luck' is not one of relevance, fairness, both"),
        ({"k": 1, "seed": 2**63}, "seed: 9223372036854775808 does not fit"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(InvalidSubscriptionError, match=message):
        TopSubscribers(**options)


def test_the_stage_selects_what_the_pipeline_would(spark):
    rows = [(f"e{at}", NOON, 1, None if at % 3 else at % 5) for at in range(60)]
    events = spark.createDataFrame(rows, "id string, time timestamp, x int, k int").repartition(4)
    audience = _audience()
    matches = match(events, audience, keep=["k"]).cache()
    try:
        for by in ("relevance", "fairness", "both"):
            wanted = TopSubscribers(3, by, seed=11)
            found = top_subscribers(matches, 3, by, 11, k_column="k").collect()
            own = np.array([-1 if k is None else k for *_, k in rows])
            ranked = _rows(np.repeat(np.arange(60), 5), list(range(5)) * 60, list(RANKS) * 60)
            table = EventTable.of(
                np.zeros(60, np.int64), Ragged.of_texts(["/events"] * 60), Ragged.of_texts(row[0] for row in rows)
            )
            kept = wanted.selected(table, ranked, audience, wanted.limits(own, 60))
            expected = zip(kept.event.tolist(), kept.queue.tolist(), strict=True)
            assert sorted((row.id, row.subscriber) for row in found) == sorted((f"e{e}", f"s{q}") for e, q in expected)
    finally:
        matches.unpersist()


def test_a_stream_is_told_to_use_a_pipeline(spark):
    stream = spark.readStream.format("rate").load().selectExpr("cast(value as string) id", "timestamp as time")
    with pytest.raises(InvalidEventError, match=r"Pipeline\(subscribers, top=TopSubscribers"):
        top_subscribers(match(stream, _audience()), 1)


def test_draws_are_those_of_sparks_hash_function(spark):
    texts = ["", "a", "abcd", "0123456", "é😀", "x" * 31, "y" * 32, "z" * 33, "w" * 100]
    seed = -5
    frame = spark.createDataFrame([(one, other) for one in texts for other in texts], "s string, n string")
    expected = frame.select(F.xxhash64(F.lit(seed).cast("long"), "s", "s", "n").alias("h")).toArrow()["h"].to_pylist()
    table = Ragged.of_texts(texts)
    pairs = np.arange(len(texts))
    found = draws(seed, table, table, table, np.repeat(pairs, len(texts)), np.tile(pairs, len(texts)))
    assert found.tolist() == expected
