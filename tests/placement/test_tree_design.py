"""Tree design: trees and placements keep every limit, and have no more traffic than what was given."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placement_builders import problems
from rankcast.model.errors import PlacementError
from rankcast.placement.problem.audit import Rule, verify
from rankcast.placement.problem.interests import Interests
from rankcast.placement.problem.problem import PlacementProblem, limits_of_delay
from rankcast.placement.problem.tree import PUBLISHER, BrokerTree
from rankcast.placement.tree_design import clustered_tree, design_tree, starting_point


def degree_of(tree):
    return int(np.bincount(tree.parents + 1).max())


@settings(max_examples=40)
@given(problems(), st.integers(0, 2), st.integers(0, 100))
def test_a_designed_tree_keeps_every_limit_that_the_given_one_keeps(problem, more, seed):
    degree = degree_of(problem.tree) + more
    made = design_tree(problem, degree, np.random.default_rng(seed), moves=40, rounds=2, tries=20)
    assert degree_of(made.problem.tree) <= degree
    assert (made.problem.limits == problem.limits).all()
    assert len(made.problem.tree.leaves) == len(problem.tree.leaves)
    before, after = verify(problem, made.given), verify(made.problem, made.placement)
    assert after.broken() <= before.broken() <= {Rule.LOAD}


def two_branches():
    """Two inner brokers with two leaves each, like interests in different branches."""
    tree = BrokerTree(
        np.zeros(2), np.array([[1, 0], [1, 1], [2, 0], [2, 0], [2, 1], [2, 1]], float), np.array([-1, -1, 0, 0, 1, 1])
    )
    interests = Interests.of_boxes([[0], [100], [1], [101]], [[10], [110], [11], [111]])
    numbers = np.arange(4)
    sites = tree.positions[tree.leaves]
    limits = tree.reach[tree.leaves] + [0.5, 1.5, 1.5, 0.5]
    return PlacementProblem(tree, interests, numbers, sites, limits, numbers, beta=1.0, beta_max=1.0, alpha=1)


def test_brokers_of_like_interests_come_together_below_one_parent():
    problem = two_branches()
    made = design_tree(problem, 2, np.random.default_rng(1), moves=200, rounds=4, tries=80)
    before, after = verify(problem, made.given), verify(made.problem, made.placement)
    assert before.is_feasible
    assert after.is_feasible
    assert before.bandwidth == 4 * 10 + 2 * 110 or before.bandwidth == 4 * 10 + 2 * 11
    assert after.bandwidth == 4 * 10 + 2 * 11
    assert made.accepted > 0


def test_the_same_seed_gives_the_same_tree():
    made = [design_tree(two_branches(), 2, np.random.default_rng(3), moves=50, tries=40) for _ in range(2)]
    assert made[0].problem.tree.parents.tolist() == made[1].problem.tree.parents.tolist()
    assert made[0].placement.brokers.tolist() == made[1].placement.brokers.tolist()


def test_a_given_tree_with_too_many_children_is_refused():
    with pytest.raises(
        PlacementError, match="degree: the publisher has 2 children in the given tree; expected at most 1"
    ):
        design_tree(two_branches(), 1, np.random.default_rng(1), moves=10)


def wide(delay, shares=None):
    """Nine brokers at the publisher, in three places."""
    positions = np.array([[across, up / 10] for across in (10, 20, 30) for up in range(3)], float)
    tree = BrokerTree.star(np.zeros(2), positions)
    interests = Interests.of_boxes([[low] for low in range(18)], [[low + 2] for low in range(18)])
    sites = positions + np.array([1.0, 0.0])
    limits = limits_of_delay(tree, sites, delay)
    return PlacementProblem(tree, interests, np.arange(18), sites, limits, np.arange(18) % 9, 2.0, 9.0, shares=shares)


def test_a_tree_that_is_too_wide_is_replaced_by_one_that_keeps_every_latency_limit():
    problem = wide(delay=2.0)
    made = design_tree(problem, 3, np.random.default_rng(1), moves=60, tries=40)
    assert degree_of(made.problem.tree) <= 3
    assert (made.problem.limits == problem.limits).all()
    assert verify(made.problem, made.placement).is_feasible
    assert verify(problem, made.given).is_feasible


def test_a_tree_that_is_too_wide_and_cannot_be_replaced_is_refused():
    for problem, why in (
        (wide(delay=0.0), "a tree by positions would not do, either: no broker is near enough to"),
        (
            wide(delay=2.0, shares=[0.2, *[0.1] * 8]),
            "no other tree is tried, as leaves have different shares of the load",
        ),
    ):
        with pytest.raises(PlacementError, match=f"the publisher has 9 children .* expected at most 3; {why}"):
            starting_point(problem, 3, np.random.default_rng(1))


def test_a_tree_by_positions_has_no_more_children_than_allowed():
    positions = np.random.default_rng(2).uniform(0, 10, (40, 2))
    tree = clustered_tree(np.zeros(2), positions, 5, np.random.default_rng(3))
    assert degree_of(tree) <= 5
    assert (tree.parents == PUBLISHER).sum() <= 5
    with pytest.raises(PlacementError, match="degree: 1; expected at least 2 children"):
        clustered_tree(np.zeros(2), positions, 1, np.random.default_rng(3))
