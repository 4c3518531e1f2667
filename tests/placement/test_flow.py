"""Flows give places to classes of subscribers: as many as can be, and as balanced as can be."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_builders import problems
from rankcast.model.errors import PlacementError
from rankcast.placement.programme.flow import (
    best_factor,
    cheapest_flow,
    classes_of,
    drawn_members,
    feasible_factor,
    largest_flow,
)


def factor_by_trying_all(problem):
    choices = [np.flatnonzero(problem.candidates[site]) for site in problem.site_of]
    loads = (np.bincount(found, minlength=len(problem.tree.leaves)) for found in itertools.product(*choices))
    return min((load / (problem.shares_of_leaves * len(problem))).max() for load in loads)


@given(problems(subscribers=5, brokers=4))
def test_the_best_factor_is_the_best_of_all_assignments(problem):
    assert feasible_factor(problem) == pytest.approx(factor_by_trying_all(problem))


@given(problems(), st.sampled_from([1.0, 1.5, 3.0]), st.integers(0, 3))
def test_members_get_leaves_that_they_are_allowed_within_the_rooms(problem, factor, seed):
    found = classes_of(problem.candidates, problem.site_of)
    rooms = problem.rooms(factor)
    flow = largest_flow(found.allowed, found.sizes, rooms)
    leaf_of = drawn_members(flow, found.members, np.random.default_rng(seed))
    placed = leaf_of >= 0
    assert placed.sum() == flow.total
    assert problem.candidates[problem.site_of[placed], leaf_of[placed]].all()
    assert (np.bincount(leaf_of[placed], minlength=len(rooms)) <= rooms).all()


def test_a_flow_at_least_cost_takes_the_dear_way_only_where_there_is_no_room():
    allowed, costs = np.array([[True, True], [True, False]]), np.array([[0, 5], [0, 0]])
    flow = cheapest_flow(allowed, costs, np.array([3, 2]), np.array([4, 4]))
    amounts = dict(
        zip(zip(flow.classes.tolist(), flow.leaves.tolist(), strict=True), flow.amounts.tolist(), strict=True)
    )
    assert amounts == {(0, 0): 2, (0, 1): 1, (1, 0): 2}


def test_sites_with_the_same_candidates_are_one_class():
    found = classes_of(np.array([[True, False], [False, True], [True, False]]), np.array([0, 1, 2, 2]))
    assert found.allowed[found.members].tolist() == [[True, False], [False, True], [True, False], [True, False]]
    assert sorted(found.sizes.tolist()) == [1, 3]


def test_subscribers_without_any_capacity_are_counted():
    with pytest.raises(PlacementError, match="2 subscribers have no leaf with capacity"):
        best_factor(np.array([[True, False]]), np.array([2]), np.array([0.0, 1.0]))
