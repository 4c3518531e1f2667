"""Events that travel whole, so that what queues hold can be ranked anew when their subscriber changes."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast.language.parser import parse_filter
from rankcast.model.events import Event
from rankcast.model.policies import Continuous, Diversity, Sliding
from rankcast.model.subscriptions import RankBy, Subscriber, Subscription
from rankcast.model.times import microseconds
from rankcast.spark.delivery.payloads import Payload
from rankcast.spark.delivery.rerank import is_ranked_anew
from rankcast.spark.sources.event_batches import ColumnEvents
from rankcast.spark.sources.event_contents import event_contents, event_of_content
from rankcast.testing import strategies

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def again(event: Event, content: bytes) -> Event:
    return event_of_content(content, event.source, event.id, microseconds(event.time))


@given(strategies.events())
def test_an_event_comes_back_as_it_was(event: Event):
    event = event.stamped(NOON)
    (content,) = event_contents([event])
    found = again(event, content)
    assert (found, found.attributes) == (event, event.attributes)


def test_events_in_columns_come_back_with_what_filters_and_relevance_see():
    times = pa.array([NOON, NOON + timedelta(microseconds=1)], pa.timestamp("us", "UTC"))
    columns = {
        "id": pa.array(["1", "2"]),
        "source": pa.array(["/a", "/b"]),
        "time": times,
        "specversion": pa.array(["1.0", "1.0"]),
        "type": pa.array(["t", "t"]),
        "expirytime": pa.array([None, NOON], pa.timestamp("us", "UTC")),
        "rent": pa.array([700, None]),
        "rate": pa.array([1.0, float("inf")]),
        "built": times,
        "size.rooms": pa.array([2, 3]),
        "data.type": pa.array(["flat", None]),
        "is_new": pa.array([True, False]),
    }
    vectors = {"item.embedding": pa.array([[1.0, 0.5], None], pa.list_(pa.float64()))}
    batch = ColumnEvents(np.arange(2), columns, vectors, None)
    for at, content in enumerate(batch.contents()):
        found = event_of_content(content, f"/{'ab'[at]}", str(at + 1), microseconds(NOON) + at)
        expected = {name: column[at].as_py() for name, column in columns.items() if column[at].is_valid}
        assert found.attributes == expected
        assert all(type(found.attributes[name]) is type(value) for name, value in expected.items())
        assert found.vector("item.embedding") == (None if at else (1.0, 0.5))


@given(
    st.dictionaries(st.integers(0, 2**32 - 1), st.floats(0, 1)),
    st.none() | st.binary(max_size=20),
    st.binary(max_size=20),
)
def test_a_payload_comes_back_as_it_was(ranks: dict[int, float], content: bytes | None, carried: bytes):
    payload = Payload(ranks, content, carried)
    assert Payload.from_bytes(payload.to_bytes()) == payload
    assert Payload.from_bytes(b"") == Payload({}, None, b"")


ANA = Subscriber("ana", (Subscription("1", parse_filter("x < 5"), 0.5),), Sliding(1, 5))


@pytest.mark.parametrize(
    ("after", "is_other"),
    [
        (ANA, False),
        (Subscriber("ana", ANA.subscriptions, Continuous(3)), False),
        (Subscriber("ana", ANA.subscriptions, Sliding(1, 5, Diversity(0.5, {"x": 1.0}))), True),
        (Subscriber("ana", (Subscription("1", parse_filter("x < 5"), 0.6),), Sliding(1, 5)), True),
        (Subscriber("ana", (Subscription("1", parse_filter("x < 6"), 0.5),), Sliding(1, 5)), True),
        (Subscriber("ana", ANA.subscriptions, Sliding(1, 5), rank_by=RankBy.MEAN), True),
    ],
)
def test_only_what_bears_on_ranks_has_them_made_anew(after: Subscriber, is_other: bool):
    assert is_ranked_anew(ANA, after, None) is is_other
