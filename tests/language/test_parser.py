"""Filter text to expressions: operators, precedence, names; what is wrong with a text; and huge and hostile texts."""

import re
from datetime import UTC, datetime
from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast.language.parser import MAX_TEXT, parse_expression, parse_filter
from rankcast.language.printer import format_filter
from rankcast.model.errors import (
    FilterError,
    FilterSyntaxError,
    FilterTooLargeError,
    FilterTypeError,
    UnknownAttributeError,
)
from rankcast.model.expressions import MAX_DEPTH, MAX_PATTERN_LENGTH, And, Constant, Not, Or, attr
from rankcast.model.schema import Schema
from rankcast.model.values import ValueType

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


OPERATORS = "expected an operator: =, !=, <, <=, >, >=, between, in, has, like, prefix, suffix or contains"


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        # the constant on the left, chains of comparisons
        ("5 < rent", 1, "unexpected '5'; write the attribute first, as in rent > 500"),
        ("a = 1 and 'x' = b", 11, "unexpected string 'x'; write the attribute first"),
        ("500 < rent < 900", 1, "write the attribute first"),
        ("x = 1 < and", 7, "unexpected '<'"),
        ("rent > 500 < 900", 12, "unexpected '<'; write the attribute first and one comparison at a time"),
        ("true = a", 6, "unexpected '='; write the attribute first"),
        # what is not a constant
        ("a = b", 5, "'b' is not a constant; compare with a constant (strings stand in 'single quotes')"),
        ("a in (1, b)", 10, "'b' is not a constant"),
        ('a = "Porto"', 5, '"Porto" stands in double quotes, which are for attributes; strings stand in \'single'),
        ("a = \u2018Porto\u2019", 5, "\u2018 is not a quote of this language; strings stand in 'single quotes'"),
        ("a = NaN", 5, "not-a-number and infinity cannot be compared with"),
        ("a < -inf", 5, "not-a-number and infinity cannot be compared with"),
        ("a in (1, Infinity)", 10, "not-a-number and infinity cannot be compared with"),
        ("a = 5abc", 5, "'5abc' is not a number"),
        ("a = 1.2.3", 5, "'1.2.3' is not a number"),
        ("a = 0x10", 5, "'0x10' is not a number"),
        ("a = - 5", 5, "unexpected '-'; expected a constant"),
        ("a =", 4, "the text ends too early; expected a constant"),
        ("a = and b = 1", 5, "unexpected 'and'; expected a constant"),
        ("a in ()", 7, "the list is empty; expected at least one constant"),
        ("a in (1,)", 9, "unexpected ')'; expected a constant"),
        ("a in 5", 6, "unexpected '5'; expected '(' and a list of constants"),
        ("a in (1 2)", 9, "unexpected '2'; expected ',' or ')'"),
        # missing values
        ("a is null", 3, "there is no 'is null'; write 'not exists a'"),
        ('"a b" IS NOT NULL', 7, "there is no 'is null'; write 'exists \"a b\"'"),
        ("a = null", 5, "null is not a constant; a missing attribute is found with 'not exists a'"),
        # operators
        ("a ~ 'x'", 3, f"unknown operator '~'; {OPERATORS}"),
        ("a matches 'x'", 3, f"unknown operator 'matches'; {OPERATORS}"),
        ("a => 5", 3, "unknown operator '=>'; did you mean '>='?"),
        ("a =< 5", 3, "unknown operator '=<'; did you mean '<='?"),
        ("a === 5", 3, "unknown operator '==='; did you mean '='?"),
        ("a =~ 'x'", 3, "unknown operator '=~'"),
        ("a ! 5", 3, "unknown operator '!'"),
        ("a betwen 1 and 2", 3, "unknown operator 'betwen'; did you mean 'between'?"),
        ("a @ 5", 3, f"unexpected '@'; {OPERATORS}"),
        ("a not = 5", 7, "unexpected '=' after 'not'; write 'not a = ...'"),
        ("a not 5", 7, "unexpected '5'; expected between, in, has, like, prefix, suffix or contains after 'not'"),
        ("a between 1", 12, "the text ends too early; expected 'and' and the upper bound"),
        ("a between 1 or 2", 13, "unexpected 'or'; expected 'and' and the upper bound"),
        ("like 'x'", 6, "'like' has no attribute in front of it"),
        # and, or, not
        ("a = 1 && b = 2", 7, "unexpected '&&'; write 'and'"),
        ("a = 1 || b = 2", 7, "unexpected '||'; write 'or'"),
        ("!a = 1", 1, "unexpected '!'; write 'not'"),
        ("a = 1 and !(b = 1)", 11, "unexpected '!'; write 'not'"),
        ("a = 1 b = 2", 7, "unexpected 'b'; expected 'and', 'or' or the end of the text"),
        ("a = 1, b = 2", 6, "unexpected ','; expected 'and', 'or' or the end of the text"),
        ("(a = 1 b = 2)", 8, "unexpected 'b'; expected 'and', 'or' or ')'"),
        ("a = 1 and", 10, "the text ends too early; expected a constraint such as rent < 900"),
        ("a = 1 and  \n ", 10, "the text ends too early"),
        ("a > 1 and and b < 2", 11, "unexpected 'and'; expected a constraint such as rent < 900"),
        ("not", 4, "the text ends too early; expected a constraint"),
        ("furnished and a = 1", 11, "unexpected 'and' after the attribute furnished"),
        ("furnished", 10, "(for a yes-or-no attribute: furnished = true)"),
        # quotes and parentheses
        ("a = 'x", 5, "this string is not closed; expected another '"),
        ("a = 'x''", 5, "this string is not closed; expected another '"),
        ("a = 'x\\'", 5, "this string is not closed; expected another '"),
        ('"a = 1', 1, 'this name is not closed; expected another "'),
        ("a = 'it's'", 9, "unexpected 's' right after a string; a quote inside a string is written twice: ''"),
        ("(a = 1", 1, "this parenthesis is not closed; expected ')'"),
        ("b = 1 and ((a = 1) or c = 2", 11, "this parenthesis is not closed; expected ')'"),
        ("a in (1, 2", 6, "this parenthesis is not closed; expected ')'"),
        ("exists (a", 8, "this parenthesis is not closed; expected ')'"),
        ("a = 1)", 6, "unexpected ')': no parenthesis is open"),
        ("()", 2, "unexpected ')'; expected a constraint"),
        ("(", 2, "the text ends too early; expected a constraint"),
        # names
        ("2x = 5", 1, "unexpected '2x'; a name with other than letters, digits, _ and inner dots stands in \"double"),
        ("a-b = 5", 2, "unexpected '-'; a name with other than letters"),
        ("a..b = 5", 2, "unexpected '..b'; a name with other than letters"),
        ("exists 5", 8, "unexpected '5'; expected an attribute"),
        ("exists", 7, "the text ends too early; expected an attribute"),
        ("\0 = 5", 1, "unexpected '\\x00'; expected a constraint"),
        # times
        ("t > 2026-03-01", 9, "a time is written time '2026-03-01'"),
        ("t > time 2026-03-01", 10, "a time is written time '2026-03-01'"),
        ("t > time tomorrow", 10, "unexpected 'tomorrow'; expected a time in single quotes"),
        ("t > time 'tomorrow'", 10, "'tomorrow' is not a time; expected an RFC 3339 time"),
        ("t > time '2026-02-30'", 10, "is not a time"),
        ("t = time '2026-01-01T00:00:00.1234567Z'", 10, "finer than a microsecond"),
        # nothing at all
        ("", 1, "the filter is blank; write true to match every event"),
        (" \n\t ", 1, "the filter is blank; write true to match every event"),
    ],
)
def test_a_syntax_error_says_where_and_what(text, column, message):
    with pytest.raises(FilterSyntaxError, match=re.escape(message)) as caught:
        parse_filter(text)
    assert caught.value.column == column
    assert caught.value.text == text


