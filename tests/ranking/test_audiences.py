"""The one selector of the k best subscribers equals its definition, and chance is fair and repeatable.

Statistical tests use fixed seeds; a bound of 5 standard deviations would be exceeded by chance once in 1.7 million.
"""

from itertools import groupby, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast.language.parser import parse_filter
from rankcast.model.advertisements import AudienceLimit, AudienceRanking, Scoring, Ties
from rankcast.model.events import Event, Identity
from rankcast.model.relevance import Closeness, Target
from rankcast.ranking.audiences import (
    by_id,
    distance_rows,
    diverse_scores,
    draws,
    event_number,
    relevant_score,
    select,
    subscriber_number,
)
from rankcast.testing.definitions import chosen_subscribers

MATCHES = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from(["ana", "bo", "cy", "di", "eva"]), st.sampled_from([0.0, 0.5, 1.0])),
    max_size=40,
)


@given(
    matches=MATCHES,
    k=st.integers(0, 6),
    scoring=st.sampled_from([Scoring.NONE, Scoring.PREFERENCE]),
    ties=st.sampled_from(Ties),
    seed=st.integers(0, 3),
)
def test_of_one_event_and_of_many_it_selects_whom_the_definition_names(matches, k, scoring, ties, seed):
    matches = sorted(matches, key=lambda one: one[0])
    events = [Identity("/s", str(number)) for number in range(3)]
    event = np.array([at for at, _, _ in matches], np.int64)
    places = by_id(name for _, name, _ in matches)
    scores = None if scoring is Scoring.NONE else np.array([score for _, _, score in matches])
    keys = np.array([subscriber_number(name) for _, name, _ in matches], np.uint64)
    numbers = np.array([event_number(seed, identity) for identity in events], np.uint64)
    order = places if ties is Ties.BY_ID else draws(numbers[event], keys)
    limit = AudienceLimit(k, AudienceRanking(scoring, ties, seed))
    expected = []
    for at, own in groupby(matches, key=lambda one: one[0]):
        wanted = [(name, 0.0 if scoring is Scoring.NONE else score) for _, name, score in own]
        expected += [(at, name) for name in chosen_subscribers(limit, events[at], wanted)]
    found = select(places, scores, order, np.full(3, k), event).tolist()
    assert [matches[position][:2] for position in found] == expected
    singly = []
    for at in range(3):
        own = np.flatnonzero(event == at)
        of_one = select(places[own], None if scores is None else scores[own], order[own], k)
        singly += own[of_one].tolist()
    assert singly == found
    if scores is not None:
        best = {(at, name): max(s for e, n, s in matches if (e, n) == (at, name)) for at, name in expected}
        assert [matches[position][2] for position in found] == list(best.values())


@given(
    owners=st.lists(st.integers(0, 30), min_size=60, max_size=120),
    levels=st.none() | st.integers(1, 4),
    k=st.integers(0, 9),
    seed=st.integers(0, 9),
)
def test_looking_at_the_best_few_first_changes_nothing(owners, levels, k, seed):
    random = np.random.default_rng(seed)
    subscriber = np.array(owners)
    scores = None if levels is None else random.integers(0, levels, len(owners)).astype(float)
    order = random.permutation(31)[subscriber]
    best = sorted(range(len(owners)), key=lambda at: (0 if scores is None else -scores[at], order[at], at))
    expected = list({owners[at]: at for at in reversed(best)}.values())[::-1]
    expected.sort(key=best.index)
    assert select(subscriber, scores, order, k).tolist() == expected[:k]
    few = len(owners) // 20
    events = np.repeat([0, 1, 3], [len(owners), few, len(owners)])
    columns = (None if one is None else np.concatenate([one, one[:few], one]) for one in (subscriber, scores, order))
    found = select(*columns, np.array([k, 30, 2, 1]), events)
    assert events[found].tolist() == sorted(events[found].tolist())
    assert found[events[found] == 0].tolist() == expected[:k]
    assert found[events[found] == 3].tolist() == [len(owners) + few + at for at in expected[:1]]
    own = select(subscriber[:few], None if scores is None else scores[:few], order[:few], 30)
    assert found[events[found] == 1].tolist() == [len(owners) + at for at in own.tolist()]


def test_every_order_of_subscribers_is_as_likely_as_any_other_over_events_and_over_seeds():
    keys = np.array([subscriber_number(name) for name in ("ana", "bo", "cy")], np.uint64)
    runs = 12_000
    for numbers in (
        [event_number(0, Identity("/s", str(number))) for number in range(runs)],
        [event_number(seed, Identity("/s", "1")) for seed in range(runs)],
    ):
        orders = [tuple(np.argsort(draws(number, keys)).tolist()) for number in numbers]
        for order in permutations(range(3)):
            assert abs(orders.count(order) - runs / 6) < 5 * (runs * 1 / 6 * 5 / 6) ** 0.5


def test_a_draw_depends_on_seed_source_and_id_and_on_where_one_ends():
    named = [Identity("/s", "1"), Identity("/s", "2"), Identity("/t", "1"), Identity("/s1", ""), Identity("", "/s1")]
    numbers = {event_number(seed, identity) for seed in (0, 1) for identity in named}
    assert len(numbers) == 2 * len(named)


def test_by_relevance_a_match_scores_its_rank_times_the_relevance_and_without_relevance_it_is_none():
    near = Closeness([Target("x", 4, scale=10)])
    assert relevant_score(0.5, near, Event("1", "/s", data={"x": 9})) == 0.25
    assert relevant_score(0.5, None, Event("1", "/s")) == 0.5
    assert relevant_score(0.5, near, Event("1", "/s")) is None


def test_diverse_ones_are_those_that_nobody_resembles():
    same, other = parse_filter("x between 0 and 10"), parse_filter("x between 4 and 100")
    assert diverse_scores([same, same, same, other]).argmax() == 3


BOXES = st.tuples(st.integers(0, 8), st.integers(0, 8), st.integers(0, 3), st.integers(0, 3))


def box(sides):
    x1, x2, y1, y2 = sides
    return parse_filter(f"x between {min(x1, x2)} and {max(x1, x2)} and y between {min(y1, y2)} and {max(y1, y2)}")


def distances(filters):
    return np.array(list(distance_rows(filters)))


@given(st.lists(BOXES, min_size=1, max_size=6))
def test_the_distance_of_filters_is_a_metric(drawn):
    found = distances([box(one) for one in drawn])
    assert np.all(found >= 0)
    assert np.all(found <= 1)
    assert np.allclose(found, found.T)
    equal = [[box(one) == box(other) for other in drawn] for one in drawn]
    assert np.array_equal(found < 1e-12, equal)
    for middle in range(len(drawn)):
        assert np.all(found <= found[:, [middle]] + found[[middle], :] + 1e-9)


@given(st.lists(BOXES, min_size=1, max_size=6))
def test_the_distance_does_not_depend_on_units(drawn):
    grown = [(x1**3, x2**3, 7 * y1, 7 * y2) for x1, x2, y1, y2 in drawn]
    assert np.array_equal(distances([box(one) for one in drawn]), distances([box(one) for one in grown]))


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("x < 5", "x < 5", 0.0),
        ("x < 5", "x > 5", 1.0),
        ("x = 1", "y = 1", 1 - 1 / 5),  # of 3 x 3 cells each has a row of 3, and they share 1
        ("name prefix 'a'", "name prefix 'ab'", 1 - 1 / 3),
    ],
)
def test_distances_count_cells(one, other, expected):
    assert distances([parse_filter(one), parse_filter(other)])[0, 1] == pytest.approx(expected)
