"""Value sets: missing and the four families side by side, with the same guarantees as the sets they are made of."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast.model.filters import value_set
from rankcast.model.values import Family, ValueType, family_of
from rankcast.model.valuesets.intervals import Domain, IntervalSet
from rankcast.model.valuesets.patterns import Pattern
from rankcast.model.valuesets.sets import DOMAIN_OF_FAMILY, EVERYTHING, MISSING, NOTHING, PRESENT, ValueSet
from rankcast.testing.strategies import COMMON, EDGES, constraints, values

PROBES = (None, *(value for pool in (COMMON, EDGES) for kind in ValueType for value in pool[kind]))


def simple_sets():
    return st.one_of(
        st.builds(value_set, constraints(), negated=st.booleans()),
        st.sampled_from((EVERYTHING, NOTHING, PRESENT, MISSING)),
    )


def sets():
    """Sets as lowering makes them: intersections and, where there is one, the union of two."""
    both = st.builds(lambda one, other: one & other, simple_sets(), simple_sets())
    either = st.builds(lambda one, other: one.union(other) or one, simple_sets(), simple_sets())
    return simple_sets() | both | either


def single_value(value):
    family = family_of(value)
    return ValueSet.of_points(family, (value,), DOMAIN_OF_FAMILY[family])


def members(found):
    return {at for at, value in enumerate(PROBES) if found.accepts(value)}


ALL = set(range(len(PROBES)))


class TestAgainstEnumeration:
    @given(sets(), sets())
    def test_and(self, one, other):
        assert members(one & other) == members(one) & members(other)

    @given(sets(), sets())
    def test_union_is_exact_or_refused(self, one, other):
        both = one.union(other)
        if both is None:
            assert one.has_patterns or other.has_patterns
        else:
            assert members(both) == members(one) | members(other)

    @given(sets())
    def test_complement(self, found):
        parts = found.complement()
        assert all(parts)
        assert set().union(*map(members, parts)) == ALL - members(found)
        assert found.has_patterns or len(parts) <= 1

    @given(sets(), sets())
    def test_covers(self, wide, narrow):
        answer = wide.covers(narrow)
        if answer is True:
            assert members(narrow) <= members(wide)
        if members(narrow) - members(wide):
            assert answer is not True
        if not (wide.has_patterns or narrow.has_patterns):
            assert answer is (wide & narrow == narrow)
        assert not wide.surely_covers(narrow) or answer is True

    @given(sets(), sets())
    def test_disjoint(self, one, other):
        answer = one.disjoint(other)
        common = members(one) & members(other)
        if answer is True:
            assert not common
        if common:
            assert answer is not True
        if not (one.has_patterns or other.has_patterns):
            assert answer is (not one & other)

    @given(sets())
    def test_an_empty_set_accepts_nothing(self, found):
        if not found:
            assert members(found) == set()
            assert not found.surely_satisfiable()
        elif not found.has_patterns:
            assert found.surely_satisfiable()

    @given(sets(), st.none() | values())
    def test_every_value_is_in_the_set_or_in_its_complement(self, found, value):
        assert found.accepts(value) != any(part.accepts(value) for part in found.complement())


class TestWithinAFamily:
    @given(sets(), st.sampled_from(ValueType), st.booleans())
    def test_it_accepts_the_same_of_what_the_attribute_may_be(self, found, kind, required):
        family = {ValueType.INT: Family.NUMBER, ValueType.FLOAT: Family.NUMBER}.get(kind) or Family(kind.value)
        within = found.within(family, required=required)
        possible = [*COMMON[kind], *EDGES[kind], *([] if required else [None])]
        assert [within.accepts(value) for value in possible] == [found.accepts(value) for value in possible]

    def test_all_of_the_family_is_no_condition_when_required(self):
        numbers = ValueSet.of_family(Family.NUMBER)
        assert numbers.within(Family.NUMBER, required=True) == EVERYTHING
        assert numbers.within(Family.NUMBER, required=False) == PRESENT
        assert numbers.within(Family.STRING, required=False) == NOTHING
        assert MISSING.within(Family.STRING, required=True) == NOTHING
        assert EVERYTHING.within(Family.STRING, required=False) == EVERYTHING


class TestSingleValues:
    @given(values(), st.none() | values())
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
    assert members(EVERYTHING) == ALL
    assert members(MISSING) == {0}
    assert members(PRESENT) == ALL - {0}
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
