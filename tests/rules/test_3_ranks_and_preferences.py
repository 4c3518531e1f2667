"""Section 3 of the rules: ranks, preferences, relevance, diversity. One class per rule, one test per correction."""

import math
import random
from datetime import timedelta
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rankcast as rc
from rankcast.delivery.engine.contents import Contents
from rankcast.delivery.rules.queues import diverse_selection, selected_by_kernel, selection_arguments
from rankcast.model.errors import InvalidSubscriptionError, PriorityCycleError
from rankcast.model.policies import Diversity
from rankcast.model.relevance import Closeness, Cosine, Decay, IdealPoint, Target
from rankcast.model.subscriptions import Priority, RankBy, Subscriber, Subscription
from rankcast.ranking.diversity import diverse_best, list_diversity, most_diverse
from rankcast.ranking.preferences import Preferences, preference_ranks, winnow
from rankcast.ranking.relevance import decayed, relevance_of
from rule_builders import at, event, seconds

DRAMA = "genre = 'drama'"
BURTON = "genre = 'drama' and director = 'Burton'"


def subscriber(filters, **options):
    """Return a subscriber with a subscription a, b, c, ... for each filter: texts, or texts with ranks."""
    ranks = filters.values() if isinstance(filters, dict) else [None] * len(filters)
    owned = (
        Subscription(name, rc.parse_filter(text), rank)
        for name, text, rank in zip("abcdefgh", filters, ranks, strict=False)
    )
    return Subscriber("ana", tuple(owned), **options)


def unlike(one, other):
    return float(one != other)


def apart(one, other):
    return abs(one - other)


class TestRule1PreferenceRanks:
    def test_quantitative_a_rank_in_0_to_1_on_each_subscription(self):
        assert preference_ranks(subscriber({DRAMA: 0.9, BURTON: 0.8})) == {"a": 0.9, "b": 0.8}
        for wrong in (-0.1, 1.1, math.nan):
            with pytest.raises(InvalidSubscriptionError, match="from 0 to 1"):
                subscriber({DRAMA: wrong})

    def test_qualitative_winnow_level_l_gets_rank_1_over_l(self):
        conditions = [Priority("a", "b"), Priority("a", "c"), Priority("b", "d"), Priority("c", "d")]
        ranks = preference_ranks(subscriber([DRAMA] * 4, priorities=tuple(conditions)))
        assert ranks == {"a": 1, "b": 1 / 2, "c": 1 / 2, "d": 1 / 3}

    def test_subscriptions_named_in_no_condition_are_level_1(self):
        assert winnow(["a", "b", "c"], [Priority("a", "b")]) == [["a", "c"], ["b"]]

    def test_a_cycle_is_an_error_that_names_the_cycle(self):
        conditions = (Priority("a", "b"), Priority("b", "c"), Priority("c", "d"), Priority("d", "b"))
        with pytest.raises(PriorityCycleError, match="b before c before d before b") as caught:
            preference_ranks(subscriber([DRAMA] * 4, priorities=conditions))
        assert caught.value.cycle == ("b", "c", "d")

    def test_a_subscription_before_itself_is_a_cycle(self):
        with pytest.raises(PriorityCycleError, match="a before a"):
            preference_ranks(subscriber([DRAMA], priorities=(Priority("a", "a"),)))

    def test_the_hub_refuses_a_cycle_and_stays_as_it_was(self):
        hub = rc.Hub()
        with pytest.raises(PriorityCycleError):
            hub.subscribe("ana", ["x = 1", "x = 2"], priorities=["1 before 2", "2 before 1"])
        assert hub.subscribers == ()


class TestRule2EventRanks:
    @pytest.mark.parametrize(
        ("by", "rank"),
        [(RankBy.MAX, 0.9), (RankBy.MIN, 0.8), (RankBy.MEAN, 0.85), (RankBy.WEIGHTED_SUM, 2 * 0.9 + 3 * 0.8)],
    )
    def test_f_is_max_min_mean_or_weighted_sum(self, by, rank):
        owned = tuple(
            Subscription(name, rc.parse_filter(text), stated, weight)
            for name, text, stated, weight in (("a", DRAMA, 0.9, 2), ("b", BURTON, 0.8, 3))
        )
        assert Preferences.of(Subscriber("ana", owned, rank_by=by)).event_rank(["a", "b"]) == pytest.approx(rank)

    def test_max_is_the_default(self):
        assert Preferences.of(subscriber({DRAMA: 0.9, BURTON: 0.8})).event_rank(["a", "b"]) == 0.9

    def test_f_is_applied_to_all_of_the_most_specific_ones(self):
        ana = subscriber({DRAMA: 1.0, BURTON: 0.8, "year > 2000": 0.4}, most_specific=True, rank_by=RankBy.MEAN)
        assert Preferences.of(ana).event_rank(["a", "b", "c"]) == pytest.approx(0.6)

    def test_equal_filters_do_not_drop_each_other(self):
        ana = subscriber([DRAMA, "not (not (genre = 'drama'))"], most_specific=True)
        assert Preferences.of(ana).counted(["a", "b"]) == ["a", "b"]


