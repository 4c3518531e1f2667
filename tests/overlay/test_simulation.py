"""A whole overlay in simulated time: trees of brokers, ranges that cover one another, the simulator."""

from datetime import timedelta
from itertools import count

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_bench import anything, interest, subscriber
from rankcast.language.parser import parse_filter
from rankcast.model.errors import InvalidValueError, UnknownIdError
from rankcast.model.events import Event
from rankcast.model.subscriptions import SubscriptionKey
from rankcast.overlay.broker import Settings
from rankcast.overlay.messages import (
    CountQuery,
    CountReply,
    Forward,
    Packet,
    Publish,
    Reset,
    ScoreCount,
    Session,
    encoded,
)
from rankcast.overlay.routing.strategies import Strategy
from rankcast.overlay.simulation.ranges import ranges
from rankcast.overlay.simulation.simulator import Simulation, Sizes
from rankcast.overlay.simulation.topologies import Link, Topology, balanced_tree, chain, random_tree, star

MILLISECOND = timedelta(milliseconds=1)


def overlay(strategy, topology=None, people=60, k=None, seed=0, **options):
    """Return an overlay with a publisher at its first broker and subscribers of intervals all over."""
    topology = chain(3, 2) if topology is None else topology
    settings = options.pop("settings", None) or Settings(strategy)
    made = Simulation(topology, settings, seed=seed, **options)
    made.advertise(topology.brokers[0], anything(k=k))
    random = np.random.default_rng(seed)
    for number in range(people):
        width = random.uniform(0.3, 0.6)
        start = random.uniform(0, 1 - width)
        wanted = subscriber(f"s{number}", f"x between {start} and {start + width}")
        made.subscribe(topology.brokers[number % len(topology.brokers)], wanted)
    made.settle()
    return made


def publish(made, count, seed=1):
    random = np.random.default_rng(seed)
    home = made.topology.brokers[0]
    for number in range(count):
        made.publish(home, "a", Event(f"{seed}-{number}", "/a", data={"x": float(random.uniform())}))
        made.settle()


def each_takes(seconds):
    """Return a stopwatch by which every message takes so long: it is read before and after each."""
    return map(seconds.__mul__, count()).__next__


def test_the_same_seed_gives_the_same_simulation():
    runs = []
    for _ in range(2):
        made = overlay(Strategy.ANCESTOR_FAIR_K, k=3, jitter=MILLISECOND)
        publish(made, 20)
        made.run_for(timedelta(seconds=30))
        publish(made, 20, seed=2)
        runs.append(made.measures)
    assert runs[0] == runs[1]


def test_latency_is_links_and_work_and_hops_are_counted():
    topology = Topology(("a", "b", "c"), (Link("a", "b", 10 * MILLISECOND), Link("b", "c", 5 * MILLISECOND)))
    for stopwatch, expected in ((None, 0.015), (each_takes(0.001), 0.018)):
        made = Simulation(topology, Settings(), stopwatch=stopwatch)
        made.advertise("a", anything())
        made.subscribe("c", subscriber("ana", "true"))
        made.settle()
        made.run_for(timedelta(seconds=1))
        made.publish("a", "a", Event("1", "/a"))
        made.settle()
        assert made.measures.latencies == pytest.approx([expected])
        assert made.measures.hops == {2: 1}
        assert made.measures.deliveries == {SubscriptionKey("ana", "0"): 1}
        assert made.table_sizes() == {"a": 1, "b": 1, "c": 1}
        assert made.matching_work()["b"] == (1, 1)
        assert made.measures.messages["Publish"] == 2
        assert made.measures.over_links["a", "b"] == 5  # Connect, Reset, Synced, Advertise, Publish


def test_a_busy_broker_lets_messages_wait():
    quiet = Settings(heartbeat=timedelta(days=1), link_lease=timedelta(days=9))
    made = overlay(Strategy.REGULAR_COVER, star(1), people=0, settings=quiet, stopwatch=each_takes(1.0))
    made.run_for(timedelta(seconds=60))
    made.subscribe("edge0", subscriber("ana", "true"))
    made.settle()
    made.run_for(timedelta(seconds=60))
    for number in range(3):
        made.publish("core", "a", Event(str(number), "/a"))
    made.settle()
    assert made.measures.latencies == pytest.approx([2.001, 3.001, 4.001])


