"""Subscribers of a table as a placement problem: read, checked and numbered on the workers.

A row has a `number` (0, 1, ... each once), `low` and `high` (the corners of its boxes, one box after the other), `at`
(where it is) and `limit` (the latency that it allows). Different interests and different sites are found by Spark and
numbered by content, so that nothing depends on partitions; the driver keeps these, and two numbers per subscriber.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, functions

from rankcast.model.errors import PlacementError
from rankcast.placement.boxes import Array, sides_of
from rankcast.placement.density import UNIFORM, Density
from rankcast.placement.interests import Interests
from rankcast.placement.problem import Problem
from rankcast.placement.tree import BrokerTree

CODED = "number long, interest long, site long"
_DESCRIBED = "number long, interest binary, site binary"


@dataclass(frozen=True, slots=True, eq=False)
class Terms:
    """What a problem has beside its subscribers; see `Problem`."""

    tree: BrokerTree
    attributes: int
    beta: float = 1.5
    beta_max: float = 1.8
    alpha: Array | int = 3
    shares: Array | None = None
    density: Density = field(default=UNIFORM)


@dataclass(frozen=True, slots=True, eq=False)
class SubscriberTable:
    """A problem, and its subscribers as rows of number, interest and site, kept by Spark until `close`."""

    problem: Problem
    coded: DataFrame

    @staticmethod
    def of(frame: DataFrame, terms: Terms) -> SubscriberTable:
        """Read a table of subscribers; raise PlacementError where its numbers are not 0, 1, ... each once."""
        wanted = frame.select(
            functions.col("number").cast("long"),
            functions.col("low").cast("array<double>"),
            functions.col("high").cast("array<double>"),
            functions.col("at").cast("array<double>"),
            functions.col("limit").cast("double"),
        )
        described = wanted.mapInArrow(_Describe(terms.attributes, len(terms.tree.publisher)), _DESCRIBED).persist()
        try:
            interests, sites = (_different(described, name) for name in ("interest", "site"))
            context = frame.sparkSession.sparkContext
            numbering = context.broadcast(
                ({key: at for at, key in enumerate(interests)}, {k: n for n, k in enumerate(sites)})
            )
            coded = described.mapInArrow(_Number(numbering), CODED).persist()
            numbers = coded.toArrow()
        finally:
            described.unpersist()
        return SubscriberTable(_problem(numbers, interests, sites, terms), coded)

    def close(self) -> None:
        """Let Spark forget the rows."""
        self.coded.unpersist()


def _different(described: DataFrame, name: str) -> list[bytes]:
    """Return the different values of a column in the order of the numbers they are made of."""
    found = described.select(name).distinct().toArrow()[name].to_pylist()
    return sorted(found, key=lambda key: tuple(np.frombuffer(key).tolist()))


def _problem(numbers: pa.Table, interests: list[bytes], sites: list[bytes], terms: Terms) -> Problem:
    order = numbers["number"].to_numpy()
    if not len(order) or not np.array_equal(np.sort(order), np.arange(len(order))):
        raise PlacementError(f"number: expected 0 to {max(len(order) - 1, 0):,}, each in one row")
    interest_of, site_of = np.empty(len(order), np.int64), np.empty(len(order), np.int64)
    interest_of[order] = numbers["interest"].to_numpy()
    site_of[order] = numbers["site"].to_numpy()
    sides = [np.frombuffer(key).reshape(-1, 2 * terms.attributes) for key in interests]
    places = np.array([np.frombuffer(key) for key in sites])
    return Problem(
        terms.tree,
        Interests(np.cumsum([0, *map(len, sides)]), np.concatenate(sides)),
        interest_of,
        places[:, :-1],
        places[:, -1],
        site_of,
        beta=terms.beta,
        beta_max=terms.beta_max,
        alpha=terms.alpha,
        shares=terms.shares,
        density=terms.density,
    )


@dataclass(frozen=True, slots=True)
class _Describe:
    """Turns corners into sides and checks them; sites are coordinates with the limit behind."""

    attributes: int
    dimensions: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = zip(
                *(batch.column(name).to_pylist() for name in ("number", "low", "high", "at", "limit")), strict=True
            )
            made = [(number, *self._described(number, *rest)) for number, *rest in rows]
            numbers, interests, sites = zip(*made, strict=True) if made else ((), (), ())
            arrays = [pa.array(numbers, pa.int64()), pa.array(interests, pa.binary()), pa.array(sites, pa.binary())]
            yield pa.RecordBatch.from_arrays(arrays, ["number", "interest", "site"])

    def _described(
        self, number: int, low: list[float], high: list[float], at: list[float], limit: float
    ) -> tuple[bytes, bytes]:
        if len(low) != len(high) or not low or len(low) % self.attributes:
            raise PlacementError(
                f"subscriber {number}: {len(low)} and {len(high)} ends; expected {self.attributes} a box"
            )
        if len(at) != self.dimensions or limit is None:
            raise PlacementError(
                f"subscriber {number}: at {at}, limit {limit}; expected {self.dimensions} numbers and one"
            )
        sides = sides_of(np.reshape(low, (-1, self.attributes)), np.reshape(high, (-1, self.attributes)))
        return sides.tobytes(), np.array([*at, limit], np.float64).tobytes()


@dataclass(frozen=True, slots=True)
class _Number:
    """Replaces interests and sites by their numbers."""

    numbering: object

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        interests, sites = self.numbering.value  # type: ignore[attr-defined]
        for batch in batches:
            arrays = [
                batch.column("number"),
                pa.array([interests[key] for key in batch.column("interest").to_pylist()], pa.int64()),
                pa.array([sites[key] for key in batch.column("site").to_pylist()], pa.int64()),
            ]
            yield pa.RecordBatch.from_arrays(arrays, ["number", "interest", "site"])
