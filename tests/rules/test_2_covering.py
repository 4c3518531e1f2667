"""Section 2 of the rules: covering. One class per rule, with the counterexample of every correction.

Rules that speak of links between brokers (counts behind links, quotas, producers that ask for k) belong to the overlay.
"""

import numpy as np
import pytest

from rankcast.covering.group.cover import BUDGET, PROBES, ActiveSet, Checking, CoverReason, GroupStrategy, Union
from rankcast.covering.group.exact_search import printed_share, sound_share
from rankcast.covering.relation import Relation, relation
from rankcast.covering.topk.cover_set import Cover, CoverSet
from rankcast.covering.topk.order import Ranking
from rankcast.language.parser import parse_filter
from rankcast.model.schema import Schema
from rankcast.model.values import ValueType

INTEGERS = Schema({"x": ValueType.INT, "y": ValueType.INT})
CLOSED = Schema({"x": ValueType.INT, "y": ValueType.INT}, required=frozenset({"x", "y"}))


def related(first, second, schema=None):
    return relation(parse_filter(first), parse_filter(second), schema)


def check(tested, *others, schema=None, checking=None):
    """Return whether a filter is covered by others together, and the proof."""
    union = Union(schema)
    for number, text in enumerate(others):
        union.add(number, parse_filter(text))
    return union.check(parse_filter(tested), checking or Checking(), np.random.default_rng(1))


def cover_set(cover, k, *texts, ranking=Ranking.AGNOSTIC):
    made = CoverSet(cover, k, ranking)
    for number, text in enumerate(texts):
        made.add(number, parse_filter(text))
    return made


class TestRule1Relations:
    @pytest.mark.parametrize(
        ("first", "second", "expected"),
        [
            ("x < 5", "not (x >= 5)", Relation.EQUAL),
            ("x < 5", "x < 3", Relation.COVERS),
            ("x < 3", "x < 5 or y = 1", Relation.COVERED),
            ("x < 5", "x > 3", Relation.OVERLAPS),
            ("x < 3", "x > 5", Relation.DISJOINT),
        ],
    )
    def test_two_filters_have_one_of_six_relations(self, first, second, expected):
        assert related(first, second) is expected

    UNDECIDED = ("not (s like '%ab%')", "s like 'a_b%' and s like '%b'")

    def test_what_patterns_leave_undecided_is_unknown(self):
        assert related(*self.UNDECIDED) is Relation.UNKNOWN

    def test_unknown_means_treat_as_not_covered(self):
        kept = ActiveSet()
        for number, text in enumerate(self.UNDECIDED, start=1):
            kept.add(number, parse_filter(text))
        assert kept.active == (1, 2)


class TestRule2Ties:
    def test_equal_filters_cover_each_other_and_ties_are_broken_by_id(self):
        assert related("x < 5", "x < 5") is Relation.EQUAL
        for order in ((1, 2), (2, 1)):
            made = CoverSet(Cover.REGULAR)
            for number in order:
                made.add(number, parse_filter("x < 5"))
            assert made.forwarded.tolist() == [1]


