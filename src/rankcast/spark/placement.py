"""Placement by linear programming for very many subscribers: the same result as on one machine, for the same seed.

On the workers: reading, checking and numbering of subscribers, candidates, demands, coverage and the filters of
leaves. On the driver: the programme, flows, rounding, weights, the search for boxes that are not needed, and in a tree
of several levels all that is below the top.

*The table.* A row has a `number` (0, 1, ... each once), `low` and `high` (the corners of its boxes, one box after the
other), `at` (where it is) and `limit` (the latency that it allows). A row becomes its number and two keys: the sides of
its boxes, and its site, which is where it is with its limit behind. A wrong row becomes what is wrong with it, for the
driver to report: an error that a worker raises arrives there as one of Spark's, with the stack of the worker and no
type of its own. Spark finds the different interests and sites, sorts them by content, and joins their numbers to the
rows, so that nothing depends on partitions. The leaves near enough to a site are found on the workers, too. Nothing
here works row by row.

*Keys* are rows of numbers as bytes whose order is that of the numbers, so that Spark can sort, compare and join them. A
float64 is written with its most significant byte first, the sign bit turned over, and all other bits, too, when it is
negative. Of two rows the one with the first smaller number comes first; one that begins like a longer one is before it.
Zero has one key, whatever its sign. Rows of truth values are packed, a bit for each.

*The stages* of placement by linear programming that grow with subscribers are DataFrames and Arrow:
- class aggregation: subscribers with the same interest and the same candidates are one demand; how many each has, and
  the first of them. Demands are kept by Spark in blocks, with the sides of their boxes;
- coverage: by which brokers each demand of a block is covered, packed into bits, or whether by any at all. What is
  covered by none gains weight: workers say which, the weights are the driver's;
- clustering: the filter of each leaf from the different interests there, leaves side by side.

Workers are sent the boxes of brokers and the classes of candidates with every coverage, and once the leaf of each
subscriber, four bytes; interests are where their rows are. All stages return what the local code returns, to the last
bit: they call it, numbers are sorted, and every leaf has a seed of its own.

The driver gets the different interests and sites, a byte per site and leaf, and two numbers per subscriber. It needs,
for boxes of d attributes and trees with n leaves,
- per subscriber 40 bytes for its interest, site, demand and leaf, and 80 to 150 more while members are shifted;
- per box of a different interest 16 d + 8 bytes;
- per different site n bytes for its candidates, and 8 for each coordinate and for its limit;
- per demand 40 bytes, and 4 n in the last steps: by which brokers it is covered, and at which leaves it may be.
With 100 leaves, two attributes and five coordinates that is 200 bytes per subscriber where most share a demand, and at
worst, when each has an interest and a site of its own, 750. Measured with ten million, and with what the bench itself
holds: 3.1 GB, and 7.2 GB when each has an interest of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, functions

from rankcast.arrays import Array
from rankcast.model.errors import PlacementError
from rankcast.placement.kernels import covering_brokers
from rankcast.placement.problem.boxes import UNIFORM, Density
from rankcast.placement.problem.interests import Interests
from rankcast.placement.problem.numeric_limits import FARTHEST, wrong_place
from rankcast.placement.problem.problem import Latency, Placement, PlacementProblem, attribute_count, candidates_of
from rankcast.placement.problem.tree import BrokerTree
from rankcast.placement.programme.assignment import Stage, classes_at
from rankcast.placement.programme.filter_assignment import Sampling, Yardstick
from rankcast.placement.programme.fitting import fit_inner_filters, fit_leaf, leaf_seeds
from rankcast.placement.programme.flow import classes_of
from rankcast.placement.programme.slp import place_by_programme

LEAST_DEMANDS = 200_000
"""Demands from which on coverage is a Spark job. Two cores are as quick as the driver at 500,000."""

COLUMNS = {"number": "long", "low": "array<double>", "high": "array<double>", "at": "array<double>", "limit": "double"}

Batches: TypeAlias = Iterator[pa.RecordBatch]

WHOLE, REAL = ("tinyint", "smallint", "int", "bigint"), ("float", "double")
"""Spark's names of numbers."""

PARTITION = 100_000
"""Rows of a partition. Said here, as Spark does not join small partitions of what it keeps."""

