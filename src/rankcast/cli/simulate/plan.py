"""`rankcast simulate --plan`: a placement at work on simulated brokers, and whether the traffic is what was planned.

Every broker of the plan asks its parent for its filter; subscribers join their brokers with what they want. Events are
drawn as the plan says they are spread, and what goes into each broker is counted. That count is binomial: of n events a
share p, the broker's planned traffic over that of all events, so the standard error of the share is
sqrt(p (1 - p) / n). A broker *agrees* when the difference is within STANDARD_ERRORS of these, which by chance fails one
of 370 brokers. Counts of a few events are further off more often: these agree unless chance takes them so far as seldom
as that.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from statistics import NormalDist

import numpy as np

from rankcast.cli.output.streams import complain, write_json
from rankcast.cli.output.terminal import console, progress, table
from rankcast.cli.simulate.picture import NetworkLook, Places, draw_network
from rankcast.model.advertisements import Advertisement, AdvertisementId
from rankcast.model.errors import InvalidFileError, Problem, counted
from rankcast.model.events import Event
from rankcast.model.expressions import Expression, all_of, any_of, attr
from rankcast.model.filters import Filter
from rankcast.model.subscriptions import Subscriber, SubscriberId, Subscription, SubscriptionId
from rankcast.overlay.broker import Settings
from rankcast.overlay.messages import Advertise
from rankcast.overlay.simulation.simulator import Simulation
from rankcast.overlay.simulation.topologies import Link, Topology
from rankcast.placement.named.plan import Box, PlacementPlan, wrong_plan
from rankcast.storage.placement_files import load_placement_plan

STANDARD_ERRORS = 3.0

SLOWEST_LINK = 1000.0
"""Milliseconds: well within the heartbeats of brokers."""

FALSE_ALARM = 2 * NormalDist().cdf(-STANDARD_ERRORS)
"""How likely chance alone takes one broker further from its plan than that."""

_ADVERTISEMENT = AdvertisementId("planned")
_FILTER, _SUBSCRIBER = "filter ", "subscriber "
"""How the names of clients begin: those who ask for what a broker lets through, and those who are served."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """What went into one broker: the planned and the measured share of all events, how many errors they differ, and
    whether chance explains that."""

    broker: str
    planned: float
    measured: float
    errors: float
    agrees: bool


def simulate_plan(file: Path, publications: int, seed: int, plot: Path | None, *, limit: int, as_json: bool) -> int:
    """Run the command; return 1 when the traffic of a broker is not what was planned."""
    plan = load_plan(file)
    overlay = run_plan(plan, publications, seed, quiet=as_json)
    found = traffic_of(plan, overlay)
    if plot is not None:
        draw_network(plot, overlay.topology, [root_of(plan)], _look(plan, overlay))
    if as_json:
        write_json(_document(plan, overlay, found, plot))
    else:
        _show(plan, overlay, found, plot, limit)
    return 0 if all(traffic.agrees for traffic in found) else 1


def load_plan(file: Path) -> PlacementPlan:
    """Read a plan; raise InvalidFileError when its traffic is not that of its filters, or nothing can be worked out."""
    plan = PlacementPlan.from_document(load_placement_plan(file))
    if wrong := wrong_plan(plan):
        raise InvalidFileError(Problem(str(file), None, message) for message in wrong)
    return plan


def run_plan(plan: PlacementPlan, publications: int, seed: int, *, quiet: bool = True) -> Simulation:
    """Return the overlay of a plan after so many events."""
    overlay = Simulation(topology_of(plan), Settings(), seed=seed)
    advertised = Filter.of(all_of(*(attr(name).exists() for name in _neutral_names(plan))))
    overlay.advertise(root_of(plan), Advertise(Advertisement(_ADVERTISEMENT, "/planned", advertised)))
    overlay.settle()
    interests = [_filter(plan, boxes) for boxes in plan.interests]
    # What brokers let through goes first, as it covers all that comes after.
    joining = [
        (broker.name, f"{_FILTER}{broker.name}", _filter(plan, broker.filter))
        for broker in plan.brokers
        if broker.filter
    ]
    for broker in plan.brokers:
        served = zip(broker.subscribers, broker.wants, strict=True)
        joining += [(broker.name, f"{_SUBSCRIBER}{name}", interests[wanted]) for name, wanted in served]
    with progress("subscribing", total=len(joining), quiet=quiet) as bar:
        for home, name, wanted in bar.over(joining):
            overlay.subscribe(home, Subscriber(SubscriberId(name), (Subscription(SubscriptionId("1"), wanted),)))
            overlay.settle()
    overlay.measures.events_over.clear()
    with progress("publishing", total=publications, quiet=quiet) as bar:
        for event in bar.over(drawn_events(plan, publications, np.random.default_rng([seed, 2]))):
            overlay.publish(root_of(plan), _ADVERTISEMENT, event)
            overlay.settle()
    return overlay


def traffic_of(plan: PlacementPlan, overlay: Simulation) -> list[Traffic]:
    """Return what went into each broker, beside what was planned."""
    events = overlay.measures.published
    found = []
    for broker in plan.brokers:
        planned = min(1.0, broker.traffic / plan.everything)
        count = overlay.measures.events_over[broker.below or root_of(plan), broker.name]
        spread = math.sqrt(planned * (1 - planned) * events)
        difference = count - planned * events
        errors = difference / spread if spread else math.copysign(math.inf, difference) if round(difference) else 0.0
        agrees = abs(errors) <= STANDARD_ERRORS or _chance(count, events, planned) > FALSE_ALARM / 2
        found.append(Traffic(broker.name, planned, count / events, errors, agrees))
    return found


def _chance(count: int, events: int, share: float) -> float:
    """Return how likely at least so many of some events are, or at most so many when that is fewer than planned."""
    if not 0 < share < 1:
        return float(count == share * events)
    counts = range(count, events + 1) if count > share * events else range(count + 1)
    ways = math.lgamma(events + 1)
    goes_in, stays_out = math.log(share), math.log1p(-share)
    return math.fsum(
        math.exp(ways - math.lgamma(n + 1) - math.lgamma(events - n + 1) + n * goes_in + (events - n) * stays_out)
        for n in counts
    )


def deliveries_of(overlay: Simulation) -> int:
    """Return how many deliveries subscribers got; what the filters of brokers let through is none."""
    return sum(count for key, count in overlay.measures.deliveries.items() if key.subscriber.startswith(_SUBSCRIBER))


def topology_of(plan: PlacementPlan) -> Topology:
    """Return the brokers of a plan below one for the publisher; distances are milliseconds.

    Where the longest would take more than SLOWEST_LINK, all are as many times shorter: traffic does not depend on them,
    and the brokers would spend an eternity on telling each other that they are alive.
    """
    root = root_of(plan)
    places = {root: plan.publisher} | {broker.name: broker.at for broker in plan.brokers}
    ways = [(broker.below or root, broker.name) for broker in plan.brokers]
    lengths = [math.dist(places[above], places[name]) for above, name in ways]
    scale = min(1.0, SLOWEST_LINK / max(lengths)) if any(lengths) else 1.0
    delays = (timedelta(milliseconds=length * scale) for length in lengths)
    return Topology(tuple(places), tuple(Link(*way, delay) for way, delay in zip(ways, delays, strict=True)))


def _look(plan: PlacementPlan, overlay: Simulation) -> NetworkLook:
    """Return how a plan at work is drawn: by whom its brokers serve, and the events that went into them."""
    sizes = {root_of(plan): 0} | {broker.name: len(broker.subscribers) for broker in plan.brokers}
    serving = {name for name, size in sizes.items() if size}
    title = f"{plan.algorithm}: area = subscribers, width of links = events"
    return NetworkLook(title, sizes, serving, overlay.measures.events_over, map_of(plan))


def map_of(plan: PlacementPlan) -> Places:
    """Return where brokers are on a map of two directions: of more, those two in which they are furthest apart."""
    names = [root_of(plan), *(broker.name for broker in plan.brokers)]
    points = np.array([plan.publisher, *(broker.at for broker in plan.brokers)], float)
    points = np.pad(points, ((0, 0), (0, max(0, 2 - points.shape[1]))))
    if points.shape[1] > 2:
        points = points - points.mean(axis=0)
        points = points @ np.linalg.svd(points, full_matrices=False)[2][:2].T
    return {name: (float(across), float(up)) for name, (across, up) in zip(names, points, strict=True)}


def root_of(plan: PlacementPlan) -> str:
    """Return what the publisher's own broker is called: no other one is."""
    name = "publisher"
    while any(broker.name == name for broker in plan.brokers):
        name += "'"
    return name