class TestRule3GroupCover:
    def test_erratum_the_conflict_test_must_know_the_domain(self):
        """s=[0,9], s1=[0,4], s2=[5,9] is covered over integers; over reals 4.5 is open."""
        texts = ("x between 0 and 9", "x between 0 and 4", "x between 5 and 9")
        assert check(*texts, schema=INTEGERS).covered
        reals = check(*texts)
        assert not reals.covered
        assert 4 < reals.witness["x"] < 5

    def test_erratum_rows_are_removed_only_for_conflict_free_entries(self):
        """Printed as fc_i >= 0, which would remove every row and call two halves no cover."""
        assert check("x between 0 and 9", "x < 5", "x >= 5").support == (0, 1)

    def test_erratum_the_printed_bound_is_none(self):
        """s=[0,100], s1=[0,49.5], s2=[50.5,100]: the printed value is 0.505 where the truth is 0.01."""
        start, end, rows = np.array([0]), np.array([1000]), np.arange(2)
        starts, ends = np.array([[0], [505]]), np.array([[495], [1000]])
        assert np.exp(printed_share(start, end, starts, ends, rows)) == pytest.approx(0.505)
        assert np.exp(sound_share(start, end, starts, ends, rows)) == pytest.approx(0.01)

    def test_the_default_is_the_exact_search_after_about_a_hundred_probes(self):
        checking = Checking()
        assert checking.strategy is GroupStrategy.EXACT
        assert (checking.budget, checking.probes) == (BUDGET, PROBES) == (100_000, 100)

    def test_probes_can_only_say_no(self):
        cells = [f"x between {x} and {x + 1} and y between {y} and {y + 1}" for x in range(4) for y in range(4)]
        answer = check("x between 0 and 4 and y between 0 and 4", *cells)
        assert (answer.covered, answer.reason) == (True, CoverReason.SEARCHED)

    def test_on_an_exhausted_budget_a_subscription_counts_as_not_covered(self):
        cells = [f"x between {x} and {x + 1} and y between {y} and {y + 1}" for x in range(4) for y in range(4)]
        answer = check("x between 0 and 4 and y between 0 and 4", *cells, checking=Checking(budget=5))
        assert (answer.covered, answer.reason) == (False, CoverReason.EXHAUSTED)

    def test_the_papers_strategy_stays_available_and_says_yes_by_points_only(self):
        cells = [f"x between {x} and {x + 1} and y between 0 and 1" for x in range(3)]
        checking = Checking(GroupStrategy.PROBABILISTIC, delta=1e-3)
        answer = check("x between 0 and 3 and y between 0 and 1", *cells, checking=checking)
        assert (answer.covered, answer.reason) == (True, CoverReason.POINTS)

    def test_attributes_may_be_missing(self):
        """s: x=1; s1: x=1 and y<=5; s2: x=1 and y>5: the event {x: 1} matches s alone."""
        texts = ("x = 1", "x = 1 and y <= 5", "x = 1 and y > 5")
        assert check(*texts).witness == {"x": 1}

    def test_unless_a_schema_requires_them(self):
        assert check("x = 1", "x = 1 and y <= 5", "x = 1 and y > 5", schema=CLOSED).covered

    def test_removing_a_supporter_makes_its_dependents_active_again(self):
        kept = ActiveSet()
        for number, text in enumerate(("x < 5", "x >= 5", "x between 2 and 8", "y = 1")):
            kept.add(number, parse_filter(text))
        assert (kept.active, kept.passive, kept.support(2)) == ((0, 1, 3), (2,), (0, 1))
        change = kept.remove(1)
        assert change.forward == (2,)
        assert kept.active == (0, 2, 3)


class TestRule4TopKCovering:
    NESTED = ("x between 0 and 9", "x between 1 and 8", "x between 2 and 7", "x between 3 and 6")

    def test_subscriptions_with_fewer_than_k_ancestors_are_forwarded(self):
        for k in (1, 2, 3):
            assert cover_set(Cover.ANCESTOR, k, *self.NESTED).forwarded.tolist() == list(range(k))

    def test_depth_is_the_longest_chain_above(self):
        """Below a chain of two and, at once, directly below a wide one: the shortest path would say depth 1."""
        texts = ("x between 0 and 9", "x between 1 and 8", "x between 2 and 7")
        assert cover_set(Cover.RANK, 2, *texts).forwarded.tolist() == [0, 1]

    def test_the_order_in_which_subscriptions_come_does_not_matter(self):
        whole = cover_set(Cover.ANCESTOR, 2, *self.NESTED)
        for order in ((3, 2, 1, 0), (2, 0, 3, 1)):
            made = CoverSet(Cover.ANCESTOR, 2)
            for number in order:
                made.add(number, parse_filter(self.NESTED[number]))
            assert made.forwarded.tolist() == whole.forwarded.tolist()

    def test_the_result_per_hop_equals_the_global_one(self):
        texts = (*self.NESTED, "x between 4 and 5", "x between 0 and 4", "y = 1")
        whole = cover_set(Cover.ANCESTOR, 2, *texts).forwarded.tolist()
        first, second = (CoverSet(Cover.ANCESTOR, 2) for _ in range(2))
        for number, text in enumerate(texts):
            (first if number % 2 else second).add(number, parse_filter(text))
        upstream = CoverSet(Cover.ANCESTOR, 2)
        for edge in (first, second):
            for number in edge.forwarded.tolist():
                upstream.add(number, parse_filter(texts[number]))
        assert upstream.forwarded.tolist() == whole

    def test_erratum_a_hidden_subscription_is_split_among_its_ancestors_not_counted_once_each(self):
        made = cover_set(Cover.ANCESTOR, 2, "x between 0 and 9", "x between 0 and 8", "x between 1 and 5")
        assert made.weights() == {0: 1.5, 1: 1.5}
        assert sum(made.weights().values()) == len(made)
        assert sum(1 + below for below in made.descendants().values()) > len(made)


class TestRule5RankCover:
    def test_a_ranking_that_can_prove_nothing_makes_nothing_rank_covered(self):
        made = cover_set(Cover.ANCESTOR, 1, "x < 9", "x < 5", ranking=Ranking.UNPROVABLE)
        assert made.forwarded.tolist() == [0, 1]

    def test_for_random_ranks_that_ignore_covering_the_condition_is_taken_as_true(self):
        assert cover_set(Cover.ANCESTOR, 1, "x < 9", "x < 5", ranking=Ranking.AGNOSTIC).forwarded.tolist() == [0]
