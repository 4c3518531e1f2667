"""Events that overtake each other on their way to a subscriber with a delivery policy.

What holds: policies take events as they arrive, at the time of the broker's clock, each with its own publication time,
exactly as a hub does that keeps nothing back; and events of one publisher arrive in the order they were published in,
unless counting holds some of them up.
"""

from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_bench import anything, subscriber
from rankcast.hub import Hub
from rankcast.language.parser import parse_filter
from rankcast.model.advertisements import Advertisement
from rankcast.model.events import Event
from rankcast.model.policies import Continuous
from rankcast.model.times import EARLIEST
from rankcast.overlay.broker import Broker, Settings
from rankcast.overlay.effects import Deliver
from rankcast.overlay.messages import Advertise, Publish, Subscribe
from rankcast.overlay.routing.strategies import Strategy
from rankcast.overlay.simulation.simulator import START, Simulation
from rankcast.overlay.simulation.topologies import chain
from rankcast.testing.conformance import cases, delivery_of

EVERYTHING = parse_filter("true")
SECOND = timedelta(seconds=1)


def handed(effects):
    return [delivery_of(one) for one in effects if isinstance(one, Deliver)]


@settings(max_examples=60)
@given(case=cases(everything=True), data=st.data())
def test_a_broker_delivers_what_a_hub_would_to_which_events_come_in_the_same_order(case, data):
    events = data.draw(st.permutations(case.events))
    start = max((event.time for event in events), default=START)
    hub = Hub(case.subscribers)
    broker = Broker("b", Settings(), np.random.default_rng(0))
    for name in dict.fromkeys(event.source for event in events):
        broker.handle(Advertise(Advertisement(name, name, EVERYTHING)), name, EARLIEST)
    for one in case.subscribers:
        broker.handle(Subscribe(one), one.id, EARLIEST)
    expected, found = [], []
    now = start
    for event in events:
        now += data.draw(st.integers(0, 3)) * SECOND
        expected += map(delivery_of, hub.publish(event, now=now))
        found += handed(broker.handle(Publish(event.source, event), event.source, now))
    now += data.draw(st.integers(0, 20)) * SECOND
    expected += map(delivery_of, [*hub.advance(now), *hub.finish()])
    found += handed([*broker.tick(now), *broker.finish()])
    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize(
    "strategy", [one for one in Strategy if one is not Strategy.EXACT_FAIR], ids=lambda one: one.value
)
def test_events_of_one_publisher_arrive_in_their_order_even_over_links_that_reorder(strategy):
    found = []
    overlay = Simulation(
        chain(4, 1), Settings(strategy), jitter=20 * SECOND / 1000, delivered=lambda _, one: found.append(one.event.id)
    )
    overlay.advertise("edge0.0", anything())
    overlay.subscribe("edge3.0", subscriber("ana", "true", deliver=Continuous(100)))
    overlay.settle()
    for number in range(40):
        overlay.publish("edge0.0", "a", Event(str(number), "/a"))
        overlay.run_for(SECOND / 1000)
    overlay.settle()
    assert found == [str(number) for number in range(40)]


def test_of_two_publishers_the_nearer_may_overtake():
    found = []
    overlay = Simulation(chain(4, 1), Settings(), delivered=lambda _, one: found.append(one.event.source))
    for name, where in (("far", "edge0.0"), ("near", "edge3.0")):
        overlay.advertise(where, anything(name))
    overlay.subscribe("edge3.0", subscriber("ana", "true", deliver=Continuous(1)))
    overlay.settle()
    overlay.publish("edge0.0", "far", Event("1", "/far"))
    overlay.publish("edge3.0", "near", Event("1", "/near"))
    overlay.settle()
    assert found == ["/near", "/far"]
