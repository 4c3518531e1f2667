"""Placement on Spark: the same placement, filters and yardstick as on one machine, for the same seed."""

import re
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from placement_builders import line_problem, problems
from rankcast.model.errors import PlacementError
from rankcast.placement.problem.audit import verify
from rankcast.placement.problem.boxes import corners
from rankcast.placement.problem.interests import Interests
from rankcast.placement.problem.problem import PlacementProblem, distinct_sites, limits_of_delay
from rankcast.placement.problem.tree import PUBLISHER
from rankcast.placement.programme.assignment import Stage
from rankcast.placement.programme.filter_assignment import Sampling
from rankcast.placement.programme.slp import place_by_programme
from rankcast.spark.placement import (
    Describe,
    PlacedSubscribers,
    Terms,
    cover_blocks,
    keys_of,
    pack_blocks,
    packed,
    place_table,
    rows_of,
    unpacked,
)

SCHEMA = "number long, low array<double>, high array<double>, at array<double>, limit double"
ROUGH = Sampling(load_sample=3, superinterests=2, guess=1.0, rounds=1, iterations=200)
"""Samples of few demands, so that some are not covered at first and gain weight."""


def numbered_by_content(problem, apart):
    """The same problem with interests and sites as a table has them; each subscriber a bit `apart` from the others."""
    wanted = [tuple(problem.interests.parts(one).reshape(-1).tolist()) for one in problem.interest_of]
    different = sorted(set(wanted))
    boxes = [np.reshape(one, (-1, problem.interests.sides.shape[1])) for one in different]
    places = problem.sites[problem.site_of] + apart * np.arange(len(problem))[:, None]
    sites, limits, site_of = distinct_sites(places, limits_of_delay(problem.tree, places, 0.5))
    return PlacementProblem(
        problem.tree,
        Interests(np.cumsum([0, *map(len, boxes)]), np.concatenate(boxes)),
        np.array([different.index(one) for one in wanted]),
        sites,
        limits,
        site_of,
        beta=problem.beta,
        beta_max=problem.beta_max,
        alpha=problem.boxes_of_brokers,
        density=problem.density,
    )


def rows_for(problem):
    """The rows of a table, the last subscriber first."""
    for number in reversed(range(len(problem))):
        low, high = corners(problem.interests.parts(int(problem.interest_of[number])))
        site = problem.site_of[number]
        at, limit = problem.sites[site].tolist(), float(problem.limits[site])
        yield number, low.reshape(-1).tolist(), high.reshape(-1).tolist(), at, limit


def terms_of(problem):
    return Terms(
        problem.tree,
        problem.interests.attributes,
        problem.beta,
        problem.beta_max,
        problem.boxes_of_brokers,
        density=problem.density,
    )


