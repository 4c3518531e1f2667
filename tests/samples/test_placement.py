"""The workloads of placement are what their papers say, and the same for the same seed."""

import numpy as np
import pytest

from rankcast.model.errors import PlacementError
from rankcast.placement.problem.boxes import corners, lengths, volumes
from rankcast.placement.problem.tree import PUBLISHER
from rankcast.placement.programme.flow import feasible_factor
from rankcast.samples.placement import (
    SITES,
    Level,
    Workload,
    feeds,
    hot_spots,
    layered_tree,
    network,
    placement_problem,
    topics,
    zipf,
)


@pytest.fixture(scope="module")
def drawn():
    return network(100, np.random.default_rng(3))


def shares(numbers):
    counts = np.sort(np.bincount(numbers))[::-1]
    return counts / counts.sum()


def test_a_network_divides_sites_and_brokers_among_three_regions(drawn):
    assert np.bincount(drawn.regions).tolist() == [215, 54, 215]
    assert np.bincount(drawn.regions[drawn.brokers]).tolist() == [44, 12, 44]
    assert len(np.unique(drawn.brokers)) == 100
    assert drawn.sites.shape == (SITES, 5)


@pytest.mark.parametrize("brokers", [10, 30])
def test_a_network_of_few_brokers_is_found(brokers):
    assert len(network(brokers, np.random.default_rng(1)).positions) == brokers


def test_a_network_too_small_for_its_brokers_is_refused():
    with pytest.raises(PlacementError, match="brokers: 500 do not fit"):
        network(500, np.random.default_rng(0))


def test_a_problem_has_the_published_candidates_and_balance():
    problem = placement_problem(Workload.HOT_SPOTS, 3000, 100, np.random.default_rng(1))
    assert 0.14 <= problem.candidates.mean() <= 0.20
    assert feasible_factor(problem) < 1.3
    assert (problem.beta, problem.beta_max) == (1.3, 1.5)
    assert problem.tree.is_star


@pytest.mark.parametrize("workload", list(Workload))
def test_a_seed_gives_one_problem(workload):
    one, two = (placement_problem(workload, 200, 100, np.random.default_rng(3)) for _ in range(2))
    assert (one.interests.sides == two.interests.sides).all()
    assert (one.interest_of == two.interest_of).all()
    assert (one.site_of == two.site_of).all()
    assert (one.sites == two.sites).all()


def test_feeds_are_fifty_unit_squares_with_ten_sites_each():
    found = feeds(20_000, SITES, np.random.default_rng(0))
    assert len(found.interests) == 50
    assert lengths(found.interests.sides) == pytest.approx(1)
    assert all(len(np.unique(found.site_of[found.interest_of == interest])) == 10 for interest in range(50))
    assert np.abs(shares(found.interest_of) - zipf(50, 0.5)).max() < 0.01


def test_hot_spots_lie_in_the_grid_and_have_the_published_widths():
    found = hot_spots(50_000, SITES, np.random.default_rng(0))
    low, high = corners(found.interests.sides)
    assert low.min() == 0
    assert high.max() == 10
    inner = (low > 0).all(axis=1) & (high < 10).all(axis=1)
    assert np.unique(np.round(lengths(found.interests.sides[inner]), 9)).tolist() == [0.5, 1.0, 1.5, 2.0, 3.0]
    assert len(np.unique(found.site_of)) == SITES


def test_skew_and_breadth_of_topics_can_be_set(drawn):
    def made(skew, breadth):
        found = topics(50_000, drawn.regions, (4.0, 1.0, 4.0), np.random.default_rng(0), skew, breadth)
        return shares(found.interest_of)[:50].sum(), volumes(found.interests.sides)[found.interest_of].mean()

    (skewed, narrow), (even, _), (_, broad) = (
        made(Level.HIGH, Level.LOW),
        made(Level.LOW, Level.LOW),
        made(Level.HIGH, Level.HIGH),
    )
    assert even < skewed
    assert broad > 2 * narrow


def test_subscribers_of_topics_are_divided_among_regions(drawn):
    found = topics(9000, drawn.regions, (4.0, 1.0, 4.0), np.random.default_rng(0), Level.LOW, Level.LOW)
    counts = np.bincount(drawn.regions[found.site_of])
    assert np.abs(counts - [4000, 1000, 4000]).max() < 200


def test_a_layered_tree_keeps_the_degree_and_all_brokers(drawn):
    tree = layered_tree(drawn, 7, np.random.default_rng(0))
    assert len(tree) == 100
    assert max(len(tree.children(broker)) for broker in range(PUBLISHER, 100)) <= 7
    assert not tree.is_star
    with pytest.raises(PlacementError, match="degree: 1"):
        layered_tree(drawn, 1, np.random.default_rng(0))
