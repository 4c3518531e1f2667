"""The normal form of a filter matches exactly the events that the expression, evaluated as written, matches."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast.matching.naive import evaluate
from rankcast.model.expressions import And, Constant, Expression, Not, Operator, Or, attr
from rankcast.model.filters import Filter
from rankcast.model.schema import Schema
from rankcast.model.values import ValueType
from rankcast.model.valuesets.sets import EVERYTHING
from rankcast.testing.strategies import (
    ATTRIBUTES,
    COMMON,
    attributes,
    conforming_events,
    constraints,
    expressions,
    filters,
    schemas,
    values,
)

ON_ONE = st.sampled_from(tuple(ATTRIBUTES))
WITHOUT_PATTERNS = expressions(leaves=constraints(patterns=False))

TRUE, FALSE = Constant(True), Constant(False)
UNKNOWN = attr("missing") == 1


def matches(expression: Expression, found: dict) -> bool:
    return evaluate(expression, found) is True


def raw_trees() -> st.SearchStrategy[Expression]:
    """Trees that `&` and `|` never make: an `and` of nothing, of one part, directly under another `and`."""
    parts = lambda inner: st.lists(inner, max_size=3).map(tuple)  # noqa: E731
    return st.recursive(
        constraints(), lambda inner: st.builds(And, parts(inner)) | st.builds(Or, parts(inner)) | st.builds(Not, inner)
    )


def some_of(*kinds):
    """Draw attributes, each of which may be missing, given as (name, strategy of its values)."""
    return st.fixed_dictionaries({}, optional=dict(kinds))


NUMBERS = values(ValueType.INT, ValueType.FLOAT)
DRAWN = [
    (expressions(max_leaves=12), attributes()),
    (expressions(leaves=constraints(st.just("s")), max_leaves=12), some_of(("s", values()))),
    (
        expressions(leaves=constraints(st.sampled_from(("n", "x")), patterns=False), max_leaves=16),
        some_of(("n", NUMBERS), ("x", NUMBERS)),
    ),
    (raw_trees(), attributes()),
]
FEW = Schema({"n": ValueType.INT, "flag": ValueType.BOOL}, frozenset({"n"}))


class TestSameEvents:
    @pytest.mark.parametrize("drawn", DRAWN, ids=["any", "of many on one attribute", "of many on numbers", "raw"])
    @given(data=st.data())
    def test_of_a_filter_and_its_negation(self, drawn, data):
        expression, found = data.draw(st.tuples(*drawn))
        assert Filter.of(expression).accepts(found) == matches(expression, found)
        assert Filter.of(~expression).accepts(found) == (evaluate(expression, found) is False)

    @pytest.mark.parametrize("names", [None, ("n", "flag", "subject")], ids=["any schema", "few attributes"])
    @given(data=st.data())
    def test_under_a_schema_for_events_that_conform(self, names, data):
        schema = data.draw(schemas()) if names is None else FEW
        event = data.draw(conforming_events(schema))
        leaves = None if names is None else constraints(st.sampled_from(names), schema=schema)
        expression = data.draw(expressions(leaves=leaves, schema=schema, max_leaves=8 if names is None else 16))
        assert Filter.of(expression, schema).accepts(event.attributes) == matches(expression, event.attributes)

    @pytest.mark.parametrize("operator", ["and", "or"])
    def test_of_three_valued_constants(self, operator):
        for one, other in product((TRUE, FALSE, UNKNOWN), repeat=2):
            both = And((one, other)) if operator == "and" else Or((one, other))
            for expression in (both, ~both, ~~both):
                assert Filter.of(expression).accepts({}) == matches(expression, {})


class TestCanonical:
    @given(expressions())
    def test_double_negation_changes_nothing(self, expression):
        assert Filter.of(~~expression) == Filter.of(expression)

    @given(expressions())
    def test_saying_it_twice_changes_nothing(self, expression):
        assert Filter.of(Or((expression, expression))) == Filter.of(expression)

    @given(st.lists(constraints(ON_ONE), min_size=1, max_size=8), st.randoms(use_true_random=False))
    def test_the_order_of_constraints_in_and_and_or_does_not_matter(self, parts, random):
        shuffled = random.sample(parts, len(parts))
        assert Filter.of(Or(tuple(parts))).conjunctions == Filter.of(Or(tuple(shuffled))).conjunctions
        plain = [part for part in parts if part.operator not in (Operator.LIKE, Operator.SUFFIX, Operator.CONTAINS)]
        assert Filter.of(And(tuple(plain))) == Filter.of(And(tuple(random.sample(plain, len(plain)))))

    @given(expressions(leaves=constraints(st.just("n"), patterns=False), max_leaves=10))
    def test_on_one_attribute_without_patterns_it_is_one_value_set(self, expression):
        assert len(Filter.of(expression).conjunctions) <= 1

    @given(*[expressions(leaves=constraints(st.just("n"), patterns=False), max_leaves=6)] * 2)
    def test_de_morgan_on_one_attribute(self, one, other):
        assert Filter.of(~(one & other)) == Filter.of(~one | ~other)
        assert Filter.of(~(one | other)) == Filter.of(~one & ~other)

    @given(*[expressions(leaves=constraints(st.just("n"), patterns=False), max_leaves=6)] * 3)
    def test_and_distributes_on_one_attribute(self, one, two, three):
        assert Filter.of(one & (two | three)) == Filter.of((one & two) | (one & three))

    @given(filters())
    def test_no_set_is_empty_or_everything_and_names_are_sorted(self, wanted):
        for conjunction in wanted.conjunctions:
            assert list(conjunction.attributes) == sorted(set(conjunction.attributes))
            assert all(found and found != EVERYTHING for _, found in conjunction)

    @given(filters())
    def test_equal_filters_have_equal_hashes(self, wanted):
        again = Filter.of(wanted.expression)
        assert (again, hash(again)) == (wanted, hash(wanted))

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            (attr("a").is_in(1, 2), (attr("a") == 2) | (attr("a") == 1.0)),
            (attr("a").is_in(0), attr("a") == -0.0),
            (~attr("a").between(1, 2), (attr("a") < 1) | (attr("a") > 2)),
            (attr("a") != "x", (attr("a") < "x") | (attr("a") > "x")),
            (attr("a").like("ab%"), attr("a").prefix("ab")),
            (attr("a").like("ab"), attr("a") == "ab"),
            (attr("a").prefix("ab"), (attr("a") >= "ab") & (attr("a") < "ac")),
            (attr("a").like("%_%"), attr("a").like("_%%")),
            (attr("a").is_in(True, False), (attr("a") == True) | (attr("a") == False)),  # noqa: E712
            ((attr("a") == 1) & (attr("a") == 2), FALSE),
            (attr("a").between(2, 1), FALSE),
            ((attr("a") == 1) | TRUE, TRUE),
            (attr("a").exists() | ~attr("a").exists(), TRUE),
            ((attr("a") == 1) | ((attr("a") == 1) & (attr("b") == 1)), attr("a") == 1),
            (((attr("a") == 1) & (attr("b") == 1)) | ((attr("a") == 1) & (attr("b") == 2)),
             (attr("a") == 1) & attr("b").is_in(1, 2)),
        ],
    )  # fmt: skip
    def test_two_ways_to_say_the_same_are_equal(self, one, other):
        assert Filter.of(one) == Filter.of(other)

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            (attr("a") == 1, attr("a") == True),  # noqa: E712
            (attr("a") == 1, attr("a") == "1"),
            (attr("a") == 1, attr("b") == 1),
            (attr("a") < 1, attr("a") <= 1),
            (attr("a") > 3, attr("a") >= 4),
        ],
    )
    def test_different_filters_differ(self, one, other):
        assert Filter.of(one) != Filter.of(other)

    @pytest.mark.parametrize(
        ("written", "meant"),
        [
            (attr("a") > 3, attr("a") >= 4),
            ((attr("a") > 3) & (attr("a") < 4), FALSE),
            (attr("a") == 1.5, FALSE),
            (attr("a").exists(), TRUE),
            ((attr("a") < 5) | (attr("a") >= 5), TRUE),
            (~attr("a").exists(), FALSE),
            (attr("b").is_in(True, False), attr("b").exists()),
        ],
    )
    def test_what_the_schema_says_anyway_goes_away(self, written, meant):
        schema = Schema({"a": ValueType.INT, "b": ValueType.BOOL}, frozenset({"a"}))
        assert Filter.of(written, schema) == Filter.of(meant, schema)

    def test_under_another_schema_the_expression_stays(self):
        wanted = Filter.of((attr("a") > 3) & (attr("a") < 4))
        assert wanted.is_satisfiable
        assert not wanted.under(Schema({"a": ValueType.INT})).is_satisfiable
        assert wanted.under(Schema({"a": ValueType.INT})).under(None) == wanted


class TestSatisfiable:
    @given(expressions(leaves=constraints(st.just("s")), max_leaves=4))
    def test_an_unsatisfiable_filter_on_strings_matches_no_common_string(self, expression):
        if not Filter.of(expression).is_satisfiable:
            candidates = [{}, *({"s": value} for kind in COMMON.values() for value in kind)]
            assert not any(matches(expression, found) for found in candidates)

    @given(WITHOUT_PATTERNS)
    def test_without_patterns_a_satisfiable_filter_has_a_witness(self, expression):
        for conjunction in Filter.of(expression).conjunctions:
            found = {}
            for name, accepted in conjunction:
                value = example_of(accepted)
                if value is not None:
                    found[name] = value
                elif not accepted.missing:
                    return  # only reals between two neighbouring floats: empty in practice, and documented
            assert matches(expression, found)


def example_of(accepted):
    if accepted.missing:
        return None
    if accepted.bools:
        return min(accepted.bools)
    return next(
        (v for v in (s.witness() for s in (accepted.numbers, accepted.strings, accepted.times)) if v is not None), None
    )


class TestConjunctionCovers:
    @given(filters(), filters(), attributes())
    def test_true_is_certain(self, wide, narrow, found):
        for one, other in product(wide.conjunctions, narrow.conjunctions):
            if one.covers(other) and other.accepts(found):
                assert one.accepts(found)

    @given(*[st.lists(constraints(ON_ONE, patterns=False), min_size=1, max_size=3)] * 2)
    def test_without_patterns_it_is_decided(self, wide, narrow):
        for one, other in product(Filter.of(And(tuple(wide))).conjunctions, Filter.of(And(tuple(narrow))).conjunctions):
            assert one.covers(other) is not None

    @given(*[st.lists(constraints(ON_ONE), min_size=1, max_size=3)] * 2, attributes())
    def test_their_and_accepts_what_both_accept(self, left, right, found):
        for one, other in product(Filter.of(And(tuple(left))).conjunctions, Filter.of(And(tuple(right))).conjunctions):
            both = one & other
            assert (both is not None and both.accepts(found)) == (one.accepts(found) and other.accepts(found))

    def test_an_attribute_it_does_not_name_may_be_anything(self):
        [one] = Filter.of(attr("a") == 1).conjunctions
        assert one.get("a") != EVERYTHING
        assert one.get("b") == EVERYTHING


def test_a_filter_is_not_equal_to_anything_else():
    assert Filter.of(TRUE) != "true"
    assert Filter.of(TRUE).accepts_everything