def drawn_events(plan: PlacementPlan, count: int, random: np.random.Generator) -> Iterator[Event]:
    """Draw events as the plan says they are spread."""
    names = _neutral_names(plan)
    if plan.events:
        weights = np.array(plan.weights)
        points = np.array(plan.events)[random.choice(len(weights), count, p=weights / weights.sum())]
    else:
        low, high = np.array(list(plan.attributes.values()), float).T
        points = random.uniform(low, high, (count, len(names)))
    for number, point in enumerate(points.tolist()):
        yield Event(str(number), "/planned", data=dict(zip(names, point, strict=True)))


def _neutral_names(plan: PlacementPlan) -> tuple[str, ...]:
    """Return what the attributes are called here: an event's own `type` or `time` would hide a drawn one."""
    return tuple(f"x{number}" for number in range(len(plan.attributes)))


def _filter(plan: PlacementPlan, boxes: tuple[Box, ...]) -> Filter:
    names = dict(zip(plan.attributes, _neutral_names(plan), strict=True))

    def within(box: Box) -> Expression:
        return all_of(*(attr(neutral).between(*box[name]) for name, neutral in names.items()))

    return Filter.of(any_of(*map(within, boxes)))


def chance_of_alarm(brokers: int) -> float:
    """Return how likely chance alone takes some broker beyond its limits, were all independent."""
    return 1 - (1 - FALSE_ALARM) ** brokers


