"""Plan files: a placement with all that is needed to run it, by name, as JSON.

A plan has where publisher and brokers are, how brokers hang below each other, the filter of each broker and its
expected traffic, whom each broker serves and what those want, and how events are spread: evenly over the ranges of the
attributes, or as sampled events with weights. `traffic` is in the measure of that density: the expected share of events
into a broker is its traffic over `PlacementPlan.everything`.

The format has a version. Boxes are written by attribute, in the order of `attributes` or any other.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any, TypeAlias

from rankcast.model.errors import shown
from rankcast.storage.document_schema import (
    AMOUNT,
    NAME,
    PLACE,
    POINT,
    RANGE,
    check_shape,
    listed,
    mapping,
    named,
    refuse,
)
from rankcast.storage.documents import Document, DocumentFormat, parse_document
from rankcast.storage.text_files import read_text
from rankcast.storage.writing import replacing

VERSION = 1

Range: TypeAlias = tuple[float, float]
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
        return (
            sum(self.weights)
            if self.events
            else prod(float(high) - float(low) for low, high in self.attributes.values())
        )


_BOX = named(RANGE, "a range for each attribute")
_BROKER = mapping(
    ["name", "at", "traffic", "filter", "subscribers", "wants"],
    name=NAME,
    at=POINT,
    below=NAME,
    traffic=AMOUNT,
    filter=listed(_BOX, "a list of boxes"),
    subscribers=listed(NAME, "a list of names"),
    wants=listed(PLACE, "a list of numbers of interests"),
)
_PLAN = mapping(
    [
        *("version", "algorithm", "traffic", "load_factor", "rms_delay", "violations"),
        *("publisher", "attributes", "interests", "brokers"),
    ],
    version={"title": f"the version {VERSION}, which is the one known here", "const": VERSION},
    algorithm=NAME,
    traffic=AMOUNT,
    load_factor=AMOUNT,
    rms_delay=AMOUNT,
    violations=listed({"title": "a text", "type": "string"}, "a list of texts"),
    publisher=POINT,
    attributes=named(RANGE, "a range for each attribute"),
    interests=listed(listed(_BOX, "a list of boxes", 1), "a list of interests", 1),
    brokers=listed(_BROKER, "a list of brokers", 1),
    events=listed(POINT, "a list of events", 1),
    weights=listed(AMOUNT, "a list of weights", 1),
    words=named(listed({"title": "a word", "type": "string"}, "a list of words"), "words for some attributes"),
)


def save_placement_plan(path: Path, plan: PlacementPlan) -> None:
    """Write a plan; atomic."""
    with replacing(path) as stream:
        stream.write(json.dumps(plan_document(plan), ensure_ascii=False, indent=1).encode() + b"\n")


def plan_document(plan: PlacementPlan) -> dict[str, object]:
    """Return a plan as plain data."""
    names = tuple(plan.attributes)

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
        for one in plan.brokers
    ]
    sampled = {"events": [list(event) for event in plan.events], "weights": list(plan.weights)} if plan.events else {}
    return {
        "version": VERSION,
        "algorithm": plan.algorithm,
        "traffic": plan.traffic,
        "load_factor": plan.load_factor,
        "rms_delay": plan.rms_delay,
        "violations": list(plan.violations),
        "publisher": list(plan.publisher),
        "attributes": {name: list(ends) for name, ends in plan.attributes.items()},
        **({"words": {name: list(words) for name, words in plan.words.items()}} if plan.words else {}),
        **sampled,
        "brokers": brokers,
        "interests": [boxes(found) for found in plan.interests],
    }


def load_placement_plan(path: Path) -> PlacementPlan:
    """Read a plan; raise InvalidFileError with everything that is wrong with it."""
    document = parse_document(read_text(path), DocumentFormat.JSON, str(path))
    check_shape(document, _PLAN)
    _check_names(document)
    _check_numbers(document)
    value = document.value
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


def _check_names(document: Document) -> None:
    """Refuse brokers that are there twice or hang below nobody, and subscribers that are served twice."""
    brokers = document.value["brokers"]
    wrong: dict[tuple[str | int, ...], str] = {}
    parents = {one["name"]: one.get("below") for one in brokers}
    served: set[str] = set()
    seen: set[str] = set()
    for at, one in enumerate(brokers):
        if one["name"] in seen:
            wrong["brokers", at, "name"] = f"there is another {shown(one['name'])}"
        seen.add(one["name"])
        if one.get("below") is not None and one["below"] not in parents:
            wrong["brokers", at, "below"] = f"there is no broker {shown(one['below'])}"
        elif not is_below_the_publisher(one["name"], parents):
            wrong["brokers", at, "below"] = "a cycle; expected a path up to the publisher"
        for place, name in enumerate(one["subscribers"]):
            if name in served:
                wrong["brokers", at, "subscribers", place] = f"{shown(name)} is served already"
            served.add(name)
    refuse(document, wrong)


def is_below_the_publisher(name: str, parents: Mapping[str, str | None]) -> bool:
    """Whether the way up from a broker ends, and is no cycle."""
    above: str | None = name
    for _ in range(len(parents) + 1):
        if above is None or above not in parents:
            return True
        above = parents[above]
    return False


def _check_numbers(document: Document) -> None:
    """Refuse points, boxes and numbers of interests that do not fit the rest."""
    value = document.value
    wrong: dict[tuple[str | int, ...], str] = {}
    attributes = set(value["attributes"])
    for name, (low, high) in value["attributes"].items():
        if not low < high:
            wrong["attributes", name] = f"{low} to {high}; expected a lowest value below the highest"
    _check_boxes(value["interests"], ("interests",), attributes, wrong)
    for at, one in enumerate(value["brokers"]):
        _check_boxes([one["filter"]], ("brokers", at, "filter"), attributes, wrong)
        if len(one["at"]) != len(value["publisher"]):
            wrong["brokers", at, "at"] = f"{one['at']}; expected {len(value['publisher'])} numbers, as the publisher"
        if len(one["wants"]) != len(one["subscribers"]):
            wrong["brokers", at, "wants"] = (
                f"{len(one['wants']):,} numbers for {len(one['subscribers']):,} subscribers; expected one for each"
            )
        for place, number in enumerate(one["wants"]):
            if number >= len(value["interests"]):
                wrong["brokers", at, "wants", place] = (
                    f"there is no interest {number}; expected 0 to {len(value['interests']) - 1}"
                )
    if ("events" in value) != ("weights" in value) or len(value.get("events", ())) != len(value.get("weights", ())):
        wrong[("weights",)] = "expected one weight for each of the events"
    for at, event in enumerate(value.get("events", ())):
        if len(event) != len(attributes):
            wrong["events", at] = f"{shown(event)}; expected {len(attributes)} numbers, one for each attribute"
    refuse(document, wrong)


def _check_boxes(
    groups: Sequence[Sequence[Mapping[str, Any]]],
    path: tuple[str | int, ...],
    attributes: set[str],
    wrong: dict[tuple[str | int, ...], str],
) -> None:
    for group, boxes in enumerate(groups):
        for at, box in enumerate(boxes):
            where = (*path, group, at) if path == ("interests",) else (*path, at)
            if set(box) != attributes:
                wrong[where] = f"ranges of {', '.join(sorted(box))}; expected {', '.join(sorted(attributes))}"
            for name, (low, high) in box.items():
                if low > high:
                    wrong[(*where, name)] = f"{low} to {high}; expected low <= high"
