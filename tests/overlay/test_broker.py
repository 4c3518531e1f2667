"""One broker, message by message: whom it tells what, what it delivers, and what time does to it."""

from datetime import UTC, datetime

import pytest

from broker_bench import (
    MINE,
    NOW,
    SECOND,
    Bench,
    delivered,
    event,
    flats,
    interest,
    prepared,
    rejected,
    sent,
    subscriber,
)
from rankcast.language.parser import parse_filter
from rankcast.model.errors import InvalidMessageError
from rankcast.model.events import Event
from rankcast.model.policies import AT_ONCE, Continuous, Gathered, OnDemand, Periodic, Sliding
from rankcast.model.schema import Schema
from rankcast.model.subscriptions import Advertisement, Subscriber, Subscription, SubscriptionKey
from rankcast.model.values import ValueType
from rankcast.overlay.effects import Deliver, Listed, Reason, Send
from rankcast.overlay.messages import (
    FAIRNESS,
    MAX_NUMBER,
    Advertise,
    Alive,
    AudienceRanking,
    Connect,
    Forward,
    Interest,
    Publish,
    Read,
    Renew,
    Reset,
    Scoring,
    Session,
    Subscribe,
    Synced,
    Unadvertise,
    Unsubscribe,
    Withdraw,
)
from rankcast.overlay.routing.strategies import Strategy
from rankcast.overlay.snapshots import restored, snapshot


def test_weights_of_neighbours_that_add_up_to_more_than_a_message_may_say_are_told_as_that_much():
    bench = Bench(Strategy.ANCESTOR_FAIR_K)
    bench.peer("left", Advertise(Advertisement("a", "/a", parse_filter("true"), k=1), FAIRNESS))
    most = float(MAX_NUMBER - 1)

    def heavy(name, low, high):
        interest = Interest(SubscriptionKey(name, "1"), parse_filter(f"x between {low} and {high}"), 1.0)
        return Forward(interest, (("a", most),))

    bench.peer("right", heavy("one", 1, 2))
    bench.peer("right", heavy("two", 3, 4))
    told = [message for _, message in sent(bench.peer("right", heavy("all", 0, 9))) if isinstance(message, Forward)]
    assert [message.weights for message in told] == [(("a", most),)]
    bench.wait(5)
    assert restored(snapshot(bench.broker)).routing.routes("left").announced.weights == {
        ("a", SubscriptionKey("all", "1")): most
    }


def test_advertisements_go_to_all_neighbours_but_where_they_came_from():
    bench = Bench()
    assert sent(bench.peer("left", flats())) == [("right", flats())]
    assert sent(bench.say(flats("more", lease=SECOND), "someone")) == [
        ("left", flats("more")),
        ("right", flats("more")),
    ]
    assert sent(bench.peer("left", Unadvertise("flats"))) == [("right", Unadvertise("flats"))]


def test_an_advertisement_that_two_neighbours_tell_stays_until_both_have_taken_it_back():
    bench = Bench(links=("left", "right", "up"))
    bench.peer("left", flats())
    assert sent(bench.peer("right", flats())) == [("left", flats())]
    assert sent(bench.peer("left", Unadvertise("flats"))) == [("right", Unadvertise("flats"))]
    assert sent(bench.peer("right", Unadvertise("flats"))) == [
        ("left", Unadvertise("flats")),
        ("up", Unadvertise("flats")),
    ]


def test_interests_go_towards_the_advertisements_they_meet_and_nowhere_else():
    bench = Bench()
    bench.peer("left", flats(text="rent <= 500"))
    assert sent(bench.peer("right", Forward(interest()))) == [("left", Forward(interest()))]
    assert sent(bench.peer("right", Forward(interest("cy", "rent > 500")))) == []
    assert sent(bench.peer("left", Forward(interest("di")))) == []


def test_the_next_one_is_forwarded_before_the_one_that_hid_it_is_withdrawn():
    bench = Bench()
    bench.peer("left", flats())
    bench.peer("right", Forward(interest("wide", "rent < 900")))
    assert sent(bench.peer("right", Forward(interest("narrow", "rent < 500")))) == []
    assert sent(bench.peer("right", Withdraw(interest("wide").key))) == [
        ("left", Forward(interest("narrow", "rent < 500"))),
        ("left", Withdraw(interest("wide").key)),
    ]


def test_a_changed_interest_takes_the_place_of_the_former_one_in_one_message():
    bench = Bench()
    bench.peer("left", flats())
    bench.peer("right", Forward(interest("bo", "rent < 500")))
    assert sent(bench.peer("right", Forward(interest("bo", "rent < 900")))) == [("left", Forward(interest("bo")))]


