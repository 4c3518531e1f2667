"""Rows that are not written down are, once they are worked out, those that ranking every event would have given.

A shard whose chunks have such rows does what one does that is given every row.
"""

import math
from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankcast.delivery.stream import unfiltered, waiting_rows
from rankcast.delivery.stream.batches import MatchBatch
from rankcast.delivery.stream.event_tables import EventTable, Ragged
from rankcast.delivery.stream.shards import Shard
from rankcast.delivery.stream.unfiltered import UnfilteredRows, event_digests
from rankcast.language.parser import parse_filter
from rankcast.model.errors import InvalidEventError, InvalidValueError
from rankcast.model.policies import AllMatches, Continuous, Periodic, Sliding, TopKWindow
from rankcast.model.relevance import Closeness, Cosine, IdealPoint, Target
from rankcast.model.subscriptions import RankBy, Subscriber, Subscription
from rankcast.model.times import NEVER
from rankcast.ranking.batch import Features, RankingTable, rank_batch

NUMBERS = st.integers(-3, 3).map(float) | st.sampled_from((1e130, math.nan, 0.1))
FUNCTIONS = st.one_of(
    st.builds(lambda at: IdealPoint([Target("x", at), Target("y", 1)]), st.integers(0, 3)),
    st.builds(lambda at: IdealPoint([Target("x", at, 2, 3)], reach=2), st.integers(0, 3)),
    st.builds(lambda at: Closeness([Target("y", at)]), st.integers(0, 3)),
    st.builds(lambda at: Cosine("v", (at, 1)), st.integers(0, 3)),
)


@st.composite
def people(draw):
    found = []
    for number, function in enumerate(draw(st.lists(FUNCTIONS, min_size=1, max_size=8))):
        rank = draw(st.sampled_from((None, 0.5))) if function.is_bounded else None
        refresh = draw(st.sampled_from((None, timedelta(microseconds=7))))
        one = Subscription(
            "1", parse_filter("true"), rank, draw(st.sampled_from((1, 0.5))), refresh=refresh, relevance=function
        )
        found.append(Subscriber(f"s{number}", (one,), rank_by=draw(st.sampled_from(RankBy))))
    return found


@st.composite
def batches(draw):
    """Give (ranking, times, expires, features) of some events."""
    everybody = draw(people())
    ranking = RankingTable.of(everybody, range(len(everybody)))
    events = draw(st.lists(st.tuples(NUMBERS, NUMBERS, st.lists(NUMBERS, max_size=3)), max_size=9))
    x, y = (np.array([event[at] for event in events], np.float64) for at in (0, 1))
    starts = np.cumsum([0, *(len(event[2]) for event in events)], dtype=np.int64)
    elements = np.array([one for event in events for one in event[2]], np.float64)
    features = Features.of(ranking, len(events), {"x": x, "y": y}, {"v": (starts, elements)})
    times = np.arange(len(events), dtype=np.int64) * 10
    expires = np.where(times % 20 == 0, NEVER, times + 5)
    return ranking, times, expires, features


def some(batch, numbers):
    ranking, times, expires, features = batch
    return UnfilteredRows(ranking.table.chosen(numbers), numbers.astype(np.int32), times, expires, features)


def columns(rows):
    return [column.tolist() for column in rows]


@given(batches(), st.data())
@pytest.mark.parametrize("block", [1, 5, 1 << 20])
def test_rows_are_those_of_ranking_every_event(block, batch, data):
    ranking, times, expires, features = batch
    numbers = np.array(data.draw(st.lists(st.sampled_from(range(len(ranking.table))), unique=True)), np.int64)
    numbers.sort()
    offsets = np.arange(len(times) + 1) * len(numbers)
    truth = rank_batch(ranking, offsets, np.tile(numbers, len(times)), times, expires, features)
    expected = [
        truth.queue.tolist(),
        truth.event.tolist(),
        truth.score.tolist(),
        truth.expires.tolist(),
        truth.matched.tolist(),
    ]
    dense = some(batch, numbers)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(unfiltered, "BLOCK", block)
        assert columns(dense.expanded()) == expected
        again = UnfilteredRows.from_arrays(dense.to_arrays(), times, 100)
        assert columns(again.expanded()) == expected
    assert dense.count() == len(truth.event)


@given(batches(), st.integers(0, 9), st.integers(0, 9))
def test_features_are_divided_and_joined(batch, one, other):
    ranking, times, expires, features = batch
    low, high = sorted((min(one, len(times)), min(other, len(times))))
    parts = [features.of_events(slice(*bounds)) for bounds in ((0, low), (low, high), (high, len(times)))]
    joined = UnfilteredRows(ranking.table, np.arange(len(ranking.table)), times, expires, Features.joined(parts))
    assert columns(joined.expanded()) == columns(some(batch, np.arange(len(ranking.table))).expanded())


def whole():
    one = Subscription("1", parse_filter("true"), relevance=Cosine("v", (1, 2)))
    two = Subscription("1", parse_filter("true"), relevance=IdealPoint([Target("x", 1)]))
    ranking = RankingTable.of([Subscriber("s", (one,)), Subscriber("t", (two,))], [0, 1])
    vectors = (np.array([0, 2, 4]), np.array([1.0, 2, 3, 4]))
    features = Features.of(ranking, 2, {"x": np.array([1.0, 2])}, {"v": vectors})
    return some((ranking, np.zeros(2, np.int64), np.full(2, NEVER), features), np.arange(2))


