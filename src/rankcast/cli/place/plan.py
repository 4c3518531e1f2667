"""From a placement to the plan file of `rankcast place`."""

from __future__ import annotations

import numpy as np

from rankcast.arrays import Array
from rankcast.cli.place.problem_files import Named
from rankcast.placement.problem.audit import Audit
from rankcast.placement.problem.boxes import corners
from rankcast.placement.problem.solution import Placement
from rankcast.placement.problem.tree import PUBLISHER
from rankcast.storage.placement_plans import Box, PlacementPlan, PlannedBroker


def plan_of(named: Named, algorithm: str, placement: Placement, audit: Audit) -> PlacementPlan:
    """Return a placement by name, with all that is needed to run it."""
    problem = named.problem
    order = np.argsort(placement.brokers, kind="stable")
    ends = np.searchsorted(placement.brokers[order], np.arange(len(problem.tree) + 1))
    brokers = []
    for broker, name in enumerate(named.brokers):
        members = order[ends[broker] : ends[broker + 1]]
        parent = int(problem.tree.parents[broker])
        brokers.append(
            PlannedBroker(
                name,
                tuple(problem.tree.positions[broker].tolist()),
                None if parent == PUBLISHER else named.brokers[parent],
                float(audit.bandwidths[broker]),
                _boxes(placement.filters[broker]),
                tuple(problem.name(one) for one in members.tolist()),
                tuple(problem.interest_of[members].tolist()),
            )
        )
    density = problem.density
    return PlacementPlan(
        algorithm,
        audit.bandwidth,
        audit.load_factor,
        audit.rms_delay,
        tuple(violation.message for violation in audit.violations),
        tuple(problem.tree.publisher.tolist()),
        named.attributes,
        tuple(_boxes(problem.interests.parts(number)) for number in range(len(problem.interests))),
        tuple(brokers),
        () if density.is_uniform else tuple(map(tuple, corners(density.samples)[1].tolist())),
        tuple(density.weights.tolist()),
        named.words,
    )


def _boxes(sides: Array) -> tuple[Box, ...]:
    low, high = corners(sides)
    return tuple(tuple(zip(*ends, strict=True)) for ends in zip(low.tolist(), high.tolist(), strict=True))
