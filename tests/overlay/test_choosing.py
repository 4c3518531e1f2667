"""Who of the matching subscriptions gets an event, and which broker suits a newcomer; chances are the stated ones.

Statistical tests use fixed seeds, so they do not flicker; a bound of 5 standard deviations would be exceeded by chance
with a probability below 1e-6 for each number looked at, were the seed drawn anew.
"""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rankcast.covering.topk.poset import Poset
from rankcast.language.parser import parse_filter
from rankcast.model.advertisements import AudienceRanking, Scoring, Ties
from rankcast.model.errors import InvalidValueError
from rankcast.model.events import Event
from rankcast.model.relevance import Closeness, Target
from rankcast.model.subscriptions import SubscriptionKey
from rankcast.overlay.broker_choice import best_broker, fit
from rankcast.overlay.messages import Interest, ScoreCount
from rankcast.overlay.routing.audiences import best_scores, chance, choose, levels, members, quotas, shares
from rankcast.overlay.routing.interests import Record

EVENT = Event("1", "/s", data={"x": 5})
RUNS = 20_000


def record(name, score=1.0, text="x > 0", relevance=None, one="1"):
    return Record(None, Interest(SubscriptionKey(name, one), parse_filter(text), score, relevance))


def is_near(count, probability):
    """Whether a count is within five deviations: one count in 1.7 million is not, by chance. Seeds are fixed."""
    deviation = (RUNS * probability * (1 - probability)) ** 0.5
    return abs(count - RUNS * probability) <= 5 * deviation


def test_chance_takes_each_next_in_proportion_to_its_weight_among_those_left():
    weights, random = np.array([1.0, 2.0, 5.0]), np.random.default_rng(1)
    found = [tuple(np.argsort(chance(weights, random)).tolist()) for _ in range(RUNS)]
    for order in permutations(range(3)):
        probability, left = 1.0, weights.sum()
        for at in order:
            probability *= weights[at] / left
            left -= weights[at]
        assert is_near(found.count(order), probability)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=6), st.integers(0, 20), st.integers(0, 99))
@example([2**53 - 1, 1], 3, 1)
@example([6 * 10**8, 5 * 10**8], 3, 1)
@example([2**53 - 1] * 30, 3, 1)
def test_quotas_fit_their_groups_and_add_up(counts, k, seed):
    drawn = quotas(counts, k, np.random.default_rng(seed))
    assert sum(drawn) == min(k, sum(counts))
    assert all(0 <= one <= count for one, count in zip(drawn, counts, strict=True))


def test_quotas_make_every_member_as_likely_as_any_other():
    random, counts, k = np.random.default_rng(2), [1, 3, 6], 2
    sums = np.sum([quotas(counts, k, random) for _ in range(RUNS)], axis=0)
    assert is_near(sums[0], k / sum(counts))  # of one member the share is its probability
    assert np.allclose(sums / RUNS, np.array(counts) * k / sum(counts), atol=0.05)


def test_scores_come_first_and_keys_or_chance_decide_between_equals():
    records, random = [record("c", 0.5), record("b"), record("a", 0.5), record("d", 0.1)], np.random.default_rng(3)
    by_id = AudienceRanking(Scoring.PREFERENCE, Ties.BY_ID)
    assert choose(records, 3, by_id, EVENT, random) == ["b", "a", "c"]
    assert choose(records, 2, AudienceRanking(Scoring.NONE, Ties.BY_ID), EVENT, random) == ["a", "b"]
    fair = AudienceRanking(Scoring.PREFERENCE, Ties.FAIR)
    second = [choose(records, 2, fair, EVENT, random) for _ in range(RUNS)]
    assert {one[0] for one in second} == {"b"}
    assert is_near(sum(one[1] == "a" for one in second), 1 / 2)


def test_by_relevance_the_score_depends_on_the_event():
    near, far = (record(str(at), 0.9, relevance=Closeness([Target("x", at, scale=10)])) for at in (4, 0))
    plain, ranking = record("plain", 0.7), AudienceRanking(Scoring.RELEVANCE, Ties.BY_ID)
    assert choose([far, plain, near], 3, ranking, EVENT) == ["4", "plain", "0"]
    assert choose([far, plain, near], 3, ranking, Event("2", "/s")) == ["plain"]


