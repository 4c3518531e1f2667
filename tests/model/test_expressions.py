"""Filters as they are written: Python operators, what a tree keeps, and what is refused."""

import math
from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast.model.errors import FilterTooLargeError, FilterTypeError, InvalidValueError
from rankcast.model.expressions import (
    MAX_DEPTH,
    OF_ELEMENTS,
    ORDERINGS,
    PATTERNS,
    And,
    Constant,
    Constraint,
    Not,
    Operator,
    Or,
    all_of,
    any_of,
    attr,
)
from rankcast.model.filters import Filter
from rankcast.model.values import MAX_NAME_LENGTH, Family
from rankcast.testing.strategies import constraints, expressions

A, B, C = (attr(name) == 1 for name in "abc")
OF_A = attr("a")
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


class TestConstraints:
    @pytest.mark.parametrize(
        ("written", "operator", "constants"),
        [
            (attr("a") == 1, Operator.EQ, (1,)),
            (attr("a") != 1, Operator.NE, (1,)),
            (attr("a") < 1, Operator.LT, (1,)),
            (attr("a") <= 1, Operator.LE, (1,)),
            (attr("a") > 1, Operator.GT, (1,)),
            (attr("a") >= 1, Operator.GE, (1,)),
            (1 < attr("a"), Operator.GT, (1,)),  # noqa: SIM300
            (1 == attr("a"), Operator.EQ, (1,)),  # noqa: SIM300
            (attr("a").between(1, 2.5), Operator.BETWEEN, (1, 2.5)),
            *((made, Operator.IN, (1, 2)) for made in (OF_A.is_in(1, 2), OF_A.is_in([1, 2]), OF_A.is_in({2, 1}))),
            (attr("a").like("x%"), Operator.LIKE, ("x%",)),
            (attr("a").prefix("x"), Operator.PREFIX, ("x",)),
            (attr("a").suffix("x"), Operator.SUFFIX, ("x",)),
            (attr("a").contains("x"), Operator.CONTAINS, ("x",)),
            (attr("a").exists(), Operator.EXISTS, ()),
            (attr("a") == True, Operator.EQ, (True,)),  # noqa: E712
            (attr("a") > date(2026, 3, 1), Operator.GT, (datetime(2026, 3, 1, tzinfo=UTC),)),
        ],
    )
    def test_every_operator_has_a_python_spelling(self, written, operator, constants):
        assert written == Constraint("a", operator, constants)
        assert type(written.constants) is tuple

    @pytest.mark.parametrize(
        ("written", "family"),
        [
            (attr("a") == 1, Family.NUMBER),
            (attr("a").between(1, 2.5), Family.NUMBER),
            (attr("a") == "x", Family.STRING),
            (attr("a") == False, Family.BOOL),  # noqa: E712
            (attr("a") < NOON, Family.TIME),
            (attr("a").exists(), None),
        ],
    )
    def test_the_family_is_that_of_the_constants(self, written, family):
        assert written.family is family

    def test_one_and_true_are_different_constants(self):
        assert (attr("a") == 1) != (attr("a") == True)  # noqa: E712
        assert (attr("a") == 1) == (attr("a") == 1.0)
        assert len({attr("a") == 1, attr("a") == True, attr("a") == 1.0}) == 2  # noqa: E712
        assert ((attr("a") == True) & B) != (A & B)  # noqa: E712

    @given(constraints(), constraints())
    def test_equal_constraints_have_equal_hashes(self, one, other):
        assert one == Constraint(one.attribute, one.operator, one.constants)
        assert one != other or hash(one) == hash(other)

    def test_a_constraint_equals_no_other_kind_of_thing(self):
        assert Not(A) != A
        assert A != "a = 1"


ALONE = r"compare it with a constant \(.*\), such as \(attr\('b'\) == True\)"