def test_work_can_be_measured_by_a_stopwatch():
    made = overlay(Strategy.REGULAR_COVER, star(1), people=2, stopwatch=each_takes(0.5))
    publish(made, 1)
    assert made.measures.busy["core"] == 0.5 * made.measures.handled["core"]
    assert all(latency >= 0.5 for latency in made.measures.latencies)


def test_bytes_are_those_of_the_wire():
    sizes = Sizes()
    for session, number, weights in (
        (Session(1, 2), 3, ()),
        (Session(12, 345), 67890, ()),
        (Session(1, 1), 1, (("a", 2.5),)),
    ):
        packet = Packet(session, number, Forward(interest(text="city = 'Évora'"), weights))
        assert sizes.of(packet) == len(encoded(packet))
    for event in (Event("1", "/a", data={"x": 1}), Event("2", "/a", data={"city": "Évora"})):
        for held in (
            Publish("a", event),
            Publish("a", event, 12),
            Publish("a", event, 1, (SubscriptionKey("ana", "0"),)),
            CountQuery("a", event),
            CountReply("/a", event.id),
            CountReply("/a", event.id, (ScoreCount(0.0, 123),)),
            Reset(),
        ):
            packet = Packet(Session(1, 20), 300, held)
            assert sizes.of(packet) == sizes.of(packet) == len(encoded(packet))


def test_cut_links_and_crashed_brokers_come_back():
    made = overlay(Strategy.REGULAR_COVER, chain(3, 1))
    publish(made, 10, seed=1)
    before = dict(made.measures.deliveries)
    made.cut("core0", "core1")
    publish(made, 10, seed=2)
    near = {key for key, count in made.measures.deliveries.items() if count > before.get(key, 0)}
    at_hand = set(made.brokers["core0"].subscribers.serving.subscribers) | set(
        made.brokers["edge0.0"].subscribers.serving.subscribers
    )
    assert {key.subscriber for key in near} <= at_hand
    made.mend("core0", "core1")
    made.settle()
    made.crash("core1", keeps_state=True)
    made.run_for(timedelta(minutes=2))
    made.restart("core1")
    made.settle()
    before = made.measures.deliveries.copy()
    publish(made, 10, seed=1)
    # The events of seed 1 have been published before, and are replays; those of seed 3 reach everybody again.
    assert made.measures.deliveries == before
    assert made.measures.rejected["replay"] == 10
    publish(made, 200, seed=3)
    assert {key for key in made.measures.deliveries if made.measures.deliveries[key] > before[key]} == {
        SubscriptionKey(f"s{number}", "0") for number in range(60)
    }


def test_a_broker_that_lost_everything_learns_it_again_from_its_neighbours_and_clients():
    made = overlay(Strategy.ANCESTOR_COVER_K, chain(3, 1), k=2)
    sizes = made.table_sizes()
    served = {name: broker.subscribers.serving.subscribers for name, broker in made.brokers.items()}
    made.crash("core1")
    with pytest.raises(UnknownIdError, match="no running broker"):
        made.received("core1")
    made.restart("core1")
    for state in served["core1"].values():
        made.subscribe("core1", state.subscriber)
    made.settle()
    assert made.table_sizes() == sizes


def test_mistakes_are_named():
    made = overlay(Strategy.FLOODING, people=0)
    with pytest.raises(InvalidValueError, match="is not cut"):
        made.mend("core0", "core1")
    with pytest.raises(InvalidValueError, match="has not crashed"):
        made.restart("core0")
    with pytest.raises(UnknownIdError, match="no subscriber"):
        made.unsubscribe("nobody")
    with pytest.raises(UnknownIdError, match="no broker"):
        made.publish("nowhere", "a", Event("1", "/a"))


def test_subscribers_may_have_the_names_of_brokers():
    made = Simulation(Topology(("s0", "s1"), (Link("s0", "s1"),)), Settings(Strategy.REGULAR_COVER))
    made.advertise("s0", anything())
    for name, home in (("s1", "s0"), ("s0", "s1"), ("s2", "s1")):
        made.subscribe(home, subscriber(name, "true"))
    made.settle()
    publish_at(made, "s0")
    made.unsubscribe("s1")
    publish_at(made, "s0", "2")
    assert (made.measures.delivered, made.measures.rejected) == (5, {})


