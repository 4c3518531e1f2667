"""`rankcast simulate`: an overlay of brokers in simulated time, what it sends and what it delivers.

The file says what is simulated:

    topology: {shape: chain, cores: 10, edges: 5, delay: 1ms}
    strategy: AncestorCoverK
    k: 10
    subscribers: 1000
    publications: 100

Whatever is wrong with it is told with its line: everything that does not have the shape, and then what the rest says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from enum import Enum
from pathlib import Path
from typing import Any

from rankcast.cli.output.streams import complain, printable, write_json
from rankcast.cli.output.terminal import console, progress, table
from rankcast.cli.simulate.picture import draw_network, knowledge
from rankcast.covering.group.cover import DEFAULT_CHECKING, Checking, GroupStrategy
from rankcast.model.advertisements import Scoring, Ties
from rankcast.model.errors import InvalidFileError, InvalidValueError, RankcastError, counted, shown
from rankcast.overlay.broker import Settings
from rankcast.overlay.routing.strategies import Strategy
from rankcast.overlay.simulation.plan import SHAPES, Failure, SimulationPlan, SimulationRun, advertisement_of
from rankcast.overlay.simulation.ranges import WIDTHS
from rankcast.overlay.simulation.simulator import check_links
from rankcast.overlay.simulation.topologies import DELAY, Link, Topology, topology_of
from rankcast.storage.document_schema import NAME, Shape, check_shape, listed, mapping, refuse
from rankcast.storage.documents import Document, load_document
from rankcast.storage.durations import parse_duration
from rankcast.storage.subscribers.advertisements import ranking_from_document

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
    """Return the shape of a mapping with exactly one of two keys."""
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
_REST: Mapping[str, Shape] = {
    "links": listed(_LINK, "a list of links such as [porto, lisbon, 5ms]"),
    "strategy": _member(Strategy),
    "group_cover": mapping([], by=_member(GroupStrategy), budget=_whole(0, 10**9), delta=_SHARE),
    "k": _whole(1),
    "ranking": mapping([], scoring=_member(Scoring), ties=_member(Ties)),
    "subscribers": _whole(0),
    "widths": {**listed(_SHARE, "two shares of the domain such as [0.3, 0.6]", 2), "maxItems": 2},
    "churn": _SHARE,
    "publications": _whole(0),
    "publishers": listed(NAME, "a list of brokers that publishers are at", 1),
    "interval": _DURATION,
    "jitter": _DURATION,
    "failures": listed(
        _either(_FAILURE, "a failure such as {crash: core1, after: 10, until: 20}", "crash", "cut"),
        "a list of crashes and cuts",
    ),
    "seed": _whole(0),
}
"""All that a file may say, but for a topology."""


def simulate_file(file: Path, plot: Path | None, *, limit: int, as_json: bool) -> int:
    """Run the command and return its exit code."""
    plan = load_plan(file)
    run = SimulationRun(plan)

    def watch(doing: str, numbers: range) -> Iterator[int]:
        with progress(doing, total=len(numbers), quiet=as_json) as bar:
            yield from bar.over(numbers)

    run.go(watch)
    if plot is not None:
        draw_network(plot, plan.topology, plan.publishers, knowledge(run.overlay))
    if as_json:
        write_json(_document(run, plot))
    else:
        _show(run, plot, limit)
    return 0


def _shape_of(value: object) -> Shape:
    """Return the shape of a file, which follows that of its topology: each has numbers of its own."""
    given = value.get("topology") if isinstance(value, dict) else None
    name = given.get("shape") if isinstance(given, dict) else None
    numbers = SHAPES[name].numbers if isinstance(name, str) and name in SHAPES else ()
    may_have = numbers or {number for shape in SHAPES.values() for number in shape.numbers}
    counts = {number: _whole(0, MOST_BROKERS) for number in may_have}
    topology = mapping(["shape", *numbers], shape=_choice(SHAPES), delay=_DURATION, **counts)
    return _either(mapping([], topology=topology, **_REST), "a mapping with a topology or links", "topology", "links")


@contextmanager
def _about(document: Document, *path: str | int) -> Iterator[None]:
    """Tell what is refused within the block with its line."""
    try:
        yield
    except InvalidFileError:
        raise
    except RankcastError as error:
        refuse(document, {path: str(error)})


def load_plan(file: Path) -> SimulationPlan:
    """Read a file; raise InvalidFileError, with lines, when something is wrong with it."""
    document = load_document(file)
    check_shape(document, _shape_of(document.value))
    value, seed = document.value, document.value.get("seed", 1)
    topology, failures = _topology(document, seed), tuple(map(_failure, value.get("failures", [])))
    publications, publishers = value.get("publications", 100), value.get("publishers", [topology.edges[0]])
    for at, name in enumerate(publishers):
        with _about(document, "publishers", at):
            topology.neighbours(name)
    _check_failures(document, failures, topology, publications)
    group, ranking = value.get("group_cover", {}), value.get("ranking", {})
    low, high = value.get("widths", WIDTHS)
    if low > high:
        refuse(document, {("widths",): f"{shown([low, high])} is not two shares of the domain in order"})
    with _about(document, "group_cover"):
        strategy = GroupStrategy(group.get("by", DEFAULT_CHECKING.strategy))
        budget, delta = group.get("budget", DEFAULT_CHECKING.budget), group.get("delta", DEFAULT_CHECKING.delta)
        checking = Checking(strategy, budget, delta=float(delta))
    plan = SimulationPlan(
        topology,
        Strategy(value.get("strategy", Strategy.REGULAR_COVER)),
        checking,
        value.get("k"),
        ranking_from_document(ranking),
        value.get("subscribers", 1000),
        (float(low), float(high)),
        float(value.get("churn", 0)),
        publications,
        tuple(publishers),
        _duration(document, "interval", default=A_SECOND if failures or "jitter" in value else NO_TIME),
        _duration(document, "jitter"),
        failures,
        seed,
    )
    refusal = plan.strategy.refusal(advertisement_of(plan))
    if refusal is not None:
        refuse(document, {("k" if plan.k is not None and not plan.strategy.takes_k else "strategy",): refusal})
    with _about(document, "jitter" if plan.jitter else "topology" if "topology" in value else "links"):
        check_links(plan.topology, Settings(), plan.jitter)
    return plan


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
            return topology_of([Link(link[0], link[1], delay) for link, delay in delays])
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


def _show(run: SimulationRun, plot: Path | None, limit: int) -> None:
    plan, overlay = run.plan, run.overlay
    page, measures = console(), overlay.measures
    sizes = overlay.table_sizes()
    columns = {"Broker": "left", "Knows": "right", "Own": "right", "Messages in": "right"}
    busiest = sorted(sizes, key=lambda name: (-sizes[name], name))[:limit]
    rows = [
        (name, f"{sizes[name]:,}", f"{sizes[name] - overlay.received(name):,}", f"{measures.handled[name]:,}")
        for name in busiest
    ]
    page.print(table("Brokers, by what they know", columns, rows))
    page.print()
    kinds = sorted(measures.messages, key=lambda kind: (-measures.messages[kind], kind))
    sent = [(kind, f"{measures.messages[kind]:,}", f"{measures.bytes[kind]:,}") for kind in kinds]
    page.print(table("Messages between them", {"Kind": "left", "Number": "right", "Bytes": "right"}, sent))
    page.print()
    page.print(f"{_routing(plan)}: {counted(len(plan.topology.brokers), 'broker')}, seed {plan.seed}")
    if down := _down(run):
        page.print(f"down at the end: {', '.join(map(printable, down))}")
    for publisher in dict.fromkeys(plan.publishers):
        if publisher in sizes:
            known = overlay.received(publisher)
            share = 100 * known / run.present if run.present else 0.0
            page.print(f"{publisher} was told {known:,} of {counted(run.present, 'subscription')} ({share:.2f}%)")
    page.print(
        f"{counted(plan.publications, 'event')} published, {counted(measures.delivered, 'delivery', 'deliveries')}"
        + _missing(run)
    )
    if measures.delivered:
        half, most = (f"{1000 * measures.latency(part):.1f}" for part in (0.5, 0.99))
        ways = counted(max(measures.hops), "link")
        page.print(f"half of them within {half} ms, 99% within {most} ms, over at most {ways}")
    if plot is not None:
        complain(f"wrote {plot}")


def _routing(plan: SimulationPlan) -> str:
    """Return how events are routed, and to whom when they are for k."""
    if plan.k is None:
        return plan.strategy.value
    by = "at random" if plan.ranking.ties is Ties.FAIR else "by id"
    if plan.ranking.scoring is not Scoring.NONE:
        by = f"by {plan.ranking.scoring.value}"
    return f"{plan.strategy.value}, k={plan.k} {by}"


def _down(run: SimulationRun) -> list[str]:
    """Return the brokers that have crashed and not come back."""
    return [name for name in run.plan.topology.brokers if name not in run.overlay.brokers]


def _missing(run: SimulationRun) -> str:
    """Return how many deliveries one central matcher would have made, where the brokers made fewer, and why."""
    if run.overlay.measures.delivered == run.expected:
        return ""
    if not run.plan.failures:
        return f" of {run.expected:,}"
    # With a k others get what somebody beyond a failure should have got, as long as there are enough.
    why = "failures cost the rest" if run.plan.k is None else "through failures nobody got the rest"
    return f" of {run.expected:,}; {why}"


def _document(run: SimulationRun, plot: Path | None) -> dict[str, object]:
    plan, overlay, measures = run.plan, run.overlay, run.overlay.measures
    work = overlay.matching_work()
    return {
        "strategy": plan.strategy.value,
        "k": plan.k,
        "ranking": {"scoring": plan.ranking.scoring.value, "ties": plan.ranking.ties.value},
        "seed": plan.seed,
        "subscribers": plan.subscribers,
        "publications": plan.publications,
        "publishers": {
            name: {"told": overlay.received(name) if name in overlay.brokers else None} for name in plan.publishers
        },
        "brokers": {
            name: {
                "knows": size,
                "own": size - overlay.received(name),
                "messages": measures.handled[name],
                "searched": work[name][0],
                "found": work[name][1],
            }
            for name, size in overlay.table_sizes().items()
        },
        "down": _down(run),
        "links": [
            {"from": way[0], "to": way[1], "messages": measures.over_links[way], "events": measures.events_over[way]}
            for link in plan.topology.links
            for way in ((link.one, link.other), (link.other, link.one))
        ],
        "messages": dict(sorted(measures.messages.items())),
        "bytes": dict(sorted(measures.bytes.items())),
        "rejected": dict(sorted(measures.rejected.items())),
        "deliveries": measures.delivered,
        "expected_deliveries": run.expected,
        "deliveries_per_subscription": _tally(Counter(measures.deliveries.values())),
        "hops": _tally(measures.hops),
        "latency_seconds": {str(part): measures.latency(part) for part in (0.5, 0.9, 0.99)},
        "plot": None if plot is None else str(plot),
    }


def _tally(counts: Counter[int]) -> dict[str, int]:
    return {str(number): times for number, times in sorted(counts.items())}
