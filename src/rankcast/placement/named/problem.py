"""Problems that are stated by name, as plain data: where everybody is, what subscribers want and what is allowed.

The data has the shape of a problem file, which whoever reads the file has checked. What is wrong beyond its shape is
told by the part of the data that it is about.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, TypeAlias

import numpy as np

from rankcast.arrays import Array
from rankcast.language.parser import parse_filter
from rankcast.model.errors import FilterError, InvalidPartsError, PlacementError, shown
from rankcast.model.events import Event
from rankcast.model.subscriptions import Subscriber
from rankcast.placement.named.interests import NamedInterests, Numbers, Wanted, Words, named_interests, without_axis
from rankcast.placement.problem.boxes import UNIFORM, Density
from rankcast.placement.problem.interests import Interests, Range, parts_within
from rankcast.placement.problem.numeric_limits import wrong_measure, wrong_place, wrong_range
from rankcast.placement.problem.problem import NAMED, Latency, PlacementProblem, distinct_sites, limits_of_delay
from rankcast.placement.problem.tree import PUBLISHER, BrokerTree

Part: TypeAlias = tuple[str | int, ...]
"""The keys and numbers on the way to a part of the data."""


@dataclass(frozen=True, slots=True, eq=False)
class NamedProblem:
    """A problem, what brokers are called, and the attributes with the ranges that events have.

    `words` are those of attributes whose coordinates stand for words; `notes` say what was made simpler.
    """

    problem: PlacementProblem
    brokers: tuple[str, ...]
    attributes: Mapping[str, Range]
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def everything(self) -> float:
        """The measure of all events: what traffic would be if they all went into one broker."""
        density = self.problem.density
        return volume_of(self.attributes) if density.is_uniform else float(density.weights.sum())


@dataclass(frozen=True, slots=True, eq=False)
class NamedDemand:
    """Subscribers: what each one wants, where it is, and the latency it allows (None: the usual one)."""

    wanted: NamedInterests
    sites: Sequence[Mapping[str, Any]]
    density: Density = UNIFORM
    notes: tuple[str, ...] = ()


def listed_demand(value: Mapping[str, Any]) -> NamedDemand:
    """Return the subscribers that the data lists itself, with filters over ranges of numbers."""
    wrong: dict[Part, str] = {}
    filters = []
    ranges = {name: (low, high) for name, (low, high) in value["attributes"].items()}
    for at, subscriber in enumerate(value["subscribers"]):
        text = subscriber["wants"]
        try:
            filters.append(parse_filter(text))
        except FilterError as error:
            wrong["subscribers", at, "wants"] = str(error)
            continue
        if not parts_within(filters[-1], ranges):
            within = ", ".join(f"{name} from {low} to {high}" for name, (low, high) in ranges.items())
            wrong["subscribers", at, "wants"] = (
                f"{subscriber['name']}: {shown(text)} matches nothing; expected something within {within}"
            )
    _refuse(wrong)
    said = Counter(name for filter_ in filters for conjunction in filter_.conjunctions for name, _ in conjunction)
    wanted = NamedInterests(
        tuple(subscriber["name"] for subscriber in value["subscribers"]),
        Interests.of_filters(filters, ranges),
        np.arange(len(filters)),
        {name: Numbers(*ends) for name, ends in ranges.items()},
        tuple(without_axis(name, count) for name, count in sorted(said.items()) if name not in ranges),
    )
    return NamedDemand(wanted, value["subscribers"], notes=wanted.notes)


def deployed_demand(
    value: Mapping[str, Any],
    subscribers: Sequence[Subscriber],
    events: Iterable[Event] | None,
    remarks: Sequence[str] = (),
) -> NamedDemand:
    """Return real subscribers at the sites that the data lists; events, if there are any, say how traffic is spread.

    Remarks on how both were read go between the notes; they are looked at when the events have been.
    """
    given = value.get("attributes")
    axes: dict[str, Wanted] | None = given and {
        name: axis if isinstance(axis, str) else (float(axis[0]), float(axis[1])) for name, axis in given.items()
    }
    wanted = named_interests(subscribers, axes)
    sites = _sites_of(value["sites"], wanted.names, {str(subscriber.id) for subscriber in subscribers})
    density = UNIFORM if events is None else wanted.density(events)
    found = [] if given else [f"attributes, of those that filters speak of: {', '.join(wanted.axes)}"]
    return NamedDemand(wanted, sites, density, (*found, *remarks, *wanted.notes))


def check_magnitudes(value: Mapping[str, Any]) -> None:
    """Refuse places that are too far out, and ranges that are none or too large."""
    wrong: dict[Part, str] = {}
    if problem := wrong_place(value["publisher"]):
        wrong[("publisher",)] = f"publisher: {problem}"
    for key in ("brokers", "subscribers", "sites"):
        listed = value.get(key)
        for at, placed in enumerate(listed if isinstance(listed, list) else ()):
            if problem := wrong_place(placed["at"]):
                wrong[key, at, "at"] = f"{placed.get('name', 'a site')}: {problem}"
    for name, axis in value.get("attributes", {}).items():
        if not isinstance(axis, str) and (problem := wrong_range(*axis)):
            wrong["attributes", name] = f"{name}: {problem}"
    _refuse(wrong)


def named_problem(value: Mapping[str, Any], demand: NamedDemand, delay: float) -> NamedProblem:
    """Put a problem together from the data and the demand it states; `delay` is the usual one."""
    wanted = demand.wanted
    ranges = {name: (axis.low, axis.high) for name, axis in wanted.axes.items()}
    _check_space(ranges, demand.density)
    names = [broker["name"] for broker in value["brokers"]]
    parents = [names.index(broker["below"]) if "below" in broker else PUBLISHER for broker in value["brokers"]]
    publisher = np.array(value["publisher"], float)
    tree = BrokerTree(publisher, _points(names, value["brokers"], len(publisher)), np.array(parents))
    positions = _points(wanted.names, demand.sites, len(publisher))
    latency = Latency(value.get("latency", Latency.PATH.value))
    shortest = limits_of_delay(tree, positions, value.get("delay", delay), latency)
    limits = [site.get("limit", usual) for site, usual in zip(demand.sites, shortest, strict=True)]
    sites, limits_of_sites, site_of = distinct_sites(positions, limits)
    shares = [value["brokers"][leaf].get("share") for leaf in tree.leaves]
    if None in shares and any(share is not None for share in shares):
        raise PlacementError("share: some leaves have one and some do not; expected all of them, or none")
    beta = value.get("beta", 1.5)
    made = PlacementProblem(
        tree,
        wanted.interests,
        wanted.interest_of,
        sites,
        limits_of_sites,
        site_of,
        beta=beta,
        beta_max=value.get("beta_max", max(beta, 1.8)),
        alpha=np.array([broker.get("alpha", value.get("alpha", 3)) for broker in value["brokers"]]),
        shares=None if None in shares else np.array(shares),
        density=demand.density,
        names=wanted.names,
        latency=latency,
        broker_names=names,
    )
    words = {name: axis.words for name, axis in wanted.axes.items() if isinstance(axis, Words)}
    return NamedProblem(made, tuple(names), ranges, words, demand.notes)


def _sites_of(sites: Sequence[Mapping[str, Any]], names: Sequence[str], known: set[str]) -> list[Mapping[str, Any]]:
    """Return the site of each subscriber: the one that lists it, or the one that lists nobody."""
    by_name: dict[str, Mapping[str, Any]] = {}
    elsewhere: Mapping[str, Any] | None = None
    wrong: dict[Part, str] = {}
    for at, site in enumerate(sites):
        if "subscribers" not in site:
            if elsewhere is not None:
                wrong["sites", at] = (
                    "another site without subscribers; expected one at most, for all who are in no list"
                )
            elsewhere = site
        for place, name in enumerate(site.get("subscribers", ())):
            if name in by_name:
                wrong["sites", at, "subscribers", place] = f"{shown(name)} is at another site, too"
            if name not in known:
                wrong["sites", at, "subscribers", place] = f"there is no subscriber {shown(name)}"
            by_name[name] = site
    _refuse(wrong)
    lost = [name for name in names if name not in by_name]
    if lost and elsewhere is None:
        more = f" and {len(lost) - NAMED:,} more" if len(lost) > NAMED else ""
        raise PlacementError(
            f"sites: {', '.join(lost[:NAMED])}{more} are at none; expected a site that lists them or one without a list"
        )
    return [by_name.get(name) or elsewhere or {} for name in names]


def _refuse(wrong: Mapping[Part, str]) -> None:
    if wrong:
        raise InvalidPartsError(wrong)


def volume_of(ranges: Mapping[str, Range]) -> float:
    """Return the volume of the event space over some attributes."""
    return prod(float(high) - float(low) for low, high in ranges.values())


def _check_space(ranges: Mapping[str, Range], density: Density) -> None:
    """Refuse an event space whose ranges, be they found in filters, or whose volume cannot be worked with."""
    for name, ends in ranges.items():
        if wrong := wrong_range(*ends):
            raise PlacementError(f"attributes: {name}: {wrong}")
    wrong = wrong_measure(volume_of(ranges))
    if wrong and density.is_uniform:
        raise PlacementError(f"attributes: {wrong}")


def _points(names: Sequence[str], sites: Sequence[Mapping[str, Any]], dimensions: int) -> Array:
    for name, site in zip(names, sites, strict=True):
        if len(site["at"]) != dimensions:
            raise PlacementError(f"{name}: at {site['at']}; expected {dimensions} numbers, as the publisher has")
    return np.array([site["at"] for site in sites], float)
