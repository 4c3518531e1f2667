"""Problem files and plans of `rankcast place`.

A problem file says where publisher, brokers and subscribers are, what subscribers want and what is allowed; or it names
a workload to draw. Everything wrong with it is reported with its line. A plan says by name whom each broker serves and
what its filter is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jsonschema import Draft202012Validator

from rankcast.language.parser import parse_filter
from rankcast.model.errors import FilterError, InvalidFileError, InvalidValueError, PlacementError, Problem, shown
from rankcast.model.filters import Filter
from rankcast.placement.audit import Audit
from rankcast.placement.boxes import corners
from rankcast.placement.interests import Interests
from rankcast.placement.problem import Problem as Placing
from rankcast.placement.problem import distinct_sites
from rankcast.placement.solution import Placement
from rankcast.placement.tree import PUBLISHER, BrokerTree
from rankcast.storage.documents import Document, DocumentFormat, parse_document
from rankcast.storage.texts import read_text
from rankcast.workloads.placement import DELAY, Workload, placement_problem

_POINT = {"title": "a list of numbers", "type": "array", "minItems": 1, "items": {"type": "number"}}
_NAME = {"title": "a name", "type": "string", "minLength": 1}
_COUNT = {"title": "a whole number of at least 1", "type": "integer", "minimum": 1}
_AMOUNT = {"title": "a number of at least 0", "type": "number", "minimum": 0}


def _mapping(required: list[str], **properties: object) -> dict[str, object]:
    """Return the schema of a mapping with these keys and no others."""
    return {
        "title": "a mapping",
        "type": "object",
        "required": required,
        "properties": properties,
        "additionalProperties": False,
    }


_LIMITS = {"delay": _AMOUNT, "alpha": _COUNT, "beta": _AMOUNT, "beta_max": _AMOUNT}
_BROKER = _mapping(["name", "at"], name=_NAME, at=_POINT, below=_NAME, alpha=_COUNT, share=_AMOUNT)
_SUBSCRIBER = _mapping(["name", "at", "wants"], name=_NAME, at=_POINT, wants=_NAME, limit=_AMOUNT)
_RANGE = {"title": "a lowest and a highest value", "type": "array", "minItems": 2, "maxItems": 2}
_GIVEN = _mapping(
    ["publisher", "brokers", "attributes", "subscribers"],
    publisher=_POINT,
    brokers={"title": "a list of brokers", "type": "array", "minItems": 1, "items": _BROKER},
    attributes={
        "title": "a range for each attribute",
        "type": "object",
        "minProperties": 1,
        "additionalProperties": {**_RANGE, "items": {"title": "a number", "type": "number"}},
    },
    subscribers={"title": "a list of subscribers", "type": "array", "minItems": 1, "items": _SUBSCRIBER},
    **_LIMITS,
)
_DRAWN = _mapping(
    ["workload", "subscribers", "brokers"],
    workload={"title": f"one of {', '.join(one.value for one in Workload)}", "enum": [one.value for one in Workload]},
    subscribers=_COUNT,
    brokers=_COUNT,
    seed={"title": "a whole number of at least 0", "type": "integer", "minimum": 0},
    delay=_AMOUNT,
)


@dataclass(frozen=True, slots=True, eq=False)
class Named:
    """A problem, and what brokers and attributes are called."""

    problem: Placing
    brokers: tuple[str, ...]
    attributes: tuple[str, ...]


def read_problem(path: Path) -> Named:
    """Read a problem file; raise InvalidFileError with everything that is wrong with it."""
    kind = DocumentFormat.JSON if path.suffix == ".json" else DocumentFormat.YAML
    document = parse_document(read_text(path), kind, str(path))
    is_drawn = isinstance(document.value, dict) and "workload" in document.value
    _check(document, dict(_findings(document.value, _DRAWN if is_drawn else _GIVEN)))
    try:
        return _drawn(document.value) if is_drawn else _given(document)
    except (PlacementError, InvalidValueError) as error:
        raise InvalidFileError([Problem(str(path), None, str(error))]) from None


def plan(named: Named, algorithm: str, placement: Placement, audit: Audit) -> dict[str, object]:
    """Return a placement as a document."""
    problem = named.problem
    order = np.argsort(placement.brokers, kind="stable")
    ends = np.searchsorted(placement.brokers[order], np.arange(len(problem.tree) + 1))
    brokers = []
    for broker, name in enumerate(named.brokers):
        low, high = corners(placement.filters[broker])
        boxes = [
            {attribute: [a, b] for attribute, a, b in zip(named.attributes, lows, highs, strict=True)}
            for lows, highs in zip(low.tolist(), high.tolist(), strict=True)
        ]
        members = [problem.name(int(one)) for one in order[ends[broker] : ends[broker + 1]]]
        traffic = float(audit.bandwidths[broker])
        brokers.append({"name": name, "traffic": traffic, "filter": boxes, "subscribers": members})
    return {"algorithm": algorithm, **measured(audit), "brokers": brokers}


def measured(audit: Audit) -> dict[str, object]:
    """Return what an audit found as a document."""
    return {
        "traffic": audit.bandwidth,
        "load_factor": audit.load_factor,
        "rms_delay": audit.rms_delay,
        "violations": [violation.message for violation in audit.violations],
    }


def _drawn(value: Mapping[str, Any]) -> Named:
    random = np.random.default_rng(value.get("seed", 0))
    made = placement_problem(
        Workload(value["workload"]), value["subscribers"], value["brokers"], random, value.get("delay", DELAY)
    )
    names = tuple(f"broker {number}" for number in range(len(made.tree)))
    return Named(made, names, tuple(f"x{axis + 1}" for axis in range(made.interests.attributes)))


def _given(document: Document) -> Named:
    value = document.value
    names = [broker["name"] for broker in value["brokers"]]
    filters = _filters(document, names)
    parents = [names.index(broker["below"]) if "below" in broker else PUBLISHER for broker in value["brokers"]]
    publisher = np.array(value["publisher"], float)
    tree = BrokerTree(publisher, _points("brokers", value, len(publisher)), np.array(parents))
    positions = _points("subscribers", value, len(publisher))
    delay = value.get("delay", DELAY)
    shortest = tree.latencies(positions).min(axis=1)
    limits = [one.get("limit", path * (1 + delay)) for one, path in zip(value["subscribers"], shortest, strict=True)]
    sites, limits_of_sites, site_of = distinct_sites(positions, limits)
    shares = [value["brokers"][leaf].get("share") for leaf in tree.leaves]
    if None in shares and any(share is not None for share in shares):
        raise PlacementError("share: some leaves have one and some do not; expected all of them, or none")
    beta = value.get("beta", 1.5)
    made = Placing(
        tree,
        Interests.of_filters(filters, {name: (low, high) for name, (low, high) in value["attributes"].items()}),
        np.arange(len(filters)),
        sites,
        limits_of_sites,
        site_of,
        beta=beta,
        beta_max=value.get("beta_max", max(beta, 1.8)),
        alpha=np.array([broker.get("alpha", value.get("alpha", 3)) for broker in value["brokers"]]),
        shares=None if None in shares else np.array(shares),
        names=[one["name"] for one in value["subscribers"]],
    )
    return Named(made, tuple(names), tuple(value["attributes"]))


def _points(key: str, value: Mapping[str, Any], dimensions: int) -> np.ndarray[Any, Any]:
    for one in value[key]:
        if len(one["at"]) != dimensions:
            raise PlacementError(f"{one['name']}: at {one['at']}; expected {dimensions} numbers, as the publisher has")
    return np.array([one["at"] for one in value[key]], float)


def _filters(document: Document, names: list[str]) -> list[Filter]:
    """Return the filters of subscribers; report whatever is wrong with those, and names that are not there or twice."""
    value = document.value
    wrong: dict[tuple[str | int, ...], str] = {}
    filters = []
    for key in ("brokers", "subscribers"):
        seen = set()
        for at, one in enumerate(value[key]):
            if one["name"] in seen:
                wrong[key, at, "name"] = f"there is another {shown(one['name'])}"
            seen.add(one["name"])
    for at, broker in enumerate(value["brokers"]):
        if "below" in broker and broker["below"] not in names:
            wrong["brokers", at, "below"] = f"there is no broker {shown(broker['below'])}"
    for at, one in enumerate(value["subscribers"]):
        try:
            filters.append(parse_filter(one["wants"]))
        except FilterError as error:
            wrong["subscribers", at, "wants"] = str(error)
    _check(document, wrong)
    return filters


def _findings(value: object, schema: Mapping[str, Any]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    for error in Draft202012Validator(schema).iter_errors(value):
        path, found = tuple(error.absolute_path), error.schema
        if error.validator == "required":
            missing = [repr(name) for name in error.validator_value if name not in error.instance]
            yield path, f"missing: {', '.join(missing)}"
        elif error.validator == "additionalProperties":
            for name in error.instance:
                if name not in found["properties"]:
                    yield (*path, name), f"unknown key {shown(name)}; expected {', '.join(found['properties'])}"
        else:
            yield path, f"{shown(error.instance)} is not {found.get('title', 'a number')}"


def _check(document: Document, wrong: Mapping[tuple[str | int, ...], str]) -> None:
    if wrong:
        lines = document.lines(wrong)
        problems = [Problem(document.file, lines[path], message) for path, message in wrong.items()]
        raise InvalidFileError(sorted(problems, key=lambda one: one.line or 0))
