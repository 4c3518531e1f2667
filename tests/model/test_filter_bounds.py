"""Filters that explode are refused with an error that names the bound, before they take long."""

import sys
from functools import reduce

import pytest

from rankcast.model import filters
from rankcast.model.errors import FilterTooLargeError
from rankcast.model.expressions import MAX_DEPTH, And, Or, all_of, any_of, attr
from rankcast.model.filters import MAX_CONJUNCTIONS, MAX_CONSTRAINTS, MAX_STEPS, MAX_VALUE_SETS, Filter
from rankcast.model.schema import Schema
from rankcast.model.values import ValueType
from rankcast.model.valuesets.strings import MAX_PATTERNS


def refused(match):
    return pytest.raises(FilterTooLargeError, match=match)


def either(number):
    return (attr(f"a{number}") == 1) | (attr(f"b{number}") == 1)


ALTERNATIVES = f"more than {MAX_CONJUNCTIONS} alternatives"
STEPS = f"takes more than {MAX_STEPS:,} steps"


class TestExplosion:
    @pytest.mark.parametrize(
        "exploding",
        [
            *(all_of(*(either(at) for at in range(factors))) for factors in (9, 12, 64, 1_000)),
            ~any_of(*((attr(f"a{at}") == 1) & (attr(f"b{at}") == 1) for at in range(40))),
            all_of(*(any_of(*(attr(f"a{side}{at}") == 1 for at in range(100))) for side in range(2))),
            any_of(*(attr(f"a{at}") == at for at in range(MAX_CONJUNCTIONS + 1))),
            any_of(*(attr("a").contains(f"<{at}>") for at in range(MAX_CONSTRAINTS))),
            any_of(
                *(attr("a").contains(f"<{at:03}>") for at in range(200)),
                *(attr("a").contains(f"<199>{at}") for at in range(5_000)),
            ),
        ],
        ids=["9", "12", "64", "1000", "negated", "wide", "many", "patterns", "covered patterns"],
    )
    def test_into_too_many_alternatives(self, exploding):
        with refused(f"{ALTERNATIVES}|{STEPS}"):
            Filter.of(exploding)

    def test_up_to_the_bound_it_is_accepted(self):
        accepted = Filter.of(any_of(*(attr(f"a{at}") == at for at in range(MAX_CONJUNCTIONS))))
        assert len(accepted.conjunctions) == MAX_CONJUNCTIONS

    def test_of_conjunctions_that_merge_only_one_after_the_other(self):
        steps = [(attr("a") == 0) & (attr("b") == 0)]
        for side in range(1, 2_000):
            steps += ((attr("a") == side) & attr("b").between(0, side - 1),)
            steps += ((attr("b") == side) & attr("a").between(0, side),)
        with refused(STEPS):
            Filter.of(any_of(*steps), Schema({"a": ValueType.INT, "b": ValueType.INT}))

    def test_of_many_attributes_in_many_alternatives(self):
        wide = [attr(f"w{at}") == 1 for at in range(5_000)]
        with refused(f"at most {MAX_VALUE_SETS:,} are allowed"):
            Filter.of(all_of(*wide, *map(either, range(7))))

    def test_of_a_product_of_wide_alternatives(self):
        def wide(name):
            return any_of(*(all_of(*(attr(f"{name}{part}x{at}") == 1 for at in range(150))) for part in range(16)))

        with refused(f"at most {MAX_VALUE_SETS:,} are allowed"):
            Filter.of(all_of(wide("a"), wide("b"), wide("c"), wide("d")))


def alternatives(count, texts, word=any_of):
    """Filters on one attribute, each with a condition of its own, so that they stay apart."""
    return word(*(made & (attr("n") == at) for at, made in enumerate(map(texts, range(count)))))


def nested(count):
    return reduce(
        lambda inner, at: attr("s").like(f"%{at}_a%") | ((attr(f"b{at}") == 1) & inner), range(count), attr("c") == 1
    )


SMALL_BUT_SLOW = {
    "long lists": all_of(*(~attr(name).is_in(*range(0, 14_000, 7)) for name in "ab"))
    & any_of(*((attr("a") > at + 0.5) & (attr("b") < 9_000.5 + at) for at in range(16)))
    & any_of(*((attr("a") < at + 9_900.5) & (attr("b") > at + 0.5) for at in range(16))),
    "texts and patterns": ~attr("s").is_in(*map(str, range(8_000)))
    & alternatives(60, lambda at: attr("s").like(f"%{at}_b%")),
    "patterns that are negated": all_of(*(~(attr("s").like(f"%a{at}_b%") & (attr("u") == at)) for at in range(8))),
    "many patterns": any_of(*(all_of(*(attr("s").like(f"%{i}_{j}%") for j in range(30))) for i in range(30))),
    "patterns in depth": nested(60),
    "products": any_of(
        *(
            any_of(*((attr(f"a{at}") == i) & (attr(f"b{at}") == i) for i in range(40)))
            & any_of(*((attr(f"c{at}") == i) & (attr(f"d{at}") == i) for i in range(6)))
            for at in range(20)
        )
    ),
}