# Few, as each runs a dozen of Spark's jobs; what their tasks do is tried below, on many problems and without Spark.
@settings(max_examples=3, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(problems(subscribers=40), st.sampled_from([0.0, 0.25]), st.integers(1, 4), st.integers(0, 9))
def test_spark_places_as_one_machine_does(spark, drawn, apart, partitions, seed):
    problem = numbered_by_content(drawn, apart)
    local = place_by_programme(problem, np.random.default_rng(seed), ROUGH)
    frame = spark.createDataFrame(list(rows_for(problem)), SCHEMA).repartition(partitions)
    found = place_table(frame, terms_of(problem), np.random.default_rng(seed), ROUGH, least_demands=0)
    for name in ("interest_of", "site_of", "sites", "limits", "candidates"):
        assert np.array_equal(getattr(found.problem, name), getattr(problem, name)), name
    assert np.array_equal(found.problem.interests.sides, problem.interests.sides)
    for own, other in zip(found.placement.filters, local.placement.filters, strict=True):
        assert np.array_equal(own, other)
    assert found.assignments()["broker"].to_pylist() == local.placement.brokers.tolist()
    assert found.yardstick == local.yardstick


def batches_of(table, cuts):
    """A table as the batches that a worker gets."""
    ends = [0, *sorted(cut % (len(table) + 1) for cut in cuts), len(table)]
    return [batch for first, last in pairwise(ends) for batch in table.slice(first, last - first).to_batches()]


@given(problems(subscribers=30), st.lists(st.integers(0, 99), max_size=3), st.data())
def test_blocks_of_demands_are_covered_as_all_of_them_are(problem, cuts, data):
    stage = Stage.of(problem, np.arange(len(problem)), problem.tree.children(PUBLISHER))
    taken = problem.interests.taken(stage.interests)
    codes = stage.interests * len(stage.classes) + stage.class_of
    demands = {
        "code": pa.array(codes),
        "first": pa.array(codes),
        "size": pa.array(stage.sizes),
        "sides": keys_of(taken.sides, np.diff(taken.offsets)),
    }
    blocks = list(pack_blocks(taken.sides.shape[1], iter(batches_of(pa.table(demands), cuts))))
    boxes = problem.interests.sides[data.draw(st.lists(st.integers(0, len(problem.interests.sides) - 1), max_size=9))]
    starts = np.linspace(0, len(boxes), len(stage.brokers) + 1).astype(int)
    shipped = SimpleNamespace(value=(stage.classes, starts, boxes))

    def asked(by_broker, width):
        return unpacked(
            pa.chunked_array([one["rows"] for one in cover_blocks(shipped, by_broker, iter(blocks))]), width
        )

    assert np.array_equal(asked(True, len(stage.brokers)), stage.all_covers(starts, boxes))
    assert asked(False, 1).reshape(-1).tolist() == stage.uncovered(starts, boxes).tolist()


NUMBERS = st.floats(allow_nan=False)


@given(st.lists(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=3), min_size=1, max_size=6))
def test_keys_are_ordered_as_the_numbers_they_are_made_of(drawn):
    rows = np.array([pair for rows in drawn for pair in rows])
    counts = np.array([len(rows) for rows in drawn])
    keys = keys_of(rows, counts)
    plain = [tuple(number for pair in rows for number in pair) for rows in drawn]
    order = sorted(range(len(drawn)), key=lambda at: keys[at].as_py())
    assert [plain[at] for at in order] == sorted(plain)
    assert len(set(keys.to_pylist())) == len(set(plain))  # one key for zero, whatever its sign
    again, sizes = rows_of(pa.chunked_array([keys.slice(0, 1), keys.slice(1)]), 2)
    assert np.array_equal(again, rows)
    assert np.array_equal(sizes, counts)


@given(st.lists(st.lists(st.booleans(), min_size=11, max_size=11), min_size=1))
def test_truth_values_are_unpacked_as_they_were_packed(rows):
    assert unpacked(packed(np.array(rows)), 11).tolist() == rows


RIGHT = {"number": 7, "low": [0.0, 1.0], "high": [2.0, 1.0], "at": [0.0, 5.0], "limit": 3.0}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"number": None}, "number: null in some row; expected one in each"),
        ({"low": None}, "subscriber 7: low and high have null and 2 numbers; expected 2 in each for every box"),
        ({"low": [], "high": []}, "subscriber 7: low and high have 0 numbers and 0 numbers; expected 2"),
        ({"low": [0.0, 1.0, 2.0]}, "subscriber 7: low and high have 3 numbers and 2 numbers; expected 2"),
        ({"low": [0.0, None]}, r"subscriber 7: boxes from \[0.0, None\] to .*; expected finite numbers, low <= high"),
        ({"high": [2.0, float("nan")]}, r"subscriber 7: boxes from \[0.0, 1.0\] to \[2.0, nan\]"),
        ({"high": [float("inf"), 2.0]}, r"subscriber 7: boxes from \[0.0, 1.0\] to \[inf, 2.0\]"),
        ({"low": [3.0, 1.0]}, r"subscriber 7: boxes from \[3.0, 1.0\] to \[2.0, 1.0\]; expected .* low <= high"),
        ({"at": [0.0]}, r"subscriber 7: at \[0.0\]; expected 2 numbers"),
        ({"at": [0.0, None]}, r"subscriber 7: at \[0.0, None\]; expected 2 numbers"),
        ({"at": [0.0, 1e13]}, r"subscriber 7: at \[0.0, 10000000000000.0\]; expected coordinates from -1e\+12 to"),
        ({"limit": float("nan")}, "subscriber 7: limit nan; expected a latency"),
        ({"limit": None}, "subscriber 7: limit None; expected a latency"),
    ],
)
def test_a_wrong_row_is_named(wrong, said):
    kinds = {name: pa.list_(pa.float64()) for name in ("low", "high", "at")}
    schema = pa.schema({"number": pa.int64(), **kinds, "limit": pa.float64()})
    rows = [{**RIGHT, "number": 1}, {**RIGHT, **wrong}, {**RIGHT, **wrong, "number": 8}, {**RIGHT, "number": 2}]
    read = Describe(attributes=2, dimensions=2)
    (found,) = read(iter([pa.RecordBatch.from_pylist(rows, schema=schema)]))
    with pytest.raises(PlacementError, match=said):
        raise PlacementError(found["wrong"][0].as_py())
    (good,) = read(iter([pa.RecordBatch.from_pylist(rows[::3], schema=schema)]))
    assert good["wrong"].null_count == len(good) == 2
    assert rows_of(good["interest"], 4)[0].tolist() == [[0.0, -1.0, 2.0, 1.0]] * 2
    assert rows_of(good["site"], 3)[0].tolist() == [[0.0, 5.0, 3.0]] * 2