def _show(plan: PlacementPlan, overlay: Simulation, found: list[Traffic], plot: Path | None, limit: int) -> None:
    page, measures = console(), overlay.measures
    first = sorted(found, key=lambda traffic: (traffic.agrees, -traffic.planned, traffic.broker))[:limit]
    columns = {"Broker": "left", "Planned": "right", "Measured": "right", "Standard errors": "right"}
    rows = [(into.broker, f"{into.planned:.3%}", f"{into.measured:.3%}", f"{into.errors:+.2f}") for into in first]
    page.print(table("Share of events into each broker", columns, rows))
    page.print()
    served = sum(len(broker.subscribers) for broker in plan.brokers)
    page.print(
        f"{plan.algorithm}: {counted(len(found), 'broker')}, {counted(served, 'subscriber')}, "
        f"{counted(measures.published, 'event')}, {counted(deliveries_of(overlay), 'delivery', 'deliveries')}"
    )
    page.print(
        f"{sum(traffic.agrees for traffic in found):,} of {counted(len(found), 'broker')} agree with the plan; by "
        f"chance some would not with probability {chance_of_alarm(len(found)):.2g}"
    )
    if plot is not None:
        complain(f"wrote {plot}")


def _document(plan: PlacementPlan, overlay: Simulation, found: list[Traffic], plot: Path | None) -> dict[str, object]:
    return {
        "algorithm": plan.algorithm,
        "publications": overlay.measures.published,
        "deliveries": deliveries_of(overlay),
        "traffic": {
            traffic.broker: {
                "planned": traffic.planned,
                "measured": traffic.measured,
                "standard_errors": traffic.errors if math.isfinite(traffic.errors) else None,
                "agrees": traffic.agrees,
            }
            for traffic in found
        },
        "agrees": all(traffic.agrees for traffic in found),
        "false_alarm": chance_of_alarm(len(found)),
        "plot": None if plot is None else str(plot),
    }
