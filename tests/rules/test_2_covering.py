"""Section 2 of the rules: covering, rule by rule, with the counterexample of every correction.

Rules that speak of links between brokers (counts behind links, quotas, producers that ask for k) belong to the overlay.
"""

import numpy as np
import pytest

from rankcast.covering.group.conflicts import (
    ConflictTable,
    CoverReason,
    Estimate,
    exact_cover,
    minimised_cover_set,
    open_share,
)
from rankcast.covering.group.cover import BUDGET, PROBES, ActiveSet, Checking, GroupStrategy, Union
from rankcast.covering.relation import Relation, relation
from rankcast.covering.topk.cover_set import Cover, CoverSet
from rankcast.covering.topk.order import BoxColumns, Order, Ranking
from rankcast.language.parser import parse_filter
from rankcast.model.schema import Schema
from rankcast.model.values import ValueType

TYPES = {"x": ValueType.INT, "y": ValueType.INT}
INTEGERS, REQUIRED_Y, OPTIONAL_Y = (Schema(TYPES, required=frozenset(names)) for names in ("", "y", "x"))


def check(tested, *others, schema=None, checking=None):
    """Return whether a filter is covered by others together, and the proof."""
    union = Union(schema)
    for number, text in enumerate(others):
        union.add(number, parse_filter(text))
    return union.check(parse_filter(tested), checking or Checking(), np.random.default_rng(1))


def active_set(*texts, checking=None):
    kept = ActiveSet(checking or Checking())
    for number, text in enumerate(texts):
        kept.add(number, parse_filter(text))
    return kept


def closed(box, *rows):
    """Make a table of one attribute."""
    return ConflictTable.closed(
        np.array([box[0]]), np.array([box[1]]), *(np.array([[row[at]] for row in rows]) for at in (0, 1))
    )


def cover_set(cover, k, ranges, ranking=Ranking.AGNOSTIC, scores=(), order=None):
    """A cover set of ranges (low, high), numbered in their order, which come in any order."""
    made = CoverSet(cover, k, ranking)
    for number in range(len(ranges)) if order is None else order:
        low, high = ranges[number]
        made.add(number, parse_filter(f"x between {low} and {high}"), scores[number] if scores else 0.0)
    return made


class TestRule1Relations:
    UNDECIDED = ("not (s like '%ab%')", "s like 'a_b%' and s like '%b'")

    @pytest.mark.parametrize(
        ("first", "second", "expected"),
        [
            ("x < 5", "not (x >= 5)", Relation.EQUAL),
            ("x < 5", "x < 3", Relation.COVERS),
            ("x < 3", "x < 5 or y = 1", Relation.COVERED),
            ("x < 5", "x > 3", Relation.OVERLAPS),
            ("x < 3", "x > 5", Relation.DISJOINT),
            (*UNDECIDED, Relation.UNKNOWN),
        ],
    )
    def test_two_filters_have_one_of_six_relations(self, first, second, expected):
        assert relation(parse_filter(first), parse_filter(second)) is expected

    def test_unknown_means_treat_as_not_covered(self):
        assert active_set(*self.UNDECIDED).active == (0, 1)


class TestRule2Ties:
    """Equal filters cover each other, and ties are broken by id."""

    @pytest.mark.parametrize("cover", Cover)
    @pytest.mark.parametrize("arrival", [(0, 1, 2, 3), (3, 2, 1, 0), (2, 0, 3, 1)])
    def test_of_equal_filters_the_lowest_ids_are_forwarded_whatever_came_first(self, cover, arrival):
        made = cover_set(cover, 2, [(1, 9)] * 4, order=arrival)
        assert made.forwarded.tolist() == list(range(made.k))

    def test_the_order_is_strict(self):
        order = Order()
        everyone = BoxColumns(order)
        for number in (0, 1):
            order.add(number, parse_filter("x > 1"))
            everyone.add(number)
        assert order.above(1, everyone).tolist() == order.top_down(np.array([1, 0])).tolist()[:1] == [0]
        assert order.above(0, everyone).tolist() == []


