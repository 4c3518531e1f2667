"""Members are shifted as filters change exactly when a flow says that it can be; boxes are merged by definition."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_builders import interests, problems
from rankcast.placement.problem.boxes import UNIFORM, Density
from rankcast.placement.problem.interests import Interests
from rankcast.placement.problem.problem import Problem
from rankcast.placement.problem.tree import BrokerTree
from rankcast.placement.programme.assignment import Loads, Stage, assigned
from rankcast.placement.programme.fitting import merged, savings
from rankcast.placement.programme.flow import classes_of, largest_flow


def places(stage, covers, factor):
    """How many members find a place at a leaf below a broker that covers them: by maximum flow."""
    below = covers.astype(int) @ stage.below.astype(int) > 0
    classes = classes_of(below & stage.problem.candidates[stage.sites], stage.demand_of)
    return largest_flow(classes.allowed, classes.sizes, stage.problem.rooms(factor)).total


@given(problems(subscribers=8), st.integers(0, 9), st.data())
def test_demands_are_given_up_exactly_when_all_still_find_a_place(problem, seed, data):
    random = np.random.default_rng(seed)
    stage = Stage.of(problem, np.arange(len(problem)), problem.tree.children(-1))
    covers = stage.allowed_of()
    full = [factor for factor in problem.load_factors if places(stage, covers, factor) == len(problem)]
    if not full:
        return
    loads = Loads(stage, covers, random)
    for _ in range(4):
        broker = data.draw(st.integers(0, len(stage.brokers) - 1))
        lost = np.flatnonzero(covers[:, broker] & (random.random(len(covers)) < 0.7))
        without = covers.copy()
        without[lost, broker] = False
        is_possible = places(stage, without, full[0]) == len(problem)
        assert loads.can_do_without(lost, broker) == is_possible
        covers = without if is_possible else covers


def test_members_of_full_leaves_change_places():
    tree = BrokerTree.star([0.0], [[1.0], [1.0]])
    both = np.array([0, 1])
    wanted = Interests.of_boxes([[0.0], [1.0]], [[1.0], [2.0]])
    problem = Problem(tree, wanted, both, [[1.0]], 9.0, np.zeros(2, int), beta=1.0, beta_max=1.0)
    stage = Stage.of(problem, both, both)
    for broker in both:
        for demand in both:
            loads = Loads(stage, np.ones((2, 2), bool), np.random.default_rng(1))
            assert loads.can_do_without(np.array([demand]), broker)
            assert not loads.can_do_without(np.array([1 - demand]), broker)


@given(problems(subscribers=8), st.integers(0, 9))
def test_members_go_where_they_are_covered_if_all_find_room_there(problem, seed):
    random = np.random.default_rng(seed)
    stage = Stage.of(problem, np.arange(len(problem)), problem.tree.children(-1))
    covers = stage.allowed_of() & (random.random(stage.allowed_of().shape) < 0.6)
    columns = assigned(stage, covers, random)
    assert problem.candidates[problem.site_of, columns].all()
    if places(stage, covers, problem.beta_max) == len(problem):
        child = stage.below.argmax(axis=0)[columns]
        assert covers[stage.demand_of, child].all()
        assert (np.bincount(columns, minlength=len(problem.tree.leaves)) <= problem.rooms(problem.beta_max)).all()


def merged_by_definition(boxes, most, density):
    boxes = list(boxes)
    while len(boxes) > most:
        grown = {}
        for one, other in itertools.combinations(range(len(boxes)), 2):
            four = [
                np.maximum(boxes[one], boxes[other]),
                np.minimum(boxes[one], boxes[other]),
                boxes[one],
                boxes[other],
            ]
            joined, common, mine, others = density.measures(np.array(four))
            grown[one, other] = joined + common - mine - others
        pair = min(grown, key=lambda pair: (round(grown[pair], 9), pair))
        hull = np.maximum(boxes[pair[0]], boxes[pair[1]])
        boxes[pair[0]] = hull
        boxes = [box for at, box in enumerate(boxes) if at == pair[0] or not (box <= hull).all()]
    return np.array(boxes)


@given(interests(most=7, attributes=2, parts=1), st.integers(1, 3), st.booleans())
def test_boxes_are_merged_where_they_grow_least(wanted, most, sampled):
    grid = list(itertools.product(range(10), repeat=wanted.attributes))
    density = Density.sampled(grid, np.ones(len(grid))) if sampled else UNIFORM  # whole weights: no ties by rounding
    boxes = np.unique(wanted.sides, axis=0)
    found = merged(boxes, most, density)
    assert found.tolist() == merged_by_definition(boxes, most, density).tolist()
    alone = [merged(np.delete(boxes, at, axis=0), most, density) for at in range(len(boxes))] if len(boxes) > 1 else []
    expected = [density.measures(found).sum() - density.measures(left).sum() for left in alone]
    if alone:
        assert savings(boxes, most, density).tolist() == pytest.approx(expected)
