"""Sets of strings agree with enumeration; an answer that is given is right, and ranges alone are always decided."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast.model.errors import FilterTooLargeError
from rankcast.model.values import ValueType
from rankcast.model.valuesets.intervals import Domain, IntervalSet
from rankcast.model.valuesets.patterns import Pattern
from rankcast.model.valuesets.strings import MAX_PATTERNS, StringSet, prefix_range
from rankcast.testing.strategies import values

SHORT = tuple("".join(letters) for size in range(5) for letters in product("abc", repeat=size))
EDGES = ("\0", "a\0", "a\0\0", "b\0", "\U0010ffff", "a\U0010ffff")
TEXTS = (*SHORT, *EDGES)

LITERALS = st.text("abc", max_size=2) | st.sampled_from(EDGES)
LIKES = st.text("abc%_", max_size=4)


def ranges():
    bound = st.none() | LITERALS
    one = st.builds(
        lambda low, high, closed: IntervalSet.between(
            Domain.STRING, low, high, low_closed=closed, high_closed=not closed
        ),
        *(bound, bound, st.booleans()),
    )
    points = st.lists(LITERALS, max_size=3).map(lambda texts: IntervalSet.of_points(Domain.STRING, texts))
    plain = one | points | LITERALS.map(prefix_range)
    return plain | plain.map(IntervalSet.complement) | st.builds(lambda a, b: a | b, plain, plain)


def simple_sets():
    return st.one_of(
        ranges().map(StringSet.of_range),
        st.builds(StringSet.of_pattern, LIKES.map(Pattern.like), negated=st.booleans()),
    )


def sets():
    return st.lists(simple_sets(), min_size=1, max_size=4).map(intersection)


def intersection(parts):
    result = parts[0]
    for part in parts[1:]:
        result = result & part
    return result


def members(found):
    return {text for text in TEXTS if text in found}


class TestAgainstEnumeration:
    @given(sets(), sets())
    def test_and_of_composed_sets(self, one, other):
        assert members(one & other) == members(one) & members(other)

    @given(sets(), sets())
    def test_union_is_exact_or_refused(self, one, other):
        both = one.union(other)
        if both is not None:
            assert members(both) == members(one) | members(other)

    @given(ranges(), ranges())
    def test_union_of_ranges_is_never_refused(self, one, other):
        both = StringSet.of_range(one).union(StringSet.of_range(other))
        assert both == StringSet.of_range(one | other)

    @given(sets())
    def test_complement(self, found):
        assert set().union(*map(members, found.complement())) == set(TEXTS) - members(found)

    @given(sets(), sets())
    def test_covers(self, wide, narrow):
        answer = wide.covers(narrow)
        if answer is True:
            assert members(narrow) <= members(wide)
        if members(narrow) - members(wide):
            assert answer is not True
        assert not wide.surely_covers(narrow) or answer is True

    @given(sets(), sets())
    def test_a_denied_cover_has_a_counterexample(self, wide, narrow):
        if wide.covers(narrow) is False:
            outside = [narrow & part for part in wide.complement()]
            assert any(part.witness() is not None for part in outside) or members(narrow) - members(wide)

    @given(sets(), sets())
    def test_disjoint(self, one, other):
        answer = one.disjoint(other)
        common = members(one) & members(other)
        if answer is True:
            assert not common
        if answer is False:
            assert (one & other).witness() is not None

    @given(ranges(), ranges())
    def test_ranges_alone_are_always_decided(self, one, other):
        first, second = StringSet.of_range(one), StringSet.of_range(other)
        assert first.covers(second) == (second.ranges <= first.ranges)
        assert first.disjoint(second) == (not first.ranges & second.ranges)

    @given(sets())
    def test_a_witness_is_a_member_and_an_empty_set_has_none(self, found):
        witness = found.witness()
        assert witness is None or witness in found
        if not found:
            assert witness is None
            assert not members(found)

    @given(sets())
    def test_it_covers_itself_and_the_empty_set(self, found):
        assert found.covers(found) is True
        assert found.covers(StringSet.of_range(IntervalSet.empty(Domain.STRING))) is True
        assert StringSet.of_range(IntervalSet.full(Domain.STRING)).covers(found) is True

    @given(st.builds(StringSet.of_pattern, LIKES.map(Pattern.like), negated=st.booleans()), values(ValueType.STRING))
    def test_one_pattern_and_any_text(self, found, text):
        [*outside] = found.complement()
        assert (text in found) != any(text in part for part in outside)


def of(like, *, negated=False):
    return StringSet.of_pattern(Pattern.like(like), negated=negated)


def points(*texts):
    return StringSet.of_range(IntervalSet.of_points(Domain.STRING, texts))


class TestCanonical:
    @given(LITERALS)
    def test_a_prefix_is_a_range(self, text):
        assert StringSet.of_pattern(Pattern.prefix(text)) == StringSet.of_range(prefix_range(text))

    @given(LITERALS)
    def test_an_exact_pattern_is_a_point(self, text):
        assert of(text) == points(text)

    @given(sets())
    def test_saying_it_twice_changes_nothing(self, found):
        assert found & found == found

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            (of("%b"), of("%b", negated=True)),
            (of("a%"), of("b%")),
            (of("ab%"), of("%b%", negated=True)),
            (of("%ab"), of("%x_ac")),
        ],
    )
    def test_contradictions_are_empty(self, one, other):
        assert not one & other

    @pytest.mark.parametrize(
        ("one", "other", "both"),
        [
            (of("%abc%"), of("%b%"), of("%abc%")),
            (of("%abc%", negated=True), of("%b%", negated=True), of("%b%", negated=True)),
            (of("%ab"), of("%b"), of("%ab")),
            (points("ab", "ba", "bb"), of("%a"), points("ba")),
            (of("%a"), StringSet.of_range(points("b").ranges.complement()), of("%a")),
        ],
    )
    def test_what_another_part_says_is_dropped(self, one, other, both):
        assert one & other == both


class TestPrefixRange:
    @given(values(ValueType.STRING), values(ValueType.STRING))
    def test_it_holds_what_starts_with_the_prefix(self, prefix, text):
        assert (text in prefix_range(prefix)) == text.startswith(prefix)
        assert prefix + text in prefix_range(prefix)

    @pytest.mark.parametrize(
        ("prefix", "inside", "outside"),
        [
            ("\ud7ff", "\ud7ff\U0010ffff", "\ue000"),
            ("a\U0010ffff", "a\U0010ffffz", "b"),
            ("\U0010ffff", "\U0010ffff\U0010ffff", "\ue000"),
            ("", "", None),
        ],
    )
    def test_at_the_edges_of_the_code_points(self, prefix, inside, outside):
        assert inside in prefix_range(prefix)
        assert outside is None or outside not in prefix_range(prefix)


def test_too_many_patterns_are_refused_and_questions_within_the_bound_are_answered():
    full = intersection([of(f"%<{at}>%", negated=True) for at in range(MAX_PATTERNS)])
    with pytest.raises(FilterTooLargeError, match=f"more than {MAX_PATTERNS} patterns"):
        full & of("%!")
    other = of("%!", negated=True)
    assert (full.covers(other), other.covers(full), full.disjoint(other)) == (False, False, False)
    assert full.union(other) is None