def test_by_diversity_those_come_first_that_nobody_resembles():
    records = [record(f"same{at}", text="x between 0 and 10") for at in range(3)]
    records += [record("other", text="x between 4 and 100")]
    assert choose(records, 1, AudienceRanking(Scoring.DIVERSITY), EVENT) == ["other"]


def test_a_subscriber_takes_one_place_by_its_best_and_stands_for_itself_once():
    records = [record("a", 0.4, one="low"), record("b", 0.5), record("a", 0.9, one="high"), record("c", 0.3)]
    ranking, random = AudienceRanking(Scoring.PREFERENCE, Ties.BY_ID), np.random.default_rng(4)
    assert choose(records, 2, ranking, EVENT) == ["a", "b"]
    assert best_scores(records, Scoring.PREFERENCE, EVENT) == {"a": 0.9, "b": 0.5, "c": 0.3}
    first = [choose(records, 1, AudienceRanking(), EVENT, random, [1.0, 1.0, 1.0, 1.0]) for _ in range(RUNS)]
    assert is_near(first.count(["a"]), 1 / 3)
    hiding = [choose(records, 1, AudienceRanking(), EVENT, random, [2.0, 1.0, 3.0, 1.0]) for _ in range(RUNS)]
    assert is_near(hiding.count(["a"]), 4 / 6)  # itself, one that the first hides, and two that the other hides


def test_without_a_generator_the_draws_are_those_of_the_event():
    records = [record(name) for name in "abcdefgh"]
    once, again = (choose(records, 3, AudienceRanking(), EVENT) for _ in "12")
    assert once == again != choose(records, 3, AudienceRanking(seed=1), EVENT)
    behind = [one for one in records if one.interest.key.subscriber in {*once[1:], "a", "b"} - {once[0]}]
    assert choose(behind, 2, AudienceRanking(), EVENT) == once[1:]


COUNTED = st.lists(st.tuples(st.sampled_from([0.1, 0.5, 0.9]), st.integers(0, 4)), max_size=4).map(
    lambda given: [ScoreCount(*one) for one in given]
)


@given(st.lists(COUNTED, min_size=1, max_size=4), st.integers(0, 9), st.integers(0, 9))
def test_shares_are_of_the_best_scores_and_levels_lose_nobody_who_could_be_chosen(groups, k, seed):
    told = [levels(group, k) for group in groups]
    drawn = shares(told, k, np.random.default_rng(seed))
    ranked = sorted((-score, at) for at, group in enumerate(groups) for score, count in group for _ in range(count))
    best = [-score for score, _ in ranked[:k]]
    assert sum(drawn) == len(best)
    for at in range(len(groups)):
        above = sum(own == at and -score > best[-1] for score, own in ranked) if best else 0
        equal = sum(own == at and -score == best[-1] for score, own in ranked) if best else 0
        assert above <= drawn[at] <= above + equal


def test_members_are_the_best_and_of_one_score_equally_likely():
    random, scores = np.random.default_rng(5), {"a": 0.5, "b": 0.9, "c": 0.5, "d": 0.5, "e": 0.1}
    found = [members(scores, 3, random) for _ in range(RUNS)]
    assert all(one[0] == "b" and "e" not in one for one in found)
    assert is_near(sum("a" in one for one in found), 2 / 3)
    assert sorted(members(scores, 9, random)) == sorted(scores)


def poset(*texts):
    made = Poset()
    for number, text in enumerate(texts):
        made.add(number, parse_filter(text))
    return made


def filters(*texts):
    return [parse_filter(text) for text in texts]


def test_of_equal_roots_the_smaller_poset_then_the_one_of_which_more_is_covered():
    wide = filters("length > 50")
    large, small = poset("length > 60", "length > 70"), poset("length > 60")
    assert best_broker({"large": large, "small": small}, wide) == "small"
    other = poset("rating > 3")
    assert best_broker({"other": other, "small": small}, wide) == "small"
    assert fit(small, wide).covered == 1


def test_filters_of_the_newcomer_count_once_and_not_below_each_other():
    empty = poset()
    assert fit(empty, filters("x > 1", "x > 1", "x > 2")).new_roots == 1
    assert fit(poset("x > 1"), filters("x > 1", "y > 2")).new_roots == 1
    with pytest.raises(InvalidValueError, match="no broker"):
        best_broker({}, filters("true"))
