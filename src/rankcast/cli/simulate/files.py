"""The file of `rankcast simulate`: how brokers are joined and route, who subscribes and publishes, what fails.

    topology: {shape: chain, cores: 10, edges: 5, delay: 1ms}
    strategy: AncestorCoverK
    k: 10
    subscribers: 1000
    publications: 100

Subscribers and events of one's own are in files that it names, as seen from its folder:

    plan: plan.json
    subscribers: people.yaml
    events: last-week.jsonl
    places: {ana: porto}

Whatever is wrong with it is told with its line: everything that does not have the shape, and then what the rest says.
What is wrong in the files that it names is a problem of those, and set aside.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from itertools import cycle
from pathlib import Path
from typing import Any

from rankcast.cli.output.streams import Problems
from rankcast.cli.replay import Arrivals, in_order
from rankcast.cli.simulate.picture import Places
from rankcast.cli.simulate.plan import load_plan, map_of, root_of, topology_of
from rankcast.covering.group.cover import DEFAULT_CHECKING, Checking, GroupStrategy
from rankcast.model.advertisements import Advertisement, AdvertisementId, Advertisements, Scoring, Ties
from rankcast.model.errors import InvalidFileError, InvalidValueError, RankcastError, counted, hint, shown
from rankcast.model.events import Event
from rankcast.model.subscriptions import Subscriber
from rankcast.overlay.broker import Settings
from rankcast.overlay.routing.strategies import Strategy
from rankcast.overlay.simulation.plan import SHAPES, DrawnLoad, Failure, GivenLoad, SimulationPlan
from rankcast.overlay.simulation.ranges import WIDTHS
from rankcast.overlay.simulation.simulator import check_links
from rankcast.overlay.simulation.topologies import DELAY, Link, Topology
from rankcast.overlay.simulation.topologies import topology_of as topology_of_links
from rankcast.placement.named.plan import PlacementPlan
from rankcast.storage.document_schema import NAME, Finding, Shape, check_shape, listed, locate, mapping, named, refuse
from rankcast.storage.documents import Document, load_document
from rankcast.storage.durations import parse_duration
from rankcast.storage.events.files import read_events
from rankcast.storage.subscribers.advertisements import ranking_from_document
from rankcast.storage.subscribers.files import admitted, load_advertisements, load_subscribers

MOST_BROKERS = 10_000
LONGEST, LONGEST_TEXT = timedelta(hours=1), "1h"
"""Of what passes between events: every heartbeat in between is simulated."""

NO_TIME, A_SECOND = timedelta(0), timedelta(seconds=1)


def _whole(least: int, most: int = 10_000_000) -> Shape:
    title = f"a whole number from {least} to {most:,}"
    return {"title": title, "type": "integer", "whole": True, "minimum": least, "maximum": most}


def _choice(names: Iterable[str]) -> Shape:
    return {"title": f"one of {', '.join(names)}", "enum": list(names)}


def _member(kind: type[Enum]) -> Shape:
    return _choice([member.value for member in kind])


def _either(shape: Shape, title: str, *names: str) -> Shape:
    """Return the shape of a mapping with exactly one of some keys."""
    return {**shape, "title": title, "oneOf": [{"required": [name]} for name in names]}


_DURATION: Shape = {"title": "a duration such as 5ms", "type": ["string", "number"]}
_SHARE: Shape = {"title": "a share from 0 to 1", "type": "number", "minimum": 0, "maximum": 1}
_LINK: Shape = {
    "title": "a link such as [porto, lisbon, 5ms]",
    "type": "array",
    "minItems": 2,
    "maxItems": 3,
    "prefixItems": [NAME, NAME, _DURATION],
}
_FAILURE = mapping(
    ["after"],
    crash=NAME,
    cut={**listed(NAME, "a link such as [core0, core1]", 2), "maxItems": 2},
    after=_whole(0),
    until=_whole(1),
    keeps_state={"title": "true or false", "type": "boolean"},
)
_BROKERS = listed(NAME, "a list of brokers that publishers are at", 1)
_COMMON: Mapping[str, Shape] = {
    "links": listed(_LINK, "a list of links such as [porto, lisbon, 5ms]"),
    "strategy": _member(Strategy),
    "group_cover": mapping([], by=_member(GroupStrategy), budget=_whole(0, 10**9), delta=_SHARE),
    "jitter": _DURATION,
    "failures": listed(
        _either(_FAILURE, "a failure such as {crash: core1, after: 10, until: 20}", "crash", "cut"),
        "a list of crashes and cuts",
    ),
    "seed": _whole(0),
}
_DRAWN: Mapping[str, Shape] = {
    "k": _whole(1),
    "ranking": mapping([], scoring=_member(Scoring), ties=_member(Ties)),
    "subscribers": _whole(0),
    "widths": {**listed(_SHARE, "two shares of the domain such as [0.3, 0.6]", 2), "maxItems": 2},
    "churn": _SHARE,
    "publications": _whole(0),
    "publishers": _BROKERS,
    "interval": _DURATION,
}
_FILE: Shape = {"title": "the name of a subscriber file", "type": "string", "minLength": 1}
_GIVEN: Mapping[str, Shape] = {
    "plan": {**NAME, "title": "the name of a plan"},
    "subscribers": _FILE,
    "advertisements": {**NAME, "title": "the name of a file of advertisements"},
    "events": {
        "title": "the name of an event file, or a list of names",
        "anyOf": [NAME, listed(NAME, "a list of names", 1)],
    },
    "places": named(NAME, "a broker for each subscriber"),
    "publishers": {
        "title": "a list of brokers that publishers are at, or a broker for each source",
        "anyOf": [_BROKERS, named(NAME, "a broker for each source")],
    },
}
"""What a file may say, but for a topology: in any case, and with drawn or with given subscribers."""


@dataclass(frozen=True, slots=True)
class SimulationFile:
    """What a file says; and where its brokers are, if it is at places of a plan."""

    plan: SimulationPlan
    places: Places | None = None


def _is_given(value: object) -> bool:
    """Whether a file has subscribers of its own."""
    return isinstance(value, dict) and (
        not value.keys().isdisjoint({"plan", "events", "places"}) or isinstance(value.get("subscribers"), str)
    )


def _shape_of(value: object) -> Shape:
    """Return the shape of a file, which follows that of its topology: each has numbers of its own."""
    given = value.get("topology") if isinstance(value, dict) else None
    name = given.get("shape") if isinstance(given, dict) else None
    numbers = SHAPES[name].numbers if isinstance(name, str) and name in SHAPES else ()
    may_have = numbers or {number for shape in SHAPES.values() for number in shape.numbers}
    counts = {number: _whole(0, MOST_BROKERS) for number in may_have}
    topology = mapping(["shape", *numbers], shape=_choice(SHAPES), delay=_DURATION, **counts)
    if _is_given(value):
        shape = mapping(["subscribers", "events"], topology=topology, **_COMMON, **_GIVEN)
        return _either(shape, "a mapping with one of topology, links and plan", "topology", "links", "plan")
    shape = mapping([], topology=topology, **_COMMON, **_DRAWN)
    return _either(shape, "a mapping with a topology or links", "topology", "links")


@contextmanager
def _about(document: Document, *path: str | int) -> Iterator[None]:
    """Tell what is refused within the block with its line."""
    try:
        yield
    except InvalidFileError:
        raise
    except RankcastError as error:
        refuse(document, {path: str(error)})


def load_simulation(file: Path, now: datetime, problems: Problems) -> SimulationFile:
    """Read a file; raise InvalidFileError, with lines, when something is wrong with it.

    What is wrong in the files that it names goes to `problems`; events without a time are of `now`.
    """
    document = load_document(file)
    check_shape(document, _shape_of(document.value))
    value, seed = document.value, document.value.get("seed", 1)
    placed = load_plan(file.parent / value["plan"]) if "plan" in value else None
    topology = _topology(document, seed) if placed is None else topology_of(placed)
    load = (
        _given(document, file.parent, topology, placed, now, problems)
        if _is_given(value)
        else _drawn(document, topology)
    )
    failures = tuple(map(_failure, value.get("failures", [])))
    _check_failures(document, failures, topology, load.events)
    group = value.get("group_cover", {})
    with _about(document, "group_cover"):
        by = GroupStrategy(group.get("by", DEFAULT_CHECKING.strategy))
        budget, delta = group.get("budget", DEFAULT_CHECKING.budget), group.get("delta", DEFAULT_CHECKING.delta)
        checking = Checking(by, budget, delta=float(delta))
    strategy, jitter = Strategy(value.get("strategy", Strategy.REGULAR_COVER)), _duration(document, "jitter")
    plan = SimulationPlan(topology, strategy, checking, jitter, failures, seed, load)
    for _, advertisement in load.advertised:
        refusal = strategy.refusal(advertisement)
        if refusal is not None:
            at = "k" if "k" in value and not strategy.takes_k else "strategy"
            whose = f"advertisement {shown(advertisement.id)}: " if _is_given(value) else ""
            refuse(document, {(at,) if at in value else (): f"{whose}{refusal}"})
    with _about(document, "jitter" if jitter else next(key for key in ("topology", "links", "plan") if key in value)):
        check_links(topology, Settings(), jitter)
    return SimulationFile(plan, None if placed is None else map_of(placed))


def _drawn(document: Document, topology: Topology) -> DrawnLoad:
    value, publishers = document.value, _listed_publishers(document, topology, topology.edges[0])
    low, high = value.get("widths", WIDTHS)
    if low > high:
        refuse(document, {("widths",): f"{shown([low, high])} is not two shares of the domain in order"})
    waits = "failures" in value or "jitter" in value
    return DrawnLoad(
        value.get("k"),
        ranking_from_document(value.get("ranking", {})),
        value.get("subscribers", 1000),
        (float(low), float(high)),
        float(value.get("churn", 0)),
        value.get("publications", 100),
        tuple(publishers),
        _duration(document, "interval", default=A_SECOND if waits else NO_TIME),
    )


def _given(
    document: Document,
    folder: Path,
    topology: Topology,
    placed: PlacementPlan | None,
    now: datetime,
    problems: Problems,
) -> GivenLoad:
    """Return the load of the files that a file names: a line that is wrong is set aside, as by `rankcast match`."""
    value = document.value
    loaded = load_subscribers(folder / value["subscribers"])
    for problem in loaded.problems:
        problems.add(problem)
    more = folder / value["advertisements"] if "advertisements" in value else None
    declared = load_advertisements(more, loaded)
    events: list[Event] = []
    for name in [value["events"]] if isinstance(value["events"], str) else value["events"]:
        file, arrivals = str(folder / name), Arrivals(now)
        read = arrivals.stamped(problems.set_aside(read_events(file, loaded.schema)))
        events += problems.set_aside(admitted(read, declared, file))
        for problem in arrivals.warning(file):
            problems.add(problem)
    served = {name: broker.name for broker in (placed.brokers if placed else ()) for name in broker.subscribers}
    known = {str(held.id) for held in loaded.subscribers}
    places = {**served, **_places(document, topology, "places", known, problems)}
    homes = _homes(loaded.subscribers, places, topology)
    events = in_order(events)
    sources = dict.fromkeys([*(held.source for held in declared.all), *(event.source for event in events)])
    elsewhere = topology.edges[0] if placed is None else root_of(placed)
    if isinstance(value.get("publishers"), dict):
        stated = _places(document, topology, "publishers", set(sources), problems)
        at_broker = {source: stated.get(source, elsewhere) for source in sources}
    else:
        in_turn = cycle(_listed_publishers(document, topology, elsewhere))
        at_broker = dict(zip(sources, in_turn, strict=False))
    own = {held.source for held in declared.all}
    made = [Advertisement(AdvertisementId(f"all of {source}"), source) for source in sources if source not in own]
    advertised = Advertisements((*declared.all, *made))
    under = tuple((advertised.admit(event).advertisement, event) for event in events)
    return GivenLoad(
        tuple((at_broker[held.source], held) for held in advertised.all),
        tuple(zip(homes, loaded.subscribers, strict=True)),
        tuple((name, event) for name, event in under if name is not None),
    )


def _homes(subscribers: Iterable[Subscriber], places: Mapping[str, str], topology: Topology) -> list[str]:
    """Return the brokers of subscribers: where they are stated to be, and of the others all edges alike."""
    edges = topology.edges
    return [places.get(held.id, edges[at % len(edges)]) for at, held in enumerate(subscribers)]


def _places(document: Document, topology: Topology, key: str, known: set[str], problems: Problems) -> Mapping[str, str]:
    """Return the brokers that a file states for names; a name that nobody has is told, and changes nothing."""
    stated: Mapping[str, str] = document.value.get(key, {})
    for name, broker in stated.items():
        _check_broker(document, topology, broker, key, name)
    what = "subscriber" if key == "places" else "source"
    unknown = [
        Finding((key, name), f"there is no {what} {shown(name)}; {hint(name, sorted(known))}")
        for name in stated
        if name not in known
    ]
    for problem in locate(document, unknown):
        problems.add(problem)
    return stated


def _listed_publishers(document: Document, topology: Topology, otherwise: str) -> list[str]:
    """Return the brokers that publishers are at, as a list says."""
    publishers: list[str] = document.value.get("publishers", [otherwise])
    for at, name in enumerate(publishers):
        _check_broker(document, topology, name, "publishers", at)
    return publishers


def _check_broker(document: Document, topology: Topology, name: str, *path: str | int) -> None:
    with _about(document, *path):
        topology.neighbours(name)


def _duration(document: Document, *path: str | int, default: timedelta = NO_TIME) -> timedelta:
    """Return the duration at a place of the file; where there is none, the default."""
    given: Any = document.value
    try:
        for key in path:
            given = given[key]
    except LookupError:
        return default
    with _about(document, *path):
        found = parse_duration(given)
        if not NO_TIME <= found <= LONGEST:
            raise InvalidValueError(f"{shown(given)} is not a duration from 0s to {LONGEST_TEXT}")
    return found


def _topology(document: Document, seed: int) -> Topology:
    given = document.value.get("topology")
    with _about(document, "links" if given is None else "topology"):
        if given is None:
            links = enumerate(document.value["links"])
            delays = ((link, _duration(document, "links", at, 2, default=DELAY)) for at, link in links)
            return topology_of_links([Link(link[0], link[1], delay) for link, delay in delays])
        shape = SHAPES[given["shape"]]
        counts = [given[number] for number in shape.numbers]
        if shape.size(*counts) > MOST_BROKERS:
            raise InvalidValueError(f"more than {MOST_BROKERS:,} brokers")
        return shape.make(*counts, _duration(document, "topology", "delay", default=DELAY), seed)


def _failure(given: Mapping[str, Any]) -> Failure:
    brokers = tuple(given["cut"]) if "cut" in given else (given["crash"],)
    return Failure(brokers, given["after"], given.get("until"), given.get("keeps_state", False))


def _check_failures(document: Document, failures: tuple[Failure, ...], topology: Topology, publications: int) -> None:
    """Refuse what is not there, ends before it begins, or fails before it is back or after the last event."""
    for at, failure in enumerate(failures):
        find = topology.neighbours if failure.is_crash else topology.link
        with _about(document, "failures", at, "crash" if failure.is_crash else "cut"):
            find(*failure.brokers)
        with _about(document, "failures", at):
            if failure.until is not None and failure.until <= failure.after:
                raise InvalidValueError(f"until: {failure.until}; expected more than after, {failure.after}")
            if any(failure.overlaps(other) for other in failures[:at]):
                raise InvalidValueError("fails while it has already failed")
            if failure.after >= publications:
                there_are = f"there {'is' if publications == 1 else 'are'} only {counted(publications, 'event')}"
                raise InvalidValueError(f"fails after {counted(failure.after, 'event')}, but {there_are}")
