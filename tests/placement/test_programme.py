"""Placement by linear programming: flows, coverage, certain bounds, and a placement whenever there is one."""

import itertools
import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from placement_builders import box_problem, interests, problems
from rankcast.model.errors import PlacementError
from rankcast.placement.kernels import contents_of, units_inside
from rankcast.placement.problem.audit import Rule, verify
from rankcast.placement.problem.boxes import UNIFORM, Density, corners
from rankcast.placement.problem.interests import Interests
from rankcast.placement.problem.tree import PUBLISHER
from rankcast.placement.programme import linear_programme
from rankcast.placement.programme.assignment import Loads, Stage, assign_members
from rankcast.placement.programme.filter_assignment import Sampling, assign_filters
from rankcast.placement.programme.fitting import merge_boxes, savings
from rankcast.placement.programme.flow import (
    best_factor,
    cheapest_flow,
    classes_of,
    draw_members,
    feasible_factor,
    largest_flow,
)
from rankcast.placement.programme.linear_programme import (
    Candidates,
    Products,
    Programme,
    intervals,
    shrink_boxes,
    solve,
    superinterests,
)
from rankcast.placement.programme.slp import place_by_programme
from rankcast.samples.placement import Workload, layered_tree, network, placement_problem, problem_on
from rankcast_lab.engines.exhaustive import least_traffic


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
    leaf_of = draw_members(flow, found.members, np.random.default_rng(seed))
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
    assert shrink_boxes(parts.sides, boxes.sides).tolist() == [own.max(axis=0).tolist() for own in inside if len(own)]


@given(interests(), interests(), st.lists(st.integers(0, 9), min_size=10, max_size=10))
def test_units_are_counted_in_every_box_that_has_their_part(parts, boxes, drawn):
    units = np.array(drawn, float)[np.arange(len(parts.sides)) % 10]
    inside = [(parts.sides <= box).all(axis=1) for box in boxes.sides]
    assert units_inside(parts.sides, units, boxes.sides).tolist() == [units[own].sum() for own in inside]


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


@given(problems(subscribers=8), st.integers(0, 9))
def test_members_go_where_they_are_covered_if_all_find_room_there(problem, seed):
    random = np.random.default_rng(seed)
    stage = Stage.of(problem, np.arange(len(problem)), problem.tree.children(-1))
    covers = stage.allowed_of() & (random.random(stage.allowed_of().shape) < 0.6)
    columns = assign_members(stage, covers, random)
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
    found = merge_boxes(boxes, most, density)
    assert found.tolist() == merged_by_definition(boxes, most, density).tolist()
    alone = (
        [merge_boxes(np.delete(boxes, at, axis=0), most, density) for at in range(len(boxes))] if len(boxes) > 1 else []
    )
    expected = [density.measures(found).sum() - density.measures(left).sum() for left in alone]
    if alone:
        assert savings(boxes, most, density).tolist() == pytest.approx(expected)


SMALL = Sampling(load_sample=5, superinterests=3, guess=1.0, iterations=500)


def all_enclosing(parts):
    """Every box around some of the parts."""
    found = {
        tuple(np.max(group, axis=0))
        for size in range(1, len(parts) + 1)
        for group in itertools.combinations(parts, size)
    }
    return np.array(sorted(found))


def whole_programme(problem):
    """The programme on all subscribers, with all boxes as candidates: no sampling, nothing left out."""
    stage = Stage.of(problem, np.arange(len(problem)), problem.tree.leaves)
    counts = np.diff(problem.interests.offsets)[stage.interests]
    candidates = []
    for broker in range(len(stage.brokers)):
        demands = np.flatnonzero(stage.allowed_at(broker))
        parts = [part for demand in demands for part in problem.interests.parts(stage.interests[demand])]
        parts = np.array(parts).reshape(-1, problem.interests.sides.shape[1])
        boxes = all_enclosing(parts) if len(parts) else parts
        candidates.append(Candidates(boxes, *contents_of(parts, boxes)))
    rooms = problem.rooms(problem.beta_max).astype(float)
    return Programme.of(stage.allowed_of(), counts, candidates, stage.sizes, rooms, stage.most, problem.density)