def test_there_are_none_where_none_are_packed():
    assert UnfilteredRows.from_arrays({}, np.zeros(3), 1) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("queue", -1),
        ("profile", 7),
        ("relevance", 2),
        ("rank_by", 4),
        ("kind", 9),
        ("part_start", 5),
        ("part_column", 1),
        ("part_scale", 0),
        ("refresh", -1),
        ("first", 99),
        ("expires", -(2**63)),
        ("matched", 100),
    ],
)
def test_arrays_that_would_lead_a_kernel_astray_are_refused(name, value):
    arrays = {key: array.copy() for key, array in whole().to_arrays().items()}
    arrays[name][-1] = value
    with pytest.raises(InvalidValueError, match=f"unfiltered rows: array {name}"):
        UnfilteredRows.from_arrays(arrays, np.zeros(2, np.int64), 100)


POLICIES = (
    TopKWindow(1, 3),
    TopKWindow(1, timedelta(microseconds=6)),
    Sliding(1, 3),
    Periodic(1, timedelta(microseconds=5)),
    Continuous(1),
    AllMatches(),
)
LATENESS = 4
RANKING = RankingTable.of(
    [
        Subscriber(f"s{at}", (Subscription("1", parse_filter("true"), relevance=IdealPoint([Target("x", at)])),))
        for at in range(len(POLICIES) - 1)
    ],
    range(len(POLICIES) - 1),
)
"""Of all queues but the last, which gets rows."""

EVENTS = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 5), st.integers(0, 30)), max_size=8)
INPUTS = st.lists(st.tuples(EVENTS, st.integers(0, 4), st.booleans()), max_size=8)


def chunk(events):
    """Return a chunk of (time, x, id): dense rows, and one row of every other event for the last queue."""
    times = np.array([time for time, _, _ in events], np.int64)
    texts = Ragged.of_texts([str(name) for _, _, name in events])
    features = Features.of(RANKING, len(events), {"x": np.array([x for _, x, _ in events], np.float64)})
    expires = np.where(times % 3 == 0, times + 5, NEVER)
    table = RANKING.table.chosen(np.arange(len(RANKING.table)))
    dense = UnfilteredRows(table, np.ones(len(table), np.int32), times, expires, features)
    own = np.arange(0, len(events), 2)
    return MatchBatch(
        EventTable.of(times, Ragged.of_texts(["/s"] * len(events)), texts),
        np.full(len(own), len(POLICIES) - 1, np.int32),
        own,
        np.zeros(len(own)),
        expires[own],
        np.ones(len(own), np.int32),
        reports_late=True,
        variant=event_digests(features, expires),
        dense=dense,
    )


def written_down(one):
    rows = one.dense.expanded()
    pairs = zip(("queue", "event", "score", "expires", "matched"), rows, strict=True)
    columns = {name: np.concatenate([getattr(one, name), column]) for name, column in pairs}
    return MatchBatch(one.events, **columns, reports_late=True, variant=one.variant)


def told(notices):
    columns = (notices.queue, notices.event, notices.time, notices.score, notices.matched)
    names = notices.events.id.texts()
    return [
        (queue, names[at], *rest) for queue, at, *rest in zip(*(column.tolist() for column in columns), strict=True)
    ]


@pytest.fixture(params=[1, 7, 10**6])
def few_rows_at_a_time(request, monkeypatch):
    monkeypatch.setattr(waiting_rows, "DENSE_ROWS", request.param)


@settings(max_examples=50)
@given(INPUTS)
@pytest.mark.usefixtures("few_rows_at_a_time")
def test_deliveries_are_those_of_the_same_rows_written_down(inputs):
    plain, dense = (Shard.of(POLICIES, lateness=LATENESS) for _ in range(2))
    watermark = 0
    for events, wait, is_restored in inputs:
        one = chunk(events)
        late = plain.take(written_down(one))
        assert dense.take(MatchBatch.from_bytes(one.to_bytes())).id.texts() == late.id.texts()
        assert dense.waiting == plain.waiting
        assert dense.next_watermark == plain.next_watermark
        watermark += wait
        assert told(dense.advance(watermark)) == told(plain.advance(watermark))
        assert dense.repeated == plain.repeated
        if is_restored:
            plain, dense = (Shard.from_bytes(one.to_bytes()) for one in (plain, dense))
    assert told(dense.finish()) == told(plain.finish())


def test_what_waits_is_packed_without_being_written_down():
    shard = Shard.of(POLICIES, lateness=LATENESS)
    shard.take(chunk([(time, time % 6, time) for time in range(400)]))
    plain = Shard.of(POLICIES, lateness=LATENESS)
    plain.take(written_down(chunk([(time, time % 6, time) for time in range(400)])))
    assert shard.waiting == plain.waiting == 400 * (len(POLICIES) - 1) + 200
    assert len(shard.to_bytes()) < len(plain.to_bytes()) - 400 * 20 * (len(POLICIES) - 1) / 2


def test_a_queue_that_is_not_there_is_refused():
    with pytest.raises(InvalidEventError, match="there is no queue 5; expected 0 to 4"):
        Shard.of(POLICIES[:-1]).take(chunk([(0, 0, 0)]))
    with pytest.raises(InvalidEventError, match="there is no queue 4; expected 0 to 1"):
        Shard.of(POLICIES[:2]).take(chunk([]))
