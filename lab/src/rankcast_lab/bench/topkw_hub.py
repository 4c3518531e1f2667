"""The part of `rankcast bench topkw` that is about a hub: many subscribers without a filter, each with an ideal point.

Their queues share a window (`rankcast.hub.dense`); the same commands go to a hub core that serves every queue alone.
Windows are filled first. What both deliver is compared, all of it, filling included. CPU time of one thread, the best
of several stretches of events.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import partial

import numpy as np

from rankcast.hub.commands import HubState, MemberState, Publish
from rankcast.hub.core import Core
from rankcast.hub.results import Notification
from rankcast.language.parser import parse_filter
from rankcast.model.events import Event
from rankcast.model.policies import Policy, Sliding, TopKWindow
from rankcast.model.relevance import IdealPoint, Target
from rankcast.model.subscriptions import Subscriber, SubscriberId, Subscription, SubscriptionId
from rankcast_lab.bench.registry import Settings
from rankcast_lab.bench.report import Bound, Comparison, Figure, Report, Row
from rankcast_lab.bench.timing import timed

SUBSCRIBERS = 1_000
K, WINDOW = 10, 100
SPACING = timedelta(milliseconds=1)
START = datetime(2026, 1, 1, tzinfo=UTC)

POLICIES: Mapping[str, Policy] = {
    "topkw-count": TopKWindow(K, WINDOW),
    "topkw-time": TopKWindow(K, WINDOW * SPACING),
    "sliding": Sliding(K, WINDOW),
}
WARM_UP, STRETCH, REPEATS = 120, 20, 3
"""Events before anything is measured, and events of each stretch that is."""

NOBODY_SHARES = 10**9
LEAST_TIMES_FASTER = 10.0


def measure(settings: Settings, report: Report) -> None:
    """Measure every policy that queues can share a window under."""
    generator = np.random.default_rng(settings.seed)
    ideals = generator.random((SUBSCRIBERS, 2)).tolist()
    points = generator.random((WARM_UP + REPEATS * STRETCH, 2)).tolist()
    for name, policy in POLICIES.items():
        case = f"hub {name} {SUBSCRIBERS:,}"
        settings.say(f"{case}: publishing")
        members = (MemberState.new(_subscriber(at, x, y, policy)) for at, (x, y) in enumerate(ideals))
        _measure(case, HubState(members=tuple(members)), points, report)
        ratio = report.ratio(case, "alone", "together")
        report.require(f"{case}: alone / together", Bound.AT_LEAST, LEAST_TIMES_FASTER, ratio)


def _measure(case: str, state: HubState, points: list[list[float]], report: Report) -> None:
    cores = {"together": Core(state), "alone": Core(state, fewest=NOBODY_SHARES)}
    best = dict.fromkeys(cores, math.inf)
    delivered, difference = 0, ""
    for start, end in _stretches(len(points)):
        found = {}
        for engine, core in cores.items():
            core.tells_matches = False
            seconds, found[engine] = timed(partial(_publish, core, points, start, end))
            if start >= WARM_UP:
                best[engine] = min(best[engine], seconds / (end - start) * 1e6)
        delivered += len(found["together"]) * (start >= WARM_UP)
        if found["together"] != found["alone"] and not difference:
            difference = f"events {start:,} to {end:,}: other deliveries"
    report.rows += [Row(case, engine, cost) for engine, cost in best.items()]
    report.add([Comparison(case, "together", "alone", len(points), not difference, difference)])
    share = delivered / (REPEATS * STRETCH * SUBSCRIBERS)
    report.figures.append(Figure(case, "delivered of all events to all subscribers", share, ""))


def _stretches(events: int) -> list[tuple[int, int]]:
    starts = [0, *range(WARM_UP, events, STRETCH)]
    return list(zip(starts, [*starts[1:], events], strict=True))


def _subscriber(number: int, x: float, y: float, policy: Policy) -> Subscriber:
    wanted = IdealPoint((Target("x", x), Target("y", y)))
    subscription = Subscription(SubscriptionId("1"), parse_filter("true"), relevance=wanted)
    return Subscriber(SubscriberId(f"s{number}"), (subscription,), policy)


def _publish(core: Core, points: list[list[float]], start: int, end: int) -> list[Notification]:
    found: list[Notification] = []
    for number in range(start, end):
        now = START + number * SPACING
        x, y = points[number]
        event = Event.of({"x": x, "y": y, "time": now}, id=f"{number:06}", source="/bench")
        found += (note for _, note in core.apply(Publish(event, now, closed=True, next_id=1)).delivered)
    return found