def test_a_subscription_sees_only_events_of_its_time():
    bench = Bench()
    wanted = Subscription("0", parse_filter("true"), active_from=NOW + SECOND, active_until=NOW + 3 * SECOND)
    bench.say(Subscribe(Subscriber("ana", (wanted,))))
    bench.peer("left", flats())
    times = [Event(str(at), "/flats", time=NOW + at * SECOND) for at in range(5)]
    found = [delivered(bench.peer("left", Publish("flats", one))) for one in times]
    assert found == [[], [("ana", "1")], [("ana", "2")], [], []]


def test_the_edge_runs_the_delivery_policy_of_its_subscribers_as_time_passes():
    bench = Bench()
    bench.say(Subscribe(subscriber("ana", deliver=Continuous(0))), "ana")
    bench.say(Subscribe(subscriber("bo", deliver=Periodic(1, 10 * SECOND))), "bo")
    bench.peer("left", flats())
    for name in "123":
        told = Publish("flats", Event(name, "/flats", time=bench.now, data={"rent": 1}))
        assert delivered(bench.peer("left", told)) == []
    assert [delivered(bench.wait(seconds)) for seconds in (9, 1)] == [[], [("bo", "1")]]


def test_a_named_audience_is_chosen_once_where_diversity_ranks():
    bench = Bench(Strategy.REGULAR_K)
    ranking = AudienceRanking(Scoring.DIVERSITY)
    bench.peer("left", flats(k=1, ranking=ranking))
    for number in range(4):
        bench.peer("right", Forward(interest(f"same{number}", "rent < 900")))
    bench.peer("right", Forward(interest("other", "rent between 600 and 2000")))
    bench.say(flats("mine", k=1, ranking=ranking), "agency")
    found = sent(bench.say(Publish("mine", event()), "agency"))
    assert found == [("right", Publish("mine", found[0][1].event, 1, (SubscriptionKey("other", "0"),)))]
    bench.say(Subscribe(subscriber("zoe")), "zoe")
    named = Publish("flats", event("2"), 1, (SubscriptionKey("zoe", "0"),))
    assert delivered(bench.peer("left", named)) == [("zoe", "2")]


def test_a_named_audience_gets_only_what_it_still_wants_and_is_no_larger_than_k():
    bench = Bench(Strategy.REGULAR_K)
    bench.peer("left", flats(k=1, ranking=AudienceRanking(Scoring.DIVERSITY)))
    for name in ("ana", "bo"):
        bench.say(Subscribe(subscriber(name)), name)
    bench.say(Subscribe(subscriber("ana", "rent > 5000")), "ana")
    assert delivered(bench.peer("left", Publish("flats", event("1"), 1, (SubscriptionKey("ana", "0"),)))) == []
    both = (SubscriptionKey("ana", "0"), SubscriptionKey("bo", "0"))
    assert rejected(bench.peer("left", Publish("flats", event("2"), 1, both))) == [Reason.OUTSIDE]


def test_while_a_subscriber_moves_both_of_its_interests_are_told_for_others_may_be_hidden_behind_the_older():
    bench = Bench(links=("left", "right", "third"))
    bench.peer("left", flats())
    assert sent(bench.peer("right", Forward(interest("mo", "rent < 900")))) == [
        ("left", Forward(interest("mo", "rent < 900")))
    ]
    assert sent(bench.say(Subscribe(subscriber("ana", "rent < 500")), "ana")) == []
    assert sent(bench.peer("third", Forward(interest("mo", "rent > 800")))) == [
        ("left", Forward(interest("mo", "rent < 900 or rent > 800")))
    ]
    assert sent(bench.peer("right", Withdraw(SubscriptionKey("mo", "0")))) == [
        ("left", Forward(Interest(SubscriptionKey("ana", "0"), parse_filter("rent < 500")))),
        ("left", Forward(interest("mo", "rent > 800"))),
    ]


def test_who_was_hidden_is_told_before_the_one_that_hid_it_wants_less():
    bench = Bench()
    bench.peer("left", flats())
    bench.say(Subscribe(subscriber("wide", "rent < 900")), "wide")
    assert sent(bench.say(Subscribe(subscriber("ana", "rent < 500")), "ana")) == []
    assert [
        one.interest.key.subscriber for _, one in sent(bench.say(Subscribe(subscriber("wide", "rent > 800")), "wide"))
    ] == [
        "ana",
        "wide",
    ]


