"""Placement by linear programming for very many subscribers: the same result as on one machine, for the same seed.

On the workers: reading, checking and numbering (`table`), candidates, demands, coverage and the filters of
leaves. On the driver: the programme, flows, rounding, weights, the search for boxes that are not
needed, and in a tree of several levels all that is below the top.

The driver needs, for boxes of d attributes and trees with n leaves,
- per subscriber 40 bytes for its interest, site, demand and leaf, and 80 to 150 more while members are shifted;
- per box of a different interest 16 d + 8 bytes;
- per different site n bytes for its candidates, and 8 for each coordinate and for its limit;
- per demand 40 bytes, and 4 n in the last steps: by which brokers it is covered, and at which leaves it may be.
With 100 leaves, two attributes and five coordinates that is 200 bytes per subscriber where most share a demand, and at
worst, when each has an interest and a site of its own, 750. Measured with ten million, and with what the bench itself
holds: 3.1 GB, and 7.2 GB when each has an interest of its own.

The parts of placement by linear programming that grow with subscribers, as DataFrame and Arrow stages.

- class aggregation: subscribers with the same interest and the same candidates are one demand; how many each has, and
  the first of them. Demands are kept by Spark in blocks, with the sides of their boxes;
- coverage: by which brokers each demand of a block is covered, packed into bits, or whether by any at all. What is
  covered by none gains weight: workers say which, the weights are the driver's;
- clustering: the filter of each leaf from the different interests there, leaves side by side.

Workers are sent the boxes of brokers and the classes of candidates with every coverage, and once the leaf of each
subscriber, four bytes; interests are where their rows are. All stages return what the local code returns, to the last
bit: they call it, numbers are sorted, and every leaf has a seed of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, functions

from rankcast.arrays import Array
from rankcast.placement.kernels import covering_brokers, uncovered_demands
from rankcast.placement.problem.problem import Placement, Problem
from rankcast.placement.programme.assignment import Stage, classes_at
from rankcast.placement.programme.filter_assignment import Sampling, Yardstick
from rankcast.placement.programme.fitting import fit_inner_filters, fitted_leaf, leaf_seeds
from rankcast.placement.programme.flow import classes_of
from rankcast.placement.programme.slp import placed_by_programme
from rankcast.spark.placement.table import PlacedSubscribers, Terms, content_of, partitions_for, rows_of, unpacked

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LEAST_DEMANDS = 200_000
"""Demands from which on coverage is a Spark job. Two cores are as quick as the driver at 500,000."""


@dataclass(frozen=True, slots=True, eq=False)
class SparkPlacement:
    """The problem that a table poses, its solution, and the yardstick."""

    problem: Problem
    placement: Placement
    yardstick: Yardstick

    def assignments(self) -> pa.Table:
        """Return the broker of each subscriber, by number."""
        return pa.table({"number": np.arange(len(self.problem)), "broker": self.placement.brokers})


def place_table(
    frame: DataFrame,
    terms: Terms,
    random: np.random.Generator,
    sampling: Sampling | None = None,
    least_demands: int = LEAST_DEMANDS,
) -> SparkPlacement:
    """Place the subscribers of a table by linear programming; see `table` for its columns.

    Coverage of fewer demands than `least_demands` is worked out on the driver.
    """
    with PlacedSubscribers.of(frame, terms) as table:
        found = placed_by_programme(
            table.problem,
            random,
            sampling,
            stage_of=partial(stage_of, table, least_demands=least_demands),
            fit=partial(fitted_by_spark, table),
        )
    return SparkPlacement(table.problem, found.placement, found.yardstick)


BLOCK_COLUMNS = ["first_code", "codes", "firsts", "sizes", "counts", "sides"]
_BLOCK = "first_code long, codes binary, firsts binary, sizes binary, counts binary, sides binary"


@dataclass(frozen=True, slots=True, eq=False)
class SparkStage(Stage):
    """A stage whose coverage of all demands Spark works out, from blocks of demands that it keeps."""

    blocks: DataFrame

    def all_covers(self, starts: Array, boxes: Array) -> Array:
        """Return by which brokers all demands are covered: a row per demand."""
        return unpacked(self._asked(starts, boxes, by_broker=True), len(self.brokers))

    def uncovered(self, starts: Array, boxes: Array) -> Array:
        """Return which demands no broker covers."""
        return unpacked(self._asked(starts, boxes, by_broker=False), 1).reshape(-1)

    def _asked(self, starts: Array, boxes: Array, *, by_broker: bool) -> pa.ChunkedArray:
        """Return packed rows of all demands, in their order."""
        context = self.blocks.sparkSession.sparkContext
        shipped = context.broadcast((self.classes, starts, boxes))
        asked = self.blocks.select("first_code", "codes", "counts", "sides")
        found = asked.mapInArrow(_Cover(shipped, by_broker), "first_code long, rows binary").toArrow()
        shipped.destroy()
        return found.sort_by("first_code")["rows"]


def stage_of(
    table: PlacedSubscribers, problem: Problem, members: Array, brokers: Array, least_demands: int = LEAST_DEMANDS
) -> Stage:
    """Return what `Stage.of` returns for all subscribers; of a part of them, below the top, the driver makes it."""
    if len(members) < len(problem):
        return Stage.of(problem, members, brokers)
    below = problem.tree.leaves_below()[brokers]
    groups = classes_of(problem.candidates & below.any(axis=0), np.arange(len(problem.sites)))
    blocks = table.keep(demand_blocks(table, groups.members, len(groups.allowed)))
    found = blocks.select("first_code", "codes", "firsts", "sizes").toArrow().sort_by("first_code")
    codes, firsts, sizes = (content_of(found[name])[0].view(np.int64) for name in ("codes", "firsts", "sizes"))
    interests, class_of = np.divmod(codes, len(groups.allowed))
    demand_of = np.searchsorted(codes, problem.interest_of * len(groups.allowed) + groups.members[problem.site_of])
    sites, classes = problem.site_of[firsts], classes_at(groups, below)
    made = (problem, members, brokers, below, demand_of, interests, sites, sizes, classes, class_of)
    return SparkStage(*made, blocks) if len(codes) >= least_demands else Stage(*made)


def demand_blocks(table: PlacedSubscribers, class_of_site: Array, classes: int) -> DataFrame:
    """Return the demands in the order of their codes, interest and class of candidates as one number, in blocks."""
    shipped = table.coded.sparkSession.sparkContext.broadcast(class_of_site)
    codes = table.coded.select("number", "interest", "site", "sides").mapInArrow(
        _Code(shipped, classes), "number long, code long, sides binary"
    )
    ranges = codes.repartitionByRange(partitions_for(len(table.problem)), "code").groupBy("code", "sides")
    demands = ranges.agg(functions.min("number").alias("first"), functions.count("*").alias("size"))
    return demands.sortWithinPartitions("code").mapInArrow(_PackBlocks(table.problem.interests.sides.shape[1]), _BLOCK)


def fitted_by_spark(
    table: PlacedSubscribers,
    problem: Problem,
    column_of: Array,
    random: np.random.Generator,
    known: Mapping[int, Array],
) -> Placement:
    """Return what `fitted` returns: leaves are fitted side by side, inner brokers on the driver."""
    seeds, leaves, width = leaf_seeds(problem, random), problem.tree.leaves, problem.interests.sides.shape[1]
    filters = [np.empty((0, width)) for _ in range(len(problem.tree))]
    context = table.coded.sparkSession.sparkContext
    columns = context.broadcast(column_of.astype(np.int32))
    wanted = table.coded.select("number", "sides").mapInArrow(_At(columns), "column int, sides binary").distinct()
    most = problem.boxes_of_brokers[leaves]
    shipped = context.broadcast((most, problem.density, seeds, [known[int(leaf)] for leaf in leaves]))
    found = wanted.groupBy("column").applyInArrow(_fit(shipped, width), "column int, boxes binary").toArrow()
    for column, boxes in zip(found["column"].to_pylist(), found["boxes"].to_pylist(), strict=True):
        filters[int(leaves[column])] = np.frombuffer(boxes).reshape(-1, width).copy()
    columns.destroy()
    shipped.destroy()
    fit_inner_filters(problem, filters, random)
    return Placement(leaves[column_of], tuple(filters))


@dataclass(frozen=True, slots=True)
class _Code:
    """Replaces interest and site by the code of the demand."""

    class_of_site: Any
    classes: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            codes = batch["interest"].to_numpy() * self.classes
            codes = codes + self.class_of_site.value[batch["site"].to_numpy()]
            columns = [batch["number"], pa.array(codes, pa.int64()), batch["sides"]]
            yield pa.RecordBatch.from_arrays(columns, ["number", "code", "sides"])


@dataclass(frozen=True, slots=True)
class _PackBlocks:
    """Makes one row of a batch of demands, so that no later stage goes through them one by one."""

    width: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if len(batch):
                codes, firsts, sizes = (batch[name].to_numpy() for name in ("code", "first", "size"))
                contents = (codes, firsts, sizes, *rows_of(batch["sides"], self.width)[::-1])
                columns = [pa.array(codes[:1]), *(pa.array([content.tobytes()]) for content in contents)]
                yield pa.RecordBatch.from_arrays(columns, BLOCK_COLUMNS)


@dataclass(frozen=True, slots=True)
class _Cover:
    """Packs by which brokers the demands of blocks are covered, or else whether by none."""

    shipped: Any
    by_broker: bool

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        kernel = covering_brokers if self.by_broker else uncovered_demands
        classes, starts, boxes = self.shipped.value
        for batch in batches:
            for row in range(len(batch)):
                codes, counts = (_array(batch[name][row], np.int64) for name in ("codes", "counts"))
                sides = _array(batch["sides"][row], np.float64).reshape(-1, boxes.shape[1])
                offsets = np.concatenate([[0], np.cumsum(counts)])
                found = kernel(np.arange(len(codes)), codes % len(classes), classes, offsets, sides, starts, boxes)
                bits = np.packbits(found.reshape(len(codes), -1), axis=1)
                columns = [batch["first_code"].slice(row, 1), pa.array([bits.tobytes()])]
                yield pa.RecordBatch.from_arrays(columns, ["first_code", "rows"])


def _array(value: pa.Scalar, kind: type) -> Array:
    """Return a copy of what a value of bytes contains: kernels are compiled for arrays that can be written."""
    return np.frombuffer(value.as_buffer(), kind).copy()


@dataclass(frozen=True, slots=True)
class _At:
    """Replaces numbers of subscribers by the columns of their leaves."""

    columns: Any

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            columns = self.columns.value[batch["number"].to_numpy()]
            yield pa.RecordBatch.from_arrays([pa.array(columns), batch["sides"]], ["column", "sides"])


def _fit(shipped: Any, width: int) -> Callable[[pa.Table], pa.Table]:
    """Return what fits one leaf; a function, as Spark counts the arguments of what it calls, `self` included."""

    def fit(table: pa.Table) -> pa.Table:
        most, density, seeds, known = shipped.value
        column = table["column"][0].as_py()
        parts = np.unique(rows_of(table["sides"], width)[0], axis=0)
        boxes = fitted_leaf(parts, int(most[column]), density, int(seeds[column]), known[column])
        return pa.table({"column": pa.array([column], pa.int32()), "boxes": pa.array([boxes.tobytes()])})

    return fit
