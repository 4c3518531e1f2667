"""Errors: where a caret points, and values that are shown without flooding the screen."""

import pickle
import sys
from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast.model.errors import (
    EXCERPT,
    DuplicateIdError,
    FilterError,
    FilterSyntaxError,
    InvalidEventError,
    InvalidFileError,
    PriorityCycleError,
    Problem,
    RankcastError,
    hint,
    shown,
)


def lines(error):
    return str(error).split("\n")


class TestCaret:
    @pytest.mark.parametrize(
        ("text", "offset", "first", "excerpt", "caret"),
        [
            ("rent ~ 500", 5, "column 6: p; expected =, < or like", "rent ~ 500", "     ^"),
            ("ab", 0, "column 1: ", "ab", "^"),
            ("ab", -5, "column 1: ", "ab", "^"),
            ("ab", 2, "column 3: ", "ab", "  ^"),
            ("ab", 99, "column 3: ", "ab", "  ^"),
            ("", 0, "column 1: ", "", "^"),
            ("first\nsecond line\nthird", 13, "line 2, column 8: ", "second line", "       ^"),
            ("ab\ncd", 2, "line 1, column 3: ", "ab", "  ^"),
            ("ab\ncd", 3, "line 2, column 1: ", "cd", "^"),
            ("ab\n", 3, "line 2, column 1: ", "", "^"),
        ],
    )
    def test_it_is_under_the_offset_or_the_nearest_end_of_the_text(self, text, offset, first, excerpt, caret):
        said, *shown = lines(FilterSyntaxError("p", text, offset, ["=", "<", "like"]))
        assert said.startswith(first)
        assert shown == [f"  {excerpt}", f"  {caret}"]

    @pytest.mark.parametrize("blank", ["\t", "\r", "\x0b", "\x0c", "\x1b", "\0", "\x85", "\u2028", "\u200b"])
    def test_what_cannot_be_printed_takes_one_column(self, blank):
        message = lines(FilterSyntaxError("p", f"a{blank}b ?", 4))
        assert message[1:] == ["  a b ?", "      ^"]

    def test_a_long_line_is_cut_on_both_sides(self):
        text = "a" * 1_000 + "?" + "b" * 1_000
        first, excerpt, caret = lines(FilterSyntaxError("p", text, 1_000))
        assert first == "column 1001: p"
        assert excerpt == "  ..." + "a" * EXCERPT + "?" + "b" * (EXCERPT - 1) + "..."
        assert excerpt[caret.index("^")] == "?"

    def test_a_huge_text_of_many_lines_points_at_its_line(self):
        text = "x = 1 or\n" * 500_000 + "x ? 1\nor x = 2"
        first, excerpt, caret = lines(FilterSyntaxError("p", text, text.index("?")))
        assert (first, excerpt, caret) == ("line 500001, column 3: p", "  x ? 1", "    ^")

    @given(st.text(st.characters(codec="utf-8"), max_size=300), st.integers(0, 300))
    def test_the_caret_is_under_the_character(self, text, offset):
        error = FilterSyntaxError("p", text, offset)
        _, excerpt, caret = lines(error)
        pointed = text[error.offset : error.offset + 1]
        if pointed and pointed.isprintable():
            assert excerpt[len(caret) - 1] == pointed
        assert len(excerpt) <= 2 * EXCERPT + 8
        assert text.split("\n")[error.line - 1][error.column - 1 : error.column] in (pointed, "")

    def test_it_is_a_filter_error_with_its_parts(self):
        error = FilterSyntaxError("p", "ab", 1, iter(["x", "y"]))
        assert isinstance(error, FilterError)
        assert (error.problem, error.text, error.expected, error.offset) == ("p", "ab", ("x", "y"), 1)
        assert lines(error)[0] == "column 2: p; expected x or y"


class TestShown:
    @pytest.mark.parametrize("value", ["abc", 5, 1.5, None, True, [1], {"a": 1}, "\ud800", "\n"])
    def test_short_values_are_their_repr(self, value):
        assert shown(value) == repr(value)

    @pytest.mark.parametrize(
        "value",
        [
            pytest.param("x" * 10_000_000, id="text"),
            pytest.param("\0" * 10_000, id="unprintable"),
            pytest.param(list(range(10_000)), id="list"),
            pytest.param(10**4_000, id="integer"),
            pytest.param(b"x" * 10_000, id="bytes"),
        ],
    )
    def test_long_values_are_cut_and_say_how_long_they_are(self, value):
        assert len(shown(value)) < 5 * EXCERPT
        assert shown(value).endswith((" characters)", "(10,000 items)"))

    @pytest.mark.parametrize(
        ("value", "text"),
        [
            (10**5_000, "an integer of about 5,000 digits"),
            (-(10**5_000), "an integer of about 5,000 digits"),
            ([10**5_000], "a list that cannot be printed"),
            (reduce(lambda inner, _: [inner], range(100_000), []), "[[[[[...]]]]] (1 item)"),
        ],
        ids=["integer", "negative", "list", "deep"],
    )
    def test_what_python_will_not_print_is_described(self, value, text):
        assert shown(value) == text


class TestTree:
    def test_one_root_catches_them_all(self):
        for kind in (InvalidEventError, DuplicateIdError, FilterError, FilterSyntaxError, InvalidFileError):
            assert issubclass(kind, RankcastError)

    def test_problems_name_file_and_line(self):
        problems = [Problem("f", 3, "no filter"), Problem("f", None, "empty"), Problem("x", 1, "odd", warning=True)]
        assert str(InvalidFileError(iter(problems))) == "f:3: no filter\nf: empty\nx:1: warning: odd"

    @pytest.mark.parametrize(
        "error",
        [
            InvalidEventError("x: 5 is odd"),
            FilterSyntaxError("unexpected ')'", "a = 1)", 5, ["the end"]),
            PriorityCycleError(("a", "b")),
            InvalidFileError([Problem("flats.yaml", 3, "no filter")]),
        ],
        ids=lambda error: type(error).__name__,
    )
    def test_errors_come_through_a_process_pool_as_they_are(self, error):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


def test_names_are_suggested_in_time_that_does_not_grow_with_their_product():
    """A file may have thousands of names that are not known, and a schema thousands that are."""
    known = [f"attribute_{number}" for number in range(3_000)]
    calls = 0

    def count(_frame, event, _argument):
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        hints = [hint(f"attribut_{number}", known) for number in range(1_000)]
    finally:
        sys.setprofile(None)
    assert hints[17] == "did you mean 'attribute_17'?"
    assert calls < 20 * (len(known) + len(hints))
    assert hint("price", known).endswith("attribute_39, ...")
    assert hint("x" * 1_000, known).startswith("expected attribute_0, ")


@pytest.mark.parametrize("name", ["Rent", "rnet", "ren", "rents", "rant", "RENTS"])
def test_a_name_one_edit_away_is_suggested_among_however_many(name):
    for more in (0, 100):
        assert hint(name, ["rent", *(f"attribute {number}" for number in range(more))]) == "did you mean 'rent'?"
