"""Preference ranks and event ranks, rule by rule."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise, starmap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast.covering import specificity
from rankcast.language.parser import parse_filter
from rankcast.model.errors import PriorityCycleError
from rankcast.model.events import Event
from rankcast.model.relevance import Closeness, Decay, IdealPoint, Target
from rankcast.model.subscriptions import Priority, RankBy, Subscriber, Subscription
from rankcast.model.times import LATEST
from rankcast.ranking.preferences import Preferences, preference_ranks, winnow
from rankcast.ranking.relevance import decayed

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def subscriber(names, ranks=(), **options):
    owned = (Subscription(name, parse_filter("true"), dict(ranks).get(name)) for name in names)
    return Subscriber("ana", tuple(owned), **options)


def test_stated_ranks_are_kept_and_a_missing_one_is_1():
    assert preference_ranks(subscriber("abcd", {"a": 0.9, "b": 0})) == {"a": 0.9, "b": 0.0, "c": 1.0, "d": 1.0}


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)).filter(lambda pair: pair[0] < pair[1]), max_size=20))
def test_the_level_is_the_longest_chain_above(pairs):
    names = [str(number) for number in range(8)]
    levels = winnow(names, [Priority(str(first), str(then)) for first, then in pairs])
    longest = [0] * 8
    for number in range(8):
        longest[number] = 1 + max((longest[first] for first, then in pairs if then == number), default=0)
    assert {name: level for level, found in enumerate(levels, 1) for name in found} == {
        name: longest[int(name)] for name in names
    }


def test_long_priorities_are_levelled_without_looking_at_all_that_is_left_for_each_level():
    names = [str(number) for number in range(20_000)]
    chain = [Priority(first, then) for first, then in pairwise(names)]
    assert winnow(names, chain) == [[name] for name in names]
    with pytest.raises(PriorityCycleError) as caught:
        winnow(names, [*chain, Priority("19999", "0")])
    assert caught.value.cycle == tuple(names)


def test_levels_keep_the_order_of_the_subscriptions():
    priorities = [Priority("d", "c"), Priority("d", "a"), Priority("d", "b"), Priority("d", "a")]
    assert winnow(["c", "a", "d", "b"], priorities) == [["d"], ["c", "a", "b"]]


def test_ranks_by_priorities_are_added_up_in_the_order_of_the_subscriptions():
    priorities = tuple(starmap(Priority, pairwise("abcdef")))
    ranked = subscriber("fedcba", priorities=priorities, rank_by=RankBy.WEIGHTED_SUM)
    assert Preferences.of(ranked).counted(list("abcdef")) == list("fedcba")
    assert Preferences.of(ranked).event_rank(list("abcdef")) == 1 / 6 + 1 / 5 + 1 / 4 + 1 / 3 + 1 / 2 + 1 / 1


def test_most_specific_of_many_subscriptions_are_found_without_comparing_each_pair(monkeypatch):
    monkeypatch.setattr(specificity, "covers", pytest.fail)
    many = tuple(Subscription(str(number), parse_filter(f"x < {number}")) for number in range(5_000))
    preferences = Preferences.of(Subscriber("ana", many, most_specific=True))
    assert preferences.counted([str(number) for number in range(100, 5_000)]) == ["100"]


def near(attribute, value, scale=10):
    return Closeness([Target(attribute, value, scale)])


def with_relevance(*subscriptions, **options):
    """Return preferences over subscriptions given as (id, rank, relevance), with weights 1, 2, ..."""
    made = tuple(
        Subscription(name, parse_filter("true"), rank, weight, relevance=relevance)
        for weight, (name, rank, relevance) in enumerate(subscriptions, start=1)
    )
    return Preferences.of(Subscriber("ana", made, **options))


def event(**attributes):
    return Event.of(attributes, id="1", source="/s")


class TestRelevance:
    def test_priorities_count_as_ranks(self):
        preferences = with_relevance(
            ("a", None, near("x", 0)), ("b", None, near("x", 0)), priorities=(Priority("a", "b"),)
        )
        assert preferences.ranked(event(x=5), ["b"]) == (0.5 * 0.5, ("b",))

    @pytest.mark.parametrize(
        ("rank_by", "expected"),
        [
            (RankBy.MAX, 0.75),
            (RankBy.MIN, 0.25),
            (RankBy.MEAN, (0.75 + 0.25 + 0.5) / 3),
            (RankBy.WEIGHTED_SUM, 0.75 + 2 * 0.25 + 3 * 0.5),
        ],
    )
    def test_relevances_and_ranks_are_combined_alike(self, rank_by, expected):
        preferences = with_relevance(
            ("a", None, near("x", 0, 4)), ("b", 0.5, near("x", 0, 2)), ("c", 0.5, None), rank_by=rank_by
        )
        assert preferences.ranked(event(x=1), ["a", "b", "c"]) == (expected, ("a", "b", "c"))

    def test_of_several_ideal_points_the_nearest_counts(self):
        points = [IdealPoint([Target("x", value)]) for value in (0, 10)]
        preferences = with_relevance(("a", None, points[0]), ("b", None, points[1]))
        assert preferences.ranked(event(x=8), ["a", "b"]) == (-2, ("a", "b"))

    def test_a_subscription_to_which_an_event_is_not_relevant_does_not_rank_it(self):
        preferences = with_relevance(("a", None, near("x", 0)), ("b", 0.1, None), rank_by=RankBy.MIN)
        assert preferences.ranked(event(y=0), ["a", "b"]) == (0.1, ("b",))
        assert preferences.ranked(event(y=0), ["a"]) is None

    def test_such_a_subscription_hides_no_more_general_one(self):
        wide = Subscription("wide", parse_filter("true"), 0.9)
        narrow = Subscription("narrow", parse_filter("y = 0"), relevance=near("x", 0))
        preferences = Preferences.of(Subscriber("ana", (wide, narrow), most_specific=True))
        assert preferences.ranked(event(y=0), ["wide", "narrow"]) == (0.9, ("wide",))
        assert preferences.ranked(event(y=0, x=10), ["wide", "narrow"]) == (0.0, ("wide", "narrow"))


def test_the_score_is_the_rank_unless_there_is_decay():
    daily = Decay(timedelta(days=1))
    assert with_relevance(("a", 0.5, None)).score(0.5, NOON) == 0.5
    assert with_relevance(("a", 0.5, None), decay=daily).score(0.5, NOON) == decayed(0.5, NOON, daily)


@pytest.mark.parametrize(
    ("refreshes", "stated", "expected"),
    [((2,), None, 2), ((2,), 1, 1), ((2,), 3, 2), ((1, 3, 2), None, 3), ((1, None), None, None), ((1, None), 2, 2)],
)
def test_an_event_expires_at_its_own_expiry_or_sooner_at_the_largest_refresh_after_its_time(
    refreshes, stated, expected
):
    owned = {str(at): None if hours is None else hours * HOUR for at, hours in enumerate(refreshes)}
    found = with_refresh(owned).expires(list(owned), NOON, None if stated is None else NOON + stated * HOUR)
    assert found == (None if expected is None else NOON + expected * HOUR)


def test_a_refresh_beyond_the_end_of_time_is_none():
    assert with_refresh({"a": timedelta.max}).expires(["a"], NOON, None) is None
    assert with_refresh({"a": HOUR}).expires(["a"], LATEST, LATEST) == LATEST


def with_refresh(refreshes):
    owned = {**refreshes, "other": timedelta(days=9)}
    made = (Subscription(name, parse_filter("true"), refresh=refresh) for name, refresh in owned.items())
    return Preferences.of(Subscriber("ana", tuple(made)))