def publish_at(made, broker, name="1"):
    made.publish(broker, "a", Event(name, "/a"))
    made.settle()


def test_a_link_is_quicker_than_a_heartbeat():
    slow = Settings(Strategy.REGULAR_COVER, heartbeat=timedelta(seconds=2))
    for delay, jitter in ((2000, 0), (1500, 500)):
        with pytest.raises(InvalidValueError, match=r"from 'core' to 'edge0' a message may take 2 s; expected less"):
            Simulation(star(1, delay * MILLISECOND), slow, jitter=jitter * MILLISECOND)


@pytest.mark.parametrize("strategy", Strategy)
def test_a_network_settles_while_heartbeats_are_always_on_their_way(strategy):
    made = overlay(strategy, star(3, 4900 * MILLISECOND), people=12)
    publish(made, 5)
    quick = overlay(strategy, star(3), people=12)
    publish(quick, 5)
    assert made.measures.deliveries == quick.measures.deliveries
    assert made.measures.messages["Alive"] > 0 == quick.measures.messages["Alive"]


def test_the_papers_overlay_is_a_chain_of_cores_with_edges():
    topology = chain(10, 5)
    assert len(topology.brokers) == 60
    assert len(topology.edges) == 50
    assert topology.hops("edge0.0", "edge9.4") == 11
    assert topology.neighbours("core0") == ("core1", "edge0.0", "edge0.1", "edge0.2", "edge0.3", "edge0.4")


def test_stars_and_balanced_trees():
    assert star(4).edges == ("edge0", "edge1", "edge2", "edge3")
    assert len(balanced_tree(3, 2).brokers) == 13
    assert balanced_tree(3, 2).hops("b.0.0", "b.2.1") == 4
    assert balanced_tree(2, 0).edges == ("b",)


@given(st.integers(1, 30), st.integers(0, 99))
def test_a_random_tree_is_a_tree_and_the_same_for_the_same_seed(brokers, seed):
    topology = random_tree(brokers, np.random.default_rng(seed))
    assert len(topology.brokers) == brokers
    assert topology == random_tree(brokers, np.random.default_rng(seed))


@pytest.mark.parametrize(
    ("brokers", "links", "problem"),
    [
        ((), (), "at least one"),
        (("a", "a"), (), "each name once"),
        (("a", "b"), (), "do not join"),
        (("a", "b", "c"), (("a", "b"), ("b", "a")), "do not join"),
        (("a", "b"), (("a", "x"),), "no broker 'x'"),
    ],
)
def test_what_is_no_tree_is_refused(brokers, links, problem):
    with pytest.raises(InvalidValueError, match=problem):
        Topology(brokers, tuple(Link(*link) for link in links))


def test_what_is_not_there_is_an_error():
    with pytest.raises(UnknownIdError, match="nowhere"):
        star(2).hops("core", "nowhere")
    with pytest.raises(UnknownIdError, match="no link between"):
        star(2).link("edge0", "edge1")
    with pytest.raises(InvalidValueError, match="below 0"):
        Link("a", "b", -timedelta(1))
    with pytest.raises(InvalidValueError, match="cores: 0"):
        chain(0, 5)


def drawn(seed=1, **options):
    return ranges(500, np.random.default_rng(seed), **options)


def test_the_same_seed_gives_the_same_subscriptions_and_another_seed_others():
    assert drawn().starts.tolist() == drawn().starts.tolist() != drawn(seed=2).starts.tolist()


def test_ranges_lie_in_the_domain_and_are_as_wide_as_asked():
    made = drawn(widths=(0.1, 0.2), attributes=3)
    widths = made.ends - made.starts
    assert made.starts.shape == (500, 3)
    assert made.starts.min() >= 0
    assert made.ends.max() <= 1
    assert 0.0999 < widths.min() < 0.11
    assert 0.19 < widths.max() < 0.2001


def test_filters_are_the_ranges():
    made = drawn(attributes=2)
    (low, other_low), (high, other_high) = made.starts[7].tolist(), made.ends[7].tolist()
    assert made.filters()[7] == parse_filter(
        f"a0 between {low!r} and {high!r} and a1 between {other_low!r} and {other_high!r}"
    )


def test_widths_that_are_no_shares_are_refused():
    with pytest.raises(InvalidValueError, match=r"widths: 0\.6 to 0\.3 are no shares"):
        drawn(widths=(0.6, 0.3))