FLATS = Schema({"city": ValueType.STRING, "rent": ValueType.INT, "and": ValueType.STRING})


@pytest.mark.parametrize(
    ("text", "schema", "column", "message"),
    [
        ("a in (1, 'x', 2)", None, 10, "constants of one kind are needed, these mix number and string"),
        ("a between 1 and true", None, 17, "constants of one kind are needed"),
        ("b = 1 and a like 5", None, 18, "a like: 5 is not a string"),
        ("a not prefix true", None, 14, "a prefix: True is not a string"),
        ("a < true", None, 5, "true and false have no order; use = or !="),
        (r"a like 'x\\'", None, 8, "a backslash must be followed by"),
        ('"" = 5', None, 1, "an attribute name is 1 to 1,000 characters"),
        ('a = 1 and exists ""', None, 18, "an attribute name is 1 to 1,000 characters"),
        (f"b = 1 and {'a' * 1_001} = 1", None, 11, "an attribute name is 1 to 1,000 characters"),
        ("rent < 900 and citty = 'Porto'", FLATS, 16, "unknown attribute 'citty'; did you mean 'city'?"),
        ("exists flor", FLATS, 8, "unknown attribute 'flor'"),
        ("true and rent in ('a', 'b')", FLATS, 10, "rent is declared int; it cannot be compared with 'a'"),
        ("\"and\" = 'x' or not (rent = 'x' or time > 'y')", FLATS, 21, "rent is declared int"),
        ("time > '2026-01-01'", FLATS, 1, "time is declared time"),
    ],
)
def test_what_does_not_fit_has_its_column_too(text, schema, column, message):
    error = UnknownAttributeError if message.startswith("unknown") else FilterTypeError
    with pytest.raises(error, match=re.escape(message)) as caught:
        parse_filter(text, schema)
    assert str(caught.value).startswith(f"column {column}: ")
    assert str(caught.value).endswith("^")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rent = and", "column 8: unexpected 'and'; expected a constant\n  rent = and\n         ^"),
        (
            "city = 'Porto'\nand rent = cheap\nand rooms > 2",
            "line 2, column 12: 'cheap' is not a constant; compare with a constant (strings stand in 'single quotes')\n"
            "  and rent = cheap\n             ^",
        ),
    ],
)
def test_the_message_shows_the_line_with_a_caret(text, message):
    with pytest.raises(FilterSyntaxError) as caught:
        parse_filter(text)
    assert str(caught.value) == message


