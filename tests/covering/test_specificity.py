"""Which of many filters strictly cover others: what comparing each pair says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grid_filters import GRID_BOXES
from rankcast.covering import specificity
from rankcast.covering.relation import covers, surely_covers
from rankcast.covering.specificity import Specificity
from rankcast.language.parser import parse_filter
from rankcast.model.schema import Schema
from rankcast.model.values import ValueType
from rankcast.testing.strategies import filters

CLOSED = Schema({"x": ValueType.INT, "y": ValueType.INT, "s": ValueType.STRING}, required=frozenset({"x", "y"}))
RELATED = GRID_BOXES | st.sampled_from(
    [
        "false", "true", "x < 2", "x < 3", "x >= 2", "not (x < 2)", "not (x < 2) or not exists x",
        "x < 2 or x >= 2 or not exists x", "not exists x", "x < 1 or x > 2", "x in (0, 1, 3)", "x in (0, 2) or y = 3",
        "x < 2 or y < 2", "(x < 1 or y < 2) and y < 3", "s != ''", "s > 'a'", "s = 'ab'", "s prefix 'a'",
        "s like 'a%b'", "s like 'a%' and s suffix 'b'", "s contains 'a'", "s contains 'ab'",
        "s contains 'a' and not s like '%a%'", "s suffix 'b' or x < 2", "s suffix 'b' and x < 2",
        "s suffix 'b' and x < 1 or s prefix 'b' and x < 3",
    ]
)  # fmt: skip
MANY = st.lists(filters() | RELATED.map(parse_filter), max_size=12)
DECLARED = st.lists(RELATED.map(lambda text: parse_filter(text).under(CLOSED)), max_size=12)


WAYS = {"pair by pair": 1_000, "by boxes": 0}
"""Up to how many filters are compared pair by pair, so that everything is decided in one of the two ways."""


@pytest.fixture(params=WAYS.values(), ids=WAYS)
def way(request, monkeypatch):
    monkeypatch.setattr(specificity, "FEW", request.param)


def check_both_ways(owned, some, is_above):
    """Ask for those above others among some, and for all above each one, and compare with each pair."""
    above = [[other for other, wide in enumerate(owned) if is_above(wide, narrow)] for narrow in owned]
    general = {wide for narrow in some for wide in above[narrow] if wide in some}
    for few in WAYS.values():
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(specificity, "FEW", few)
            found = Specificity(dict(enumerate(owned)))
            assert found.general_among(some) == general
            found = Specificity({str(number): wanted for number, wanted in enumerate(owned)})
            assert [found.above(number).tolist() for number in range(len(owned))] == above


def some_of(owned):
    return st.sets(st.sampled_from(range(len(owned)))) if owned else st.just(set())


def is_strictly_above(wide, narrow):
    return covers(wide, narrow) is True and covers(narrow, wide) is not True


@given(MANY | DECLARED, st.data())
def test_those_that_strictly_cover_another_are_found_and_all_that_are_above_one(owned, data):
    check_both_ways(owned, data.draw(some_of(owned)), is_strictly_above)


def is_plainly_above(wide, narrow):
    if any(conjunction.has_patterns for one in (wide, narrow) for conjunction in one.conjunctions):
        return surely_covers(wide, narrow) and not surely_covers(narrow, wide)
    return is_strictly_above(wide, narrow)


def is_above_without_patterns(wide, narrow):
    has_patterns = any(conjunction.has_patterns for one in (wide, narrow) for conjunction in one.conjunctions)
    return is_strictly_above(wide, narrow) and not (has_patterns and narrow.conjunctions)


@pytest.mark.parametrize(
    ("most_pairs", "is_above"), [(10_000, is_plainly_above), (0, is_above_without_patterns)], ids=["many", "too many"]
)
def test_of_many_patterns_only_what_is_plain_counts(monkeypatch, most_pairs, is_above):
    monkeypatch.setattr(specificity, "FEW_PATTERNS", 0)
    monkeypatch.setattr(specificity, "MOST_PAIRS", most_pairs)

    @given(MANY | DECLARED, st.data())
    def check(owned, data):
        if any(conjunction.has_patterns for one in owned for conjunction in one.conjunctions):
            check_both_ways(owned, data.draw(some_of(owned)), is_above)

    check()


@given(filters() | RELATED.map(parse_filter), filters() | RELATED.map(parse_filter))
def test_what_is_plain_is_true(wide, narrow):
    if surely_covers(wide, narrow):
        assert covers(wide, narrow) is True


def test_many_patterns_are_compared_where_one_has_the_text_of_the_other_and_once(monkeypatch):
    compared = []
    monkeypatch.setattr(specificity, "covers", pytest.fail)
    monkeypatch.setattr(specificity, "surely_covers", lambda *pair: compared.append(pair) or surely_covers(*pair))
    texts = [f"s contains 'a{number:03}z'" for number in range(400)] + ["s contains 'a39'", "s like '%a39%_'"]
    found = Specificity(dict(enumerate(map(parse_filter, texts))))
    for _ in range(3):
        assert found.general_among(range(len(texts))) == {400, 401}
    assert found.general_among(range(390)) == set()
    assert len(compared) <= 50


def test_too_many_patterns_are_not_compared(monkeypatch):
    monkeypatch.setattr(specificity, "MOST_PAIRS", 10_000)
    for name in ("covers", "surely_covers"):
        monkeypatch.setattr(specificity, name, pytest.fail)
    found = Specificity({number: parse_filter(f"s contains '{'a' * number}'") for number in range(1, 200)})
    assert found.general_among(range(1, 200)) == set()
    assert found.above(7).tolist() == []


def test_what_a_pattern_leaves_out_of_its_ranges_is_not_needed_to_cover_it(way):
    found = Specificity({"with an a": parse_filter("s contains 'a'"), "any": parse_filter("s != ''")})
    assert found.general_among(["with an a", "any"]) == {"any"}
    assert found.above(0).tolist() == [1]


MANY_RANGES = {
    "a chain": [f"x < {number}" for number in range(2_000)],
    "none above another": [f"x < {number} and y < {2_000 - number}" for number in range(2_000)],
    "an attribute each": [f"a{number} = 1" for number in range(2_000)],
}


@pytest.mark.parametrize("texts", MANY_RANGES.values(), ids=MANY_RANGES)
def test_ranges_are_not_compared_pair_by_pair(texts, monkeypatch):
    compared = []
    monkeypatch.setattr(specificity, "covers", lambda *pair: compared.append(pair))
    found = Specificity(dict(enumerate(map(parse_filter, texts))))
    general = found.general_among(range(len(texts)))
    assert general == (set(range(1, 2_000)) if texts is MANY_RANGES["a chain"] else set())
    assert not compared


SETTLED_BY_POINTS = {
    "disjunctions": [f"x < {number} or y < {500 - number}" for number in range(500)],
    "lists": [f"x in (0, {number}, {number + 7}, 1000)" for number in range(1, 501)],
    "lists and ranges": [f"x in (0, {number}, 1000) and y < {number}" for number in range(1, 500)] + ["y < -1"],
}


@pytest.mark.parametrize("texts", SETTLED_BY_POINTS.values(), ids=SETTLED_BY_POINTS)
def test_of_disjunctions_few_pairs_are_left_to_compare(texts, monkeypatch):
    compared = []
    monkeypatch.setattr(specificity, "covers", lambda *pair: compared.append(pair) or covers(*pair))
    found = Specificity(dict(enumerate(map(parse_filter, texts))))
    assert found.general_among(range(len(texts))) == set()
    assert len(compared) <= len(texts)


def test_few_of_many_are_compared_without_the_others(monkeypatch):
    compared = []
    monkeypatch.setattr(specificity, "covers", lambda *pair: compared.append(pair) or covers(*pair))
    found = Specificity({number: parse_filter(f"x < {number}") for number in range(1_000)})
    for _ in range(3):
        assert found.general_among([5, 6, 7]) == {6, 7}
    assert len(compared) <= 6 * 2


def test_what_is_remembered_of_pairs_is_bounded(monkeypatch):
    monkeypatch.setattr(specificity, "MAX_REMEMBERED", 10)
    found = Specificity({number: parse_filter(f"x < {number} or y > {number}") for number in range(40)})
    assert found.general_among(range(40)) == set()
    assert found.general_among(range(40)) == set()
