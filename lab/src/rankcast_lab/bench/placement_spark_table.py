"""The subscribers of `rankcast bench placement-spark`: a drawn problem, and as a table in files.

`own` is set 3 with sides that differ a little from subscriber to subscriber, so that nobody shares an interest.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rankcast.arrays import Array
from rankcast.placement.problem.boxes import corners
from rankcast.placement.problem.interests import Interests
from rankcast.placement.problem.problem import PlacementProblem, distinct_sites
from rankcast.samples.placement import Workload, placement_problem
from rankcast.spark.placement import Terms

OWN = "own"
SHRUNK = 0.2
"""By what share of its length `own` draws in a side of a box at most."""

FILE_ROWS = 250_000


def drawn(name: str, subscribers: int, brokers: int, random: np.random.Generator) -> PlacementProblem:
    """Draw a problem of one level whose interests and sites are numbered by content, those that somebody has."""
    workload = Workload.HOT_SPOTS if name == OWN else Workload(name)
    problem = placement_problem(workload, subscribers, brokers, random)
    sides = problem.interests.sides[problem.interest_of]  # a box each, in all workloads
    if name == OWN:
        low, high = corners(sides)
        room = SHRUNK * (high - low)
        sides = Interests.of_boxes(low + room * random.random(low.shape), high - room * random.random(low.shape)).sides
    boxes, interest_of = np.unique(sides, axis=0, return_inverse=True)
    sites, limits, site_of = distinct_sites(problem.sites[problem.site_of], problem.limits[problem.site_of])
    interests = Interests(np.arange(len(boxes) + 1), boxes)
    return PlacementProblem(
        problem.tree, interests, interest_of.reshape(-1), sites, limits, site_of, problem.beta, problem.beta_max
    )


def terms_of(problem: PlacementProblem) -> Terms:
    """Return what a problem has beside its subscribers."""
    return Terms(problem.tree, problem.interests.attributes, problem.beta, problem.beta_max)


def write_table(problem: PlacementProblem, folder: Path) -> None:
    """Write the subscribers as `place_table` reads them, some to a file."""
    folder.mkdir()
    for first in range(0, len(problem), FILE_ROWS):
        numbers = np.arange(first, min(first + FILE_ROWS, len(problem)))
        sites = problem.site_of[numbers]
        low, high = corners(problem.interests.sides[problem.interest_of[numbers]])
        columns = {
            "number": pa.array(numbers),
            "low": _lists(low),
            "high": _lists(high),
            "at": _lists(problem.sites[sites]),
            "limit": pa.array(problem.limits[sites]),
        }
        pq.write_table(pa.table(columns), folder / f"{first:09}.parquet")


def _lists(rows: Array) -> pa.Array:
    return pa.ListArray.from_arrays(np.arange(len(rows) + 1, dtype=np.int32) * rows.shape[1], rows.reshape(-1))
