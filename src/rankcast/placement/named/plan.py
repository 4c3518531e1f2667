"""A placement by name, with all that is needed to run it, and as the plain data of a plan file.

A plan has where publisher and brokers are, how brokers hang below each other, the filter of each broker and its
expected traffic, whom each broker serves and what those want, and how events are spread: evenly over the ranges of the
attributes, or as sampled events with weights. `traffic` is in the measure of that density: the expected share of events
into a broker is its traffic over `PlacementPlan.everything`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isclose
from typing import Any, TypeAlias

import msgspec
import numpy as np
from msgspec import Struct

from rankcast.arrays import Array, group
from rankcast.model.errors import InvalidValueError, shown
from rankcast.placement.named.problem import NamedProblem, volume_of
from rankcast.placement.problem.audit import Audit, union_measure
from rankcast.placement.problem.boxes import UNIFORM, Density, corners, sides_of
from rankcast.placement.problem.numeric_limits import wrong_measure, wrong_place, wrong_range, wrong_values
from rankcast.placement.problem.problem import MAX_ALPHA, TOLERANCE, Placement
from rankcast.placement.problem.tree import PUBLISHER

Number: TypeAlias = int | float
"""As a file has it: what is told of a plan tells numbers as they were written."""

Ends: TypeAlias = tuple[Number, Number]

Box: TypeAlias = Mapping[str, Ends]
"""A range for each attribute of the plan."""


class PlannedBroker(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A broker: where it is and below whom (None: the publisher), its filter, and whom it serves.

    `wants` has the number of an interest of the plan for each of `subscribers`.
    """

    name: str
    at: tuple[Number, ...]
    below: str | None = None
    traffic: Number
    filter: tuple[Box, ...]
    subscribers: tuple[str, ...]
    wants: tuple[int, ...]


class PlacementPlan(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A placement by name; `events` and `weights` are empty where events are spread evenly.

    Attributes that are words have coordinates from i to i + 1 for word i of `words`, and one cell more for all others.
    """

    algorithm: str
    traffic: Number
    load_factor: Number
    rms_delay: Number
    violations: tuple[str, ...]
    publisher: tuple[Number, ...]
    attributes: Mapping[str, Ends]
    words: Mapping[str, tuple[str, ...]] = {}
    events: tuple[tuple[Number, ...], ...] = ()
    weights: tuple[Number, ...] = ()
    brokers: tuple[PlannedBroker, ...]
    interests: tuple[tuple[Box, ...], ...]

    @property
    def everything(self) -> float:
        """The measure of all events."""
        return sum(self.weights) if self.events else volume_of(self.attributes)

    def document(self) -> dict[str, object]:
        """Return the plan as plain data."""
        document: dict[str, object] = msgspec.to_builtins(self)
        return document

    @staticmethod
    def from_document(value: Mapping[str, Any]) -> PlacementPlan:
        """Return the plan that `document` gave, or that a file has which was checked."""
        return msgspec.convert(value, PlacementPlan)


def plan_of(named: NamedProblem, algorithm: str, placement: Placement, audit: Audit) -> PlacementPlan:
    """Return a placement by name, with all that is needed to run it."""
    problem, names = named.problem, tuple(named.attributes)
    starts, order = group(placement.brokers, len(problem.tree))
    brokers = []
    for broker, name in enumerate(named.brokers):
        members = order[starts[broker] : starts[broker + 1]]
        parent = int(problem.tree.parents[broker])
        brokers.append(
            PlannedBroker(
                name=name,
                at=tuple(problem.tree.positions[broker].tolist()),
                below=None if parent == PUBLISHER else named.brokers[parent],
                traffic=float(audit.bandwidths[broker]),
                filter=_boxes(placement.filters[broker], names),
                subscribers=tuple(map(problem.name, members.tolist())),
                wants=tuple(problem.interest_of[members].tolist()),
            )
        )
    density = problem.density
    return PlacementPlan(
        algorithm=algorithm,
        traffic=audit.bandwidth,
        load_factor=audit.load_factor,
        rms_delay=audit.rms_delay,
        violations=tuple(violation.message for violation in audit.violations),
        publisher=tuple(problem.tree.publisher.tolist()),
        attributes=named.attributes,
        words=named.words,
        events=() if density.is_uniform else tuple(map(tuple, corners(density.samples)[1].tolist())),
        weights=tuple(density.weights.tolist()),
        brokers=tuple(brokers),
        interests=tuple(_boxes(problem.interests.parts(at), names) for at in range(len(problem.interests))),
    )


def _boxes(sides: Array, names: Sequence[str]) -> tuple[Box, ...]:
    ends = np.stack(corners(sides), axis=-1).tolist()
    return tuple(dict(zip(names, map(tuple, box), strict=True)) for box in ends)


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
        for name in plan.attributes:
            if wrong := wrong_values(*box[name]):
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
        traffic = union_measure(_sides(broker.filter, tuple(plan.attributes)), density)
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


def _sides(boxes: Sequence[Box], names: Sequence[str]) -> Array:
    ends = np.array([[box[name] for name in names] for box in boxes], np.float64).reshape(-1, len(names), 2)
    return sides_of(ends[:, :, 0], ends[:, :, 1])
