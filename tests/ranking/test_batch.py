"""Ranking a batch gives, bit for bit, what ranking event by event gives."""

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rankcast.model.events import Event
from rankcast.model.expressions import Constant, attr
from rankcast.model.filters import Filter
from rankcast.model.relevance import Closeness, Cosine, Decay, IdealPoint, Target
from rankcast.model.subscriptions import RankBy, Subscriber, Subscription
from rankcast.model.times import TICK
from rankcast.ranking.batch import Features, RankingTable, rank_batch
from rankcast.ranking.preferences import Preferences
from rankcast.testing.strategies import VECTOR, events, subscribers, times, vectors

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NEVER = 2**63 - 1
ALL = Filter.of(Constant(True))


def _micros(time):
    return NEVER if time is None else (time - EPOCH) // TICK


def _is_number(value):
    return isinstance(value, int | float) and not isinstance(value, bool)


def _features(ranking, published):
    numbers = {
        name: np.array([float(v) if _is_number(v := one.attributes.get(name)) else math.nan for one in published])
        for name in ranking.numbers
    }
    vectors = {}
    for name in ranking.vectors:
        lists = [one.vector(name) or () for one in published]
        starts = np.cumsum([0, *map(len, lists)])
        vectors[name] = (starts, np.array([number for own in lists for number in own]))
    return Features.of(ranking, len(published), numbers, vectors)


def _ranked(people, published, matched, queues=None):
    """Rank a batch; `matched` are the numbers of each event's subscriptions, in any order."""
    owners = [at for at, one in enumerate(people) for _ in one.subscriptions]
    ranking = RankingTable.of(people, owners if queues is None else queues)
    offsets = np.cumsum([0, *map(len, matched)]).astype(np.int64)
    numbers = np.array([number for own in matched for number in own], np.int64)
    stamps = np.array([_micros(one.time) for one in published], np.int64)
    expires = np.array([_micros(one.expires) for one in published], np.int64)
    return rank_batch(ranking, offsets, numbers, stamps, expires, _features(ranking, published))


def _expected(people, published, matched):
    """The same by `Preferences`, event by event: (event, queue, rank, score, expires, matched)."""
    names = [(at, subscription.id) for at, one in enumerate(people) for subscription in one.subscriptions]
    for event, own in enumerate(matched):
        for queue, subscriber in enumerate(people):
            satisfied = [name for at, name in map(names.__getitem__, sorted(own)) if at == queue]
            preferences = Preferences.of(subscriber)
            one = published[event]
            ranked = preferences.ranked(one, satisfied) if satisfied else None
            if ranked is not None:
                score = preferences.score(ranked.rank, one.time)
                expires = _micros(preferences.expires(ranked.matched, one.time, one.expires))
                yield event, queue, ranked.rank, score, expires, [names.index((queue, name)) for name in ranked.matched]


def _rows(found):
    ends = found.matched_start.tolist()
    matched = [found.matched[first:last].tolist() for first, last in pairwise(ends)]
    return list(zip(*(column.tolist() for column in found[:5]), matched, strict=True))


@st.composite
def _batches(draw):
    people = draw(st.lists(subscribers(), max_size=4, unique_by=lambda one: one.id))
    count = sum(len(one.subscriptions) for one in people)
    published = [
        replace(one, time=draw(times()), data=one.data if (v := draw(st.none() | vectors())) is None else {VECTOR: v})
        for one in draw(st.lists(events(), max_size=5))
    ]
    numbers = st.sets(st.integers(0, count - 1)) if count else st.just(set())
    matched = [draw(st.permutations(sorted(draw(numbers)))) for _ in published]
    return people, published, matched


@given(_batches())
def test_ranks_scores_expiries_and_matches_are_those_of_preferences(batch):
    found = _rows(_ranked(*batch))
    assert found == list(_expected(*batch))
    assert [math.copysign(1, row[2]) for row in found] == [math.copysign(1, row[2]) for row in _expected(*batch)]


