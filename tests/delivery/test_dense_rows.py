"""Rows that are not written down are, once they are worked out, those that ranking every event would have given."""

import math
from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast.delivery.stream import unfiltered as dense_rows
from rankcast.delivery.stream.unfiltered import UnfilteredRows
from rankcast.language.parser import parse_filter
from rankcast.model.errors import InvalidValueError
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
        patched.setattr(dense_rows, "BLOCK", block)
        assert columns(dense.expanded()) == expected
        again = UnfilteredRows.from_arrays(dense.to_arrays(), times, 100)
        assert columns(again.expanded()) == expected
    assert dense.count() == len(truth.event)


@given(batches(), st.integers(0, 9), st.integers(0, 9))
def test_features_are_divided_and_joined(batch, one, other):
    ranking, times, expires, features = batch
    low, high = sorted((min(one, len(times)), min(other, len(times))))
    parts = [features.part(*bounds) for bounds in ((0, low), (low, high), (high, len(times)))]
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


@pytest.mark.parametrize("name", ["matched", "rank", "part_value", "expires", "reach", "size"])
def test_arrays_of_another_length_or_missing_ones_are_refused(name):
    arrays = whole().to_arrays()
    with pytest.raises(InvalidValueError, match=r"unfiltered rows: array .* elements; expected"):
        UnfilteredRows.from_arrays({**arrays, name: arrays[name][:-1]}, np.zeros(2, np.int64), 100)
    del arrays[name]
    with pytest.raises(InvalidValueError, match=f"unfiltered rows: array {name} is missing"):
        UnfilteredRows.from_arrays(arrays, np.zeros(2, np.int64), 100)
