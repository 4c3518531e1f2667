"""Local search keeps every limit, is never worse than its start, and does not beat the optimum."""

from dataclasses import replace
from itertools import pairwise
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placement_builders import box_problem, problems
from rankcast.placement import search as thinning
from rankcast.placement.algorithms import Algorithm, place
from rankcast.placement.greedy import (
    balance,
    closest,
    closest_without_balance,
    greedy_offline,
    greedy_online,
    greedy_without_latency,
)
from rankcast.placement.problem.audit import Rule, union_measure, verify
from rankcast.placement.problem.boxes import UNIFORM
from rankcast.placement.programme.assignment import Stage
from rankcast.placement.programme.flow import feasible_factor
from rankcast.placement.search import Thinned, anneal, anneal_within, exchange, mend
from rankcast.samples.placement import Workload, layered_tree, network, placement_problem, problem_on
from rankcast_lab.engines.exhaustive import least_traffic

STARTS = {
    "online": lambda problem, random: greedy_online(problem),
    "offline": lambda problem, random: greedy_offline(problem),
    "anywhere": lambda problem, random: greedy_without_latency(problem),
    "closest": closest,
    "nearest": closest_without_balance,
    "balance": balance,
}


def is_possible(problem):
    return feasible_factor(problem) <= problem.beta_max * (1 + 1e-9)


@given(problems(), st.sampled_from(sorted(STARTS)), st.integers(0, 5))
def test_a_placement_is_found_from_any_start_whenever_there_is_one(problem, start, seed):
    random = np.random.default_rng(seed)
    begun = mend(problem, STARTS[start](problem, random), random)
    found = anneal(problem, begun, random, moves=150)
    before, after = verify(problem, begun), verify(problem, found)
    assert after.broken() <= ({Rule.LOAD} if not is_possible(problem) else set())
    assert after.bandwidth <= before.bandwidth + 1e-9


@given(problems(attributes=3, most_alpha=2), st.integers(0, 5))
@settings(max_examples=50)
def test_a_sound_start_is_mended_by_leaving_it_alone(problem, seed):
    start = balance(problem, np.random.default_rng(seed))
    if verify(problem, start).is_feasible:
        assert mend(problem, start, np.random.default_rng(0)) is start


@given(problems(subscribers=4, brokers=3, star=True, most_alpha=2), st.integers(0, 5))
@settings(max_examples=60)
def test_no_algorithm_beats_the_optimum_of_all_placements(problem, seed):
    best = least_traffic(problem, lambda boxes: union_measure(boxes, problem.density))
    if best is None:
        return
    random = np.random.default_rng(seed)
    for algorithm in STARTS.values():
        found = verify(problem, algorithm(problem, random))
        if found.is_feasible:
            assert found.bandwidth >= best - 1e-9
    assert verify(problem, anneal(problem, greedy_offline(problem), random, moves=300)).bandwidth >= best - 1e-9


def published(levels):
    """A published workload for brokers at one level or at several, where much is to be gained or a little less."""
    if levels == "one":
        return placement_problem(Workload.TOPICS_HL, 2000, 100, np.random.default_rng(1)), 20_000, 0.9
    random = np.random.default_rng(0)
    drawn = network(100, random)
    tree = layered_tree(drawn, 7, random)
    return problem_on(Workload.HOT_SPOTS, 1500, drawn, tree, random, 1.0, 1.5, 2.0), 10_000, 0.95


@pytest.mark.parametrize("levels", ["one", "several"])
def test_much_is_gained_on_published_workloads(levels):
    problem, moves, share = published(levels)
    start = greedy_offline(problem)
    found = verify(problem, anneal(problem, start, np.random.default_rng(0), moves))
    assert found.is_feasible
    assert found.load_factor <= problem.beta * (1 + 1e-9) or levels == "several"
    assert found.bandwidth < share * verify(problem, start).bandwidth


def crowded(problem, times):
    """The problem with so many of each of its subscribers."""
    numbers = np.repeat(np.arange(len(problem)), times)
    return replace(problem, interest_of=problem.interest_of[numbers], site_of=problem.site_of[numbers], names=None)


@given(problems(), st.sampled_from(sorted(STARTS)), st.integers(0, 5))
@settings(max_examples=50)
def test_crowds_with_the_same_demand_keep_every_limit_too(problem, start, seed):
    many, random = crowded(problem, 25), np.random.default_rng(seed)
    begun = mend(many, STARTS[start](many, random), random)
    one, two = (anneal(many, begun, np.random.default_rng(seed), moves=150) for _ in range(2))
    before, after = verify(many, begun), verify(many, one)
    assert after.broken() <= ({Rule.LOAD} if not is_possible(many) else set())
    assert after.bandwidth <= before.bandwidth + 1e-9
    if before.load_factor <= many.beta:
        assert after.load_factor <= many.beta * (1 + 1e-9)
    assert (one.brokers == two.brokers).all()


