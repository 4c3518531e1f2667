"""The strategies draw what they promise: valid things, hits, misses, every operator, every edge; and the fake clock."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from rankcast.matching.naive import evaluate
from rankcast.model.errors import InvalidValueError
from rankcast.model.events import Event
from rankcast.model.expressions import Operator
from rankcast.model.relevance import Closeness, Cosine, IdealPoint
from rankcast.model.schema import ENVELOPE_TYPES
from rankcast.model.values import SCALARS, ValueType, checked_attribute, checked_constant, elements_of, type_of
from rankcast.ranking.relevance import relevance_of
from rankcast.testing.clock import START, FakeClock
from rankcast.testing.strategies import (
    ATTRIBUTES,
    EDGES,
    VECTOR,
    attributes,
    conforming_events,
    constants,
    constraints,
    events,
    filters,
    policies,
    relevances,
    schemas,
    subscribers,
    values,
    vectors,
)


def drawn(strategy, count):
    """Draw a number of examples, the same ones in every run."""
    found = []

    @settings(
        max_examples=count,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(example):
        found.append(example)

    collect()
    return found


def is_of(kind, value):
    """Whether a value is of a type, or a list whose elements are."""
    return isinstance(value, tuple) == kind.is_list and all(type_of(one) is kind.element for one in elements_of(value))


class TestValid:
    @given(values())
    def test_values_are_values(self, value):
        assert checked_attribute(value, "drawn") == value

    @given(constants())
    def test_constants_are_constants(self, value):
        assert checked_constant(value, "drawn") == value

    @given(st.sampled_from(ValueType), st.data())
    def test_values_are_of_the_type_asked_for(self, kind, data):
        assert is_of(kind, data.draw(values(kind)))

    @given(st.data())
    def test_events_have_the_attributes_they_are_made_of(self, data):
        content = data.draw(attributes())
        event = data.draw(events(st.just(content)))
        assert {name: event.attributes[name] for name in content} == content
        assert event.attributes.keys() - content.keys() <= ENVELOPE_TYPES.keys() | {"region"}

    @given(st.data())
    def test_conforming_events_conform(self, data):
        schema = data.draw(schemas())
        event = data.draw(conforming_events(schema))
        assert event.attributes.keys() >= schema.required
        for name, kind in schema.attributes.items():
            assert name not in event.attributes or is_of(kind, event.attributes[name])

    @given(st.data())
    def test_filters_fit_the_schema_they_are_drawn_for(self, data):
        schema = data.draw(schemas())
        wanted = data.draw(filters(schema))
        assert wanted == wanted.under(schema)

    @given(subscribers())
    def test_priorities_have_no_cycle(self, subscriber):
        waiting = {
            one.id: {p.first for p in subscriber.priorities if p.then == one.id} for one in subscriber.subscriptions
        }
        while ready := [name for name, before in waiting.items() if not before & waiting.keys()]:
            for name in ready:
                del waiting[name]
        assert not waiting


class TestWidth:
    def test_edges_of_every_type_are_drawn(self):
        for kind in SCALARS:
            edges = {repr(value) for value in EDGES[kind]}
            found = {repr(value) for value in drawn(values(kind), 400)}
            assert len(found & edges) > len(edges) / 2

    def test_every_operator_and_every_name_is_drawn(self):
        found = drawn(constraints(), 500)
        assert {constraint.operator for constraint in found} == set(Operator)
        assert {constraint.attribute for constraint in found} > set(ATTRIBUTES)

    def test_filters_hit_and_miss(self):
        verdicts = [
            evaluate(wanted.expression, found) for wanted, found in drawn(st.tuples(filters(), attributes()), 300)
        ]
        assert min(verdicts.count(truth) for truth in (True, False, None)) > 15

    def test_one_constraint_often_has_the_very_value(self):
        pairs = drawn(st.tuples(constraints(), attributes()), 500)
        equal = [one for one, found in pairs if found.get(one.attribute) in one.constants]
        assert len(equal) > 15

    def test_every_kind_of_policy_is_drawn(self):
        assert len({type(policy) for policy in drawn(policies(), 100)}) == 5

    def test_some_subscribers_have_ranks_and_some_priorities(self):
        found = drawn(subscribers(), 100)
        assert any(subscriber.priorities for subscriber in found)
        assert any(one.rank is not None for subscriber in found for one in subscriber.subscriptions)
        assert any(one.active_from is not None for subscriber in found for one in subscriber.subscriptions)

    def test_some_subscribers_rank_by_relevance_and_some_by_distance_some_with_decay_or_refresh_times(self):
        found = drawn(subscribers(), 400)
        owned = [one for subscriber in found for one in subscriber.subscriptions]
        assert {type(one.relevance) for one in owned} == {type(None), IdealPoint, Closeness, Cosine}
        assert any(one.scores_by_distance for one in owned)
        assert any(one.relevance is not None and one.rank is not None for one in owned)
        assert any(one.refresh is not None for one in owned)
        assert any(subscriber.decay is not None and subscriber.subscriptions for subscriber in found)

    def test_relevance_functions_score_high_and_low_and_not_at_all(self):
        content = st.tuples(attributes(), vectors()).map(lambda pair: {**pair[0], VECTOR: pair[1]})
        pairs = drawn(st.tuples(content, relevances()), 300)
        scores = [relevance_of(Event.of(found, id="1", source="/s"), wanted) for found, wanted in pairs]
        assert None in scores
        assert 0 in scores
        assert 1 in scores
        assert any(score is not None and 0 < score < 1 for score in scores)

    def test_some_payloads_are_nested(self):
        assert any(isinstance(event.data.get("address"), dict) for event in drawn(events(), 100))


NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_it_stands_still():
    clock = FakeClock(NOON)
    assert [clock(), clock()] == [NOON, NOON]
    assert FakeClock()() == START


def test_it_advances():
    clock = FakeClock(NOON)
    assert clock.advance(timedelta(hours=1)) == NOON + timedelta(hours=1) == clock()
    assert clock.advance(timedelta(0)) == clock()


def test_it_goes_back_only_on_purpose():
    clock = FakeClock(NOON)
    with pytest.raises(InvalidValueError, match="goes back in time"):
        clock.advance(timedelta(seconds=-1))
    assert clock() == NOON
    assert clock.set(NOON - timedelta(days=1)) == clock() == NOON - timedelta(days=1)


def test_it_shows_utc():
    clock = FakeClock(NOON.astimezone(timezone(timedelta(hours=3))))
    assert clock().tzinfo is UTC
    assert repr(clock) == "FakeClock(2026-03-01T12:00:00Z)"


@pytest.mark.parametrize("time", [datetime(2026, 3, 1), "2026-03-01", None])  # noqa: DTZ001
def test_it_needs_an_aware_time(time):
    with pytest.raises(InvalidValueError, match="clock: "):
        FakeClock(time)
