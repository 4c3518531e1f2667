"""One broker and what it refuses: a message that is rejected changes nothing."""

from datetime import timedelta

import pytest

from broker_bench import NOW, TERMS, Bench, delivered, event, flats, interest, prepared, rejected, sent, subscriber
from rankcast.language.parser import parse_filter
from rankcast.model.advertisements import AudienceRanking, Ties
from rankcast.model.events import Event
from rankcast.model.subscriptions import Priority, Subscriber, Subscription, SubscriptionKey
from rankcast.overlay.effects import Reason
from rankcast.overlay.messages import (
    MAX_BYTES,
    Alive,
    Connect,
    CountQuery,
    CountReply,
    Forward,
    Packet,
    Publish,
    Read,
    Renew,
    Session,
    Subscribe,
    Synced,
    Unadvertise,
    Unsubscribe,
    Withdraw,
    decoded,
    encoded,
)
from rankcast.overlay.routing import state as routing
from rankcast.overlay.routing.strategies import Strategy
from rankcast.overlay.snapshots import restored, snapshot


@pytest.mark.parametrize(
    ("message", "client", "reason"),
    [
        (Subscribe(subscriber("ana", "true")), "mallory", Reason.WRONG_LINK),
        (Unsubscribe("ana"), "mallory", Reason.WRONG_LINK),
        (Unsubscribe("nobody"), "mallory", Reason.UNKNOWN),
        (Read("ana"), "mallory", Reason.WRONG_LINK),
        (Read("ana"), "ana", Reason.UNSUPPORTED),
        (Read("ana", "0"), "ana", Reason.UNKNOWN),
        (Read("nobody"), "ana", Reason.UNKNOWN),
        (
            Subscribe(subscriber("eve", "true", "true", priorities=(Priority("0", "1"), Priority("1", "0")))),
            "eve",
            Reason.MALFORMED,
        ),
        (flats("mine"), "mallory", Reason.WRONG_LINK),
        (flats("new", k=2, ranking=AudienceRanking(ties=Ties.BY_ID)), "eve", Reason.UNSUPPORTED),
        (Unadvertise("mine"), "mallory", Reason.WRONG_LINK),
        (Unadvertise("none"), "agency", Reason.UNKNOWN),
        (Publish("mine", event()), "mallory", Reason.WRONG_LINK),
        (Publish("theirs", event()), "agency", Reason.WRONG_LINK),
        (Publish("mine", event(rent=900)), "agency", Reason.OUTSIDE),
        (Publish("mine", event(rooms=2)), "agency", Reason.MALFORMED),
        (Publish("mine", event(rent="much")), "agency", Reason.MALFORMED),
        (Publish("mine", Event("1", "/elsewhere", data={"rent": 1})), "agency", Reason.OUTSIDE),
        (Publish("mine", event(), 4), "agency", Reason.OUTSIDE),
        (Publish("mine", event(), 1, ()), "agency", Reason.UNSUPPORTED),
        (Publish("mine", event("old")), "agency", Reason.REPLAY),
        (Renew(), "mallory", Reason.UNKNOWN),
        (Connect(Session(1, 1), TERMS), "mallory", Reason.WRONG_LINK),
        (Alive(Session(1, 1), 3), "mallory", Reason.WRONG_LINK),
        (Packet(Session(1, 1), 0, Synced()), "mallory", Reason.WRONG_LINK),
        (Subscribe(subscriber("eve")), "left", Reason.WRONG_LINK),
        (Publish("theirs", event()), "left", Reason.WRONG_LINK),
        (Connect(Session(1, 1), TERMS), "left", Reason.REPLAY),
        (Connect(Session(0, 9), TERMS), "left", Reason.REPLAY),
        (Packet(Session(1, 1), 0, Synced()), "left", Reason.REPLAY),
        (Packet(Session(9, 9), 3, Synced()), "left", Reason.REPLAY),
        (Packet(Session(1, 1), 10**9, Synced()), "left", Reason.TOO_MANY),
    ],
)
def test_a_message_that_is_rejected_changes_nothing(message, client, reason):
    bench = prepared()
    before = snapshot(bench.broker)
    assert rejected(bench.say(message, client)) == [reason]
    assert snapshot(bench.broker) == before


