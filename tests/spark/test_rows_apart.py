"""Subscriptions that every event matches: their rows are not sent, and everything is delivered and counted as if."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankcast.delivery.stream.batches import MatchBatch
from rankcast.delivery.stream.waiting_rows import PendingRows
from rankcast.language.parser import parse_filter
from rankcast.model.advertisements import Advertisement, AudienceRanking, Scoring
from rankcast.model.events import Event
from rankcast.model.policies import AllMatches, Continuous, Periodic, Sliding, TopKWindow
from rankcast.model.relevance import Closeness, Cosine, Decay, IdealPoint, Target
from rankcast.model.subscriptions import RankBy, Subscriber, Subscription
from rankcast.spark.delivery.stage import BatchDelivery
from rankcast.spark.delivery.state import MessageKind
from rankcast.spark.delivery.unpacked_rows import UnpackTask
from rankcast.spark.matching import compiled_subscribers as audiences
from rankcast.spark.matching.compiled_subscribers import CompiledSubscribers
from rankcast.spark.matching.packing import PackTask
from rankcast.spark.matching.stage import matched_pieces
from rankcast.spark.pipeline import Pipeline
from rankcast.spark.sources.event_reader import typed_document
from spark.stages import READER, InMemory

START = datetime(2026, 1, 1, tzinfo=UTC)
EVERYTHING = parse_filter("true")
CHOOSING = replace(
    READER, advertisements=(Advertisement("two", "/s", k=2, ranking=AudienceRanking(Scoring.RELEVANCE)),)
)
FUNCTIONS = st.one_of(
    st.builds(lambda at: IdealPoint([Target("x", at)]), st.integers(0, 4)),
    st.builds(lambda at: IdealPoint([Target("x", at, scale=1e-90)]), st.integers(0, 4)),
    st.builds(lambda at: IdealPoint([Target("x", at), Target("y", 1)], reach=3), st.integers(0, 4)),
    st.builds(lambda at: Closeness([Target("x", at, scale=3)]), st.integers(0, 4)),
    st.builds(lambda at: Cosine("v", (at, 1)), st.integers(0, 4)),
    st.none(),
)
POLICIES = st.sampled_from(
    (
        AllMatches(),
        Continuous(1),
        Sliding(1, 3),
        TopKWindow(1, 3),
        TopKWindow(2, timedelta(seconds=3)),
        Periodic(1, timedelta(seconds=4)),
    )
)


@st.composite
def people(draw):
    found = []
    for number in range(draw(st.integers(1, 8))):
        function, own = draw(FUNCTIONS), draw(st.none() | POLICIES)
        bounded = function is None or function.is_bounded
        wanted = Subscription(
            "1",
            draw(st.sampled_from((EVERYTHING, EVERYTHING, parse_filter("x < 3")))),
            draw(st.sampled_from((None, 0.5))) if bounded else None,
            draw(st.sampled_from((1.0, 0.5))),
            relevance=function,
            refresh=draw(st.none() | st.just(timedelta(seconds=2))),
            deliver=own,
            active_until=draw(st.sampled_from((None, None, START + timedelta(seconds=5)))),
        )
        more = Subscription("2", parse_filter("x > 1"), deliver=None if bounded or own is not None else AllMatches())
        decay = draw(st.sampled_from((None, None, Decay(timedelta(seconds=3))))) if bounded else None
        subscriptions = draw(st.sampled_from(((wanted,), (wanted,), (wanted, more))))
        how = draw(st.sampled_from(RankBy))
        found.append(Subscriber(f"s{number}", subscriptions, draw(POLICIES), rank_by=how, decay=decay))
    return found


@st.composite
def streams(draw):
    """Give events, some of which come again: the same ones, or at another time with another content."""
    found, known = [], {}
    for number in range(draw(st.integers(0, 12))):
        x, y = draw(st.sampled_from((0, 1, 2, 3, 4, 1e20, "text"))), draw(st.none() | st.integers(0, 2))
        data = {"x": x, "v": [1, draw(st.integers(0, 2))]} | ({} if y is None else {"y": y})
        time = START + timedelta(seconds=draw(st.integers(0, 9)))
        expires = draw(st.none() | st.just(time + timedelta(seconds=2)))
        name = str(draw(st.integers(0, number)))
        event = Event(name, "/s", time=time, expires=expires, data=data)
        found.append(known.setdefault((name, time), event))
    return found


def packed(audience, events, shards, size, reader=READER):
    texts = [typed_document(event) for event in events]
    parts = [pa.RecordBatch.from_pydict({"value": texts[at : at + size]}) for at in range(0, len(texts), size)]
    tasks = [parts[:2], parts[2:]]
    return [row for task in tasks for row in PackTask(reader, InMemory(audience), shards)(iter(task))]


def outputs(audience, events, shards, size, reader=READER):
    rows = packed(audience, events, shards, size, reader)
    delivered = list(BatchDelivery(InMemory(audience), shards, 2_000_000)(iter(rows)))
    found = [row for batch in UnpackTask(InMemory(audience), shards)(iter(delivered)) for row in batch.to_pylist()]
    passed = [
        json.loads(bytes(row["data"]))
        for batch in rows
        for row in batch.to_pylist()
        if row["kind"] == MessageKind.COUNTS
    ]
    return [row for row in found if row["kind"] != "counts"], passed


@pytest.fixture
def apart_from_one_on(monkeypatch):
    monkeypatch.setattr(audiences, "FEWEST_APART", 1)


@settings(max_examples=40)
@given(people(), streams(), st.integers(1, 3), st.integers(1, 6), st.sampled_from((READER, CHOOSING)))
@pytest.mark.usefixtures("apart_from_one_on")
def test_everything_is_as_if_all_rows_were_sent(everybody, events, shards, size, reader):
    expected, counted = outputs(CompiledSubscribers.of(everybody), events, shards, size, reader)
    found, recounted = outputs(CompiledSubscribers.of(everybody, apart=True), events, shards, size, reader)
    assert recounted == counted
    assert found == expected


@given(st.permutations([0, 5, 9]), st.integers(1, 3), st.integers(1, 3))
def test_of_one_identity_and_time_one_publication_counts_for_everybody(contents, shards, size):
    everybody = [Subscriber(one.id, one.subscriptions, AllMatches()) for one in crowd(audiences.FEWEST_APART)]
    events = [Event("1", "/s", time=START, data={"x": x, "y": 1}) for x in contents]
    audience = CompiledSubscribers.of(everybody, apart=True)
    assert len(audience.apart) == len(everybody)
    found, _ = outputs(audience, events, shards, size)
    ranks = {row["subscriber"]: row["rank"] for row in found}
    assert len(found) == len(everybody)
    assert any(all(ranks[f"s{at}"] == 0.0 - abs(x - at) for at in range(len(everybody))) for x in contents)


@given(people(), streams())
@pytest.mark.usefixtures("apart_from_one_on")
def test_matches_have_all_rows(everybody, events):
    texts = [typed_document(event) for event in events]
    batch = pa.RecordBatch.from_pydict({"value": texts})
    for plain, kept in zip(
        matched_pieces(iter([batch]), READER, CompiledSubscribers.of(everybody)),
        matched_pieces(iter([batch]), READER, CompiledSubscribers.of(everybody, apart=True)),
        strict=True,
    ):
        assert all(np.array_equal(one, other) for one, other in zip(plain.rows, kept.rows, strict=True))


def crowd(count):
    wanted = [IdealPoint([Target("x", number), Target("y", 1)]) for number in range(count)]
    one = [Subscription("1", EVERYTHING, relevance=function) for function in wanted]
    return [Subscriber(f"s{number}", (own,), TopKWindow(1, 3)) for number, own in enumerate(one)]


def test_only_those_are_kept_apart_that_are_many_alone_in_their_queue_always_active_and_do_not_decay():
    many = crowd(audiences.FEWEST_APART)
    near = Closeness([Target("x", 1)])
    others = [
        Subscriber("filter", (Subscription("1", parse_filter("x > 1"), relevance=near),)),
        Subscriber("rank", (Subscription("1", EVERYTHING, 0.5),)),
        Subscriber("until", (Subscription("1", EVERYTHING, relevance=near, active_until=START),)),
        Subscriber("decay", (Subscription("1", EVERYTHING, relevance=near),), decay=Decay(timedelta(1))),
        Subscriber("two", tuple(Subscription(name, EVERYTHING, relevance=near) for name in "12")),
    ]
    audience = CompiledSubscribers.of([*others, *many], apart=True)
    names = {audience.queues.keys[queue].subscriber for queue in audience.ranking.table.queue[audience.apart]}
    assert names == {one.id for one in many}
    assert len(audience) == len(CompiledSubscribers.of([*others, *many]))
    assert len(CompiledSubscribers.of(many[1:], apart=True).apart) == 0
    assert len(CompiledSubscribers.of(many).apart) == 0


def test_chunks_have_no_row_for_each_pair():
    events = [Event(str(at), "/s", time=START + timedelta(seconds=at), data={"x": at, "y": 1}) for at in range(200)]
    sent = {}
    for apart in (False, True):
        rows = [
            row
            for batch in packed(CompiledSubscribers.of(crowd(500), apart=apart), events, 2, 200)
            for row in batch.to_pylist()
        ]
        chunks = [MatchBatch.from_bytes(bytes(row["data"])) for row in rows if row["kind"] == MessageKind.CHUNK]
        assert sum(len(PendingRows.of(chunk).whole()) for chunk in chunks) == 200 * 500
        assert sum(len(chunk.queue) for chunk in chunks) == (0 if apart else 200 * 500)
        sent[apart] = sum(len(bytes(row["data"])) for row in rows)
    assert sent[True] < sent[False] / 10


def test_a_pipeline_gives_the_same_with_and_without(spark):
    events = [(str(at), START + timedelta(seconds=at), at * 7 % 30, 1) for at in range(40)]
    frame = spark.createDataFrame(events, "id string, time timestamp, x int, y int")
    everybody = crowd(30)
    kept = Pipeline(everybody, shards=2)
    assert len(kept.source(spark).current()[1].apart) == 30
    found, expected = (
        one.transform(frame).select("subscriber", "id", "rank", "delivered", "matched").collect()
        for one in (kept, Pipeline(CompiledSubscribers.of(everybody), shards=2))
    )
    assert sorted(found) == sorted(expected)
    assert len(found) > 100
