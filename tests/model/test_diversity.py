"""Diversity as it is stated: equal however it was written, hashable, and checked."""

import math
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast.model.errors import InvalidSubscriptionError
from rankcast.model.policies import AllMatches, Continuous, Diversity, Periodic, Sliding, TopKWindow, diversity_of

HOUR = timedelta(hours=1)
weights = st.dictionaries(st.sampled_from("abc"), st.sampled_from((1, 0.1, 0.7, 3.0)))
contents = st.dictionaries(st.sampled_from("abcd"), st.sampled_from((0, -0.0, 1, 1.0, True, "1")))


def test_the_order_of_weights_does_not_matter():
    one, other = Diversity(0.5, {"a": 1, "b": 2}), Diversity(0.5, {"b": 2.0, "a": 1.0})
    assert one == other
    assert hash(one) == hash(other)
    assert list(one.weights) == list(other.weights) == ["a", "b"]


def test_weights_are_kept_as_they_were_stated():
    stated = {"a": 1.0}
    diversity = Diversity(0.5, stated)
    stated["a"] = 5.0
    assert diversity.weights == {"a": 1.0}


@pytest.mark.parametrize(("policy", "window"), [(Periodic, HOUR), (Sliding, 2), (TopKWindow, 2)])
def test_policies_with_diversity_stay_hashable_and_differ_from_those_without(policy, window):
    plain, diverse = policy(1, window), policy(1, window, Diversity(0.3, {"a": 1}))
    assert (diversity_of(plain), diversity_of(diverse)) == (None, Diversity(0.3, {"a": 1}))
    assert len({plain, diverse, policy(1, window)}) == 2


def test_what_delivers_on_arrival_alone_does_not_diversify():
    assert diversity_of(AllMatches()) is None
    assert diversity_of(Continuous(3)) is None


@given(weights, contents, contents)
def test_a_distance_is_symmetric_to_the_last_bit_and_from_0_to_1(chosen, first, second):
    diversity = Diversity(weights=chosen)
    assert diversity.distance(first, second) == diversity.distance(second, first)
    assert 0 <= diversity.distance(first, second) <= 1


@given(weights, contents, contents)
def test_a_distance_is_1_minus_the_weighted_share_of_equal_attributes(chosen, first, second):
    def kind(value):
        return (isinstance(value, bool), isinstance(value, str), value)

    counted = chosen or dict.fromkeys({*first, *second}, 1)
    alike = [name for name in counted if name in first and name in second and kind(first[name]) == kind(second[name])]
    share = math.fsum(counted[name] for name in alike) / math.fsum(counted.values()) if counted else 1
    assert Diversity(weights=chosen).distance(first, second) == pytest.approx(1 - share, abs=1e-12)


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"sigma": 1.1}, "sigma: 1.1 is not a number from 0 to 1"),
        ({"sigma": True}, "sigma"),
        ({"sigma": math.nan}, "sigma"),
        ({"sigma": "0.5"}, "sigma"),
        ({"weights": ["a"]}, "not a mapping"),
        ({"weights": {"a": 0}}, "weight of a: 0 is not a finite number above 0"),
        ({"weights": {"a": True}}, "weight of a"),
        ({"weights": {"a": math.inf}}, "weight of a"),
        ({"weights": {"": 1}}, "attribute name"),
        ({"weights": {1: 1}}, "attribute name"),
        ({"weights": {"a" * 1_001: 1}}, "weights: an attribute name is 1 to 1,000 characters, not"),
        ({"weights": {"a\ud800": 1}}, "attribute name"),
        ({"weights": {"a": 10**400}}, "too large"),
        ({"weights": {"a": 1e308, "b": 1e308}}, "their sum is not a finite number"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong, complaint):
    with pytest.raises(InvalidSubscriptionError, match=complaint):
        Diversity(**wrong)


@pytest.mark.parametrize(
    ("policy", "k", "window", "diversity", "complaint"),
    [
        *((policy, 1, HOUR, 0.5, r"diversity: 0\.5 is not a Diversity") for policy in (Periodic, TopKWindow)),
        (Sliding, 1, 2, 0.5, r"diversity: 0\.5 is not a Diversity"),
        (Sliding, 5_000, 5_000, Diversity(), "k: 5,000 is more than 1,000"),
        *((policy, 1_001, HOUR, Diversity(), "k: 1,001 is more than 1,000") for policy in (Periodic, TopKWindow)),
        (TopKWindow, 1_000, 2_000, Diversity(), "would take 2,000,000 distances per event; expected at most 1"),
    ],
)
def test_a_policy_takes_diversity_alone_and_no_selection_that_takes_too_long(policy, k, window, diversity, complaint):
    with pytest.raises(InvalidSubscriptionError, match=complaint):
        policy(k, window, diversity)


def test_up_to_the_bound_a_selection_is_accepted():
    assert Sliding(1_000, 1_000, Diversity()).k == 1_000
    assert Sliding(5_000, 5_000).k == 5_000
