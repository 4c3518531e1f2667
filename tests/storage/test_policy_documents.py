"""Diversity in subscriber files."""

import json
from datetime import timedelta

import pytest
from hypothesis import given

from rankcast.model.diversity import Diversity
from rankcast.model.policies import Periodic, Sliding, TopKWindow
from rankcast.model.subscriptions import Subscriber
from rankcast.storage.subscribers.documents import subscribers_to_document
from rankcast.storage.subscribers.files import loads_subscribers
from rankcast.storage.subscribers.schema import has_structure
from rankcast.storage.subscribers.settings import policy_from_document, policy_to_document
from rankcast.testing.strategies import policies


def read(deliver, before="", after="subscriptions: []"):
    return loads_subscribers(f"version: 1\n{before}subscribers:\n  - id: ana\n    deliver: {deliver}\n    {after}\n")


@pytest.mark.parametrize(
    ("entry", "policy"),
    [
        (
            "{policy: sliding, k: 3, window: 100, diversity: {sigma: 0.5, weights: {genre: 2}}}",
            Sliding(3, 100, Diversity(0.5, {"genre": 2})),
        ),
        ("{policy: sliding, k: 3, window: 100, diversity: {sigma: 1}}", Sliding(3, 100, Diversity(1))),
        (
            "{policy: periodic, k: 3, period: 1h, diversity: {weights: {b: 0.5, a: 1}}}",
            Periodic(3, timedelta(hours=1), Diversity(0.5, {"a": 1, "b": 0.5})),
        ),
        ("{policy: topkw, k: 3, window: 1h, diversity: {}}", TopKWindow(3, timedelta(hours=1), Diversity())),
        ("{policy: topkw, k: 3, window: 9, diversity: {weights: {}}}", TopKWindow(3, 9, Diversity())),
    ],
)
def test_diversity_is_read(entry, policy):
    found = read(entry)
    assert found.problems == ()
    assert found.subscribers[0].deliver == policy


@given(policies())
def test_every_policy_comes_back(policy):
    entry = policy_to_document(policy)
    if entry is not None:
        again = json.loads(json.dumps(entry))
        assert policy_from_document(again) == policy
        assert has_structure(subscribers_to_document([Subscriber("a", deliver=policy)]))


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (
            "{policy: sliding, k: 3, window: 9, diversity: 0.5}",
            "0.5 is not a mapping with sigma and weights",
        ),
        ("{policy: sliding, k: 3, window: 9, diversity: {sigma: 2}}", "sigma: 2 is not a number from 0 to 1"),
        (
            "{policy: sliding, k: 3, window: 9, diversity: {weights: [a]}}",
            "a mapping of attribute names to weights",
        ),
        ("{policy: sliding, k: 3, window: 9, diversity: {weights: {a: 0}}}", "weights.a: 0 is not a number above 0"),
        ("{policy: sliding, k: 3, window: 9, diversity: {sigmas: 1}}", "unknown key 'sigmas'; did you mean 'sigma'"),
        ("{policy: continuous, k: 3, diversity: {}}", "unknown key 'diversity'; expected policy, k"),
        (
            "{policy: sliding, k: 3, window: 9, diversity: {weights: {a: 1.0e+308, b: 1.0e+308}}}",
            "weights: their sum is not a finite number",
        ),
    ],
)
def test_what_is_wrong_with_it_is_reported_with_its_line(entry, message):
    found = read(entry)
    assert found.subscribers == ()
    assert [(finding.line, message in finding.message) for finding in found.problems] == [(4, True)]


def test_a_schema_knows_the_attributes_that_are_compared():
    schema = "schema: {attributes: {genre: string}}\n"
    assert (
        read("{policy: sliding, k: 3, window: 9, diversity: {weights: {genre: 1, source: 1}}}", schema).problems == ()
    )
    (finding,) = read("{policy: sliding, k: 3, window: 9, diversity: {weights: {gener: 1}}}", schema).problems
    assert finding.line == 5
    assert "genre" in finding.message


def test_ranks_that_diversity_cannot_weigh_are_refused():
    (finding,) = read(
        "{policy: sliding, k: 3, window: 9, diversity: {}}",
        after="subscriptions: [{filter: true}]\n    decay: {half_life: 1h}",
    ).problems
    assert "diversity needs ranks from 0 to 1, but there is a decay" in finding.message
