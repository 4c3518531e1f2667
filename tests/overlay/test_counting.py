"""One broker that counts the matches of an event before it draws from them."""

import pytest

from broker_bench import Bench, delivered, event, flats, interest, sent, subscriber
from rankcast.overlay import publishing
from rankcast.overlay.messages import (
    Connect,
    CountQuery,
    CountReply,
    Forward,
    Publish,
    Session,
    Subscribe,
    Unsubscribe,
)
from rankcast.overlay.routing.strategies import Strategy
from rankcast.overlay.snapshots import restored, snapshot


def test_exact_fairness_counts_first_then_draws_the_shares():
    bench = Bench(Strategy.EXACT_FAIR)
    bench.say(Subscribe(subscriber()), "ana")
    for link in ("left", "right"):
        bench.peer(link, Forward(interest(link), hides=True))
    bench.say(flats(k=100), "agency")
    asked = sent(bench.say(Publish("flats", event()), "agency"))
    assert [(link, type(one)) for link, one in asked] == [("left", CountQuery), ("right", CountQuery)]
    assert bench.peer("left", CountReply("/flats", "1", 4)) == []
    effects = bench.peer("right", CountReply("/flats", "1", 3))
    assert [(link, one.k) for link, one in sent(effects)] == [("left", 4), ("right", 3)]
    assert delivered(effects) == [("ana", "1")]


def test_a_broker_between_asks_on_and_answers_with_the_sum():
    bench = Bench(Strategy.EXACT_FAIR)
    bench.say(Subscribe(subscriber()), "ana")
    bench.peer("right", Forward(interest(), hides=True))
    bench.peer("left", flats(k=2))
    asked = sent(bench.peer("left", CountQuery("flats", event())))
    assert asked == [("right", CountQuery("flats", event()))]
    assert sent(bench.peer("right", CountReply("/flats", "1", 9))) == [("left", CountReply("/flats", "1", 10))]
    effects = bench.peer("left", Publish("flats", event(), 2))
    assert sum(one.k for _, one in sent(effects)) + len(delivered(effects)) == 2


def test_absurd_counts_are_passed_on_and_drawn_from_as_far_as_numbers_go():
    bench = Bench(Strategy.EXACT_FAIR, links=("left", "right", "third"))
    for link in ("right", "third"):
        bench.peer(link, Forward(interest(link), hides=True))
    bench.peer("left", flats(k=2))
    bench.peer("left", CountQuery("flats", event()))
    bench.peer("right", CountReply("/flats", "1", 2**53 - 1))
    assert sent(bench.peer("third", CountReply("/flats", "1", 2**53 - 1))) == [
        ("left", CountReply("/flats", "1", 2**53 - 1))
    ]
    assert sum(one.k for _, one in sent(bench.peer("left", Publish("flats", event(), 2)))) == 2


def test_beyond_as_many_as_a_broker_can_count_events_go_by_what_is_known_and_none_is_lost(monkeypatch):
    monkeypatch.setattr(publishing, "MOST_COUNTS", 3)
    bench = Bench(Strategy.EXACT_FAIR)
    bench.peer("right", Forward(interest(), hides=True))
    bench.say(flats(k=2), "agency")
    bench.peer("left", flats("theirs", k=2))
    bench.peer("left", CountQuery("theirs", event("asked")))
    bench.peer("right", CountReply("/flats", "asked", 1))
    found = [sent(bench.say(Publish("flats", event(str(at))), "agency")) for at in range(5)]
    assert [type(one) for ((_, one),) in found] == [CountQuery] * 3 + [Publish] * 2
    assert sent(bench.peer("left", CountQuery("theirs", event("late")))) == [("left", CountReply("/flats", "late", 1))]
    for at in range(3):
        assert [one.k for _, one in sent(bench.peer("right", CountReply("/flats", str(at), 5)))] == [2]
    ((_, again),) = sent(bench.peer("left", Publish("theirs", event("asked"), 1)))
    assert again == CountQuery("theirs", event("asked"))  # its count had to go, and there is room again