@given(problems(subscribers=5, brokers=3, star=True))
def test_the_matrix_has_a_row_per_limit_and_a_column_per_pair_and_box(problem):
    programme = whole_programme(problem)
    brokers, demands, pairs, needs = programme.sizes
    expected = np.zeros((2 * brokers + demands + needs, pairs + len(programme.boxes)))
    for pair, (demand, broker) in enumerate(zip(programme.pair_demand, programme.pair_broker, strict=True)):
        expected[brokers + demand, pair] = 1
        expected[brokers + demands + broker, pair] = programme.load_weights[demand]
    for need, pair in enumerate(programme.need_pair):
        expected[2 * brokers + demands + need, pair] = -1
    for box, broker in enumerate(programme.box_broker):
        expected[broker, pairs + box] = 1
        met = programme.met[programme.offsets[box] : programme.offsets[box + 1]]
        expected[2 * brokers + demands + met, pairs + box] = 1
    found = programme.matrix()
    assert np.array_equal(found.toarray(), expected)
    assert found.has_canonical_format


@given(problems(subscribers=4, brokers=3, star=True), st.sampled_from([20, 2000]))
@settings(max_examples=60)
def test_the_bound_of_the_whole_programme_is_below_every_placement(problem, iterations):
    best = least_traffic(problem, lambda boxes: problem.density.measures(boxes).sum())
    if best is None:
        return
    found = solve(whole_programme(problem), 1e-6, iterations)
    assert found.bound <= best + 1e-6
    if iterations > 1000:
        assert found.objective <= best + 1e-2 * (1 + best)
        assert found.bound >= 0.9 * found.objective - 0.1  # and it says something


@given(interests(most=8), st.integers(1, 6), st.integers(0, 9))
def test_every_interest_lies_in_a_candidate_and_candidates_say_what_is_in_them(wanted, count, seed):
    random = np.random.default_rng(seed)
    parts = wanted.sides
    supers = superinterests(parts, random.normal(size=(len(parts), 2)), count, random)
    found = Products.of(supers).shrunk_to(parts, random.integers(1, 1 << 63, len(parts), dtype=np.uint64))
    assert set(found.needs.tolist()) == set(range(len(parts)))
    for number, box in enumerate(found.boxes):
        inside = found.needs[found.offsets[number] : found.offsets[number + 1]]
        assert inside.tolist() == np.flatnonzero((parts <= box).all(axis=1)).tolist()
        assert parts[inside].max(axis=0).tolist() == box.tolist()  # no larger than it must be


@given(interests(most=10, attributes=1, parts=1))
def test_every_projection_lies_in_an_interval_not_much_longer(wanted):
    low, high = (ends[:, 0] for ends in corners(wanted.sides))
    starts, ends = intervals(low, high)
    for start, end in zip(low, high, strict=True):
        around = (starts <= start) & (ends >= end)
        assert (ends - starts)[around].min() <= max(
            4 * (end - start), 4 * (high.max() - low.min()) / 1024, 4 * (high - low).min()
        )


@given(problems(attributes=2), st.integers(0, 3))
@settings(max_examples=40)
def test_preliminary_filters_cover_every_demand_where_latency_allows(problem, seed):
    random = np.random.default_rng(seed)
    stage = Stage.of(problem, np.arange(len(problem)), problem.tree.children(-1))
    found = assign_filters(stage, random, SMALL)
    covers = stage.covers(np.arange(len(stage.sizes)), found.starts, found.boxes)
    assert covers.any(axis=1).all()
    for demand, broker in zip(*np.nonzero(covers), strict=True):
        boxes = found.boxes[found.starts[broker] : found.starts[broker + 1]]
        assert stage.allowed_of()[demand, broker]
        assert all((part <= boxes).all(axis=1).any() for part in problem.interests.parts(stage.interests[demand]))
    assert found.yardstick.bound <= found.yardstick.objective * 1.2 + 1e-6
    assert found.yardstick.sample <= found.yardstick.demands == len(stage.sizes)


def test_a_published_workload_is_placed_within_all_limits():
    problem = placement_problem(Workload.FEEDS, 1500, 100, np.random.default_rng(1))
    one, two = (place_by_programme(problem, np.random.default_rng(2)) for _ in range(2))
    found = verify(problem, one.placement)
    assert found.is_feasible
    assert 0 < one.yardstick.bound <= found.bandwidth
    assert (one.placement.brokers == two.placement.brokers).all()
    assert one.yardstick == two.yardstick


