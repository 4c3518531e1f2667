"""Relevance functions, rule by rule: what is refused, what is scored, and what has no relevance."""

import math
from fractions import Fraction

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from rankcast.model.errors import FilterTypeError, InvalidSubscriptionError, UnknownAttributeError
from rankcast.model.events import Event
from rankcast.model.relevance import Closeness, Cosine, IdealPoint, Target, check_relevance
from rankcast.model.schema import Schema
from rankcast.model.values import ValueType
from rankcast.ranking.relevance import MAX_DISTANCE, relevance_of


def event(**attributes):
    return Event.of(attributes, id="1", source="/s")


def refused(reason):
    return pytest.raises(InvalidSubscriptionError, match=reason)


numbers = st.floats(-1e6, 1e6) | st.integers(-(2**63), 2**63 - 1)
positive = st.floats(1e-3, 1e3)


@st.composite
def target_lists(draw, names=("a", "b", "c")):
    chosen = draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
    return [Target(name, draw(numbers), draw(positive), draw(positive)) for name in chosen]


class TestDescriptions:
    @pytest.mark.parametrize("value", [math.nan, math.inf, True, "1", None, 10**400])
    def test_a_target_is_a_finite_number(self, value):
        with refused("target rent: value: .* is not a finite number"):
            Target("rent", value)

    @pytest.mark.parametrize("name", ["scale", "weight"])
    @pytest.mark.parametrize("value", [0, -1, math.inf, math.nan, "1"])
    def test_scales_and_weights_are_above_zero_and_finite(self, name, value):
        with refused(f"target rent: {name}: .* is not a"):
            Target("rent", 1, **{name: value})

    @pytest.mark.parametrize("name", ["", None, 7, "\ud800", "a" * 1_001, "a" + ".a" * 100_000])
    def test_an_attribute_has_a_name(self, name):
        with refused("attribute name"):
            Target(name, 1)
        with refused("attribute name"):
            Cosine(name, [1])

    def test_a_name_that_is_too_long_is_refused_with_its_length_and_the_limit(self):
        assert Cosine("a" * 1_000, [1]).attribute == "a" * 1_000
        with refused(r"an attribute name is 1 to 1,000 characters, not 'a+'\.\.\. \(1,001 characters\)"):
            Cosine("a" * 1_001, [1])

    @pytest.mark.parametrize("function", [IdealPoint, Closeness])
    def test_there_is_one_target_for_each_attribute_and_at_least_one(self, function):
        with refused("there is none"):
            function([])
        with refused("there are two for 'a'"):
            function([Target("a", 1), Target("b", 1), Target("a", 2)])
        with refused("1 is not a Target"):
            function([1])
        with refused("7 is not a list of targets"):
            function(7)
        with refused("the sum of the weights is not a finite number"):
            function([Target("a", 1, weight=1e308), Target("b", 1, weight=1e308)])

    def test_the_order_of_targets_does_not_matter(self):
        one, two = Target("a", 1), Target("b", 2)
        assert IdealPoint([two, one]) == IdealPoint((one, two))
        assert hash(Closeness([two, one])) == hash(Closeness((one, two)))

    def test_a_reach_is_above_zero(self):
        with refused("reach: 0 is not a number above 0"):
            IdealPoint([Target("a", 1)], reach=0)

    @pytest.mark.parametrize("vector", [[], [0, 0.0], 7, "12", [1, math.nan], [1, True]])
    def test_a_vector_has_a_direction(self, vector):
        with refused("vector"):
            Cosine("embedding", vector)

    def test_only_an_ideal_point_without_a_reach_is_not_bounded(self):
        targets = [Target("a", 1)]
        functions = [IdealPoint(targets), IdealPoint(targets, 2), Closeness(targets), Cosine("v", [1])]
        assert [function.is_bounded for function in functions] == [False, True, True, True]

    def test_targets_are_checked_against_a_schema(self):
        schema = Schema({"rent": ValueType.INT, "score": ValueType.FLOAT, "city": ValueType.STRING})
        check_relevance(IdealPoint([Target("rent", 1), Target("score", 1)]), schema)
        check_relevance(Cosine("embedding", [1]), schema)
        with pytest.raises(UnknownAttributeError, match="did you mean 'rent'"):
            check_relevance(Closeness([Target("rents", 1)]), schema)
        with pytest.raises(FilterTypeError, match="city is declared string; a target needs an int or a float"):
            check_relevance(Closeness([Target("city", 1)]), schema)


