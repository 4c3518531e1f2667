"""Subscribers of a table as a placement problem: read, checked and numbered on the workers.

A row has a `number` (0, 1, ... each once), `low` and `high` (the corners of its boxes, one box after the other), `at`
(where it is) and `limit` (the latency that it allows). Spark finds the different interests and sites, sorts them by
content, and joins their numbers to the rows, so that nothing depends on partitions. The leaves near enough to a site
are found on the workers, too.

The driver gets the different interests and sites, a byte per site and leaf, and two numbers per subscriber.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, functions

from rankcast.arrays import Array
from rankcast.model.errors import PlacementError
from rankcast.placement.problem.density import UNIFORM, Density
from rankcast.placement.problem.interests import Interests
from rankcast.placement.problem.problem import Latency, Problem, attribute_count, candidates_of
from rankcast.placement.problem.tree import BrokerTree
from rankcast.spark.placement.keys import packed, rows_of, unpacked
from rankcast.spark.placement.rows import DESCRIBED, Describe

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
class SubscriberTable:
    """A problem, and its subscribers as rows of number, interest, site and sides, which Spark keeps until the end."""

    problem: Problem
    coded: DataFrame
    kept: list[DataFrame]

    @staticmethod
    def of(frame: DataFrame, terms: Terms) -> SubscriberTable:
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
        return SubscriberTable(problem, coded, kept[-1:])

    def keep(self, frame: DataFrame) -> DataFrame:
        """Let Spark keep what it computes of a frame, until the end."""
        self.kept.append(frame.persist())
        return frame

    def __enter__(self) -> SubscriberTable:
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