def test_a_subscriber_ends_with_its_lease_unless_it_is_renewed():
    bench = Bench(lease=60 * SECOND)
    bench.peer("left", flats())
    bench.say(Subscribe(subscriber(), 10 * SECOND), "ana")
    bench.say(Subscribe(subscriber("bo")), "bo")
    bench.peer("left", Alive(Session(1, 1), 0))
    assert sent(bench.wait(9)) == []
    bench.say(Renew(), "ana")
    assert sent(bench.wait(9)) == []
    assert sent(bench.wait(1)) == [
        ("left", Forward(Interest(SubscriptionKey("bo", "0"), parse_filter("rent < 900")))),
        ("left", Withdraw(SubscriptionKey("ana", "0"))),
    ]
    assert bench.broker.subscribers.serving.subscribers.keys() == {"bo"}


def test_an_advertisement_ends_with_its_lease():
    bench = Bench()
    bench.say(flats(lease=10 * SECOND), "agency")
    assert sent(bench.wait(10)) == [("left", Unadvertise("flats")), ("right", Unadvertise("flats"))]


def test_the_broker_says_when_time_has_something_to_do():
    bench = Bench(links=())
    assert bench.broker.next_instant is None
    bench.say(Subscribe(subscriber(), 10 * SECOND), "ana")
    assert bench.broker.next_instant == NOW + 10 * SECOND


def test_a_silent_neighbour_is_lost_with_what_it_told():
    bench = Bench()
    bench.peer("left", flats())
    bench.peer("right", Forward(interest()))
    for _ in range(6):
        bench.now += 5 * SECOND
        bench.broker.handle(Alive(bench.numbers["left"][0], bench.numbers["left"][1]), "left", bench.now)
        assert sent(bench.broker.tick(bench.now)) == []
    bench.broker.handle(Alive(bench.numbers["left"][0], bench.numbers["left"][1]), "left", bench.now)
    assert sent(bench.wait(1)) == [("left", Withdraw(interest().key))]


def test_heartbeats_go_on_when_the_clock_is_set_back():
    bench = Bench()
    bench.now -= 3600 * SECOND
    bench.broker.handle(Alive(bench.numbers["left"][0], bench.numbers["left"][1]), "left", bench.now)
    assert bench.broker.next_instant == bench.now + 5 * SECOND
    beats = [one.link for one in bench.wait(5) if isinstance(one, Send) and isinstance(one.message, Alive)]
    assert beats == ["left"]


def test_a_short_interruption_changes_no_routes():
    bench = Bench()
    bench.peer("left", flats())
    bench.peer("right", Forward(interest()))
    bench.broker.disconnect("right", bench.now)
    assert sent(bench.wait(20)) == []
    (asked,) = bench.broker.connect("right", bench.now)
    bench.numbers["right"] = [asked.message.session, 0]
    told = [bench.peer("right", one) for one in (Reset(), Forward(interest()), Synced())]
    assert [sent(effects) for effects in told] == [[], [], []]


@pytest.mark.parametrize("notify", [OnDemand(), Gathered(60 * SECOND), AT_ONCE])
def test_what_a_schema_has_converted_is_so_after_a_restart(notify):
    typed = Advertisement("flats", "/flats", parse_filter("true"), Schema({"free": ValueType.TIME}))
    wanted = subscriber("ana", "free > time '2026-02-01'", deliver=Periodic(5, 60 * SECOND), notify=notify)
    found = []
    for restarts in (False, True):
        bench = Bench()
        bench.say(Advertise(typed), "agency")
        bench.say(Subscribe(subscriber("ana", "free > time '2026-01-01'", deliver=wanted.deliver)), "ana")
        bench.say(Publish("flats", event(free="2026-06-01T00:00:00Z")), "agency")
        if restarts:
            bench.broker = restored(snapshot(bench.broker))
            assert snapshot(bench.broker) == snapshot(restored(snapshot(bench.broker)))
        bench.say(Subscribe(wanted), "ana")
        effects = bench.say(Read("ana"), "ana") if notify == OnDemand() else [*bench.wait(60), *bench.wait(60)]
        entries = [entry for one in effects if isinstance(one, Listed) for entry in one.entries]
        deliveries = [one for one in (*effects, *entries) if isinstance(one, Deliver)]
        found.append([one.event.attributes["free"] for one in deliveries])
    assert found == [[datetime(2026, 6, 1, tzinfo=UTC)]] * 2


