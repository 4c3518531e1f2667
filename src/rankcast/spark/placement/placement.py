"""Placement by linear programming for very many subscribers: the same result as on one machine, for the same seed.

On the workers: reading, checking and numbering (`placement_table`), candidates, demands, coverage and the filters of
leaves (`placement_stages`). On the driver: the programme, flows, rounding, weights, the search for boxes that are not
needed, and in a tree of several levels all that is below the top.

The driver needs, for boxes of d attributes and trees with n leaves,
- per subscriber 40 bytes for its interest, site, demand and leaf, and 80 to 150 more while members are shifted;
- per box of a different interest 16 d + 8 bytes;
- per different site n bytes for its candidates, and 8 for each coordinate and for its limit;
- per demand 40 bytes, and 4 n in the last steps: by which brokers it is covered, and at which leaves it may be.
With 100 leaves, two attributes and five coordinates that is 200 bytes per subscriber where most share a demand, and at
worst, when each has an interest and a site of its own, 750. Measured with ten million, and with what the bench itself
holds: 3.1 GB, and 7.2 GB when each has an interest of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rankcast.placement.problem.problem import Problem
from rankcast.placement.problem.solution import Placement
from rankcast.placement.programme.filter_assignment import Sampling, Yardstick
from rankcast.placement.programme.slp import placed_by_programme
from rankcast.spark.placement.stages import LEAST_DEMANDS, fitted_by_spark, stage_of
from rankcast.spark.placement.table import SubscriberTable, Terms

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


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
    """Place the subscribers of a table by linear programming; see `placement_table` for its columns.

    Coverage of fewer demands than `least_demands` is worked out on the driver.
    """
    with SubscriberTable.of(frame, terms) as table:
        found = placed_by_programme(
            table.problem,
            random,
            sampling,
            stage_of=partial(stage_of, table, least_demands=least_demands),
            fit=partial(fitted_by_spark, table),
        )
    return SparkPlacement(table.problem, found.placement, found.yardstick)
