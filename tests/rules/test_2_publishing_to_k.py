"""Rules 2.4 and 2.6 through an overlay: exact fairness by counts, and publications for their k best subscriptions."""

import pytest

from rankcast.language.parser import parse_filter
from rankcast.model.advertisements import FAIRNESS, Advertisement, AudienceRanking, Scoring, Ties
from rankcast.model.events import Event
from rankcast.model.subscriptions import Subscriber, Subscription, SubscriptionKey
from rankcast.overlay.broker import Settings
from rankcast.overlay.messages import Advertise
from rankcast.overlay.routing.strategies import Strategy
from rankcast.overlay.simulation.simulator import Simulation
from rankcast.overlay.simulation.topologies import star

EVERYTHING = parse_filter("true")


def overlay(strategy, people, k=2, ranking=FAIRNESS):
    """A core with the publisher and some edges; `people` are (edge, filter, rank) by name."""
    made = Simulation(star(3), Settings(strategy))
    made.advertise("core", Advertise(Advertisement("a", "/a", EVERYTHING, k=k, ranking=ranking)))
    made.settle()
    for name, (edge, text, rank) in people.items():
        made.subscribe(f"edge{edge}", Subscriber(name, (Subscription("1", parse_filter(text), rank),)))
        made.settle()
    return made


def publish(made, name="1", x=5, k=None):
    before = made.measures.deliveries.copy()
    made.publish("core", "a", Event(name, "/a", data={"x": x}), k)
    made.settle()
    return sorted(key.subscriber for key, count in made.measures.deliveries.items() if count > before[key])


NESTED = {f"s{number}": (0, f"x between {number} and 9", 1.0) for number in range(5)} | {"lone": (1, "x >= 0", 1.0)}


class TestExactFairness:
    def test_routing_needs_only_plain_covering_whatever_k_is(self):
        plain = Simulation(star(3), Settings(Strategy.REGULAR_COVER))
        plain.advertise("core", Advertise(Advertisement("a", "/a", EVERYTHING)))
        plain.settle()
        for name, (edge, text, _) in NESTED.items():
            plain.subscribe(f"edge{edge}", Subscriber(name, (Subscription("1", parse_filter(text)),)))
        plain.settle()
        assert {k: overlay(Strategy.EXACT_FAIR, NESTED, k).table_sizes() for k in (1, 2, 6)} == dict.fromkeys(
            (1, 2, 6), plain.table_sizes()
        )

    def test_a_link_is_asked_only_when_somebody_is_hidden_behind_it(self):
        made = overlay(Strategy.EXACT_FAIR, NESTED)
        publish(made)
        assert made.measures.messages["CountQuery"] == 1
        for number in range(1, 5):
            made.unsubscribe(f"s{number}")
        made.settle()
        made.run_for(made.settings.heartbeat)
        publish(made, "2")
        assert made.measures.messages["CountQuery"] == 1

    def test_a_root_that_hides_others_does_not_count_as_one(self):
        """Of six equally likely ones; the seed is fixed, and five deviations are exceeded once in a million seeds."""
        made = overlay(Strategy.EXACT_FAIR, NESTED, k=1)
        for number in range(600):
            publish(made, str(number))
        lone = made.measures.deliveries[SubscriptionKey("lone", "1")]
        assert abs(lone - 100) < 5 * (600 * 1 / 6 * 5 / 6) ** 0.5


RANKED = {"ana": (0, "x >= 0", 0.5), "bo": (1, "x >= 0", 0.9), "cy": (2, "x >= 0", 0.9), "di": (2, "x >= 9", 1.0)}
BY_ID = AudienceRanking(Scoring.PREFERENCE, Ties.BY_ID)


class TestPublishingToTheBest:
    @pytest.mark.parametrize("strategy", [Strategy.REGULAR_K, Strategy.RANK_COVER_K, Strategy.ANCESTOR_COVER_K])
    def test_the_advertisement_has_k_and_a_publication_may_ask_for_fewer(self, strategy):
        made = overlay(strategy, RANKED, ranking=BY_ID)
        assert publish(made) == ["bo", "cy"]
        assert publish(made, "2", k=1) == ["bo"]
        assert publish(made, "3", k=3) == []
        assert made.measures.rejected == {"outside its advertisement": 1}
        assert publish(made, "4", x=9) == ["bo", "di"]

    def test_equals_are_equally_likely_unless_ids_decide(self):
        fair = AudienceRanking(Scoring.PREFERENCE, Ties.FAIR)
        made = overlay(Strategy.REGULAR_K, RANKED, k=1, ranking=fair)
        winners = [publish(made, str(number)) for number in range(40)]
        assert {tuple(one) for one in winners} == {("bo",), ("cy",)}
