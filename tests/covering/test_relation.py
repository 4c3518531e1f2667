"""The relation of two filters: examples for each answer, and proofs against the oracle."""

import sys

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rankcast.covering.relation import MAX_STEPS, Relation, contains, covers, disjoint, relation
from rankcast.language.parser import parse_filter
from rankcast.matching.naive import evaluate
from rankcast.model.schema import Schema
from rankcast.model.values import ValueType
from rankcast.testing.strategies import attributes, filters

INVERSE = {Relation.COVERS: Relation.COVERED, Relation.COVERED: Relation.COVERS}


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("x > 1", "not (x <= 1)", Relation.EQUAL),
        ("x = 1 or x = 2", "x in (1, 2)", Relation.EQUAL),
        ("x < 5 and x > 7", "false", Relation.EQUAL),
        ("x between 0 and 9", "x between 2 and 3", Relation.COVERS),
        ("x >= 1", "x = 1", Relation.COVERS),
        ("x > 1", "x = 1", Relation.DISJOINT),
        ("x < 1", "x <= 1", Relation.COVERED),
        ("true", "x = 1", Relation.COVERS),
        ("exists x", "x = 'a'", Relation.COVERS),
        ("x = 1", "x = 1 and y = 2", Relation.COVERS),
        ("x != 5", "x = 5", Relation.DISJOINT),
        ("x != 5", "x < 5", Relation.COVERS),
        ("x = 1", "x = '1'", Relation.DISJOINT),
        ("not exists x", "x > 1", Relation.DISJOINT),
        ("x > 1", "y > 1", Relation.OVERLAPS),
        ("x between 0 and 5", "x between 3 and 9", Relation.OVERLAPS),
        ("s prefix 'ab'", "s prefix 'abc'", Relation.COVERS),
        ("s >= 'ab' and s < 'ac'", "s prefix 'ab'", Relation.EQUAL),
        ("s prefix 'ab'", "s prefix 'b'", Relation.DISJOINT),
        ("s suffix 'c'", "s suffix 'bc'", Relation.COVERS),
        ("s contains 'b'", "s like 'a%bc_'", Relation.COVERS),
        ("s contains 'b'", "s = 'abc'", Relation.COVERS),
        ("s contains 'x'", "s = 'abc'", Relation.DISJOINT),
        ("s contains 'a'", "not (s contains 'a')", Relation.DISJOINT),
        ("s contains 'a'", "s contains 'b'", Relation.OVERLAPS),
        ("x has 'a'", "x has all ('a', 'b')", Relation.COVERS),
        ("x has any ('a', 'b')", "x has 'a'", Relation.COVERS),
        ("x has any ('a', 'b') and x not has 'b'", "x has 'a' and x not has 'b'", Relation.EQUAL),
        ("x has 'a'", "x = 'a'", Relation.COVERS),
        ("x has 'a'", "x has 'b'", Relation.OVERLAPS),
        ("x has 'a'", "x has none ('a', 'b')", Relation.DISJOINT),
        ("x has 'a'", "x has 1", Relation.DISJOINT),
        ("x has none ('a')", "x has none ('a', 'b')", Relation.COVERS),
        ("x has 'a' or x has none ('a')", "x has 'b' or x has none ('b')", Relation.EQUAL),
        ("exists x", "x has 'a' or x has none ('a')", Relation.COVERS),
        ("exists x", "x >= '' or x < 0 or x >= 0 or x in (true, false) or x >= time '0001-01-01'", Relation.COVERS),
        ("x has none (true, false)", "x has none ('a') and x has none (1)", Relation.EQUAL),
        ("x has any (true, false)", "x has true", Relation.COVERS),
        ("flag = true", "flag != false", Relation.EQUAL),
        ("t < time '2026-01-01'", "t < time '2027-01-01'", Relation.COVERED),
        ("t > time '2026-01-01T00:00:00Z'", "t >= time '2026-01-01T00:00:00.000001Z'", Relation.EQUAL),
    ],
)
def test_relation(first, second, expected):
    assert relation(parse_filter(first), parse_filter(second)) is expected
    assert relation(parse_filter(second), parse_filter(first)) is INVERSE.get(expected, expected)


