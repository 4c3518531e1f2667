"""Interval sets agree with brute force on every domain, and equal sets have equal cuts."""

import math
from datetime import timedelta
from functools import cache
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast.model.times import EARLIEST, LATEST, TICK
from rankcast.model.values import INT_MAX, INT_MIN
from rankcast.model.valuesets.intervals import END, START, Domain, IntervalSet

MINUTE = timedelta(minutes=1)

# Every probe that tells two sets apart whose end points are among the constants: the constants, their neighbours in
# the domain, and something in between and beyond.
INTEGERS = (INT_MIN, INT_MIN + 1, INT_MIN + 2, -1, 0, 1, 2, 3, 2**53, 2**53 + 1, 2**53 + 2, INT_MAX - 1, INT_MAX)
REALS = (-math.inf, -1e300, -(2.0**63), INT_MIN, -0.5, -5e-324, -0.0, 0, 5e-324, 0.5, 1, 1.0, 1.5, 2, 2.5,
         2**53, 2.0**53, 2**53 + 1, 2**53 + 2, INT_MAX, 2.0**63, 1e300, math.inf)  # fmt: skip
LAST = ("\U0010ffff", "\U0010ffff\0")
STRINGS = ("", "\0", "\0\0", "\1", "a", "a\0", "a\0\0", "a\1", "ab", "b", "\ud7ff", "\ue000", *LAST)
TIMES = (EARLIEST, EARLIEST + TICK, EARLIEST + 2 * TICK, EARLIEST + MINUTE, EARLIEST + MINUTE + TICK,
         LATEST - MINUTE, LATEST - TICK, LATEST)  # fmt: skip

PROBES = {Domain.INTEGER: INTEGERS, Domain.REAL: REALS, Domain.STRING: STRINGS, Domain.TIME: TIMES}
DISCRETE = (Domain.INTEGER, Domain.STRING, Domain.TIME)


@cache
def constants(domain):
    finite = [value for value in PROBES[domain] if not (isinstance(value, float) and math.isinf(value))]
    return st.sampled_from([*finite, 0.5, 1.5, -1e300, 1e300] if domain is Domain.INTEGER else finite)


@cache
def interval(domain):
    bound = st.none() | constants(domain)
    return st.builds(
        lambda low, high, low_closed, high_closed: IntervalSet.between(
            domain, low, high, low_closed=low_closed, high_closed=high_closed
        ),
        *(bound, bound, st.booleans(), st.booleans()),
    )


@cache
def sets(domain):
    simple = st.one_of(
        interval(domain),
        st.lists(constants(domain), max_size=4).map(lambda points: IntervalSet.of_points(domain, points)),
        st.sampled_from((IntervalSet.empty(domain), IntervalSet.full(domain))),
    )
    return st.recursive(
        simple,
        lambda inner: st.one_of(
            st.builds(lambda one, other: one & other, inner, inner),
            st.builds(lambda one, other: one | other, inner, inner),
            st.builds(lambda one, other: one - other, inner, inner),
            inner.map(IntervalSet.complement),
        ),
        max_leaves=4,
    )


def members(found, domain):
    return [value for value in PROBES[domain] if value in found]


each_domain = pytest.mark.parametrize("domain", Domain)


@each_domain
class TestAgainstBruteForce:
    @given(data=st.data())
    def test_one_interval(self, domain, data):
        low, high = data.draw(st.none() | constants(domain)), data.draw(st.none() | constants(domain))
        low_closed, high_closed = data.draw(st.booleans()), data.draw(st.booleans())
        found = IntervalSet.between(domain, low, high, low_closed=low_closed, high_closed=high_closed)
        for value in PROBES[domain]:
            above = low is None or low < value or (low_closed and low == value)
            below = high is None or value < high or (high_closed and high == value)
            assert (value in found) == (above and below)

    @given(data=st.data())
    def test_a_finite_set(self, domain, data):
        points = data.draw(st.lists(constants(domain), max_size=5))
        assert members(IntervalSet.of_points(domain, points), domain) == [v for v in PROBES[domain] if v in points]

    @given(data=st.data())
    def test_the_operations(self, domain, data):
        one, other = data.draw(sets(domain)), data.draw(sets(domain))
        for value in PROBES[domain]:
            here, there = value in one, value in other
            assert (value in one & other) == (here and there)
            assert (value in one | other) == (here or there)
            assert (value in one - other) == (here and not there)
            assert (value in one.complement()) == (not here)

    @given(data=st.data())
    def test_inclusion(self, domain, data):
        one, other = data.draw(sets(domain)), data.draw(sets(domain))
        if one <= other:
            assert set(members(one, domain)) <= set(members(other, domain))
        else:
            escaped = (one - other).witness()
            assert escaped is None or (escaped in one and escaped not in other)

    @given(data=st.data())
    def test_the_points_of_a_finite_set_are_its_members(self, domain, data):
        found = data.draw(sets(domain))
        points = found.points()
        if points is not None:
            assert found == IntervalSet.of_points(domain, points)
            assert all(point in found for point in points)
            assert set(members(found, domain)) <= set(points)
            assert list(points) == sorted(points)

    @given(data=st.data())
    def test_a_witness_is_a_member(self, domain, data):
        found = data.draw(sets(domain))
        witness = found.witness()
        if witness is None:
            assert members(found, domain) == []
        else:
            assert witness in found


