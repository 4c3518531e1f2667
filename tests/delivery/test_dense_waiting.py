"""A shard whose chunks have rows that are not written down does what one does that is given every row."""

from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankcast.delivery.stream import waiting_rows
from rankcast.delivery.stream.batches import MatchBatch
from rankcast.delivery.stream.event_tables import EventTable, Ragged
from rankcast.delivery.stream.shards import Shard
from rankcast.delivery.stream.unfiltered import UnfilteredRows, event_digests
from rankcast.language.parser import parse_filter
from rankcast.model.errors import InvalidEventError
from rankcast.model.policies import AllMatches, Continuous, Periodic, Sliding, TopKWindow
from rankcast.model.relevance import IdealPoint, Target
from rankcast.model.subscriptions import Subscriber, Subscription
from rankcast.model.times import NEVER
from rankcast.ranking.batch import Features, RankingTable

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
