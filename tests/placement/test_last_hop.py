"""Limits on the last hop alone: what counts is how far the leaf is from the subscriber, not the path to the leaf."""

import numpy as np
import pytest

from placement_builders import line_problem
from rankcast.model.errors import PlacementError
from rankcast.placement.greedy import closest_without_balance
from rankcast.placement.problem.audit import Rule, verify
from rankcast.placement.problem.problem import Latency, limits_of_delay
from rankcast.placement.programme.fitting import fitted

ends = [(0, 1), (0, 1)]


def test_a_leaf_far_from_the_publisher_is_a_candidate_when_it_is_near_the_subscriber():
    path = line_problem(ends, brokers=(1, 50), places=[50.0, 50.0], limit=60.0)
    hop = line_problem(ends, brokers=(1, 50), places=[50.0, 50.0], limit=2.0, latency=Latency.LAST_HOP)
    assert path.latencies[0].tolist() == [50.0, 50.0]
    assert hop.latencies[0].tolist() == [49.0, 0.0]
    assert hop.candidates[0].tolist() == [False, True]


def test_the_audit_holds_the_last_hop_against_the_limit():
    problem = line_problem(ends, brokers=(1, 50), places=[50.0, 1.0], limit=2.0, latency=Latency.LAST_HOP)
    right = fitted(problem, np.array([1, 0]), np.random.default_rng(1))
    assert verify(problem, right).is_feasible
    wrong = fitted(problem, np.array([0, 0]), np.random.default_rng(1))
    audit = verify(problem, wrong)
    assert audit.broken() == {Rule.LATENCY}
    assert "49 where 2 is allowed" in audit.violations[0].message


def test_limits_allow_a_share_more_than_the_nearest_leaf():
    problem = line_problem(ends, brokers=(1, 50), places=[40.0, 40.0])
    assert limits_of_delay(problem.tree, problem.sites, 0.5, Latency.LAST_HOP).tolist() == [15.0, 15.0]
    assert limits_of_delay(problem.tree, problem.sites, 0.5, Latency.PATH).tolist() == [60.0, 60.0]


def test_the_nearest_broker_is_the_nearest_whatever_limits_are_about():
    for latency in Latency:
        problem = line_problem(ends, brokers=(1, 50), places=[40.0, 3.0], limit=1000.0, latency=latency)
        assert closest_without_balance(problem, np.random.default_rng(1)).brokers.tolist() == [1, 0]
        assert problem.latency is latency


def test_a_limit_that_no_leaf_keeps_is_named():
    with pytest.raises(PlacementError, match="the nearest leaf with any capacity gives 10"):
        line_problem(ends, brokers=(1, 50), places=[40.0, 3.0], limit=4.0, latency=Latency.LAST_HOP)