class TestRule3TheConflictTestKnowsTheDomain:
    """`x < a` and `x > b` conflict iff a <= b over reals, but iff a - b <= 1 over integers."""

    @pytest.mark.parametrize(
        ("a", "b", "reals", "integers"), [(5, 5, True, True), (6, 5, False, True), (7, 5, *[False] * 2)]
    )
    def test_both_sides_of_the_limit(self, a, b, reals, integers):
        # s1 leaves `x > b` open and s2 `x < a`: they cover s together exactly when these two conflict.
        texts = ("x between 0 and 9", f"x <= {b}", f"x >= {a}")
        assert check(*texts).covered is reals
        assert check(*texts, schema=INTEGERS).covered is integers

    def test_the_counterexample_as_a_table(self):
        assert exact_cover(closed((0, 9), (0, 4), (5, 9)), 100, 0, np.random.default_rng(1)).covered

    def test_the_integer_test_needs_the_declaration(self):
        texts = ("x between 0 and 9", "x between 0 and 4", "x between 5 and 9")
        for schema in (None, Schema({"x": ValueType.FLOAT})):
            answer = check(*texts, schema=schema)
            assert not answer.covered
            assert 4 < answer.witness["x"] < 5


class TestRule3Algorithm2:
    def test_a_row_goes_for_a_conflict_free_entry_not_for_none(self):
        """Printed as `fc_i >= 0`, which holds for every row: halves that cover s would both be removed."""
        assert minimised_cover_set(closed((0, 9), (0, 4), (5, 9))).left == 2
        assert minimised_cover_set(closed((0, 9), (0, 3), (5, 9))).left == 0

    def test_what_one_round_removed_stays_removed_in_the_next(self):
        """Printed with `S' = S` inside the loop, which would bring it back.

        The third row, free on y, goes first; only then is nothing left that conflicts with `x > 5` of the first.
        """
        made = ConflictTable.closed(
            np.array([0, 0]), np.array([9, 9]), np.array([[0, 0], [7, 0], [5, 2]]), np.array([[5, 9], [9, 9], [9, 9]])
        )
        assert minimised_cover_set(made).left == 0
        first_round = ConflictTable(made.start, made.end, made.starts[[0, 2]], made.ends[[0, 2]])
        assert minimised_cover_set(first_round).left == 0


@pytest.mark.parametrize(("estimate", "share"), [(Estimate.PRINTED, 0.505), (Estimate.SOUND, 0.01)])
def test_rule_3_the_printed_bound_is_none_but_the_smallest_cell_between_consecutive_end_points_is(estimate, share):
    """s=[0,100], s1=[0,49.5], s2=[50.5,100]: it says half where a hundredth is open."""
    halves = ConflictTable(np.array([0]), np.array([1000]), np.array([[0], [505]]), np.array([[495], [1000]]))
    assert np.exp(open_share(halves, np.arange(2), estimate)) == pytest.approx(share)


