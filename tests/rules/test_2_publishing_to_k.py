"""Rules 2.4 and 2.6: exact fairness by counts, and publications for their k best subscribers, in hubs and overlays."""

from datetime import timedelta
from functools import partial

import pytest

from rankcast.hub import Hub
from rankcast.language.parser import parse_filter
from rankcast.model.advertisements import FAIRNESS, Advertisement, AudienceRanking, Scoring, Ties
from rankcast.model.events import Event
from rankcast.model.subscriptions import RankBy, Subscriber, Subscription, SubscriptionKey
from rankcast.overlay.broker import Settings
from rankcast.overlay.messages import Advertise
from rankcast.overlay.routing.strategies import Strategy
from rankcast.overlay.simulation.simulator import Simulation
from rankcast.overlay.simulation.topologies import chain, star
from rankcast.testing.conformance import Case
from rule_builders import START
from spark.stages import InProcess

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


@pytest.mark.parametrize(
    ("strategy", "options", "expected"),
    [
        (Strategy.EXACT_FAIR, {}, 1 / 101),
        (Strategy.ANCESTOR_FAIR_K, {}, 1 / 101),
        (Strategy.ANCESTOR_FAIR_K, {"weigh": False}, 1 / 2),
        (Strategy.ANCESTOR_COVER_K, {}, 1 / 2),
    ],
    ids=["counted", "weighed", "stale weights", "not weighed"],
)
def test_a_root_that_hides_99_does_not_count_as_one(strategy, options, expected):
    """The seed is fixed; five standard deviations would be exceeded by chance once in a million seeds."""
    overlay, events = Simulation(chain(2, 1), Settings(strategy, **options)), 600
    overlay.advertise("core0", Advertise(Advertisement("a", "/a", k=1)))
    overlay.settle()
    overlay.subscribe("edge0.0", several("lone", [1.0], "true"))
    for number in range(100):
        overlay.subscribe("edge1.0", several(f"s{number}", [1.0], "true"))
    overlay.settle()
    assert overlay.table_sizes()["core0"] == 2
    overlay.run_for(timedelta(seconds=20))
    for number in range(events):
        overlay.publish("core0", "a", Event(str(number), "/a"))
        overlay.settle()
    assert overlay.measures.delivered == events
    share = overlay.measures.deliveries[SubscriptionKey("lone", "0")] / events
    assert abs(share - expected) < 5 * (expected * (1 - expected) / events) ** 0.5


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


TO_BEST = [Strategy.REGULAR_K, Strategy.RANK_COVER_K, Strategy.ANCESTOR_COVER_K, Strategy.ANCESTOR_FAIR_K]
EVENT = Event("1", "/a", time=START, data={"x": 5})


def several(name, ranks, text="x >= {at}", **options):
    """A subscriber with a subscription for each rank, the wider one first."""
    wanted = (Subscription(str(at), parse_filter(text.format(at=at)), rank) for at, rank in enumerate(ranks))
    return Subscriber(name, tuple(wanted), **options)


def hub_deliveries(people, ranking, k, kernels=None):
    hub = Hub(people, kernels=kernels)
    hub.advertise("a", source="/a", k=k, ranking=ranking)
    return [(note.subscriber, note.rank, note.matched) for note in hub.publish(EVENT)]


def overlay_deliveries(strategy):
    def deliveries(people, ranking, k):
        found = []
        made = Simulation(star(3), Settings(strategy), delivered=lambda _, one: found.append(one))
        made.advertise("core", Advertise(Advertisement("a", "/a", k=k, ranking=ranking)))
        made.settle()
        for at, one in enumerate(people):
            made.subscribe(f"edge{at % 3}", one)
            made.settle()
        made.publish("core", "a", EVENT)
        made.settle()
        return sorted((one.subscriber, one.rank, one.matched) for one in found)

    return deliveries


def deliveries_of_stages(people, ranking, k):
    case = Case(tuple(people), (EVENT,), advertisements=(Advertisement("a", "/a", k=k, ranking=ranking),))
    return sorted((one.subscriber, one.rank, one.matched) for one in InProcess(2, 3).deliveries(case))


HUBS = {"hub-steps": partial(hub_deliveries, kernels=False), "hub-kernels": partial(hub_deliveries, kernels=True)}
ENGINES = (
    HUBS
    | {"spark-stages": deliveries_of_stages}
    | {strategy.value: overlay_deliveries(strategy) for strategy in TO_BEST}
)


@pytest.mark.parametrize("deliveries", ENGINES.values(), ids=ENGINES)
class TestKCountsSubscribers:
    def test_one_with_two_good_subscriptions_takes_one_place(self, deliveries):
        people = [several("ana", [0.9, 0.8]), several("bo", [0.7]), several("cy", [0.6])]
        assert [name for name, _, _ in deliveries(people, BY_ID, 2)] == ["ana", "bo"]

    def test_each_counts_by_its_best_matching_subscription(self, deliveries):
        people = [several("ana", [0.1, 0.8]), several("bo", [0.7]), several("cy", [0.6])]
        assert [name for name, _, _ in deliveries(people, BY_ID, 1)] == ["ana"]

    @pytest.mark.parametrize(
        ("options", "rank"),
        [({}, 0.9), ({"most_specific": True}, 0.4), ({"rank_by": RankBy.MEAN}, 0.65), ({"rank_by": RankBy.MIN}, 0.4)],
        ids=str,
    )
    def test_the_choice_changes_no_consumers_rank_and_no_matched_set(self, deliveries, options, rank):
        people = [several("ana", [0.9, 0.4], **options), several("bo", [0.2])]
        assert deliveries(people, BY_ID, 1) == [("ana", rank, ("0", "1"))]

    def test_of_equal_scores_the_same_are_drawn_in_every_engine_with_one_seed(self, deliveries):
        people = [several(f"s{number}", [0.5, 0.5], "x >= {at}") for number in range(9)]
        for seed in range(3):
            ranking = AudienceRanking(Scoring.PREFERENCE, Ties.FAIR, seed)
            assert deliveries(people, ranking, 3) == hub_deliveries(people, ranking, 3)


