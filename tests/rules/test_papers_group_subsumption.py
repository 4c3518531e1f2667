"""The worked examples of group subsumption: Tables 2 and 4 to 7 with Figures 1 to 3. Table 3 is notation.

`low`, `high` are the closed ranges of x1 and x2, all whole numbers.
"""

import numpy as np
import pytest

from rankcast.covering.group.conflicts import (
    ConflictTable,
    CoverReason,
    covering_row,
    exact_cover,
    has_open_part,
    minimised_cover_set,
    random_cover,
)
from rankcast.covering.group.cover import ActiveSet, Checking, GroupStrategy, Union
from rankcast.language.parser import parse_filter
from rankcast.model.schema import Schema
from rankcast.model.values import ValueType

S = ((830, 870), (1003, 1006))
TABLE_2 = (((820, 850), (1001, 1007)), ((840, 880), (1002, 1009)))
S_OF_TABLE_5 = ((830, 890), (1003, 1006))
TABLE_5 = (((820, 850), (1002, 1009)), ((840, 870), (1001, 1007)))
TABLE_6 = (*TABLE_2, ((810, 890), (1004, 1005)))

INTEGERS = Schema(dict.fromkeys(("x1", "x2"), ValueType.INT), required=frozenset(("x1", "x2")))
EXACT, PROBABILISTIC = Checking(), Checking(GroupStrategy.PROBABILISTIC, delta=1e-6)


def wanted(box):
    (low, high), (low2, high2) = box
    return parse_filter(f"x1 between {low} and {high} and x2 between {low2} and {high2}")


def table_of(tested, rows):
    sides = np.array([tested, *rows])
    return ConflictTable.closed(sides[0, :, 0], sides[0, :, 1], sides[1:, :, 0], sides[1:, :, 1])


def entries(table):
    """Return the entries of each row as they are printed; `end` is the first whole number past a range."""
    below, above = table.is_open()
    return [
        [f"x{at + 1} < {table.starts[row, at]}" for at in (0, 1) if below[row, at]]
        + [f"x{at + 1} > {table.ends[row, at] - 1}" for at in (0, 1) if above[row, at]]
        for row in range(len(table))
    ]


def checked(tested, rows, checking=EXACT, schema=INTEGERS):
    union = Union(schema)
    for number, row in enumerate(rows):
        union.add(number, wanted(row))
    return union.check(wanted(tested), checking, np.random.default_rng(1))


@pytest.mark.parametrize("checking", [EXACT, PROBABILISTIC], ids=["exact", "probabilistic"])
@pytest.mark.parametrize("schema", [INTEGERS, None], ids=["integers", "reals"])
def test_table_2_two_cover_a_third_together_and_neither_does_alone(checking, schema):
    assert checked(S, TABLE_2, checking, schema).covered
    assert not any(checked(S, [row], checking, schema).covered for row in TABLE_2)
    assert not checked(S, TABLE_2, Checking(GroupStrategy.PAIRWISE), schema).covered


def test_table_2_the_third_is_not_forwarded_while_both_are_there():
    kept = ActiveSet(EXACT, INTEGERS)
    for number, box in enumerate((*TABLE_2, S)):
        kept.add(number, wanted(box))
    assert (kept.active, kept.support(2)) == ((0, 1), (0, 1))
    kept.remove(0)
    assert kept.active == (1, 2)


def test_table_4_one_entry_for_each_of_the_two():
    table = table_of(S, TABLE_2)
    assert entries(table) == [["x1 > 850"], ["x1 < 840"]]
    assert covering_row(table) is None
    assert exact_cover(table, 100, 0, np.random.default_rng(1)).covered


@pytest.mark.parametrize("checking", [EXACT, PROBABILISTIC], ids=["exact", "probabilistic"])
def test_table_5_a_part_is_open_where_x1_is_above_870(checking):
    table = table_of(S_OF_TABLE_5, TABLE_5)
    assert entries(table) == [["x1 > 850"], ["x1 < 840", "x1 > 870"]]
    assert has_open_part(table)
    answer = checked(S_OF_TABLE_5, TABLE_5, checking)
    assert not answer.covered
    assert 870 < answer.witness["x1"] <= 890
    assert 1003 <= answer.witness["x2"] <= 1006
    decided = random_cover(table, 1e-6, np.random.default_rng(1))
    assert (decided.covered, decided.reason) == (False, CoverReason.ROWS_LEFT)


def test_tables_6_and_7_the_third_row_is_free_of_conflicts_and_goes():
    """The first step removes s3 alone, as the text says; by the printed `fc_i >= 0` all three would go."""
    table = table_of(S, TABLE_6)
    assert entries(table) == [["x1 > 850"], ["x1 < 840"], ["x2 < 1004", "x2 > 1005"]]
    assert not has_open_part(table)
    assert sorted(minimised_cover_set(table).kept.tolist()) == [0, 1]
    answer = checked(S, TABLE_6)
    assert (answer.covered, answer.support) == (True, (0, 1))
