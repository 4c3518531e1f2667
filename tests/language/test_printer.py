"""Filters to text and back: what is printed for a normal form, and that it parses back to the same one."""

from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast.language.literals import format_value
from rankcast.language.parser import parse_expression, parse_filter
from rankcast.language.printer import format_constraint, format_expression, format_filter
from rankcast.model.expressions import And, Constant, Constraint, Not, Operator, Or, attr
from rankcast.model.filters import Filter
from rankcast.model.schema import Schema
from rankcast.model.values import ValueType
from rankcast.testing.strategies import constraints, expressions, filters, schemas

A, B, C = (attr(name) == 1 for name in "abc")
ENDS = "x suffix 'a' and x not contains 'b'"
DAY = "x >= time '2026-01-01T00:00:00Z' and x < time '2026-01-02T00:00:00Z'"


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("true", "true"),
        ("false", "false"),
        ("x = 1 and x = 2", "false"),
        ("x = 1 or not x = 1 or not exists x or true", "true"),
        # numbers
        ("x == 5.0", "x = 5"),
        ("x in (2, 1, 1.0)", "x in (1, 2)"),
        ("not x = 5", "x != 5"),
        ("x != 5 and x != 6", "x not in (5, 6)"),
        ("x >= 1 and x <= 5", "x between 1 and 5"),
        ("x > 1 and x <= 5", "x > 1 and x <= 5"),
        ("x > 1 and x < 9 and x != 5", "x > 1 and x < 9 and x != 5"),
        ("x >= 1 and x <= 9 and x not in (3, 5)", "x between 1 and 9 and x not in (3, 5)"),
        ("x not between 1 and 5", "x < 1 or x > 5"),
        ("x > 5 or x in (1, 2) or x = 3", "x in (1, 2, 3) or x > 5"),
        ("x < 1 or x >= 1", "x < 0 or x >= 0"),
        ("x = 1.5 or x = 1e300", "x in (1.5, 1e+300)"),
        # strings
        ("x >= 'ab' and x < 'ac'", "x prefix 'ab'"),
        ("x not prefix 'ab' and x != 'b'", "x != 'b' and x not prefix 'ab'"),
        ("x <= 'a'", "x <= 'a'"),
        ("x > 'a' and x < 'c'", "x > 'a' and x < 'c'"),
        ("not (x < 'a' or x > 'c')", "x between 'a' and 'c'"),
        ("x < 'b' or x >= 'b'", "x >= ''"),
        ("x like '%a'", "x suffix 'a'"),
        ("x like '%a%'", "x contains 'a'"),
        ("x like 'a%'", "x prefix 'a'"),
        ("x like 'a'", "x = 'a'"),
        ("x like '%%_a'", "x like '_%a'"),
        ("not x like '%a'", "x not suffix 'a'"),
        ("x prefix 'a' and x like 'a%b'", "x like 'a%b'"),
        ("x like 'a%b' and x < 'am'", "x < 'am' and x like 'a%b'"),
        ("x like 'a%b' and x != 'ab'", "x != 'ab' and x like 'a%b'"),
        (r"x like '100\%%' and x suffix '\\'", r"x prefix '100%' and x suffix '\\'"),
        ("(x < 'b' or x > 'd') and x suffix 'z'", "(x < 'b' or x > 'd') and x suffix 'z'"),
        (f"{ENDS} and x not contains 'c'", f"{ENDS} and x not contains 'c'"),
        # bools
        ("x = true or x = false", "x in (true, false)"),
        ("x != true", "x = false"),
        # times
        ("x < time '2026-01-01'", "x < time '2026-01-01T00:00:00Z'"),
        ("x <= time '2026-01-01'", "x <= time '2026-01-01T00:00:00Z'"),
        ("x > time '2026-01-01'", "x > time '2026-01-01T00:00:00Z'"),
        ("x >= time '2026-01-01'", "x >= time '2026-01-01T00:00:00Z'"),
        ("x >= time '2026-01-01' and x < time '2026-01-02'", DAY),
        ("x = time '2026-01-01T00:00:00.25Z'", "x = time '2026-01-01T00:00:00.25Z'"),
        ("x != time '2026-01-01' or x = time '2026-01-01'", "x >= time '0001-01-01T00:00:00Z'"),
        # missing attributes and several families
        ("exists x and exists x", "exists x"),
        ("not exists x", "not exists x"),
        ("x > 5 or not exists x", "not exists x or x > 5"),
        ("x = true or x < 5 or x = 'a'", "x < 5 or x = 'a' or x = true"),
        ("(x < 1 or x > 5) and y = 2", "(x < 1 or x > 5) and y = 2"),
        # several attributes
        ("b = 2 and a = 1", "a = 1 and b = 2"),
        ("a = 1 and (c = 3 or b = 2)", "a = 1 and (b = 2 or c = 3)"),
        ("a = 1 and b = 2 or c = 3 and d = 4", "a = 1 and b = 2 or c = 3 and d = 4"),
        ("x suffix 'a' or x suffix 'b'", "x suffix 'a' or x suffix 'b'"),
        ('"time" = 1 and "in" = 2 and "A" = 3 and "a b" = 4', 'A = 3 and "a b" = 4 and "in" = 2 and time = 1'),
    ],
)
def test_the_normal_form_is_printed_canonically(written, printed):
    parsed = parse_filter(written)
    assert format_filter(parsed) == printed
    assert parse_filter(printed) == parsed