def _event(**data):
    return Event("1", "/s", time=datetime(2026, 3, 1, tzinfo=UTC), data=data)


@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=6),
    st.lists(st.floats(0, 1e3), min_size=6, max_size=6),
    st.sampled_from(RankBy),
    st.none() | st.timedeltas(TICK, timedelta(days=999_999_999)),
    times(),
)
def test_any_ranks_weights_half_lives_and_times(ranks, weights, how, half_life, time):
    owned = [Subscription(str(at), ALL, rank, weights[at]) for at, rank in enumerate(ranks)]
    someone = Subscriber("a", tuple(owned), rank_by=how, decay=None if half_life is None else Decay(half_life))
    batch = [someone], [replace(_event(), time=time)], [list(range(len(ranks)))]
    assert _rows(_ranked(*batch)) == list(_expected(*batch))


@given(
    st.lists(st.tuples(st.floats(-1e9, 1e9), st.floats(1e-3, 1e3), st.floats(1e-3, 1e3)), min_size=3, max_size=3),
    st.lists(st.floats(-1e9, 1e9), min_size=3, max_size=3),
    st.lists(st.floats(-1e3, 1e3), min_size=3, max_size=3).filter(any),
    st.lists(st.integers(-1000, 1000) | st.floats(-1e3, 1e3), min_size=3, max_size=3),
)
def test_relevance_is_worked_out_in_the_same_order_with_the_same_roundings(targets, point, wanted, vector):
    aims = [Target(name, *numbers) for name, numbers in zip("xyz", targets, strict=True)]
    functions = (IdealPoint(aims), IdealPoint(aims, reach=1e9), Closeness(aims), Cosine("v", wanted))
    people = [Subscriber(str(at), (Subscription("1", ALL, relevance=one),)) for at, one in enumerate(functions)]
    batch = people, [_event(**dict(zip("xyz", point, strict=True)), v=vector)], [[0, 1, 2, 3]]
    assert _rows(_ranked(*batch)) == list(_expected(*batch))


def test_a_vector_with_what_is_no_finite_number_has_no_relevance():
    someone = Subscriber("a", (Subscription("1", ALL, relevance=Cosine("v", (1.0, 2.0))),))
    ranking = RankingTable.of([someone], [0])
    elements = np.array([1.0, 2.0, math.inf, 1.0, math.nan, 1.0, 0.0, 0.0, 1.0])
    features = Features.of(ranking, 6, {}, {"v": (np.array([0, 2, 4, 6, 8, 9, 9]), elements)})
    times = np.zeros(6, np.int64)
    found = rank_batch(ranking, np.arange(7), np.zeros(6, np.int64), times, times + NEVER, features)
    assert found.event.tolist() == [0]


def test_subscriptions_of_one_subscriber_may_have_queues_of_their_own():
    owned = [Subscription(name, ALL, rank) for name, rank in (("a", 0.25), ("b", 0.5), ("c", 0.75))]
    found = _ranked([Subscriber("s", tuple(owned))], [_event()], [[2, 0, 1]], queues=[4, 9, 4])
    assert [row[1:3] + row[5:] for row in _rows(found)] == [(4, 0.75, [0, 2]), (9, 0.5, [1])]


def test_the_most_specific_of_many_are_found():
    owned = [Subscription(str(number), Filter.of(attr("rent") < number), number / 2_000) for number in range(2_000)]
    owned.append(Subscription("cheapest", owned[700].filter, 0.1))
    someone = Subscriber("s", tuple(owned[::-1]), rank_by=RankBy.MEAN, most_specific=True)
    batch = [someone], [_event(rent=699), _event(rent=1500)], [range(1_301), range(1, 500)]
    found = _rows(_ranked(*batch))
    assert [row[2] for row in found] == [(0.1 + 0.35) / 2, 1501 / 2_000]
    assert found == list(_expected(*batch))
