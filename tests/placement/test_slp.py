"""Placement by linear programming: certain bounds, full coverage, and a placement whenever there is one."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from placement_builders import interests, problems
from rankcast.model.errors import PlacementError
from rankcast.placement.kernels import contained
from rankcast.placement.problem.audit import Rule, verify
from rankcast.placement.problem.boxes import UNIFORM, Density, corners
from rankcast.placement.problem.interests import Interests
from rankcast.placement.problem.problem import Problem
from rankcast.placement.problem.tree import BrokerTree
from rankcast.placement.programme import linear_programme
from rankcast.placement.programme.assignment import Stage
from rankcast.placement.programme.filter_assignment import Sampling, assign_filters
from rankcast.placement.programme.flow import feasible_factor
from rankcast.placement.programme.linear_programme import (
    Candidates,
    Products,
    Programme,
    intervals,
    solved,
    superinterests,
)
from rankcast.placement.programme.slp import placed_by_programme
from rankcast.samples.placement import Workload, layered_tree, network, placement_problem, problem_on
from rankcast_lab.engines.exhaustive import least_traffic

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
        candidates.append(Candidates(boxes, *contained(parts, boxes)))
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
    found = solved(whole_programme(problem), 1e-6, iterations)
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


@given(problems(attributes=3), st.integers(0, 3))
@settings(max_examples=60)
def test_a_placement_is_found_whenever_there_is_one(problem, seed):
    found = verify(problem, placed_by_programme(problem, np.random.default_rng(seed), SMALL).placement)
    is_possible = feasible_factor(problem) <= problem.beta_max * (1 + 1e-9)
    assert found.broken() <= (set() if is_possible else {Rule.LOAD})


def test_a_published_workload_is_placed_within_all_limits():
    problem = placement_problem(Workload.FEEDS, 1500, 100, np.random.default_rng(1))
    one, two = (placed_by_programme(problem, np.random.default_rng(2)) for _ in range(2))
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
    found = verify(tight, placed_by_programme(tight, np.random.default_rng(0), Sampling(iterations=1000)).placement)
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
def test_the_unit_of_attributes_changes_nothing(problem, exponent, seed):
    usual, other = (
        placed_by_programme(one, np.random.default_rng(seed), SMALL)
        for one in (problem, scaled(problem, 2.0**exponent))
    )
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
def test_interests_of_most_different_sizes_are_placed_together(lengths, alpha, seed):
    """Sizes are powers of ten; measures up to a hundred and sixty orders of magnitude apart."""
    count = len(lengths)
    tree = BrokerTree.star([0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]])
    high = 10.0 ** np.array(lengths)
    wanted = Interests.of_boxes(np.zeros_like(high), high)
    everyone = np.zeros(count, np.int64)
    problem = Problem(
        tree, wanted, np.arange(count), [[0.0, 0.0]], math.inf, everyone, beta=2.0, beta_max=2.0, alpha=alpha
    )
    found = placed_by_programme(problem, np.random.default_rng(seed), SMALL)
    audit = verify(problem, found.placement)
    assert audit.is_feasible
    assert 0 <= found.yardstick.bound <= audit.bandwidth * alpha * 1.01
    assert math.isfinite(found.yardstick.objective)


def test_the_solver_says_nothing_by_itself(capfd):
    tree = BrokerTree.star([0.0], [[1.0], [2.0]])
    wanted = Interests.of_boxes([[0.0, 0.0]] * 4, [[500.0, 6.0], [1e30, 1e30], [1e27, 5.0], [1e-30, 1e-30]])
    everyone = np.zeros(4, np.int64)
    problem = Problem(tree, wanted, np.arange(4), [[0.0]], math.inf, everyone, density=UNIFORM)
    assert verify(problem, placed_by_programme(problem, np.random.default_rng(0)).placement).is_feasible
    assert capfd.readouterr() == ("", "")


def test_a_programme_that_the_solver_refuses_is_an_error_that_says_so(monkeypatch):
    # Larger numbers than the solver takes; measures are scaled, so that they are none.
    monkeypatch.setattr(linear_programme, "LARGEST", 2.0**200)
    tree = BrokerTree.star([0.0], [[1.0], [2.0]])
    wanted = Interests.of_boxes([[0.0, 0.0]] * 3, [[1.0, 1.0], [1e30, 1e30], [2.0, 1.0]])
    problem = Problem(tree, wanted, np.arange(3), [[0.0]], math.inf, np.zeros(3, np.int64))
    with pytest.raises(PlacementError, match="the solver ended without a solution: invalid problem; expected one"):
        placed_by_programme(problem, np.random.default_rng(0))
