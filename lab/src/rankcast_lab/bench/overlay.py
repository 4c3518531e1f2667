"""A whole overlay, strategy by strategy, against one central broker that has everything.

Subscribers of ranges join the edges of sixty brokers, ten core brokers in a chain with five edge brokers each, all
simulated in one process; then a publisher publishes. Three cases:

- `all`: every match gets the event;
- `best k`: the k with the highest ranks do, equals by id;
- `fair k`: k do, each as likely as any other, as far as the strategy is fair.

What is delivered is compared with an oracle that knows all ranges: the same subscriptions, or with `fair k` as many as
there should be, all of them matches. Cost is CPU of one thread for all brokers together, deliveries included, so
`central` shows what sixty brokers cost more than one: what they save is traffic and tables, which the figures tell.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from rankcast.arrays import Array
from rankcast.model.advertisements import FAIRNESS, AudienceRanking, Scoring, Ties
from rankcast.overlay.broker import Settings as BrokerSettings
from rankcast.overlay.effects import Deliver
from rankcast.overlay.routing.strategies import Strategy
from rankcast.overlay.simulation.ranges import Ranges, ranges
from rankcast.overlay.simulation.simulator import Simulation
from rankcast.overlay.simulation.topologies import chain
from rankcast_lab.bench.registry import Settings
from rankcast_lab.bench.report import Bound, Comparison, Figure, Report, Row
from rankcast_lab.bench.timing import timed
from rankcast_lab.workloads.overlays import CORES, EDGES, Audience, subscriber_of

SUBSCRIPTIONS, EVENTS = 5_000, 50
QUICK_SUBSCRIPTIONS, QUICK_EVENTS = 300, 10
WARM_UP = 60
"""Subscriptions of a run that only compiles the kernels."""

K = 10
LARGE, MOST_SECONDS = 50_000, 180.0
"""So many subscribers have to be set up within so many seconds, with AncestorCoverK and k = 10."""

CENTRAL = "central"
BEST = AudienceRanking(Scoring.PREFERENCE, Ties.BY_ID)


@dataclass(frozen=True, slots=True)
class Case:
    """Who gets an event, and which strategies can do that."""

    name: str
    k: int | None
    ranking: AudienceRanking
    strategies: tuple[Strategy, ...]


COVERING_K = (Strategy.REGULAR_K, Strategy.RANK_COVER_K, Strategy.ANCESTOR_COVER_K)
CASES = (
    Case(
        "all",
        None,
        FAIRNESS,
        (Strategy.FLOODING, Strategy.REGULAR_K, Strategy.REGULAR_COVER, Strategy.GROUP_COVER),
    ),
    Case(f"best {K}", K, BEST, COVERING_K),
    Case(f"fair {K}", K, FAIRNESS, (*COVERING_K, Strategy.ANCESTOR_FAIR_K, Strategy.EXACT_FAIR)),
)


def run(settings: Settings) -> Report:
    """Measure every strategy in the cases it can do."""
    count = settings.subscriptions[0] if settings.subscriptions else SUBSCRIPTIONS
    events = settings.events or EVENTS
    report = Report("overlay")
    for case in CASES:
        _measure(case, _drawn(WARM_UP, settings.seed), 3, settings, Report("warm-up"))
        _measure(case, _drawn(count, settings.seed), events, settings, report)
    return report


def _drawn(count: int, seed: int) -> Audience:
    random = np.random.default_rng(seed)
    made = ranges(count, random)
    audience = Audience.spread(chain(CORES, EDGES), made, random)
    ranks = np.round(random.random(count), 2)  # few enough that there are equals
    return Audience(audience.topology, audience.publisher, made, audience.homes, tuple(ranks.tolist()))


def _alone(audience: Audience) -> Audience:
    """Return the same subscribers at one broker."""
    topology = chain(1, 0)
    (only,) = topology.brokers
    return Audience(topology, only, audience.ranges, (only,) * len(audience.homes), audience.ranks)


def _measure(case: Case, audience: Audience, events: int, settings: Settings, report: Report) -> None:
    values = np.random.default_rng([settings.seed, 1]).random(events)
    name = f"{case.name}, {len(audience.homes):,} subscribers"
    engines: dict[str, tuple[Strategy, Audience]] = {one.value: (one, audience) for one in case.strategies}
    engines[CENTRAL] = Strategy.REGULAR_K, _alone(audience)
    for engine, (strategy, where) in engines.items():
        if report.bench == "overlay":
            settings.say(f"{name}: {engine}")
        found: dict[str, list[int]] = {}
        overlay = where.advertised(
            BrokerSettings(strategy), case.k, case.ranking, seed=settings.seed, delivered=partial(_note, found)
        )
        build, _ = timed(partial(where.subscribe, overlay))
        at_first = _Sent.of(overlay)
        where.publish(overlay, "first", 0.5)  # with it brokers compile their indexes
        overlay.measures.latencies.clear()
        before = _Sent.of(overlay)
        seconds, _ = timed(partial(_publish, overlay, where, values.tolist()))
        row = Row(name, engine, seconds / events * 1e6, build, None, len(overlay.measures.latencies) / events)
        report.rows.append(row)
        report.figures += _table_figures(name, engine, overlay)
        if engine != CENTRAL:
            report.figures += _traffic_figures(name, engine, at_first, build, before.until(overlay), seconds, events)
        report.comparisons.append(_compared(name, engine, case, where, values, found))
        if (len(audience.homes), strategy, engine) == (LARGE, Strategy.ANCESTOR_COVER_K, strategy.value):
            report.require(f"{name}: {engine}: seconds of set-up", Bound.BELOW, MOST_SECONDS, build)


def _note(found: dict[str, list[int]], _broker: str, deliver: Deliver) -> None:
    found.setdefault(deliver.event.id, []).append(int(deliver.subscriber[1:]))


def _publish(overlay: Simulation, audience: Audience, values: list[float]) -> None:
    for number, value in enumerate(values):
        audience.publish(overlay, str(number), value)


@dataclass(frozen=True, slots=True)
class _Sent:
    """What has been sent so far."""

    messages: int
    bytes: int

    @staticmethod
    def of(overlay: Simulation) -> _Sent:
        return _Sent(sum(overlay.measures.messages.values()), sum(overlay.measures.bytes.values()))

    def until(self, overlay: Simulation) -> _Sent:
        """Return what has been sent since."""
        now = _Sent.of(overlay)
        return _Sent(now.messages - self.messages, now.bytes - self.bytes)


def _table_figures(case: str, engine: str, overlay: Simulation) -> list[Figure]:
    sizes = overlay.table_sizes()
    return [
        Figure(case, f"{engine}: subscriptions at all brokers", sum(sizes.values()), ""),
        Figure(case, f"{engine}: subscriptions at the largest table", max(sizes.values()), ""),
        Figure(case, f"{engine}: told to the publisher's broker", overlay.received(overlay.topology.edges[0]), ""),
    ]


def _traffic_figures(
    case: str, engine: str, at_first: _Sent, build: float, sent: _Sent, seconds: float, events: int
) -> list[Figure]:
    return [
        Figure(case, f"{engine}: messages of set-up", at_first.messages, ""),
        Figure(case, f"{engine}: messages of set-up per second", at_first.messages / build, "1/s"),
        Figure(case, f"{engine}: messages per event", sent.messages / events, ""),
        Figure(case, f"{engine}: bytes per event", sent.bytes / events, ""),
        Figure(case, f"{engine}: messages per second", sent.messages / seconds, "1/s"),
        Figure(case, f"{engine}: events per second", events / seconds, "1/s"),
    ]


def _compared(
    name: str, engine: str, case: Case, audience: Audience, values: Array, found: dict[str, list[int]]
) -> Comparison:
    """Compare what was delivered with what all ranges say."""
    difference = ""
    for number, value in enumerate(values.tolist()):
        got = found.get(str(number), [])
        matching = np.flatnonzero(_accepts(audience.ranges, value)).tolist()
        if case.ranking is BEST:
            ranks = audience.ranks or ()
            matching = sorted(matching, key=lambda one: (-ranks[one], subscriber_of(one)))[: case.k]
        due = len(matching) if case.k is None else min(case.k, len(matching))
        right = len(got) == len(set(got)) == due and set(got) <= set(matching)
        if not right:
            difference = f"event {number}: {len(got):,} delivered, {len(set(got) - set(matching)):,} of them wrongly"
            break
    return Comparison(name, engine, "all ranges", len(values), not difference, difference)


def _accepts(made: Ranges, value: float) -> Array:
    accepted: Array = np.all((made.starts <= value) & (made.ends >= value), axis=1)
    return accepted
