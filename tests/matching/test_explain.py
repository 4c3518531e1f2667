"""Explanations: the oracle's verdict on every constraint, and what would have made an event match."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given

from rankcast.language.parser import parse_filter
from rankcast.matching.explain import explain
from rankcast.matching.naive import matches
from rankcast.model.events import Event
from rankcast.model.subscriptions import Subscription
from rankcast.testing.strategies import events, subscriptions


def explained(text, attributes, **options):
    return explain(Event.of(attributes, id="1", source="/s"), Subscription("s", parse_filter(text), **options))


def verdicts(explanation):
    return [(verdict.truth, verdict.value) for verdict in explanation.constraints]


@given(events(), subscriptions())
def test_the_verdict_is_the_oracles(event, subscription):
    assert explain(event, subscription).matched == matches(subscription, event)


@given(events(), subscriptions())
def test_every_change_names_a_value_that_was_not_accepted(event, subscription):
    explanation = explain(event, subscription)
    for change in explanation.changes:
        assert event.attributes.get(change.attribute) == change.seen
        assert not change.needed.accepts(change.seen)


@given(events(), subscriptions())
def test_a_page_can_always_be_printed(event, subscription):
    explanation = explain(event, subscription)
    assert str(explanation).startswith("match: " if explanation.matched else "no match: ")


def test_every_constraint_has_its_verdict_and_the_value_seen():
    explanation = explained("a > 1 and (b = 'x' or exists c)", {"a": 1, "b": "y"})
    assert verdicts(explanation) == [(False, 1), (False, "y"), (False, None)]
    assert not explanation.matched


def test_missing_and_incomparable_values_are_unknown():
    explanation = explained("a > 1 and b > 1", {"b": "text"})
    assert verdicts(explanation) == [(None, None), (None, "text")]
    assert "a is missing" in str(explanation)
    assert "b is 'text', a string, not comparable with a number" in str(explanation)


def test_the_fewest_changes_are_proposed():
    explanation = explained("(a = 1 and b = 1 and c = 1) or (a = 2 and b = 1)", {"a": 2, "b": 5, "c": 0})
    assert [str(change) for change in explanation.changes] == ["b = 1 (it is 5)"]


def test_a_changed_event_matches():
    text = "rent between 500 and 900 and city = 'Porto' and not (rooms < 2)"
    explanation = explained(text, {"rent": 1000, "rooms": 1})
    assert [change.attribute for change in explanation.changes] == ["city", "rent", "rooms"]
    assert explained(text, {"rent": 900, "rooms": 2, "city": "Porto"}).matched


@pytest.mark.parametrize(
    ("text", "attributes", "words"),
    [
        ("x <= 900", {"x": 1200}, "x is 1200, 300 above 900"),
        ("x > 2.5", {"x": 1.25}, "x is 1.25, 1.25 below 2.5"),
        ("x between 1 and 5", {"x": 7}, "x is 7, 2 above 5"),
        ("x in (1, 10, 20)", {"x": 12}, "x is 12, 2 above 10"),
        ("x < 5", {"x": 5}, "x is 5\n"),
        ("x = true", {"x": False}, "x is false\n"),
        ("x != 5", {"x": 5}, "x is 5\n"),
        (
            "x > time '2026-01-02'",
            {"x": datetime(2026, 1, 1, tzinfo=UTC)},
            "1 day, 0:00:00 below time '2026-01-02T00:00:00Z'",
        ),
        ("x > 9223372036854775806", {"x": -9223372036854775807}, "18446744073709551613 below 9223372036854775806"),
        ("x > 1", {"x": float("-inf")}, "inf below 1"),
    ],
)
def test_the_distance_to_the_nearest_constant_is_told(text, attributes, words):
    assert words in str(explained(text, attributes))


def test_an_inactive_subscription_says_so():
    explanation = explained("x = 1", {"x": 1}, active_from=datetime(2026, 1, 1, tzinfo=UTC))
    explanation = explain(replace(explanation.event, time=datetime(2025, 1, 1, tzinfo=UTC)), explanation.subscription)
    assert not explanation.matched
    assert "inactive at 2025-01-01T00:00:00Z: active from 2026-01-01T00:00:00Z" in str(explanation)
    assert explanation.changes == ()


def test_a_filter_that_nothing_satisfies_says_so():
    assert "no event can satisfy this filter" in str(explained("x > 5 and x < 5", {"x": 1}))


def test_a_constraint_under_not_is_told_with_its_not_so_that_yes_always_speaks_for_a_match():
    explanation = explained("not (rent > 5 or exists pets) and city not in ('Porto')", {"rent": 3, "city": "Porto"})
    told = [(line.split()[0], line.split("   ")[-1]) for line in str(explanation).splitlines()[1:4]]
    assert told == [("yes", "rent is 3"), ("yes", "pets is missing"), ("no", "city is 'Porto'")]
    assert "not rent > 5" in str(explanation)


@given(events(), subscriptions())
def test_when_every_constraint_speaks_for_a_match_the_filter_is_satisfied(event, subscription):
    """Constraints carry their `not`, so all true means true, and all false or unknown means that nothing matches."""
    explanation = explain(event, subscription)
    truths = {verdict.truth for verdict in explanation.constraints}
    if truths == {True}:
        assert explanation.verdict.truth is True
    if truths and True not in truths:
        assert explanation.verdict.truth is not True