def test_a_tree_of_several_levels_is_placed_within_tight_limits():
    random = np.random.default_rng(0)
    drawn = network(100, random)
    tree = layered_tree(drawn, 7, random)
    loose = problem_on(Workload.FEEDS, 600, drawn, tree, np.random.default_rng(5), 0.2, 30.0, 30.0)
    least = feasible_factor(loose)
    tight = problem_on(Workload.FEEDS, 600, drawn, tree, np.random.default_rng(5), 0.2, least, least)
    found = verify(tight, place_by_programme(tight, np.random.default_rng(0), Sampling(iterations=1000)).placement)
    assert found.is_feasible


def scaled(problem, factor):
    """The same problem with attributes in another unit."""
    density = problem.density
    if not density.is_uniform:
        density = Density.sampled(corners(density.samples)[0] * factor, density.weights)
    wanted = Interests(problem.interests.offsets, problem.interests.sides * factor)
    return replace(problem, interests=wanted, density=density)


@given(problems(), st.integers(-90, 90), st.integers(0, 3))
@settings(max_examples=60)
def test_a_placement_is_found_whenever_there_is_one_and_the_unit_of_attributes_changes_nothing(problem, exponent, seed):
    usual, other = (
        place_by_programme(one, np.random.default_rng(seed), SMALL) for one in (problem, scaled(problem, 2.0**exponent))
    )
    is_possible = feasible_factor(problem) <= problem.beta_max * (1 + 1e-9)
    assert verify(problem, usual.placement).broken() <= (set() if is_possible else {Rule.LOAD})
    assert usual.placement.brokers.tolist() == other.placement.brokers.tolist()
    for one, same in zip(usual.placement.filters, other.placement.filters, strict=True):
        assert (one * 2.0**exponent).tolist() == same.tolist()
    volume = 2.0 ** (exponent * problem.interests.attributes) if problem.density.is_uniform else 1.0
    assert other.yardstick == replace(
        usual.yardstick, objective=usual.yardstick.objective * volume, bound=usual.yardstick.bound * volume
    )


@given(
    st.lists(st.lists(st.floats(-50, 30), min_size=2, max_size=2), min_size=1, max_size=6),
    st.sampled_from([1, 2]),
    st.integers(0, 3),
)
@settings(max_examples=60)
@example([[0, 0], [0, 19], [18.5, 2.5]], 1, 0)
@example([[0, 0], [4, 0], [-1, 1], [-2, 4]], 1, 0)
def test_interests_of_most_different_sizes_are_placed_together(lengths, alpha, seed):
    """Sizes are powers of ten; measures up to a hundred and sixty orders of magnitude apart."""
    high = 10.0 ** np.array(lengths)
    brokers = [[1.0, 0.0], [0.0, 1.0]]
    problem = box_problem(np.zeros_like(high), high, brokers, beta=2.0, beta_max=2.0, alpha=alpha)
    found = place_by_programme(problem, np.random.default_rng(seed), SMALL)
    audit = verify(problem, found.placement)
    assert audit.is_feasible
    # Of the candidates it draws: filters that are made of other boxes may be better, as in the second example.
    assert 0 <= found.yardstick.bound <= found.yardstick.objective * 1.2
    assert math.isfinite(found.yardstick.objective)


def test_the_solver_says_nothing_by_itself(capfd):
    high = [[500.0, 6.0], [1e30, 1e30], [1e27, 5.0], [1e-30, 1e-30]]
    problem = box_problem([[0.0, 0.0]] * 4, high, [[1.0], [2.0]])
    assert verify(problem, place_by_programme(problem, np.random.default_rng(0)).placement).is_feasible
    assert capfd.readouterr() == ("", "")


def test_a_programme_that_the_solver_refuses_is_an_error_that_says_so(monkeypatch):
    # Larger numbers than the solver takes; measures are scaled, so that they are none.
    monkeypatch.setattr(linear_programme, "LARGEST", 2.0**200)
    problem = box_problem([[0.0, 0.0]] * 3, [[1.0, 1.0], [1e30, 1e30], [2.0, 1.0]], [[1.0], [2.0]])
    with pytest.raises(PlacementError, match="the solver ended without a solution: invalid problem; expected one"):
        place_by_programme(problem, np.random.default_rng(0))