class TestRefused:
    @pytest.mark.parametrize(
        ("make", "reason"),
        [
            (lambda: attr("a").is_in(1, "x"), "these mix number and string"),
            (lambda: attr("a").is_in(1, True), "these mix bool and number"),
            (lambda: attr("a").between("a", NOON), "these mix string and time"),
            (lambda: attr("a").is_in(), "the list is empty"),
            (lambda: attr("a") < True, "true and false have no order"),
            (lambda: attr("a").between(False, True), "true and false have no order"),
            (lambda: attr("a").like(5), "5 is not a string"),
            (lambda: attr("a").prefix(NOON), "is not a string"),
            (lambda: attr("a").contains(True), "True is not a string"),
            (lambda: attr("a").like("\\"), "a backslash must be followed by"),
            (lambda: Constraint("a", Operator.EQ, ()), r"1 constant\(s\) are needed, not 0"),
            (lambda: Constraint("a", Operator.EQ, (1, 2)), r"1 constant\(s\) are needed, not 2"),
            (lambda: Constraint("a", Operator.BETWEEN, (1,)), r"2 constant\(s\) are needed, not 1"),
            (lambda: Constraint("a", Operator.EXISTS, (1,)), r"0 constant\(s\) are needed, not 1"),
            (lambda: attr(""), "an attribute name is 1 to 1,000 characters"),
            (lambda: attr("x" * (MAX_NAME_LENGTH + 1)), "an attribute name is 1 to 1,000 characters"),
            (lambda: attr(5), "an attribute name is 1 to 1,000 characters, not 5"),
            (lambda: A & 5, "5 is not a filter expression"),
            (lambda: A | None, "None is not a filter expression"),
            (lambda: Not("a"), "'a' is not a filter expression"),
            (lambda: And(5), "5 is not a tuple of filter expressions"),
            (lambda: Filter.of("rent < 900"), "'rent < 900' is not a filter expression; text is read by parse_filter"),
            (lambda: ~attr("b"), ALONE),
            (lambda: A & attr("b"), rf"attr\('b'\) is not a filter expression; {ALONE}"),
            (lambda: attr("a") < 900 & attr("b") == "Porto", f"is not a filter expression; {ALONE}"),
        ],
    )
    def test_what_does_not_fit(self, make, reason):
        with pytest.raises(FilterTypeError, match=reason):
            make()

    @pytest.mark.parametrize("raw", [None, math.nan, math.inf, -math.inf, 2**63, "\ud800", [[1]], attr("b"), b"x"])
    @pytest.mark.parametrize("make", [OF_A.__eq__, OF_A.__lt__, OF_A.is_in, lambda one: OF_A.between(one, 1)])
    def test_what_is_no_constant(self, make, raw):
        with pytest.raises(InvalidValueError, match=r"^a "):
            make(raw)

    @pytest.mark.parametrize(
        ("make", "reason"),
        [
            (lambda: attr("\ud800"), "attribute name: .* half a surrogate pair"),
            (lambda: OF_A == None, "expected a finite constant; whether an attribute is there"),  # noqa: E711
            (lambda: OF_A.is_in([1, [2]]), "^a"),
        ],
    )
    def test_what_is_no_value(self, make, reason):
        with pytest.raises(InvalidValueError, match=reason):
            make()

    def test_the_name_at_the_bound_is_accepted(self):
        assert attr("x" * MAX_NAME_LENGTH).exists().attribute == "x" * MAX_NAME_LENGTH


class TestCombining:
    def test_and_or_not(self):
        assert And((A, B)) == (A & B)
        assert Or((A, B)) == (A | B)
        assert Not(A) == ~A
        assert Not(Not(A)) == ~~A
        assert Or((A, And((B, Not(C))))) == (A | B & ~C)

    def test_the_same_operator_stays_flat(self):
        assert (A & B & C) == And((A, B, C)) == (A & (B & C))
        assert (A | B | C) == Or((A, B, C)) == (A | (B | C))
        assert Or((And((A, B)), C)) == ((A & B) | C)

    def test_of_one_and_of_nothing(self):
        assert all_of(A) is A
        assert any_of(A) is A
        assert all_of() == Constant(True)
        assert any_of() == Constant(False)

    @pytest.mark.parametrize("filter", [A, ~A, A & B, A | B, Constant(True)])
    def test_python_s_own_and_or_not_are_refused(self, filter):  # noqa: A002
        with pytest.raises(TypeError, match=r"combine filters with & \| ~"):
            bool(filter)
        with pytest.raises(TypeError, match="no truth value"):
            _ = filter and A

    def test_a_chained_comparison_is_refused_instead_of_losing_a_half(self):
        with pytest.raises(TypeError, match="no truth value"):
            1 < attr("a") < 5  # noqa: B015

    def test_an_attribute_cannot_be_hashed_by_an_equality_that_builds_filters(self):
        with pytest.raises(TypeError, match="unhashable"):
            hash(attr("a"))
        assert repr(attr("a")) == "attr('a')"

    @given(expressions())
    def test_trees_can_be_hashed_and_their_depth_is_known(self, expression):
        assert hash(expression) == hash(expression)
        assert (~expression).depth == expression.depth + 1
        assert (expression & A).depth >= expression.depth

    @given(st.lists(expressions(max_leaves=3), max_size=4))
    def test_flattening_never_nests_an_operator_in_itself(self, parts):
        for made, kind in ((all_of(*parts), And), (any_of(*parts), Or)):
            if isinstance(made, kind) and len(parts) > 1:
                assert not any(isinstance(part, kind) for part in made.parts)

    @pytest.mark.parametrize("wrap", [Not, lambda part: And((part,)), lambda part: Or((part, B))])
    def test_nesting_is_bounded(self, wrap):
        made = A
        for _ in range(MAX_DEPTH - 1):
            made = wrap(made)
        assert made.depth == MAX_DEPTH
        with pytest.raises(FilterTooLargeError, match=f"more than {MAX_DEPTH} deep"):
            wrap(made)


def test_the_kinds_of_operators_do_not_overlap():
    assert not ORDERINGS & PATTERNS
    assert not OF_ELEMENTS & (ORDERINGS | PATTERNS)
    assert {Operator.EQ, Operator.NE, Operator.IN, Operator.EXISTS} == set(
        Operator
    ) - ORDERINGS - PATTERNS - OF_ELEMENTS
