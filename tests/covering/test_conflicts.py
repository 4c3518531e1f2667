"""The conflict table: corollaries, search and answers against looking at every point."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grid_filters import grid_rows
from rankcast.covering.group.conflicts import (
    ConflictTable,
    CoverReason,
    Estimate,
    MinimisedRows,
    covered_rows,
    covering_row,
    exact_cover,
    has_open_part,
    minimised_cover_set,
    open_share,
    points_needed,
    quick_decision,
    random_cover,
)
from rankcast.covering.group.exact_search import (
    APART,
    CONTAINS,
    COVERED,
    MEETS,
    NOT_COVERED,
    UNDECIDED,
    relations,
    search,
)
from rankcast.model.errors import InvalidValueError


def table(box, *rows):
    """Make the table of closed ranges, each a pair per attribute."""
    lows, highs = np.array(box).T
    row_lows, row_highs = np.array(rows).transpose(2, 0, 1)
    return ConflictTable.closed(lows, highs, row_lows, row_highs)


HALVES = table([(0, 9)], [(0, 5)], [(4, 9)])


def tables():
    return grid_rows(9).map(lambda made: ConflictTable(*made))


def points(start, end):
    """Return every point of a box."""
    return product(*(range(low, high) for low, high in zip(start, end, strict=True)))


def open_points(made, rows=None):
    """Return every point of the box that no row contains."""
    rows = range(len(made)) if rows is None else rows
    return [
        point
        for point in points(made.start, made.end)
        if not any((made.starts[row] <= point).all() and (made.ends[row] > point).all() for row in rows)
    ]


def is_outside(made, point):
    own = (made.start <= point).all() and (point < made.end).all()
    return bool(own) and not ((made.starts <= point) & (point < made.ends)).all(axis=1).any()


class TestCorollaries:
    @given(tables())
    def test_1_a_row_without_entries_covers_the_box_alone(self, made):
        found = covering_row(made)
        alone = [row for row in range(len(made)) if not open_points(made, [row])]
        assert found == (alone[0] if alone else None)

    @given(tables())
    def test_2_a_row_with_all_entries_lies_in_the_box(self, made):
        for row in covered_rows(made).tolist():
            assert (made.starts[row] >= made.start).all()
            assert (made.ends[row] <= made.end).all()

    def test_2_finds_a_row_strictly_inside(self):
        assert covered_rows(table([(0, 9), (0, 9)], [(1, 8), (1, 8)], [(0, 8), (1, 8)])).tolist() == [0]

    @given(tables())
    def test_3_enough_entries_mean_that_something_is_open(self, made):
        if has_open_part(made):
            assert open_points(made)

    def test_3_finds_a_part_that_is_open(self):
        assert has_open_part(table([(0, 9), (0, 9)], [(0, 4), (0, 9)], [(2, 9), (0, 5)]))
        assert not has_open_part(HALVES)

    @given(tables())
    def test_3_is_included_in_the_minimised_set(self, made):
        if has_open_part(made):
            assert minimised_cover_set(made).left == 0


def literally_minimised(made):
    """Algorithm 2 as it reads, with its two corrections: every entry is compared with every other."""
    below, above = made.is_open()
    entries = {
        row: [("<", at, made.starts[row, at]) for at in np.flatnonzero(below[row])]
        + [(">=", at, made.ends[row, at]) for at in np.flatnonzero(above[row])]
        for row in range(len(made))
    }
    while True:
        free = {
            row
            for row, own in entries.items()
            if len(own) >= len(entries)
            or any(
                not any(conflict(one, other) for its in entries if its != row for other in entries[its]) for one in own
            )
        }
        if not free:
            return set(entries)
        del entries[min(free)]


def conflict(one, other):
    (side, at, label), (other_side, other_at, other_label) = one, other
    if at != other_at or side == other_side:
        return False
    return label <= other_label if side == "<" else other_label <= label


class TestTheMinimisedSet:
    @given(tables())
    def test_it_is_that_of_the_literal_algorithm(self, made):
        assert set(minimised_cover_set(made).kept.tolist()) == literally_minimised(made)

    @given(tables())
    def test_it_covers_exactly_when_all_rows_do(self, made):
        assert bool(open_points(made, minimised_cover_set(made).kept.tolist())) == bool(open_points(made))


class TestTheSearch:
    @given(grid_rows(10))
    def test_it_is_exact_and_a_no_has_a_witness(self, case):
        start, end, starts, ends = case
        made = ConflictTable(*case)
        point, used = np.zeros(len(start), np.int64), np.zeros(len(starts), np.uint8)
        verdict, _ = search(start, end, starts, ends, np.arange(len(starts)), 10**9, point, used)
        assert verdict == (NOT_COVERED if open_points(made) else COVERED)
        if verdict == COVERED:
            assert not open_points(made, np.flatnonzero(used))
        else:
            assert is_outside(made, point)

    @given(grid_rows(10))
    def test_relations_of_one_box_to_many(self, case):
        start, end, starts, ends = case
        codes = np.zeros(len(starts), np.uint8)
        relations(start, end, starts, ends, np.arange(len(starts)), codes)
        own = set(points(start, end))
        for row, code in enumerate(codes):
            theirs = set(points(starts[row], ends[row]))
            assert code == (CONTAINS if own <= theirs else MEETS if own & theirs else APART)

    def test_a_budget_that_runs_out_is_undecided(self):
        corners = np.array(list(product(range(6), repeat=2)), np.int64)  # a chessboard: nothing but splitting helps
        start, end, point = np.zeros(2, np.int64), np.full(2, 6), np.zeros(2, np.int64)
        rows, used = np.arange(36), np.zeros(36, np.uint8)
        assert search(start, end, corners, corners + 1, rows, 10, point, used)[0] == UNDECIDED
        assert search(start, end, corners, corners + 1, rows, 10**6, point, used)[0] == COVERED
        assert search(start, end, corners, corners + 1, rows[:-1], 10**6, point, used)[0] == NOT_COVERED
        assert point.tolist() == [5, 5]


class TestDecisions:
    @given(tables())
    def test_a_quick_decision_is_right(self, made):
        found = quick_decision(made)
        if found is not None:
            assert found.covered == (not open_points(made))
            assert found.point is None if found.covered else is_outside(made, found.point)

    @given(tables(), st.sampled_from([0, 5]))
    def test_an_exact_decision_is_right_and_a_no_has_a_point(self, made, probes):
        found = exact_cover(made, 10**6, probes, np.random.default_rng(1))
        assert found.covered == (not open_points(made))
        if found.covered:
            assert not open_points(made, found.rows)
        else:
            assert is_outside(made, found.point)

    @given(tables(), st.sampled_from(Estimate))
    def test_a_random_no_is_certain(self, made, estimate):
        found = random_cover(made, 0.3, np.random.default_rng(1), estimate)
        if not found.covered and found.reason is not CoverReason.EXHAUSTED:
            assert is_outside(made, found.point)

    def test_a_random_yes_is_as_rare_as_delta_says_with_the_sound_estimate(self):
        """Two halves with a hundredth open between them: the printed estimate takes some ten points and is fooled."""
        halves = table([(0, 9999)], [(0, 4949)], [(5050, 9999)])
        generator, wrong = np.random.default_rng(1), {}
        for estimate in Estimate:
            # Without the minimised set, which would settle it: the paper lets RSPC be used alone.
            rows = MinimisedRows(np.arange(2), 2)
            runs = [random_cover(halves, 0.01, generator, estimate, rows) for _ in range(2_000)]
            wrong[estimate] = sum(run.covered for run in runs) / len(runs)
        assert wrong[Estimate.SOUND] == pytest.approx(0.01, abs=0.006)
        assert wrong[Estimate.PRINTED] > 0.9

    def test_more_points_than_allowed_are_a_no_without_a_point(self):
        found = random_cover(HALVES, 1e-6, np.random.default_rng(1), most=3)
        assert (found.covered, found.reason, found.point) == (False, CoverReason.EXHAUSTED, None)


class TestEstimates:
    @given(tables())
    def test_the_sound_one_never_exceeds_the_truth(self, made):
        found, volume = len(open_points(made)), np.prod(made.end - made.start)
        if found:
            assert np.exp(open_share(made, np.arange(len(made)))) <= found / volume + 1e-12

    def test_points_that_are_needed(self):
        assert points_needed(np.log(0.5), 0.25) == pytest.approx(2)
        assert points_needed(0.0, 0.25) == 1
        assert points_needed(-100.0, 1e-10) == pytest.approx(np.log(1e10) * np.exp(100))
        assert points_needed(-1e6, 0.1) == np.inf
        with pytest.raises(InvalidValueError, match="delta"):
            points_needed(-1.0, 1.5)


def test_box_and_rows_have_the_same_attributes():
    with pytest.raises(InvalidValueError, match="different numbers of attributes"):
        ConflictTable(np.zeros(2), np.ones(2), np.zeros((1, 3)), np.ones((1, 3)))