@pytest.mark.parametrize("strategy", [one for one in Strategy if one.takes_k], ids=lambda one: one.value)
def test_behind_a_link_that_is_lost_nobody_is_chosen(strategy):
    bench = Bench(strategy)
    bench.say(Subscribe(subscriber()), "ana")
    for number in range(20):
        bench.peer("right", Forward(interest(f"s{number}")))
    bench.say(flats(k=1), "agency")
    bench.broker.disconnect("right", bench.now)
    assert [delivered(bench.say(Publish("flats", event(str(at))), "agency")) for at in range(3)] == [
        [("ana", str(at))] for at in range(3)
    ]


def test_who_hides_nobody_is_not_asked():
    bench = Bench(Strategy.EXACT_FAIR)
    bench.peer("left", Forward(interest("bo")))
    bench.peer("left", Forward(interest("cy")))
    bench.peer("right", Forward(interest("di"), hides=True))
    bench.say(flats(k=100), "agency")
    assert [(link, type(one)) for link, one in sent(bench.say(Publish("flats", event()), "agency"))] == [
        ("right", CountQuery)
    ]
    assert [(link, one.k) for link, one in sent(bench.peer("right", CountReply("/flats", "1", 3)))] == [
        ("left", 2),
        ("right", 3),
    ]
    bench.peer("right", Forward(interest("di")))
    effects = bench.say(Publish("flats", event("2")), "agency")
    assert [(link, type(one), one.k) for link, one in sent(effects)] == [("left", Publish, 2), ("right", Publish, 1)]


def test_an_interest_is_told_again_when_it_begins_to_hide_others_and_at_a_heartbeat_when_it_no_longer_does():
    bench = Bench(Strategy.EXACT_FAIR)
    bench.peer("left", flats(k=2))
    wide = interest("wide", "rent < 900")
    assert sent(bench.peer("right", Forward(wide))) == [("left", Forward(wide))]
    assert sent(bench.say(Subscribe(subscriber("ana", "rent < 500")), "ana")) == [("left", Forward(wide, hides=True))]
    assert sent(bench.say(Subscribe(subscriber("bo", "rent < 400")), "bo")) == []
    for who in ("ana", "bo"):
        assert sent(bench.say(Unsubscribe(who), who)) == []
    assert sent(bench.wait(5)) == [("left", Forward(wide))]
    assert sent(bench.peer("right", Forward(wide, hides=True))) == [("left", Forward(wide, hides=True))]
    bench.broker.handle(Connect(Session(1, 2)), "left", bench.now)
    again = restored(snapshot(bench.broker))
    assert again.routing.routes("left").announced.hiding == {wide.key}
    assert [one for one in again.routing.announce_all("left") if isinstance(one, Forward)] == [
        Forward(wide, hides=True)
    ]


def test_a_count_that_nobody_draws_from_is_forgotten_and_an_event_that_comes_later_is_counted_again():
    bench = Bench(Strategy.EXACT_FAIR)
    bench.say(Subscribe(subscriber()), "ana")
    bench.peer("left", flats(k=2))
    for name in ("1", "2"):
        assert sent(bench.peer("left", CountQuery("flats", event(name)))) == [("left", CountReply("/flats", name, 1))]
    assert delivered(bench.peer("left", Publish("flats", event("1"), 1))) == [("ana", "1")]
    assert len(bench.broker.publishing.counts) == 1
    bench.wait(4)
    assert not bench.broker.publishing.counts
    assert delivered(bench.peer("left", Publish("flats", event("2"), 1))) == [("ana", "2")]


@pytest.mark.parametrize("lost", ["the link", "the answer", "the neighbour"])
def test_a_count_that_stays_out_does_not_keep_an_event(lost):
    bench = Bench(Strategy.EXACT_FAIR)
    bench.say(Subscribe(subscriber()), "ana")
    bench.peer("right", Forward(interest(), hides=True))
    bench.say(flats(k=2), "agency")
    if lost == "the neighbour":
        bench.broker.disconnect("right", bench.now)
    effects = bench.say(Publish("flats", event()), "agency")
    if lost == "the link":
        effects = bench.broker.disconnect("right", bench.now)
    elif lost == "the answer":
        effects = bench.wait(2)
    assert delivered(effects) == [("ana", "1")]
