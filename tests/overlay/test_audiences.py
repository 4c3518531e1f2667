"""Through a whole overlay, the audience of an event is the one that a central broker with all subscriptions chooses."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_bench import anything, subscriber
from rankcast.language.parser import parse_filter
from rankcast.matching.naive import matches
from rankcast.model.advertisements import AudienceRanking, Scoring, Ties
from rankcast.model.errors import InvalidMessageError
from rankcast.model.events import Event
from rankcast.model.policies import Continuous, Sliding
from rankcast.model.relevance import Closeness, Cosine, Target
from rankcast.model.subscriptions import Subscriber, Subscription, SubscriptionKey
from rankcast.overlay import snapshots
from rankcast.overlay.broker import Settings
from rankcast.overlay.messages import Interest
from rankcast.overlay.routing.audiences import choose
from rankcast.overlay.routing.interests import Record
from rankcast.overlay.routing.strategies import Strategy
from rankcast.overlay.simulation.simulator import Simulation
from rankcast.overlay.simulation.topologies import chain, random_tree
from rankcast.overlay.snapshots import restored, snapshot
from written_forms import spoil

COUNTING = (Strategy.REGULAR_K, Strategy.RANK_COVER_K, Strategy.ANCESTOR_COVER_K, Strategy.ANCESTOR_FAIR_K)
EVERYTHING = parse_filter("true")


@st.composite
def subscriptions(draw):
    low, high = sorted((draw(st.integers(0, 9)), draw(st.integers(0, 9))))
    near = Closeness([Target("y", draw(st.integers(0, 3)), scale=4)])
    alike = Cosine("v", (1.0, draw(st.sampled_from([-1.0, 0.5]))))
    relevance = draw(st.sampled_from([None, None, near, alike]))
    rank = draw(st.sampled_from([0.25, 0.5, 1.0]))
    return Subscription("1", parse_filter(f"x between {low} and {high}"), rank, relevance=relevance)


@st.composite
def published(draw):
    data = {"x": draw(st.integers(0, 9))}
    if draw(st.booleans()):
        data["y"] = draw(st.integers(0, 3))
    if draw(st.booleans()):
        data["v"] = [1, draw(st.integers(0, 2))]
    return data


@pytest.mark.parametrize("scoring", Scoring)
@settings(max_examples=25)
@given(
    strategy=st.sampled_from(COUNTING),
    wanted=st.lists(subscriptions(), max_size=12),
    events=st.lists(published(), min_size=1, max_size=4),
    k=st.integers(1, 3),
    seed=st.integers(0, 9),
)
def test_the_audience_is_the_one_a_central_broker_chooses(scoring, strategy, wanted, events, k, seed):
    random, found = np.random.default_rng(seed), []
    topology = random_tree(5, random)
    ranking = AudienceRanking(scoring, Ties.BY_ID)
    overlay = Simulation(topology, Settings(strategy), delivered=lambda _, one: found.append(one))
    overlay.advertise("b3", anything(k=k, ranking=ranking))
    records = []
    for number, one in enumerate(wanted):
        overlay.subscribe(str(random.choice(topology.brokers)), Subscriber(f"s{number}", (one,)))
        records.append((one, Record(None, Interest.of(f"s{number}", one, one.rank))))
    overlay.settle()
    for number, data in enumerate(events):
        event = Event(str(number), "/a", data=data)
        best = choose([record for one, record in records if matches(one, event)], k, ranking, event)
        found.clear()
        overlay.publish("b3", "a", event)
        overlay.settle()
        assert sorted(one.subscriber for one in found) == sorted(best)


@pytest.mark.parametrize("strategy", [*COUNTING, Strategy.EXACT_FAIR])
def test_one_event_may_ask_for_a_smaller_audience(strategy):
    overlay = Simulation(chain(3, 1), Settings(strategy))
    overlay.advertise("core0", anything(k=4))
    for number, broker in enumerate(overlay.topology.brokers * 3):
        overlay.subscribe(broker, subscriber(f"s{number}", "true"))
    overlay.settle()
    for k in (None, 3, 1, 0):
        before = overlay.measures.delivered
        overlay.publish("core0", "a", Event(f"with {k}", "/a"), k)
        overlay.settle()
        assert overlay.measures.delivered - before == (4 if k is None else k)


def test_the_consumers_k_counts_among_what_the_producers_k_lets_through():
    """The best of two gets every event of a k of 1; its own policy then delivers only what is better than before."""
    found = []
    ranking = AudienceRanking(Scoring.PREFERENCE, Ties.BY_ID)
    overlay = Simulation(chain(2, 1), Settings(Strategy.ANCESTOR_COVER_K), delivered=lambda _, one: found.append(one))
    overlay.advertise("core0", anything(k=1, ranking=ranking))
    good, better = (
        Subscription("good", parse_filter("x >= 0"), 0.5),
        Subscription("better", parse_filter("x >= 5"), 0.9),
    )
    overlay.subscribe("edge1.0", Subscriber("ana", (good, better), Continuous(1)))
    overlay.subscribe("edge0.0", Subscriber("bo", (Subscription("1", EVERYTHING, 0.1),)))
    overlay.settle()
    for number, x in enumerate((1, 7, 2, 8)):
        overlay.publish("core0", "a", Event(str(number), "/a", data={"x": x}))
        overlay.settle()
    assert [(one.subscriber, one.event.id, one.rank) for one in found] == [
        ("ana", "0", 0.5),
        ("ana", "1", 0.9),
        ("ana", "3", 0.9),
    ]
    assert overlay.measures.deliveries[SubscriptionKey("bo", "0")] == 0


def snapshot_of_a_broker_at_work():
    overlay = Simulation(chain(2, 1), Settings(Strategy.EXACT_FAIR))
    overlay.advertise("core0", anything(k=2))
    overlay.subscribe("core1", subscriber("ana", "true", deliver=Sliding(1, 3)))
    overlay.subscribe("edge1.0", subscriber("bo", "true"))
    overlay.settle()
    overlay.publish("core0", "a", Event("1", "/a", data={"x": 1}))
    overlay.settle()
    return snapshot(overlay.brokers["core1"])


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_a_damaged_snapshot_is_refused(place, change):
    damaged = bytearray(snapshot_of_a_broker_at_work())
    damaged[place % len(damaged)] ^= change
    with pytest.raises(InvalidMessageError):
        restored(bytes(damaged))


@given(st.data())
def test_a_snapshot_that_was_written_wrong_is_refused_or_is_another_broker(data):
    plain = json.loads(snapshot_of_a_broker_at_work().partition(b"\n")[2])
    spoil(plain, data)
    state = json.dumps(plain).encode()
    try:
        back = restored(snapshots._about(state) + state)
    except InvalidMessageError:
        return
    assert restored(snapshot(back)).name == back.name
