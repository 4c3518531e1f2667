"""A placement by name, with all that is needed to run it, and as the plain data of a plan file.

A plan has where publisher and brokers are, how brokers hang below each other, the filter of each broker and its
expected traffic, whom each broker serves and what those want, and how events are spread: evenly over the ranges of the
attributes, or as sampled events with weights. `traffic` is in the measure of that density: the expected share of events
into a broker is its traffic over `PlacementPlan.everything`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isclose
from typing import Any, TypeAlias

import numpy as np

from rankcast.arrays import Array
from rankcast.model.errors import InvalidValueError, shown
from rankcast.placement.named.problem import NamedProblem, volume_of
from rankcast.placement.problem.audit import Audit, union_measure
from rankcast.placement.problem.boxes import corners, sides_of
from rankcast.placement.problem.density import UNIFORM, Density
from rankcast.placement.problem.interests import Range
from rankcast.placement.problem.numeric_limits import wrong_measure, wrong_place, wrong_range, wrong_values
from rankcast.placement.problem.problem import MAX_ALPHA, TOLERANCE
from rankcast.placement.problem.solution import Placement
from rankcast.placement.problem.tree import PUBLISHER

Box: TypeAlias = tuple[Range, ...]
"""A range for each attribute of the plan, in its order."""


@dataclass(frozen=True, slots=True)
class PlannedBroker:
    """A broker: where it is and below whom (None: the publisher), its filter, and whom it serves.

    `wants` has the number of an interest of the plan for each of `subscribers`.
    """

    name: str
    at: tuple[float, ...]
    below: str | None
    traffic: float
    filter: tuple[Box, ...]
    subscribers: tuple[str, ...]
    wants: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PlacementPlan:
    """A placement by name; `events` and `weights` are empty where events are spread evenly.

    Attributes that are words have coordinates from i to i + 1 for word i of `words`, and one cell more for all others.
    """

    algorithm: str
    traffic: float
    load_factor: float
    rms_delay: float
    violations: tuple[str, ...]
    publisher: tuple[float, ...]
    attributes: Mapping[str, Range]
    interests: tuple[tuple[Box, ...], ...]
    brokers: tuple[PlannedBroker, ...]
    events: tuple[tuple[float, ...], ...] = ()
    weights: tuple[float, ...] = ()
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def everything(self) -> float:
        """The measure of all events."""
        return sum(self.weights) if self.events else volume_of(self.attributes)

    def document(self) -> dict[str, object]:
        """Return the plan as plain data; boxes are written by attribute."""
        names = tuple(self.attributes)

        def boxes(found: Sequence[Box]) -> list[dict[str, Sequence[float]]]:
            return [dict(zip(names, map(list, box), strict=True)) for box in found]

        brokers = [
            {
                "name": one.name,
                "at": list(one.at),
                **({} if one.below is None else {"below": one.below}),
                "traffic": one.traffic,
                "filter": boxes(one.filter),
                "subscribers": list(one.subscribers),
                "wants": list(one.wants),
            }
            for one in self.brokers
        ]
        return {
            "algorithm": self.algorithm,
            "traffic": self.traffic,
            "load_factor": self.load_factor,
            "rms_delay": self.rms_delay,
            "violations": list(self.violations),
            "publisher": list(self.publisher),
            "attributes": {name: list(ends) for name, ends in self.attributes.items()},
            **({"words": {name: list(words) for name, words in self.words.items()}} if self.words else {}),
            **({"events": list(map(list, self.events)), "weights": list(self.weights)} if self.events else {}),
            "brokers": brokers,
            "interests": [boxes(found) for found in self.interests],
        }

    @staticmethod
    def from_document(value: Mapping[str, Any]) -> PlacementPlan:
        """Return the plan that `document` gave, or that a file has which was checked."""
        names = tuple(value["attributes"])

        def boxes(found: Sequence[Mapping[str, Sequence[float]]]) -> tuple[Box, ...]:
            return tuple(tuple((box[name][0], box[name][1]) for name in names) for box in found)

        brokers = tuple(
            PlannedBroker(
                one["name"],
                tuple(one["at"]),
                one.get("below"),
                one["traffic"],
                boxes(one["filter"]),
                tuple(one["subscribers"]),
                tuple(one["wants"]),
            )
            for one in value["brokers"]
        )
        return PlacementPlan(
            value["algorithm"],
            value["traffic"],
            value["load_factor"],
            value["rms_delay"],
            tuple(value["violations"]),
            tuple(value["publisher"]),
            {name: (low, high) for name, (low, high) in value["attributes"].items()},
            tuple(boxes(found) for found in value["interests"]),
            brokers,
            tuple(tuple(event) for event in value.get("events", ())),
            tuple(value.get("weights", ())),
            {name: tuple(words) for name, words in value.get("words", {}).items()},
        )


def plan_of(named: NamedProblem, algorithm: str, placement: Placement, audit: Audit) -> PlacementPlan:
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


def wrong_plan(plan: PlacementPlan) -> list[str]:
    """Return what is wrong with a plan: numbers that cannot be worked with, or traffic that is not that of filters.

    The traffic of each broker is worked out again from the broker's filter, so that a plan that was changed by hand is
    not compared with figures of another one.
    """
    return list(_too_large(plan)) or list(_wrong_numbers(plan)) or list(_wrong_traffic(plan))


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


def _sides(boxes: tuple[Box, ...], attributes: int) -> Array:
    ends = np.array(boxes, np.float64).reshape(-1, attributes, 2)
    return sides_of(ends[:, :, 0], ends[:, :, 1])
