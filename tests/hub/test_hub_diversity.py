"""A hub that delivers diverse events."""

from datetime import timedelta

import pytest

from hub_builders import at
from rankcast.hub import Hub, Verdict
from rankcast.model.errors import InvalidSubscriptionError, UnknownAttributeError
from rankcast.model.events import Event
from rankcast.model.policies import Diversity, Periodic, Sliding, TopKWindow
from rankcast.model.relevance import Decay, IdealPoint, Target
from rankcast.model.schema import Schema
from rankcast.model.subscriptions import RankBy, Subscription
from rankcast.model.values import ValueType

RANKS = {"rank = 9": 0.9, "rank = 8": 0.8, "rank = 7": 0.7}


def film(second, genre, rank):
    return Event.of({"genre": genre, "rank": rank, "time": at(second)}, id=str(second), source="/films")


def replay(hub, *films):
    return [[note.event.id for note in hub.publish(one, now=one.time)] for one in films]


def test_explain_tells_that_a_near_copy_would_be_outranked():
    hub = Hub()
    hub.subscribe("ana", RANKS, deliver=TopKWindow(2, timedelta(hours=1), Diversity(weights={"genre": 1})))
    replay(hub, film(0, "war", 9), film(1, "drama", 7))
    assert hub.explain(film(2, "war", 8), "ana", now=at(2)).verdict is Verdict.OUTRANKED
    assert hub.explain(film(2, "comedy", 8), "ana", now=at(2)).verdict is Verdict.DELIVERED


@pytest.mark.parametrize(
    ("before", "after"), [(None, Diversity(weights={"genre": 1})), (Diversity(), Diversity(weights={"genre": 1}))]
)
def test_a_changed_diversity_looks_at_what_is_still_held(before, after):
    hub = Hub()
    hub.subscribe("ana", RANKS, deliver=Sliding(1, 9, before))
    replay(hub, film(0, "war", 9), film(1, "war", 8), film(2, "drama", 7))
    hub.update("ana", deliver=Sliding(2, 9, after))
    assert replay(hub, film(3, "war", 7)) == [["2"]]


def test_a_schema_knows_the_attributes_that_are_compared():
    hub = Hub(schema=Schema({"genre": ValueType.STRING}))
    with pytest.raises(UnknownAttributeError, match="gener"):
        hub.subscribe("ana", "true", deliver=Sliding(2, 3, Diversity(weights={"gener": 1})))
    hub.subscribe("ana", "true", deliver=Sliding(2, 3, Diversity(weights={"genre": 1, "source": 1})))


class TestRanksMustLieBetween0And1:
    POLICY = Sliding(2, 3, Diversity())

    def refused(self, message, subscriptions, **options):
        with pytest.raises(InvalidSubscriptionError, match=f"diversity needs ranks from 0 to 1, but {message}"):
            Hub().subscribe("ana", subscriptions, deliver=self.POLICY, **options)

    def test_a_decay_is_refused(self):
        self.refused("there is a decay", RANKS, decay=Decay(timedelta(days=1)))

    def test_a_distance_is_refused(self):
        near = IdealPoint([Target("rank", 9)])
        hub = Hub()
        whole = hub.subscribe("rui", {"true": 0.5}).subscriptions[0].filter
        self.refused(
            "subscription 'near' has an ideal point without a reach", [Subscription("near", whole, relevance=near)]
        )
        reached = Subscription("near", whole, relevance=IdealPoint([Target("rank", 9)], reach=5))
        Hub().subscribe("ana", [reached], deliver=self.POLICY)

    def test_a_weighted_sum_that_can_exceed_1_is_refused(self):
        self.refused(r"a weighted sum can be 2.4", RANKS, rank_by="weighted_sum")
        Hub().subscribe("ana", {"rank = 9": 0.5, "rank > 7": 0.5}, deliver=self.POLICY, rank_by=RankBy.WEIGHTED_SUM)

    def test_an_update_is_held_to_it_as_well(self):
        hub = Hub()
        hub.subscribe("ana", {"rank = 9": 0.5, "rank > 7": 0.5}, deliver=self.POLICY, rank_by="weighted_sum")
        with pytest.raises(InvalidSubscriptionError, match="a weighted sum can be"):
            hub.update("ana", subscriptions=RANKS)


def test_explain_says_that_diversity_counts_too():
    diverse = Diversity(weights={"genre": 1})
    hub = Hub()
    hub.subscribe("ana", RANKS, deliver=Sliding(2, 5, diverse))
    hub.subscribe("eva", RANKS, deliver=Periodic(2, timedelta(minutes=1), diverse))
    replay(hub, film(0, "war", 9), film(1, "drama", 7))
    copy = film(2, "war", 8)
    rows = [str(hub.explain(copy, name, now=copy.time)).splitlines()[-1] for name in ("ana", "eva")]
    assert rows == [
        "ana: not delivered now: with rank 0.8 it is not among the best by rank and diversity "
        "(the 2 best by rank and diversity are delivered, the last of them event 1 with rank 0.7)",
        "eva: not delivered now: with rank 0.8 it waits for the end of the period (not chosen so far, the 2 best by "
        "rank and diversity are delivered at 2026-01-01T00:01:00Z, the last of them event 1 with rank 0.7)",
    ]