class TestCoveringCountsSubscribers:
    def forwarded(self, people, k, ranking=BY_ID, strategy=Strategy.ANCESTOR_COVER_K):
        made = Simulation(star(3), Settings(strategy))
        made.advertise("core", Advertise(Advertisement("a", "/a", k=k, ranking=ranking)))
        made.settle()
        for one in people:
            made.subscribe("edge1", one)
            made.settle()
        table = made.brokers["core"].routing.table
        return sorted(tuple(record.interest.key) for record in table)

    def test_another_one_of_the_same_subscriber_hides_it_whatever_k_is(self):
        people = [several("ana", [0.9, 0.8]), several("bo", [0.9], "x >= 1")]
        assert self.forwarded(people, 3) == [("ana", "0"), ("bo", "0")]

    def test_several_of_one_other_count_once(self):
        wide = several("ana", [0.9, 0.9], "x >= 0 and y >= {at}")
        wide = Subscriber("ana", (*wide.subscriptions[:1], Subscription("2", parse_filter("x >= 0 and z = 1"), 0.9)))
        narrow = several("bo", [0.5], "x >= 1 and y >= 1 and z = 1")
        other = several("cy", [0.6], "x >= 0")
        assert ("bo", "0") in self.forwarded([wide, narrow], 2)
        assert ("bo", "0") not in self.forwarded([wide, narrow, other], 2)

    def test_equal_scores_hide_by_id_only_where_ids_break_ties(self):
        people = [several("ana", [0.5]), several("bo", [0.5], "x >= 1"), several("cy", [0.4], "x >= 1")]
        fair = AudienceRanking(Scoring.PREFERENCE, Ties.FAIR)
        assert self.forwarded(people, 1) == [("ana", "0")]
        assert self.forwarded(people, 1, fair) == [("ana", "0"), ("bo", "0")]


class TestExactFairnessWithScores:
    def test_the_best_come_first_and_are_equally_likely_also_behind_one_that_hides_them(self):
        """The seed is fixed; five standard deviations would be exceeded by chance once in a million seeds."""
        fair = AudienceRanking(Scoring.PREFERENCE, Ties.FAIR)
        people = {f"s{at}": (0, f"x between {at} and 9", 0.7) for at in range(4)}
        people |= {"wide": (0, "x >= 0", 0.2), "lone": (1, "x >= 0", 0.7), "best": (2, "x >= 1", 0.9)}
        made, events = overlay(Strategy.EXACT_FAIR, people, k=2, ranking=fair), 400
        for number in range(events):
            found = publish(made, str(number))
            assert len(found) == 2
            assert "best" in found
            assert "wide" not in found
        lone = made.measures.deliveries[SubscriptionKey("lone", "1")]
        assert abs(lone - events / 5) < 5 * (events * 1 / 5 * 4 / 5) ** 0.5

    def test_it_counts_subscribers(self):
        made = Simulation(star(3), Settings(Strategy.EXACT_FAIR))
        made.advertise("core", Advertise(Advertisement("a", "/a", k=2)))
        made.settle()
        for at, one in enumerate([several("ana", [0.5] * 5), several("bo", [0.5, 0.5]), several("cy", [0.5])]):
            made.subscribe(f"edge{at % 2}", one)
        made.settle()
        assert all(len(set(publish(made, str(number)))) == 2 for number in range(10))


def test_an_advertisement_may_be_routed_otherwise_than_others():
    made = Simulation(star(3), Settings(Strategy.ANCESTOR_COVER_K))
    made.advertise("core", Advertise(Advertisement("a", "/a", k=1)))
    made.advertise("core", Advertise(Advertisement("all", "/all"), strategy=Strategy.GROUP_COVER))
    made.settle()
    for at, text in enumerate(["x < 5", "x >= 5", "x between 2 and 7"]):
        made.subscribe("edge1", Subscriber(f"s{at}", (Subscription("1", parse_filter(text), 0.5),)))
        made.settle()
    assert len(publish(made)) == 1
    before = made.measures.delivered
    made.publish("core", "all", Event("2", "/all", data={"x": 4}))
    made.settle()
    assert made.measures.delivered - before == 2


@pytest.mark.parametrize(("strategy", "known"), [(None, 3), (Strategy.GROUP_COVER, 2)])
def test_group_cover_serves_an_advertisement_without_k(strategy, known):
    made = Simulation(star(3), Settings(Strategy.ANCESTOR_COVER_K))
    made.advertise("core", Advertise(Advertisement("all", "/all"), strategy=strategy))
    made.settle()
    for at, text in enumerate(["x <= 5", "x >= 5", "x between 2 and 7"]):
        made.subscribe("edge1", Subscriber(f"s{at}", (Subscription("1", parse_filter(text), 0.5),)))
        made.settle()
    assert made.table_sizes()["core"] == known  # the third is covered by the other two together
