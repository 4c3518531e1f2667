"""The subscriptions of the group-cover experiments are what they are said to be."""

import numpy as np
import pytest

from rankcast.covering.group.conflicts import ConflictTable, covering_row, exact_cover
from rankcast.model.errors import InvalidValueError
from rankcast_lab.workloads.group_cover import (
    DOMAIN,
    FIRST,
    LAST,
    NARROW,
    BoxFilters,
    comparison,
    extreme_non_cover,
    no_intersection,
    non_cover,
    pairwise_cover,
    partition,
    redundant_cover,
)

SCENARIOS = {
    "1.a": pairwise_cover,
    "1.b": redundant_cover,
    "2.a": no_intersection,
    "2.b": non_cover,
    "2.c": lambda generator, rows, attributes: extreme_non_cover(generator, rows, attributes, 0.01),
    "partition": partition,
}


def table_of(case):
    return ConflictTable.closed(case.tested.lows[0], case.tested.highs[0], case.rows.lows, case.rows.highs)


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_case_is_covered_exactly_when_it_says_so(name):
    generator = np.random.default_rng(1)
    for rows in (10, 40):
        for attributes in (3, 10):
            case = SCENARIOS[name](generator, rows, attributes)
            assert len(case.rows) == len(case.redundant) == rows
            assert exact_cover(table_of(case), 10**6, 0, generator).covered == case.is_covered
            assert (covering_row(table_of(case)) is not None) == (name == "1.a")


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_same_seed_gives_the_same_case(name):
    first, second = (SCENARIOS[name](np.random.default_rng(5), 20, 4) for _ in "12")
    assert np.array_equal(first.rows.lows, second.rows.lows)
    assert np.array_equal(first.rows.highs, second.rows.highs)


def test_rows_that_are_not_redundant_are_needed():
    case = redundant_cover(np.random.default_rng(1), 20, 6)
    table, needed = table_of(case), np.flatnonzero(~case.redundant)
    only = ConflictTable(table.start, table.end, table.starts[needed], table.ends[needed])
    assert exact_cover(only, 10**6, 0, np.random.default_rng(1)).covered


def test_the_gap_has_the_size_that_was_asked_for():
    case = extreme_non_cover(np.random.default_rng(1), 50, 2, 0.02)
    lows, highs = np.maximum(case.rows.lows[:, 0], FIRST), np.minimum(case.rows.highs[:, 0], LAST)
    covered = (highs + 1 - lows).sum()
    assert 1 - covered / (LAST + 1 - FIRST) == pytest.approx(0.02)
    with pytest.raises(InvalidValueError, match="gap: 2"):
        extreme_non_cover(np.random.default_rng(1), 50, 2, 2)


def test_popular_attributes_are_named_more_often():
    drawn = comparison(np.random.default_rng(1), 2_000, 10, NARROW)
    named = ((drawn.lows > 0) | (drawn.highs < DOMAIN - 1)).mean(axis=0)
    assert named[0] > 0.9
    assert named[0] > named[2] > named[9]


def test_a_filter_says_nothing_about_a_side_at_the_end_of_the_domain():
    made = BoxFilters(np.array([[0, 5, 7, 0]]), np.array([[9, DOMAIN - 1, 8, DOMAIN - 1]]))
    (wanted,) = made.filters()
    assert wanted.accepts({"x01": -1, "x02": DOMAIN, "x03": 7})
    assert not wanted.accepts({"x01": 10, "x02": DOMAIN, "x03": 7})
    assert not wanted.accepts({"x02": DOMAIN, "x03": 7})
    assert BoxFilters(np.array([[0]]), np.array([[DOMAIN - 1]])).filter(0).accepts_everything
    assert made.schema(closed=True).required == set(made.names)
    assert made.schema(closed=False).required == set()
