"""Constants and names, to text and back."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast.language.literals import format_name, format_value, read_number, read_string
from rankcast.language.parser import parse_expression
from rankcast.model.errors import FilterSyntaxError
from rankcast.model.expressions import attr
from rankcast.model.values import INT_MAX, INT_MIN, type_of
from rankcast.testing.strategies import constants


def constant(literal):
    return parse_expression(f"x = {literal}").constants[0]


@pytest.mark.parametrize(
    ("literal", "number"),
    [
        ("0", 0),
        ("-0", 0),
        ("+5", 5),
        ("007", 7),
        ("0" * 5_000 + "7", 7),
        (str(INT_MAX), INT_MAX),
        (str(INT_MIN), INT_MIN),
        ("9007199254740993", 2**53 + 1),
        ("1.0", 1.0),
        ("-1.5", -1.5),
        (".5", 0.5),
        ("5.", 5.0),
        ("1e3", 1000.0),
        ("1E-3", 0.001),
        ("-2.5e+10", -2.5e10),
        ("9223372036854775808.0", 2.0**63),
        ("1e-999", 0.0),
    ],
)
def test_numbers_keep_their_type(literal, number):
    assert constant(literal) == number
    assert type(constant(literal)) is type(number)


@pytest.mark.parametrize(
    ("literal", "text"),
    [
        (r"''", ""),
        (r"''''", "'"),
        (r"'it''s'", "it's"),
        (r"'it\'s'", "it's"),
        (r"'\\'", "\\"),
        (r"'a\nb\tc\rd'", "a\nb\tc\rd"),
        (r"'\u00e9\u0000'", "é\0"),
        (r"'\U0001F600'", "😀"),
        (r"'\ud83d\ude00'", "😀"),
        (r"'100\%'", r"100\%"),
        (r"'a\_b'", r"a\_b"),
        (r"'\\\\'", r"\\"),
        (r"'\\n'", r"\n"),
        ("'two\nlines'", "two\nlines"),
        ("'\"double\"'", '"double"'),
        ("'-- (not) a % comment'", "-- (not) a % comment"),
    ],
)
def test_every_escape(literal, text):
    assert constant(literal) == text


@pytest.mark.parametrize(
    ("literal", "column", "problem"),
    [
        *(
            (literal, 5, "does not fit a 64-bit integer")
            for literal in (str(INT_MAX + 1), str(INT_MIN - 1), "9" * 100_000, "-" + "9" * 5_000)
        ),
        *((literal, 5, "outside the range of 64-bit floats") for literal in ("1e400", "-1e400", "1" * 400 + ".0")),
        (r"'a\q'", 7, "'q' cannot follow a backslash"),
        (r"'\0'", 6, "'0' cannot follow a backslash"),
        (r"'abc\u12g4'", 9, r"\\u must be followed by 4 hexadecimal digits"),
        (r"'\U1234567'", 6, r"\\U must be followed by 8 hexadecimal digits"),
        (r"'\ud800'", 6, "half a surrogate pair"),
        (r"'\udc00\ud800'", 6, "half a surrogate pair"),
        (r"'x\U0000dfff'", 7, "half a surrogate pair"),
        ("'a\ud800'", 7, "half a surrogate pair"),
        (r"'\U00110000'", 6, "beyond the last Unicode character"),
    ],
    ids=lambda value: ascii(value)[:20],
)
def test_other_numbers_and_escapes_are_refused_where_they_stand(literal, column, problem):
    with pytest.raises(FilterSyntaxError, match=problem) as caught:
        parse_expression(f"x = {literal}")
    assert caught.value.column == column
    assert len(str(caught.value)) < 400


def test_wildcards_of_like_are_escaped_with_one_backslash_and_a_backslash_with_four():
    assert parse_expression(r"x like '100\%'").pattern.matches("100%")
    assert not parse_expression(r"x like '100\%'").pattern.matches("1000")
    assert parse_expression(r"x like 'C:\\\\%'").pattern.matches("C:\\temp")


@given(constants())
def test_a_printed_constant_is_read_as_the_same_value_of_the_same_type(value):
    read = constant(format_value(value))
    assert read == value
    assert type_of(read) is type_of(value)
    assert not isinstance(value, float) or math.copysign(1, read) == math.copysign(1, value)


@given(st.text(st.sampled_from("'\\%_nu0aé\n\0\x85\u2028")))
def test_a_printed_string_has_no_control_characters_and_reads_back(text):
    assert format_value(text).isprintable()
    assert read_string(format_value(text)) == text


@given(st.from_regex(r"\A[+-]?[0-9]{1,25}\Z"))
def test_an_integer_literal_is_that_integer_or_refused(text):
    if INT_MIN <= int(text) <= INT_MAX:
        assert read_number(text) == int(text)
    else:
        with pytest.raises(Exception, match="64-bit"):
            read_number(text)


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=10))
def test_a_printed_name_is_read_as_the_same_name(name):
    assert parse_expression(f"{format_name(name)} = 1") == (attr(name) == 1)


@pytest.mark.parametrize("name", ["time", "address.city", "größe", "x_1", "order"])
def test_names_are_printed_plainly_where_possible(name):
    assert format_name(name) == name


@pytest.mark.parametrize("name", ["and", "NOT", "prefix", "In", "a b", "1a", "a.", ".a", "a..b", "a-b", "é\u0301"])
def test_names_are_quoted_where_they_need_it(name):
    assert format_name(name) == f'"{name}"'
