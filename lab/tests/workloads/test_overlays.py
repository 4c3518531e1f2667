"""Ranges subscribed to at the edges of a chain of brokers, and one publisher."""

from collections import Counter

import numpy as np

from rankcast.overlay.broker import Settings
from rankcast.overlay.routing.strategies import Strategy
from rankcast.overlay.simulation.ranges import ranges
from rankcast.overlay.simulation.topologies import chain
from rankcast_lab.workloads.overlays import Audience, attached, numbers_told


def spread(count=60, **options):
    random = np.random.default_rng(1)
    return Audience.spread(chain(3, 2), ranges(count, random), random, **options)


def test_all_edges_have_nearly_equal_numbers_and_the_publisher_has_one_to_itself_if_asked():
    apart = Counter(spread(62).homes)
    assert apart.keys() == {"edge0.1", "edge1.0", "edge1.1", "edge2.0", "edge2.1"}
    assert set(apart.values()) == {12, 13}
    assert Counter(spread(apart=False).homes) == dict.fromkeys(chain(3, 2).edges, 10)


def test_distances_are_links():
    audience = spread()
    assert {(home, distance) for home, distance in zip(audience.homes, audience.distances().tolist(), strict=True)} == {
        ("edge0.1", 2),
        ("edge1.0", 3),
        ("edge1.1", 3),
        ("edge2.0", 4),
        ("edge2.1", 4),
    }


def test_what_is_published_is_delivered_to_the_ranges_around_it():
    audience = spread()
    overlay = audience.advertised(Settings(Strategy.REGULAR_COVER), None)
    audience.subscribe(overlay, range(40))
    audience.publish(overlay, "1", 0.4)
    around = (audience.ranges.starts[:, 0] <= 0.4) & (audience.ranges.ends[:, 0] >= 0.4)
    assert audience.delivered(overlay).tolist() == (around & (np.arange(60) < 40)).astype(int).tolist()
    told = numbers_told(overlay, audience.publisher)
    assert len(told) == overlay.received(audience.publisher) < 40
    assert told == sorted(set(told))


def test_ranks_are_one_unless_they_are_given():
    audience = spread(5)
    ranked = Audience(audience.topology, audience.publisher, audience.ranges, audience.homes, (0.1, 0.2, 0.3, 0.4, 0.5))
    for one, expected in ((audience, [1.0] * 5), (ranked, [0.1, 0.2, 0.3, 0.4, 0.5])):
        overlay = one.advertised(Settings(Strategy.REGULAR_K), 2)
        one.subscribe(overlay)
        table = overlay.brokers[one.publisher].routing.table
        assert sorted(record.interest.score for record in table) == expected


def test_every_subscription_is_attached_to_one_edge_of_one_core_broker():
    brokers = attached(1_003, np.random.default_rng(1))
    assert [len(edges) for edges in brokers] == [5] * 10
    assert {len(edge) for edges in brokers for edge in edges} == {20, 21}
    assert sorted(np.concatenate([edge for edges in brokers for edge in edges])) == list(range(1_003))