class TestIdealPoint:
    def test_with_a_reach_it_falls_from_1_to_0_and_stays_there(self):
        wanted = IdealPoint([Target("x", 10)], reach=4)
        assert [relevance_of(event(x=x), wanted) for x in (10, 11, 9, 14, 7.0, 100)] == [1, 0.75, 0.75, 0, 0.25, 0]

    def test_the_point_itself_scores_a_plain_zero(self):
        score = relevance_of(event(x=1), IdealPoint([Target("x", 1)]))
        assert math.copysign(1, score) == 1

    @pytest.mark.parametrize("reach", [None, 5])
    def test_a_distance_beyond_every_use_is_no_relevance(self, reach):
        wanted = IdealPoint([Target("x", 0)], reach)
        assert relevance_of(event(x=MAX_DISTANCE), wanted) is not None
        assert relevance_of(event(x=2 * MAX_DISTANCE), wanted) is None
        assert relevance_of(event(x=1e300), wanted) is None

    @given(target_lists(), st.fixed_dictionaries(dict.fromkeys("abc", numbers)))
    def test_it_is_the_definition(self, targets, values):
        exact = sum(
            Fraction(target.weight)
            * ((Fraction(float(values[target.attribute])) - Fraction(target.value)) / Fraction(target.scale)) ** 2
            for target in targets
        )
        score = relevance_of(event(**values), IdealPoint(targets))
        assert score <= 0
        assert Fraction(score) ** 2 == pytest.approx(exact, rel=1e-9, abs=1e-300)

    @given(target_lists(), st.fixed_dictionaries(dict.fromkeys("abc", numbers)), st.randoms())
    def test_scores_are_bit_equal_whatever_the_order(self, targets, values, random):
        shuffled = random.sample(targets, len(targets))
        for function in (IdealPoint, Closeness):
            assert relevance_of(event(**values), function(targets)) == relevance_of(event(**values), function(shuffled))

    @given(target_lists(), *[st.fixed_dictionaries(dict.fromkeys("abc", numbers))] * 2, positive)
    def test_a_reach_never_turns_the_order_round(self, targets, one, two, reach):
        raw = [relevance_of(event(**values), IdealPoint(targets)) for values in (one, two)]
        within = [relevance_of(event(**values), IdealPoint(targets, reach)) for values in (one, two)]
        assert all(0 <= score <= 1 for score in within)
        assert raw[0] > raw[1] or within[0] <= within[1]


class TestCloseness:
    def test_each_attribute_falls_linearly_from_its_target_to_its_scale(self):
        wanted = Closeness([Target("rent", 700, scale=200)])
        found = [relevance_of(event(rent=rent), wanted) for rent in (700, 750, 600, 900, 500, 2000)]
        assert found == [1, 0.75, 0.5, 0, 0, 0]

    @given(target_lists(), st.fixed_dictionaries(dict.fromkeys("abc", numbers)))
    def test_it_lies_between_0_and_1_and_is_1_at_the_targets(self, targets, values):
        assert 0 <= relevance_of(event(**values), Closeness(targets)) <= 1
        at = {target.attribute: target.value for target in targets}
        assert relevance_of(event(**at), Closeness(targets)) == 1


class TestCosine:
    @pytest.mark.parametrize("size", [5e-324, 1e-200, 1e200, 1e308])
    def test_length_does_not_matter_however_long_or_short(self, size):
        assert relevance_of(event(v=[size, 0]), Cosine("v", [1, 0])) == 1
        assert relevance_of(event(v=[1, 0]), Cosine("v", [0, size])) == 0.5

    @given(
        st.integers(1, 5).flatmap(lambda n: st.tuples(*[st.lists(st.floats(-1e3, 1e3), min_size=n, max_size=n)] * 2))
    )
    @example(([0.1] * 5, [0.1] * 5))
    def test_it_is_the_definition(self, vectors):
        first, second = vectors
        assume(any(abs(x) > 1e-3 for x in first) and any(abs(x) > 1e-3 for x in second))
        score = relevance_of(event(v=first), Cosine("v", second))
        product = sum(x * y for x, y in zip(first, second, strict=True))
        assert 0 <= score <= 1
        assert 2 * score - 1 == pytest.approx(product / (math.hypot(*first) * math.hypot(*second)), abs=1e-9)

    def test_a_vector_is_named_as_filters_name_attributes(self):
        nested = Event("1", "/s", data={"item": {"v": [1]}, "a.b": {"c": [2, 3]}, "type": [4]})
        assert nested.vector("item.v") == (1.0,)
        assert nested.vector("a.b.c") == (2.0, 3.0)
        assert nested.vector("data.type") == (4.0,)
        for name in ("item", "item.w", "v", "type", "data.item.v", "a.b", ""):
            assert nested.vector(name) is None
        assert Event("1", "/s", data=[1, 2]).vector("data") is None


class TestNoRelevance:
    @pytest.mark.parametrize("function", [IdealPoint, Closeness])
    @pytest.mark.parametrize("value", [None, math.nan, "3", True, math.inf, -math.inf])
    def test_an_attribute_that_is_missing_or_no_finite_number(self, function, value):
        wanted = function([Target("x", 1), Target("y", 1)])
        assert relevance_of(event(x=1, y=value), wanted) is None
        assert relevance_of(event(x=1), wanted) is None

    @pytest.mark.parametrize(
        "vector",
        [None, 1, "12", [], [1], [1, 2, 3], [0, 0], ["1", "2"], [1, None], [True, False], [1, math.inf]],
    )
    def test_a_vector_of_another_length_or_without_a_direction_or_not_of_finite_numbers(self, vector):
        assert relevance_of(event(v=vector), Cosine("v", [1, 2])) is None