@each_domain
class TestCanonical:
    @given(data=st.data())
    def test_the_cuts_increase_strictly_and_come_in_pairs(self, domain, data):
        cuts = data.draw(sets(domain)).cuts
        assert len(cuts) % 2 == 0
        assert all(one < other for one, other in pairwise(cuts))

    @given(data=st.data())
    def test_laws_of_sets_hold_as_equality(self, domain, data):
        one, two, three = (data.draw(sets(domain)) for _ in range(3))
        assert one & two == two & one
        assert one | two == two | one
        assert (one & two) & three == one & (two & three)
        assert one & (two | three) == (one & two) | (one & three)
        assert (one | two).complement() == one.complement() & two.complement()
        assert one.complement().complement() == one
        assert one - two == one & two.complement()
        assert not one & one.complement()
        assert (one | one.complement()).is_full
        assert (one <= two) == (one & two == one)

    @given(data=st.data())
    def test_sets_with_the_same_members_are_equal(self, domain, data):
        one, other = data.draw(sets(domain)), data.draw(sets(domain))
        difference = (one - other) | (other - one)
        assert bool(difference) == (one != other)
        if difference and domain in DISCRETE:
            witness = difference.witness()
            assert (witness in one) != (witness in other)


class TestReals:
    def test_equal_numbers_are_one_point_and_print_alike(self):
        assert IntervalSet.of_points(Domain.REAL, (5, 5.0)).points() == (5,)
        assert str(IntervalSet.of_points(Domain.REAL, (-0.0,)).points()) == "(0,)"
        assert str(IntervalSet.of_points(Domain.REAL, (5.0,)).points()) == "(5,)"

    @pytest.mark.parametrize(
        ("low", "high"),
        [(-1.7e308, 1.7e308), (2**62, 2**62 + 2), (0, 1), (0, 1e-323), (1, 1 + 2**-51), (-1e300, -1e299),
         (2**53 + 1, 2.0**53 + 4)],
    )  # fmt: skip
    def test_an_open_interval_has_a_witness_inside(self, low, high):
        found = IntervalSet.between(Domain.REAL, low, high, low_closed=False, high_closed=False)
        assert low < found.witness() < high

    def test_between_neighbouring_floats_there_is_no_witness(self):
        found = IntervalSet.between(Domain.REAL, 0, 5e-324, low_closed=False, high_closed=False)
        assert found
        assert found.witness() is None
        assert (found | IntervalSet.of_points(Domain.REAL, (7,))).witness() == 7

    @pytest.mark.parametrize("bound", [INT_MIN, INT_MAX, 1.7e308, -1.7e308, 0.5])
    def test_open_ends_have_a_witness(self, bound):
        below = IntervalSet.between(Domain.REAL, None, bound, high_closed=False)
        above = IntervalSet.between(Domain.REAL, bound, None, low_closed=False)
        assert below.witness() < bound < above.witness()


def span(domain, shape, low, high):
    """Return an interval; its shape says whether its ends belong to it: [], (), [) or (]."""
    return IntervalSet.between(domain, low, high, low_closed=shape[0] == "[", high_closed=shape[1] == "]")


NOON = EARLIEST + MINUTE


@pytest.mark.parametrize(
    ("domain", "shape", "low", "high", "points"),
    [
        (Domain.INTEGER, "()", 3, 4, ()),
        (Domain.INTEGER, "(]", INT_MAX, None, ()),
        (Domain.INTEGER, "[)", None, INT_MIN, ()),
        (Domain.INTEGER, "[]", 1e300, None, ()),
        (Domain.INTEGER, "[]", INT_MIN, INT_MAX, "all"),
        (Domain.INTEGER, "[]", -1e300, 1e300, "all"),
        (Domain.REAL, "()", 3, 4, None),
        (Domain.STRING, "[]", "a", "a\0", None),
        (Domain.STRING, "[)", "a", "a\0", ("a",)),
        (Domain.STRING, "()", "a", "a\0", ()),
        (Domain.STRING, "[)", None, "", ()),
        (Domain.STRING, "[]", "", None, "all"),
        (Domain.STRING, "[]", None, "", ("",)),
        (Domain.TIME, "(]", LATEST, None, ()),
        (Domain.TIME, "[)", None, EARLIEST, ()),
        (Domain.TIME, "[]", EARLIEST, LATEST, "all"),
        (Domain.TIME, "[]", LATEST, None, (LATEST,)),
        (Domain.TIME, "()", NOON, NOON + TICK, ()),
    ],
)
def test_what_lies_between_neighbours_and_at_the_ends_of_a_domain(domain, shape, low, high, points):
    found = span(domain, shape, low, high)
    assert (found.is_full, bool(found)) == (points == "all", points != ())
    assert found.points() == (None if points == "all" else points)


def test_integers_that_touch_are_one_interval_and_a_fraction_is_no_point():
    touching = span(Domain.INTEGER, "[]", 0, 4) | span(Domain.INTEGER, "[]", 5, 9)
    assert touching == span(Domain.INTEGER, "[]", 0, 9)
    assert IntervalSet.of_points(Domain.INTEGER, (3, 1, 2)) == span(Domain.INTEGER, "[]", 1, 3)
    assert IntervalSet.of_points(Domain.INTEGER, (1.5, 2.0)).points() == (2,)


def test_reals_and_integers_meet_as_reals():
    mixed = span(Domain.INTEGER, "[]", 1, 3) & span(Domain.REAL, "[]", 2.5, None)
    assert mixed.domain is Domain.REAL
    assert (2 in mixed, 3 in mixed) == (False, True)
    assert span(Domain.INTEGER, "[]", INT_MIN, INT_MAX) == IntervalSet.full(Domain.REAL)


@each_domain
def test_empty_and_full_are_each_other_s_complement(domain):
    empty, full = IntervalSet.empty(domain), IntervalSet.full(domain)
    assert not empty
    assert full.is_full
    assert (empty.complement(), full.complement()) == (full, empty)
    assert empty.witness() is None
    assert full.witness() in full
    assert full.cuts == (START, END)
    assert empty.points() == ()
