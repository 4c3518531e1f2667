"""Whether the plan of `rankcast simulate --plan` is what it says: its numbers can be worked with, its traffic is right.

The traffic of each broker is worked out again from the broker's filter, so that a plan that was changed by hand is not
compared with figures of another one.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isclose
from pathlib import Path

import numpy as np

from rankcast.model.errors import InvalidFileError, InvalidValueError, Problem, shown
from rankcast.placement.problem.audit import union_measure
from rankcast.placement.problem.boxes import sides_of
from rankcast.placement.problem.density import UNIFORM, Density
from rankcast.placement.problem.numeric_limits import wrong_measure, wrong_place, wrong_range, wrong_values
from rankcast.placement.problem.problem import MAX_ALPHA, TOLERANCE
from rankcast.storage.placement_plans import Box, PlacementPlan


def check_plan(plan: PlacementPlan, file: Path) -> None:
    """Raise InvalidFileError with everything that is wrong with a plan."""
    found = list(_too_large(plan)) or list(_wrong_numbers(plan)) or list(_wrong_traffic(plan))
    if found:
        raise InvalidFileError(Problem(str(file), None, message) for message in found)


def _too_large(plan: PlacementPlan) -> Iterator[str]:
    """Yield numbers with which nothing can be worked out, not even what else is wrong."""
    for name, at in (("publisher", plan.publisher), *((broker.name, broker.at) for broker in plan.brokers)):
        if wrong := wrong_place(at):
            yield f"{name}: {wrong}"
    for name, ends in plan.attributes.items():
        if wrong := wrong_range(*ends):
            yield f"{name}: {wrong}"
    for event in plan.events:
        if wrong := wrong_values(min(event), max(event)):
            yield f"events: {wrong}"
    for broker in plan.brokers:
        yield from _too_large_boxes(f"{broker.name}: its filter", broker.filter, plan)
    for number, boxes in enumerate(plan.interests):
        yield from _too_large_boxes(f"interest {number}", boxes, plan)


def _too_large_boxes(whose: str, boxes: tuple[Box, ...], plan: PlacementPlan) -> Iterator[str]:
    for box in boxes:
        for name, ends in zip(plan.attributes, box, strict=True):
            if wrong := wrong_values(*ends):
                yield f"{whose}: {name} from {wrong}"


def _wrong_numbers(plan: PlacementPlan) -> Iterator[str]:
    try:
        _density(plan)
    except InvalidValueError as error:
        yield str(error)
    if not plan.events and (wrong := wrong_measure(plan.everything)):
        yield f"attributes: {wrong}"
    for broker in plan.brokers:
        if len(broker.filter) > MAX_ALPHA:
            yield f"{broker.name}: a filter of {len(broker.filter):,} boxes; expected {MAX_ALPHA} at most"


def _wrong_traffic(plan: PlacementPlan) -> Iterator[str]:
    density, total = _density(plan), 0.0
    for broker in plan.brokers:
        traffic = union_measure(_sides(broker.filter, len(plan.attributes)), density)
        total += traffic
        if not _is_same(broker.traffic, traffic, plan.everything):
            stated = shown(broker.traffic)
            yield f"{broker.name}: a traffic of {stated}; expected {traffic}, what its filter lets through"
    if not _is_same(plan.traffic, total, plan.everything):
        yield f"traffic: {shown(plan.traffic)} in all; expected {total}, what all filters let through"


def _is_same(stated: float, found: float, everything: float) -> bool:
    return isclose(stated, found, rel_tol=TOLERANCE, abs_tol=TOLERANCE * everything)


def _density(plan: PlacementPlan) -> Density:
    return Density.sampled(plan.events, plan.weights) if plan.events else UNIFORM


def _sides(boxes: tuple[Box, ...], attributes: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    ends = np.array(boxes, np.float64).reshape(-1, attributes, 2)
    return sides_of(ends[:, :, 0], ends[:, :, 1])
