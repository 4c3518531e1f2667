"""Placement by linear programming for very many subscribers: the same result as on one machine, for the same seed.

Reading, numbering, candidates, demands, coverage and the filters of leaves are stages on the workers; the programme,
flows, rounding and the search for boxes that are not needed run on the driver. The driver holds the different interests
and sites, and some hundred bytes per subscriber.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rankcast.placement.filter_assignment import Sampling, Yardstick
from rankcast.placement.problem import Problem
from rankcast.placement.slp import placed_by_programme
from rankcast.placement.solution import Placement
from rankcast.spark.placement_stages import LEAST_DEMANDS, fitted_by_spark, stage_of
from rankcast.spark.placement_table import SubscriberTable, Terms

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

    Coverage of fewer demands than `least_demands` is worked out on the driver, where that is quicker.
    """
    table = SubscriberTable.of(frame, terms)
    try:
        found = placed_by_programme(
            table.problem,
            random,
            sampling,
            stage_of=partial(stage_of, table.coded, least_demands=least_demands),
            fit=partial(fitted_by_spark, table.coded),
        )
    finally:
        table.close()
    return SparkPlacement(table.problem, found.placement, found.yardstick)
