"""Section 2, rule 3: group cover, on the subscriptions of the experiments."""

import numpy as np
import pytest

from rankcast.covering.group.conflicts import (
    ConflictTable,
    CoverReason,
    Estimate,
    MinimisedRows,
    covering_row,
    exact_cover,
    minimised_cover_set,
    random_cover,
)
from rankcast.covering.group.cover import Checking, Union
from rankcast_lab.workloads.group_cover import NARROW, comparison, extreme_non_cover, partition, redundant_cover


def table_of(case):
    tested, rows = case.tested, case.rows
    return ConflictTable.closed(tested.lows[0], tested.highs[0], rows.lows, rows.highs)


class TestAlgorithm2:
    def test_redundant_rows_go_and_the_cover_stays(self):
        case = redundant_cover(np.random.default_rng(1), 40, 15)
        kept = minimised_cover_set(table_of(case)).kept
        assert set(kept.tolist()) >= set(np.flatnonzero(~case.redundant).tolist())
        assert case.redundant[kept].mean() < 0.2


class TestThePrintedBoundIsNone:
    def test_so_a_random_yes_is_wrong_far_more_often_than_delta_says(self):
        generator, delta, runs = np.random.default_rng(1), 1e-3, 400
        wrong = dict.fromkeys(Estimate, 0)
        for _ in range(runs):
            made = table_of(extreme_non_cover(generator, 50, 5, gap=0.005))
            for estimate in Estimate:
                wrong[estimate] += random_cover(made, delta, generator, estimate).covered
        assert wrong[Estimate.PRINTED] > 20 * delta * runs
        assert wrong[Estimate.SOUND] <= 3

    def test_and_the_default_never_trusts_it(self):
        generator = np.random.default_rng(1)
        for _ in range(100):
            found = exact_cover(table_of(extreme_non_cover(generator, 50, 5, gap=0.005)), 10**5, 100, generator)
            assert not found.covered
            assert found.reason in (CoverReason.WITNESS, CoverReason.SEARCHED)


class TestTheExactSearch:
    @pytest.mark.parametrize("attributes", [10, 20])
    def test_a_box_cut_into_310_parts_is_decided_within_a_million_row_visits(self, attributes):
        made = table_of(partition(np.random.default_rng(1), 310, attributes))
        assert covering_row(made) is None
        found = exact_cover(made, 10**6, 100, np.random.default_rng(1))
        assert (found.covered, found.reason) == (True, CoverReason.SEARCHED)
        assert len(found.rows) == 310

    def test_and_with_one_part_less_it_is_found_open(self):
        made = table_of(partition(np.random.default_rng(1), 310, 10))
        rest = ConflictTable(made.start, made.end, made.starts[:-1], made.ends[:-1])
        found = exact_cover(rest, 10**6, 0, np.random.default_rng(1), MinimisedRows(np.arange(309), 309))
        assert not found.covered
        assert ((made.starts[-1] <= found.point) & (found.point < made.ends[-1])).all()

    def test_a_hundred_thousand_visits_decide_the_checks_of_the_comparison(self):
        made = comparison(np.random.default_rng(1), 400, 10, NARROW)
        union, generator = Union(made.schema(closed=True)), np.random.default_rng(1)
        for number, wanted in enumerate(made.filters()):
            answer = union.check(wanted, Checking(), generator)
            assert answer.reason is not CoverReason.EXHAUSTED
            if not answer.covered:
                union.add(number, wanted)
