"""Patterns match what a regular expression matches, have one form, and never claim an implication that is false."""

import re
from itertools import product
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast.model.errors import FilterTypeError
from rankcast.model.values import ValueType
from rankcast.model.valuesets import patterns
from rankcast.model.valuesets.patterns import Pattern, PatternKind
from rankcast.testing.strategies import like_texts, values

SHORT = tuple("".join(letters) for size in range(6) for letters in product("ab", repeat=size))
SMALL_LIKES = st.text("ab%_", max_size=5)
STRINGS = values(ValueType.STRING)


def as_regex(like: str) -> re.Pattern[str]:
    """Translate independently of rankcast: one token after the other."""
    tokens = re.findall(r"\\.|.", like, re.DOTALL)
    wildcards = {"%": ".*", "_": "."}
    return re.compile("".join(wildcards.get(t, re.escape(t[-1])) for t in tokens), re.DOTALL)


def language(pattern: Pattern) -> frozenset[str]:
    return frozenset(text for text in SHORT if pattern.matches(text))


class TestMatching:
    @given(SMALL_LIKES)
    def test_small_patterns_match_what_the_regular_expression_matches(self, like):
        regex = as_regex(like)
        assert language(Pattern.like(like)) == {text for text in SHORT if regex.fullmatch(text)}

    @given(like_texts(), STRINGS)
    def test_any_pattern_matches_what_the_regular_expression_matches(self, like, text):
        assert Pattern.like(like).matches(text) == bool(as_regex(like).fullmatch(text))

    @given(st.text("ab_", min_size=1, max_size=6), st.text("ab%", max_size=30), st.data())
    def test_long_searches_find_what_short_ones_find(self, like, text, data):
        segment, text = like.replace("_", patterns.ANY_ONE), text.replace("%", patterns.ANY_TEXT)
        start, end = sorted(data.draw(st.integers(0, len(text))) for _ in range(2))
        with patch.object(patterns, "_WINDOW", 8):
            assert patterns._find_by_places(segment, text, start, end) == patterns._find(segment, text, start, end)

    def test_long_patterns_on_a_long_text_take_whole_numbers_not_each_place(self, monkeypatch):
        """A hundred patterns took 18 seconds of regular expressions."""
        monkeypatch.setattr(patterns, "_with_wildcards", lambda segment: pytest.fail("a search place by place"))
        asked = []
        bits = patterns._Places.bits
        monkeypatch.setattr(patterns._Places, "bits", lambda self, character: asked.append(1) or bits(self, character))
        likes = [Pattern.like(f"%{'a_' * 449}{at:02}%") for at in range(10)]
        assert not any(like.matches("a" * 95_000) for like in likes)
        assert all(like.matches("a" * 95_000 + "07") == (at == 7) for at, like in enumerate(likes))
        assert len(asked) <= 2 * 2 * 10 * 900

    @given(like_texts())
    def test_a_sample_matches(self, like):
        pattern = Pattern.like(like)
        assert pattern.matches(pattern.sample())
        assert as_regex(like).fullmatch(pattern.sample())

    @given(STRINGS, STRINGS)
    def test_prefix_suffix_contains(self, part, text):
        assert Pattern.prefix(part).matches(text) == text.startswith(part)
        assert Pattern.suffix(part).matches(text) == text.endswith(part)
        assert Pattern.contains(part).matches(text) == (part in text)

    @pytest.mark.parametrize(
        ("like", "yes", "no"),
        [
            ("", "", "a"),
            ("%", "", None),
            ("_", "😀", ""),
            ("_", "\n", "ab"),
            ("a%a", "aa", "a"),
            ("%ab%ba%", "abba", "aba"),
            (r"100\%", "100%", "1000"),
            (r"\_\\", "_\\", "a\\"),
            ("a%\U0010ffff", "a\U0010ffff", "a\uffff"),
        ],
    )
    def test_examples(self, like, yes, no):
        assert Pattern.like(like).matches(yes)
        assert no is None or not Pattern.like(like).matches(no)

    @pytest.mark.parametrize("like", ["%a%a%a%a%b", "%_a%_a%_a%b", "%a_a%a_a%b", "a%" * 1_000 + "b", f"%{'a' * 500}_b"])
    def test_long_adversarial_patterns_finish(self, like):
        assert not Pattern.like(like).matches("a" * 100_000)
        assert Pattern.like(like).matches("a" * 100_000 + "b")

    @pytest.mark.parametrize("like", ["\\", "a\\", r"\a", r"\\\n"])
    def test_a_backslash_must_escape_something(self, like):
        with pytest.raises(FilterTypeError, match="a backslash must be followed by"):
            Pattern.like(like)