def test_what_is_gathered_comes_at_the_end_of_its_period_also_after_a_restart():
    bench = Bench()
    bench.say(flats(), "agency")
    bench.say(Subscribe(subscriber("ana", notify=Gathered(10 * SECOND))), "ana")
    bench.wait(1)
    assert bench.say(Publish("flats", event()), "agency") == []
    bench.broker = restored(snapshot(bench.broker))
    assert delivered(bench.wait(8)) == []
    assert bench.broker.next_instant == NOW + 10 * SECOND
    (handed,) = [one for one in bench.wait(1) if isinstance(one, Deliver)]
    assert (handed.time, handed.gathered) == (NOW + SECOND, NOW + 10 * SECOND)
    assert delivered(bench.wait(10)) == []


def test_a_delivery_names_the_link_of_the_client_that_subscribed_also_after_a_restart():
    bench = Bench()
    bench.peer("left", flats())
    late = Gathered(10 * SECOND)
    bench.say(Subscribe(subscriber("ana")), "client 7")
    bench.say(Subscribe(subscriber("bo", notify=late)), "client 7")
    bench.say(Subscribe(subscriber("cy", notify=late)), "client 8")

    def links(effects):
        return [(one.link, one.subscriber) for one in effects if isinstance(one, Deliver)]

    assert links(bench.peer("left", Publish("flats", event("1")))) == [("client 7", "ana")]
    bench.broker = restored(snapshot(bench.broker))
    assert links(bench.peer("left", Publish("flats", event("2")))) == [("client 7", "ana")]
    assert sorted(links(bench.wait(10))) == [*2 * [("client 7", "bo")], *2 * [("client 8", "cy")]]
    bench.say(Unsubscribe("ana"), "client 7")
    bench.say(Subscribe(subscriber("ana")), "client 9")
    assert links(bench.peer("left", Publish("flats", event("3")))) == [("client 9", "ana")]


def test_a_change_discards_what_is_gathered_for_a_subscription_that_is_gone_and_leaving_discards_all():
    def own(*names):
        return Subscriber(
            "ana",
            tuple(Subscription(name, parse_filter("true"), deliver=Continuous(9)) for name in names),
            notify=Gathered(10 * SECOND),
        )

    bench = Bench()
    bench.say(flats(), "agency")
    bench.say(Subscribe(own("a", "b")), "ana")
    bench.say(Subscribe(subscriber("bo", notify=Gathered(10 * SECOND))), "bo")
    bench.say(Publish("flats", event()), "agency")
    bench.say(Subscribe(own("b")), "ana")
    bench.say(Unsubscribe("bo"), "bo")
    handed = [one for one in bench.wait(10) if isinstance(one, Deliver)]
    assert [(one.subscriber, one.subscription) for one in handed] == [("ana", "b")]


def test_a_list_is_read_on_demand_and_reading_changes_nothing():
    bench = Bench()
    bench.say(flats(), "agency")
    on_demand = Subscriber(
        "ana",
        (Subscription("cheap", parse_filter("rent < 500"), 0.9), Subscription("any", parse_filter("true"), 0.3)),
        Sliding(2, 3),
        notify=OnDemand(),
    )
    bench.say(Subscribe(on_demand), "ana")
    assert bench.say(Read("ana"), "ana") == [Listed("ana", "ana", ())]
    for name, rent in (("1", 700), ("2", 400), ("3", 800)):
        bench.wait(1)
        assert bench.say(Publish("flats", event(name, rent=rent)), "agency") == []
    before = snapshot(bench.broker)
    (listed,) = bench.say(Read("ana"), "ana")
    assert [(one.event.id, one.rank) for one in listed.entries] == [("2", 0.9), ("3", 0.3)]
    assert snapshot(bench.broker) == before


@pytest.mark.parametrize("damage", [b"", b"{}", b"[1]", b'{"snapshot":2}\n{}', b'{"snapshot":1}\n{}'])
def test_what_is_no_snapshot_is_refused(damage):
    with pytest.raises(InvalidMessageError):
        restored(damage)


def test_a_broker_comes_back_with_its_clients_and_asks_its_neighbours_again():
    bench = prepared()
    with pytest.raises(InvalidMessageError, match="not above"):
        restored(snapshot(bench.broker), incarnation=1)
    back = restored(snapshot(bench.broker), incarnation=2)
    assert back.subscribers.serving.subscribers.keys() == {"ana"}
    assert back.connect("left", NOW) == [Send("left", Connect(Session(2, 1)))]
    told = back.handle(Connect(Session(1, 2)), "left", NOW)
    assert [message for _, message in sent(told)][1:-1] == [MINE]
    assert rejected(back.handle(Publish("mine", event("old")), "agency", NOW)) == [Reason.REPLAY]
