"""Sets of strings, and of what an attribute may be: as enumeration has it, and an answer that is given is right."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from itertools import product
from operator import and_
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast.model.errors import FilterTooLargeError
from rankcast.model.filters import value_set
from rankcast.model.values import FAMILY_OF_TYPE, SCALARS, Family, ValueType, family_of
from rankcast.model.valuesets.intervals import Domain, IntervalSet
from rankcast.model.valuesets.patterns import Pattern
from rankcast.model.valuesets.sets import DOMAIN_OF_FAMILY, EVERYTHING, MISSING, NOTHING, PRESENT, ValueSet
from rankcast.model.valuesets.strings import MAX_PATTERNS, StringSet, prefix_range
from rankcast.testing.strategies import COMMON, EDGES, constraints, values

SHORT = tuple("".join(letters) for size in range(5) for letters in product("abc", repeat=size))
ODD = ("\0", "a\0", "a\0\0", "b\0", "\U0010ffff", "a\U0010ffff")
TEXTS = (*SHORT, *ODD)
LISTS = ((), ("a",), ("a", "b"), ("a", "ab", ""), (1,), (1, 2.5, -1), (True,), (False, True), COMMON[ValueType.TIME])
PROBES = (None, *(value for pool in (COMMON, EDGES) for kind in SCALARS for value in pool[kind]), *LISTS)

LITERALS = st.text("abc", max_size=2) | st.sampled_from(ODD)
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


def string_sets():
    return st.lists(simple_sets(), min_size=1, max_size=4).map(lambda parts: reduce(and_, parts))


def simple_value_sets():
    return st.one_of(
        st.builds(value_set, constraints(), negated=st.booleans()),
        st.sampled_from((EVERYTHING, NOTHING, PRESENT, MISSING)),
    )


def value_sets():
    """Sets as lowering makes them: intersections and, where there is one, the union of two."""
    both = st.builds(lambda one, other: one & other, simple_value_sets(), simple_value_sets())
    either = st.builds(lambda one, other: one.union(other) or one, simple_value_sets(), simple_value_sets())
    return simple_value_sets() | both | either


@dataclass(frozen=True)
class Kind:
    """A kind of sets: how to draw them, what they are asked for, and how."""

    drawn: st.SearchStrategy[Any]
    probes: tuple[Any, ...]
    anything: st.SearchStrategy[Any]
    accepts: Callable[[Any, Any], bool]
    has_some: Callable[[Any], bool]
    empty: Any
    full: Any

    def members(self, found):
        return {at for at, probe in enumerate(self.probes) if self.accepts(found, probe)}


NO_STRINGS = StringSet.of_range(IntervalSet.empty(Domain.STRING))
ALL_STRINGS = StringSet.of_range(IntervalSet.full(Domain.STRING))
TEXT = values(ValueType.STRING)
STRINGS = Kind(
    *(string_sets(), TEXTS, TEXT, lambda found, text: text in found),
    *(lambda found: found.witness() is not None, NO_STRINGS, ALL_STRINGS),
)
VALUES = Kind(
    *(value_sets(), PROBES, st.none() | values(), ValueSet.accepts),
    *(ValueSet.surely_satisfiable, NOTHING, EVERYTHING),
)


@pytest.mark.parametrize("kind", [STRINGS, VALUES], ids=["strings", "values"])
class TestAgainstEnumeration:
    @given(data=st.data())
    def test_and_or_not(self, kind, data):
        one, other = data.draw(kind.drawn), data.draw(kind.drawn)
        here, there, outside = kind.members(one), kind.members(other), one.complement()
        assert kind.members(one & other) == here & there
        both = one.union(other)
        if both is None:
            assert one.has_patterns or other.has_patterns
        else:
            assert kind.members(both) == here | there
        assert all(outside)
        assert set().union(*map(kind.members, outside)) == set(range(len(kind.probes))) - here
        assert one.has_patterns or len(outside) <= 1

    @given(data=st.data())
    def test_covers(self, kind, data):
        wide, narrow = data.draw(kind.drawn), data.draw(kind.drawn)
        answer, escaped = wide.covers(narrow), kind.members(narrow) - kind.members(wide)
        if answer is True:
            assert not escaped
        if answer is False:  # a denied cover has a counterexample
            assert escaped or any(kind.has_some(narrow & part) for part in wide.complement())
        if not (wide.has_patterns or narrow.has_patterns):
            assert answer is (wide & narrow == narrow)
        assert not wide.surely_covers(narrow) or answer is True

    @given(data=st.data())
    def test_disjoint(self, kind, data):
        one, other = data.draw(kind.drawn), data.draw(kind.drawn)
        answer = one.disjoint(other)
        if kind.members(one) & kind.members(other):
            assert answer is not True
        if answer is False:
            assert kind.has_some(one & other)
        if not (one.has_patterns or other.has_patterns):
            assert answer is (not one & other)

    @given(data=st.data())
    def test_an_empty_set_accepts_nothing(self, kind, data):
        found = data.draw(kind.drawn)
        if not found:
            assert kind.members(found) == set()
            assert not kind.has_some(found)
        elif not found.has_patterns:
            assert kind.has_some(found)

    @given(data=st.data())
    def test_it_covers_itself_and_the_empty_set_and_said_twice_is_the_same(self, kind, data):
        found = data.draw(kind.drawn)
        assert found.covers(found) is found.covers(kind.empty) is kind.full.covers(found) is True
        assert found & found == found

    @given(data=st.data())
    def test_everything_is_in_the_set_or_in_its_complement(self, kind, data):
        found, value = data.draw(kind.drawn), data.draw(kind.anything)
        assert kind.accepts(found, value) != any(kind.accepts(part, value) for part in found.complement())


@given(string_sets())
def test_a_witness_is_a_member(found):
    witness = found.witness()
    assert witness is None or witness in found


@given(ranges(), ranges())
def test_ranges_alone_are_always_decided_and_united(one, other):
    first, second = StringSet.of_range(one), StringSet.of_range(other)
    assert first.union(second) == StringSet.of_range(one | other)
    assert first.covers(second) == (second.ranges <= first.ranges)
    assert first.disjoint(second) == (not first.ranges & second.ranges)


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
    @given(TEXT, TEXT)
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
    full = reduce(and_, [of(f"%<{at}>%", negated=True) for at in range(MAX_PATTERNS)])
    with pytest.raises(FilterTooLargeError, match=f"more than {MAX_PATTERNS} patterns"):
        full & of("%!")
    other = of("%!", negated=True)
    assert (full.covers(other), other.covers(full), full.disjoint(other)) == (False, False, False)
    assert full.union(other) is None


def single_value(value):
    family = family_of(value)
    return ValueSet.of_points(family, (value,), DOMAIN_OF_FAMILY[family])


class TestWithinAFamily:
    @given(value_sets(), st.sampled_from(ValueType), st.booleans())
    def test_it_accepts_the_same_of_what_the_attribute_may_be(self, found, kind, required):
        family = FAMILY_OF_TYPE[kind]
        within = found.within(family, required=required, is_list=kind.is_list)
        lists = [value for value in LISTS if not value or family_of(value[0]) is family]
        possible = lists if kind.is_list else [*COMMON[kind], *EDGES[kind]]
        possible += [] if required else [None]
        assert [within.accepts(value) for value in possible] == [found.accepts(value) for value in possible]

    def test_all_of_the_family_is_no_condition_when_required(self):
        numbers = ValueSet.of_family(Family.NUMBER)
        assert numbers.within(Family.NUMBER, required=True, is_list=False) == EVERYTHING
        assert numbers.within(Family.NUMBER, required=False, is_list=False) == PRESENT
        assert numbers.within(Family.STRING, required=False, is_list=False) == NOTHING
        assert MISSING.within(Family.STRING, required=True, is_list=False) == NOTHING
        assert EVERYTHING.within(Family.STRING, required=False, is_list=True) == EVERYTHING


class TestSingleValues:
    @given(values(*SCALARS), st.none() | values())
    def test_the_set_of_one_value_accepts_only_its_equals(self, value, other):
        alike = {int: "number", float: "number"}
        same_family = alike.get(type(value), type(value)) == alike.get(type(other), type(other))
        assert single_value(value).accepts(value)
        assert single_value(value).accepts(other) == (same_family and value == other)

    @pytest.mark.parametrize(("value", "other"), [(1, True), (0, False), ("1", 1), ("true", True), (math.inf, 1.7e308)])
    def test_families_never_mix_and_an_infinite_float_is_a_value(self, value, other):
        assert not single_value(value).accepts(other)
        assert not single_value(other).accepts(value)


def test_the_constants_are_what_they_say():
    assert not NOTHING
    assert VALUES.members(EVERYTHING) == set(range(len(PROBES)))
    assert VALUES.members(MISSING) == {0}
    assert VALUES.members(PRESENT) == set(range(1, len(PROBES)))
    assert PRESENT.complement() == (MISSING,)
    assert EVERYTHING.complement() == ()
    assert NOTHING.complement() == (EVERYTHING,)


def test_sort_keys_put_any_value_sets_in_one_order():
    parts = [
        EVERYTHING, NOTHING, PRESENT, MISSING, single_value(1), single_value(0.5), single_value("a"),
        single_value(True),
        ValueSet.of_pattern(Pattern.like("a_")), ValueSet.of_pattern(Pattern.suffix("a"), negated=True),
        ValueSet.of_interval(IntervalSet.between(Domain.REAL, None, 3)),
        ValueSet.of_interval(IntervalSet.between(Domain.STRING, "a", None)),
    ]  # fmt: skip
    backwards = parts[::-1]
    assert sorted(parts, key=lambda part: part.sort_key) == sorted(backwards, key=lambda part: part.sort_key)