FLATS = Schema({"n": ValueType.INT, "s": ValueType.STRING, "r": ValueType.INT}, required=frozenset({"r"}))


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("n > 3", "n >= 4"),
        ("n >= 0 and n < 10", "n between 0 and 9"),
        ("n < 2.5", "n <= 2"),
        ("n in (1, 2, 3)", "n between 1 and 3"),
        ("n in (1, 3)", "n in (1, 3)"),
        ("n not in (2, 4, 6)", "n not in (2, 4, 6)"),
        ("n in (1, 3, 5, 6, 7)", "n in (1, 3) or n between 5 and 7"),
        ("n < 5 or n >= 5", "exists n"),
        ("s >= ''", "exists s"),
        ("r < 5 or r >= 5", "true"),
        ("not exists r", "false"),
    ],
)
def test_a_schema_makes_the_text_plainer(written, printed):
    parsed = parse_filter(written, FLATS)
    assert format_filter(parsed) == printed
    assert parse_filter(printed, FLATS) == parsed


@given(filters())
def test_a_printed_filter_parses_back_to_an_equal_one(wanted):
    text = format_filter(wanted)
    assert parse_filter(text) == wanted
    assert format_filter(parse_filter(text)) == text


@given(schemas(), st.data())
def test_a_printed_filter_parses_back_under_its_schema(schema, data):
    wanted = data.draw(filters(schema))
    assert parse_filter(format_filter(wanted), schema) == wanted


def test_lists_of_bools_without_any_are_the_empty_ones_in_words_that_their_schema_takes():
    schema = Schema({"marks": ValueType.BOOLS})
    wanted = Filter.of(attr("marks").has_none(False, True), schema)
    assert parse_filter(format_filter(wanted), schema) == wanted
    assert wanted.accepts({"marks": ()})


DECLARED = Schema(
    {"n": ValueType.INT, "s": ValueType.STRING, "t": ValueType.TIME, "flag": ValueType.BOOL}, frozenset({"n", "s"})
)


@given(expressions(leaves=constraints(st.sampled_from(("n", "s", "t", "flag")), schema=DECLARED)))
def test_a_printed_filter_on_few_declared_attributes_parses_back(expression):
    wanted = Filter.of(expression, DECLARED)
    assert parse_filter(format_filter(wanted), DECLARED) == wanted


STRINGS = st.sampled_from(("", "\0", "\0\0", "a", "a\0", "ab", "aba", "b", "ba", "\0a", "\U0010ffff", "a\U0010ffff"))
LIKES = st.lists(st.sampled_from(("a", "b", "%", "_", "%", "\0", r"\%")), max_size=5).map("".join)
COMPARISONS = (Operator.EQ, Operator.NE, Operator.LT, Operator.LE, Operator.GT, Operator.GE)
PIECES = (Operator.PREFIX, Operator.SUFFIX, Operator.CONTAINS)
NAMES = st.sampled_from(("s", "s", "u"))
STRING_CONSTRAINTS = st.one_of(
    st.builds(Constraint, NAMES, st.just(Operator.LIKE), st.tuples(LIKES)),
    st.builds(Constraint, NAMES, st.sampled_from(COMPARISONS + PIECES), st.tuples(STRINGS)),
    st.builds(Constraint, NAMES, st.just(Operator.IN), st.lists(STRINGS, min_size=1, max_size=3).map(tuple)),
    st.builds(Constraint, NAMES, st.sampled_from((Operator.GT, Operator.NE)), st.just((1,))),
    st.builds(Constraint, NAMES, st.just(Operator.EXISTS)),
)


@given(expressions(leaves=STRING_CONSTRAINTS))
def test_filters_of_patterns_and_close_strings_parse_back(expression):
    wanted = Filter.of(expression)
    assert parse_filter(format_filter(wanted)) == wanted


NESTED = st.recursive(
    constraints() | st.builds(Constant, st.booleans()),
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.builds(And, st.lists(inner, min_size=2, max_size=3).map(tuple)),
        st.builds(Or, st.lists(inner, min_size=2, max_size=3).map(tuple)),
    ),
    max_leaves=8,
)


@given(NESTED | expressions())
def test_a_printed_expression_parses_back_to_an_equal_tree(expression):
    assert parse_expression(format_expression(expression)) == expression


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (And((A, And((B, C)))), "a = 1 and (b = 1 and c = 1)"),
        (Or((And((A, B)), C)), "a = 1 and b = 1 or c = 1"),
        (And((Or((A, B)), C)), "(a = 1 or b = 1) and c = 1"),
        (Not(And((A, B))), "not (a = 1 and b = 1)"),
        (Not(Not(A)), "not not a = 1"),
        (Not(attr("x").like("%a")), "x not like '%a'"),
        (Not(attr("x").is_in(1, 1.0)), "x not in (1, 1.0)"),
        (Not(attr("x").between(1, 2)), "x not between 1 and 2"),
        (Not(attr("x").exists()), "not exists x"),
        (And(()), "true"),
        (Or(()), "false"),
        (And((Or((A,)), Not(Or((And((B, C)),))))), "a = 1 and not (b = 1 and c = 1)"),
        (And((And(()), A)), "true and a = 1"),
        (reduce(lambda inner, _: Not(inner), range(199), A), "not " * 199 + "a = 1"),
    ],
)
def test_expressions_are_printed_as_they_are_written(expression, text):
    assert format_expression(expression) == text


def test_single_constraints_and_values():
    assert format_constraint(attr("two words").between(1, 2.5)) == '"two words" between 1 and 2.5'
    assert format_value(-0.0) == "-0.0"


def test_what_many_alternatives_share_is_written_once():
    shared = " and ".join(f"x{i} = 1" for i in range(60))
    wanted = parse_filter(f"{shared} and ({' or '.join(f'y{i} = {i}' for i in range(200))})")
    assert len(wanted.conjunctions) == 200
    assert parse_filter(format_filter(wanted)) == wanted