_ROWS_OF_PARTITION = 33
"""Bits of Spark's increasing ids that number the rows of a partition; those above are the partition's."""


@dataclass(frozen=True, slots=True, eq=False)
class Terms:
    """What a problem has beside its subscribers; see `Problem`. Raises PlacementError for no number of attributes."""

    tree: BrokerTree
    attributes: int
    beta: float = 1.5
    beta_max: float = 1.8
    alpha: Array | int = 3
    shares: Array | None = None
    density: Density = field(default=UNIFORM)
    latency: Latency = Latency.PATH

    def __post_init__(self) -> None:
        object.__setattr__(self, "attributes", attribute_count(self.attributes))


@dataclass(frozen=True, slots=True, eq=False)
class PlacedSubscribers:
    """A problem, and its subscribers as rows of number, interest, site and sides, which Spark keeps until the end."""

    problem: PlacementProblem
    coded: DataFrame
    kept: list[DataFrame]

    @staticmethod
    def of(frame: DataFrame, terms: Terms) -> PlacedSubscribers:
        """Read a table of subscribers; raise PlacementError for a wrong row, or when a number is not there once."""
        _check_columns(frame)
        wanted = frame.select(*(functions.col(name).cast(kind).alias(name) for name, kind in COLUMNS.items()))
        kept = [wanted.mapInArrow(Describe(terms.attributes, len(terms.tree.publisher)), DESCRIBED).persist()]
        try:
            partitions = partitions_for(_checked(kept[0]))
            for name in ("interest", "site"):
                kept.append(_ordered(kept[0], name, partitions).persist())
            interests, sites = _Numbered.of("interest", kept[1]), _Numbered.of("site", kept[2])
            coded = _coded(kept[0], interests, sites).coalesce(partitions).persist()
            kept.append(coded)
            problem = _problem(coded.select("number", "interest", "site").toArrow(), interests, sites, terms)
        except BaseException:
            _forget(kept)
            raise
        _forget(kept[:-1])
        return PlacedSubscribers(problem, coded, kept[-1:])

    def keep(self, frame: DataFrame) -> DataFrame:
        """Let Spark keep what it computes of a frame, until the end."""
        self.kept.append(frame.persist())
        return frame

    def __enter__(self) -> PlacedSubscribers:
        return self

    def __exit__(self, *_: object) -> None:
        _forget(self.kept)


def _check_columns(frame: DataFrame) -> None:
    """Raise PlacementError unless each column is there once, with numbers in it: Spark would cut or refuse others."""
    found = dict(frame.dtypes)
    is_strict = frame.sparkSession.conf.get("spark.sql.caseSensitive") == "true"
    for name, kind in COLUMNS.items():
        if name not in found:
            raise PlacementError(f"columns {', '.join(found)}: {name} is missing")
        alike = [column for column in frame.columns if column == name or (not is_strict and column.lower() == name)]
        if len(alike) > 1:
            raise PlacementError(
                f"columns {', '.join(frame.columns)}: {len(alike)} are called {name}; expected one of each name"
            )
        numbers = WHOLE if kind == "long" else WHOLE + REAL
        allowed = [f"array<{number}>" for number in numbers] if kind.startswith("array") else numbers
        if found[name] not in allowed:
            raise PlacementError(f"{name}: a column of {found[name]}; expected {' or '.join(allowed)}")


def _forget(frames: list[DataFrame]) -> None:
    for frame in frames:
        frame.unpersist()


