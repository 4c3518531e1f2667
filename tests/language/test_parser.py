"""Filter text to expressions: every operator, precedence, names and keywords; and what a parsed text means."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast.language.parser import parse_expression, parse_filter
from rankcast.model.errors import FilterSyntaxError, FilterTypeError
from rankcast.model.expressions import And, Constant, Not, Or, attr

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
A, B, C, D = (attr(name) == 1 for name in "abcd")


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("x = 5", attr("x") == 5),
        ("x == 5", attr("x") == 5),
        ("x != 5", attr("x") != 5),
        ("x <> 5", attr("x") != 5),
        ("x < 5", attr("x") < 5),
        ("x <= 5", attr("x") <= 5),
        ("x > 5", attr("x") > 5),
        ("x >= 5", attr("x") >= 5),
        ("x between 1 and 5", attr("x").between(1, 5)),
        ("x in (1, 2.5, 3)", attr("x").is_in(1, 2.5, 3)),
        ("x in ('a')", attr("x").is_in("a")),
        ("x like 'a%b_'", attr("x").like("a%b_")),
        ("x prefix 'The'", attr("x").prefix("The")),
        ("x suffix '.jpg'", attr("x").suffix(".jpg")),
        ("x contains 'or'", attr("x").contains("or")),
        ("exists x", attr("x").exists()),
        ("exists(x)", attr("x").exists()),
        ("exists ( x )", attr("x").exists()),
        ("x not between 1 and 5", Not(attr("x").between(1, 5))),
        ("x not in (1, 2)", Not(attr("x").is_in(1, 2))),
        ("x not like 'a%'", Not(attr("x").like("a%"))),
        ("x not prefix 'a'", Not(attr("x").prefix("a"))),
        ("x not suffix 'a'", Not(attr("x").suffix("a"))),
        ("x not contains 'a'", Not(attr("x").contains("a"))),
        ("not exists x", Not(attr("x").exists())),
        ("true", Constant(True)),
        ("FALSE", Constant(False)),
        ("x = true", attr("x") == True),  # noqa: E712
        ("x != False", attr("x") != False),  # noqa: E712
        ("x >= time '2026-01-01'", attr("x") >= NEW_YEAR),
        ("x >= timestamp '2026-01-01T01:00:00+01:00'", attr("x") >= NEW_YEAR),
        ("x in (time '2026-01-01', timestamp '2026-01-01T00:00:00Z')", attr("x").is_in(NEW_YEAR, NEW_YEAR)),
    ],
)
def test_every_operator(text, meant):
    assert parse_expression(text) == meant


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("a = 1 or b = 1 and c = 1", Or((A, And((B, C))))),
        ("a = 1 and b = 1 or c = 1", Or((And((A, B)), C))),
        ("not a = 1 and b = 1", And((Not(A), B))),
        ("not a = 1 or b = 1", Or((Not(A), B))),
        ("not (a = 1 or b = 1)", Not(Or((A, B)))),
        ("not not a = 1", Not(Not(A))),
        ("a = 1 and b = 1 and c = 1", And((A, B, C))),
        ("a = 1 or b = 1 or c = 1", Or((A, B, C))),
        ("(a = 1 or b = 1) and (c = 1 or d = 1)", And((Or((A, B)), Or((C, D))))),
        ("a = 1 and x between 1 and 2 and b = 1", And((A, attr("x").between(1, 2), B))),
        ("a = 1 and true or false", Or((And((A, Constant(True))), Constant(False)))),
        ("((((a = 1))))", A),
        ("a = 1 and (b = 1 and c = 1)", And((A, And((B, C))))),
        ("(a = 1 or b = 1) or c = 1", Or((Or((A, B)), C))),
    ],
)
def test_not_binds_before_and_before_or_and_parentheses_group(text, meant):
    assert parse_expression(text) == meant


def test_keywords_are_read_in_any_case():
    meant = parse_expression(
        "a not in (true) and not exists b or t between time '2026-01-01' and timestamp '2026-02-01'"
    )
    shouted = "a NOT IN (TRUE) AND NOT EXISTS b OR t BETWEEN TIME '2026-01-01' AND TIMESTAMP '2026-02-01'"
    assert parse_expression(shouted) == meant
    assert parse_expression("a Like 'x' oR a pReFiX 'y'") == parse_expression("a like 'x' or a prefix 'y'")


@pytest.mark.parametrize("text", ["a=1and b=1", "a = 1 andb = 1", "a betweens 1 and 2", "a in(1)or(b = 1)x"])
def test_words_need_an_end(text):
    with pytest.raises(FilterSyntaxError):
        parse_expression(text)


def test_space_is_free_where_tokens_end_by_themselves():
    dense = "a='x'and(b>=-1)or c in(1,2)and exists(d)"
    spaced = " a\n=\t'x' and\r\n( b >= -1 )\u00a0or\nc in ( 1 , 2 ) and exists ( d ) "
    assert parse_expression(dense) == parse_expression(spaced)


@pytest.mark.parametrize(
    "name", ["address.city", "_private", "Rent", "größe", "家賃", "a.0.b", "and_more", "order", "not.this", "is.in"]
)
def test_plain_names_need_no_quotes(name):
    assert parse_expression(f"{name} = 1") == (attr(name) == 1)


@pytest.mark.parametrize(
    "name", ["time", "timestamp", "Time", "prefix", "suffix", "contains", "like", "in", "between", "time.zone"]
)
def test_words_that_are_no_keywords_in_an_attributes_place(name):
    expected = And((attr(name) == 1, attr(name).prefix("a"), Not(attr(name).exists()), attr(name) > NEW_YEAR))
    text = f"{name} = 1 and {name} prefix 'a' and not exists {name} and {name} > time '2026-01-01'"
    assert parse_expression(text) == expected


@pytest.mark.parametrize(
    "name", ["and", "or", "NOT", "exists", "true", "False", "two words", "a-b", "2x", "a..b", 'say "x"', r"a\n"]
)
def test_any_name_can_be_quoted(name):
    quoted = '"' + name.replace('"', '""') + '"'
    assert parse_expression(f"{quoted} = 1 and exists {quoted}") == And((attr(name) == 1, attr(name).exists()))


WORDS = (
    "a b.c = < in ( ) , 1 -2.5 'x' ' \" \"n\" and or not exists true between like prefix time null && ! \\ é . % 1e999"
)
PIECES = st.sampled_from([*WORDS.split(" "), "'2026-01-01'", "\0", "\ud800"])


@given(st.lists(PIECES, max_size=12), st.sampled_from(["", " ", "\n"]))
def test_any_text_is_a_filter_or_an_error_that_says_where(pieces, space):
    try:
        parse_filter(space.join(pieces))
    except (FilterSyntaxError, FilterTypeError) as error:
        place = str(error)
    else:
        place = "no column: it is a filter"
    assert "column" in place
