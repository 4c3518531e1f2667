"""Ranks for many relevance functions at once are those of the one place where relevance is defined, bit by bit."""

import math
import struct

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rankcast.model.events import Event
from rankcast.model.expressions import Constant
from rankcast.model.filters import Filter
from rankcast.model.relevance import Closeness, Cosine, IdealPoint, Target
from rankcast.model.subscriptions import RankBy, Subscriber, Subscription
from rankcast.ranking.dense import RelevanceColumns, Shape
from rankcast.ranking.preferences import Preferences

EVERYTHING = Filter.of(Constant(True))
NUMBERS = st.integers(-3, 3) | st.floats(-1e3, 1e3) | st.sampled_from((1e60, -1e200, 2**62 + 1, 5e-324))
POSITIVE = st.floats(0.1, 10) | st.sampled_from((1, 1e-50, 1e50))
TARGETS = st.builds(
    lambda first, second: [first, second],
    st.builds(Target, st.just("a"), NUMBERS, POSITIVE, POSITIVE),
    st.builds(Target, st.just("b"), NUMBERS, POSITIVE, POSITIVE),
)
KINDS = (
    st.builds(IdealPoint, TARGETS),
    st.builds(IdealPoint, TARGETS, POSITIVE),
    st.builds(Closeness, TARGETS),
    st.builds(Cosine, st.just("v"), st.lists(NUMBERS, min_size=3, max_size=3).filter(any)),
)
VALUES = NUMBERS | st.sampled_from(("text", True, None, math.inf, math.nan))
EVENTS = st.fixed_dictionaries(
    {}, optional={"a": VALUES, "b": VALUES, "v": st.lists(NUMBERS, min_size=2, max_size=3) | st.just(["x", 1, 2])}
)


def bits(number):
    return struct.pack("<d", number)


@given(st.sampled_from(KINDS).flatmap(lambda kind: st.lists(kind, min_size=1, max_size=40)), EVENTS, st.data())
def test_ranks_are_bit_equal_to_those_of_preferences(functions, attributes, data):
    event = Event.of({name: value for name, value in attributes.items() if value is not None}, id="1", source="/s")
    columns = RelevanceColumns(Shape.of(functions[0]))
    expected = []
    for column, function in enumerate(functions):
        bounded = function.is_bounded
        rank = data.draw(st.sampled_from((None, 0, 0.3, 1))) if bounded else None
        weight, how = data.draw(st.sampled_from((0, 0.7, 2))), data.draw(st.sampled_from(RankBy))
        one = Subscription("1", EVERYTHING, rank, weight, relevance=function)
        preferences = Preferences.of(Subscriber("s", (one,), rank_by=how))
        columns.put(column, function, preferences.ranks["1"], preferences.factor("1"))
        expected.append(preferences.ranked(event, ["1"]))
    features = columns.shape.features(event)
    if features is None:
        assert expected == [None] * len(functions)
        return
    ranks = columns.ranks(features).tolist()
    assert [math.isnan(rank) for rank in ranks] == [one is None for one in expected]
    for column, one in enumerate(expected):
        if one is not None:
            assert bits(ranks[column]) == bits(one.rank)
            again = columns.ranks_of(column, features.numbers[None], np.array([features.length]), np.zeros(1, np.int64))
            assert bits(again[0]) == bits(one.rank)


def test_functions_share_a_shape_when_they_look_at_the_same_in_the_same_way():
    near = IdealPoint([Target("a", 1), Target("b", 2)])
    assert Shape.of(near) == Shape.of(IdealPoint([Target("b", 7, scale=3), Target("a", 9)]))
    assert Shape.of(near) != Shape.of(IdealPoint([Target("a", 1), Target("b", 2)], reach=1))
    assert Shape.of(near) != Shape.of(IdealPoint([Target("a", 1), Target("c", 2)]))
    assert Shape.of(near) != Shape.of(Closeness([Target("a", 1), Target("b", 2)]))
    assert Shape.of(Cosine("v", (1, 2))) != Shape.of(Cosine("v", (1, 2, 3)))


def test_a_column_can_be_given_to_another_function():
    columns = RelevanceColumns(Shape.of(Closeness([Target("a", 0)])))
    for column in range(40):
        columns.put(column, Closeness([Target("a", column, scale=100)]), 1.0, 1.0)
    columns.put(3, Closeness([Target("a", 50, scale=100)]), 0.5, 1.0)
    ranks = columns.ranks(columns.shape.features(Event.of({"a": 50}, id="1", source="/s")))
    assert len(ranks) == 40
    assert (ranks[3], ranks[10]) == (0.5, 0.6)