def partitions_for(rows: int) -> int:
    """Return into how many partitions rows are divided."""
    return max(1, -(-rows // PARTITION))


def _checked(described: DataFrame) -> int:
    """Return how many rows there are; raise PlacementError when one is wrong, for the first by number."""
    wrong = functions.when(functions.col("wrong").isNotNull(), functions.struct("number", "wrong"))
    found = described.agg(functions.count("*").alias("rows"), functions.min(wrong).alias("first")).collect()[0]
    if found["first"] is not None:
        raise PlacementError(found["first"]["wrong"])
    return int(found["rows"])


def _ordered(described: DataFrame, name: str, partitions: int) -> DataFrame:
    """Return the different keys of a column in their order, with ids that grow with them."""
    ranges = described.select(name).repartitionByRange(partitions, name)
    return ranges.distinct().sortWithinPartitions(name).withColumn("id", functions.monotonically_increasing_id())


@dataclass(frozen=True, slots=True, eq=False)
class _Numbered:
    """The different keys of a column as `_ordered` returns them, and how to number them from their ids."""

    name: str
    frame: DataFrame
    starts: Array
    """Of each partition: how many keys there are before it."""

    @staticmethod
    def of(name: str, frame: DataFrame) -> _Numbered:
        """Count the keys of each partition."""
        partition = functions.shiftright("id", _ROWS_OF_PARTITION)
        sizes = {row["at"]: row["count"] for row in frame.groupBy(partition.alias("at")).count().collect()}
        counts = [sizes.get(at, 0) for at in range(max(sizes, default=0) + 1)]
        return _Numbered(name, frame, np.cumsum([0, *counts[:-1]]))

    def numbers(self) -> DataFrame:
        """Return rows of a key and its number."""
        starts = functions.array(*(functions.lit(int(start)) for start in self.starts)).cast("array<long>")
        of_partition = functions.get(starts, functions.shiftright("id", _ROWS_OF_PARTITION).cast("int"))
        within = functions.col("id").bitwiseAND(functions.lit((1 << _ROWS_OF_PARTITION) - 1))
        return self.frame.select(self.name, (of_partition + within).alias(f"{self.name}_number"))


def _coded(described: DataFrame, interests: _Numbered, sites: _Numbered) -> DataFrame:
    joined = described.join(interests.numbers(), "interest").join(sites.numbers(), "site")
    return joined.select(
        "number",
        functions.col("interest_number").alias("interest"),
        functions.col("site_number").alias("site"),
        functions.col("interest").alias("sides"),
    )


def _problem(numbers: pa.Table, interests: _Numbered, sites: _Numbered, terms: Terms) -> PlacementProblem:
    order = numbers["number"].to_numpy()
    if not len(order):
        raise PlacementError("the table has no rows; expected one for each subscriber")
    if not np.array_equal(np.sort(order), np.arange(len(order))):
        raise PlacementError(f"number: expected 0 to {len(order) - 1:,}, each in one row")
    interest_of, site_of = np.empty(len(order), np.int64), np.empty(len(order), np.int64)
    interest_of[order] = numbers["interest"].to_numpy()
    site_of[order] = numbers["site"].to_numpy()
    sides, counts = rows_of(interests.frame.select("interest").toArrow()["interest"], 2 * terms.attributes)
    near = partial(_add_near, terms.tree, terms.latency)
    found = sites.frame.select("site").mapInArrow(near, "site binary, near binary").toArrow()
    places, _ = rows_of(found["site"], len(terms.tree.publisher) + 1)
    return PlacementProblem(
        terms.tree,
        Interests(np.concatenate([[0], np.cumsum(counts)]), sides),
        interest_of,
        places[:, :-1],
        places[:, -1],
        site_of,
        beta=terms.beta,
        beta_max=terms.beta_max,
        alpha=terms.alpha,
        shares=terms.shares,
        density=terms.density,
        latency=terms.latency,
        near=unpacked(found["near"], len(terms.tree.leaves)),
    )


def _add_near(tree: BrokerTree, latency: Latency, batches: Batches) -> Batches:
    """Add to sites which leaves are near enough."""
    for batch in batches:
        places, _ = rows_of(batch["site"], len(tree.publisher) + 1)
        near = candidates_of(tree, latency, places[:, :-1], places[:, -1])
        yield pa.RecordBatch.from_arrays([batch["site"], packed(near)], ["site", "near"])


BYTES = 8
"""Of a number."""

_SIGN = np.uint64(1 << 63)


def keys_of(rows: Array, counts: Array | None = None) -> pa.Array:
    """Return keys of rows of numbers: of each row, or of so many rows together as `counts` say."""
    bits = (np.ascontiguousarray(rows) + 0.0).view(np.uint64)
    data = np.where(bits & _SIGN, ~bits, bits | _SIGN).astype(">u8")
    return binaries(data, np.ones(len(rows), np.int64) if counts is None else counts)


def rows_of(keys: pa.Array | pa.ChunkedArray, width: int) -> tuple[Array, Array]:
    """Return the numbers of keys, so many in a row, and how many rows each key has."""
    data, lengths = content_of(keys)
    bits = data.view(">u8").astype(np.uint64)
    rows = np.where(bits & _SIGN, bits & ~_SIGN, ~bits).view(np.float64)
    return rows.reshape(-1, width), lengths // (width * BYTES)


def packed(rows: Array) -> pa.Array:
    """Return rows of truth values as bytes."""
    return binaries(np.packbits(rows, axis=1), np.ones(len(rows), np.int64))


def unpacked(column: pa.Array | pa.ChunkedArray, width: int) -> Array:
    """Return what `packed` has packed, so many truth values in a row."""
    bits = content_of(column)[0].reshape(-1, -(-width // 8))
    return np.unpackbits(bits, axis=1, count=width).view(bool)


def binaries(rows: Array, counts: Array) -> pa.Array:
    """Return the bytes of rows, of so many together as `counts` say."""
    # Columns of bytes have ends of 32 bits, which is enough: a batch has some ten thousand rows.
    ends = np.concatenate([[0], np.cumsum(counts)]) * (rows.itemsize * rows.shape[1])
    buffers = [None, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(np.ascontiguousarray(rows))]
    return pa.Array.from_buffers(pa.binary(), len(counts), buffers)


def content_of(column: pa.Array | pa.ChunkedArray) -> tuple[Array, Array]:
    """Return the bytes of all values one after the other, and how many each one has; no value may be null."""
    chunks = [chunk for chunk in getattr(column, "chunks", [column]) if len(chunk)]
    parts, lengths = [np.empty(0, np.uint8)], [np.empty(0, np.int64)]
    for chunk in chunks:
        kind = np.dtype(np.int64 if pa.types.is_large_binary(chunk.type) else np.int32)
        _, ends, data = chunk.buffers()
        within = np.frombuffer(ends, kind, len(chunk) + 1, chunk.offset * kind.itemsize).astype(np.int64)
        parts.append(np.frombuffer(data, np.uint8)[within[0] : within[-1]])
        lengths.append(np.diff(within))
    return np.concatenate(parts), np.concatenate(lengths)


DESCRIBED = "number long, interest binary, site binary, wrong string"


@dataclass(frozen=True, slots=True)
class Describe:
    """Reads rows of `number`, `low`, `high`, `at` and `limit`, with so many attributes and network dimensions."""

    attributes: int
    dimensions: int

    def __call__(self, batches: Batches) -> Batches:
        """Yield a row for each, or of a batch with wrong rows only the wrong one with the least number."""
        for batch in batches:
            is_right = self._has_shape(batch)
            shaped = batch if is_right.all() else batch.filter(pa.array(is_right))
            sides, counts = self._sides(shaped)
            sites = np.column_stack(
                [_numbers(shaped["at"].flatten()).reshape(-1, self.dimensions), _numbers(shaped["limit"])]
            )
            is_right[is_right] = self._has_values(sides, counts, sites)
            if is_right.all():
                wrong = pa.nulls(len(batch), pa.string())
                columns = [batch["number"], keys_of(sides, counts), keys_of(sites), wrong]
            else:
                columns = self._first_wrong(batch.filter(pa.array(~is_right)))
            yield pa.RecordBatch.from_arrays(columns, ["number", "interest", "site", "wrong"])

    def _has_shape(self, batch: pa.RecordBatch) -> Array:
        """Return which rows have everything, as many numbers as there should be."""
        low, high, at = (_lengths(batch[name]) for name in ("low", "high", "at"))
        is_there = np.asarray(batch["number"].is_valid()) & np.asarray(batch["limit"].is_valid())
        found: Array = is_there & (low == high) & (low > 0) & (low % self.attributes == 0) & (at == self.dimensions)
        return found

    def _sides(self, batch: pa.RecordBatch) -> tuple[Array, Array]:
        """Return the boxes of all rows as sides, and how many each row has."""
        low, high = (_numbers(batch[name].flatten()).reshape(-1, self.attributes) for name in ("low", "high"))
        return np.concatenate([0.0 - low, high], axis=1), _lengths(batch["low"]) // self.attributes

    def _has_values(self, sides: Array, counts: Array, sites: Array) -> Array:
        """Return which rows have boxes from low to high, a place, and a limit that is a number."""
        if not len(counts):
            return np.empty(0, bool)
        is_box = np.isfinite(sides).all(axis=1) & (sides[:, self.attributes :] >= -sides[:, : self.attributes]).all(
            axis=1
        )
        has_boxes = np.logical_and.reduceat(is_box, np.cumsum(counts) - counts)
        found: Array = has_boxes & (np.abs(sites[:, :-1]) <= FARTHEST).all(axis=1) & ~np.isnan(sites[:, -1])
        return found

    def _first_wrong(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """Return the wrong row with the least number, one without any first."""
        first = min(batch.to_pylist(), key=lambda row: -1 if row["number"] is None else row["number"])
        said = self._said(**first)
        number = -1 if first["number"] is None else first["number"]
        return [pa.array([number]), pa.array([b""]), pa.array([b""]), pa.array([said])]

    def _said(
        self,
        number: int | None,
        low: list[float] | None,
        high: list[float] | None,
        at: list[float] | None,
        limit: float | None,
    ) -> str:
        """Return what is wrong with a row."""
        if number is None:
            return "number: null in some row; expected one in each"
        who = f"subscriber {number}"
        if low is None or high is None or len(low) != len(high) or not low or len(low) % self.attributes:
            found = " and ".join("null" if ends is None else f"{len(ends)} numbers" for ends in (low, high))
            return f"{who}: low and high have {found}; expected {self.attributes} in each for every box"
        if at is None or len(at) != self.dimensions or None in at:
            return f"{who}: at {at}; expected {self.dimensions} numbers"
        if wrong := wrong_place(at):
            return f"{who}: {wrong}"
        if limit is None or np.isnan(limit):
            return f"{who}: limit {limit}; expected a latency"
        return f"{who}: boxes from {low} to {high}; expected finite numbers, low <= high"


def _numbers(values: pa.Array) -> Array:
    """Return numbers as float64, nulls as what is not a number."""
    found: Array = values.to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
    return found


def _lengths(lists: pa.Array) -> Array:
    """Return the lengths of lists, -1 of null."""
    found: Array = lists.value_lengths().fill_null(-1).to_numpy()
    return found


@dataclass(frozen=True, slots=True, eq=False)
class SparkPlacement:
    """The problem that a table poses, its solution, and the yardstick."""

    problem: PlacementProblem
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
    """Place the subscribers of a table by linear programming; its columns are said above.

    Coverage of fewer demands than `least_demands` is worked out on the driver.
    """
    with PlacedSubscribers.of(frame, terms) as table:
        found = place_by_programme(
            table.problem,
            random,
            sampling,
            stage_of=partial(stage_of, table, least_demands=least_demands),
            fit=partial(fit_by_spark, table),
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
        found = asked.mapInArrow(partial(cover_blocks, shipped, by_broker), "first_code long, rows binary").toArrow()
        shipped.destroy()
        return found.sort_by("first_code")["rows"]


def stage_of(
    table: PlacedSubscribers,
    problem: PlacementProblem,
    members: Array,
    brokers: Array,
    least_demands: int = LEAST_DEMANDS,
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
        partial(_code, shipped, classes), "number long, code long, sides binary"
    )
    ranges = codes.repartitionByRange(partitions_for(len(table.problem)), "code").groupBy("code", "sides")
    demands = ranges.agg(functions.min("number").alias("first"), functions.count("*").alias("size"))
    pack = partial(pack_blocks, table.problem.interests.sides.shape[1])
    return demands.sortWithinPartitions("code").mapInArrow(pack, _BLOCK)


def fit_by_spark(
    table: PlacedSubscribers,
    problem: PlacementProblem,
    column_of: Array,
    random: np.random.Generator,
    known: Mapping[int, Array],
) -> Placement:
    """Return what `fit_filters` returns: leaves are fitted side by side, inner brokers on the driver."""
    seeds, leaves, width = leaf_seeds(problem, random), problem.tree.leaves, problem.interests.sides.shape[1]
    filters = [np.empty((0, width)) for _ in range(len(problem.tree))]
    context = table.coded.sparkSession.sparkContext
    columns = context.broadcast(column_of.astype(np.int32))
    place_at = partial(_place_at, columns)
    wanted = table.coded.select("number", "sides").mapInArrow(place_at, "column int, sides binary").distinct()
    most = problem.boxes_of_brokers[leaves]
    shipped = context.broadcast((most, problem.density, seeds, [known[int(leaf)] for leaf in leaves]))
    found = wanted.groupBy("column").applyInArrow(_fit(shipped, width), "column int, boxes binary").toArrow()
    for column, boxes in zip(found["column"].to_pylist(), found["boxes"].to_pylist(), strict=True):
        filters[int(leaves[column])] = np.frombuffer(boxes).reshape(-1, width).copy()
    columns.destroy()
    shipped.destroy()
    fit_inner_filters(problem, filters, random)
    return Placement(leaves[column_of], tuple(filters))


def _code(class_of_site: Any, classes: int, batches: Batches) -> Batches:
    """Replace interest and site by the code of the demand."""
    for batch in batches:
        codes = batch["interest"].to_numpy() * classes
        codes = codes + class_of_site.value[batch["site"].to_numpy()]
        columns = [batch["number"], pa.array(codes, pa.int64()), batch["sides"]]
        yield pa.RecordBatch.from_arrays(columns, ["number", "code", "sides"])


def pack_blocks(width: int, batches: Batches) -> Batches:
    """Make one row of a batch of demands, so that no later stage goes through them one by one."""
    for batch in batches:
        if len(batch):
            codes, firsts, sizes = (batch[name].to_numpy() for name in ("code", "first", "size"))
            contents = (codes, firsts, sizes, *rows_of(batch["sides"], width)[::-1])
            columns = [pa.array(codes[:1]), *(pa.array([content.tobytes()]) for content in contents)]
            yield pa.RecordBatch.from_arrays(columns, BLOCK_COLUMNS)


def cover_blocks(shipped: Any, by_broker: bool, batches: Batches) -> Batches:
    """Pack by which brokers the demands of blocks are covered, or else whether by none."""
    classes, starts, boxes = shipped.value
    for batch in batches:
        for row in range(len(batch)):
            codes, counts = (_array(batch[name][row], np.int64) for name in ("codes", "counts"))
            sides = _array(batch["sides"][row], np.float64).reshape(-1, boxes.shape[1])
            offsets = np.concatenate([[0], np.cumsum(counts)])
            every, class_of, only_first = np.arange(len(codes)), codes % len(classes), not by_broker
            found = covering_brokers(every, class_of, classes, offsets, sides, starts, boxes, only_first)
            bits = np.packbits(found if by_broker else ~found.any(axis=1, keepdims=True), axis=1)
            columns = [batch["first_code"].slice(row, 1), pa.array([bits.tobytes()])]
            yield pa.RecordBatch.from_arrays(columns, ["first_code", "rows"])


def _array(value: pa.Scalar, kind: type) -> Array:
    """Return a copy of what a value of bytes contains: kernels are compiled for arrays that can be written."""
    return np.frombuffer(value.as_buffer(), kind).copy()


def _place_at(column_of: Any, batches: Batches) -> Batches:
    """Replace numbers of subscribers by the columns of their leaves."""
    for batch in batches:
        columns = column_of.value[batch["number"].to_numpy()]
        yield pa.RecordBatch.from_arrays([pa.array(columns), batch["sides"]], ["column", "sides"])


def _fit(shipped: Any, width: int) -> Callable[[pa.Table], pa.Table]:
    """Return what fits one leaf; a function, as Spark looks at the arguments of what it calls, and at their types."""

    def fit(table: pa.Table) -> pa.Table:
        most, density, seeds, known = shipped.value
        column = table["column"][0].as_py()
        parts = np.unique(rows_of(table["sides"], width)[0], axis=0)
        boxes = fit_leaf(parts, int(most[column]), density, int(seeds[column]), known[column])
        return pa.table({"column": pa.array([column], pa.int32()), "boxes": pa.array([boxes.tobytes()])})

    return fit