HALVES = "x between 0 and 4 or x between 5 and 9", "x between 0 and 9"
SPLIT = "x = 1 and y <= 5 or x = 1 and y > 5", "x = 1"
QUARTERS = "(x < 5 and y < 5) or (x < 5 and y >= 5) or (x >= 5 and y < 5) or (x >= 5 and y >= 6)"
TYPES = {"x": ValueType.INT, "y": ValueType.FLOAT}


@pytest.mark.parametrize(
    ("first", "second", "schema", "expected"),
    [
        ("(x < 5 and y = 1) or (x >= 5 and y = 1)", "x between 0 and 9 and y = 1", None, Relation.COVERS),
        (QUARTERS, "x between 1 and 9 and y between 1 and 9", None, Relation.OVERLAPS),
        (*HALVES, None, Relation.COVERED),
        (*HALVES, Schema({"x": ValueType.INT}), Relation.EQUAL),
        (*HALVES, Schema({"x": ValueType.FLOAT}), Relation.COVERED),
        (*SPLIT, None, Relation.COVERED),
        (*SPLIT, Schema(TYPES), Relation.COVERED),
        (*SPLIT, Schema(TYPES, required=frozenset({"y"})), Relation.EQUAL),
    ],
)
def test_a_disjunction_covers_what_no_part_of_it_covers(first, second, schema, expected):
    assert relation(parse_filter(first), parse_filter(second), schema) is expected


def test_what_patterns_leave_open_is_unknown():
    first, second = parse_filter("s like 'a_b%' and s != 'q'"), parse_filter("s like '%a%b%a%' and s like '_%_%b'")
    assert relation(first, second) in (Relation.UNKNOWN, Relation.OVERLAPS)
    assert (
        covers(parse_filter("not (s like '%a%b%')"), parse_filter("s like '%b%a%' and not (s like '%a%a%')"))
        is not True
    )


@given(filters(), filters(), st.lists(attributes(), min_size=1, max_size=8))
def test_covering_means_that_match_sets_nest_and_disjoint_that_they_do_not_meet(first, second, events):
    found = relation(first, second)
    for event in events:
        one = evaluate(first.expression, event) is True
        other = evaluate(second.expression, event) is True
        if found in (Relation.COVERS, Relation.EQUAL):
            assert one or not other
        if found in (Relation.COVERED, Relation.EQUAL):
            assert other or not one
        if found is Relation.DISJOINT:
            assert not (one and other)


@given(filters(), filters())
def test_the_relation_has_an_inverse(first, second):
    assert relation(second, first) is INVERSE.get(found := relation(first, second), found)


@given(filters())
def test_every_filter_equals_itself(one):
    assert relation(one, one) is Relation.EQUAL


@given(filters(), filters())
def test_without_patterns_nothing_stays_undecided(first, second):
    assume(not any(part.has_patterns for one in (first, second) for part in one.conjunctions))
    assume(max(len(first.conjunctions), len(second.conjunctions)) <= 4)
    assert covers(first, second) is not None
    assert disjoint(first, second) is not None


SLOW = " or ".join(f"t like '%a{at}_b%' or (a{at} = 1 and u like '%{at}_%')" for at in range(90))
HALVED = " and ".join(f"(t like '%a{at}_b%' or t like '%{at}_%')" for at in range(7))


@pytest.mark.parametrize("other", [SLOW.replace("_", "_q"), HALVED, f"({HALVED}) and a3 = 1"])
def test_what_would_take_long_is_undecided_and_never_an_error(other):
    """An error of a bound came through here, and a broker was busy for twenty seconds."""
    wanted, other = parse_filter(SLOW), parse_filter(other)
    calls = 0

    def count(_frame, event, _argument):
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        found = {covers(wanted, other), covers(other, wanted), disjoint(wanted, other)}
    finally:
        sys.setprofile(None)
    assert None in found
    assert calls < 3 * MAX_STEPS


@given(filters(), filters())
def test_what_contains_another_is_what_covers_it_for_certain(first, second):
    for wide, narrow in ((first, second), (second, first), (first, first)):
        assert contains(wide, narrow) == (covers(wide, narrow) is True)