class TestRule3Relevance:
    def test_the_distance_to_an_ideal_point_is_negated_so_that_larger_is_better(self):
        wanted = IdealPoint([Target("x", 0), Target("y", 0)])
        assert relevance_of(event("1", x=3, y=4), wanted) == -5

    def test_distances_are_weighted_and_scaled(self):
        wanted = IdealPoint([Target("rent", 700, scale=100, weight=4), Target("rooms", 3)])
        assert relevance_of(event("1", rent=900, rooms=3), wanted) == -4

    def test_closeness_per_attribute(self):
        wanted = Closeness([Target("rent", 700, scale=200), Target("rooms", 3, scale=2, weight=3)])
        assert relevance_of(event("1", rent=750, rooms=4), wanted) == pytest.approx((0.75 + 3 * 0.5) / 4)

    def test_cosine_of_vectors_is_mapped_to_0_to_1(self):
        wanted = Cosine("v", [1, 0])
        found = [relevance_of(event("1", v=vector), wanted) for vector in ([2, 0], [0, 5], [-1, 0])]
        assert found == pytest.approx([1, 0.5, 0])

    def test_relevance_is_combined_with_ranks_only_on_a_declared_scale(self):
        with pytest.raises(InvalidSubscriptionError, match="needs a reach"):
            Subscription("s", rc.parse_filter("true"), 0.5, relevance=IdealPoint([Target("x", 0)]))
        scaled = Subscription("s", rc.parse_filter("true"), 0.5, relevance=IdealPoint([Target("x", 0)], reach=10))
        ranked = Preferences.of(Subscriber("ana", (scaled,))).ranked(event("1", x=4), ["s"])
        assert ranked.rank == pytest.approx(0.5 * 0.6)

    def test_diversity_needs_relevance_on_a_declared_scale(self):
        plain = Subscription("s", rc.parse_filter("true"), relevance=IdealPoint([Target("x", 0)]))
        with pytest.raises(InvalidSubscriptionError):
            Subscriber("ana", (plain,), rc.Sliding(2, 10, diversity=Diversity()))

    def test_exact_ties_stay_ties_on_every_code_path(self):
        """0.1 * 0.1 + 0.3 * 0.3, computed with a fused multiply-add, is another float, and not symmetric any more.

        Points that are mirror images at distances with rounding are exact ties for the function, for the dense kernel
        in its short form for two dimensions, and for its general form (a third dimension of zeros); so the newer wins.
        """
        rounding = random.Random(5)
        pairs = [(rounding.random() / 3, rounding.random() / 7) for _ in range(200)]
        wanted = IdealPoint([Target("x", 0), Target("y", 0)])
        for x, y in pairs:
            assert (
                len({relevance_of(event("1", x=one, y=other), wanted) for one, other in ((x, y), (-x, y), (y, x))}) == 1
            )

    def test_forward_decay_depends_on_the_event_s_own_time_only(self):
        hourly = Decay(seconds(3600))
        assert decayed(0.5, at(3600), hourly) == pytest.approx(decayed(1.0, at(0), hourly))

    @given(st.tuples(st.integers(1, 64), st.integers(0, 99)), st.tuples(st.integers(1, 64), st.integers(0, 99)))
    def test_forward_decay_never_changes_the_order_of_two_events(self, one, other):
        """Whenever they are compared: a hub that sees more events in between orders them alike."""
        decay = Decay(seconds(10))
        ranked = [(rank / 64, at(time)) for rank, time in (one, other)]
        scores = [decayed(rank, time, decay) for rank, time in ranked]
        for now in (at(100), at(10_000), at(1_000_000)):
            logs = [math.log2(rank) - (now - time) / decay.half_life for rank, time in ranked]
            if abs(logs[0] - logs[1]) > 1e-6:
                assert (logs[0] > logs[1]) == (scores[0] > scores[1])

    def test_decay_is_exponential_and_has_one_parameter(self):
        with pytest.raises(InvalidSubscriptionError, match="half_life"):
            Decay(timedelta(0))
        gains = [decayed(1.0, at(60 * n), Decay(seconds(60))) for n in range(4)]
        assert np.diff(gains) == pytest.approx([1, 1, 1])