@pytest.mark.parametrize("text", [None, 5, b"true", ["true"], True])
def test_what_is_not_text_is_refused(text):
    with pytest.raises(FilterTypeError, match="a filter text is a string, not"):
        parse_expression(text)


@pytest.mark.parametrize("text", ["a", "5 = a", "a = 'x\\q'", "a in (1, 'x')", "a = 1e999", "(" * 300])
def test_every_error_of_a_text_is_a_filter_error_without_a_cause(text):
    with pytest.raises(FilterError) as caught:
        parse_filter(text)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.parametrize(
    "word", ["\u017fuffix 'x'", "pref\u0131x 'x'", "CONTA\u0130NS 'x'", "\u0131n (1)", "= fal\u017fe", "li\u212ae 'x'"]
)
def test_letters_that_only_look_like_those_of_a_keyword_make_none(word):
    with pytest.raises(FilterSyntaxError):
        parse_filter(f"a {word}")


MANY = 100_000


def test_a_text_at_the_bound_is_read_and_one_beyond_is_not():
    text = "x = '" + "a" * (MAX_TEXT - 6) + "'"
    assert len(text) == MAX_TEXT
    assert len(parse_expression(text).constants[0]) == MAX_TEXT - 6
    with pytest.raises(FilterTooLargeError, match=r"1,000,001 characters; at most 1,000,000 are allowed"):
        parse_expression(text + " ")


