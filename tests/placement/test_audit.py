"""The audit: it finds every kind of fault, and measures by definition."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_builders import line_problem
from rankcast.model.errors import PlacementError
from rankcast.placement.problem.audit import Rule, lies_within, union_measure, verify
from rankcast.placement.problem.boxes import UNIFORM, Density, corners, sides_of
from rankcast.placement.problem.interests import Interests
from rankcast.placement.problem.problem import Placement, PlacementProblem
from rankcast.placement.problem.tree import BrokerTree


def filters(*of_brokers):
    return tuple(
        sides_of([[a] for a, _ in boxes], [[b] for _, b in boxes]) if boxes else np.empty((0, 2))
        for boxes in of_brokers
    )


@st.composite
def unions(draw, most=5):
    attributes = draw(st.integers(1, 3))
    side = st.tuples(st.integers(0, 4), st.integers(0, 3)).map(lambda drawn: (drawn[0], drawn[0] + drawn[1]))
    rows = draw(st.lists(st.lists(side, min_size=attributes, max_size=attributes), min_size=1, max_size=most))
    table = np.array(rows, float)
    return sides_of(table[:, :, 0], table[:, :, 1])


def half_points(box):
    """Every point of a box on a grid twice as fine as its corners: a box of the union ends at none between them."""
    low, high = (2 * ends for ends in corners(box))
    return itertools.product(*(range(int(a), int(b) + 1) for a, b in zip(low, high, strict=True)))


def holds(boxes, point):
    low, high = (2 * ends for ends in corners(boxes))
    return bool(((low <= point) & (point <= high)).all(axis=1).any())


@given(unions())
def test_a_box_lies_within_a_union_when_all_its_points_do(boxes):
    wanted, union = boxes[0], boxes[1:]
    assert lies_within(wanted, union) == all(holds(union, np.array(point)) for point in half_points(wanted))


@given(unions())
def test_the_measure_of_a_union_counts_the_cells_it_covers(boxes):
    middles = itertools.product(*(range(1, 16, 2) for _ in range(boxes.shape[1] // 2)))
    assert union_measure(boxes, UNIFORM) == sum(holds(boxes, np.array(point)) for point in middles)


def test_many_boxes_over_many_attributes_are_measured():
    low = np.array([[at % 3 + 0.1 * axis for axis in range(10)] for at in range(12)])
    boxes = sides_of(low, low + 1)
    assert union_measure(boxes, UNIFORM) == pytest.approx(3)  # three boxes in all, which touch


def test_sampled_events_are_counted_once_by_weight():
    boxes = sides_of([[0.0], [1.0]], [[2.0], [3.0]])
    assert union_measure(boxes, Density.sampled([[1.5], [3.0], [9.0]], [1, 2, 4])) == 3
    assert union_measure(boxes[:0], UNIFORM) == 0


def test_a_sound_placement_is_measured():
    problem = line_problem([(0, 2), (1, 4), (8, 9)], brokers=(1, 2), places=[1, 1, 3], limit=4.0)
    found = verify(problem, Placement(np.array([0, 0, 1]), filters([(0, 4)], [(8, 9)])))
    assert found.violations == ()
    assert found.is_feasible
    assert found.bandwidth == 5
    assert found.bandwidths.tolist() == [4, 1]
    assert found.loads.tolist() == [2, 1]
    assert found.load_factor == pytest.approx(4 / 3)
    assert found.delays.tolist() == [0, 0, 0]


def test_delays_whose_squares_would_overflow_have_a_mean():
    problem = line_problem([(0, 1), (0, 1)], brokers=(1e-160, 1e12), places=[0, 0], limit=np.inf)
    found = verify(problem, Placement(np.array([0, 1]), filters([(0, 1)], [(0, 1)])))
    assert found.rms_delay == pytest.approx(1e172 / np.sqrt(2), rel=0.01)


def test_two_boxes_together_may_contain_an_interest():
    problem = line_problem([(0, 4)], brokers=(1,), alpha=2)
    assert verify(problem, Placement(np.array([0]), filters([(0, 2), (2, 4)]))).is_feasible
    assert verify(problem, Placement(np.array([0]), filters([(0, 2), (3, 4)]))).broken() == {Rule.NESTING}


def test_every_fault_is_found():
    problem = line_problem([(0, 2), (5, 6)], brokers=(1, 30), limit=5.0, beta=1.0, beta_max=1.0)
    found = verify(problem, Placement(np.array([0, 0]), filters([(0, 1), (5, 5.5)], [])))
    assert found.broken() == {Rule.NESTING, Rule.COMPLEXITY, Rule.LOAD}
    messages = [violation.message for violation in found.violations]
    assert messages == [
        "broker 0: its filter does not contain interest 0",
        "broker 0: its filter does not contain interest 1",
        "broker 0: a filter of 2 boxes; at most 1 are allowed",
        "broker 0: 2 subscribers, 2 times its share; at most 1 times are allowed",
    ]
    late = verify(problem, Placement(np.array([0, 1]), filters([(0, 2)], [(5, 6)])))
    assert [violation.message for violation in late.violations] == [
        "1 subscribers beyond their latency limit, the first subscriber 1: 59 where 5 is allowed"
    ]
    assert late.delays.tolist() == [0, 58]


def test_brokers_are_called_by_their_names():
    problem = line_problem([(0, 2), (5, 6)], beta=1.0, beta_max=1.0, broker_names=["lisbon", "porto"])
    found = verify(problem, Placement(np.array([0, 0]), filters([(0, 1), (5, 6)], [])))
    assert [violation.message.split(":")[0] for violation in found.violations] == ["lisbon"] * 3


def test_filters_nest_up_the_tree():
    tree = BrokerTree(np.array([0.0]), np.array([[1.0], [2.0]]), np.array([-1, 0]))
    interests = Interests.of_boxes([[0.0]], [[4.0]])
    problem = PlacementProblem(tree, interests, np.array([0]), np.array([[2.0]]), 9.0, np.array([0]), alpha=2)
    leaf = Placement(np.array([1]), filters([(0, 3)], [(0, 4)]))
    assert [violation.message for violation in verify(problem, leaf).violations] == [
        "broker 0: its filter does not contain that of broker 1"
    ]
    assert verify(problem, Placement(np.array([1]), filters([(0, 1), (1, 4)], [(0, 4)]))).bandwidth == 8


def test_a_leaf_without_capacity_must_stay_empty():
    problem = line_problem([(0, 1)], brokers=(1, 2), shares=[1.0, 0.0])
    assert verify(problem, Placement(np.array([1]), filters([], [(0, 1)]))).broken() == {Rule.LOAD}


@pytest.mark.parametrize(
    ("brokers", "given", "message"),
    [
        ([0], [[], []], "subscribers and 2 filters"),
        ([0, 0], [[]], "1 filters"),
        ([0, 5], [[], []], "subscriber 1: at 5"),
    ],
)
def test_a_placement_of_another_problem_is_refused(brokers, given, message):
    problem = line_problem([(0, 1), (1, 2)])
    with pytest.raises(PlacementError, match=message):
        verify(problem, Placement(np.array(brokers), filters(*given)))


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (np.full((1, 2), np.nan), r"broker 1: box 0 of its filter is from \[nan\] to \[nan\]"),
        (np.array([[0.0, 9.0], [np.inf, np.inf]]), "broker 1: box 1 of its filter"),
        (np.array([[-5.0, 4.0]]), r"from \[5.0\] to \[4.0\]; expected finite numbers, low <= high"),
        (np.ones((1, 4)), r"broker 1: a filter of shape \(1, 4\); expected an array with rows of 2 sides"),
        (np.array([]), r"broker 1: a filter of shape \(0,\)"),
        ([[0.0, 9.0]], "broker 1: a filter that is a list"),
    ],
)
def test_filters_that_are_no_boxes_prove_nothing(broken, message):
    problem = line_problem([(0, 1), (8, 9)])
    sound = filters([(0, 1)], [(8, 9)])
    assert verify(problem, Placement(np.array([0, 1]), sound)).is_feasible
    with pytest.raises(PlacementError, match=message):
        verify(problem, Placement(np.array([0, 1]), (sound[0], broken)))
