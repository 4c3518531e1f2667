"""The poset of subscriptions: its edges are those of the definition, and its walk finds what the oracle finds."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grid_filters import GRID_BOXES
from rankcast.covering.relation import covers
from rankcast.covering.topk.poset import Poset
from rankcast.language.parser import parse_filter
from rankcast.model.errors import UnknownIdError
from rankcast.model.schema import Schema
from rankcast.model.values import ValueType
from rankcast.testing.strategies import attributes, filters

GRID = (
    GRID_BOXES
    | st.sampled_from(["x < 2", "x >= 2", "y != 1", "x in (0, 2) or y = 3", "true", "s suffix 'a'", "s contains 'a'"])
    | st.sampled_from(["x in (0, 3)", "x between 0 and 3", "x in (0, 1, 3)"])
)


def is_above(poset, upper, lower):
    if upper == lower or covers(poset.filter(upper), poset.filter(lower)) is not True:
        return False
    return covers(poset.filter(lower), poset.filter(upper)) is not True or upper < lower


def check_edges(poset, nodes):
    above = {one: {other for other in nodes if is_above(poset, other, one)} for one in nodes}
    for one in nodes:
        direct = {other for other in above[one] if not any(other in above[third] for third in above[one])}
        assert poset.parents(one) == direct
        assert poset.children(one) == {other for other in nodes if one in poset.parents(other)}
        assert poset.count_above(one) == len(above[one])
        assert poset.depth(one) == 1 + max((poset.depth(other) for other in direct), default=0)
    assert poset.roots == {one for one in nodes if not above[one]}


@given(st.lists(GRID, min_size=1, max_size=10), st.data())
@settings(deadline=None)
def test_edges_are_those_of_the_definition_after_any_sequence(texts, data):
    poset, held = Poset(), {}
    for number, text in enumerate(texts):
        if held and data.draw(st.booleans(), label="remove one first"):
            gone = data.draw(st.sampled_from(sorted(held)))
            poset.remove(gone, held.pop(gone))
        held[number] = parse_filter(text)
        poset.add(number, held[number], rank=number / 10)
        nodes = sorted({poset.find(one) for one in held.values()})
        assert len(poset) == len(nodes)
        check_edges(poset, nodes)


@given(st.lists(filters(), max_size=8), st.lists(attributes(), max_size=8))
@settings(deadline=None)
def test_a_walk_finds_every_filter_that_accepts_the_event(wanted, events):
    poset = Poset()
    for number, one in enumerate(wanted):
        poset.add(number, one)
    for event in events:
        walk = poset.walk(event)
        found = {member for node in walk.accepting for member in poset.members(node)}
        assert found == {number for number, one in enumerate(wanted) if one.accepts(event)}
        assert len(walk.accepting) <= walk.visited <= len(poset)


def test_equal_filters_share_a_node_with_their_members_ranks():
    poset = Poset()
    node = poset.add("ana", parse_filter("x > 1"), 0.9)
    assert poset.add("rui", parse_filter("not (x <= 1)"), 0.4) == node
    assert poset.members(node) == {"ana": 0.9, "rui": 0.4}
    poset.add("rui", parse_filter("x > 1"), 0.5)
    poset.remove("ana", parse_filter("x > 1"))
    assert poset.members(node) == {"rui": 0.5}
    with pytest.raises(UnknownIdError, match="'ana' has no such filter"):
        poset.remove("ana", parse_filter("x > 1"))


def test_what_lies_below_a_filter_that_does_not_accept_is_never_asked():
    poset = Poset()
    for number, text in enumerate(["city = 'Porto'", "city = 'Porto' and rent < 900", "rent < 500"]):
        poset.add(number, parse_filter(text))
    assert poset.walk({"city": "Braga", "rent": 700}) == ([], 2)


def test_under_a_schema_filters_that_mean_the_same_lie_one_below_the_other():
    """Two nodes with the same box: the one that came first is above, and its parents are not parents of the second."""
    poset = Poset(Schema({"x": ValueType.INT}))
    texts = ["x > 0", "x > 2", "x >= 3", "x > 5"]
    nodes = [poset.add(number, parse_filter(text)) for number, text in enumerate(texts)]
    assert [poset.parents(node) for node in nodes] == [set(), {nodes[0]}, {nodes[1]}, {nodes[2]}]
    assert [poset.depth(node) for node in nodes] == [1, 2, 3, 4]
