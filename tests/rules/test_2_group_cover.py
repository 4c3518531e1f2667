"""Section 2, rule 3: group cover, correction by correction, with the counterexample of each."""

import numpy as np
import pytest

from rankcast.covering import (
    ActiveSet,
    Checking,
    ConflictTable,
    CoverReason,
    Estimate,
    GroupStrategy,
    Union,
    exact_cover,
    minimised_cover_set,
    open_share,
)
from rankcast.language.parser import parse_filter
from rankcast.model.schema import Schema
from rankcast.model.values import ValueType

INTEGERS = Schema({"x": ValueType.INT, "y": ValueType.INT})
REQUIRED_Y = Schema({"x": ValueType.INT, "y": ValueType.INT}, required=frozenset("y"))
OPTIONAL_Y = Schema({"x": ValueType.INT, "y": ValueType.INT}, required=frozenset("x"))


def check(tested, *others, schema=None, checking=None):
    union = Union(schema)
    for number, text in enumerate(others):
        union.add(number, parse_filter(text))
    return union.check(parse_filter(tested), checking or Checking(), np.random.default_rng(1))


def closed(box, *rows):
    """Make a table of one attribute."""
    return ConflictTable.closed(
        np.array([box[0]]), np.array([box[1]]), *(np.array([[row[at]] for row in rows]) for at in (0, 1))
    )


class TestTheConflictTestKnowsTheDomain:
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
        assert not check(*texts).covered
        assert not check(*texts, schema=Schema({"x": ValueType.FLOAT})).covered


class TestAlgorithm2:
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


class TestThePrintedBoundIsNone:
    HALVES = ConflictTable(np.array([0]), np.array([1000]), np.array([[0], [505]]), np.array([[495], [1000]]))

    def test_it_says_half_where_a_hundredth_is_open(self):
        """s=[0,100], s1=[0,49.5], s2=[50.5,100]."""
        assert np.exp(open_share(self.HALVES, np.arange(2), Estimate.PRINTED)) == pytest.approx(0.505)

    def test_the_smallest_cell_between_consecutive_end_points_is_a_bound(self):
        assert np.exp(open_share(self.HALVES, np.arange(2), Estimate.SOUND)) == pytest.approx(0.01)


class TestTheStepsOfTheDefault:
    CELLS = tuple(f"x between {x} and {x + 1} and y between {y} and {y + 1}" for x in range(4) for y in range(4))
    WHOLE = "x between 0 and 4 and y between 0 and 4"

    def test_first_the_pairwise_test(self):
        assert check("x < 3", "x < 2", "x < 5").reason is CoverReason.ONE_COVERS

    def test_then_only_rows_that_intersect(self):
        answer = check("x < 3", "x > 5", "x > 7")
        assert (answer.covered, answer.reason, answer.points, answer.work) == (False, CoverReason.ROWS_LEFT, 0, 0)

    def test_then_the_minimised_set(self):
        assert check("x between 0 and 9", "x < 4", "x > 5").reason is CoverReason.ROWS_LEFT

    def test_then_random_points_that_can_only_say_no(self):
        cells = [cell for at, cell in enumerate(self.CELLS) if at not in (5, 6, 9, 10)]
        answer = check(self.WHOLE, *cells)
        assert (answer.covered, answer.reason) == (False, CoverReason.WITNESS)
        assert 0 < answer.points <= Checking().probes

    def test_then_the_exact_search(self):
        answer = check(self.WHOLE, *self.CELLS)
        assert (answer.covered, answer.reason, answer.points) == (True, CoverReason.SEARCHED, Checking().probes)
        assert answer.work > 0

    def test_on_an_exhausted_budget_traffic_may_rise_but_no_notification_is_lost(self):
        kept = ActiveSet(Checking(budget=5))
        for number, text in enumerate((*self.CELLS, self.WHOLE)):
            kept.add(number, parse_filter(text))
        assert len(self.CELLS) in kept.active

    def test_the_papers_answer_is_a_strategy_labelled_probabilistic(self):
        answer = check(self.WHOLE, *self.CELLS, checking=Checking(GroupStrategy("probabilistic"), delta=1e-3))
        assert (answer.covered, answer.reason) == (True, CoverReason.POINTS)


class TestAttributesMayBeMissing:
    """s: x=1; s1: x=1 and y<=5; s2: x=1 and y>5: the event {x:1} matches s alone."""

    TEXTS = ("x = 1", "x = 1 and y <= 5", "x = 1 and y > 5")

    def test_a_row_that_names_another_attribute_takes_no_part(self):
        for schema in (None, INTEGERS, OPTIONAL_Y):
            answer = check(*self.TEXTS, schema=schema)
            assert (answer.covered, answer.witness) == (False, {"x": 1})

    def test_unless_that_attribute_is_declared_required(self):
        assert check(*self.TEXTS, schema=REQUIRED_Y).covered

    def test_or_a_row_takes_those_without_it(self):
        assert check(*self.TEXTS, "not exists y").witness == {"x": 1, "y": False}  # y may be no number at all
        assert check(*self.TEXTS, "not exists y", schema=INTEGERS).covered


class TestSupports:
    def test_a_covered_subscription_keeps_the_rows_that_proved_it(self):
        kept = ActiveSet()
        for number, text in enumerate(("x < 5", "x >= 5", "y = 1", "x between 2 and 8")):
            kept.add(number, parse_filter(text))
        assert kept.support(3) == (0, 1)

    def test_removing_a_supporter_looks_at_its_dependents_only(self, monkeypatch):
        kept = ActiveSet()
        texts = ("x < 5", "x >= 5", "y < 5", "y >= 5", "x between 2 and 8", "y between 2 and 8", "x between 1 and 3")
        for number, text in enumerate(texts):
            kept.add(number, parse_filter(text))
        asked = []
        honest = Union.decide
        monkeypatch.setattr(Union, "decide", lambda *args: (asked.append(args[1]), honest(*args))[1])
        assert kept.remove(1) == ((4,), (1,))
        assert len(asked) == 1
        assert kept.passive == (5, 6)

    def test_what_others_cover_instead_stays_passive(self):
        kept = ActiveSet()
        for number, text in enumerate(("x < 5", "x >= 5", "x between 2 and 8", "x between 5 and 9 or y = 1")):
            kept.add(number, parse_filter(text))
        assert (kept.active, kept.support(2)) == ((0, 1, 3), (0, 1))
        assert kept.remove(1) == ((), (1,))
        assert kept.support(2) == (0, 3)
