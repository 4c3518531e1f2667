"""The oracle is checked against tables that are written out here, since everything else is checked against it."""

from datetime import UTC, datetime, timedelta
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costly import costly
from rankcast.matching.naive import (
    conjunction,
    disjunction,
    evaluate,
    holds,
    matches,
    matching_subscriptions,
    negation,
)
from rankcast.model.events import Event
from rankcast.model.expressions import And, Constant, Not, Or, attr
from rankcast.model.filters import Filter
from rankcast.model.subscriptions import Subscription
from rankcast.testing.strategies import attributes, events, expressions, subscribers

T, F, U = True, False, None
TRUE, FALSE, UNKNOWN = Constant(True), Constant(False), attr("missing") == 1
SPELLED = {T: TRUE, F: FALSE, U: UNKNOWN}

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
LATER = NOON + timedelta(microseconds=1)
BIG = 2**53


NOT = {T: F, F: T, U: U}
AND = {(T, T): T, (T, F): F, (T, U): U, (F, T): F, (F, F): F, (F, U): F, (U, T): U, (U, F): F, (U, U): U}
OR = {(T, T): T, (T, F): T, (T, U): T, (F, T): T, (F, F): F, (F, U): U, (U, T): T, (U, F): U, (U, U): U}


class TestTruthTables:
    @pytest.mark.parametrize(("part", "truth"), NOT.items())
    def test_not(self, part, truth):
        assert negation(part) is truth
        assert evaluate(~SPELLED[part], {}) is truth

    @pytest.mark.parametrize(("parts", "truth"), AND.items())
    def test_and(self, parts, truth):
        assert conjunction(parts) is truth
        assert evaluate(And(tuple(SPELLED[part] for part in parts)), {}) is truth

    @pytest.mark.parametrize(("parts", "truth"), OR.items())
    def test_or(self, parts, truth):
        assert disjunction(parts) is truth
        assert evaluate(Or(tuple(SPELLED[part] for part in parts)), {}) is truth

    def test_three_parts_are_two_after_two(self):
        for one, two, three in product((T, F, U), repeat=3):
            assert conjunction((one, two, three)) is AND[AND[one, two], three]
            assert disjunction((one, two, three)) is OR[OR[one, two], three]

    def test_of_nothing(self):
        assert evaluate(And(()), {}) is True
        assert evaluate(Or(()), {}) is False

    @given(expressions(), expressions(), attributes())
    def test_de_morgan(self, one, other, found):
        assert evaluate(Not(And((one, other))), found) is evaluate(Or((Not(one), Not(other))), found)
        assert evaluate(Not(Or((one, other))), found) is evaluate(And((Not(one), Not(other))), found)


COMPARISONS = [
    # constraint, values for which it is true, values for which it is false; for every other value it is unknown
    (attr("a") == 2, (2, 2.0), (1, 2.5, float("inf"))),
    (attr("a") != 2, (1, 2.5, float("-inf")), (2, 2.0)),
    (attr("a") < 2, (1, 1.9, -(2**63), float("-inf")), (2, 2.0, 3)),
    (attr("a") <= 2, (2, 2.0, 1.5), (3, 2.1, float("inf"))),
    (attr("a") > 2, (3, 2.1, 2**63 - 1, float("inf")), (2, 2.0, 1)),
    (attr("a") >= 2, (2, 2.0, 3), (1, 1.9)),
    (attr("a").between(1, 2.5), (1, 1.0, 2, 2.5), (0, 0.9, 2.6, 3)),
    (attr("a").between(2, 1), (), (1, 1.5, 2)),
    (attr("a").is_in(1, 2.5), (1, 1.0, 2.5), (2, 0)),
    (attr("a") == "b", ("b",), ("", "a", "B", "b ", "1")),
    (attr("a") != "b", ("", "a", "bb"), ("b",)),
    (attr("a") < "b", ("", "a", "az", "B"), ("b", "ba", "é", "😀")),
    (attr("a") >= "\ue000", ("\ue000", "😀"), ("\ud7ff", "z")),
    (attr("a").between("a", "b"), ("a", "az", "b"), ("", "ba", "A")),
    (attr("a").is_in("a", ""), ("a", ""), ("b", " ")),
    (attr("a").like("a_%"), ("ab", "abc", "a%"), ("a", "ba", "")),
    (attr("a").prefix("ab"), ("ab", "abc"), ("a", "ba", "AB")),
    (attr("a").suffix("ab"), ("ab", "cab"), ("a", "abc")),
    (attr("a").contains(""), ("", "x"), ()),
    (attr("a").contains("ab"), ("ab", "xaby"), ("a b", "ba")),
    (attr("a") == True, (True,), (False,)),  # noqa: E712
    (attr("a") != True, (False,), (True,)),  # noqa: E712
    (attr("a").is_in(True, False), (True, False), ()),
    (attr("a") == NOON, (NOON,), (LATER,)),
    (attr("a") != NOON, (LATER,), (NOON,)),
    (attr("a") > NOON, (LATER,), (NOON,)),
    (attr("a").between(NOON, NOON), (NOON,), (LATER,)),
    (attr("a").is_in(NOON), (NOON,), (LATER,)),
]

