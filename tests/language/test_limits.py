"""Huge and hostile texts: one clear error each that names the bound, and never a hang or a RecursionError."""

from functools import reduce

import pytest

from rankcast.language.parser import MAX_TEXT, parse_expression, parse_filter
from rankcast.language.printer import format_filter
from rankcast.model.errors import FilterSyntaxError, FilterTooLargeError
from rankcast.model.expressions import MAX_DEPTH, MAX_PATTERN_LENGTH, Not, attr

MANY = 100_000
A = attr("a") == 1


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
