"""Rules 2.2, 2.4 and 2.5 in detail: top-k covering, its corrections, and rankings that can prove their order."""

import numpy as np
import pytest

from rankcast.covering.topk.cover_set import Cover, CoverSet
from rankcast.covering.topk.order import BoxColumns, Order, Ranking
from rankcast.language.parser import parse_filter


def cover_set(cover, k, ranges, scores=None):
    """A cover set of ranges (low, high), numbered in their order."""
    made = CoverSet(cover, k, Ranking.AGNOSTIC if scores is None else Ranking.FIXED)
    for number, (low, high) in enumerate(ranges):
        made.add(number, parse_filter(f"x between {low} and {high}"), scores[number] if scores else 0.0)
    return made


class TestTies:
    @pytest.mark.parametrize("cover", Cover)
    def test_of_equal_filters_the_lowest_ids_are_forwarded_whatever_came_first(self, cover):
        for arrival in ((0, 1, 2, 3), (3, 2, 1, 0), (2, 0, 3, 1)):
            made = CoverSet(cover, 2)
            for number in arrival:
                made.add(number, parse_filter("x > 1"))
            assert made.forwarded.tolist() == list(range(made.k))

    def test_the_order_is_strict(self):
        order = Order()
        everyone = BoxColumns(order)
        for number in (0, 1):
            order.add(number, parse_filter("x > 1"))
            everyone.add(number)
        assert order.above(1, everyone).tolist() == order.top_down(np.array([1, 0])).tolist()[:1] == [0]
        assert order.above(0, everyone).tolist() == []


class TestAncestors:
    DIAMOND = ((0, 6), (4, 10), (5, 6))

    def test_ancestors_are_all_above_not_only_those_on_one_path(self):
        """[5,6] lies in two ranges that do not cover each other: one on either path, two ancestors."""
        assert cover_set(Cover.ANCESTOR, 2, self.DIAMOND).forwarded.tolist() == [0, 1]

    def test_a_chain_counts_one_of_them_at_a_time(self):
        assert cover_set(Cover.RANK, 2, self.DIAMOND).forwarded.tolist() == [0, 1, 2]

    def test_fewer_than_k_are_forwarded_and_k_are_not(self):
        nested = [(at, 20 - at) for at in range(6)]
        assert cover_set(Cover.ANCESTOR, 4, nested).forwarded.tolist() == [0, 1, 2, 3]


class TestInserts:
    def test_an_insert_is_compared_with_the_forwarded_ones_only(self):
        made = cover_set(Cover.ANCESTOR, 2, [(at, 40 - at) for at in range(20)])
        before = made.order.comparisons
        assert made.add(20, parse_filter("x = 20")) == ((), ())
        assert made.order.comparisons - before == len(made.forwarded) == 2


class TestErratumWeights:
    NESTED = ((0, 9), (1, 8), (2, 7), (3, 6))

    def test_all_descendants_count_a_hidden_one_once_per_ancestor(self):
        made = cover_set(Cover.ANCESTOR, 2, self.NESTED)
        assert made.descendants() == {0: 3, 1: 2}
        assert sum(1 + below for below in made.descendants().values()) == 7  # of four subscriptions

    def test_split_evenly_the_weights_add_up_to_all_subscriptions(self):
        assert cover_set(Cover.ANCESTOR, 2, self.NESTED).weights() == {0: 2.0, 1: 2.0}

    def test_after_a_removal_too(self):
        made = cover_set(Cover.ANCESTOR, 2, self.NESTED)
        made.remove(0)
        assert made.weights() == {1: 1.5, 2: 1.5}


class TestRankCover:
    def test_who_covers_but_ranks_lower_does_not_rank_cover(self):
        made = cover_set(Cover.ANCESTOR, 1, [(0, 9), (2, 5)], scores=[0.1, 0.9])
        assert made.forwarded.tolist() == [0, 1]

    def test_who_ranks_higher_but_does_not_cover_does_not_rank_cover(self):
        made = cover_set(Cover.ANCESTOR, 1, [(0, 4), (2, 5)], scores=[0.9, 0.1])
        assert made.forwarded.tolist() == [0, 1]

    def test_who_does_both_does(self):
        made = cover_set(Cover.ANCESTOR, 1, [(0, 9), (2, 5)], scores=[0.9, 0.1])
        assert made.forwarded.tolist() == [0]

    def test_of_equal_scores_the_lower_id_ranks_higher(self):
        assert cover_set(Cover.ANCESTOR, 1, [(0, 9), (2, 5)], scores=[0.5, 0.5]).forwarded.tolist() == [0]
        assert cover_set(Cover.ANCESTOR, 1, [(2, 5), (0, 9)], scores=[0.5, 0.5]).forwarded.tolist() == [0, 1]

    def test_by_area_plain_covering_is_rank_covering(self):
        ranges = [(0, 9), (1, 8), (4, 10), (5, 6), (5, 8)]
        areas = [float(high - low) for low, high in ranges]
        for k in (1, 2, 3):
            by_area = cover_set(Cover.ANCESTOR, k, ranges, scores=areas)
            assert by_area.forwarded.tolist() == cover_set(Cover.ANCESTOR, k, ranges).forwarded.tolist()