ONE_OF_EACH_FAMILY = {int: 1, str: "1", bool: True, datetime: NOON}


@pytest.mark.parametrize(("constraint", "true", "false"), COMPARISONS, ids=str)
class TestOperators:
    def test_where_it_is_true_and_where_it_is_false(self, constraint, true, false):
        assert [holds(constraint, value) for value in true] == [True] * len(true)
        assert [holds(constraint, value) for value in false] == [False] * len(false)

    def test_a_missing_attribute_and_other_families_are_unknown(self, constraint, true, false):
        own = type((*true, *false)[0])
        others = [value for kind, value in ONE_OF_EACH_FAMILY.items() if kind is not own]
        assert [holds(constraint, value) for value in (None, *others)] == [None] * 4

    def test_its_negation_swaps_the_two(self, constraint, true, false):
        assert [evaluate(~constraint, {"a": value}) for value in true] == [False] * len(true)
        assert [evaluate(~constraint, {"a": value}) for value in false] == [True] * len(false)
        assert evaluate(~constraint, {}) is None


class TestExists:
    @pytest.mark.parametrize("value", [0, "", False, 0.0, NOON, float("inf")])
    def test_any_value_exists(self, value):
        assert holds(attr("a").exists(), value) is True
        assert evaluate(~attr("a").exists(), {"a": value}) is False

    def test_it_is_never_unknown(self):
        assert holds(attr("a").exists(), None) is False
        assert evaluate(~attr("a").exists(), {}) is True


class TestExactNumbers:
    @pytest.mark.parametrize(
        ("constraint", "value", "truth"),
        [
            (attr("a") == float(BIG), BIG, True),
            (attr("a") == float(BIG), BIG + 1, False),
            (attr("a") > float(BIG), BIG + 1, True),
            (attr("a") <= float(BIG), BIG + 1, False),
            (attr("a") == BIG + 1, float(BIG), False),
            (attr("a") < BIG + 1, float(BIG), True),
            (attr("a").is_in(BIG + 1), float(BIG), False),
            (attr("a").between(BIG + 1, BIG + 1), float(BIG + 2), False),
            (attr("a") == 2.0**63, 2**63 - 1, False),
            (attr("a") < 2.0**63, 2**63 - 1, True),
            (attr("a") == -(2.0**63), -(2**63), True),
            (attr("a") == 0, -0.0, True),
            (attr("a") == -0.0, 0, True),
            (attr("a") < 0, -0.0, False),
            (attr("a") >= 0.0, -0.0, True),
            (attr("a") > 0, 5e-324, True),
            (attr("a") == 0.1, 0.1, True),
            (attr("a") == 1, True, None),
            (attr("a") == True, 1, None),  # noqa: E712
        ],
    )
    def test_int_and_float_compare_by_value(self, constraint, value, truth):
        assert holds(constraint, value) is truth


class TestSubscriptions:
    WANTED = Filter.of(attr("rent") < 500)

    def event(self, time=None, **attributes):
        return Event.of({**attributes, "time": time}, id="1", source="/s")

    def test_the_written_filter_is_evaluated_not_the_normal_form(self):
        forged = Filter(attr("rent") < 500, ())
        assert matches(Subscription("a", forged), self.event(rent=400))

    @costly
    @given(st.lists(subscribers(), max_size=3), events())
    def test_what_is_listed_is_active_and_accepted_by_the_normal_form(self, people, event):
        expected = [
            (person.id, one.id)
            for person in people
            for one in person.subscriptions
            if one.is_active_at(event.time) and one.filter.accepts(event.attributes)
        ]
        assert matching_subscriptions(people, event) == expected
