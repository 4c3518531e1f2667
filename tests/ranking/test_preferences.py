"""Preference ranks and event ranks, rule by rule."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast.language.parser import parse_filter
from rankcast.model.errors import PriorityCycleError
from rankcast.model.subscriptions import Priority, RankBy, Subscriber, Subscription
from rankcast.ranking.preferences import Preferences, preference_ranks, winnow


def subscriber(filters, *, ranks=None, weights=None, **options):
    subscriptions = tuple(
        Subscription(
            name,
            parse_filter(text),
            None if ranks is None else ranks.get(name),
            1.0 if weights is None else weights[name],
        )
        for name, text in filters.items()
    )
    return Subscriber("ana", subscriptions, **options)


ANY = {"a": "true", "b": "true", "c": "true", "d": "true"}


def test_stated_ranks_are_kept_and_a_missing_one_is_1():
    assert preference_ranks(subscriber(ANY, ranks={"a": 0.9, "b": 0})) == {"a": 0.9, "b": 0.0, "c": 1.0, "d": 1.0}


def test_winnow_level_l_gets_rank_1_over_l_and_unnamed_subscriptions_are_on_level_1():
    ranked = subscriber(ANY, priorities=(Priority("a", "b"), Priority("b", "c")))
    assert preference_ranks(ranked) == {"a": 1.0, "b": 1 / 2, "c": 1 / 3, "d": 1.0}


def test_a_subscription_waits_for_all_that_are_before_it():
    ranked = subscriber(
        ANY, priorities=(Priority("a", "c"), Priority("b", "c"), Priority("a", "b"), Priority("c", "d"))
    )
    assert preference_ranks(ranked) == {"a": 1.0, "b": 1 / 2, "c": 1 / 3, "d": 1 / 4}


def test_a_cycle_is_an_error_that_names_it():
    with pytest.raises(PriorityCycleError, match="b before c before d before b") as caught:
        preference_ranks(
            subscriber(ANY, priorities=(Priority("a", "b"), Priority("b", "c"), Priority("c", "d"), Priority("d", "b")))
        )
    assert set(caught.value.cycle) == {"b", "c", "d"}


def test_a_subscription_before_itself_is_a_cycle():
    with pytest.raises(PriorityCycleError, match="a before a"):
        preference_ranks(subscriber(ANY, priorities=(Priority("a", "a"),)))


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


@pytest.mark.parametrize(
    ("rank_by", "expected"),
    [(RankBy.MAX, 0.9), (RankBy.MIN, 0.2), (RankBy.MEAN, (0.9 + 0.2) / 2), (RankBy.WEIGHTED_SUM, 0.9 * 2 + 0.2 * 10)],
)
def test_the_rank_of_an_event_combines_those_of_the_matching_subscriptions(rank_by, expected):
    ranked = subscriber(
        ANY,
        ranks={"a": 0.9, "b": 0.2, "c": 0.1},
        weights={"a": 2, "b": 10, "c": 1, "d": 1},
        rank_by=rank_by,
    )
    assert Preferences.of(ranked).event_rank(["b", "a"]) == expected


def test_most_specific_leaves_out_what_strictly_covers_another_match():
    films = {"drama": "genre = 'drama'", "burton": "genre = 'drama' and director = 'T. Burton'", "long": "length > 180"}
    ranked = subscriber(films, ranks={"drama": 0.9, "burton": 0.8, "long": 0.1}, most_specific=True)
    preferences = Preferences.of(ranked)
    assert preferences.event_rank(["drama", "burton"]) == 0.8
    assert preferences.event_rank(["drama", "burton", "long"]) == 0.8
    assert preferences.event_rank(["drama", "long"]) == 0.9


def test_most_specific_keeps_equal_subscriptions():
    ranked = subscriber({"a": "x > 1", "b": "not (x <= 1)"}, ranks={"a": 0.3, "b": 0.7}, most_specific=True)
    assert Preferences.of(ranked).counted(["a", "b"]) == ["a", "b"]
