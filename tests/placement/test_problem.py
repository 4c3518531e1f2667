"""What is a placement problem, and what is said when it is none."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_builders import line_problem, problems
from rankcast.language.parser import parse_filter
from rankcast.model.errors import InvalidValueError, PlacementError
from rankcast.placement.greedy import closest_without_balance
from rankcast.placement.problem.audit import Rule, verify
from rankcast.placement.problem.boxes import Density, corners, sides_of
from rankcast.placement.problem.interests import Interests
from rankcast.placement.problem.problem import Latency, PlacementProblem, distinct_sites, limits_of_delay
from rankcast.placement.problem.tree import BrokerTree
from rankcast.placement.programme.fitting import fit_filters


def boxes_of(interests, number):
    low, high = corners(interests.parts(number))
    return [list(zip(*ends, strict=True)) for ends in zip(low.tolist(), high.tolist(), strict=True)]


def test_filters_become_boxes_over_the_named_attributes_and_other_attributes_are_left_out():
    filters = [
        parse_filter("x between 1 and 3 and city = 'Porto'"),
        parse_filter("x < 2 or y > 8"),
        parse_filter("x != 5"),
        parse_filter("true"),
    ]
    found = Interests.of_filters(filters, {"x": (0, 10), "y": (0, 9)})
    assert boxes_of(found, 0) == [[(1, 3), (0, 9)]]
    assert sorted(boxes_of(found, 1)) == [[(0, 2), (0, 9)], [(0, 10), (8, 9)]]
    assert boxes_of(found, 2) == [[(0, 5), (0, 9)], [(5, 10), (0, 9)]]
    assert boxes_of(found, 3) == [[(0, 10), (0, 9)]]


@given(st.data())
def test_what_a_filter_matches_lies_in_one_of_its_boxes(data):
    low, high, other = (data.draw(st.integers(0, 9)) for _ in range(3))
    wanted = parse_filter(f"(x > {low} and x <= {high}) or not (y < {other}) or x = {other}")
    found = Interests.of_filters([wanted], {"x": (0, 9), "y": (0, 9)})
    for x in range(10):
        for y in range(10):
            if wanted.accepts({"x": x, "y": y}):
                assert any(
                    all(a <= at <= b for at, (a, b) in zip((x, y), box, strict=True)) for box in boxes_of(found, 0)
                )


def test_many_alternatives_are_joined_into_a_larger_box():
    points = ", ".join(str(2 * at) for at in range(9))
    found = Interests.of_filters([parse_filter(f"x in ({points}) and y in ({points})")], {"x": (0, 99), "y": (0, 99)})
    assert boxes_of(found, 0) == [[(0, 16), (0, 16)]]


def test_a_filter_that_matches_nothing_in_the_space_is_named():
    with pytest.raises(InvalidValueError, match="filter 1: matches nothing"):
        Interests.of_filters([parse_filter("x > 1"), parse_filter("x > 10")], {"x": (0, 5)})


@pytest.mark.parametrize(
    ("low", "high", "message"),
    [
        ([[0, 2]], [[1, 1]], "box 0"),
        ([[0.0], [np.nan]], [[1.0], [1.0]], "box 1"),
        ([[0.0]], [[np.inf]], "box 0"),
        ([0.0], [1.0], "corners of shapes"),
        ([[0.0]], [[1.0, 2.0]], "corners of shapes"),
    ],
)
def test_bad_boxes_are_refused(low, high, message):
    with pytest.raises(InvalidValueError, match=message):
        sides_of(low, high)


RANGES = st.tuples(st.integers(0, 4), st.integers(0, 4)).map(lambda ends: (min(ends), max(ends)))


@given(
    st.lists(st.lists(RANGES, min_size=1, max_size=3), min_size=1, max_size=5),
    st.lists(st.integers(0, 4), max_size=6),
)
def test_interests_that_are_taken_are_those_with_these_numbers(drawn, picked):
    every = [part for parts in drawn for part in parts]
    offsets = np.cumsum([0, *map(len, drawn)])
    interests = Interests.of_boxes([[low] for low, _ in every], [[high] for _, high in every], offsets)
    numbers = [number % len(drawn) for number in picked]
    taken = interests.taken(np.array(numbers, np.int64))
    assert [taken.parts(at).tolist() for at in range(len(taken))] == [interests.parts(one).tolist() for one in numbers]


def test_interests_of_several_boxes_need_offsets_that_fit():
    with pytest.raises(InvalidValueError, match="expected numbers from 0 to 2"):
        Interests.of_boxes([[0], [1]], [[1], [2]], [0, 1])
    with pytest.raises(InvalidValueError, match="interest 1 has no box"):
        Interests.of_boxes([[0], [1]], [[1], [2]], [0, 1, 1, 2])


def test_latency_is_the_way_down_the_tree_and_the_last_hop():
    tree = BrokerTree(np.array([0.0]), np.array([[1.0], [3.0], [-2.0]]), np.array([-1, 0, 0]))
    assert tree.leaves.tolist() == [1, 2]
    assert tree.reach.tolist() == [1, 3, 4]
    assert tree.latencies(np.array([[4.0]])).tolist() == [[4, 10]]
    assert tree.leaves_below().tolist() == [[True, True], [True, False], [False, True]]


@pytest.mark.parametrize(
    ("parents", "message"),
    [([-1, 2, 1], "broker 1: its parents form a cycle"), ([-1, 7, 0], "broker 1: parent 7"), ([-1, 0], "shape")],
)
def test_bad_trees_are_refused(parents, message):
    with pytest.raises(PlacementError, match=message):
        BrokerTree(np.array([0.0]), np.array([[1.0], [2.0], [3.0]]), np.array(parents))


def test_subscribers_whom_no_broker_can_serve_are_named():
    with pytest.raises(
        PlacementError, match="no broker is near enough to bob, eve: the first has a latency limit of 4"
    ):
        line_problem([(0, 1)] * 3, places=[1, 9, 8], limit=4.0, names=["ana", "bob", "eve"])
    with pytest.raises(PlacementError, match="subscriber 4 and 2 more"):
        line_problem([(0, 1)] * 7, places=[9] * 7, limit=4.0)


def test_a_broker_without_capacity_serves_nobody():
    with pytest.raises(PlacementError, match="no broker is near enough to subscriber 0: it has"):
        line_problem([(0, 1)], brokers=(1, 50), limit=4.0, shares=[0.0, 1.0])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"beta": 0.5}, "beta: 0.5"),
        ({"beta": 3.0}, "beta_max: 2.0"),
        ({"alpha": 0}, "alpha: 0 to 0"),
        ({"alpha": 99}, "alpha: 99"),
        ({"alpha": 1.5}, "alpha: expected a whole number"),
        ({"shares": [0.5, 0.6]}, "shares: expected 2"),
        ({"names": ["ana"]}, "names: 1 for 2"),
        ({"broker_names": ["lisbon"]}, "broker_names: 1 for 2 brokers"),
        ({"beta_max": np.inf}, "beta_max: inf; expected 1 <= beta <= beta_max <= 1e"),
        ({"beta": np.nan}, "beta: nan"),
        ({"shares": [1e-300, 1.0]}, "each 0 or at least 1e-15"),
        ({"shares": ["a", "b"]}, "shares: .*; expected numbers"),
        ({"limit": np.ones(5)}, r"limits: an array of shape \(5,\); expected a number, or one for each of 2 sites"),
        ({"limit": np.nan}, "limits: some are not a number"),
        ({"limit": "x"}, "limits: 'x'; expected numbers"),
        ({"places": [1, np.nan]}, r"sites: row 1 is at \[nan\]; expected coordinates from -1e\+12 to 1e\+12"),
        ({"brokers": (1, 1e200)}, r"positions: row 1 is at \[1e\+200\]"),
        ({"density": Density.sampled([[1.0, 2.0]])}, "density: events of 2 attributes"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(PlacementError, match=message):
        line_problem([(0, 1), (1, 2)], **settings)


@pytest.mark.parametrize(
    ("low", "high", "message"),
    [
        ([[-1e308]], [[1e308]], r"interests: values up to 1e\+308; expected 1e\+30 at most"),
        ([[0.0] * 12], [[1e29] * 12], "interests: a volume of inf"),
    ],
)
def test_interests_whose_measure_would_overflow_are_refused(low, high, message):
    one = np.array([0])
    with pytest.raises(PlacementError, match=message):
        PlacementProblem(
            BrokerTree.star([0.0], [[1.0]]), Interests.of_boxes(low, high), one, np.zeros((1, 1)), 9.0, one
        )


@pytest.mark.parametrize("weights", [[0.0, 0.0], [1e308, 1e308]])
def test_weights_that_vanish_or_overflow_are_refused(weights):
    with pytest.raises(InvalidValueError, match=r"weights: all events together measure (0|inf); expected 1e-100 to"):
        Density.sampled([[1.0], [2.0]], weights)


def test_numbers_out_of_range_are_refused():
    tree = BrokerTree.star([0.0], [[1.0]])
    interests = Interests.of_boxes([[0.0]], [[1.0]])
    with pytest.raises(PlacementError, match="interest_of: 1 at subscriber 0"):
        PlacementProblem(tree, interests, np.array([1]), np.zeros((1, 1)), 9.0, np.array([0]))
    with pytest.raises(PlacementError, match="site_of: expected a whole number"):
        PlacementProblem(tree, interests, np.array([0]), np.zeros((1, 1)), 9.0, np.array([0.5]))
    with pytest.raises(PlacementError, match="expected one of each"):
        PlacementProblem(tree, interests, np.array([0]), np.zeros((1, 1)), 9.0, np.array([0, 0]))


@given(problems())
def test_limits_by_delay_leave_everyone_the_shortest_path(problem):
    assert problem.candidates[
        np.arange(len(problem.sites)), problem.latency.of(problem.tree, problem.sites).argmin(axis=1)
    ].all()
    assert (problem.limits >= limits_of_delay(problem.tree, problem.sites, 0.0)).all()


def test_rooms_are_not_lost_to_rounding():
    problem = line_problem([(0, 1)] * 10, brokers=range(1, 11), beta=1.3)
    assert problem.rooms(1.0).tolist() == [1] * 10  # 10 times 0.1
    assert problem.rooms(1.3).tolist() == [1] * 10


def test_no_leaf_has_room_for_more_than_all():
    assert line_problem([(0, 1)] * 3, brokers=(1, 2), beta_max=1e12).rooms(1e12).tolist() == [3, 3]


def test_subscribers_at_one_place_with_one_limit_share_a_site():
    sites, limits, site_of = distinct_sites([[1.0], [2.0], [1.0], [1.0]], [5, 5, 5, 6])
    assert sites[site_of].tolist() == [[1.0], [2.0], [1.0], [1.0]]
    assert limits[site_of].tolist() == [5, 5, 5, 6]
    assert len(sites) == 3


ends = [(0, 1), (0, 1)]


def test_a_leaf_far_from_the_publisher_is_a_candidate_when_it_is_near_the_subscriber():
    path = line_problem(ends, brokers=(1, 50), places=[50.0, 50.0], limit=60.0)
    hop = line_problem(ends, brokers=(1, 50), places=[50.0, 50.0], limit=2.0, latency=Latency.LAST_HOP)
    assert path.latency.of(path.tree, path.sites)[0].tolist() == [50.0, 50.0]
    assert hop.latency.of(hop.tree, hop.sites)[0].tolist() == [49.0, 0.0]
    assert hop.candidates[0].tolist() == [False, True]


def test_the_audit_holds_the_last_hop_against_the_limit():
    problem = line_problem(ends, brokers=(1, 50), places=[50.0, 1.0], limit=2.0, latency=Latency.LAST_HOP)
    right = fit_filters(problem, np.array([1, 0]), np.random.default_rng(1))
    assert verify(problem, right).is_feasible
    wrong = fit_filters(problem, np.array([0, 0]), np.random.default_rng(1))
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