class TestRule4Diversity:
    GENRES = ("comedy", "drama", "drama", "drama", "horror", "sci-fi")
    RANKS = (0.9, 0.75, 0.75, 0.75, 0.65, 0.6)

    def test_distance_is_1_minus_the_weighted_share_of_equal_attributes(self):
        weighted = Diversity(weights={"genre": 3, "year": 1})
        assert weighted.distance({"genre": "war", "year": 1}, {"genre": "war", "year": 2}) == 0.25
        assert Diversity().distance({"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 2, "c": 4}) == pytest.approx(1 / 3)

    def test_two_lists_are_equal_to_the_extent_of_their_overlap(self):
        by_cast = Diversity(weights={"cast": 1})
        assert by_cast.distance({"cast": ("a", "b", "c")}, {"cast": ("b", "a", "d")}) == 0.5
        assert by_cast.distance({"cast": ("a", "b")}, {"cast": "a"}) == 0.5
        assert by_cast.distance({"cast": ()}, {"cast": ()}) == 0
        assert by_cast.distance({"cast": (1,)}, {"cast": (True,)}) == 1

    def test_list_diversity_is_the_mean_over_pairs(self):
        assert list_diversity([0, 1, 3], apart) == (1 + 3 + 2) / 3

    def test_greedy_selection_takes_the_best_rank_first(self):
        assert diverse_best(["a", "b", "c"], [0.2, 0.9, 0.3], 1, 0.0, unlike) == [1]

    def test_then_the_largest_divrank(self):
        ranks = [0.9, 0.8, 0.5]
        assert diverse_best(["drama", "drama", "war"], ranks, 2, 0.5, unlike) == [0, 2]
        assert diverse_best(["drama", "drama", "war"], ranks, 2, 0.9, unlike) == [0, 1]

    def test_steps_and_kernels_select_as_the_definition_does(self):
        contents = [(("genre", genre),) for genre in self.GENRES]
        assert diverse_selection(contents, self.RANKS, 4, Diversity()) == [0, 1, 4, 5]
        assert selected_by_kernel(selection_arguments(contents, Diversity()), self.RANKS, 4) == [0, 1, 4, 5]

    def test_erratum_property_4_1_divides_by_one_more_than_it_prints(self):
        """DIS(e', L + e) = (DIS(e', L) |L| + DIS(e, e')) / (|L| + 1); printed with |L| - 1 and |L|."""
        selected, added, other = ["a", "c"], "b", "b"
        mean = sum(unlike(other, one) for one in (*selected, added)) / 3
        before = sum(unlike(other, one) for one in selected) / 2
        assert (before * 2 + unlike(other, added)) / 3 == mean
        assert (before * 1 + unlike(other, added)) / 2 != mean

    @given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), min_size=2, max_size=8), st.integers(2, 6))
    def test_the_incremental_update_selects_as_the_definition_does(self, films, k):
        items, ranks = [genre for genre, _ in films], [rank / 4 for _, rank in films]
        selected = diverse_best(items, ranks, k, 0.5, unlike)
        for count in range(1, len(selected)):
            before = selected[:count]

            def divrank(one, before=before):
                return 0.5 * ranks[one] + 0.5 * sum(unlike(items[one], items[other]) for other in before) / len(before)

            left = [one for one in range(len(items)) if one not in before]
            assert divrank(selected[count]) == pytest.approx(max(map(divrank, left)))

    def test_fewer_than_k_candidates_are_all_returned(self):
        assert sorted(diverse_best(["a", "a"], [0.5, 0.6], 5, 0.5, unlike)) == [0, 1]

    def test_ties_go_to_divrank_then_rank_then_the_older(self):
        # Equal divranks and ranks: the older.
        assert diverse_best(["a", "b", "c"], [0.9, 0.4, 0.4], 2, 0.5, unlike) == [0, 1]
        # Equal divranks, 0.5 * 0 + 0.5 * 1 of the stranger and 0.5 * 1 + 0.5 * 0 of the copy: the higher rank.
        assert diverse_best(["a", "b", "a"], [1.0, 0.0, 1.0], 2, 0.5, unlike) == [0, 2]
        assert diverse_best(["a", "a", "a"], [0.5, 0.5, 0.5], 2, 0.5, unlike) == [0, 1]

    def test_with_sigma_1_only_ranks_count_and_with_0_only_distances(self):
        items, ranks = ["a", "a", "b"], [0.9, 0.8, 0.1]
        assert diverse_best(items, ranks, 2, 1.0, unlike) == [0, 1]
        assert diverse_best(items, ranks, 2, 0.0, unlike) == [0, 2]

    def test_the_greedy_choice_is_never_more_diverse_than_the_best(self):
        generator = np.random.default_rng(3)
        for _ in range(20):
            values = generator.uniform(0, 1, 8).tolist()
            best = list_diversity(most_diverse(values, 3, apart), apart)
            assert best == max(list_diversity(chosen, apart) for chosen in combinations(values, 3))
            greedy = [values[at] for at in diverse_best(values, [0.0] * 8, 3, 0.0, apart)]
            assert list_diversity(greedy, apart) <= best

    def test_codes_compare_as_values_do(self):
        coded = Contents.of({0: {"a": 1, "b": True}, 1: {"a": 1.0, "b": 1}})
        first, second = coded.values[:2], coded.values[2:]
        equal = dict(zip(coded.attributes[:2].tolist(), (first == second).tolist(), strict=True))
        assert sorted(equal.values()) == [False, True]