@given(problems(), st.integers(0, 5))
@settings(max_examples=50)
def test_a_few_of_each_demand_stand_for_all_and_their_filters_for_everybody(problem, seed):
    many, random = crowded(problem, 25), np.random.default_rng(seed)
    few = Thinned.of(many, random)
    assert Thinned.of(problem, random) is None
    assert set(zip(few.problem.interest_of, few.problem.site_of, strict=True)) <= set(
        zip(many.interest_of, many.site_of, strict=True)
    )
    own = Stage.of(few.problem, np.arange(len(few.problem)), many.tree.leaves)
    assert own.interests.tolist() == few.stage.interests.tolist()
    assert len(few.problem) <= 11 * len(own.sizes)
    carried = few.carry_over(greedy_offline(few.problem), many.beta_max, random)
    assert (carried is not None) is is_possible(many)
    if carried is not None:
        assert verify(many, carried).is_feasible


def test_where_crowds_want_the_same_a_search_with_few_of_them_gains_more():
    problem = placement_problem(Workload.FEEDS, 12_000, 100, np.random.default_rng(1))
    start = greedy_offline(problem)
    found = verify(problem, anneal(problem, start, np.random.default_rng(0), moves=20_000))
    with patch.object(thinning, "REPEATED", 10**9):
        one_by_one = verify(problem, anneal(problem, start, np.random.default_rng(0), moves=20_000))
    assert found.is_feasible
    assert found.bandwidth < one_by_one.bandwidth < verify(problem, start).bandwidth


def test_progress_is_told_and_a_seed_gives_one_result():
    problem = placement_problem(Workload.FEEDS, 500, 100, np.random.default_rng(3))
    start, told = greedy_offline(problem), []
    one = anneal(problem, start, np.random.default_rng(1), 400, lambda share, traffic: told.append((share, traffic)))
    two = anneal(problem, start, np.random.default_rng(1), 400)
    assert (one.brokers == two.brokers).all()
    assert told[-1][0] == 1
    assert told[-1][1] == pytest.approx(verify(problem, one).bandwidth)
    assert all(later[1] <= earlier[1] for earlier, later in pairwise(told))


def test_a_budget_of_another_kind_is_spent_and_no_more():
    problem = placement_problem(Workload.HOT_SPOTS, 1000, 100, np.random.default_rng(3))
    start, shares, told = greedy_offline(problem), iter([0.0, 0.4, 0.8, 1.0]), []
    found = anneal_within(
        problem, start, np.random.default_rng(1), lambda: next(shares), lambda share, traffic: told.append(share)
    )
    assert told == [0.0, 0.4, 0.8, 1.0]
    audit = verify(problem, found)
    assert audit.is_feasible
    assert audit.bandwidth < verify(problem, start).bandwidth
    assert anneal_within(problem, start, np.random.default_rng(1), lambda: 1.0).brokers.tolist() == (
        start.brokers.tolist()
    )


def tight_star(leaves, alpha, seed):
    """Six subscribers anywhere in a square, at leaves that are all full."""
    random = np.random.default_rng((leaves, alpha, seed))
    low = random.uniform(0, 10, (6, 2))
    high = low + random.uniform(0, 3, (6, 2))
    return box_problem(low, high, np.ones((leaves, 2)), beta=1.0, beta_max=1.0, alpha=alpha)


@pytest.mark.parametrize(("leaves", "alpha"), [(2, 1), (3, 1), (2, 2), (3, 2)])
def test_full_leaves_exchange_subscribers(leaves, alpha):
    """Moves of one by one alone end at up to 1.4 times the least traffic on average, and at 3.4 times at worst."""
    ratios = []
    for seed in range(8):
        problem = tight_star(leaves, alpha, seed)
        found = verify(problem, place(problem, Algorithm.LOCAL_SEARCH, np.random.default_rng(1), moves=1000))
        assert found.is_feasible
        least = least_traffic(problem, lambda boxes: union_measure(boxes, UNIFORM))
        ratios.append(found.bandwidth / least)
    assert min(ratios) >= 1 - 1e-9
    assert max(ratios) <= 1.25
    assert np.mean(ratios) <= 1.05


@given(problems(), st.integers(0, 5))
@settings(max_examples=50)
def test_exchanges_keep_loads_and_latencies_and_make_nothing_worse(problem, seed):
    start = mend(problem, greedy_offline(problem), np.random.default_rng(seed))
    one, two = (exchange(problem, start, np.random.default_rng(seed), tries=40) for _ in range(2))
    before, after = verify(problem, start), verify(problem, one)
    assert after.loads.tolist() == before.loads.tolist()
    assert after.broken() <= before.broken()
    assert after.bandwidth <= before.bandwidth
    assert one.brokers.tolist() == two.brokers.tolist()
    assert exchange(problem, start, np.random.default_rng(seed), tries=0) is start


def test_where_there_are_many_subscribers_none_are_exchanged():
    problem = placement_problem(Workload.FEEDS, 200, 20, np.random.default_rng(1))
    start = greedy_offline(problem)
    assert exchange(problem, start, np.random.default_rng(1)) is start