TOO_DEEP = [
    "(" * MANY + "a = 1" + ")" * MANY,
    "(" * MANY,
    "not (" * MANY + "a = 1" + ")" * MANY,
    "a = 1 and (" * 50_000,
    "exists" + "(" * MANY + "a",
    "(" * (MAX_DEPTH + 1) + "a = 1" + ")" * (MAX_DEPTH + 1),
]
BROKEN = [
    "x = '" + "''" * 400_000,
    "x = " + "1" * 900_000 + "a",
    '"' * 999_999,
    "x" + ".x" * 400_000 + " ? 1",
    "x = '" + "\\" * 900_001,
    "a in (1) or " * 201 + "a = '" + "\\'" * 400_000,
    "()" * 201 + "'" + "\\'(" * 300_000 + "\\",
]


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        *((text, FilterTooLargeError, "parentheses nest more than 200 deep") for text in TOO_DEEP),
        *((text, FilterSyntaxError, "column") for text in BROKEN),
        ("(" * 10_000_000, FilterTooLargeError, "10,000,000 characters"),
        (")" * MANY, FilterSyntaxError, "unexpected '\\)'"),
        ("a = 1" + ")" * MANY, FilterSyntaxError, "no parenthesis is open"),
        ("not " * MANY + "a = 1", FilterTooLargeError, "nests and/or/not more than 200 deep"),
        ("not " * MANY, FilterSyntaxError, "the text ends too early"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_hostile_text_is_one_short_error(text, error, message):
    with pytest.raises(error, match=message) as caught:
        parse_expression(text)
    assert len(str(caught.value)) < 1_000


def test_parentheses_at_the_bound_and_side_by_side_are_read():
    assert parse_expression("(" * MAX_DEPTH + "a = 1" + ")" * MAX_DEPTH) == A
    assert len(parse_expression(" and ".join(["(a = 1)"] * 1_000)).parts) == 1_000


def test_parentheses_in_strings_and_names_do_not_count():
    deep = "(" * 500
    parsed = parse_expression(f"a = '{deep}''{deep}\\'{deep}' and \"{deep}\"\"\" = 1")
    assert parsed.parts[0].constants == (f"{deep}'{deep}'{deep}",)


def test_negations_at_the_bound_are_read():
    meant = reduce(lambda inner, _: Not(inner), range(MAX_DEPTH - 1), A)
    assert parse_expression("not " * (MAX_DEPTH - 1) + "a = 1") == meant
    with pytest.raises(FilterTooLargeError):
        parse_expression("not " * MAX_DEPTH + "a = 1")


@pytest.mark.parametrize("operator", ["like", "prefix", "suffix", "contains"])
def test_a_pattern_at_the_bound_is_read_and_one_beyond_is_not(operator):
    longest = "a" * MAX_PATTERN_LENGTH
    assert parse_filter(f"s {operator} '{longest}'").accepts({"s": longest})
    with pytest.raises(FilterTooLargeError, match="a pattern has at most 1,000 characters"):
        parse_filter(f"s {operator} '{longest}a'")


@pytest.mark.parametrize("word", [" and ", " or "])
def test_many_long_patterns_on_one_attribute_are_compared_in_time(word):
    """Each is compared with each; when every comparison laid both out anew, this took minutes."""
    likes = word.join(f"s like '%a_{'a' * (300 + 9 * i)}b{i:02}%'" for i in range(60))
    texts = word.join(f"s contains '{'a' * (900 + i)}b{i:02}'" for i in range(60))
    assert len(parse_filter(likes).conjunctions) == (1 if word == " and " else 60)
    assert len(parse_filter(texts).conjunctions) == (1 if word == " and " else 60)


def test_a_range_that_is_a_prefix_longer_than_a_pattern_may_be_is_printed_as_a_range():
    stem = "x" * MAX_PATTERN_LENGTH
    for text in (f"s >= '{stem}a' and s < '{stem}b'", f"not (s >= '{stem}a' and s < '{stem}b')"):
        wanted = parse_filter(text)
        assert parse_filter(format_filter(wanted)) == wanted
