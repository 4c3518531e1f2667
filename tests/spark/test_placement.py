"""Placement on Spark: the same placement, filters and yardstick as on one machine, for the same seed."""

import numpy as np
import pytest

from rankcast.model.errors import PlacementError
from rankcast.placement.audit import verify
from rankcast.placement.boxes import corners
from rankcast.placement.interests import Interests
from rankcast.placement.problem import Problem, limits_of_delay
from rankcast.placement.slp import placed_by_programme
from rankcast.placement.stage import Stage
from rankcast.placement.tree import PUBLISHER, BrokerTree
from rankcast.placement.tree_design import clustered_tree
from rankcast.spark.placement import place_table
from rankcast.spark.placement_stages import stage_of
from rankcast.spark.placement_table import SubscriberTable, Terms


def drawn(seed, subscribers=120, brokers=6, degree=None):
    """A problem whose interests and sites are in the order of their content, some of two boxes."""
    random = np.random.default_rng(seed)
    positions = random.uniform(0, 10, (brokers, 2))
    tree = (
        BrokerTree.star(np.zeros(2), positions)
        if degree is None
        else clustered_tree(np.zeros(2), positions, degree, random)
    )
    low = random.integers(0, 8, (40, 2)).astype(float)
    sides = np.unique(np.concatenate([0.0 - low, low + random.integers(1, 4, (40, 2))], axis=1), axis=0)
    wanted = sorted(
        {tuple(map(tuple, sides[random.choice(len(sides), random.integers(1, 3), replace=False)])) for _ in range(30)},
        key=lambda parts: tuple(np.concatenate([np.array(part) for part in parts]).tolist()),
    )
    places = np.unique(random.integers(0, 10, (12, 2)).astype(float), axis=0)
    limits = limits_of_delay(tree, places, 0.8)
    return Problem(
        tree,
        Interests(np.cumsum([0, *map(len, wanted)]), np.array([part for parts in wanted for part in parts])),
        np.concatenate([np.arange(len(wanted)), random.integers(0, len(wanted), subscribers - len(wanted))]),
        places,
        limits,
        np.concatenate([np.arange(len(places)), random.integers(0, len(places), subscribers - len(places))]),
        beta=2.0,
        beta_max=3.0,
        alpha=2,
    )


def rows_of(problem):
    for number, (interest, site) in enumerate(zip(problem.interest_of, problem.site_of, strict=True)):
        low, high = corners(problem.interests.parts(int(interest)))
        at, limit = problem.sites[site].tolist(), float(problem.limits[site])
        yield number, low.reshape(-1).tolist(), high.reshape(-1).tolist(), at, limit


SCHEMA = "number long, low array<double>, high array<double>, at array<double>, limit double"


def framed(spark, problem):
    rows = list(rows_of(problem))
    return spark.createDataFrame(rows[::-1], SCHEMA).repartition(3)


def terms_of(problem):
    return Terms(problem.tree, problem.interests.attributes, problem.beta, problem.beta_max, problem.boxes_of_brokers)


@pytest.mark.parametrize(("seed", "degree"), [(1, None), (2, 3)], ids=["one level", "a tree"])
def test_spark_places_as_one_machine_does(spark, seed, degree):
    problem = drawn(seed, degree=degree)
    local = placed_by_programme(problem, np.random.default_rng(seed))
    found = place_table(framed(spark, problem), terms_of(problem), np.random.default_rng(seed), least_demands=0)
    assert found.placement.brokers.tolist() == local.placement.brokers.tolist()
    for own, other in zip(found.placement.filters, local.placement.filters, strict=True):
        assert np.array_equal(own, other)
    assert found.yardstick == local.yardstick
    assert verify(problem, found.placement).bandwidth == verify(problem, local.placement).bandwidth
    assert found.assignments()["broker"].to_pylist() == local.placement.brokers.tolist()


def test_a_table_becomes_the_problem_and_its_demands(spark):
    problem = drawn(3)
    table = SubscriberTable.of(framed(spark, problem), terms_of(problem))
    assert table.problem.interest_of.tolist() == problem.interest_of.tolist()
    assert table.problem.site_of.tolist() == problem.site_of.tolist()
    assert np.array_equal(table.problem.interests.sides, problem.interests.sides)
    everybody, top = np.arange(len(problem)), problem.tree.children(PUBLISHER)
    made = stage_of(table, table.problem, everybody, top, least_demands=0)
    local = Stage.of(problem, everybody, top)
    for name in ("demand_of", "interests", "sites", "sizes", "allowed"):
        assert np.array_equal(getattr(made, name), getattr(local, name)), name
    boxes = problem.interests.sides[::3]
    starts = np.linspace(0, len(boxes), len(top) + 1).astype(int)
    every = np.arange(len(local.sizes))
    assert np.array_equal(made.all_covers(starts, boxes), local.covers(every, starts, boxes))
    assert np.array_equal(made.uncovered(starts, boxes), ~local.covers(every, starts, boxes).any(axis=1))


def test_numbers_that_are_not_each_there_once_are_refused(spark):
    problem = drawn(4, subscribers=40)
    rows = [row for row in rows_of(problem) if row[0] != 7]
    with pytest.raises(PlacementError, match="number: expected 0 to 38, each in one row"):
        SubscriberTable.of(spark.createDataFrame(rows, SCHEMA), terms_of(problem))
