"""The parts of placement by linear programming that grow with subscribers, as DataFrame and Arrow stages.

- candidates: the demand code of each subscriber, its interest and the class of brokers near enough to it;
- class aggregation: how many subscribers each demand has, and the first of them;
- coverage: by which brokers each demand is covered, many demands at a time; what is covered by none gains weight;
- clustering: the filter of each leaf from the different interests there, leaves side by side.

All return what the local code returns, to the last bit: numbers are sorted, and every leaf has a seed of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, functions

from rankcast.placement.boxes import Array
from rankcast.placement.fitting import fit_inner_filters, fitted_leaf, leaf_seeds
from rankcast.placement.flow import classes_of
from rankcast.placement.problem import Problem
from rankcast.placement.solution import Placement
from rankcast.placement.stage import Stage, covered

LEAST_DEMANDS = 20_000
"""Demands from which on coverage is worth a Spark job."""


@dataclass(frozen=True, slots=True, eq=False)
class SparkStage(Stage):
    """A stage whose coverage Spark works out."""

    frame: DataFrame | None = None
    least_demands: int = LEAST_DEMANDS

    def covers(self, demands: Array, starts: Array, boxes: Array) -> Array:
        """Return by which brokers demands are covered, given the boxes of each broker: a row per demand."""
        if self.frame is None or len(demands) < max(self.least_demands, len(self.sizes)):
            return Stage.covers(self, demands, starts, boxes)
        session = self.frame.sparkSession
        shipped = session.sparkContext.broadcast((self.problem.interests, self.interests, self.allowed, starts, boxes))
        slices = max(1, min(len(demands) // 1000, session.sparkContext.defaultParallelism * 4))
        found = (
            session.range(0, len(demands), 1, slices)
            .mapInArrow(_Cover(shipped), "demand long, covers binary")
            .toArrow()
        )
        shipped.unpersist()
        made = np.empty((len(demands), len(self.brokers)), bool)
        packed = np.frombuffer(b"".join(found["covers"].to_pylist()), np.uint8).reshape(len(demands), -1)
        made[found["demand"].to_numpy()] = np.unpackbits(packed, axis=1, count=len(self.brokers)).astype(bool)
        return made[demands]


def stage_of(
    coded: DataFrame, problem: Problem, members: Array, brokers: Array, least_demands: int = LEAST_DEMANDS
) -> Stage:
    """Return what `Stage.of` returns for all subscribers; of a part of them, below the top, the driver makes it."""
    if len(members) < len(problem):
        return Stage.of(problem, members, brokers)
    below = problem.tree.leaves_below()[brokers]
    groups = classes_of(problem.candidates & below.any(axis=0), np.arange(len(problem.sites)))
    codes = demand_codes(coded, groups.members, len(groups.allowed))
    found, first, sizes = aggregated(codes)
    demand_of = np.empty(len(problem), np.int64)
    located = codes.mapInArrow(_Locate(coded.sparkSession.sparkContext.broadcast(found)), "number long, demand long")
    table = located.toArrow()
    demand_of[table["number"].to_numpy()] = table["demand"].to_numpy()
    interests, rows = np.divmod(found, len(groups.allowed))
    by_group = (groups.allowed.astype(np.float32) @ below.T.astype(np.float32)) > 0
    sites = problem.site_of[first]
    return SparkStage(
        problem, members, brokers, below, demand_of, interests, sites, sizes, by_group[rows], coded, least_demands
    )


def demand_codes(coded: DataFrame, class_of_site: Array, classes: int) -> DataFrame:
    """Return the code of each subscriber's demand: its interest and the class of its candidate brokers."""
    shipped = coded.sparkSession.sparkContext.broadcast(class_of_site)
    return coded.mapInArrow(_Code(shipped, classes), "number long, code long")