class TestRule3TheStepsOfTheDefault:
    CELLS = tuple(f"x between {x} and {x + 1} and y between {y} and {y + 1}" for x in range(4) for y in range(4))
    WHOLE = "x between 0 and 4 and y between 0 and 4"

    def test_the_default_is_the_exact_search_after_about_a_hundred_probes(self):
        assert Checking() == Checking(GroupStrategy.EXACT, BUDGET, PROBES) == Checking(budget=100_000, probes=100)

    @pytest.mark.parametrize(
        ("texts", "reason"),
        [
            pytest.param(("x < 3", "x < 2", "x < 5"), CoverReason.ONE_COVERS, id="first the pairwise test"),
            pytest.param(("x < 3", "x > 5", "x > 7"), CoverReason.ROWS_LEFT, id="then only rows that intersect"),
            pytest.param(("x between 0 and 9", "x < 4", "x > 5"), CoverReason.ROWS_LEFT, id="then the minimised set"),
        ],
    )
    def test_what_is_plain_needs_no_points(self, texts, reason):
        answer = check(*texts)
        assert (answer.covered, answer.reason) == (reason is CoverReason.ONE_COVERS, reason)
        assert (answer.points, answer.work) == (0, 0)

    def test_then_random_points_that_can_only_say_no(self):
        cells = [cell for at, cell in enumerate(self.CELLS) if at not in (5, 6, 9, 10)]
        answer = check(self.WHOLE, *cells)
        assert (answer.covered, answer.reason) == (False, CoverReason.WITNESS)
        assert 0 < answer.points <= PROBES

    def test_then_the_exact_search(self):
        answer = check(self.WHOLE, *self.CELLS)
        assert (answer.covered, answer.reason, answer.points) == (True, CoverReason.SEARCHED, PROBES)
        assert answer.work > 0

    def test_on_an_exhausted_budget_traffic_may_rise_but_no_notification_is_lost(self):
        answer = check(self.WHOLE, *self.CELLS, checking=Checking(budget=5))
        assert (answer.covered, answer.reason) == (False, CoverReason.EXHAUSTED)
        kept = active_set(*self.CELLS, self.WHOLE, checking=Checking(budget=5))
        assert len(self.CELLS) in kept.active

    def test_the_papers_answer_is_a_strategy_labelled_probabilistic(self):
        answer = check(self.WHOLE, *self.CELLS, checking=Checking(GroupStrategy("probabilistic"), delta=1e-3))
        assert (answer.covered, answer.reason) == (True, CoverReason.POINTS)


class TestRule3AttributesMayBeMissing:
    """s: x=1; s1: x=1 and y<=5; s2: x=1 and y>5: the event {x:1} matches s alone."""

    TEXTS = ("x = 1", "x = 1 and y <= 5", "x = 1 and y > 5")

    @pytest.mark.parametrize("schema", [None, INTEGERS, OPTIONAL_Y])
    def test_a_row_that_names_another_attribute_takes_no_part(self, schema):
        answer = check(*self.TEXTS, schema=schema)
        assert (answer.covered, answer.witness) == (False, {"x": 1})

    def test_unless_that_attribute_is_declared_required(self):
        assert check(*self.TEXTS, schema=REQUIRED_Y).covered

    def test_or_a_row_takes_those_without_it(self):
        assert check(*self.TEXTS, "not exists y").witness == {"x": 1, "y": False}  # y may be no number at all
        assert check(*self.TEXTS, "not exists y", schema=INTEGERS).covered


class TestRule3Supports:
    def test_a_covered_subscription_keeps_the_rows_that_proved_it(self):
        assert active_set("x < 5", "x >= 5", "y = 1", "x between 2 and 8").support(3) == (0, 1)

    def test_removing_a_supporter_looks_at_its_dependents_only(self, monkeypatch):
        kept = active_set(
            *("x < 5", "x >= 5", "y < 5", "y >= 5", "x between 2 and 8", "y between 2 and 8", "x between 1 and 3")
        )
        asked = []
        honest = Union.decide
        monkeypatch.setattr(Union, "decide", lambda *args: (asked.append(args[1]), honest(*args))[1])
        assert kept.remove(1) == ((4,), (1,))
        assert len(asked) == 1
        assert (kept.active, kept.passive) == ((0, 2, 3, 4), (5, 6))

    def test_what_others_cover_instead_stays_passive(self):
        kept = active_set("x < 5", "x >= 5", "x between 2 and 8", "x between 5 and 9 or y = 1")
        assert (kept.active, kept.support(2)) == ((0, 1, 3), (0, 1))
        assert kept.remove(1) == ((), (1,))
        assert kept.support(2) == (0, 3)


NESTED = ((0, 9), (1, 8), (2, 7), (3, 6))
DIAMOND = ((0, 6), (4, 10), (5, 6))
WITHIN = ((0, 9), (2, 5))