@pytest.mark.parametrize("attributes", [0, -1, 2.0, 1.5, "2", None, True])
def test_attributes_are_a_whole_number(attributes):
    with pytest.raises(PlacementError, match=f"attributes: {attributes!r}; expected a whole number of at least 1"):
        Terms(line_problem([(0, 1)]).tree, attributes)


def test_wrong_tables_are_refused_on_the_driver(spark):
    problem = line_problem([(0, 1), (2, 3), (4, 5)])
    rows = list(rows_for(problem))
    for changed, said in (
        (rows[:1] + rows[2:], "number: expected 0 to 1, each in one row"),
        ([rows[0], (1, [0.0, 1.0], [2.0], [1.0], 9.0), rows[2]], "subscriber 1: low and high have 2 numbers and 1"),
        ([rows[0], rows[1], (0, [0.0], [1.0], [50.0], 1.0)], "no broker is near enough to subscriber 0: it has"),
    ):
        with pytest.raises(PlacementError, match=said):
            PlacedSubscribers.of(spark.createDataFrame(changed, SCHEMA), terms_of(problem))
    for kinds, said in (
        (SCHEMA.replace("number long", "number double"), "number: a column of double; expected tinyint or smallint or"),
        (SCHEMA.replace("limit double", "limit string"), "limit: a column of string; expected tinyint"),
        (SCHEMA.replace("low array<double>", "low double"), "low: a column of double; expected array<tinyint> or"),
    ):
        with pytest.raises(PlacementError, match=said):
            PlacedSubscribers.of(spark.createDataFrame([], kinds), terms_of(problem))
    with pytest.raises(PlacementError, match="the table has no rows; expected one for each subscriber"):
        PlacedSubscribers.of(spark.createDataFrame([], SCHEMA), terms_of(problem))
    for twice in ("number", "Number"):
        table = spark.createDataFrame([(*row, row[0]) for row in rows], f"{SCHEMA}, {twice} long")
        said = f"columns number, low, high, at, limit, {twice}: 2 are called number; expected one of each name"
        with pytest.raises(PlacementError, match=said):
            PlacedSubscribers.of(table, terms_of(problem))
    with pytest.raises(PlacementError, match="columns number, low: high is missing"):
        PlacedSubscribers.of(spark.createDataFrame(rows, SCHEMA).select("number", "low"), terms_of(problem))


def test_the_example_of_the_guide_works(spark):
    page = (Path(__file__).parents[2] / "docs" / "placement.md").read_text()
    (example,) = re.findall(r"^```python spark\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    namespace = {}
    exec(compile(example, "placement.md", "exec"), namespace)
    found = namespace["found"]
    assert verify(found.problem, found.placement).is_feasible
    assert sorted(found.assignments()["broker"].to_pylist()) == [0, 0, 1, 1]