def test_a_filter_that_is_too_large_with_its_time_bounds_changes_nothing_and_its_owner_goes_on():
    bench = prepared()
    large = parse_filter(" and ".join(["rent < 900"] * 10_000))
    for name, client in (("ana", "ana"), ("new", "new")):
        wanted = Subscriber(name, (Subscription("1", large, active_from=NOW),))
        before = snapshot(bench.broker)
        assert rejected(bench.say(Subscribe(wanted, timedelta(seconds=9)), client)) == [Reason.MALFORMED]
        assert snapshot(bench.broker) == before
    assert delivered(bench.say(Publish("mine", event()), "agency")) == [("ana", "1")]
    assert rejected(bench.wait(10)) == []
    assert rejected(bench.say(Unsubscribe("ana"), "ana")) == []


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (Withdraw(SubscriptionKey("ana", "0")), Reason.UNKNOWN),
        (Unadvertise("mine"), Reason.UNKNOWN),
        (flats("new", k=2, ranking=AudienceRanking(ties=Ties.BY_ID)), Reason.UNSUPPORTED),
        (Publish("mine", event(), 1), Reason.WRONG_LINK),
        (Publish("theirs", event(rent=900), 1), Reason.OUTSIDE),
        (Publish("theirs", event(), 4), Reason.OUTSIDE),
        (Publish("theirs", event()), Reason.OUTSIDE),
        (Publish("theirs", event(), 1, ("ana", "bo")), Reason.OUTSIDE),
        (Publish("theirs", event("old"), 1), Reason.REPLAY),
        (CountQuery("mine", event()), Reason.WRONG_LINK),
        (CountQuery("theirs", event(rent=900)), Reason.OUTSIDE),
        (CountReply("/flats", "1"), Reason.UNKNOWN),
    ],
)
def test_a_rejected_message_of_a_neighbour_takes_its_number_and_changes_nothing_else(message, reason):
    bench, other = prepared(), prepared()
    assert rejected(bench.peer("left", message)) == [reason]
    assert rejected(other.peer("left", Withdraw(SubscriptionKey("nobody", "0")))) == [Reason.UNKNOWN]
    assert snapshot(bench.broker) == snapshot(other.broker)
    assert sent(bench.peer("left", flats("next"))) == [("right", flats("next"))]


def test_a_neighbour_cannot_fill_the_memory(monkeypatch):
    monkeypatch.setattr(routing, "MAX_INTERESTS", 2)
    monkeypatch.setattr(routing, "MAX_ADVERTISEMENTS", 1)
    bench = Bench()
    told = [flats(), flats("more"), *(Forward(interest(name)) for name in ("bo", "cy", "di"))]
    assert [rejected(bench.peer("left", one)) for one in told] == [[], [Reason.TOO_MANY], [], [], [Reason.TOO_MANY]]
    assert rejected(bench.peer("left", Forward(interest("bo", "rent < 1")))) == []
    assert rejected(bench.peer("left", flats(text="rent < 5"))) == []


def test_a_client_cannot_fill_the_memory_nor_can_all_of_them():
    bench = Bench(client_subscriptions=3, subscriptions=4, client_advertisements=1, advertisements=2)
    assert rejected(bench.say(Subscribe(subscriber("ana", "true", "x = 1")), "one")) == []
    before = snapshot(bench.broker)
    assert rejected(bench.say(Subscribe(subscriber("bo", "true", "x = 1")), "one")) == [Reason.TOO_MANY]
    assert rejected(bench.say(Subscribe(subscriber("ana", "true", "x = 1", "x = 2", "x = 3")), "one")) == [
        Reason.TOO_MANY
    ]
    assert snapshot(bench.broker) == before
    assert rejected(bench.say(Subscribe(subscriber("ana", "true", "x = 2", "x = 1")), "one")) == []
    assert rejected(bench.say(Subscribe(subscriber("cy")), "two")) == []
    assert rejected(bench.say(Subscribe(subscriber("di")), "three")) == [Reason.TOO_MANY]
    bench.broker = restored(snapshot(bench.broker))
    assert rejected(bench.say(Subscribe(subscriber("di")), "three")) == [Reason.TOO_MANY]
    bench.say(Renew(), "one")
    bench.say(Unsubscribe("ana"), "one")
    assert rejected(bench.say(Subscribe(subscriber("di", "true", "x = 1", "x = 2")), "three")) == []
    told = [("a", "one"), ("b", "one"), ("c", "two"), ("d", "three"), ("a", "one")]
    assert [rejected(bench.say(flats(name), who)) for name, who in told] == [
        [],
        [Reason.TOO_MANY],
        [],
        [Reason.TOO_MANY],
        [],
    ]


def test_counting_is_not_for_every_strategy():
    bench = Bench()
    bench.peer("left", flats())
    assert rejected(bench.peer("left", CountQuery("flats", event()))) == [Reason.UNSUPPORTED]
    assert rejected(bench.say(flats("few", k=2), "agency")) == [Reason.UNSUPPORTED]


def test_what_a_client_may_say_a_broker_can_pass_on():
    bench = Bench(Strategy.FLOODING)
    bench.say(flats())
    free = MAX_BYTES - len(encoded(Publish("flats", event("1", text=""))))
    passed_on = bench.broker.receive(encoded(Publish("flats", event("1", text="x" * free))), "client", NOW)
    assert [decoded(encoded(one.message)) == one.message for one in passed_on] == [True, True]
    too_long = b" " + encoded(Publish("flats", event("2", text="x" * free)))
    assert "longer than" in bench.broker.receive(too_long, "client", NOW)[0].detail


def test_bytes_that_are_no_message_are_rejected():
    bench = prepared()
    before = snapshot(bench.broker)
    assert rejected(bench.broker.receive(b"hello", "left", NOW)) == [Reason.MALFORMED]
    assert snapshot(bench.broker) == before
    assert delivered(bench.broker.receive(encoded(Publish("mine", event())), "agency", NOW)) == [("ana", "1")]
