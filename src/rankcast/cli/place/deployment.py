"""Who is to be placed, by name: subscribers of a subscriber file, at the sites that a problem file lists."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rankcast.arrays import Array
from rankcast.model.errors import PlacementError, Problem, shown
from rankcast.model.events import Event
from rankcast.placement.problem.density import UNIFORM, Density
from rankcast.placement.problem.interests import Interests
from rankcast.placement.problem.numeric_limits import wrong_place, wrong_range
from rankcast.placement.problem.problem import NAMED
from rankcast.samples.placement_coding import Words
from rankcast.samples.placement_subscribers import Audience, Wanted, audience
from rankcast.storage.document_schema import refuse
from rankcast.storage.documents import Document
from rankcast.storage.events.files import read_events
from rankcast.storage.placement_plans import is_below_the_publisher
from rankcast.storage.subscribers.files import load_subscribers

KINDS = ("numbers", "times", "words")
"""What an attribute of a deployment can be instead of a range of numbers."""


@dataclass(frozen=True, slots=True, eq=False)
class NamedDemand:
    """Subscribers by name: where each one is, the latency it allows (None: the usual one), and what it wants."""

    names: Sequence[str]
    places: Sequence[Sequence[float]]
    limits: Sequence[float | None]
    interests: Interests
    interest_of: Array
    ranges: Mapping[str, tuple[float, float]]
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    density: Density = UNIFORM
    notes: tuple[str, ...] = ()


def deployed_demand(document: Document, path: Path) -> NamedDemand:
    """Return the subscribers of the file that a problem file names, relative to itself."""
    value = document.value
    loaded = load_subscribers(path.parent / value["subscribers"])
    given = value.get("attributes")
    wanted: dict[str, Wanted] | None = given and {
        name: axis if isinstance(axis, str) else (float(axis[0]), float(axis[1])) for name, axis in given.items()
    }
    found = audience(loaded.subscribers, wanted)
    sites = _sites_of(document, found, {str(one.id) for one in loaded.subscribers})
    notes = [] if given else [f"attributes, of those that filters speak of: {', '.join(found.axes)}"]
    notes += [str(problem) for problem in loaded.problems]
    density = UNIFORM
    if "events" in value:
        density = found.density(_events(path.parent / value["events"], notes))
    return NamedDemand(
        found.names,
        [site["at"] for site in sites],
        [site.get("limit") for site in sites],
        found.interests,
        found.interest_of,
        {name: (axis.low, axis.high) for name, axis in found.axes.items()},
        {name: axis.words for name, axis in found.axes.items() if isinstance(axis, Words)},
        density,
        (*notes, *found.notes),
    )


def check_names(document: Document) -> None:
    """Refuse names that are there twice, and brokers below one that is not there or in a cycle."""
    value = document.value
    wrong: dict[tuple[str | int, ...], str] = {}
    for key in ("brokers", "subscribers"):
        seen = set()
        for at, one in enumerate(value[key] if isinstance(value[key], list) else ()):
            if one["name"] in seen:
                wrong[key, at, "name"] = f"there is another {shown(one['name'])}"
            seen.add(one["name"])
    parents = {broker["name"]: broker.get("below") for broker in value["brokers"]}
    for at, broker in enumerate(value["brokers"]):
        if "below" in broker and broker["below"] not in parents:
            wrong["brokers", at, "below"] = f"there is no broker {shown(broker['below'])}"
        elif not is_below_the_publisher(broker["name"], parents):
            wrong["brokers", at, "below"] = (
                f"the way up from {broker['name']} is a cycle; expected one to the publisher"
            )
    refuse(document, wrong)


def check_magnitudes(document: Document) -> None:
    """Refuse places that are too far out, and ranges that are none or too large."""
    value = document.value
    wrong: dict[tuple[str | int, ...], str] = {}
    if problem := wrong_place(value["publisher"]):
        wrong[("publisher",)] = f"publisher: {problem}"
    for key in ("brokers", "subscribers", "sites"):
        listed = value.get(key)
        for at, one in enumerate(listed if isinstance(listed, list) else ()):
            if problem := wrong_place(one["at"]):
                wrong[key, at, "at"] = f"{one.get('name', 'a site')}: {problem}"
    for name, axis in value.get("attributes", {}).items():
        if not isinstance(axis, str) and (problem := wrong_range(*axis)):
            wrong["attributes", name] = f"{name}: {problem}"
    refuse(document, wrong)


def _sites_of(document: Document, found: Audience, known: set[str]) -> list[Mapping[str, Any]]:
    """Return the site of each subscriber: the one that lists it, or the one that lists nobody."""
    by_name: dict[str, Mapping[str, Any]] = {}
    elsewhere: Mapping[str, Any] | None = None
    wrong: dict[tuple[str | int, ...], str] = {}
    for at, site in enumerate(document.value["sites"]):
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
    refuse(document, wrong)
    lost = [name for name in found.names if name not in by_name]
    if lost and elsewhere is None:
        more = f" and {len(lost) - NAMED:,} more" if len(lost) > NAMED else ""
        raise PlacementError(
            f"sites: {', '.join(lost[:NAMED])}{more} are at none; expected a site that lists them or one without a list"
        )
    return [by_name.get(name) or elsewhere or {} for name in found.names]


def _events(path: Path, notes: list[str]) -> Iterator[Event]:
    for one in read_events(path):
        if isinstance(one, Problem):
            notes.append(str(one))
        else:
            yield one
