"""The files of `rankcast place`, as plain data: problems, and plans, which are placements by name.

A problem file says where publisher, brokers and subscribers are, what subscribers want and what is allowed. Instead of
a list of subscribers it can name a subscriber file and say at which sites these are; or it names a workload to draw.
`rankcast.placement.named` makes a problem of that. A plan file, always JSON, has a version; boxes are written by
attribute, in the order of `attributes` or any other. Everything wrong with a file is reported with its line.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rankcast.model.errors import InvalidFileError, Problem, shown
from rankcast.storage.document_schema import (
    AMOUNT,
    COUNT,
    NAME,
    PLACE,
    POINT,
    RANGE,
    Shape,
    check_shape,
    listed,
    mapping,
    named,
    refuse,
)
from rankcast.storage.documents import Document, DocumentFormat, DocumentPath, load_document, parse_document
from rankcast.storage.text_files import read_text
from rankcast.storage.writing import replacing

VERSION = 1
"""Of plan files."""

MOST_SUBSCRIBERS, MOST_BROKERS = 5_000_000, 100_000
"""What can be drawn: in memory, where each subscriber takes some hundred bytes."""

_BROKER = mapping(["name", "at"], name=NAME, at=POINT, below=NAME, alpha=COUNT, share=AMOUNT)
_BROKERS = listed(_BROKER, "a list of brokers", 1)
_SUBSCRIBER = mapping(["name", "at", "wants"], name=NAME, at=POINT, wants=NAME, limit=AMOUNT)
_SITE = mapping(["at"], at=POINT, subscribers=listed(NAME, "a list of names"), limit=AMOUNT)
_AXIS = {
    "title": "a range such as [0, 100], or numbers, times or words",
    "anyOf": [RANGE, {"enum": ["numbers", "times", "words"]}],
}

_BOX = named(RANGE, "a range for each attribute")
_PLANNED = mapping(
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
    brokers=listed(_PLANNED, "a list of brokers", 1),
    events=listed(POINT, "a list of events", 1),
    weights=listed(AMOUNT, "a list of weights", 1),
    words=named(listed({"title": "a word", "type": "string"}, "a list of words"), "words for some attributes"),
)


def load_placement_problem(path: Path, latencies: Sequence[str], workloads: Sequence[str]) -> Document:
    """Read a problem file, where limits may be about some latencies and some workloads can be drawn.

    Raises InvalidFileError with everything that is wrong with its shape and with its names.
    """
    document = load_document(path)
    value = document.value if isinstance(document.value, dict) else {}
    if _lists_subscriptions(value):
        wrong = "a file of subscribers; expected a problem file, which names this one under `subscribers`"
        raise InvalidFileError([Problem(str(path), None, wrong)])
    check_shape(document, _drawn(workloads) if "workload" in value else _stated(value, latencies))
    if "workload" not in value:
        _check_problem_names(document)
    return document


def _lists_subscriptions(value: Mapping[str, Any]) -> bool:
    """Whether this is a subscriber file, and no problem file with something wrong."""
    subscribers = value.get("subscribers")
    if not isinstance(subscribers, list) or value.keys() & {"publisher", "brokers", "workload"}:
        return False
    return any(isinstance(subscriber, dict) and "subscriptions" in subscriber for subscriber in subscribers)


def _drawn(workloads: Sequence[str]) -> Shape:
    """Return the shape of a problem that is drawn."""
    workload = {"title": f"one of {', '.join(workloads)}", "enum": list(workloads)}
    required = ["workload", "subscribers", "brokers"]
    counts = {"subscribers": _count(MOST_SUBSCRIBERS), "brokers": _count(MOST_BROKERS)}
    return mapping(required, workload=workload, **counts, seed=PLACE, delay=AMOUNT)


def _count(most: int) -> Shape:
    return {**COUNT, "title": f"a whole number from 1 to {most:,}", "maximum": most}


def _stated(value: Mapping[str, Any], latencies: Sequence[str]) -> Shape:
    """Return the shape of a problem that lists its subscribers, or names the file that does."""
    latency = {"title": f"one of {', '.join(latencies)}", "enum": list(latencies)}
    common = {"publisher": POINT, "brokers": _BROKERS}
    limits = {"delay": AMOUNT, "alpha": COUNT, "beta": AMOUNT, "beta_max": AMOUNT, "latency": latency}
    if isinstance(value.get("subscribers"), str):
        return mapping(
            ["publisher", "brokers", "subscribers", "sites"],
            **common,
            attributes=named(_AXIS, "a range or a kind for each attribute"),
            subscribers=NAME,
            sites=listed(_SITE, "a list of sites", 1),
            events=NAME,
            **limits,
        )
    return mapping(
        ["publisher", "brokers", "attributes", "subscribers"],
        **common,
        attributes=named(RANGE, "a range for each attribute"),
        subscribers=listed(_SUBSCRIBER, "a list of subscribers", 1),
        **limits,
    )


def save_placement_plan(path: Path, document: Mapping[str, object]) -> None:
    """Write a plan; atomic."""
    with replacing(path) as stream:
        stream.write(json.dumps({"version": VERSION, **document}, ensure_ascii=False, indent=1).encode() + b"\n")


def load_placement_plan(path: Path) -> dict[str, Any]:
    """Read a plan; raise InvalidFileError with everything that is wrong with it."""
    document = parse_document(read_text(path), DocumentFormat.JSON, str(path))
    check_shape(document, _PLAN)
    _check_plan_names(document)
    _check_numbers(document)
    value: dict[str, Any] = document.value
    return value


def _check_problem_names(document: Document) -> None:
    """Refuse names that are there twice, and brokers below one that is not there or in a cycle."""
    wrong = _wrong_brokers(document.value["brokers"])
    subscribers = document.value["subscribers"]
    seen: set[str] = set()
    for at, subscriber in enumerate(subscribers if isinstance(subscribers, list) else ()):
        if subscriber["name"] in seen:
            wrong["subscribers", at, "name"] = f"there is another {shown(subscriber['name'])}"
        seen.add(subscriber["name"])
    refuse(document, wrong)


def _check_plan_names(document: Document) -> None:
    """Refuse brokers that are there twice or hang below nobody, and subscribers that are served twice."""
    brokers = document.value["brokers"]
    wrong = _wrong_brokers(brokers)
    served: set[str] = set()
    for at, broker in enumerate(brokers):
        for place, name in enumerate(broker["subscribers"]):
            if name in served:
                wrong["brokers", at, "subscribers", place] = f"{shown(name)} is served already"
            served.add(name)
    refuse(document, wrong)


def _wrong_brokers(brokers: Sequence[Mapping[str, Any]]) -> dict[DocumentPath, str]:
    """Return what is wrong with the names of the brokers of a document, and with whom they hang below."""
    wrong: dict[DocumentPath, str] = {}
    parents = {broker["name"]: broker.get("below") for broker in brokers}
    seen: set[str] = set()
    for at, broker in enumerate(brokers):
        name, above = broker["name"], broker.get("below")
        if name in seen:
            wrong["brokers", at, "name"] = f"there is another {shown(name)}"
        seen.add(name)
        if above is not None and above not in parents:
            wrong["brokers", at, "below"] = f"there is no broker {shown(above)}"
        elif not _is_below_the_publisher(name, parents):
            wrong["brokers", at, "below"] = f"the way up from {name} is a cycle; expected one to the publisher"
    return wrong


def _is_below_the_publisher(name: str, parents: Mapping[str, str | None]) -> bool:
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
    wrong: dict[DocumentPath, str] = {}
    attributes = set(value["attributes"])
    for name, (low, high) in value["attributes"].items():
        if not low < high:
            wrong["attributes", name] = f"{low} to {high}; expected a lowest value below the highest"
    for at, interest in enumerate(value["interests"]):
        wrong.update(_wrong_boxes(interest, ("interests", at), attributes))
    for at, broker in enumerate(value["brokers"]):
        wrong.update(_wrong_boxes(broker["filter"], ("brokers", at, "filter"), attributes))
        if len(broker["at"]) != len(value["publisher"]):
            wrong["brokers", at, "at"] = f"{broker['at']}; expected {len(value['publisher'])} numbers, as the publisher"
        wants, served = len(broker["wants"]), len(broker["subscribers"])
        if wants != served:
            wrong["brokers", at, "wants"] = f"{wants:,} numbers for {served:,} subscribers; expected one for each"
        for place, number in enumerate(broker["wants"]):
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


def _wrong_boxes(
    boxes: Sequence[Mapping[str, Any]], path: DocumentPath, attributes: set[str]
) -> Iterator[tuple[DocumentPath, str]]:
    for at, box in enumerate(boxes):
        if set(box) != attributes:
            yield (*path, at), f"ranges of {', '.join(sorted(box))}; expected {', '.join(sorted(attributes))}"
        for name, (low, high) in box.items():
            if low > high:
                yield (*path, at, name), f"{low} to {high}; expected low <= high"
