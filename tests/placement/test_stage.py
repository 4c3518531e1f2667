"""What filters cover, by definition: each part of an interest in one of the boxes of a broker that it may have."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from placement_builders import interests, problems
from rankcast.placement.kernels import units_inside
from rankcast.placement.problem.tree import PUBLISHER
from rankcast.placement.programme.assignment import Stage
from rankcast.placement.programme.linear_programme import shrunk


def are_held(parts, boxes):
    return all(any((part <= box).all() for box in boxes) for part in parts)


@given(problems(), interests(most=6), st.data())
def test_demands_are_covered_by_brokers_they_may_have_with_each_part_in_a_box(problem, drawn, data):
    stage = Stage.of(problem, np.arange(len(problem)), problem.tree.children(PUBLISHER))
    cuts = st.lists(st.integers(0, len(drawn.sides)), min_size=len(stage.brokers) - 1, max_size=len(stage.brokers) - 1)
    starts = np.array([0, *sorted(data.draw(cuts)), len(drawn.sides)])
    every = np.arange(len(stage.sizes))
    covers = stage.all_covers(starts, drawn.sides)
    for demand in every:
        near = problem.candidates[stage.sites[demand]]
        parts = problem.interests.parts(stage.interests[demand])
        for broker, (first, last) in enumerate(pairwise(starts)):
            is_allowed = bool((near & stage.below[broker]).any())
            assert stage.allowed_at(broker)[demand] == stage.allowed_of()[demand, broker] == is_allowed
            assert covers[demand, broker] == (is_allowed and are_held(parts, drawn.sides[first:last]))
        assert stage.held(every[[demand]], drawn.sides).tolist() == [are_held(parts, drawn.sides)]
    assert np.array_equal(stage.uncovered(starts, drawn.sides), ~covers.any(axis=1))
    picked = every[::-2]
    assert np.array_equal(stage.covers(picked, starts, drawn.sides), covers[picked])
    assert np.array_equal(stage.allowed_of(picked), stage.allowed_of()[picked])


@given(interests(), interests())
def test_boxes_shrink_to_the_parts_in_them_or_vanish(parts, boxes):
    inside = [parts.sides[(parts.sides <= box).all(axis=1)] for box in boxes.sides]
    assert shrunk(parts.sides, boxes.sides).tolist() == [own.max(axis=0).tolist() for own in inside if len(own)]


@given(interests(), interests(), st.lists(st.integers(0, 9), min_size=10, max_size=10))
def test_units_are_counted_in_every_box_that_has_their_part(parts, boxes, drawn):
    units = np.array(drawn, float)[np.arange(len(parts.sides)) % 10]
    inside = [(parts.sides <= box).all(axis=1) for box in boxes.sides]
    assert units_inside(parts.sides, units, boxes.sides).tolist() == [units[own].sum() for own in inside]
