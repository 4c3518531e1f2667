"""Subscribers as rows, read and checked on the workers, a batch at a time.

A row becomes its number and two keys: the sides of its boxes, and its site, which is where it is with its limit behind.
A wrong row becomes what is wrong with it, for the driver to report: an error that a worker raises arrives there as one
of Spark's, with the stack of the worker and no type of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from rankcast.arrays import Array
from rankcast.placement.problem.numeric_limits import FARTHEST, wrong_place
from rankcast.spark.placement.keys import keys_of

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