def aggregated(codes: DataFrame) -> tuple[Array, Array, Array]:
    """Return the different codes, ascending, the first subscriber of each and how many there are."""
    found = (
        codes.groupBy("code").agg(functions.min("number").alias("first"), functions.count("*").alias("size")).toArrow()
    )
    order = np.argsort(found["code"].to_numpy())
    codes_found, first, sizes = (found[name].to_numpy()[order] for name in ("code", "first", "size"))
    return codes_found, first, sizes


def fitted_by_spark(
    coded: DataFrame, problem: Problem, column_of: Array, random: np.random.Generator, known: Mapping[int, Array]
) -> Placement:
    """Return what `fitted` returns: leaves are fitted side by side, inner brokers on the driver."""
    seeds = leaf_seeds(problem, random)
    filters = [np.empty((0, problem.interests.sides.shape[1])) for _ in range(len(problem.tree))]
    context = coded.sparkSession.sparkContext
    columns = context.broadcast(column_of.astype(np.int32))
    pairs = coded.mapInArrow(_Pair(columns, len(problem.interests)), "pair long").distinct()
    at_leaves = pairs.select(
        functions.floor(functions.col("pair") / len(problem.interests)).cast("long").alias("column"),
        (functions.col("pair") % len(problem.interests)).alias("interest"),
    )
    leaves = problem.tree.leaves
    shipped = context.broadcast((problem, seeds, [known[int(leaf)] for leaf in leaves]))
    found = at_leaves.groupBy("column").applyInArrow(_fit(shipped), "column long, boxes binary").toArrow()
    for column, boxes in zip(found["column"].to_pylist(), found["boxes"].to_pylist(), strict=True):
        filters[int(leaves[column])] = np.frombuffer(boxes).reshape(-1, problem.interests.sides.shape[1]).copy()
    fit_inner_filters(problem, filters, random)
    return Placement(leaves[column_of], tuple(filters))


@dataclass(frozen=True, slots=True)
class _Code:
    class_of_site: Any
    classes: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            codes = batch.column("interest").to_numpy() * self.classes
            codes = codes + self.class_of_site.value[batch.column("site").to_numpy()]
            yield pa.RecordBatch.from_arrays([batch.column("number"), pa.array(codes, pa.int64())], ["number", "code"])


@dataclass(frozen=True, slots=True)
class _Locate:
    found: Any

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            demands = np.searchsorted(self.found.value, batch.column("code").to_numpy())
            yield pa.RecordBatch.from_arrays(
                [batch.column("number"), pa.array(demands, pa.int64())], ["number", "demand"]
            )


@dataclass(frozen=True, slots=True)
class _Cover:
    shipped: Any

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        interests, interest_of_demand, allowed, starts, boxes = self.shipped.value
        for batch in batches:
            demands = batch.column(0).to_numpy()
            made = covered(interests, interest_of_demand[demands], allowed[demands], starts, boxes)
            packed = np.packbits(made, axis=1)
            rows = pa.array([row.tobytes() for row in packed], pa.binary())
            yield pa.RecordBatch.from_arrays([batch.column(0), rows], ["demand", "covers"])


@dataclass(frozen=True, slots=True)
class _Pair:
    columns: Any
    interests: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            columns = self.columns.value[batch.column("number").to_numpy()].astype(np.int64)
            pairs = np.unique(columns * self.interests + batch.column("interest").to_numpy())
            yield pa.RecordBatch.from_arrays([pa.array(pairs, pa.int64())], ["pair"])


def _fit(shipped: Any) -> Callable[[pa.Table], pa.Table]:
    """Return what fits one leaf; a function, as Spark counts the arguments of what it calls, `self` included."""

    def fit(table: pa.Table) -> pa.Table:
        problem, seeds, known = shipped.value
        column = table["column"][0].as_py()
        parts = np.unique(problem.interests.taken(table["interest"].to_numpy()).sides, axis=0)
        most = int(problem.boxes_of_brokers[int(problem.tree.leaves[column])])
        boxes = fitted_leaf(parts, most, problem.density, int(seeds[column]), known[column])
        return pa.table({"column": pa.array([column], pa.int64()), "boxes": pa.array([boxes.tobytes()], pa.binary())})

    return fit
