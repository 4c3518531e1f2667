"""Problem files of `rankcast place`.

A problem file says where publisher, brokers and subscribers are, what subscribers want and what is allowed; or it names
a workload to draw. Everything wrong with it is reported with its line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rankcast.language.parser import parse_filter
from rankcast.model.errors import FilterError, InvalidFileError, InvalidValueError, PlacementError, Problem, shown
from rankcast.model.filters import Filter
from rankcast.placement.audit import Audit
from rankcast.placement.boxes import corners, hull
from rankcast.placement.interests import Interests
from rankcast.placement.problem import Problem as Placing
from rankcast.placement.problem import distinct_sites
from rankcast.placement.tree import PUBLISHER, BrokerTree
from rankcast.storage.documents import Document, DocumentFormat, parse_document
from rankcast.storage.shapes import (
    AMOUNT,
    COUNT,
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
from rankcast.storage.texts import read_text
from rankcast.workloads.placement import DELAY, Workload, placement_problem

_LIMITS = {"delay": AMOUNT, "alpha": COUNT, "beta": AMOUNT, "beta_max": AMOUNT}
_BROKER = mapping(["name", "at"], name=NAME, at=POINT, below=NAME, alpha=COUNT, share=AMOUNT)
_SUBSCRIBER = mapping(["name", "at", "wants"], name=NAME, at=POINT, wants=NAME, limit=AMOUNT)
_GIVEN = mapping(
    ["publisher", "brokers", "attributes", "subscribers"],
    publisher=POINT,
    brokers=listed(_BROKER, "a list of brokers", 1),
    attributes=named(RANGE, "a range for each attribute"),
    subscribers=listed(_SUBSCRIBER, "a list of subscribers", 1),
    **_LIMITS,
)
_DRAWN = mapping(
    ["workload", "subscribers", "brokers"],
    workload={"title": f"one of {', '.join(one.value for one in Workload)}", "enum": [one.value for one in Workload]},
    subscribers=COUNT,
    brokers=COUNT,
    seed=PLACE,
    delay=AMOUNT,
)


@dataclass(frozen=True, slots=True, eq=False)
class Named:
    """A problem, what brokers are called, and the attributes with the ranges that events have."""

    problem: Placing
    brokers: tuple[str, ...]
    attributes: Mapping[str, tuple[float, float]]


def read_problem(path: Path) -> Named:
    """Read a problem file; raise InvalidFileError with everything that is wrong with it."""
    kind = DocumentFormat.JSON if path.suffix == ".json" else DocumentFormat.YAML
    document = parse_document(read_text(path), kind, str(path))
    is_drawn = isinstance(document.value, dict) and "workload" in document.value
    check_shape(document, _DRAWN if is_drawn else _GIVEN)
    try:
        return _drawn(document.value) if is_drawn else _given(document)
    except (PlacementError, InvalidValueError) as error:
        raise InvalidFileError([Problem(str(path), None, str(error))]) from None


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
    low, high = corners(hull(made.interests.sides))
    ranges = zip(low.tolist(), high.tolist(), strict=True)
    return Named(made, names, {f"x{axis}": ends for axis, ends in enumerate(ranges, 1)})


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
    ranges = {name: (low, high) for name, (low, high) in value["attributes"].items()}
    made = Placing(
        tree,
        Interests.of_filters(filters, ranges),
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
    return Named(made, tuple(names), ranges)


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
    refuse(document, wrong)
    return filters