class TestRule4TopKCovering:
    @pytest.mark.parametrize("k", [1, 2, 3])
    def test_subscriptions_with_fewer_than_k_ancestors_are_forwarded_whatever_came_first(self, k):
        for order in ((0, 1, 2, 3), (3, 2, 1, 0), (2, 0, 3, 1)):
            assert cover_set(Cover.ANCESTOR, k, NESTED, order=order).forwarded.tolist() == list(range(k))

    @pytest.mark.parametrize(
        ("cover", "ranges", "forwarded"),
        [
            pytest.param(Cover.ANCESTOR, DIAMOND, [0, 1], id="ancestors are all above, not only those on one path"),
            pytest.param(Cover.RANK, DIAMOND, [0, 1, 2], id="a chain counts one of them at a time"),
            pytest.param(Cover.RANK, NESTED, [0, 1], id="depth is the longest chain, not the shortest path"),
        ],
    )
    def test_ancestors_and_chains(self, cover, ranges, forwarded):
        assert cover_set(cover, 2, ranges).forwarded.tolist() == forwarded

    def test_an_insert_is_compared_with_the_forwarded_ones_only(self):
        made = cover_set(Cover.ANCESTOR, 2, [(at, 40 - at) for at in range(20)])
        before = made.order.comparisons
        assert made.add(20, parse_filter("x = 20")) == ((), ())
        assert made.order.comparisons - before == len(made.forwarded) == 2

    def test_erratum_a_hidden_subscription_is_split_among_its_ancestors_not_counted_once_each(self):
        made = cover_set(Cover.ANCESTOR, 2, NESTED)
        assert made.descendants() == {0: 3, 1: 2}
        assert sum(1 + below for below in made.descendants().values()) == 7  # of four subscriptions
        assert made.weights() == {0: 2.0, 1: 2.0}
        made.remove(0)
        assert made.weights() == {1: 1.5, 2: 1.5}


class TestRule5RankCover:
    @pytest.mark.parametrize(
        ("ranges", "scores", "forwarded"),
        [
            pytest.param(WITHIN, [0.1, 0.9], [0, 1], id="who covers but ranks lower does not"),
            pytest.param(((0, 4), (2, 5)), [0.9, 0.1], [0, 1], id="who ranks higher but does not cover does not"),
            pytest.param(WITHIN, [0.9, 0.1], [0], id="who does both does"),
            pytest.param(WITHIN, [0.5, 0.5], [0], id="of equal scores the lower id ranks higher"),
            pytest.param(WITHIN[::-1], [0.5, 0.5], [0, 1], id="and the higher one lower"),
        ],
    )
    def test_a_subscription_rank_covers_another_if_it_covers_and_outranks_it(self, ranges, scores, forwarded):
        assert cover_set(Cover.ANCESTOR, 1, ranges, Ranking.FIXED, scores).forwarded.tolist() == forwarded

    def test_a_ranking_that_can_prove_nothing_makes_nothing_rank_covered(self):
        assert cover_set(Cover.ANCESTOR, 1, WITHIN, Ranking.UNPROVABLE).forwarded.tolist() == [0, 1]

    def test_for_random_ranks_that_ignore_covering_the_condition_is_taken_as_true(self):
        assert cover_set(Cover.ANCESTOR, 1, WITHIN).forwarded.tolist() == [0]

    @pytest.mark.parametrize("k", [1, 2, 3])
    def test_by_area_plain_covering_is_rank_covering(self, k):
        ranges = [(0, 9), (1, 8), (4, 10), (5, 6), (5, 8)]
        by_area = cover_set(Cover.ANCESTOR, k, ranges, Ranking.FIXED, [float(high - low) for low, high in ranges])
        assert by_area.forwarded.tolist() == cover_set(Cover.ANCESTOR, k, ranges).forwarded.tolist()
