"""One filter against many: the answers of the relation of two filters."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grid_filters import GRID_BOXES
from rankcast.covering.relation import Relation, relation
from rankcast.language.parser import parse_filter
from rankcast.model.errors import UnknownIdError
from rankcast.model.schema import Schema
from rankcast.model.values import ValueType
from rankcast.testing.strategies import attributes, filters
from rankcast_lab.engines.relations import RELATIONS, RelationTable

CLOSED = Schema({"x": ValueType.INT, "y": ValueType.INT}, required=frozenset({"x", "y"}))
GRID = GRID_BOXES | st.sampled_from(
    [
        "x < 2",
        "x >= 2",
        "x > 1",
        "y != 1",
        "x in (0, 2) or y = 3",
        "true",
        "not exists x",
        "x < 1 or x > 2",
        "x in (0, 1, 3)",
    ]
)


def table_of(filters_of_table, schema=None):
    table = RelationTable(schema)
    for number, wanted in enumerate(filters_of_table):
        table.add(number, wanted)
    return table


@given(filters(), st.lists(filters(), max_size=8))
def test_every_pair_has_the_relation_of_two_filters(wanted, others):
    found = table_of(others).relations(wanted)
    assert found == {number: relation(wanted, other) for number, other in enumerate(others)}


@given(GRID, st.lists(GRID, max_size=10), st.sampled_from([None, CLOSED]))
def test_with_a_schema_too(text, texts, schema):
    wanted, others = parse_filter(text), [parse_filter(one) for one in texts]
    found = table_of(others, schema).relations(wanted)
    assert found == {number: relation(wanted, other, schema) for number, other in enumerate(others)}


@given(filters(), st.lists(filters(), max_size=5), st.lists(attributes(), max_size=10))
def test_match_sets_nest_meet_or_are_apart_as_the_relation_says(wanted, others, events):
    """The oracle: what COVERS, COVERED, EQUAL and DISJOINT mean for events."""
    found = table_of(others).relations(wanted)
    for event in events:
        own = wanted.accepts(event)
        for number, other in enumerate(others):
            match found[number]:
                case Relation.EQUAL:
                    assert own == other.accepts(event)
                case Relation.COVERS:
                    assert own or not other.accepts(event)
                case Relation.COVERED:
                    assert other.accepts(event) or not own
                case Relation.DISJOINT:
                    assert not (own and other.accepts(event))


def test_more_filters_than_a_block_come_and_go():
    table = table_of([parse_filter(f"x between {low} and {low + 10}") for low in range(3_000)])
    for number in range(0, 3_000, 7):
        table.remove(number)
    wanted = parse_filter("x between 1000 and 1015")
    codes = dict(zip(table.numbers.tolist(), table.codes(wanted).tolist(), strict=True))
    assert len(table) == len(codes) == 3_000 - 429
    covered = {number for number, code in codes.items() if RELATIONS[code] is Relation.COVERS}
    assert covered == {number for number in range(1000, 1006) if number % 7}
    meeting = {number for number, code in codes.items() if RELATIONS[code] is Relation.OVERLAPS}
    assert meeting | covered == {number for number in range(990, 1016) if number % 7}


def test_a_filter_that_is_not_there_cannot_be_removed():
    with pytest.raises(UnknownIdError, match="no subscription 4"):
        table_of([]).remove(4)
