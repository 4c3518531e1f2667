"""What is wrong with a text: the class, the column, the words."""

import re

import pytest

from rankcast.language.parser import parse_expression, parse_filter
from rankcast.model.errors import FilterError, FilterSyntaxError, FilterTypeError, UnknownAttributeError
from rankcast.model.schema import Schema
from rankcast.model.values import ValueType

OPERATORS = "expected an operator: =, !=, <, <=, >, >=, between, in, like, prefix, suffix or contains"


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
        ("a not 5", 7, "unexpected '5'; expected between, in, like, prefix, suffix or contains after 'not'"),
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