class TestWork:
    @pytest.mark.parametrize("slow", SMALL_BUT_SLOW.values(), ids=list(SMALL_BUT_SLOW))
    def test_is_bounded_whatever_takes_long(self, slow, monkeypatch):
        """Each took from 2 seconds to minutes; a call of a function is never less than a step."""
        monkeypatch.setattr(filters, "MAX_STEPS", 2_000_000)
        calls = 0

        def count(_frame, event, _argument):
            nonlocal calls
            calls += event == "call"

        sys.setprofile(count)
        try:
            with refused("takes more than 2,000,000 steps"):
                Filter.of(slow)
        finally:
            sys.setprofile(None)
        assert calls < 2_000_000

    @pytest.mark.parametrize(
        "fine",
        [
            alternatives(250, lambda at: attr("s").like(f"%{at}_x%")),
            any_of(*(attr("s").like(f"%w{at}_x%") for at in range(MAX_CONJUNCTIONS))),
            all_of(*(attr("s").like(f"%{'a_' * 400}{at}%") for at in range(60))),
            all_of(*(attr("s").like(f"%a{at}_b%") | attr("u").like(f"%{at}_%") for at in range(8))),
            ~attr("a").is_in(*range(500)) & alternatives(250, lambda at: attr("a") > at),
        ],
    )
    def test_leaves_room_for_what_people_write(self, fine):
        assert Filter.of(fine).is_satisfiable


class TestWhatMergesDoesNotExplode:
    @pytest.mark.parametrize(
        ("many", "one"),
        [
            (any_of(*(attr("a") == at for at in range(5_000))), attr("a").is_in(*range(5_000))),
            (all_of(*(attr("a") != at for at in range(5_000))), ~attr("a").is_in(*range(5_000))),
            (all_of(*((attr("a") == at) | (attr("a") > 10) for at in range(200))), attr("a") > 10),
        ],
        ids=["equalities", "inequalities", "factors"],
    )
    def test_on_one_attribute(self, many, one):
        assert Filter.of(many) == Filter.of(one)

    def test_a_long_list_counts_as_one_constraint(self):
        many = Filter.of(attr("a").is_in(*(f"value {at}" for at in range(100_000))))
        assert many.accepts({"a": "value 99999"})

    def test_a_wide_conjunction_with_a_few_alternatives(self):
        wide = [attr(f"w{at}") == 1 for at in range(5_000)]
        found = Filter.of(all_of(*wide, (attr("a") == 1) | (attr("b") == 1)))
        assert [len(conjunction) for conjunction in found.conjunctions] == [5_001, 5_001]
        assert found.accepts({"b": 1} | {f"w{at}": 1 for at in range(5_000)})

    def test_what_no_alternative_speaks_of_keeps_its_place(self):
        alternatives = (attr("d") == 1) | ((attr("b") == 1) & (attr("e") == 1))
        around = [attr("a") == 1, attr("c") == 1, attr("f") == 1]
        orders = [all_of(alternatives, *around), all_of(*reversed(around), alternatives)]
        spelled_out = any_of(all_of(attr("d") == 1, *around), all_of(attr("b") == 1, attr("e") == 1, *around))
        assert len({*map(Filter.of, orders), Filter.of(spelled_out)}) == 1


class TestSize:
    @pytest.mark.parametrize("kind", [And, Or])
    def test_too_many_constraints(self, kind):
        parts = tuple(attr("a") == at for at in range(MAX_CONSTRAINTS + 1))
        with refused(f"10,001 constraints; at most {MAX_CONSTRAINTS:,} are allowed"):
            Filter.of(kind(parts))

    def test_deep_nesting_within_the_bound_can_be_used_printed_compared_and_hashed(self):
        def nested():
            return reduce(lambda made, level: (And, Or)[level % 2]((made,)), range(MAX_DEPTH - 1), attr("a") == 1)

        assert nested().depth == MAX_DEPTH
        assert Filter.of(nested()) == Filter.of(attr("a") == 1)
        assert (nested(), hash(nested())) == (nested(), hash(nested()))
        assert repr(nested()).count("(") == repr(nested()).count(")")

    def test_patterns_on_one_attribute_up_to_the_bound(self):
        barred = [~attr("a").contains(f"<{at}>") for at in range(MAX_PATTERNS + 1)]
        wanted = Filter.of(all_of(*barred[:-1]))
        assert wanted.accepts({"a": "<64>"})
        assert not wanted.accepts({"a": "...<63>..."})
        assert Filter.of(all_of(*barred[:-1]) | attr("a").suffix("!") | ~attr("a").contains("?")).accepts({"a": "<1>!"})
        with refused(f"more than {MAX_PATTERNS} patterns"):
            Filter.of(all_of(*barred))