KINDS = {
    PatternKind.EXACT: ("ab", "", r"\%"),
    PatternKind.PREFIX: ("ab%", "ab%%", "%"),
    PatternKind.SUFFIX: ("%ab",),
    PatternKind.CONTAINS: ("%ab%",),
    PatternKind.LIKE: ("a%b", "a_", "_%"),
}


class TestOneForm:
    @given(SMALL_LIKES, SMALL_LIKES)
    def test_equal_languages_have_equal_segments(self, one, other):
        # Texts of up to 5 letters tell patterns of up to 5 symbols apart when a third letter stands for "any".
        first, second = Pattern.like(one), Pattern.like(other)
        texts = ["".join(letters) for size in range(7) for letters in product("abc", repeat=size)]
        if first != second:
            assert any(first.matches(text) != second.matches(text) for text in texts)

    @given(st.lists(st.sampled_from(("%", "_", "a")), max_size=8), st.randoms(use_true_random=False))
    def test_the_order_of_wildcards_between_letters_does_not_matter(self, symbols, random):
        runs = "".join(symbols).split("a")
        shuffled = ["".join(random.sample(run, len(run))) for run in runs]
        assert Pattern.like("a".join(runs)) == Pattern.like("a".join(shuffled))

    @given(like_texts())
    def test_the_text_reads_back(self, like):
        pattern = Pattern.like(like)
        assert Pattern.like(pattern.text) == pattern
        assert hash(Pattern.like(pattern.text)) == hash(pattern)

    @given(STRINGS)
    def test_the_text_of_each_kind_reads_back(self, text):
        for make in (Pattern.prefix, Pattern.suffix, Pattern.contains):
            pattern = make(text)
            assert Pattern.like(pattern.text) == pattern
            assert pattern.literal == text

    @pytest.mark.parametrize(("like", "kind"), [(like, kind) for kind, likes in KINDS.items() for like in likes])
    def test_the_kind_is_the_plainest_operator(self, like, kind):
        assert Pattern.like(like).kind is kind

    @given(like_texts(), STRINGS)
    def test_every_match_starts_with_the_head(self, like, text):
        pattern = Pattern.like(like)
        assert pattern.sample().startswith(pattern.head)
        assert not pattern.matches(text) or text.startswith(pattern.head)


class TestImplies:
    @given(SMALL_LIKES, SMALL_LIKES)
    def test_true_is_certain(self, narrow, wide):
        if Pattern.like(narrow).implies(Pattern.like(wide)):
            assert language(Pattern.like(narrow)) <= language(Pattern.like(wide))

    @given(st.text("ab", max_size=4), SMALL_LIKES)
    def test_for_a_plain_text_it_is_matching(self, text, like):
        assert Pattern.like(text).implies(Pattern.like(like)) == Pattern.like(like).matches(text)

    @given(like_texts())
    def test_every_pattern_implies_itself_and_the_pattern_of_all(self, like):
        assert Pattern.like(like).implies(Pattern.like(like))
        assert Pattern.like(like).implies(Pattern.like("%"))

    @given(SMALL_LIKES, SMALL_LIKES)
    def test_different_patterns_never_imply_each_other(self, one, other):
        first, second = Pattern.like(one), Pattern.like(other)
        assert first == second or not (first.implies(second) and second.implies(first))

    @pytest.mark.parametrize(
        ("narrow", "wide"),
        [("abc%", "ab%"), ("%abc", "%bc"), ("%abc", "%b%"), ("a_c", "a%c"), ("a_c", "___"), ("a%b%c", "a%c"),
         ("a_%", "_%"), ("_", "%"), ("a_%", "a%")],
    )  # fmt: skip
    def test_what_should_be_proven_is(self, narrow, wide):
        assert Pattern.like(narrow).implies(Pattern.like(wide))
        assert not Pattern.like(wide).implies(Pattern.like(narrow))
