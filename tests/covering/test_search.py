"""Is a box contained in the union of others? The exact search against looking at every point."""

from itertools import product

import numpy as np
from hypothesis import given

from grid_filters import grid_rows
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


def points(start, end):
    return (np.array(point) for point in product(*(range(low, high) for low, high in zip(start, end, strict=True))))


def is_covered(start, end, starts, ends):
    return all(((starts <= point) & (point < ends)).all(axis=1).any() for point in points(start, end))


@given(grid_rows(10))
def test_the_search_is_exact_and_a_no_has_a_witness(case):
    start, end, starts, ends = case
    point, used = np.zeros(len(start), np.int64), np.zeros(len(starts), np.uint8)
    verdict, _ = search(start, end, starts, ends, np.arange(len(starts)), 10**9, point, used)
    assert verdict == (COVERED if is_covered(*case) else NOT_COVERED)
    if verdict == COVERED:
        assert is_covered(start, end, starts[used == 1], ends[used == 1])
    if verdict == NOT_COVERED:
        assert ((start <= point) & (point < end)).all()
        assert not ((starts <= point) & (point < ends)).all(axis=1).any()


@given(grid_rows(10))
def test_relations_of_one_box_to_many(case):
    start, end, starts, ends = case
    codes = np.zeros(len(starts), np.uint8)
    relations(start, end, starts, ends, np.arange(len(starts)), codes)
    own = {tuple(point) for point in points(start, end)}
    for row, code in enumerate(codes):
        theirs = {tuple(point) for point in points(starts[row], ends[row])}
        assert code == (CONTAINS if own <= theirs else MEETS if own & theirs else APART)


def test_a_budget_that_runs_out_is_undecided():
    corners = np.array(list(product(range(6), repeat=2)), np.int64)  # a chessboard: nothing but splitting helps
    start, end, point = np.zeros(2, np.int64), np.full(2, 6), np.zeros(2, np.int64)
    rows, used = np.arange(36), np.zeros(36, np.uint8)
    assert search(start, end, corners, corners + 1, rows, 10, point, used)[0] == UNDECIDED
    assert search(start, end, corners, corners + 1, rows, 10**6, point, used)[0] == COVERED
    assert search(start, end, corners, corners + 1, rows[:-1], 10**6, point, used)[0] == NOT_COVERED
    assert point.tolist() == [5, 5]
