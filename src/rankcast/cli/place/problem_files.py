"""Problem files of `rankcast place`.

A problem file says where publisher, brokers and subscribers are, what subscribers want and what is allowed. Instead of
a list of subscribers it can name a subscriber file and say at which sites these are; or it names a workload to draw.
Everything wrong with it is reported with its line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from rankcast.cli.place.deployment import KINDS, NamedDemand, check_magnitudes, check_names, deployed_demand
from rankcast.language.parser import parse_filter
from rankcast.model.errors import FilterError, InvalidFileError, InvalidValueError, PlacementError, Problem, shown
from rankcast.placement.problem.audit import Audit
from rankcast.placement.problem.boxes import corners, hull
from rankcast.placement.problem.interests import Interests, parts_within
from rankcast.placement.problem.numeric_limits import wrong_measure, wrong_range
from rankcast.placement.problem.problem import Latency, distinct_sites, limits_of_delay
from rankcast.placement.problem.problem import Problem as Placing
from rankcast.placement.problem.tree import PUBLISHER, BrokerTree
from rankcast.samples.placement import DELAY, Workload, placement_problem
from rankcast.samples.placement_subscribers import without_axis
from rankcast.storage.document_schema import (
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
from rankcast.storage.documents import Document, DocumentFormat, parse_document
from rankcast.storage.text_files import read_text

_LATENCIES = [one.value for one in Latency]
_LATENCY = {"title": f"one of {', '.join(_LATENCIES)}", "enum": _LATENCIES}
_LIMITS = {"delay": AMOUNT, "alpha": COUNT, "beta": AMOUNT, "beta_max": AMOUNT, "latency": _LATENCY}
_BROKER = mapping(["name", "at"], name=NAME, at=POINT, below=NAME, alpha=COUNT, share=AMOUNT)
_SUBSCRIBER = mapping(["name", "at", "wants"], name=NAME, at=POINT, wants=NAME, limit=AMOUNT)
_SITE = mapping(["at"], at=POINT, subscribers=listed(NAME, "a list of names"), limit=AMOUNT)
_AXIS = {"title": "a range such as [0, 100], or numbers, times or words", "anyOf": [RANGE, {"enum": list(KINDS)}]}
_GIVEN = mapping(
    ["publisher", "brokers", "attributes", "subscribers"],
    publisher=POINT,
    brokers=listed(_BROKER, "a list of brokers", 1),
    attributes=named(RANGE, "a range for each attribute"),
    subscribers=listed(_SUBSCRIBER, "a list of subscribers", 1),
    **_LIMITS,
)
_DEPLOYED = mapping(
    ["publisher", "brokers", "subscribers", "sites"],
    publisher=POINT,
    brokers=listed(_BROKER, "a list of brokers", 1),
    attributes=named(_AXIS, "a range or a kind for each attribute"),
    subscribers=NAME,
    sites=listed(_SITE, "a list of sites", 1),
    events=NAME,
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
    """A problem, what brokers are called, and the attributes with the ranges that events have.

    `words` are those of attributes whose coordinates stand for words; `notes` say what was made simpler.
    """

    problem: Placing
    brokers: tuple[str, ...]
    attributes: Mapping[str, tuple[float, float]]
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def everything(self) -> float:
        """The measure of all events: what traffic would be if they all went into one broker."""
        density = self.problem.density
        if not density.is_uniform:
            return float(density.weights.sum())
        return prod(float(high) - float(low) for low, high in self.attributes.values())


def read_problem(path: Path) -> Named:
    """Read a problem file; raise InvalidFileError with everything that is wrong with it."""
    kind = DocumentFormat.JSON if path.suffix == ".json" else DocumentFormat.YAML
    document = parse_document(read_text(path), kind, str(path))
    value = document.value if isinstance(document.value, dict) else {}
    if _lists_subscriptions(value):
        wrong = "a file of subscribers; expected a problem file, which names this one under `subscribers`"
        raise InvalidFileError([Problem(str(path), None, wrong)])
    is_drawn, is_deployed = "workload" in value, isinstance(value.get("subscribers"), str)
    check_shape(document, _DRAWN if is_drawn else _DEPLOYED if is_deployed else _GIVEN)
    try:
        if is_drawn:
            return _drawn(document.value)
        check_names(document)
        check_magnitudes(document)
        return _assembled(document.value, deployed_demand(document, path) if is_deployed else _given_demand(document))
    except (PlacementError, InvalidValueError) as error:
        raise InvalidFileError([Problem(str(path), None, str(error))]) from None


def _lists_subscriptions(value: Mapping[str, Any]) -> bool:
    """Whether this is a subscriber file, and no problem file with something wrong."""
    listed_ones = value.get("subscribers")
    if not isinstance(listed_ones, list) or value.keys() & {"publisher", "brokers", "workload"}:
        return False
    return any(isinstance(one, dict) and "subscriptions" in one for one in listed_ones)


def measured(named: Named, audit: Audit) -> dict[str, object]:
    """Return what an audit found as a document."""
    return {
        "traffic": audit.bandwidth,
        "brokers_per_event": audit.bandwidth / named.everything,
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


def _assembled(value: Mapping[str, Any], demand: NamedDemand) -> Named:
    """Put a problem together from a file and the demand it states."""
    _check_space(demand)
    names = [broker["name"] for broker in value["brokers"]]
    parents = [names.index(broker["below"]) if "below" in broker else PUBLISHER for broker in value["brokers"]]
    publisher = np.array(value["publisher"], float)
    points = [(broker["name"], broker["at"]) for broker in value["brokers"]]
    tree = BrokerTree(publisher, _points(points, len(publisher)), np.array(parents))
    positions = _points(zip(demand.names, demand.places, strict=True), len(publisher))
    latency = Latency(value.get("latency", Latency.PATH.value))
    shortest = limits_of_delay(tree, positions, value.get("delay", DELAY), latency)
    limits = [usual if limit is None else limit for limit, usual in zip(demand.limits, shortest, strict=True)]
    sites, limits_of_sites, site_of = distinct_sites(positions, limits)
    shares = [value["brokers"][leaf].get("share") for leaf in tree.leaves]
    if None in shares and any(share is not None for share in shares):
        raise PlacementError("share: some leaves have one and some do not; expected all of them, or none")
    beta = value.get("beta", 1.5)
    made = Placing(
        tree,
        demand.interests,
        demand.interest_of,
        sites,
        limits_of_sites,
        site_of,
        beta=beta,
        beta_max=value.get("beta_max", max(beta, 1.8)),
        alpha=np.array([broker.get("alpha", value.get("alpha", 3)) for broker in value["brokers"]]),
        shares=None if None in shares else np.array(shares),
        density=demand.density,
        names=demand.names,
        latency=latency,
        broker_names=names,
    )
    return Named(made, tuple(names), demand.ranges, demand.words, demand.notes)


def _check_space(demand: NamedDemand) -> None:
    """Refuse an event space whose ranges, be they found in filters, or whose volume cannot be worked with."""
    for name, ends in demand.ranges.items():
        if wrong := wrong_range(*ends):
            raise PlacementError(f"attributes: {name}: {wrong}")
    wrong = wrong_measure(prod(float(high) - float(low) for low, high in demand.ranges.values()))
    if wrong and demand.density.is_uniform:
        raise PlacementError(f"attributes: {wrong}")


def _points(named_points: Iterable[tuple[str, Sequence[float]]], dimensions: int) -> np.ndarray[Any, Any]:
    found = list(named_points)
    for name, at in found:
        if len(at) != dimensions:
            raise PlacementError(f"{name}: at {at}; expected {dimensions} numbers, as the publisher has")
    return np.array([at for _, at in found], float)


def _given_demand(document: Document) -> NamedDemand:
    """Return the subscribers that the file itself lists; report whatever is wrong with their filters."""
    value = document.value
    wrong: dict[tuple[str | int, ...], str] = {}
    filters = []
    ranges = {name: (low, high) for name, (low, high) in value["attributes"].items()}
    for at, one in enumerate(value["subscribers"]):
        try:
            filters.append(parse_filter(one["wants"]))
        except FilterError as error:
            wrong["subscribers", at, "wants"] = str(error)
            continue
        if not parts_within(filters[-1], ranges):
            within = ", ".join(f"{name} from {low} to {high}" for name, (low, high) in ranges.items())
            wrong["subscribers", at, "wants"] = (
                f"{one['name']}: {shown(one['wants'])} matches nothing; expected something within {within}"
            )
    refuse(document, wrong)
    said = Counter(name for one in filters for conjunction in one.conjunctions for name, _ in conjunction)
    return NamedDemand(
        [one["name"] for one in value["subscribers"]],
        [one["at"] for one in value["subscribers"]],
        [one.get("limit") for one in value["subscribers"]],
        Interests.of_filters(filters, ranges),
        np.arange(len(filters)),
        ranges,
        notes=tuple(without_axis(name, count) for name, count in sorted(said.items()) if name not in ranges),
    )
