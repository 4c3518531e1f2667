"""Greedy placement is its definition, sorted anew every time; every algorithm's result passes the audit."""

import numpy as np
import pytest
from hypothesis import given, settings

from placement_builders import line_problem, problems
from rankcast.placement.greedy import (
    balance,
    closest,
    closest_without_balance,
    greedy_offline,
    greedy_online,
    greedy_without_latency,
)
from rankcast.placement.problem.audit import Rule, union_measure, verify
from rankcast.placement.programme.flow import feasible_factor

ALWAYS_KEPT = {Rule.NESTING, Rule.COMPLEXITY}


def let_in(problem, filters, broker, box):
    """The definition: enlarge one box, or add one, whichever adds least; then go on above with what has grown."""
    total = 0.0
    while broker >= 0:
        own = filters[broker]
        if any((box <= other).all() for other in own):
            break
        tried = [[*own, box]] if len(own) < problem.boxes_of_brokers[broker] else []
        tried += [[*own[:at], np.maximum(own[at], box), *own[at + 1 :]] for at in range(len(own))]
        slots = ([len(own)] if len(tried) > len(own) else []) + list(range(len(own)))
        before = union_measure(np.array(own), problem.density)
        growths = [union_measure(np.array(boxes), problem.density) - before for boxes in tried]
        best = int(np.argmin(np.round(growths, 9)))
        total += growths[best]
        filters[broker] = tried[best]
        box = tried[best][slots[best]]
        broker = problem.tree.parents[broker]
    return total


def copied(filters):
    return [list(boxes) for boxes in filters]


def by_definition(problem, *, offline, candidates):
    """Run greedy placement as it is written down; return the leaf column of each subscriber."""
    leaves, shares = problem.tree.leaves, problem.shares_of_leaves
    for factor in problem.load_factors:
        rooms, loads = problem.rooms(factor), np.zeros(len(leaves), int)
        filters, found, overflow = [[] for _ in range(len(problem.tree))], {}, False
        waiting = list(range(len(problem)))
        while waiting:
            if offline:
                waiting.sort(key=lambda one: (sum(candidates[problem.site_of[one]] & (loads < rooms)), one))
            subscriber = waiting.pop(0)
            columns = np.flatnonzero(candidates[problem.site_of[subscriber]])
            open_columns = [column for column in columns if loads[column] < rooms[column]]
            overflow |= not open_columns
            parts = problem.interests.parts(problem.interest_of[subscriber])
            costs = {}
            for column in open_columns or columns:
                trial = copied(filters)
                changes = not all(any((part <= box).all() for box in trial[leaves[column]]) for part in parts)
                growth = sum(let_in(problem, trial, leaves[column], part) for part in parts)
                costs[column] = (changes, round(growth, 6), loads[column] / shares[column], column)
            column = min(costs.values())[-1]
            for part in parts:
                let_in(problem, filters, leaves[column], part)
            loads[column] += 1
            found[subscriber] = column
        if not overflow:
            break
    return [found[subscriber] for subscriber in range(len(problem))]


@given(problems())
def test_greedy_offline_is_its_definition_with_sorting_anew(problem):
    expected = by_definition(problem, offline=True, candidates=problem.candidates)
    assert greedy_offline(problem).brokers.tolist() == problem.tree.leaves[expected].tolist()


@given(problems())
@settings(max_examples=50)
def test_greedy_online_is_its_definition(problem):
    expected = by_definition(problem, offline=False, candidates=problem.candidates)
    assert greedy_online(problem).brokers.tolist() == problem.tree.leaves[expected].tolist()


@given(problems())
@settings(max_examples=50)
def test_greedy_without_latency_is_its_definition_with_all_brokers(problem):
    expected = by_definition(problem, offline=False, candidates=np.ones_like(problem.candidates))
    assert greedy_without_latency(problem).brokers.tolist() == problem.tree.leaves[expected].tolist()


@given(problems(attributes=3))
def test_greedy_filters_nest_and_latency_is_kept(problem):
    for algorithm in (greedy_online, greedy_offline):
        assert verify(problem, algorithm(problem)).broken() <= {Rule.LOAD}
    found = verify(problem, greedy_without_latency(problem))
    assert not found.broken() & ALWAYS_KEPT
    if Rule.LOAD in found.broken():  # only when all brokers together have too little room
        assert problem.rooms(problem.beta_max).sum() < len(problem)


@given(problems(attributes=3))
def test_one_sided_algorithms_keep_what_they_look_at(problem):
    random = np.random.default_rng(0)
    balanced = verify(problem, balance(problem, random))
    assert balanced.broken() <= {Rule.LOAD}
    assert balanced.load_factor == pytest.approx(feasible_factor(problem))
    near, nearest = verify(problem, closest(problem, random)), verify(problem, closest_without_balance(problem, random))
    assert not near.broken() & ALWAYS_KEPT
    assert not nearest.broken() & ALWAYS_KEPT
    if problem.rooms(problem.beta_max).sum() >= len(problem):
        assert Rule.LOAD not in near.broken()


def test_closest_without_balance_takes_the_nearest_leaf():
    problem = line_problem([(0, 1)] * 4, brokers=(1, 5), places=[1, 2, 4, 9], beta=1.0, beta_max=1.0)
    assert closest_without_balance(problem, np.random.default_rng(0)).brokers.tolist() == [0, 0, 1, 1]
    problem = line_problem([(0, 1)] * 4, brokers=(1, 5), places=[1, 2, 1, 9], beta=1.0, beta_max=1.0)
    assert closest(problem, np.random.default_rng(0)).brokers.tolist() == [0, 0, 1, 1]


def test_those_with_fewest_choices_go_first_offline():
    boxes, places = [(0, 1), (5, 6)], [5, 1]  # the second can only go to the first broker
    problem = line_problem(boxes, brokers=(1, 3), places=places, limit=5.0, beta=1.0, beta_max=1.0)
    assert problem.candidates.tolist() == [[True, True], [True, True]]
    tight = line_problem(boxes, brokers=(1, 3), places=[3, 1], limit=3.0, beta=1.0, beta_max=1.0)
    assert tight.candidates.tolist() == [[True, True], [True, False]]
    assert greedy_offline(tight).brokers.tolist() == [1, 0]
    assert verify(tight, greedy_offline(tight)).is_feasible
    assert verify(tight, greedy_online(tight)).broken() == {Rule.LOAD}


@given(problems())
@settings(max_examples=30)
def test_results_are_the_same_for_the_same_seed(problem):
    for algorithm in (balance, closest, closest_without_balance):
        one, two = (algorithm(problem, np.random.default_rng(5)) for _ in range(2))
        assert (one.brokers == two.brokers).all()
        assert all((mine == theirs).all() for mine, theirs in zip(one.filters, two.filters, strict=True))
