"""Subscribers of a table as a placement problem: read, checked and numbered on the workers.

A row has a `number` (0, 1, ... each once), `low` and `high` (the corners of its boxes, one box after the other), `at`
(where it is) and `limit` (the latency that it allows). Spark finds the different interests and sites, sorts them by
content, and joins their numbers to the rows, so that nothing depends on partitions. The leaves near enough to a site
are found on the workers, too.

The driver gets the different interests and sites, a byte per site and leaf, and two numbers per subscriber.

Rows of numbers as bytes whose order is that of the numbers, so that Spark can sort, compare and join them.

A float64 is written with its most significant byte first, the sign bit turned over, and all other bits, too, when it is
negative. Of two rows the one with the first smaller number comes first; one that begins like a longer one is before it.
Zero has one key, whatever its sign. Rows of truth values are packed, a bit for each.

Nothing here works row by row.

Subscribers as rows, read and checked on the workers, a batch at a time.

A row becomes its number and two keys: the sides of its boxes, and its site, which is where it is with its limit behind.
A wrong row becomes what is wrong with it, for the driver to report: an error that a worker raises arrives there as one
of Spark's, with the stack of the worker and no type of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, functions

from rankcast.arrays import Array
from rankcast.model.errors import PlacementError
from rankcast.placement.problem.boxes import UNIFORM, Density
from rankcast.placement.problem.interests import Interests
from rankcast.placement.problem.numeric_limits import FARTHEST, wrong_place
from rankcast.placement.problem.problem import Latency, Problem, attribute_count, candidates_of
from rankcast.placement.problem.tree import BrokerTree

COLUMNS = {"number": "long", "low": "array<double>", "high": "array<double>", "at": "array<double>", "limit": "double"}

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

    problem: Problem
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


def _problem(numbers: pa.Table, interests: _Numbered, sites: _Numbered, terms: Terms) -> Problem:
    order = numbers["number"].to_numpy()
    if not len(order):
        raise PlacementError("the table has no rows; expected one for each subscriber")
    if not np.array_equal(np.sort(order), np.arange(len(order))):
        raise PlacementError(f"number: expected 0 to {len(order) - 1:,}, each in one row")
    interest_of, site_of = np.empty(len(order), np.int64), np.empty(len(order), np.int64)
    interest_of[order] = numbers["interest"].to_numpy()
    site_of[order] = numbers["site"].to_numpy()
    sides, counts = rows_of(interests.frame.select("interest").toArrow()["interest"], 2 * terms.attributes)
    found = (
        sites.frame.select("site").mapInArrow(_Near(terms.tree, terms.latency), "site binary, near binary").toArrow()
    )
    places, _ = rows_of(found["site"], len(terms.tree.publisher) + 1)
    return Problem(
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


@dataclass(frozen=True, slots=True)
class _Near:
    """Adds to sites which leaves are near enough."""

    tree: BrokerTree
    latency: Latency

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            places, _ = rows_of(batch["site"], len(self.tree.publisher) + 1)
            near = candidates_of(self.tree, self.latency, places[:, :-1], places[:, -1])
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

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
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
