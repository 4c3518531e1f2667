"""Every algorithm by name: greedy placement is its definition, and each keeps what it looks at."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placement_builders import line_problem, problems
from rankcast.placement.algorithms import Algorithm, place
from rankcast.placement.greedy import (
    closest,
    closest_without_balance,
    greedy_offline,
    greedy_online,
    greedy_without_latency,
)
from rankcast.placement.problem.audit import Rule, union_measure, verify
from rankcast.placement.programme.flow import feasible_factor

LATE_OR_LOADED = {Rule.LATENCY, Rule.LOAD}
MAY_BREAK = {
    Algorithm.GREEDY_ONLINE: {Rule.LOAD},
    Algorithm.GREEDY_OFFLINE: {Rule.LOAD},
    Algorithm.GREEDY_WITHOUT_LATENCY: LATE_OR_LOADED,
    Algorithm.CLOSEST_WITHOUT_BALANCE: LATE_OR_LOADED,
    Algorithm.CLOSEST: LATE_OR_LOADED,
    Algorithm.BALANCE: {Rule.LOAD},
    Algorithm.PROGRAMME: {Rule.LOAD},
    Algorithm.LOCAL_SEARCH: {Rule.LOAD},
}


@pytest.mark.parametrize("algorithm", list(Algorithm))
@settings(max_examples=50)
@given(problem=problems(attributes=3), seed=st.integers(0, 5))
def test_every_algorithm_keeps_what_it_looks_at_and_a_seed_gives_one_placement(algorithm, problem, seed):
    made, again = (place(problem, algorithm, np.random.default_rng(seed), moves=60) for _ in range(2))
    assert made.brokers.tolist() == again.brokers.tolist()
    assert [boxes.tolist() for boxes in made.filters] == [boxes.tolist() for boxes in again.filters]
    found = verify(problem, made)
    assert found.loads.sum() == len(problem)
    assert found.broken() <= MAY_BREAK[algorithm]
    least, has_load = feasible_factor(problem), Rule.LOAD in found.broken()
    if algorithm in {Algorithm.PROGRAMME, Algorithm.LOCAL_SEARCH}:
        assert has_load <= (least > problem.beta_max * (1 + 1e-9))
    elif algorithm is Algorithm.BALANCE:
        assert found.load_factor == pytest.approx(least)
    elif algorithm in {Algorithm.CLOSEST, Algorithm.GREEDY_WITHOUT_LATENCY}:
        assert has_load <= (problem.rooms(problem.beta_max).sum() < len(problem))


@pytest.mark.parametrize(
    "algorithm", [Algorithm.GREEDY_ONLINE, Algorithm.GREEDY_OFFLINE, Algorithm.PROGRAMME, Algorithm.LOCAL_SEARCH]
)
def test_like_interests_go_together_where_that_is_looked_at(algorithm):
    problem = line_problem([(0, 2), (7, 9), (0, 2), (7, 9)], brokers=(1, 2), beta=1.0, beta_max=1.0)
    found = place(problem, algorithm, np.random.default_rng(0), moves=50)
    assert found.brokers[0] == found.brokers[2] != found.brokers[1] == found.brokers[3]
    assert verify(problem, found).bandwidth == 4


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


GREEDY = [(greedy_online, False, False), (greedy_offline, True, False), (greedy_without_latency, False, True)]


@pytest.mark.parametrize(("algorithm", "offline", "anywhere"), GREEDY)
@given(problem=problems())
def test_greedy_placement_is_its_definition(algorithm, offline, anywhere, problem):
    candidates = np.ones_like(problem.candidates) if anywhere else problem.candidates
    expected = by_definition(problem, offline=offline, candidates=candidates)
    assert algorithm(problem).brokers.tolist() == problem.tree.leaves[expected].tolist()


def test_closest_without_balance_takes_the_nearest_leaf():
    problem = line_problem([(0, 1)] * 4, brokers=(1, 5), places=[1, 2, 4, 9], beta=1.0, beta_max=1.0)
    assert closest_without_balance(problem, np.random.default_rng(0)).brokers.tolist() == [0, 0, 1, 1]
    problem = line_problem([(0, 1)] * 4, brokers=(1, 5), places=[1, 2, 1, 9], beta=1.0, beta_max=1.0)
    assert closest(problem, np.random.default_rng(0)).brokers.tolist() == [0, 0, 1, 1]
